"""Any table as Arrow batches of the columns that a job reads.

Values are private, so no message shows one: not even Arrow's own, which quote what they cannot
convert. Names of columns and types are public.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakSet

import pyarrow as pa
from pyarrow.interchange import from_dataframe

from hushrank.flows.errors import ConfigError
from hushrank.transforms.common.schema import Columns, InputError, check_schema, is_list, is_text

TABLE = "the table"
MIXED = (
    f"{TABLE}: column {{0}} holds values of several types, which Arrow cannot keep in one column."
    " Make them one type, for example text: table['{0}'] = table['{0}'].astype(str)"
)
UNREADABLE = (
    f"{TABLE}: its library could not hand it over as Arrow ({{}}). Pass a pyarrow.Table, or leave"
    " out columns of Python objects."
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
_ARROW = (pa.ArrowException, TypeError, ValueError, NotImplementedError, OverflowError)
_TAKEN: WeakSet[Any] = WeakSet()  # streams whose rows were taken


@dataclass(frozen=True, slots=True)
class ArrowRows:
    """The rows of a table, to be read once.

    Attributes:
        schema: of all columns that are handed over.
        batches: in the table's order.
        once: what gives its rows only once; empty: a table, which does so again.
    """

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]
    once: str = ""


def batches_of(answers: Any, columns: Columns, further: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The columns that a job reads, in plain types; the schema is checked before the first batch.

    A stream without rows is refused, because nobody can tell it from one that was read before; a
    table without rows is ranked as a file without rows is.

    Args:
        answers: the table.
        columns: the columns of the job.
        further: names of other columns that are read, such as that of a window.

    Raises:
        ConfigError: it is no table, lacks a column, or cannot be handed over.
    """
    names = list(dict.fromkeys((*columns.names(), *further)))
    rows = _rows_of(answers, columns, names)
    try:
        check_schema(TABLE, rows.schema, columns)
    except InputError as error:
        raise ConfigError(str(error)) from None
    missing = [name for name in further if name not in rows.schema.names]
    if missing:
        raise ConfigError(f"{TABLE}: column {missing[0]} not found, by which rows are selected.")
    plain = pa.schema([(name, _plain_type(rows.schema.field(name).type)) for name in names])
    return _checked(rows, plain)


def _checked(rows: ArrowRows, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    any_rows = False
    try:
        for batch in rows.batches:
            any_rows |= batch.num_rows > 0
            yield _plain(batch, schema)
    except ConfigError:
        raise
    except _ARROW as error:
        raise ConfigError(UNREADABLE.format(type(error).__name__)) from None
    if rows.once and not any_rows:
        raise ConfigError(USED_UP.format(rows.once))
    if not any_rows:
        yield pa.RecordBatch.from_pylist([], schema=schema)


def _plain(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The needed columns, without dictionaries, views and types of libraries."""
    arrays = []
    for field in schema:
        column = batch.column(field.name)
        if isinstance(column.type, pa.BaseExtensionType):
            column = column.storage
        arrays.append(column.cast(field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _plain_type(type_: pa.DataType) -> pa.DataType:
    if isinstance(type_, pa.BaseExtensionType):
        return _plain_type(type_.storage_type)
    if pa.types.is_dictionary(type_):
        return _plain_type(type_.value_type)
    if is_list(type_):
        return pa.large_list(_plain_type(type_.value_type))
    if pa.types.is_string_view(type_) or pa.types.is_string(type_):
        return pa.large_string()
    if is_text(type_) and not pa.types.is_large_string(type_):
        return pa.large_binary()
    return type_


def _rows_of(answers: Any, columns: Columns, names: Sequence[str]) -> ArrowRows:
    library = type(answers).__module__.partition(".")[0]
    if library == "pandas" and hasattr(answers, "columns"):
        return _of_pandas(answers, columns, names)
    if library == "polars":
        answers = _polars_columns(answers, names)
    try:
        if hasattr(answers, "__arrow_c_stream__"):
            return _of_stream(answers)
        if hasattr(answers, "__arrow_c_array__"):
            return _of_table(pa.Table.from_batches([pa.record_batch(answers)]))
        if hasattr(answers, "__dataframe__"):
            return _of_table(from_dataframe(answers))
    except _ARROW as error:
        raise ConfigError(UNREADABLE.format(type(error).__name__)) from None
    if isinstance(answers, Iterable) and not isinstance(answers, Mapping | str | bytes):
        return _of_iterable(answers, names)
    raise ConfigError(NO_TABLE.format(f"an object of type {type(answers).__name__}"))


def _of_stream(answers: Any) -> ArrowRows:
    once = isinstance(answers, pa.RecordBatchReader)
    if once:
        _take(answers, "reader")
    reader = pa.RecordBatchReader.from_stream(answers)
    return ArrowRows(reader.schema, iter(reader), "reader" if once else "")


def _of_table(table: pa.Table) -> ArrowRows:
    return ArrowRows(table.schema, iter(table.to_batches()))


def _take(stream: Any, what: str) -> None:
    """Note that the rows of a stream are taken.

    Raises:
        ConfigError: they were taken before.
    """
    try:
        if stream in _TAKEN:
            raise ConfigError(USED_UP.format(what))
        _TAKEN.add(stream)
    except TypeError:  # it cannot be noted: a stream without rows is refused all the same
        return


def _polars_columns(frame: Any, names: Sequence[str]) -> Any:
    """The needed columns of a polars frame, lazy or not; all of them where one is missing."""
    lazy = hasattr(frame, "collect")
    present = frame.collect_schema().names()
    if set(names) <= set(present):
        frame = frame.select(list(names))
    return frame.collect() if lazy else frame


def _of_pandas(frame: Any, columns: Columns, names: Sequence[str]) -> ArrowRows:
    present = [str(name) for name in frame.columns]
    for name in names:
        if present.count(name) != 1:
            schema = pa.schema([(each, pa.string()) for each in present])
            try:
                check_schema(TABLE, schema, columns)
            except InputError as error:
                raise ConfigError(str(error)) from None
    known = [name for name in names if name in present]
    table = {name: _array(name, frame.iloc[:, present.index(name)]) for name in known}
    return _of_table(pa.table(table))


def _array(name: str, values: Any, *, from_pandas: bool = True) -> Any:
    """One column as Arrow.

    Raises:
        ConfigError: its values have several types.
    """
    try:
        return pa.array(values, from_pandas=from_pandas)
    except _ARROW:
        raise ConfigError(MIXED.format(name)) from None


def _of_iterable(answers: Iterable[Any], names: Sequence[str]) -> ArrowRows:
    """Rows as dicts, or Arrow batches, in a list or from a generator."""
    once = iter(answers) is answers
    if once:
        _take(answers, type(answers).__name__)
    rows = iter(answers)
    first = next(rows, None)
    what = type(answers).__name__ if once else ""
    if first is None and once:
        raise ConfigError(USED_UP.format(what))
    if first is None:
        raise ConfigError(NO_COLUMNS)
    rest = itertools.chain([first], rows)
    if isinstance(first, pa.RecordBatch):
        return ArrowRows(first.schema, rest, what)
    if not isinstance(first, Mapping):
        kind = f"a {type(answers).__name__} of {type(first).__name__}"
        raise ConfigError(NO_TABLE.format(kind))
    return _of_dicts(rest, names)


def _of_dicts(rows: Iterable[Any], names: Sequence[str]) -> ArrowRows:
    present = dict[str, None]()
    columns: dict[str, list[Any]] = {name: [] for name in names}
    for row in rows:
        if not isinstance(row, Mapping):
            raise ConfigError(NO_TABLE.format("a list of dicts and other things"))
        present.update(dict.fromkeys(map(str, row)))
        for name, values in columns.items():
            values.append(row.get(name))
    table = {name: _array(name, values) for name, values in columns.items() if name in present}
    others = [name for name in present if name not in table]
    missing = {name: pa.nulls(len(columns[names[0]]), pa.string()) for name in others}
    return _of_table(pa.table({**table, **missing}))
