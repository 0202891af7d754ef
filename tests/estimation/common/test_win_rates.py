"""Win rates: what they are, and that their intervals hold as often as they say."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binomtest

from hushrank.estimation.common.links import LINKS, LOGISTIC
from hushrank.estimation.common.score_change import Intervals, rates_of_counts, rates_of_scores
from hushrank.privacy.units import NoiseKind

Z = 1.959964
ROUNDS = 4000
ABOVE_LEVEL = 0.05 + 4 * math.sqrt(0.05 * 0.95 / ROUNDS)  # misses that a right interval may have


def normal(scores: np.ndarray, deviations: np.ndarray) -> Intervals:
    return Intervals(scores=scores, low=scores - Z * deviations, high=scores + Z * deviations)


@pytest.mark.parametrize("link", LINKS.values(), ids=LINKS)
def test_rates_are_the_link_of_the_difference(link):
    scores = np.array([1.0, 0.25, -0.5])
    found = rates_of_scores(normal(scores, np.full(3, 0.1)), link)
    assert found.rate[0, 1] == pytest.approx(float(link.cdf(np.array([0.75]))[0]))
    off = ~np.eye(3, dtype=bool)
    np.testing.assert_allclose((found.rate + found.rate.T)[off], 1)
    np.testing.assert_allclose((found.low + found.high.T)[off], 1)
    assert (found.low[off] < found.rate[off]).all()
    assert np.isnan(np.diagonal(found.rate)).all()


def test_an_open_end_leaves_the_rate_open():
    scores = Intervals(
        scores=np.zeros(2), low=np.array([-math.inf, -1.0]), high=np.array([0.5, 1.0])
    )
    found = rates_of_scores(scores, LOGISTIC)
    assert (found.low[0, 1], found.high[1, 0]) == (0, 1)
    assert found.high[0, 1] == pytest.approx(1 / (1 + math.exp(-1.5)))


@pytest.mark.parametrize("correlation", [-1.0, 0.0, 0.9])
def test_intervals_of_scores_hold_however_the_errors_hang_together(correlation):
    random = np.random.default_rng(1)
    deviations, truth = np.array([0.3, 0.2]), np.array([0.4, -0.1])
    covariance = np.array([[1, correlation], [correlation, 1]]) * np.outer(deviations, deviations)
    rate = 1 / (1 + math.exp(truth[1] - truth[0]))
    missed = 0
    for scores in random.multivariate_normal(truth, covariance, ROUNDS):
        found = rates_of_scores(normal(scores, deviations), LOGISTIC)
        missed += not found.low[0, 1] <= rate <= found.high[0, 1]
    assert missed / ROUNDS <= ABOVE_LEVEL
    if correlation == -1:
        assert missed / ROUNDS > 0.03  # there the bound is what the error really is


@pytest.mark.parametrize("public", [False, True])
@pytest.mark.parametrize(("n", "rate", "scale"), [(400, 0.7, 5.0), (60, 0.9, 5.0), (40, 0.5, 20.0)])
def test_intervals_of_noisy_counts_hold(n, rate, scale, public):
    random = np.random.default_rng(2)
    missed = 0
    for _ in range(ROUNDS):
        won = random.binomial(n, rate)
        first = won + random.laplace(scale=scale)
        second = n - first if public else n - won + random.laplace(scale=scale)
        wins = np.array([[0.0, first], [second, 0.0]])
        found = rates_of_counts(wins, 2 * scale**2, NoiseKind.LAPLACE, public_totals=public)
        if not np.isnan(found.rate[0, 1]):
            missed += not found.low[0, 1] <= rate <= found.high[0, 1]
    assert missed / ROUNDS <= ABOVE_LEVEL


def test_without_noise_the_interval_is_wilsons():
    found = rates_of_counts(np.array([[0.0, 30], [10, 0.0]]), 0.0, NoiseKind.LAPLACE)
    wilson = binomtest(30, 40).proportion_ci(method="wilson")
    assert found.rate[0, 1] == 0.75
    assert (found.low[0, 1], found.high[0, 1]) == pytest.approx((wilson.low, wilson.high), rel=1e-4)


def test_nothing_is_said_of_a_pair_that_is_all_noise():
    wins = np.array([[0.0, -3, np.nan], [1, 0.0, 5], [np.nan, 2, 0.0]])
    found = rates_of_counts(wins, 50.0, NoiseKind.LAPLACE)
    assert np.isnan(found.rate[0, 1])
    assert np.isnan(found.rate[0, 2])
    assert (found.low[1, 2], found.high[1, 2]) == (0, 1)  # seven comparisons under such noise
