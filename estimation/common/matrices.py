"""The reduced matrices that cross the seams: small, integer, and checked when made.

All exact counts are integers, so a sum does not depend on how the input was sharded or in which
order shards were merged. Released ones are too, but for those that a night of a stream shows: they
are computed from several releases (`privacy.stream`). `confidential` marks a matrix without noise:
the publisher refuses it.

Counts and sums of the cells of a matrix of which most are zero: only the others are stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol, Self, TypeVar

import numpy as np
import scipy
from numpy.typing import NDArray

Integers = NDArray[np.int64]

LARGEST_SUM = 2.0**62  # largest sum taken in float64 beside the exact ones; 2^63 is not near


@dataclass(frozen=True, slots=True)
class CellCounts:
    """Number of times that each cell was met. Integers: their sum is the same in every order.

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
        """Count `weight` for each occurrence in `cells`, in any order."""
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
    """Some integer sums of each cell that was met, the same in every order and grouping.

    Attributes:
        cells: the cells, as in `CellCounts`.
        sums: shape (sums, k), int64.
    """

    cells: Integers
    sums: Integers

    def __len__(self) -> int:
        return len(self.cells)

    @classmethod
    def of(cls, cells: Integers, terms: Integers) -> Self:
        """Sums of `terms`, shape (sums, m), over the rows of each cell, shape (m,), in any order.

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
        """Sum of the parts, in any order and grouping; of no parts it has two sums.

        Raises:
            OverflowError: a sum does not fit into 64 bits.
        """
        held = list(parts) or [cls(np.empty(0, np.int64), np.empty((2, 0), np.int64))]
        cells = np.concatenate([part.cells for part in held])
        return cls.of(cells, np.concatenate([part.sums for part in held], axis=1))

    def matrices(self, n_items: int) -> tuple[scipy.sparse.csr_array, scipy.sparse.csr_array]:
        """Return the first two sums as matrices that store the same cells, shape (n, n), int64."""
        one, other = (CellCounts(self.cells, each).matrix(n_items) for each in self.sums[:2])
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
    """Return the places where runs of equal values start."""
    new = np.ones(len(ordered), np.bool_)
    new[1:] = ordered[1:] != ordered[:-1]
    return np.flatnonzero(new)


Counts = NDArray[np.int64] | NDArray[np.float64]
MOST_DENSE_ITEMS = 3_000  # a dense matrix of them takes 72 MB; of more, pair counts are sparse


@dataclass(frozen=True, slots=True)
class WinCounts:
    """Comparisons won by each item.

    Attributes:
        wins: shape (n,), int64; at least 0 while confidential, of any sign once noisy, and then
            float64 as well.
        row_weight: integer units of one win: 1, or 2 where ties were split into two halves, and a
            multiple of that where rows have weights.
        confidential: True until noise was added.

    Raises:
        ValueError: the array has another shape or type, or a confidential count is negative.
    """

    wins: Counts
    row_weight: int = 1
    confidential: bool = True

    def __post_init__(self) -> None:
        if self.wins.ndim != 1 or not _is_count(self.wins, confidential=self.confidential):
            raise ValueError(
                f"wins must be a 1-d int64 array, got {self.wins.ndim}-d {self.wins.dtype}"
            )
        _check_row_weight(self.row_weight)
        if self.confidential and (self.wins < 0).any():
            raise ValueError("wins without noise cannot be negative")

    @property
    def n_items(self) -> int:
        """Size of the public catalogue."""
        return len(self.wins)


@dataclass(frozen=True, slots=True)
class WinLossCounts:
    """Comparisons that each item won and lost.

    Attributes:
        wins, losses: shape (n,), int64; at least 0 while confidential, of any sign once noisy, and
            then float64 as well.
        row_weight: integer units of one comparison, as in `WinCounts`.
        confidential: True until noise was added.

    Raises:
        ValueError: an array has another shape or type, or a confidential count is negative.
    """

    wins: Counts
    losses: Counts
    row_weight: int = 1
    confidential: bool = True

    def __post_init__(self) -> None:
        for name in ("wins", "losses"):
            counts = getattr(self, name)
            counted = _is_count(counts, confidential=self.confidential)
            if counts.shape != self.wins.shape or counts.ndim != 1 or not counted:
                raise ValueError(f"{name} must be a 1-d int64 array, one entry an item")
            if self.confidential and (counts < 0).any():
                raise ValueError(f"{name} without noise cannot be negative")
        _check_row_weight(self.row_weight)

    @property
    def n_items(self) -> int:
        """Size of the public catalogue."""
        return len(self.wins)


def _is_count(wins: Counts | scipy.sparse.csr_array, *, confidential: bool) -> bool:
    """Whether entries are of a type that counts may have."""
    return wins.dtype == np.int64 or (wins.dtype == np.float64 and not confidential)


def integers_of(counts: Counts) -> NDArray[np.int64]:
    """Counts that are integers, as all are that noise may be added to.

    Raises:
        ValueError: they are not integers, like those that a night of a stream shows.
    """
    if counts.dtype != np.int64:
        raise ValueError("counts must be integers: these are computed from released ones")
    return counts.astype(np.int64, copy=False)


def _check_row_weight(row_weight: int) -> None:
    if row_weight < 1:
        raise ValueError(f"row_weight must be at least 1, got {row_weight}")


def check_released(counts: WinCounts | WinLossCounts) -> None:
    """Counts that a ranking may be made of.

    Raises:
        ValueError: the counts are confidential, or have fewer than 2 items.
    """
    if counts.confidential:
        raise ValueError("counts are confidential: only released counts may be ranked")
    if counts.n_items < 2:
        raise ValueError(f"a ranking needs at least 2 items, got {counts.n_items}")


@dataclass(frozen=True, slots=True)
class PairCounts:
    """Times each item beat each other.

    Attributes:
        wins: shape (n, n), int64, zero diagonal; wins[a, b] = times a beat b. CSR only while
            confidential: which pairs are stored says who compared what. Once noisy, float64 as
            well.
        row_weight: integer units of one win: 1, or 2 where ties were split into two halves, and a
            multiple of that where rows have weights.
        confidential: True until noise was added.

    Raises:
        ValueError: the array has another shape or type, its diagonal is not zero, a confidential
        count is negative, or noisy counts are sparse.
    """

    wins: Counts | scipy.sparse.csr_array
    row_weight: int = 1
    confidential: bool = True

    def __post_init__(self) -> None:
        if (
            self.wins.ndim != 2
            or self.wins.shape[0] != self.wins.shape[1]
            or not _is_count(self.wins, confidential=self.confidential)
        ):
            raise ValueError(
                f"wins must be a square int64 matrix, got {self.wins.shape} {self.wins.dtype}"
            )
        _check_row_weight(self.row_weight)
        if self.wins.diagonal().any():
            raise ValueError("the diagonal of wins must be zero: no item meets itself")
        if self.confidential and (self.entries < 0).any():
            raise ValueError("wins without noise cannot be negative")
        if not self.confidential and isinstance(self.wins, scipy.sparse.csr_array):
            raise ValueError(
                "noisy wins must be dense: noise goes on every pair, zeros too, unless who compared"
                " what is public (OutcomeCounts)"
            )

    @property
    def n_items(self) -> int:
        """Size of the public catalogue."""
        return int(self.wins.shape[0])

    @property
    def whole(self) -> bool:
        """Whether all counts are integers; those that a night of a stream shows are not."""
        return bool(self.wins.dtype == np.int64)

    @property
    def entries(self) -> NDArray[np.int64]:
        """All counts that are stored."""
        return np.asarray(
            self.wins.data if isinstance(self.wins, scipy.sparse.csr_array) else self.wins
        )

    def won(self) -> NDArray[np.int64]:
        """Number of wins of each item, shape (n,)."""
        return np.asarray(self.wins.sum(axis=1)).astype(np.int64)

    def lost(self) -> NDArray[np.int64]:
        """Number of losses of each item, shape (n,)."""
        return np.asarray(self.wins.sum(axis=0)).astype(np.int64)

    def dense(self) -> Counts:
        """The matrix where it is dense.

        Raises:
            ValueError: the counts are sparse.
        """
        if isinstance(self.wins, scipy.sparse.csr_array):
            raise ValueError(f"counts of {self.n_items} items are sparse: dense ones are needed")
        return self.wins

    def in_comparisons(self) -> NDArray[np.float64] | scipy.sparse.csr_array:
        """Wins as numbers of comparisons, dense or CSR as they are."""
        if not isinstance(self.wins, scipy.sparse.csr_array):
            return np.asarray(self.wins / self.row_weight)
        places = (self.wins.data / self.row_weight, self.wins.indices, self.wins.indptr)
        return scipy.sparse.csr_array(places, shape=self.wins.shape)

    def win_counts(self) -> WinCounts:
        """Comparisons won by each item: the row sums."""
        return WinCounts(self.wins.sum(axis=1), self.row_weight, self.confidential)


@dataclass(frozen=True, slots=True)
class OutcomeCounts:
    """Comparisons of each pair that met, and who won them: for a public graph.

    Attributes:
        wins: shape (n, n), CSR, int64, strictly upper triangle; wins[a, b] = times a beat b; within
            0 and the total while confidential, of any size once noisy.
        totals: stores the same pairs, all that met: comparisons of a with b, public; > 0.
        row_weight: integer units of one win: 1, or 2 where ties were split into two halves, and a
            multiple of that where rows have weights.
        confidential: True until noise was added to `wins`.

    Raises:
        ValueError: an array has another shape or type or is outside the triangle, the two store
        different pairs, or a number is out of range.
    """

    wins: scipy.sparse.csr_array
    totals: scipy.sparse.csr_array
    row_weight: int = 1
    confidential: bool = True

    def __post_init__(self) -> None:
        wins, totals = self.wins, self.totals
        if wins.ndim != 2 or wins.shape[0] != wins.shape[1] or wins.dtype != np.int64:
            raise ValueError(f"wins must be a square int64 matrix, got {wins.shape} {wins.dtype}")
        if (totals.shape, totals.dtype) != (wins.shape, wins.dtype) or not (
            np.array_equal(totals.indices, wins.indices)
            and np.array_equal(totals.indptr, wins.indptr)
        ):
            raise ValueError("totals must store the same pairs as wins, as int64")
        if scipy.sparse.triu(totals, 1).nnz < totals.nnz:
            raise ValueError("wins must lie above the diagonal: each pair is stored once")
        _check_row_weight(self.row_weight)
        if (totals.data <= 0).any():
            raise ValueError("totals must be above 0: pairs that did not meet are not stored")
        if self.confidential and ((wins.data < 0) | (wins.data > totals.data)).any():
            raise ValueError("wins without noise must be between 0 and the total")

    @property
    def n_items(self) -> int:
        """Size of the public catalogue."""
        return int(self.wins.shape[0])

    @property
    def n_pairs(self) -> int:
        """Pairs that met."""
        return int(self.wins.nnz)

    def with_wins(self, wins: NDArray[np.int64]) -> OutcomeCounts:
        """Return the same outcomes with noisy `wins`, shape (n_pairs,)."""
        places = (wins, self.totals.indices, self.totals.indptr)
        noisy = scipy.sparse.csr_array(places, shape=self.totals.shape)
        return OutcomeCounts(noisy, self.totals, self.row_weight, confidential=False)

    def arrays(self) -> dict[str, NDArray[np.int64]]:
        """Return arrays by name; `outcome_counts_of` reads them."""
        return {"wins": self.wins.data, **arrays_of_sparse(self.totals)}


def outcomes_of(counts: PairCounts) -> OutcomeCounts:
    """Confidential pair counts, dense or sparse, as a total and the wins of one item a pair.

    Raises:
        ValueError: the counts carry noise.
    """
    if not counts.confidential:
        raise ValueError("counts have noise already: their totals are not those of the rows")
    n_items, wins = counts.n_items, scipy.sparse.coo_array(counts.wins)
    winner, loser = (each.astype(np.int64) for each in wins.coords)
    cells = np.minimum(winner, loser) * n_items + np.maximum(winner, loser)
    terms = np.stack([np.where(winner < loser, wins.data, 0), wins.data])
    met = wins.data > 0
    of_low, totals = CellSums.of(cells[met], terms[:, met]).matrices(n_items)
    return OutcomeCounts(of_low, totals, counts.row_weight)


def outcome_counts_of(arrays: Mapping[str, NDArray[np.int64]], row_weight: int) -> OutcomeCounts:
    """Noisy counts that `OutcomeCounts.arrays` made arrays of.

    Raises:
        ValueError: the arrays are no such counts.
    """
    n_items, ends = len(arrays["row_ends"]) - 1, arrays["row_ends"]
    wins, totals = (
        scipy.sparse.csr_array((arrays[name], arrays["columns"], ends), shape=(n_items, n_items))
        for name in ("wins", "counts")
    )
    return OutcomeCounts(wins, totals, row_weight, confidential=False)


def arrays_of_sparse(wins: scipy.sparse.csr_array) -> dict[str, NDArray[np.int64]]:
    """A sparse matrix as arrays by name; `pair_counts_of` reads them."""
    return {
        "counts": wins.data,
        "columns": wins.indices.astype(np.int64),
        "row_ends": wins.indptr.astype(np.int64),
    }


def pair_counts_of(arrays: Mapping[str, NDArray[np.int64]], row_weight: int) -> PairCounts:
    """Confidential pair counts, dense from `counts` alone or sparse from `arrays_of_sparse`.

    Raises:
        ValueError: the arrays are no pair counts.
    """
    if "row_ends" not in arrays:
        return PairCounts(arrays["counts"], row_weight)
    places = (arrays["counts"], arrays["columns"], arrays["row_ends"])
    n_items = len(arrays["row_ends"]) - 1
    return PairCounts(scipy.sparse.csr_array(places, shape=(n_items, n_items)), row_weight)
