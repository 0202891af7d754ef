"""How plots fit into the page: colours, font, no outside references, texts for readers."""

from __future__ import annotations

import html
import io
import re
import warnings
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hushrank.flows.release.release import Release
from hushrank.transforms.common.plain_text import shown

if TYPE_CHECKING:
    from matplotlib.typing import RcKeyType

LABEL_LENGTH = 26
WIDTH = 5.8  # inches; the page scales it between a phone and 1.15 times this
# Each colour stands for a variable of the style sheet, so that plots follow light and dark mode.
INK, MUTED, LINE, ACCENT, SOFT = "#010101", "#020202", "#030303", "#040404", "#050505"
PAGE = "#060606"
VARIABLES = {
    INK: "var(--ink)",
    MUTED: "var(--muted)",
    LINE: "var(--line)",
    ACCENT: "var(--accent)",
    SOFT: "var(--soft)",
    PAGE: "var(--page)",
}
STYLE: dict[RcKeyType, Any] = {
    "svg.fonttype": "none",  # text stays text: smaller, searchable, in the page's font
    "font.size": 10.5,
    "text.color": INK,
    "axes.labelcolor": MUTED,
    "xtick.color": MUTED,
    "ytick.color": INK,
    "axes.edgecolor": LINE,
    "grid.color": LINE,
}


def short_name(name: str, length: int = LABEL_LENGTH) -> str:
    """An item's name as a label in which every character is visible."""
    name = shown(name)
    return name if len(name) <= length else f"{name[:length]}…"


@contextmanager
def page_style(release: Release) -> Iterator[None]:
    """Draw and save figures of `release` in this block; the same release gives the same bytes."""
    with mpl.rc_context(STYLE | {"svg.hashsalt": release.release_id}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # the page's own fonts are used
        yield


@dataclass(frozen=True, slots=True, kw_only=True)
class Spot:
    """A place in a plot, in units of its axes, and the text for readers who point at it."""

    x: tuple[float, float]
    y: tuple[float, float]
    text: str


def page_svg(figure: Figure, axes: Axes, description: str, spots: Sequence[Spot] = ()) -> str:
    """The figure as an `svg` element.

    Args:
        figure: the finished drawing.
        axes: the axes of `spots`, in `figure`.
        description: text for readers who do not see the figure.
        spots: places that show their numbers when a reader points at them.
    """
    text = io.StringIO()
    without = {"Creator": None, "Date": None, "Format": None, "Type": None}
    figure.savefig(text, format="svg", transparent=True, metadata=without)
    return _for_page(text.getvalue(), description, _titled(figure, axes, spots))


def _titled(figure: Figure, axes: Axes, spots: Sequence[Spot]) -> str:
    """Invisible rectangles with titles, in points from the upper left corner."""
    points, height = 72 / figure.dpi, 72 * figure.get_size_inches()[1]
    parts = []
    for spot in spots:
        corners = axes.transData.transform([*zip(spot.x, spot.y, strict=True)]) * points
        (left, right), (low, high) = (sorted(each) for each in corners.T.tolist())
        place = f'x="{left:.1f}" y="{height - high:.1f}"'
        size = f'width="{right - left:.1f}" height="{high - low:.1f}"'
        title = html.escape(shown(spot.text))
        parts.append(f"<rect {place} {size}><title>{title}</title></rect>")
    return f'<g fill="none" pointer-events="all">{"".join(parts)}</g>' if parts else ""


def _for_page(svg: str, description: str, titled: str) -> str:
    """The bare `svg` element in the page's colours and font, with `description` for readers."""
    box = re.search(r'viewBox="([^"]*)"', svg)
    body = re.search(r"<svg\b[^>]*>(.*)</svg>", svg, re.DOTALL)
    if box is None or body is None:
        raise ValueError("matplotlib wrote something other than one svg element")
    inner = re.sub(r"<style\b.*?</style>", "", body[1], flags=re.DOTALL)
    inner = re.sub(r"(?<=(?:fill|roke): )#0\d0\d0\d", lambda found: VARIABLES[found[0]], inner)
    inner = _with_own_names(inner, f"p{zlib.crc32(description.encode()):x}-")
    label = html.escape(description)
    return f'<svg viewBox="{box[1]}" role="img" aria-label="{label}">{inner}{titled}</svg>'


def without_styles(svg: str, rules: dict[str, str]) -> str:
    """The `svg` with a class instead of every `style` attribute, which the policy forbids.

    Args:
        svg: an element from `page_svg`.
        rules: receives the declarations of each class; a class name follows from its declarations.
    """

    def named(found: re.Match[str]) -> str:
        declared = html.unescape(found[1])
        name = f"s{zlib.crc32(declared.encode()):08x}"
        rules[name] = declared
        return f' class="{name}"'

    # Only inside tags: a text of the plot may hold any name of an item.
    return re.sub(r"<[a-z][^<>]*>", lambda tag: re.sub(r' style="([^"]*)"', named, tag[0]), svg)


def _with_own_names(inner: str, prefix: str) -> str:
    """Identifiers and references with `prefix`, so that two plots of a page share no identifier."""
    return re.sub(r'((?<= id=")|(?<=href="#)|(?<=url\(#))', prefix, inner)
