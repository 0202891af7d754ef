"""The order nearest to rankings by Spearman's footrule.

The footrule of two orders is the sum over items of how many places they are apart. The order with
the smallest sum of footrules to all rankings is an assignment of items to places: item i at place p
costs sum_q count(i, q) |p - q|. It can be found exactly in polynomial time ([DKNS01]), unlike the
Kemeny consensus, and its disagreements are at most twice those of the Kemeny consensus, because
Kendall's distance K and the footrule F of any two orders have K <= F <= 2 K ([DG77]).

With noisy counts costs are unbiased, and the assignment is post-processing.

References:
    [DG77] Diaconis, Graham. Spearman's footrule as a measure of disarray. 1977.
    [DKNS01] Dwork, Kumar, Naor, Sivakumar. Rank aggregation methods for the web. 2001.
    [FKS03] Fagin, Kumar, Sivakumar. Comparing top k lists. 2003.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from hushrank.estimation.common.estimate import Estimate
from hushrank.estimation.common.links import Floats
from hushrank.estimation.rankings.noisy_evidence import NoisyPlaces
from hushrank.estimation.rankings.ranking_estimates import order_estimate


@dataclass(frozen=True, slots=True)
class FootruleOrder:
    """An order of all items.

    Attributes:
        order: shape (n,), items, best first.
        distance: sum of its footrules to all rankings; no order has a smaller one.
    """

    order: NDArray[np.int64]
    distance: float


def footrule_order(counts: Floats, spots: Floats | None = None) -> FootruleOrder:
    """The order with the smallest sum of footrules.

    Where several orders are best, items earlier in the catalogue come first as far as the
    assignment tells.

    Args:
        counts: shape (n, m), rankings with item i at the place of column q; of any sign once noisy.
        spots: shape (m,), the place of each column, from 0 and maybe between two, as of an item
            that a ranking leaves out ([FKS03]); None: 0 to m - 1.

    Raises:
        ValueError: shapes do not fit, or a count is not finite.
    """
    n, m = counts.shape
    if (spots is None and m > n) or not np.isfinite(counts).all():
        raise ValueError(f"counts must be finite, at most as many places as items, got {n} x {m}")
    spots = np.arange(m, dtype=np.float64) if spots is None else spots
    cost = counts @ np.abs(spots[:, np.newaxis] - np.arange(n))
    items, place = scipy.optimize.linear_sum_assignment(cost)
    return FootruleOrder(np.argsort(place).astype(np.int64), float(cost[items, place].sum()))


def footrule_estimate(evidence: NoisyPlaces) -> tuple[Estimate, FootruleOrder]:
    """The order, and the ranks that items may have.

    Scores are places above the middle, (n + 1) / 2 - rank. An item is surely ahead of another where
    the order says so and its mean place is better beyond chance. The place of an item that nobody
    may have ranked is open.
    """
    found = footrule_order(evidence.counts, evidence.spots)
    place = np.argsort(found.order)
    ahead = place[:, np.newaxis] < place
    margins = np.subtract.outer(evidence.sums, evidence.sums)

    def better_at(tail: float) -> NDArray[np.bool_]:
        better = (margins > evidence.reach(tail)) & ahead & evidence.informative
        return np.asarray(better & evidence.ranked[:, np.newaxis] & evidence.ranked)

    return order_estimate(found.order, better_at, informative=evidence.informative), found
