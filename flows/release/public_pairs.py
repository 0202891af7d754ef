"""The record of noisy outcomes on a public graph."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, pairwise
from typing import Literal, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from hushrank.estimation.common.matrices import OutcomeCounts
from hushrank.flows.release.released import Figure, ReleasedRecord

MOST_MEASURED = 2000  # items whose matrix of measurements is published: 20 to 30 MB
MOST_PAIRS = 2_000_000  # most pairs that are published: 30 MB of JSON

Rows = tuple[tuple[int, ...], ...]


class ReleasedOutcomes(ReleasedRecord):
    """For each compared pair: how often it was compared, and how often one item won, with noise.

    Attributes:
        row_weight: what one win adds: 1, or 2 if ties were split into two halves.
        items: items in catalogue order; rows are in this order.
        pairs: row i holds the items j > i that were compared with i.
        compared: comparisons of each pair times `row_weight`; exact, because they are public.
        wins: for each of these pairs, how often i beat j, noise included.

    The last three are null if there are more than `MOST_PAIRS` pairs.
    """

    shows = (
        Figure.SCORES,
        Figure.WINS,
    )
    tells_rates = True
    public_totals = True
    kind: Literal["outcome-counts"] = "outcome-counts"
    row_weight: int = Field(ge=1, le=2)
    items: tuple[str, ...]
    pairs: Rows | None
    compared: Rows | None
    wins: Rows | None

    @classmethod
    def of(cls, counts: OutcomeCounts, items: Sequence[str]) -> Self:
        """The record of noisy `counts`.

        Raises:
            ValueError: the counts are confidential, or have another number of items.
        """
        require_noisy(counts, items)
        places = counts.totals
        columns: tuple[NDArray[np.integer], ...] = (places.indices, places.data, counts.wins.data)
        published = counts.n_pairs <= MOST_PAIRS
        pairs, compared, wins = (
            rows_of(each, places.indptr) if published else None for each in columns
        )
        return cls.model_construct(  # checked above; checking millions of entries again is slow
            row_weight=counts.row_weight,
            items=tuple(items),
            pairs=pairs,
            compared=compared,
            wins=wins,
        )

    def among(self, items: Sequence[str]) -> NDArray[np.float64] | None:
        """Noisy wins of some items over each other, in comparisons; nan for uncompared pairs."""
        if self.pairs is None or self.compared is None or self.wins is None:
            return None
        position = {name: i for i, name in enumerate(self.items)}
        place = {position[name]: k for k, name in enumerate(items)}
        found = np.full((len(items), len(items)), np.nan)
        np.fill_diagonal(found, 0)
        for low, row in place.items():
            met = zip(self.pairs[low], self.compared[low], self.wins[low], strict=True)
            for high, total, won in met:
                if high in place:
                    found[row, place[high]] = won / self.row_weight
                    found[place[high], row] = (total - won) / self.row_weight
        return found

    def wins_by_item(self) -> dict[str, int | float] | None:
        """Comparisons won by each item, noise included; None if pairs are not published."""
        if self.pairs is None or self.compared is None or self.wins is None:
            return None
        lengths = [len(row) for row in self.pairs]
        low = np.repeat(np.arange(len(lengths)), lengths)
        high, total, won = (
            np.fromiter(chain.from_iterable(rows), np.int64, sum(lengths))
            for rows in (self.pairs, self.compared, self.wins)
        )
        of_items = np.zeros(len(lengths), np.int64)
        np.add.at(of_items, low, won)
        np.add.at(of_items, high, total - won)
        counted = of_items if self.row_weight == 1 else of_items / self.row_weight
        return dict(zip(self.items, counted.tolist(), strict=True))


class Noisy(Protocol):
    """Counts that know whether they have noise."""

    @property
    def confidential(self) -> bool:
        """True until noise was added."""
        ...

    @property
    def n_items(self) -> int:
        """Size of the public catalogue."""
        ...


def require_noisy(counts: Noisy, items: Sequence[str]) -> None:
    """Raise ValueError unless `counts` may be released with these names of items."""
    if counts.confidential:
        raise ValueError("counts are confidential: only noisy counts can be released")
    if len(items) != counts.n_items:
        raise ValueError(f"got {len(items)} items, but counts of {counts.n_items}")


def rows_of(values: NDArray[np.integer], ends: NDArray[np.integer]) -> Rows:
    """The values of each row of a CSR matrix; `ends` are the ends of its rows (`indptr`)."""
    listed, cuts = values.tolist(), ends.tolist()
    return tuple(tuple(listed[start:end]) for start, end in pairwise(cuts))


def among_items(
    matrix: Sequence[Sequence[int | float]], catalogue: Sequence[str], items: Sequence[str]
) -> NDArray[np.float64]:
    """Rows and columns of these items, in their order."""
    position = {name: i for i, name in enumerate(catalogue)}
    places = [position[name] for name in items]
    return np.array([[matrix[row][column] for column in places] for row in places], np.float64)
