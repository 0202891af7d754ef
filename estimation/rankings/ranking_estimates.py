"""Ranks and intervals from private rankings: Kemeny consensus, Borda scores, Bradley-Terry scores.

Rankings are taken as independent of each other; the pairs of one ranking are not. Their joint
variation is in the second moments of the nets, which give the errors of Borda scores outright, and
those of Bradley-Terry scores by a sandwich: a ranking's part of the gradient of the likelihood in
an item's score is half the item's net less its expectation.

References:
    [K59] Kemeny. Mathematics without numbers. 1959.
    [BT52] Bradley, Terry. Rank analysis of incomplete block designs. 1952.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from hushrank.estimation.common.chances import ScoreErrors
from hushrank.estimation.common.estimate import Estimate, estimate_of
from hushrank.estimation.common.links import LOGISTIC, Floats
from hushrank.estimation.common.pair_separation import difference_variance, separate_pairs
from hushrank.estimation.common.uncertainty import LEVEL, RankSeparation
from hushrank.estimation.fit.likelihood import Objective
from hushrank.estimation.fit.pair_fit import (
    RIDGE,
    DebiasedFit,
    laplacian,
    require_fittable,
    sandwich_fit,
    score_differences,
)
from hushrank.estimation.fit.solve import minimise
from hushrank.estimation.rankings.consensus import Consensus, borda_scores, kemeny
from hushrank.estimation.rankings.ranking_evidence import RankingEvidence


def kemeny_estimate(evidence: RankingEvidence) -> tuple[Estimate, Consensus]:
    """The order with the fewest disagreements ([K59]); see `consensus.kemeny`.

    Scores are places above the middle, (n + 1) / 2 - rank. An item is surely ahead of another where
    the order says so and their margin is beyond chance; rank intervals and groups follow from that.
    """
    n_items = evidence.n_items
    consensus = kemeny(evidence.wins)
    rank = np.empty(n_items)
    rank[consensus.order] = np.arange(1, n_items + 1)
    middle = (n_items + 1) / 2
    scores = middle - rank
    above = score_differences(scores) > 0
    spread = np.sqrt(evidence.squares)

    def better_at(tail: float) -> NDArray[np.bool_]:
        return np.asarray((evidence.margins > -ndtri(tail) * spread) & above)

    def ends_at(_: float) -> tuple[Floats, Floats]:  # a score says no more than its rank
        return np.full(n_items, -np.inf), np.full(n_items, np.inf)

    separation = _with_places(separate_pairs(scores, better_at, ends_at), middle)
    estimate = estimate_of(
        scores,
        np.asarray(middle - separation.rank_high, np.float64),
        np.asarray(middle - separation.rank_low, np.float64),
        separation,
        rank=rank,
        informative=bool(evidence.totals.any()),
    )
    return estimate, consensus


def _with_places(separation: RankSeparation, middle: float) -> RankSeparation:
    """The ends of scores that follow from those of ranks."""
    sure = separation.at_once
    if sure is None:
        return separation
    low, high = np.asarray(middle - sure.rank_high), np.asarray(middle - sure.rank_low)
    return replace(separation, at_once=replace(sure, low=low, high=high))


def borda_estimate(evidence: RankingEvidence) -> Estimate:
    """Mean number of places above the middle of a ranking; one without the item counts as 0.

    With complete rankings this is the Borda score, centred.
    """
    n_items, n = evidence.n_items, max(evidence.rankings, 1)
    scores = borda_scores(evidence.wins) / n
    known = bool(evidence.totals.any())
    covariance = (evidence.moments / (4 * n) - np.outer(scores, scores)) / n
    # One ranking more of each kind: few that agree have hardly any variance.
    spread = np.maximum(np.diagonal(covariance), 0) + _floor(n_items, n)
    between = np.sqrt(difference_variance(covariance) + 2 * _floor(n_items, n))

    def ends_at(tail: float) -> tuple[Floats, Floats]:
        half_width = -ndtri(tail) * np.sqrt(spread) if known else np.full(n_items, np.inf)
        return scores - half_width, scores + half_width

    def better_at(tail: float) -> NDArray[np.bool_]:
        return np.asarray((score_differences(scores) > -ndtri(tail) * between) & known)

    return estimate_of(
        scores,
        *ends_at(LEVEL / 2),
        separate_pairs(scores, better_at, ends_at),
        informative=known,
        errors=ScoreErrors(scores, covariance + _floor(n_items, n) * np.eye(n_items)),
    )


def fit_bradley_terry(evidence: RankingEvidence, ridge: float = RIDGE) -> DebiasedFit:
    """Scores of which the difference is the log odds of being ranked above ([BT52]).

    All pairs of each ranking enter, as if they had been compared one by one; the errors allow for
    their not having been. `debiased.estimate_from` makes intervals and ranks of the fit.

    Args:
        evidence: wins of any sign, on totals of at least 0: then the objective is convex.
        ridge: c, finite and > 0: it also carries items that nobody ranked.

    Raises:
        ValueError: fewer than 2 items, or the ridge is bad.
        ConvergenceError: no minimum was reached.
    """
    require_fittable(evidence.n_items, ridge)
    objective = Objective(evidence.wins, LOGISTIC, 2 * ridge, np.zeros(evidence.n_items))
    solution = minimise(objective)
    differences = score_differences(solution.theta)
    curvature = laplacian(evidence.totals * LOGISTIC.information(differences))
    return sandwich_fit(objective, solution, curvature, _gradient_moments(evidence))


def _gradient_moments(evidence: RankingEvidence) -> Floats:
    """Covariance of the gradient, were the rankings drawn again: at most, where lists differ."""
    total = borda_scores(evidence.wins)
    return np.asarray(evidence.moments / 4 - np.outer(total, total) / max(evidence.rankings, 1))


def _floor(n_items: int, n: int) -> float:
    """Variance of a mean net over n rankings that one more ranking of each kind would show."""
    return ((n_items - 1) / 2) ** 2 / n**2
