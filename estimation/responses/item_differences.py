"""Differences of an item's difficulty between two groups of people (DIF), from released totals.

Each group is fitted by itself, so groups may differ in ability as they like. With b_i in the one
and b_i' in the other group, d_i = b_i' - b_i less its mean over the items: each scale has its own
zero, so only relative differences mean something. The two errors are independent, as nobody is in
two groups and each number has noise of its own; so the covariance of d is the sum of both, centred.

An item clearly differs where its interval at the level of Bonferroni, for all items and all pairs
of groups that are compared, leaves out zero. Its size follows the rule of ETS [ZH93] for
D = 2.35 d: C if |D| is 1.5 or more and clearly above 1, B if it is 1 or more and clearly not 0
(both at 5 % for one item), else A.

References:
    [ZH93] Zieky. Practical questions in the use of DIF statistics in test development. 1993.
    [HT88] Holland, Thayer. Differential item performance and the Mantel-Haenszel procedure. 1988.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hushrank.estimation.common.links import Floats
from hushrank.estimation.common.uncertainty import LEVEL, quantile
from hushrank.estimation.responses.totals_estimate import TotalsEstimate
from hushrank.privacy.units import NoiseKind

DELTA = 2.35  # D of ETS in a unit of log odds
MODERATE, LARGE = 1.0, 1.5  # |D| from which a difference is of size B, and of size C
FEWEST = 3  # items that can be compared


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemDifferences:
    """How much harder items are in one group than in another; shape (k,) each.

    Attributes:
        item: codes of the items whose difficulty is bounded on both sides in both groups.
        difference: d, above zero where the item is harder in the second group.
        error: its standard error.
        low, high: 95 % interval of each difference alone.
        differs: whether it is not zero, with 95 % confidence for all that are compared.
        size: 0, 1 or 2 for A, B or C.
    """

    item: NDArray[np.int64]
    difference: Floats
    error: Floats
    low: Floats
    high: Floats
    differs: NDArray[np.bool_]
    size: NDArray[np.int64]


def item_differences(
    first: TotalsEstimate, second: TotalsEstimate, kind: NoiseKind, comparisons: int
) -> ItemDifferences | None:
    """Compare the difficulties of two groups; None: nothing can be told.

    Args:
        first: of the group that is compared with.
        second: of the other group, with the same items.
        kind: law of the noise.
        comparisons: pairs of groups that are compared in all.
    """
    if first.fit is None or second.fit is None:
        return None
    both = (first, second)
    open_ended = np.any([each.no_lower_limit | each.no_upper_limit for each in both], axis=0)
    item = np.flatnonzero(~open_ended)
    if len(item) < FEWEST:
        return None
    own = np.ix_(item, item)
    centre = np.eye(len(item)) - 1 / len(item)
    difference = centre @ (second.fit.unbiased - first.fit.unbiased)[item]
    whole, noise = (
        np.maximum(np.einsum("ij,jk,ik->i", centre, covariance[own], centre), 0)
        for covariance in (
            first.fit.covariance + second.fit.covariance,
            first.fit.noise + second.fit.noise,
        )
    )
    error = np.sqrt(whole)
    share = np.clip(np.divide(noise, whole, out=np.zeros_like(whole), where=whole > 0), 0, 1)

    def reach(tail: float) -> Floats:
        return np.asarray(quantile(share, tail, kind, 2) * error)  # two totals: one a group

    far, alone = np.abs(difference), reach(LEVEL / 2)
    large = (far >= LARGE / DELTA) & (far - reach(LEVEL) > MODERATE / DELTA)
    moderate = (far >= MODERATE / DELTA) & (far > alone)
    return ItemDifferences(
        item=item,
        difference=difference,
        error=error,
        low=difference - alone,
        high=difference + alone,
        differs=far > reach(LEVEL / (2 * len(item) * comparisons)),
        size=np.where(large, 2, moderate.astype(np.int64)),
    )
