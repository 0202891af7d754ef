"""Rule for the rows of a person that count in a stream that counts rows (`RowTerms`).

On a night a row of a person counts if

(a) no row of the person on the same two items counted on the `gap` - 1 nights before;
(b) it is among the L rows, on distinct pairs, that the bounding step keeps of those of (a);
(c) so many of the person's rows have counted, with it, as `RowTerms.allowance` permits: of those of
    (b) the first ones count, in the secret order in which (b) chose.

The sensitivity of `privacy.stream` rests on (a), on the distinct pairs of (b) and on (c).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from hushrank.privacy.stream_encoder import RowTerms
from hushrank.transforms.common.sorting import Mask
from hushrank.transforms.streams.meter import Meter
from hushrank.transforms.streams.people_files import Owners, People, distinct, with_owners
from hushrank.transforms.streams.recent_pairs import Pairs, RecentPairs


@dataclass(slots=True)
class RowMeter(Meter[RowTerms]):
    """Meter of rows on pairs of items."""

    excluded = "rows_on_pairs_of_nights_before"

    def apart(self, owners: Owners, pairs: Pairs) -> Mask:
        """Mark the rows of rule (a)."""
        found = distinct(owners)
        place, known = self.before.find(found.owners)
        there = known[found.number]
        since = self.night - self.terms.gap + 1
        close = np.zeros(len(there), np.bool_)
        close[there] = self._recent().holds(place[found.number[there]], pairs[there], since)
        return ~close

    def rows_within(self, left: NDArray[np.int64]) -> NDArray[np.int64]:
        """All that is left of rule (c)."""
        return left

    def with_rows(self, owners: Owners, pairs: Pairs) -> People:
        """Return the people with these rows and pairs, and without pairs that no night needs."""
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
