"""How workers report which random bits they drew: in tallies, next to the tallies of rows.

Whether a worker draws can depend on rows (there may be no tie), so a report alone is confidential.
The release gets the report together with all sources that the job may draw from. For code that
draws as it should, the result is the same whatever the rows are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hushrank.privacy.bits_used import BitsUsed, Purpose
from hushrank.privacy.randomness import BitSource

PREFIX, SEPARATOR = "bits", "|"


def bits_tally(purpose: Purpose, sources: Iterable[BitSource]) -> dict[str, int]:
    """A tally of what was drawn for `purpose`; the sources are `RandomBits.used`."""
    return {SEPARATOR.join((PREFIX, purpose, source)): 1 for source in sources}


def split_bits(tally: Mapping[str, int]) -> tuple[BitsUsed, dict[str, int]]:
    """Split a sum of tallies into the bits that it reports and the rest."""
    uses, rest = set(), {}
    for name, count in tally.items():
        prefix, *use = name.split(SEPARATOR)
        if prefix == PREFIX and len(use) == 2:
            uses.add((Purpose(use[0]), BitSource(use[1])))
        else:
            rest[name] = count
    return BitsUsed(frozenset(uses)), rest
