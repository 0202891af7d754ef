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
MARGINS = ("margin", "margin_low", "margin_high")
SMALL_CELLS = (
    "Votes that add up are never below 0, so very small ones tend to be too large. To add up cells"
    " of your own choice, take the noisy numbers."
)


class Level(NamedTuple):
    """One precinct, one district, or all.

    Attributes:
        level: one of `LEVELS`.
        code: code of the precinct, or name of the district; else empty.
        district: district of a precinct; else empty.
        noisy: released numbers, of each item.
        reach: reach of the noise in each of them.
        votes: votes of each item; those of parts add up.
        margin_reach: reach of the noise in all margins of the row; None: it was not stated.
    """

    level: str
    code: str
    district: str
    noisy: tuple[float, ...]
    reach: float
    votes: tuple[int, ...]
    margin_reach: float | None

    def margins(self) -> list[float]:
        """Noisy number of each item less the largest of the others."""
        first, second = sorted(self.noisy, reverse=True)[:2]
        return [noisy - (second if noisy == first else first) for noisy in self.noisy]


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
        where = level, code, inside.get(code, "")
        yield Level(*where, cells, record.reach, votes, record.margin_reach)
    for name, counts, votes in zip(
        record.districts or (),
        released.districts or (),
        record.votes_of_districts or (),
        strict=True,
    ):
        cells = noisy("districts", counts)
        yield Level(LEVELS[2], name, "", cells, record.wide_reach, votes, record.wide_margin_reach)
    wide = record.wide_reach, record.votes_of_all, record.wide_margin_reach
    yield Level(LEVELS[3], "", "", noisy("totals", released.totals), *wide)


def precincts_csv(record: PrecinctRecord, released: Any) -> str:
    """The table with a row for each precinct and item, `code` to join it with a map.

    `noisy` is the released number and `low` to `high` hold the true one with 95 %, one number at a
    time; `votes` are whole numbers that add up. `margin` is by how much the noisy number is above
    the largest of the others, and its interval holds with 95 % for all items of a row at once.
    """
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow([*COLUMNS, *(MARGINS if record.margin_reach is not None else ())])
    for each in levels_of(record, released):
        where = (each.level, write_cell(each.code), write_cell(each.district))
        rows = zip(released.items, each.noisy, each.votes, each.margins(), strict=True)
        for item, noisy, votes, margin in rows:
            ends = (max(noisy - each.reach, 0.0), max(noisy + each.reach, 0.0))
            numbers = (f"{value:.6f}" for value in (noisy, *ends))
            apart: tuple[float, ...] = ()
            if each.margin_reach is not None:
                apart = margin, margin - each.margin_reach, margin + each.margin_reach
            own = (f"{value:.6f}" for value in apart)
            table.writerow([*where, write_cell(item), *numbers, votes, *own])
    return text.getvalue()


def leader_text(level: Level, names: Sequence[str]) -> str:
    """Who leads in a row by the noisy numbers, by how much, and whether that is sure."""
    margins, reach = level.margins(), level.margin_reach or 0.0
    lead = max(margins)
    sure = "surely" if lead > reach else "not sure"
    return f"{names[margins.index(lead)]} by {lead:,.0f} ± {reach:,.0f} ({sure})"


def precincts_sentence(record: PrecinctRecord) -> str:
    """Say how large the table is, and how far its numbers may be off."""
    margins = ""
    if record.margin_reach is not None and record.wide_margin_reach is not None:
        margins = (
            f" A noisy margin above {record.margin_reach:.1f} in a precinct, or"
            f" {record.wide_margin_reach:.1f} in all together, is surely one without the noise,"
            " with 95 % for all pairs of candidates in one row at once."
        )
    wide = " or of a district" * (record.districts is not None)
    return (
        f"First places in {len(record.precincts):,} precincts: a noisy number of a precinct is"
        f" within {record.reach:.1f} of the true one with 95 %, one of all together{wide} within"
        f" {record.wide_reach:.1f}.{margins} {SMALL_CELLS}"
    )
