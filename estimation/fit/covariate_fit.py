"""Minimise a penalised likelihood of comparisons with covariates, to a gradient that is certain.

    f(theta) = - sum over cells of weight log F(theta_winner - theta_loser + z . effects)
               + (1/2) sum over coordinates of ridge theta^2 + linear . theta

with F logistic and theta the n scores followed by the q effects. As in `likelihood`, `solve` and
`exact_fit`: in float64 where that can be certified, else in integers of any size.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from hushrank.estimation.common.covariates import STEPS, CovariateCounts
from hushrank.estimation.common.links import LOGISTIC, Floats, laplacian
from hushrank.estimation.fit.exact_fit import FixedPoint, Integers, exact_fit, integers, slopes
from hushrank.estimation.fit.likelihood import UNIT_ROUNDOFF, Likelihood, norm

BLOCK = 1 << 10  # cells added one after the other; their sums are added pairwise
EXACT_BLOCK = 1 << 13  # cells worked on at a time, as integers of any size
MOST_STEPS = 100  # steps of a fit in float64
MOST_HALVINGS = 40
SUFFICIENT_DECREASE = 1e-4
LEAST_BITS = 64
Codes = NDArray[np.int64]


@dataclass(frozen=True)
class CovariateObjective:
    """The function f, in float64.

    Attributes:
        winner, loser: shape (k,).
        covariates: shape (k, q), in [-1, 1], multiples of 1 / STEPS, as they speak for the winner.
        weights: shape (k,), comparisons, > 0.
        ridges, linear: shape (n + q,).
    """

    winner: Codes
    loser: Codes
    covariates: Floats
    weights: Floats
    ridges: Floats
    linear: Floats

    @classmethod
    def of(cls, counts: CovariateCounts, ridges: Floats, linear: Floats) -> CovariateObjective:
        """The objective of `counts`."""
        winner, loser = counts.items
        covariates = counts.steps / STEPS
        return cls(winner, loser, covariates, counts.comparisons, ridges, linear)

    @property
    def n_items(self) -> int:
        """Number of scores."""
        return len(self.linear) - int(self.covariates.shape[1])

    def differences(self, theta: Floats) -> Floats:
        """The argument of F for each cell, shape (k,)."""
        apart = theta[self.winner] - theta[self.loser]
        return np.asarray(apart + self.covariates @ theta[self.n_items :])

    def value(self, theta: Floats) -> float:
        """f."""
        losses = -float(self.weights @ LOGISTIC.log_cdf(self.differences(theta)))
        return losses + float(theta @ (self.ridges / 2 * theta + self.linear))

    def gradient(self, theta: Floats) -> Floats:
        """Gradient of f, shape (n + q,)."""
        pulls = self.weights * LOGISTIC.slope(self.differences(theta))
        return self._sums(-pulls, signed=True) + self.ridges * theta + self.linear

    def hessian(self, theta: Floats) -> Floats:
        """Hessian of f, shape (n + q, n + q)."""
        weights = self.weights * LOGISTIC.curvature(self.differences(theta))
        matrix = information(self.winner, self.loser, self.covariates, weights, self.n_items)
        matrix.flat[:: len(matrix) + 1] += self.ridges
        return matrix

    def gradient_error(self, theta: Floats) -> float:
        """Bound on the l2 distance of the computed gradient from the exact one.

        As `likelihood.Objective.gradient_error`. The argument d is a sum of q + 2 terms, each good
        to a unit in the last place of the largest that any can be; the slope's relative error is at
        most that of d, since |(log slope)'| <= 1. A term then goes through at most BLOCK additions,
        and through 128 more as pairwise sums are made.
        """
        effects = np.abs(theta[self.n_items :])
        largest = 2 * float(np.abs(theta[: self.n_items]).max()) + float(effects.sum())
        size = self._sums(self.weights * LOGISTIC.slope(self.differences(theta)), signed=False)
        units = 32 + 2 * (len(effects) + 3) * largest + BLOCK + 128
        rest = self.ridges * np.abs(theta) + np.abs(self.linear)
        return UNIT_ROUNDOFF * norm(units * size + 16 * rest)

    def _sums(self, terms: Floats, *, signed: bool) -> Floats:
        """Sums of `terms` times the rows of the design, or times their absolute values."""
        n, side = self.n_items, -1.0 if signed else 1.0
        covariates = self.covariates if signed else np.abs(self.covariates)
        starts = range(0, max(len(terms), 1), BLOCK)
        partial = np.empty((len(self.linear), len(starts)))
        for place, start in enumerate(starts):
            part = slice(start, start + BLOCK)
            won = np.bincount(self.winner[part], terms[part], n)
            lost = np.bincount(self.loser[part], terms[part], n)
            partial[:n, place] = won + side * lost
            partial[n:, place] = terms[part] @ covariates[part]
        return np.asarray(partial.sum(axis=1))


def information(
    winner: Codes, loser: Codes, covariates: Floats, weights: Floats, n_items: int
) -> Floats:
    """Sum over cells of weight x x', x the rows of the design; shape (n + q, n + q)."""
    n, q = n_items, covariates.shape[1]
    matrix = np.zeros((n + q, n + q))
    edges = np.asarray(np.bincount(winner * n + loser, weights, n * n), np.float64).reshape(n, n)
    matrix[:n, :n] = laplacian(edges + edges.T)
    for k in range(q):
        along = weights * covariates[:, k]
        matrix[:n, n + k] = np.bincount(winner, along, n) - np.bincount(loser, along, n)
    matrix[n:, :n] = matrix[:n, n:].T
    matrix[n:, n:] = (covariates * weights[:, np.newaxis]).T @ covariates
    return matrix


@dataclass(frozen=True)
class CountedCovariates:
    """The function f of integer counts, in units of 2^-bits; see `exact_fit.CountedObjective`.

    Attributes:
        counts: counts of comparisons, and the count of one comparison.
        ridges: shape (n + q,).
        linear: shape (n + q,), in units.
        bits: fractional bits of the units.
        most: units by which the l2 norm of the exact gradient may exceed 0.
    """

    counts: CovariateCounts
    ridges: Floats
    linear: Integers
    bits: int
    most: int

    @classmethod
    def of(
        cls, counts: CovariateCounts, ridges: Floats, linear: Floats, tolerance: float
    ) -> CountedCovariates:
        """Units so small that rounding moves the gradient by less than 2^-8 of the tolerance.

        The argument of F is off by less than a unit and the slope by less than 5, so a cell's two
        items and its covariates feel (2 + q) 5 units for each comparison at most.
        """
        most = 5 * (2 + counts.n_covariates) * int(counts.counts.sum())
        total = most + len(linear) * (2 + math.ceil(ridges.max()))
        bits = (8 * total).bit_length() + 8 + max(-math.frexp(tolerance)[1] + 1, 0)
        bits = max(bits, LEAST_BITS)
        top, bottom = tolerance.as_integer_ratio()
        return cls(
            counts=counts,
            ridges=ridges,
            linear=FixedPoint.of(linear, bits).units,
            bits=bits,
            most=((top << bits) - (top << bits >> 8)) // bottom,
        )

    def derivatives(self, theta: Integers) -> tuple[Integers, _Dense]:
        """Gradient of f in units, shape (n + q,), and its second derivatives."""
        n, row_weight = self.counts.n_items, self.counts.row_weight
        winner, loser = self.counts.items
        steps, gradient = self.counts.steps, integers([0] * len(theta))
        weights = np.empty(len(winner))
        for start in range(0, len(winner), EXACT_BLOCK):
            part = slice(start, start + EXACT_BLOCK)
            spoken = (steps[part].astype(object) * theta[n:]).sum(axis=1) // STEPS
            d = theta[winner[part]] - theta[loser[part]] + spoken
            won, _ = slopes(d, LOGISTIC, self.bits)
            pull = self.counts.counts[part].astype(object) * won
            np.add.at(gradient, winner[part], -pull)
            np.add.at(gradient, loser[part], pull)
            along = (steps[part].astype(object) * pull[:, np.newaxis]).sum(axis=0)
            gradient[n:] -= along // STEPS
            weights[part] = LOGISTIC.curvature(FixedPoint(d, self.bits).floats())
        ratios = (ridge.as_integer_ratio() for ridge in self.ridges.tolist())
        held = integers(
            top * unit // bottom for (top, bottom), unit in zip(ratios, theta, strict=True)
        )
        comparisons = weights * self.counts.comparisons
        matrix = information(winner, loser, steps / STEPS, comparisons, n)
        hessian = _Dense(matrix + np.diag(self.ridges))
        return gradient // row_weight + held + self.linear, hessian

    def centred(self, theta: Integers) -> Integers:
        """Return theta unchanged: scores and effects are free, and the ridges hold them."""
        return theta

    def solved(self, gradient: Integers) -> bool:
        """The exact gradient is within the tolerance."""
        return int((gradient * gradient).sum()) <= self.most**2


@dataclass(frozen=True, slots=True)
class _Dense:
    """A positive definite matrix."""

    matrix: Floats

    def solve(self, right_side: Floats) -> Floats:
        """About x with matrix x = right_side; x . right_side > 0 unless both are 0."""
        scale = 1 / np.sqrt(np.diagonal(self.matrix))
        scaled = right_side * scale
        # SciPy's two functions for this take longer than it does where there are a few items.
        _, x, flaw = scipy.linalg.lapack.dposv(
            self.matrix * np.outer(scale, scale), scaled, lower=True
        )
        if flaw or not (np.isfinite(x).all() and x @ scaled > 0):
            x = scaled
        return np.asarray(x * scale)


def fit_covariates(
    counts: CovariateCounts, ridges: Floats, linear: Floats, tolerance: float
) -> Floats | FixedPoint:
    """A point at which the exact gradient of f has the tolerance's l2 norm at most.

    Any counts have a minimiser: what float64 cannot certify is solved in integers.

    Args:
        counts: confidential.
        ridges: shape (n + q,), > 0.
        linear: shape (n + q,).
        tolerance: > 0.
    """
    objective, start = CovariateObjective.of(counts, ridges, linear), np.zeros(len(linear))
    with np.errstate(all="ignore"):
        theta = _descended(objective, start, tolerance / 2)
        if np.isfinite(theta).all():
            start = theta
            steep = norm(objective.gradient(theta))
            if steep + objective.gradient_error(theta) <= tolerance:
                return theta
    return exact_fit(CountedCovariates.of(counts, ridges, linear, tolerance), start)


def _descended(objective: CovariateObjective, theta: Floats, tolerance: float) -> Floats:
    """Damped Newton steps, until the gradient is within the tolerance or nothing gets better."""
    gradient = objective.gradient(theta)
    for _ in range(MOST_STEPS):
        if norm(gradient) <= tolerance:
            break
        step = -_Dense(objective.hessian(theta)).solve(gradient)
        value, slope, length = objective.value(theta), float(step @ gradient), 1.0
        for _ in range(MOST_HALVINGS):
            ahead = theta + length * step
            there = objective.gradient(ahead)
            closer = norm(there) <= norm(gradient) / 2
            if closer or objective.value(ahead) <= value + SUFFICIENT_DECREASE * length * slope:
                break
            length /= 2
        else:
            break
        theta, gradient = ahead, there
    return theta


def likelihood_of(counts: CovariateCounts, ridges: Floats) -> Likelihood:
    """The function f without its linear term, for few items."""
    items, (winner, loser) = np.eye(counts.n_items), counts.items
    return Likelihood(
        design=np.hstack([items[winner] - items[loser], counts.steps / STEPS]),
        wins=counts.comparisons,
        link=LOGISTIC,
        ridges=ridges,
    )
