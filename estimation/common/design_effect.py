"""In which unit counts of weighted rows are as random as counts of rows without weights.

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
        total_variance: of its noise.
        squares: noisy sum of squared weights, in squared units, without `row_weight`.
        squares_variance: of its noise.
        row_weight: what a win of weight one unit adds to its count.
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
