"""Iceberg tables: the data files of one snapshot, by pyiceberg.

The snapshot is chosen once, when the files are listed. Every later step reads those files, whatever
is committed meanwhile. Iceberg never changes a data file.
"""

from __future__ import annotations

import functools
import os
import struct
import threading
import time
from collections.abc import Mapping
from typing import IO, TYPE_CHECKING, Any

from hushrank.transforms.common.extras import need
from hushrank.transforms.common.schema import InputError
from hushrank.transforms.tables.names import (
    Answering,
    DataFile,
    IcebergName,
    Layout,
    StoredAs,
    ask,
    explained,
    local_path,
)

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.table import FileScanTask, Table

ADVICE = (
    "pyiceberg finds address and credentials of the catalog in .pyiceberg.yaml or PYICEBERG_CATALOG"
    "__… of the environment: check them there."
)
FRESH = 1800  # seconds for which a loaded table, and credentials that came with it, are used

_lock = threading.Lock()


def files_of(name: IcebergName, times: str | None) -> list[DataFile]:
    """List the data files of the table's newest or named snapshot; an empty table may have none.

    Args:
        name: the table.
        times: column of times, whose lowest and highest value in each file are wanted.

    Raises:
        InputError: the catalog cannot be asked, or there is no such table or snapshot; or rows of
            the table are deleted by delete files, or stored in another format than Parquet.
    """
    need("iceberg", name.url)
    return ask(lambda: _files_of(name, times), name.url, ADVICE)


def open_file(file: DataFile, name: IcebergName) -> IO[bytes]:
    """Open a data file that is not local, through the table's catalog.

    Raises:
        InputError: the file cannot be opened.
    """
    need("iceberg", name.url)
    table = ask(lambda: _loaded(name), name.url, ADVICE)
    with explained(file.name, ADVICE):
        opened = table.io.new_input(file.location).open()
    return Answering(opened, file.name, ADVICE)  # type: ignore[return-value]


def _files_of(name: IcebergName, times: str | None) -> list[DataFile]:
    table = _load(name)
    snapshot = _snapshot(table, name)
    if snapshot is None:
        return []
    pinned = name.snapshot is not None or name.ref is not None
    scan = table.scan(snapshot_id=snapshot)
    schema = scan.projection() if pinned else table.schema()
    layout = Layout(
        name.url,
        f"{table.metadata.table_uuid}/{snapshot}/{schema.schema_id}",
        schema.as_arrow(),
        _stored(schema, table),
    )
    defaults = {
        each.name: each.initial_default
        for each in schema.fields
        if each.initial_default is not None
    }
    return [_data_file(task, layout, table, schema, defaults, times) for task in scan.plan_files()]


def _load(name: IcebergName) -> Table:
    from pyiceberg.catalog import load_catalog
    from pyiceberg.exceptions import (
        NoSuchNamespaceError,
        NoSuchTableError,
        NotInstalledError,
    )

    try:
        catalog = load_catalog(name.catalog)
    except ValueError:
        raise InputError(
            f"{name.url}: no catalog {name.catalog} is configured for pyiceberg. Name it in"
            f" .pyiceberg.yaml, or set PYICEBERG_CATALOG__{name.catalog.upper()}__URI. Nothing was"
            " spent."
        ) from None
    except NotInstalledError:
        raise InputError(
            f"{name.url}: this kind of catalog needs a further part of pyiceberg. Install it, for"
            " example: pip install 'pyiceberg[sql-postgres]' or 'pyiceberg[glue]'. Nothing was"
            " spent."
        ) from None
    try:
        return catalog.load_table(name.table)
    except (NoSuchTableError, NoSuchNamespaceError):
        raise InputError(
            f"{name.url}: no such table in catalog {name.catalog}. Check input.paths; nothing was"
            " read."
        ) from None


def _loaded(name: IcebergName) -> Table:
    with _lock:
        return _kept(name, os.getpid(), int(time.monotonic() // FRESH))


@functools.lru_cache(maxsize=4)
def _kept(name: IcebergName, _process: int, _age: int) -> Table:
    return _load(name)


def _snapshot(table: Table, name: IcebergName) -> int | None:
    """Return the id of the snapshot to read; None: nothing was ever written to the table."""
    if name.snapshot is not None:
        found = table.metadata.snapshot_by_id(name.snapshot)
    elif name.ref is not None:
        found = table.snapshot_by_name(name.ref)
    else:
        found = table.current_snapshot()
        if found is None:
            return None
    if found is None:
        raise InputError(
            f"{name.url}: the table has no such snapshot, or it has expired. Name one that is"
            " there, or none for the newest."
        )
    return int(found.snapshot_id)


def _stored(schema: Schema, table: Table) -> dict[str, StoredAs]:
    mapping = table.metadata.name_mapping()
    names = {} if mapping is None else {each.field_id: tuple(each.names) for each in mapping.root}
    return {
        each.name: StoredAs(each.field_id, names.get(each.field_id, ())) for each in schema.fields
    }


def _data_file(
    task: FileScanTask,
    layout: Layout,
    table: Table,
    schema: Schema,
    defaults: Mapping[str, Any],
    times: str | None,
) -> DataFile:
    file = task.file
    if task.delete_files:
        raise InputError(
            f"{layout.table}: rows are deleted by delete files, which hushrank does not apply."
            " Rewrite its data files first (in Spark: CALL system.rewrite_data_files with"
            " 'delete-file-threshold' 1), or set write.delete.mode and write.update.mode:"
            " copy-on-write. Nothing was spent."
        )
    if file.file_format.value.lower() != "parquet":
        raise InputError(
            f"{layout.table}: has data files in {file.file_format.value}; only Parquet is read."
            " Rewrite the table with write.format.default: parquet. Nothing was spent."
        )
    location = local_path(file.file_path) or file.file_path
    constants = {**defaults, **_partition(task, table, schema)}
    span = None if times is None or times not in layout.stored else _span(task, schema, times)
    return DataFile(layout, location, int(file.file_size_in_bytes), constants, span)


def _partition(task: FileScanTask, table: Table, schema: Schema) -> dict[str, Any]:
    """Values of the columns that partition the table without a transform.

    Files that were moved into a table from Hive do not hold them.
    """
    from pyiceberg.transforms import IdentityTransform

    spec = table.metadata.specs().get(task.file.spec_id)
    fields = () if spec is None else spec.fields
    named = ((schema.find_column_name(each.source_id), place) for place, each in enumerate(fields))
    return {
        column: task.file.partition[place]
        for column, place in named
        if column is not None and isinstance(fields[place].transform, IdentityTransform)
    }


def _span(task: FileScanTask, schema: Schema, times: str) -> tuple[int, int] | None:
    """Lowest and highest time of a file by the table's statistics, if no row lacks a time."""
    from pyiceberg.conversions import from_bytes
    from pyiceberg.types import DateType, TimestampType, TimestamptzType

    column, file = schema.find_field(times), task.file
    low = (file.lower_bounds or {}).get(column.field_id)
    high = (file.upper_bounds or {}).get(column.field_id)
    if low is None or high is None or (file.null_value_counts or {}).get(column.field_id) != 0:
        return None
    kind = column.field_type
    if not isinstance(kind, DateType | TimestampType | TimestamptzType):
        return None
    try:
        return int(from_bytes(kind, low)), int(from_bytes(kind, high))
    except struct.error:  # the column had a smaller type when the file was written
        return None
