"""How plots fit into a page: its colours, its font, no outside references, words for readers."""

from __future__ import annotations

import html
import io
import re
import warnings
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
from matplotlib.figure import Figure

from hushrank.flows.release.release import Release
from hushrank.transforms.common.plain_text import shown

if TYPE_CHECKING:
    from matplotlib.typing import RcKeyType

LABEL_LENGTH = 26
WIDTH = 5.8  # inches; the page scales it between a phone and 1.15 times this
# Colours that stand for variables of the style sheet, so that a plot follows light and dark.
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
    """An item's name as a label, in which every character is to be seen."""
    name = shown(name)
    return name if len(name) <= length else f"{name[:length]}…"


@contextmanager
def page_style(release: Release) -> Iterator[None]:
    """Draw and save figures of `release` inside this; the same release gives the same bytes."""
    with mpl.rc_context(STYLE | {"svg.hashsalt": release.release_id}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # the page's own fonts are used
        yield


def page_svg(figure: Figure, description: str) -> str:
    """The figure as an `svg` element with `description` for those who do not see it."""
    text = io.StringIO()
    without = {"Creator": None, "Date": None, "Format": None, "Type": None}
    figure.savefig(text, format="svg", transparent=True, metadata=without)
    return _for_page(text.getvalue(), description)


def _for_page(svg: str, description: str) -> str:
    """The `svg` element alone, in the page's colours and font, with `description` for readers."""
    box = re.search(r'viewBox="([^"]*)"', svg)
    body = re.search(r"<svg\b[^>]*>(.*)</svg>", svg, re.DOTALL)
    if box is None or body is None:
        raise ValueError("matplotlib wrote something other than one svg element")
    inner = re.sub(r"<style\b.*?</style>", "", body[1], flags=re.DOTALL)
    inner = re.sub(r"(?<=(?:fill|roke): )#0\d0\d0\d", lambda found: VARIABLES[found[0]], inner)
    inner = _with_own_names(inner, f"p{zlib.crc32(description.encode()):x}-")
    label = html.escape(description)
    return f'<svg viewBox="{box[1]}" role="img" aria-label="{label}">{inner}</svg>'


def _with_own_names(inner: str, prefix: str) -> str:
    """Identifiers and references to them with `prefix`: two plots in one page share no names."""
    return re.sub(r'((?<= id=")|(?<=href="#)|(?<=url\(#))', prefix, inner)
