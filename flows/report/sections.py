"""Parts of the page: the ranking, what is sure, and earlier nights.

The ranking in the page's table: lines, marks of the axis, and how many lines fit. Sure orders of
items: a table of the best items, and the tiers that follow. Ranks over time: a figure of the page
of a stream, and a picture of its own.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from itertools import groupby, pairwise
from typing import TYPE_CHECKING

from markupsafe import Markup, escape

from hushrank.flows.release.boards import RankedItem, better_lines
from hushrank.flows.release.release import Release
from hushrank.flows.release.scale import (
    DIFFICULTIES,
    MEAN_ELO,
    WORDS,
    Axis,
    Scale,
    axis_of,
    interval_text,
    round_marks,
    score_decimals,
    score_text,
)
from hushrank.flows.release.wording import (
    chance_text,
    exact_text,
    name_list,
    range_text,
    rank_interval,
    verdict,
)
from hushrank.flows.report.drawings import Curve, curves
from hushrank.flows.report.figures import CONFIDENCE, ReportFigure
from hushrank.flows.report.model_facts import EffectRow, effect_rows
from hushrank.flows.report.slide import chart_of, chart_svg
from hushrank.flows.report.svg import (
    ELLIPSIS,
    SVG,
    WIDTH,
    Shape,
    drawing,
    element,
    labels,
    picture_bytes,
    png_bytes,
    text,
)
from hushrank.transforms.common.plain_text import short
from hushrank.transforms.common.schema import Ties

if TYPE_CHECKING:
    from hushrank.flows.report.elections import ElectionFacts

HEADLINE_NAME = 420.0  # pixels of a name in the headline, as wide as small letters
OF_SUMMARY, SUMMARY_NAME = 12, 320.0  # items of the summary, and pixels of their names
LONG = 1000  # longer rankings show the best and worst, the rest on request
SHOWN_BEST, SHOWN_WORST = 50, 10
LINE_BYTES = 1_050  # bytes of a line with drawing and exact values, without the item's name
ROW_BYTES = 160  # bytes of a line in the table on request, without the item's name
NO_INTERVAL = "–"  # sign for a place in an order, which the ranks bound
MOST_TEXTS = 4  # most ticks of the table's axis that have a text
AVERAGE = {Scale.WIN_SHARE: 50.0, Scale.ELO: MEAN_ELO}  # score of the average item; else 0
ROUNDING = 1e-9
INTERVALS = "rank, with 95 % interval"
EVERY_BAND = "With 95 % confidence all bands of all nights of the stream hold."
ALL_NIGHTS = "rank; 95 %: all bands of all nights hold"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Line of the ranking table.

    Attributes:
        cut: a label of a long name, for the summary of one page; else empty.
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
    cut: str
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


def headline(release: Release) -> str:
    """The verdict in large letters, with long names cut where they differ; the table has them."""
    lines = zip(release.ranking, headline_names(release), strict=True)
    shown = tuple(replace(line, label=name) for line, name in lines)
    return verdict(release.model_copy(update={"ranking": shown}))


def headline_names(release: Release) -> list[str]:
    """Names of all items as the headline writes them, best first."""
    names = labels([line.shown for line in release.ranking], HEADLINE_NAME)
    return [name.replace(ELLIPSIS, f"{ELLIPSIS}\N{WORD JOINER}") for name in names]  # no break


def contents_of(sections: Markup) -> list[tuple[str, str]]:
    """Identifiers and titles of the sections of a page, as far as it has them."""
    found = re.findall(r'<h2 id="([^"]*)">(.*?)</h2>', sections)
    return [(identifier, Markup(title)) for identifier, title in found]


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
        how: text on what its scores follow from, the same for all groups.
        own: share of it that the group's own answers decide, in percent; empty: all of it.
        rows: as many lines as fit, best first.
        left_out: number of lines that do not fit.
        at_once, probabilities: whether the lines have these cells; all together may say less.
        election: winners in the group; None: the release states none.
    """

    name: str
    verdict: str
    how: str
    own: str
    rows: list[Row]
    left_out: int
    at_once: bool
    probabilities: bool
    election: ElectionFacts | None
    effects: list[EffectRow]


DRAWN = (
    "A score is the group's own. Where a group has few answers, its scores are drawn towards those"
    " of all groups: its own answers decide the share that is stated, and intervals allow for that."
)
DRAWN_EFFECTS = (
    f"{DRAWN} Effects of a group are its own as well, and are drawn towards those of the other"
    " groups where its own answers tell little of them."
)
OF_SHEETS = (
    "Each follows from the sheets of its group alone, so groups may differ in ability; 0 is the"
    " mean difficulty in the group."
)
OF_ANCHORED_SHEETS = (
    "Each follows from the sheets of its group alone, so groups may differ in ability; the zero is"
    " that of the anchors in each."
)
OF_OVERLAP = (
    "Groups share {}, so each ranking follows from the counts of its group alone, and nothing is"
    " drawn towards other groups."
)
OF_BALLOTS = "Each follows from the rankings of its group alone."


def board_tables(release: Release, room: int) -> list[BoardTable]:
    """A table of each group, on a page that has `room` bytes for them."""
    tables, how = [], OF_BALLOTS if release.released.ballots else DRAWN
    if release.effects is not None:
        how = DRAWN_EFFECTS
    if release.privacy.groups_per_answer is not None:
        how = OF_OVERLAP.format("rankings" if release.released.ballots else "answers")
    if release.scale in DIFFICULTIES:
        how = OF_ANCHORED_SHEETS if release.scale is Scale.ANCHORED_DIFFICULTY else OF_SHEETS
    for group, board in release.boards():
        n_rows, row_at = len(board.ranking), _rows_of(board, _axis(board))
        part = room // len(release.groups or (group,))
        fit = _that_fit(map(row_at, range(n_rows)), part, ROW_BYTES)
        tables.append(
            BoardTable(
                name=group.name,
                verdict=verdict(board),
                how=how,
                own=f"{100 * group.own:.0f} %" if how in (DRAWN, DRAWN_EFFECTS) else "",
                rows=fit,
                left_out=n_rows - len(fit),
                at_once=board.says("low_all"),
                probabilities=board.says("p_best"),
                election=_election_of(board),
                effects=effect_rows(board),
            )
        )
    return tables


def _election_of(board: Release) -> ElectionFacts | None:
    if board.election is None:
        return None
    from hushrank.flows.report.elections import election_facts

    return election_facts(board, grouped=True)


def _rows_of(release: Release, axis: Axis) -> Callable[[int], Row]:
    """Makes the row of the table for a position of the ranking, 0 for the best."""
    scale, wins, lines = release.scale, release.released.wins_by_item(), release.ranking
    places, decimals = release.places(), score_decimals(scale, lines)
    halves, order = release.privacy.ties is Ties.SPLIT, release.is_order
    at_once, probabilities = release.says("low_all"), release.says("p_best")
    cut = labels([line.shown for line in lines[:OF_SUMMARY]], SUMMARY_NAME)

    def row_at(position: int) -> Row:
        line = lines[position]
        score, sure = f"{score_text(scale, line.score, decimals)}{WORDS[scale].unit}", line.at_once
        return Row(
            place=places[position],
            item=line.shown,
            cut=cut[position] if position < OF_SUMMARY and cut[position] != line.shown else "",
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


MOST_ITEMS_SURE = 60  # items shown; a longer ranking shows its best
MOST_TIERS = 12
BETTER, WORSE, UNKNOWN = "+", "−", "·"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tier:
    """Items that share a place.

    Attributes:
        place: place of the tier, such as `2=`.
        names: names of the first few items, and how many more there are.
    """

    place: str
    names: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SureTable:
    """The table as the page shows it.

    Attributes:
        names: names of the items, best first.
        rows: one row of signs for each item: whether the row's item is surely better than the
            column's, surely worse, or neither; empty on the diagonal. No rows if only items further
            down have a sure order.
        left_out: number of items of the ranking that are not in the table.
        tiers: the listed tiers, from the top.
        more_tiers: number of tiers that are not listed.
    """

    names: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left_out: int
    tiers: tuple[Tier, ...]
    more_tiers: int


def sure_table_of(release: Release) -> SureTable | None:
    """The table; None if the release does not say who is surely better, or no order is sure."""
    if not (release.informative and release.says("surely_above")):
        return None
    better = better_lines([line.surely_above or "" for line in release.ranking])
    if not better.any():
        return None
    shown, places = release.ranking[:MOST_ITEMS_SURE], release.places()
    signs = tuple(
        tuple(
            "" if row == column else _sign(bool(better[row, column]), bool(better[column, row]))
            for column in range(len(shown))
        )
        for row in range(len(shown))
    )
    tiers = _tiers(release, places)
    return SureTable(
        names=tuple(line.shown for line in shown),
        rows=signs if better[: len(shown), : len(shown)].any() else (),
        left_out=len(release.ranking) - len(shown),
        tiers=tuple(tiers[:MOST_TIERS]),
        more_tiers=max(len(tiers) - MOST_TIERS, 0),
    )


def _sign(better: bool, worse: bool) -> str:
    return BETTER if better else WORSE if worse else UNKNOWN


def _tiers(release: Release, places: list[str]) -> list[Tier]:
    lines = zip(places, release.ranking, strict=True)
    return [
        Tier(place=place, names=name_list([line.shown for _, line in group]))
        for place, group in groupby(lines, key=lambda pair: pair[0])
    ]


MOST_LINES = 10  # items drawn: the first of the last release
LEADING = 5  # items with colours and bands; the bands of more would lie on top of each other
MOST_POINTS = 40  # most releases for which each rank has a mark
MOST_DAYS = 6  # most steps between the days that the axis names
MARGIN = 0.03  # part of the axis between its ends and the first and the last release
EPOCH = date(1970, 1, 1)  # start of the axis of days


def history_figure(release: Release, earlier: Sequence[Release]) -> ReportFigure | None:
    """Ranks over the nights of a stream; None where there is nothing to draw."""
    nights = [each for each in (*earlier, release) if each.informative]
    if len(nights) < 2 or not release.informative:
        return None
    first, best = nights[0].day, release.ranking[:MOST_LINES]
    which = f"the best {len(best)} items" if len(best) < len(release.ranking) else "all items"
    bands = _bands_of_all_nights(nights)
    rank = rank_interval(best[0]) if bands is None else range_text(*bands[-1][best[0].item])
    description = (
        f"Plot of the ranks of {which} from {first} to {release.day}, rank 1 on top, with the ranks"
        f" that each can have. Last of all {best[0].shown} has rank {rank}."
    )
    height, drawn = _ranks_over_time(nights)
    confidence = CONFIDENCE if bands is None else EVERY_BAND
    return ReportFigure(
        identifier="over-time",
        title="Ranks over time",
        svg=drawing("curves", height, description, drawn),
        caption=(
            f"The ranks of {which} on the last {len(nights)} nights that say anything; the band of"
            f" each of the first {LEADING} shows the ranks that it can have, and the table those of"
            f" all. {confidence} Nights next to each other"
            " share most of their answers and part of their noise: what changed since the last one"
            " is tested above."
        ),
        table=_table_of_ranks(nights),
    )


def _table_of_ranks(releases: Sequence[Release]) -> tuple[tuple[str, ...], ...]:
    """Ranks that each drawn item can have, by release; the latest first, as people read it."""
    bands, _ = _bands_in_time(releases)
    heads = [f"{release.day}" for release in releases]
    best = releases[-1].ranking[:MOST_LINES]
    told = [
        [range_text(*band[line.item]) if line.item in band else "–" for band in reversed(bands)]
        for line in best
    ]
    rows = [(line.shown, *cells) for line, cells in zip(best, told, strict=True)]
    return ("Item", *reversed(heads)), *rows


def ranks_over_time(
    releases: Sequence[Release], suffix: str, breaks: Collection[str] = ()
) -> bytes:
    """A picture of its own: a line for each item, rank 1 on top, with 95 % intervals.

    Of a single release it is the chart of its scores, because one point makes no line.

    Args:
        releases: releases of one population, the earliest first.
        suffix: `.svg` or `.png`.
        breaks: ids of releases before which the job changed: a line stands there.
    """
    if len(releases) == 1:
        alone = chart_svg(chart_of(releases[0], Shape.WIDE))
        return alone.encode() if suffix == SVG else png_bytes(alone)
    height, drawn = _ranks_over_time(releases, breaks)
    heading = f"{short(releases[-1].heading)}: {len(releases)} releases"
    body = element("g", drawn, transform="translate(0 30)")
    whole = drawing("curves", height + 34, heading, text(heading, 0, 14, "title"), body)
    return picture_bytes(whole, WIDTH, suffix)


def _ranks_over_time(
    releases: Sequence[Release], breaks: Collection[str] = ()
) -> tuple[float, Markup]:
    """The height of the drawing, and what is in it."""
    places, last = _places_in_time(releases), releases[-1]
    bands, words = _bands_in_time(releases)
    best = last.ranking[:MOST_LINES]
    lines = [{line.item: line for line in release.ranking} for release in releases]
    drawn = []
    for place, line in enumerate(best):
        held = [
            (x, each[line.item]) for x, each in zip(places, lines, strict=True) if line.item in each
        ]
        area = [band[line.item] for band in bands if line.item in band]
        said = area if words == ALL_NIGHTS else [each.sure_ranks for _, each in held]
        curve = _curve(held, area, said)
        drawn.append(replace(curve, quiet=place >= LEADING))
    lowest = max(len(best), *(bands[-1][line.item][1] for line in best))
    height = max(36 * len(best), 120.0)
    marks = [at for at in round_marks(1, max(lowest, 2))[0] if at >= 1 and at == round(at)]
    up = Axis(lowest + 0.5, 0.5, tuple((at, f"{at:.0f}") for at in sorted({1.0, *marks})))
    between = [
        (before + place) / 2
        for (before, place), release in zip(pairwise(places), releases[1:], strict=True)
        if release.release_id in breaks
    ]
    body = curves(
        drawn,
        _axis_of_time(releases, places),
        up,
        height=height,
        width=WIDTH,
        words=words,
        marks=between,
        points=len(releases) <= MOST_POINTS,
        styles=True,
    )
    return height + 72, body


def _curve(
    held: Sequence[tuple[float, RankedItem]],
    area: list[tuple[int, int]],
    ranks: Sequence[tuple[int, int]],
) -> Curve:
    """Curve of one item's ranks.

    Args:
        held: its places in time, and its lines there.
        area: ends of the band, for each place.
        ranks: lowest and highest rank that the text of each point says.
    """
    points = [
        (x, line.rank, f"{line.shown}, {_day_of(x)}: rank {range_text(*ends)}")
        for (x, line), ends in zip(held, ranks, strict=True)
    ]
    return Curve(name=held[-1][1].shown, title=points[-1][2], points=points, area=area)


def _day_of(x: float) -> date:
    """The day of a place on the axis."""
    return EPOCH + timedelta(math.floor(x))


def _bands_of_all_nights(releases: Sequence[Release]) -> list[dict[str, tuple[int, int]]] | None:
    """Ranks that hold on all nights of a stream at once; None where other releases are shown."""
    if releases[-1].stream is None:
        return None
    from hushrank.flows.release.alarms import bands_of, same_stream

    found = [each for release in releases if (each := bands_of(release)) is not None]
    return found if same_stream(releases) and len(found) == len(releases) else None


def _bands_in_time(
    releases: Sequence[Release],
) -> tuple[list[dict[str, tuple[int, int]]], str]:
    """Ranks that each item can have, by release, and words on what they hold for."""
    if (bands := _bands_of_all_nights(releases)) is not None:
        return bands, ALL_NIGHTS
    return [
        {line.item: (line.rank_low, line.rank_high) for line in release.ranking}
        for release in releases
    ], INTERVALS


def _places_in_time(releases: Sequence[Release]) -> list[float]:
    """Places of releases on the axis of days; several of one day stand beside each other."""
    days = [release.day for release in releases]
    found, same = [], Counter(days)
    seen: Counter[date] = Counter()
    for day in days:
        found.append((day - EPOCH).days + seen[day] / same[day])
        seen[day] += 1
    return found


def _axis_of_time(releases: Sequence[Release], places: Sequence[float]) -> Axis:
    """The axis of days, which names the last one and some before it."""
    first, last = places[0], places[-1]
    margin = MARGIN * max(last - first, 1.0)
    days: list[int] = []
    for place in reversed(places):
        day = math.floor(place)
        if not days or days[0] - day >= (last - first) / MOST_DAYS > 0:
            days.insert(0, day)
    years = len({release.day.year for release in releases}) > 1
    dates = [EPOCH + timedelta(day) for day in days]
    texts = [f"{date.day} {date:{'%b %Y' if years else '%b'}}" for date in dates]
    return Axis(first - margin, last + margin, tuple(zip(map(float, days), texts, strict=True)))
