"""Bytes of columns: what is read from them at once is what Python reads from one text at a time."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushrank.transforms.common import encode
from hushrank.transforms.common.catalogue import bytes_of, is_ascii

TEXTS = st.lists(st.none() | st.text(st.characters(codec="utf-8"), max_size=6), max_size=9)
TYPES = [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()]
SHORT = ["1", "+1", "-1", "0", " 1", "1 ", "11", "-0", "+0", "\x001", "1\x00", "\x1f1", "2", "no"]
ODD = ["", "1.0", None, "\xa01", "é", " -1", "1\u2003"]


@given(TEXTS, st.sampled_from(TYPES), st.integers(0, 4), st.integers(0, 9))
def test_bytes_and_whether_they_are_ascii(texts, type_, start, length):
    column = pa.array(texts, pa.string()).cast(type_).slice(start, length)
    alone = [(text or "").encode() for text in texts[start : start + length]]
    edges, octets = bytes_of(column)
    assert len(edges) == len(alone) + 1
    cells = zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)
    assert [octets[a:b].tobytes() for a, b in cells] == alone
    assert is_ascii(column) == b"".join(alone).isascii()


@pytest.mark.parametrize("column", [pa.array([b"ab"], pa.binary(2)), pa.array([1])])
def test_other_types_tell_nothing(column):
    assert bytes_of(column) is None
    assert not is_ascii(column)


@pytest.mark.parametrize("type_", TYPES)
@pytest.mark.parametrize("others", [[], *([odd] for odd in ODD)])
def test_outcomes_of_many_short_texts_are_those_of_each_alone(type_, others, monkeypatch):
    """A single other text, or a null, changes the outcome of no row beside it."""
    rng = np.random.default_rng(0)
    many = len(encode._outcomes_by_bytes()) + 2
    texts = [SHORT[k] for k in rng.integers(0, len(SHORT), many)] + others
    column = pa.array(texts, pa.string()).cast(type_).slice(1)
    alone = {
        text: encode._outcomes_by_rule(pa.array([text], pa.string()).cast(type_))[0]
        for text in set(texts)
    }
    if not others:  # the table alone answers
        monkeypatch.setattr(encode, "_outcomes_by_rule", None)
    found = encode._outcomes_of_texts(column)
    assert found.tolist() == [alone[text] for text in texts[1:]]
    assert {alone["1"], alone["-1"], alone["0"], alone[" 1"]} == {1, -1, 0}
    assert alone["11"] == alone["\x001"] == encode.BAD_OUTCOME


def test_the_table_holds_every_text_of_one_or_two_ascii_characters():
    table, single = encode._outcomes_by_bytes(), [chr(octet) for octet in range(128)]
    for first in single:
        place = ord(first) << 7 | ord(first)
        assert table[place] == encode._outcomes_by_rule(pa.array([first]))[0]
    pairs = [a + b for a in single for b in single]
    assert table[1 << 14 :].tolist() == encode._outcomes_by_rule(pa.array(pairs)).tolist()
