"""The terminal: what is printed shows as what it is, whatever is in it.

Names of files, columns and archived releases come from elsewhere. An escape code in one would be
obeyed (colours, a window's title, text that is wiped out), and a letter that the terminal has no
code for would end a run that is paid for.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress

import rich.console
from rich.console import ConsoleOptions, RenderableType
from rich.measure import Measurement
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from hushrank.transforms.common.plain_text import shown


class Console(rich.console.Console):
    """rich's, with every control character of a text written as its code."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Render as in rich, which alone may move the cursor and choose colours."""
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else shown(text, lines=True), style, control)

    def on_broken_pipe(self) -> None:
        """Say no more where nobody reads it; rich would end the program, and a run with it."""
        self.quiet = True
        nowhere = os.open(os.devnull, os.O_WRONLY)
        with suppress(OSError, ValueError):  # a stream without a descriptor
            os.dup2(nowhere, self.file.fileno())  # else what is left there fails at the end
        os.close(nowhere)


GAP = 2  # characters between two columns


def text_console(text: io.StringIO, width: int) -> Console:
    """A console that writes plain text, even in a notebook, where rich would display it."""
    return Console(file=text, width=width, force_terminal=False, force_jupyter=False)


def print_records(console: Console, headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table of one line a record, or one line a field where the table is too wide.

    Lines of a cell end between words. So a word is never split, and the id of a release can be
    copied whole from the narrowest terminal.
    """
    records = [[Text(" ".join(cell.split())) for cell in row] for row in rows]
    columns = zip(map(Text, headings), *records, strict=True)
    widths = _widths([[_measured(console, cell) for cell in cells] for cells in columns], console)
    if widths is None:
        for record in records:
            for heading, cell in zip(headings, record, strict=True):
                if cell.plain:
                    console.print(Text(f"{heading}: ", style="dim") + cell, soft_wrap=True)
            console.print()
        return
    table = Table(box=None, header_style="dim", pad_edge=False, padding=(0, GAP, 0, 0))
    for heading, width in zip(headings, widths, strict=True):
        table.add_column(heading, width=width)
    for record in records:
        table.add_row(*record)
    console.print(table)


def _measured(console: Console, cell: Text) -> Measurement:
    """Width of the longest word, and of the longest line."""
    return cell.__rich_measure__(console, console.options)


def _widths(columns: list[list[Measurement]], console: Console) -> list[int] | None:
    """Choose each column's width: at least its longest word; the rest goes to the longest lines.

    Returns:
        None: not even the longest words fit beside each other.
    """
    widths = [max(cell.minimum for cell in cells) for cells in columns]
    wanted = [max(cell.maximum for cell in cells) for cells in columns]
    spare = console.width - sum(widths) - GAP * (len(columns) - 1)
    if spare < 0:
        return None
    for column in sorted(range(len(widths)), key=lambda k: widths[k] - wanted[k]):
        more = min(wanted[column] - widths[column], spare)
        widths[column] += more
        spare -= more
    return widths


def print_everywhere() -> None:
    """Write a letter that the locale has no code for as its number, instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
