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

import numpy as np
from numpy.typing import NDArray

from hushrank.estimation.common.sparse_counts import CellSums, push
from hushrank.estimation.fit.weighted_pairs import (
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


def terms_of(rows: PrivateAnswers, randomisation: Randomisation) -> Terms:
    """What each privatised answer adds to S and W."""
    if randomisation is Randomisation.LAPLACE:
        return laplace_terms(rows.value.astype(np.int64, copy=False))
    value = rows.value.astype(np.uint8, copy=False)
    if randomisation is Randomisation.COUNTED:
        return counted_terms(value)
    return weighted_terms(value, rows.epsilon)


def sums_of(rows: PrivateAnswers, randomisation: Randomisation, n_items: int) -> PairSums:
    """S and W of privatised answers, shape (2, n, n)."""
    return dense_sums(rows.cell, terms_of(rows, randomisation), n_items)


class PrivatePairsFn(beam.CombineFn):
    """PCollection[PrivateAnswers] -> WeightedPairs, dense: integers in units of 2^-30."""

    def __init__(self, randomisation: Randomisation, n_items: int) -> None:
        self._randomisation = randomisation
        self._n_items = n_items

    def create_accumulator(self) -> tuple[PairSums, int]:
        return np.zeros((2, self._n_items, self._n_items), np.int64), 0

    def add_input(self, total: tuple[PairSums, int], rows: PrivateAnswers) -> tuple[PairSums, int]:
        sums = sums_of(rows, self._randomisation, self._n_items)
        return add_sums((total[0], sums), self._n_items), total[1] + rows.information

    def merge_accumulators(self, parts: Iterable[tuple[PairSums, int]]) -> tuple[PairSums, int]:
        sums, information = self.create_accumulator()
        for part, people in parts:
            sums, information = add_sums((sums, part), self._n_items), information + people
        return sums, information

    def extract_output(self, total: tuple[PairSums, int]) -> WeightedPairs:
        (s, w), information = total
        return WeightedPairs(s, w, information)


class SparsePrivatePairsFn(beam.CombineFn):
    """PCollection[PrivateAnswers] -> WeightedPairs, sparse, for many items: memory by pairs met.

    An accumulator is a stack of sums (see `sparse_counts.push`), and G.
    """

    def __init__(self, randomisation: Randomisation, n_items: int) -> None:
        self._randomisation = randomisation
        self._n_items = n_items

    def create_accumulator(self) -> tuple[list[CellSums], int]:
        return [], 0

    def add_input(
        self, total: tuple[list[CellSums], int], rows: PrivateAnswers
    ) -> tuple[list[CellSums], int]:
        sums, information = total
        push(sums, cell_sums(rows.cell, terms_of(rows, self._randomisation), self._n_items))
        return sums, information + rows.information

    def merge_accumulators(
        self, parts: Iterable[tuple[list[CellSums], int]]
    ) -> tuple[list[CellSums], int]:
        merged, information = self.create_accumulator()
        for sums, people in parts:
            for each in sums:
                push(merged, each)
            information += people
        return merged, information

    def extract_output(self, total: tuple[list[CellSums], int]) -> WeightedPairs:
        sums, information = total
        s, w = CellSums.sum(sums).matrices(self._n_items)
        return WeightedPairs(s, w, information)
