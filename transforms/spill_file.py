"""A file in which rows wait, during a reduction on one machine, for others of their owner."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass

from hushrank.transforms.sorting import Words

_APPENDING = threading.Lock()


@dataclass(frozen=True, slots=True)
class SpillFile:
    """An open file without a name: it is gone with the process, however that ends.

    Attributes:
        descriptor: of the file; every thread of the process may use it.
    """

    descriptor: int

    def append(self, words: Words) -> int:
        """Write `words`, which are contiguous, and return where they start."""
        rest = words.data.cast("B")
        with _APPENDING:
            start = os.fstat(self.descriptor).st_size
            os.ftruncate(self.descriptor, start + len(rest))
        place = start
        while rest:
            written = os.pwrite(self.descriptor, rest, place)
            rest, place = rest[written:], place + written
        return start

    def read(self, words: Words, place: int) -> None:
        """Fill `words`, which are contiguous, from `place` on."""
        rest = words.data.cast("B")
        while rest:
            found = os.preadv(self.descriptor, [rest], place)
            if not found:
                raise OSError("the spill file is shorter than what was written to it")
            rest, place = rest[found:], place + found
