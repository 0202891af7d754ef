"""Two tests with items in common, such as two years of one examination, on one scale.

Each test fixes its own zero. With difficulties b of the earlier and b' of the later test, and S the
sum of both covariances, the shift c is the weighted mean of b' - b over anchors, common items that
did not move, with weights 1 / S_ii. An item moved (drifted) where b' - b - c leaves out zero at the
level of Bonferroni for all common items. The item that moved most leaves the anchors and c is
computed again, until none of the anchors moved. Where an anchor still moved after a fifth of the
common items has left, no shift is known to be that of items that did not move, and none is told.

People of the two tests are others, or the same: errors of the same people are alike, which makes
differences smaller than S says. All of it is computed from releases, so it is post-processing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hushrank.estimation.common.links import Floats
from hushrank.estimation.common.uncertainty import LEVEL, quantile
from hushrank.privacy.units import NoiseKind

FEWEST = 5  # items in common: a fifth of fewer is none
MOST_DROPPED = 0.2  # of the common items
OF_BOTH = 2  # draws of noise in a difference, one of each test


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """How far items moved between two tests; shape (items,) each.

    Attributes:
        shift: c, what the later scale exceeds the earlier one.
        difference: b' - b - c.
        error: its standard error.
        low, high: 95 % interval of each difference alone.
        moved: whether it is not zero, with 95 % confidence for all common items.
        anchor: whether the item is one of those that fix the shift.
    """

    shift: float
    difference: Floats
    error: Floats
    low: Floats
    high: Floats
    moved: NDArray[np.bool_]
    anchor: NDArray[np.bool_]


class ManyMovedError(ValueError):
    """More items moved than may leave the anchors."""


def drift(earlier: Floats, later: Floats, covariance: Floats, kind: NoiseKind) -> Drift:
    """Compare the difficulties of items that two tests have in common.

    Args:
        earlier, later: difficulties, shape (items,), not drawn to zero.
        covariance: S, shape (items, items).
        kind: law of the noise; Laplace if one of the two is.

    Raises:
        ManyMovedError: anchors moved after a fifth of the items has left them.
        ValueError: there are fewer than `FEWEST` items.
    """
    n = len(earlier)
    if n < FEWEST:
        raise ValueError(f"two tests need {FEWEST} items in common, got {n}")
    anchor = np.ones(n, np.bool_)
    at_all, alone = (
        float(quantile(np.ones(()), tail, kind, OF_BOTH)) for tail in (LEVEL / (2 * n), LEVEL / 2)
    )
    for dropped in range(int(MOST_DROPPED * n) + 1):
        weights = anchor / np.diagonal(covariance)
        centre = np.eye(n) - weights / weights.sum()
        difference = centre @ (later - earlier)
        error = np.sqrt(np.einsum("ij,jk,ik->i", centre, covariance, centre))
        moved = np.abs(difference) > at_all * error
        worst = int(np.argmax(np.where(anchor, np.abs(difference) / error, 0.0)))
        if not moved[worst]:
            break
        if dropped == int(MOST_DROPPED * n):
            raise ManyMovedError("more than a fifth of the common items moved")
        anchor[worst] = False
    return Drift(
        shift=float((later - earlier - difference)[0]),
        difference=difference,
        error=error,
        low=difference - alone * error,
        high=difference + alone * error,
        moved=moved,
        anchor=anchor,
    )
