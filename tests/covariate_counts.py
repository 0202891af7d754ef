"""Comparisons with covariates for tests, and simulated ones."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hushrank.estimation.common.covariates import STEPS, CovariateCounts, pack

Rows = list[tuple[int, int, tuple[float, ...], int]]  # winner, loser, covariates, times
Floats = NDArray[np.float64]


def covariate_counts(rows: Rows, n_items: int, n_covariates: int) -> CovariateCounts:
    """Counts of the rows, whose covariates speak for the winner."""
    winner, loser, z, times = zip(*rows, strict=True) if rows else ((), (), (), ())
    steps = np.rint(np.array(z, np.float64).reshape(-1, n_covariates) * STEPS).astype(np.int8)
    cells = np.array(winner, np.int64) * n_items + np.array(loser, np.int64)
    return CovariateCounts(cells, pack(steps), np.array(times, np.int64), n_items, n_covariates)


def simulated(
    rng: np.random.Generator, n_items: int, n_rows: int, effects: Floats
) -> tuple[Floats, CovariateCounts]:
    """True scores, and comparisons in which strong items differ in style from weak ones.

    The first covariate tells who was shown first; the others are features.
    """
    theta = rng.normal(0, 1, n_items)
    theta -= theta.mean()
    left = rng.integers(0, n_items, n_rows)
    right = (left + rng.integers(1, n_items, n_rows)) % n_items
    z = np.ones((n_rows, len(effects)))
    for k in range(1, len(effects)):
        style = 0.4 * theta + rng.normal(0, 0.2, n_items)
        apart = 0.5 * (style[left] - style[right]) + rng.normal(0, 0.4, n_rows)
        z[:, k] = np.clip(apart, -1, 1)
    steps = np.rint(z * STEPS).astype(np.int8)
    chance = 1 / (1 + np.exp(theta[right] - theta[left] - steps @ effects / STEPS))
    won = rng.random(n_rows) < chance
    cells = np.where(won, left * n_items + right, right * n_items + left)
    words = pack(np.where(won[:, np.newaxis], steps, -steps).astype(np.int8))
    counts = np.ones(n_rows, np.int64)
    return theta, CovariateCounts(cells, words, counts, n_items, len(effects))
