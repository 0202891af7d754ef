"""Count comparisons by winner, loser and covariates: integers, so every order of merging agrees."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from hushrank.estimation.common.covariates import CovariateCounts, Words, turned
from hushrank.estimation.common.sparse_counts import push
from hushrank.transforms.common.encode import Comparisons
from hushrank.transforms.common.schema import Ties
from hushrank.transforms.common.sorting import new_run
from hushrank.transforms.engine.beam import beam

Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Counts:
    """Cells in order of (cell, word), each once; see `CovariateCounts`."""

    cells: Integers
    words: Words
    counts: Integers

    def __len__(self) -> int:
        return len(self.cells)

    @classmethod
    def sum(cls, parts: Iterable[Self]) -> Self:
        """Sum of the parts, in any order and grouping."""
        held = list(parts)
        cells = np.concatenate([np.empty(0, np.int64), *(part.cells for part in held)])
        words = np.concatenate([np.empty(0, np.uint64), *(part.words for part in held)])
        counts = np.concatenate([np.empty(0, np.int64), *(part.counts for part in held)])
        order = np.lexsort((words, cells))
        cells, words, counts = cells[order], words[order], counts[order]
        first = np.flatnonzero(new_run(cells.view(np.uint64), words))
        if len(first) == 0:
            return cls(cells, words, counts)
        return cls(cells[first], words[first], np.add.reduceat(counts, first))


def count_rows(rows: Comparisons, n_items: int, n_covariates: int, ties: Ties) -> _Counts:
    """Each row once for its winner; a tie under `split` half for either item, under `drop` never.

    Args:
        rows: with covariates.
        n_items: size of the catalogue.
        n_covariates: of each row.
        ties: `random` ones were decided before.
    """
    if rows.covariates is None:
        raise ValueError("the rows have no covariates")
    n = np.int64(n_items)  # so that 32-bit codes make 64-bit cells
    of_left = rows.left * n + rows.right, rows.covariates
    of_right = rows.right * n + rows.left, turned(rows.covariates, n_covariates)
    sides = []
    for (cells, words), outcome in ((of_left, 1), (of_right, -1)):
        counted = rows.outcome == outcome
        weights = counted * np.int64(ties.row_weight)
        if ties is Ties.SPLIT:
            weights += rows.outcome == 0
        kept = np.flatnonzero(weights)
        sides.append(_Counts(cells[kept], words[kept], weights[kept]))
    return _Counts.sum(sides)


class CovariateCountsFn(beam.CombineFn):
    """PCollection[Comparisons] -> CovariateCounts. An accumulator is a stack of sums."""

    def __init__(self, n_items: int, n_covariates: int, ties: Ties) -> None:
        self._n_items = n_items
        self._n_covariates = n_covariates
        self._ties = ties

    def create_accumulator(self) -> list[_Counts]:
        """No sums."""
        return []

    def add_input(self, sums: list[_Counts], rows: Comparisons) -> list[_Counts]:
        """With the sums of `rows`."""
        push(sums, count_rows(rows, self._n_items, self._n_covariates, self._ties))
        return sums

    def merge_accumulators(self, parts: Iterable[list[_Counts]]) -> list[_Counts]:
        """All in one sum."""
        return [_Counts.sum(each for sums in parts for each in sums)]

    def extract_output(self, sums: list[_Counts]) -> CovariateCounts:
        """The total."""
        total = _Counts.sum(sums)
        return CovariateCounts(
            total.cells,
            total.words,
            total.counts,
            self._n_items,
            self._n_covariates,
            self._ties.row_weight,
        )
