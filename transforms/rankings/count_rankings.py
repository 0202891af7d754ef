"""Count rankings, on Beam: private ones and answers, or true ones before noise is added."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from hushrank.estimation.rankings.instant_runoff import first_choices, n_sets
from hushrank.estimation.rankings.pair_answer_counts import (
    PairAnswerCounts,
    count_answers,
    merge_answers,
    no_answers,
)
from hushrank.estimation.rankings.ranking_counts import (
    RankingCounts,
    count_rankings,
    merge_counts,
    no_rankings,
)
from hushrank.privacy.random_pairs import PairAnswers, RandomPairs
from hushrank.transforms.common.dense_sums import (
    ArraySumFn,
    DenseFn,
    Integers,
    in_a_row,
    named_like,
    shaped_like,
)
from hushrank.transforms.rankings.private_rankings import ByLevel, PrivateRankings
from hushrank.transforms.rankings.rankings import Rankings


class RankingCountsFn(DenseFn[RankingCounts]):
    """PCollection[PrivateRankings or Rankings] -> RankingCounts: exact in any order of merging."""

    def __init__(
        self, n_items: int, max_length: int, *, by_place: bool, below: bool = False
    ) -> None:
        self._n_items = n_items
        self._max_length = max_length
        self._how = {"by_place": by_place, "below": below}

    def create_accumulator(self) -> RankingCounts:
        return no_rankings(self._n_items, self._max_length, **self._how)

    def add_input(self, total: RankingCounts, rows: PrivateRankings | Rankings) -> RankingCounts:
        if isinstance(rows, Rankings) and rows.tied is not None:
            raise ValueError("ties must be broken before rankings are counted")
        own = count_rankings(rows.items, rows.lengths, self._n_items, self._max_length, **self._how)
        return merge_counts([total, own])

    def merge_accumulators(self, parts: Iterable[RankingCounts]) -> RankingCounts:
        return merge_counts(parts)

    def extract_output(self, total: RankingCounts) -> RankingCounts:
        return total

    def cells(self, total: RankingCounts) -> Integers:
        return in_a_row(total.arrays().values())

    def of_cells(self, cells: Integers) -> RankingCounts:
        return RankingCounts(**named_like(self.create_accumulator().arrays(), cells))


class FirstPlacesFn(ArraySumFn):
    """PCollection[Rankings] -> in how many rankings of each group each item is first."""

    def __init__(self, n_groups: int, n_items: int) -> None:
        self._shape = (n_groups, n_items)

    @property
    def shape(self) -> tuple[int, ...]:
        return self._shape

    def add_input(self, total: Integers, rows: Rankings) -> Integers:
        if rows.tied is not None or rows.profile is None:
            raise ValueError("rankings whose first places are counted have a group and no ties")
        first = rows.items[np.cumsum(rows.lengths) - rows.lengths]
        cells = np.bincount(rows.profile * self._shape[1] + first, minlength=total.size)
        return np.asarray(total + cells.reshape(self._shape))


class FirstChoicesFn(ArraySumFn):
    """PCollection[Rankings] -> which item comes right after which set of others, as counts."""

    def __init__(self, n_items: int, longest: int) -> None:
        self._n_items = n_items
        self._longest = longest

    @property
    def shape(self) -> tuple[int, int]:
        return n_sets(self._n_items, self._longest), self._n_items

    def add_input(self, total: Integers, rows: Rankings) -> Integers:
        if rows.tied is not None:
            raise ValueError("ties must be broken before rankings are counted")
        return total + first_choices(rows.items, rows.lengths, self._n_items, self._longest)


class PairAnswersFn(DenseFn[PairAnswerCounts]):
    """PCollection[PairAnswers] -> PairAnswerCounts: integers, exact in any order of merging."""

    def __init__(self, n_items: int, max_length: int, law: RandomPairs) -> None:
        self._n_items = n_items
        self._max_length = max_length
        self._law = law

    def create_accumulator(self) -> PairAnswerCounts:
        return no_answers(self._n_items, self._max_length)

    def add_input(self, total: PairAnswerCounts, answers: PairAnswers) -> PairAnswerCounts:
        own = count_answers(answers, self._n_items, self._max_length, self._law)
        return merge_answers([total, own])

    def merge_accumulators(self, parts: Iterable[PairAnswerCounts]) -> PairAnswerCounts:
        return merge_answers(parts)

    def extract_output(self, total: PairAnswerCounts) -> PairAnswerCounts:
        return total

    def cells(self, total: PairAnswerCounts) -> Integers:
        return in_a_row(total.arrays().values())

    def of_cells(self, cells: Integers) -> PairAnswerCounts:
        arrays = named_like(self.create_accumulator().arrays(), cells)
        return merge_answers([PairAnswerCounts(**arrays)])  # looks at its size


class ByLevelFn(DenseFn[tuple[Any, ...]]):
    """PCollection[ByLevel] -> what a function of each level makes of its part, level by level."""

    def __init__(self, levels: Sequence[DenseFn[Any]]) -> None:
        self._levels = tuple(levels)

    def create_accumulator(self) -> tuple[Any, ...]:
        return tuple(each.create_accumulator() for each in self._levels)

    def add_input(self, total: tuple[Any, ...], rows: ByLevel) -> tuple[Any, ...]:
        each = zip(self._levels, total, rows.parts, strict=True)
        return tuple(level.add_input(own, part) for level, own, part in each)

    def merge_accumulators(self, parts: Iterable[tuple[Any, ...]]) -> tuple[Any, ...]:
        columns = zip(self._levels, zip(*parts, strict=True), strict=True)
        return tuple(level.merge_accumulators(column) for level, column in columns)

    def extract_output(self, total: tuple[Any, ...]) -> tuple[Any, ...]:
        return total

    def cells(self, total: tuple[Any, ...]) -> Integers:
        each = zip(self._levels, total, strict=True)
        return in_a_row(level.cells(own) for level, own in each)

    def of_cells(self, cells: Integers) -> tuple[Any, ...]:
        nothing = zip(self._levels, self.create_accumulator(), strict=True)
        rows = shaped_like([level.cells(none) for level, none in nothing], cells)
        return tuple(level.of_cells(row) for level, row in zip(self._levels, rows, strict=True))
