"""Rank intervals and groups where every pair of items has an error of its own.

`uncertainty.separate_ranks` does it in O(n log n) where the margin follows from the two values;
here a covariance matrix says how far each difference may be off.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hushrank.estimation.common.uncertainty import RankSeparation


def difference_variance(covariance: NDArray[np.float64]) -> NDArray[np.float64]:
    """Variance of value i less value j, shape (n, n); rounding below 0 is raised to 0."""
    variance = np.diagonal(covariance)
    return np.maximum(variance[:, np.newaxis] + variance - 2 * covariance, 0)


def separate_pairs(values: NDArray[np.float64], surely_better: NDArray[np.bool_]) -> RankSeparation:
    """Rank intervals and groups from the pairs that can be told apart; see `RankSeparation`.

    Args:
        values: shape (n,), what items are ordered by; larger is better.
        surely_better: shape (n, n); True at (i, j) where item i is surely better than item j, which
            only an item of a larger value may be.

    Returns:
        Rank intervals that contain the rank by `values`, and groups, greedily from the top.

    Raises:
        ValueError: an item is said to be surely better than one whose value is not smaller.
    """
    n = len(values)
    if (surely_better & (values[:, np.newaxis] <= values)).any():
        raise ValueError("an item can be surely better only than an item of a smaller value")
    groups = np.empty(n, np.int64)
    number, start = 0, 0
    order = np.argsort(-values, kind="stable")
    for position, item in enumerate(order):
        if position == 0 or surely_better[order[start:position], item].any():
            number, start = number + 1, position
        groups[item] = number
    return RankSeparation(1 + surely_better.sum(axis=0), n - surely_better.sum(axis=1), groups)


def separate_intervals(
    values: NDArray[np.float64], low: NDArray[np.float64], high: NDArray[np.float64]
) -> RankSeparation:
    """The same where an item is surely better than those whose intervals lie below its own.

    In O(n log n), for items too many for a matrix of pairs.

    Args:
        values: shape (n,), what items are ordered by; larger is better.
        low, high: shape (n,), ends of an interval around each value; they may be infinite.
    """
    n = len(values)
    surely_better = n - np.searchsorted(np.sort(low), high, side="right")
    surely_worse = np.searchsorted(np.sort(high), low, side="left")
    groups = np.empty(n, np.int64)
    number, best = 0, -np.inf  # of the members of the current group, the largest lower end
    for item in np.argsort(-values, kind="stable"):
        if number == 0 or best > high[item]:
            number, best = number + 1, -np.inf
        groups[item] = number
        best = max(best, low[item])
    return RankSeparation(
        (1 + surely_better).astype(np.int64), (n - surely_worse).astype(np.int64), groups
    )
