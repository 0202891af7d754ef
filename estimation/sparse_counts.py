"""Counts of the cells of a matrix of which most are zero: only the others are stored."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class CellCounts:
    """How often each cell was met. Integers: their sum is the same in every order.

    Attributes:
        cells: shape (k,), int64, ascending, each once: row * n + column, which 32 bits cannot hold
            from n = 46 341 on.
        counts: shape (k,), int64.
    """

    cells: Integers
    counts: Integers

    def __len__(self) -> int:
        return len(self.cells)

    @classmethod
    def of(cls, cells: Integers, weight: int = 1) -> CellCounts:
        """Each occurrence in `cells`, in any order, counts `weight`."""
        ordered = np.sort(cells)
        first = _firsts(ordered)
        return cls(ordered[first], weight * np.diff(np.append(first, len(ordered))))

    @classmethod
    def sum(cls, parts: Iterable[CellCounts]) -> CellCounts:
        """Sum of the parts, in any order and grouping."""
        held = list(parts)
        cells = np.concatenate([np.empty(0, np.int64), *(part.cells for part in held)])
        counts = np.concatenate([np.empty(0, np.int64), *(part.counts for part in held)])
        order = np.argsort(cells, kind="stable")
        cells = cells[order]
        first = _firsts(cells)
        total = np.add.reduceat(counts[order], first) if len(first) else counts
        return cls(cells[first], total)

    def matrix(self, n_items: int) -> csr_array:
        """The matrix, shape (n, n), int64."""
        row, column = np.divmod(self.cells, n_items)
        ends = np.searchsorted(row, np.arange(n_items + 1))
        return csr_array((self.counts, column, ends), shape=(n_items, n_items))


def _firsts(ordered: Integers) -> Integers:
    """Where runs of equal values start."""
    new = np.ones(len(ordered), np.bool_)
    new[1:] = ordered[1:] != ordered[:-1]
    return np.flatnonzero(new)
