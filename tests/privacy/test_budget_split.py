"""Shares fit and are the largest of three digits; what is left is what the accountant lets pass."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushrank.privacy.accounting import Spend, composed_epsilon
from hushrank.privacy.filters import (
    adaptive_total,
    delta_of_repeated,
    even_share,
    fits,
    releases_left,
)
from hushrank.privacy.units import NoiseKind


def total_epsilon(spends: list[Spend], delta: float) -> float:
    return adaptive_total(spends, delta).epsilon


def next_up(value: float) -> float:
    """The next number of three significant digits."""
    step = 10.0 ** (math.floor(math.log10(value)) - 2)
    return round(value / step + 1) * step


def test_without_a_delta_the_share_is_the_plain_quotient():
    assert even_share(NoiseKind.LAPLACE, 31, 6.2, 0.0) == Spend(epsilon=0.2)
    assert even_share(NoiseKind.LAPLACE, 31, 10.0, 0.0) == Spend(epsilon=0.322)


@pytest.mark.parametrize(("releases", "epsilon", "delta"), [(31, 3.0, 1e-6), (7, 1.0, 1e-5)])
def test_the_share_of_pure_releases_fits_and_no_larger_one_does(releases, epsilon, delta):
    share = even_share(NoiseKind.LAPLACE, releases, epsilon, delta).epsilon
    assert total_epsilon([Spend(epsilon=share)] * releases, delta) <= epsilon
    assert total_epsilon([Spend(epsilon=next_up(share))] * releases, delta) > epsilon
    assert share > 1.15 * epsilon / releases or releases == 7  # PLD gives more than the sum


def test_the_share_of_gaussian_releases_fits_and_no_larger_one_does():
    share = even_share(NoiseKind.GAUSSIAN, 31, 3.0, 1e-6).rho
    assert share > 1.1 * 0.181 / 31  # what zCDP allows altogether, divided
    for l2_squared in (1, 50):
        assert total_epsilon([Spend(rho=share, l2_squared=l2_squared)] * 31, 1e-6) <= 3.0
    assert total_epsilon([Spend(rho=next_up(share))] * 31, 1e-6) > 3.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((NoiseKind.LAPLACE, 0, 1.0, 0.0), "releases must be >= 1"),
        ((NoiseKind.LAPLACE, 3, math.inf, 0.0), "finite epsilon"),
        ((NoiseKind.GAUSSIAN, 3, 1.0, 0.0), "needs a delta > 0"),
    ],
)
def test_a_share_of_nothing_sensible_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        even_share(*arguments)


@settings(max_examples=20)
@given(st.integers(0, 12), st.integers(0, 12), st.sampled_from([0.1, 0.3, 1.0]))
def test_pure_releases_are_counted_exactly(spent, total, epsilon):
    spends = [Spend(epsilon=epsilon)] * min(spent, total)
    budget = max(total, 1) * epsilon * (1 + 1e-12)
    left = releases_left(spends, Spend(epsilon=epsilon), budget, 0.0, most=50)
    assert left == max(total, 1) - len(spends)


def test_what_is_left_fits_and_one_more_does_not():
    one, spends = Spend(epsilon=0.02), [Spend(epsilon=0.02)] * 5
    left = releases_left(spends, one, 1.0, 1e-5, most=1000)
    assert left > 60  # the plain sum leaves 45
    assert fits([*spends, *[one] * (left - 1)], one, 1.0, 1e-5)
    assert not fits([*spends, *[one] * left], one, 1.0, 1e-5)
    assert releases_left(spends, one, 1.0, 1e-5, most=4) == 4
    assert releases_left(spends, Spend(epsilon=9.0), 1.0, 1e-5, most=4) == 0
    mixed = [Spend(rho=0.01), Spend(epsilon=0.2)]
    assert releases_left(mixed, Spend(rho=0.01), 3.0, 1e-6, most=1000) == 9  # by Renyi


def test_the_closed_form_is_what_the_accountant_finds():
    for epsilon, releases in ((0.1, 31), (0.5, 7), (1.0, 15)):
        total = composed_epsilon([Spend(epsilon=epsilon)] * releases, 1e-5)
        assert delta_of_repeated(epsilon, releases, total) == pytest.approx(1e-5, rel=0.02)
    assert delta_of_repeated(0.3, 4, 1.2) == 0
    assert delta_of_repeated(0.3, 1, 0.0) == pytest.approx(math.tanh(0.15))
