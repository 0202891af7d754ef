"""Private synthetic rankings: the Mallows mechanism by repeated insertion, exact and vectorised.

Items are inserted best first. The t-th goes behind t - 1 - D of those already there, where D, the
number of better items that end up behind it, is drawn from 0..t-1 with P(D = d) = w_d / C_t. The
integers w_0 >= w_1 >= ... >= w_{m-1} are one table for all steps, C_t = w_0 + ... + w_{t-1}, and

    w_d <= e^(epsilon / (m - 1)) * w_{d+1}                                                  (*)

A ranking s comes out of r with probability prod_x w_{D_x(r, s)} / prod_t C_t, where D_x(r, s) is
the number of items that r ranks above x and s below. The denominator does not depend on r.

Proof of epsilon-ranking DP. Move one item y of r down past z_1..z_k, k <= m - 1, giving r'. Say a
of the z are below y in s, hence k - a above it. Only these factors of prod_x w_{D_x} change:
    - r' ranks the z above y and r does not, so D_y grows by a: its factor shrinks, by
      e^(a epsilon / (m-1)) at most;
    - y is above the z in r and not in r', so D_z falls by 1 for each of the k - a that s ranks
      above y: its factor grows, by e^(epsilon / (m-1)) at most.
The table is nonincreasing, so y's factor cannot grow and the others cannot shrink: the ratio of the
probabilities is at least e^(-a epsilon / (m-1)) and at most e^((k-a) epsilon / (m-1)), so it is
within e^epsilon either way. Moving y up is the same move backwards.

Proof for the whole ranking. 0 <= D_x <= t - 1 for the t-th best item x, so two values of the
product differ by the factor e^(epsilon / (m-1) * m (m-1) / 2) = e^(epsilon m / 2) at most.

With equality in (*) the law is P(s) ~ q^T, q = e^(epsilon / (m-1)), T = number of unordered pairs
on which r and s agree: a Mallows model. Here w_d / w_{d+1} is below q by the relative amount
2^-39 + 1 / w_{d+1} at most, and w_0 = 2^44. D is drawn with 64-bit words; those at the top of the
range that would favour some D are drawn again, so there is no modulo bias.

References:
    [RDP] Xu, Sun, Cheng. Ranking differential privacy. Algorithm 1. Its Lemmas 1 and 2 print the
        exponent epsilon |Omega| / 2: the algorithm's if T is averaged over ordered pairs, and far
        too large for the sum that the text defines.
    [DPR] Doignon, Pekec, Regenwetter. The repeated insertion model for rankings. 2004.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from hushrank.privacy.exponential import exp_of_minus
from hushrank.privacy.randomness import RandomBits

LARGEST_WEIGHT = 2.0**44  # w_0: few words are rejected, and every product below is exact in a float
MOST_ITEMS = 1 << 16  # items of one ranking: C_t stays below 2^60
LARGEST_WORD = np.uint64(2**64 - 1)
BLOCK_CELLS = 1 << 17  # positions at a time: the intermediates stay in the processor's cache
# e^-x has a relative error below 2^-41.8; this covers it three times, and the rounding of its
# product with a weight.
ROUNDED_UP = 1 + 2.0**-40


def insertion_weights(epsilon: NDArray[np.float64], n_items: int) -> NDArray[np.uint64]:
    """w_0..w_{m-1} for rankings of m = `n_items`, one table per epsilon.

    Guarantee: w_d <= e^(epsilon / (m-1)) w_{d+1} and w_d >= w_{d+1} >= 1, so the draw is
    epsilon-ranking DP, and (epsilon m / 2)-DP for the whole ranking (the module's proof).

    Args:
        epsilon: shape (k,), nats, finite and > 0.
        n_items: m, at least 1.

    Returns:
        shape (m, k).

    Raises:
        ValueError: an epsilon is not finite and positive, or m is not in 1..2^16.
    """
    if not ((epsilon > 0) & (epsilon < np.inf)).all():
        raise ValueError("every epsilon must be finite and > 0")  # the values are somebody's
    if not 1 <= n_items <= MOST_ITEMS:
        raise ValueError(f"a ranking must have 1 to {MOST_ITEMS} items, got {n_items}")
    weights = np.empty((n_items, len(epsilon)), np.uint64)
    step = np.nextafter(epsilon / max(n_items - 1, 1), 0.0)  # the quotient was rounded to nearest
    ratio = np.minimum(exp_of_minus(step) * ROUNDED_UP, 1.0)
    current = np.full(len(epsilon), LARGEST_WEIGHT)
    for row in weights:
        row[:] = current
        current = np.ceil(current * ratio)
    return weights


def sample_positions(weights: NDArray[np.uint64], n: int, bits: RandomBits) -> NDArray[np.uint16]:
    """Synthetic positions of the best, second best, ... item of `n` rankings.

    Guarantee: the one of the table, if `bits.safe`.

    Args:
        weights: weights from `insertion_weights`; shape (m, 1) for all, or (m, n) for one table
            each.
        n: number of rankings.
        bits: `system_bits()` in a release.

    Returns:
        shape (m, n): entry (i, r) is where ranking r's i-th best item comes out, 0 = best.

    Raises:
        ValueError: the number of tables is neither 1 nor `n`.
    """
    n_items, n_tables = weights.shape
    if n_tables not in (1, n):
        raise ValueError(f"{n_tables} tables of weights do not match {n} rankings")
    cumulative = np.cumsum(weights, axis=0, dtype=np.uint64)
    positions = np.empty((n_items, n), np.uint16)
    for rows in _blocks(n, n_items):
        own = cumulative if n_tables == 1 else cumulative[:, rows]
        positions[:, rows] = _inserted(own, rows.stop - rows.start, bits)
    return positions


def synthetic_rankings(
    items: NDArray[np.int64],
    lengths: NDArray[np.int64],
    epsilon: float | NDArray[np.float64],
    bits: RandomBits,
) -> NDArray[np.int64]:
    """Replace every ranking by a private synthetic one of the same items.

    Guarantee: ranking r is epsilon_r-ranking DP: moving any one of its items anywhere changes the
    probability of no output by more than e^epsilon_r ([RDP] Definition 3, Lemmas 1 and 2). Two
    rankings of the same m items are told apart by (epsilon_r m / 2)-DP. Which items a person
    ranked, and how many, is not hidden. All this if `bits.safe`.

    Args:
        items: shape (sum of lengths,), the rankings one after the other, each best first.
        lengths: shape (n,), how many items each has; lists of 0 and 1 items stay as they are.
        epsilon: nats, finite and > 0; one for all rankings, or shape (n,).
        bits: `system_bits()` in a release.

    Returns:
        shape of `items`; `items` is not modified.

    Raises:
        ValueError: the lengths are negative or do not sum to the number of items, an epsilon is not
            finite and positive, or the shapes differ.
    """
    column = np.asarray(epsilon, np.float64)
    if (lengths < 0).any() or lengths.sum() != len(items):
        raise ValueError("lengths must be >= 0 and sum to the number of items")
    if column.ndim and column.shape != lengths.shape:
        raise ValueError(f"{column.shape} epsilons do not match {lengths.shape} rankings")
    synthetic = items.copy()
    for n_items, chosen, starts in rankings_by_length(lengths):
        own = column[chosen] if column.ndim else column[None]
        shared = insertion_weights(own[:1], n_items) if (own == own[0]).all() else None
        for rows in _blocks(len(starts), n_items):
            weights = insertion_weights(own[rows], n_items) if shared is None else shared
            positions = sample_positions(weights, rows.stop - rows.start, bits)
            cells = starts[rows] + np.arange(n_items)[:, None]
            synthetic[starts[rows] + positions] = items[cells]
    return synthetic


def rankings_by_length(
    lengths: NDArray[np.int64],
) -> Iterator[tuple[int, NDArray[np.int64], NDArray[np.int64]]]:
    """Rankings of two items or more by length: the length, which they are, where each starts."""
    starts = np.cumsum(lengths) - lengths
    for n_items in np.flatnonzero(np.bincount(lengths)[2:]) + 2:
        chosen = np.flatnonzero(lengths == n_items)
        yield int(n_items), chosen, starts[chosen]


def whole_ranking_epsilon(epsilon: float, n_items: int) -> float:
    """epsilon m / 2: the privacy loss between any two rankings of the same m items."""
    return epsilon * n_items / 2


def concordance_probability(
    distance: NDArray[np.int64], epsilon: float, n_items: int
) -> NDArray[np.float64]:
    """Probability that two items keep their order, `distance` >= 1 places apart in a full ranking.

    (k + 1) / (1 - q^-(k+1)) - k / (1 - q^-k) with q = e^(epsilon / (m - 1)): the closed form of the
    Mallows model.

    Raises:
        ValueError: epsilon is not finite and positive, or a distance is not in 1..m-1.
    """
    if not 0 < epsilon < math.inf:
        raise ValueError(f"epsilon must be finite and > 0, got {epsilon!r}")
    k = np.asarray(distance, np.float64)
    if (k < 1).any() or (k > n_items - 1).any():
        raise ValueError(f"distances must be 1 to {n_items - 1}")
    theta = epsilon / (n_items - 1)
    # k / (1 - e^-x) = k / 2 + k / 2 coth(x / 2), and the parts without coth leave 1 / 2. Written so
    # because for a small theta the two terms of the closed form are large and nearly equal.
    return np.asarray(0.5 + (_langevin((k + 1) * theta / 2) - _langevin(k * theta / 2)) / theta)


def expected_concordance(epsilon: float, n_items: int) -> float:
    """Expected share of the m (m - 1) / 2 pairs on which a ranking and its synthetic one agree."""
    distance = np.arange(1, n_items)
    pairs = n_items - distance
    share = concordance_probability(distance, epsilon, n_items)
    return float((share * pairs).sum() / pairs.sum())


def _langevin(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """x coth x - 1, accurate for a small x > 0."""
    series = x**2 / 3 - x**4 / 45 + 2 * x**6 / 945
    return np.where(x < 0.02, series, x / np.tanh(x) - 1)


def _blocks(n: int, n_items: int) -> Iterator[slice]:
    size = max(BLOCK_CELLS // n_items, 1)
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))


def _inserted(
    cumulative: NDArray[np.uint64], n: int, bits: RandomBits
) -> NDArray[np.unsignedinteger]:
    n_items = len(cumulative)
    small = np.uint8 if n_items <= 256 else np.uint16
    positions = np.zeros((n_items, n), small)
    for t in range(1, n_items):
        behind = _displacements(cumulative[: t + 1], n, bits, small)
        at = np.subtract(small(t), behind, out=behind)
        moved = positions[:t] >= at
        np.add(positions[:t], moved, out=positions[:t])
        positions[t] = at
    return positions


def _displacements(
    cumulative: NDArray[np.uint64], n: int, bits: RandomBits, small: type[np.unsignedinteger]
) -> NDArray[np.unsignedinteger]:
    """n draws of D with P(D = d) = w_d / C exactly, from the cumulative sums of the w."""
    total = cumulative[-1]
    words_each = LARGEST_WORD // total  # number of words with the same meaning below the total
    drawn = bits.words(n) // words_each
    while (rejected := drawn >= total).any():
        again = np.flatnonzero(rejected)
        own = words_each[again] if len(total) > 1 else words_each
        drawn[again] = bits.words(len(again)) // own
    behind = np.zeros(n, small)
    for threshold in cumulative[:-1]:
        behind += drawn >= threshold
    return behind
