"""Scores adjusted for style and for who was shown first, against scores that are not.

Weak items have a style that judges like (long answers, say), so unadjusted scores take style for
strength however much data there are. Adjusted ones pay for that with more noise: below some epsilon
they are the worse ones. One answer is protected.
"""

from __future__ import annotations

import numpy as np

from hushrank.estimation.common.covariates import STEPS, CovariateCounts, pack
from hushrank.estimation.common.links import Floats
from hushrank.estimation.common.matrices import PairCounts
from hushrank.estimation.comparisons.covariate_effects import rank_with_covariates
from hushrank.estimation.comparisons.covariate_mle import calibrate_covariate_mle, covariate_mle
from hushrank.estimation.comparisons.perturbed_mle import (
    MleSettings,
    calibrate_mle,
    perturbed_mle,
)
from hushrank.experiments.beyond.figure import Figure, Point, points_of
from hushrank.privacy.randomness import seeded_bits
from hushrank.privacy.units import Adjacency, PrivacyParams, Unit

ITEMS, ROWS, FIRST, STYLE = 15, 30_000, 0.3, 1.0
EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
ERROR, COVERED = "RMSE of scores", "share of 95 % intervals that hold"
ADJUSTED, UNADJUSTED = "adjusted", "not adjusted"
SCORES, EFFECTS = "of scores", "of effects"


def measure(replicates: int) -> list[Point]:
    """All ways at all epsilons."""
    found: dict[tuple[str, str, float], list[float]] = {}
    for seed in range(replicates):
        truth, counts = battles(seed)
        for epsilon in EPSILONS:
            params = PrivacyParams(
                unit=Unit.COMPARISON, adjacency=Adjacency.REPLACE_ONE, epsilon=epsilon
            )
            measured = {
                **adjusted(truth, counts, params, seed),
                (ERROR, UNADJUSTED): unadjusted(truth, counts, params, seed),
            }
            for (panel, way), value in measured.items():
                found.setdefault((panel, way, epsilon), []).append(value)
    return points_of(found)


def battles(seed: int) -> tuple[Floats, CovariateCounts]:
    """True scores, and comparisons with two covariates: who was shown first, and style."""
    random = np.random.default_rng(seed)
    truth = random.normal(0, 1, ITEMS)
    truth -= truth.mean()
    liked = -0.3 * truth + random.normal(0, 0.2, ITEMS)
    left = random.integers(0, ITEMS, ROWS)
    right = (left + random.integers(1, ITEMS, ROWS)) % ITEMS
    style = np.clip(liked[left] - liked[right] + random.normal(0, 0.4, ROWS), -1, 1)
    steps = np.rint(np.column_stack([np.ones(ROWS), style]) * STEPS).astype(np.int8)
    effects = steps / STEPS @ np.array([FIRST, STYLE])
    won = random.random(ROWS) < 1 / (1 + np.exp(truth[right] - truth[left] - effects))
    cells = np.where(won, left * ITEMS + right, right * ITEMS + left)
    words = pack(np.where(won[:, np.newaxis], steps, -steps).astype(np.int8))
    return truth, CovariateCounts(cells, words, np.ones(ROWS, np.int64), ITEMS, 2)


def adjusted(
    truth: Floats, counts: CovariateCounts, params: PrivacyParams, seed: int
) -> dict[tuple[str, str], float]:
    """Error of adjusted scores, and how many intervals hold what they are to hold."""
    mechanism = calibrate_covariate_mle(params, ITEMS, 2, first=True)
    released = covariate_mle(counts, mechanism, seeded_bits(seed))
    estimate, effects = rank_with_covariates(released, mechanism)
    wanted = np.array([FIRST, STYLE])
    held = (estimate.low <= truth) & (truth <= estimate.high)
    effects_held = (effects.low <= wanted) & (wanted <= effects.high)
    return {
        (ERROR, ADJUSTED): error_of(estimate.scores, truth),
        (COVERED, SCORES): float(held.mean()),
        (COVERED, EFFECTS): float(effects_held.mean()),
    }


def unadjusted(truth: Floats, counts: CovariateCounts, params: PrivacyParams, seed: int) -> float:
    """Error of scores by `perturbed-mle` without covariates, told how often items meet."""
    wins = np.zeros((ITEMS, ITEMS), np.int64)
    np.add.at(wins, counts.items, counts.counts)
    settings = MleSettings(expected_comparisons=2 * ROWS / ITEMS)
    mechanism = calibrate_mle(params, settings, ITEMS)
    return error_of(perturbed_mle(PairCounts(wins), mechanism, seeded_bits(seed)), truth)


def error_of(scores: Floats, truth: Floats) -> float:
    """Root mean square error."""
    return float(np.sqrt(np.mean((scores - truth) ** 2)))


FIGURE = Figure(
    name="style-control",
    title=f"{ROWS:,} comparisons of {ITEMS} items whose style is liked, one protected",
    x="epsilon",
    y="",
    measure=measure,
    replicates=40,
    quick=3,
    log_y=(ERROR,),
)
