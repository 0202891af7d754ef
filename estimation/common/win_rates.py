"""How probable it is that one item beats another: from scores, or from noisy counts of a pair.

Both are post-processing. Both intervals are of one pair at a time and miss with chance `LEVEL`.

References:
    [W27] Wilson. Probable inference, the law of succession, and statistical inference. Journal of
        the American Statistical Association 22, 1927.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hushrank.estimation.common.links import Floats, Link
from hushrank.estimation.common.score_change import Intervals
from hushrank.estimation.common.uncertainty import LEVEL, quantile
from hushrank.privacy.units import NoiseKind


@dataclass(frozen=True, slots=True, kw_only=True)
class WinRates:
    """Probability that the item of the row beats the item of the column.

    Every array has shape (n, n), with nan where nothing is known of a pair, as on the diagonal.

    Attributes:
        rate: in 0 to 1; entry (j, i) is one less entry (i, j).
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
        scores: of n items, with intervals that may be infinite.
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
    ends = np.where(difference > 0, 1.0, 0.0)  # of an infinite difference
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
        noise: its law.
        public_totals: only one of the two counts of a pair is noisy: their sum is public.
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
