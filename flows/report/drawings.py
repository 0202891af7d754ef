"""The kinds of drawings of a report: intervals in rows, a matrix, bars, and curves.

They draw the numbers that they get and know nothing of releases. Each mark has a text with its
numbers, which a pointer shows and a screen reader says.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from markupsafe import Markup

from hushrank.flows.release.scale import Axis
from hushrank.flows.report.svg import (
    WIDTH,
    drawing,
    element,
    field,
    labels,
    mark,
    percent,
    space_for,
    text,
    width_of,
)
from hushrank.transforms.common.plain_text import shown

LABEL = 230  # most pixels of an item's name beside rows
PHONE_LABEL = 112  # the same on a phone
PHONE, PHONE_ROW = 320, 290  # pixels of a phone's screen, and of a name above its row on it
PHONE_START, PHONE_END = 2, 90  # percent left of a field; pixels of a name at a curve's end
END = 98  # right end of a drawing's field, in percent
ROW, TOP, FOOT = 30, 44, 26  # heights in pixels of a row, and of the marks above and below rows
LEAST_DENSE, DENSE_ROW = 380, 2.6  # least height of rows without names, and of one of them
NUMBERED = 20  # every 20th of the rows without names has its number
LONG = 500  # pixels: longer rows have marks of the axis below them too
CELL, SMALL_CELL = 30, 22  # heights of cells with and without numbers
MOST_WITH_NUMBERS = 10  # most items of a matrix with a number in each cell
STRONG = 0.55  # a cell with a stronger colour has its number in the page's colour
NAME_GAP = 16  # least distance of names at the ends of curves
COLOURS = 10
STYLES = 5  # dashes of lines, in figure.css
WHISKER_GAP = 5  # pixels between intervals that stand beside each other
LEAST_ROOM = 34  # pixels for each point of a curve, so that they can


@dataclass(frozen=True, slots=True, kw_only=True)
class IntervalRow:
    """An item on an axis.

    Attributes:
        name: name of the item.
        title: numbers of the item in words.
        at: place of its dot.
        band: ends of its wide interval; None: it has none.
        thin: ends of a thin interval on top of it; None: it has none.
    """

    name: str
    title: str
    at: float
    band: tuple[float, float] | None
    thin: tuple[float, float] | None = None


def intervals(
    rows: Sequence[IntervalRow],
    axis: Axis,
    *,
    words: str,
    description: str,
    numbers: Sequence[int] | None = None,
    cut: int | None = None,
    stripes: Sequence[tuple[int, int]] = (),
    zero: float | None = None,
) -> Markup:
    """Dots with their intervals, a row for each item; an interval beyond the axis has an arrow.

    Args:
        rows: rows from top to bottom.
        axis: along the drawing.
        words: label of the axis.
        description: text for readers who do not see the drawing.
        numbers: numbers of the rows, if they are too many for names.
        cut: number of rows above a dotted line; None: there is no such line.
        stripes: first and last row of sets that are shaded.
        zero: a place of the axis with a stronger line.
    """
    named = numbers is None
    pitch = ROW if named else max(DENSE_ROW, LEAST_DENSE / len(rows))
    height = pitch * len(rows)
    names = [row.name for row in rows] if numbers is None else [f"{max(numbers):,}"]
    left = space_for(names, LABEL, WIDTH)
    wide, phone = (labels(names, room) for room in (LABEL, PHONE_ROW))

    def along(*inside: str, down: float = 0) -> Markup:
        """The field of the axis; on a phone names stand above their rows, so it is wider."""
        beside = field(left, END, *inside, kind="wide" if named else "")
        return beside + field(PHONE_START, END, *inside, kind="phone", y=down) if named else beside

    def row_at(place: int) -> Markup:
        row, y = rows[place], pitch / 2
        inside = [element("line", x2="100%", y1=y, y2=y, class_="row")] if named else []
        inside += _interval(row, axis, y, 5 if named else 1.6)
        name = _name(wide[place], phone[place], y, raised=6) if named else Markup()
        hit = element("rect", width="100%", height=pitch, class_="hit")
        move = f"translate(0 {round(pitch * place, 2):g})"
        return mark(row.title, hit, name, along(*inside, down=5), transform=move)

    drawn = [*map(row_at, range(len(rows)))]
    drawn += [*_gap(cut, pitch), *_numbers(numbers or (), pitch)]
    behind = along(*_verticals(axis, height, zero))
    twice = height > LONG
    ends = (TOP - 14, *([TOP + height + 14] if twice else []))
    ticks = [tick for y in ends for tick in _ticks(axis, y)]
    back = element("g", *_stripes(stripes, pitch), behind, aria_hidden="true")
    body = element("g", back, *drawn, transform=f"translate(0 {TOP})")
    return drawing(
        "rows" if named else "thin-rows",
        TOP + height + (FOOT if twice else 4),
        description,
        element("g", along(text(words, 0, 9, "quiet"), *ticks), aria_hidden="true"),
        body,
    )


def _gap(cut: int | None, pitch: float) -> list[Markup]:
    """A dotted line below the row with this number."""
    at = pitch * (cut or 0)
    return [element("line", x2="100%", y1=at, y2=at, class_="gap")] if cut is not None else []


def _numbers(numbers: Sequence[int], pitch: float) -> list[Markup]:
    """Numbers of some of the rows, which have no names."""
    return [
        text(f"{number:,}", 0, pitch * (place + 0.5), "quiet", aria_hidden="true")
        for place, number in enumerate(numbers)
        if place == 0 or (place + 1) % NUMBERED == 0
    ]


def _stripes(stripes: Sequence[tuple[int, int]], pitch: float) -> list[Markup]:
    """Shades behind sets of rows, from the first row of each to its last."""
    return [
        element(
            "rect",
            y=pitch * first + 2,
            width="100%",
            height=pitch * (last - first + 1) - 4,
            class_="stripe",
        )
        for first, last in stripes
    ]


def _verticals(axis: Axis, height: float, zero: float | None) -> list[Markup]:
    """Lines at the marks of the axis, and a stronger one at `zero`."""
    lines = [_vertical(axis, at, height) for at, _ in axis.ticks]
    if zero is not None and axis.low < zero < axis.high:
        lines.append(_vertical(axis, zero, height, "zero"))
    return lines


def _interval(row: IntervalRow, axis: Axis, y: float, size: float) -> list[Markup]:
    """Dot, intervals, and arrows where an interval leaves the axis."""
    drawn, parts = [], [(row.band, "band"), (row.thin, "thin")]
    for ends, kind in parts:
        if ends is not None:
            x1, x2 = (percent(axis.percent(end)) for end in ends)
            drawn.append(element("line", x1=x1, x2=x2, y1=y, y2=y, class_=kind))
    reached = [end for part, _ in parts for end in part or ()]
    if min(reached, default=axis.low) < axis.low:
        drawn.append(text("‹", -2, y, "arrow end"))
    if max(reached, default=axis.high) > axis.high:
        drawn.append(text("›", "100%", y, "arrow", dx="2"))
    at = percent(axis.percent(row.at))
    return [*drawn, element("circle", cx=at, cy=y, r=size, class_="dot")]


def _name(there: str, here: str, y: float, x: float = 0, raised: float = 0) -> Markup:
    """An item's label on a wide screen, and that on a phone, which may be higher."""
    if (there, raised) == (here, 0):
        return text(there, x, y, aria_hidden="true")
    on_wide = text(there, x, y, "wide", aria_hidden="true")
    return on_wide + text(here, x, y - raised, "phone", aria_hidden="true")


def _vertical(axis: Axis, at: float, height: float, kind: str = "tick") -> Markup:
    x = percent(axis.percent(at))
    return element("line", x1=x, x2=x, y2=height, class_=kind)


def _ticks(axis: Axis, y: float, part: float = 0.96) -> list[Markup]:
    """Texts of an axis over this part of a drawing; on a phone only every other, if need be."""
    room = sum(width_of(words) + 8 for _, words in axis.ticks)
    kinds = ("quiet mid", "quiet mid wide" if room > part * PHONE else "quiet mid")
    return [
        text(words, percent(axis.percent(at)), y, kinds[place % 2])
        for place, (at, words) in enumerate(axis.ticks)
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A cell of a matrix.

    Attributes:
        strength: strength of its colour, 0 to 1.
        number: text in it, if the matrix is small.
        title: number of the cell in words.
    """

    strength: float
    number: str
    title: str


def matrix(
    names: Sequence[str], cells: Sequence[Sequence[Cell | None]], description: str
) -> Markup:
    """A square of cells, rows and columns in one order; None leaves a cell out."""
    n = len(names)
    small = n <= MOST_WITH_NUMBERS
    size, step = CELL if small else SMALL_CELL, 100 / n
    number = width_of(f"{n}. ")
    left = max(
        space_for(names, room - number, screen, number)
        for room, screen in ((LABEL, WIDTH), (PHONE_LABEL, PHONE))
    )
    fits = n * max((width_of(cell.number) for row in cells for cell in row if cell), default=0)
    number_kind = "" if fits < 180 else " wide"
    heads = [
        text(f"{place + 1}", percent(step * (place + 0.5)), TOP / 2, "quiet mid")
        for place in range(n)
    ]
    cut = [
        [f"{place}. {name}" for place, name in enumerate(labels(names, room - number), start=1)]
        for room in (LABEL, PHONE_LABEL)
    ]
    both = enumerate(zip(*cut, strict=True))
    sides = [_name(wide, phone, size * (place + 0.5)) for place, (wide, phone) in both]
    drawn = _squares(cells, size, step, number_kind if small else None)
    body = element(
        "g",
        *sides,
        field(left, END, *drawn),
        transform=f"translate(0 {TOP - 8})",
    )
    head = element("g", field(left, END, *heads), aria_hidden="true")
    return drawing("pairs", TOP - 8 + size * n, description, head, body)


def _squares(
    cells: Sequence[Sequence[Cell | None]], size: float, step: float, numbers: str | None
) -> list[Markup]:
    """The squares of a matrix, with numbers of the class `numbers`; None: without numbers."""
    drawn = [element("rect", width="100%", height=size * len(cells), class_="cells")]
    for row, line in enumerate(cells):
        for column, cell in enumerate(line):
            x, y = step * column, size * row
            kind = "empty" if cell is None else "cell"
            square = element(
                "rect",
                x=percent(x),
                y=y,
                width=percent(step),
                height=size,
                class_=kind,
                fill_opacity=None if cell is None else f"{cell.strength:.3g}",
            )
            if cell is None:
                drawn.append(square)
                continue
            inside = [square]
            if numbers is not None:
                ink = " strong" if cell.strength > STRONG else ""
                at = percent(x + step / 2)
                inside.append(text(cell.number, at, y + size / 2, f"mid{ink}{numbers}"))
            drawn.append(mark(cell.title, *inside))
    return drawn


def bars(
    groups: Sequence[tuple[str, Sequence[float]]],
    kinds: Sequence[tuple[str, str]],
    across: Axis,
    up: Axis,
    words: str,
    description: str,
) -> Markup:
    """Bars in groups of one width, side by side.

    Args:
        groups: numbers in words, and heights, of each group.
        kinds: class and legend of the first, second, ... bar of every group.
        across: axis along the drawing; its ends are those of the groups.
        up: axis of the heights.
        words: label of the axis along the drawing.
        description: text for readers who do not see the drawing.
    """
    height, step = 190.0, 100 / len(groups)
    down = [(height * (1 - up.percent(at) / 100), words) for at, words in up.ticks]
    grid = [element("line", x2="100%", y1=y, y2=y, class_="tick") for y, _ in down]
    drawn = []
    for place, (title, values) in enumerate(groups):
        hit = element(
            "rect", x=percent(step * place), width=percent(step), height=height, class_="hit"
        )
        inside = []
        for number, (value, (kind, _)) in enumerate(zip(values, kinds, strict=True)):
            size = height * up.percent(value) / 100
            x = step * (place + 0.08 + 0.84 * number / len(kinds))
            width = percent(step * 0.84 / len(kinds) - 0.3)
            inside.append(
                element(
                    "rect", x=percent(x), y=height - size, width=width, height=size, class_=kind
                )
            )
        drawn.append(mark(title, hit, *inside))
    legend, x = [], 0.0
    for kind, meaning in kinds:
        legend.append(element("rect", x=x, y=4, width=11, height=11, class_=kind))
        legend.append(text(meaning, x + 17, 9, "quiet"))
        x += 17 + width_of(meaning) + 12
    left = 9
    body = [
        *grid,
        *drawn,
        *_ticks(across, height + 14),
        text(words, "100%", height + 34, "quiet end"),
    ]
    side = [text(tick, 0, y, "quiet") for y, tick in down]
    return drawing(
        "bars",
        height + TOP + 44,
        description,
        element("g", *legend, aria_hidden="true"),
        element("g", *side, field(left, END, *body), transform=f"translate(0 {TOP - 8})"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """A line through points.

    Attributes:
        name: name at its end.
        title: meaning of the curve, in words.
        points: places of its points and their numbers in words.
        area: lower and upper end at each point; empty: there is no area.
        dashed: whether the line is dashed.
        quiet: whether it stays behind the others: grey, thin, and its area only under the pointer.
    """

    name: str
    title: str
    points: Sequence[tuple[float, float, str]]
    area: Sequence[tuple[float, float]] = ()
    dashed: bool = False
    quiet: bool = False


def curves(
    drawn: Sequence[Curve],
    across: Axis,
    up: Axis,
    *,
    height: float,
    width: float,
    words: str,
    below: str = "",
    marks: Sequence[float] = (),
    points: bool = True,
    styles: bool = False,
) -> Markup:
    """Curves of several colours with their names at their ends, as parts of a drawing.

    Args:
        drawn: the curves.
        across, up: axes; that of heights may run from a larger number at the bottom to a smaller.
        height: height of the plot in pixels, without what is above and below it.
        width: width of the whole in pixels, if it is a file of its own.
        words: label of the axis of heights, above it.
        below: label of the other axis.
        marks: places with a dotted line across.
        points: whether each point has a mark with its numbers.
        styles: whether lines differ in their dashes too, for who sees no colours.
    """
    left = 100 * (14 + max(width_of(tick) for _, tick in up.ticks)) / width
    ends = [curve.points[-1] for curve in drawn]
    names = [curve.name for curve in drawn]
    right = END - max(space_for(names, LABEL, width), space_for(names, PHONE_END, PHONE))
    wide, phone = (labels(names, room) for room in (LABEL, PHONE_END))
    x_of, nominal = across.percent, (right - left) / 100 * width

    def y_of(value: float) -> float:
        return height * (1 - up.percent(value) / 100)

    back = [_vertical(across, at, height, "gap") for at in marks]
    scale = [field(left, right, *back, *_ticks(across, height + 14, (right - left) / 100))]
    for at, tick in up.ticks:
        y = y_of(at)
        line = element("line", x2="100%", y1=y, y2=y, class_="tick")
        scale += [field(left, right, line), text(tick, 0, y, "quiet")]
    scale.append(text(words, 0, -26, "quiet"))
    scale.append(field(left, right, text(below, "100%", height + 34, "quiet end")))
    heights = _apart([y_of(y) for _, y, _ in ends], height)
    room = nominal / max(max(len(curve.points) for curve in drawn), 1)
    plot = _Plot(x_of, y_of, nominal, height, beside=styles and room >= LEAST_ROOM)
    series = []
    for place, (curve, name_y) in enumerate(zip(drawn, heights, strict=True)):
        inside = plot.curve(curve, place, points=points and not curve.dashed)
        name = field(right, 100, _name(wide[place], phone[place], name_y, x=10))
        title, line = element("title", shown(curve.title)), field(left, right, *inside)
        style = f" s{place % STYLES}" if styles else ""
        kind = "series rest" if curve.quiet else f"series c{place % COLOURS}{style}"
        series.append(element("g", title, line, name, role="group", class_=kind))
    return element(
        "g", element("g", *scale, aria_hidden="true"), *series, transform="translate(0 44)"
    )


@dataclass(frozen=True, slots=True)
class _Plot:
    """Place in which curves are drawn.

    Attributes:
        x_of: percent of the width at a number across.
        y_of: pixels from the top at a number up.
        width, height: size in pixels for which lines are drawn.
        beside: whether intervals are lines beside each other, not areas on top of each other.
    """

    x_of: Callable[[float], float]
    y_of: Callable[[float], float]
    width: float
    height: float
    beside: bool

    def curve(self, curve: Curve, place: int, *, points: bool) -> list[Markup]:
        """The line of a curve, its intervals, and its points."""
        xy = [(self.x_of(x) / 100 * self.width, self.y_of(y)) for x, y, _ in curve.points]
        area = [(self.y_of(low), self.y_of(high)) for low, high in curve.area]
        around = () if self.beside else area
        drawn = [_stretched(xy, around, self.width, self.height, dashed=curve.dashed)]
        aside = {}
        if self.beside and not curve.quiet:
            aside = {"transform": f"translate({WHISKER_GAP * (place - STYLES // 2)} 0)"}
            for (x, *_), (y1, y2) in zip(curve.points, area, strict=True):
                x1 = percent(self.x_of(x))
                line = element("line", x1=x1, x2=x1, y1=y1, y2=y2, class_="whisker", **aside)
                drawn.append(line)
        for x, y, said in curve.points if points else ():
            cx, cy = percent(self.x_of(x)), self.y_of(y)
            circle = element("circle", cx=cx, cy=cy, r=4.5, class_="point", **aside)
            drawn.append(mark(said, circle))
        return drawn


def _stretched(
    xy: Sequence[tuple[float, float]],
    area: Sequence[tuple[float, float]],
    width: float,
    height: float,
    *,
    dashed: bool,
) -> Markup:
    """A line and its area, drawn for this width and stretched to that of the screen."""
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in xy)
    lines = [element("polyline", points=path, class_="curve dashed" if dashed else "curve")]
    if area:
        there = [(x, *ends) for (x, _), ends in zip(xy, area, strict=True)]
        edges = [f"{x:.1f},{low:.1f}" for x, low, _ in there]
        edges += [f"{x:.1f},{high:.1f}" for x, _, high in reversed(there)]
        lines.insert(0, element("polygon", points=" ".join(edges), class_="area"))
    box = f"0 0 {width:.0f} {height:.0f}"
    return element(
        "svg", *lines, viewBox=box, width="100%", height=height, preserveAspectRatio="none"
    )


def _apart(places: Sequence[float], height: float) -> list[float]:
    """Places for names as near to `places` as they can be without touching each other."""
    order = sorted(range(len(places)), key=lambda i: places[i])
    moved = list(places)
    for above, below in pairwise(order):
        moved[below] = max(moved[below], moved[above] + NAME_GAP)
    limit = max(height, NAME_GAP * (len(places) - 1))
    for place in reversed(order):
        moved[place] = min(moved[place], limit)
        limit = moved[place] - NAME_GAP
    return moved
