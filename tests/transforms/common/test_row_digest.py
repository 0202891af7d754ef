"""The digest of rows depends on the rows alone: not on order, cuts or types of a library."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushrank.transforms.common.row_digest import RowDigest

KEY = bytes(range(32))
WALL, UTC = datetime(2026, 11, 20, 23, 30), "2026-11-20 23:30:00.000000"
TABLE = pa.table(
    {
        "text": ["a", None, "c", ""],
        "number": [1.0, None, 2.5, -3.0],
        "lists": pa.array([["a", "b"], None, ["b", None], []]),
        "codes": pa.array([[1, 2], [3], None, []]),
        "flag": [True, None, False, True],
        "coded": pa.array(["q", "r", "q", None]).dictionary_encode(),
    }
)


def digest(table: pa.Table, key: bytes = KEY, role: str = "") -> str:
    found = RowDigest(key, [(role or name, name) for name in table.schema.names])
    for batch in table.to_batches():
        found.add(batch)
    return found.text()


def test_order_and_cuts_do_not_matter():
    cut = pa.concat_tables([TABLE.slice(2), TABLE.slice(0, 1), TABLE.slice(1, 1)])
    assert digest(TABLE.take([3, 1, 0, 2])) == digest(cut) == digest(TABLE)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (pa.array(["a", None]), pa.array(["a", None], pa.large_binary())),
        (pa.array(["a", "b"]), pa.array(["a", "b"]).dictionary_encode()),
        (pa.array([1, None, -3]), pa.array([1.0, None, -3.0])),
        (pa.array([1, 0], pa.uint8()), pa.array([True, False])),
        (pa.array([["a"], []]), pa.array([["a"], []], pa.large_list(pa.large_string()))),
    ],
)
def test_types_of_libraries_do_not_matter(one: pa.Array, other: pa.Array):
    assert digest(pa.table({"x": one})) == digest(pa.table({"x": other}))


@pytest.mark.parametrize(
    ("role", "one", "other"),
    [
        ("user", pa.array([7, 1 << 63], pa.uint64()), pa.array(["7", "9223372036854775808"])),
        ("user", pa.array([7.0]), pa.array([b"7"])),
        ("weight", pa.array([0.5, 1e300, None]), pa.array(["0.5", "1e+300", None])),
        ("weight", pa.array([Decimal("0.50")]), pa.array(["0.5"])),
        ("rank", pa.array([(1 << 53) + 1, 7]), pa.array(["9007199254740993", "7"])),
        ("correct", pa.array([True, False]), pa.array(["true", "false"])),
        ("ranking", pa.array([[1, 2]]), pa.array([["1", "2"]])),
        ("window", pa.array([WALL], pa.timestamp("ms")), pa.array(["2026-11-20 23:30:00.000000"])),
        ("window", pa.array([WALL], pa.timestamp("ns", "Asia/Tokyo")), pa.array([f"{UTC}Z"])),
        ("window", pa.array([WALL.date()]), pa.array(["2026-11-20"])),
    ],
)
def test_a_value_and_its_text_are_one(role: str, one: pa.Array, other: pa.Array):
    """A table of objects, whose values are read as texts, is the typed one again."""
    assert digest(pa.table({"x": one}), role=role) == digest(pa.table({"x": other}), role=role)


@pytest.mark.parametrize("name", TABLE.schema.names)
def test_another_value_in_any_column_is_another_table(name: str):
    place = TABLE.schema.get_field_index(name)
    swapped = TABLE.column(name).take([1, 0, 2, 3])
    assert digest(TABLE.set_column(place, name, swapped)) != digest(TABLE)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (pa.array([""]), pa.array([None], pa.string())),
        (pa.array([["ab"]]), pa.array([["a", "b"]])),
        (pa.array([[]], pa.list_(pa.string())), pa.array([None], pa.list_(pa.string()))),
        (pa.array([0.5]), pa.array([0.5 + 2**-50])),
        (pa.array(["a"]), pa.array(["a", "a"])),
        (pa.array([1 << 63], pa.uint64()), pa.array([-(1 << 63)])),
        (pa.array([WALL], pa.timestamp("us")), pa.array([WALL], pa.timestamp("us", "UTC"))),
    ],
)
def test_what_looks_alike_differs(one: pa.Array, other: pa.Array):
    assert digest(pa.table({"x": one})) != digest(pa.table({"x": other}))


def test_the_key_decides():
    assert digest(TABLE, bytes(32)) != digest(TABLE)


@given(st.lists(st.integers(0, 3), max_size=12), st.lists(st.integers(0, 3), max_size=12))
def test_it_tells_multisets_apart(one: list[int], other: list[int]):
    tables = (pa.table({"x": pa.array(rows, pa.int64())}) for rows in (one, other))
    first, second = map(digest, tables)
    assert (first == second) == (sorted(one) == sorted(other))
