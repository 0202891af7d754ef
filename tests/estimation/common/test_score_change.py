"""Changes of scores: the interval has its level, and looking at all items does not cry wolf."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binomtest

from hushrank.estimation.common.score_change import Intervals, family_stretch, score_change

FALSE_POSITIVE_RATE = 1e-6  # of one assertion, on a correct function
RUNS, ITEMS = 4000, 20


def intervals(rng: np.random.Generator, errors, half: float) -> Intervals:
    scores = errors(rng)
    return Intervals(scores=scores, low=scores - half, high=scores + half)


def normal_errors(rng: np.random.Generator) -> np.ndarray:
    return rng.normal(0.0, 1.0, ITEMS)


def laplace_errors(rng: np.random.Generator) -> np.ndarray:
    return rng.laplace(0.0, 1.0, ITEMS)


NORMAL_HALF, LAPLACE_HALF = 1.959964, math.log(20)


def test_the_interval_of_a_change_misses_as_often_as_it_says():
    def p_value(half: float) -> float:
        rng = np.random.default_rng(3)
        missed = 0
        for _ in range(RUNS):
            pair = (intervals(rng, normal_errors, half) for _ in range(2))
            found = score_change(*pair, normal=True)
            missed += int(((found.low > 0) | (found.high < 0)).sum())
        return binomtest(missed, RUNS * ITEMS, 0.05).pvalue

    assert p_value(NORMAL_HALF) > FALSE_POSITIVE_RATE
    assert p_value(0.9 * NORMAL_HALF) < FALSE_POSITIVE_RATE  # power, in both directions
    assert p_value(1.1 * NORMAL_HALF) < FALSE_POSITIVE_RATE


def test_each_end_of_a_change_comes_from_the_halves_that_face_it():
    """A change is smallest where the later score is low and the earlier one high."""
    earlier = Intervals(scores=np.array([0.0]), low=np.array([-1.0]), high=np.array([3.0]))
    later = Intervals(scores=np.array([2.0]), low=np.array([-2.0]), high=np.array([14.0]))
    found = score_change(earlier, later, normal=True)
    assert found.low == pytest.approx(2 - math.hypot(4, 3))
    assert found.high == pytest.approx(2 + math.hypot(12, 1))
    far_up = Intervals(scores=np.array([8.0]), low=np.array([4.0]), high=np.array([28.0]))
    up, down = (
        score_change(earlier, far_up, normal=True),
        score_change(far_up, earlier, normal=True),
    )
    assert up.beyond.tolist() == down.beyond.tolist() == [True]  # 8 > 5, though not above 20


@pytest.mark.parametrize(
    ("errors", "half", "normal"),
    [(normal_errors, NORMAL_HALF, True), (laplace_errors, LAPLACE_HALF, False)],
)
def test_with_nothing_changed_few_comparisons_name_any_item(errors, half, normal):
    def p_value(half: float) -> float:
        rng = np.random.default_rng(4)
        named = 0
        for _ in range(RUNS):
            pair = (intervals(rng, errors, half) for _ in range(2))
            named += bool(score_change(*pair, normal=normal).beyond.any())
        return binomtest(named, RUNS, 0.05, alternative="greater").pvalue

    assert p_value(half) > FALSE_POSITIVE_RATE
    assert p_value(0.7 * half) < FALSE_POSITIVE_RATE  # too short intervals are caught


def test_a_real_change_is_found_and_has_its_sign():
    rng = np.random.default_rng(5)
    earlier, later = (intervals(rng, normal_errors, NORMAL_HALF) for _ in range(2))
    shift = np.zeros(ITEMS)
    shift[2], shift[7] = 15, -15
    moved = Intervals(scores=later.scores + shift, low=later.low + shift, high=later.high + shift)
    found = score_change(earlier, moved, normal=True)
    assert np.flatnonzero(found.beyond).tolist() == [2, 7]
    np.testing.assert_allclose(found.change, moved.scores - earlier.scores)


def test_an_open_end_is_never_beyond_noise_on_its_side():
    earlier = Intervals(scores=np.zeros(2), low=np.full(2, -1.0), high=np.full(2, 1.0))
    later = Intervals(
        scores=np.array([50.0, -50.0]),
        low=np.array([-math.inf, -51.0]),
        high=np.array([51.0, math.inf]),
    )
    found = score_change(earlier, later, normal=True)
    assert not found.beyond.any()
    assert found.low[0] == -math.inf
    assert found.high[1] == math.inf


def test_one_item_needs_no_stretch_and_laplace_tails_need_more():
    assert family_stretch(1, normal=True) == pytest.approx(1)
    assert family_stretch(1, normal=False) == pytest.approx(1)
    assert family_stretch(50, normal=False) > family_stretch(50, normal=True) > 1


def test_bad_arguments_are_named():
    one = Intervals(scores=np.zeros(1), low=np.zeros(1), high=np.zeros(1))
    two = Intervals(scores=np.zeros(2), low=np.zeros(2), high=np.zeros(2))
    with pytest.raises(ValueError, match="got 1 scores and 2"):
        score_change(one, two, normal=True)
    with pytest.raises(ValueError, match="one length"):
        Intervals(scores=np.zeros(2), low=np.zeros(1), high=np.zeros(2))
    with pytest.raises(ValueError, match="must lie in its interval"):
        Intervals(scores=np.zeros(1), low=np.ones(1), high=np.ones(1))


@pytest.mark.parametrize("r", [0.9, -0.5])
def test_with_errors_in_common_the_interval_has_its_level(r):
    """And a correlation that is not there makes it wrong: neither too wide nor too short passes."""

    def missed(stated: float) -> int:
        rng, missed = np.random.default_rng(6), 0
        for _ in range(RUNS):
            one, own = rng.normal(size=(2, ITEMS))
            scores = one, r * one + math.sqrt(1 - r**2) * own
            pair = (Intervals(scores=s, low=s - NORMAL_HALF, high=s + NORMAL_HALF) for s in scores)
            found = score_change(*pair, normal=True, correlation=np.full(ITEMS, stated))
            missed += int(((found.low > 0) | (found.high < 0)).sum())
        return missed

    def p_value(stated: float) -> float:
        return binomtest(missed(stated), RUNS * ITEMS, 0.05).pvalue

    assert p_value(r) > FALSE_POSITIVE_RATE
    assert p_value(r - 0.1) < FALSE_POSITIVE_RATE
    assert p_value(r + 0.05) < FALSE_POSITIVE_RATE


@pytest.mark.parametrize("r", [-1.0, -0.3, 0.0, 0.4, 1.0])
def test_normal_errors_have_the_variance_of_a_difference(r):
    a, b = 3.0, 2.0
    pair = (Intervals(scores=np.zeros(1), low=-half, high=half) for half in np.array([[a], [b]]))
    found = score_change(*pair, normal=True, correlation=r)
    assert found.high[0] == pytest.approx(math.sqrt(a**2 + b**2 - 2 * r * a * b), abs=1e-9)
    assert found.low[0] == pytest.approx(-found.high[0])


def test_an_open_interval_makes_a_change_open_on_both_sides_where_errors_are_shared():
    closed = Intervals(scores=np.zeros(1), low=-np.ones(1), high=np.ones(1))
    for open_ in (
        Intervals(scores=np.zeros(1), low=-np.ones(1), high=np.full(1, np.inf)),
        Intervals(scores=np.zeros(1), low=np.full(1, -np.inf), high=np.full(1, np.inf)),
    ):
        for r in (0.5, 1.0):
            for pair in ((closed, open_), (open_, closed), (open_, open_)):
                found = score_change(*pair, normal=True, correlation=r)
                assert (found.low[0], found.high[0]) == (-math.inf, math.inf)


def test_a_correlation_is_one():
    same = Intervals(scores=np.zeros(2), low=np.zeros(2), high=np.zeros(2))
    for r in (1.1, -2.0, math.nan):
        with pytest.raises(ValueError, match="between -1 and 1"):
            score_change(same, same, normal=True, correlation=r)
