"""Abilities by raw score of a test with points: Warm's estimates in the partial credit model.

`score_table` for points. With E, I and J the sums over items of the mean, the variance and the
third central moment of points at ability w, Warm's ability of raw score r solves r = E - J / 2I; J
is the derivative of I. A step difficulty enters each sum by its covariance with having reached the
step. Steps that all grow by c make abilities grow by c, so the derivative in w is minus the sum of
those in steps.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hushrank.estimation.common.links import Floats
from hushrank.estimation.responses.points_given_score import Steps
from hushrank.estimation.responses.score_table import BEYOND, NODES, ScoreTable, in_parts, solve


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
