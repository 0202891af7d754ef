"""Scores from noisy pairs: better than the naive way, with intervals that hold every item."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from hushrank.estimation.common.central_noise import calibrate_pair_counts, release_pair_counts
from hushrank.estimation.common.estimate import Estimate
from hushrank.estimation.common.links import LOGISTIC, PROBIT, Floats
from hushrank.estimation.common.matrices import PairCounts
from hushrank.estimation.common.uncertainty import far_sets
from hushrank.estimation.comparisons.noisy_pairs import fit_noisy_pairs, rank_noisy_pairs
from hushrank.estimation.comparisons.pairs_by_chance import fit_pairs_by_chance
from hushrank.estimation.fit.likelihood import Objective
from hushrank.estimation.fit.pair_fit import estimate_from
from hushrank.estimation.fit.solve import minimise
from hushrank.pipelines.simulate.planned_survey import Arena
from hushrank.privacy.noise import NoiseLaw
from hushrank.privacy.randomness import RandomBits, seeded_bits
from hushrank.privacy.units import NoiseKind, PrivacyParams
from tests.estimation.comparisons.test_unbalanced import (
    RELEASES,
    assert_held,
    by_comparison,
    by_person,
    held,
)
from tests.estimation.scores_alone import scores_alone

BALANCED = Arena(12, 4_000, zipf=0.0)
SKEWED = Arena(30, 20_000, zipf=1.0, late=5)
WEAK = Arena(20, 2_000, zipf=0.0)
LEAGUE = Arena(60, 60_000, zipf=0.3, spread=1.0, matched=0.4)


calibrated = cache(calibrate_pair_counts)  # a law takes longer to find than a release takes


def ranked(counts: PairCounts, params: PrivacyParams, bits: RandomBits) -> Estimate:
    calibration = calibrated(params, counts.n_items)
    noisy = release_pair_counts(counts, calibration, bits)
    return rank_noisy_pairs(noisy, calibration.law, LOGISTIC, chance=True).estimate


def naive(counts: PairCounts) -> Floats:
    """Noisy counts, clipped at zero, and a Bradley-Terry fit to them."""
    wins = np.maximum(counts.dense(), 0).astype(np.float64)
    return minimise(Objective(wins, LOGISTIC, 0.01, np.zeros(len(wins)))).theta


@cache  # two tests ask for the same
def errors(
    arena: Arena, params: PrivacyParams, logs: int, link=LOGISTIC
) -> tuple[float, float, list[bool]]:
    """Root mean square errors, ours and the naive way's; whether pairs seemed to meet by chance."""
    generator = np.random.default_rng(3)
    ours, theirs, by_chance = [], [], []
    for log in range(logs):
        truth = arena.truth(generator)
        counts = arena.answers(truth, arena.design(truth, generator), generator)
        calibration = calibrate_pair_counts(params, arena.n_items)
        noisy = release_pair_counts(counts, calibration, seeded_bits(log))
        found = rank_noisy_pairs(noisy, calibration.law, link, chance=True)
        by_chance.append(found.by_chance)
        ours.append(np.var(found.estimate.scores - truth))  # whatever is taken as zero
        theirs.append(np.var(naive(noisy) - truth))
    return float(np.sqrt(np.mean(ours))), float(np.sqrt(np.mean(theirs))), by_chance


@pytest.mark.parametrize("arena", [BALANCED, SKEWED, WEAK])
@pytest.mark.parametrize("params", [by_comparison(0.5), by_comparison(4.0), by_person(1.0, 5)])
def test_scores_are_as_good_as_the_naive_way_s_at_least(arena, params) -> None:
    ours, theirs, by_chance = errors(arena, params, logs=12)
    assert ours < 1.02 * theirs
    assert ours < 0.75  # what guessing zero gives, and a little
    assert all(by_chance)


def test_where_noise_is_large_they_are_better_by_far() -> None:
    ours, theirs, _ = errors(SKEWED, by_person(1.0, 5), logs=12)
    assert ours < 0.85 * theirs


def test_a_league_is_told_from_chance_and_fitted_as_one() -> None:
    """A design of chance would be wrong there: its scores are too close together."""
    params = by_comparison(1.0)
    ours, theirs, by_chance = errors(LEAGUE, params, logs=3)
    assert not any(by_chance)
    assert ours < 0.9 * theirs


class Uneven(Arena):
    """Some pairs met far more often than chance has it, others hardly ever, for no reason."""

    def design(self, truth: Floats, generator: np.random.Generator) -> Floats:
        """Expected comparisons of each pair."""
        factor = np.triu(generator.gamma(1.0, size=(self.n_items, self.n_items)), 1)
        return super().design(truth, generator) * (factor + factor.T)


@pytest.mark.parametrize(("epsilon", "groups"), [(0.5, False), (2.0, False), (0.5, True)])
def test_unequal_pairs_are_left_to_chance_unless_they_go_together(epsilon, groups) -> None:
    """Single pairs would lose there: they are fitted to their noise. Chance loses in a league."""
    arena = LEAGUE if groups else Uneven(40, 4_000, zipf=0.4, spread=0.45)
    generator = np.random.default_rng(8)
    truth = arena.truth(generator)
    counts = arena.answers(truth, arena.design(truth, generator), generator)
    calibration = calibrate_pair_counts(by_comparison(epsilon), arena.n_items)
    noisy = release_pair_counts(counts, calibration, seeded_bits(1))
    found = rank_noisy_pairs(noisy, calibration.law, LOGISTIC, chance=True)
    assert found.by_chance is not groups
    single = fit_noisy_pairs(noisy, calibration.law, LOGISTIC).fit.scores
    by_chance = fit_pairs_by_chance(noisy, calibration.law, LOGISTIC).scores
    errors = [float(np.square(scores - truth).mean()) for scores in (single, by_chance)]
    error = np.square(found.estimate.scores - truth).mean()
    assert error < (0.5 * errors[1] if groups else 1.05 * min(errors))


@scores_alone()
def test_real_battles_of_models_beat_the_naive_way_with_intervals_that_hold(
    real_data: Path,
) -> None:
    """Of 59 models, 784 pairs never met and others 50 times. Who won is drawn anew."""
    table = pq.read_table(real_data / "pair_llmfao.parquet").to_pandas()
    items = {name: number for number, name in enumerate(sorted({*table.item_i, *table.item_j}))}
    asked = np.zeros((len(items), len(items)), np.int64)
    np.add.at(asked, (table.item_i.map(items), table.item_j.map(items)), 1)
    generator = np.random.default_rng(6)
    truth = np.linspace(-0.9, 0.9, len(items))[generator.permutation(len(items))]
    chance = LOGISTIC.cdf(np.subtract.outer(truth, truth))
    calibration = calibrate_pair_counts(by_comparison(0.5), len(items))
    ours, theirs, held = [], [], []
    for log in range(8):
        won = generator.binomial(asked, chance)
        counts = PairCounts(won + (asked - won).T)
        noisy = release_pair_counts(counts, calibration, seeded_bits(log))
        found = rank_noisy_pairs(noisy, calibration.law, LOGISTIC, chance=True).estimate
        ours.append(np.square(found.scores - truth).mean())
        theirs.append(np.square(naive(noisy) - truth).mean())
        held.append(((found.low <= truth) & (truth <= found.high)).mean())
    assert np.mean(ours) < 0.85 * np.mean(theirs)
    assert 0.9 < np.mean(held) < 0.99


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arena", "params"),
    [
        (BALANCED, by_comparison(0.5)),
        (SKEWED, by_comparison(1.0)),
        (SKEWED, by_person(2.0, 5)),
        (WEAK, by_comparison(1.0)),
        (WEAK, by_person(2.0, 5, delta=1e-6)),
    ],
)
def test_intervals_hold_best_worst_and_rarest_items(arena, params) -> None:
    assert_held(held(arena, params, ranked, RELEASES))


def blocks(
    generator: np.random.Generator, within: float, across: float
) -> tuple[Floats, PairCounts]:
    """Two blocks of 20 items that hardly meet, the second one better by one."""
    truth = generator.normal(0, 0.7, 40) + np.repeat([0.0, 1.0], 20)
    block = np.repeat([0, 1], 20)
    design = np.where(np.equal.outer(block, block), within, across)
    asked = generator.poisson(np.triu(design, 1))
    won = generator.binomial(asked, LOGISTIC.cdf(np.subtract.outer(truth, truth)))
    return truth - truth.mean(), PairCounts((won + (asked - won).T).astype(np.int64))


def far_apart(generator: np.random.Generator) -> tuple[Floats, PairCounts]:
    """Nine of ten pairs hardly ever meet, for no reason that shows."""
    truth = generator.normal(0, 0.7, 50)
    asked = generator.poisson(np.triu(generator.gamma(0.1, 50.0, (50, 50)), 1))
    won = generator.binomial(asked, LOGISTIC.cdf(np.subtract.outer(truth, truth)))
    return truth - truth.mean(), PairCounts((won + (asked - won).T).astype(np.int64))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("log", "epsilon"),
    [
        (partial(blocks, within=60, across=5), 0.5),
        (partial(blocks, within=60, across=5), 1.0),
        (far_apart, 0.5),
    ],
)
@scores_alone()
def test_where_few_pairs_meet_they_are_better_than_the_naive_way_and_intervals_hold(
    log: Callable[[np.random.Generator], tuple[Floats, PairCounts]], epsilon: float
) -> None:
    """Items of a block err together: of 8 logs, 80 % and more held is what 95 % a log gives."""
    generator, ours, theirs, held = np.random.default_rng(7), [], [], []
    for seed in range(8):
        truth, counts = log(generator)
        calibration = calibrate_pair_counts(by_comparison(epsilon), counts.n_items)
        noisy = release_pair_counts(counts, calibration, seeded_bits(seed))
        found = rank_noisy_pairs(noisy, calibration.law, LOGISTIC, chance=True)
        assert not found.by_chance
        estimate = found.estimate
        ours.append(np.square(estimate.scores - truth).mean())
        theirs.append(np.square(naive(noisy) - truth).mean())
        held.append(((estimate.low <= truth) & (truth <= estimate.high)).mean())
    assert np.mean(ours) < np.mean(theirs)
    assert np.mean(held) > 0.88


def test_intervals_that_forget_the_noise_are_caught() -> None:
    def careless(counts: PairCounts, params: PrivacyParams, bits: RandomBits) -> Estimate:
        calibration = calibrate_pair_counts(params, counts.n_items)
        noisy = release_pair_counts(counts, calibration, bits)
        quiet = NoiseLaw(NoiseKind.LAPLACE, calibration.law.scale / 4)
        return fit_pairs_by_chance(noisy, quiet, LOGISTIC).estimate

    with pytest.raises(AssertionError):
        assert_held(held(WEAK, by_comparison(1.0), careless, releases=20))


def test_a_ridge_that_knows_the_noise_keeps_scores_of_any_design_near_the_truth() -> None:
    """With the ridge of 1, 20 scores whose pairs are all noise were off by 10 and more."""
    generator = np.random.default_rng(4)
    truth = WEAK.truth(generator)
    counts = WEAK.answers(truth, WEAK.design(truth, generator), generator)
    calibration = calibrate_pair_counts(by_person(1.0, 5), 20)
    for log in range(5):
        noisy = release_pair_counts(counts, calibration, seeded_bits(log))
        fit = fit_noisy_pairs(noisy, calibration.law, LOGISTIC).fit
        assert fit.ridge > 1
        assert np.sqrt(np.square(fit.scores - truth).mean()) < 1.2
        estimate = estimate_from(fit)
        assert (estimate.low <= fit.scores).all()
        assert (fit.scores <= estimate.high).all()


def test_names_of_the_items_do_not_matter_and_scores_sum_to_zero() -> None:
    generator = np.random.default_rng(5)
    truth = BALANCED.truth(generator)
    counts = BALANCED.answers(truth, BALANCED.design(truth, generator), generator)
    calibration = calibrate_pair_counts(by_comparison(1.0), 12)
    noisy = release_pair_counts(counts, calibration, seeded_bits(1)).dense()
    order = generator.permutation(12)
    one, other = (
        fit_pairs_by_chance(PairCounts(wins, confidential=False), calibration.law, PROBIT)
        for wins in (noisy, np.ascontiguousarray(noisy[np.ix_(order, order)]))
    )
    assert abs(one.scores.sum()) < 1e-9
    np.testing.assert_allclose(other.scores, one.scores[order], atol=1e-4)
    np.testing.assert_allclose(other.estimate.low, one.estimate.low[order], atol=1e-3)


def test_nothing_but_noise_says_nothing() -> None:
    """But in one of 20 releases: 40 seeds, of which more than 9 would be a chance of 1e-5."""
    zeros = PairCounts(np.zeros((6, 6), np.int64))
    calibration = calibrate_pair_counts(by_comparison(0.1), 6)
    informative = 0
    for seed in range(40):
        noisy = release_pair_counts(zeros, calibration, seeded_bits(seed))
        found = rank_noisy_pairs(noisy, calibration.law, LOGISTIC, chance=True).estimate
        informative += found.informative
        assert found.informative or np.isinf(found.high).all()
    assert informative <= 9


@pytest.mark.parametrize(("spectral", "seed"), [(False, 1), (True, 2)])
def test_an_item_that_hardly_loses_does_not_move_the_intervals_of_others(
    spectral: bool, seed: int
) -> None:
    """Deterministic, by seeds. Nothing limits the best one: a likelihood's zero is without it."""
    calibration, truth = calibrated(by_comparison(1.0), 8), np.array([5.0] + [0.0] * 7)
    generator, held, ends = np.random.default_rng(seed), np.zeros(8), 0
    for _ in range(60):
        asked = generator.poisson(np.triu(np.full((8, 8), 20.0), 1))
        won = generator.binomial(asked, LOGISTIC.cdf(np.subtract.outer(truth, truth)))
        counts = PairCounts((won + (asked - won).T).astype(np.int64))
        noisy = release_pair_counts(
            counts, calibration, seeded_bits(int(generator.integers(2**60)))
        )
        found = rank_noisy_pairs(
            noisy, calibration.law, LOGISTIC, chance=True, spectral=spectral
        ).estimate
        aside = (np.arange(8) == 0) & (abs(found.scores.sum()) > 1e-9)
        assert not (spectral and aside.any())
        true = truth - truth[~aside].mean()
        assert abs(found.scores[~aside].sum()) < 1e-9
        held += (found.low <= true) & (true <= found.high)
        ends += np.isfinite(found.high[1:] - found.low[1:]).sum()
    assert held.min() >= 55  # of 60
    assert ends >= 0.95 * 7 * 60


@pytest.mark.parametrize("spectral", [False, True])
@pytest.mark.parametrize("best", [(7.0, 7.0), (5.0, 5.0, 5.0)])
def test_items_that_only_each_other_beat_do_not_move_the_intervals_of_others(
    best: tuple[float, ...], spectral: bool
) -> None:
    """Deterministic, by seeds. The zero is without them: with it 28 to 48 of 60 held."""
    k, calibration = len(best), calibrated(by_comparison(1.0), 8)
    truth = np.array([*best, *[0.0] * (8 - k)])
    generator, held, ends = np.random.default_rng(7), np.zeros(8), 0
    for _ in range(60):
        asked = generator.poisson(np.triu(np.full((8, 8), 20.0), 1))
        won = generator.binomial(asked, LOGISTIC.cdf(np.subtract.outer(truth, truth)))
        counts = PairCounts((won + (asked - won).T).astype(np.int64))
        noisy = release_pair_counts(
            counts, calibration, seeded_bits(int(generator.integers(2**60)))
        )
        found = rank_noisy_pairs(
            noisy, calibration.law, LOGISTIC, chance=True, spectral=spectral
        ).estimate
        held += (found.low <= truth) & (truth <= found.high)
        ends += np.isfinite(found.high[k:] - found.low[k:]).sum()
    assert held.min() >= 48  # of 60, also of those where a loss came in by chance
    assert held[k:].mean() >= 54
    assert ends >= 0.95 * (8 - k) * 60


def test_a_set_that_nothing_limits_is_found_and_no_other() -> None:
    wins = np.full((6, 6), 10.0)
    wins[2:, :2], wins[:2, 2:] = 0.0, 20.0
    np.fill_diagonal(wins, 0.0)
    scores = np.array([3.0, 2.5, 0.1, 0.0, 0.0, -0.1])
    above, below = far_sets(wins, scores, 1.0)
    assert np.flatnonzero(above).tolist() == [0, 1]
    assert not below.any()
    above, below = far_sets(wins.T, -scores, 1.0)
    assert np.flatnonzero(below).tolist() == [0, 1]
    assert not above.any()
    assert not np.any(far_sets(wins + 9.0 * (wins == 0), scores, 1.0))  # they lose
    assert not np.any(far_sets(wins, scores / 10, 1.0))  # no gap
    assert not np.any(far_sets(wins[:3, :3], scores[:3], 1.0))  # two of three are most


def test_what_cannot_be_fitted_is_refused() -> None:
    law = NoiseLaw(NoiseKind.LAPLACE, 2.0)
    exact = np.array([[0, 3], [1, 0]], np.int64)
    with pytest.raises(ValueError, match="counts are confidential"):
        fit_pairs_by_chance(PairCounts(exact), law, LOGISTIC)
    with pytest.raises(ValueError, match="without noise"):
        fit_pairs_by_chance(
            PairCounts(exact, confidential=False), NoiseLaw(NoiseKind.LAPLACE, 0.0), LOGISTIC
        )
    with pytest.raises(ValueError, match="at least 2 items"):
        fit_pairs_by_chance(PairCounts(exact[:1, :1], confidential=False), law, LOGISTIC)
