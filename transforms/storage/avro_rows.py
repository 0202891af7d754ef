"""Rows of Avro files: each value follows from its own bytes, whatever other rows hold.

fastavro decodes records. It reads a changed header, in which texts are bytes and times are
integers: Avro stores both in the same way, but a text that is not UTF-8, or a time in no calendar,
would otherwise stop the whole file. Arrow then makes columns of the types that the file states.
"""

from __future__ import annotations

import importlib.util
import io
import json
import struct
import zlib
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import IO, Any

import fastavro
import pyarrow as pa
from fastavro.schema import SchemaParseException

from hushrank.transforms.common.schema import InputError
from hushrank.transforms.storage.text_lines import Joined

_HEADER = fastavro.parse_schema(
    {
        "type": "record",
        "name": "header",
        "fields": [
            {"name": "magic", "type": {"type": "fixed", "name": "magic", "size": 4}},
            {"name": "meta", "type": {"type": "map", "values": "bytes"}},
            {"name": "sync", "type": {"type": "fixed", "name": "sync", "size": 16}},
        ],
    }
)
_MAGIC = b"Obj\x01"
BATCH_ROWS = 1 << 16  # records become Python objects first
_TYPES = {
    "boolean": pa.bool_(),
    "int": pa.int64(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
    "null": pa.null(),
}
_TIMES = {
    "timestamp-millis": pa.timestamp("ms", "UTC"),
    "timestamp-micros": pa.timestamp("us", "UTC"),
    "timestamp-nanos": pa.timestamp("ns", "UTC"),
    "local-timestamp-millis": pa.timestamp("ms"),
    "local-timestamp-micros": pa.timestamp("us"),
    "local-timestamp-nanos": pa.timestamp("ns"),
    "date": pa.date32(),
}
# Errors that fastavro raises on content that is no Avro; the texts may quote a row.
_ERRORS = (
    EOFError, ValueError, LookupError, TypeError, ArithmeticError, AttributeError, MemoryError,
    RecursionError, StopIteration, struct.error, zlib.error, SystemError,
    SchemaParseException,
)  # fmt: skip
_NEEDS = {"snappy": "cramjam", "lz4": "lz4"}  # module that a codec needs

Schema = Any  # Avro schema, as JSON


class BrokenAvroError(OSError):
    """Error for a file that is no Avro, or is damaged; it has no text, which would quote the
    file."""


def avro_schema(path: str, stream: IO[bytes]) -> pa.Schema:
    """Return names and types of the columns, from the header.

    A column whose type has no counterpart has a struct type, which no role accepts.

    Raises:
        InputError: the file has no whole header of a file of records, or its blocks are packed in a
            way that is not installed.
    """
    try:
        header = _header(stream)
        stated = _stated(header)
        named: dict[str, Schema] = {}
        schema = pa.schema(
            [(each["name"], _type(each["type"], named)) for each in stated["fields"]]
        )
    except (*_ERRORS, BrokenAvroError):
        raise InputError(
            f"{path}: not a complete Avro file (truncated or damaged). Write it again."
        ) from None
    codec = header["meta"].get("avro.codec", b"null").decode(errors="replace")
    needs = _NEEDS.get(codec)
    if needs is not None and importlib.util.find_spec(needs) is None:
        raise InputError(
            f"{path}: its blocks are packed with {codec}, which this installation cannot unpack."
            " Write it with deflate or zstandard."
        )
    return schema


def read_avro(stream: IO[bytes], schema: pa.Schema, most_rows: int) -> Iterator[pa.RecordBatch]:
    """Yield rows of the file, in order; at most `most_rows` at a time.

    Raises:
        BrokenAvroError: the file is damaged.
    """
    records = _records(stream)
    while True:
        try:
            rows = list(islice(records, min(most_rows, BATCH_ROWS)))
        except _ERRORS:
            raise BrokenAvroError from None
        if not rows:
            return
        yield pa.RecordBatch.from_arrays([_column(rows, each) for each in schema], schema.names)


def _header(stream: IO[bytes]) -> dict[str, Any]:
    """Read the header; the stream is then at the first block.

    Raises:
        BrokenAvroError: the file has no whole header.
    """
    stream.seek(0)
    if stream.read(len(_MAGIC)) != _MAGIC:
        raise BrokenAvroError
    stream.seek(0)
    try:
        header: Any = fastavro.schemaless_reader(stream, _HEADER, None)
    except _ERRORS:
        raise BrokenAvroError from None
    return dict(header)


def _stated(header: Mapping[str, Any]) -> dict[str, Any]:
    try:
        stated = json.loads(header["meta"]["avro.schema"])
    except _ERRORS:
        raise BrokenAvroError from None
    fields = stated.get("fields") if isinstance(stated, dict) else None
    if not isinstance(fields, list) or stated.get("type") != "record":
        raise BrokenAvroError
    return dict(stated)


def _records(stream: IO[bytes]) -> Iterator[dict[str, Any]]:
    header = _header(stream)
    plain = json.dumps(_plain(_stated(header))).encode()
    changed = {**header, "meta": {**header["meta"], "avro.schema": plain}}
    head = io.BytesIO()
    try:
        fastavro.schemaless_writer(head, _HEADER, changed)
        return iter(fastavro.reader(Joined(head.getvalue(), stream)))  # type: ignore[arg-type]
    except _ERRORS:
        raise BrokenAvroError from None


def _plain(schema: Schema) -> Schema:
    """Return the encoding with texts as bytes, and without logical types and defaults."""
    if schema == "string":
        return "bytes"
    if isinstance(schema, list):
        return [_plain(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("type") == "string":
        return "bytes"
    left_out = ("logicalType", "default", "precision", "scale")
    plain = {key: value for key, value in schema.items() if key not in left_out}
    for key in ("type", "items", "values"):
        if key in plain:
            plain[key] = _plain(plain[key])
    if "fields" in plain:
        plain["fields"] = [
            {"name": field["name"], "type": _plain(field["type"])} for field in plain["fields"]
        ]
    return plain


def _type(schema: Schema, named: dict[str, Schema]) -> pa.DataType:
    """Return the Arrow type of a column."""
    if isinstance(schema, str):
        if schema in _TYPES:
            return _TYPES[schema]
        return _type(named[schema], named) if schema in named else _no_type(schema)
    if isinstance(schema, list):
        others = [each for each in schema if each != "null"]
        return _type(others[0], named) if len(others) == 1 else _no_type("union")
    if not isinstance(schema, dict):
        raise BrokenAvroError
    kind, logical = schema.get("type"), schema.get("logicalType")
    if isinstance(schema.get("name"), str):
        named[schema["name"]] = schema
    if kind == "enum":
        return pa.string()
    if kind == "array":
        return pa.list_(_type(schema["items"], named))
    if logical in _TIMES and kind in ("int", "long"):
        return _TIMES[logical]
    if logical == "decimal" or (isinstance(kind, str) and kind not in (*_TYPES, "fixed")):
        return _no_type(str(logical or kind))
    return pa.binary() if kind == "fixed" else _type(kind, named)


def _no_type(name: str) -> pa.DataType:
    return pa.struct([(name, pa.null())])


def _column(rows: list[dict[str, Any]], field: pa.Field) -> pa.Array:
    values = [row[field.name] for row in rows]
    type_ = field.type
    if pa.types.is_timestamp(type_):
        return pa.array(values, pa.int64()).view(type_)
    if pa.types.is_date(type_):
        days = [each if each is None or -(2**31) <= each < 2**31 else None for each in values]
        return pa.array(days, pa.int32()).view(type_)
    if pa.types.is_string(type_):
        return pa.array([_bytes(each) for each in values], pa.binary())
    if pa.types.is_list(type_) and pa.types.is_string(type_.value_type):
        lists = [each if each is None else [_bytes(item) for item in each] for each in values]
        return pa.array(lists, pa.list_(pa.binary()))
    return pa.array(values, type_)


def _bytes(value: bytes | str | None) -> bytes | None:
    """Return a text as bytes: the symbol of an enum comes as text."""
    return value.encode() if isinstance(value, str) else value
