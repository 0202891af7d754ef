"""Bradley-Terry scores from sums of half nets, plain or with the mechanism undone.

All pairs of each ranking enter, as if they had been compared one by one; the errors allow for their
not having been. To the likelihood the sums of half nets are sufficient, given how often each pair
was ranked: that is all it needs of a mechanism that is undone.

The ridge follows the noise. Undoing a mechanism that keeps a share k of half nets multiplies the
variance of the sums by 1 / k^2 at the same information, and the ridge has to grow as much: or noise
beyond what any scores explain drives them out of all bounds. And where the sums of all items
together show that true scores lie closer than that (`drawing_factor`), the ridge is what draws
scores as much.

References:
    [BT52] Bradley, Terry. Rank analysis of incomplete block designs. 1952.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from hushrank.estimation.common.chances import ScoreErrors
from hushrank.estimation.common.estimate import Estimate, estimate_of
from hushrank.estimation.common.links import LOGISTIC, Floats, laplacian, score_differences
from hushrank.estimation.common.pair_separation import difference_variance, separate_pairs
from hushrank.estimation.common.uncertainty import LEVEL
from hushrank.estimation.fit.likelihood import Objective
from hushrank.estimation.fit.pair_fit import LEAST_KNOWN, RIDGE, require_fittable
from hushrank.estimation.fit.solve import minimise
from hushrank.estimation.rankings.net_evidence import NetEvidence
from hushrank.estimation.rankings.ranking_estimates import drawing_factor
from hushrank.estimation.rankings.score_profile import NormalSums, profile_ends

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
    chances = LOGISTIC.cdf(score_differences(scores))
    rest = evidence.sums - (evidence.totals * (chances - 0.5)).sum(axis=1)

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
    """Of the likelihood, without the ridge, shape (n, n)."""
    chances = LOGISTIC.cdf(score_differences(scores))
    return laplacian(evidence.totals * chances * (1 - chances))


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
    chances = LOGISTIC.cdf(score_differences(scores)[known][:, ~known]) - 0.5
    against_others = (evidence.totals[known][:, ~known] * chances).sum(axis=1)
    sums = evidence.sums[known] - against_others
    law = NormalSums.of(sums, evidence.totals[chosen], evidence.covariance[chosen])
    ends = profile_ends(law, scores[known] - middle, size)
    low[known], high[known] = ends[0] + middle, ends[1] + middle
    return low, high
