"""Pairs are chosen where they lower the expected loss of taking the best few, from errors alone."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import norm

from hushrank.estimation.common.links import LOGISTIC
from hushrank.estimation.common.pair_separation import ScoreErrors
from hushrank.estimation.comparisons.next_pairs import (
    MOST_OF_ONE,
    SPREAD_OUT,
    _loss_rates,
    next_pairs,
)


def errors(scores: list[float], variances: list[float]) -> ScoreErrors:
    return ScoreErrors(np.array(scores), np.diag(variances))


def shares(found) -> dict[tuple[int, int], float]:
    return {
        (a, b): share
        for a, b, share in zip(found.left.tolist(), found.right.tolist(), found.share, strict=True)
    }


def test_the_edge_of_the_best_is_asked_about_and_the_ends_are_not():
    """Items 0 and 5 are far from the edge between 2 and 3, whose order is open."""
    known = errors([4, 2, 0.1, -0.1, -2, -4], [0.05] * 6)
    found = shares(next_pairs(known, LOGISTIC, 3))
    assert max(found, key=found.get) == (2, 3)
    assert len(found) == 15
    assert sum(found.values()) == pytest.approx(1)
    assert min(found.values()) == pytest.approx(SPREAD_OUT / 15)
    assert found[0, 5] == pytest.approx(SPREAD_OUT / 15)
    assert MOST_OF_ONE - 0.01 < found[2, 3] <= MOST_OF_ONE


def test_an_item_of_unknown_score_is_asked_about():
    """Item 4 may be among the best: its error is far larger than the others'."""
    known = errors([1.0, 0.6, -0.2, -0.8, -0.6], [0.01, 0.01, 0.01, 0.01, 2.0])
    found = shares(next_pairs(known, LOGISTIC, 2))
    with_it = sum(share for pair, share in found.items() if 4 in pair)
    assert with_it > 0.7


@pytest.mark.parametrize("n", [2, 3, 4, 5, 12])
def test_no_pair_gets_all_and_shares_add_up(n):
    """Two items have one pair, which gets all; three have three, of which none gets over 2 / 3."""
    known = errors([5 - k for k in range(n)], [0.3] * n)
    found = shares(next_pairs(known, LOGISTIC, 1))
    pairs = n * (n - 1) // 2
    assert sum(found.values()) == pytest.approx(1)
    assert max(found.values()) <= max(MOST_OF_ONE, 2 / pairs, pairs == 1) + 1e-12


def test_the_rate_is_the_slope_of_the_expected_loss():
    """By a difference quotient of E[max(0, -d)]."""

    def loss(d: float, variance: float) -> float:
        s = math.sqrt(variance)
        return s * norm.pdf(d / s) - abs(d) * norm.cdf(-abs(d) / s)

    for d, variance in ((0.0, 0.3), (0.4, 0.3), (-1.0, 0.5)):
        slope = (loss(d, variance + 1e-6) - loss(d, variance - 1e-6)) / 2e-6
        assert _loss_rates(np.array(d), np.array(variance)) == pytest.approx(slope, rel=1e-4)


def test_half_the_answers_find_as_many_of_the_best_and_even_ones_do_not():
    """The expected loss by scores and covariance, after as many answers more.

    With half as many again, chosen, the loss is below that of as many again, spread evenly.
    """
    random = np.random.default_rng(2)
    truth = np.sort(random.normal(0, 0.7, 20))[::-1]
    information = LOGISTIC.information(np.subtract.outer(truth, truth))

    def covariance(answers: np.ndarray) -> np.ndarray:
        weights = information * (answers + answers.T)
        return np.linalg.pinv(np.diag(weights.sum(axis=1)) - weights)

    def loss(answers: np.ndarray) -> float:
        spread = covariance(answers)
        variance = np.diag(spread)[:, None] + np.diag(spread) - 2 * spread
        d, s = np.subtract.outer(truth[:5], truth[5:]), np.sqrt(variance[:5, 5:])
        return float((s * norm.pdf(d / s) - d * norm.cdf(-d / s)).sum())

    even = np.triu(np.ones((20, 20)), 1) / 190
    first = 1000 * even
    found = next_pairs(ScoreErrors(truth, covariance(first)), LOGISTIC, 5)
    chosen = np.zeros((20, 20))
    chosen[found.left, found.right] = found.share
    assert loss(first + 1000 * chosen) < loss(first + 3000 * even) < loss(first + 1000 * even)


@pytest.mark.parametrize("k", [0, 3])
def test_what_cannot_be_sought_is_refused(k):
    with pytest.raises(ValueError, match="k must be from 1 to 2"):
        next_pairs(errors([1, 0, -1], [1, 1, 1]), LOGISTIC, k)
    with pytest.raises(ValueError, match="finite"):
        next_pairs(errors([1, 0, -1], [1, 1, math.inf]), LOGISTIC, 1)
