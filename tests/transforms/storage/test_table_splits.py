"""Splits of tables: they travel to workers of an engine, and name no credentials."""

from __future__ import annotations

import pickle
from datetime import UTC, date, datetime

import deltalake
import pyarrow as pa
import pytest

from hushrank.transforms.common.schema import ComparisonColumns, InputError
from hushrank.transforms.storage.files import list_files
from hushrank.transforms.storage.read import plan_files, read_batches
from hushrank.transforms.tables.bigquery import night_condition
from hushrank.transforms.tables.names import (
    DataFile,
    Layout,
    StoredAs,
    absolute,
    local_path,
    table_name,
)

COLUMNS = ComparisonColumns(user="user", left="a", right="b", outcome="y", winner=None, event=None)
ROWS = pa.table({"user": ["ann", "bob"], "a": ["x 5/7%", "x 5/7%"], "b": ["y", "z"], "y": [1, -1]})


def test_splits_travel(tmp_path, monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hunter2")
    deltalake.write_deltalake(tmp_path / "t", ROWS, partition_by=["a"])
    sent = pickle.dumps(plan_files(list_files([f"delta:{tmp_path}/t"]), COLUMNS))
    assert b"hunter2" not in sent
    read = [batch.rows for split in pickle.loads(sent) for batch in read_batches(split)]
    assert sorted(row["b"] for rows in read for row in rows.to_pylist()) == ["y", "z"]
    assert {row["a"] for rows in read for row in rows.to_pylist()} == {"x 5/7%"}


def layout(number: int | None, names: tuple[str, ...] = ()) -> Layout:
    schema = pa.schema([("w", pa.string())])
    return Layout("iceberg://c/n.t", "1", schema, {"w": StoredAs(number, names)})


def stored(name: str, type_: pa.DataType, number: int | None = None) -> pa.Schema:
    metadata = None if number is None else {"PARQUET:field_id": str(number)}
    return pa.schema([pa.field(name, type_, metadata=metadata)])


def test_a_column_is_found_by_its_number_never_by_its_present_name():
    file = DataFile(layout(7), "x.parquet", 1)
    assert file.columns_of(stored("old", pa.string(), 7), ["w"]) == {"w": "old"}
    assert file.columns_of(stored("w", pa.string(), 8), ["w"]) == {"w": None}
    mapped = DataFile(layout(7, ("v", "old")), "x.parquet", 1)
    assert mapped.columns_of(stored("old", pa.string()), ["w"]) == {"w": "old"}
    with pytest.raises(InputError, match="no field ids, and the table has no name mapping"):
        file.columns_of(stored("w", pa.string()), ["w"])
    with pytest.raises(InputError, match="has type int64, but string in the table"):
        file.columns_of(stored("old", pa.int64(), 7), ["w"])


def test_a_message_does_not_name_folders_of_partitions():
    file = DataFile(layout(7), "s3://lake/t/user=ann/part-0.parquet", 1)
    assert file.name == "iceberg://c/n.t: data file part-0.parquet"


@pytest.mark.parametrize(
    ("type_", "value", "expected"),
    [
        (pa.date32(), 20_000, date(2024, 10, 4)),
        (pa.timestamp("us", "UTC"), 10**15, datetime(2001, 9, 9, 1, 46, 40, tzinfo=UTC)),
        (pa.string(), "de", "de"),
        (pa.string(), None, None),
    ],
)
def test_a_column_that_a_file_lacks_has_its_constant(type_, value, expected):
    schema = pa.schema([("w", type_)])
    kept = Layout("t", "1", schema, {"w": StoredAs(7, ())})
    file = DataFile(kept, "x.parquet", 1, {"w": value})
    rows = file.as_in_table(pa.record_batch({"v": [1, 2]}), schema, {"w": None})
    assert rows.column("w").to_pylist() == [expected, expected]
    assert rows.schema == schema


@pytest.mark.parametrize(
    ("type_", "condition"),
    [
        (pa.date32(), "`t` = DATE '2026-11-20' OR `t` IS NULL"),
        (
            pa.timestamp("us"),
            "(`t` >= DATETIME '2026-11-20 00:00:00' AND `t` < DATETIME_ADD("
            "DATETIME '2026-11-20 00:00:00', INTERVAL 1 DAY)) OR `t` IS NULL",
        ),
        (pa.string(), ""),
    ],
)
def test_the_condition_of_a_night(type_, condition):
    start, end = datetime(2026, 11, 20, tzinfo=UTC), datetime(2026, 11, 21, tzinfo=UTC)
    assert night_condition(pa.field("t", type_), start, end, "2026-11-20") == condition


def test_names_of_tables(tmp_path):
    assert absolute("delta:logs", "/home/me") == "delta:/home/me/logs"
    assert absolute("delta:s3://lake/x", "/home/me") == "delta:s3://lake/x"
    assert table_name("iceberg://c/a.b.t?ref=main").table == "a.b.t"
    assert table_name("bigquery://example.com:p.d.t").project == "example.com:p"
    assert local_path("file:///a%20b") == "/a%20b"  # a folder of a partition is called so
    assert local_path("file:/a/b") == "/a/b"
    assert local_path("s3://a/b") is None
