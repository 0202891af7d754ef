"""Orders of items that are certain on all nights of a stream at once.

Bound: with T nights and m watched pairs, all false orders together have probability at most `LEVEL`
if each of the T m statements errs with probability LEVEL / (T m) at most (Bonferroni). A pair is
ordered on a night if

    |x_i - x_j| >= q sd_ij,   sd_ij^2 = S_ii + S_jj - 2 S_ij,

with x the scores that were not drawn together and S the covariance of their errors: privacy noise
and sampling. For normal errors q = z(1 - LEVEL / (2 T m)), both sides, so that equal items count
too. Nothing is assumed of how nights depend on each other, on noise or answers that they share. For
windows of 28 nights q is within 2 % of the exact quantile of the largest of 365 errors.

Discrete Laplace noise has longer tails. Of all sums of Laplace and normal errors with variance 1, a
single Laplace error has the longest tail beyond 1.7 standard deviations: P(|z| >= q) =
exp(-sqrt(2) q), so q = -ln(LEVEL / (T m)) / sqrt(2), which is 2.1 or more.

A stream without an end in sight cannot share LEVEL among all of its nights evenly: its year y, of
365 nights, has the share 6 / (pi y)^2 of it, and the shares of all years add up to 1.

The bound needs the pairs to be named before the first night, or to be all pairs: a pair that is
chosen because of what was released has been tested as often as all pairs.
All of this is post-processing.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from hushrank.estimation.common.links import Floats
from hushrank.estimation.common.pair_separation import difference_variance
from hushrank.estimation.common.uncertainty import LEVEL
from hushrank.privacy.stream_encoder import ENDLESS

YEAR = 365  # nights


def all_nights_quantile(nights: int, pairs: int, *, normal: bool, number: int = 1) -> float:
    """Standard errors by which a pair must differ to be ordered, on all nights with `LEVEL`.

    Args:
        nights: T, nights of the whole stream; `ENDLESS` of them share `LEVEL` by years.
        pairs: m, watched pairs.
        normal: whether errors are normal; otherwise noise has the tails of Laplace noise.
        number: number of the night, from 1.

    Raises:
        ValueError: a number is below 1.
    """
    if min(nights, pairs) < 1:
        raise ValueError(f"need at least 1 night and 1 pair, got {nights} and {pairs}")
    each = LEVEL / (nights * pairs)
    if nights == ENDLESS:
        year = 1 + (number - 1) // YEAR
        each = LEVEL * 6 / (math.pi * year) ** 2 / (YEAR * pairs)
    if normal:
        return float(-ndtri(each / 2))
    return -math.log(each) / math.sqrt(2)


def certain_orders(centre: Floats, covariance: Floats, quantile: float) -> NDArray[np.bool_]:
    """Whether item i is ahead of item j for certain, shape (n, n).

    Args:
        centre: shape (n,), scores that were not drawn together.
        covariance: shape (n, n), of their errors.
        quantile: of `all_nights_quantile`.
    """
    gaps = centre[:, np.newaxis] - centre
    needed = quantile * np.sqrt(difference_variance(covariance))
    ahead: NDArray[np.bool_] = (gaps > 0) & (gaps >= needed)
    return ahead


def rank_bands(ahead: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Lowest and highest rank that each item can have if these orders are true."""
    return 1 + ahead.sum(axis=0), len(ahead) - ahead.sum(axis=1)
