"""Delta tables: the data files of one version, by deltalake.

The version is chosen once, when the files are listed. Delta never changes a data file; `vacuum` may
delete one, and then it is said to be missing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from hushrank.transforms.common.extras import need
from hushrank.transforms.common.schema import InputError
from hushrank.transforms.tables.names import (
    CLOUD,
    OBJECT_PREFIXES,
    DataFile,
    DeltaName,
    Layout,
    StoredAs,
    ask,
    local_path,
)

if TYPE_CHECKING:
    from deltalake import DeltaTable

ADVICE = (
    "deltalake finds the store's address and credentials in the environment (AWS_…, AZURE_…,"
    " GOOGLE_…): check them there."
)
# Features that a reader must understand: what changes neither rows nor where columns stand.
UNDERSTOOD = {
    *("columnMapping", "deletionVectors", "timestampNtz", "typeWidening", "v2Checkpoint"),
    *("typeWidening-preview", "vacuumProtocolCheck", "variantType", "variantType-preview"),
}
PHYSICAL_NAME = b"delta.columnMapping.physicalName"
OPTIONS = {"timeout": "30s", "connect_timeout": "10s", "max_retries": "3", "retry_timeout": "40s"}


def files_of(name: DeltaName, times: str | None) -> list[DataFile]:
    """List the data files of the table's newest or named version; an empty table may have none.

    Args:
        name: the table.
        times: column of times, whose lowest and highest value in each file are wanted.

    Raises:
        InputError: the table cannot be read, or there is no such table or version; or it has
            deletion vectors, or needs what this reader does not understand.
    """
    need("delta", name.url)
    return ask(lambda: _files_of(name, times), name.url, ADVICE)


def _load(name: DeltaName) -> DeltaTable:
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError, TableNotFoundError

    options = OPTIONS if "://" in name.folder else None
    missing = (
        f"{name.url}: no such Delta table. Name the folder that holds _delta_log; nothing was read."
    )
    try:
        table = DeltaTable(name.folder, storage_options=options)
    except TableNotFoundError:
        raise InputError(missing) from None
    if name.version is None:
        return table
    try:
        table.load_as_version(name.version)
    except (DeltaError, ValueError):
        raise InputError(
            f"{name.url}: the table has no such version, or its log was cleaned. Name one that is"
            " there, or none for the newest."
        ) from None
    return table


def _files_of(name: DeltaName, times: str | None) -> list[DataFile]:
    table = _load(name)
    _check_protocol(table, name)
    schema = pa.schema(table.schema().to_arrow())
    stored = {each.name: StoredAs(None, (_physical(each),)) for each in schema}
    version = f"{table.metadata().id}/{table.version()}"
    layout = Layout(name.url, version, schema.remove_metadata(), stored)
    added = pa.table(table.get_add_actions(flatten=False)).combine_chunks()
    files = zip(
        added["path"].to_pylist(),
        added["size_bytes"].to_pylist(),
        _constants(added, layout),
        _spans(added, layout, times),
        strict=True,
    )
    return [
        DataFile(layout, _location(unquote(path), name), int(size), constants, span)
        for path, size, constants, span in files
    ]


def _check_protocol(table: DeltaTable, name: DeltaName) -> None:
    protocol = table.protocol()
    unknown = sorted({*(protocol.reader_features or ())} - UNDERSTOOD)
    if protocol.min_reader_version > 3 or unknown:
        what = ", ".join(unknown) or f"reader version {protocol.min_reader_version}"
        raise InputError(
            f"{name.url}: reading the table needs {what}, which hushrank does not understand. Copy"
            " its rows to a table without that. Nothing was spent."
        )
    if "deletionVectors" not in (protocol.reader_features or ()):
        return
    if pa.table(table.deletion_vectors()).num_rows:
        raise InputError(
            f"{name.url}: rows are deleted by deletion vectors, which hushrank does not apply."
            " Rewrite its files first: REORG TABLE … APPLY (PURGE); to have none again, set"
            " delta.enableDeletionVectors = false. Nothing was spent."
        )


def _physical(column: pa.Field) -> str:
    """Name of a column in the files, which stays when the column is renamed."""
    metadata: Mapping[bytes, bytes] = column.metadata or {}
    kept = metadata.get(PHYSICAL_NAME)
    return str(column.name) if kept is None else kept.decode()


def _constants(added: pa.Table, layout: Layout) -> list[dict[str, Any]]:
    """Values of each file's partition, by the names of columns in the table."""
    found: list[dict[str, Any]] = [{} for _ in range(len(added))]
    for column, stored in layout.stored.items():
        for kept in (column, *stored.names):
            values = _part(added, "partition", kept)
            if values is not None:
                for constants, value in zip(found, _as_stored(values), strict=True):
                    constants[column] = value
    return found


def _part(added: pa.Table, struct: str, name: str) -> pa.ChunkedArray | None:
    """Column of the log's statistics for each file; None: the log has none."""
    if struct not in added.column_names or added[struct].type.get_field_index(name) < 0:
        return None
    return pc.struct_field(added[struct], name)


def _as_stored(values: pa.ChunkedArray) -> list[Any]:
    """Return Python's values, with integers for dates and times: Python has only years 1 to
    9999."""
    if pa.types.is_date32(values.type):
        values = values.cast(pa.int32())
    elif pa.types.is_timestamp(values.type):
        values = values.cast(pa.int64())
    found: list[Any] = values.to_pylist()
    return found


def _location(path: str, name: DeltaName) -> str:
    """Path or URL of a data file; a shallow clone's file may lie outside the folder."""
    if path.startswith("/") or path.startswith("file:"):
        return local_path(path) or path
    if "://" not in path:
        return f"{name.folder}/{path}"
    location = re.sub("^s3[an]://", "s3://", path)
    if not location.startswith((CLOUD, *OBJECT_PREFIXES)):
        raise InputError(
            f"{name.url}: data files of the table are at {location.partition(':')[0]}://; only"
            f" {CLOUD} and {', '.join(OBJECT_PREFIXES)} are read. Copy the table there."
        )
    return location


def _spans(added: pa.Table, layout: Layout, times: str | None) -> list[tuple[int, int] | None]:
    """Lowest and highest time of each file by the log; None if unknown, or if a row lacks a time.

    The log cuts times to whole milliseconds. Both ends of a night are whole seconds, so a cut time
    lies before such an end if and only if the whole time does.
    """
    unknown: list[tuple[int, int] | None] = [None] * len(added)
    if times is None or times not in layout.stored:
        return unknown
    (kept,) = layout.stored[times].names
    partition = _part(added, "partition", kept)
    if partition is None:
        partition = _part(added, "partition", times)
    low, high, nulls = (_part(added, each, kept) for each in ("min", "max", "null_count"))
    if partition is not None:
        low = high = partition
        nulls = pc.cast(pc.is_null(partition), pa.int64())
    if low is None or high is None or nulls is None:
        return unknown
    kind = layout.schema.field(times).type
    if low.type != kind or high.type != kind or not pa.types.is_temporal(kind):
        return unknown
    ends = zip(_as_stored(low), _as_stored(high), nulls.to_pylist(), strict=True)
    return [
        (first, last) if none == 0 and first is not None and last is not None else None
        for first, last, none in ends
    ]
