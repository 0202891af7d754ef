"""Abilities by raw score: Warm's weighted likelihood estimates, with standard errors.

Of a booklet of difficulties b, Warm's ability w of raw score r solves

    r = sum of P_i - J / 2I,

where P_i = 1 / (1 + e^(b_i - w)), I = sum of P_i (1 - P_i) and J is the derivative of I. It is
finite for every score, no point and all points included. Its squared standard error is 1 / I plus
g' C g, where C is the covariance of the errors of difficulties and g the derivative of w in b. All
of it is computed from released difficulties, so it is post-processing.

Abilities by raw score of a test with points: Warm's estimates in the partial credit model.

`score_table` for points. With E, I and J the sums over items of the mean, the variance and the
third central moment of points at ability w, Warm's ability of raw score r solves r = E - J / 2I; J
is the derivative of I. A step difficulty enters each sum by its covariance with having reached the
step. Steps that all grow by c make abilities grow by c, so the derivative in w is minus the sum of
those in steps.

References:
    Warm. Weighted likelihood estimation of ability in item response theory. 1989.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np
from scipy.special import expit

from hushrank.estimation.common.links import Floats
from hushrank.estimation.fit.solve import ConvergenceError
from hushrank.estimation.responses.partial_credit_fit import Steps

BEYOND = 15.0  # abilities of all scores lie within this of the easiest and of the hardest item
NODES = 401  # of the curve by which abilities are found first
MOST_STEPS, LONGEST_STEP, CLOSE = 50, 1.0, 1e-9
ROWS = 256  # scores that are solved at once


class WarmCurve(Protocol):
    """Warm's equation at some abilities."""

    @property
    def score(self) -> Floats:
        """The raw scores of which these are Warm's abilities, shape (abilities,)."""
        ...

    @property
    def information(self) -> Floats:
        """I at them."""
        ...

    @property
    def slope(self) -> Floats:
        """Derivative of `score` in the ability, the part of each difficulty, in columns."""
        ...


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

    @classmethod
    def of(cls, parts: Sequence[tuple[Floats, WarmCurve]], covariance: Floats) -> Self:
        """The table of abilities that solve Warm's equation, part by part.

        Args:
            parts: abilities with the equation at them.
            covariance: of the errors of difficulties.
        """
        ability = np.concatenate([part for part, _ in parts])
        curves = [curve for _, curve in parts]
        slope = np.concatenate([curve.slope for curve in curves])
        known = np.concatenate([curve.information for curve in curves])
        by_difficulty = slope / slope.sum(axis=1, keepdims=True)
        variance = 1 / known + ((by_difficulty @ covariance) * by_difficulty).sum(axis=1)
        return cls(ability, np.sqrt(variance), by_difficulty)


def score_table(difficulty: Floats, covariance: Floats) -> ScoreTable:
    """Compute the table of a booklet.

    Args:
        difficulty: of its items, shape (K,).
        covariance: of the errors of these, shape (K, K).

    Raises:
        ConvergenceError: no ability was found for a score.
    """
    nodes = np.linspace(difficulty.min() - BEYOND, difficulty.max() + BEYOND, NODES)
    reached = np.concatenate([Curve.at(part, difficulty).score for part in in_parts(nodes)])
    scores = np.arange(len(difficulty) + 1.0)
    start = np.interp(scores, reached, nodes)

    def at(ability: Floats) -> Curve:
        return Curve.at(ability, difficulty)

    return ScoreTable.of(
        [solve(*each, at) for each in zip(in_parts(scores), in_parts(start), strict=True)],
        covariance,
    )


def in_parts(values: Floats) -> list[Floats]:
    """Cut values into parts that are solved at once."""
    return np.split(values, range(ROWS, len(values), ROWS))


@dataclass(frozen=True, slots=True)
class Curve:
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
    def at(cls, ability: Floats, difficulty: Floats) -> Curve:
        """The equation at abilities, shape (abilities,)."""
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


def solve(
    score: Floats, ability: Floats, at: Callable[[Floats], WarmCurve]
) -> tuple[Floats, WarmCurve]:
    """Take Newton's steps to the abilities of scores, from abilities that are near.

    Args:
        score: shape (scores,).
        ability: where the steps start, shape (scores,).
        at: Warm's equation at some abilities.

    Raises:
        ConvergenceError: they still move.
    """
    for _ in range(MOST_STEPS):
        curve = at(ability)
        step = (score - curve.score) / curve.slope.sum(axis=1)
        if np.abs(step).max() < CLOSE:
            return ability, curve
        ability = ability + np.clip(step, -LONGEST_STEP, LONGEST_STEP)
    raise ConvergenceError(f"abilities still move by {np.abs(step).max():.3g}")


def point_score_table(steps: Steps, covariance: Floats) -> ScoreTable:
    """Compute the table of a test with points; `by_difficulty` is by step.

    Args:
        steps: of its items.
        covariance: of the errors of these, shape (steps, steps).

    Raises:
        ConvergenceError: no ability was found for a score.
    """
    nodes = np.linspace(steps.values.min() - BEYOND, steps.values.max() + BEYOND, NODES)
    reached = np.concatenate([PointCurve.at(part, steps).score for part in in_parts(nodes)])
    scores = np.arange(steps.top + 1.0)
    start = np.interp(scores, reached, nodes)

    def at(ability: Floats) -> PointCurve:
        return PointCurve.at(ability, steps)

    return ScoreTable.of(
        [solve(*each, at) for each in zip(in_parts(scores), in_parts(start), strict=True)],
        covariance,
    )


@dataclass(frozen=True, slots=True)
class PointCurve:
    """Warm's equation at some abilities; attributes as of `score_table.Curve`, slope by step."""

    score: Floats
    information: Floats
    slope: Floats

    @classmethod
    def at(cls, ability: Floats, steps: Steps) -> PointCurve:
        """The equation at abilities, shape (abilities,)."""
        chance = steps.chances(ability)
        points = np.arange(steps.most + 1)
        off = points - (chance @ points)[..., np.newaxis]
        spread = (chance * off**2).sum(axis=2)
        known = spread.sum(axis=1)[:, np.newaxis]
        bend = (chance * off**3).sum(axis=(1, 2))[:, np.newaxis]
        with_mean = steps.of_steps(chance * off)  # covariance of points and having reached a step
        with_square = steps.of_steps(chance * (off**2 - spread[..., np.newaxis]))
        third = (chance * off**3).sum(axis=2, keepdims=True)
        with_cube = steps.of_steps(chance * (off**3 - third))
        bent = with_cube - 3 * spread[:, steps.owner] * with_mean
        return cls(
            score=(chance @ points).sum(axis=1) - (bend / (2 * known))[:, 0],
            information=known[:, 0],
            slope=with_mean - (bent - bend / known * with_square) / (2 * known),
        )
