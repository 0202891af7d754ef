"""The budget of a look: its parts never exceed the whole, whatever the whole is."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushrank.privacy.accounting import Spend, composed_epsilon, decimal_value, rho_of
from hushrank.privacy.pilot_query import MOST_SHARE, spend_with_look, votes_sensitivity, with_look
from hushrank.privacy.units import Adjacency, NoiseKind, PrivacyParams, Unit

shares = st.floats(1e-3, MOST_SHARE)
budgets = st.floats(1e-6, 1e3)


def params_of(**budget) -> PrivacyParams:
    return PrivacyParams(
        unit=Unit.USER, adjacency=Adjacency.REPLACE_ONE, max_contributions=3, **budget
    )


@given(budgets, shares)
def test_epsilons_add_up_to_no_more_than_the_whole(epsilon, share):
    parted = with_look(params_of(epsilon=epsilon), share)
    total = decimal_value(parted.epsilon) + decimal_value(parted.look)
    assert Fraction(0) < total <= decimal_value(epsilon)
    assert parted.look == pytest.approx(share * epsilon)
    assert total == pytest.approx(epsilon)
    assert spend_with_look(Spend(epsilon=parted.epsilon), parted).epsilon <= epsilon


@pytest.mark.parametrize(("epsilon", "share"), [(0.5, 0.02), (1.0, 0.1), (3.0, 0.5)])
def test_a_gaussian_release_and_its_look_are_told_as_epsilon_and_delta(epsilon, share):
    delta = 1e-6
    parted = with_look(params_of(epsilon=epsilon, delta=delta, noise=NoiseKind.GAUSSIAN), share)
    assert parted.delta == delta
    rest, look = Spend(rho=rho_of(parted, 1)), Spend(epsilon=parted.look)
    assert composed_epsilon([rest, look], delta) <= epsilon
    assert spend_with_look(rest, parted) == Spend(epsilon=epsilon, delta=delta)


def test_a_look_is_refused_with_rho():
    with pytest.raises(ValueError, match="rho is given instead"):
        with_look(params_of(epsilon=math.inf, rho=0.1, noise=NoiseKind.GAUSSIAN), 0.1)


def test_a_release_without_privacy_has_no_look():
    whole = params_of(epsilon=math.inf)
    assert with_look(whole, 0.1) == whole


@pytest.mark.parametrize("share", [0.0, -0.1, 0.6, math.nan])
def test_a_share_beyond_its_bounds_is_refused(share):
    with pytest.raises(ValueError, match="above 0 and at most"):
        with_look(params_of(epsilon=1.0), share)


def test_a_second_look_is_refused():
    with pytest.raises(ValueError, match="already"):
        with_look(with_look(params_of(epsilon=1.0), 0.1), 0.1)


def test_how_many_rows_a_person_has_makes_no_difference():
    one, many = (replace(params_of(epsilon=1.0), max_contributions=most) for most in (1, 30))
    assert votes_sensitivity(one) == votes_sensitivity(many)
