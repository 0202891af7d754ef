"""Sum comparisons into the reduced matrices: integers, so every order of merging agrees.

Weighted counts have the sum of the squared weights beside them.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from hushrank.estimation.common.matrices import CellCounts, push
from hushrank.transforms.common.dense_sums import ArraySumFn
from hushrank.transforms.common.encode import Comparisons
from hushrank.transforms.common.schema import Ties
from hushrank.transforms.comparisons.bound import SQUARES
from hushrank.transforms.engine.beam import beam

Counts = NDArray[np.int64]
Cells = NDArray[np.signedinteger]
Weight = TypeVar("Weight", int, Counts)  # the same for all rows, or one each

AT_ONCE = 1 << 16  # rows whose wins are counted together: what is made of them stays in a cache
CELLS_A_ROW = 4  # with more cells a row, adding one by one is faster than a full histogram


def add_wins(counts: Counts, rows: Comparisons, ties: Ties) -> None:
    """Add to N_i the comparisons that item i won, times `ties.row_weight`.

    `counts` has shape (n,), or with groups (g, n).
    A tie adds 1 to both counts under `split` and nothing under `drop`; under `random`, ties were
    decided before (`transforms.comparisons.bound`).
    """
    for first in range(0, len(rows), AT_ONCE):
        few = rows.take(slice(first, first + AT_ONCE))
        for cells, weight in counted(
            few, ties, lambda winner, _: winner, counts.shape[-1], units=1
        ):
            add_cells(counts.reshape(-1), cells, weight)


def add_pairs(counts: Counts, rows: Comparisons, ties: Ties) -> None:
    """Add to wins[a, b] the times that a beat b, as `add_wins` counts them.

    `counts` has shape (n, n), or with groups (g, n, n).
    """
    n_items = counts.shape[-2]
    for cells, weight in counted(rows, ties, _cell_of_pair(n_items), n_items**2, units=1):
        add_cells(counts.reshape(-1), cells, weight)


def add_outcomes(counts: Counts, rows: Comparisons) -> None:
    """Add 1 to one of three cells a row: wins[a, b] if a beat b, ties[a, b] of a < b if they tied.

    `counts` has shape (2, n, n), wins and then ties, or with groups (g, 2, n, n).
    """
    n = np.int64(counts.shape[-1])  # 64 bits, so that 32-bit codes make 64-bit cells
    left_won, right_won = rows.left * n + rows.right, rows.right * n + rows.left
    tied = n * n + np.minimum(left_won, right_won)
    cells = np.where(rows.outcome == 0, tied, np.where(rows.outcome > 0, left_won, right_won))
    if rows.group is not None:
        cells = cells + np.multiply(rows.group, 2 * n * n, dtype=np.int64)
    add_cells(counts.reshape(-1), cells, 1)


def add_wins_and_losses(counts: Counts, rows: Comparisons, ties: Ties) -> None:
    """Add to the first row the comparisons that each item won, to the second those that it lost.

    `counts` has shape (2, n), or with groups (g, 2, n); rows count as in `add_wins`.
    """
    n = np.int64(counts.shape[-1])
    for cell in (_cell_of_winner, lambda _, loser: n + loser):
        for cells, weight in counted(rows, ties, cell, 2 * counts.shape[-1], units=1):
            add_cells(counts.reshape(-1), cells, weight)


def _cell_of_winner(winner: Cells, _: Cells) -> Cells:
    return winner


def _cell_of_pair(n_items: int) -> Callable[[Cells, Cells], Cells]:
    n = np.int64(n_items)  # 64 bits, so that 32-bit codes make 64-bit cells
    return lambda winner, loser: winner * n + loser


def counted(
    rows: Comparisons,
    ties: Ties,
    cell: Callable[[Cells, Cells], Cells],
    cells_a_group: int = 0,
    *,
    units: Weight,
) -> Iterator[tuple[Cells, Weight]]:
    """Cells to count, and what each occurrence adds; the cells of a group follow on each other.

    Args:
        rows: rows to count.
        ties: as in `add_wins`.
        cell: function of winners and losers that returns the cell.
        cells_a_group: number of cells of a group, where rows are in groups.
        units: units that each row counts: one number for all, or shape (m,).
    """
    left_won, right_won = cell(rows.left, rows.right), cell(rows.right, rows.left)
    # Not by `where`: the processor guesses every other outcome wrong, 5 ns a row instead of 0.6.
    won = right_won + (rows.outcome > 0) * (left_won - right_won)
    before = None if rows.group is None else np.multiply(rows.group, cells_a_group, dtype=np.int64)
    if before is not None:
        won = won + before
    if rows.outcome.all():
        yield won, ties.row_weight * units
        return
    tied = rows.outcome == 0
    decided, undecided = units, units
    if not isinstance(units, int):
        decided, undecided = units[~tied], units[tied]
    yield won[~tied], ties.row_weight * decided
    if ties is Ties.SPLIT:
        for either in (left_won[tied], right_won[tied]):
            yield either if before is None else either + before[tied], undecided


def add_cells(counts: Counts, cells: Cells, weight: Weight) -> None:
    """Add a weight to each of the cells, the same for all or one each."""
    if len(counts) > CELLS_A_ROW * len(cells):
        np.add.at(counts, cells, weight)
    elif isinstance(weight, int):
        counts += weight * np.bincount(cells, minlength=len(counts))
    else:  # whole numbers below 2^53: a bundle of rows is far from that
        counts += np.bincount(cells, weight, minlength=len(counts)).astype(np.int64)


def each_group(counts: Counts, rows: Comparisons) -> Iterator[tuple[Counts, Comparisons]]:
    """Counts and the rows that they count; of groups that overlap, group by group and the whole.

    Args:
        counts: of groups that overlap, shape (g + 1, ...), of which the last is the whole.
        rows: rows of one batch.
    """
    if rows.sets is None:
        yield counts, rows
        return
    bare = replace(rows, sets=None)
    for group, of_group in enumerate(counts[:-1]):
        inside = np.flatnonzero(rows.sets >> np.uint64(group) & np.uint64(1))
        if len(inside):
            yield of_group, bare.take(inside)
    yield counts[-1], bare


class _CountsFn(ArraySumFn):
    """Sum of integer arrays."""

    def __init__(self, n_items: int, ties: Ties, n_groups: int | None = None) -> None:
        self._n_items = n_items
        self._ties = ties
        self._groups = () if n_groups is None else (n_groups,)


class WinCountsFn(_CountsFn):
    """PCollection[Comparisons] -> N_i, shape (n,) or with groups (g, n), int64."""

    @property
    def shape(self) -> tuple[int, ...]:
        return (*self._groups, self._n_items)

    def add_input(self, counts: Counts, rows: Comparisons) -> Counts:
        for each, mine in each_group(counts, rows):
            add_wins(each, mine, self._ties)
        return counts


class PairCountsFn(_CountsFn):
    """PCollection[Comparisons] -> wins[a, b], shape (n, n) or with groups (g, n, n), int64."""

    @property
    def shape(self) -> tuple[int, ...]:
        return (*self._groups, self._n_items, self._n_items)

    def add_input(self, counts: Counts, rows: Comparisons) -> Counts:
        for each, mine in each_group(counts, rows):
            add_pairs(each, mine, self._ties)
        return counts


class WinLossCountsFn(_CountsFn):
    """PCollection[Comparisons] -> wins and losses, as `add_wins_and_losses` counts them."""

    @property
    def shape(self) -> tuple[int, ...]:
        return (*self._groups, 2, self._n_items)

    def add_input(self, counts: Counts, rows: Comparisons) -> Counts:
        for each, mine in each_group(counts, rows):
            add_wins_and_losses(each, mine, self._ties)
        return counts


class TieCountsFn(_CountsFn):
    """PCollection[Comparisons] -> wins and ties, as `add_outcomes` counts them."""

    @property
    def shape(self) -> tuple[int, ...]:
        return (*self._groups, 2, self._n_items, self._n_items)

    def add_input(self, counts: Counts, rows: Comparisons) -> Counts:
        for each, mine in each_group(counts, rows):
            add_outcomes(each, mine)
        return counts


class SparsePairCountsFn(beam.CombineFn):
    """PCollection[Comparisons] -> CellCounts of wins[a, b], for many items: memory by pairs met.

    An accumulator is a stack of sums: see `sparse_counts.push`.
    """

    def __init__(self, n_items: int, ties: Ties) -> None:
        self._n_items = n_items
        self._ties = ties

    def create_accumulator(self) -> list[CellCounts]:
        return []

    def add_input(self, sums: list[CellCounts], rows: Comparisons) -> list[CellCounts]:
        for cells, weight in counted(rows, self._ties, _cell_of_pair(self._n_items), units=1):
            push(sums, CellCounts.of(cells.astype(np.int64, copy=False), weight))
        return sums

    def merge_accumulators(self, parts: Iterable[list[CellCounts]]) -> list[CellCounts]:
        return [CellCounts.sum(each for sums in parts for each in sums)]

    def extract_output(self, sums: list[CellCounts]) -> CellCounts:
        return CellCounts.sum(sums)


class TallyFn(beam.CombineFn):
    """PCollection[dict of counts] -> their sum by name: confidential, hence not a Beam metric."""

    def create_accumulator(self) -> Counter[str]:
        return Counter()

    def add_input(self, total: Counter[str], tally: dict[str, int]) -> Counter[str]:
        total.update(tally)
        return total

    def merge_accumulators(self, parts: Iterable[Counter[str]]) -> Counter[str]:
        merged: Counter[str] = Counter()
        for part in parts:
            merged.update(part)
        return merged

    def extract_output(self, total: Counter[str]) -> dict[str, int]:
        return dict(total)


def add_weighted(
    sums: Counts, rows: Comparisons, ties: Ties, cell: Callable[[Cells, Cells], Cells]
) -> None:
    """Add weights to the cells of winners and ties, and their squares to the last entry.

    Args:
        sums: shape (cells + 1,), int64.
        rows: rows with weights.
        ties: rule as in `aggregate.add_wins`, times the row's weight.
        cell: function of winners and losers that returns the cell.
    """
    if not len(rows):
        return
    if rows.weight is None:
        raise ValueError("rows have no weights")
    for cells, units in counted(rows, ties, cell, units=rows.weight):
        add_cells(sums, cells, units)
    squared = rows.weight[rows.outcome != 0] if ties is Ties.DROP else rows.weight
    sums[-1] += np.square(squared).sum()


class _WeightedFn(ArraySumFn):
    """PCollection[Comparisons with weights] -> (counts, sum of squares)."""

    def __init__(self, n_items: int, ties: Ties) -> None:
        self._n_items = n_items
        self._ties = ties

    @property
    @abstractmethod
    def counts_shape(self) -> tuple[int, ...]:
        """Shape of the counts."""

    @property
    def shape(self) -> tuple[int, ...]:
        return (math.prod(self.counts_shape) + 1,)

    @abstractmethod
    def cell(self, winner: Cells, loser: Cells) -> Cells:
        """The place of a win among the counts, in one row."""

    def add_input(self, sums: Counts, rows: Comparisons) -> Counts:
        add_weighted(sums, rows, self._ties, self.cell)
        return sums

    def extract_output(self, sums: Counts) -> dict[str, Counts]:
        return {"counts": sums[:-1].reshape(self.counts_shape), SQUARES: sums[-1:]}


class WeightedWinCountsFn(_WeightedFn):
    """Sum the weights of each item's wins."""

    @property
    def counts_shape(self) -> tuple[int, ...]:
        """Shape with one count for each item."""
        return (self._n_items,)

    def cell(self, winner: Cells, loser: Cells) -> Cells:
        """The winner's."""
        return winner


class WeightedPairCountsFn(_WeightedFn):
    """Sum, for each two items a and b, the weights of the rows in which a beat b."""

    @property
    def counts_shape(self) -> tuple[int, ...]:
        """Shape with one count for each two items."""
        return (self._n_items, self._n_items)

    def cell(self, winner: Cells, loser: Cells) -> Cells:
        """The winner's over the loser."""
        return winner * np.int64(self._n_items) + loser
