"""CSV and JSON Lines: rows of a file, or of a part that is cut by bytes.

Where a record ends follows from line ends alone, unless quoted fields may span lines. So a file of
any length is cut at places that its own bytes decide; a part holds the records that begin in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import IO

import pyarrow as pa

from hushrank.transforms.storage.csv_header import (
    BYTE_ORDER_MARK,
    HEADER_BYTES,
    Joined,
    Readable,
    after_header,
    as_utf8,
    csv_header,
)
from hushrank.transforms.storage.csv_rows import read_csv_rows, with_points
from hushrank.transforms.storage.json_rows import read_json_rows
from hushrank.transforms.storage.packing import is_packed
from hushrank.transforms.storage.split import ReadBatch, Split, batch_of, with_codes

BLOCK_BYTES = 1 << 23  # a reader holds some ten times as much
SPAN_BYTES = 64 << 20  # of a part
LEAST_SPAN_BYTES = 8 << 20  # more than the longest header
PARTS = 8  # of a smaller file: enough for all workers of one machine to end at about one time
SEARCHED_BYTES = 1 << 16
ITEM_TYPE = pa.dictionary(pa.int32(), pa.string())

_LINE_FEED = re.compile(rb"\n")
_ANY_END = re.compile(rb"\n|\r(?!\n)")


def cut_into_spans(whole: Split) -> list[Split]:
    """Parts of a text file, if line ends alone end its records and it can be read from anywhere."""
    file = whole.file
    span_bytes = min(SPAN_BYTES, max(LEAST_SPAN_BYTES, -(-file.size // PARTS)))
    if is_packed(file.path) or file.multiline or file.size <= span_bytes:
        return [whole]
    spans = spans_of(file.size, span_bytes)
    return [replace(whole, span=span, rows=whole.rows // len(spans)) for span in spans]


def read_csv(stream: IO[bytes], split: Split) -> Iterator[ReadBatch]:
    """Rows of the records of a CSV file that begin in the split."""
    file = split.file
    header, body = _csv_parts(stream, split)
    numbers = split.numbers if file.decimal == "," else ()
    items = dict.fromkeys(split.items, ITEM_TYPE)
    schema = pa.schema([(name, items.get(name, pa.string())) for name in split.to_read.names])
    rows = read_csv_rows(
        body, header, schema, BLOCK_BYTES, multiline=file.multiline, delimiter=file.delimiter
    )
    for table, malformed in rows:
        yield batch_of(with_points(table, numbers) if numbers else table, malformed)


def _csv_parts(stream: IO[bytes], split: Split) -> tuple[list[str], Readable]:
    """Names of the columns, and the text of the split's records."""
    file = split.file
    whole: Readable = stream
    begin = end = 0
    if split.span is not None:
        begin, end = records_in(stream, split.span, file.size, carriage_returns=True)
        whole = Bounded(stream, 0, end)
    text = as_utf8(whole, file.encoding)
    head = text.read(HEADER_BYTES)
    header = csv_header(file.path, head, file.delimiter)
    if begin == 0:
        return header, Joined(after_header(file.path, head, file.header_rows), text)
    return header, as_utf8(Bounded(stream, begin, end), file.encoding)


def read_json_lines(stream: IO[bytes], split: Split) -> Iterator[ReadBatch]:
    """Rows of the lines of a JSON Lines file that begin in the split."""
    text: Readable = stream
    mark = _after_mark(stream)
    if split.span is not None:
        begin, end = records_in(stream, split.span, split.file.size, carriage_returns=False)
        text = Bounded(stream, max(begin, mark), end)
    for rows, malformed in read_json_rows(text, split.to_read, split.truths, BLOCK_BYTES):
        yield batch_of(with_codes(rows, split.items), malformed)


def _after_mark(stream: IO[bytes]) -> int:
    """Move to the first byte of the text, after a byte order mark; where that is."""
    stream.seek(0)
    if stream.read(len(BYTE_ORDER_MARK)) != BYTE_ORDER_MARK:
        return stream.seek(0)
    return len(BYTE_ORDER_MARK)


class Bounded:
    """The bytes of a stream from one place to another."""

    def __init__(self, stream: IO[bytes], start: int, end: int) -> None:
        stream.seek(start)
        self._stream = stream
        self._left = max(0, end - start)

    def read(self, size: int) -> bytes:
        """The next bytes, at most `size`; none at the end."""
        found = self._stream.read(min(size, self._left))
        self._left -= len(found)
        return found


def spans_of(size: int, span_bytes: int) -> list[tuple[int, int]]:
    """Parts of a file of `size` bytes, in order: where each begins, and where the next one does."""
    starts = range(0, max(size, 1), span_bytes)
    return [(start, min(start + span_bytes, size)) for start in starts]


def records_in(
    stream: IO[bytes], span: tuple[int, int], size: int, *, carriage_returns: bool
) -> tuple[int, int]:
    """Where the first record of a span begins, and where its last one ends.

    Args:
        stream: the file, seekable.
        span: from `spans_of`.
        size: bytes of the file.
        carriage_returns: whether a carriage return without a line feed also ends a line.
    """
    begin, end = (_record_start(stream, at, size, carriage_returns) for at in span)
    return begin, end


def _record_start(stream: IO[bytes], at: int, size: int, carriage_returns: bool) -> int:
    """The first place, from `at` on, where a record begins; the file's end if none does."""
    if at in (0, size):
        return at
    ends = _ANY_END if carriage_returns else _LINE_FEED
    place, kept = at - 1, b""
    stream.seek(place)
    while block := stream.read(SEARCHED_BYTES):
        text = kept + block
        more = place + len(text) < size
        # Whether a carriage return at the end of the text ends a line, the next byte says.
        kept = b"\r" if carriage_returns and more and text.endswith(b"\r") else b""
        if found := ends.search(text, 0, len(text) - len(kept)):
            return place + found.end()
        place += len(text) - len(kept)
    return size
