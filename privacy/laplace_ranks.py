"""Laplace noise on ranks, then sorting: the baseline that the Mallows mechanism is compared with.

Moving one item of a ranking moves its rank by k <= m - 1 and the ranks of k others by one: l1
sensitivity 2 (m - 1). Noise is discrete Laplace on a grid much finer than a rank, of that
sensitivity over epsilon; what is equal after it is put in a random order.

References:
    [RDP] Xu, Sun, Cheng. Ranking differential privacy. Lemma 3.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hushrank.privacy.mallows import rankings_by_length
from hushrank.privacy.noise import NoiseLaw, add_noise, laplace_law
from hushrank.privacy.randomness import RandomBits
from hushrank.privacy.sensitivity import Sensitivity

GRID = 1 << 10  # steps of a rank: ties after the noise are rare, and the noise nearly continuous


def rank_sensitivity(n_items: int) -> Sensitivity:
    """l1 and squared l2 change of the ranks 1..m, in steps of the grid, when one item is moved."""
    most = n_items - 1
    return Sensitivity(2 * most, most**2 + most).scaled(GRID)


def rank_law(n_items: int, epsilon: float) -> NoiseLaw:
    """Noise of one rank in a list of `n_items`, in steps of the grid.

    Raises:
        ValueError: `epsilon` is not > 0, or too small.
    """
    return laplace_law(rank_sensitivity(n_items), epsilon)


def whole_ranking_epsilon(epsilon: float, n_items: int) -> float:
    """Privacy loss between any two rankings of the same m items: epsilon floor(m^2 / 2) / (2m - 2).

    No two rankings differ by more than floor(m^2 / 2) in l1 norm (one is the other reversed), and
    moving one item, which costs epsilon, by 2 (m - 1).
    """
    return epsilon * (n_items**2 // 2) / (2 * max(n_items - 1, 1))


def laplace_rankings(
    items: NDArray[np.int64], lengths: NDArray[np.int64], epsilon: float, bits: RandomBits
) -> NDArray[np.int64]:
    """Replace every ranking by its items sorted by rank plus Laplace noise.

    Guarantee: epsilon-ranking DP for every ranking ([RDP] Lemma 3, with discrete noise), if
    `bits.safe`. Which items a person ranked, and how many, is not hidden.

    Args:
        items: shape (sum of lengths,), the rankings one after the other, each best first.
        lengths: shape (n,), how many items each has; lists of 0 and 1 items stay as they are.
        epsilon: nats per ranking, finite and > 0.
        bits: `system_bits()` in a release.

    Returns:
        shape of `items`; `items` is not modified.

    Raises:
        ValueError: the lengths are negative or do not sum to the number of items, or epsilon is not
            > 0.
    """
    if (lengths < 0).any() or lengths.sum() != len(items):
        raise ValueError("lengths must be >= 0 and sum to the number of items")
    synthetic = items.copy()
    for n_items, chosen, starts in rankings_by_length(lengths):
        law = rank_law(n_items, epsilon)
        ranks = np.tile(np.arange(n_items, dtype=np.int64) * GRID, (len(chosen), 1))
        order = np.lexsort((bits.words(ranks.shape), add_noise(ranks, law, bits)), axis=1)
        cells = starts[:, None] + np.arange(n_items)
        synthetic[cells] = items[starts[:, None] + order]
    return synthetic
