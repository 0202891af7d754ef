"""The header of a CSV file: public text, which names the columns."""

from __future__ import annotations

import codecs
import csv
import re
from typing import Protocol

from hushrank.transforms.common.schema import InputError

HEADER_BYTES = 1 << 20  # a CSV header must end within the first MiB
BYTE_ORDER_MARK = b"\xef\xbb\xbf"  # some programs begin UTF-8 text with it
_UTF_16_MARKS = (b"\xff\xfe", b"\xfe\xff")

WINDOWS = "windows-1252"
ENCODINGS = {"utf-8": None, WINDOWS: "cp1252"}  # and Python's name, where bytes must be changed
_SEPARATOR = re.compile(rb'"?sep=[^"]*"?', re.IGNORECASE)  # Excel reads it as a setting
_LINE_END = re.compile(rb"\r\n|\r|\n")
_RECORD = re.compile(rb'(?:[^"\r\n]|"[^"]*")*(?:\r\n|\r|\n)')  # with quotes around line ends


class Readable(Protocol):
    """Bytes in order."""

    def read(self, size: int, /) -> bytes:
        """The next bytes, at most about `size`; none at the end."""
        ...


class Joined:
    """Bytes that were read from a stream already, and those that follow in it."""

    def __init__(self, head: bytes, rest: Readable) -> None:
        self._head = head
        self._rest = rest

    def read(self, size: int) -> bytes:
        """The next bytes, at most about `size`; none at the end."""
        if not self._head:
            return self._rest.read(size)
        found, self._head = self._head[:size], self._head[size:]
        return found if len(found) == size else found + self._rest.read(size - len(found))


class Recoded:
    """Text of one byte a character as UTF-8.

    A byte that stands for no character stays as it is: it makes its record no UTF-8, and only that.
    """

    def __init__(self, stream: Readable, encoding: str) -> None:
        self._stream = stream
        self._codec = codecs.lookup(encoding)

    def read(self, size: int) -> bytes:
        """As UTF-8, the text of the next `size` bytes at most; none at the end."""
        text, _ = self._codec.decode(self._stream.read(size), "surrogateescape")
        return text.encode(errors="surrogateescape")


def as_utf8(stream: Readable, encoding: str) -> Readable:
    """The text of a CSV file as UTF-8.

    Args:
        stream: the file from its beginning, or from that of a record.
        encoding: one of `ENCODINGS`.
    """
    codec = ENCODINGS[encoding]
    return stream if codec is None else Recoded(stream, codec)


def after_header(path: str, head: bytes, header_rows: int) -> bytes:
    """What follows the header of a CSV file.

    The names are one line. Rows below it may be texts of questions, with line ends inside quotes.

    Args:
        path: for the message.
        head: the first bytes of the file; its header must end in them.
        header_rows: how many rows come before the first answer.

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


def check_first_line(path: str, head: bytes) -> None:
    """Refuse a file whose first line shows by itself that it does not name the columns.

    Args:
        path: for the message.
        head: the first bytes of the file, in any encoding.

    Raises:
        InputError: it is UTF-16 text, a setting of Excel or a remark.
    """
    if head.startswith(_UTF_16_MARKS):
        raise InputError(f"{path}: this is UTF-16 text, which is not read. Save it as UTF-8.")
    line = next(iter(head.removeprefix(BYTE_ORDER_MARK).splitlines()), b"").strip()
    remark = line.startswith(b"#") and len(line) > 1 and not re.search(rb"[,;\t]", line)
    if remark or _SEPARATOR.fullmatch(line):
        raise InputError(
            f"{path}: the first line begins with {'#' if remark else 'sep='} and does not name the"
            " columns. Delete that line."
        )


def csv_header(path: str, head: bytes, delimiter: str = ",") -> list[str]:
    """Names of the columns, from the first line of a CSV file.

    Args:
        path: for the message.
        head: the first `HEADER_BYTES` of the file.
        delimiter: the character between columns.

    Raises:
        InputError: the first line is not a header.
    """
    check_first_line(path, head)
    line = next(iter(head.removeprefix(BYTE_ORDER_MARK).splitlines()), b"")
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
