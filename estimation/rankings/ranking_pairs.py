"""From rankings to matrices: who is ranked above whom, and which place each item takes.

Sums of integers over rankings, so a file can be counted in parts and the parts added.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

BLOCK_CELLS = 1 << 18  # pairs at a time: the intermediates stay in the processor's cache

Integers = NDArray[np.int64]


def pair_counts(items: Integers, lengths: Integers, n_items: int) -> Integers:
    """How often each item is ranked above each other.

    All ordered pairs of a ranking count, m (m - 1) / 2 of them; an item that a ranking leaves out
    is in no pair of it.

    Args:
        items: shape (sum of lengths,), the rankings one after the other, each best first; codes
            below `n_items`, no item twice in a ranking.
        lengths: shape (n,), how many items each has.
        n_items: size of the catalogue.

    Returns:
        shape (n_items, n_items), entry [a, b] = rankings with a above b.

    Raises:
        ValueError: the lengths do not fit, a code is out of range, or a ranking repeats an item.
    """
    wins = np.zeros(n_items**2, np.int64)
    for table in tables_by_length(items, lengths, n_items):
        above, below = np.triu_indices(table.shape[1], 1)
        size = max(BLOCK_CELLS // max(len(above), 1), 1)
        for start in range(0, len(table), size):
            rows = table[start : start + size]
            cells = rows[:, above] * n_items + rows[:, below]
            wins += np.bincount(cells.ravel(), minlength=n_items**2)
    square: Integers = wins.reshape(n_items, n_items)
    if np.diagonal(square).any():
        raise ValueError("a ranking holds an item twice")  # which, is private
    return square


def tables_by_length(items: Integers, lengths: Integers, n_items: int) -> Iterator[Integers]:
    """Rankings of the same length as a matrix, one row each; empty ones are left out.

    Raises:
        ValueError: as `pair_counts`, but for items that a ranking repeats.
    """
    if (lengths < 0).any() or lengths.sum() != len(items):
        raise ValueError("lengths must be >= 0 and sum to the number of items")
    if len(items) and not 0 <= items.min() <= items.max() < n_items:
        raise ValueError(f"item codes must be 0 to {n_items - 1}")
    if len(lengths) and lengths.max() > n_items:
        raise ValueError("a ranking holds an item twice")
    found = np.flatnonzero(np.bincount(lengths)[1:]) + 1
    if len(found) == 1 and len(items) == found[0] * len(lengths):
        yield items.reshape(len(lengths), -1)
        return
    starts = np.cumsum(lengths) - lengths
    for length in found:
        yield items[starts[lengths == length][:, None] + np.arange(length)]
