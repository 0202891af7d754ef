"""Read a part of the input as Arrow batches, with only the columns that are needed.

A `Split` is the unit of parallel work: some row groups of a Parquet file, or some bytes of a text
file.
Lines that are not rows at all are returned separately, for the confidential area.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import IO

import pyarrow as pa
import pyarrow.parquet as pq

from hushrank.transforms.common.schema import (
    DECIMALS,
    TRUTHS,
    Columns,
    InputError,
    is_text,
)
from hushrank.transforms.engine import in_process
from hushrank.transforms.storage.arrow_rows import orc_head, read_arrow, read_orc
from hushrank.transforms.storage.avro_rows import read_avro
from hushrank.transforms.storage.cells import as_rejects, is_string, set_unreadable_apart
from hushrank.transforms.storage.csv_header import (
    HEADER_BYTES,
)
from hushrank.transforms.storage.files import (
    FileFormat,
    InputFile,
    Service,
    any_remote,
    check_files,
    check_unchanged,
    is_remote,
    open_file,
    parquet_footer,
    read_schema,
)
from hushrank.transforms.storage.packing import is_packed
from hushrank.transforms.storage.parquet_rows import misses_night, read_parquet
from hushrank.transforms.storage.partitions import with_columns, with_fields
from hushrank.transforms.storage.preflib import read_header, read_rows
from hushrank.transforms.storage.split import (
    Head,
    ReadBatch,
    RowGroup,
    Split,
    batch_of,
    batch_rows,
    with_codes,
)
from hushrank.transforms.storage.text_files import cut_into_spans, read_csv, read_json_lines
from hushrank.transforms.tables.asking import in_order
from hushrank.transforms.tables.bigquery import night_condition, read_stream, streams_of
from hushrank.transforms.tables.parts import DataFile, ServedTable

USUALLY_UNPACKED = 8  # bytes of text that gzip makes of one; likewise
CSV_BYTES_PER_ROW = 24  # for short rows; only decides how work is split
TIMELESS = "no time in the column of the window"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """How files of one format are read.

    Attributes:
        read: the rows of a split, from the open file.
        head: schema and row groups, in one reading of the footer; None: the file is not cut.
        rows: about how many rows a file has that is not cut.
        cut: cuts the split of a whole text file, or of a table whose rows a service sends.
    """

    read: Callable[[IO[bytes], Split], Iterator[ReadBatch]]
    head: Callable[[InputFile], Head] | None = None
    rows: Callable[[InputFile], int]
    cut: Callable[[Split], list[Split]] | None = None


def plan_files(files: Sequence[InputFile], columns: Columns) -> list[Split]:
    """The splits of all `files`, from footers and headers only.

    Raises:
        InputError: a column is missing or has another type, or a footer cannot be read.
    """
    files = of_their_night(files)
    heads = list(in_order(partial(_head_of, columns=columns), files, remote=any_remote(files)))
    check_files(files, columns, (schema for schema, _ in heads))
    return [
        split
        for file, (schema, groups) in zip(files, heads, strict=True)
        for split in plan_splits(file, schema, columns, groups)
    ]


def of_their_night(files: Sequence[InputFile]) -> Sequence[InputFile]:
    """The files without those of a table that hold no row of the night, by the table's statistics.

    They hold no row without a time either, so leaving them out changes nothing.
    """
    return [file for file in files if not _misses_night(file)] or files[:1]


def _misses_night(file: InputFile) -> bool:
    span = file.table.span if isinstance(file.table, DataFile) else None
    return file.window is not None and span is not None and file.window.misses(*span)


def _head_of(file: InputFile, columns: Columns) -> Head:
    """Schema and row groups of a file, in one reading of its footer."""
    reader = READERS[file.format]
    if reader.head is None:
        return read_schema(file, columns), []
    schema, groups = reader.head(file)
    return with_fields(schema, file.partitions), groups


def _head_of_parquet(file: InputFile) -> Head:
    window, table = file.window, file.table
    if not isinstance(table, DataFile):
        footer = parquet_footer(file)
        schema, times = footer.schema.to_arrow_schema(), None if window is None else window.column
    else:
        footer, schema = parquet_footer(file), table.layout.schema
        stored = footer.schema.to_arrow_schema()
        column = [] if window is None else [window.column]
        times = next(iter(table.columns_of(stored, column).values()), None)
    return schema, [
        RowGroup(
            footer.row_group(i).num_rows,
            window is not None and times is not None and misses_night(footer, i, window, times),
        )
        for i in range(footer.num_row_groups)
    ]


def plan_splits(
    file: InputFile, schema: pa.Schema, columns: Columns, groups: list[RowGroup] | None = None
) -> list[Split]:
    """Cut `file` into splits of about `BATCH_ROWS` rows, or of `SPAN_BYTES` bytes of text.

    Args:
        file: the file to cut.
        schema: all of its columns.
        columns: the columns to read.
        groups: of a file that is cut; None: its footer is read here.

    Raises:
        InputError: a Parquet footer cannot be read.
    """
    needed = pa.schema([schema.field(name) for name in columns.names()])
    items = tuple(name for name in columns.item_names() if is_text(schema.field(name).type))
    window = file.window
    times = schema.field(window.column) if window and window.column not in needed.names else None
    whose = (columns.user, getattr(columns, "event", None))
    identities = tuple(name for name in whose if name and not is_string(schema.field(name).type))
    reader = READERS[file.format]
    if reader.head is None:
        roles = columns.roles()
        whole = Split(
            file,
            needed,
            items,
            row_groups=(),
            rows=reader.rows(file),
            times=times,
            identities=identities,
            truths=frozenset(name for role, name in roles if role in TRUTHS),
            numbers=frozenset(name for role, name in roles if role in DECIMALS),
        )
        return [whole] if reader.cut is None else reader.cut(whole)
    if groups is None:
        _, groups = reader.head(file)
    if not groups:
        return [Split(file, needed, items, (), 0, times=times, identities=identities)]
    splits: list[Split] = []
    together: list[int] = []
    rows = 0
    # One group is kept even if all miss the window: a split needs one.
    candidates = [place for place, group in enumerate(groups) if not group.misses] or [0]
    for place in candidates:
        together.append(place)
        rows += groups[place].rows
        if rows >= batch_rows(needed) or place == candidates[-1]:
            chosen = tuple(together)
            splits.append(
                Split(file, needed, items, chosen, rows, times=times, identities=identities)
            )
            together, rows = [], 0
    return splits


def _rows_of_text(file: InputFile) -> int:
    """About how many rows a text file has."""
    packed = USUALLY_UNPACKED if is_packed(file.path) else 1
    return packed * file.size // CSV_BYTES_PER_ROW


def _rows_served(file: InputFile) -> int:
    """About how many rows a table has by the word of its service."""
    return file.table.rows if isinstance(file.table, ServedTable) else 0


def _rows_of_ballots(file: InputFile) -> int:
    """How many rows a PrefLib file has by its header; a line may stand for any number of people."""
    with open_file(file) as stream:
        header = read_header(file.path, stream.read(HEADER_BYTES))
    if header.voters is None:
        return _rows_of_text(file)
    return header.voters * len(header.names)


def _head_of_orc(file: InputFile) -> Head:
    with open_file(file) as stream:
        schema, stripes = orc_head(file.path, stream)
    return schema, [RowGroup(rows, misses=False) for rows in stripes]


def read_batches(split: Split) -> Iterator[ReadBatch]:
    """Rows of `split`, in batches of at most about `BATCH_ROWS` rows.

    Raises:
        InputError: the file is damaged, or changed since it was listed. Arrow's own text is
            dropped, because it may quote a row.
    """
    read = READERS[split.file.format].read
    try:
        with open_file(split.file) as stream:
            for batch in _of_window(_of_partitions(read(stream, split), split), split):
                rows, unreadable = set_unreadable_apart(batch.rows, split.identities)
                rejects = batch.rejects if unreadable is None else (*batch.rejects, unreadable)
                yield ReadBatch(rows, batch.malformed, rejects)
        check_unchanged(split.file)
    except (pa.ArrowException, OSError):
        check_unchanged(split.file)
        raise InputError(
            f"{split.file.name}: damaged, not readable as {split.file.format}. Write it again."
        ) from None


def _of_partitions(batches: Iterator[ReadBatch], split: Split) -> Iterator[ReadBatch]:
    """The rows of `batches` with the columns that the path of the file tells."""
    names = split.columns
    told = tuple(each for each in split.file.partitions if each[0] in names)
    for batch in batches:
        yield replace(batch, rows=with_columns(batch.rows, told).select(names)) if told else batch


def _of_window(batches: Iterator[ReadBatch], split: Split) -> Iterator[ReadBatch]:
    """The rows of `batches` whose time lies in the file's window; all rows if it has none."""
    window = split.file.window
    if window is None:
        yield from batches
        return
    for batch in batches:
        inside, broken = window.select(batch.rows.column(window.column))
        rejects = batch.rejects
        if broken.any():
            reasons = pa.array([TIMELESS] * int(broken.sum()), pa.string())
            rejects = (*rejects, as_rejects(batch.rows.filter(pa.array(broken)), reasons))
        rows = batch.rows.filter(pa.array(inside)).select(split.schema.names)
        yield ReadBatch(rows, batch.malformed, rejects)


def _read_parquet(stream: IO[bytes], split: Split) -> Iterator[ReadBatch]:
    table = split.file.table
    if not isinstance(table, DataFile):
        yield from map(ReadBatch, _parquet(stream, split, split.to_read, split.items))
        return
    stored = pq.read_schema(stream)
    found = table.columns_of(stored, split.to_read.names)
    there = list(dict.fromkeys(name for name in found.values() if name is not None))
    schema = pa.schema([stored.field(name) for name in there or stored.names[:1]])
    items = [name for each in split.items if (name := found[each]) is not None]
    for rows in _parquet(stream, split, schema, items):
        yield ReadBatch(table.as_in_table(rows, split.to_read, found))


def _parquet(
    stream: IO[bytes], split: Split, schema: pa.Schema, items: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Rows of the split's row groups, with the columns `schema`, as the file stores them."""
    return read_parquet(
        stream,
        schema,
        split.row_groups,
        items,
        batch_rows(split.schema),
        remote=is_remote(split.file.path),
        # On Beam without Arrow's threads: Beam reads other splits at the same time, and the threads
        # would only wait for each other.
        threads=in_process.is_chosen(),
    )


def _read_preflib(stream: IO[bytes], split: Split) -> Iterator[ReadBatch]:
    for rows, refused in read_rows(split.file.path, stream):
        yield ReadBatch(rows.select(split.schema.names), tuple(map(str, refused)))


def _cut_into_streams(whole: Split) -> list[Split]:
    """The streams of a table whose rows a service sends; it sends the rows of the window alone."""
    table, window = _served(whole), whole.file.window
    condition = ""
    if window is not None:
        times = whole.to_read.field(window.column)
        condition = night_condition(times, window.start, window.end, window.night.isoformat())
    most = -(-table.rows // batch_rows(whole.schema))
    streams = streams_of(table, whole.to_read.names, condition, most)
    return [replace(whole, stream=name, rows=rows) for name, rows in streams] or [whole]


def _read_served(_: IO[bytes], split: Split) -> Iterator[ReadBatch]:
    if not split.stream:  # the table has no rows
        return
    for rows in read_stream(_served(split), split.stream):
        table = pa.Table.from_batches([rows]).select(split.to_read.names)
        yield batch_of(with_codes(table, split.items), ())


def _served(split: Split) -> ServedTable:
    if not isinstance(split.file.table, ServedTable):
        raise ValueError(f"{split.file.name}: no service sends its rows")
    return split.file.table


def _read_orc(stream: IO[bytes], split: Split) -> Iterator[ReadBatch]:
    most_rows = batch_rows(split.schema)
    yield from map(ReadBatch, read_orc(stream, split.to_read, split.row_groups, most_rows))


def _read_arrow(stream: IO[bytes], split: Split) -> Iterator[ReadBatch]:
    yield from map(ReadBatch, read_arrow(stream, split.to_read, batch_rows(split.schema)))


def _read_avro(stream: IO[bytes], split: Split) -> Iterator[ReadBatch]:
    yield from map(ReadBatch, read_avro(stream, split.to_read, batch_rows(split.schema)))


READERS: dict[FileFormat | Service, Reader] = {
    FileFormat.PARQUET: Reader(read=_read_parquet, head=_head_of_parquet, rows=_rows_of_text),
    FileFormat.CSV: Reader(read=read_csv, rows=_rows_of_text, cut=cut_into_spans),
    FileFormat.JSONL: Reader(read=read_json_lines, rows=_rows_of_text, cut=cut_into_spans),
    FileFormat.AVRO: Reader(read=_read_avro, rows=_rows_of_text),
    FileFormat.ORC: Reader(read=_read_orc, head=_head_of_orc, rows=_rows_of_text),
    FileFormat.ARROW: Reader(read=_read_arrow, rows=_rows_of_text),
    FileFormat.PREFLIB: Reader(read=_read_preflib, rows=_rows_of_ballots),
    Service.BIGQUERY: Reader(read=_read_served, rows=_rows_served, cut=_cut_into_streams),
}
