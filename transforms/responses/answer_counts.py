"""Sum test answers into pairwise differential measurements, exact or of randomised answers.

The sums are integers, so every order of merging agrees. Answers are randomised where all answers of
their person have met. Sums of randomised answers are kept apart for `PARTS` sets of people, chosen
by the run's secret pseudonyms: leaving one out at a time shows how much the estimate varies."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hushrank.estimation.responses.measurements import (
    Counts,
    RandomizedMeasurements,
    item_tiles,
    measurements_of_answers,
    merge_measurements,
    no_measurements,
    randomize_answers,
    randomized_measurements,
)
from hushrank.estimation.responses.sheet_totals import SheetShape
from hushrank.privacy.randomness import RandomBits
from hushrank.transforms.common.dense_sums import (
    ArraySumFn,
    DenseFn,
    Integers,
    in_a_row,
    shaped_like,
)
from hushrank.transforms.common.randomisation import LocalAnswers
from hushrank.transforms.responses.answer_sheets import Responses

if TYPE_CHECKING:  # loaded by tests with points alone
    from hushrank.estimation.responses.point_totals import PointShape

PARTS = 16


class MeasurementsFn(ArraySumFn):
    """PCollection[Responses] -> Y, shape (m, m), int64: people right on i and wrong on j.

    An element holds all answers of its people. One matrix product each, in tiles where there are
    many items.
    """

    def __init__(self, n_items: int) -> None:
        self._n_items = n_items

    @property
    def shape(self) -> tuple[int, ...]:
        return (self._n_items, self._n_items)

    def add_input(self, y: Counts, sheets: Responses) -> Counts:
        columns = (sheets.person, sheets.item, sheets.correct)
        for tile in item_tiles(self._n_items):
            y[tile] += measurements_of_answers(*columns, self._n_items, *tile)
        return y


class SheetTotalsFn(ArraySumFn):
    """PCollection[Responses] -> entries of whole sheets, shape (n_entries,), int64.

    With groups the shape is (groups, n_entries). An element holds all answers of its people, of
    which each is to all items of one booklet.
    """

    def __init__(self, totals: SheetShape | PointShape, n_groups: int | None = None) -> None:
        self._totals, self._n_groups = totals, n_groups

    @property
    def shape(self) -> tuple[int, ...]:
        groups = () if self._n_groups is None else (self._n_groups,)
        return (*groups, self._totals.n_entries)

    def add_input(self, entries: Counts, sheets: Responses) -> Counts:
        if self._n_groups is None:
            entries += self._totals.count(sheets.person, sheets.item, sheets.correct)
            return entries
        if len(sheets) and sheets.group is None:
            raise ValueError("sheets that are counted by group must name theirs")
        of_answer = sheets.person if sheets.group is None else sheets.group[sheets.person]
        for group in np.unique(of_answer).tolist():
            own = sheets.take(of_answer == group)
            entries[group] += self._totals.count(own.person, own.item, own.correct)
        return entries


@dataclass(frozen=True, slots=True)
class RandomizedSums:
    """Sums of randomised answers, apart for each part of the people.

    Attributes:
        parts: `PARTS` of them, disjoint sets of people.
    """

    parts: tuple[RandomizedMeasurements, ...]

    def arrays(self) -> dict[str, NDArray[np.int64]]:
        """`sums`, shape (parts, m, m), and `people`, shape (parts, K + 1)."""
        return {
            "sums": np.stack([part.sums for part in self.parts]),
            "people": np.stack([part.people for part in self.parts]),
        }


def randomized_sums(
    sheets: Responses, local: LocalAnswers, n_items: int, bits: RandomBits
) -> RandomizedSums:
    """Cross the trust boundary: flip every answer by a coin of its own, and sum what comes out.

    Args:
        sheets: sheets, each with all answers of its person.
        local: the law of the coins; answers that are private already pass as they are.
        n_items: size of the catalogue.
        bits: `system_bits()` in a release; drawn where the answers are, for a source of bits that
            was pickled would repeat itself.
    """
    noisy = sheets.correct
    if not local.already_private:
        noisy = randomize_answers(sheets.person, sheets.correct, local.response, bits, sheets.level)
    part = sheets.owner[sheets.person, 1] % np.uint64(PARTS)
    parts = (
        randomized_measurements(
            sheets.person[part == number],
            sheets.item[part == number],
            noisy[part == number],
            n_items,
            local.response,
            debiased=local.debiased,
            level=sheets.level,
        )
        for number in range(PARTS)
    )
    return RandomizedSums(tuple(parts))


class RandomizedSumsFn(DenseFn[RandomizedSums]):
    """PCollection[RandomizedSums] -> their sum, part by part: integers, exact in any order."""

    def __init__(self, local: LocalAnswers, n_items: int) -> None:
        self._local = local
        self._n_items = n_items

    def create_accumulator(self) -> RandomizedSums:
        local = self._local
        nothing = no_measurements(self._n_items, local.response, debiased=local.debiased)
        return RandomizedSums((nothing,) * PARTS)

    def add_input(self, total: RandomizedSums, sums: RandomizedSums) -> RandomizedSums:
        return self.merge_accumulators([total, sums])

    def merge_accumulators(self, sums: Iterable[RandomizedSums]) -> RandomizedSums:
        columns = zip(*(each.parts for each in sums), strict=True)
        return RandomizedSums(tuple(merge_measurements(column) for column in columns))

    def extract_output(self, total: RandomizedSums) -> RandomizedSums:
        return total

    def cells(self, total: RandomizedSums) -> Integers:
        return in_a_row(total.arrays().values())

    def of_cells(self, cells: Integers) -> RandomizedSums:
        local, nothing = self._local, self.create_accumulator().arrays()
        pairs = zip(*shaped_like(nothing.values(), cells), strict=True)
        return RandomizedSums(
            tuple(
                RandomizedMeasurements(sums, people, local.response, local.debiased)
                for sums, people in pairs
            )
        )
