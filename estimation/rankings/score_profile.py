"""Intervals of Bradley-Terry scores from noisy sums, however far the noise puts them.

The sums t of half nets have expectation mu(s) = sum_b W_ab (F(s_a - s_b) - 1/2) under scores s, and
a known covariance M. With Q(s) = (t - mu(s))' M^-1 (t - mu(s)), the interval of one score holds all
values v at which the smallest Q over scores with s_a = v exceeds the smallest Q of all by z^2 at
most: the likelihood ratio of a normal law ([MV00]). Where noise puts the sums beyond what any
scores explain, as a maximum likelihood fit with its standard errors cannot bear, an end of the
interval is infinite, and the other holds.

References:
    [MV00] Murphy, van der Vaart. On profile likelihood. 2000.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from hushrank.estimation.common.links import Floats

FAR = 8.0  # log odds; a score that may be this large may be infinite
ROUNDS, STEPS, FIRST_STEPS, FIT_STEPS = 12, 4, 20, 40
EDGE = 0.02  # of a bracket, which the next value keeps away from its ends
LONGEST_STEP = 3.0


@dataclass(frozen=True, slots=True, eq=False)
class NormalSums:
    """The law of sums t of items that are compared with each other.

    Attributes:
        sums: t, shape (n,), n at least 2.
        totals: W, shape (n, n).
        root: K with K M K' = 1 on vectors that sum to zero, shape (n - 1, n).
    """

    sums: Floats
    totals: Floats
    root: Floats

    @classmethod
    def of(cls, sums: Floats, totals: Floats, covariance: Floats) -> NormalSums:
        """From the covariance of the sums, which must have a variance in every direction."""
        free = directions(len(sums))
        factor = np.linalg.cholesky(free.T @ covariance @ free)
        return cls(sums, totals, np.linalg.solve(factor, free.T))

    def residuals(self, scores: Floats) -> Floats:
        """K (t - mu(s)) of scores of shape (..., n)."""
        chances = expit(scores[..., :, np.newaxis] - scores[..., np.newaxis, :]) - 0.5
        expected = (self.totals * chances).sum(axis=-1)
        return np.asarray((self.sums - expected) @ self.root.T)

    def slopes(self, scores: Floats) -> Floats:
        """Derivative of the residuals in the scores, shape (..., n - 1, n)."""
        chances = expit(scores[..., :, np.newaxis] - scores[..., np.newaxis, :])
        pairs = -self.totals * chances * (1 - chances)
        every = np.arange(len(self.sums))
        pairs[..., every, every] = -pairs.sum(axis=-1)
        return np.asarray(-self.root @ pairs)


def profile_ends(law: NormalSums, near: Floats, size: float) -> tuple[Floats, Floats]:
    """Ends of the interval of each score less the mean of all, shape (n,); they may be infinite.

    Args:
        law: of the sums.
        near: shape (n,), scores to start from; they sum to zero.
        size: z.
    """
    n = len(near)
    items, side = np.tile(np.arange(n), 2), np.repeat([-1.0, 1.0], n)
    row, free = np.arange(2 * n), _directions_without_each(n)[items]
    best, least = _descend(law, near[np.newaxis], directions(n)[np.newaxis], FIT_STEPS)
    start, found = np.tile(near, (2 * n, 1)), np.tile(best[0], (2 * n, 1))
    lowest, inner = float(least[0]), np.clip(best[0], -FAR, FAR)[items]
    outer, closed = side * FAR, np.zeros(2 * n, np.bool_)
    least_in, least_out = np.full(2 * n, -size), np.full(2 * n, np.inf)
    for round_ in range(ROUNDS + 1):
        value = _between(inner, outer, least_in, least_out) if round_ else outer
        steps = STEPS if round_ else FIRST_STEPS
        scores, fit = _best_of(law, (found, start), row, items, value, free, steps)
        lowest = min(lowest, float(fit.min()))
        excess = np.sqrt(fit - lowest) - size  # about linear in the value
        inside = excess <= 0
        closed = ~inside if round_ == 0 else closed
        least_in, least_out = (
            np.where(inside, excess, least_in / 2 if round_ else least_in),  # Illinois
            np.where(inside, least_out / 2, excess),
        )
        inner, outer = np.where(inside, value, inner), np.where(inside, outer, value)
        found = np.where(inside[:, np.newaxis], scores, found)
    # A bracket is never left on the wrong side: its outer end is outside.
    end = np.where(closed, outer, side * np.inf)
    return end[:n], end[n:]


def _between(inner: Floats, outer: Floats, low: Floats, high: Floats) -> Floats:
    """Where a line through both ends of a bracket crosses zero, kept away from the ends.

    In shares of wins, tanh(v / 2): far out, the sums hardly change with the score.
    """
    share = np.clip(low / (low - high), EDGE, 1 - EDGE)
    inner, outer = np.tanh(inner / 2), np.tanh(outer / 2)
    return np.asarray(2 * np.arctanh(inner + (outer - inner) * share))


def _best_of(
    law: NormalSums,
    starts: tuple[Floats, Floats],
    row: NDArray[np.intp],
    items: NDArray[np.intp],
    value: Floats,
    free: Floats,
    steps: int,
) -> tuple[Floats, Floats]:
    """The better of two descents with one score at a value."""
    ends = [_descend(law, _moved(at, row, items, value), free, steps) for at in starts]
    first = ends[0][1] <= ends[1][1]
    scores = np.where(first[:, np.newaxis], ends[0][0], ends[1][0])
    return np.asarray(scores), np.minimum(ends[0][1], ends[1][1])


def directions(n: int) -> Floats:
    """An orthonormal basis of the vectors that sum to zero, shape (n, n - 1) (Helmert)."""
    basis = np.zeros((n, n - 1))
    for k in range(1, n):
        basis[:k, k - 1] = 1.0
        basis[k, k - 1] = -k
        basis[:, k - 1] /= np.sqrt(k * (k + 1))
    return basis


def _directions_without_each(n: int) -> Floats:
    """The same with one item held, for each item, shape (n, n, n - 2)."""
    free = np.zeros((n, n, max(n - 2, 0)))
    for item in range(n):
        free[item, np.arange(n) != item] = directions(n - 1)
    return free


def _moved(scores: Floats, row: NDArray[np.intp], items: NDArray[np.intp], value: Floats) -> Floats:
    """Scores with one of them at a value, and the others moved alike so that all sum to zero."""
    shift = (value - scores[row, items]) / max(scores.shape[1] - 1, 1)
    moved = scores - shift[:, np.newaxis]
    moved[row, items] = value
    return np.asarray(moved)


def _descend(law: NormalSums, scores: Floats, free: Floats, steps: int) -> tuple[Floats, Floats]:
    """Levenberg-Marquardt steps on Q along free directions, for many starts at once."""
    residual = law.residuals(scores)
    fit = np.square(residual).sum(axis=-1)
    if not free.shape[-1]:
        return scores, fit
    damping, every = np.full(len(scores), 1e-3), np.arange(free.shape[-1])
    for _ in range(steps):
        slopes = law.slopes(scores) @ free
        across = np.swapaxes(slopes, -1, -2)
        normal, pull = across @ slopes, across @ residual[..., np.newaxis]
        size = normal[:, every, every].mean(axis=-1)
        normal[:, every, every] += (damping * size + 1e-12)[:, np.newaxis]
        step = -(free @ np.linalg.solve(normal, pull))[..., 0]
        longest = np.maximum(np.abs(step).max(axis=-1), LONGEST_STEP)
        tried = np.clip(scores + step * (LONGEST_STEP / longest)[:, np.newaxis], -FAR, FAR)
        there = law.residuals(tried)
        reached = np.square(there).sum(axis=-1)
        better = reached <= fit
        scores = np.where(better[:, np.newaxis], tried, scores)
        residual = np.where(better[:, np.newaxis], there, residual)
        fit = np.where(better, reached, fit)
        damping = np.where(better, 0.1 * damping, 10 * damping)
    return scores, fit
