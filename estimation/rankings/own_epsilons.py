"""Sums over private rankings whose people chose their own epsilon: weights, and a check of them.

Rankings of one epsilon (a *level*) are undone by their own table, so each level gives an unbiased
estimate of its own people's sums. Levels are independent of each other. With a weight w for each
ranking of a level, and a mean weight of 1, the weighted sums have the variance sum w^2 Var.

*Precision weights* are proportional to 1 / the variance that one ranking adds. They have the
smallest variance, and they estimate the mean of all people only if the epsilon that somebody chose
says nothing of how they rank. *Equal weights* estimate it whatever people chose, at a price.

`answers_differ` compares the two ([H78]). The difference of both means is a sum over levels, whose
variance is known, so no assumption on efficiency is needed. Where any item's difference is beyond
what chance gives in 5 % of releases, people who chose more privacy rank otherwise.

References:
    [H78] Hausman. Specification tests in econometrics. 1978.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.special import ndtri

from hushrank.estimation.common.links import Floats
from hushrank.estimation.common.uncertainty import LEVEL
from hushrank.estimation.rankings.net_evidence import NetEvidence, PlaceLaw, place_weights
from hushrank.estimation.rankings.ranking_evidence import RankingEvidence, pair_estimator


def mean_one(precision: Floats, rankings: Floats) -> Floats:
    """Weights of a ranking of each level, in proportion to `precision`, with the mean 1.

    Args:
        precision: 1 / the variance that one ranking of a level adds, shape (levels,).
        rankings: how many rankings each level has.
    """
    total = float(precision @ rankings)
    return precision * (rankings.sum() / total) if total > 0 else np.ones(len(precision))


def variance_of_pairs(n_items: int, epsilon: float) -> float:
    """Variance that an undone Mallows ranking adds to a pair's share, on average over all places.

    Args:
        n_items: m, the length of the list.
        epsilon: of the mechanism.
    """
    table = pair_estimator(n_items, epsilon)
    return float(np.mean(np.square((table - table.T)[~np.eye(n_items, dtype=bool)]))) / 4


def variance_of_nets(law: PlaceLaw, n_items: int, rankings: int) -> float:
    """Variance that an undone ranking adds to an item's half net, on average over all places.

    Args:
        law: of places.
        n_items: m, the length of the list.
        rankings: of all levels.
    """
    return float(np.mean(np.square(place_weights(law, n_items, rankings)[0])))


def combined_nets(parts: Sequence[NetEvidence], weights: Floats) -> NetEvidence:
    """Weighted sums of half nets over the rankings of all levels.

    Args:
        parts: of each level.
        weights: of a ranking of each level, with the mean 1.
    """
    n = sum(part.rankings for part in parts)
    sums = _total([w * part.sums for part, w in zip(parts, weights, strict=True)])
    one = math.sqrt(sum((w * part.one) ** 2 for part, w in zip(parts, weights, strict=True)))
    covariance = _total([w**2 * part.covariance for part, w in zip(parts, weights, strict=True)])
    share = weights * [part.rankings for part in parts] / max(n, 1)
    lost = sum(s * w / part.kept**2 for s, w, part in zip(share, weights, parts, strict=True))
    return NetEvidence(
        sums=sums,
        moments=covariance + np.outer(sums, sums) / max(n, 1) - one**2 * np.eye(len(sums)),
        totals=_total([w * part.totals for part, w in zip(parts, weights, strict=True)]),
        rankings=n,
        one=one,
        longest=max(part.longest for part in parts),
        bias=float(sum(s * part.bias for s, part in zip(share, parts, strict=True) if s > 0))
        if all(part.undone for part in parts)
        else np.inf,
        kept=min(1.0, 1 / math.sqrt(lost)) if lost > 0 else 1.0,
    )


def combined_pairs(parts: Sequence[RankingEvidence], weights: Floats) -> RankingEvidence:
    """Weighted margins over the rankings of all levels; see `combined_nets`."""
    return RankingEvidence(
        wins=_total([w * part.wins for part, w in zip(parts, weights, strict=True)]),
        totals=_total([w * part.totals for part, w in zip(parts, weights, strict=True)]),
        squares=_total([w**2 * part.squares for part, w in zip(parts, weights, strict=True)]),
        rankings=sum(part.rankings for part in parts),
    )


def answers_differ(parts: Sequence[NetEvidence], weights: Floats) -> bool:
    """Whether weighted and equal means of half nets differ by more than chance.

    Where epsilons say nothing of rankings, that happens in at most 5 % of releases.

    Args:
        parts: undone sums of each level.
        weights: as in `combined_nets`.
    """
    n = np.array([part.rankings for part in parts], np.float64)
    apart = (weights - 1) / max(n.sum(), 1)
    difference = _total([a * part.sums for a, part in zip(apart, parts, strict=True)])
    variance = _total(
        [a**2 * np.diagonal(part.covariance) for a, part in zip(apart, parts, strict=True)]
    )
    bias = sum(abs(a) * k * part.bias for a, k, part in zip(apart, n, parts, strict=True) if k)
    size = -ndtri(LEVEL / 2 / len(difference))
    return bool((np.abs(difference) > size * np.sqrt(variance) + bias).any())


def effective_rankings(weights: Floats, rankings: Floats) -> float:
    """G = (sum of weights)^2 / sum of squared weights: rankings of equal weight worth as much."""
    squares = float(np.square(weights) @ rankings)
    return float(weights @ rankings) ** 2 / squares if squares > 0 else 0.0


def _total(parts: Sequence[Floats]) -> Floats:
    return np.asarray(np.sum(parts, axis=0))
