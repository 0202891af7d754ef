"""The same rows in every format that hushrank reads."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.feather
import pyarrow.ipc
import pyarrow.orc
import pyarrow.parquet as pq

Write = Callable[[pa.Table, Path], Any]
_AVRO = {"int64": "long", "string": "string", "double": "double", "binary": "bytes"}


def avro_schema(table: pa.Table) -> dict[str, Any]:
    """A record of nullable fields."""
    fields = [
        {"name": field.name, "type": ["null", _AVRO[str(field.type)]]} for field in table.schema
    ]
    return {"type": "record", "name": "row", "fields": fields}


def write_avro(table: pa.Table, path: Path, codec: str = "deflate") -> None:
    with path.open("wb") as stream:
        fastavro.writer(stream, avro_schema(table), table.to_pylist(), codec=codec)


def write_stream(table: pa.Table, path: Path) -> None:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=100)


def csv_bytes(table: pa.Table, delimiter: str = ",") -> bytes:
    sink = pa.BufferOutputStream()
    pacsv.write_csv(table, sink, pacsv.WriteOptions(delimiter=delimiter, quoting_style="none"))
    names = delimiter.join(table.schema.names)
    return (names + "\n").encode() + sink.getvalue().to_pybytes().split(b"\n", 1)[1]


def jsonl_bytes(table: pa.Table) -> bytes:
    import json

    return b"".join(json.dumps(row).encode() + b"\n" for row in table.to_pylist())


def zstd(content: bytes) -> bytes:
    return pa.compress(content, codec="zstd", asbytes=True)  # type: ignore[no-any-return]


WRITERS: dict[str, Write] = {
    "rows.parquet": pq.write_table,
    "rows.avro": write_avro,
    "rows.orc": lambda table, path: pyarrow.orc.write_table(table, str(path)),
    "rows.feather": lambda table, path: pyarrow.feather.write_feather(table, str(path)),
    "rows.arrow": write_stream,
    "rows.csv": lambda table, path: path.write_bytes(csv_bytes(table)),
    "rows.csv.gz": lambda table, path: path.write_bytes(gzip.compress(csv_bytes(table))),
    "rows.csv.zst": lambda table, path: path.write_bytes(zstd(csv_bytes(table))),
    "rows.jsonl": lambda table, path: path.write_bytes(jsonl_bytes(table)),
    "rows.jsonl.gz": lambda table, path: path.write_bytes(gzip.compress(jsonl_bytes(table))),
    "rows.jsonl.zst": lambda table, path: path.write_bytes(zstd(jsonl_bytes(table))),
}
BINARY = ("rows.avro", "rows.orc", "rows.feather", "rows.arrow")
