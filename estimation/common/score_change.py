"""Intervals of a change between two releases, and of the probability that one item beats another.

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

The probability that one item beats another follows from scores, or from noisy counts of the pair.
Its intervals hold for one pair at a time and miss with chance `LEVEL`. All is post-processing.

References:
    [Z07] Zou. Toward using confidence intervals to compare correlations. Psychological Methods 12,
        2007.
    [ZD08] Zou, Donner. Construction of confidence limits about effect measures: a general approach.
        Statistics in Medicine 27, 2008.
    [W27] Wilson. Probable inference, the law of succession, and statistical inference. Journal of
        the American Statistical Association 22, 1927.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from hushrank.estimation.common.links import Floats, Link
from hushrank.estimation.common.uncertainty import LEVEL, quantile
from hushrank.privacy.units import NoiseKind


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
    """Change of scores, an entry for each item; every array of shape (n,).

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
        earlier: the earlier estimate, in some order of the items.
        later: the other, in the same order.
        normal: the errors of both are normal; otherwise tails as heavy as those of Laplace noise
            are reckoned with when all items are looked at together.
        correlation: correlation of the two errors of each item, between -1 and 1; 0 where the
            estimates share neither answers nor noise.

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
    """Stretch of an interval so that any of `n_items` misses with chance `LEVEL` at most.

    Bonferroni: each may miss with chance LEVEL / n. For normal errors that is a ratio of normal
    quantiles; tails of Laplace noise fall as e^-x, and a mixture of both falls no slower.
    """
    if normal:
        return float(ndtri(LEVEL / (2 * n_items)) / ndtri(LEVEL / 2))
    return math.log(LEVEL / n_items) / math.log(LEVEL)


@dataclass(frozen=True, slots=True, kw_only=True)
class WinRates:
    """Probability that the item of the row beats the item of the column.

    Every array has shape (n, n), with nan where nothing is known of a pair, as on the diagonal.

    Attributes:
        rate: chances of winning, in 0 to 1; entry (j, i) is one less entry (i, j).
        low, high: interval of it.
    """

    rate: Floats
    low: Floats
    high: Floats


def rates_of_scores(scores: Intervals, link: Link) -> WinRates:
    """F of the difference of two scores.

    The standard deviation of a difference is at most the sum of both standard deviations, however
    the errors hang together. So the two half widths are added up: for normal errors the interval is
    never too short, and for independent ones of equal size 1.4 times as long as it need be.

    Args:
        scores: estimates of n items, with intervals that may be infinite.
        link: F.
    """
    difference = np.subtract.outer(scores.scores, scores.scores)
    below, above = scores.scores - scores.low, scores.high - scores.scores
    low = difference - np.add.outer(below, above)
    high = difference + np.add.outer(above, below)
    np.fill_diagonal(difference, np.nan)
    np.fill_diagonal(low, np.nan)
    np.fill_diagonal(high, np.nan)
    return WinRates(
        rate=_chance(link, difference), low=_chance(link, low), high=_chance(link, high)
    )


def _chance(link: Link, difference: Floats) -> Floats:
    ends = np.where(difference > 0, 1.0, 0.0)  # ends for an infinite difference
    known = np.where(np.isinf(difference), 0.0, difference)
    return np.where(np.isinf(difference), ends, link.cdf(known))


def rates_of_counts(
    wins: Floats, noise_variance: float, noise: NoiseKind, *, public_totals: bool = False
) -> WinRates:
    """Noisy wins over noisy wins of both.

    With a wins of one item and b of the other, a - p (a + b) has mean 0 at the true p, and variance
    n p (1 - p) + v ((1 - p)^2 + p^2) for n comparisons and noise of variance v on a and on b; with
    public a + b, n p (1 - p) + v. The interval is every p at which it is no larger than chance and
    noise explain, which without noise is Wilson's ([W27]). Where a + b is not above zero nothing is
    known.

    Args:
        wins: shape (n, n), in comparisons, noise included; nan where two items did not meet.
        noise_variance: v, in comparisons squared; 0: no noise.
        noise: law of the noise.
        public_totals: whether only one of the two counts of a pair is noisy, as their sum is
            public.
    """
    total = wins + wins.T
    np.fill_diagonal(total, np.nan)
    known = total > 0
    n = np.where(known, total, 1.0)
    tail = float(quantile(np.array(float(noise_variance > 0)), LEVEL / 2, noise, n_draws=1))
    z, v = tail**2, noise_variance
    both = 0.0 if public_totals else v
    # (a - p n)^2 <= z variance(p), as square p^2 - 2 half p + rest <= 0
    square = n**2 + z * n - 2 * z * both
    half = np.where(known, wins, 0.0) * n + z * n / 2 - z * both
    rest = np.where(known, wins, 0.0) ** 2 - z * v
    root = np.sqrt(np.maximum(half**2 - square * rest, 0.0))
    bounded = (square > 0) & (half**2 >= square * rest)
    low = np.where(bounded, (half - root) / np.where(bounded, square, 1.0), 0.0)
    high = np.where(bounded, (half + root) / np.where(bounded, square, 1.0), 1.0)
    rate = np.clip(np.where(known, wins, 0.0) / n, 0.0, 1.0)
    low, high = np.minimum(np.clip(low, 0, 1), rate), np.maximum(np.clip(high, 0, 1), rate)
    return WinRates(rate=_of(known, rate), low=_of(known, low), high=_of(known, high))


def _of(known: NDArray[np.bool_], values: Floats) -> Floats:
    return np.where(known, values, np.nan)
