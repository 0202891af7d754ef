"""Rows come as they are in the file; what is no row comes apart; nothing is lost or shown."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hushrank.transforms import read
from hushrank.transforms.files import list_files, read_schema
from hushrank.transforms.read import ReadBatch, Split, plan_splits, read_batches
from hushrank.transforms.schema import ComparisonColumns, InputError

COLUMNS = ComparisonColumns(user="u", left="a", right="b", outcome="y", winner=None, event=None)
NAMES = ["a", "b", "y", "u"]  # in the order in which they are asked for


def splits_of(path: Path, content: bytes | None = None) -> list[Split]:
    if content is not None:
        path.write_bytes(content)
    (file,) = list_files([str(path)])
    return plan_splits(file, read_schema(file), COLUMNS)


def batches_of(path: Path, content: bytes | None = None) -> list[ReadBatch]:
    return [batch for split in splits_of(path, content) for batch in read_batches(split)]


def rows_of(batches: list[ReadBatch]) -> list[tuple]:
    columns = [[batch.rows[name].to_pylist() for name in NAMES] for batch in batches]
    return [row for batch in columns for row in zip(*batch, strict=True)]


def malformed_of(batches: list[ReadBatch]) -> list[str]:
    return [line for batch in batches for line in batch.malformed]


def refusal(path: Path, content: bytes) -> str:
    with pytest.raises(InputError) as error:
        batches_of(path, content)
    return str(error.value)


@pytest.fixture
def csv(tmp_path) -> Path:
    return tmp_path / "x.csv"


@pytest.fixture
def jsonl(tmp_path) -> Path:
    return tmp_path / "x.jsonl"


@pytest.fixture
def parquet(tmp_path) -> Path:
    return tmp_path / "x.parquet"


HEADER = b"u,a,b,y\n"


@pytest.mark.parametrize(
    "content",
    [
        b"u,a,b,y\nann,0,1,-1\nbob,2,3,0\n",
        b"\xef\xbb\xbfu,a,b,y\r\nann,0,1,-1\r\nbob,2,3,0",
        b"y,extra,u,b,a\n-1,x,ann,1,0\n\n0,z,bob,3,2\n\n",
        b'u,a,b,y\n"ann","0","1","-1"\nbob,2,3,0\n',
        b"u,a,b,y\rann,0,1,-1\rbob,2,3,0\r",
    ],
)
def test_csv_in_every_dialect_of_commas(csv, content):
    assert rows_of(batches_of(csv, content)) == [("0", "1", "-1", "ann"), ("2", "3", "0", "bob")]


def test_csv_nulls_quotes_and_line_breaks(csv):
    rows = ',"",1,\n"a ""b""",x,"two\nlines",1\n é ,\x00,NULL,NA\n'
    assert rows_of(batches_of(csv, HEADER + rows.encode())) == [
        (None, "1", None, None),
        ("x", "two\nlines", "1", 'a "b"'),
        ("\x00", "NULL", "NA", " é "),
    ]


def test_csv_lines_of_another_width_come_apart(csv):
    content = HEADER + b"ann,0,1\nann,0,1,1\nann,0,1,1,9\n"
    batches = batches_of(csv, content)
    assert rows_of(batches) == [("0", "1", "1", "ann")]
    assert malformed_of(batches) == ["ann,0,1", "ann,0,1,1,9"]


def test_csv_of_nothing_but_malformed_lines(csv):
    batches = batches_of(csv, HEADER + b"1\n2\n")
    assert rows_of(batches) == []
    assert malformed_of(batches) == ["1", "2"]


@pytest.mark.parametrize("content", [b"u,a,b,y", b"u,a,b,y\n", b"\xef\xbb\xbfu,a,b,y\r\n"])
def test_csv_of_a_header_alone_has_no_rows(csv, content):
    assert rows_of(batches_of(csv, content)) == []


def test_no_malformed_line_is_lost_between_blocks(csv, monkeypatch):
    monkeypatch.setattr(read, "BLOCK_BYTES", 200)
    lines = [f"p{n},0,1,1" if n % 3 else f"p{n},0" for n in range(500)]
    batches = batches_of(csv, HEADER + "\n".join(lines).encode())
    assert len(batches) > 10
    assert [row[3] for row in rows_of(batches)] == [f"p{n}" for n in range(500) if n % 3]
    assert malformed_of(batches) == [f"p{n},0" for n in range(0, 500, 3)]


def test_csv_that_is_not_utf8(csv):
    message = refusal(csv, HEADER + "Zoé,0,1,1\n".encode("latin-1"))
    assert message == f"{csv}: not UTF-8 text. Save the file as UTF-8."


def test_csv_with_an_open_quote_is_set_aside_or_refused_but_not_shown(csv, monkeypatch):
    content = HEADER + b'"ann,0,1,1\nbob,0,1,1\n'
    assert malformed_of(batches_of(csv, content)) == ['"ann,0,1,1\nbob,0,1,1\n'.rstrip("\n")]
    monkeypatch.setattr(read, "BLOCK_BYTES", 100)
    assert refusal(csv, content + b"secret,0,1,1\n" * 100) == (
        f"{csv}: damaged, not readable as csv. Write it again."
    )


@pytest.mark.parametrize("ending", [b"\n", b"\r\n", b""])
def test_json_lines_with_blank_lines_and_other_keys(jsonl, ending):
    lines = [
        b'\xef\xbb\xbf{"u": "ann", "a": 0, "b": 1, "y": -1, "other": [{"deep": null}]}',
        b"",
        b'  {"y": 0, "b": 3, "a": 2, "u": "bob"}',
        b'{"u": null, "a": 2}',
    ]
    assert rows_of(batches_of(jsonl, (ending or b"\n").join(lines) + ending)) == [
        (0, 1, -1, "ann"),
        (2, 3, 0, "bob"),
        (2, None, None, None),
    ]


NO_ROWS = [
    "null",
    "[1]",
    "5",
    '"x"',
    "{",
    '{"u": 5, "a": 0, "b": 1, "y": 1}',
    '{"u": "x", "a": "0", "b": 1, "y": 1}',
    '{"u": "x", "a": 0.5, "b": 1, "y": 1}',
    '{"u": "x", "a": true, "b": 1, "y": 1}',
    '{"u": "x", "a": 99999999999999999999, "b": 1, "y": 1}',
    '{"u": "x", "u": "y", "a": 0, "b": 1, "y": 1}',
    '{"u": "\\ud800", "a": 0, "b": 1, "y": 1}',
    '{"u": {"v": 1}, "a": 0, "b": 1, "y": 1}',
]


@pytest.mark.parametrize("line", NO_ROWS)
@pytest.mark.parametrize("place", [1, 2, 5])
def test_json_lines_that_are_no_rows_come_apart(jsonl, line, place):
    good = [f'{{"u": "p{n}", "a": 0, "b": 1, "y": 1}}' for n in range(5)]
    batches = batches_of(jsonl, "\n".join([*good[:place], line, *good[place:]]).encode())
    found = rows_of(batches)
    assert [row for row in found if row[3] is not None] == [(0, 1, 1, f"p{n}") for n in range(5)]
    # Arrow takes a null after an object for a row of nulls: it is set aside as one.
    assert malformed_of(batches) == ([] if len(found) > 5 else [line])
    assert len(found) == 5 or line == "null"


def test_json_bytes_that_are_not_utf8_come_apart(jsonl):
    good = b'{"u": "x", "a": 0, "b": 1, "y": 1}'
    batches = batches_of(jsonl, b"\n".join([good, good.replace(b"x", b"\xff"), good]))
    assert len(rows_of(batches)) == 2
    assert malformed_of(batches) == [good.decode().replace("x", "\ufffd")]


JSON_LINES = st.sampled_from([*NO_ROWS, ""]) | st.builds(
    lambda user, item: json.dumps({"u": user, "a": item, "b": 1, "y": 1}),
    st.text(max_size=3),
    st.integers(0, 9),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.lists(JSON_LINES, max_size=12), st.integers(20, 200))
def test_every_json_line_is_a_row_or_malformed(tmp_path, monkeypatch, lines, block):
    monkeypatch.setattr(read, "BLOCK_BYTES", block)
    first = '{"u": "first", "a": 0, "b": 1, "y": 1}'
    batches = batches_of(tmp_path / "x.jsonl", "\n".join([first, *lines]).encode())
    expected = [json.loads(line) for line in [first, *lines] if line and line not in NO_ROWS]
    found = [row for row in rows_of(batches) if row != (None, None, None, None)]
    assert found == [(row["a"], row["b"], row["y"], row["u"]) for row in expected]
    nulls = len(rows_of(batches)) - len(found)
    assert nulls + len(malformed_of(batches)) == sum(line in NO_ROWS for line in lines)


def a_table(rows: int) -> pa.Table:
    numbers = list(range(rows))
    texts = [f"p{number}" for number in numbers]
    return pa.table({"u": texts, "z": numbers, "a": ["x"] * rows, "b": numbers, "y": [1] * rows})


@pytest.mark.parametrize(("group", "shares"), [(10, 10), (30, 4), (33, 4), (100, 1), (7, 8)])
def test_parquet_is_cut_at_row_groups(parquet, monkeypatch, group, shares):
    monkeypatch.setattr(read, "BATCH_ROWS", 10)
    pq.write_table(a_table(100), parquet, row_group_size=group)
    splits = splits_of(parquet)
    assert len(splits) == shares
    assert sum(split.rows for split in splits) == 100
    assert len({split.name for split in splits}) == shares
    batches = batches_of(parquet)
    assert max(len(batch.rows) for batch in batches) <= 10
    assert [row[3] for row in rows_of(batches)] == [f"p{n}" for n in range(100)]
    assert batches[0].rows.schema.names == NAMES


def test_parquet_types_that_arrow_cannot_compute_with_become_plain(parquet):
    numbers = pa.DictionaryArray.from_arrays(pa.array([1, 0, None]), pa.array([5, 6]))
    view = pa.array(["p", None, "q"], pa.string_view())
    pq.write_table(pa.table({"u": view, "a": [1, 2, 3], "b": numbers, "y": [1, 1, 1]}), parquet)
    (batch,) = batches_of(parquet)
    assert rows_of([batch]) == [(1, 6, 1, "p"), (2, 5, 1, None), (3, None, 1, "q")]
    assert batch.rows["b"].type == pa.int64()


@pytest.mark.parametrize("groups", [0, 1])
def test_parquet_without_rows(parquet, groups):
    empty = a_table(0)
    with pq.ParquetWriter(parquet, empty.schema) as writer:
        if groups:
            writer.write_table(empty)
    (split,) = splits_of(parquet)
    assert split.rows == 0
    assert rows_of(list(read_batches(split))) == []


def test_parquet_that_is_damaged_inside(parquet):
    pq.write_table(a_table(1000), parquet)
    content = bytearray(parquet.read_bytes())
    content[50:400] = b"\xff" * 350
    assert refusal(parquet, bytes(content)) == (
        f"{parquet}: damaged, not readable as parquet. Write it again."
    )


def test_a_file_that_grows_while_it_is_read(csv):
    (split,) = splits_of(csv, HEADER + b"ann,0,1,1\n")
    with csv.open("ab") as stream:
        stream.write(b"bob,0,1,1\n")
    with pytest.raises(InputError) as error:
        list(read_batches(split))
    assert str(error.value) == f"{csv}: changed during the run. Run again when it is complete."


def test_wide_rows_come_in_smaller_batches():
    assert read.batch_rows(pa.schema([(str(n), pa.int8()) for n in range(8)])) == read.BATCH_ROWS
    wide = pa.schema([(str(n), pa.int8()) for n in range(80)])
    assert read.batch_rows(wide) == read.BATCH_ROWS // 10
