"""Files of many tiny parts are read in few batches, and every row is what it is part by part."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.feather
import pyarrow.orc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushrank.transforms.common.schema import ComparisonColumns
from hushrank.transforms.storage import parquet_rows
from hushrank.transforms.storage.files import list_files
from hushrank.transforms.storage.read import plan_files, read_batches
from hushrank.transforms.storage.split import SMALL_BYTES, SMALL_ROWS, Split, joined

COLUMNS = ComparisonColumns(
    user="user", left="left", right="right", outcome="outcome", winner=None, event=None
)
TEXT = pa.string()
NAMES = st.none() | st.sampled_from(["", "a", "b", "ä" * 40, "c" * 1500])
ROWS = st.lists(st.tuples(NAMES, NAMES, NAMES, st.none() | st.sampled_from(["left", "right"])))


def table_of(rows: list[tuple[str | None, ...]], users: pa.DataType = TEXT) -> pa.Table:
    names = ("user", "left", "right", "outcome")
    types = (users, pa.string(), pa.string(), pa.string())
    columns = zip(*rows, strict=True) if rows else ((),) * len(names)
    arrays = [pa.array(list(column)).cast(type_) if rows else pa.array([], type_)
              for column, type_ in zip(columns, types, strict=True)]  # fmt: skip
    return pa.table(dict(zip(names, arrays, strict=True)))


def splits_of(path: Path) -> list[Split]:
    return plan_files(list_files([str(path)]), COLUMNS)


def content(splits: list[Split]) -> tuple[list[Any], list[Any], int]:
    """Rows in order, rows that are set aside in order, and how many batches there were."""
    batches = [batch for split in splits for batch in read_batches(split)]
    rows = [row for batch in batches for row in batch.rows.to_pylist()]
    rejects = [row for batch in batches for table in batch.rejects for row in table.to_pylist()]
    return rows, rejects, len(batches)


def group_by_group(splits: list[Split]) -> list[Split]:
    return [replace(split, row_groups=(group,)) for split in splits for group in split.row_groups]


@settings(deadline=None, max_examples=40)
@given(ROWS, st.integers(1, 4), st.booleans(), st.sampled_from([pa.string(), pa.large_binary()]))
def test_rows_of_parquet_are_those_of_its_row_groups(tmp_path_factory, rows, size, coded, users):
    path = tmp_path_factory.mktemp("rows") / "rows.parquet"
    pq.write_table(table_of(rows, users), path, row_group_size=size, use_dictionary=coded)
    splits = splits_of(path)
    if not splits[0].row_groups:
        assert content(splits)[0] == []
        return
    whole, parts = content(splits), content(group_by_group(splits))
    assert whole[:2] == parts[:2]
    assert len(whole[0]) + len(whole[1]) == len(rows)


MANY = [(f"u{k}" * (1 + k % 3), f"item {k % 7}", f"item {k % 5}", "left") for k in range(600)]


def test_a_row_in_each_row_group_is_one_batch_without_a_look_at_each_dictionary(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(parquet_rows, "_dictionary", None)
    path = tmp_path / "rows.parquet"
    pq.write_table(table_of(MANY), path, row_group_size=1)
    rows, _, batches = content(splits_of(path))
    assert (len(rows), batches) == (600, 1)


def in_arrow(path: Path, table: pa.Table) -> None:
    with pa.ipc.new_file(path, table.schema) as file:
        for batch in table.to_batches(max_chunksize=1):
            file.write(batch)


def in_orc(path: Path, table: pa.Table) -> None:
    with pyarrow.orc.ORCWriter(str(path), stripe_size=1, batch_size=1) as file:
        for batch in table.to_batches(max_chunksize=1):
            file.write(pa.Table.from_batches([batch]))


@pytest.mark.parametrize(("name", "write"), [("rows.arrow", in_arrow), ("rows.orc", in_orc)])
def test_a_row_in_each_part_of_another_file_is_one_batch(tmp_path, name, write):
    write(tmp_path / name, table_of(MANY))
    rows, _, batches = content(splits_of(tmp_path / name))
    assert (len(rows), batches) == (600, 1)
    assert [row["left"] for row in rows] == [left for _, left, _, _ in MANY]


def batch_of(values: list[Any]) -> pa.RecordBatch:
    return pa.record_batch({"text": pa.array(values)})


def test_dictionaries_are_joined_by_what_they_say():
    coded = [
        pa.record_batch({"text": pa.array(each).dictionary_encode()})
        for each in (["a"], ["b", None], ["a", "c"])
    ]
    (whole,) = joined(coded, SMALL_ROWS)
    assert whole["text"].to_pylist() == ["a", "b", None, "a", "c"]


def test_dictionaries_that_arrow_cannot_join_stay_apart():
    """Together they have more texts than the type of their positions can count."""
    coded = [
        pa.record_batch(
            {"text": pa.DictionaryArray.from_arrays(pa.array([0], pa.int8()), [f"text {k}"])}
        )
        for k in range(300)
    ]
    texts = [text for batch in joined(coded, SMALL_ROWS) for text in batch["text"].to_pylist()]
    assert texts == [f"text {k}" for k in range(300)]


def test_large_batches_pass_and_small_ones_end_at_both_limits():
    large = batch_of(["x"] * SMALL_ROWS)
    long = batch_of(["y" * SMALL_BYTES])
    half = batch_of(["z" * (SMALL_BYTES // 2)])
    mixed = [large, batch_of(["a"]), long, half, half, half, large]
    sizes = [len(each) for each in joined(mixed, 1 << 20)]
    assert sizes == [SMALL_ROWS, 1, 1, 2, 1, SMALL_ROWS]
    many = [batch_of(["x"] * (SMALL_ROWS - 1))] * 3
    assert [len(each) for each in joined(many, 1 << 20)] == [2 * (SMALL_ROWS - 1), SMALL_ROWS - 1]
    assert [len(each) for each in joined([batch_of(["x", "y"])] * 5, 5)] == [4, 4, 2]
    other = pa.record_batch({"text": [1]})
    assert [each["text"][0].as_py() for each in joined([batch_of(["a"]), other], 9)] == ["a", 1]
