"""The terminal: what is printed shows as what it is, whatever is in it.

Names of files, columns and archived releases come from elsewhere. An escape code in one would be
obeyed (colours, a window's title, text that is wiped out), and a letter that the terminal has no
code for would end a run that is paid for.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable

import rich.console
from rich.console import ConsoleOptions, RenderableType
from rich.segment import Segment

from hushrank.transforms.common.plain_text import shown


class Console(rich.console.Console):
    """rich's, with every control character of a text written as its code."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """As in rich, which alone may move the cursor and choose colours."""
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else shown(text, lines=True), style, control)


def print_everywhere() -> None:
    """Write a letter that the locale has no code for as its number, instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
