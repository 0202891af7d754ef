"""Kemeny, Borda and Bradley-Terry from rankings: orders, and intervals that hold what they say."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

from hushrank.estimation.fit.pair_fit import estimate_from
from hushrank.estimation.rankings.ranking_counts import count_rankings
from hushrank.estimation.rankings.ranking_estimates import (
    borda_estimate,
    fit_bradley_terry,
    kemeny_estimate,
)
from hushrank.estimation.rankings.ranking_evidence import RankingEvidence, plain_evidence
from hushrank.privacy.mallows import synthetic_rankings
from hushrank.privacy.randomness import seeded_bits

REPEATS = 300


def evidence_of(rankings: np.ndarray, n_items: int) -> RankingEvidence:
    lengths = np.full(len(rankings), rankings.shape[1])
    most = rankings.shape[1]
    return plain_evidence(count_rankings(rankings.ravel(), lengths, n_items, most, by_place=False))


def around(centre: list[int], n: int, seed: int) -> np.ndarray:
    """n rankings of a Mallows law around `centre`."""
    items, lengths = np.tile(centre, n), np.full(n, len(centre))
    return synthetic_rankings(items, lengths, 3.0, seeded_bits(seed)).reshape(n, -1)


def test_kemeny_finds_the_centre_and_is_surer_with_more_rankings():
    centre = [3, 0, 4, 1, 2]
    few, _ = kemeny_estimate(evidence_of(around(centre, 30, 1), 5))
    many, consensus = kemeny_estimate(evidence_of(around(centre, 3000, 1), 5))
    assert many.order.tolist() == centre
    assert consensus.optimal
    np.testing.assert_array_equal(many.scores[centre], [2, 1, 0, -1, -2])
    assert many.rank_low[centre].tolist() == many.rank_high[centre].tolist() == [1, 2, 3, 4, 5]
    assert many.groups[centre].tolist() == [1, 2, 3, 4, 5]
    assert (few.rank_high - few.rank_low).sum() > 0
    np.testing.assert_array_equal(few.high, 3 - few.rank_low)


def test_kemeny_is_sure_of_nothing_after_a_ranking_or_two():
    for n in (1, 2):
        estimate, _ = kemeny_estimate(evidence_of(np.tile([0, 1, 2, 3], (n, 1)), 4))
        assert (estimate.rank_low == 1).all()
        assert (estimate.rank_high == 4).all()
        assert estimate.informative


def test_borda_scores_are_mean_places_above_the_middle():
    rankings = np.array([[0, 1, 2], [0, 2, 1], [1, 0, 2], [0, 1, 2]])
    estimate = borda_estimate(evidence_of(rankings, 3))
    np.testing.assert_allclose(estimate.scores, [0.75, 0.0, -0.75])
    assert (estimate.low < estimate.scores).all()
    assert estimate.rank.tolist() == [1, 2, 3]


def test_intervals_hold_the_truth_as_often_as_they_say():
    """Of Borda and Bradley-Terry scores of rankings around one order: about 95 % do.

    The pairs of a ranking depend on each other; intervals that took them for independent would hold
    Borda scores far less often. False-positive rate: 285 of 300 expected; 262 is 6 sigma off.
    """
    large = evidence_of(around([0, 1, 2, 3], 400_000, 7), 4)
    truth = {
        "borda": borda_estimate(large).scores,
        "bradley-terry": fit_bradley_terry(large, 1e-3).scores,
    }
    held = {name: np.zeros(4) for name in truth}
    for seed in range(REPEATS):
        found = evidence_of(around([0, 1, 2, 3], 150, 1000 + seed), 4)
        estimates = {
            "borda": borda_estimate(found),
            "bradley-terry": estimate_from(fit_bradley_terry(found, 1e-3)),
        }
        for name, estimate in estimates.items():
            held[name] += (estimate.low <= truth[name]) & (truth[name] <= estimate.high)
    for name, times in held.items():
        assert (times >= 262).all(), name
    assert (held["borda"] < REPEATS).all()


def test_bradley_terry_scores_are_log_odds():
    """Lists of two items that are won with known odds: the fit finds them."""
    scores = np.array([0.8, 0.1, -0.9])
    random = np.random.default_rng(2)
    pairs = np.array([(0, 1), (0, 2), (1, 2)])[random.integers(0, 3, 30_000)]
    first_wins = random.random(len(pairs)) < expit(scores[pairs[:, 0]] - scores[pairs[:, 1]])
    rankings = np.where(first_wins[:, None], pairs, pairs[:, ::-1])
    fit = fit_bradley_terry(evidence_of(rankings, 3))
    error = np.sqrt(np.diagonal(fit.covariance))
    assert (np.abs(fit.scores - scores) < 5 * error).all()
    assert (error < 0.05).all()
    assert fit.is_minimum


def test_without_a_pair_nothing_is_known():
    nothing = evidence_of(np.empty((0, 2), np.int64), 3)
    alone = evidence_of(np.array([[0], [1]]), 3)
    for evidence in (nothing, alone):
        kemeny, _ = kemeny_estimate(evidence)
        borda, terry = borda_estimate(evidence), estimate_from(fit_bradley_terry(evidence))
        for estimate in (kemeny, borda, terry):
            assert not estimate.informative
            assert (estimate.rank_high == 3).all()


def test_a_bad_ridge_is_refused():
    with pytest.raises(ValueError, match="ridge must be finite"):
        fit_bradley_terry(evidence_of(np.array([[0, 1]]), 2), 0.0)
