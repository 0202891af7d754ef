"""Amplification by shuffling: the guarantee of local reports if nobody can tell who sent which.

The theorem is about N reports of *one* randomiser that differ only in their order. Here these are
answers to the same pair at the same epsilon. The pair and the epsilon are not hidden, so a report
on another pair, or at another epsilon, gives no cover. N is the number of such reports, or a lower
bound on it; it is not the number of all rows.

References:
    [FMT21] Feldman, McMillan, Talwar. Hiding among the clones: a simple and nearly optimal
        analysis of privacy amplification by shuffling. 2021.
"""

from __future__ import annotations

import math

ROUNDING = (
    1e-12  # relative margin, far above the formula's rounding error: the result is an upper bound
)
RELATIVE_TOLERANCE = 1e-9  # relative tolerance of the search in `local_epsilon_for`


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
