"""Ranks and intervals from private rankings: Kemeny consensus and Borda scores.

Rankings are taken as independent of each other; the pairs of one ranking are not. Their joint
variation is in the second moments of the half nets, whose sums all scores are computed from.

Undoing a mechanism multiplies scores and noise alike. Scores that are published are therefore drawn
towards zero again where the sums tell little (empirical Bayes, [M83]), but never below the private
rankings as they are: with few rankings or a small epsilon the sums are mostly noise. Intervals are
not drawn: they are those of the sums, hold the truth as often as they say for each item, the best
and the worst too, and always hold the published score.

References:
    [K59] Kemeny. Mathematics without numbers. 1959.
    [M83] Morris. Parametric empirical Bayes inference. 1983.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from hushrank.estimation.common.estimate import Estimate, estimate_of, mean_ranks
from hushrank.estimation.common.links import Floats, score_differences
from hushrank.estimation.common.pair_separation import BetterAt, separate_pairs
from hushrank.estimation.common.probabilities import SPREADS, ScoreErrors
from hushrank.estimation.common.uncertainty import LEVEL, RankSeparation
from hushrank.estimation.rankings.consensus import Consensus, kemeny
from hushrank.estimation.rankings.net_evidence import NetEvidence
from hushrank.estimation.rankings.ranking_evidence import RankingEvidence


def kemeny_estimate(evidence: RankingEvidence) -> tuple[Estimate, Consensus]:
    """The order with the fewest disagreements ([K59]); see `consensus.kemeny`.

    Scores are places above the middle, (n + 1) / 2 - rank. An item is surely ahead of another where
    the order says so and their margin is beyond chance; rank intervals and groups follow from that.
    """
    consensus = kemeny(evidence.wins)
    place = np.argsort(consensus.order)
    above = place[:, np.newaxis] < place

    def better_at(tail: float) -> NDArray[np.bool_]:
        return np.asarray((evidence.margins > evidence.reach(tail)) & above)

    informative = bool(evidence.totals.any())
    return order_estimate(consensus.order, better_at, informative=informative), consensus


def order_estimate(order: NDArray[np.int64], better_at: BetterAt, *, informative: bool) -> Estimate:
    """Places above the middle in an order, and the ranks that items may have.

    Args:
        order: items, best first.
        better_at: as for `separate_pairs`; it says nothing against the order.
        informative: whether anything was learned.
    """
    n_items, middle = len(order), (len(order) + 1) / 2
    rank = np.empty(n_items)
    rank[order] = np.arange(1, n_items + 1)
    scores = middle - rank

    def ends_at(_: float) -> tuple[Floats, Floats]:  # a score says no more than its rank
        return np.full(n_items, -np.inf), np.full(n_items, np.inf)

    separation = _with_places(separate_pairs(scores, better_at, ends_at), middle)
    return estimate_of(
        scores,
        np.asarray(middle - separation.rank_high, np.float64),
        np.asarray(middle - separation.rank_low, np.float64),
        separation,
        rank=rank,
        informative=informative,
    )


def _with_places(separation: RankSeparation, middle: float) -> RankSeparation:
    """The ends of scores that follow from those of ranks."""
    sure = separation.at_once
    if sure is None:
        return separation
    low, high = np.asarray(middle - sure.rank_high), np.asarray(middle - sure.rank_low)
    return replace(separation, at_once=replace(sure, low=low, high=high))


@dataclass(frozen=True, slots=True)
class Drawn:
    """Scores that were drawn towards zero.

    Attributes:
        estimate: of the scores; intervals and ranks are those of the undrawn ones.
        factor: what a small score was multiplied by, in [0, 1]; 1: not drawn.
    """

    estimate: Estimate
    factor: float


def borda_estimate(evidence: NetEvidence, *, drawn: bool = True) -> Drawn:
    """Mean number of places above the middle of a ranking; one without the item counts as 0.

    With complete rankings this is the Borda score, centred. A score is never further from 0 than
    half a list, so its interval is cut off there. Of an item that nobody may have ranked nothing is
    known: its interval and its rank are open, and its error is as large as a score can be.

    Args:
        evidence: sums of half nets. Where the mechanism was not undone, scores are those of private
            rankings, and no interval of a true score is known: all are infinite.
        drawn: draw the scores towards zero where that promises a smaller error, by
            `drawing_factor`.
    """
    n_items, n = evidence.n_items, max(evidence.rankings, 1)
    undrawn, covariance = evidence.sums / n, evidence.covariance / n**2
    known = evidence.ranked
    bias, reach = evidence.bias if evidence.undone else 0.0, (evidence.longest - 1) / 2
    factor = drawing_factor(evidence) if drawn else 1.0
    if drawn and (largest := float(np.abs(undrawn).max())) > 0:
        factor = min(factor, reach / largest)
    scores, error = factor * undrawn, np.sqrt(np.diagonal(covariance))
    between = np.sqrt(evidence.differences) / n
    if known.any():
        both = known[:, np.newaxis] & known
        covariance = np.where(both, covariance, reach**2 * np.eye(n_items))

    def ends_at(tail: float) -> tuple[Floats, Floats]:
        if not evidence.undone:
            return np.full(n_items, -np.inf), np.full(n_items, np.inf)
        half_width = evidence.reach(tail) * error + bias
        low, high = (np.clip(undrawn + side * half_width, -reach, reach) for side in (-1, 1))
        low, high = np.minimum(low, scores), np.maximum(high, scores)
        return np.where(known, low, -np.inf), np.where(known, high, np.inf)

    def better_at(tail: float) -> NDArray[np.bool_]:
        margin = evidence.reach(tail) * between + 2 * bias
        ahead = score_differences(undrawn) > margin
        return np.asarray(ahead & known[:, np.newaxis] & known)

    estimate = estimate_of(
        scores,
        *ends_at(LEVEL / 2),
        separate_pairs(undrawn, better_at, ends_at, covariance),
        rank=mean_ranks(undrawn),
        informative=bool(known.any()),
        errors=ScoreErrors(undrawn, covariance),
    )
    return Drawn(estimate, factor)


def drawing_factor(evidence: NetEvidence) -> float:
    """What undone sums are multiplied by: between what the mechanism left of them, and 1."""
    if not (evidence.undone and evidence.totals.any()):
        return 1.0
    return max(evidence.kept, shrinkage(evidence.sums, evidence.covariance))


def shrinkage(scores: Floats, covariance: Floats) -> float:
    """The factor in (0, 1] that brings unbiased scores nearest to the true ones, by what they show.

    True scores are taken as normal around zero with variance t^2, and the errors as of one size v:
    given t the best factor is t^2 / (t^2 + v). It is averaged over t by how well t explains the
    scores; before them, t and log t count as equally unknown (the prior is flat in t^(1/2)).
    """
    free = max(len(scores) - 1, 1)
    centred, size = scores - scores.mean(), float(np.square(scores - scores.mean()).sum())
    error = float(np.trace(covariance) - covariance.sum() / len(scores)) / free
    if size == 0 or error <= 0:
        return 1.0
    spreads = np.square(SPREADS) * size / len(centred)
    total = spreads + error
    log_weights = -0.5 * (free * np.log(total) + size / total) + 0.5 * np.log(SPREADS)
    weights = np.exp(log_weights - log_weights.max())
    return float(weights @ (spreads / total) / weights.sum())
