"""Delta tables: the data files of one version, by deltalake.

The version is chosen once, when the files are listed. Delta never changes a data file; `vacuum` may
delete one, and then it is said to be missing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa

from hushrank.transforms.common.extras import need
from hushrank.transforms.common.schema import InputError
from hushrank.transforms.tables.asking import ask
from hushrank.transforms.tables.names import CLOUD, OBJECT_PREFIXES, DeltaName, local_path
from hushrank.transforms.tables.parts import DataFile, Layout, StoredAs

if TYPE_CHECKING:
    from deltalake import DeltaTable

ADVICE = (
    "deltalake finds address and credentials of the store in the environment (AWS_…, AZURE_…,"
    " GOOGLE_…): check them there."
)
# Of what a reader must understand: what changes neither rows nor where columns stand.
UNDERSTOOD = {
    *("columnMapping", "deletionVectors", "timestampNtz", "typeWidening", "v2Checkpoint"),
    *("typeWidening-preview", "vacuumProtocolCheck", "variantType", "variantType-preview"),
}
PHYSICAL_NAME = b"delta.columnMapping.physicalName"
OPTIONS = {"timeout": "30s", "connect_timeout": "10s", "max_retries": "3", "retry_timeout": "40s"}


def files_of(name: DeltaName, times: str | None) -> list[DataFile]:
    """The data files of the table's newest or named version; a table without rows may have none.

    Args:
        name: the table.
        times: its column of times, whose lowest and highest value in each file are wanted.

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
    files = pa.table(table.get_add_actions(flatten=False)).to_pylist()
    return [_data_file(each, layout, name, times) for each in files]


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
    """The name of a column in the files, which stays when the column is renamed."""
    metadata: Mapping[bytes, bytes] = column.metadata or {}
    kept = metadata.get(PHYSICAL_NAME)
    return str(column.name) if kept is None else kept.decode()


def _data_file(
    added: Mapping[str, Any], layout: Layout, name: DeltaName, times: str | None
) -> DataFile:
    location = _location(unquote(added["path"]), name)
    named = added.get("partition") or {}
    constants = {
        column: named[kept]
        for column, stored in layout.stored.items()
        for kept in (column, *stored.names)
        if kept in named
    }
    span = None if times is None else _span(added, layout, times, constants)
    return DataFile(layout, location, int(added["size_bytes"]), constants, span)


def _location(path: str, name: DeltaName) -> str:
    """The path or URL of a data file; that of a shallow clone may lie outside the folder."""
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


def _span(
    added: Mapping[str, Any], layout: Layout, times: str, constants: Mapping[str, Any]
) -> tuple[Any, Any] | None:
    """Lowest and highest time of a file by the log, if no row lacks a time.

    The log cuts times to whole milliseconds. Both ends of a night are whole seconds, so a cut time
    lies before such an end if and only if the whole time does.
    """
    if times in constants:
        low = high = constants[times]
    elif times in layout.stored:
        (kept,) = layout.stored[times].names
        low, high, nulls = (
            (added.get(each) or {}).get(kept) for each in ("min", "max", "null_count")
        )
        if nulls != 0:
            return None
    else:
        return None
    known = isinstance(low, date) and isinstance(high, date)
    return (low, high) if known else None
