"""Count of the files and bytes of a reduction that are read, for whoever waits for it.

Sizes of files are public. How a file is cut can depend on its rows: by row groups, say. So a file
counts when all of its parts are read, except a text file, which its size alone cuts.

A process that reads tells the process that started it, as it does of the files that it has open
(`transforms.common.local_files`).
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hushrank.transforms.storage.split import Split

Tell = Callable[[int, int, int], None]  # files and bytes that are read; bytes that were before

_told: list[Tell] = []  # empty where nobody asked
_counted: list[FilesRead] = []  # what this process reads; empty: it counts nothing


def tell_of_reading(tell: Tell) -> None:
    """Call `tell` from now on, in any thread, after each part of the input is read."""
    _told.append(tell)


@contextmanager
def counted(splits: Iterable[Split]) -> Iterator[None]:
    """Count the parts that are read in this block, which are all of a reduction's."""
    _counted.append(FilesRead(splits))
    try:
        yield
    finally:
        _counted.pop()


def note_read(split: Split, *, before: bool = False) -> None:
    """Count a part that is read to its end; or that an earlier run had read before."""
    for counting in _counted:
        counting.note(split, before=before)


class FilesRead:
    """Files and bytes that are read so far."""

    def __init__(self, splits: Iterable[Split]) -> None:
        self._left = Counter(split.file.path for split in splits)
        self._lock = threading.Lock()
        self._files = self._bytes = self._before = 0

    def note(self, split: Split, *, before: bool = False) -> None:
        """Count one more part, and tell of it."""
        with self._lock:
            self._left[split.file.path] -= 1
            ended = not self._left[split.file.path]
            self._files += ended
            more = split.file.size if ended else 0
            if split.span is not None:
                more = split.span[1] - split.span[0]
            self._bytes += more
            self._before += more if before else 0
            for tell in _told:  # under the lock, so that numbers come in their order
                tell(self._files, self._bytes, self._before)
