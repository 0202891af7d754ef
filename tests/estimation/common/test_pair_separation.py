"""Rank intervals from a relation of pairs: counts, containment, greedy groups."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.special import chdtrc, ndtri
from scipy.stats import chi2

from hushrank.estimation.common.estimate import mean_ranks
from hushrank.estimation.common.pair_separation import (
    MOST_SUMMED,
    _joint_tail,
    difference_variance,
    joint_tails,
    longer,
    separate_intervals,
    separate_pairs,
)
from hushrank.estimation.common.uncertainty import (
    LEVEL,
    SPENT_ON_FAR,
    EndsAt,
    separate_ranks,
)

VALUES = arrays(np.float64, st.integers(1, 8), elements=st.integers(-3, 3).map(float))


def no_ends(values: np.ndarray) -> EndsAt:
    """Intervals that say nothing."""
    return lambda _: (np.full(len(values), -np.inf), np.full(len(values), np.inf))


@given(VALUES, st.floats(0, 5))
def test_a_constant_margin_gives_what_separate_ranks_gives(values: np.ndarray, by: float) -> None:
    expected = separate_ranks(values, lambda _: lambda x, y: np.full_like(x, by), no_ends(values))
    found = separate_pairs(values, lambda _: values[:, np.newaxis] - values > by, no_ends(values))
    for name in ("rank_low", "rank_high", "groups"):
        assert (getattr(found, name) == getattr(expected, name)).all()


@given(VALUES, st.integers(0, 2**32 - 1))
def test_any_relation_gives_consistent_ranks_and_groups(values: np.ndarray, seed: int) -> None:
    larger = values[:, np.newaxis] > values
    better = larger & (np.random.default_rng(seed).random(larger.shape) < 0.5)
    found = separate_pairs(values, lambda _: better, no_ends(values))
    ranks = mean_ranks(values)
    assert (found.rank_low <= ranks).all()
    assert (ranks <= found.rank_high).all()
    same = found.groups[:, np.newaxis] == found.groups
    assert not (same & better).any()
    assert set(found.groups) == set(range(1, found.groups.max() + 1))


def test_better_must_mean_larger() -> None:
    values, better = np.array([1.0, 2.0]), np.array([[False, True], [False, False]])
    with pytest.raises(ValueError, match="smaller value"):
        separate_pairs(values, lambda _: better, no_ends(values))


def test_variance_of_differences() -> None:
    root = np.random.default_rng(0).normal(size=(4, 4))
    covariance = root @ root.T
    for i in range(4):
        for j in range(4):
            contrast = np.eye(4)[i] - np.eye(4)[j]
            assert difference_variance(covariance)[i, j] == pytest.approx(
                contrast @ covariance @ contrast, abs=1e-12
            )


@given(VALUES, st.integers(0, 2**32 - 1))
def test_intervals_give_what_their_relation_of_pairs_gives(values: np.ndarray, seed: int) -> None:
    rng = np.random.default_rng(seed)
    below, above = (rng.choice([0.0, 0.5, 1.0, np.inf], len(values)) for _ in range(2))
    low, high = values - below, values + above
    expected = separate_pairs(values, lambda _: low[:, np.newaxis] > high, lambda _: (low, high))
    found = separate_intervals(values, lambda _: (low, high))
    assert (found.at_once.better == expected.at_once.better).all()
    for name in ("rank_low", "rank_high", "groups"):
        assert (getattr(found, name) == getattr(expected, name)).all()


def test_the_rank_interval_of_one_of_equals_holds_and_has_nothing_to_spare() -> None:
    """Of 20 items with equal scores any rank may be one's own, so that 1 to 20 is right: in 96 %.

    Of 800 releases 15 to 60 err, but for a chance of 1e-4; narrower by a quarter it would in 24 %.
    """
    generator = np.random.default_rng(5)
    whole = 0
    for _ in range(800):
        scores = generator.normal(size=20)
        ahead = np.subtract.outer(scores, scores)

        def better_at(tail: float, ahead: np.ndarray = ahead) -> np.ndarray:
            return ahead > -ndtri(tail) * np.sqrt(2)

        found = separate_pairs(scores, better_at, no_ends(scores))
        whole += bool(found.rank_low[0] == 1 and found.rank_high[0] == 20)
    assert 740 <= whole <= 785


@pytest.mark.parametrize(("items", "length"), [(2, 1), (8, 7), (60, 59)])
def test_the_joint_tail_is_the_largest_that_misses_no_more_often_than_allowed(items, length):
    """Found by secants: a step closer, and some error would exceed it too often."""
    directions = np.random.default_rng(items).normal(size=(500, items))
    furthest = np.abs(directions).max(axis=1) / np.sqrt(length)
    z = -ndtri(_joint_tail(furthest, length, 0.025))

    def missed(z: float) -> float:
        each = chi2.sf((z / furthest) ** 2, length)
        return float(each.mean() + 3 * each.std() / np.sqrt(len(each)))

    assert missed(z) <= 0.025 * (1 + 1e-9) < missed(z - 2e-5)


def test_every_open_order_counts_for_the_joint_tail():
    """The furthest of the open ones, among which one of another standard error."""
    random = np.random.default_rng(4)
    root = random.normal(size=(6, 6)) * [3.0, 1.0, 1.0, 1.0, 1.0, 0.1]
    tails = joint_tails(6, root @ root.T)
    open_ = random.random((6, 6)) < 0.4
    np.fill_diagonal(open_, False)
    pairs = list(zip(*np.nonzero(open_), strict=True))
    apart = [
        (tails.directions[:, i] - tails.directions[:, j]) / tails.deviation[i, j] for i, j in pairs
    ]
    furthest, allowed = np.max(apart, axis=0).clip(0), LEVEL - SPENT_ON_FAR
    expected = _joint_tail(furthest, tails.length, allowed, tails.missed)
    assert tails.of_orders(open_) == expected > (LEVEL / 2 - SPENT_ON_FAR) / len(pairs)


@pytest.mark.parametrize("spread", [1.0, 6.0])
def test_scores_and_orders_together_use_the_five_percent_and_no_more(spread):
    """Of independent draws from the law; a miss of either, which the half for orders would waste.

    4.8 % of 100 000 draws has a standard error of 0.07 %; the margin above is 5 of them.
    """
    n, random = 12, np.random.default_rng(11)
    deviations = np.linspace(1.0, spread, n)
    tails = joint_tails(n, np.diag(deviations**2))
    open_ = ~np.eye(n, dtype=np.bool_)
    errors = random.normal(size=(100_000, n)) * deviations
    out = (np.abs(errors) > -ndtri(tails.of_scores) * deviations).any(axis=1)
    limit = -ndtri(tails.of_orders(open_)) * np.hypot.outer(deviations, deviations)
    turned = np.zeros_like(out)
    for item in range(n):
        turned |= (np.abs(errors - errors[:, [item]]) > limit[item])[:, open_[item]].any(axis=1)
    missed, allowed = (out | turned).mean(), LEVEL - SPENT_ON_FAR
    assert 0.9 * allowed < missed < allowed + 0.0035
    assert turned.mean() > 1.15 * (LEVEL / 2 - SPENT_ON_FAR)  # more than half is for orders


def test_chances_of_a_length_are_those_of_scipy():
    squares = np.concatenate([[0.0, np.inf, 1e-300], np.geomspace(1e-6, 1_300, 2_000)])
    for length in range(1, MOST_SUMMED + 2):
        found, wanted = longer(length, squares), chdtrc(length, squares)
        seen = wanted > 1e-230
        np.testing.assert_allclose(found[seen], wanted[seen], rtol=1e-11)
        assert (found[~seen] < 1e-200).all()
