"""Privatise answers one by one, and sum what comes out: the local trust boundary.

`privatize` is the only step from `Answers`, which are true, to `PrivateAnswers`, which anyone may
see. Two privatised copies of one answer would cost twice its epsilon. None is ever seen: an answer
is privatised and summed in one bundle of the engine, whose output is kept whole or not at all, so
a bundle that is tried again replaces its first draw before anything left it.

References:
    [XSC] Xu, Sun, Cheng. Rate-optimal rank aggregation with private pairwise rankings.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from hushrank.estimation.common.matrices import CellSums, push
from hushrank.estimation.fit.chosen_epsilons import PLAIN, Weighing
from hushrank.estimation.fit.weighted_pairs import (
    UNITS,
    Chosen,
    PairSums,
    Terms,
    WeightedPairs,
    add_sums,
    cell_sums,
    counted_terms,
    dense_sums,
    laplace_terms,
    weighted_terms,
)
from hushrank.privacy.laplace_response import add_laplace
from hushrank.privacy.randomized_response import randomize
from hushrank.privacy.randomness import RandomBits
from hushrank.transforms.common.dense_sums import DenseFn, Integers, in_a_row, shaped_like
from hushrank.transforms.common.epsilons import Epsilons
from hushrank.transforms.common.randomisation import Randomisation
from hushrank.transforms.comparisons.true_answers import Answers
from hushrank.transforms.engine.beam import beam


@dataclass(frozen=True, slots=True)
class PrivateAnswers:
    """Privatised answers: each is private at its own epsilon; the pairs are not hidden.

    Attributes:
        cell, epsilon: as in `Answers`.
        value: uint8, 0 or 1; for `Randomisation.LAPLACE` int64, as `add_laplace` returns it.
        information: G of the people they are from, in units; 0 where people did not meet.
    """

    cell: NDArray[np.int64]
    value: NDArray[np.uint8] | NDArray[np.int64]
    epsilon: Epsilons
    information: int = 0


def privatize(
    rows: Answers,
    randomisation: Randomisation,
    bits: RandomBits,
    *,
    already_private: bool = False,
    information: int = 0,
) -> PrivateAnswers:
    """Cross the trust boundary: randomise every answer with its own epsilon.

    Guarantee: each answer is epsilon-DP with its own epsilon, if `bits.safe`; all answers of one
    person together are so with the sum of theirs ([XSC] §S.2). Not hidden: which pairs were
    compared, with which epsilon, and how often.

    Args:
        rows: true answers.
        randomisation: the mechanism.
        bits: `system_bits()` in a release.
        already_private: the answers were randomised at the source with these epsilons; they pass
            as they are.
        information: passed on.
    """
    if already_private:
        return PrivateAnswers(rows.cell, rows.outcome, rows.epsilon, information)
    if randomisation is Randomisation.LAPLACE:
        noisy = add_laplace(rows.outcome, rows.epsilon, bits)
        return PrivateAnswers(rows.cell, noisy, rows.epsilon, information)
    value = randomize(rows.outcome, rows.epsilon, bits)
    return PrivateAnswers(rows.cell, value, rows.epsilon, information)


def terms_of(rows: PrivateAnswers, randomisation: Randomisation, cap: float | None = None) -> Terms:
    """Return what each privatised answer adds to S and W."""
    if randomisation is Randomisation.LAPLACE:
        return laplace_terms(rows.value.astype(np.int64, copy=False))
    value = rows.value.astype(np.uint8, copy=False)
    if randomisation is Randomisation.COUNTED:
        return counted_terms(value)
    return weighted_terms(value, rows.epsilon, cap)


def sums_of(
    rows: PrivateAnswers, randomisation: Randomisation, n_items: int, cap: float | None = None
) -> PairSums:
    """S and W of privatised answers, shape (2, n, n)."""
    return dense_sums(rows.cell, terms_of(rows, randomisation, cap), n_items)


DenseTotal = tuple[PairSums, int, Chosen]  # sums, G in units, counts by epsilon
SparseTotal = tuple[list[CellSums], int, Chosen]


class PrivatePairsFn(DenseFn[DenseTotal]):
    """PCollection[PrivateAnswers] -> WeightedPairs, dense: integers in units of 2^-30."""

    def __init__(
        self, randomisation: Randomisation, n_items: int, weighing: Weighing = PLAIN
    ) -> None:
        self._randomisation = randomisation
        self._n_items = n_items
        self._weighing = weighing

    def create_accumulator(self) -> DenseTotal:
        none = np.zeros((2, self._n_items, self._n_items), np.int64)
        return none, 0, self._weighing.nothing()

    def add_input(self, total: DenseTotal, rows: PrivateAnswers) -> DenseTotal:
        cap = self._weighing.cap
        sums = sums_of(rows, self._randomisation, self._n_items, cap)
        return self._added(total, (sums, rows.information, self._weighing.chosen(rows.epsilon)))

    def merge_accumulators(self, parts: Iterable[DenseTotal]) -> DenseTotal:
        return reduce(self._added, parts, self.create_accumulator())

    def extract_output(self, total: DenseTotal) -> WeightedPairs:
        (s, w), information, chosen = total
        return WeightedPairs(s, w, information, chosen)

    def cells(self, total: DenseTotal) -> Integers:
        sums, information, chosen = total
        halves = np.array([information % UNITS, information // UNITS])  # G may exceed 64 bits
        return in_a_row([sums, chosen, halves])

    def of_cells(self, cells: Integers) -> DenseTotal:
        nothing, _, chosen = self.create_accumulator()
        sums, chosen, (low, high) = shaped_like([nothing, chosen, np.zeros(2, np.int64)], cells)
        return sums, int(low) + UNITS * int(high), chosen

    def _added(self, one: DenseTotal, other: DenseTotal) -> DenseTotal:
        sums = add_sums((one[0], other[0]), self._n_items)
        return sums, one[1] + other[1], one[2] + other[2]


class SparsePrivatePairsFn(beam.CombineFn):
    """PCollection[PrivateAnswers] -> WeightedPairs, sparse, for many items: memory by pairs met.

    An accumulator is a stack of sums (see `sparse_counts.push`), G, and counts by epsilon.
    """

    def __init__(
        self, randomisation: Randomisation, n_items: int, weighing: Weighing = PLAIN
    ) -> None:
        self._randomisation = randomisation
        self._n_items = n_items
        self._weighing = weighing

    def create_accumulator(self) -> SparseTotal:
        return [], 0, self._weighing.nothing()

    def add_input(self, total: SparseTotal, rows: PrivateAnswers) -> SparseTotal:
        sums, information, chosen = total
        terms = terms_of(rows, self._randomisation, self._weighing.cap)
        push(sums, cell_sums(rows.cell, terms, self._n_items))
        return sums, information + rows.information, chosen + self._weighing.chosen(rows.epsilon)

    def merge_accumulators(self, parts: Iterable[SparseTotal]) -> SparseTotal:
        merged, information, chosen = self.create_accumulator()
        for sums, people, epsilons in parts:
            for each in sums:
                push(merged, each)
            information, chosen = information + people, chosen + epsilons
        return merged, information, chosen

    def extract_output(self, total: SparseTotal) -> WeightedPairs:
        sums, information, chosen = total
        s, w = CellSums.sum(sums).matrices(self._n_items)
        return WeightedPairs(s, w, information, chosen)
