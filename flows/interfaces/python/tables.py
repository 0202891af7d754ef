"""Any table as Arrow batches of the columns that a job reads.

The type of a column comes from the caller: from an Arrow schema, or from a dtype. Where values are
Python objects, each is read alone (`flows.interfaces.python.values`). So no row decides how another
is read.

Values are private, so no message shows one, not even what a library says of a value that it cannot
convert. Names of columns and types are public.

A table in memory becomes a file of the confidential area for as long as a run needs it. Rows are
read by a child process (`flows.reading`), from files alone. So a table is written once
more, as Parquet, into a folder that only its owner can open, and deleted when the run ends, however
it ends. If the process is killed, the next run deletes the file: its writer holds a lock on it as
long as it lives.

The release key names the table by a keyed digest of its rows (`transforms.common.row_digest`) under
the ledger's key. So the same table again is the same release, and spends nothing.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import chain, islice, repeat
from pathlib import Path
from typing import Any
from weakref import WeakSet

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.interchange import from_dataframe

from hushrank.flows.errors import ConfigError, HushrankError
from hushrank.flows.interfaces.python.values import WINDOW, Rule, plain_column, plain_type
from hushrank.flows.ledger.keys import LedgerKey, Purpose
from hushrank.transforms import system
from hushrank.transforms.common.local_files import open_local, open_to_read
from hushrank.transforms.common.plain_text import hidden_character
from hushrank.transforms.common.row_digest import RowDigest
from hushrank.transforms.common.schema import Columns, InputError, check_schema
from hushrank.transforms.storage.files import FileFormat, InputFile
from hushrank.transforms.storage.places import is_stale

FOLDER = "tables"
ENDING = ".parquet"
ROWS_AT_ONCE = 1 << 20  # most rows of a row group
FEW_ROWS = 1 << 16  # batches with fewer rows are joined


@contextmanager
def table_file(
    batches: Iterable[pa.RecordBatch],
    roles: Sequence[tuple[str, str]],
    area: Path,
    key: LedgerKey,
) -> Iterator[InputFile]:
    """Write the table into the confidential area; delete it when the block ends.

    Args:
        batches: rows of the table.
        roles: role and name of each column that decides what a row means.
        area: the confidential area.
        key: key of the ledger.

    Raises:
        ConfigError: the table is none, or there is no room for it.
    """
    folder = area / FOLDER
    path = folder / f"{uuid.uuid4().hex}{ENDING}"
    try:
        for private in (area, folder):
            system.make_private_folder(private)
        _delete_dead(folder)
        descriptor = open_local(path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
    except OSError as error:
        raise _no_room(folder, error) from None
    try:
        with os.fdopen(descriptor, "wb") as stream:
            system.lock_at_once(descriptor)
            digest = RowDigest(key.derived(Purpose.ROWS), roles)
            _write(stream, batches, digest)
            status = path.stat()
            yield InputFile(
                str(path),
                status.st_size,
                str(status.st_mtime_ns),
                FileFormat.PARQUET,
                digest=key.tag(Purpose.ROWS, digest.text()),
            )
    finally:  # once it is closed: Windows deletes no file that is open
        path.unlink(missing_ok=True)


def _write(stream: object, batches: Iterable[pa.RecordBatch], digest: RowDigest) -> None:
    writer = None
    try:
        for batch in _joined(batches):
            if writer is None:
                writer = pq.ParquetWriter(stream, batch.schema)
            digest.add(batch)
            writer.write_batch(batch)
        if writer is not None:
            writer.close()
        stream.flush()  # type: ignore[attr-defined]
    except OSError as error:  # Arrow's error of a full disk is one
        raise _no_room(Path(FOLDER), error) from None


def _joined(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the same rows in batches that are neither tiny nor huge."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        if sum(each.num_rows for each in waiting) >= FEW_ROWS:
            yield from _cut(waiting)
            waiting = []
    if waiting:
        yield from _cut(waiting)


def _cut(waiting: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    table = pa.Table.from_batches(waiting).combine_chunks()
    yield from table.to_batches(ROWS_AT_ONCE) or [waiting[0]]


def _delete_dead(folder: Path) -> None:
    """Delete tables left by killed processes: no living process holds their lock."""
    for path in folder.glob(f"*{ENDING}"):
        if not is_stale(path):  # a writer may be about to lock it
            continue
        with suppress(OSError):
            with open_to_read(path) as left:
                system.lock_at_once(left.fileno())
            path.unlink(missing_ok=True)


def _no_room(folder: Path, error: OSError) -> ConfigError:
    reason = error.strerror or type(error).__name__
    return ConfigError(
        f"confidential: {folder}: the table cannot be written there ({reason}), from where it is"
        " read. Free some room, or name another folder: confidential='...'. Nothing was spent."
    )


TABLE = "the table"
BROKEN_OFF = (
    f"{TABLE}: taking its rows ended with {{}}. What that says may quote a row, so it is not shown"
    " here: take the rows yourself to read it, for example with list(rows) or frame.collect()."
    " Nothing was spent."
)
USED_UP = (
    f"{TABLE}: this {{}} gives its rows once, and they were taken already. Pass a whole table, such"
    " as reader.read_all() or list(rows). Nothing was spent."
)
NO_TABLE = (
    f"{TABLE}: {{}} is no table. Pass a pandas, polars or Arrow table, a DuckDB relation, a list of"
    " dicts, or the paths of files."
)
NO_COLUMNS = f"{TABLE}: has no rows of dicts, and so no columns. Pass a table that has columns."
TWO_SCHEMAS = (
    f"{TABLE}: column {{}} is {{}} in one batch and {{}} in another. Give all batches one schema,"
    " for example pa.RecordBatch.from_pylist(rows, schema=schema)."
)
GUESSED = (
    f"{TABLE}: column {{}} of this {{}} is a pandas column of Python objects, whose type Arrow"
    " would guess from all of its rows. Pass the pandas table itself."
)
DICTS_AT_ONCE = 1 << 16  # most dicts that are converted together
_TAKEN: WeakSet[Any] = WeakSet()  # streams whose rows were already read


@dataclass(frozen=True, slots=True)
class ArrowRows:
    """The rows of a table, to be read once.

    Attributes:
        schema: schema of all columns that are handed over.
        batches: rows in the table's order.
        once: name of what gives its rows only once; empty: a table, which gives them again.
    """

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]
    once: str = ""


def batches_of(answers: Any, columns: Columns, further: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield the columns that a job reads, in plain types; check the schema before the first batch.

    What is read of a row follows from that row and the types of the columns alone.

    A stream without rows is refused, because nobody can tell it from one that was read before; a
    table without rows is ranked as a file without rows is.

    Args:
        answers: the table.
        columns: the columns of the job.
        further: names of other columns that are read: that of a window.

    Raises:
        ConfigError: the object is no table, lacks a column, has batches of several schemas, or its
            rows cannot be taken.
    """
    roles = [*columns.roles(), *((WINDOW, name) for name in further)]
    rules = {
        name: Rule.from_roles({role for role, each in roles if each == name})
        for name in dict.fromkeys((*columns.names(), *further))
    }
    with _taking():
        rows = _rows_of(answers, rules)
    _check(rows.schema, columns, rules)
    missing = [name for name in further if name not in rows.schema.names]
    if missing:
        raise ConfigError(f"{TABLE}: column {missing[0]}, which selects the rows, was not found.")
    return _checked(rows, rules)


@contextmanager
def _taking() -> Iterator[None]:
    """Turn whatever a caller's table raises into one sentence, because its text may quote rows."""
    try:
        yield
    except (HushrankError, MemoryError):
        raise
    except BaseException as error:
        name = type(error).__name__
        # polars raises this one, which is no `Exception`
        if not isinstance(error, Exception) and name != "PanicException":
            raise  # an interrupt
        raise ConfigError(BROKEN_OFF.format(name)) from None


def _check(schema: pa.Schema, columns: Columns, rules: Mapping[str, Rule]) -> None:
    """Raise `ConfigError` unless the table has each column once, in a type that its role allows."""
    fields = [
        pa.field(field.name, plain_type(field.type, rules[field.name]))
        if field.name in rules
        else field
        for field in schema
    ]
    try:
        check_schema(TABLE, pa.schema(fields), columns)
    except InputError as error:
        raise ConfigError.from_input(error) from None


def _checked(rows: ArrowRows, rules: Mapping[str, Rule]) -> Iterator[pa.RecordBatch]:
    fields = [(name, plain_type(rows.schema.field(name).type, rules[name])) for name in rules]
    schema = pa.schema(fields)
    any_rows = False
    batches = iter(rows.batches)
    while True:
        with _taking():
            batch = next(batches, None)
            if batch is None:
                break
            plain = _plain(batch, schema, rules)
        any_rows |= plain.num_rows > 0
        yield plain
    if rows.once and not any_rows:
        raise ConfigError(USED_UP.format(rows.once))
    if not any_rows:
        yield pa.RecordBatch.from_pylist([], schema=schema)


def _plain(batch: pa.RecordBatch, schema: pa.Schema, rules: Mapping[str, Rule]) -> pa.RecordBatch:
    """Convert the needed columns of a batch to the types of `schema`.

    Raises:
        ConfigError: the batch has other types.
    """
    if not issubclass(type(batch), pa.RecordBatch):
        raise ConfigError(NO_TABLE.format("a list of batches and other things"))
    arrays = []
    for name, type_ in zip(schema.names, schema.types, strict=True):
        places = batch.schema.get_all_field_indices(name)
        if len(places) != 1:
            raise ConfigError(TWO_SCHEMAS.format(name, type_, "missing or double"))
        # the column of a sliced struct is longer than the batch
        column = batch.column(places[0])[: batch.num_rows]
        found = plain_type(column.type, rules[name])
        if found != type_:
            raise ConfigError(TWO_SCHEMAS.format(name, type_, found))
        arrays.append(plain_column(column, type_, rules[name]))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _rows_of(answers: Any, rules: Mapping[str, Rule]) -> ArrowRows:
    library = _data_frames(answers)
    if library == "pandas" and hasattr(answers, "columns"):
        return _of_pandas(answers, rules)
    if library == "polars" and hasattr(answers, "collect_schema"):
        return _of_polars(answers, rules)
    if library:
        raise ConfigError(NO_TABLE.format(f"a {library}.{type(answers).__name__}"))
    if issubclass(type(answers), pa.StructArray):  # Arrow itself refuses a null struct
        names = [field.name for field in answers.type]
        return _of_table(pa.Table.from_arrays(answers.flatten(), names))
    if hasattr(answers, "__arrow_c_stream__"):
        return _of_stream(answers, rules)
    if hasattr(answers, "__arrow_c_array__"):
        return _of_table(pa.Table.from_batches([pa.record_batch(answers)]))
    if hasattr(answers, "__dataframe__"):
        return _of_table(from_dataframe(answers))
    if isinstance(answers, Iterable) and not isinstance(answers, Mapping | str | bytes):
        return _of_iterable(answers, rules)
    raise ConfigError(NO_TABLE.format(f"an object of type {type(answers).__name__}"))


def _data_frames(answers: Any) -> str:
    """Name of the data frame library that `answers` comes from; empty if none."""
    roots = [each.__module__.partition(".")[0] for each in type(answers).__mro__]
    return next((root for root in roots if root in ("pandas", "polars")), "")


def _of_stream(answers: Any, rules: Mapping[str, Rule]) -> ArrowRows:
    once = isinstance(answers, pa.RecordBatchReader)
    if once:
        _take(answers, "reader")
    reader = pa.RecordBatchReader.from_stream(answers)
    if not type(answers).__module__.startswith("pyarrow."):
        _refuse_guesses(reader.schema, rules, type(answers).__name__)
    return ArrowRows(reader.schema, iter(reader), "reader" if once else "")


def _refuse_guesses(schema: pa.Schema, rules: Mapping[str, Rule], kind: str) -> None:
    """Refuse columns of objects of a pandas frame inside another table.

    Raises:
        ConfigError: there are such columns; pandas told Arrow so.
    """
    told = schema.pandas_metadata or {}
    for column in told.get("columns", ()):
        if column.get("numpy_type") == "object" and column.get("field_name") in rules:
            raise ConfigError(GUESSED.format(column["field_name"], kind))


def _of_table(table: pa.Table) -> ArrowRows:
    return ArrowRows(table.schema, iter(table.to_batches()))


def _take(stream: Any, what: str) -> None:
    """Record that the rows of a stream were read.

    Raises:
        ConfigError: the rows were taken before.
    """
    try:
        if stream in _TAKEN:
            raise ConfigError(USED_UP.format(what))
        _TAKEN.add(stream)
    # the taking cannot be recorded; a stream without rows is refused all the same
    except TypeError:
        return


def _of_columns(
    present: Sequence[str], columns: Mapping[str, pa.Array], rules: Mapping[str, Rule]
) -> ArrowRows:
    """Read the needed columns of a table; the types of other columns do not matter.

    Args:
        present: names of all columns.
        columns: the needed ones that occur once.
        rules: rules of the needed columns.
    """
    table = pa.table(dict(columns))
    types = {name: pa.string() for name in present} | {
        name: rule.type for name, rule in rules.items() if name in present
    }
    types |= dict(zip(table.schema.names, table.schema.types, strict=True))
    schema = pa.schema([(name, types[name]) for name in present])
    return ArrowRows(schema, iter(table.to_batches()))


def _of_polars(frame: Any, rules: Mapping[str, Rule]) -> ArrowRows:
    """Read the needed columns of a polars frame, lazy or not."""
    kinds = {name: str(kind) for name, kind in frame.collect_schema().items()}
    known = [name for name in rules if name in kinds]
    frame = frame.select(known)
    frame = frame.collect() if hasattr(frame, "collect") else frame
    columns = {
        name: rules[name].arrow(frame[name].to_list())
        if kinds[name] == "Object"
        else frame[name].to_arrow()
        for name in known
    }
    return _of_columns(list(kinds), columns, rules)


def _of_pandas(frame: Any, rules: Mapping[str, Rule]) -> ArrowRows:
    present = [str(name) for name in frame.columns]
    columns = {
        name: _of_series(frame.iloc[:, present.index(name)], rule)
        for name, rule in rules.items()
        if present.count(name) == 1
    }
    return _of_columns(present, columns, rules)


def _of_series(values: Any, rule: Rule) -> pa.Array:
    """Convert a column, or an index, of pandas."""
    dtype = values.dtype
    if hasattr(dtype, "categories"):
        categories = _of_series(dtype.categories, rule)
        if isinstance(categories, pa.ChunkedArray):
            categories = categories.combine_chunks()
        codes = values.cat.codes.to_numpy()
        return pa.DictionaryArray.from_arrays(pa.array(codes, mask=codes < 0), categories)
    is_typed = dtype.kind == "M" or (isinstance(dtype, np.dtype) and not dtype.hasobject)
    if is_typed or hasattr(values.array, "__arrow_array__"):
        with suppress(UnicodeEncodeError):  # a lone surrogate in a column of texts
            return pa.array(values, from_pandas=True)
    return rule.arrow(values.tolist())


def _of_iterable(answers: Iterable[Any], rules: Mapping[str, Rule]) -> ArrowRows:
    """Read rows as dicts, or Arrow batches, from a list or a generator."""
    once = iter(answers) is answers
    what = type(answers).__name__ if once else ""
    if once:
        _take(answers, what)
    rows = iter(answers)
    kind, n_before = "", 0
    for first in rows:
        if _is_dict(first):
            return _of_dicts(chain(repeat(None, n_before), [first], rows), rules)
        if issubclass(type(first), pa.RecordBatch) and not n_before:
            return ArrowRows(first.schema, chain([first], rows), what)
        kind, n_before = kind or type(first).__name__, n_before + 1
    if n_before:
        raise ConfigError(NO_TABLE.format(f"a {type(answers).__name__} of {kind}"))
    raise ConfigError(USED_UP.format(what) if once else NO_COLUMNS)


def _of_dicts(rows: Iterable[Any], rules: Mapping[str, Rule]) -> ArrowRows:
    """Read rows as dicts; a row that is no dict has no values, and is excluded."""
    present: dict[str, None] = {}  # names of columns, collected until all needed ones are found
    parts: dict[str, list[pa.Array]] = {name: [] for name in rules}
    while chunk := list(islice(rows, DICTS_AT_ONCE)):
        for row in chunk:
            if present.keys() >= rules.keys():
                break
            present.update(dict.fromkeys(_names_of(row)))
        for name, values in _cells(chunk, rules).items():
            parts[name].append(rules[name].arrow(values))
    columns = {
        name: pa.chunked_array(part, rules[name].type)
        for name, part in parts.items()
        if name in present
    }
    shown = [name for name in present if name in rules or hidden_character(name) is None]
    return _of_columns(shown, columns, rules)


def _cells(rows: Sequence[Any], names: Iterable[str]) -> dict[str, list[Any]]:
    """Collect the values of some rows, by column.

    Raises:
        ConfigError: one of the rows is a batch or a table.
    """
    try:
        plain = [row if type(row) is dict else _as_dict(row, names) for row in rows]
        return {name: [row.get(name) for row in plain] for name in names}
    except ConfigError:
        raise
    except Exception:  # a key of the caller's own class may raise anything
        plain = [_as_dict(row, names) for row in rows]
        return {name: [row.get(name) for row in plain] for name in names}


def _as_dict(row: Any, names: Iterable[str]) -> dict[str, Any]:
    """Return the needed values of a row; none if it is no dict, or cannot be read."""
    if issubclass(type(row), (pa.RecordBatch, pa.Table)):
        raise ConfigError(NO_TABLE.format("a list of dicts and of batches"))
    try:
        return {name: row.get(name) for name in names} if _is_dict(row) else {}
    except Exception:  # a mapping of the caller's own class may raise anything
        return {}


def _names_of(row: Any) -> list[str]:
    try:
        return [name for name in row if isinstance(name, str)] if _is_dict(row) else []
    except Exception:  # the same
        return []


def _is_dict(row: Any) -> bool:
    """Whether a row is a mapping, judged by its type, because the object itself may raise
    anything."""
    return type(row) is dict or issubclass(type(row), Mapping)
