"""Counts and sums of the cells of a matrix of which most are zero: only the others are stored."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol, Self, TypeVar

import numpy as np
import scipy
from numpy.typing import NDArray

Integers = NDArray[np.int64]

LARGEST_SUM = 2.0**62  # of sums that are taken in float64 beside the exact ones: 2^63 is not near


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
    def sum(cls, parts: Iterable[Self]) -> Self:
        """Sum of the parts, in any order and grouping."""
        held = list(parts)
        cells = np.concatenate([np.empty(0, np.int64), *(part.cells for part in held)])
        counts = np.concatenate([np.empty(0, np.int64), *(part.counts for part in held)])
        order = np.argsort(cells, kind="stable")
        cells = cells[order]
        first = _firsts(cells)
        total = np.add.reduceat(counts[order], first) if len(first) else counts
        return cls(cells[first], total)

    def matrix(self, n_items: int) -> scipy.sparse.csr_array:
        """The matrix, shape (n, n), int64."""
        row, column = np.divmod(self.cells, n_items)
        ends = np.searchsorted(row, np.arange(n_items + 1))
        return scipy.sparse.csr_array((self.counts, column, ends), shape=(n_items, n_items))


@dataclass(frozen=True, slots=True)
class CellSums:
    """Two integer sums of each cell that was met, the same in every order and grouping.

    Attributes:
        cells: as in `CellCounts`.
        sums: shape (2, k), int64.
    """

    cells: Integers
    sums: Integers

    def __len__(self) -> int:
        return len(self.cells)

    @classmethod
    def of(cls, cells: Integers, terms: Integers) -> Self:
        """Sums of `terms`, shape (2, m), over the rows of each cell, shape (m,), in any order.

        Raises:
            OverflowError: a sum does not fit into 64 bits.
        """
        order = np.argsort(cells, kind="stable")
        cells, terms = cells[order], terms[:, order]
        first = _firsts(cells)
        if not len(first):
            return cls(cells, terms)
        near = np.add.reduceat(terms.astype(np.float64), first, axis=1)
        if (np.abs(near) > LARGEST_SUM).any():
            raise OverflowError("a pair has too many answers for 64-bit sums")
        return cls(cells[first], np.add.reduceat(terms, first, axis=1))

    @classmethod
    def sum(cls, parts: Iterable[Self]) -> Self:
        """Sum of the parts, in any order and grouping.

        Raises:
            OverflowError: a sum does not fit into 64 bits.
        """
        held = list(parts)
        cells = np.concatenate([np.empty(0, np.int64), *(part.cells for part in held)])
        sums = np.concatenate([np.empty((2, 0), np.int64), *(part.sums for part in held)], axis=1)
        return cls.of(cells, sums)

    def matrices(self, n_items: int) -> tuple[scipy.sparse.csr_array, scipy.sparse.csr_array]:
        """Both sums as matrices that store the same cells, shape (n, n), int64."""
        one, other = (CellCounts(self.cells, each).matrix(n_items) for each in self.sums)
        return one, other


class _Summed(Protocol):
    def __len__(self) -> int: ...

    @classmethod
    def sum(cls, parts: Iterable[Self]) -> Self: ...


Sums = TypeVar("Sums", bound=_Summed)


def push(stack: list[Sums], part: Sums) -> None:
    """Add `part` to a stack of sums, each more than twice as long as the next.

    So a cell is merged only a logarithmic number of times, and the stack holds at most twice the
    cells of its total.
    """
    stack.append(part)
    while len(stack) > 1 and 2 * len(stack[-1]) > len(stack[-2]):
        stack[-2:] = [type(part).sum(stack[-2:])]


def _firsts(ordered: Integers) -> Integers:
    """Where runs of equal values start."""
    new = np.ones(len(ordered), np.bool_)
    new[1:] = ordered[1:] != ordered[:-1]
    return np.flatnonzero(new)
