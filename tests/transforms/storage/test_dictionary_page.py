"""What a dictionary's page says of its texts is what Arrow reads, or nothing."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushrank.transforms.storage.parquet_rows import HEADER_BYTES, even_texts

COMPRESSIONS = ["none", "snappy", "gzip", "brotli", "zstd"]


def a_file(texts: list[str | None], **how) -> tuple[io.BytesIO, pq.ColumnChunkMetaData]:
    stream = io.BytesIO()
    pq.write_table(pa.table({"number": range(len(texts)), "text": texts}), stream, **how)
    return stream, pq.read_metadata(stream).row_group(0).column(1)


def names(n: int, width: int) -> list[str]:
    return [f"{number:0{width}d}" for number in range(n)]


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize(("n", "width"), [(1, 1), (1, 300), (70, 2), (5000, 36)])
def test_texts_of_one_length_are_counted(compression, n, width):
    texts = [*names(n, width), None, *names(n, width)]
    stream, chunk = a_file(texts, compression=compression)
    assert even_texts(stream, chunk) == (n, width)


def test_empty_texts_are_texts_of_one_length():
    assert even_texts(*a_file(["", ""])) == (1, 0)


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize(
    "texts",
    [
        ["aa", "b"],
        ["a", "bb"],
        ["", "aa"],
        ["aaaa", "", "bbbb", "cccccccc"],  # evenly long on average
        ["aaaa", "\x04\0\0\0aaaa\x04\0\0\0aa", "b"],  # a text that looks like two
        [None, None],
    ],
)
def test_of_other_texts_nothing_is_said(compression, texts):
    assert even_texts(*a_file(texts, compression=compression)) is None


def test_what_is_not_understood_is_not_said():
    assert even_texts(*a_file(names(9, 5), use_dictionary=False)) is None
    assert even_texts(*a_file(names(9, 5), compression="lz4")) is None  # of two forms
    whole, chunk = a_file(names(9, 5), write_page_checksum=True)
    assert even_texts(whole, chunk) == (9, 5)


@given(st.data())
def test_a_damaged_page_is_not_understood_or_read_as_it_is(data):
    stream, chunk = a_file(names(40, 7), compression=data.draw(st.sampled_from(COMPRESSIONS)))
    content = bytearray(stream.getvalue())
    first = chunk.dictionary_page_offset
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(first, first + HEADER_BYTES))] = data.draw(
            st.integers(0, 255)
        )
    found = even_texts(io.BytesIO(content[: data.draw(st.integers(first, len(content)))]), chunk)
    assert found is None or (found[1] >= 0 and found[0] > 0)
    assert found is None or found[0] * (4 + found[1]) <= chunk.total_uncompressed_size
