"""Scores and intervals of unbalanced designs: do they hold the truth, of every kind of item?

Coverage must not be significantly (1e-6) outside 92 to 98 %; of the best, the worst and the rarest
item alone not significantly below 92 %. Infinite intervals count as they are, and are counted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache, partial

import numpy as np
import pytest
from scipy.stats import binom, kendalltau

from hushrank.estimation.common.central_noise import calibrate_win_loss, release_win_loss
from hushrank.estimation.common.estimate import Estimate, mean_ranks
from hushrank.estimation.common.links import LAPLACE, Floats
from hushrank.estimation.common.matrices import PairCounts, WinCounts, WinLossCounts
from hushrank.estimation.comparisons.mle_uncertainty import (
    net_wins_of,
    rank_by_scores_and_exposures,
    rank_by_scores_and_pairs,
)
from hushrank.estimation.comparisons.net_wins import rank_by_net_wins, rank_by_win_loss
from hushrank.estimation.comparisons.noisy_counts import rank_by_win_counts
from hushrank.estimation.comparisons.perturbed_mle import (
    MleSettings,
    calibrate_mle,
    perturbed_mle,
)
from hushrank.estimation.comparisons.planning import Exposures
from hushrank.pipelines.simulate.planned_survey import Arena
from hushrank.privacy.noise import add_noise, laplace_law
from hushrank.privacy.randomness import RandomBits, seeded_bits
from hushrank.privacy.sensitivity import exposures_sensitivity
from hushrank.privacy.units import Adjacency, NoiseKind, PrivacyParams, Unit
from tests.estimation.scores_alone import scores_alone
from tests.statistics import FALSE_POSITIVE_RATE

LOW, HIGH = 0.92, 0.98
RANKED = 12  # releases, which show as much of the ranks of all items together as is asked
EXPOSURE_SHARE = 0.15

# Many releases go by one law, which takes longer to find than a release takes.
calibrated_win_loss, calibrated_mle = cache(calibrate_win_loss), cache(calibrate_mle)

Ranker = Callable[[PairCounts, PrivacyParams, RandomBits], Estimate]
DesignRanker = Callable[[PairCounts, PrivacyParams, RandomBits, Floats], Estimate]


def by_comparison(epsilon: float) -> PrivacyParams:
    return PrivacyParams(unit=Unit.COMPARISON, adjacency=Adjacency.REPLACE_ONE, epsilon=epsilon)


def by_person(epsilon: float, rows: int, delta: float = 0.0) -> PrivacyParams:
    return PrivacyParams(
        unit=Unit.USER,
        adjacency=Adjacency.REPLACE_ONE,
        epsilon=epsilon,
        max_contributions=rows,
        delta=delta,
        noise=NoiseKind.GAUSSIAN if delta else NoiseKind.LAPLACE,
    )


def win_loss_of(counts: PairCounts) -> WinLossCounts:
    wins = counts.dense()
    return WinLossCounts(wins.sum(axis=1), wins.sum(axis=0))


def win_loss(counts: PairCounts, params: PrivacyParams, bits: RandomBits) -> Estimate:
    calibration = calibrated_win_loss(params, counts.n_items)
    noisy = release_win_loss(win_loss_of(counts), calibration, bits)
    return rank_by_win_loss(noisy, calibration.law)


def noisy_exposures(counts: PairCounts, params: PrivacyParams, bits: RandomBits) -> Exposures:
    spent = replace(
        params, epsilon=EXPOSURE_SHARE * params.epsilon, delta=0.0, noise=NoiseKind.LAPLACE
    )
    law = laplace_law(exposures_sensitivity(spent, counts.n_items), spent.epsilon)
    wins = counts.dense()
    noisy = add_noise(wins.sum(axis=0) + wins.sum(axis=1), law, bits)
    return Exposures(noisy.astype(np.float64), law.variance)


def mle_and_exposures(counts: PairCounts, params: PrivacyParams, bits: RandomBits) -> Estimate:
    rest = replace(params, epsilon=(1 - EXPOSURE_SHARE) * params.epsilon)
    mechanism = calibrated_mle(rest, MleSettings(expected_comparisons=1e4), counts.n_items)
    scores = perturbed_mle(counts, mechanism, bits)
    return rank_by_scores_and_exposures(scores, mechanism, noisy_exposures(counts, params, bits))


def mle_and_public(
    counts: PairCounts, params: PrivacyParams, bits: RandomBits, design: Floats, *, of_pairs: bool
) -> Estimate:
    """All of epsilon for scores: what is to be expected of items, or of pairs, is public."""
    settings = MleSettings(expected_comparisons=design.sum() / counts.n_items)
    mechanism = calibrated_mle(params, settings, counts.n_items)
    scores = perturbed_mle(counts, mechanism, bits)
    if of_pairs:
        return rank_by_scores_and_pairs(scores, mechanism, design)
    return rank_by_scores_and_exposures(scores, mechanism, Exposures(design.sum(axis=1), 0.0))


mle_and_public_items = partial(mle_and_public, of_pairs=False)
mle_and_public_pairs = partial(mle_and_public, of_pairs=True)


@dataclass
class Held:
    """Whether intervals held the truth, over many releases."""

    scores: list[Floats] = field(default_factory=list)
    finite: list[Floats] = field(default_factory=list)
    ranks: list[Floats] = field(default_factory=list)
    extremes: dict[str, list[bool]] = field(default_factory=dict)
    tau: list[float] = field(default_factory=list)


def held(
    arena: Arena,
    params: PrivacyParams,
    rank: Ranker | DesignRanker,
    releases: int,
    ranked_releases: int = RANKED,
) -> Held:
    """The first releases are ranked too, which takes most of the time."""
    generator, found = np.random.default_rng(17), Held()
    for release in range(releases):
        truth = arena.truth(generator)
        design = arena.design(truth, generator)
        bits = seeded_bits(int(generator.integers(2**60)))
        public = (design,) if rank in (*PUBLIC, equal_shares) else ()
        with scores_alone(release >= ranked_releases):
            ranked = rank(arena.answers(truth, design, generator), params, bits, *public)
        scores = (ranked.low <= truth) & (truth <= ranked.high)
        if release < ranked_releases:
            ranks = mean_ranks(truth)
            found.ranks.append((ranked.rank_low <= ranks) & (ranks <= ranked.rank_high))
        found.scores.append(scores)
        found.finite.append(np.isfinite(ranked.low) & np.isfinite(ranked.high))
        extremes = {
            "best": truth.argmax(),
            "worst": truth.argmin(),
            "rarest": design.sum(axis=0).argmin(),
            "most shown": design.sum(axis=0).argmax(),
        }
        for name, item in extremes.items():
            found.extremes.setdefault(name, []).append(bool(scores[item]))
        found.tau.append(kendalltau(ranked.scores, truth)[0])
    return found


def assert_held(found: Held) -> None:
    everything = np.concatenate(found.scores)
    hits, trials = int(everything.sum()), len(everything)
    assert binom.cdf(hits, trials, LOW) > FALSE_POSITIVE_RATE, hits / trials
    finite = everything[np.concatenate(found.finite)]
    assert binom.sf(int(finite.sum()) - 1, len(finite), HIGH) > FALSE_POSITIVE_RATE, finite.mean()
    for name, hit in found.extremes.items():
        assert binom.cdf(sum(hit), len(hit), LOW) > FALSE_POSITIVE_RATE, (name, np.mean(hit))
    ranks = np.concatenate(found.ranks)
    assert binom.cdf(int(ranks.sum()), len(ranks), 0.95) > FALSE_POSITIVE_RATE


# Of one kind of item, 26 of 40 intervals are enough (92 % give fewer with a chance of 2e-7).
RELEASES = 40
BUGGY_RELEASES = 12  # bugs are found in all items together, which are 60 a release

PUBLIC = (mle_and_public_items, mle_and_public_pairs)
ARENA = Arena(60, 50_000, late=10)
VOTES = Arena(60, 200_000, zipf=0.7)
SMALL = Arena(7, 5_000, zipf=1.5)
TIMID = Arena(30, 20_000, zipf=1.0)
LOOSE_LEAGUE = Arena(100, 20_000, zipf=0.7, matched=1.4)
TIGHT_LEAGUE = Arena(50, 20_000, zipf=0.7, matched=0.7)


@pytest.mark.slow
@pytest.mark.parametrize("rank", [win_loss, mle_and_exposures, mle_and_public_items])
@pytest.mark.parametrize(
    ("arena", "params"),
    [
        (ARENA, by_comparison(0.2)),
        (VOTES, by_person(1.0, 10, delta=1e-6)),
        (TIMID, by_person(0.5, 5)),
        pytest.param(ARENA, by_comparison(1.0), marks=pytest.mark.soak),
        pytest.param(VOTES, by_person(1.0, 10), marks=pytest.mark.soak),
        pytest.param(SMALL, by_comparison(1.0), marks=pytest.mark.soak),
    ],
)
def test_intervals_hold_whatever_the_exposure(
    rank: Ranker, arena: Arena, params: PrivacyParams
) -> None:
    assert_held(held(arena, params, rank, RELEASES))


@pytest.mark.slow
@pytest.mark.parametrize("params", [by_comparison(1.0), by_person(1.0, 5)])
def test_intervals_hold_where_it_is_public_who_meets_whom(params: PrivacyParams) -> None:
    assert_held(held(TIGHT_LEAGUE, params, mle_and_public_pairs, RELEASES))


def equal_shares(
    counts: PairCounts, params: PrivacyParams, bits: RandomBits, design: Floats
) -> Estimate:
    """A bug: public exposures that were not read."""
    n = counts.n_items
    equal = np.full((n, n), design.sum() / n / (n - 1)) * (1 - np.eye(n))
    return mle_and_public_items(counts, params, bits, equal)


@pytest.mark.slow
def test_public_exposures_that_are_not_read_are_caught() -> None:
    found = held(ARENA, by_comparison(1.0), equal_shares, BUGGY_RELEASES)
    with pytest.raises(AssertionError):
        assert_held(found)


@pytest.mark.slow
def test_intervals_of_a_loose_league() -> None:
    found = held(LOOSE_LEAGUE, by_comparison(1.0), mle_and_exposures, releases=10)
    everything = np.concatenate(found.scores)
    assert binom.cdf(int(everything.sum()), len(everything), LOW) > FALSE_POSITIVE_RATE


def without_noise(counts: PairCounts, params: PrivacyParams, bits: RandomBits) -> Estimate:
    """A bug: intervals that forget the privacy noise."""
    rest = replace(params, epsilon=(1 - EXPOSURE_SHARE) * params.epsilon)
    mechanism = calibrated_mle(rest, MleSettings(expected_comparisons=1e4), counts.n_items)
    scores = perturbed_mle(counts, mechanism, bits)
    exposures = noisy_exposures(counts, params, bits)
    net_wins = net_wins_of(scores, mechanism, exposures.design(), exposures.noise_variance)
    return rank_by_net_wins(replace(net_wins, noise_variance=np.full(counts.n_items, 1e-9)))


def balanced(counts: PairCounts, params: PrivacyParams, bits: RandomBits) -> Estimate:
    """A bug: intervals that take all items to be shown equally often."""
    rest = replace(params, epsilon=(1 - EXPOSURE_SHARE) * params.epsilon)
    mechanism = calibrated_mle(rest, MleSettings(expected_comparisons=1e4), counts.n_items)
    scores = perturbed_mle(counts, mechanism, bits)
    exposures = noisy_exposures(counts, params, bits)
    equal = replace(exposures, values=np.full(counts.n_items, exposures.values.mean()))
    return rank_by_scores_and_exposures(scores, mechanism, equal)


@pytest.mark.slow
@pytest.mark.parametrize("bug", [without_noise, balanced])
def test_intervals_that_forget_something_are_caught(bug: Ranker) -> None:
    params = by_person(1.0, 10) if bug is without_noise else by_comparison(1.0)
    with pytest.raises(AssertionError):
        assert_held(held(VOTES if bug is without_noise else ARENA, params, bug, BUGGY_RELEASES))


def win_counts(counts: PairCounts, params: PrivacyParams, bits: RandomBits) -> Estimate:
    law = laplace_law(exposures_sensitivity(params, counts.n_items), params.epsilon)
    wins = add_noise(counts.dense().sum(axis=1), law, bits)
    return rank_by_win_counts(WinCounts(wins, confidential=False), law)


def hand_tuned(counts: PairCounts, params: PrivacyParams, bits: RandomBits) -> Estimate:
    """`perturbed-mle` with all of epsilon, whose operator guessed the size right."""
    each = float(counts.dense().sum()) * 2 / counts.n_items
    mechanism = calibrated_mle(params, MleSettings(expected_comparisons=each), counts.n_items)
    scores = perturbed_mle(counts, mechanism, bits)
    return rank_by_scores_and_exposures(
        scores, mechanism, Exposures(np.full(counts.n_items, each), 0.0)
    )


@pytest.mark.slow
@pytest.mark.parametrize("arena", [ARENA, VOTES])
def test_the_order_is_as_good_as_that_of_the_best_hand_tuned_method(arena: Arena) -> None:
    params = by_comparison(1.0)
    best = held(arena, params, hand_tuned, 10, ranked_releases=0).tau
    counted = held(arena, params, win_counts, 10, ranked_releases=0).tau
    for rank in (win_loss, mle_and_exposures):
        tau = held(arena, params, rank, 10, ranked_releases=0).tau
        assert np.mean(tau) > np.mean(best) - 0.02
        assert np.mean(tau) > np.mean(counted) + 0.3


def test_a_league_needs_the_pairs() -> None:
    """Where strong items meet strong ones, wins and losses alone rank worse than the likelihood."""
    league = Arena(60, 20_000, zipf=0.5, matched=0.4)
    by_counts = held(league, by_comparison(2.0), win_loss, 10, ranked_releases=0).tau
    by_pairs = held(league, by_comparison(2.0), mle_and_exposures, 10, ranked_releases=0).tau
    assert np.mean(by_pairs) > np.mean(by_counts) + 0.03


@pytest.mark.parametrize("link", [LAPLACE])
def test_other_links(link) -> None:
    arena = Arena(12, 20_000, zipf=1.0, link=link)
    generator = np.random.default_rng(3)
    truth = arena.truth(generator)
    counts = arena.answers(truth, arena.design(truth, generator), generator)
    params = by_comparison(2.0)
    rest = replace(params, epsilon=(1 - EXPOSURE_SHARE) * params.epsilon)
    settings = MleSettings(expected_comparisons=1e4, link=link)
    mechanism = calibrate_mle(rest, settings, counts.n_items)
    scores = perturbed_mle(counts, mechanism, seeded_bits(1))
    exposures = noisy_exposures(counts, params, seeded_bits(2))
    ranked = rank_by_scores_and_exposures(scores, mechanism, exposures)
    assert ((ranked.low <= truth) & (truth <= ranked.high)).mean() > 0.6
    assert np.abs(ranked.scores - truth).max() < 0.5


def test_without_privacy_scores_are_those_of_maximum_likelihood() -> None:
    generator = np.random.default_rng(5)
    truth = ARENA.truth(generator)
    counts = ARENA.answers(truth, ARENA.design(truth, generator), generator)
    ranked = win_loss(counts, by_comparison(float("inf")), seeded_bits(1))
    settings = MleSettings(expected_comparisons=1e4, ridge=1.0)
    mechanism = calibrate_mle(by_comparison(float("inf")), settings, 60)
    fitted = perturbed_mle(counts, mechanism, seeded_bits(1))
    assert np.abs(ranked.scores - fitted).max() < 0.1  # the design is that of chance, not the real


class TestDesign:
    """`Exposures.design`."""

    def test_its_rows_sum_to_the_exposures(self) -> None:
        values = np.array([700.0, 400.0, 300.0, 120.0, 80.0])
        design = Exposures(values, 0.0).design()
        assert np.allclose(design.sum(axis=1), values, rtol=1e-6)
        assert (design == design.T).all()
        assert (np.diagonal(design) == 0).all()
        ratio = design[0, 2:] / design[1, 2:]  # a product of one factor of each item
        assert np.allclose(ratio, ratio[0])

    def test_noise_cannot_make_a_design_that_does_not_exist(self) -> None:
        values = np.array([1000.0, 10.0, -50.0])
        design = Exposures(values, 32.0).design()
        assert np.isfinite(design).all()
        assert (design >= 0).all()
        assert design[0].sum() <= design[1:].sum()

    def test_items_that_nobody_saw(self) -> None:
        design = Exposures(np.zeros(4), 0.0).design()
        assert np.isfinite(design).all()


def test_no_rows_say_nothing() -> None:
    counts = PairCounts(np.zeros((5, 5), np.int64))
    for rank in (win_loss, mle_and_exposures):
        ranked = rank(counts, by_comparison(1.0), seeded_bits(4))
        assert not ranked.informative
        assert (ranked.rank_low == 1).all()
        assert (ranked.rank_high == 5).all()


def test_two_items() -> None:
    counts = PairCounts(np.array([[0, 300], [100, 0]], np.int64))
    for rank in (win_loss, mle_and_exposures):
        ranked = rank(counts, by_comparison(1.0), seeded_bits(4))
        assert ranked.scores[0] > ranked.scores[1]


def test_wrong_shapes_are_refused() -> None:
    mechanism = calibrate_mle(by_comparison(1.0), MleSettings(expected_comparisons=10.0), 3)
    with pytest.raises(ValueError, match="3 items, but scores of shape"):
        rank_by_scores_and_exposures(np.zeros(4), mechanism, Exposures(np.zeros(4), 1.0))
    with pytest.raises(ValueError, match="confidential"):
        rank_by_win_loss(
            WinLossCounts(np.ones(3, np.int64), np.ones(3, np.int64)), laplace_law_of()
        )


def laplace_law_of():
    return laplace_law(exposures_sensitivity(by_comparison(1.0), 3), 1.0)
