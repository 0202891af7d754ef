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
from hushrank.transforms.engine.being_read import being_read
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
from hushrank.transforms.storage.parquet_rows import read_parquet
from hushrank.transforms.storage.partitions import with_columns, with_fields
from hushrank.transforms.storage.preflib import SCHEMA, read_header, read_rows
from hushrank.transforms.storage.split import (
    Head,
    ReadBatch,
    RowGroup,
    Split,
    batch_of,
    batch_rows,
    joined,
    with_codes,
)
from hushrank.transforms.storage.text_files import cut_into_spans, read_csv, read_json_lines
from hushrank.transforms.storage.window import misses_night
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
        head: schema and row groups, in one reading of the footer or header; None: the file has no
            groups, and what it says of rows is its size.
        rows: about how many rows a file without groups has.
        cut: cuts the split of a whole text file, or of a table whose rows a service sends.
    """

    read: Callable[[IO[bytes], Split], Iterator[ReadBatch]]
    head: Callable[[InputFile], Head] | None = None
    rows: Callable[[InputFile], int]
    cut: Callable[[Split], list[Split]] | None = None


def read_heads(files: Sequence[InputFile], columns: Columns) -> tuple[Head, ...]:
    """What the footers and headers of `files` say, each read once, those of a store side by side.

    Raises:
        InputError: as `check_files`.
    """
    heads: list[Head] = []
    check_files(files, columns, _schemas_of(files, columns, heads))
    return tuple(heads)


def _schemas_of(
    files: Sequence[InputFile], columns: Columns, heads: list[Head]
) -> Iterator[pa.Schema]:
    """The schema of each file, in order; `heads` gets the heads."""
    known: dict[pa.Schema, pa.Schema] = {}  # heads that are sent together hold an equal one once
    for head in in_order(partial(_head_of, columns=columns), files, remote=any_remote(files)):
        schema = known.setdefault(head.schema, head.schema)
        heads.append(replace(head, schema=schema))
        yield schema


def plan_files(
    files: Sequence[InputFile], columns: Columns, heads: Sequence[Head] | None = None
) -> list[Split]:
    """The splits of all `files`, from footers and headers only.

    Args:
        files: to cut.
        columns: to read.
        heads: of the files, by `read_heads` for the same columns; None: they are read here.

    Raises:
        InputError: a column is missing or has another type, or a footer cannot be read.
    """
    if heads is None:
        heads = read_heads(files, columns)
    known = list(zip(files, heads, strict=True))
    # What misses the night holds no row without a time either: leaving it out changes nothing.
    of_night = [each for each in known if not _misses_night(each[0])] or known[:1]
    return [
        split
        for file, head in of_night
        for split in plan_splits(file, head.schema, columns, head.groups)
    ]


def _misses_night(file: InputFile) -> bool:
    """Whether a file of a table holds no row of the night, by the table's statistics."""
    table, window = file.table, file.window
    if window is None or not isinstance(table, DataFile) or table.span is None:
        return False
    return window.misses(*table.span, table.layout.schema.field(window.column).type)


def _head_of(file: InputFile, columns: Columns) -> Head:
    """Schema and row groups of a file, in one reading of its footer; none if it is not needed."""
    reader = READERS[file.format]
    if reader.head is None or _misses_night(file):
        return Head(read_schema(file, columns))
    with being_read(file.name):
        head = reader.head(file)
    # Notes on the whole, as pandas writes them, differ with a file's rows, and nobody reads them.
    return replace(head, schema=with_fields(head.schema, file.partitions).remove_metadata())


def _head_of_parquet(file: InputFile) -> Head:
    window, table = file.window, file.table
    if not isinstance(table, DataFile):
        footer = parquet_footer(file)
        schema = stored = footer.schema.to_arrow_schema()
        times = None if window is None else window.column
    else:
        footer, schema = parquet_footer(file), table.layout.schema
        stored = footer.schema.to_arrow_schema()
        # A column that the table lacks is told of by the check of schemas.
        named = [window.column] if window and window.column in table.layout.stored else []
        times = next(iter(table.columns_of(stored, named).values()), None)
    # A column that is missing or occurs twice is told of later, too.
    column = stored.field(times) if stored.names.count(times) == 1 else None
    groups = (
        RowGroup(
            footer.row_group(i).num_rows,
            window is not None and column is not None and misses_night(footer, i, window, column),
        )
        for i in range(footer.num_row_groups)
    )
    return Head(schema, tuple(groups))


def plan_splits(
    file: InputFile, schema: pa.Schema, columns: Columns, groups: Sequence[RowGroup] | None = None
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
        groups = reader.head(file).groups
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


def _head_of_ballots(file: InputFile) -> Head:
    """How many rows a PrefLib file has by its header; a line may stand for any number of people."""
    with open_file(file) as stream:
        header = read_header(file.path, stream.read(HEADER_BYTES))
    voters = header.voters
    rows = _rows_of_text(file) if voters is None else voters * len(header.names)
    return Head(SCHEMA, (RowGroup(rows, misses=False),))


def _head_of_orc(file: InputFile) -> Head:
    with open_file(file) as stream:
        schema, stripes = orc_head(file.path, stream)
    return Head(schema, tuple(RowGroup(rows, misses=False) for rows in stripes))


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
    except Exception as error:  # another content than that which was cut may break anything
        check_unchanged(split.file)
        if not isinstance(error, pa.ArrowException | OSError | UnicodeDecodeError):
            raise
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
    batches = read_parquet(
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
    return joined(batches, batch_rows(split.schema))


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
    batches = read_orc(stream, split.to_read, split.row_groups, most_rows)
    yield from map(ReadBatch, joined(batches, most_rows))


def _read_arrow(stream: IO[bytes], split: Split) -> Iterator[ReadBatch]:
    most_rows = batch_rows(split.schema)
    batches = read_arrow(stream, split.to_read, most_rows)
    yield from map(ReadBatch, joined(batches, most_rows))


def _read_avro(stream: IO[bytes], split: Split) -> Iterator[ReadBatch]:
    yield from map(ReadBatch, read_avro(stream, split.to_read, batch_rows(split.schema)))


READERS: dict[FileFormat | Service, Reader] = {
    FileFormat.PARQUET: Reader(read=_read_parquet, head=_head_of_parquet, rows=_rows_of_text),
    FileFormat.CSV: Reader(read=read_csv, rows=_rows_of_text, cut=cut_into_spans),
    FileFormat.JSONL: Reader(read=read_json_lines, rows=_rows_of_text, cut=cut_into_spans),
    FileFormat.AVRO: Reader(read=_read_avro, rows=_rows_of_text),
    FileFormat.ORC: Reader(read=_read_orc, head=_head_of_orc, rows=_rows_of_text),
    FileFormat.ARROW: Reader(read=_read_arrow, rows=_rows_of_text),
    FileFormat.PREFLIB: Reader(read=_read_preflib, head=_head_of_ballots, rows=_rows_of_text),
    Service.BIGQUERY: Reader(read=_read_served, rows=_rows_served, cut=_cut_into_streams),
}
