"""Amplification by shuffling: the guarantee of local reports if nobody can tell who sent which.

The theorems are about N reports of *one* randomiser that differ only in their order. Here these are
answers to the same pair at the same epsilon. The pair and the epsilon are not hidden, so a report
on another pair, or at another epsilon, gives no cover. N is the number of such reports, or a lower
bound on it; it is not the number of all rows.

For any randomiser there is the closed formula of [FMT21]. For binary randomised response the
privacy blanket of [BBGN19] can be summed exactly, which proves much less: at N = 10 000,
epsilon0 = 2 and delta = 1e-6 epsilon is 0.114 instead of 0.501.

**The blanket.** Let p <= 1/2 be the chance of a flip, e^epsilon0 = (1 - p) / p. A report is a fair
coin with probability 2p, the *blanket*, and its true bit otherwise. Give the adversary more than
the shuffle shows: who of the other N - 1 people reported a coin, and the bits of those who did not.
What is left to see is the number of ones among M coins and the one report in question, with
M ~ Bin(N - 1, 2p) known. Given M = m that number has one of the laws

    P = Bin(m, 1/2) + Bernoulli(1 - p),   Q = Bin(m, 1/2) + Bernoulli(p),

whose ratio P(c) / Q(c) grows with c. It is above e^epsilon where c > r (m + 1) / (1 + r) with
r = b / a, a = (1 - p) - e^epsilon p and b = e^epsilon (1 - p) - p. Let c be the first such count.
Then, summed over all counts from c on,

    delta_m(epsilon) = sum (P - e^epsilon Q)_+
                     = a Pr(Bin(m, 1/2) = c - 1) - (e^epsilon - 1) Pr(Bin(m, 1/2) >= c),

and 0 where a <= 0. The mean of delta_m over M is a delta of the shuffle: what the adversary was
given can only help, and swapping the two bits swaps P and Q up to c -> m + 1 - c. One more coin is
a post-processing, so that delta_m falls with m: summing over blocks of m, each with the delta of
its smallest m, bounds the mean from above.

A flip that is a little more likely than p is p followed by another flip, which is post-processing
of all reports: the guarantee holds for thresholds that are rounded up.

References:
    [FMT21] Feldman, McMillan, Talwar. Hiding among the clones: a simple and nearly optimal
        analysis of privacy amplification by shuffling. 2021.
    [BBGN19] Balle, Bell, Gascon, Nissim. The privacy blanket of the shuffle model. 2019.
"""

from __future__ import annotations

import math

import numpy as np
import scipy
from numpy.typing import NDArray

Floats = NDArray[np.float64]

ROUNDING = (
    1e-12  # relative margin, far above the formula's rounding error: the result is an upper bound
)
RELATIVE_TOLERANCE = 1e-9  # relative tolerance of the search in `local_epsilon_for`
# Relative error of scipy's binomial terms and tails, with room to spare: tests that compare with 40
# digits find less than 1e-10.
BINOMIAL_ERROR = 1e-9
BLOCKS = 4096  # blocks of blanket sizes: more only make the bound tighter
SMALLEST_PART = 1e-3  # part of delta that blanket sizes far below the mean may take
NO_COINS = 100.0  # nats; of fewer than 10^43 reports none is a coin
MOST_REPORTS = 10**9  # reports that are counted; more would only prove less, and slowly
SEARCH_STEPS = 40  # halvings of an interval of length epsilon0


def largest_amplified_epsilon(n_reports: int, delta: float) -> float:
    """The condition of [FMT21] Theorem III.1: local epsilon up to ln(N / (16 ln(2 / delta))).

    Args:
        n_reports: N, at least 1.
        delta: delta of the central guarantee, strictly between 0 and 1.

    Returns:
        The largest local epsilon covered; 0 or less if N is too small for any.

    Raises:
        ValueError: an argument is out of range.
    """
    if n_reports < 1:
        raise ValueError(f"n_reports must be >= 1, got {n_reports!r}")
    if not 0 < delta < 1:
        raise ValueError(f"delta must be strictly between 0 and 1, got {delta!r}")
    return math.log(n_reports / (16 * math.log(2 / delta)))


def shuffled_epsilon(local_epsilon: float, n_reports: int, delta: float) -> float:
    """Central epsilon of N shuffled reports, each locally epsilon0-DP.

    Guarantee: if one report's input is replaced, the shuffled collection is
    (returned value, delta)-DP. If the condition of [FMT21] Theorem III.1 holds, the value is

        ln(1 + (e^e0 - 1) / (e^e0 + 1) * (8 sqrt(e^e0 ln(4 / delta) / N) + 8 e^e0 / N)).

    If it does not hold, or if that is more, the value is e0: shuffling never costs privacy.

    Args:
        local_epsilon: epsilon0 in nats, finite and > 0.
        n_reports: N, reports of the same randomiser (see the module's text).
        delta: delta of the central guarantee.

    Returns:
        Epsilon, rounded up; never above `local_epsilon`.

    Raises:
        ValueError: an argument is out of range.
    """
    if not (math.isfinite(local_epsilon) and local_epsilon > 0):
        raise ValueError(f"local_epsilon must be finite and > 0, got {local_epsilon!r}")
    if local_epsilon > largest_amplified_epsilon(n_reports, delta):
        return local_epsilon
    growth = math.exp(local_epsilon)
    spread = 8 * math.sqrt(growth * math.log(4 / delta) / n_reports) + 8 * growth / n_reports
    amplified = math.log1p(math.tanh(local_epsilon / 2) * spread)
    return min(local_epsilon, amplified * (1 + ROUNDING))


def shuffled_bit_epsilon(local_epsilon: float, n_reports: int, delta: float) -> float:
    """Central epsilon of N shuffled bits, each by randomised response at epsilon0.

    Guarantee: if one person's bit is replaced, the shuffled collection is (returned value,
    delta)-DP, by the module's text; never above `shuffled_epsilon`.

    Args:
        local_epsilon: epsilon0 in nats, finite and > 0: every bit is flipped with probability
            1 / (e^epsilon0 + 1), or a little more.
        n_reports: N, reports of the same randomiser (see the module's text).
        delta: delta of the central guarantee.

    Returns:
        Epsilon, rounded up; never above `local_epsilon`.

    Raises:
        ValueError: an argument is out of range.
    """
    high = shuffled_epsilon(local_epsilon, n_reports, delta)
    if local_epsilon > NO_COINS:
        return high
    flip = math.exp(-local_epsilon) / (1 + math.exp(-local_epsilon)) * (1 - ROUNDING)
    sizes, probabilities = _blankets(
        min(n_reports, MOST_REPORTS) - 1, 2 * flip, SMALLEST_PART * delta
    )
    if _blanket_delta(high, flip, sizes, probabilities) > delta:  # few reports, or a tiny delta
        return high
    low = 0.0
    for _ in range(SEARCH_STEPS):
        middle = (low + high) / 2
        if _blanket_delta(middle, flip, sizes, probabilities) <= delta:
            high = middle
        else:
            low = middle
    return high


def _blankets(n_others: int, chance: float, tail: float) -> tuple[NDArray[np.int64], Floats]:
    """Sizes of the blanket, the smallest of each block, and upper bounds on their probabilities.

    Probabilities rise up to the mode and fall from there: the largest of a block is at the size
    that is next to the mode.
    """
    rare = -math.log(tail)
    reach = math.sqrt(2 * rare * n_others * chance * (1 - chance)) + rare  # Bernstein's inequality
    least = max(0, math.floor(n_others * chance - reach))
    most = min(n_others, math.ceil(n_others * chance + reach))
    step = -(-(most - least + 1) // BLOCKS)
    starts = np.arange(least, most + 1, step)
    mode = min(int((n_others + 1) * chance), n_others)
    inner = np.clip(mode, starts, starts + step - 1)
    inside = step * scipy.stats.binom.pmf(inner, n_others, chance)
    inside[-1] += scipy.stats.binom.sf(most, n_others, chance)
    sizes = np.concatenate([[0], starts])  # 0 stands for all that are below
    below = scipy.stats.binom.cdf(least - 1, n_others, chance)
    return sizes, np.concatenate([[below], inside]) * (1 + BINOMIAL_ERROR)


def _blanket_delta(
    epsilon: float, flip: float, sizes: NDArray[np.int64], probabilities: Floats
) -> float:
    """Mean of delta_m over the blanket's size, rounded up."""
    kept, growth = 1 - flip, math.exp(epsilon)
    rise = kept - growth * flip
    if rise <= 0:
        return 0.0
    fall = growth * kept - flip
    # The float may be next to the count that is meant, whose sum is the largest of all.
    near = np.floor(fall / (rise + fall) * (sizes + 1)) + np.array([[0], [1], [2]])
    ones = rise * scipy.stats.binom.pmf(near - 1, sizes, 0.5) * (1 + BINOMIAL_ERROR)
    lost = math.expm1(epsilon) * scipy.stats.binom.sf(near - 1, sizes, 0.5) * (1 - BINOMIAL_ERROR)
    found = np.maximum(ones - lost, 0.0).max(axis=0)
    return float(found @ probabilities) * (1 + BINOMIAL_ERROR)


def local_epsilon_for(epsilon: float, n_reports: int, delta: float) -> float:
    """The largest local epsilon, rounded down, with `shuffled_epsilon` of at most `epsilon`.

    Args:
        epsilon: central target in nats, finite and > 0.
        n_reports: N, reports of the same randomiser.
        delta: delta of the central guarantee.

    Returns:
        At least `epsilon`, since an epsilon-DP local report needs no shuffling.

    Raises:
        ValueError: an argument is out of range.
    """
    if not (math.isfinite(epsilon) and epsilon > 0):
        raise ValueError(f"epsilon must be finite and > 0, got {epsilon!r}")
    low, high = epsilon, largest_amplified_epsilon(n_reports, delta)
    if high <= low or shuffled_epsilon(high, n_reports, delta) <= epsilon:
        return max(low, high)
    while high - low > RELATIVE_TOLERANCE * high:
        middle = (low + high) / 2
        if shuffled_epsilon(middle, n_reports, delta) <= epsilon:
            low = middle
        else:
            high = middle
    return low
