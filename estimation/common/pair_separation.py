"""Rank intervals and groups where every pair of items has an error of its own.

`uncertainty.separate_ranks` does it in O(n log n) where the margin follows from the two values;
here a covariance matrix or two intervals say how far each difference may be off.

References:
    [ZD08] Zou, Donner. Construction of confidence limits about effect measures. 2008.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from hushrank.estimation.common.uncertainty import (
    LEVEL,
    MOST_PAIRED,
    SPENT_ON_FAR,
    AllAtOnce,
    Counts,
    EndsAt,
    RankSeparation,
    every_pair_tail,
    every_score_tail,
    far_tail,
    ranks_alone,
)

BetterAt = Callable[[float], NDArray[np.bool_]]  # at a tail chance


def difference_variance(covariance: NDArray[np.float64]) -> NDArray[np.float64]:
    """Variance of value i less value j, shape (n, n); rounding below 0 is raised to 0."""
    variance = np.diagonal(covariance)
    return np.maximum(variance[:, np.newaxis] + variance - 2 * covariance, 0)


def apart(
    centre: NDArray[np.float64], low: NDArray[np.float64], high: NDArray[np.float64]
) -> NDArray[np.bool_]:
    """The pairs (i, j) of which i is shown to be better, shape (n, n), from intervals of each item.

    Intervals lie apart, or the difference of the centres exceeds the root of the sum of squares of
    the two half-widths between them ([ZD08]).
    """
    with np.errstate(invalid="ignore"):
        margin = np.sqrt(np.add.outer((centre - low) ** 2, (high - centre) ** 2))
        sure: NDArray[np.bool_] = np.subtract.outer(centre, centre) > margin
    return np.asarray(sure | np.greater.outer(low, high))


def separate_pairs(
    values: NDArray[np.float64], better_at: BetterAt, ends_at: EndsAt
) -> RankSeparation:
    """Rank intervals and groups from the pairs that can be told apart; see `RankSeparation`.

    Args:
        values: shape (n,), what items are ordered by; larger is better.
        better_at: of a tail chance, shape (n, n): True at (i, j) where item i is shown to be better
            than item j, which only an item of a larger value may be.
        ends_at: of a tail chance, the ends of an interval around each score.

    Returns:
        Rank intervals that contain the rank by `values`, and groups, greedily from the top.

    Raises:
        ValueError: an item is said to be better than one whose value is not smaller.
    """
    n = len(values)
    low, high = ends_at(every_score_tail(n))
    not_larger = values[:, np.newaxis] <= values

    def checked(tail: float) -> NDArray[np.bool_]:
        better = better_at(tail)
        if (better & not_larger).any():
            raise ValueError("an item can be better only than an item of a smaller value")
        return better

    def counts_at(tail: float) -> tuple[Counts, Counts]:
        better = checked(tail)
        return better.sum(axis=0), better.sum(axis=1)

    far = int(checked(far_tail(n * (n - 1), SPENT_ON_FAR)).sum())
    tail = every_pair_tail(n, n * (n - 1) // 2 - far)
    sure = _transitive(checked(tail) | (low[:, np.newaxis] > high))
    at_once = AllAtOnce(low, high, *_rank_ends(sure), sure)
    first, last = ranks_alone(n, counts_at)
    first, last = np.maximum(first, at_once.rank_low), np.minimum(last, at_once.rank_high)
    return RankSeparation(first, last, _groups(values, sure), at_once)


def _transitive(better: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The relation with all that follows from it: who is better than a better one is better."""
    while True:
        known = better.astype(np.float32)
        reached = better | (known @ known > 0)
        if (reached == better).all():
            return better
        better = reached


def _rank_ends(better: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    return 1 + better.sum(axis=0), len(better) - better.sum(axis=1)


def _groups(values: NDArray[np.float64], better: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Going down the values, an item starts a group where a member of the last one is better."""
    groups = np.empty(len(values), np.int64)
    number, start = 0, 0
    order = np.argsort(-values, kind="stable")
    for position, item in enumerate(order):
        if position == 0 or better[order[start:position], item].any():
            number, start = number + 1, position
        groups[item] = number
    return groups


def separate_intervals(values: NDArray[np.float64], ends_at: EndsAt) -> RankSeparation:
    """The same where an item is better than those whose intervals lie below its own.

    In O(n log n), for items too many for a matrix of pairs. Two items are told apart where neither
    interval misses, so for one item's rank each is asked for at half the chance of a pair.

    Args:
        values: shape (n,), what items are ordered by; larger is better.
        ends_at: of a tail chance, the ends of an interval around each value; they may be infinite.
    """
    n = len(values)
    low, high = ends_at(LEVEL / (2 * n))  # pairs follow from the scores, which spend all of it

    def counts_at(tail: float) -> tuple[Counts, Counts]:
        first, last = _ranks_of_ends(*ends_at(tail / 2))
        return first - 1, n - last

    groups = np.empty(n, np.int64)
    number, best = 0, -np.inf  # of the members of the current group, the largest lower end
    for item in np.argsort(-values, kind="stable"):
        if number == 0 or best > high[item]:
            number, best = number + 1, -np.inf
        groups[item] = number
        best = max(best, low[item])
    better = low[:, np.newaxis] > high if n <= MOST_PAIRED else None
    at_once = AllAtOnce(low, high, *_ranks_of_ends(low, high), better)
    first, last = ranks_alone(n, counts_at)
    first, last = np.maximum(first, at_once.rank_low), np.minimum(last, at_once.rank_high)
    return RankSeparation(first, last, groups, at_once)


def _ranks_of_ends(
    low: NDArray[np.float64], high: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Ranks that n items can have where intervals that lie apart are in order."""
    n = len(low)
    surely_better = n - np.searchsorted(np.sort(low), high, side="right")
    surely_worse = np.searchsorted(np.sort(high), low, side="left")
    return (1 + surely_better).astype(np.int64), (n - surely_worse).astype(np.int64)
