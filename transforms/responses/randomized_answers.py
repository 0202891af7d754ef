"""Randomise test answers where a person's answers have met, and sum what they say of each pair.

The sums are kept apart for `PARTS` sets of people, chosen by the run's secret pseudonyms: leaving
one out at a time shows how much the estimate varies.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushrank.estimation.responses.randomized_measurements import (
    RandomizedMeasurements,
    merge_measurements,
    no_measurements,
    randomize_answers,
    randomized_measurements,
)
from hushrank.privacy.bits_used import Purpose
from hushrank.privacy.randomness import system_bits
from hushrank.transforms.common.bits_tally import bits_tally
from hushrank.transforms.common.randomisation import LocalAnswers
from hushrank.transforms.engine.beam import TaggedOutput, beam
from hushrank.transforms.responses.answer_sheets import Responses

PARTS = 16
TALLY = "tally"  # a side output


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


class RandomizeAnswers(beam.DoFn):
    """Responses (all of each person's together) -> RandomizedSums, and a tally of the bits."""

    def __init__(self, local: LocalAnswers, n_items: int) -> None:
        self._local = local
        self._n_items = n_items

    def process(self, sheets: Responses) -> Iterator[Any]:
        """Draw every answer's coin here: a source of bits that was pickled would repeat itself."""
        local, bits = self._local, system_bits()
        noisy = randomize_answers(sheets.person, sheets.correct, local.response, bits)
        yield TaggedOutput(TALLY, bits_tally(Purpose.RANDOMISATION, bits.used))
        part = sheets.owner[sheets.person, 1] % np.uint64(PARTS)
        parts = []
        for number in range(PARTS):
            rows = part == number
            parts.append(
                randomized_measurements(
                    sheets.person[rows],
                    sheets.item[rows],
                    noisy[rows],
                    self._n_items,
                    local.response,
                    debiased=local.debiased,
                )
            )
        yield RandomizedSums(tuple(parts))


class RandomizedSumsFn(beam.CombineFn):
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
