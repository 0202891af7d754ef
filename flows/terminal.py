"""The terminal: what is printed shows as what it is, whatever is in it.

Names of files, columns and archived releases come from elsewhere. An escape code in one would be
obeyed (colours, a window's title, text that is wiped out), and a letter that the terminal has no
code for would end a run that is paid for.

Signals that wait until what was begun is finished, or tidied up.

Ctrl-C, the SIGTERM of a supervisor and the SIGHUP of a terminal that closes all mean: stop, and
tidy up. In a place where nothing can be tidied up, as between two files that belong together, a
signal waits until that place is passed. A signal that comes while another one is obeyed does not
interrupt the tidying up.

Python handles signals in the main thread alone, so this module does nothing in other threads.
SIGKILL cannot be delayed.
"""

from __future__ import annotations

import io
import os
import signal
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from types import FrameType

import rich.console
from rich.console import ConsoleOptions, RenderableType
from rich.measure import Measurement
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from hushrank.transforms.common.plain_text import shown
from hushrank.transforms.system import STOPPING as STOPPING


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


def stop_as_ctrl_c() -> None:
    """Have SIGTERM and SIGHUP interrupt this process as Ctrl-C does, so that it can tidy up.

    A signal that whoever started the process has it ignore, as `nohup` does with SIGHUP, stays
    ignored, and one that somebody handles already is left to them.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    for number in STOPPING:
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, signal.default_int_handler)


@contextmanager
def signals_held() -> Iterator[None]:
    """Deliver no SIGINT, SIGTERM or SIGHUP in this block; the first that came follows it."""
    with _letting_through(0):
        yield


@contextmanager
def one_signal() -> Iterator[None]:
    """Deliver one SIGINT, SIGTERM or SIGHUP in this block; the next that came follows it.

    So what the first one interrupts can be tidied up in the block, however many are sent.
    """
    with _letting_through(1):
        yield


@contextmanager
def _letting_through(most: int) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []

    def handle(number: int, frame: FrameType | None) -> None:
        came.append(number)
        handler = handlers[signal.Signals(number)]
        if len(came) <= most and callable(handler):
            handler(number, frame)

    handlers = {number: signal.getsignal(number) for number in STOPPING}
    try:
        with ExitStack() as restored:
            for number, before in handlers.items():
                if callable(before) or (before is signal.SIG_DFL and not most):
                    restored.callback(signal.signal, number, before)
                    signal.signal(number, handle)
            yield
    finally:  # a process that is being interrupted need not be told again
        if len(came) > most and not isinstance(sys.exception(), KeyboardInterrupt):
            signal.raise_signal(came[most])
