"""The smallest and largest value of every type, in one row: it ends no run and hides no other row.

Tables and files have statistics of their columns, which may hold what Python has no object for:
dates before year 1, for example. They decide which files and row groups are read at all.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import deltalake
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.typedef import Record
from pyiceberg.utils.config import Config

from hushrank.transforms.common.schema import ComparisonColumns
from hushrank.transforms.storage.files import check_files, list_files
from hushrank.transforms.storage.read import plan_files, read_batches
from hushrank.transforms.storage.window import Window

WINDOW = Window.of("at", date(2026, 11, 20), ZoneInfo("Europe/Berlin"))
NOON = int(datetime(2026, 11, 20, 12, tzinfo=UTC).timestamp())
COLUMNS = ComparisonColumns(
    user="user", left="left", right="right", outcome="outcome", winner=None, event=None
)
INT32, INT64 = (-(2**31), 2**31 - 1), (-(2**63), 2**63 - 1)
YEARS = (-719_162 - 100, 2_932_896 + 100)  # days of the years 0 and 10000
FAR = tuple(86_400_000_000 * day for day in YEARS)
TIMES = {
    "date": (pa.date32(), INT32),
    "date of a far year": (pa.date32(), YEARS),
    "timestamp": (pa.timestamp("us", "UTC"), INT64),
    "timestamp of a far year": (pa.timestamp("us", "UTC"), FAR),
    "timestamp without a zone": (pa.timestamp("us"), INT64),
    "timestamp of a far year without a zone": (pa.timestamp("us"), FAR),
}
TYPES: dict[str, tuple[pa.DataType, tuple[Any, Any]]] = TIMES | {
    "truth": (pa.bool_(), (False, True)),
    "int32": (pa.int32(), INT32),
    "int64": (pa.int64(), INT64),
    "float": (pa.float32(), (float("-inf"), float("nan"))),
    "double": (pa.float64(), (float("nan"), 1.7976931348623157e308)),
    "decimal": (pa.decimal128(38, 0), (Decimal(-(10**38) + 1), Decimal(10**38 - 1))),
    "small decimal": (pa.decimal128(9, 2), (Decimal("-9999999.99"), Decimal("9999999.99"))),
    "text": (pa.string(), ("", "\U0010ffff" * 300)),
    "binary": (pa.binary(), (b"", b"\xff" * 300)),
}


def column(kind: pa.DataType, values: tuple[Any, ...]) -> pa.Array:
    if not pa.types.is_temporal(kind):
        return pa.array(values, kind)
    return pa.array(values, pa.int32() if pa.types.is_date(kind) else pa.int64()).view(kind)


def tonight(kind: pa.DataType) -> int:
    return NOON // 86_400 if pa.types.is_date(kind) else NOON * 1_000_000


def rows_of(at: pa.Array) -> pa.Table:
    n = len(at)
    rows = {"user": [f"u{k}" for k in range(n)], "left": [0] * n, "right": [1] * n}
    return pa.table({**rows, "outcome": [1] * n, "at": at})


def users_of(path: str) -> list[str]:
    """Whose rows of the night are read."""
    files = [replace(file, window=WINDOW) for file in list_files([path], times="at")]
    check_files(files, COLUMNS)
    batches = [batch for split in plan_files(files, COLUMNS) for batch in read_batches(split)]
    assert not any(batch.malformed or batch.rejects for batch in batches)
    return sorted(user.as_py() for batch in batches for user in batch.rows["user"])


Write = Callable[[pa.Table], str]


def in_parquet(folder: Path) -> Write:
    def write(rows: pa.Table) -> str:
        pq.write_table(rows, folder / "x.parquet", row_group_size=2)
        return str(folder / "x.parquet")

    return write


def _cells(rows: pa.Table) -> Iterator[tuple[str, pa.ChunkedArray]]:
    return zip(rows.column_names, rows.columns, strict=True)


def _as_json(value: pa.Scalar, sign: str) -> Any:
    """A statistic as the log of a Delta table has it."""
    if pa.types.is_struct(value.type):
        return {field.name: _as_json(value[field.name], sign) for field in value.type}
    if pa.types.is_temporal(value.type):
        unit = "D" if pa.types.is_date(value.type) else "us"
        text = str(np.datetime64(value.value, unit))
        text = sign + text if value.value > YEARS[1] else text
        return text + "Z" if pa.types.is_timestamp(value.type) and value.type.tz else text
    if pa.types.is_floating(value.type) or pa.types.is_binary(value.type):
        return None
    return float(value.as_py()) if pa.types.is_decimal(value.type) else value.as_py()


def _zeros(kind: pa.DataType) -> Any:
    return {each.name: _zeros(each.type) for each in kind} if pa.types.is_struct(kind) else 0


def in_delta(folder: Path, sign: str = "+") -> Write:
    """Write rows in the given order: each file has its least value first and its largest last."""

    def write(rows: pa.Table) -> str:
        deltalake.write_deltalake(folder / "t", rows.slice(0, 0))
        actions = []
        for number, part in enumerate((rows[:2], rows[2:])):
            pq.write_table(part, folder / "t" / f"{number}.parquet")
            ends = {
                name: {key: _as_json(values[place], sign) for key, values in _cells(part)}
                for name, place in (("minValues", 0), ("maxValues", -1))
            }
            nulls = {field.name: _zeros(field.type) for field in part.schema}
            stats = json.dumps({"numRecords": len(part), **ends, "nullCount": nulls})
            size = (folder / "t" / f"{number}.parquet").stat().st_size
            actions.append(
                {
                    "add": {
                        "path": f"{number}.parquet",
                        "partitionValues": {},
                        "size": size,
                        "modificationTime": 0,
                        "dataChange": True,
                        "stats": stats,
                    }
                }
            )
        log = folder / "t" / "_delta_log" / f"{1:020d}.json"
        log.write_text("\n".join(map(json.dumps, actions)))
        return f"delta:{folder}/t"

    return write


def _as_bytes(value: pa.Scalar) -> bytes | None:
    """A statistic as the manifest of an Iceberg table has it; None: this test leaves it out."""
    if pa.types.is_temporal(value.type):
        return int(value.value).to_bytes(
            4 if pa.types.is_date(value.type) else 8, "little", signed=True
        )
    if pa.types.is_integer(value.type):
        return int(value.as_py()).to_bytes(value.type.bit_width // 8, "little", signed=True)
    return None


def in_iceberg(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """A table whose manifest says what other writers than pyiceberg write: it refuses far years."""
    (folder / ".pyiceberg.yaml").write_text(
        f"catalog:\n  lake:\n    uri: sqlite:///{folder}/c.db\n    warehouse: file://{folder}/w\n"
    )
    monkeypatch.setenv("PYICEBERG_HOME", str(folder))
    monkeypatch.setattr("pyiceberg.catalog._ENV_CONFIG", Config())

    def write(rows: pa.Table) -> str:
        catalog = load_catalog("lake")
        catalog.create_namespace("arena")
        table = catalog.create_table("arena.battles", rows.schema)
        schema = table.schema()
        change = table.transaction()
        with change.update_snapshot().fast_append() as append:
            for number, part in enumerate((rows[:2], rows[2:])):
                path = folder / f"{number}.parquet"
                pq.write_table(part.cast(schema_to_pyarrow(schema)), path)
                bounds = [
                    {
                        schema.find_field(name).field_id: found
                        for name, values in _cells(part)
                        if (found := _as_bytes(values[place])) is not None
                    }
                    for place in (0, -1)
                ]
                ids = [field.field_id for field in schema.fields]
                append.append_data_file(
                    DataFile.from_args(
                        content=DataFileContent.DATA,
                        file_path=f"file://{path}",
                        file_format=FileFormat.PARQUET,
                        partition=Record(),
                        record_count=len(part),
                        file_size_in_bytes=path.stat().st_size,
                        column_sizes={},
                        value_counts=dict.fromkeys(ids, len(part)),
                        null_value_counts=dict.fromkeys(ids, 0),
                        nan_value_counts={},
                        lower_bounds=bounds[0],
                        upper_bounds=bounds[1],
                        key_metadata=None,
                        split_offsets=None,
                        equality_ids=None,
                        sort_order_id=None,
                    )
                )
        change.commit_transaction()
        return "iceberg://lake/arena.battles"

    return write


@pytest.fixture(params=["parquet", "delta", "delta, without signs", "iceberg"])
def write(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    if request.param == "parquet":
        return in_parquet(tmp_path)
    if request.param == "iceberg":
        return in_iceberg(tmp_path, monkeypatch)
    return in_delta(tmp_path, "+" if request.param == "delta" else "")


@pytest.mark.parametrize("name", TYPES)
def test_a_column_that_is_not_read_may_hold_anything(name, write):
    kind, (smallest, largest) = TYPES[name]
    at = column(pa.timestamp("us", "UTC"), (tonight(pa.timestamp("us", "UTC")),) * 4)
    more = column(kind, (smallest, largest, smallest, largest))
    in_a_struct = pa.StructArray.from_arrays([more], ["at"])
    rows = rows_of(at).append_column("more", more).append_column("struct", in_a_struct)
    assert users_of(write(rows)) == ["u0", "u1", "u2", "u3"]


@pytest.mark.parametrize("place", [0, 3])
@pytest.mark.parametrize("end", [0, 1])
@pytest.mark.parametrize("name", TIMES)
def test_one_wild_time_lies_outside_of_the_night(name, end, place, write):
    """The smallest comes first in its file and the largest last, as the statistics here say."""
    kind, ends = TIMES[name]
    times = [tonight(kind)] * 4
    times[place] = ends[end]
    for half in (slice(0, 2), slice(2, 4)):
        times[half] = sorted(times[half])
    others = [f"u{k}" for k in range(4) if times[k] == tonight(kind)]
    assert users_of(write(rows_of(column(kind, tuple(times))))) == others
    assert len(others) == 3


@pytest.mark.parametrize("wild", ["0000-06-01", "-0005-01-01", "+10000-01-01"])
@pytest.mark.parametrize("window", [WINDOW, None])
def test_a_partition_of_a_far_date(wild, window, tmp_path):
    """The files of a Delta table do not hold the values of their partition; the log does."""
    rows = rows_of(column(pa.date32(), (tonight(pa.date32()),) * 2))
    deltalake.write_deltalake(tmp_path / "t", rows, partition_by=["at"])
    (log,) = (tmp_path / "t" / "_delta_log").glob("*.json")
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    (added,) = (action for action in actions if "add" in action)
    far = json.loads(json.dumps(added))
    far["add"]["partitionValues"]["at"] = wild
    far["add"]["path"] = "far.parquet"
    (tmp_path / "t" / "far.parquet").write_bytes(
        (tmp_path / "t" / added["add"]["path"]).read_bytes()
    )
    log.write_text("\n".join(map(json.dumps, [*actions, far])))
    files = [
        replace(file, window=window) for file in list_files([f"delta:{tmp_path}/t"], times="at")
    ]
    batches = [batch for split in plan_files(files, COLUMNS) for batch in read_batches(split)]
    assert sum(len(batch.rows) for batch in batches) == (2 if window else 4)
    assert not any(batch.rejects for batch in batches)
