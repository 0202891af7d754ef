"""Tables written piece by piece come back whole, in each format."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.json as pajson
import pyarrow.parquet as pq
import pytest

from hushrank.pipelines.simulate.simulate import open_row_file
from hushrank.transforms.storage.files import FileFormat

AWKWARD = ["plain", 'a "quoted", name', "back\\slash", "São Paulo ✓", "two\tparts"]
TABLE = pa.table(
    {
        "user": pa.array([1, 2, 3, 4, 5], pa.int64()),
        "item": pa.array(AWKWARD),
        "epsilon": pa.array([0.5, 2.0, 1e-7, 0.1, 3.25]),
    }
)
READERS = {
    FileFormat.PARQUET: pq.read_table,
    FileFormat.CSV: pacsv.read_csv,
    FileFormat.JSONL: pajson.read_json,
}


@pytest.mark.parametrize("format_", READERS)
def test_pieces_come_back_in_order(format_, tmp_path):
    path = tmp_path / f"rows.{format_.value}"
    with open_row_file(path, TABLE.schema, format_) as append:
        append(TABLE.slice(0, 2))
        append(TABLE.slice(2, 0))
        append(TABLE.slice(2))
    assert READERS[format_](path).to_pydict() == TABLE.to_pydict()


def test_every_json_line_is_one_object(tmp_path):
    path = tmp_path / "rows.jsonl"
    with open_row_file(path, TABLE.schema, FileFormat.JSONL) as append:
        append(TABLE)
    assert [json.loads(line) for line in path.read_text().splitlines()] == TABLE.to_pylist()


def test_a_piece_is_a_row_group(tmp_path):
    path = tmp_path / "rows.parquet"
    with open_row_file(path, TABLE.schema, FileFormat.PARQUET) as append:
        append(TABLE.slice(0, 2))
        append(TABLE.slice(2))
    groups = pq.ParquetFile(path).metadata
    assert [groups.row_group(group).num_rows for group in range(groups.num_row_groups)] == [2, 3]
