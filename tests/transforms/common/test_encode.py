"""Encoding whole columns does what a slow reading of one row after the other does."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushrank.privacy.keyed_hash import KeyedHash
from hushrank.transforms.common.catalogue import Catalogue, Naming
from hushrank.transforms.common.encode import (
    encode_comparisons,
    missing,
    pseudonyms,
    text_of_rejects,
)
from hushrank.transforms.common.schema import ComparisonColumns

HASH = KeyedHash(bytes(range(32)))

TEXT = [
    pa.string(),
    pa.large_string(),
    pa.binary(),
    pa.large_binary(),
    pa.dictionary(pa.int8(), pa.string()),
    pa.dictionary(pa.int32(), pa.large_string()),
]
SIGNED = [pa.int8(), pa.int16(), pa.int32(), pa.int64()]
UNSIGNED = [pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
FLOATS = [pa.float32(), pa.float64()]

CATALOGUES = [
    Catalogue(("ants", "bees", "cats")),
    Catalogue(("101", "5", "-3")),
    Catalogue(("1", "bees", "0")),
    Catalogue.of_count(4),
]
ITEM_TEXTS = [
    "ants",
    " bees ",
    "cats",
    "Ants",
    "101",
    "5",
    "-3",
    "0",
    "1",
    "3",
    "9",
    "",
    "tie",
    None,
]
ITEM_INTEGERS = [0, 1, 2, 3, 4, 5, 101, -3, -1, None]
OUTCOME_TEXTS = ["1", "+1", " -1", "0", "1.0", "-1.0", "0.0", "-0.0", "2", "won", "", None]
OUTCOME_INTEGERS = [-1, 0, 1, 2, -128, 127, None]
OUTCOME_FLOATS = [-1.0, 0.0, 1.0, -0.0, 0.5, 2.0, math.nan, math.inf, None]
WINNER_TEXTS = [*ITEM_TEXTS, "TIE", " Tie", "tied"]
USER_TEXTS = ["ann", "ann ", "bob", "", "é", "a name that is longer than a block", None]
USER_INTEGERS = [0, 7, -7, 2**31, None]


@dataclass(frozen=True)
class Kind:
    """What values a column may hold, and as which types."""

    values: tuple
    types: tuple


TEXT_ITEMS = Kind(tuple(ITEM_TEXTS), tuple(TEXT))
INTEGER_ITEMS = Kind(tuple(ITEM_INTEGERS), tuple(SIGNED))
ITEMS = [TEXT_ITEMS, INTEGER_ITEMS, Kind((0, 1, 2, 3, 4, 5, 101, None), tuple(UNSIGNED))]
OUTCOMES = [
    Kind(tuple(OUTCOME_TEXTS), tuple(TEXT)),
    Kind(tuple(OUTCOME_INTEGERS), tuple(SIGNED)),
    Kind((0, 1, 2, None), tuple(UNSIGNED)),
    Kind(tuple(OUTCOME_FLOATS), tuple(FLOATS)),
]
WINNERS = [Kind(tuple(WINNER_TEXTS), tuple(TEXT)), INTEGER_ITEMS]
USERS = [Kind(tuple(USER_TEXTS), tuple(TEXT)), Kind(tuple(USER_INTEGERS), (pa.int64(),))]


@st.composite
def columns_of(draw, kinds, rows):
    """A column of `rows` values, which is a slice of a longer one."""
    kind = draw(st.sampled_from(kinds))
    before, after = draw(st.integers(0, 9)), draw(st.integers(0, 2))
    values = draw(
        st.lists(
            st.sampled_from(kind.values),
            min_size=before + rows + after,
            max_size=before + rows + after,
        )
    )
    type_ = draw(st.sampled_from(kind.types))
    in_bytes = pa.types.is_binary(type_) or pa.types.is_large_binary(type_)
    written = [value.encode() if in_bytes and value is not None else value for value in values]
    column = pa.array(written, type_)
    return values[before : before + rows], column[before : before + rows]


def item_code(value, catalogue: Catalogue) -> int | None:
    names = [name.strip() for name in catalogue.names]
    integers = {int(name): code for code, name in enumerate(names) if name.lstrip("-").isdigit()}
    if isinstance(value, int):
        in_range = value if 0 <= value < len(names) else None
        return integers.get(value) if integers else in_range
    value = value.strip()
    if value in names:
        return names.index(value)
    positions = [] if integers else [str(code) for code in range(len(names))]
    return positions.index(value) if value in positions else None


def outcome_of(value) -> int | None:
    if isinstance(value, str):
        known = {"1": 1, "+1": 1, "1.0": 1, "-1": -1, "-1.0": -1, "0": 0, "0.0": 0, "-0.0": 0}
        return known.get(value.strip())
    return int(value) if value in (-1, 0, 1) else None


def read_row(user, left, right, outcome, winner, catalogue, by_winner):
    """(left, right, outcome) of one row, or the first rule that it breaks."""
    if user in (None, ""):
        return "null user"
    if left in (None, "") or right in (None, ""):
        return "null item"
    codes = item_code(left, catalogue), item_code(right, catalogue)
    if None in codes:
        return "item not in the catalogue"
    if codes[0] == codes[1]:
        return "item against itself"
    if (winner if by_winner else outcome) is None:
        return "null outcome"
    if not by_winner:
        won = outcome_of(outcome)
        return "outcome is not +1, -1 or 0" if won is None else (*codes, won)
    code = item_code(winner, catalogue)
    if code in codes:
        return (*codes, 1 if code == codes[0] else -1)
    if code is None and isinstance(winner, str) and winner.strip().lower() == "tie":
        return (*codes, 0)
    return "winner is neither of the two items"


@given(st.data(), st.sampled_from(CATALOGUES), st.integers(0, 8), st.booleans())
def test_encoding_equals_reading_row_by_row(data, catalogue, m, by_winner):
    drawn = [data.draw(columns_of(kinds, m)) for kinds in (USERS, ITEMS, ITEMS, OUTCOMES, WINNERS)]
    values, arrays = zip(*drawn, strict=True)
    names = ["user", "left", "right", "outcome", "winner"]
    batch = pa.record_batch(dict(zip(names, arrays, strict=True)))
    columns = ComparisonColumns(
        user="user",
        left="left",
        right="right",
        outcome=None if by_winner else "outcome",
        winner="winner" if by_winner else None,
        event=None,
    )
    read = [read_row(*row, catalogue, by_winner) for row in zip(*values, strict=True)]

    encoded = encode_comparisons(batch, columns, catalogue, HASH)

    rows = encoded.rows
    found = zip(rows.left.tolist(), rows.right.tolist(), rows.outcome.tolist(), strict=True)
    assert list(found) == [row for row in read if isinstance(row, tuple)]
    people = [user for user, row in zip(values[0], read, strict=True) if isinstance(row, tuple)]
    assert [tuple(user) for user in rows.user.tolist()] == [pseudonym(user) for user in people]
    reasons = [row for row in read if isinstance(row, str)]
    if not reasons:
        assert encoded.rejects is None
        assert encoded.valid is None
        return
    assert encoded.valid.tolist() == [isinstance(row, tuple) for row in read]
    assert encoded.rejects["reason"].to_pylist() == reasons
    set_aside = pa.Table.from_batches([batch]).filter(pa.array(~encoded.valid))
    # As text, for that a value is not a number is then equal to itself.
    assert str(encoded.rejects.drop_columns(["reason"]).to_pylist()) == str(set_aside.to_pylist())


def pseudonym(user) -> tuple[int, int]:
    """Of one person, by a call for that person alone."""
    if isinstance(user, int):
        return tuple(HASH.of_integers(np.array([user])).tolist()[0])
    text = np.frombuffer(user.encode(), np.uint8)
    return tuple(HASH.of_strings(np.array([0, len(text)]), text).tolist()[0])


def encode(table: dict, **changes):
    names = {
        "user": "user",
        "left": "a",
        "right": "b",
        "outcome": "y",
        "winner": None,
        "event": None,
    }
    columns = ComparisonColumns(**names | changes)
    return encode_comparisons(pa.record_batch(table), columns, CATALOGUES[0], HASH)


def test_events_are_hashed_like_people_and_must_be_there():
    table = {
        "user": ["ann"] * 4,
        "a": [0] * 4,
        "b": [1] * 4,
        "y": [1] * 4,
        "id": ["x", "", None, "y"],
    }
    encoded = encode(table, event="id")
    assert encoded.rejects["reason"].to_pylist() == ["null event", "null event"]
    assert [tuple(event) for event in encoded.rows.event.tolist()] == [
        pseudonym("x"),
        pseudonym("y"),
    ]


def test_without_a_hash_people_are_not_read():
    table = pa.record_batch({"a": [0], "b": [1], "y": [1]})
    names = {"user": None, "left": "a", "right": "b", "outcome": "y", "winner": None, "event": None}
    rows = encode_comparisons(table, ComparisonColumns(**names), CATALOGUES[0], None).rows
    assert rows.user is None
    assert rows.event is None


def test_people_above_the_signed_range_are_not_those_below_zero():
    unsigned = pseudonyms(pa.array([2**64 - 7, 7, 2**63], pa.uint64()), HASH)
    signed = pseudonyms(pa.array([-7, 7, -(2**63)], pa.int64()), HASH)
    assert (unsigned[1] == signed[1]).all()
    assert len(np.unique(np.concatenate([unsigned, signed]), axis=0)) == 5


def test_a_column_of_people_that_are_all_null():
    for column in (pa.nulls(2, pa.string()), pa.nulls(2, pa.int64()), pa.nulls(2, TEXT[4])):
        encoded = encode({"user": column, "a": [0, 1], "b": [1, 0], "y": [1, 1]})
        assert encoded.rejects["reason"].to_pylist() == ["null user", "null user"]


def test_text_that_is_not_utf8_names_no_item_but_may_name_a_person():
    table = {
        "user": pa.array([b"\xff", b"\xfe"]),
        "a": pa.array([b"ants", b"\xe9"]),
        "b": pa.array([b"bees", b"bees"]),
        "y": pa.array([b"1", b"1"]),
    }
    encoded = encode(table)
    assert len(encoded.rows) == 1
    assert encoded.rejects["reason"].to_pylist() == ["item not in the catalogue"]
    assert encoded.rejects["a"].to_pylist() == [b"\xe9"]


def test_blanks_around_a_name_are_no_part_of_it_but_case_is():
    names = ["ann", "ann ", " ann", "\tann\r", "Ann", "an n", "7", " 7"]
    for kind in (pa.string(), pa.binary(), pa.dictionary(pa.int8(), pa.string())):
        found = [tuple(row) for row in pseudonyms(pa.array(names).cast(kind), HASH)]
        assert [found.index(each) for each in found] == [0, 0, 0, 0, 4, 5, 6, 6]
        older = pseudonyms(pa.array(names).cast(kind), HASH, Naming.NUMBERS)
        assert len({tuple(row) for row in older}) == len(names)  # of streams that began so


def test_a_name_of_blanks_names_nobody():
    for kind in (pa.string(), pa.binary()):
        batch = pa.record_batch({"user": pa.array(["ann", "", " \t", None]).cast(kind)})
        assert missing(batch, "user").tolist() == [False, True, True, True]


@pytest.mark.parametrize("columns", [["user", "a", "b", "y"], ["user", "a", "b", "y", "extra"]])
def test_rows_set_aside_keep_every_column_that_was_read(columns):
    table = {name: ["ants"] for name in columns}
    encoded = encode(table)
    assert encoded.rejects.column_names == [*columns, "reason"]


def test_lines_that_are_no_rows_have_the_columns_of_rows():
    schema = pa.schema({"user": pa.int64(), "a": pa.string()})
    table = text_of_rejects(("{", "]"), schema)
    assert table.schema.field("user").type == pa.int64()
    assert table.to_pylist() == [
        {"user": None, "a": None, "line": line, "reason": "not a row of this format"}
        for line in ("{", "]")
    ]
