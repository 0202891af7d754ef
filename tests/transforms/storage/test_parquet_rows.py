"""The same rows however a Parquet file encodes them, in batches cut by their bytes."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hushrank.transforms.storage import parquet_rows
from hushrank.transforms.storage.parquet_rows import LEAST_ROWS, read_parquet

N = 3000
# Many names, so that a dictionary of 20 000 bytes ends within the first rows; some are null.
NAMES = [None if n % 7 == 0 else f"person-{n * 7919 % N:08d}" for n in range(N)]
FEW = [f"item-{n % 5}" for n in range(N)]
LISTS = [None if n % 11 == 0 else FEW[: n % 4] for n in range(N)]
WAYS = {
    "dictionaries": {},
    "dictionaries that end": {"dictionary_pagesize_limit": 20_000, "write_batch_size": 100},
    "plain": {"use_dictionary": False},
    "differences": {"use_dictionary": False, "column_encoding": {"who": "DELTA_BYTE_ARRAY"}},
    "lengths": {"use_dictionary": False, "column_encoding": {"item": "DELTA_LENGTH_BYTE_ARRAY"}},
    "row groups": {"row_group_size": 700},
}


def batches_of(table: pa.Table, most_rows: int = 1 << 20, **how) -> list[pa.RecordBatch]:
    buffer = io.BytesIO()
    pq.write_table(table, buffer, **how)
    groups = range(pq.read_metadata(buffer).num_row_groups)
    return list(
        read_parquet(
            pa.BufferReader(buffer.getvalue()), table.schema, groups, ["item"], most_rows,
            remote=False, threads=False,
        )
    )  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("text", [pa.string(), pa.large_string(), pa.binary(), pa.string_view()])
def test_every_encoding_gives_the_same_rows(way, text):
    lists = pa.array(LISTS, pa.list_(pa.string()))
    names = pa.array(NAMES).cast(text)
    table = pa.table({"who": names, "item": FEW, "list": lists, "n": range(N)})
    batches = batches_of(table, **WAYS[way])
    found = {name: [x for b in batches for x in b[name].to_pylist()] for name in table.schema.names}
    who = [x.decode() if isinstance(x, bytes) else x for x in found["who"]]
    assert (who, found["item"], found["list"]) == (NAMES, FEW, LISTS)
    assert found["n"] == list(range(N))


def test_names_stay_dictionaries_where_they_repeat_and_not_where_most_are_different(monkeypatch):
    repeated = pa.table({"who": FEW})
    assert pa.types.is_dictionary(batches_of(repeated)[0]["who"].type)
    how = WAYS["dictionaries that end"]
    different = pa.table({"who": [f"{n:064d}" for n in range(N)]})
    assert batches_of(different, **how)[0]["who"].type == pa.string()  # in a tenth of the time
    monkeypatch.setattr(parquet_rows, "_SHORT", 20)
    assert pa.types.is_dictionary(batches_of(different, **how)[0]["who"].type)


def test_batches_are_cut_by_the_bytes_of_texts(monkeypatch):
    names = [f"{n:0500d}" for n in range(N)]
    for way in ("plain", "lengths", "dictionaries that end"):
        assert len(batches_of(pa.table({"who": names}), **WAYS[way])) == 1
    monkeypatch.setattr(parquet_rows, "BATCH_BYTES", 300_000)
    for way in ("plain", "dictionaries that end"):
        sizes = [len(batch) for batch in batches_of(pa.table({"who": names}), **WAYS[way])]
        assert sum(sizes) == N
        assert LEAST_ROWS <= max(sizes) <= 300_000 // 500
    monkeypatch.setattr(parquet_rows, "DELTA_ROWS", 10)
    batches = batches_of(pa.table({"who": names}), **WAYS["differences"])
    assert max(map(len, batches)) == 10


def test_long_lists_make_short_batches():
    lists = pa.array([list(range(1000))] * 300)
    batches = batches_of(pa.table({"list": lists}), most_rows=160)
    assert max(map(len, batches)) <= 11  # as many cells as 160 rows of 64


def test_long_items_of_lists_make_short_batches(monkeypatch):
    lists = pa.array([["x" * 2000, "y"]] * 3000)
    assert len(batches_of(pa.table({"list": lists}))) == 1
    monkeypatch.setattr(parquet_rows, "BATCH_BYTES", 2_000_000)
    sizes = [len(batch) for batch in batches_of(pa.table({"list": lists}))]
    assert max(sizes) == 500
    hidden = pa.array([None] + [["x" * 2000]] * 2999)  # by the first row the texts are not known
    assert max(map(len, batches_of(pa.table({"list": hidden})))) == parquet_rows.LEAST_LISTS


def test_lists_whose_dictionary_ends_are_read():
    lists = [[f"{n:090d}", f"{n + 1:090d}"] for n in range(N)]
    for groups in ({}, {"row_group_size": 1000}):
        table = pa.table({"list": lists, "n": range(N)})
        batches = batches_of(table, **WAYS["dictionaries that end"], **groups)
        assert [x for batch in batches for x in batch["list"].to_pylist()] == lists


def test_a_null_among_lists_of_a_fixed_size_is_a_row():
    lists = pa.array([["a", "b"], None, ["b", None]], pa.list_(pa.string(), 2))
    (batch,) = batches_of(pa.table({"list": lists}))
    assert batch["list"].to_pylist() == [["a", "b"], None, ["b", None]]


@pytest.mark.parametrize("groups", [{}, {"row_group_size": 2}], ids=["one group", "two groups"])
@pytest.mark.parametrize(
    "texts",
    [pa.dictionary(pa.int32(), pa.string()), pa.string_view(), pa.binary_view()],
    ids=["dictionary", "string view", "binary view"],
)
def test_lists_are_read_whatever_arrow_noted_of_their_texts(texts, groups):
    lists = [["a", "b"], None, ["b"], [], ["c", None]]
    plain = pa.binary() if pa.types.is_binary_view(texts) else pa.string()
    noted = pa.array([value for each in lists if each for value in each], plain).cast(texts)
    offsets = pa.array([0, None, 2, 3, 3, 5], pa.int32())
    table = pa.table({"list": pa.ListArray.from_arrays(offsets, noted)})
    batches = batches_of(table, **groups)
    found = pa.chunked_array([batch["list"] for batch in batches])
    assert found.cast(pa.list_(plain)).cast(pa.list_(pa.string())).to_pylist() == lists


def test_a_first_row_of_nulls_does_not_hide_the_dictionary():
    names = [None] * 10 + ["x" * 5000] * 100 + [f"{n:0100d}" for n in range(3000)]
    batches = batches_of(pa.table({"who": names}), **WAYS["dictionaries that end"])
    assert all(pa.types.is_dictionary(batch["who"].type) for batch in batches)
    assert [x for batch in batches for x in batch["who"].to_pylist()] == names
