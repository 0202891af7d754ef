"""The ranking in the page's table: lines, marks of the axis, and how many lines fit."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from markupsafe import escape

from hushrank.flows.release.axis import Axis, axis_of
from hushrank.flows.release.release import Release
from hushrank.flows.release.scale import (
    MEAN_ELO,
    WORDS,
    Scale,
    interval_text,
    score_decimals,
    score_text,
)
from hushrank.flows.release.wording import chance_text, exact_text, rank_interval, verdict
from hushrank.transforms.common.schema import Ties

LONG = 1000  # longer rankings show the best and worst, the rest on request
SHOWN_BEST, SHOWN_WORST = 50, 10
LINE_BYTES = 1_050  # bytes of a line with drawing and exact values, without the item's name
ROW_BYTES = 160  # bytes of a line in the table on request, without the item's name
NO_INTERVAL = "–"  # sign for a place in an order, which the ranks bound
MOST_TEXTS = 4  # most ticks of the table's axis that have a text
AVERAGE = {Scale.WIN_SHARE: 50.0, Scale.ELO: MEAN_ELO}  # score of the average item; else 0
ROUNDING = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Line of the ranking table.

    Attributes:
        identity: the item as in the rows, if people read a label instead; else empty.
        exact: score and interval with all digits.
        won: released count of wins; None if none is released.
        sure: the interval that holds for all items at once; None if the release has none.
        chance: chance to be the best; None if it is not known.
        low, at, high: ends of the interval and the score, in percent of the axis.
        low_all, high_all: ends of `sure`, in percent of the axis; None if there is none.
        goes_on: whether the wider interval leaves the axis at its lower end, and at its upper end.
    """

    place: str
    item: str
    identity: str
    exact: str
    score: str
    interval: str
    ranks: str
    won: str | None
    sure: str | None
    chance: str | None
    low: str
    at: str
    high: str
    low_all: str | None
    high_all: str | None
    goes_on: tuple[bool, bool]
    starts_group: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TickMark:
    """A mark of the axis: its place in percent, and its text, which may be empty.

    Attributes:
        middle: whether it marks the average item.
    """

    at: str
    text: str
    middle: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RankingTable:
    """The part of the ranking that the page shows.

    Attributes:
        shown: lines of the table: all, or the best and the worst.
        gap: number of lines of `shown` above the omitted lines; None: no line is omitted.
        full: lines of a table on request if some are omitted above: as many as fit.
        ticks: marks of the table's axis.
    """

    shown: list[Row]
    gap: int | None
    full: list[Row]
    ticks: list[TickMark]


def table_of(release: Release, room: int) -> RankingTable:
    """The table of a page that has `room` bytes for it."""
    axis, n_rows = _axis(release), len(release.ranking)
    row_at, ticks = _rows_of(release, axis), _ticks_of(release.scale, axis)
    if n_rows <= LONG:
        rows = _that_fit(map(row_at, range(n_rows)), room, LINE_BYTES)
        if len(rows) == n_rows:
            return RankingTable(shown=rows, gap=None, full=[], ticks=ticks)
    ends = [*range(n_rows)[:SHOWN_BEST], *range(n_rows)[-SHOWN_WORST:]]
    fit = _that_fit(map(row_at, range(n_rows)), room, ROW_BYTES)
    return RankingTable(shown=[*map(row_at, ends)], gap=SHOWN_BEST, full=fit, ticks=ticks)


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardTable:
    """The ranking of one group, as the page shows it.

    Attributes:
        name: name of the group.
        verdict: sentence on what the ranking says.
        own: share of it that the group's own answers decide, in percent.
        drawn: whether it is drawn towards the ranking of all groups.
        rows: as many lines as fit, best first.
        left_out: number of lines that do not fit.
        at_once, probabilities: whether the lines have these cells; all together may say less.
    """

    name: str
    verdict: str
    own: str
    drawn: bool
    rows: list[Row]
    left_out: int
    at_once: bool
    probabilities: bool


def board_tables(release: Release, room: int) -> list[BoardTable]:
    """A table of each group, on a page that has `room` bytes for them."""
    tables = []
    for group, board in release.boards():
        n_rows, row_at = len(board.ranking), _rows_of(board, _axis(board))
        part = room // len(release.groups or (group,))
        fit = _that_fit(map(row_at, range(n_rows)), part, ROW_BYTES)
        tables.append(
            BoardTable(
                name=group.name,
                verdict=verdict(board),
                own=f"{100 * group.own:.0f} %",
                drawn=release.scale is not Scale.DIFFICULTY,
                rows=fit,
                left_out=n_rows - len(fit),
                at_once=board.says("low_all"),
                probabilities=board.says("p_best"),
            )
        )
    return tables


def _rows_of(release: Release, axis: Axis) -> Callable[[int], Row]:
    """Makes the row of the table for a position of the ranking, 0 for the best."""
    scale, wins, lines = release.scale, release.released.wins_by_item(), release.ranking
    places, decimals = release.places(), score_decimals(scale, lines)
    halves, order = release.privacy.ties is Ties.SPLIT, release.is_order
    at_once, probabilities = release.says("low_all"), release.says("p_best")

    def row_at(position: int) -> Row:
        line = lines[position]
        score, sure = f"{score_text(scale, line.score, decimals)}{WORDS[scale].unit}", line.at_once
        return Row(
            place=places[position],
            item=line.shown,
            identity=line.item if line.item != line.shown else "",
            exact=exact_text(release, line),
            score=score if release.informative else "unknown",
            interval=NO_INTERVAL if order else interval_text(scale, line, decimals),
            ranks=rank_interval(line),
            won=None if wins is None else f"{wins[line.item]:,.{1 if halves else 0}f}",
            sure=(NO_INTERVAL if order else interval_text(scale, sure, decimals))
            if at_once
            else None,
            chance=chance_text(line.p_best) if probabilities else None,
            low=f"{axis.percent(line.low):.1f}",
            at=f"{axis.percent(line.score):.1f}",
            high=f"{axis.percent(line.high):.1f}",
            low_all=f"{axis.percent(sure.low):.1f}" if at_once else None,
            high_all=f"{axis.percent(sure.high):.1f}" if at_once else None,
            goes_on=(sure.low < axis.low, sure.high > axis.high),
            starts_group=position == 0 or line.group != lines[position - 1].group,
        )

    return row_at


def _axis(release: Release) -> Axis:
    return axis_of(release.scale, [line.at_once for line in release.ranking])


def _ticks_of(scale: Scale, axis: Axis) -> list[TickMark]:
    """The marks; if there are many, only every other one has a text."""
    every = 1 if len(axis.ticks) <= MOST_TEXTS else 2
    return [
        TickMark(
            at=f"{axis.percent(value):.1f}",
            text=text if place % every == 0 else "",
            middle=math.isclose(value, AVERAGE.get(scale, 0.0), abs_tol=ROUNDING),
        )
        for place, (value, text) in enumerate(axis.ticks)
    ]


def _that_fit(rows: Iterable[Row], left: int, each: int) -> list[Row]:
    """The first rows that fit into `left` bytes, at `each` bytes a row plus its name."""
    fit = []
    for row in rows:
        left -= each + sum(len(str(escape(text)).encode()) for text in (row.item, row.identity))
        if left < 0:
            break
        fit.append(row)
    return fit
