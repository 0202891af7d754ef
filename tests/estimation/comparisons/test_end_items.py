"""Intervals of the best, the worst and the rarest item, where averages over items hide them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hushrank.estimation.common.central_noise import calibrate_outcomes, release_outcomes
from hushrank.estimation.common.estimate import Estimate
from hushrank.estimation.common.links import LOGISTIC
from hushrank.estimation.common.matrices import PairCounts
from hushrank.estimation.comparisons.mle_uncertainty import (
    rank_by_scores,
    rank_by_scores_and_exposures,
)
from hushrank.estimation.comparisons.pairs_by_chance import fit_public_pairs
from hushrank.estimation.comparisons.perturbed_mle import (
    MleSettings,
    calibrate_mle,
    perturbed_mle,
)
from hushrank.estimation.comparisons.planning import Exposures
from hushrank.estimation.fit.pair_fit import AnswerVariance, DebiasedFit, estimate_from, fit_sums
from hushrank.pipelines.simulate.planned_survey import Arena
from hushrank.privacy.randomness import RandomBits, seeded_bits
from hushrank.privacy.units import PrivacyParams
from tests.estimation.comparisons.test_unbalanced import assert_held, by_comparison, held

SPREAD_OUT = Arena(20, 4_000, zipf=0.0, spread=0.9)
SKEWED = Arena(30, 8_000, zipf=1.0, spread=0.9, late=5)


def randomised_fit(counts: PairCounts, params: PrivacyParams, bits: RandomBits) -> DebiasedFit:
    """`debiased-rr` of answers that were each randomised with epsilon."""
    generator = np.random.default_rng(int.from_bytes(bits.take(8), "little"))
    t, flip = math.tanh(params.epsilon / 2), 1 / (1 + math.exp(params.epsilon))
    wins = np.triu(counts.dense(), 1)
    asked = wins + np.triu(counts.dense().T, 1)
    said = generator.binomial(wins, 1 - flip) + generator.binomial(asked - wins, flip)
    s, w = t * (said - flip * asked), t**2 * asked
    return fit_sums(s, w.astype(np.float64), LOGISTIC, AnswerVariance(least_weight=t**2), 1.0)


def randomised(counts: PairCounts, params: PrivacyParams, bits: RandomBits) -> Estimate:
    return estimate_from(randomised_fit(counts, params, bits))


def public_graph(counts: PairCounts, params: PrivacyParams, bits: RandomBits) -> Estimate:
    """`noisy-pairs` where who compared what is public."""
    calibration = calibrate_outcomes(params, counts.n_items)
    noisy = release_outcomes(counts, calibration, bits)
    return estimate_from(fit_public_pairs(noisy, calibration.law, LOGISTIC))


def likelihood_of(counts: PairCounts, params: PrivacyParams, bits: RandomBits):
    mechanism = calibrate_mle(params, MleSettings(expected_comparisons=1e4), counts.n_items)
    return perturbed_mle(counts, mechanism, bits), mechanism


def public_exposures(counts: PairCounts, params: PrivacyParams, bits: RandomBits) -> Estimate:
    """`perturbed-mle` where how often each item was shown is public."""
    scores, mechanism = likelihood_of(counts, params, bits)
    shown = (counts.won() + counts.lost()).astype(np.float64)
    return rank_by_scores_and_exposures(scores, mechanism, Exposures(shown, 0.0))


def public_design(counts: PairCounts, params: PrivacyParams, bits: RandomBits) -> Estimate:
    """`perturbed-mle` where how often each pair was shown is public."""
    scores, mechanism = likelihood_of(counts, params, bits)
    wins = counts.dense()
    return rank_by_scores(scores, mechanism, (wins + wins.T).astype(np.float64))


@pytest.mark.slow
@pytest.mark.parametrize("rank", [randomised, public_graph])
@pytest.mark.parametrize(
    ("arena", "epsilon"),
    [(SPREAD_OUT, 1.0), (SPREAD_OUT, 4.0), (SKEWED, 1.0), (SKEWED, 4.0)],
)
def test_pair_fits_hold_the_items_at_the_ends(rank, arena, epsilon) -> None:
    assert_held(held(arena, by_comparison(epsilon), rank, releases=150))


def test_scores_drawn_to_zero_are_caught() -> None:
    """The ridge's scores, as the centre of intervals of their own errors, miss the ends."""

    def around_the_scores(counts, params, bits) -> Estimate:
        fit = randomised_fit(counts, params, bits)
        shrunk = np.sqrt(np.diagonal(fit.covariance)) * fit.information / (fit.information + 2)
        found = estimate_from(fit)
        low, high = fit.scores - 1.96 * shrunk, fit.scores + 1.96 * shrunk
        return Estimate(
            scores=fit.scores,
            low=low,
            high=high,
            rank=found.rank,
            rank_low=found.rank_low,
            rank_high=found.rank_high,
            groups=found.groups,
        )

    seen = held(SPREAD_OUT, by_comparison(0.7), around_the_scores, releases=100)
    assert np.mean(seen.extremes["best"] + seen.extremes["worst"]) < 0.88


def test_the_unshrunk_scores_are_nearer_to_the_truth_at_the_ends() -> None:
    generator = np.random.default_rng(7)
    shrunk, unshrunk = [], []
    for seed in range(60):
        truth = SPREAD_OUT.truth(generator)
        counts = SPREAD_OUT.answers(truth, SPREAD_OUT.design(truth, generator), generator)
        fit = randomised_fit(counts, by_comparison(1.0), seeded_bits(seed))
        ends = [truth.argmax(), truth.argmin()]
        shrunk += list(fit.scores[ends] / truth[ends])
        unshrunk += list(fit.unshrunk[ends] / truth[ends])
    assert np.mean(shrunk) < 0.95
    assert abs(np.mean(unshrunk) - 1) < 0.5 * (1 - np.mean(shrunk)) + 0.08


@pytest.mark.slow
@pytest.mark.parametrize("rank", [public_exposures, public_design])
@pytest.mark.parametrize(("n", "zipf", "epsilon"), [(20, 1.5, 1.0), (40, 1.0, 0.3), (60, 0.5, 4.0)])
def test_perturbed_likelihood_of_a_public_design_holds_every_item(rank, n, zipf, epsilon) -> None:
    assert_held(held(Arena(n, 800 * n, zipf=zipf), by_comparison(epsilon), rank, releases=30))
