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

from hushrank.estimation.weighted_pairs import (
    PairSums,
    add_sums,
    counted_sums,
    laplace_sums,
    weighted_sums,
)
from hushrank.privacy.laplace_response import add_laplace
from hushrank.privacy.randomized_response import randomize
from hushrank.privacy.randomness import RandomBits
from hushrank.transforms.answers import Answers
from hushrank.transforms.engine import beam
from hushrank.transforms.epsilons import Epsilons
from hushrank.transforms.randomisation import Randomisation


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


def sums_of(rows: PrivateAnswers, randomisation: Randomisation, n_items: int) -> PairSums:
    """S and W of privatised answers, shape (2, n, n)."""
    if randomisation is Randomisation.LAPLACE:
        return laplace_sums(rows.cell, rows.value.astype(np.int64, copy=False), n_items)
    value = rows.value.astype(np.uint8, copy=False)
    if randomisation is Randomisation.COUNTED:
        return counted_sums(rows.cell, value, n_items)
    return weighted_sums(rows.cell, value, rows.epsilon, n_items)


class PrivatePairsFn(beam.CombineFn):
    """PCollection[PrivateAnswers] -> (S and W, shape (2, n, n); G), integers in units of 2^-30."""

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

    def extract_output(self, total: tuple[PairSums, int]) -> tuple[PairSums, int]:
        return total
