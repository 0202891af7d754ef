"""The unit in which weighted counts are ranked, and that intervals by it cover what they should."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hushrank.estimation.common.alike_answers import effective_units
from hushrank.estimation.common.central_noise import (
    calibrate_weighted,
    release_pair_counts,
    release_squares,
    release_win_counts,
)
from hushrank.estimation.common.links import LOGISTIC
from hushrank.estimation.common.matrices import PairCounts, WinCounts
from hushrank.estimation.comparisons.noisy_counts import rank_by_win_counts
from hushrank.estimation.comparisons.noisy_pairs import rank_noisy_pairs
from hushrank.privacy.randomness import seeded_bits
from hushrank.privacy.row_weights import FACTOR_BITS, Counted, RowFactors
from hushrank.privacy.units import UNITS, Adjacency, Bounding, NoiseKind, PrivacyParams, Unit
from tests.estimation.scores_alone import scores_alone

N, PEOPLE, MOST = 10, 2_000, 3
LOW, HIGH = np.triu_indices(N, 1)
REPLICATES = 50


def params_of(epsilon: float, max_weight: float | None) -> PrivacyParams:
    return PrivacyParams(
        unit=Unit.USER,
        adjacency=Adjacency.REPLACE_ONE,
        epsilon=epsilon,
        delta=1e-6,
        noise=NoiseKind.GAUSSIAN,
        max_contributions=MOST,
        distinct_pairs=True,
        bounding=Bounding.WEIGHTS,
        max_weight=max_weight,
    )


def survey(params: PrivacyParams, rng: np.random.Generator):
    """True scores, weighted counts and the sum of squares, where activity has a heavy tail."""
    truth = rng.normal(0, 1, N)
    truth -= truth.mean()
    rows = np.clip(len(LOW) * 3 / np.arange(1, PEOPLE + 1) ** 0.4, 3, len(LOW)).astype(int)
    keys = rng.gumbel(size=(PEOPLE, len(LOW)))
    asked = np.argsort(np.argsort(-keys, axis=1), axis=1) < rows[:, None]
    units = np.full(PEOPLE, UNITS)
    if params.max_weight is not None:
        units = rng.choice([250, 1_000, params.most_units], PEOPLE)
    weight = units * RowFactors(params, Counted.PAIRS, N).of(rows) >> FACTOR_BITS
    weights = np.where(asked, weight[:, None], 0)
    won = rng.random(asked.shape) < LOGISTIC.cdf(truth[LOW] - truth[HIGH])
    counts = np.zeros((N, N), np.int64)
    counts[LOW, HIGH] = np.where(won, weights, 0).sum(axis=0)
    counts[HIGH, LOW] = np.where(won, 0, weights).sum(axis=0)
    return truth, counts, np.array([np.square(weights).sum()])


@pytest.mark.slow
@pytest.mark.parametrize("max_weight", [None, 3.0])
@pytest.mark.parametrize("epsilon", [1.0, 20.0])
def test_intervals_cover_and_without_the_sum_of_squares_they_do_not(epsilon, max_weight):
    params = params_of(epsilon, max_weight)
    calibration, divisor = calibrate_weighted(params, Counted.PAIRS, N)
    variance, covered, ends, plain = calibration.law.variance, [], [], []
    for replicate in range(REPLICATES):
        truth, counts, squares = survey(params, np.random.default_rng((17, replicate)))
        bits = seeded_bits(replicate)
        noisy = release_pair_counts(PairCounts(counts, UNITS), calibration, bits).dense()
        seen = release_squares(squares, divisor, calibration, bits)
        ranked_by = effective_units(
            total=float(noisy.sum()),
            total_variance=N * (N - 1) * variance,
            squares=float(seen[0]) * divisor,
            squares_variance=variance * divisor**2,
            row_weight=1,
            most=params.most_units,
        )
        assert ranked_by >= 0.9 * squares.sum() / counts.sum()
        for units, into in ((ranked_by, covered), (UNITS, plain)):
            counted = PairCounts(noisy, units, confidential=False)
            with scores_alone():
                found = rank_noisy_pairs(counted, calibration.law, LOGISTIC).estimate
            into.append((found.low <= truth) & (truth <= found.high))
        ends.append(covered[-1][[truth.argmax(), truth.argmin()]])
    assert 0.92 <= np.mean(covered) <= 0.985
    assert np.mean(ends) >= 0.9
    if epsilon > 10 and max_weight is None:  # one comparison is the wrong unit where chance counts
        assert not 0.92 <= np.mean(plain) <= 0.985


def test_shares_of_wins_cover_with_the_weights_of_a_survey():
    params = replace(params_of(20.0, 3.0), bounding=Bounding.LEAVE_OUT, max_contributions=len(LOW))
    calibration, divisor = calibrate_weighted(params, Counted.WINS, N)
    variance, covered, plain = calibration.law.variance, [], []
    for replicate in range(REPLICATES):
        random = np.random.default_rng((29, replicate))
        truth = random.normal(0, 0.7, N)
        chance = LOGISTIC.cdf(np.subtract.outer(truth, truth))
        share = (chance.sum(axis=1) - 0.5) / (N - 1) - 0.5
        asked = random.random((1_000, len(LOW))) < 0.1
        weight = random.choice([250, 1_000, 3_000], (1_000, 1)) * asked
        won = random.random(asked.shape) < chance[LOW, HIGH]
        wins = np.bincount(LOW, (weight * won).sum(axis=0), N)
        wins = (wins + np.bincount(HIGH, (weight * ~won).sum(axis=0), N)).astype(np.int64)
        squares, bits = np.array([(weight**2).sum()]), seeded_bits(replicate)
        noisy = release_win_counts(WinCounts(wins, UNITS), calibration, bits).wins
        ranked_by = effective_units(
            total=float(noisy.sum()),
            total_variance=N * variance,
            squares=float(release_squares(squares, divisor, calibration, bits)[0]) * divisor,
            squares_variance=variance * divisor**2,
            row_weight=1,
            most=params.most_units,
        )
        for units, into in ((ranked_by, covered), (UNITS, plain)):
            found = rank_by_win_counts(WinCounts(noisy, units, confidential=False), calibration.law)
            into.append((found.low <= share) & (share <= found.high))
    assert 0.92 <= np.mean(covered) <= 0.98
    assert np.mean(plain) < 0.9


def test_the_unit_is_that_of_equal_weights():
    assert effective_units(1e9, 0, 4e11, 0, 1, 1_000) == 400
    assert effective_units(2e9, 0, 4e11, 0, 2, 1_000) == 800  # ties are split: wins count twice
    assert effective_units(1e6, 1e14, 4e11, 0, 1, 1_000) == 1_000  # nothing is known
    assert effective_units(1e9, 0, 4e13, 0, 1, 3_000) == 3_000  # never above the largest weight
