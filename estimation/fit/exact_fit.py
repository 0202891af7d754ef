"""Minimise a penalised likelihood of integer counts, whatever the counts: to any tolerance.

Where float64 has digits enough, `solve.minimise` is much faster. Here scores and gradient are
integers in units so small that rounding the gradient is far below the tolerance, so the norm that
is compared with the tolerance is that of the exact gradient. Second derivatives need few digits:
they only choose the next step.

Why it ends. The objective is strictly convex, and its second derivatives are bounded on both sides.
A full Newton step is taken if it brings Newton's decrement, which the tolerance bounds from below,
to half its smallest value so far, and that happens only so often. Every other step goes along a
descent direction to where the objective still falls, but half as fast at most: there it is lower by
slope^2 / (4 curvature) or more, and steps of that kind converge from anywhere ([NW06] Theorem 3.2).
So no number of steps is a reason to fail, and nothing here raises because of the counts. That is
for ridges that float64 sees beside the weights of pairs; `config` bounds gamma by 1e-9 from below.

References:
    [NW06] Nocedal, Wright. Numerical optimization, 2nd edition. 2006.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import scipy
from numpy.typing import NDArray

from hushrank.estimation.common.links import Floats, Link
from hushrank.estimation.common.matrices import PairCounts
from hushrank.estimation.fit.fixed_point import FixedPoint, Integers, integers, slopes
from hushrank.estimation.fit.grounded_graph import GroundedGraph
from hushrank.privacy.exact_minimiser import LARGEST_OUTPUT, OUTPUT_BITS, OutputCover
from hushrank.privacy.randomness import RandomBits

BLOCK = 1 << 15  # pairs worked on at a time: some 10 MB of integers
STEP_BITS = 256  # a search knows the share of a step to that many
LEAST_BITS = 64


@dataclass(frozen=True)
class CountedObjective:
    """The objective of `likelihood`, of integer counts, in units of 2^-bits.

    Attributes:
        left, right: shape (k,), items of each pair that met.
        up, down: shape (k,), how often the left item beat the right one, and the other way round.
        row_weight: how many of these one comparison counts.
        n_items: n.
        link: logistic or Laplace.
        ridge: gamma, > 0.
        linear: shape (n,), in units, with sum zero but for less than n units.
        bits: of the units.
        most: units by which the l2 norm of the exact gradient may exceed 0.
    """

    left: NDArray[np.int64]
    right: NDArray[np.int64]
    up: NDArray[np.int64]
    down: NDArray[np.int64]
    row_weight: int
    n_items: int
    link: Link
    ridge: float
    linear: Integers
    bits: int
    most: int

    @classmethod
    def of(
        cls, counts: PairCounts, link: Link, ridge: float, linear: Floats, tolerance: float
    ) -> CountedObjective:
        """Units so small that rounding moves the gradient by less than 2^-8 of the tolerance.

        A slope is off by less than 4 units, so a pair's two items feel 8 units for each comparison
        at most; scores, ridge and `linear` add less than 8 units to each item.
        """
        left, right, up, down = _pairs(counts)
        most = len(up) * (int(up.max(initial=0)) + int(down.max(initial=0)))
        total = most + counts.n_items * (1 + math.ceil(ridge))
        bits = (8 * total).bit_length() + 8 + max(-math.frexp(tolerance)[1] + 1, 0)
        bits = max(bits, LEAST_BITS)
        units = FixedPoint.of(linear, bits).units
        top, bottom = tolerance.as_integer_ratio()
        return cls(
            left=left,
            right=right,
            up=up,
            down=down,
            row_weight=counts.row_weight,
            n_items=counts.n_items,
            link=link,
            ridge=ridge,
            linear=units - int(units.sum()) // counts.n_items,
            bits=bits,
            most=((top << bits) - (top << bits >> 8)) // bottom,
        )

    def derivatives(self, theta: Integers) -> tuple[Integers, GroundedGraph]:
        """Gradient of f in units, shape (n,), and its second derivatives."""
        pulls = integers([0] * self.n_items)
        weights = np.empty(len(self.left))
        for part, d in self._differences(theta):
            won, lost = slopes(d, self.link, self.bits)
            pull = self.up[part].astype(object) * won - self.down[part].astype(object) * lost
            np.add.at(pulls, self.left[part], -pull)
            np.add.at(pulls, self.right[part], pull)
            weights[part] = self._curvatures(part, FixedPoint(d, self.bits).floats())
        top, bottom = self.ridge.as_integer_ratio()
        gradient = pulls // self.row_weight + top * theta // bottom + self.linear
        graph = GroundedGraph(self.left, self.right, weights, self.ridge, self.n_items)
        return gradient, graph

    def _curvatures(self, part: slice, d: Floats) -> Floats:
        ahead, behind = self.link.curvature(d), self.link.curvature(-d)
        return np.asarray((self.up[part] * ahead + self.down[part] * behind) / self.row_weight)

    def _differences(self, theta: Integers) -> Iterator[tuple[slice, Integers]]:
        for start in range(0, len(self.left), BLOCK):
            part = slice(start, start + BLOCK)
            yield part, theta[self.left[part]] - theta[self.right[part]]

    def centred(self, theta: Integers) -> Integers:
        """With sum zero, but for less than n units: the likelihood depends on differences."""
        return np.asarray(theta - int(theta.sum()) // len(theta))

    def solved(self, gradient: Integers) -> bool:
        """The exact gradient is within the tolerance."""
        return int((gradient * gradient).sum()) <= self.most**2


def _pairs(counts: PairCounts) -> tuple[NDArray[np.int64], ...]:
    """Left and right item of the pairs that met, each once, and the wins of either."""
    wins = scipy.sparse.coo_array(counts.wins)
    winner, loser = (each.astype(np.int64) for each in wins.coords)
    cells = np.minimum(winner, loser) * counts.n_items + np.maximum(winner, loser)
    pairs, place = np.unique(cells, return_inverse=True)
    of_left, of_right = np.zeros((2, len(pairs)), np.int64)
    leftmost = winner < loser
    of_left[place[leftmost]] = wins.data[leftmost]
    of_right[place[~leftmost]] = wins.data[~leftmost]
    return *np.divmod(pairs, counts.n_items), of_left, of_right


class Solvable(Protocol):
    """Second derivatives."""

    def solve(self, right_side: Floats) -> Floats:
        """About x with matrix x = right_side; x . right_side > 0 unless both are 0."""
        ...


class ExactObjective(Protocol):
    """A strictly convex function in units of 2^-bits, as `CountedObjective` is."""

    @property
    def bits(self) -> int:
        """Of the units."""
        ...

    def derivatives(self, theta: Integers) -> tuple[Integers, Solvable]:
        """Gradient in units, and second derivatives."""
        ...

    def centred(self, theta: Integers) -> Integers:
        """Without what the function does not depend on."""
        ...

    def solved(self, gradient: Integers) -> bool:
        """The exact gradient is within the tolerance."""
        ...


@dataclass(frozen=True)
class _Point:
    """Scores, gradient and the Newton step there, in units; the decrement: minus their product."""

    theta: Integers
    gradient: Integers
    step: Integers
    decrement: int

    @classmethod
    def of(cls, objective: ExactObjective, theta: Integers) -> _Point:
        gradient, graph = objective.derivatives(theta)
        step = _newton_step(objective, gradient, graph)
        return cls(theta, gradient, step, -int((step * gradient).sum()))


def exact_fit(objective: ExactObjective, start: Floats) -> FixedPoint:
    """The scores at which the exact gradient has the tolerance's l2 norm at most.

    Args:
        objective: see `CountedObjective.of`.
        start: finite, of the shape of the scores; near the minimum it takes a few steps.
    """
    # No step moves the mean: what floats leave of it, times a large ridge, would stay for ever.
    units = objective.centred(FixedPoint.of(start, objective.bits).units)
    here = _Point.of(objective, units)
    least = here.decrement
    while not objective.solved(here.gradient):
        ahead = _Point.of(objective, here.theta + here.step)
        slope = int((here.step * ahead.gradient).sum())
        good = 2 * ahead.decrement <= least and 2 * abs(slope) <= here.decrement
        if not (good or objective.solved(ahead.gradient)):
            ahead = _Point.of(objective, _searched(objective, here, slope))
        here, least = ahead, min(least, ahead.decrement)
    return FixedPoint(here.theta, objective.bits)


def _newton_step(objective: ExactObjective, gradient: Integers, matrix: Solvable) -> Integers:
    """In units. The gradient is solved for as numbers up to 1, since it may be tiny or huge."""
    largest = int(np.abs(gradient).max()) or 1
    scaled = matrix.solve(np.array([-unit / largest for unit in gradient], np.float64))
    ratios = (value.as_integer_ratio() for value in scaled.tolist())
    step = integers(top * largest // bottom for top, bottom in ratios)
    return objective.centred(step)  # rounding moved all of them by the same


def _searched(objective: ExactObjective, here: _Point, slope: int) -> Integers:
    """A point along the step where the objective still falls, half as fast at most.

    Args:
        slope: along the whole step, at its end.
    """

    def at(length: int) -> Integers:
        return np.asarray(here.theta + (here.step * length >> STEP_BITS))

    steep = -here.decrement
    low, high, length, tries = (0, steep), (0, 0), 1 << STEP_BITS, 0
    while not steep <= 2 * slope <= 0:
        if slope < 0:
            low = length, slope
        else:
            high = length, slope
        length, tries = _between(low, high, tries) if high[0] else 2 * length, tries + 1
        slope = int((here.step * objective.derivatives(at(length))[0]).sum())
    return at(length)


def _between(low: tuple[int, int], high: tuple[int, int], tries: int) -> int:
    """A little before the place where a straight line is zero; every other time the middle."""
    if tries % 2:
        return (low[0] + high[0]) // 2
    return low[0] + (high[0] - low[0]) * 1023 * -low[1] // (1024 * (high[1] - low[1]))


def covered(minimiser: Floats | FixedPoint, cover: OutputCover | None, bits: RandomBits) -> Floats:
    """What leaves of a minimiser: with the noise that covers how it was found.

    Args:
        minimiser: in float64, or in integers where float64 cannot certify it; confidential.
        cover: None: nothing is protected, and the minimiser is as it was found.
        bits: `system_bits()` in a release.
    """
    if cover is None:
        return minimiser.floats() if isinstance(minimiser, FixedPoint) else minimiser
    if isinstance(minimiser, FixedPoint):
        return cover.apply_to_steps(minimiser.steps(OUTPUT_BITS, LARGEST_OUTPUT), bits)
    return cover.apply(minimiser, bits)
