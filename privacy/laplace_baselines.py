"""Laplace noise on a binary answer and on a ranking: the baselines of the local mechanisms.

On a binary answer it is the baseline `laplace-rr` of randomised response. On the ranks of a list,
which are then sorted, it is the baseline that the Mallows mechanism is compared with.

Moving one item of a ranking moves its rank by k <= m - 1 and the ranks of k others by one: l1
sensitivity 2 (m - 1). Noise is discrete Laplace on a grid much finer than a rank, of that
sensitivity over epsilon; what is equal after it is put in a random order.

References:
    [XSC] Xu, Sun, Cheng. Rate-optimal rank aggregation with private pairwise rankings. Scenario V.
    [RDP] Xu, Sun, Cheng. Ranking differential privacy. Lemma 3.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hushrank.privacy.mallows import rankings_by_length
from hushrank.privacy.noise import NoiseLaw, add_noise, laplace_law
from hushrank.privacy.randomness import RandomBits
from hushrank.privacy.sensitivity import Sensitivity

GRID = 1 << 10  # the noise lies on multiples of 1 / GRID: its variance is that of continuous noise


def add_laplace(
    outcomes: NDArray[np.uint8], epsilon: NDArray[np.float64], bits: RandomBits
) -> NDArray[np.int64]:
    """Add discrete Laplace noise of scale 1 / epsilon to each answer, on a grid of 1 / GRID.

    Guarantee: answer l is epsilon_l-DP, if `bits.safe`: it moves GRID units of the grid.

    Args:
        outcomes: shape (m,), values in {0, 1}.
        epsilon: shape (m,), nats, finite and > 0. Each distinct value costs one call of the exact
            sampler, so this baseline is for thousands of people, not millions.
        bits: `system_bits()` in a release.

    Returns:
        shape (m,), noisy answers in units of 1 / GRID.

    Raises:
        ValueError: an outcome is not 0 or 1, an epsilon is not finite and positive, or the shapes
            differ.
    """
    if outcomes.dtype != np.uint8 or (outcomes > 1).any():
        raise ValueError("outcomes must be a uint8 array of 0 and 1")  # values are private
    if outcomes.shape != epsilon.shape:
        raise ValueError(f"{epsilon.shape} epsilons do not match {outcomes.shape} outcomes")
    if not (np.isfinite(epsilon).all() and (epsilon > 0).all()):
        raise ValueError("every epsilon must be finite and > 0")
    noisy = outcomes.astype(np.int64) * GRID
    order = np.argsort(epsilon, kind="stable")
    changes = np.flatnonzero(np.diff(epsilon[order])) + 1
    for rows in np.split(order, changes) if len(order) else []:
        noisy[rows] = add_noise(noisy[rows], response_law(float(epsilon[rows[0]])), bits)
    return noisy


def response_law(epsilon: float) -> NoiseLaw:
    """Noise of one answer, in units of the grid.

    Raises:
        ValueError: `epsilon` is not > 0, or too small.
    """
    return laplace_law(Sensitivity(GRID, GRID**2), epsilon)


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
