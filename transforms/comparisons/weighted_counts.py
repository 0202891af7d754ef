"""Sum comparisons with weights: the counts of `aggregate`, and beside them the sum of squares."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable

import numpy as np

from hushrank.transforms.common.dense_sums import ArraySumFn
from hushrank.transforms.common.encode import Comparisons
from hushrank.transforms.common.schema import Ties
from hushrank.transforms.comparisons.aggregate import Cells, Counts, add_cells, counted
from hushrank.transforms.comparisons.weights import SQUARES


def add_weighted(
    sums: Counts, rows: Comparisons, ties: Ties, cell: Callable[[Cells, Cells], Cells]
) -> None:
    """Add weights to the cells of winners and ties, and their squares to the last entry.

    Args:
        sums: shape (cells + 1,), int64.
        rows: with weights.
        ties: as in `aggregate.add_wins`, times the row's weight.
        cell: of winners and losers.
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
        """Of the counts."""

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
    """Of each item, what its wins weigh."""

    @property
    def counts_shape(self) -> tuple[int, ...]:
        """One for each item."""
        return (self._n_items,)

    def cell(self, winner: Cells, loser: Cells) -> Cells:
        """The winner's."""
        return winner


class WeightedPairCountsFn(_WeightedFn):
    """Of each two items a and b, what the rows weigh in which a beat b."""

    @property
    def counts_shape(self) -> tuple[int, ...]:
        """One for each two items."""
        return (self._n_items, self._n_items)

    def cell(self, winner: Cells, loser: Cells) -> Cells:
        """The winner's over the loser."""
        return winner * np.int64(self._n_items) + loser
