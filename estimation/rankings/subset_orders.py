"""Minima and sums over all orders of up to 20 items, by dynamic programming over subsets.

An order costs the sum of `cost[a, b]` over the pairs with a in front of b. The value of a subset S,
over the orders of S alone, comes from those of the subsets with one item less: item j in front of
the others adds the sum of cost[j, b] over b in S without j. Subsets are bit sets; those of one size
are done together. The added sum is looked up in two tables, one for the low half of the bits and
one for the high half, which stay in the processor's cache.

References:
    [HK] Held, Karp. A dynamic programming approach to sequencing problems. 1962.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

MOST_ITEMS = 20

Floats = NDArray[np.float64]


def cheapest_order(cost: Floats) -> NDArray[np.int64]:
    """The order with the smallest cost; of several, the one that comes first alphabetically.

    Exact where the sums of `cost` are exact in a float, as for counts below 2^53.

    Args:
        cost: shape (n, n), n from 1 to 20; the diagonal does not matter.

    Returns:
        shape (n,): the items, front first.

    Raises:
        ValueError: n is above 20, or `cost` is not a square matrix of finite numbers.
    """
    tables = _Added(cost)
    value = _subset_values(tables, np.minimum, np.inf)
    subset, order = len(value) - 1, []
    while subset:
        for item in range(tables.n_items):
            if subset >> item & 1:
                rest = np.array([subset ^ (1 << item)])
                if (value[rest] + tables.of(item, rest))[0] == value[subset]:
                    order.append(item)
                    subset = int(rest[0])
                    break
    return np.array(order, np.int64)


def log_sum_over_orders(cost: Floats) -> float:
    """log of the sum over all n! orders of exp(-cost of the order).

    Raises:
        ValueError: n is above 20, or `cost` is not a square matrix of finite numbers.
    """
    return float(_subset_values(_Added(-np.asarray(cost)), np.logaddexp, -np.inf)[-1])


class _Added:
    """What an item adds in front of a subset."""

    def __init__(self, cost: Floats) -> None:
        cost = np.asarray(cost, np.float64)
        self.n_items = len(cost)
        if cost.shape != (self.n_items, self.n_items) or not np.isfinite(cost).all():
            raise ValueError("cost must be a square matrix of finite numbers")
        if not 1 <= self.n_items <= MOST_ITEMS:
            raise ValueError(f"there must be 1 to {MOST_ITEMS} items, got {self.n_items}")
        self._split = (self.n_items + 1) // 2
        self._low = _subset_sums(cost[:, : self._split])
        self._high = _subset_sums(cost[:, self._split :])

    def of(self, item: int, subsets: NDArray[np.int64]) -> Floats:
        """The sum of cost[item, b] over the b of each subset."""
        low = subsets & ((1 << self._split) - 1)
        return np.asarray(self._low[item][low] + self._high[item][subsets >> self._split])


def _subset_sums(columns: Floats) -> Floats:
    """Row sums over every subset of the columns, shape (n, 2^columns)."""
    sums = np.zeros((len(columns), 1))
    for column in columns.T:
        sums = np.concatenate([sums, sums + column[:, None]], axis=1)
    return sums


def _subset_values(added: _Added, combine: np.ufunc, neutral: float) -> Floats:
    size = np.bitwise_count(np.arange(1 << added.n_items))
    by_size = np.split(np.argsort(size, kind="stable"), np.cumsum(np.bincount(size))[:-1])
    value = np.full(len(size), neutral)
    value[0] = 0.0
    for subsets in by_size[1:]:
        for item in range(added.n_items):
            own = subsets[(subsets >> item & 1).astype(bool)]
            rest = own ^ (1 << item)
            value[own] = combine(value[own], value[rest] + added.of(item, rest))
    return value
