"""Pairs of items on which people's rows counted lately, for streams that count rows.

6 bytes a pair: the number of the pair and the night. The pairs of one person are neighbours, in the
order of people.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hushrank.transforms.common.sorting import Mask, Order, Words

Nights = NDArray[np.uint16]
Pairs = NDArray[np.uint32]


@dataclass(frozen=True, slots=True, eq=False)
class RecentPairs:
    """Recent pairs of some people, person by person. Confidential, like exact counts.

    Attributes:
        sizes: number of pairs of each person.
        pairs: all pairs.
        nights: the night on which a row on each pair counted, from 0.
    """

    sizes: Nights
    pairs: Pairs
    nights: Nights

    @classmethod
    def of_nobody(cls, people: int = 0) -> RecentPairs:
        """Return no pairs of so many people."""
        none = np.empty(0, np.uint32)
        return cls(np.zeros(people, np.uint16), none, none.astype(np.uint16))

    def between(self, start: int, end: int) -> RecentPairs:
        """The pairs of the people at places `start` to before `end`."""
        edges = np.append(0, np.cumsum(self.sizes, dtype=np.int64))
        rows = slice(int(edges[start]), int(edges[end]))
        return RecentPairs(self.sizes[start:end], self.pairs[rows], self.nights[rows])

    @classmethod
    def concatenate(cls, parts: Sequence[RecentPairs]) -> RecentPairs:
        """Join all of `parts`, which are in order and share nobody; there is at least one."""
        columns = zip(*((each.sizes, each.pairs, each.nights) for each in parts), strict=True)
        sizes, pairs, nights = map(np.concatenate, columns)
        return cls(sizes, pairs, nights)

    @property
    def holders(self) -> Order:
        """Place of the person of each pair."""
        return np.repeat(np.arange(len(self.sizes)), self.sizes)

    def holds(self, holders: Order, pairs: Pairs, since: int) -> Mask:
        """Mark the pairs that their person holds from the night `since` or a later one."""
        late = self.nights.astype(np.int64) >= since
        known = _keys(self.holders[late], self.pairs[late])
        return np.isin(_keys(holders, pairs), known)

    def updated(
        self, places: Order, people: int, holders: Order, pairs: Pairs, night: int, since: int
    ) -> RecentPairs:
        """Return the pairs after a night, without those of before `since`.

        Args:
            places: place of each person here among those of afterwards.
            people: number of people afterwards.
            holders, pairs: places afterwards and pairs of the rows that counted on `night`.
            night: the night.
            since: the first night whose pairs are still needed.
        """
        everybody = np.concatenate([places[self.holders], holders])
        nights = np.concatenate([self.nights, np.full(len(pairs), night, np.uint16)])
        needed = np.flatnonzero(nights.astype(np.int64) >= since)
        order = needed[np.argsort(everybody[needed], kind="stable")]
        return RecentPairs(
            np.bincount(everybody[order], minlength=people).astype(np.uint16),
            np.concatenate([self.pairs, pairs])[order],
            nights[order],
        )


def _keys(holders: Order, pairs: Pairs) -> Words:
    keys: Words = holders.astype(np.uint64) << np.uint64(32) | pairs
    return keys
