"""Weights for people with many answers against leaving out all but L of them.

People answer as a Zipf law says: the k-th most active one, in proportion to k^-s. Both ways protect
a person with all their answers at the same (epsilon, delta), with noise of the same scale, and both
fit scores to the noisy matrix of wins. Measured are the root mean square error of the scores, and
the width of their 95 % intervals with the share that hold the truth.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hushrank.estimation.common.alike_answers import effective_units
from hushrank.estimation.common.central_noise import (
    calibrate_pair_counts,
    calibrate_weighted,
    release_pair_counts,
    release_squares,
)
from hushrank.estimation.common.links import LOGISTIC, Floats
from hushrank.estimation.common.matrices import PairCounts
from hushrank.estimation.comparisons.noisy_pairs import rank_noisy_pairs
from hushrank.experiments.beyond.figure import Figure, Point, points_of
from hushrank.privacy.randomness import seeded_bits
from hushrank.privacy.row_weights import FACTOR_BITS, Counted, RowFactors
from hushrank.privacy.units import Adjacency, Bounding, NoiseKind, PrivacyParams, Unit

ITEMS, PEOPLE, MOST, EPSILON, DELTA = 20, 5_000, 5, 1.0, 1e-6
LEAST_ROWS = 3  # of a person
EXPONENTS = (0.2, 0.4, 0.6, 0.8, 1.0)
ERROR, WIDTH, COVERAGE = "RMSE of scores", "width of 95 % intervals", "share that hold the truth"
MOVED = 1e-6  # mean of scores whose zero is not the mean of all
LEAVE_OUT, WEIGHTS = "leave-out", "weights"
LOW, HIGH = np.triu_indices(ITEMS, 1)


def measure(replicates: int) -> list[Point]:
    """Both ways at all exponents."""
    found: dict[tuple[str, str, float], list[float]] = {}
    for seed in range(replicates):
        for place, exponent in enumerate(EXPONENTS):
            random = np.random.default_rng((seed, place))
            truth = random.normal(0, 1, ITEMS)
            truth -= truth.mean()
            rows = activity(exponent)
            asked = np.argsort(np.argsort(random.random((PEOPLE, len(LOW))), axis=1), axis=1)
            won = random.random(asked.shape) < LOGISTIC.cdf(truth[LOW] - truth[HIGH])
            for way in (LEAVE_OUT, WEIGHTS):
                for panel, value in tried(way, truth, rows, asked, won, seed).items():
                    found.setdefault((panel, way, exponent), []).append(value)
    return points_of(found)


def activity(exponent: float) -> NDArray[np.int64]:
    """How many answers each person gives, shape (people,): at most one on each pair."""
    shares = np.arange(1, PEOPLE + 1) ** -exponent
    rows = np.clip(shares / shares[-1] * LEAST_ROWS, LEAST_ROWS, len(LOW))
    return np.asarray(rows.astype(np.int64))


def params_of(way: str) -> PrivacyParams:
    """The same guarantee of either way."""
    return PrivacyParams(
        unit=Unit.USER,
        adjacency=Adjacency.REPLACE_ONE,
        epsilon=EPSILON,
        delta=DELTA,
        noise=NoiseKind.GAUSSIAN,
        max_contributions=MOST,
        distinct_pairs=True,
        bounding=Bounding.WEIGHTS if way == WEIGHTS else Bounding.LEAVE_OUT,
    )


def tried(
    way: str,
    truth: Floats,
    rows: NDArray[np.int64],
    asked: NDArray[np.int64],
    won: NDArray[np.bool_],
    seed: int,
) -> dict[str, float]:
    """What one release reaches.

    Args:
        way: one of the two.
        truth: scores, shape (items,).
        rows: answers of each person.
        asked: shape (people, pairs), in which place a person meets each pair.
        won: of the same shape, whether the lower item wins.
        seed: of the noise.
    """
    params = params_of(way)
    if way == WEIGHTS:
        units = params.units * RowFactors(params, Counted.PAIRS, ITEMS).of(rows) >> FACTOR_BITS
        weights = np.where(asked < rows[:, None], units[:, None], 0)
        calibration, divisor = calibrate_weighted(params, Counted.PAIRS, ITEMS)
    else:
        weights = (asked < np.minimum(rows, MOST)[:, None]).astype(np.int64)
        calibration, divisor = calibrate_pair_counts(params, ITEMS), 0
    counts = np.zeros((ITEMS, ITEMS), np.int64)
    counts[LOW, HIGH] = np.where(won, weights, 0).sum(axis=0)
    counts[HIGH, LOW] = np.where(won, 0, weights).sum(axis=0)
    bits, variance, ranked_by = seeded_bits(seed), calibration.law.variance, 1
    noisy = release_pair_counts(PairCounts(counts, params.units), calibration, bits).dense()
    if way == WEIGHTS:
        squares = np.array([np.square(weights).sum()])
        ranked_by = effective_units(
            total=float(noisy.sum()),
            total_variance=ITEMS * (ITEMS - 1) * variance,
            squares=float(release_squares(squares, divisor, calibration, bits)[0]) * divisor,
            squares_variance=variance * divisor**2,
            row_weight=1,
            most=params.most_units,
        )
    found = rank_noisy_pairs(
        PairCounts(noisy, ranked_by, confidential=False), calibration.law, LOGISTIC, chance=True
    ).estimate
    if abs(found.scores.mean()) > MOVED:  # items without an end take no part in its zero
        truth = truth - truth[np.isfinite(found.low) & np.isfinite(found.high)].mean()
    return {
        ERROR: float(np.sqrt(np.mean(np.square(found.scores - truth)))),
        WIDTH: float(np.median(found.high - found.low)),
        COVERAGE: float(np.mean((found.low <= truth) & (truth <= found.high))),
    }


FIGURE = Figure(
    name="heavy-users",
    title=f"{PEOPLE:,} people, {ITEMS} items, L = {MOST}, epsilon {EPSILON:g}, Gaussian noise",
    x="Zipf exponent of activity",
    y="",
    measure=measure,
    replicates=40,
    quick=4,
    log_x=False,
)
