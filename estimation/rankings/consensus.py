"""Consensus of many rankings from their pair counts: Kemeny and Borda.

Of private rankings by the Mallows mechanism with one epsilon, the Kemeny consensus is the maximum
likelihood estimate of a common true ranking. Pairs may be counted from lists that hold few of the
items each; counts may be noisy or debiased, so of any sign.

References:
    [K59] Kemeny. Mathematics without numbers. 1959.
    [T98] Truchon. An extension of the Condorcet criterion and Kemeny orders. 1998.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from hushrank.estimation.rankings.subset_orders import MOST_ITEMS, cheapest_order

Floats = NDArray[np.float64]
Order = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Consensus:
    """An order of all items, and how near it is to the best.

    Attributes:
        order: shape (n,), items, best first.
        disagreements: sum of wins[b, a] over the pairs with a in front of b: comparisons that
            contradict the order.
        lower_bound: no order has fewer disagreements than this.
        optimal: `order` is proven to have the fewest.
    """

    order: Order
    disagreements: float
    lower_bound: float
    optimal: bool


def kemeny(wins: NDArray[np.int64] | Floats) -> Consensus:
    """The order with the fewest disagreements.

    Items split into groups such that each item of an earlier group beats each of a later one by
    majority; the best orders of the groups, one after the other, are a best order of all, because
    every pair across groups is then on its majority's side ([T98]). Groups of up to 20 items are
    solved exactly. For a larger one the order is a local optimum (Borda order, then the best move
    of one item until none helps), bounded below by the smaller count of every pair.

    Where several orders are best, items earlier in the catalogue come first.

    Args:
        wins: shape (n, n), wins[a, b] = times a beat b, finite; the diagonal is ignored.

    Raises:
        ValueError: `wins` is not a square matrix of finite numbers, or is empty.
    """
    wins = np.asarray(wins, np.float64)
    if wins.ndim != 2 or wins.shape[0] != wins.shape[1] or not wins.size:
        raise ValueError(f"wins must be a square matrix, got shape {wins.shape}")
    if not np.isfinite(wins).all():
        raise ValueError("wins must be finite")
    order: list[int] = []
    excess, optimal = 0.0, True
    for group in majority_groups(wins):
        own = wins[np.ix_(group, group)]
        exact = len(group) <= MOST_ITEMS
        best = cheapest_order(own.T) if exact else _local_optimum(own)
        order.extend(group[best])
        if exact:  # what the group must cost beyond the smaller count of each pair
            excess += disagreements(own, best) - _smaller_counts(own)
        optimal &= exact
    found = np.array(order, np.int64)
    cost, bound = disagreements(wins, found), _smaller_counts(wins) + excess
    return Consensus(found, cost, bound, optimal or cost <= bound)


def borda_scores(wins: NDArray[np.int64] | Floats) -> Floats:
    """Half of wins minus losses, which sums to zero.

    For lists that all hold all items this is the mean-centred Borda count: the number of items that
    each item beats, summed over the lists.
    """
    wins = np.asarray(wins, np.float64)
    return np.asarray((wins.sum(axis=1) - wins.sum(axis=0)) / 2)


def disagreements(wins: NDArray[np.int64] | Floats, order: Order) -> float:
    """Sum of wins[b, a] over the pairs with a in front of b in `order`."""
    return float(np.tril(np.asarray(wins)[np.ix_(order, order)], -1).sum())


def majority_groups(wins: NDArray[np.int64] | Floats) -> list[Order]:
    """Items by strongly connected components of "at least as many wins as losses", best first.

    Each item of a group beats each item of every later group.
    """
    margin = wins - wins.T
    _, label = scipy.sparse.csgraph.connected_components(
        margin >= 0, directed=True, connection="strong"
    )
    beaten = ((margin > 0) & (label[:, None] != label)).sum(axis=1)  # the same in a whole group
    items = np.lexsort((np.arange(len(wins)), label, -beaten))
    starts = np.flatnonzero(np.diff(label[items])) + 1
    return [group.astype(np.int64) for group in np.split(items, starts)]


def _smaller_counts(wins: Floats) -> float:
    """Sum over the pairs of the smaller of their two counts: a lower bound for every order."""
    return float(np.triu(np.minimum(wins, wins.T), 1).sum())


def _local_optimum(wins: Floats) -> Order:
    order = np.argsort(-borda_scores(wins), kind="stable")
    margin = wins - wins.T
    places = np.arange(len(wins))
    least = 1e-12 * np.abs(margin).sum()  # less is rounding
    while True:
        ahead = np.cumsum(margin[np.ix_(order, order)], axis=1)
        own = ahead[places, places][:, None]  # the diagonal of the margins is zero
        before = np.concatenate([np.zeros((len(wins), 1)), ahead[:, :-1]], axis=1)
        gain = np.where(places[:, None] > places, own - before, own - ahead)
        source, target = np.unravel_index(np.argmax(gain), gain.shape)
        if gain[source, target] <= least:
            return order
        order = np.insert(np.delete(order, source), target, order[source])
