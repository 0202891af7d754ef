"""Bradley-Terry scores from sums of half nets, plain or with the mechanism undone.

All pairs of each ranking enter, as if they had been compared one by one; the errors allow for their
not having been. To the likelihood the sums of half nets are sufficient, given how often each pair
was ranked: that is all it needs of a mechanism that is undone.

The ridge follows the noise. Undoing a mechanism that keeps a share k of half nets multiplies the
variance of the sums by 1 / k^2 at the same information, and the ridge has to grow as much: or noise
beyond what any scores explain drives them out of all bounds. And where the sums of all items
together show that true scores lie closer than that (`drawing_factor`), the ridge is what draws
scores as much.

Intervals of Bradley-Terry scores from noisy sums, however far the noise puts them.

The sums t of half nets have expectation mu(s) = sum_b W_ab (F(s_a - s_b) - 1/2) under scores s, and
a known covariance M. With Q(s) = (t - mu(s))' M^-1 (t - mu(s)), the interval of one score holds all
values v at which the smallest Q over scores with s_a = v exceeds the smallest Q of all by z^2 at
most: the likelihood ratio of a normal law ([MV00]). Where noise puts the sums beyond what any
scores explain, as a maximum likelihood fit with its standard errors cannot bear, an end of the
interval is infinite, and the other holds.

References:
    [BT52] Bradley, Terry. Rank analysis of incomplete block designs. 1952.
    [MV00] Murphy, van der Vaart. On profile likelihood. 2000.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray
from scipy.special import expit

from hushrank.estimation.common.estimate import Estimate, estimate_of
from hushrank.estimation.common.links import LOGISTIC, Floats, laplacian, score_differences
from hushrank.estimation.common.pair_separation import (
    ScoreErrors,
    difference_variance,
    separate_pairs,
)
from hushrank.estimation.common.uncertainty import LEVEL
from hushrank.estimation.fit.likelihood import Objective
from hushrank.estimation.fit.pair_fit import LEAST_KNOWN, RIDGE, require_fittable
from hushrank.estimation.fit.solve import minimise
from hushrank.estimation.rankings.net_evidence import NetEvidence
from hushrank.estimation.rankings.ranking_estimates import drawing_factor

FAR = 8.0  # log odds; a score that may be this large may be infinite
ROUNDS, STEPS, FIRST_STEPS, FIT_STEPS = 12, 4, 20, 40
EDGE = 0.02  # of a bracket, which the next value keeps away from its ends
LONGEST_PROFILE_STEP = 3.0


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
        probabilities = expit(scores[..., :, np.newaxis] - scores[..., np.newaxis, :]) - 0.5
        expected = (self.totals * probabilities).sum(axis=-1)
        return np.asarray((self.sums - expected) @ self.root.T)

    def slopes(self, scores: Floats) -> Floats:
        """Derivative of the residuals in the scores, shape (..., n - 1, n)."""
        probabilities = expit(scores[..., :, np.newaxis] - scores[..., np.newaxis, :])
        pairs = -self.totals * probabilities * (1 - probabilities)
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
        longest = np.maximum(np.abs(step).max(axis=-1), LONGEST_PROFILE_STEP)
        tried = np.clip(scores + step * (LONGEST_PROFILE_STEP / longest)[:, np.newaxis], -FAR, FAR)
        there = law.residuals(tried)
        reached = np.square(there).sum(axis=-1)
        better = reached <= fit
        scores = np.where(better[:, np.newaxis], tried, scores)
        residual = np.where(better[:, np.newaxis], there, residual)
        fit = np.where(better, reached, fit)
        damping = np.where(better, 0.1 * damping, 10 * damping)
    return scores, fit


MOST_PROFILED = 40  # items; more take minutes
LONGEST_STEP = 4.0  # of a score: further out nothing bounds it


@dataclass(frozen=True, slots=True)
class DrawnFit:
    """Bradley-Terry scores, and the ridge that drew them towards zero.

    Attributes:
        estimate: intervals and ranks are those of undrawn scores.
        ridge: c of c |scores|^2.
        factor: about what it multiplies a small score by.
    """

    estimate: Estimate
    ridge: float
    factor: float


@dataclass(frozen=True, slots=True, eq=False)
class _Undrawn:
    """Scores after a Newton step without the ridge; what is not known is left as it was.

    Attributes:
        scores: shape (n,).
        covariance: of their errors, shape (n, n).
        known: items of which the likelihood knows more than the ridge, by a factor.
        together: shape (n, n), both known and linked by comparisons.
    """

    scores: Floats
    covariance: Floats
    known: NDArray[np.bool_]
    together: NDArray[np.bool_]


def bradley_terry_estimate(evidence: NetEvidence, ridge: float = RIDGE) -> DrawnFit:
    """Scores of which the difference is the log odds of being ranked above ([BT52]).

    Up to `MOST_PROFILED` items intervals are those of `score_profile`; above, by one Newton step
    without the ridge. Every interval holds the published score. Items that nobody may have
    ranked, or of which the likelihood knows less than the ridge that was asked for, have infinite
    intervals and open ranks.

    Args:
        evidence: sums of half nets. Where the mechanism was not undone, scores are those of private
            rankings, and no interval of a true score is known: all are infinite.
        ridge: c at least, finite and > 0: it also carries items that nobody ranked.

    Raises:
        ValueError: fewer than 2 items, or the ridge is bad.
        ConvergenceError: no minimum was reached.
    """
    require_fittable(evidence.n_items, ridge)
    used = _ridge_for(evidence, ridge)
    objective = Objective(evidence.totals / 2, LOGISTIC, 2 * used, -evidence.sums)
    scores = minimise(objective).theta
    undrawn = _without_ridge(evidence, scores, ridge)
    spread = np.where(undrawn.together, difference_variance(undrawn.covariance), np.inf)
    extra = _bias_in_errors(evidence)

    def ends_at(tail: float) -> tuple[Floats, Floats]:
        low, high = _ends(evidence, scores, undrawn, extra + evidence.reach(tail))
        return np.minimum(low, scores), np.maximum(high, scores)

    def better_at(tail: float) -> NDArray[np.bool_]:
        margin = (2 * extra + evidence.reach(tail)) * np.sqrt(spread)
        ahead = score_differences(undrawn.scores) > margin
        return np.asarray(ahead & (score_differences(scores) > 0))

    estimate = estimate_of(
        scores,
        *ends_at(LEVEL / 2),
        separate_pairs(scores, better_at, ends_at, undrawn.covariance),
        informative=bool(undrawn.known.any()),
        errors=ScoreErrors(undrawn.scores, undrawn.covariance),
    )
    information = float(evidence.totals.sum()) / 4 / max(evidence.n_items - 1, 1)
    return DrawnFit(estimate, used, information / (information + 2 * used))


def _ridge_for(evidence: NetEvidence, ridge: float) -> float:
    """The ridge that the noise needs; `ridge` at least."""
    information = float(evidence.totals.sum()) / 4 / (evidence.n_items - 1)
    drawing = information * (1 / drawing_factor(evidence) - 1) / 2
    return max(ridge / evidence.kept**2, drawing)


def _without_ridge(evidence: NetEvidence, scores: Floats, ridge: float) -> _Undrawn:
    """A Newton step from the drawn scores by the curvature half-way; errors are of its end."""
    known = np.diagonal(_curvature(evidence, scores)) > LEAST_KNOWN * 2 * ridge
    known &= evidence.ranked
    chosen = np.ix_(known, known)
    probabilities = LOGISTIC.cdf(score_differences(scores))
    rest = evidence.sums - (evidence.totals * (probabilities - 0.5)).sum(axis=1)

    def inverse_at(place: Floats) -> Floats:
        return np.asarray(np.linalg.pinv(_curvature(evidence, place)[chosen], hermitian=True))

    def moved(place: Floats) -> Floats:
        step = np.zeros(len(scores))
        step[known] = inverse_at(place) @ rest[known]
        return np.asarray(scores + np.clip(step, -LONGEST_STEP, LONGEST_STEP))

    covariance = np.eye(len(scores)) / (2 * ridge)
    undrawn = scores.copy()
    if known.any():
        undrawn = moved((scores + moved(scores)) / 2)
        inverse = inverse_at(undrawn)
        covariance[chosen] = inverse @ evidence.covariance[chosen] @ inverse
    linked = np.where(known[:, np.newaxis] & known, evidence.totals, 0.0)
    _, part = scipy.sparse.csgraph.connected_components(linked > 0, directed=False)
    together = known[:, np.newaxis] & known & (part[:, np.newaxis] == part)
    return _Undrawn(undrawn, covariance, known, together)


def _curvature(evidence: NetEvidence, scores: Floats) -> Floats:
    """Curvature of the likelihood without the ridge, shape (n, n)."""
    probabilities = LOGISTIC.cdf(score_differences(scores))
    return laplacian(evidence.totals * probabilities * (1 - probabilities))


def _bias_in_errors(evidence: NetEvidence) -> float:
    """The bias that is left in the sums, in standard errors of the sum known best, at most."""
    if not evidence.undone:
        return 0.0
    smallest = np.sqrt(np.diagonal(evidence.covariance).min())
    return float(evidence.bias * evidence.rankings / smallest) if evidence.bias > 0 else 0.0


def _ends(
    evidence: NetEvidence, scores: Floats, undrawn: _Undrawn, size: float
) -> tuple[Floats, Floats]:
    """Ends of intervals of `size` standard errors to each side."""
    low, high = np.full(len(scores), -np.inf), np.full(len(scores), np.inf)
    known, linked = undrawn.known, undrawn.together[np.ix_(undrawn.known, undrawn.known)].all()
    if not evidence.undone or known.sum() < 2 or not linked:
        return low, high
    if known.sum() > MOST_PROFILED:
        reach = size * np.sqrt(np.diagonal(undrawn.covariance))
        low[known], high[known] = (undrawn.scores - reach)[known], (undrawn.scores + reach)[known]
        return low, high
    chosen, middle = np.ix_(known, known), scores[known].mean()
    probabilities = LOGISTIC.cdf(score_differences(scores)[known][:, ~known]) - 0.5
    against_others = (evidence.totals[known][:, ~known] * probabilities).sum(axis=1)
    sums = evidence.sums[known] - against_others
    law = NormalSums.of(sums, evidence.totals[chosen], evidence.covariance[chosen])
    ends = profile_ends(law, scores[known] - middle, size)
    low[known], high[known] = ends[0] + middle, ends[1] + middle
    return low, high
