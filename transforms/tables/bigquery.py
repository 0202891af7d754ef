"""BigQuery tables: rows as Arrow batches, by the Storage Read API.

What identifies the rows is the moment of the table's last change, or the moment that the user
names. A table that changed within `TRAVEL` is read as it was at that moment. An older state cannot
be asked for by moment; it is the present one, and after the reading the moment is compared again.

BIGQUERY_EMULATOR_HOST (a URL) and BIGQUERY_STORAGE_EMULATOR_HOST (host:port) name an emulator,
which is asked without credentials.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from hushrank.transforms.common.extras import need
from hushrank.transforms.common.schema import InputError
from hushrank.transforms.tables.names import (
    PATIENCE,
    BigQueryName,
    ServedTable,
    ask,
    explained,
    table_name,
)

if TYPE_CHECKING:
    from google.cloud import bigquery
    from google.cloud.bigquery_storage_v1 import BigQueryReadClient

ADVICE = (
    "Credentials are those of gcloud auth application-default login or GOOGLE_APPLICATION_"
    "CREDENTIALS; they need bigquery.tables.get, getData and readsessions.create."
)
TRAVEL = timedelta(hours=47)  # every dataset keeps the states of at least 48 hours
MOST_STREAMS = 256
_TICK = timedelta(milliseconds=1)  # unit of the moment of the last change
_EMULATOR, _STORAGE_EMULATOR = "BIGQUERY_EMULATOR_HOST", "BIGQUERY_STORAGE_EMULATOR_HOST"
_TYPES = {
    **dict.fromkeys(("STRING", "GEOGRAPHY", "JSON", "INTERVAL"), pa.string()),
    **dict.fromkeys(("INTEGER", "INT64"), pa.int64()),
    **dict.fromkeys(("FLOAT", "FLOAT64"), pa.float64()),
    **dict.fromkeys(("BOOLEAN", "BOOL"), pa.bool_()),
    "BYTES": pa.binary(),
    "NUMERIC": pa.decimal128(38, 9),
    "BIGNUMERIC": pa.decimal256(76, 38),
    "TIMESTAMP": pa.timestamp("us", "UTC"),
    "DATETIME": pa.timestamp("us"),
    "DATE": pa.date32(),
    "TIME": pa.time64("us"),
}


def served_table(name: BigQueryName) -> ServedTable:
    """Return the table in the state to read.

    Raises:
        InputError: BigQuery cannot be asked, there is no such table, or it is a view.
    """
    need("bigquery", name.url)
    table = _get(name)
    if table.table_type not in ("TABLE", "SNAPSHOT"):
        raise InputError(
            f"{name.url}: is a {str(table.table_type).lower().replace('_', ' ')}; only tables are"
            " read. Save its rows as a table: CREATE TABLE … AS SELECT …. Nothing was spent."
        )
    # The end of the millisecond in which the table last changed.
    at = name.time or table.modified.astimezone(UTC) + _TICK
    version = f"{int(table.created.timestamp() * 1000)}/{at.isoformat()}"
    asked = name.time is not None or datetime.now(UTC) - at < TRAVEL
    return ServedTable(
        name.url,
        version,
        pa.schema([(each.name, _type_of(each)) for each in table.schema]),
        int(table.num_bytes or 0),
        int(table.num_rows or 0),
        at if asked else None,
    )


def check_unchanged(table: ServedTable) -> None:
    """Raise `InputError` if the table has changed and its earlier state cannot be read."""
    if table.at is None and served_table(_name(table)).version != table.version:
        raise InputError(f"{table.table}: changed during the run. Run again.")


def streams_of(
    table: ServedTable, columns: Sequence[str], condition: str, most: int
) -> list[tuple[str, int]]:
    """List streams that together hold the rows, each with its approximate number of rows.

    Args:
        table: the table.
        columns: the columns to read.
        condition: condition on rows, in SQL; empty: all rows. It is public.
        most: most streams that there may be.

    Raises:
        InputError: BigQuery cannot be asked, or no longer has that state of the table.
    """
    from google.api_core.exceptions import InvalidArgument
    from google.cloud.bigquery_storage_v1 import types

    name = _name(table)
    options = types.ReadSession.TableReadOptions(
        selected_fields=list(columns), row_restriction=condition
    )
    wanted = types.ReadSession(
        table=name.path, data_format=types.DataFormat.ARROW, read_options=options
    )
    if table.at is not None:
        wanted.table_modifiers = types.ReadSession.TableModifiers(snapshot_time=table.at)

    def create() -> Any:
        try:
            return _reader().create_read_session(
                parent=f"projects/{_client(name.project).project}",  # pays for the reading
                read_session=wanted,
                max_stream_count=max(1, min(most, MOST_STREAMS)),
                timeout=PATIENCE,
                retry=_retry(),
            )
        except InvalidArgument:
            raise InputError(
                f"{name.url}: BigQuery refuses to read the table. If an older state is requested,"
                " it may be gone: datasets keep 2 to 7 days. Nothing was spent."
            ) from None

    session = ask(create, name.url, ADVICE)
    streams = [each.name for each in session.streams]
    return [(each, table.rows // len(streams)) for each in streams]


def read_stream(table: ServedTable, stream: str) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a stream; after a broken connection, continue behind the last row.

    Raises:
        InputError: BigQuery stopped answering.
    """
    with explained(table.table, ADVICE):
        schema = None
        for sent in _reader().read_rows(stream, retry=_retry(), timeout=None):
            if schema is None:  # the first answer of a connection tells it
                schema = pa.ipc.read_schema(pa.py_buffer(sent.arrow_schema.serialized_schema))
            batch = pa.py_buffer(sent.arrow_record_batch.serialized_record_batch)
            yield pa.ipc.read_record_batch(batch, schema)


def night_condition(column: pa.Field, start: datetime, end: datetime, night: str) -> str:
    """Write SQL for the rows of a night and those without a time; empty if the type has no times.

    Args:
        column: the column of times.
        start, end: the half-open span of times with an offset.
        night: the day, as 2026-11-20, of dates and of times without an offset.
    """
    name = f"`{column.name}`"
    if pa.types.is_date(column.type):
        inside = f"{name} = DATE '{night}'"
    elif not pa.types.is_timestamp(column.type):
        return ""
    elif column.type.tz is None:
        day = f"DATETIME '{night} 00:00:00'"
        inside = f"({name} >= {day} AND {name} < DATETIME_ADD({day}, INTERVAL 1 DAY))"
    else:
        first, last = (each.astimezone(UTC).isoformat(" ") for each in (start, end))
        inside = f"({name} >= TIMESTAMP '{first}' AND {name} < TIMESTAMP '{last}')"
    return f"{inside} OR {name} IS NULL"


def _name(table: ServedTable) -> BigQueryName:
    name = table_name(table.table)
    if not isinstance(name, BigQueryName):
        raise ValueError(f"must be a table of BigQuery, got {table.table!r}")
    return name


def _get(name: BigQueryName) -> bigquery.Table:
    from google.api_core.exceptions import NotFound
    from google.cloud import bigquery

    def find() -> bigquery.Table:
        reference = bigquery.DatasetReference(name.project, name.dataset).table(name.table)
        try:
            return _client(name.project).get_table(reference, timeout=PATIENCE, retry=_retry())
        except NotFound:
            raise InputError(
                f"{name.url}: no such table. Check input.paths; nothing was read."
            ) from None

    return ask(find, name.url, ADVICE)


def _type_of(column: bigquery.SchemaField) -> pa.DataType:
    type_ = _TYPES.get(column.field_type.upper(), pa.struct([]))
    return pa.list_(type_) if column.mode == "REPEATED" else type_


def _client(project: str) -> bigquery.Client:
    return _client_of(os.getpid(), project, os.environ.get(_EMULATOR))


@functools.lru_cache(maxsize=4)
def _client_of(_process: int, project: str, emulator: str | None) -> bigquery.Client:
    from google.auth.credentials import AnonymousCredentials
    from google.cloud import bigquery

    if emulator is not None:
        return bigquery.Client(project=project, credentials=AnonymousCredentials())
    try:
        return bigquery.Client()
    except OSError:  # credentials without a project
        return bigquery.Client(project=project)


def _reader() -> BigQueryReadClient:
    return _reader_of(os.getpid(), os.environ.get(_STORAGE_EMULATOR))


@functools.lru_cache(maxsize=4)
def _reader_of(_process: int, emulator: str | None) -> BigQueryReadClient:
    from google.cloud.bigquery_storage_v1 import BigQueryReadClient
    from google.cloud.bigquery_storage_v1.services.big_query_read.transports import (
        BigQueryReadGrpcTransport,
    )

    if emulator is None:
        return BigQueryReadClient()
    import grpc

    size = [("grpc.max_receive_message_length", -1)]
    channel = grpc.insecure_channel(emulator, options=size)
    return BigQueryReadClient(transport=BigQueryReadGrpcTransport(channel=channel))


def _retry() -> Any:
    from google.cloud.bigquery import DEFAULT_RETRY

    return DEFAULT_RETRY.with_timeout(PATIENCE)
