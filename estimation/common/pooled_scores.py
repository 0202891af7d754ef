"""One ranking from scores of several releases about different people, weighed by precision.

Release k says that the scores of its items are c_k, with errors of covariance S_k. Only differences
of scores mean the same in all releases, so with H = I - 1 1' / n_k the precision of these is
P_k = (H S_k H)^+, zero in rows of items that the release does not rank. If the errors of different
releases are independent, the estimate of least variance that is linear and unbiased is

    c = P^+ sum_k P_k c_k,    P = sum_k P_k,    with covariance P^+

(generalised least squares, Aitken 1935). P must have rank n - 1: releases must be linked by items
that they share. If all populations have the same scores, then

    Q = sum_k (c_k - c)' P_k (c_k - c)

follows a chi-squared law with sum_k rank(P_k) - (n - 1) degrees of freedom. If they have not, c is
still unbiased for the average of their scores with weights P^+ P_k, and its errors are right.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import chdtrc

from hushrank.estimation.common.estimate import Estimate, estimate_of
from hushrank.estimation.common.links import Floats
from hushrank.estimation.common.pair_separation import (
    ScoreErrors,
    difference_variance,
    separate_pairs,
)
from hushrank.estimation.common.uncertainty import LEVEL, quantile
from hushrank.privacy.units import NoiseKind

RANK_OF = 1e-10  # share of the largest eigenvalue: less is rounding


class NotLinked(Exception):  # noqa: N818 - it says what is so
    """The releases share too few items for one scale."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartScores:
    """Scores of one release.

    Attributes:
        items: places of its items in the whole catalogue, shape (m,).
        errors: scores that were not drawn together, and their covariance, shape (m,) and (m, m).
        kind: law of its noise.
    """

    items: list[int]
    errors: ScoreErrors
    kind: NoiseKind


@dataclass(frozen=True, slots=True, kw_only=True)
class PooledScores:
    """One ranking from all releases.

    Attributes:
        estimate: scores, which have the mean of all releases' means, ranks and intervals.
        shares: weight of each release, shape (k,); they add up to 1.
        chance: probability of differences between the releases as large as theirs, if all had the
            same scores; 1 if no item is in two of them.
    """

    estimate: Estimate
    shares: Floats
    chance: float


def pool_scores(parts: Sequence[PartScores], n_items: int) -> PooledScores:
    """Combine the scores of several releases; see the module's text.

    Intervals take the errors as one draw of Laplace noise if any release has such noise, since one
    precise release may decide alone. That is wider than the noise of a score from many counts.

    Raises:
        NotLinked: no chain of shared items links all releases.
    """
    n = n_items
    if not _are_linked(parts, n):
        raise NotLinked
    precisions = [_precision(part) for part in parts]
    whole, pulled = np.zeros((n, n)), np.zeros(n)
    for part, own in zip(parts, precisions, strict=True):
        whole[np.ix_(part.items, part.items)] += own
        pulled[part.items] += own @ part.errors.centre
    level = np.full((n, n), np.trace(whole) / n**2)  # fills the one direction that no part knows
    covariance = np.linalg.inv(whole + level) - 1 / (n**2 * level)
    scores = covariance @ pulled
    q, shares = 0.0, np.zeros(len(parts))
    for number, (part, own) in enumerate(zip(parts, precisions, strict=True)):
        apart = part.errors.centre - scores[part.items]
        q += float(apart @ own @ apart)
        shares[number] = (covariance[np.ix_(part.items, part.items)] * own).sum() / (n - 1)
    degrees = sum(len(part.items) - 1 for part in parts) - (n - 1)
    mean = float(np.mean([part.errors.centre.mean() for part in parts]))
    laplace = any(part.kind is NoiseKind.LAPLACE for part in parts)
    kind = NoiseKind.LAPLACE if laplace else NoiseKind.GAUSSIAN
    return PooledScores(
        estimate=_estimate(ScoreErrors(scores + mean, covariance), kind),
        shares=shares,
        chance=1.0 if degrees == 0 else float(chdtrc(degrees, q)),
    )


def _precision(part: PartScores) -> Floats:
    """Precision of the differences of one release's scores, shape (m, m)."""
    m = len(part.items)
    differences = np.eye(m) - 1 / m
    own = differences @ part.errors.covariance @ differences
    return np.asarray(np.linalg.pinv(own, rcond=RANK_OF, hermitian=True))


def _are_linked(parts: Sequence[PartScores], n_items: int) -> bool:
    """Whether each item is tied to each other one by a chain of parts that share items."""
    linked, left = set(parts[0].items), [set(part.items) for part in parts[1:]]
    while joined := [items for items in left if linked & items]:
        left = [items for items in left if not linked & items]
        linked.update(*joined)
    return len(linked) == n_items


def _estimate(errors: ScoreErrors, kind: NoiseKind) -> Estimate:
    scores, covariance = errors.centre, np.asarray(errors.covariance)
    deviation = np.sqrt(np.diagonal(covariance))
    between = np.sqrt(difference_variance(covariance))
    gap = scores[:, np.newaxis] - scores

    def reach(tail: float) -> float:
        return float(quantile(np.ones(()), tail, kind, 1))

    def ends_at(tail: float) -> tuple[Floats, Floats]:
        return scores - reach(tail) * deviation, scores + reach(tail) * deviation

    separation = separate_pairs(
        scores, lambda tail: (gap > reach(tail) * between) & (gap > 0), ends_at
    )
    return estimate_of(scores, *ends_at(LEVEL / 2), separation, errors=errors)
