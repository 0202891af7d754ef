"""Unit in which counts of weighted rows are as random as counts of rows without weights.

A cell adds up weights w of independent rows. In proportion to its mean its variance is

    d = sum w^2 / sum w,

so the count in units of d has the variance of a Poisson variable of its mean, and the estimators
for counts of comparisons take it as that. (sum w)^2 / sum w^2 is the effective number of rows
([K65]). One d is used for all cells: where people with many rows meet other pairs than people with
few do, it is a mean over both.

Both sums are known with noise. So d is taken at the upper end of its standard error, and at most
as the largest weight, which holds for sure: intervals then are too wide rather than too narrow,
much so only where counts are too few to say anything.

References:
    [K65] Kish. Survey sampling. 1965. Chapter 11.7.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from hushrank.estimation.common.links import Floats

Mask = NDArray[np.bool_]
MOST = 12.0  # answers of one opinion; more is no repetition but scores that do not fit the pairs
CLEAR = 2.0  # standard errors by which answers must agree more than scores explain


def effective_units(
    total: float,
    total_variance: float,
    squares: float,
    squares_variance: float,
    row_weight: int,
    most: int,
) -> int:
    """d, in integer units of the counts, from `row_weight` times it up to the largest.

    Args:
        total: noisy sum of all counts of wins, in their own units.
        total_variance: variance of the total's noise.
        squares: noisy sum of squared weights, in squared units, without `row_weight`.
        squares_variance: variance of the noise in the sum of squares.
        row_weight: amount that a win of weight one unit adds to its count.
        most: units of the heaviest row.

    Returns:
        At least 1, and at most `row_weight * most`.
    """
    least_total = total - math.sqrt(total_variance)
    largest = row_weight * most
    if least_total <= 0:
        return largest
    found = row_weight**2 * (squares + math.sqrt(squares_variance)) / least_total
    return int(min(max(math.ceil(found), 1), largest))


def answers_as_one(
    wins: Floats, noise_variance: float, kurtosis: float, win_chance: Floats, used: Mask
) -> int:
    """Return how many answers on a pair count as one, if they agree more than scores explain.

    Law: on a pair with T comparisons, t = 2 F - 1 and noise of variance v in either count,
    e = (A - B) - T t has the variance f T (1 - t^2) + 2 v (1 + t^2), where f = 1 for independent
    answers and f = k where one opinion is asked k times. So f is a ratio of sums over pairs, which
    the scores' own degrees of freedom make smaller by their share.

    Args:
        wins: noisy, in comparisons, shape (n, n).
        noise_variance: v.
        kurtosis: kurtosis of a sum of two draws of that noise.
        win_chance: F, of the scores that were fitted, shape (n, n).
        used: the pairs that the fit used, symmetric.

    Returns:
        The nearest whole f; 1 where it may be 1 by chance (two standard errors), and where it is
        so large that scores do not fit the pairs, which many answers show.
    """
    pairs = np.triu(used, 1)
    free = int(pairs.sum()) - len(wins) + 1
    totals, tilt = (wins + wins.T)[pairs], 2 * win_chance[pairs] - 1
    off = (wins - wins.T)[pairs] - totals * tilt
    noise = 2 * noise_variance * (1 + tilt**2)
    expected = float((totals * (1 - tilt**2)).sum()) * free / max(len(totals), 1)
    if free < 1 or expected <= 0:
        return 1
    found = float((off**2 - noise).sum()) / expected
    sampling = np.maximum(totals, 0) * (1 - tilt**2)
    varies = 2 * sampling**2 + (kurtosis - 1) * noise**2 + 4 * noise * sampling
    error = math.sqrt(float(varies.sum())) / expected  # if f is 1
    return math.floor(found + 0.5) if max(1 + CLEAR * error, 1.5) < found < MOST else 1
