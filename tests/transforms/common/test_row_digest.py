"""The digest of rows depends on the rows alone: not on order, cuts or types of a library."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushrank.transforms.common.row_digest import RowDigest

KEY = bytes(range(32))
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


def digest(table: pa.Table, key: bytes = KEY) -> str:
    found = RowDigest(key, [(name, name) for name in table.schema.names])
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
