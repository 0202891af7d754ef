"""Read a part of the input as Arrow batches, with only the columns that are needed.

A `Split` is the unit of parallel work: some row groups of a Parquet file, or some bytes of a text
file.
Lines that are not rows at all are returned separately, for the confidential area.

A row is readable if each of its texts is valid UTF-8 of at most `MOST_TEXT_BYTES` bytes. The
meaning of a row follows from its own bytes, so a row whose text breaks a rule is set aside alone.
The bound on texts is public; it keeps the work on one row small, whatever its content."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import IO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from hushrank.transforms.common.catalogue import integers_of_floats, is_ascii
from hushrank.transforms.common.local_files import being_read
from hushrank.transforms.common.schema import (
    DECIMALS,
    TRUTHS,
    Columns,
    InputError,
    by_distinct,
    is_list,
    is_text,
    to_numpy,
)
from hushrank.transforms.engine import in_process
from hushrank.transforms.storage.arrow_rows import orc_head, read_arrow, read_orc
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
    with_columns,
    with_fields,
)
from hushrank.transforms.storage.parquet_rows import read_parquet
from hushrank.transforms.storage.preflib import SCHEMA, read_header, read_rows
from hushrank.transforms.storage.split import (
    Head,
    ReadBatch,
    RowGroup,
    Split,
    batch_of,
    batch_rows,
    cut_into_spans,
    joined,
    read_csv,
    read_json_lines,
    with_codes,
)
from hushrank.transforms.storage.text_lines import HEADER_BYTES, is_packed
from hushrank.transforms.storage.window import misses_night
from hushrank.transforms.tables.names import DataFile, ServedTable, in_order

MOST_TEXT_BYTES = 4096
NOT_UTF8 = "a text is not UTF-8"
NOT_A_NAME = "a user or an event is a number that is not whole, or too large to be exact"
TOO_LONG = f"a text is longer than {MOST_TEXT_BYTES} bytes"

_FINE, _LONG, _BROKEN, _NAMELESS = 0, 1, 2, 3
_VIEWS = (  # types of which Arrow finds no lengths; texts are not checked as they are converted
    (pa.types.is_string_view, pa.large_string()),
    (pa.types.is_binary_view, pa.large_binary()),
)
# Well-formed UTF-8, byte by byte (table 3-7 of the Unicode standard).
_WELL_FORMED = (
    r"^(?:[\x00-\x7F]|[\xC2-\xDF][\x80-\xBF]|\xE0[\xA0-\xBF][\x80-\xBF]"
    r"|[\xE1-\xEC\xEE\xEF][\x80-\xBF]{2}|\xED[\x80-\x9F][\x80-\xBF]"
    r"|\xF0[\x90-\xBF][\x80-\xBF]{2}|[\xF1-\xF3][\x80-\xBF]{3}|\xF4[\x80-\x8F][\x80-\xBF]{2})*$"
)

Flaws = NDArray[np.int8]
USUALLY_UNPACKED = 8  # bytes of text that gzip makes of one; likewise
THREADED_ROWS = 1 << 16  # least rows of a split that several threads decode
CSV_BYTES_PER_ROW = 24  # bytes of a short row; they only decide how work is split
TIMELESS = "no time in the column of the window"


def set_unreadable_apart(
    rows: pa.RecordBatch, identities: Collection[str]
) -> tuple[pa.RecordBatch, pa.Table | None]:
    """Split the rows of a batch by whether all of their texts are readable.

    Args:
        rows: rows from a reader.
        identities: columns of names, whose bytes alone count; in a binary type they need not be
            UTF-8, for example if a UUID of 16 bytes names each person.

    Returns:
        The readable rows, in order, with strings instead of bytes except in `identities`, and there
        with integers instead of floats; the other rows with the column `reason`, None if there are
        none.
    """
    for place, field in enumerate(rows.schema):
        for is_view, plain in _VIEWS:
            if is_view(field.type):
                rows = rows.set_column(place, field.name, rows.column(place).cast(plain))
    flaws, named = np.zeros(len(rows), np.int8), rows
    for name in identities:
        if _holds_floats(rows[name].type):
            integers, nameless = integers_of_floats(rows[name])
            named = named.set_column(rows.schema.names.index(name), name, integers)
            flaws[nameless] = _NAMELESS
    texts = [name for name in rows.schema.names if _holds_text(rows[name].type)]
    as_bytes = {name for name in texts if name in identities and _is_binary(rows[name].type)}
    for name in texts:
        np.maximum(flaws, _flaws_of_cells(rows[name], utf8=name not in as_bytes), out=flaws)
    rejects = None
    if flaws.any():
        of_flaw = pa.array([None, TOO_LONG, NOT_UTF8, NOT_A_NAME])
        reasons = of_flaw.take(pa.array(flaws[flaws > 0]))
        rejects = as_rejects(rows.filter(pa.array(flaws > 0)), reasons)
        named = named.filter(pa.array(flaws == 0))
    rows = named
    for name in texts:
        if name not in as_bytes and not _is_plain_string(rows[name].type):
            strings = _on_values(rows[name], _strings)
            rows = rows.set_column(rows.schema.names.index(name), name, strings)
    return rows, rejects


def as_rejects(rows: pa.RecordBatch, reasons: pa.Array) -> pa.Table:
    r"""Rows with the column `reason`, with all texts as strings; bytes appear as in `\xe9`."""
    columns = {name: _on_values(rows[name], _shown) for name in rows.schema.names}
    return pa.table({**columns, "reason": reasons})


def _holds_floats(type_: pa.DataType) -> bool:
    if pa.types.is_dictionary(type_):
        return _holds_floats(type_.value_type)
    return bool(pa.types.is_floating(type_))


def _holds_text(type_: pa.DataType) -> bool:
    return is_text(type_.value_type if is_list(type_) else type_)


def is_string(type_: pa.DataType) -> bool:
    """Whether a type is of texts that are UTF-8 by its own rules, plain or dictionary-encoded."""
    if pa.types.is_dictionary(type_):
        return is_string(type_.value_type)
    return bool(pa.types.is_string_view(type_) or not _is_binary(type_))


def _is_binary(type_: pa.DataType) -> bool:
    """Whether values must be converted to become strings."""
    if pa.types.is_dictionary(type_):
        return _is_binary(type_.value_type)
    return not (pa.types.is_string(type_) or pa.types.is_large_string(type_))


def _is_plain_string(type_: pa.DataType) -> bool:
    if is_list(type_):
        return _is_plain_string(type_.value_type)
    return not pa.types.is_dictionary(type_) and is_text(type_) and not _is_binary(type_)


def _flaws_of_cells(column: pa.Array, *, utf8: bool) -> Flaws:
    """Find the flaw of each cell; for a list, the worst flaw of its items."""
    if not is_list(column.type):
        return by_distinct(column, lambda values: _flaws(values, utf8=utf8), np.int8(_FINE))
    worst = np.zeros(len(column), np.int8)
    of_item = _flaws_of_cells(column.flatten(), utf8=utf8)
    if of_item.any():
        lengths = to_numpy(pc.fill_null(pc.list_value_length(column), 0))
        np.maximum.at(worst, np.repeat(np.arange(len(column)), lengths), of_item)
    return worst


def _flaws(values: pa.Array, *, utf8: bool) -> Flaws:
    flaws = np.zeros(len(values), np.int8)
    length = pc.binary_length(values)
    if (pc.max(length).as_py() or 0) > MOST_TEXT_BYTES:
        flaws[to_numpy(pc.fill_null(pc.greater(length, MOST_TEXT_BYTES), False))] = _LONG
    if utf8 and not is_ascii(values):
        content = values.cast(pa.large_binary())
        try:
            content.cast(pa.large_string())
        except pa.ArrowInvalid:  # Arrow does not say which value is wrong
            formed = pc.match_substring_regex(content, _WELL_FORMED)
            flaws[~to_numpy(pc.fill_null(formed, True))] = _BROKEN
    return flaws


def _on_values(column: pa.Array, change: Callable[[pa.Array], pa.Array]) -> pa.Array:
    """Return a column with its texts changed, also inside dictionaries and lists."""
    if is_list(column.type):
        if not is_text(column.type.value_type):
            return column
        changed = _on_values(column.flatten(), change)
        null = pc.is_null(column)
        lengths = to_numpy(pc.fill_null(pc.list_value_length(column), 0))
        offsets = pa.array(np.append(0, np.cumsum(lengths)), pa.int64())
        return pa.LargeListArray.from_arrays(offsets, changed, mask=null)
    if not is_text(column.type):
        return column
    if pa.types.is_dictionary(column.type):
        return pa.DictionaryArray.from_arrays(column.indices, change(column.dictionary))
    return change(column)


def _strings(values: pa.Array) -> pa.Array:
    """Return the texts as strings; unreadable ones, which no row uses any more, become ''."""
    type_ = pa.large_string() if _is_binary(values.type) else values.type
    flaws = _flaws(values, utf8=True)
    if flaws.any():
        values = pc.if_else(pa.array(flaws == _FINE), values.cast(pa.large_binary()), b"")
    return values.cast(type_)


def _shown(values: pa.Array) -> pa.Array:
    if not _flaws(values, utf8=True).any() and not _is_binary(values.type):
        return values
    content = values.cast(pa.large_binary()).to_pylist()
    shown = [None if each is None else each.decode(errors="backslashreplace") for each in content]
    return pa.array(shown, pa.large_string())


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """Functions that read files of one format.

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
    """Read the footers and headers of `files`, each once, those of a store in parallel.

    Raises:
        InputError: as `check_files`.
    """
    heads: list[Head] = []
    check_files(files, columns, _schemas_of(files, columns, heads))
    return tuple(heads)


def _schemas_of(
    files: Sequence[InputFile], columns: Columns, heads: list[Head]
) -> Iterator[pa.Schema]:
    """Yield the schema of each file, in order; `heads` gets the heads."""
    known: dict[pa.Schema, pa.Schema] = {}  # heads that are sent together hold an equal one once
    for head in in_order(partial(_head_of, columns=columns), files, remote=any_remote(files)):
        schema = known.setdefault(head.schema, head.schema)
        heads.append(replace(head, schema=schema))
        yield schema


def plan_files(
    files: Sequence[InputFile], columns: Columns, heads: Sequence[Head] | None = None
) -> list[Split]:
    """Plan the splits of all `files`, from footers and headers only.

    Args:
        files: files to cut.
        columns: columns to read.
        heads: heads of the files, by `read_heads` for the same columns; None: they are read here.

    Raises:
        InputError: a column is missing or has another type, or a footer cannot be read.
    """
    if heads is None:
        heads = read_heads(files, columns)
    known = list(zip(files, heads, strict=True))
    # A file that misses the night holds no row without a time either: leaving it out changes
    # nothing.
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
    """Read schema and row groups of a file in one pass over its footer; none if not needed."""
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
        schema: schema with all of its columns.
        columns: the columns to read.
        groups: row groups of a file that is cut; None: its footer is read here.

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
    """Approximate number of rows of a text file."""
    packed = USUALLY_UNPACKED if is_packed(file.path) else 1
    return packed * file.size // CSV_BYTES_PER_ROW


def _rows_served(file: InputFile) -> int:
    """Approximate number of rows of a table, as its service states it."""
    return file.table.rows if isinstance(file.table, ServedTable) else 0


def _head_of_ballots(file: InputFile) -> Head:
    """Read the number of rows of a PrefLib file from its header; a line may stand for many
    people."""
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
    """Yield rows of `split`, in batches of at most about `BATCH_ROWS` rows.

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
                timeless = batch.timeless
                if timeless is not None:
                    timeless, _ = set_unreadable_apart(timeless, split.identities)
                yield ReadBatch(rows, batch.malformed, rejects, timeless)
        check_unchanged(split.file)
    except Exception as error:  # another content than that which was cut may break anything
        check_unchanged(split.file)
        if not isinstance(error, pa.ArrowException | OSError | UnicodeDecodeError):
            raise
        raise InputError(
            f"{split.file.name}: damaged, not readable as {split.file.format}. Write it again."
        ) from None


def _of_partitions(batches: Iterator[ReadBatch], split: Split) -> Iterator[ReadBatch]:
    """Yield the rows of `batches` with the columns that the path of the file states."""
    names = split.columns
    told = tuple(each for each in split.file.partitions if each[0] in names)
    for batch in batches:
        yield replace(batch, rows=with_columns(batch.rows, told).select(names)) if told else batch


def _of_window(batches: Iterator[ReadBatch], split: Split) -> Iterator[ReadBatch]:
    """Yield the rows of `batches` whose time lies in the file's window; all rows without a
    window."""
    window = split.file.window
    if window is None:
        yield from batches
        return
    for batch in batches:
        inside, broken = window.select(batch.rows.column(window.column))
        rejects, timeless = batch.rejects, None
        if broken.any():
            timeless = batch.rows.filter(pa.array(broken))
            reasons = pa.array([TIMELESS] * len(timeless), pa.string())
            rejects = (*rejects, as_rejects(timeless, reasons))
            timeless = timeless.select(split.schema.names)
        rows = batch.rows.filter(pa.array(inside)).select(split.schema.names)
        yield ReadBatch(rows, batch.malformed, rejects, timeless)


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
    """Yield rows of the split's row groups, with the columns `schema`, as the file stores them."""
    batches = read_parquet(
        stream,
        schema,
        split.row_groups,
        items,
        batch_rows(split.schema),
        remote=is_remote(split.file.path),
        # On Beam without Arrow's threads: Beam reads other splits at the same time, and the threads
        # would only wait for each other. Of few rows, waking them costs more than decoding.
        threads=in_process.is_chosen() and split.rows >= THREADED_ROWS,
    )
    return joined(batches, batch_rows(split.schema))


def _read_preflib(stream: IO[bytes], split: Split) -> Iterator[ReadBatch]:
    for rows, refused in read_rows(split.file.path, stream):
        yield ReadBatch(rows.select(split.schema.names), tuple(map(str, refused)))


def _cut_into_streams(whole: Split) -> list[Split]:
    """List the streams of a table whose rows a service sends; it sends only rows of the window."""
    from hushrank.transforms.tables.bigquery import night_condition, streams_of

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
    from hushrank.transforms.tables.bigquery import read_stream

    for rows in read_stream(_served(split), split.stream):
        table = pa.Table.from_batches([rows]).select(split.to_read.names)
        yield batch_of(with_codes(table, split.items), ())


def _read_nothing(_: IO[bytes], split: Split) -> Iterator[ReadBatch]:
    """Refuse a split of a Beam transform, whose rows come through a graph."""
    raise ValueError(f"{split.file.name}: only a graph of Beam reads its rows")


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
    from hushrank.transforms.storage.avro_rows import read_avro  # loads fastavro

    yield from map(ReadBatch, read_avro(stream, split.to_read, batch_rows(split.schema)))


def _read_excel(stream: IO[bytes], split: Split) -> Iterator[ReadBatch]:
    from hushrank.transforms.storage.sheet_rows import read_excel

    yield from map(ReadBatch, read_excel(stream, split.to_read, batch_rows(split.schema)))


def _read_spss(stream: IO[bytes], split: Split) -> Iterator[ReadBatch]:
    from hushrank.transforms.storage.sheet_rows import read_spss

    yield from map(ReadBatch, read_spss(stream, split.to_read, batch_rows(split.schema)))


READERS: dict[FileFormat | Service, Reader] = {
    FileFormat.PARQUET: Reader(read=_read_parquet, head=_head_of_parquet, rows=_rows_of_text),
    FileFormat.CSV: Reader(read=read_csv, rows=_rows_of_text, cut=cut_into_spans),
    FileFormat.JSONL: Reader(read=read_json_lines, rows=_rows_of_text, cut=cut_into_spans),
    FileFormat.AVRO: Reader(read=_read_avro, rows=_rows_of_text),
    FileFormat.ORC: Reader(read=_read_orc, head=_head_of_orc, rows=_rows_of_text),
    FileFormat.ARROW: Reader(read=_read_arrow, rows=_rows_of_text),
    FileFormat.PREFLIB: Reader(read=_read_preflib, head=_head_of_ballots, rows=_rows_of_text),
    FileFormat.EXCEL: Reader(read=_read_excel, rows=_rows_of_text),
    FileFormat.SPSS: Reader(read=_read_spss, rows=_rows_of_text),
    Service.BIGQUERY: Reader(read=_read_served, rows=_rows_served, cut=_cut_into_streams),
    Service.BEAM: Reader(read=_read_nothing, rows=lambda _: 0, cut=lambda _: []),
}
