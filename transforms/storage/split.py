"""Part of the input that is read as one piece of work, and its batches.

Read rows of CSV and JSON Lines, from a file or from a part that is cut by bytes.  Where a record
ends follows from line ends alone, unless quoted fields may span lines. So a file of any length is
cut at places that its own bytes decide; a part holds the records that begin in it.  The meaning
of a CSV record follows from its own bytes and the header. A record ends at a line end, so an open
quote damages only its own line: that line is not a row, and the next line is read as usual. Arrow
only parses records whose quotes stand around whole fields and are doubled inside (RFC 4180), and
reads all columns as text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import IO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from hushrank.transforms.common.schema import is_list, to_numpy
from hushrank.transforms.storage.files import InputFile, is_changed
from hushrank.transforms.storage.json_rows import read_json_rows
from hushrank.transforms.storage.parquet_rows import LIST_ITEMS
from hushrank.transforms.storage.text_lines import (
    BYTE_ORDER_MARK,
    HEADER_BYTES,
    QUOTE,
    Joined,
    Mask,
    Places,
    Readable,
    Records,
    after_header,
    as_utf8,
    csv_header,
    read_records,
)

BATCH_ROWS = 1 << 20
SMALL_ROWS, SMALL_BYTES = 1 << 15, 1 << 23  # a batch with less of both is joined with others
BATCH_COLUMNS = 8  # with more columns a batch has fewer rows


@dataclass(frozen=True, slots=True)
class Split:
    """Part of one file.

    Attributes:
        file: the file.
        schema: names and types of the columns that are needed.
        items: columns that name items; they have few distinct values and are best read as
            dictionaries.
        row_groups: row groups by which a file is cut, in order; empty: it has none.
        rows: about how many rows, to plan the work.
        span: bytes of a cut text file, from the first to the last at which its records begin.
    """

    file: InputFile
    schema: pa.Schema
    items: tuple[str, ...]
    row_groups: tuple[int, ...]
    rows: int
    times: pa.Field | None = None  # the column of the file's window, if not needed otherwise
    identities: tuple[str, ...] = ()  # columns of names that may be bytes or numbers
    truths: frozenset[str] = frozenset()  # columns in which true and false are values
    numbers: frozenset[str] = frozenset()  # columns of numbers that need not be whole
    span: tuple[int, int] | None = None
    stream: str = ""  # stream of a table whose rows a service sends; empty: none

    @property
    def to_read(self) -> pa.Schema:
        """Names and types of all columns to read, except those that the path states."""
        told = dict(self.file.partitions)
        whole = self.schema if self.times is None else self.schema.append(self.times)
        return pa.schema([field for field in whole if field.name not in told])

    @property
    def columns(self) -> list[str]:
        """Names of all columns of the split's rows."""
        return [*self.schema.names, *(() if self.times is None else (self.times.name,))]

    @property
    def name(self) -> str:
        """Identity of the split; the same whenever the same files are split."""
        first = self.row_groups[0] if self.row_groups else 0 if self.span is None else self.span[0]
        part = self.stream or first
        return f"{self.file.path}#{part}"


@dataclass(frozen=True, slots=True)
class ReadBatch:
    """Rows of a split in file order, and what was set aside.

    Attributes:
        rows: rows whose texts are readable.
        malformed: the raw text of lines that are not rows at all.
        rejects: unreadable rows, in tables with a column `reason`.
        timeless: rows of `rejects` that have no time which can be read, as `rows` has them; None:
            none.
    """

    rows: pa.RecordBatch
    malformed: tuple[str, ...] = ()
    rejects: tuple[pa.Table, ...] = ()
    timeless: pa.RecordBatch | None = None


@dataclass(frozen=True, slots=True)
class RowGroup:
    """Statement of a footer about a row group: its rows, and that none of them is in the window."""

    rows: int
    misses: bool


@dataclass(frozen=True, slots=True)
class Head:
    """Content of a file's footer or header: enough to cut the file without another read.

    How many rows a file has is private: a head stays in memory, and goes only to where rows go.

    Attributes:
        schema: names and types of all columns.
        groups: row groups by which a file is cut, in order; empty: it has none, or is not read.
    """

    schema: pa.Schema
    groups: tuple[RowGroup, ...] = ()


def batch_rows(schema: pa.Schema) -> int:
    """Number of rows of a batch: `BATCH_ROWS`, or fewer if rows have many columns."""
    cells = sum(LIST_ITEMS if is_list(field.type) else 1 for field in schema)
    return max(1, BATCH_ROWS * BATCH_COLUMNS // max(BATCH_COLUMNS, cells))


def batch_of(rows: pa.Table, malformed: tuple[str, ...] = ()) -> ReadBatch:
    """Return the rows in one batch, with the text of lines that are not rows."""
    batches = rows.combine_chunks().to_batches()
    return ReadBatch(
        batches[0] if batches else pa.RecordBatch.from_pylist([], rows.schema), malformed
    )


def joined(batches: Iterable[pa.RecordBatch], most_rows: int) -> Iterator[pa.RecordBatch]:
    """Join small batches that follow each other; rows and their order stay.

    Every batch costs some milliseconds, however few rows it has, and a file may hold one row in
    each row group, stripe or batch. What is joined has at most `most_rows` rows.
    """
    small: list[pa.RecordBatch] = []
    rows = n_bytes = 0
    for batch in batches:
        small_one = is_small(batch)
        full = rows >= SMALL_ROWS or rows + len(batch) > most_rows or n_bytes >= SMALL_BYTES
        if small and (full or not small_one or batch.schema != small[0].schema):
            yield from _as_one(small)
            small, rows, n_bytes = [], 0, 0
        if small_one:
            small.append(batch)
            rows, n_bytes = rows + len(batch), n_bytes + batch.nbytes
        else:
            yield batch
    yield from _as_one(small)


def is_small(batch: pa.RecordBatch) -> bool:
    """Whether a batch costs less if it is joined with others."""
    return len(batch) < SMALL_ROWS and batch.nbytes < SMALL_BYTES


def _as_one(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """Return one batch, or the batches unchanged if Arrow cannot join them."""
    if len(batches) < 2:
        return batches
    try:
        return [pa.concat_batches(batches)]
    except pa.ArrowException:
        return batches


def with_codes(rows: pa.Table, items: Sequence[str]) -> pa.Table:
    """Return the rows with a dictionary for each column of items."""
    for name in items:
        place = rows.schema.get_field_index(name)
        rows = rows.set_column(place, name, rows[name].dictionary_encode())
    return rows


_LINE_END = r"(?:\r\n|\r|\n)"
BLOCK_BYTES = 1 << 23  # a reader holds some ten times as much
SPAN_BYTES = 64 << 20  # bytes of a part
LEAST_SPAN_BYTES = 8 << 20  # more than the longest header
PARTS = 8  # parts of a smaller file: enough for all workers of one machine to end at about one time
SEARCHED_BYTES = 1 << 16
ITEM_TYPE = pa.dictionary(pa.int32(), pa.string())
_LINE_FEED = re.compile(rb"\n")
_ANY_END = re.compile(rb"\n|\r(?!\n)")


def read_csv_rows(
    stream: Readable,
    header: Sequence[str],
    schema: pa.Schema,
    block_bytes: int,
    *,
    multiline: bool,
    delimiter: str = ",",
) -> Iterator[tuple[pa.Table, tuple[str, ...]]]:
    """Yield rows of `stream`, in order, and the records that are not rows.

    Args:
        stream: CSV after its header.
        header: names of all columns.
        schema: the columns to read, each once in `header`: text, or dictionaries of text.
        block_bytes: number of bytes to read at once.
        multiline: whether quoted fields may hold line ends. A row with an open quote then swallows
            the rows after it.
        delimiter: the character between columns.
    """
    reader = _Reader(schema, tuple(header), multiline, delimiter)
    for records in read_records(stream, block_bytes, carriage_returns=True, quoted=multiline):
        yield reader.read(records)


@dataclass(frozen=True, slots=True)
class _Reader:
    schema: pa.Schema
    header: tuple[str, ...]
    multiline: bool
    delimiter: str

    def read(self, records: Records) -> tuple[pa.Table, tuple[str, ...]]:
        """Return the rows of a block, and its records that are not rows."""
        if (plain := self._plain_rows(records)) is not None:
            return plain
        broken = records.no_text() | self._odd_quotes(records)
        parts = list(self._parse(records, np.flatnonzero(~broken), records.blank()))
        malformed = [line for _, refused in parts for line in refused]
        tables = [rows for rows, _ in parts] or [self.schema.empty_table()]
        rows = tables[0] if len(tables) == 1 else pa.concat_tables(tables).unify_dictionaries()
        return rows, (*records.texts(broken), *malformed)

    def _plain_rows(self, records: Records) -> tuple[pa.Table, tuple[str, ...]] | None:
        """Read rows if it is clear where each record ends: in nearly all blocks of most files."""
        expected = records.plain_lines()
        if not expected:
            return None
        rows, refused = self._parsed(records.content)
        # A blank line is neither; then all is looked at again.
        whole = rows is not None and len(rows) + len(refused) == expected
        return (rows, tuple(refused)) if whole else None

    def _odd_quotes(self, records: Records) -> Mask:
        """Mark records with a quote that neither surrounds a whole field nor is doubled inside
        one."""
        if QUOTE not in records.content:
            return np.zeros(len(records), np.bool_)
        inside = r'[^"]' if self.multiline else r'[^"\r\n]'
        between = self.delimiter
        cell = rf'(?:[^"{between}\r\n]+|"(?:{inside}|"")*")?'
        pattern = rf"^{cell}(?:{between}{cell})*{_LINE_END}$"
        whole = pc.match_substring_regex(records.values(), pattern)
        return ~to_numpy(whole)

    def _parse(
        self, records: Records, numbers: Places, blank: Mask
    ) -> Iterator[tuple[pa.Table, list[str]]]:
        """Parse all records at once; if the number of rows is wrong, parse each half."""
        if not len(numbers):
            return
        # Arrow drops a byte order mark at the start of its text, so there no record comes first.
        start = int(records.offsets[numbers[0]])
        marked = records.content.startswith(BYTE_ORDER_MARK, start)
        text = records.joined(numbers, before=b"\n" if marked else b"")
        rows, refused = self._parsed(text)
        expected = len(numbers) - int(blank[numbers].sum())
        if rows is not None and len(rows) + len(refused) == expected:
            yield rows, refused
        elif len(numbers) == 1:
            yield self.schema.empty_table(), [records.text(int(numbers[0]))]
        else:
            half = len(numbers) // 2
            yield from self._parse(records, numbers[:half], blank)
            yield from self._parse(records, numbers[half:], blank)

    def _parsed(self, text: bytes) -> tuple[pa.Table | None, list[str]]:
        """Return the rows, None if Arrow gives up, and lines of too few or too many fields."""
        refused: list[str] = []

        def set_aside(row: pyarrow.csv.InvalidRow) -> str:
            refused.append(row.text)
            return "skip"

        # Columns go by position, because two columns that are not read may have the same name.
        places = [str(self.header.index(name)) for name in self.schema.names]
        try:
            table = pyarrow.csv.read_csv(
                pa.BufferReader(text),
                pyarrow.csv.ReadOptions(
                    # With threads, `set_aside` could run in one of them while this thread goes on.
                    use_threads=False,
                    block_size=len(text) + 1,
                    column_names=[str(place) for place in range(len(self.header))],
                ),
                pyarrow.csv.ParseOptions(
                    delimiter=self.delimiter,
                    newlines_in_values=self.multiline,
                    invalid_row_handler=set_aside,
                ),
                pyarrow.csv.ConvertOptions(
                    check_utf8=False,
                    column_types=dict(zip(places, self.schema.types, strict=True)),
                    include_columns=places,
                    strings_can_be_null=True,
                    null_values=[""],
                ),
            )
        except pa.ArrowException:
            return None, refused
        return table.rename_columns(self.schema.names), refused


def with_points(rows: pa.Table, numbers: Iterable[str]) -> pa.Table:
    """Return rows with a decimal point instead of a comma in the columns `numbers`.

    A point becomes a comma, so that 1.000, which may be meant as a thousand, is no number.
    """
    for name in numbers:
        text = rows[name].cast(pa.large_string())
        for old, new in ((",", "\0"), (".", ","), ("\0", ".")):
            text = pc.replace_substring(text, old, new)
        rows = rows.set_column(rows.schema.get_field_index(name), name, text)
    return rows


def cut_into_spans(whole: Split) -> list[Split]:
    """Cut a text file into parts, if line ends alone end its records and it can be read from
    anywhere."""
    file = whole.file
    span_bytes = min(SPAN_BYTES, max(LEAST_SPAN_BYTES, -(-file.size // PARTS)))
    if is_changed(file.path) or file.multiline or file.size <= span_bytes:
        return [whole]
    spans = spans_of(file.size, span_bytes)
    return [replace(whole, span=span, rows=whole.rows // len(spans)) for span in spans]


def read_csv(stream: IO[bytes], split: Split) -> Iterator[ReadBatch]:
    """Yield rows of the records of a CSV file that begin in the split."""
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
    """Return names of the columns, and the text of the split's records."""
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
    """Yield rows of the lines of a JSON Lines file that begin in the split."""
    text: Readable = stream
    mark = _after_mark(stream)
    if split.span is not None:
        begin, end = records_in(stream, split.span, split.file.size, carriage_returns=False)
        text = Bounded(stream, max(begin, mark), end)
    for rows, malformed in read_json_rows(text, split.to_read, split.truths, BLOCK_BYTES):
        yield batch_of(with_codes(rows, split.items), malformed)


def _after_mark(stream: IO[bytes]) -> int:
    """Move to the first byte of the text, after a byte order mark; return its place."""
    stream.seek(0)
    if stream.read(len(BYTE_ORDER_MARK)) != BYTE_ORDER_MARK:
        return stream.seek(0)
    return len(BYTE_ORDER_MARK)


class Bounded:
    """Bytes of a stream from one place to another."""

    def __init__(self, stream: IO[bytes], start: int, end: int) -> None:
        stream.seek(start)
        self._stream = stream
        self._left = max(0, end - start)

    def read(self, size: int) -> bytes:
        """Return the next bytes, at most `size`; none at the end."""
        found = self._stream.read(min(size, self._left))
        self._left -= len(found)
        return found


def spans_of(size: int, span_bytes: int) -> list[tuple[int, int]]:
    """Cut a file of `size` bytes into spans, in order: each begins where the one before it ends."""
    starts = range(0, max(size, 1), span_bytes)
    return [(start, min(start + span_bytes, size)) for start in starts]


def records_in(
    stream: IO[bytes], span: tuple[int, int], size: int, *, carriage_returns: bool
) -> tuple[int, int]:
    """Find the beginning of a span's first record, and the end of its last one.

    Args:
        stream: the file, seekable.
        span: a span from `spans_of`.
        size: bytes of the file.
        carriage_returns: whether a carriage return without a line feed also ends a line.
    """
    begin, end = (_record_start(stream, at, size, carriage_returns) for at in span)
    return begin, end


def _record_start(stream: IO[bytes], at: int, size: int, carriage_returns: bool) -> int:
    """Find the first place, from `at` on, where a record begins; the file's end if none does."""
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
