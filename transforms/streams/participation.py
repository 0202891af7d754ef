"""On which nights of a stream a person's rows count: the rule that its sensitivity rests on.

A person's night counts if (1) it is at least `gap` nights after the last one that counted and (2)
fewer than `participations` counted before. So it depends on the nights on which this person had
rows and on the public terms alone: not on anybody else's rows, files, order or retries. A night
that does not count leaves no trace: the gap is measured from the last night that did.

Pure: arrays in, arrays out. People are sorted by their pseudonym, so they are joined by binary
search, a partition at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hushrank.privacy.stream_encoder import Terms
from hushrank.transforms.common.sorting import Mask, Order, Words, new_run, number_runs

Nights = NDArray[np.uint16]
Owners = tuple[Words, Words]  # the two words of each pseudonym

BYTES_A_PERSON = 20  # in memory


@dataclass(frozen=True, slots=True, eq=False)
class People:
    """Who counted before, sorted by pseudonym, each once. Confidential, as the exact counts are.

    Attributes:
        first, second: the words of the pseudonym, under the stream's own key.
        last: the last night that counted, from 0.
        times: how many nights counted, at least 1.
    """

    first: Words
    second: Words
    last: Nights
    times: Nights

    @classmethod
    def nobody(cls) -> People:
        """Before the first night."""
        none = np.empty(0, np.uint64)
        return cls(none, none, none.astype(np.uint16), none.astype(np.uint16))

    def __len__(self) -> int:
        return len(self.first)

    @property
    def columns(self) -> tuple[Words, Words, Nights, Nights]:
        """All four."""
        return self.first, self.second, self.last, self.times

    def counted_on(self, night: int) -> People:
        """Those for whom `night` is the last that counted."""
        return self._at(np.flatnonzero(self.last == night))

    def between(self, start: int, end: int) -> People:
        """Those at places `start` to before `end`."""
        return self._at(slice(start, end))

    def _at(self, places: Order | slice) -> People:
        first, second, last, times = self.columns
        return People(first[places], second[places], last[places], times[places])

    @classmethod
    def concatenate(cls, parts: Sequence[People]) -> People:
        """All of `parts`, which are in order and share nobody."""
        if not parts:
            return cls.nobody()
        return cls(*map(np.concatenate, zip(*(part.columns for part in parts), strict=True)))


def take_part(people: People, owners: Owners, night: int, terms: Terms) -> tuple[Mask, People]:
    """Who of tonight's people counts, and who has counted after it.

    Args:
        people: after the night before, or a part of them that holds everybody of `owners` who
            counted before.
        owners: pseudonyms of those with rows tonight, sorted, each once.
        night: its number, from 0.
        terms: k and b.

    Returns:
        Of each of `owners` whether the night counts; and `people` after it, sorted.

    Raises:
        ValueError: the night is not one of the stream, or `people` know it already.
    """
    terms.check_night(night)
    if len(people) and int(people.last.max()) >= night:
        raise ValueError(f"the state of people is not from before night {night}")
    place, known = _find(people, owners)
    there = place[known]
    counts = np.ones(len(known), np.bool_)
    late_enough = night - people.last[there].astype(np.int64) >= terms.gap
    counts[known] = late_enough & (people.times[there] < terms.participations)
    again = place[known & counts]
    last, times = people.last.copy(), people.times.copy()
    last[again] = night
    times[again] += np.uint16(1)
    new = ~known
    after = People(
        np.insert(people.first, place[new], owners[0][new]),
        np.insert(people.second, place[new], owners[1][new]),
        np.insert(last, place[new], np.uint16(night)),
        np.insert(times, place[new], np.uint16(1)),
    )
    return counts, after


def _find(people: People, owners: Owners) -> tuple[Order, Mask]:
    """Where each owner is among `people`, or would be; and whether it is there."""
    place = np.searchsorted(people.first, owners[0])
    if not len(people):
        return place, np.zeros(len(place), np.bool_)
    while True:
        here = np.minimum(place, len(people) - 1)
        shared = (place < len(people)) & (people.first[here] == owners[0])
        before = shared & (people.second[here] < owners[1])
        if not before.any():
            return place, shared & (people.second[here] == owners[1])
        place = place + before  # two pseudonyms share their first word


def is_among(people: People, owners: Owners) -> Mask:
    """Which owners are among `people`."""
    return _find(people, owners)[1]


@dataclass(frozen=True, slots=True)
class Distinct:
    """The owners of some rows, sorted, each once.

    Attributes:
        owners: their pseudonyms.
        number: which of them each row belongs to.
    """

    owners: Owners
    number: Order


def distinct(rows: Owners) -> Distinct:
    """The owners of rows with these pseudonyms."""
    order = np.argsort(rows[0])
    first, second = rows[0][order], rows[1][order]
    if np.any((first[1:] == first[:-1]) & (second[1:] < second[:-1])):  # first words collide
        order = np.lexsort((rows[1], rows[0]))
        first, second = rows[0][order], rows[1][order]
    new = new_run(first, second)
    number = np.empty(len(order), np.int64)
    number[order] = number_runs(new)
    return Distinct((first[new], second[new]), number)
