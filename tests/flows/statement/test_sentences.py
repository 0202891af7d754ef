"""The privacy statement says what is true of each kind of release, and only there."""

from __future__ import annotations

import itertools
import math

import pytest

from hushrank.estimation.common.central_noise import calibrate_win_counts
from hushrank.flows.statement.mechanism import WIN_COUNTS, CountMechanism, count_statement
from hushrank.flows.statement.sentences import PrivacyStatement, odds_factor
from hushrank.privacy.units import Adjacency, NoiseKind, PrivacyParams, Unit
from hushrank.transforms.common.schema import Ties

CENTRAL = (Unit.COMPARISON, Unit.USER)
KINDS = list(itertools.product(CENTRAL, Adjacency, NoiseKind))


def state(
    unit: Unit, adjacency: Adjacency, noise: NoiseKind, ties: Ties = Ties.DROP, **changes
) -> PrivacyStatement:
    gaussian = noise is NoiseKind.GAUSSIAN
    bounds = {"max_contributions": 15} if unit is Unit.USER else {}
    chosen = {"epsilon": 2.0, "delta": 1e-6 if gaussian else 0.0} | bounds | changes
    params = PrivacyParams(unit=unit, adjacency=adjacency, noise=noise, **chosen)
    calibration = calibrate_win_counts(params, 6, ties.row_weight)
    return count_statement(WIN_COUNTS, CountMechanism.of(params, calibration, 6, ties))


def text(statement: PrivacyStatement) -> str:
    return " ".join((*statement.sentences, *statement.not_protected, statement.theorem))


@pytest.mark.parametrize(("unit", "adjacency", "noise"), KINDS)
def test_every_statement_names_whom_what_and_how_much(unit, adjacency, noise):
    said = text(state(unit, adjacency, noise))
    assert ("Each person is protected" in said) == (unit is Unit.USER)
    assert ("Each single answer" in said) == (unit is Unit.COMPARISON)
    assert "more than 7.39 times as likely (e^epsilon, epsilon = 2)" in said
    assert f"discrete {noise.capitalize()} noise of scale" in said
    assert ("but for a probability of 1e-06" in said) == (noise is NoiseKind.GAUSSIAN)
    assert ("at most 88.08 %" in said) == (noise is NoiseKind.LAPLACE)
    assert ("Algorithm 3" in said) == (unit is Unit.USER)
    assert ("Algorithm 2" in said) == (unit is Unit.COMPARISON)
    assert ("Ghosh" in said) == (noise is NoiseKind.LAPLACE)
    assert ("Canonne" in said) == (noise is NoiseKind.GAUSSIAN)


@pytest.mark.parametrize(("unit", "adjacency", "noise"), KINDS)
def test_participation_is_protected_only_where_people_may_be_absent(unit, adjacency, noise):
    statement = state(unit, adjacency, noise)
    user = unit is Unit.USER
    removed = adjacency is Adjacency.ADD_REMOVE
    assert ("whether they took part" in " ".join(statement.sentences)) == (user and removed)
    exposed = " ".join(statement.not_protected)
    assert ("Whether a particular person took part" in exposed) == (user and not removed)
    assert ("Whether a particular answer was given" in exposed) == (not user and not removed)


@pytest.mark.parametrize(("unit", "adjacency", "noise"), KINDS)
def test_erratum_e1_is_told_where_it_applies(unit, adjacency, noise):
    erratum = state(unit, adjacency, noise).erratum
    if (unit, adjacency) != (Unit.USER, Adjacency.REPLACE_ONE):
        assert erratum is None
    elif noise is NoiseKind.LAPLACE:
        assert erratum is not None
        assert "The sensitivity used here is 30 (l1 norm)." in erratum  # 2 L
    else:
        assert erratum is not None
        assert "The sensitivity used here is 21.2132 (l2 norm)." in erratum  # sqrt(2) L


@pytest.mark.parametrize("noise", NoiseKind)
def test_protecting_answers_warns_that_a_person_with_many_is_protected_less(noise):
    exposed = " ".join(state(Unit.COMPARISON, Adjacency.REPLACE_ONE, noise).not_protected)
    grows = "k times epsilon" if noise is NoiseKind.LAPLACE else "k * k times rho"
    assert f"For k answers the loss is {grows}." in exposed


def test_bounds_are_told_as_enforced():
    plain = text(state(Unit.USER, Adjacency.ADD_REMOVE, NoiseKind.LAPLACE))
    assert "At most 15 answers of each person count, chosen at random; the rest" in plain
    bounded = state(
        Unit.USER,
        Adjacency.ADD_REMOVE,
        NoiseKind.LAPLACE,
        distinct_pairs=True,
        per_item_cap=5,
    )
    assert "at most one on each pair of items, with any one item in at most 5" in text(bounded)
    assert "answers of each person count" not in text(
        state(Unit.COMPARISON, Adjacency.ADD_REMOVE, NoiseKind.LAPLACE)
    )


def test_laplace_scale_is_explained_by_its_sensitivity():
    assert "30 / 2 = 15." in text(state(Unit.USER, Adjacency.REPLACE_ONE, NoiseKind.LAPLACE))


def test_split_ties_are_told_with_the_doubled_noise():
    split = state(Unit.USER, Adjacency.REPLACE_ONE, NoiseKind.LAPLACE, Ties.SPLIT)
    assert "60 / 2 = 30." in text(split)
    assert "A tie is half a win for each item" in text(split)


def test_without_noise_nothing_is_claimed():
    statement = state(Unit.USER, Adjacency.REPLACE_ONE, NoiseKind.LAPLACE, epsilon=math.inf)
    assert statement.sentences == (
        "Nothing is protected: epsilon is infinite, so no noise was added.",
    )
    assert statement.erratum is None
    assert "protected" not in statement.theorem


@pytest.mark.parametrize(
    ("epsilon", "factor"), [(0.1, "1.11"), (2.0, "7.39"), (50.0, "10^21.7"), (1e4, "10^4342.9")]
)
def test_factor_is_readable_at_every_epsilon(epsilon, factor):
    assert odds_factor(epsilon) == factor


def test_a_large_epsilon_is_called_weak():
    def exposed(epsilon: float) -> str:
        found = state(Unit.USER, Adjacency.ADD_REMOVE, NoiseKind.LAPLACE, epsilon=epsilon)
        return " ".join(found.not_protected)

    assert "Much in practice: epsilon = 20 allows a factor of 10^8.7." in exposed(20.0)
    assert "Much in practice" not in exposed(10.0)
