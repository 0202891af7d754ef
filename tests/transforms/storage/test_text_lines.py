"""Where records begin and end, and what is read of them, does not depend on how they are read."""

from __future__ import annotations

import io

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushrank.transforms.storage import text_lines
from hushrank.transforms.storage.split import read_csv_rows
from hushrank.transforms.storage.text_lines import (
    BYTE_ORDER_MARK,
    MOST_RECORD_BYTES,
    Records,
    first_line,
    read_records,
)

PIECES = (
    b"a,b",
    b"c,d",
    b",",
    b"x",
    b"\n",
    b"\n",
    b"\r\n",
    b"\r",
    b'"',
    b"\0",
    b"\xc3\xa9",
    b"\xff",
)
TEXTS = st.lists(st.sampled_from(PIECES), max_size=24).map(b"".join)
MOST = 24
SCHEMA = pa.schema([("left", pa.string()), ("right", pa.dictionary(pa.int32(), pa.string()))])


def records_of(text: bytes, block_bytes: int, *, returns: bool, quoted: bool) -> list[str]:
    """Each record, and the beginnings of those that are too long, block by block."""
    stream = io.BytesIO(text)
    blocks = list(read_records(stream, block_bytes, carriage_returns=returns, quoted=quoted))
    return [text for block in blocks for text in block.texts(np.ones(len(block), np.bool_))]


def rows_of(text: bytes, block_bytes: int) -> tuple[list[dict[str, str | None]], list[str]]:
    rows, malformed = [], []
    found = read_csv_rows(io.BytesIO(text), ("left", "right"), SCHEMA, block_bytes, multiline=False)
    for table, refused in found:
        rows += table.to_pylist()
        malformed += refused
    return rows, malformed


@given(TEXTS, st.integers(1, 30), st.booleans(), st.booleans())
def test_borders_of_blocks_change_nothing(
    text: bytes, block_bytes: int, returns: bool, quoted: bool
) -> None:
    at_once = records_of(text, 1 << 20, returns=returns, quoted=quoted)
    assert records_of(text, block_bytes, returns=returns, quoted=quoted) == at_once


@given(TEXTS)
def test_plain_lines_are_records_of_readable_text_without_quotes(text: bytes) -> None:
    whole = text + b"\n"
    records = Records(whole)
    count = records.plain_lines()
    assert (count is None) == (b'"' in text or not whole.isascii() or b"\0" in text)
    if count is not None:
        assert count == len(records)
        assert not records.no_text().any()


@given(TEXTS, st.booleans())
def test_the_first_line_is_what_python_takes_for_one(text: bytes, marked: bool) -> None:
    whole = BYTE_ORDER_MARK + text if marked else text
    assert first_line(whole) == next(iter(text.splitlines()), b"")


@pytest.mark.parametrize("place", range(0, 3 * MOST, 5))
@pytest.mark.parametrize("length", [MOST - 1, MOST, MOST + 1, 2 * MOST])
def test_a_long_line_is_not_plain(place: int, length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_lines, "MOST_RECORD_BYTES", MOST)
    records = Records(b"x\n" * (place // 2) + b"y" * (length - 1) + b"\n" + b"z\n" * 40)
    if length > MOST:
        assert records.plain_lines() is None
        assert records.no_text().sum() == 1
    else:
        assert records.plain_lines() in (None, len(records))


@given(TEXTS, st.integers(1, 30))
def test_plain_rows_are_read_as_all_others(text: bytes, block_bytes: int) -> None:
    at_once = rows_of(text, block_bytes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Records, "plain_lines", lambda _: None)
        assert rows_of(text, block_bytes) == at_once


def test_most_rows_are_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Records, "blank", lambda _: pytest.fail("record by record"))
    rows, malformed = rows_of(b"a,b\nc,d\n" * 1000, 1 << 10)
    assert (len(rows), malformed) == (2000, [])


def test_a_line_of_just_the_most_bytes_is_a_row() -> None:
    text = b"a,b\n" * 9 + b"x" * (MOST_RECORD_BYTES - 3) + b",y\n" + b"c,d\n" * 9
    for block_bytes in (1 << 16, 1 << 20, 1 << 23):
        rows, malformed = rows_of(text, block_bytes)
        assert (len(rows), malformed) == (19, [])
