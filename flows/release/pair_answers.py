"""What a release of private answers to random pairs of rankings publishes beside the ranking."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray

from hushrank.estimation.rankings.pair_answer_counts import PairAnswerCounts
from hushrank.flows.guarantee.record import Record
from hushrank.flows.release.public_pairs import among_items


class ReleasedPairAnswers(Record):
    """Sums of private answers to random pairs of rankings, from which all the rest is computed.

    An answer counts as often as its list has pairs for each answer of it (`pair_answer_counts`).

    Attributes:
        items: in catalogue order; rows and columns are in this order.
        rankings: entry k is how many rankings had k items; where that is hidden, entry 0 is all.
        wins: entry b of row a counts the private answers that put a above b.
        asked: entry b of row a counts the private answers about a and b, whatever they say.
        squares: the same of squared counts of an answer.
        moments: entry b of row a sums, over rankings, the product of the two items' nets: answers
            for the item less answers against it.
    """

    kind: Literal["private-pairs"] = "private-pairs"
    items: tuple[str, ...]
    rankings: tuple[int, ...]
    wins: tuple[tuple[int, ...], ...]
    asked: tuple[tuple[int, ...], ...]
    squares: tuple[tuple[int, ...], ...]
    moments: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, counts: PairAnswerCounts, items: Sequence[str]) -> Self:
        """The record of `counts`, which are private since each answer was.

        Raises:
            ValueError: they are of another number of items.
        """
        if len(items) != counts.n_items:
            raise ValueError(f"got {len(items)} items, but counts of {counts.n_items}")
        return cls.model_construct(  # checked above: millions of entries are not checked again
            items=tuple(items),
            rankings=tuple(counts.lengths.tolist()),
            wins=tuple(map(tuple, counts.wins.tolist())),
            asked=tuple(map(tuple, counts.asked.tolist())),
            squares=tuple(map(tuple, counts.squares.tolist())),
            moments=tuple(map(tuple, counts.moments.tolist())),
        )

    def among(self, items: Sequence[str]) -> NDArray[np.float64]:
        """Private answers with the row's item above the column's, of some items."""
        return among_items(self.wins, self.items, items)

    def wins_by_item(self) -> dict[str, int | float] | None:
        """None: how often an item is above others depends on which pairs were drawn."""
        return None
