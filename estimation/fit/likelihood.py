"""Penalised negative log-likelihood of a win matrix, dense or sparse.

    f(theta) = - sum over a, b of weights[a, b] log F(theta_a - theta_b)
               + (ridge / 2) |theta|^2 + linear . theta

Everything here happens on the sum-to-zero subspace, and nothing is lost by it. The likelihood
depends on differences of scores only, so at centred + c 1 the objective is
f(centred) + n ridge c^2 / 2 + c (linear . 1), and the two parts do not meet. Over all of R^n the
minimiser is therefore the centred one plus c = -mean(linear) / ridge, a number without data in it;
leaving it out of a private output is post-processing.

Minimise one penalised likelihood of few items with many linear terms at once.

    f(theta) = - sum over kinds of wins of wins log F(design . theta)
               + (1/2) sum over coordinates of ridge theta^2 + linear . theta

as in `likelihood` and `covariate_fit`, in float64. What cannot be certified there is left to the
fits of one: these are for many draws of one mechanism, and lose nothing by it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy
from numpy.typing import NDArray

from hushrank.estimation.common.links import Floats, Link
from hushrank.estimation.fit.exact_fit import FixedPoint, covered
from hushrank.privacy.exact_minimiser import OutputCover
from hushrank.privacy.randomness import RandomBits

Weights = Floats | scipy.sparse.csr_array

BLOCK = 1 << 15  # differences worked on at a time, so that they stay in the processor's cache
SPARSE_BLOCK = 1 << 19  # entries of a block; each block has a cost of its own
UNIT_ROUNDOFF = 2.0**-53


@dataclass(frozen=True)
class Objective:
    """The function f above, as a function of centred scores.

    Attributes:
        weights: shape (n, n), float64, zero diagonal, dense or CSR; entry (a, b) is how often a
            beat b, of any sign and size where it was estimated.
        link: F.
        ridge: gamma, finite, at least 0.
        linear: shape (n,); its mean does not matter.

    Raises:
        ValueError: the shapes or the type do not fit, or `ridge` is out of range.
    """

    weights: Weights
    link: Link
    ridge: float
    linear: Floats

    def __post_init__(self) -> None:
        if self.linear.ndim != 1 or self.weights.shape != 2 * self.linear.shape:
            raise ValueError(
                f"weights of shape {self.weights.shape} do not fit linear of shape "
                f"{self.linear.shape}"
            )
        if self.weights.dtype != np.float64:
            raise ValueError(f"weights must be float64, got {self.weights.dtype}")
        if not (math.isfinite(self.ridge) and self.ridge >= 0):
            raise ValueError(f"ridge must be finite and >= 0, got {self.ridge!r}")

    @property
    def n_items(self) -> int:
        """Number of scores."""
        return len(self.linear)

    @cached_property
    def _met(self) -> Floats | None:
        """How often items met, shape (n, n), where second derivatives need no more than that.

        None: they differ between wins and losses, or the weights are sparse.
        """
        if isinstance(self.weights, scipy.sparse.csr_array) or not self.link.outcome_free_curvature:
            return None
        return np.asarray(self.weights + self.weights.T)

    def value(self, theta: Floats) -> float:
        """f at centred scores, shape (n,)."""
        parts = _parts(self.weights)
        losses = (
            -float(np.vdot(parts.entries[part], self.link.log_cdf(d)))
            for part, d in parts.differences(theta)
        )
        return math.fsum(losses) + float(theta @ (self.ridge / 2 * theta + self.linear))

    def derivatives(self, theta: Floats) -> tuple[Floats, Hessian]:
        """Gradient of f within the subspace, shape (n,), and its second derivatives."""
        parts, won, lost = _parts(self.weights), np.zeros(len(theta)), np.zeros(len(theta))
        bent = parts.entries if self._met is None else self._met
        curvatures = np.empty_like(bent)
        for part, d in parts.differences(theta):
            slope, curvature = self.link.derivatives(d)
            np.multiply(bent[part], curvature, out=curvatures[part])
            np.multiply(parts.entries[part], slope, out=slope)
            parts.add_sums(part, slope, won, lost)
        gradient = lost - won + self.ridge * theta + self.linear
        both_ways = self._met is not None
        return centred(gradient), Hessian(parts.with_entries(curvatures), self.ridge, both_ways)

    def gradient_error(self, theta: Floats) -> float:
        """Bound on the l2 distance of the computed gradient from the exact one at `theta`.

        Each product weight * slope is good to a few units in the last place, plus what rounding
        the difference d does to the slope: at most 2 |d| units, since |(log slope)'| <= 2 for the
        logistic and Laplace links. Going through k additions costs at most k units more.
        """
        parts, pulls = _parts(self.weights), np.zeros(len(theta))
        for part, d in parts.differences(theta):
            size = np.abs(parts.entries[part]) * self.link.slope(d)
            parts.add_sums(part, size, pulls, pulls)
        units = 24 + 4 * float(np.abs(theta).max()) + parts.summation_depth
        rest = self.ridge * np.abs(theta) + np.abs(self.linear)
        return UNIT_ROUNDOFF * norm(units * pulls + 16 * (rest + rest.mean()))


@dataclass(frozen=True)
class Hessian:
    """Second derivatives of f: a weighted graph Laplacian plus the ridge.

    Attributes:
        curvatures: shape (n, n); the edge between a and b weighs the sum of its two entries.
        ridge: added on the diagonal.
        both_ways: each entry is that sum already.
    """

    curvatures: Weights
    ridge: float
    both_ways: bool = False

    @cached_property
    def edges(self) -> Weights:
        """The weights of the edges, shape (n, n), symmetric; CSR of sparse curvatures."""
        one_way = self.curvatures
        if self.both_ways:
            return one_way
        if isinstance(one_way, scipy.sparse.csr_array):
            return scipy.sparse.csr_array(one_way + one_way.T)
        return np.asarray(one_way + one_way.T)

    @cached_property
    def diagonal(self) -> Floats:
        """Shape (n,)."""
        return np.asarray(self.edges.sum(axis=1) + self.ridge)

    def times(self, vector: Floats) -> Floats:
        """The matrix times `vector`."""
        edges = self.edges
        if isinstance(edges, scipy.sparse.csr_array):
            return np.asarray(self.diagonal * vector - edges @ vector)
        # Not by BLAS: its threads wait for each other longer than the product takes.
        return np.asarray(self.diagonal * vector - np.einsum("ab,b->a", edges, vector))

    def dense(self) -> Floats:
        """The matrix itself, shape (n, n)."""
        edges = self.edges
        matrix = -(edges.toarray() if isinstance(edges, scipy.sparse.csr_array) else edges)
        matrix.flat[:: len(matrix) + 1] = self.diagonal
        return np.asarray(matrix)


def centred(vector: Floats) -> Floats:
    """The vector less its mean: its part in the subspace of sum zero."""
    return np.asarray(vector - vector.sum() / len(vector))


def norm(vector: Floats) -> float:
    """Return the l2 norm; for few numbers `np.linalg.norm` takes four times as long."""
    return math.sqrt(vector @ vector)


def summation_depth(n_items: int) -> int:
    """The most additions that a term of a dense gradient goes through.

    Rows of a part, then parts; 32 are enough for the tree in which numpy adds a contiguous row.
    """
    step = _rows_at_a_time(n_items)
    return step + -(-n_items // step) + 32


def _rows_at_a_time(n_items: int) -> int:
    return min(n_items, max(BLOCK // n_items, math.isqrt(n_items)))


@dataclass(frozen=True, slots=True)
class _DenseParts:
    """A dense matrix, some rows at a time."""

    entries: Floats

    @property
    def summation_depth(self) -> int:
        return summation_depth(len(self.entries))

    def differences(self, theta: Floats) -> Iterator[tuple[slice, Floats]]:
        """theta_a - theta_b at the entries (a, b) of each part, and where the part is."""
        step = _rows_at_a_time(len(theta))
        for start in range(0, len(theta), step):
            part = slice(start, start + step)
            yield part, theta[part, np.newaxis] - theta

    def add_sums(self, part: slice, entries: Floats, rows: Floats, columns: Floats) -> None:
        """Add the row and column sums of one part to the two vectors."""
        rows[part] += entries.sum(axis=1)
        columns += entries.sum(axis=0)

    def with_entries(self, entries: Floats) -> Floats:
        """The matrix with other entries."""
        return entries


@dataclass(frozen=True, slots=True)
class _SparseParts:
    """The stored entries of a sparse matrix, some at a time."""

    matrix: scipy.sparse.csr_array
    rows: NDArray[np.int32]

    @property
    def entries(self) -> Floats:
        return np.asarray(self.matrix.data)

    @property
    def summation_depth(self) -> int:
        in_row, in_column = np.diff(self.matrix.indptr), np.bincount(self.matrix.indices)
        n_blocks = -(-len(self.rows) // SPARSE_BLOCK)
        return int(max(in_row.max(), in_column.max(initial=0))) + n_blocks

    def differences(self, theta: Floats) -> Iterator[tuple[slice, Floats]]:
        """Yield differences like `_DenseParts.differences`."""
        for start in range(0, len(self.rows), SPARSE_BLOCK):
            part = slice(start, start + SPARSE_BLOCK)
            yield part, theta[self.rows[part]] - theta[self.matrix.indices[part]]

    def add_sums(self, part: slice, entries: Floats, rows: Floats, columns: Floats) -> None:
        """Add sums like `_DenseParts.add_sums`."""
        rows += np.bincount(self.rows[part], entries, len(rows))
        columns += np.bincount(self.matrix.indices[part], entries, len(columns))

    def with_entries(self, entries: Floats) -> scipy.sparse.csr_array:
        """Fill in entries like `_DenseParts.with_entries`."""
        places = (entries, self.matrix.indices, self.matrix.indptr)
        return scipy.sparse.csr_array(places, shape=self.matrix.shape)


def _parts(weights: Weights) -> _DenseParts | _SparseParts:
    if not isinstance(weights, scipy.sparse.csr_array):
        return _DenseParts(weights)
    rows = np.repeat(np.arange(weights.shape[0], dtype=np.int32), np.diff(weights.indptr))
    return _SparseParts(weights, rows)


MOST_STEPS = 40
LENGTHS = (1.0, 0.5, 0.125)  # lengths of a Newton step, until one makes the gradient smaller
FITS_AT_ONCE = 5_000  # linear terms worked on at a time


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
    starts = range(0, len(linear), FITS_AT_ONCE)
    parts = [_fits(likelihood, linear[start : start + FITS_AT_ONCE], tolerance) for start in starts]
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
