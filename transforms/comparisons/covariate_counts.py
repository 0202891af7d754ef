"""Count comparisons by winner, loser and covariates: integers, so every order of merging agrees.

Covariates are clipped to public bounds and put on a grid as they are read. They follow from their
own row and from public settings alone, and they are within [-1, 1] whatever the row holds: on this
bound `privacy.covariate_perturbation` rests.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hushrank.estimation.common.covariates import STEPS, CovariateCounts, Steps, Words, pack, turned
from hushrank.estimation.common.matrices import push
from hushrank.transforms.common.catalogue import Catalogue
from hushrank.transforms.common.encode import Comparisons, Mask, Rules
from hushrank.transforms.common.schema import ComparisonColumns, Feature, Ties, numbers_of
from hushrank.transforms.common.sorting import new_run
from hushrank.transforms.engine.beam import beam

NOT_SHOWN = "the item shown first is neither of the two items"
NOT_A_NUMBER = "a feature is missing or not a number"
Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Covariates:
    """Covariates of the rows of a batch.

    Attributes:
        words: shape (m,), as they speak for the left item.
        rules: the rules that rows break.
    """

    words: Words
    rules: Rules


def covariates_of(
    batch: pa.RecordBatch, columns: ComparisonColumns, catalogue: Catalogue
) -> Covariates:
    """The covariates of each row: who was shown first, if a column says so, then the features.

    Args:
        batch: rows as read.
        columns: names the columns, and the public scale of each feature.
        catalogue: the public items.
    """
    steps = np.zeros((len(batch), columns.n_covariates), np.int8)
    rules: list[tuple[str, Mask]] = []
    first = 0
    if columns.first is not None:
        steps[:, 0], broken = shown_first(batch, columns, catalogue)
        rules.append((NOT_SHOWN, broken))
        first = 1
    missing = np.zeros(len(batch), np.bool_)
    for place, feature in enumerate(columns.features, start=first):
        values = _difference(batch, feature)
        missing |= np.isnan(values)
        steps[:, place] = clipped(values, feature.scale)
    rules.append((NOT_A_NUMBER, missing))
    return Covariates(pack(steps), [rule for rule in rules if rule[1].any()])


def clipped(values: NDArray[np.float64], scale: float) -> Steps:
    """values / scale, clipped to [-1, 1], in the nearest steps of the grid; 0 for NaN."""
    with np.errstate(over="ignore"):
        shares = np.clip(np.nan_to_num(values / scale, nan=0.0), -1.0, 1.0)
    return np.rint(shares * STEPS).astype(np.int8)


def shown_first(
    batch: pa.RecordBatch, columns: ComparisonColumns, catalogue: Catalogue
) -> tuple[Steps, Mask]:
    """`STEPS` where the left item was shown first, minus that where the right one was."""
    if columns.first == columns.left:
        return np.full(len(batch), STEPS, np.int8), np.zeros(len(batch), np.bool_)
    left, right, first = (
        catalogue.codes(batch[name]) for name in (columns.left, columns.right, columns.first)
    )
    steps = STEPS * np.subtract(first == left, first == right, dtype=np.int8)
    return steps, (first != left) & (first != right)


def _difference(batch: pa.RecordBatch, feature: Feature) -> NDArray[np.float64]:
    """The left item's value less the right one's; NaN where one of them is no number."""
    values, _ = numbers_of(batch[feature.column])
    if feature.right is None:
        return values
    others, _ = numbers_of(batch[feature.right])
    with np.errstate(invalid="ignore", over="ignore"):
        return np.asarray(values - others)


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


def count_rows(
    rows: Comparisons, n_items: int, n_covariates: int, ties: Ties, n_groups: int = 1
) -> _Counts:
    """Count each row once for its winner; a tie under `split` half for either, under `drop` never.

    Args:
        rows: rows with covariates.
        n_items: number of codes of items; the items of each group have codes of their own, after
            those of the groups before it.
        n_covariates: number of covariates of each row.
        ties: `random` ones were decided before.
        n_groups: number of groups that rows are in.
    """
    if rows.covariates is None:
        raise ValueError("the rows have no covariates")
    n = np.int64(n_items)  # 64 bits, so that 32-bit codes make 64-bit cells
    left, right = rows.left, rows.right
    if rows.group is not None:
        first = np.multiply(rows.group, n // n_groups, dtype=np.int64)
        left, right = left + first, right + first
    of_left = left * n + right, rows.covariates
    of_right = right * n + left, turned(rows.covariates, n_covariates)
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
    """PCollection[Comparisons] -> CovariateCounts. An accumulator is a stack of sums.

    With groups the counts are of the items of each group, which have codes of their own.
    """

    def __init__(self, n_items: int, n_covariates: int, ties: Ties, n_groups: int = 1) -> None:
        self._n_items = n_items * n_groups
        self._n_groups = n_groups
        self._n_covariates = n_covariates
        self._ties = ties

    def create_accumulator(self) -> list[_Counts]:
        """No sums."""
        return []

    def add_input(self, sums: list[_Counts], rows: Comparisons) -> list[_Counts]:
        """Add the sums of `rows`."""
        counts = count_rows(rows, self._n_items, self._n_covariates, self._ties, self._n_groups)
        push(sums, counts)
        return sums

    def merge_accumulators(self, parts: Iterable[list[_Counts]]) -> list[_Counts]:
        """Return one sum of all parts."""
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
