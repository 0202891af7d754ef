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

import numpy as np
from scipy.special import ndtri

from hushrank.estimation.common.estimate import Estimate, estimate_of
from hushrank.estimation.common.links import LOGISTIC, Floats
from hushrank.estimation.common.pair_separation import difference_variance, separate_pairs
from hushrank.estimation.common.uncertainty import LEVEL, pair_tail
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
    sure = evidence.margins > -ndtri(pair_tail(n_items)) * np.sqrt(evidence.squares)
    separation = separate_pairs(scores, sure & (score_differences(scores) > 0))
    estimate = estimate_of(
        scores,
        np.asarray(middle - separation.rank_high, np.float64),
        np.asarray(middle - separation.rank_low, np.float64),
        separation,
        rank=rank,
        informative=bool(evidence.totals.any()),
    )
    return estimate, consensus


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
    half_width = -ndtri(LEVEL / 2) * np.sqrt(spread) if known else np.full(n_items, np.inf)
    variance = difference_variance(covariance) + 2 * _floor(n_items, n)
    margin = -ndtri(pair_tail(n_items)) * np.sqrt(variance)
    sure = (score_differences(scores) > margin) & known
    separation = separate_pairs(scores, sure)
    return estimate_of(
        scores, scores - half_width, scores + half_width, separation, informative=known
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
