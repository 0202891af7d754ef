"""Pairs of items on which people's rows counted lately, for streams that count rows.

6 bytes a pair: the number of the pair and the night. The pairs are in the order of people, and
those of one person ascend, so that rows are joined by binary search.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hushrank.transforms.common.sorting import Mask, Order, Words

_PAIR_BITS = np.uint64(32)

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
        late = np.flatnonzero(self.nights.astype(np.int64) >= since)
        known, asked = _keys(self.holders[late], self.pairs[late]), _keys(holders, pairs)
        if not len(known):
            return np.zeros(len(asked), np.bool_)
        place = np.minimum(np.searchsorted(known, asked), len(known) - 1)
        return np.asarray(known[place] == asked)

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
        late = np.flatnonzero(self.nights.astype(np.int64) >= since)
        known, nights = _keys(places[self.holders[late]], self.pairs[late]), self.nights[late]
        new = np.sort(_keys(holders, pairs)) if night >= since else _keys(holders[:0], pairs[:0])
        place = np.searchsorted(known, new)
        keys = np.insert(known, place, new)
        return RecentPairs(
            np.bincount((keys >> _PAIR_BITS).astype(np.int64), minlength=people).astype(np.uint16),
            keys.astype(np.uint32),
            np.insert(nights, place, np.uint16(night)),
        )


def _keys(holders: Order, pairs: Pairs) -> Words:
    keys: Words = holders.astype(np.uint64) << _PAIR_BITS | pairs
    return keys
