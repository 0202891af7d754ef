"""Covariates of comparisons: whole steps of a grid on [-1, 1], all of a row in one word.

Covariates speak for one of the two items of a row: for the other one they have the opposite sign.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

STEPS = 64  # steps of the grid between 0 and 1
LEVELS = 2 * STEPS + 1
MOST = 9  # covariates of a row: who was shown first, and eight features

Steps = NDArray[np.int8]
Words = NDArray[np.uint64]


def pack(steps: Steps) -> Words:
    """A word for each row of `steps`, shape (m, q), q at most `MOST`: digits to base `LEVELS`."""
    words = np.zeros(len(steps), np.uint64)
    for column in steps.T[::-1]:
        words *= np.uint64(LEVELS)
        words += (column.astype(np.int16) + STEPS).astype(np.uint64)
    return words


def unpack(words: Words, n_covariates: int) -> Steps:
    """Return the steps that `pack` packed, shape (m, q)."""
    steps, left = np.empty((len(words), n_covariates), np.int8), words
    for k in range(n_covariates):
        left, digit = np.divmod(left, np.uint64(LEVELS))
        steps[:, k] = digit.astype(np.int16) - STEPS
    return steps


def turned(words: Words, n_covariates: int) -> Words:
    """The words of the same covariates as they speak for the other item.

    A digit becomes 2 STEPS less itself, so no digit carries over to the next.
    """
    return np.uint64(LEVELS**n_covariates - 1) - words


@dataclass(frozen=True, slots=True)
class CovariateCounts:
    """Comparisons by winner, loser and covariates. Confidential, and of integers only.

    Attributes:
        cells: shape (k,), int64, winner * n_items + loser.
        words: shape (k,), covariates as they speak for the winner.
        counts: shape (k,), int64, > 0.
        n_items: size of the catalogue.
        n_covariates: q, 1 to `MOST`.
        row_weight: amount that one win adds: 1, or 2 where a tie counts 1 for either item.

    Raises:
        ValueError: the arrays do not fit together, or an entry is out of range.
    """

    cells: NDArray[np.int64]
    words: Words
    counts: NDArray[np.int64]
    n_items: int
    n_covariates: int
    row_weight: int = 1

    def __post_init__(self) -> None:
        if not (self.cells.shape == self.words.shape == self.counts.shape == (len(self.cells),)):
            raise ValueError("cells, words and counts must be arrays of one length")
        if not 1 <= self.n_covariates <= MOST:
            raise ValueError(f"there must be 1 to {MOST} covariates, got {self.n_covariates}")
        if len(self.cells) == 0:
            return
        winner, loser = self.items
        if self.cells.min() < 0 or winner.max() >= self.n_items or (winner == loser).any():
            raise ValueError("cells must name two different items of the catalogue")
        if self.words.max() >= LEVELS**self.n_covariates:
            raise ValueError("words hold more covariates than there are")
        if (self.counts <= 0).any():
            raise ValueError("counts must be > 0")

    @property
    def items(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Winner and loser of each cell."""
        winner, loser = np.divmod(self.cells, self.n_items)
        return winner, loser

    @property
    def steps(self) -> Steps:
        """Covariates as they speak for the winner, in steps, shape (k, q)."""
        return unpack(self.words, self.n_covariates)

    @property
    def comparisons(self) -> NDArray[np.float64]:
        """`counts` as numbers of comparisons."""
        return np.asarray(self.counts / self.row_weight)

    def by_group(self, n_groups: int) -> list[Self]:
        """Counts of each group, and then of all, where a group's items have codes of their own."""
        n_items = self.n_items // n_groups
        winner, loser = self.items
        groups, cells = winner // n_items, winner % n_items * n_items + loser % n_items
        whole = type(self)(
            cells, self.words, self.counts, n_items, self.n_covariates, self.row_weight
        )
        places = (np.flatnonzero(groups == group) for group in range(n_groups))
        parts = (
            replace(whole, cells=cells[k], words=self.words[k], counts=self.counts[k])
            for k in places
        )
        return [*parts, whole]

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Arrays by name; `of_arrays` reads them."""
        return {"cells": self.cells, "words": self.words, "counts": self.counts}

    @classmethod
    def of_arrays(
        cls, arrays: Mapping[str, NDArray[Any]], n_items: int, n_covariates: int, row_weight: int
    ) -> Self:
        """Rebuild the counts from the result of `arrays`."""
        return cls(
            arrays["cells"], arrays["words"], arrays["counts"], n_items, n_covariates, row_weight
        )
