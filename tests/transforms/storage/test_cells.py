"""A row whose text cannot be read is set aside alone, in every form that Arrow holds texts in."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushrank.transforms.storage.read import (
    MOST_TEXT_BYTES,
    NOT_A_NAME,
    NOT_UTF8,
    TOO_LONG,
    set_unreadable_apart,
)

LATIN, LONGEST = b"Jos\xe9", b"x" * MOST_TEXT_BYTES
TEXTS = [b"ann", LATIN, None, LONGEST, LONGEST + b"x", b""]
READABLE = ["ann", None, LONGEST.decode(), ""]


def unchecked(texts: list[bytes | None], type_: pa.DataType) -> pa.Array:
    """Arrow checks what it makes of Python's bytes; it does not check a Parquet file's."""
    binary = pa.array(texts, pa.binary())
    return pa.Array.from_buffers(pa.string(), len(texts), binary.buffers()).cast(type_, safe=False)


def texts_of(form: str) -> pa.Array:
    if form == "dictionary":
        named = unchecked([text for text in TEXTS if text is not None], pa.string())
        return pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 2, 3, 4]), named)
    if form == "binary":
        return pa.array(TEXTS, pa.binary())
    kinds = {"string": pa.string(), "large": pa.large_string(), "view": pa.string_view()}
    return unchecked(TEXTS, kinds[form])


@pytest.mark.parametrize("form", ["string", "large", "view", "binary", "dictionary"])
def test_only_rows_with_text_that_cannot_be_read_are_set_aside(form):
    rows = pa.record_batch({"who": texts_of(form), "n": range(len(TEXTS))})
    kept, rejects = set_unreadable_apart(rows, ())
    kept.validate(full=True)
    assert kept["who"].to_pylist() == READABLE
    assert kept["n"].to_pylist() == [0, 2, 3, 5]
    assert rejects is not None
    assert rejects["n"].to_pylist() == [1, 4]
    assert rejects["reason"].to_pylist() == [NOT_UTF8, TOO_LONG]
    assert rejects["who"].to_pylist() == [r"Jos\xe9", LONGEST.decode() + "x"]


@pytest.mark.parametrize("form", ["binary", "dictionary"])
def test_the_type_of_what_is_kept_does_not_depend_on_the_rows(form):
    rows = pa.record_batch({"who": texts_of(form)})
    assert set_unreadable_apart(rows, ())[0].schema == set_unreadable_apart(rows[:1], ())[0].schema


def test_lists_are_set_aside_for_any_of_their_items():
    for items in (pa.binary(), pa.dictionary(pa.int32(), pa.binary())):
        values = pa.array([b"a", LATIN, b"b", LONGEST + b"x"], pa.binary())
        values = values.dictionary_encode() if pa.types.is_dictionary(items) else values
        lists = pa.ListArray.from_arrays(pa.array([0, 2, None, 3, 3, 4]), values)
        kept, rejects = set_unreadable_apart(pa.record_batch({"r": lists}), ())
        assert kept["r"].to_pylist() == [["b"], None, []]
        assert rejects is not None
        assert rejects["r"].to_pylist() == [["a", r"Jos\xe9"], [LONGEST.decode() + "x"]]


def test_people_may_be_called_by_bytes_that_are_no_text():
    rows = pa.record_batch({"who": pa.array([bytes(range(200, 216))], pa.binary(16))})
    assert set_unreadable_apart(rows, {"who"}) == (rows, None)
    assert len(set_unreadable_apart(rows, ())[0]) == 0
    text = pa.record_batch({"who": unchecked([LATIN, b"ann"], pa.string())})
    assert set_unreadable_apart(text, {"who"})[0]["who"].to_pylist() == ["ann"]


@pytest.mark.parametrize("values", [[7.0, 7.5, None, np.nan, 2.0**53], [7.0, None]])
def test_people_may_be_called_by_floats_that_are_integers(values):
    rows = pa.record_batch({"who": pa.array(values, pa.float64()), "n": values})
    kept, rejects = set_unreadable_apart(rows, {"who"})
    assert kept["who"] == pa.array([7, *[None] * (len(values) // 2)], pa.int64())
    assert kept["n"].type == pa.float64()
    if len(values) == 2:
        assert rejects is None
    else:
        assert rejects is not None
        assert rejects["who"].to_pylist() == [7.5, 2.0**53]
        assert rejects["reason"].to_pylist() == [NOT_A_NAME] * 2


def test_rows_without_text_pass_as_they_are():
    rows = pa.record_batch({"n": [1, None], "r": [[1], None]})
    assert set_unreadable_apart(rows, ()) == (rows, None)


@given(st.lists(st.one_of(st.binary(max_size=6), st.text(max_size=4).map(str.encode)), min_size=1))
def test_what_is_utf8_is_decided_as_python_does(texts):
    def is_utf8(text: bytes) -> bool:
        try:
            text.decode()
        except UnicodeDecodeError:
            return False
        return True

    rows = pa.record_batch({"who": unchecked(texts, pa.string())})
    kept, _ = set_unreadable_apart(rows, ())
    assert kept["who"].to_pylist() == [text.decode() for text in texts if is_utf8(text)]
