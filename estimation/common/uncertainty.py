"""From the variance of an estimate to intervals, rank intervals and groups of equals.

Laplace noise plus sampling error is not normal. A Laplace variable of scale b is a normal one whose
variance is 2 b^2 E, with E exponential of mean 1, so a normal variable plus k independent Laplace
ones of equal scale is a normal variable whose variance is v + 2 b^2 G, with G gamma of shape k. Its
tail is therefore one smooth integral of normal tails, all of them positive: no cancellation,
however deep in the tail.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline
from scipy.optimize import brentq
from scipy.special import log_ndtr, logsumexp, ndtri

from hushrank.privacy.units import NoiseKind

LEVEL = 0.05  # intervals miss this often
KNOTS = 65  # of the table of quantiles; the spline between them is right to 1 part in 10^5
GRID_STEP = 0.1  # trapezoid rule in log G, whose spread is 1 / sqrt(k): converges geometrically,
GRID_SPREADS = 0.5  # here past 10^-15
GRID_BELOW, GRID_ABOVE = 40.0, 6.0  # its ends, from log k, for k = 1

# margin(x, y), elementwise: a value x that exceeds y by more is surely the larger one.
Margin = Callable[[NDArray[np.float64], NDArray[np.float64]], NDArray[np.float64]]


def quantile(
    noise_share: NDArray[np.float64], tail: float, kind: NoiseKind, n_draws: int
) -> NDArray[np.float64]:
    """What sampling error plus privacy noise, of total variance 1, exceeds with chance `tail`.

    Sampling error is taken as normal, discrete noise as continuous noise of the same variance.

    Args:
        noise_share: the noise's share of the total variance, in [0, 1], any shape.
        tail: in (0, 1/2).
        kind: law of the noise.
        n_draws: independent draws of equal scale of which the noise is the sum.

    Returns:
        The same shape as `noise_share`.

    Raises:
        ValueError: `tail` is outside its range.
    """
    if not 0 < tail < 0.5:
        raise ValueError(f"tail must be above 0 and below 1/2, got {tail!r}")
    if kind is NoiseKind.GAUSSIAN:
        return np.full(np.shape(noise_share), -ndtri(tail))
    return np.asarray(_laplace_quantile(tail, n_draws)(noise_share))


@lru_cache(maxsize=16)
def _laplace_quantile(tail: float, n_draws: int) -> CubicSpline:
    """The quantile as a function of the noise's share of the variance."""
    log_target = math.log(tail)
    highest = 2 - 2 * log_target * math.sqrt(n_draws)  # above the quantile at every share

    def excess(x: float, noise_share: float) -> float:
        return log_tail(x, noise_share, n_draws) - log_target

    shares = np.linspace(0, 1, KNOTS)
    return CubicSpline(shares, [brentq(excess, 0.0, highest, args=(share,)) for share in shares])


def log_tail(x: float, noise_share: float, n_draws: int) -> float:
    """Log chance that a normal plus `n_draws` Laplace variables, of total variance 1, exceed x.

    Args:
        x: at least 0.
        noise_share: the Laplace variables' share of the variance, in [0, 1].
        n_draws: how many Laplace variables, of equal scale.
    """
    spread = 1 / math.sqrt(n_draws)
    step = min(GRID_STEP, GRID_SPREADS * spread)
    lowest = math.log(n_draws) - GRID_BELOW * spread
    highest = math.log(n_draws) + min(GRID_ABOVE, GRID_BELOW * spread)
    log_gamma = np.arange(lowest, highest, step)
    log_density = n_draws * log_gamma - np.exp(log_gamma) - math.lgamma(n_draws)
    variance = (1 - noise_share) + noise_share / n_draws * np.exp(log_gamma)
    log_integrand = log_density + log_ndtr(-x / np.sqrt(variance))
    return float(logsumexp(log_integrand) + math.log(step))


@dataclass(frozen=True, slots=True)
class RankSeparation:
    """Which ranks each item may have; arrays of shape (n,), in catalogue order.

    Attributes:
        rank_low: 1 + the number of items that are surely better.
        rank_high: n - the number of items that are surely worse.
        groups: 1 is best; no two items with the same number can be told apart.
    """

    rank_low: NDArray[np.int64]
    rank_high: NDArray[np.int64]
    groups: NDArray[np.int64]


def pair_tail(n_items: int) -> float:
    """Tail chance at which one pair is tested, so that a rank interval misses with 5 % at most.

    An item has n - 1 opponents, and each difference has two sides (Bonferroni).
    """
    return LEVEL / (2 * (n_items - 1))


def separate_ranks(values: NDArray[np.float64], margin: Margin) -> RankSeparation:
    """Rank intervals and groups from all pairs of items, in O(n log n).

    Groups: going down the ranking, an item joins the current group if it cannot be told from any
    member of it, else it starts the next one. So "cannot be told apart" holds for all pairs in a
    group; an item is told apart from at least one member of the group above it, not always from
    all of them: the rank intervals say how far.

    Args:
        values: shape (n,), what items are ordered by; larger is better.
        margin: by how much x must exceed y for that order to be sure: at least 0, and
            y + margin(x, y) must not decrease in y. Whoever is surely better than an item is then
            surely better than all below it.

    Returns:
        Rank intervals and groups.
    """
    n = len(values)
    order = np.argsort(-values, kind="stable")
    first_worse = _first_surely_worse(values[order], margin)
    surely_better = np.cumsum(np.bincount(first_worse, minlength=n)[:n])
    rank_low, rank_high, groups = (np.empty(n, np.int64) for _ in range(3))
    rank_low[order] = 1 + surely_better
    rank_high[order] = first_worse  # n - (n - first_worse)
    groups[order] = _runs(first_worse)
    return RankSeparation(rank_low, rank_high, groups)


def _first_surely_worse(descending: NDArray[np.float64], margin: Margin) -> NDArray[np.int64]:
    """For each position, the first one further down that is surely worse, or n: by bisection."""
    n = len(descending)
    low, high = np.arange(1, n + 1), np.full(n, n)
    while (open_ := low < high).any():
        middle = (low + high) // 2
        other = descending[np.minimum(middle, n - 1)]
        worse = descending - other > margin(descending, other)
        high = np.where(open_ & worse, middle, high)
        low = np.where(open_ & ~worse, middle + 1, low)
    return low


def _runs(first_worse: NDArray[np.int64]) -> NDArray[np.int64]:
    """Number, from 1, the longest runs of positions without a sure pair, greedily from the top."""
    n = len(first_worse)
    numbers = np.empty(n, np.int64)
    number, end = 0, 0
    for position in range(n):
        if position == end:
            number, end = number + 1, n
        end = min(end, int(first_worse[position]))
        numbers[position] = number
    return numbers
