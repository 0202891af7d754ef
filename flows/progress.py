"""Progress of the reading of a job: files and bytes that are read, and the time that is left.

In: sizes of the files, which are public, and what the process that reads tells of them. Out: a
text for a terminal, or a line now and then for a log.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hushrank.transforms.storage.files import InputFile

LOG = logging.getLogger("hushrank.progress")
LINE_SECONDS = 10.0  # between two lines of a log, at least
FIRST_SECONDS = 2.0  # before a time that is left is estimated
MINUTE, HOUR = 60, 3600
_UNITS = (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 10**3), ("B", 1))


class Progress:
    """Text about the reading of some files."""

    def __init__(
        self, files: Sequence[InputFile], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Args: the files to read; the clock, which starts now."""
        self._n_files = len(files)
        self._n_bytes = sum(file.size for file in files)
        self._clock = clock
        self._began = clock()

    def text(self, files: int, n_bytes: int, before: int = 0) -> str:
        """Say how far the reading is.

        Args:
            files: number of files that are read to their end.
            n_bytes: bytes that are read.
            before: how many of them an earlier run had read, which tell nothing of the time left.
        """
        if files >= self._n_files:
            return f"all {self._n_files:,} files are read"
        said = f"{files:,} of {self._n_files:,} files"
        if self._n_bytes:  # a service states no size of what it sends
            unit, one = next(each for each in _UNITS if self._n_bytes >= each[1])
            said += f", {n_bytes / one:.3g} of {self._n_bytes / one:.3g} {unit}"
        took = self._clock() - self._began
        done, left = n_bytes - before, self._n_bytes - n_bytes
        if not self._n_bytes:
            done, left = files, self._n_files - files
        if took < FIRST_SECONDS or not done:
            return said
        return f"{said}, about {time_text(took * left / done)} left"


class Lines:
    """Says the text of a `Progress` now and then, for a log."""

    def __init__(
        self,
        progress: Progress,
        say: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Args: the progress; what takes a line; the clock."""
        self._progress = progress
        self._say = say
        self._clock = clock
        self._last = clock()

    def told(self, files: int, n_bytes: int, before: int = 0) -> None:
        """Say a line, unless one was said just before."""
        if self._clock() - self._last >= LINE_SECONDS:
            self._last = self._clock()
            self._say(self._progress.text(files, n_bytes, before))


def logged(files: Sequence[InputFile]) -> Callable[[int, int, int], None]:
    """A function that hands lines to the logger `hushrank.progress`, at level INFO."""
    return Lines(Progress(files), lambda line: LOG.info("%s", line)).told


def time_text(seconds: float) -> str:
    """A time in its largest unit, rounded to a whole number: 40 s, 3 min, 2 h."""
    if seconds < MINUTE:
        return f"{max(seconds, 1):.0f} s"
    if seconds < HOUR:
        return f"{seconds / MINUTE:.0f} min"
    return f"{seconds / HOUR:.0f} h"
