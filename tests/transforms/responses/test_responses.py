"""Test answers as people write them: what is read as right, wrong, unanswered or a mistake."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest

from hushrank.privacy.keyed_hash import KeyedHash
from hushrank.transforms.common.catalogue import Catalogue
from hushrank.transforms.common.schema import InputError, check_schema
from hushrank.transforms.responses.responses import ResponseColumns, WideColumns, encode_responses

HASH = KeyedHash(bytes(32))
ITEMS = Catalogue(("add", "divide", "root"))
LONG = ResponseColumns(user="who", item="item", correct="right")
TIMED = ResponseColumns(user="who", item="item", correct="right", order="time")
WIDE = WideColumns(user="who", items=ITEMS.names)


def encoded(columns, /, **arrays):
    return encode_responses(pa.record_batch(arrays), columns, ITEMS, HASH)


def answers(right, **changes):
    """A row for each of `right`, all on the first item, each by a person of its own."""
    rows = {"who": np.arange(len(right)), "item": ["add"] * len(right), "right": right}
    return encoded(LONG, **(rows | changes))


ONES_AND_ZEROS = [
    pa.array([1, 0], pa.int8()),
    pa.array([1.0, 0.0]),
    pa.array([True, False]),
    pa.array(["1", "0"]),
    pa.array([" 1.0 ", "0.0"]),
    pa.array(["TRUE", "False"]),
    pa.array(["1", "0"]).dictionary_encode(),
]


@pytest.mark.parametrize("right", ONES_AND_ZEROS, ids=lambda column: str(column.type))
def test_right_and_wrong_are_read_from_any_type(right):
    found = answers(right)
    assert found.rejects is None
    assert found.rows.correct.tolist() == [1, 0]


MISTAKES = [
    (pa.array([1, 2]), "answer is neither 0 nor 1"),
    (pa.array([1, -1]), "answer is neither 0 nor 1"),
    (pa.array([1.0, 0.5]), "answer is neither 0 nor 1"),
    (pa.array(["1", "yes"]), "answer is neither 0 nor 1"),
    (pa.array([1, None]), "null answer"),
    (pa.array([1.0, float("nan")]), "null answer"),
    (pa.array([True, None]), "null answer"),
    (pa.array(["1", "NA"]), "null answer"),
    (pa.array(["1", " "]), "null answer"),
]


@pytest.mark.parametrize(("right", "reason"), MISTAKES)
def test_anything_else_is_set_aside_with_its_row(right, reason):
    found = answers(right)
    assert found.rows.correct.tolist() == [1]
    assert found.rejects.column_names == ["who", "item", "right", "reason"]
    assert found.rejects["who"].to_pylist() == [1]
    assert found.rejects["reason"].to_pylist() == [reason]


def test_the_first_broken_rule_is_the_reason():
    found = encoded(
        LONG,
        who=pa.array([None, 1, 2, 3], pa.int64()),
        item=[None, None, "log", "add"],
        right=pa.array([None, None, None, 1], pa.int8()),
    )
    reasons = ["null user", "null item", "item not in the catalogue"]
    assert found.rejects["reason"].to_pylist() == reasons
    assert len(found.rows) == 1


def test_rows_of_one_person_share_a_pseudonym_wherever_they_are():
    rows = {"item": ["add", "root", "add", "divide"], "right": [1, 0, 0, 1]}
    for who in (
        pa.array(["ann", "ann", "bob", "ann"]),
        pa.array(["ann", "ann", "bob", "ann"]).dictionary_encode(),
        pa.array([7, 7, 8, 7]),
    ):
        found = encoded(LONG, who=who, **rows).rows
        owner = found.owner[found.person]
        assert (owner[0] == owner[1]).all()
        assert (owner[0] == owner[3]).all()
        assert (owner[0] != owner[2]).any()
        assert len(found.owner) == 3  # runs of rows


def test_a_wide_table_becomes_one_answer_a_filled_cell():
    columns = {
        "add": pa.array([1, None, 0]),
        "divide": pa.array([None, None, True]),
        "root": pa.nulls(3),
    }
    found = encoded(WIDE, who=["ann", "bob", "cyd"], **columns)
    assert found.rejects is None
    assert found.rows.person.tolist() == [0, 2, 2]
    assert found.rows.item.tolist() == [0, 0, 1]
    assert found.rows.correct.tolist() == [1, 0, 1]


def test_a_wide_row_with_one_bad_cell_is_set_aside_as_a_whole():
    columns = {"add": ["1", "1"], "divide": ["0", "x"], "root": ["", "NA"]}
    found = encoded(WIDE, who=["ann", "bob"], **columns)
    assert found.rows.correct.tolist() == [1, 0]
    assert found.rejects["who"].to_pylist() == ["bob"]
    assert found.rejects["reason"].to_pylist() == ["an answer is neither 0, 1 nor empty"]


ORDERS = [
    pa.array([3, 1, 2]),
    pa.array(["3", "+1", " 2"]),
    pa.array(["3", "+1", " 2"]).dictionary_encode(),
    pa.array(["1795129200000000003", "1795129200000000001", "1795129200000000002"]),  # nanoseconds
    pa.array([dt.date(2026, 3, 1), dt.date(2026, 1, 1), dt.date(2026, 2, 1)]),
    pa.array([dt.datetime(2026, 1, 1, hour) for hour in (3, 1, 2)]),
    pa.array(["2026-01-01T00:00:03Z", "2026-01-01", "2026-01-01 00:00:02.5"]),
]


@pytest.mark.parametrize("time", ORDERS)
def test_numbers_and_times_give_an_order(time):
    found = encoded(TIMED, who=[1, 2, 3], item=["add"] * 3, right=[1] * 3, time=time)
    assert found.rejects is None
    assert np.argsort(found.rows.order).tolist() == [1, 2, 0]


def test_text_that_is_no_time_is_set_aside():
    time = ["2026-02-30", "noon", None, "2026-13-01", "1"]
    found = encoded(TIMED, who=range(5), item=["add"] * 5, right=[1] * 5, time=time)
    assert found.rows.order.tolist() == [1]
    neither = "order is neither a whole number nor a time"
    assert found.rejects["reason"].to_pylist() == [neither, neither, "null order", neither]


REFUSED_SCHEMAS = [
    (LONG, {"right": pa.list_(pa.int8())}, "column right (input.columns.correct) has type list"),
    (LONG, {"right": pa.null()}, "column right (input.columns.correct) holds nothing but nulls"),
    (TIMED, {"time": pa.float64()}, "column time (input.columns.order) has type double"),
    (TIMED, {}, "column time not found. Columns: who, item, right"),
    (WIDE, {}, "column add not found. In a wide table every item of the catalogue has a column"),
]


@pytest.mark.parametrize(("columns", "changes", "message"), REFUSED_SCHEMAS)
def test_columns_that_cannot_be_read_are_named(columns, changes, message):
    types = {"who": pa.int64(), "item": pa.string(), "right": pa.bool_()} | changes
    with pytest.raises(InputError) as error:
        check_schema("a.csv", pa.schema(types), columns)
    assert str(error.value).startswith(f"a.csv: {message}")


@pytest.mark.parametrize("columns", [LONG, WIDE], ids=["long", "wide"])
def test_people_without_a_name_are_not_taken_for_one_person(columns):
    cells = {"item": ["add", "root"], "right": [1, 0]}
    if columns is WIDE:
        cells = {name: [1, 0] for name in ITEMS.names}
    found = encoded(columns, who=["", "anna"], **cells)
    assert len(found.rows.owner) == 1
    assert found.rejects["reason"].to_pylist() == ["null user"]
