"""Result of an exact inspection of a log, in a module that does not load the engine."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.int64]


@dataclass(slots=True)
class Look:
    """Counts of the rows that a run would read. Exact, so confidential: no release may follow from
    it.

    Attributes:
        noun: name of what a person contributes, in the plural.
        most: contributions of one person that count; None: all.
        appearances: shape (n,), valid rows in which each item stood.
        rows: number of rows that were read.
        rejected: reason -> rows that were set aside as they were read.
        ties: valid rows without a winner; None: rows of this kind have no winner.
        contributions: number of contributions in the valid rows, where ties are dropped without
            them.
        refused: reason -> rows, or in a wide table answers, that were set aside once those of their
            person had met.
        refuses_rows: whether these are rows.
        merged: contributions that only repeat another.
        grouped: contributions of a person, pair and result that are there in several groups, of
            groups that do not overlap: perhaps one answer, written once for each of its groups.
        dropped: contributions beyond the bounds.
        kept: contributions that would be counted.
        people: number of contributions -> people who have so many; None: the run does not read
            whose row it is.
        passes: number of times that the input was read.
        lengths: number of items -> valid rankings that list so many; None: rows are no rankings.
        columns: names of all columns of the first file; of JSON Lines the keys of its first rows.
    """

    noun: str
    most: int | None
    appearances: Counts
    rows: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    ties: int | None = None
    contributions: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    refuses_rows: bool = True
    merged: int = 0
    grouped: int = 0
    dropped: int = 0
    kept: int = 0
    people: Counter[int] | None = None
    passes: int = 0
    lengths: Counter[int] | None = None
    columns: tuple[str, ...] = ()

    @property
    def encoded(self) -> int:
        """Number of rows that were not excluded as they were read, ties included."""
        return self.rows - self.rejected.total()

    @property
    def set_aside(self) -> Counter[str]:
        """Number of rows that were excluded, by reason, as they were read or later."""
        return self.rejected + self.refused if self.refuses_rows else self.rejected

    def quantiles(self, shares: list[float]) -> list[int]:
        """Least number of contributions that each share of the people does not exceed.

        Raises:
            ValueError: no people are known.
        """
        if not self.people:
            raise ValueError("no people are known")
        sizes = np.array(sorted(self.people))
        reached = np.cumsum([self.people[size] for size in sizes.tolist()])
        places = np.searchsorted(reached, np.ceil(np.array(shares) * reached[-1]))
        return [int(size) for size in sizes[np.minimum(places, len(sizes) - 1)]]
