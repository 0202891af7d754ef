"""Rows of Parquet files, in batches that fit in memory even if the file repeats long texts.

A Parquet file may store a long text once and refer to it from a million rows, in a few bytes. So a
column of texts stays a dictionary if the footer or a first look at the file shows that it might
grow, and batches are limited by the bytes of their texts as well as by their rows. That look only
decides how rows are stored in memory, never which rows there are or what they mean.

References:
    [Parquet] Apache Parquet. Parquet Format: parquet.thrift, `PageHeader`. 2023.
    [Thrift] Apache Thrift. Thrift compact protocol encoding. 2023.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import IO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hushrank.transforms.common.schema import is_list, is_text

BATCH_BYTES = 1 << 26  # about how many bytes of texts in a batch
# For delta-encoded texts, each of which repeats the start of the one before: no footer tells their
# length.
DELTA_ROWS = 1 << 10
LEAST_ROWS = 1 << 6
LEAST_LISTS = 1 << 8
LIST_ITEMS = 64  # assumed length of a list, to limit rows of a batch
READ_BYTES = 1 << 20
FEW_ROWS = 1 << 18  # rows of a batch: what one leaves in a cache and in memory serves the next
REPEATS = 4  # with fewer rows for each text of a dictionary, texts are faster than their positions

_SHORT = BATCH_BYTES >> 16  # texts of this length fill a batch of 65 536 rows
_PAGE_BYTES = 1 << 16  # page headers and the like in a chunk of a column
_ARROW_SCHEMA, _NO_SCHEMA = b"ARROW:schema", b"-----:schema"
HEADER_BYTES = 64  # bytes of a dictionary page's header; longer ones hold what we do not know
LENGTH_BYTES = 4  # before each text
_CODECS = {"SNAPPY": "snappy", "GZIP": "gzip", "BROTLI": "brotli", "ZSTD": "zstd"}
_TRUE, _FALSE, _INT32, _STRUCT = 1, 2, 5, 12  # types of [Thrift]
_DICTIONARY_PAGE = 2  # a page type
_TYPE, _SIZE, _STORED, _TEXTS = (1,), (2,), (3,), (7, 1)  # fields of [Parquet], by number


@dataclass(frozen=True, slots=True)
class _Leaf:
    """Column of texts, or the items of a column of lists.

    Attributes:
        name: name of the column.
        path: path of the leaf in the file.
        chunks: chunks of the leaf in the row groups to read.
        in_list: whether it holds the items of lists.
    """

    name: str
    path: str
    chunks: tuple[pq.ColumnChunkMetaData, ...]
    in_list: bool

    @property
    def is_text(self) -> bool:
        """Whether the values are texts of any length."""
        return bool(self.chunks[0].physical_type == "BYTE_ARRAY")

    @property
    def is_delta(self) -> bool:
        """Whether a page is delta-encoded, which cannot be read as a dictionary."""
        return any("DELTA" in each for chunk in self.chunks for each in chunk.encodings)

    @property
    def is_tiny(self) -> bool:
        """Whether every chunk has so few values and bytes that a dictionary saves nothing."""
        return all(
            chunk.num_values <= LEAST_ROWS and chunk.total_uncompressed_size <= _SHORT
            for chunk in self.chunks
        )

    @property
    def has_dictionary(self) -> bool:
        """Whether the column may store one text for many rows."""
        return any(chunk.has_dictionary_page for chunk in self.chunks)


@dataclass(frozen=True, slots=True)
class _Dictionary:
    """Dictionary of one chunk: number of texts, their bytes, and the longest text's bytes."""

    texts: int
    n_bytes: int
    longest: int


def read_parquet(
    stream: IO[bytes],
    schema: pa.Schema,
    row_groups: Sequence[int],
    items: Sequence[str],
    most_rows: int,
    *,
    remote: bool,
    threads: bool,
) -> Iterator[pa.RecordBatch]:
    """Yield rows of some row groups, in order.

    Args:
        stream: the file.
        schema: names and types of the columns to read.
        row_groups: numbers of the row groups; empty: the file has none.
        items: columns that name items; they have few distinct values and are best read as
            dictionaries.
        most_rows: most rows of a batch.
        remote: whether reading ahead is worth the memory.
        threads: whether Arrow may use threads to decode columns side by side.
    """
    # Reading ahead holds a whole row group in memory; only over a network is that worth it.
    local = {"pre_buffer": False, "buffer_size": READ_BYTES}
    how = {"pre_buffer": True} if remote else local
    parquet = pq.ParquetFile(stream, metadata=_footer(stream, schema), **how)
    metadata = parquet.metadata
    leaves = _leaves(metadata, schema, row_groups)
    coded: list[str] = []
    rows = min([most_rows, *(_rows_of_fixed(field.type) for field in schema)])
    large = plain = False  # a dictionary that comes with every batch; one that should not
    for leaf in filter(lambda each: each.is_text, leaves):
        as_dictionary, fitting = _how(stream, metadata, leaf, row_groups, leaf.name in items)
        coded += [leaf.path] if as_dictionary else []
        large |= as_dictionary and leaf.name not in items
        plain |= not as_dictionary and pa.types.is_dictionary(schema.field(leaf.name).type)
        rows = min(rows, fitting)
    rows = rows if large else min(rows, FEW_ROWS)
    metadata = _without_dictionaries(stream, metadata, schema) if plain else metadata
    rows = min(rows, _rows_of_bytes(metadata, leaves, row_groups, most_rows))
    if coded or plain:
        parquet = pq.ParquetFile(stream, metadata=metadata, read_dictionary=coded, **how)
    for batch in parquet.iter_batches(
        max(rows, 1), list(row_groups), schema.names, use_threads=threads
    ):
        yield _plain(batch)


def _footer(stream: IO[bytes], schema: pa.Schema) -> pq.FileMetaData | None:
    """Read the footer without Arrow's notes on types, if these make unreadable lists; else None.

    Arrow reads no null among lists of a fixed size, and neither views nor, of several row groups,
    dictionaries in lists; without notes they are lists of any size, of plain texts.
    """
    hard = any(is_list(field.type) and _is_hard(field.type) for field in schema)
    return _without_notes(stream) if hard else None


def _is_hard(lists: pa.ListType) -> bool:
    ways = (pa.types.is_dictionary, pa.types.is_string_view, pa.types.is_binary_view)
    return pa.types.is_fixed_size_list(lists) or any(way(lists.value_type) for way in ways)


def _without_dictionaries(
    stream: IO[bytes], metadata: pq.FileMetaData, schema: pa.Schema
) -> pq.FileMetaData:
    """Return the footer without Arrow's notes, if they only mark columns of `schema` as
    dictionaries.

    By these notes Arrow makes dictionaries even of texts that are faster without.
    """
    without = _without_notes(stream)
    types = {field.name: field.type for field in without.schema.to_arrow_schema()}
    same = (_is_same(field.type, types.get(field.name)) for field in schema)
    return without if all(same) else metadata


def _is_same(noted: pa.DataType, stored: pa.DataType | None) -> bool:
    """Whether a column has the same type with Arrow's notes and without, dictionaries aside."""
    if pa.types.is_dictionary(noted):
        noted = noted.value_type
    return bool(noted == stored)


def _without_notes(stream: IO[bytes]) -> pq.FileMetaData:
    end = stream.seek(0, io.SEEK_END)
    stream.seek(end - 8)
    tail = stream.read(8)
    length = int.from_bytes(tail[:4], "little")
    stream.seek(end - 8 - length)
    footer = stream.read(length).replace(_ARROW_SCHEMA, _NO_SCHEMA)
    return pq.read_metadata(io.BytesIO(tail[4:] + footer + tail))


def _leaves(metadata: pq.FileMetaData, schema: pa.Schema, row_groups: Sequence[int]) -> list[_Leaf]:
    found = []
    for place in range(metadata.num_columns if row_groups else 0):
        chunks = tuple(metadata.row_group(group).column(place) for group in row_groups)
        path = chunks[0].path_in_schema
        for field in schema:
            in_list = is_list(field.type)
            is_its = path.startswith(f"{field.name}.") if in_list else path == field.name
            if is_its:
                found.append(_Leaf(field.name, path, chunks, in_list))
    return [leaf for leaf in found if leaf.is_text or leaf.in_list]


def _how(
    stream: IO[bytes],
    metadata: pq.FileMetaData,
    leaf: _Leaf,
    row_groups: Sequence[int],
    is_item: bool,
) -> tuple[bool, int]:
    """Decide whether to read a leaf as a dictionary, and the most rows of a batch."""
    plenty = 1 << 62
    if leaf.is_delta:
        return False, DELTA_ROWS
    if not leaf.has_dictionary:
        return is_item, plenty
    is_tiny = leaf.is_tiny
    if is_item and not is_tiny:
        return True, plenty
    dictionaries = [
        _Dictionary(chunk.num_values, chunk.total_uncompressed_size, chunk.total_uncompressed_size)
        if is_tiny  # the most that it can be: of many such chunks a look at each takes minutes
        else _dictionary(stream, metadata, leaf, group, chunk)
        for group, chunk in zip(row_groups, leaf.chunks, strict=True)
    ]
    if leaf.in_list:  # Arrow cannot join several dictionaries into one column of lists
        longest = max(each.longest for each in dictionaries)
        known = all(each.texts for each in dictionaries)
        cells = max(sum(chunk.num_values for chunk in leaf.chunks), 1)
        rows = sum(metadata.row_group(group).num_rows for group in row_groups)
        fitting = BATCH_BYTES * rows // (max(longest, 1) * cells) if known else 0
        return False, max(fitting, LEAST_LISTS)
    if any(_is_many(*pair) for pair in zip(dictionaries, leaf.chunks, strict=True)):
        longest = max(each.longest for each in dictionaries)
        if longest <= _SHORT and all(each.texts for each in dictionaries):
            return False, BATCH_BYTES // max(longest, 1)
    return True, plenty


def _dictionary(
    stream: IO[bytes],
    metadata: pq.FileMetaData,
    leaf: _Leaf,
    group: int,
    chunk: pq.ColumnChunkMetaData,
) -> _Dictionary:
    """Read the dictionary of one chunk, which Arrow decodes whole with the first row."""
    even = None if leaf.in_list else even_texts(stream, chunk)
    if even is not None:
        texts, n_bytes = even
        return _Dictionary(texts, texts * n_bytes, n_bytes)
    parquet = pq.ParquetFile(
        stream, metadata=metadata, read_dictionary=[leaf.path], pre_buffer=False,
        buffer_size=READ_BYTES,
    )  # fmt: skip
    batch = next(parquet.iter_batches(1, [group], [leaf.name], use_threads=False), None)
    if batch is None:
        return _Dictionary(0, 0, 0)
    values = batch[0].flatten() if leaf.in_list else batch[0]
    lengths = pc.binary_length(values.dictionary)
    total, longest = pc.sum(lengths).as_py() or 0, pc.max(lengths).as_py() or 0
    return _Dictionary(len(lengths), total, longest)


def even_texts(stream: IO[bytes], chunk: pq.ColumnChunkMetaData) -> tuple[int, int] | None:
    """Count the texts in a chunk's dictionary, and the bytes of each, if all have one length.

    For texts of one length, in a tenth of the time in which Arrow makes a table of them.

    Returns:
        None if the texts are not equally long, there are none, or the page is not understood.
    """
    if not chunk.has_dictionary_page or not chunk.dictionary_page_offset:
        return None
    stream.seek(chunk.dictionary_page_offset)
    fields, header_bytes = _header(stream.read(HEADER_BYTES))
    texts, size, stored = (fields.get(field, 0) for field in (_TEXTS, _SIZE, _STORED))
    few = 0 < size <= min(chunk.total_uncompressed_size, 1 << 31)  # limits of the format
    few = few and 0 < stored <= min(chunk.total_compressed_size, 1 << 31)
    if fields.get(_TYPE) != _DICTIONARY_PAGE or not few or texts <= 0 or size % texts:
        return None
    stream.seek(chunk.dictionary_page_offset + header_bytes)
    page, width = _unpacked(stream.read(stored), chunk.compression, size), size // texts
    if page is None or len(page) != size or width < LENGTH_BYTES:
        return None
    lengths = np.frombuffer(page, np.uint8).reshape(texts, width)[:, :LENGTH_BYTES]
    even = (np.ascontiguousarray(lengths).view("<u4") == width - LENGTH_BYTES).all()
    return (texts, width - LENGTH_BYTES) if even else None


def _unpacked(stored: bytes, compression: str, size: int) -> pa.Buffer | None:
    """Return the content of a page; None if it cannot be unpacked."""
    if compression == "UNCOMPRESSED":
        return pa.py_buffer(stored)
    codec = _CODECS.get(compression)
    if codec is None or not pa.Codec.is_available(codec):
        return None
    try:
        return pa.Codec(codec).decompress(stored, decompressed_size=size)
    except (pa.ArrowException, OSError):
        return None  # Arrow will say so, when it reads the rows


def _header(content: bytes) -> tuple[dict[tuple[int, ...], int], int]:
    """Return the numbers of a page header by their path of field numbers, and the bytes it takes.

    Empty if it is longer than `content`, or holds a type that such headers do not have.
    """
    found: dict[tuple[int, ...], int] = {}
    path: tuple[int, ...] = ()
    field = place = 0
    outer: list[int] = []
    try:
        while True:
            head, place = content[place], place + 1
            if head == 0:
                if not outer:
                    return found, place
                path, field = path[:-1], outer.pop()
                continue
            if head < 16:  # the field's number is apart: these headers have none so large
                return {}, 0
            field += head >> 4
            if head & 15 == _STRUCT:
                outer.append(field)
                path, field = (*path, field), 0
            elif head & 15 == _INT32:
                value, place = _varint(content, place)
                found[(*path, field)] = (value >> 1) ^ -(value & 1)
            elif head & 15 not in (_TRUE, _FALSE):
                return {}, 0
    except IndexError:
        return {}, 0


def _varint(content: bytes, place: int) -> tuple[int, int]:
    """Read a number of seven bits a byte from `place` on; return the place after it too."""
    value = shift = 0
    while content[place] & 128:
        value |= (content[place] & 127) << shift
        place, shift = place + 1, shift + 7
    return value | content[place] << shift, place + 1


def _is_many(dictionary: _Dictionary, chunk: pq.ColumnChunkMetaData) -> bool:
    """Whether most texts of a chunk occur only a few times.

    Then it holds more than its dictionary and the positions of its values, or the dictionary has
    about as many texts. As a dictionary a chunk of the first kind would take ten times as long.
    """
    known = dictionary.n_bytes + 4 * dictionary.texts + 4 * chunk.num_values + _PAGE_BYTES
    repeated = REPEATS * dictionary.texts <= chunk.num_values
    return not repeated or bool(chunk.total_uncompressed_size > known)


def _rows_of_fixed(type_: pa.DataType) -> int:
    width = type_.byte_width if pa.types.is_fixed_size_binary(type_) else 0
    return BATCH_BYTES // max(width, 1)


def _rows_of_bytes(
    metadata: pq.FileMetaData, leaves: Sequence[_Leaf], row_groups: Sequence[int], most_rows: int
) -> int:
    """Most rows of a batch, given the bytes of texts and lists in the row groups.

    Large row groups get a smaller share than equally long texts would allow, because long texts may
    stand together.
    """
    fitting = [1 << 62]
    for place, group in enumerate(row_groups):
        rows = metadata.row_group(group).num_rows
        chunks = [(leaf, leaf.chunks[place]) for leaf in leaves]
        n_bytes = sum(chunk.total_uncompressed_size for leaf, chunk in chunks if leaf.is_text)
        times = n_bytes / BATCH_BYTES
        if times > 1:
            fitting.append(max(int(rows / times**2), LEAST_ROWS))
        for leaf, chunk in chunks:
            if leaf.in_list and chunk.num_values > LIST_ITEMS * rows:
                fitting.append(most_rows * rows * LIST_ITEMS // chunk.num_values)
    return min(fitting)


def _plain(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return the rows in types that Arrow can compute with; dictionaries only of text, without
    nulls."""
    for place, column in enumerate(rows.columns):
        if pa.types.is_dictionary(column.type) and (
            column.dictionary.null_count or not is_text(column.type)
        ):
            rows = rows.set_column(place, rows.schema.names[place], column.dictionary_decode())
        elif pa.types.is_string_view(column.type) or pa.types.is_binary_view(column.type):
            content = column.cast(pa.large_binary())
            if pa.types.is_string_view(column.type):  # the texts must be UTF-8, however stored
                content = content.view(pa.large_string())
            rows = rows.set_column(place, rows.schema.names[place], content)
    return rows
