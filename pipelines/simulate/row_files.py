"""Write Arrow tables, piece by piece, into a Parquet, CSV or JSON Lines file."""

from __future__ import annotations

import contextlib
import json
import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from hushrank.transforms.storage.files import ENDINGS, FileFormat
from hushrank.transforms.storage.packing import is_packed

WriteTable = Callable[[pa.Table], None]
WRITTEN = (FileFormat.PARQUET, FileFormat.CSV, FileFormat.JSONL)
WRITTEN_ENDINGS = {
    ending: format_
    for ending, format_ in ENDINGS.items()
    if format_ in WRITTEN and not is_packed(ending)
}


@contextlib.contextmanager
def new_row_file(path: Path, schema: pa.Schema, format_: FileFormat) -> Iterator[WriteTable]:
    """Like `open_row_file`, but the file appears only when it is whole; nothing is overwritten.

    Raises:
        FileExistsError: `path` exists already.
    """
    if path.exists():
        raise FileExistsError(path)
    part = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        with open_row_file(part, schema, format_) as write:
            yield write
        with part.open("rb+") as stream:
            os.fsync(stream.fileno())
        with path.open("xb"):  # claims the name, unless somebody else has
            pass
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


@contextlib.contextmanager
def open_row_file(path: Path, schema: pa.Schema, format_: FileFormat) -> Iterator[WriteTable]:
    """Open a new file at `path`; the yielded function appends a table (one Parquet row group)."""
    if format_ is FileFormat.PARQUET:
        with pq.ParquetWriter(path, schema, compression="zstd") as writer:
            yield writer.write_table
    elif format_ is FileFormat.CSV:
        with pacsv.CSVWriter(path, schema) as writer:
            yield writer.write_table
    else:
        with path.open("wb") as stream:
            yield lambda table: _append_json_lines(table, stream.write)


def _append_json_lines(table: pa.Table, write: Callable[[memoryview], object]) -> None:
    parts: list[pa.Array | str] = []
    for name in table.column_names:
        parts += [", " if parts else "{", f"{json.dumps(name)}: ", _json_values(table[name])]
    lines = pc.binary_join_element_wise(*parts, "}\n", "")  # the last argument is the separator
    whole = pa.ListArray.from_arrays([0, len(lines)], lines.combine_chunks())
    write(memoryview(pc.binary_join(whole, "")[0].as_buffer()))


def _json_values(column: pa.ChunkedArray) -> pa.ChunkedArray | pa.Array:
    if not pa.types.is_string(column.type):
        return column.cast(pa.string())
    coded = column.combine_chunks().dictionary_encode()
    texts = [json.dumps(text) for text in coded.dictionary.to_pylist()]
    return pa.array(texts, pa.string()).take(coded.indices)
