"""Packed files: the packings, by file name, and the content as a stream.

A stream of a packed file can be read from its start again, but not from its end.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import IO

import pyarrow as pa

from hushrank.transforms.common.schema import InputError

MOST_HEADER = 1 << 16  # bytes of a name or a comment in a gzip header; names of files have 255


class _NotWholeError(Exception):
    """Error for packed content that cannot be unpacked."""


class _LongHeaderError(Exception):
    """Error for a gzip header with a name or a comment of more than `MOST_HEADER` bytes."""


class _WithShortHeaders:
    """Stream of a gzip file that bounds names and comments, which `gzip` reads byte by byte.

    So many single bytes are a long name. It says nothing of the rows, and each opening of the file
    would read it again.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._single = 0

    def read(self, size: int) -> bytes:
        self._single = self._single + 1 if size == 1 else 0
        if self._single > MOST_HEADER:
            raise _LongHeaderError
        return self._file.read(size)

    def seek(self, place: int) -> int:
        return self._file.seek(place)


class _KeptOpen(io.RawIOBase):
    """File that stays open when Arrow drops the unpacker, which would close it."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def readable(self) -> bool:
        return True

    def readinto(self, room: memoryview) -> int:  # type: ignore[override]  # any buffer
        content = self._file.read(len(room))
        room[: len(content)] = content
        return len(content)


class _Rewindable(io.RawIOBase):
    """Unpacked bytes of a zstd file, which can be read from the start again."""

    def __init__(self, packed: IO[bytes]) -> None:
        self._packed = packed
        self._restart()

    def _restart(self) -> None:
        self._packed.seek(0)
        self._place = 0
        self._unpacked = pa.CompressedInputStream(_KeptOpen(self._packed), "zstd")

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, room: memoryview) -> int:  # type: ignore[override]  # any buffer
        try:
            content = self._unpacked.read(len(room))
        except OSError:
            raise _NotWholeError from None
        room[: len(content)] = content
        self._place += len(content)
        return len(content)

    def seek(self, place: int, whence: int = io.SEEK_SET) -> int:
        """Move forward, or back to the start and then forward."""
        wanted = place + (self._place if whence == io.SEEK_CUR else 0)
        if whence == io.SEEK_END:
            raise io.UnsupportedOperation("the end of packed content is not known")
        if wanted < self._place:
            self._restart()
        while self._place < wanted:
            if not self.read(min(wanted - self._place, io.DEFAULT_BUFFER_SIZE)):
                break
        return self._place

    def tell(self) -> int:
        return self._place


def _gzip(packed: IO[bytes]) -> io.RawIOBase:
    return gzip.GzipFile(fileobj=_WithShortHeaders(packed))  # type: ignore[return-value]


@dataclass(frozen=True, slots=True)
class Packing:
    """Packing of a file.

    Attributes:
        title: name for messages.
        ratio: the most bytes that it makes of one.
        unpacked: the content of a packed file.
        broken: exceptions that are raised if that is not whole.
    """

    title: str
    ratio: int
    unpacked: Callable[[IO[bytes]], io.RawIOBase]
    broken: tuple[type[Exception], ...]


PACKINGS = {
    ".gz": Packing("gzip", 1032, _gzip, (EOFError, gzip.BadGzipFile, zlib.error)),
    # A block of 4 bytes unpacks to 128 KiB at most (RFC 8878).
    ".zst": Packing("zstd", 1 << 15, _Rewindable, (_NotWholeError,)),
}


def packing_of(path: str) -> Packing | None:
    """Return the packing of a file, by its name; None: it is not packed."""
    return next((each for end, each in PACKINGS.items() if path.lower().endswith(end)), None)


def is_packed(path: str) -> bool:
    """Whether the content is packed, judged by the name."""
    return packing_of(path) is not None


def without_packing(path: str) -> str:
    """Name of the file once it is unpacked."""
    for end in PACKINGS:
        if path.lower().endswith(end):
            return path[: -len(end)]
    return path


@contextlib.contextmanager
def unpacked(path: str, stream: IO[bytes]) -> Iterator[IO[bytes]]:
    """Open the content of a file, unpacked if its name says that it is packed.

    Raises:
        InputError: the file is not a whole packed file. What the caller raises meanwhile passes.
    """
    packing = packing_of(path)
    if packing is None:
        yield stream
        return
    try:
        with io.BufferedReader(packing.unpacked(stream)) as content:
            yield content
    except _LongHeaderError:
        raise InputError(
            f"{path}: its gzip header holds a name or a comment of more than {MOST_HEADER >> 10}"
            " KiB. Pack it again."
        ) from None
    except packing.broken:
        raise InputError(
            f"{path}: not a complete {packing.title} file (truncated or damaged). Write it again."
        ) from None
