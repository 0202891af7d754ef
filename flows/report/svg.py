"""SVG for the page and for pictures of their own: elements, places, labels and colours.

Places along a drawing are in percent of its width, places down it are in pixels. So a drawing fits
a screen of any width, and its text keeps its size. The style sheet `figure.css` has the colours.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from enum import StrEnum
from functools import cache
from importlib.resources import files
from os.path import commonprefix
from pathlib import Path

from markupsafe import Markup, escape

from hushrank.flows.errors import ConfigError, require
from hushrank.transforms.common.plain_text import shown

WIDTH = 600  # least width in pixels of a drawing on a wide screen; a phone has half of it
GAP = 12  # pixels between a label and what it is of
CHARACTER = 12.5  # size of the text in pixels
NARROW = frozenset(" !'()*,.:;I[]fijlrt|")
WIDE = frozenset("@MW%mw—…")
ELLIPSIS = "…"
FONTS = "Arial, Helvetica, 'DejaVu Sans', 'Liberation Sans', 'Noto Sans', sans-serif"  # in files
SVG, PNG = ".svg", ".png"
PICTURES = (SVG, PNG)  # endings of files
ZOOM = 2  # pixels of a PNG for each pixel of the drawing
PROBE = '<svg xmlns="http://www.w3.org/2000/svg" width="30" height="30">{}</svg>'


class Shape(StrEnum):
    """Sides of a chart."""

    WIDE = "wide"  # 16:9, as slides are
    SQUARE = "square"


def element(tag: str, *inside: str, **attributes: str | float | None) -> Markup:
    """An element; text in it is escaped.

    Args:
        tag: name of the element.
        inside: elements and texts.
        attributes: a trailing underscore is left out of a name, others become hyphens; an
            attribute that is None is left out.
    """
    words = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{escape(_value(value))}"'
        for name, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{tag}{words}>{''.join(map(escape, inside))}</{tag}>")


def text(words: str, x: float | str, y: float, class_: str | None = None, **more: str) -> Markup:
    """A line of text, centred vertically at `y`; hidden characters become visible."""
    return element("text", shown(words), x=x, y=y, dy="0.35em", class_=class_, **more)


def mark(title: str, *inside: str, **attributes: str) -> Markup:
    """A mark with a text that a pointer shows and a screen reader says."""
    return element("g", element("title", shown(title)), *inside, role="img", **attributes)


def percent(value: float) -> str:
    """A place along the drawing."""
    return f"{round(value, 2):g}%"


def drawing(kind: str, height: float, description: str, *inside: str) -> Markup:
    """The whole drawing for the page.

    Args:
        kind: class of the drawing in the style sheet.
        height: height in pixels.
        description: text for readers who do not see it.
        inside: elements of the drawing.
    """
    return element(
        "svg",
        *inside,
        class_=f"figure {kind}" + " tall" * (height > 700),
        width="100%",
        height=round(height),
        role="group",
        aria_label=shown(description),
    )


def field(left: float, right: float, *inside: str, kind: str = "", y: float = 0) -> Markup:
    """The part of a drawing from `left` to `right`, in percent; places in it count from `left`."""
    place = {"x": percent(left), "width": percent(right - left), "class_": f"field {kind}".strip()}
    return element("svg", *inside, y=y or None, **place)


def width_of(words: str) -> float:
    """About how wide a text is in pixels; rather too wide than too narrow."""
    return CHARACTER * sum(map(_width, shown(words)))


def label(name: str, room: float) -> str:
    """An item's name in `room` pixels: without its middle if it is too long.

    Names that begin alike often differ at their ends, so both are kept.
    """
    name = shown(name)
    if width_of(name) <= room:
        return name
    room -= width_of(ELLIPSIS)
    head, tail = _fitting(name, 0.6 * room), _fitting(name[::-1], 0.4 * room)[::-1]
    return f"{head.rstrip()}{ELLIPSIS}{tail.lstrip()}"


def labels(names: Sequence[str], room: float) -> list[str]:
    """Names in `room` pixels that can be told apart.

    Names that are too long and begin alike lose their common beginning, back to a whole word, so
    that what differs can be read. Others lose their middle.
    """
    alike: dict[str, list[str]] = {}
    for name in map(shown, names):
        if width_of(name) > room:
            alike.setdefault(_fitting(name, 0.5 * room), []).append(name)
    cut: dict[str, str] = {}
    for group in alike.values():
        same = commonprefix(group) if len(set(group)) > 1 else ""
        start = same.rfind(" ") + 1 or len(same)
        cut |= {name: label(ELLIPSIS * (start > 0) + name[start:], room) for name in group}
    return [cut.get(name, name) for name in map(shown, names)]


def space_for(names: Sequence[str], most: float, width: float, more: float = 0) -> float:
    """Return how much of a drawing the longest of `names` takes, with a gap, in percent.

    Args:
        names: labels beside a drawing.
        most: pixels of the longest label.
        width: width of the drawing, in pixels.
        more: pixels of what stands before each label.
    """
    longest = max((width_of(name) for name in labels(names, most)), default=0)
    return round(100 * (more + longest + GAP) / width, 1)


def standalone(picture: str, width: int) -> str:
    """A drawing as a file of its own, in light colours on white."""
    height = re.search(r' height="(\d+)"', picture)
    if height is None:
        raise ValueError("a drawing has a height")
    light, rules = palette(), figure_style().split("\n.figure", 1)[1]
    rules = re.sub(r"var\(--(\w+)\)", lambda found: light[found[1]], f".figure{rules}")
    rules += f".figure {{ font-family: {FONTS}; }}"
    paper = f'<rect width="100%" height="100%" fill="{light["page"]}"/>'
    box = f'viewBox="0 0 {width} {height[1]}" width="{width}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {box}'
    whole = rf"{head}\1\2><style>{rules}</style>{paper}"
    return re.sub(r'^<svg([^>]*?) width="100%"([^>]*)>', whole, str(picture))


def palette(*, dark: bool = False) -> dict[str, str]:
    """The colours of figures, light or dark, by their names in the style sheet."""
    light, _, later = figure_style().split("\n.figure", 1)[0].partition("@media")
    return dict(re.findall(r"--([a-z0-9]+): (#\w+);", later if dark else light))


def picture_bytes(whole: str, width: int, suffix: str) -> bytes:
    """The file of a drawing; `check_picture` has seen its ending."""
    alone = standalone(whole, width)
    return png_bytes(alone) if suffix == PNG else alone.encode()


def figure_style() -> str:
    """The style sheet of figures; the page's own is added to it."""
    return files("hushrank.flows.report").joinpath("figure.css").read_text(encoding="utf-8")


def check_picture(path: Path, option: str = "--plot") -> None:
    """Refuse a picture that cannot be drawn here, before anything is computed.

    Raises:
        ConfigError: the path's ending is unknown; or it is a PNG, and the library or a font is
            missing.
    """
    if path.suffix not in PICTURES:
        raise ConfigError(f"{option} {path}: must end in {' or '.join(PICTURES)}")
    if path.suffix == SVG:
        return
    require("report", f"{option} {path}")
    letter, nothing = (PROBE.format(text(each, 2, 15, font_family=FONTS)) for each in ("W", ""))
    if png_bytes(letter) == png_bytes(nothing):
        raise ConfigError(
            f"{option} {path}: needs a font such as Arial or DejaVu Sans, and this machine has"
            f" none. Install one, or draw a file that ends in {SVG}"
        )


def png_bytes(picture: str) -> bytes:
    """A picture of its own as PNG, two pixels for each of its own."""
    from resvg_py import svg_to_bytes

    return svg_to_bytes(svg_string=picture, zoom=ZOOM)


def _value(value: str | float) -> str:
    return value if isinstance(value, str) else f"{round(value, 2):g}"


@cache
def _width(character: str) -> float:
    """Width of a character, in sizes of the text."""
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0.0
    if unicodedata.east_asian_width(character) in "WF":
        return 1.05
    if character in NARROW:
        return 0.38
    if character in WIDE:
        return 0.98
    return 0.74 if character.isupper() else 0.62


def _fitting(name: str, room: float) -> str:
    """Return as many first characters as fit into `room` pixels."""
    end = 0
    while room >= 0 and end < len(name):
        room -= CHARACTER * _width(name[end])
        end += room >= 0
    return name[:end]
