"""Groups: each group's own counts, the counts of the whole, and partial pooling of both.

Votes on items by the Bradley-Terry model in five groups of unequal size, each with scores of its
own around those that all share, released as noisy wins and losses of each group at one epsilon.
Measured is the root mean square error of the scores of a group: by its own counts alone, if those
of the whole are taken for it, and by partial pooling (`estimation.common.pooling`).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from hushrank.estimation.common.central_noise import (
    calibrate_win_loss,
    law_of_sum,
    release_win_loss,
)
from hushrank.estimation.common.links import LOGISTIC, Floats
from hushrank.estimation.common.matrices import PairCounts, WinLossCounts
from hushrank.estimation.common.pooling import pool
from hushrank.estimation.comparisons.net_wins import evidence_of_win_loss, rank_by_win_loss
from hushrank.experiments.beyond.figure import Figure, Point
from hushrank.privacy.randomness import seeded_bits
from hushrank.privacy.units import Adjacency, PrivacyParams, Unit

ITEMS, VOTES = 12, 60_000
SHARES = (0.5, 0.25, 0.15, 0.07, 0.03)
OWN_SPREADS = (0.0, 0.25, 0.8)  # of a group's scores around the shared ones, whose spread is 1
PARAMS = PrivacyParams(
    unit=Unit.USER, adjacency=Adjacency.REPLACE_ONE, epsilon=1.0, max_contributions=10
)
UNPOOLED, WHOLE, POOLED = "own counts", "the whole", "pooled"


def measure(replicates: int) -> list[Point]:
    """All ways for all groups and spreads."""
    points = []
    for spread in OWN_SPREADS:
        found = np.array([errors(spread, seed) for seed in range(replicates)])  # (seed, way, group)
        for way, squared in zip((UNPOOLED, WHOLE, POOLED), found.transpose(1, 2, 0), strict=True):
            for share, each in zip(SHARES, squared, strict=True):
                value = math.sqrt(each.mean())
                error = float(each.std() / math.sqrt(max(replicates - 1, 1)) / (2 * value))
                points.append(
                    Point(
                        panel=f"groups differ by {spread:g}",
                        way=way,
                        x=share * VOTES,
                        value=value,
                        se=error,
                    )
                )
    return points


def errors(spread: float, seed: int) -> Floats:
    """Mean square error of each way for each group, shape (3, groups)."""
    random, bits = np.random.default_rng(seed), seeded_bits(seed)
    shared = random.normal(0, 1, ITEMS)
    truths = shared + random.normal(0, spread, (len(SHARES), ITEMS))
    truths -= truths.mean(axis=1, keepdims=True)
    calibration = calibrate_win_loss(PARAMS, ITEMS, 1, len(SHARES))
    noisy = []
    for truth, share in zip(truths, SHARES, strict=True):
        counts = PairCounts(votes(truth, round(share * VOTES), random))
        exact = WinLossCounts(counts.won(), counts.lost())
        noisy.append(release_win_loss(exact, calibration, bits))
    whole = WinLossCounts(
        np.sum([each.wins for each in noisy], axis=0),
        np.sum([each.losses for each in noisy], axis=0),
        confidential=False,
    )
    together = rank_by_win_loss(whole, law_of_sum(calibration.law, len(SHARES))).scores
    alone = [rank_by_win_loss(each, calibration.law).scores for each in noisy]
    evidence = [evidence_of_win_loss(each, calibration.law) for each in noisy]
    pooled = [each.scores for each in pool(evidence, together).estimates]
    ways = np.array([alone, [together] * len(SHARES), pooled])
    return np.asarray(np.mean(np.square(ways - truths), axis=2))


def votes(truth: Floats, number: int, random: np.random.Generator) -> NDArray[np.int64]:
    """How often each item beat each other, shape (n, n); pairs are drawn at random."""
    i, j = np.triu_indices(len(truth), 1)
    asked = random.multinomial(number, np.full(len(i), 1 / len(i)))
    won = random.binomial(asked, LOGISTIC.cdf(truth[i] - truth[j]))
    wins = np.zeros((len(truth), len(truth)), np.int64)
    wins[i, j], wins[j, i] = won, asked - won
    return wins


FIGURE = Figure(
    name="groups",
    title=f"{VOTES:,} votes on {ITEMS} items in 5 groups, one epsilon of 1 for all (L = 10)",
    x="votes of the group",
    y="RMSE of the group's scores",
    measure=measure,
    replicates=200,
    quick=20,
)
