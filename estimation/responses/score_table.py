"""Abilities by raw score: Warm's weighted likelihood estimates, with standard errors.

Of a booklet of difficulties b, Warm's ability w of raw score r solves

    r = sum of P_i - J / 2I,

where P_i = 1 / (1 + e^(b_i - w)), I = sum of P_i (1 - P_i) and J is the derivative of I. It is
finite for every score, no point and all points included. Its squared standard error is 1 / I plus
g' C g, where C is the covariance of the errors of difficulties and g the derivative of w in b. All
of it is computed from released difficulties, so it is post-processing.

References:
    Warm. Weighted likelihood estimation of ability in item response theory. 1989.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from hushrank.estimation.common.links import Floats
from hushrank.estimation.fit.solve import ConvergenceError

BEYOND = 15.0  # abilities of all scores lie within this of the easiest and of the hardest item
NODES = 401  # of the curve by which abilities are found first
MOST_STEPS, LONGEST_STEP, CLOSE = 50, 1.0, 1e-9
ROWS = 256  # scores that are solved at once


@dataclass(frozen=True, slots=True)
class ScoreTable:
    """Abilities of the raw scores 0 to K of a booklet, shape (K + 1,) each.

    Attributes:
        ability: Warm's estimate, on the scale of difficulties.
        error: its standard error.
        by_difficulty: derivative of abilities in difficulties, shape (K + 1, K); rows sum to 1.
    """

    ability: Floats
    error: Floats
    by_difficulty: Floats


def score_table(difficulty: Floats, covariance: Floats) -> ScoreTable:
    """Compute the table of a booklet.

    Args:
        difficulty: of its items, shape (K,).
        covariance: of the errors of these, shape (K, K).

    Raises:
        ConvergenceError: no ability was found for a score.
    """
    nodes = np.linspace(difficulty.min() - BEYOND, difficulty.max() + BEYOND, NODES)
    reached = np.concatenate([_Curve.at(part, difficulty).score for part in _parts(nodes)])
    scores = np.arange(len(difficulty) + 1.0)
    start = np.interp(scores, reached, nodes)
    parts = [
        _solve(score, near, difficulty)
        for score, near in zip(_parts(scores), _parts(start), strict=True)
    ]
    ability = np.concatenate([part for part, _ in parts])
    curves = [curve for _, curve in parts]
    slope = np.concatenate([curve.slope for curve in curves])
    known = np.concatenate([curve.information for curve in curves])
    by_difficulty = slope / slope.sum(axis=1, keepdims=True)
    variance = 1 / known + ((by_difficulty @ covariance) * by_difficulty).sum(axis=1)
    return ScoreTable(ability, np.sqrt(variance), by_difficulty)


def _parts(values: Floats) -> list[Floats]:
    return np.split(values, range(ROWS, len(values), ROWS))


@dataclass(frozen=True, slots=True)
class _Curve:
    """Warm's equation at some abilities.

    Attributes:
        score: the sum of P_i less J / 2I, shape (abilities,).
        information: I.
        slope: derivative of `score` in the ability, the part of each item, shape (abilities, K).
    """

    score: Floats
    information: Floats
    slope: Floats

    @classmethod
    def at(cls, ability: Floats, difficulty: Floats) -> _Curve:
        right = expit(ability[:, np.newaxis] - difficulty)
        told = right * expit(difficulty - ability[:, np.newaxis])
        bent = told * (1 - 2 * right)
        known = told.sum(axis=1, keepdims=True)
        ratio = bent.sum(axis=1, keepdims=True) / known
        curved = bent * (1 - 2 * right) - 2 * np.square(told)
        return cls(
            score=right.sum(axis=1) - ratio[:, 0] / 2,
            information=known[:, 0],
            slope=told - (curved - ratio * bent) / (2 * known),
        )


def _solve(score: Floats, ability: Floats, difficulty: Floats) -> tuple[Floats, _Curve]:
    """Newton's steps from abilities that are near."""
    for _ in range(MOST_STEPS):
        curve = _Curve.at(ability, difficulty)
        step = (score - curve.score) / curve.slope.sum(axis=1)
        if np.abs(step).max() < CLOSE:
            return ability, curve
        ability = ability + np.clip(step, -LONGEST_STEP, LONGEST_STEP)
    raise ConvergenceError(f"abilities still move by {np.abs(step).max():.3g}")
