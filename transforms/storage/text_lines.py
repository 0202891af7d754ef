"""Text of files: unpacked, decoded, and cut into lines.

Cut text into records so that the content of one record never decides where another one ends.

A record is a line. Only if quoted fields may span lines (`quoted`) does a record end at the first
line end outside quotes; then an open quote swallows the text after it, up to `MOST_RECORD_BYTES`. A
longer record is refused, and reading continues at the next line end. So the work is bounded by the
number of bytes.

The header of a CSV file is public text, which names the columns.

Packed files: the packings, by file name, and the content as a stream.

A stream of a packed file can be read from its start again, but not from its end.
"""

from __future__ import annotations

import codecs
import contextlib
import csv
import gzip
import io
import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import IO, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hushrank.transforms.common.schema import InputError

HEADER_BYTES = 1 << 20  # a CSV header must end within the first MiB
BYTE_ORDER_MARK = b"\xef\xbb\xbf"  # some programs begin UTF-8 text with it
_UTF_16_MARKS = (b"\xff\xfe", b"\xfe\xff")

WINDOWS = "windows-1252"
ENCODINGS = {"utf-8": None, WINDOWS: "cp1252"}  # and Python's name, where bytes must be changed
_SEPARATOR = re.compile(rb'"?sep=[^"]*"?', re.IGNORECASE)  # Excel reads it as a setting
_LINE_END = re.compile(rb"\r\n|\r|\n")
_RECORD = re.compile(rb'(?:[^"\r\n]|"[^"]*")*(?:\r\n|\r|\n)')  # with quotes around line ends
MOST_RECORD_BYTES = 1 << 20  # includes the line end
HEAD_BYTES = 1 << 10  # bytes that are kept of a longer record
LINE_FEED, CARRIAGE_RETURN, QUOTE, LAST_OF_ASCII = 0x0A, 0x0D, 0x22, 0x7F
Places = NDArray[np.int64]
Mask = NDArray[np.bool_]


class Readable(Protocol):
    """Source of bytes in order."""

    def read(self, size: int, /) -> bytes:
        """Return the next bytes, at most about `size`; none at the end."""
        ...


class Joined:
    """Bytes that were read from a stream already, and those that follow in it."""

    def __init__(self, head: bytes, rest: Readable) -> None:
        self._head = head
        self._rest = rest

    def read(self, size: int) -> bytes:
        """Return the next bytes, at most about `size`; none at the end."""
        if not self._head:
            return self._rest.read(size)
        found, self._head = self._head[:size], self._head[size:]
        return found if len(found) == size else found + self._rest.read(size - len(found))


class Recoded:
    """Text with one byte per character, read as UTF-8.

    A byte that stands for no character stays as it is: it makes its record no UTF-8, and only that.
    """

    def __init__(self, stream: Readable, encoding: str) -> None:
        self._stream = stream
        self._codec = codecs.lookup(encoding)

    def read(self, size: int) -> bytes:
        """Return the text of the next `size` bytes at most, in UTF-8; empty at the end."""
        text, _ = self._codec.decode(self._stream.read(size), "surrogateescape")
        return text.encode(errors="surrogateescape")


def as_utf8(stream: Readable, encoding: str) -> Readable:
    """Return the text of a CSV file as UTF-8.

    Args:
        stream: the file from its beginning, or from that of a record.
        encoding: one of `ENCODINGS`.
    """
    codec = ENCODINGS[encoding]
    return stream if codec is None else Recoded(stream, codec)


def after_header(path: str, head: bytes, header_rows: int) -> bytes:
    """Return the bytes after the header of a CSV file.

    The names are one line. Rows below it may be texts of questions, with line ends inside quotes.

    Args:
        path: path of the file, for the message.
        head: the first bytes of the file; its header must end in them.
        header_rows: number of rows before the first answer.

    Raises:
        InputError: the header does not end there.
    """
    text = head.removeprefix(BYTE_ORDER_MARK)
    end = _LINE_END.search(text)
    place = len(text) if end is None else end.end()
    for _ in range(header_rows - 1):
        record = _RECORD.match(text, place)
        if record is None:
            raise InputError(
                f"{path}: input.header_rows is {header_rows}, but so many rows do not end within"
                " the first MiB. Correct it."
            )
        place = record.end()
    return text[place:]


def refuse_utf_16(path: str, head: bytes) -> None:
    """Refuse UTF-16 text, which begins with a mark, or whose first bytes are 0 in turn.

    Raises:
        InputError: the first bytes show that it is UTF-16 text.
    """
    if head.startswith(_UTF_16_MARKS) or head[:2].count(0) == 1 == head[2:4].count(0):
        raise InputError(f"{path}: this is UTF-16 text, which is not read. Save it as UTF-8.")


def first_line(head: bytes) -> bytes:
    """Return the first line of a file without its end; `head` are the first bytes."""
    text = head.removeprefix(BYTE_ORDER_MARK)
    end = _LINE_END.search(text)
    return text if end is None else text[: end.start()]


def check_first_line(path: str, head: bytes) -> None:
    """Refuse a file whose first line shows by itself that it does not name the columns.

    Args:
        path: path of the file, for the message.
        head: the first bytes of the file, in any encoding.

    Raises:
        InputError: the line is UTF-16 text, a setting of Excel or a remark.
    """
    refuse_utf_16(path, head)
    line = first_line(head).strip()
    remark = line.startswith(b"#") and len(line) > 1 and not re.search(rb"[,;\t]", line)
    if remark or _SEPARATOR.fullmatch(line):
        raise InputError(
            f"{path}: the first line begins with {'#' if remark else 'sep='} and does not name the"
            " columns. Delete that line."
        )


def csv_header(path: str, head: bytes, delimiter: str = ",") -> list[str]:
    """Read the names of the columns from the first line of a CSV file.

    Args:
        path: path of the file, for the message.
        head: the first `HEADER_BYTES` of the file.
        delimiter: the character between columns.

    Raises:
        InputError: the first line is not a header.
    """
    check_first_line(path, head)
    line = first_line(head)
    if len(line) >= HEADER_BYTES - len(BYTE_ORDER_MARK):
        raise InputError(f"{path}: the header line is longer than 1 MiB. Write fewer columns.")
    try:
        names = next(csv.reader([line.decode()], strict=True, delimiter=delimiter), [])
    except UnicodeDecodeError:
        raise InputError(
            f"{path}: the header is not UTF-8 text. Save the file as UTF-8; or, if Excel wrote it"
            f" in Western Europe, set input.encoding: {WINDOWS}."
        ) from None
    except csv.Error:  # the line may be a row, so it is not shown
        raise InputError(
            f"{path}: a column name has a line break, or a quote is not closed."
        ) from None
    if not any(names):
        raise InputError(f"{path}: no header line. The first line must name the columns.")
    return names


@dataclass(frozen=True)
class Records:
    """Whole records, in order.

    Attributes:
        content: bytes of the records, line ends included.
        ends: places after their line ends; None: after every line feed.
        too_long: beginnings of records that were too long to keep; they are not in `content`.
    """

    content: bytes
    ends: Places | None = None
    too_long: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @cached_property
    def offsets(self) -> Places:
        """Places of the records, shape (n + 1,): record k is content[offsets[k]:offsets[k + 1]]."""
        ends = _line_ends(self.content, False) if self.ends is None else self.ends
        return np.append(0, ends)

    def plain_lines(self) -> int | None:
        """Number of records, if all are lines of ASCII without quotes or NULs, none long.

        None: some are not, or may not be. It does not look for where each record ends.
        """
        if self.ends is not None or self.too_long:
            return None
        step = MOST_RECORD_BYTES // 4  # few enough to stay in a processor's cache
        lines = without_end = 0
        for start in range(0, len(self.content), step):
            piece = self.octets[start : start + step]
            if piece.max() > LAST_OF_ASCII or piece.min() == 0:
                return None
            if self.content.find(b'"', start, start + step) >= 0:
                return None
            found = int(np.count_nonzero(piece == LINE_FEED))
            lines, without_end = lines + found, 0 if found else without_end + 1
            if without_end > 2:  # as in every record that is too long
                return None
        return lines

    @cached_property
    def octets(self) -> NDArray[np.uint8]:
        """Content, byte by byte."""
        return np.frombuffer(self.content, np.uint8)

    @cached_property
    def lengths(self) -> Places:
        """Number of bytes of each record, its line end included."""
        return np.diff(self.offsets)

    def text(self, number: int) -> str:
        """Return one record for the confidential area, without its line end."""
        start, end = self.offsets[number], self.offsets[number + 1]
        if end - start > MOST_RECORD_BYTES:
            end = start + HEAD_BYTES
        return self.content[start:end].decode(errors="replace").rstrip("\r\n")

    def texts(self, chosen: Mask) -> tuple[str, ...]:
        """Return the chosen records as text, and the beginnings of all records that were too
        long."""
        return (*map(self.text, np.flatnonzero(chosen).tolist()), *self.too_long)

    def values(self) -> pa.Array:
        """Return the records as binary values, without a copy."""
        buffers = [None, pa.py_buffer(self.offsets), pa.py_buffer(self.content)]
        return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(self), buffers)

    def joined(self, numbers: Places, before: bytes = b"") -> bytes:
        """Join `before` and the chosen records; `numbers` are ascending and not empty."""
        if len(numbers) == len(self) and not before:
            return self.content
        breaks = np.flatnonzero(np.diff(numbers) != 1)
        firsts, lasts = numbers[np.append(0, breaks + 1)], numbers[np.append(breaks, -1)]
        starts, ends = self.offsets[firsts].tolist(), self.offsets[lasts + 1].tolist()
        content = memoryview(self.content)
        return b"".join([before, *(content[a:b] for a, b in zip(starts, ends, strict=True))])

    def where(self, places: Places) -> Mask:
        """Mark the records that hold a byte at one of `places`."""
        found = np.zeros(len(self), np.bool_)
        found[np.searchsorted(self.offsets, places, side="right") - 1] = True
        return found

    def holding(self, byte: int) -> Mask:
        """Mark the records that hold `byte`."""
        if byte not in self.content:
            return np.zeros(len(self), np.bool_)
        return self.where(np.flatnonzero(self.octets == byte))

    def blank(self) -> Mask:
        """Mark the records that are only a line end."""
        if len(self) and self.lengths.min() > 2:
            return np.zeros(len(self), np.bool_)
        first = self.octets[self.offsets[:-1]]
        returns = first == CARRIAGE_RETURN
        bare: Mask = (self.lengths == 1) & (returns | (first == LINE_FEED))
        bare |= (self.lengths == 2) & returns
        return bare

    def no_text(self) -> Mask:
        """Mark the records that are too long, hold a NUL, or are not UTF-8."""
        broken = self.lengths > MOST_RECORD_BYTES
        broken |= self.holding(0)
        if self.content.isascii():
            return broken
        try:
            self.content.decode()
        except UnicodeDecodeError:  # check one by one, as Python only reports the first
            broken |= np.array([not _is_utf8(self._record(k)) for k in range(len(self))])
        return broken

    def _record(self, number: int) -> bytes:
        return self.content[self.offsets[number] : self.offsets[number + 1]]


def read_records(
    stream: Readable, block_bytes: int, *, carriage_returns: bool, quoted: bool = False
) -> Iterator[Records]:
    """Yield the records of `stream`, about `block_bytes` at a time; block borders change nothing.

    Args:
        stream: text after its byte order mark.
        block_bytes: number of bytes to read at once.
        carriage_returns: whether a carriage return without a line feed also ends a line.
        quoted: whether line ends between double quotes do not end a record.
    """
    rest, skipping, more = b"", False, True
    while more:
        block = stream.read(block_bytes)
        more = bool(block)
        cut = block.rfind(b"\n") + 1
        returns = carriage_returns and (CARRIAGE_RETURN in block or CARRIAGE_RETURN in rest)
        if cut and len(block) - cut <= MOST_RECORD_BYTES and not (skipping or quoted or returns):
            # Like below, but with one copy, and without a look for each end.
            content, rest = b"".join((rest, memoryview(block)[:cut])), block[cut:]
            yield Records(content)
            continue
        content = rest + block
        if not more and content and not content.endswith(b"\n"):
            content += b"\n"
        if skipping:
            resume = _line_ends(content, carriage_returns)
            skipping = more and not len(resume)
            rest = _half_an_end(content, carriage_returns)
            if skipping:
                continue
            content = content[resume[0] :] if len(resume) else b""
        ends = _line_ends(content, carriage_returns)
        if quoted:
            ends = _outside_quotes(content, ends)
        whole = int(ends[-1]) if len(ends) else 0
        rest = content[whole:]
        too_long: tuple[str, ...] = ()
        if not more and rest:  # a quote is still open: the rest is one broken record
            ends, rest = np.append(ends, len(content)), b""
            whole = len(content)
        elif len(rest) > MOST_RECORD_BYTES:
            too_long = (rest[:HEAD_BYTES].decode(errors="replace"),)
            skipping, rest = True, _half_an_end(rest, carriage_returns)
        if whole or too_long:
            yield Records(content[:whole], ends, too_long)


def _line_ends(content: bytes, carriage_returns: bool) -> Places:
    """Find the places after line ends; skip a final carriage return, which may be half a line
    end."""
    values = np.frombuffer(content, np.uint8)
    is_end = values == LINE_FEED
    if carriage_returns and CARRIAGE_RETURN in content:
        is_end[:-1] |= (values[:-1] == CARRIAGE_RETURN) & (values[1:] != LINE_FEED)
    return np.flatnonzero(is_end) + 1


def _half_an_end(content: bytes, carriage_returns: bool) -> bytes:
    """Return the carriage return at the end of `content`, if the line may end there."""
    return b"\r" if carriage_returns and content.endswith(b"\r") else b""


def _outside_quotes(content: bytes, ends: Places) -> Places:
    """Find the line ends that end a record.

    A record that becomes too long ends at the next line end, inside quotes or not.
    """
    quotes = np.flatnonzero(np.frombuffer(content, np.uint8) == QUOTE)
    before = np.searchsorted(quotes, ends)
    found: list[Places] = []
    start = 0
    while True:
        first = int(np.searchsorted(ends, start, side="right"))
        opened = before[first:] - np.searchsorted(quotes, start)
        closed = ends[first:][opened % 2 == 0]
        starts = np.append(start, closed)
        long = np.flatnonzero(np.append(closed, len(content)) - starts > MOST_RECORD_BYTES)
        if not len(long):
            return np.concatenate([*found, closed])
        found.append(closed[: long[0]])
        cut = int(np.searchsorted(ends, starts[long[0]] + MOST_RECORD_BYTES, side="right"))
        if cut == len(ends):
            return np.concatenate(found)
        start = int(ends[cut])
        found.append(ends[cut : cut + 1])


def _is_utf8(content: bytes) -> bool:
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True


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


LIST_ENDING = ".json"  # of a file that holds one list of objects
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


def is_json_list(path: str) -> bool:
    """Whether the name is that of a file with one list (`json_lists`), packed or not."""
    return without_packing(path).lower().endswith(LIST_ENDING)


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
