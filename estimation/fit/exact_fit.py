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

Solve with the matrix of a weighted graph plus a ridge, however far apart its weights are.

    matrix = sum over edges of weight (e_i - e_j)(e_i - e_j)^T + ridge 1,   weights >= 0

Written out as entries, a ridge of 1 beside weights of 1e18 is lost to rounding, and so are the
scores of whole sets of items against each other. Here weights and ridge stay apart: elimination
takes sums and products of numbers that are not negative, and no difference ([AXY02]), and
iterations multiply by differences of neighbours.

A ridge is an edge to one more node, the ground, whose value is 0. Of this graph the tree of the
heaviest edges that spans it, in place of the matrix, makes the number of iterations depend on the
shape of the graph and not on its weights ([BCHT04]).

Real numbers as integers of any size, in units of 2^-bits: what float64 has no digits for.

Arrays are of Python's integers (`dtype=object`), so nothing overflows and sums are exact in every
order. Each function here says by how many units at most it can be off.

References:
    [NW06] Nocedal, Wright. Numerical optimization, 2nd edition. 2006.
    [AXY02] Alfa, Xue, Ye. Accurate computation of the smallest eigenvalue of a diagonally dominant
        M-matrix. 2002.
    [BCHT04] Boman, Chen, Hendrickson, Toledo. Maximum-weight-basis preconditioners. 2004.
    [MCA10] Brent, Zimmermann. Modern computer arithmetic. 2010.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import scipy
from numpy.typing import NDArray

from hushrank.estimation.common.links import LAPLACE, LOGISTIC, Floats, Link
from hushrank.estimation.common.matrices import PairCounts
from hushrank.privacy.exact_minimiser import LARGEST_OUTPUT, OUTPUT_BITS, OutputCover
from hushrank.privacy.randomness import RandomBits

Nodes = NDArray[np.int64]

ELIMINATED = 600  # nodes up to which elimination is faster than iterations
PATIENCE = 200  # iterations by the diagonal, which few graphs exceed, before the tree
MOST_ITERATIONS = 20_000
REDUCTION = 1e-10  # reduction of the energy, as measured on the tree
CAUTION = 1e-10  # times that, as the diagonal tells it

Preconditioner = Callable[[Floats], Floats]


@dataclass(frozen=True, slots=True)
class GroundedGraph:
    """Edges and ridge of the matrix above.

    Attributes:
        left, right: shape (k,), nodes of each edge; no edge comes twice.
        weights: shape (k,), finite, at least 0.
        ridge: finite, > 0.
        n_nodes: n.
    """

    left: Nodes
    right: Nodes
    weights: Floats
    ridge: float
    n_nodes: int

    def times(self, x: Floats) -> Floats:
        """The matrix times x, shape (n,)."""
        flow = self.weights * (x[self.left] - x[self.right])
        out = np.bincount(self.left, flow, self.n_nodes)
        return np.asarray(self.ridge * x + out - np.bincount(self.right, flow, self.n_nodes))

    def solve(self, right_side: Floats) -> Floats:
        """About x with matrix x = right_side, shape (n,); x . right_side > 0 unless both are 0."""
        if self.n_nodes <= ELIMINATED:
            return _eliminated(self._dense(), self.ridge, right_side)
        by_diagonal, by_tree = self._by_diagonal(), self._by_tree()
        x = np.zeros(self.n_nodes)
        for way, most, share in (
            (by_diagonal, PATIENCE, CAUTION * REDUCTION),
            (by_tree, MOST_ITERATIONS, REDUCTION),
        ):
            x = _conjugate_gradients(self, right_side, x, way, most, share)
        return x if x @ right_side > 0 else by_diagonal(right_side)

    def _dense(self) -> Floats:
        dense = np.zeros((self.n_nodes, self.n_nodes))
        dense[self.left, self.right] = dense[self.right, self.left] = self.weights
        return dense

    def _by_diagonal(self) -> Preconditioner:
        sums = np.bincount(self.left, self.weights, self.n_nodes)
        diagonal = self.ridge + sums + np.bincount(self.right, self.weights, self.n_nodes)
        return lambda right_side: np.asarray(right_side / diagonal)

    def _by_tree(self) -> Preconditioner:
        """Exact solutions for the heaviest tree: sums up to the ground, then values down from it.

        All that flows into the nodes behind an edge flows through it, and divided by its weight it
        is the difference of its two ends.
        """
        nodes, parent, weight = self._heaviest_tree()
        n, inner = self.n_nodes, parent < self.n_nodes
        row = np.empty(n, np.int64)
        row[nodes] = np.arange(n)
        entries = np.append(np.ones(n), np.full(int(inner.sum()), -1.0))
        rows = np.append(np.arange(n), np.flatnonzero(inner))
        columns = np.append(np.arange(n), row[parent[inner]])
        differences = scipy.sparse.csc_array(
            scipy.sparse.coo_array((entries, (rows, columns)), shape=(n, n))
        )
        down, up = (
            scipy.sparse.linalg.splu(each, permc_spec="NATURAL", diag_pivot_thresh=0.0)
            for each in (differences, scipy.sparse.csc_array(differences.T))
        )

        def solve(right_side: Floats) -> Floats:
            x = np.empty(n)
            x[nodes] = down.solve(up.solve(right_side[nodes]) / weight)
            return x

        return solve

    def _heaviest_tree(self) -> tuple[Nodes, Nodes, Floats]:
        """Return the nodes, each after its parent; their parents, n for the ground; the weights."""
        n = self.n_nodes
        one, other = np.append(self.left, np.arange(n)), np.append(self.right, np.full(n, n))
        weights = np.append(self.weights, np.full(n, self.ridge))
        heaviest_first = np.argsort(-weights, kind="stable")
        place = np.empty(len(weights))
        place[heaviest_first] = np.arange(1, len(weights) + 1)
        tree = scipy.sparse.csgraph.minimum_spanning_tree(
            scipy.sparse.csr_array(scipy.sparse.coo_array((place, (one, other)), (n + 1, n + 1)))
        )
        found, parent = scipy.sparse.csgraph.breadth_first_order(tree, n, directed=False)
        nodes, edges = found[1:].astype(np.int64), heaviest_first[tree.data.astype(np.int64) - 1]
        child = np.where(parent[one[edges]] == other[edges], one[edges], other[edges])
        weight = np.empty(n + 1)
        weight[child] = weights[edges]
        return nodes, parent[nodes].astype(np.int64), weight[nodes]


def _eliminated(weights: Floats, ridge: float, right_side: Floats) -> Floats:
    """Solve by elimination; `weights` is overwritten, and its diagonal means nothing."""
    n = len(right_side)
    excess, value = np.full(n, ridge), right_side.astype(np.float64)
    pivots, shares = np.empty(n), []
    for k in range(n):
        row = weights[k, k + 1 :]
        pivots[k] = excess[k] + row.sum()
        share = row / pivots[k]
        weights[k + 1 :, k + 1 :] += np.outer(share, row)
        excess[k + 1 :] += share * excess[k]
        value[k + 1 :] += share * value[k]
        shares.append(share)
    for k in reversed(range(n)):
        value[k] = value[k] / pivots[k] + shares[k] @ value[k + 1 :]
    return value


def _conjugate_gradients(
    graph: GroundedGraph,
    right_side: Floats,
    x: Floats,
    precondition: Preconditioner,
    most: int,
    share: float,
) -> Floats:
    """Improve x until the energy of what is left is that share of the whole.

    The tree is less than the matrix, so by the tree the energy of an error is not less than it is:
    what the diagonal takes for a solution is seen through, and costs one more iteration if it is.
    """
    residual = right_side - graph.times(x)
    search, energy = x, 0.0
    enough = share * max(float(right_side @ x), 0.0)
    for step in range(most):
        scaled = precondition(residual)
        previous, energy = energy, float(residual @ scaled)
        enough = enough or share * energy
        if not energy > enough:
            break
        search = scaled if step == 0 else scaled + energy / previous * search
        image = graph.times(search)
        length = energy / float(search @ image)
        x = x + length * search
        residual = residual - length * image
    return x


Integers = NDArray[np.object_]  # integers of Python

GUARD = 32  # bits carried beyond those asked for
HALVINGS = 16  # halvings of the argument of exp, before its series


@dataclass(frozen=True, slots=True)
class FixedPoint:
    """Real numbers `units` 2^-bits, exactly.

    Attributes:
        units: shape (n,), Python's integers.
        bits: number of fractional bits, at least 0.
    """

    units: Integers
    bits: int

    @classmethod
    def of(cls, values: Floats, bits: int) -> FixedPoint:
        """Finite numbers, each rounded down to a unit."""
        ratios = (value.as_integer_ratio() for value in np.asarray(values, np.float64).tolist())
        return cls(integers((top << bits) // bottom for top, bottom in ratios), bits)

    def floats(self) -> Floats:
        """The nearest floats, shape (n,)."""
        return np.array([unit / (1 << self.bits) for unit in self.units], np.float64)

    def steps(self, step_bits: int, largest: int) -> NDArray[np.int64]:
        """The nearest multiples of 2^-step_bits, at most `largest` of them on either side of 0."""
        finer = max(self.bits, step_bits)
        half = (1 << (finer - step_bits)) >> 1
        whole = ((self.units << (finer - self.bits)) + half) >> (finer - step_bits)
        steps: NDArray[np.int64] = np.clip(whole, -largest, largest).astype(np.int64)
        return steps


def integers(values: Iterable[int]) -> Integers:
    """Python's integers as an array, shape (k,)."""
    listed = list(values)
    array = np.empty(len(listed), np.object_)
    array[:] = listed
    return array


def exp_of_minus(x: Integers, bits: int) -> Integers:
    """exp(-x) for x >= 0, both in units of 2^-bits; off by less than 1.1 units.

    exp(-x) is the 2^16-th power of exp(-x / 2^16), whose series ([MCA10] 4.3) is short. A squaring
    doubles what is off and adds one unit of 2^-(bits + 32): 2^16 times the series' own 60 units
    remain below 2^-10 of a unit.
    """
    if not len(x):
        return x
    work, most = bits + GUARD, bits << bits  # exp of minus `bits` is below one unit
    small = (np.minimum(x, most) << GUARD) >> HALVINGS
    one = 1 << work
    power = np.full(len(x), one, np.object_)
    for j in range(_terms(math.log2(bits) - HALVINGS, work), 0, -1):
        power = one - ((small * power) >> work) // j
    for _ in range(HALVINGS):
        power = (power * power) >> work
    return np.asarray(power >> GUARD)


def _terms(log_argument: float, bits: int) -> int:
    """Count the terms of the series of exp until the next is below 2^-bits."""
    j, log_term = 0, 0.0
    while log_term > -bits:
        j += 1
        log_term += log_argument - math.log2(j)
    return j


def slopes(d: Integers, link: Link, bits: int) -> tuple[Integers, Integers]:
    """(log F)' at d and at -d, all in units of 2^-bits; off by less than 4 units.

    Raises:
        ValueError: the link has no formula here.
    """
    one = 1 << bits
    e = exp_of_minus(np.abs(d), bits)
    if link is LOGISTIC:
        low = (e << bits) // (one + e)  # the smaller of the two; 1 / (1 + e) is the other
        high = one - low
    elif link is LAPLACE:
        low, high = (e << bits) // (2 * one - e), np.full(len(d), one, np.object_)
    else:
        raise ValueError(f"no exact slopes for link {link.name}")
    ahead = d > 0
    return np.where(ahead, low, high), np.where(ahead, high, low)


BLOCK = 1 << 15  # pairs worked on at a time: some 10 MB of integers
STEP_BITS = 256  # a search knows the share of a step to that many
LEAST_BITS = 64


@dataclass(frozen=True)
class CountedObjective:
    """The objective of `likelihood`, of integer counts, in units of 2^-bits.

    Attributes:
        left, right: shape (k,), items of each pair that met.
        up, down: shape (k,), how often the left item beat the right one, and the other way round.
        row_weight: count of one comparison.
        n_items: n.
        link: logistic or Laplace.
        ridge: gamma, > 0.
        linear: shape (n,), in units, with sum zero but for less than n units.
        bits: fractional bits of the units.
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
        """Return theta with sum zero, to less than n units: only differences matter."""
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
        """Fractional bits of the units."""
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
    """Solve in units. The gradient is scaled to numbers up to 1, since it may be tiny or huge."""
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
    """Return the released part of a minimiser: with the noise that covers how it was found.

    Args:
        minimiser: minimiser in float64, or in integers where float64 cannot certify it;
            confidential.
        cover: noise of the cover; None: nothing is protected, and the minimiser is as it was found.
        bits: `system_bits()` in a release.
    """
    if cover is None:
        return minimiser.floats() if isinstance(minimiser, FixedPoint) else minimiser
    if isinstance(minimiser, FixedPoint):
        return cover.apply_to_steps(minimiser.steps(OUTPUT_BITS, LARGEST_OUTPUT), bits)
    return cover.apply(minimiser, bits)
