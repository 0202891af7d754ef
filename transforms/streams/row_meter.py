"""Rule for the rows of a person that count in a stream that counts rows (`RowTerms`).

On a night a row of a person counts if

(a) no row of the person on the same two items counted on the `gap` - 1 nights before;
(b) it is among the L rows, on distinct pairs, that the bounding step keeps of those of (a);
(c) so many of the person's rows have counted, with it, as `RowTerms.allowance` permits: of those of
    (b) the first ones count, in the secret order in which (b) chose.

All of it depends on this person's rows and on public terms alone: not on anybody else's rows, nor
on files, order, engines or retries. The sensitivity of `privacy.stream` rests on (a), on the
distinct pairs of (b) and on (c).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from hushrank.privacy.stream_encoder import RowTerms
from hushrank.transforms.common.sorting import Mask, new_run, place_in_run
from hushrank.transforms.streams.people_files import Owners, People, distinct, with_owners
from hushrank.transforms.streams.recent_pairs import Pairs, RecentPairs


@dataclass(slots=True)
class RowMeter:
    """Meter of the rows of some people on one night. Confidential.

    Attributes:
        before: the people after the night before; everybody of the rows who counted is there.
        night: number of the night, from 0.
        terms: rules for the rows that count.
    """

    before: People
    night: int
    terms: RowTerms
    _begun: bool = field(default=False, init=False)
    _after: People | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        """Raises `ValueError` if the night is not one of the stream or the people know it."""
        self.terms.check_night(self.night)
        self.before.require_before(self.night)

    def begin(self) -> None:
        """Say that these people have rows tonight, so that `after` waits for `admit`."""
        self._begun = True

    @property
    def after(self) -> People:
        """The people after the night; without `begin`, after a night without rows of theirs.

        Raises:
            ValueError: the rows were not metered.
        """
        if self._after is None and self._begun:
            raise ValueError("the rows of these people were not metered")
        if self._after is None:
            none = np.empty(0, np.uint64)
            self._after = self._with((none, none), none.astype(np.uint32))
        return self._after

    def apart(self, owners: Owners, pairs: Pairs) -> Mask:
        """Mark the rows of rule (a); any part of the night's rows may be given.

        Args:
            owners: pseudonym of each row.
            pairs: number of the two items of each row.
        """
        found = distinct(owners)
        place, known = self.before.find(found.owners)
        there = known[found.number]
        since = self.night - self.terms.gap + 1
        close = np.zeros(len(there), np.bool_)
        close[there] = self._recent().holds(place[found.number[there]], pairs[there], since)
        return ~close

    def admit(self, owners: Owners, pairs: Pairs) -> Mask:
        """Mark the rows of rule (c), and remember the people after the night.

        Args:
            owners, pairs: as for `apart`, of all rows of (b): each person's neighbours, in the
                order of the choice.

        Raises:
            ValueError: it was called before.
        """
        if self._after is not None:
            raise ValueError("the rows of these people were metered before")
        found = distinct(owners)
        place, known = self.before.find(found.owners)
        used = np.zeros(len(known), np.int64)
        used[known] = self.before.times[place[known]]
        left = self.terms.allowance(self.night) - used
        admitted = place_in_run(new_run(found.number)) < left[found.number]
        first, second = owners
        self._after = self._with((first[admitted], second[admitted]), pairs[admitted])
        return admitted

    def _with(self, owners: Owners, pairs: Pairs) -> People:
        """The people after a night on which rows of these owners and pairs count."""
        found = distinct(owners)
        after, places = with_owners(self.before, found.owners)
        place, _ = after.find(found.owners)
        times, last = after.times.copy(), after.last.copy()
        last[place] = self.night
        times[place] += np.bincount(found.number, minlength=len(place)).astype(np.uint16)
        recent = self._recent().updated(
            places,
            len(after),
            place[found.number],
            pairs,
            self.night,
            self.night - self.terms.gap + 2,  # what tomorrow's rule looks back to
        )
        return replace(after, last=last, times=times, recent=recent)

    def _recent(self) -> RecentPairs:
        people = self.before
        return RecentPairs.of_nobody(len(people)) if people.recent is None else people.recent
