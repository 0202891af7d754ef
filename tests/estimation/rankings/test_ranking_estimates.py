"""Kemeny, Borda and Bradley-Terry from rankings: orders, and intervals that hold what they say."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

from hushrank.estimation.rankings.bradley_terry import bradley_terry_estimate
from hushrank.estimation.rankings.mechanism_choice import mallows_places
from hushrank.estimation.rankings.net_evidence import NetEvidence, plain_nets, undone_nets
from hushrank.estimation.rankings.ranking_counts import RankingCounts, count_rankings
from hushrank.estimation.rankings.ranking_estimates import borda_estimate, kemeny_estimate
from hushrank.estimation.rankings.ranking_evidence import RankingEvidence, plain_evidence
from hushrank.privacy.mallows import synthetic_rankings
from hushrank.privacy.randomness import seeded_bits
from tests.estimation.scores_alone import scores_alone

REPEATS, FITTED = 300, 150  # a fit of Bradley and Terry takes 20 times as long


def counts_of(rankings: np.ndarray, n_items: int) -> RankingCounts:
    lengths = np.full(len(rankings), rankings.shape[1])
    most = rankings.shape[1]
    return count_rankings(rankings.ravel(), lengths, n_items, most, by_place=False)


def evidence_of(rankings: np.ndarray, n_items: int) -> RankingEvidence:
    return plain_evidence(counts_of(rankings, n_items))


def not_private(length: int) -> np.ndarray:
    """The law of places of a mechanism that does nothing."""
    return np.eye(length)


def nets_of(rankings: np.ndarray, n_items: int) -> NetEvidence:
    return undone_nets(counts_of(rankings, n_items), not_private)


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
    estimate = borda_estimate(nets_of(rankings, 3)).estimate
    np.testing.assert_allclose(estimate.scores, [0.75, 0.0, -0.75])
    assert (estimate.low < estimate.scores).all()
    assert estimate.rank.tolist() == [1, 2, 3]


@scores_alone()
def test_intervals_hold_the_truth_as_often_as_they_say():
    """Of Borda and Bradley-Terry scores of rankings around one order: about 95 % do.

    The pairs of a ranking depend on each other; intervals that took them for independent would hold
    Borda scores far less often. False-positive rates: 285 of 300 are expected, and 262 is 6 sigma
    off; of 150, 25 or more miss with 4e-7. The share over all items has a standard error of 0.0105,
    of which 0.90 is 4.8 off: so intervals of 0.7 times the width are seen, which hold 0.86.
    """
    large = nets_of(around([0, 1, 2, 3], 400_000, 7), 4)
    truth = {
        "borda": borda_estimate(large).estimate.scores,
        "bradley-terry": bradley_terry_estimate(large, 1e-3).estimate.scores,
    }
    held, narrower = {name: np.zeros(4) for name in truth}, np.zeros(4)
    for seed in range(REPEATS):
        found = nets_of(around([0, 1, 2, 3], 150, 1000 + seed), 4)
        estimates = {"borda": borda_estimate(found).estimate}
        if seed < FITTED:
            fit = estimates["bradley-terry"] = bradley_terry_estimate(found, 1e-3).estimate
            low, high = (0.7 * end + 0.3 * fit.scores for end in (fit.low, fit.high))
            narrower += (low <= truth["bradley-terry"]) & (truth["bradley-terry"] <= high)
        for name, estimate in estimates.items():
            held[name] += (estimate.low <= truth[name]) & (truth[name] <= estimate.high)
    assert (held["borda"] >= 262).all()
    assert (held["borda"] < REPEATS).all()
    assert (held["bradley-terry"] > FITTED - 25).all()
    assert narrower.mean() < 0.90 * FITTED < held["bradley-terry"].mean()


def test_bradley_terry_scores_are_log_odds():
    """Lists of two items that are won with known odds: the fit finds them."""
    scores = np.array([0.8, 0.1, -0.9])
    random = np.random.default_rng(2)
    pairs = np.array([(0, 1), (0, 2), (1, 2)])[random.integers(0, 3, 30_000)]
    first_wins = random.random(len(pairs)) < expit(scores[pairs[:, 0]] - scores[pairs[:, 1]])
    rankings = np.where(first_wins[:, None], pairs, pairs[:, ::-1])
    found = bradley_terry_estimate(nets_of(rankings, 3)).estimate
    error = (found.high - found.low) / 2 / 1.96
    assert (np.abs(found.scores - scores) < 5 * error).all()
    assert (error < 0.05).all()


def test_without_a_pair_nothing_is_known():
    nothing = np.empty((0, 2), np.int64)
    alone = np.array([[0], [1]])
    for rankings in (nothing, alone):
        kemeny, _ = kemeny_estimate(evidence_of(rankings, 3))
        nets = nets_of(rankings, 3)
        for estimate in (
            kemeny,
            borda_estimate(nets).estimate,
            bradley_terry_estimate(nets).estimate,
        ):
            assert not estimate.informative
            assert (estimate.rank_high == 3).all()


def test_a_bad_ridge_is_refused():
    with pytest.raises(ValueError, match="ridge must be finite"):
        bradley_terry_estimate(nets_of(np.array([[0, 1]]), 2), 0.0)


def private(truth: np.ndarray, people: int, epsilon: float, seed: int) -> RankingCounts:
    """Counts of private rankings of people who rank by the law of Plackett and Luce."""
    utility = truth + np.random.default_rng(seed).gumbel(size=(people, len(truth)))
    rankings = np.argsort(-utility, axis=1).ravel()
    lengths = np.full(people, len(truth))
    drawn = synthetic_rankings(rankings, lengths, epsilon, seeded_bits(seed))
    return count_rankings(drawn, lengths, len(truth), len(truth), by_place=True)


def undone(counts: RankingCounts, epsilon: float) -> NetEvidence:
    return undone_nets(counts, lambda length: mallows_places(length, epsilon))


def mean_places(truth: np.ndarray) -> np.ndarray:
    return expit(truth[:, None] - truth).sum(axis=1) - len(truth) / 2


@scores_alone()
def test_borda_scores_of_ten_items_are_undone_and_intervals_hold_each_of_them():
    """10 items, 1 000 people, epsilon 2: plain scores are five times as far off.

    False-positive rate: an item's interval misses in 10 of 200 at 5 %; in 27 or more with 3e-6.
    """
    epsilon, people, repeats = 2.0, 1_000, 200
    truth = np.linspace(1.8, -1.8, 10)
    expected, held = mean_places(truth), np.zeros(10)
    errors = np.zeros(2)
    for seed in range(repeats):
        counts = private(truth, people, epsilon, seed)
        found = borda_estimate(undone(counts, epsilon)).estimate
        held += (found.low <= expected) & (expected <= found.high)
        plain = plain_nets(counts).sums / people
        errors += [np.square(each - expected).mean() / repeats for each in (found.scores, plain)]
    assert (held > repeats - 27).all()
    assert (held < repeats).all()  # and they are not far too wide
    own, plain_error = np.sqrt(errors)
    assert own < 0.27 < 5 * own < plain_error


@scores_alone()
def test_bradley_terry_scores_stay_finite_where_noise_exceeds_what_scores_explain():
    """5 items, 300 people, epsilon 1: without a ridge for the noise errors were above 6.

    False-positive rate: 100 intervals of an item miss in 5 at 5 %; in 18 or more with 2e-6. Plain
    scores are looked at 25 times only: they are off by much more than what is asked.
    """
    epsilon, people, repeats, looks = 1.0, 300, 100, 25
    truth = np.linspace(1.8, -1.8, 5)
    held, errors, ends = np.zeros(5), np.zeros(2), 0
    for seed in range(repeats):
        counts = private(truth, people, epsilon, seed)
        found = bradley_terry_estimate(undone(counts, epsilon)).estimate
        held += (found.low <= truth) & (truth <= found.high)
        ends += int(np.isfinite(found.low).sum() + np.isfinite(found.high).sum())
        assert (found.low <= found.scores).all()
        assert (found.scores <= found.high).all()
        errors[0] += np.square(found.scores - truth).mean() / repeats
        if seed < looks:
            plain = bradley_terry_estimate(plain_nets(counts)).estimate
            assert np.isinf(plain.low).all()
            errors[1] += np.square(plain.scores - truth).mean() / looks
    assert (held > repeats - 18).all()
    assert ends > 0.6 * 2 * 5 * repeats  # most ends are finite
    own, plain_error = np.sqrt(errors)
    assert own < 0.6
    assert plain_error > 1.0


def test_where_true_scores_are_close_and_noise_is_large_scores_are_hardly_worse_than_plain():
    epsilon, people, repeats = 1.0, 100, 60
    truth = np.linspace(0.3, -0.3, 10)
    expected, errors = mean_places(truth), np.zeros(3)
    for seed in range(repeats):
        counts = private(truth, people, epsilon, seed)
        evidence = undone(counts, epsilon)
        found = borda_estimate(evidence)
        assert evidence.kept <= found.factor <= 1
        scores = (found.estimate.scores, plain_nets(counts).sums / people, evidence.sums / people)
        errors += [np.square(each - expected).mean() / repeats for each in scores]
    own, plain, undrawn = np.sqrt(errors)
    assert own < 1.5 * plain
    assert 2 * own < undrawn
    fixed = borda_estimate(evidence, drawn=False)
    np.testing.assert_allclose(fixed.estimate.scores, evidence.sums / people)
    assert fixed.factor == 1


def test_scores_of_rankings_that_were_not_undone_have_no_intervals():
    counts = private(np.linspace(1.8, -1.8, 4), 5_000, 2.0, 1)
    for estimate in (
        borda_estimate(plain_nets(counts)).estimate,
        bradley_terry_estimate(plain_nets(counts)).estimate,
    ):
        assert np.isinf(estimate.low).all()
        assert np.isinf(estimate.high).all()
        assert estimate.rank_high.tolist() == [1, 2, 3, 4]
        assert estimate.informative


def test_items_that_nobody_compares_with_the_others_have_no_interval():
    rng = np.random.default_rng(3)
    first = np.array([rng.permutation(3) for _ in range(300)])
    one_group = nets_of(np.concatenate([first, first + 3]), 7)  # two groups of three; one unranked
    found = bradley_terry_estimate(one_group).estimate
    assert np.isinf(found.high).all()
    assert (found.rank_low == 1).all()
    alone = bradley_terry_estimate(nets_of(first, 4)).estimate
    assert np.isfinite(alone.high[:3]).all()
    assert np.isinf(alone.high[3])


def test_intervals_of_many_items_are_those_of_a_profile(monkeypatch):
    counts = private(np.linspace(1.0, -1.0, 8), 20_000, 8.0, 2)
    profile = bradley_terry_estimate(undone(counts, 8.0)).estimate
    monkeypatch.setattr("hushrank.estimation.rankings.bradley_terry.MOST_PROFILED", 3)
    newton = bradley_terry_estimate(undone(counts, 8.0)).estimate
    width = (profile.high - profile.low).mean()
    np.testing.assert_allclose(newton.low, profile.low, atol=0.03 * width)
    np.testing.assert_allclose(newton.high, profile.high, atol=0.03 * width)
