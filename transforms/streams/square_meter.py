"""Rule for the rows of a person that count in a stream that counts squares (`SquareTerms`).

On a night a row of a person counts if

(a) the last night on which rows of the person counted is at least `gap` nights before;
(b) it is among the L rows, on distinct pairs, that the bounding step keeps;
(c) of those of (b) it is among the first l, in the secret order in which (b) chose, where l is the
    largest number for which the l^2 + l of this night and those of all nights before are at most
    what `SquareTerms.allowance` permits.

A night on which l is 0 leaves no trace. The sensitivity of `privacy.stream` rests on (a), on the
distinct pairs of (b) and on (c).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from hushrank.privacy.stream_encoder import RowTerms, SquareTerms
from hushrank.transforms.common.sorting import Mask
from hushrank.transforms.streams.meter import Meter
from hushrank.transforms.streams.people_files import Owners, People, distinct, with_owners
from hushrank.transforms.streams.recent_pairs import Pairs
from hushrank.transforms.streams.row_meter import RowMeter


@dataclass(slots=True)
class SquareMeter(Meter[SquareTerms]):
    """Meter of squares of numbers of rows."""

    excluded = "rows_of_nights_that_do_not_count"

    def apart(self, owners: Owners, pairs: Pairs) -> Mask:
        """Mark the rows of rule (a), whose pairs do not matter."""
        found = distinct(owners)
        place, known = self.before.find(found.owners)
        late_enough = np.ones(len(known), np.bool_)
        last = self.before.last[place[known]].astype(np.int64)
        late_enough[known] = self.night - last >= self.terms.gap
        return late_enough[found.number]

    def rows_within(self, left: NDArray[np.int64]) -> NDArray[np.int64]:
        """The l of rule (c)."""
        return self.terms.rows_within(left)

    def with_rows(self, owners: Owners, pairs: Pairs) -> People:
        """Return the people with the night and what its rows use."""
        found = distinct(owners)
        after, _ = with_owners(self.before, found.owners)
        place, _ = after.find(found.owners)
        times, last = after.times.copy(), after.last.copy()
        last[place] = self.night
        rows = np.bincount(found.number, minlength=len(place))
        times[place] += self.terms.charge(rows).astype(np.uint16)
        return replace(after, last=last, times=times)


AnyMeter = RowMeter | SquareMeter


def meter_of(people: People, night: int, terms: RowTerms | SquareTerms) -> AnyMeter:
    """Return the meter that enforces these terms.

    Raises:
        ValueError: the night is not one of the stream, or the people know it.
    """
    if isinstance(terms, SquareTerms):
        return SquareMeter(people, night, terms)
    return RowMeter(people, night, terms)
