"""Whether scores of two releases differ by more than noise and chance explain.

The difference of two independent estimates has the interval of the "method of variance estimates
recovery" ([ZD08] §2): from the two intervals alone, whose halves may have different lengths or be
infinite, and for normal errors of equal level exactly the one from the combined standard errors.
Where both estimates use the same answers or the same noise, their errors have a correlation r.
With a and b the halves that face each other, and g and h half the lengths of the two intervals, the
reach of the difference is

    sqrt((1 - |r|) (a^2 + b^2) + |r| shared^2),  shared = g - h for r > 0, a + b for r < 0:

errors of their own take the share 1 - |r| of either variance, and of the shared ones the difference
of their sizes is left, or the sum where they are opposite. For normal errors that is
a^2 + b^2 - 2 r a b, again exact ([Z07]).

References:
    [Z07] Zou. Toward using confidence intervals to compare correlations. Psychological Methods 12,
        2007.
    [ZD08] Zou, Donner. Construction of confidence limits about effect measures: a general approach.
        Statistics in Medicine 27, 2008.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from hushrank.estimation.common.links import Floats
from hushrank.estimation.common.uncertainty import LEVEL


@dataclass(frozen=True, slots=True, kw_only=True)
class Intervals:
    """Scores with an interval each that misses with chance `LEVEL`; every array of shape (n,)."""

    scores: Floats
    low: Floats
    high: Floats

    def __post_init__(self) -> None:
        if not self.scores.shape == self.low.shape == self.high.shape or self.scores.ndim != 1:
            raise ValueError("scores, low and high must be 1-d arrays of one length")
        if (self.low > self.scores).any() or (self.high < self.scores).any():
            raise ValueError("a score must lie in its interval")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreChange:
    """What changed, an entry for each item; every array of shape (n,).

    Attributes:
        change: the later score less the earlier one.
        low, high: interval that misses with chance `LEVEL`, one item at a time.
        beyond: the change is larger than chance explains, with all n items looked at: where nothing
            changed, any entry is true with chance `LEVEL` at most.
    """

    change: Floats
    low: Floats
    high: Floats
    beyond: np.ndarray[tuple[int], np.dtype[np.bool_]]


def score_change(
    earlier: Intervals, later: Intervals, *, normal: bool, correlation: Floats | float = 0.0
) -> ScoreChange:
    """Compare two estimates of the same items.

    Args:
        earlier: one of them, in some order of the items.
        later: the other, in the same order.
        normal: the errors of both are normal; otherwise tails as heavy as those of Laplace noise
            are reckoned with when all items are looked at together.
        correlation: of the two errors of each item, between -1 and 1; 0 where the estimates share
            neither answers nor noise.

    Raises:
        ValueError: the numbers of items differ, or a correlation is out of range.
    """
    if earlier.scores.shape != later.scores.shape:
        raise ValueError(
            f"got {len(earlier.scores)} scores and {len(later.scores)}: compare the same items"
        )
    r = np.broadcast_to(np.asarray(correlation, np.float64), earlier.scores.shape)
    if not (np.abs(r) <= 1).all():
        raise ValueError("correlations must be between -1 and 1")
    change = later.scores - earlier.scores
    sizes = (later.high - later.low) / 2, (earlier.high - earlier.low) / 2
    below = _reach(later.scores - later.low, earlier.high - earlier.scores, sizes, r)
    above = _reach(later.high - later.scores, earlier.scores - earlier.low, sizes, r)
    stretch = family_stretch(len(change), normal=normal)
    beyond = (change > stretch * below) | (-change > stretch * above)
    return ScoreChange(change=change, low=change - below, high=change + above, beyond=beyond)


def _reach(a: Floats, b: Floats, sizes: tuple[Floats, Floats], r: Floats) -> Floats:
    """See the module; infinite where an interval is and errors are shared."""
    alone = np.hypot(a, b)
    with np.errstate(invalid="ignore"):
        shared = np.where(r > 0, np.subtract(*sizes), a + b)
        shared[~np.isfinite(shared)] = np.inf
        reach = np.hypot(np.sqrt(1 - np.abs(r)) * alone, np.sqrt(np.abs(r)) * shared)
    return np.where(r == 0, alone, reach)


def family_stretch(n_items: int, *, normal: bool) -> float:
    """By what an interval must grow so that any of `n_items` misses with chance `LEVEL` at most.

    Bonferroni: each is to miss with chance LEVEL / n. For normal errors that is a ratio of normal
    quantiles; tails of Laplace noise fall as e^-x, and a mixture of both falls no slower.
    """
    if normal:
        return float(ndtri(LEVEL / (2 * n_items)) / ndtri(LEVEL / 2))
    return math.log(LEVEL / n_items) / math.log(LEVEL)
