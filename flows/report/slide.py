"""The chart of a ranking for slides: one picture with name, dots, intervals and the guarantee.

A chart is a list of lines, dots and texts at fixed places, so SVG, PNG and PDF show the same. A
drawing of the page would not do: it adapts to the width of a screen, and it relies on the text
around it. What does not fit is left out, and the chart says so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from markupsafe import Markup

from hushrank.flows.release.boards import RankedItem
from hushrank.flows.release.release import Release
from hushrank.flows.release.scale import WORDS, Axis, axis_of, score_decimals, score_text
from hushrank.flows.release.wording import rank_interval
from hushrank.flows.report.svg import (
    CHARACTER,
    FONTS,
    Shape,
    element,
    label,
    labels,
    palette,
    width_of,
)
from hushrank.flows.statement.sentences import number
from hushrank.privacy.units import Unit
from hushrank.transforms.common.plain_text import shown

MARGIN = 56  # pixels around the chart
LEAST_ROW, MOST_ROW = 27, 80  # pixels of a row
LEAST_TEXT, MOST_TEXT = 17, 25  # pixels of the text in rows: 17 of 720 can be read on a wall
HEADING, NOTE, FOOT = 34, 19, 16  # pixels of the text of heading, legend and foot
MOST_HEADING = 3  # lines of the heading
BOLD = 1.15  # width of bold letters, in that of others
NAMES = 0.43  # largest part of the width for names
SPACE = 14  # pixels between columns
LINE = 1.35  # distance of two lines of text, in sizes of the text
MOST_PAGES = 40  # pages of a PDF

PROTECTED = {Unit.USER: "each person", Unit.COMPARISON: "each answer", "local": "each answer"}


SIZES = {Shape.WIDE: (1280, 720), Shape.SQUARE: (1080, 1080)}


@dataclass(frozen=True, slots=True)
class Stroke:
    """A straight line."""

    x1: float
    y1: float
    x2: float
    y2: float
    colour: str
    width: float


@dataclass(frozen=True, slots=True)
class Dot:
    """A filled circle."""

    x: float
    y: float
    radius: float
    colour: str


@dataclass(frozen=True, slots=True)
class Words:
    """A line of text, centred vertically at `y`; `anchor` says which part of it is at `x`."""

    text: str
    x: float
    y: float
    size: float
    colour: str
    anchor: str = "start"
    bold: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A chart that can be written as a file.

    Attributes:
        width, height: sides in pixels.
        paper: colour behind everything.
        title: heading of the ranking.
        description: the alternative text: what the chart shows, for people who do not see it.
        marks: what is drawn, in this order.
    """

    width: int
    height: int
    paper: str
    title: str
    description: str
    marks: list[Stroke | Dot | Words] = field(default_factory=list)


def of_answers(release: Release, words: str) -> str:
    """The words for answers; for rankings instead if people gave rankings."""
    if not release.released.ballots:
        return words
    words = words.replace("answered", "ranked")
    return words.replace("answer", "ranking").replace("Answer", "Ranking")


def protected_in_short(release: Release) -> str:
    """What the release protects, in two words."""
    return of_answers(release, PROTECTED[release.privacy.unit]) if release.safe else "nobody"


Say = Callable[[str], str]  # writes an English text in the language of the chart


def in_english(text: str) -> str:
    """Return the text as it is."""
    return text


def chart_of(
    release: Release, shape: Shape, *, dark: bool = False, first: int = 0, say: Say = in_english
) -> Chart:
    """The chart of the items from position `first` of the ranking on, as many as can be read."""
    drawing = _Drawing(release, shape, dark, say)
    lines = release.ranking[first : first + drawing.most_rows]
    return drawing.chart(first, axis_of(release.scale, lines))


def pages_of(
    release: Release, shape: Shape, *, dark: bool = False, say: Say = in_english
) -> list[Chart]:
    """Charts that show the ranking one after the other on one axis, at most 40."""
    drawing, n_items = _Drawing(release, shape, dark, say), len(release.ranking)
    starts = range(0, n_items if release.informative else 1, drawing.most_rows)[:MOST_PAGES]
    axis = axis_of(release.scale, release.ranking[: len(starts) * drawing.most_rows])
    return [drawing.chart(first, axis) for first in starts]


def lines_of(words: str, room: float, size: float, most: int) -> list[str]:
    """The text in at most so many lines of `room` pixels; what does not fit is cut."""
    limit, lines = room * CHARACTER / size, [""]
    for word in shown(words).split():
        longer = f"{lines[-1]} {word}".strip()
        if width_of(longer) <= limit or not lines[-1] or len(lines) == most:
            lines[-1] = longer
        else:
            lines.append(word)
    return [label(line, limit) for line in lines]


class _Drawing:
    """Places of one release's chart, the same on every page of it."""

    def __init__(self, release: Release, shape: Shape, dark: bool, say: Say) -> None:
        self._release, self._ink, self._say = release, palette(dark=dark), say
        self._size = SIZES[shape]
        room = self._size[0] - 2 * MARGIN
        self._heading = lines_of(release.heading, room / BOLD, HEADING, MOST_HEADING)
        notes = map(say, self._legend())
        self._notes = [line for text in notes for line in lines_of(text, room, NOTE, 2)]
        self._top = MARGIN + LINE * (HEADING * len(self._heading) + NOTE * len(self._notes)) + 20
        self._foot = [line for text in self._last_words() for line in lines_of(text, room, FOOT, 2)]
        # Below the rows are the marks of the axis, a line on which items are shown, and the foot.
        bottom = MARGIN * 0.6 + LINE * FOOT * (len(self._foot) + 1)
        self._bottom = self._size[1] - bottom - 2.2 * NOTE
        self.most_rows = max(1, math.floor((self._bottom - self._top) / LEAST_ROW))

    def chart(self, first: int, axis: Axis) -> Chart:
        """The chart of the items from position `first` on, along this axis."""
        lines = self._release.ranking[first : first + self.most_rows]
        chart = Chart(
            width=self._size[0],
            height=self._size[1],
            paper=self._ink["page"],
            title=shown(self._release.heading),
            description=shown(self._description(lines)),
        )
        chart.marks.extend(self._head())
        if self._release.informative:
            chart.marks.extend(self._rows(lines, first, axis))
        else:
            nothing = self._say("Nothing useful can be learned from this release.")
            chart.marks.append(Words(nothing, MARGIN, self._top + 40, 26, self._ink["ink"]))
        chart.marks.extend(self._feet(lines, first))
        return chart

    def _legend(self) -> list[str]:
        release = self._release
        if not release.informative:
            return []
        words = WORDS[release.scale]
        band = "the ranks" if release.is_order else "the 95 % interval"
        legend = [f"Dot: {words.plot or 'place'}. Bar: {band} of each item alone."]
        if release.is_order:
            legend = [f"Dot: {words.plot}. Bar and number: ranks that the item can have."]
        if release.released.assumes_exposures:
            legend.append("Bars hold if items were compared as often as the configuration expects.")
        return legend

    def _last_words(self) -> list[str]:
        release, day = self._release, self._release.day
        made = [f"{day.day} {day:%B %Y}", f"release {release.release_id}"]
        if not self._protects:
            made[0] = f"UNSAFE: a test, which protects nobody. {made[0]}"
        else:
            delta = f", delta {number(release.privacy.delta)}" if release.privacy.delta > 0 else ""
            epsilon = f"epsilon {number(release.privacy.epsilon)}{delta}"
            made.insert(0, f"Protects {protected_in_short(release)} with {epsilon}")
        return [" · ".join((*map(self._say, made), "hushrank"))]

    @property
    def _protects(self) -> bool:
        return self._release.safe and self._release.privacy.mechanism != "none"

    def _description(self, lines: Sequence[RankedItem]) -> str:
        release = self._release
        if not release.informative:
            return self._say("No chart: nothing useful can be learned from this release.")
        words, said = WORDS[release.scale], []
        for line, text in zip(lines, self._numbers(lines), strict=True):
            ranks = f", {self._say(f'ranks {text}')}" if release.is_order else f" {text}"
            said.append(f"{line.shown}{ranks}")
        which = f"{len(lines)} of {len(release.ranking):,} items" * (
            len(lines) < len(release.ranking)
        )
        head = (
            f"Chart of {which or f'{len(lines)} items'}, {words.first} on top, by"
            f" {words.plot or 'place'}, with 95 % intervals:"
        )
        return f"{self._say(head)} {'; '.join(said)}."

    def _numbers(self, lines: Sequence[RankedItem]) -> list[str]:
        """Score of each item, or its ranks where scores are none."""
        release = self._release
        decimals = score_decimals(release.scale, release.ranking)
        unit = WORDS[release.scale].unit
        return [
            self._say(
                rank_interval(line)
                if release.is_order
                else f"{score_text(release.scale, line.score, decimals)}{unit}"
            )
            for line in lines
        ]

    def _head(self) -> Iterator[Words]:
        y = MARGIN + HEADING / 2
        for line in self._heading:
            yield Words(line, MARGIN, y, HEADING, self._ink["ink"], bold=True)
            y += LINE * HEADING
        for line in self._notes:
            yield Words(line, MARGIN, y - 4, NOTE, self._ink["muted"])
            y += LINE * NOTE

    def _feet(self, lines: Sequence[RankedItem], first: int) -> Iterator[Words]:
        release, n_items = self._release, len(self._release.ranking)
        texts = [*self._foot]
        if release.informative and len(lines) < n_items:
            which = f"Items {first + 1:,} to {first + len(lines):,} of {n_items:,}"
            if first == 0:
                which = f"The {WORDS[release.scale].first} {len(lines)} of {n_items:,} items"
            texts.insert(0, self._say(f"{which}. The file ranking.csv has all."))
        y = self._size[1] - MARGIN * 0.6 - LINE * FOOT * (len(texts) - 0.5)
        for text in texts:
            warns = text in self._foot and not self._protects
            yield Words(text, MARGIN, y, FOOT, self._ink["danger" if warns else "muted"])
            y += LINE * FOOT

    def _rows(
        self, lines: Sequence[RankedItem], first: int, axis: Axis
    ) -> Iterator[Stroke | Dot | Words]:
        release, ink = self._release, self._ink
        pitch = min(MOST_ROW, (self._bottom - self._top) / len(lines))
        size = min(MOST_TEXT, max(LEAST_TEXT, 0.5 * pitch))
        zoom = size / CHARACTER
        numbers = self._numbers(lines)
        places = [f"{place}" for place in release.places()[first : first + len(lines)]]
        at = MARGIN + zoom * max(map(width_of, places)) + SPACE
        names = labels([line.shown for line in lines], NAMES * self._size[0] / zoom)
        left = at + zoom * max(map(width_of, names)) + 2 * SPACE
        right = self._size[0] - MARGIN - zoom * max(map(width_of, numbers)) - 2 * SPACE
        bottom = self._top + pitch * len(lines)
        yield from self._ticks(axis, left, right, bottom)
        for row, line in enumerate(lines):
            y = self._top + pitch * (row + 0.5)
            yield Words(places[row], at - SPACE, y, size, ink["muted"], "end")
            yield Words(names[row], at, y, size, ink["ink"])
            yield from _interval(line, axis, (left, right), y, pitch, ink)
            yield Words(numbers[row], self._size[0] - MARGIN, y, size, ink["ink"], "end")

    def _ticks(
        self, axis: Axis, left: float, right: float, bottom: float
    ) -> Iterator[Stroke | Words]:
        for value, text in axis.ticks:
            x = left + (right - left) * axis.percent(value) / 100
            yield Stroke(x, self._top, x, bottom, self._ink["line"], 1.5)
            yield Words(self._say(text), x, bottom + NOTE, NOTE, self._ink["muted"], "middle")


def _interval(
    line: RankedItem,
    axis: Axis,
    ends: tuple[float, float],
    y: float,
    pitch: float,
    ink: dict[str, str],
) -> Iterator[Stroke | Dot | Words]:
    """Bar and dot of an item; a bar that leaves the axis ends in an arrow."""
    left, right = ends

    def along(value: float) -> float:
        return left + (right - left) * axis.percent(value) / 100

    thick = min(14.0, 0.34 * pitch)
    yield Stroke(along(line.low), y, along(line.high), y, ink["soft"], thick)
    if line.low < axis.low:
        yield Words("‹", left - 3, y - 2, 26, ink["accent"], "end")
    if line.high > axis.high:
        yield Words("›", right + 3, y - 2, 26, ink["accent"])
    yield Dot(along(line.score), y, min(9.0, 0.24 * pitch), ink["accent"])


def chart_svg(chart: Chart) -> str:
    """The chart as a file: it asks for nothing, and programs for slides can open it."""
    drawn = [element("rect", width=chart.width, height=chart.height, fill=chart.paper)]
    drawn += [_element(mark) for mark in chart.marks]
    root = {"viewBox": f"0 0 {chart.width} {chart.height}", "font_family": FONTS, "role": "img"}
    return str(
        element(
            "svg",
            element("title", chart.title),
            element("desc", chart.description),
            *drawn,
            xmlns="http://www.w3.org/2000/svg",
            width=chart.width,
            height=chart.height,
            **root,
        )
    )


def _element(mark: Stroke | Dot | Words) -> Markup:
    match mark:
        case Stroke(x1, y1, x2, y2, colour, width):
            ends = {"x1": x1, "y1": y1, "x2": x2, "y2": y2}
            return element("line", **ends, stroke=colour, stroke_width=width)
        case Dot(x, y, radius, colour):
            return element("circle", cx=x, cy=y, r=radius, fill=colour)
        case Words(text, x, y, size, colour, anchor, bold):
            return element(
                "text",
                text,
                x=x,
                y=y + 0.35 * size,
                font_size=size,
                fill=colour,
                text_anchor=None if anchor == "start" else anchor,
                font_weight="700" if bold else None,
            )
