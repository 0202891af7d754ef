"""Memory or files where rows wait, in a reduction, for rows of the same person."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hushrank.transforms import system
from hushrank.transforms.common.local_files import open_local
from hushrank.transforms.common.schema import InputError
from hushrank.transforms.common.sorting import Words
from hushrank.transforms.storage.places import (
    CloudPath,
    create_file,
    is_cloud,
    make_folder,
    temporary_name,
)

TOO_SHORT = "the spill file is shorter than what was written to it"
WAITING_FILE = "waiting"  # a file of waiting rows has this name and 32 digits, like temporary files
SPILL_PREFIX = ".spill-"  # prefix of spill files that briefly have a name
NO_ROOM = (
    "memory_limit: rows that wait for other rows of their person need more memory than it leaves"
    " them, and because confidential is in Cloud Storage they cannot wait in a file. Raise"
    " memory_limit, or name a folder on a disk of this machine where they may wait: runner: {kind:"
    " local, spill: /a/folder}"
)

_APPENDING = threading.Lock()


@dataclass(frozen=True, slots=True)
class SpillFile:
    """Memory, and beyond it an open file without a name; both vanish with the process.

    If the file system cannot make a file without a name, the file has a name that starts with
    `SPILL_PREFIX` until it is open. A crash at that moment leaves an empty file for the next run to
    delete.

    Attributes:
        descriptor: descriptor of the file; every thread of the process may use it. None: there is
            no file, and rows that do not fit into memory are refused.
        memory: descriptor of a file in memory, which is filled first; None: there is none.
        memory_bytes: size of that memory.
    """

    descriptor: int | None
    memory: int | None = None
    memory_bytes: int = 0

    def append(self, words: Words) -> int:
        """Write `words`, which are contiguous, and return their place.

        Raises:
            InputError: the rows do not fit into memory, and there is no file.
        """
        rest = words.data.cast("B")
        with _APPENDING:
            start = self._room_for(len(rest))
        descriptor, place = self._behind(start)
        while rest:
            written = system.write_at(descriptor, rest, place)
            rest, place = rest[written:], place + written
        return start

    def _room_for(self, size: int) -> int:
        """Extend the memory or the file, and return the place of the new part."""
        if self.memory is not None:
            start = os.fstat(self.memory).st_size
            if start + size <= self.memory_bytes:
                os.ftruncate(self.memory, start + size)
                return start
        if self.descriptor is None:
            raise InputError(NO_ROOM)
        start = os.fstat(self.descriptor).st_size
        os.ftruncate(self.descriptor, start + size)
        return self.memory_bytes + start

    def _behind(self, place: int) -> tuple[int, int]:
        """Return the descriptor that holds `place`, and the offset in it."""
        if self.memory is not None and (place < self.memory_bytes or self.descriptor is None):
            return self.memory, place
        if self.descriptor is None:
            raise ValueError("there is neither memory nor a file for rows to wait in")
        return self.descriptor, place - self.memory_bytes

    def read(self, words: Words, place: Place) -> None:
        """Fill `words`, which are contiguous, from `place` on."""
        if not isinstance(place, int):
            raise ValueError("the rows are in a file of their own, not in the spill file")
        _fill(words, *self._behind(place))


@dataclass(frozen=True, slots=True)
class SpillFolder:
    """Files in the confidential folder, for its owner alone, that all workers of an engine reach.

    Every file has a name of its own, so an engine may repeat whatever it likes. They have the form
    of temporary files, and are deleted with them, once the job's noise is drawn or it is given up.

    Attributes:
        folder: local path that all machines mount, or gs:// folder.
    """

    folder: str

    def write(self, parts: Sequence[Words]) -> list[Place]:
        """Write `parts`, each contiguous, to one new file; return the place of each."""
        sizes = [part.nbytes for part in parts]
        name = temporary_name(WAITING_FILE)
        path = f"{self.folder}/{name}"
        if is_cloud(path):
            CloudPath.parse(path).write(b"".join(part.data.cast("B") for part in parts))
        else:
            make_folder(Path(self.folder))
            with create_file(Path(path)) as file:
                for part in parts:
                    file.write(part.data.cast("B"))
        ends = np.cumsum(sizes).tolist()
        return [(name, end - size) for end, size in zip(ends, sizes, strict=True)]

    def read(self, words: Words, place: Place) -> None:
        """Fill `words`, which are contiguous, from `place` on."""
        if isinstance(place, int):
            raise ValueError("the rows are in the spill file of one machine")
        name, offset = place
        path = f"{self.folder}/{name}"
        if is_cloud(path):
            found = CloudPath.parse(path).read_part(offset, words.nbytes)
            if len(found) != words.nbytes:
                raise OSError(TOO_SHORT)
            words.data.cast("B")[:] = found
            return
        descriptor = open_local(path)
        try:
            _fill(words, descriptor, offset)
        finally:
            os.close(descriptor)


Place = int | tuple[str, int]  # in the one spill file; or in which file of the folder, and where
Spill = SpillFile | SpillFolder
ShuffleBlock = bytes | tuple[Place, int]  # a blob, or its place and number of words


def further(place: Place, n_bytes: int) -> Place:
    """Return the place that many bytes behind `place`."""
    return place + n_bytes if isinstance(place, int) else (place[0], place[1] + n_bytes)


def _fill(words: Words, descriptor: int, place: int) -> None:
    rest = words.data.cast("B")
    while rest:
        found = system.read_into(descriptor, rest, place)
        if not found:
            raise OSError(TOO_SHORT)
        rest, place = rest[found:], place + found


def park(blob: bytes, spill: SpillFile | None) -> ShuffleBlock:
    """Store a blob of a multiple of 8 bytes in the spill file; return what the engine carries."""
    if spill is None:
        return blob
    words = np.frombuffer(blob, np.uint64)
    return spill.append(words), len(words)


def fetch(shuffle_block: ShuffleBlock, spill: Spill | None) -> bytes:
    """Return the blob that became `shuffle_block`.

    Raises:
        ValueError: the blob is in a spill file, and none is given.
    """
    if isinstance(shuffle_block, bytes):
        return shuffle_block
    if spill is None:
        raise ValueError("the rows are in a spill file, and none is given")
    place, n_words = shuffle_block
    words = np.empty(n_words, np.uint64)
    spill.read(words, place)
    return words.tobytes()
