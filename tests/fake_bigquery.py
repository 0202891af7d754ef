"""A small BigQuery: tables by their REST API, rows by the Storage Read API, over real sockets.

It keeps every state of a table, serves Arrow batches in several streams, evaluates conditions with
DuckDB, and breaks a connection when told to. It is no emulator: nothing can be queried or written.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from concurrent import futures
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import duckdb
import grpc
import pyarrow as pa
from google.cloud.bigquery_storage_v1 import types

PAGE_ROWS = 100
_NAMES = {
    pa.string(): "STRING",
    pa.int64(): "INTEGER",
    pa.timestamp("us", "UTC"): "TIMESTAMP",
    pa.date32(): "DATE",
}


@dataclass
class Table:
    """A table with its states, the newest last."""

    kind: str = "TABLE"
    states: list[tuple[datetime, pa.Table]] = field(default_factory=list)

    def state(self, at: datetime | None) -> pa.Table:
        return [rows for time, rows in self.states if at is None or time <= at][-1]


@dataclass
class BigQuery:
    """Its tables by `project.dataset.table`, and what was asked of it."""

    tables: dict[str, Table] = field(default_factory=dict)
    sessions: list[types.ReadSession] = field(default_factory=list)
    breaks: int = 0  # so many streams break after their first page
    offsets: list[int] = field(default_factory=list)
    streams: dict[str, pa.Table] = field(default_factory=dict)
    rest: str = ""
    grpc: str = ""

    def write(self, name: str, rows: pa.Table, time: datetime) -> None:
        self.tables.setdefault(name, Table()).states.append((time, rows))

    def describe(self, name: str) -> dict[str, Any] | None:
        table = self.tables.get(name)
        if table is None:
            return None
        project, dataset, last = name.split(".")
        (first, _), (time, rows) = table.states[0], table.states[-1]
        return {
            "tableReference": {"projectId": project, "datasetId": dataset, "tableId": last},
            "type": table.kind,
            "creationTime": str(_ms(first)),
            "lastModifiedTime": str(_ms(time)),
            "numRows": str(len(rows)),
            "numBytes": str(rows.nbytes),
            "schema": {
                "fields": [{"name": each.name, "type": _NAMES[each.type]} for each in rows.schema]
            },
        }

    def create(self, request: Any, context: grpc.ServicerContext) -> Any:
        wanted = types.CreateReadSessionRequest.wrap(request).read_session
        _, project, _, dataset, _, last = wanted.table.split("/")
        table = self.tables[f"{project}.{dataset}.{last}"]
        at = wanted.table_modifiers.snapshot_time or None
        if at is not None and (at > datetime.now(UTC) or at < table.states[0][0]):
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "Invalid snapshot time")
        rows = table.state(at)
        if condition := wanted.read_options.row_restriction:
            rows = duckdb.arrow(rows).filter(condition.replace("`", '"')).to_arrow_table()
        rows = rows.select(list(wanted.read_options.selected_fields) or rows.schema.names)
        number = min(3, types.CreateReadSessionRequest.wrap(request).max_stream_count)
        session = types.ReadSession(wanted, name=f"sessions/{len(self.sessions)}")
        for place in range(number if len(rows) else 0):
            name = f"{session.name}/streams/{place}"
            self.streams[name] = rows.take(pa.array(range(place, len(rows), number)))
            session.streams.append(types.ReadStream(name=name))
        self.sessions.append(session)
        return types.ReadSession.pb(session)

    def read(self, request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        self.offsets.append(request.offset)
        rows = self.streams[request.read_stream].slice(request.offset).combine_chunks()
        schema = {"serialized_schema": rows.schema.serialize().to_pybytes()}
        for place, batch in enumerate(rows.to_batches(PAGE_ROWS)):
            if place == 1 and self.breaks:
                self.breaks -= 1
                context.abort(grpc.StatusCode.UNAVAILABLE, "secret text of a row: alice")
            yield types.ReadRowsResponse.pb(
                types.ReadRowsResponse(
                    row_count=len(batch),
                    arrow_schema=schema,
                    arrow_record_batch={"serialized_record_batch": batch.serialize().to_pybytes()},
                )
            )


def _ms(time: datetime) -> int:
    return int(time.timestamp() * 1000)


@contextlib.contextmanager
def fake_bigquery() -> Iterator[BigQuery]:
    """A running BigQuery without tables; `rest` and `grpc` are for the environment."""
    fake = BigQuery()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = self.path.partition("?")[0].strip("/").split("/")
            found = fake.describe(".".join(parts[3::2]))
            body = json.dumps(found or {"error": {"code": 404, "message": "Not found"}}).encode()
            self.send_response(404 if found is None else 200)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    web = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=web.serve_forever, daemon=True).start()
    server = grpc.server(futures.ThreadPoolExecutor(8))
    server.add_generic_rpc_handlers(
        (
            grpc.method_handlers_generic_handler(
                "google.cloud.bigquery.storage.v1.BigQueryRead",
                {
                    "CreateReadSession": grpc.unary_unary_rpc_method_handler(
                        fake.create,
                        types.CreateReadSessionRequest.pb().FromString,
                        types.ReadSession.pb().SerializeToString,
                    ),
                    "ReadRows": grpc.unary_stream_rpc_method_handler(
                        fake.read,
                        types.ReadRowsRequest.pb().FromString,
                        types.ReadRowsResponse.pb().SerializeToString,
                    ),
                },
            ),
        )
    )
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    fake.rest, fake.grpc = f"http://127.0.0.1:{web.server_port}", f"127.0.0.1:{port}"
    try:
        yield fake
    finally:
        server.stop(0)
        web.shutdown()
        web.server_close()
