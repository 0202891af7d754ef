"""Minimise one penalised likelihood of few items with many linear terms at once.

    f(theta) = - sum over kinds of wins of wins log F(design . theta)
               + (1/2) sum over coordinates of ridge theta^2 + linear . theta

as in `likelihood` and `covariate_fit`, in float64. What cannot be certified there is left to the
fits of one: these are for many draws of one mechanism, and lose nothing by it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hushrank.estimation.common.links import Floats, Link
from hushrank.estimation.fit.exact_fit import FixedPoint, covered
from hushrank.estimation.fit.likelihood import UNIT_ROUNDOFF
from hushrank.privacy.exact_minimiser import OutputCover
from hushrank.privacy.randomness import RandomBits

MOST_STEPS = 40
LENGTHS = (1.0, 0.5, 0.125)  # lengths of a Newton step, until one makes the gradient smaller
BLOCK = 5_000  # linear terms worked on at a time


@dataclass(frozen=True, slots=True, kw_only=True)
class Likelihood:
    """The function f without its linear term.

    Attributes:
        design: shape (k, d): what a win of each kind adds to the argument of F.
        wins: shape (k,), how many there are.
        link: F: logistic or Laplace.
        ridges: shape (d,), > 0.
    """

    design: Floats
    wins: Floats
    link: Link
    ridges: Floats

    def pulls(self, points: Floats) -> Floats:
        """Minus the gradient, shape (runs, d), at points of that shape."""
        slopes, _ = self.link.derivatives(points @ self.design.T)
        return np.asarray((self.wins * slopes) @ self.design - self.ridges * points)

    def hessians(self, points: Floats) -> Floats:
        """Second derivatives at points of shape (runs, d), shape (runs, d, d)."""
        d = len(self.ridges)
        products = (self.design[:, :, None] * self.design[:, None, :]).reshape(-1, d * d)
        _, curvatures = self.link.derivatives(points @ self.design.T)
        found = ((self.wins * curvatures) @ products).reshape(-1, d, d)
        return np.asarray(found + np.diag(self.ridges))

    def gradient_errors(self, points: Floats, linear: Floats) -> Floats:
        """Bound on the l2 distance of each computed gradient from the exact one, shape (runs,).

        As `likelihood.Objective.gradient_error`. The argument of F is a sum of d terms, each good
        to a unit in the last place of the largest that any can be, and |(log slope)'| <= 2.
        """
        slopes, _ = self.link.derivatives(points @ self.design.T)
        sizes = (self.wins * slopes) @ np.abs(self.design)
        largest = np.abs(points).sum(axis=1, keepdims=True)
        units = 32 + 2 * (len(self.ridges) + 3) * largest + len(self.wins)
        rest = self.ridges * np.abs(points) + np.abs(linear)
        return np.asarray(UNIT_ROUNDOFF * np.linalg.norm(units * sizes + 16 * rest, axis=1))


def many_fits(
    likelihood: Likelihood, linear: Floats, tolerance: float
) -> tuple[Floats, NDArray[np.bool_]]:
    """Minimisers for each of many linear terms, and which of them are certain.

    Args:
        likelihood: a likelihood of few coordinates: second derivatives are factorised.
        linear: shape (runs, d).
        tolerance: l2 norm of the exact gradient, at most.

    Returns:
        Shapes (runs, d) and (runs,). Where the second is false, the first means nothing.
    """
    starts = range(0, len(linear), BLOCK)
    parts = [_fits(likelihood, linear[start : start + BLOCK], tolerance) for start in starts]
    points = np.concatenate(parts)
    with np.errstate(all="ignore"):
        norms = np.linalg.norm(linear - likelihood.pulls(points), axis=1)
        return points, norms + likelihood.gradient_errors(points, linear) <= tolerance


def covered_fits(
    linear: Floats,
    likelihood: Callable[[], Likelihood],
    alone: Callable[[int], Floats | FixedPoint],
    cover: OutputCover | None,
    tolerance: float,
    bits: RandomBits,
) -> Floats:
    """Return the released part of each minimiser, shape (runs, d): see `exact_fit.covered`.

    One is found as a release finds it; of several, those that are certain are found together.

    Args:
        linear: shape (runs, d).
        likelihood: makes the objective without its linear term; only several need it.
        alone: finds the minimiser of the run of that number.
        cover: None: nothing is protected.
        tolerance: see `many_fits`.
        bits: `system_bits()` in a release.
    """
    points, certain = np.empty(linear.shape), np.zeros(len(linear), np.bool_)
    if len(linear) > 1:
        minimisers, certain = many_fits(likelihood(), linear, tolerance)
        points[certain] = covered(minimisers[certain], cover, bits)
    for run in np.flatnonzero(~certain).tolist():
        points[run] = covered(alone(run), cover, bits)
    return points


def _fits(likelihood: Likelihood, linear: Floats, tolerance: float) -> Floats:
    points = np.zeros_like(linear)
    norms = np.linalg.norm(linear - likelihood.pulls(points), axis=1)
    moving = np.arange(len(linear))
    with np.errstate(all="ignore"):
        for _ in range(MOST_STEPS):
            moving = moving[norms[moving] > tolerance / 4]
            if not len(moving):
                break
            here = points[moving]
            gradients = linear[moving] - likelihood.pulls(here)
            steps = np.linalg.solve(likelihood.hessians(here), gradients[:, :, None])[:, :, 0]
            better = np.zeros(len(moving), np.bool_)
            for length in LENGTHS:
                open_ = np.flatnonzero(~better)
                ahead = here[open_] - length * steps[open_]
                there = np.linalg.norm(linear[moving[open_]] - likelihood.pulls(ahead), axis=1)
                good = there < norms[moving[open_]]
                points[moving[open_[good]]] = ahead[good]
                norms[moving[open_[good]]] = there[good]
                better[open_[good]] = True
            moving = moving[better]
    return points
