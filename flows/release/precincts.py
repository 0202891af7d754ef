"""First places by public precinct in a release: the rows of the table, as a file and in words."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from hushrank.flows.release.election import PrecinctRecord
from hushrank.transforms.common.plain_text import write_cell

LEVELS = ("precinct", "elsewhere", "district", "all")
COLUMNS = ("level", "code", "district", "item", "noisy", "low", "high", "votes")
SMALL_CELLS = (
    "Votes that add up are never below 0, so very small ones tend to be too large. To add up cells"
    " of your own choice, take the noisy numbers."
)


class Level(NamedTuple):
    """One precinct, one district, or all.

    Attributes:
        level: one of `LEVELS`.
        code: of the precinct, or name of the district; else empty.
        district: of a precinct; else empty.
        noisy: released numbers, of each item.
        reach: of the noise in each of them.
        votes: that add up, of each item.
    """

    level: str
    code: str
    district: str
    noisy: tuple[float, ...]
    reach: float
    votes: tuple[int, ...]


def levels_of(record: PrecinctRecord, released: Any) -> Iterator[Level]:
    """All rows of the table: precincts, districts, all.

    Args:
        record: the votes.
        released: the noisy counts that they were made of.
    """
    weights: dict[str, int] = released.weights

    def noisy(name: str, counts: Sequence[int]) -> tuple[float, ...]:
        return tuple(count / weights[name] for count in counts)

    inside = {code: name for name, codes in (record.districts or {}).items() for code in codes}
    codes = [*record.precincts, *[""] * record.elsewhere]
    for place, (code, counts, votes) in enumerate(
        zip(codes, released.precincts, record.votes, strict=True)
    ):
        level = LEVELS[0] if place < len(record.precincts) else LEVELS[1]
        cells = noisy("precincts", counts)
        yield Level(level, code, inside.get(code, ""), cells, record.reach, votes)
    for name, counts, votes in zip(
        record.districts or (),
        released.districts or (),
        record.votes_of_districts or (),
        strict=True,
    ):
        yield Level(LEVELS[2], name, "", noisy("districts", counts), record.wide_reach, votes)
    cells = noisy("totals", released.totals)
    yield Level(LEVELS[3], "", "", cells, record.wide_reach, record.votes_of_all)


def precincts_csv(record: PrecinctRecord, released: Any) -> str:
    """The table with a row for each precinct and item, `code` to join it with a map.

    `noisy` is the released number and `low` to `high` hold the true one with 95 %, one number at a
    time; `votes` are whole numbers that add up.
    """
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(COLUMNS)
    for each in levels_of(record, released):
        where = (each.level, write_cell(each.code), write_cell(each.district))
        for item, noisy, votes in zip(released.items, each.noisy, each.votes, strict=True):
            ends = (max(noisy - each.reach, 0.0), max(noisy + each.reach, 0.0))
            numbers = (f"{value:.6f}" for value in (noisy, *ends))
            table.writerow([*where, write_cell(item), *numbers, votes])
    return text.getvalue()


def precincts_sentence(record: PrecinctRecord) -> str:
    """How large the table is, and how far its numbers may be off."""
    wide = " or of a district" * (record.districts is not None)
    return (
        f"First places in {len(record.precincts):,} precincts: a noisy number of a precinct is"
        f" within {record.reach:.1f} of the true one with 95 %, one of all together{wide} within"
        f" {record.wide_reach:.1f}. {SMALL_CELLS}"
    )
