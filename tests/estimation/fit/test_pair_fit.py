"""Scores from privatised answers: the paper's objective, its minimum and its variance.

False-positive rate of each statistical assertion: 1e-6.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.stats import binomtest

from hushrank.estimation.common.links import LINKS, LOGISTIC, PROBIT, Link, link_named
from hushrank.estimation.fit.pair_fit import (
    AnswerVariance,
    estimate_from,
    fit_scores,
    objective_of,
    win_totals,
)
from hushrank.estimation.fit.solve import ConvergenceError
from hushrank.estimation.fit.weighted_pairs import (
    UNITS,
    PairSums,
    WeightedPairs,
    counted_sums,
    weighted_sums,
)
from tests.statistics import FALSE_POSITIVE_RATE

Floats = NDArray[np.float64]
EVERY_LINK = pytest.mark.parametrize("link", LINKS.values(), ids=LINKS)


def pairs_of(s: Floats, w: Floats) -> WeightedPairs:
    """From real numbers; only the upper triangle is used."""
    in_units = (np.triu(np.rint(matrix * UNITS).astype(np.int64), 1) for matrix in (s, w))
    return WeightedPairs(*in_units)


def one_answer(noisy: int, epsilon: float) -> tuple[int, int]:
    sums = weighted_sums(np.array([1]), np.array([noisy], np.uint8), epsilon, 2)
    return int(sums[0, 0, 1]), int(sums[1, 0, 1])


def answers(scores: Floats, link: Link, epsilon: float, per_pair: int, seed: int) -> PairSums:
    """S and W of `per_pair` randomised answers to each pair."""
    generator = np.random.default_rng(seed)
    flip = 1 / (1 + math.exp(epsilon))
    chance = link.cdf(np.subtract.outer(scores, scores))
    ones = generator.binomial(per_pair, flip + (1 - 2 * flip) * chance)
    (s_zero, weight), (s_one, _) = one_answer(0, epsilon), one_answer(1, epsilon)
    s = np.triu(ones * s_one + (per_pair - ones) * s_zero, 1)
    return np.stack([s, np.triu(np.full_like(s, per_pair * weight), 1)])


def random_scores(n: int, seed: int) -> Floats:
    scores = np.random.default_rng(seed).uniform(-1, 1, n)
    return scores - scores.mean()


def paper_objective(scores: Floats, s: Floats, w: Floats, link: Link, ridge: float) -> float:
    total = ridge * float(scores @ scores)
    for i in range(len(scores)):
        for j in range(i + 1, len(scores)):
            chance = float(link.cdf(np.array([scores[i] - scores[j]]))[0])
            total -= s[i, j] * math.log(chance) + (w[i, j] - s[i, j]) * math.log(1 - chance)
    return total


@EVERY_LINK
def test_minimum_is_that_of_the_paper_s_objective(link: Link) -> None:
    pairs = WeightedPairs(*answers(random_scores(5, 1), link, 0.7, 60, seed=2))
    fit = fit_scores(pairs, link, AnswerVariance(), ridge=0.5)
    s, w = pairs.pair_values()
    slow = minimize(paper_objective, np.zeros(5), args=(s, w, link, 0.5), tol=1e-10)
    np.testing.assert_allclose(fit.scores, slow.x, atol=1e-5)
    assert fit.loss + 0.5 * fit.scores @ fit.scores <= slow.fun + 1e-9
    assert abs(fit.scores.sum()) < 1e-9
    assert fit.is_minimum


@EVERY_LINK
def test_objective_is_the_paper_s_also_outside_the_range_of_counts(link: Link) -> None:
    pairs = WeightedPairs(*answers(random_scores(6, 3), link, 0.2, 30, seed=4))
    s, w = pairs.pair_values()
    assert (s < 0).any() or (s > w).any()  # signed weights are part of this test
    scores = random_scores(6, 5)
    value = objective_of(pairs, link, 1.0).value(scores)
    assert value == pytest.approx(paper_objective(scores, s, w, link, 1.0))


@EVERY_LINK
def test_scores_without_noise_are_the_true_ones(link: Link) -> None:
    scores = random_scores(8, 6)
    w = np.full((8, 8), 1e6)
    fit = fit_scores(
        pairs_of(w * link.cdf(np.subtract.outer(scores, scores)), w), link, AnswerVariance()
    )
    np.testing.assert_allclose(fit.scores, scores, atol=1e-5)


@settings(deadline=None, max_examples=25)
@given(st.permutations(range(5)), st.sampled_from(sorted(LINKS)))
def test_names_of_the_items_do_not_matter(order: list[int], link_name: str) -> None:
    link = link_named(link_name)
    pairs = WeightedPairs(*answers(random_scores(5, 7), link, 1.0, 40, seed=8))
    s, w = pairs.pair_values()
    wins = (s + (w - s).T)[np.ix_(order, order)]
    renamed = pairs_of(wins, wins + wins.T)
    before = fit_scores(pairs, link, AnswerVariance())
    after = fit_scores(renamed, link, AnswerVariance())
    np.testing.assert_allclose(after.scores, before.scores[order], atol=1e-6)
    np.testing.assert_allclose(after.covariance, before.covariance[np.ix_(order, order)], atol=1e-6)


COVERAGE_RUNS, COVERAGE_ITEMS = 150, 8


def misses(link: Link, variance: AnswerVariance, epsilon: float, width: float) -> int:
    """Scores outside scores +- width standard errors; items of a run are nearly independent."""
    truth = random_scores(COVERAGE_ITEMS, 9)
    count = 0
    for seed in range(COVERAGE_RUNS):
        pairs = WeightedPairs(*answers(truth, link, epsilon, 400, seed))
        fit = fit_scores(pairs, link, variance)
        error = np.abs(fit.scores - truth)
        count += int((error > width * np.sqrt(np.diag(fit.covariance))).sum())
    return count


@EVERY_LINK
def test_variance_of_lemma_2_covers_at_its_nominal_rate(link: Link) -> None:
    epsilon, trials = 2.0, COVERAGE_RUNS * COVERAGE_ITEMS
    exact = AnswerVariance(least_weight=math.tanh(epsilon / 2) ** 2)
    assert binomtest(misses(link, exact, epsilon, 1.96), trials, 0.05).pvalue > FALSE_POSITIVE_RATE
    # Power: standard errors that are 30 % off, either way, are caught.
    for wrong in (1.4, 2.7):
        caught = misses(link, exact, epsilon, wrong)
        assert binomtest(caught, trials, 0.05).pvalue < FALSE_POSITIVE_RATE


def test_unknown_weights_only_widen_the_variance() -> None:
    pairs = WeightedPairs(*answers(random_scores(6, 10), LOGISTIC, 3.0, 200, seed=11))
    bounded = fit_scores(pairs, LOGISTIC, AnswerVariance(least_weight=0.8)).covariance
    unknown = fit_scores(pairs, LOGISTIC, AnswerVariance()).covariance
    noisier = fit_scores(pairs, LOGISTIC, AnswerVariance(extra=2.0)).covariance
    assert (np.diag(bounded) < np.diag(unknown)).all()
    assert (np.diag(noisier) > 8 * np.diag(unknown)).all()


def test_plain_counts_are_biased_by_randomisation_and_debiased_sums_are_not() -> None:
    truth, epsilon, per_pair = random_scores(6, 12), 1.0, 20_000
    debiased = WeightedPairs(*answers(truth, LOGISTIC, epsilon, per_pair, seed=13))
    s, w = debiased.s / one_answer(0, epsilon)[1], debiased.w / one_answer(0, epsilon)[1]
    t = math.tanh(epsilon / 2)
    counts = pairs_of(t * s + (1 - t) / 2 * w, w)  # ones of the randomised answers
    error = np.abs(fit_scores(debiased, LOGISTIC, AnswerVariance()).scores - truth).max()
    classic = np.abs(fit_scores(counts, LOGISTIC, AnswerVariance(1.0)).scores - truth).max()
    assert error < 0.06  # some five standard errors
    assert classic > 0.3 * np.abs(truth).max()


def test_count_method_counts_wins() -> None:
    cells, outcomes = np.array([1, 1, 2, 5]), np.array([1, 0, 0, 1], np.uint8)
    pairs = WeightedPairs(*counted_sums(cells, outcomes, 3))
    np.testing.assert_array_equal(win_totals(pairs), [1.0, 2.0, 1.0])


def test_a_probit_likelihood_without_minimum_is_an_error_and_a_logistic_one_is_fitted() -> None:
    few = pairs_of(np.full((2, 2), -3.0), np.full((2, 2), 0.1))
    with pytest.raises(ConvergenceError, match="link: logistic"):
        fit_scores(few, PROBIT, AnswerVariance())
    assert fit_scores(few, LOGISTIC, AnswerVariance()).is_minimum


def test_items_that_nobody_compared_stay_in_the_middle() -> None:
    w = np.zeros((3, 3))
    w[0, 1] = 100.0
    fit = fit_scores(pairs_of(0.75 * w, w), LOGISTIC, AnswerVariance())
    assert fit.scores[0] > fit.scores[2] > fit.scores[1]
    assert fit.scores[2] == pytest.approx(0.0, abs=1e-8)


def test_estimate_separates_what_the_errors_allow() -> None:
    scores = np.array([1.0, 0.9, -0.6, -1.3])
    w = np.full((4, 4), 300.0)
    s = w * LOGISTIC.cdf(np.subtract.outer(scores, scores))
    fit = fit_scores(pairs_of(s, w), LOGISTIC, AnswerVariance())
    estimate = estimate_from(fit)
    np.testing.assert_array_equal(estimate.groups, [1, 1, 2, 3])
    np.testing.assert_array_equal(estimate.rank, [1, 2, 3, 4])
    np.testing.assert_array_equal(estimate.rank_low, [1, 1, 3, 4])
    np.testing.assert_array_equal(estimate.rank_high, [2, 2, 3, 4])
    half_width = 1.959964 * np.sqrt(np.diag(fit.covariance))
    np.testing.assert_allclose(estimate.high - fit.unshrunk, half_width, rtol=1e-6)
    assert estimate.informative


def test_what_only_the_ridge_knows_is_left_open() -> None:
    w = np.zeros((4, 4))
    w[0, 1] = w[0, 2] = w[1, 2] = 400.0
    estimate = estimate_from(fit_scores(pairs_of(0.9 * w, w), LOGISTIC, AnswerVariance()))
    assert (estimate.low[3], estimate.high[3]) == (-math.inf, math.inf)
    assert (estimate.rank_low[3], estimate.rank_high[3]) == (1, 4)
    assert np.isfinite(estimate.low[:3]).all()
    assert estimate.rank_low[2] == 3
    little = estimate_from(fit_scores(pairs_of(0.9 * w, w / 400), LOGISTIC, AnswerVariance()))
    assert not little.informative


def test_a_variance_that_was_rounded_to_below_zero_leaves_its_item_open() -> None:
    w = np.triu(np.full((4, 4), 400.0), 1)
    fit = fit_scores(pairs_of(0.9 * w, w), LOGISTIC, AnswerVariance())
    covariance = np.array(fit.covariance)
    covariance[2] = covariance[:, 2] = -1e-12
    estimate = estimate_from(replace(fit, covariance=covariance))
    assert np.isinf(estimate.high[2])
    assert (estimate.rank_low[2], estimate.rank_high[2]) == (1, 4)
    assert np.isfinite(np.delete(estimate.high, 2)).all()


def test_intervals_allow_for_the_pull_of_the_ridge() -> None:
    # Weights of 12 a pair: the ridge moves the scores by some 8 %, and the errors are large.
    truth, inside, trials = np.linspace(-1.5, 1.5, 8), 0, 0
    for seed in range(100):
        pairs = WeightedPairs(*answers(truth, LOGISTIC, 0.5, 200, seed))
        estimate = estimate_from(fit_scores(pairs, LOGISTIC, AnswerVariance()))
        inside += int(((estimate.low <= truth) & (truth <= estimate.high)).sum())
        trials += len(truth)
    assert binomtest(trials - inside, trials, 0.05, "greater").pvalue > FALSE_POSITIVE_RATE


def test_wrong_arguments_are_refused() -> None:
    pairs = pairs_of(np.ones((3, 3)), np.ones((3, 3)))
    for ridge in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(ValueError, match="ridge"):
            fit_scores(pairs, LOGISTIC, AnswerVariance(), ridge)
    with pytest.raises(ValueError, match="2 items"):
        fit_scores(pairs_of(np.ones((1, 1)), np.ones((1, 1))), LOGISTIC, AnswerVariance())
    for least_weight in (-0.1, 1.1, math.nan):
        with pytest.raises(ValueError, match="least_weight"):
            AnswerVariance(least_weight)
    with pytest.raises(ValueError, match="extra"):
        AnswerVariance(extra=math.nan)
