"""A file in which rows wait, during a reduction on one machine, for others of their owner."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass

import numpy as np

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


Parcel = bytes | tuple[int, int]  # a blob, or its place and its words in the spill file


def park(blob: bytes, spill: SpillFile | None) -> Parcel:
    """What the engine carries of a blob, of a multiple of 8 bytes: its place where it may wait."""
    if spill is None:
        return blob
    words = np.frombuffer(blob, np.uint64)
    return spill.append(words), len(words)


def fetch(parcel: Parcel, spill: SpillFile | None) -> bytes:
    """The blob that became `parcel`.

    Raises:
        ValueError: it waits in a spill file, and none is given.
    """
    if isinstance(parcel, bytes):
        return parcel
    if spill is None:
        raise ValueError("the rows are in a spill file, and none is given")
    place, n_words = parcel
    words = np.empty(n_words, np.uint64)
    spill.read(words, place)
    return words.tobytes()
