"""Part of the input that is read as one piece of work, and its batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from hushrank.transforms.common.schema import is_list
from hushrank.transforms.storage.files import InputFile
from hushrank.transforms.storage.parquet_rows import LIST_ITEMS

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
        is_small = len(batch) < SMALL_ROWS and batch.nbytes < SMALL_BYTES
        full = rows >= SMALL_ROWS or rows + len(batch) > most_rows or n_bytes >= SMALL_BYTES
        if small and (full or not is_small or batch.schema != small[0].schema):
            yield from _as_one(small)
            small, rows, n_bytes = [], 0, 0
        if is_small:
            small.append(batch)
            rows, n_bytes = rows + len(batch), n_bytes + batch.nbytes
        else:
            yield batch
    yield from _as_one(small)


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
