"""Rows of ORC files and of Arrow files (Feather), which have a schema of their own.

Arrow trusts the offsets in an Arrow file. So every batch is validated first, with texts as bytes:
then a damaged file cannot make Arrow read outside its memory, and a text that is not UTF-8 is a
matter of its own row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import IO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc
import pyarrow.orc

from hushrank.transforms.common.schema import InputError, is_list, is_text, to_numpy

INCOMPLETE = "{}: not a complete {} file (truncated or damaged). Write it again."
_MAGIC = b"ARROW1"  # begins a file of record batches that can be read in any order
_FEATHER_1 = b"FEA1"
_END_OF_STREAM = b"\xff\xff\xff\xff\x00\x00\x00\x00"


def orc_head(path: str, stream: IO[bytes]) -> tuple[pa.Schema, list[int]]:
    """Return the schema of an ORC file, and the approximate number of rows of each stripe.

    Raises:
        InputError: the file is not a readable ORC file.
    """
    try:
        orc = pyarrow.orc.ORCFile(stream)
        stripes = int(orc.nstripes)
        return orc.schema, [-(-int(orc.nrows) // max(stripes, 1))] * stripes
    except (pa.ArrowException, OSError):  # texts of these errors may quote the file
        raise InputError(INCOMPLETE.format(path, "ORC")) from None


def read_orc(
    stream: IO[bytes], schema: pa.Schema, stripes: Sequence[int], most_rows: int
) -> Iterator[pa.RecordBatch]:
    """Yield rows of some stripes, in order; `most_rows` at a time.

    Raises:
        pa.ArrowException, OSError: the file is damaged. The text may quote it.
    """
    orc = pyarrow.orc.ORCFile(stream)
    for stripe in stripes:
        yield from _slices(orc.read_stripe(stripe, schema.names).select(schema.names), most_rows)


def arrow_schema(path: str, stream: IO[bytes]) -> pa.Schema:
    """Return names and types of the columns of an Arrow file.

    Raises:
        InputError: the file is not a readable Arrow file.
    """
    stream.seek(0)
    if stream.read(len(_FEATHER_1)) == _FEATHER_1:
        raise InputError(f"{path}: version 1 of Feather, which is not read. Write it as version 2.")
    try:
        opened = pyarrow.ipc.open_file if _is_file(stream) else pyarrow.ipc.open_stream
        return opened(stream).schema
    except (pa.ArrowException, OSError):  # likewise
        raise InputError(INCOMPLETE.format(path, "Arrow")) from None


def read_arrow(stream: IO[bytes], schema: pa.Schema, most_rows: int) -> Iterator[pa.RecordBatch]:
    """Yield rows of an Arrow file or stream, in order; `most_rows` at a time.

    Raises:
        pa.ArrowException, OSError: the file is damaged. The text may quote it.
    """
    if _is_file(stream):
        whole = pyarrow.ipc.open_file(stream)
        batches = map(whole.get_batch, range(whole.num_record_batches))
    else:
        _check_end(stream)
        batches = iter(pyarrow.ipc.open_stream(stream))
    for batch in batches:
        columns = [_as_bytes(batch[name]) for name in schema.names]
        for column in columns:
            _validate(column)
        columns = [_with_null_rows(column) for column in columns]
        yield from _slices(pa.RecordBatch.from_arrays(columns, schema.names), most_rows)


def _is_file(stream: IO[bytes]) -> bool:
    stream.seek(0)
    magic = stream.read(len(_MAGIC))
    stream.seek(0)
    return magic == _MAGIC


def _check_end(stream: IO[bytes]) -> None:
    """Refuse a stream that is cut between two batches, which Arrow takes for its end."""
    stream.seek(-len(_END_OF_STREAM), 2)
    if stream.read() != _END_OF_STREAM:
        raise pa.ArrowInvalid("the stream is cut short")
    stream.seek(0)


def _slices(batch: pa.RecordBatch, most_rows: int) -> Iterator[pa.RecordBatch]:
    for start in range(0, len(batch), most_rows):
        yield batch.slice(start, most_rows)


def _as_bytes(column: pa.Array) -> pa.Array:
    """Return the column with texts as bytes, also inside dictionaries and lists, without a copy."""
    if pa.types.is_dictionary(column.type):
        # Indices are validated here: those of the file are not.
        return pa.DictionaryArray.from_arrays(column.indices, _as_bytes(column.dictionary))
    if is_list(column.type) and is_text(column.type.value_type):
        column.validate(full=False)
        lengths = to_numpy(pc.fill_null(pc.list_value_length(column), 0)).astype(np.int64)
        offsets = pa.array(np.append(0, np.cumsum(lengths)))
        items = _as_bytes(column.flatten())
        return pa.LargeListArray.from_arrays(offsets, items, mask=pc.is_null(column))
    if pa.types.is_string(column.type):
        return column.view(pa.binary())
    if pa.types.is_string_view(column.type):
        return column.view(pa.binary_view())
    if pa.types.is_large_string(column.type):
        return column.view(pa.large_binary())
    return column


def _validate(column: pa.Array) -> None:
    """Check everything that Arrow would trust: offsets, indices and sizes.

    The values themselves are matters of their rows, such as a date64 between two days. So the
    full check, which refuses these, is for texts and lists alone.

    Raises:
        pa.ArrowInvalid: the column is damaged.
    """
    values = column.dictionary if pa.types.is_dictionary(column.type) else column
    fixed = pa.types.is_primitive(values.type) or pa.types.is_decimal(values.type)
    column.validate(full=not fixed)


def _with_null_rows(column: pa.Array) -> pa.Array:
    """Return the column with null in each row whose value in a dictionary is null."""
    if not pa.types.is_dictionary(column.type) or not column.dictionary.null_count:
        return column
    null = pc.is_null(column.dictionary).take(column.indices)
    indices = pc.if_else(null, pa.scalar(None, column.indices.type), column.indices)
    return pa.DictionaryArray.from_arrays(indices, column.dictionary)
