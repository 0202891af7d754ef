"""Sum answer sheets into pairwise differential measurements: integers, exact in any order."""

from __future__ import annotations

from hushrank.estimation.responses.measurements import Counts, item_tiles, measurements_of_answers
from hushrank.transforms.common.dense_sums import ArraySumFn
from hushrank.transforms.responses.answer_sheets import Responses


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
