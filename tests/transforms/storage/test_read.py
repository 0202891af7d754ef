"""Rows come as they are in the file; what is no row comes apart; nothing is lost or shown."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hushrank.transforms.common.schema import ComparisonColumns, InputError
from hushrank.transforms.storage import split, text_lines
from hushrank.transforms.storage.files import list_files, read_schema
from hushrank.transforms.storage.read import plan_files, plan_splits, read_batches
from hushrank.transforms.storage.split import ReadBatch, Split
from hushrank.transforms.storage.text_lines import HEAD_BYTES, MOST_RECORD_BYTES

COLUMNS = ComparisonColumns(user="u", left="a", right="b", outcome="y", winner=None, event=None)
NAMES = ["a", "b", "y", "u"]  # in the order in which they are asked for


def splits_of(path: Path, content: bytes | None = None) -> list[Split]:
    if content is not None:
        path.write_bytes(content)
    (file,) = list_files([str(path)])
    return plan_splits(file, read_schema(file, COLUMNS), COLUMNS)


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


def delimited(path: Path, content: bytes, mark: str) -> list[ReadBatch]:
    path.write_bytes(content)
    (file,) = list_files([str(path)])
    file = replace(file, delimiter=mark)
    splits = plan_splits(file, read_schema(file, COLUMNS), COLUMNS)
    return [batch for split in splits for batch in read_batches(split)]


@pytest.mark.parametrize("mark", [";", "\t"])
def test_another_mark_between_columns_is_read_as_commas_are(csv, mark):
    """A comma is then a letter, the mark in quotes too; a line with an open quote is set aside."""
    lines = ["u;a;b;y", 'a,n;0;1;"-1"', '"a;""n";2;3;0', 'bob;"4;5;1', "x,1,2,3", "bob;4;5;1", ""]
    found = delimited(csv, "\n".join(lines).replace(";", mark).encode(), mark)
    assert rows_of(found) == [
        ("0", "1", "-1", "a,n"),
        ("2", "3", "0", f'a{mark}"n'),
        ("4", "5", "1", "bob"),
    ]
    assert malformed_of(found) == [lines[3].replace(";", mark), lines[4]]


def test_csv_nulls_and_quotes(csv):
    rows = ',"",1,\n"a ""b""",x,"one, two",1\n é ,x,NULL,NA\n'
    assert rows_of(batches_of(csv, HEADER + rows.encode())) == [
        (None, "1", None, None),
        ("x", "one, two", "1", 'a "b"'),
        ("x", "NULL", "NA", " é "),
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
    monkeypatch.setattr(split, "BLOCK_BYTES", 200)
    lines = [f"p{n},0,1,1" if n % 3 else f"p{n},0" for n in range(500)]
    batches = batches_of(csv, HEADER + "\n".join(lines).encode())
    assert len(batches) > 10
    assert [row[3] for row in rows_of(batches)] == [f"p{n}" for n in range(500) if n % 3]
    assert malformed_of(batches) == [f"p{n},0" for n in range(0, 500, 3)]


GOOD = [b"ann,0,1,1", b'"bob",0,1,-1', "Zoé,1,0,1".encode()]
NO_RECORDS = [
    b'"',
    b'"eve,0,1,1',
    b'eve,"0,1,1',
    b'eve,0,1,"1',
    b'"eve"x,0,1,1',
    b'eve,5",1,1',
    b'eve, "0",1,1',
    b'"eve""x,0,1,1',
    b'"eve",0,"1"",1',
    "Zoé,0,1,1".encode("latin-1"),
    b"\xff\xfe",
    b"e\x00e,0,1,1",
    b"\x00",
    b"eve",
    b",,,,",
    b"eve,0,1,1," + b"x" * MOST_RECORD_BYTES,
    b'"' + b"x" * MOST_RECORD_BYTES,
]


@pytest.mark.parametrize("line", NO_RECORDS)
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("place", [0, 1, 3])
def test_a_csv_line_that_is_no_row_is_the_only_one_set_aside(csv, line, end, place):
    batches = batches_of(csv, end.join([HEADER.strip(), *GOOD[:place], line, *GOOD[place:]]))
    users = [row[3] for row in rows_of(batches)]
    assert users == ["ann", "bob", "Zoé"]
    (malformed,) = malformed_of(batches)
    assert line.decode(errors="replace").startswith(malformed)
    assert len(malformed) >= min(len(line), HEAD_BYTES)


def multiline_of(path: Path, content: bytes) -> list[ReadBatch]:
    path.write_bytes(content)
    (file,) = list_files([str(path)])
    file = replace(file, multiline=True)
    (split,) = plan_splits(file, read_schema(file, COLUMNS), COLUMNS)
    return list(read_batches(split))


@pytest.mark.parametrize("block", [7, 64, 1 << 24])
def test_quoted_fields_span_lines_where_that_is_told(csv, monkeypatch, block):
    monkeypatch.setattr(split, "BLOCK_BYTES", block)
    content = HEADER + b'"an\n""n",0,"two\r\nlines",1\r\nbob,0,1,1\r\n"x" y,0,1,1\ncy,0,1,1'
    batches = multiline_of(csv, content)
    assert rows_of(batches) == [
        ("0", "two\r\nlines", "1", 'an\n"n'),
        ("0", "1", "1", "bob"),
        ("0", "1", "1", "cy"),
    ]
    assert malformed_of(batches) == ['"x" y,0,1,1']


@pytest.mark.parametrize("block", [7, 64, 1 << 24])
def test_an_open_quote_that_spans_lines_swallows_so_much_and_no_more(csv, monkeypatch, block):
    monkeypatch.setattr(split, "BLOCK_BYTES", block)
    monkeypatch.setattr(text_lines, "MOST_RECORD_BYTES", 100)
    lines = [b"p%02d,0,1,1" % number for number in range(30)]  # 11 bytes each, line end included
    content = HEADER + b"\n".join([*lines[:10], b'"' + lines[10], *lines[11:]])
    batches = multiline_of(csv, content)
    gone = {f"p{number}" for number in range(10, 20)}
    assert [row[3] for row in rows_of(batches)] == [
        f"p{number:02d}" for number in range(30) if f"p{number}" not in gone
    ]
    assert len(malformed_of(batches)) == 1


@pytest.mark.parametrize("ending", [b"\n", b"\r\n", b""])
def test_json_lines_with_blank_lines_and_other_keys(jsonl, ending):
    lines = [
        b'\xef\xbb\xbf{"u": "ann", "a": 0, "b": 1, "y": -1, "other": [{"deep": null}, NaN]}',
        b"",
        b'  {"y": 0, "b": 3, "a": 2, "u": "bob"}',
        b'{"u": null, "a": 2}',
    ]
    assert rows_of(batches_of(jsonl, (ending or b"\n").join(lines) + ending)) == [
        ("0", "1", "-1", "ann"),
        ("2", "3", "0", "bob"),
        ("2", None, None, None),
    ]


SAME = [  # spelt in many ways, the same value
    ("7", ["7", '"7"', "7.0", "70e-1", "0.7E+1", '"\\u0037"']),
    ("0", ["0", "-0", "-0.0", "0e5", "1e-400"]),
    ("-1", ["-1", "-1.0", '"-1"']),
    ("0.5", ["0.5", "5e-1", '"0.5"']),
    ("9007199254740993", ["9007199254740993", '"9007199254740993"']),
    ("-9223372036854775808", ["-9223372036854775808"]),
    ("😀", ['"😀"', '"\\ud83d\\ude00"']),
]


@pytest.mark.parametrize(("value", "spelt"), SAME)
@pytest.mark.parametrize("other", ["1", '"1"', "1.5", "null"])
def test_a_json_value_is_the_same_in_every_company(jsonl, value, spelt, other):
    row = '{"u": "p%d", "a": %s, "b": 1, "y": 1}'
    company = [row % (number, other) for number in range(400)]
    content = [line for each in spelt for line in (*company, row % (400, each))]
    found = rows_of(batches_of(jsonl, "\n".join(content).encode()))
    assert [row[0] for row in found if row[3] == "p400"] == [value] * len(spelt)
    assert len(found) == len(content)


NO_ROWS = [
    "null",
    "[1]",
    "5",
    '"x"',
    "{",
    "}",
    "{}{}",
    "{}null{}",
    '{"x":',
    '{"x": [{}',
    '{"x": "}',
    '{"u": true, "a": 0, "b": 1, "y": 1}',
    '{"u": "x", "a": true, "b": 1, "y": 1}',
    '{"u": "x", "a": [0], "b": 1, "y": 1}',
    '{"u": "x", "a": 99999999999999999999, "b": 1, "y": 1}',
    '{"u": "x", "a": 1e400, "b": 1, "y": 1}',
    '{"u": "x", "a": 1e17, "b": 1, "y": 1}',
    '{"u": "x", "a": NaN, "b": 1, "y": 1}',
    '{"u": "x", "a": Infinity, "b": 1, "y": 1}',
    '{"u": "x", "a": -Inf, "b": 1, "y": 1}',
    '{"u": "x", "a": 1, "b": 1, "y": 1, "z": -NaN}',
    '{"u": "x", "u": "y", "a": 0, "b": 1, "y": 1}',
    '{"u": null, "\\u0075": "y", "a": 0, "b": 1, "y": 1}',
    '{"u": "\\ud800", "a": 0, "b": 1, "y": 1}',
    '{"u": "\\udc00", "a": 0, "b": 1, "y": 1}',
    '{"u": {"v": 1}, "a": 0, "b": 1, "y": 1}',
    '{"u": "x\0", "a": 0, "b": 1, "y": 1}',
    '"\ufeff{"u": "x", "a": 0, "b": 1, "y": 1}',
    '{"u": "x", "z": ' + "[" * 100_000 + "]" * 100_000 + ', "a": 0, "b": 1, "y": 1}',
    '{"u": "x", "a": ' + "9" * 100_000 + ', "b": 1, "y": 1}',
    '{"u": "' + "x" * MOST_RECORD_BYTES + '", "a": 0, "b": 1, "y": 1}',
]


@pytest.mark.parametrize("line", NO_ROWS)
@pytest.mark.parametrize("place", [0, 2, 5])
def test_a_json_line_that_is_no_row_is_the_only_one_set_aside(jsonl, line, place):
    good = [f'{{"u": "p{n}", "a": 0, "b": 1, "y": 1}}' for n in range(5)]
    batches = batches_of(jsonl, "\n".join([*good[:place], line, *good[place:]]).encode())
    assert rows_of(batches) == [("0", "1", "1", f"p{n}") for n in range(5)]
    (malformed,) = malformed_of(batches)
    assert line.startswith(malformed)


@pytest.mark.parametrize("wraps", [1, 50])
def test_a_json_row_cannot_wrap_the_rows_of_others(jsonl, wraps):
    good = [f'{{"u": "p{n}", "a": 0, "b": 1, "y": 1}}' for n in range(600)]
    lines = list(good)
    for wrap in range(wraps):
        place = 600 - 11 * wrap
        lines[place:place] = ["}", "{}{}{}"]
        lines[place - 3 : place - 3] = ['{"u": "eve", "x":']
    batches = batches_of(jsonl, "\n".join(lines).encode())
    assert rows_of(batches) == [("0", "1", "1", f"p{n}") for n in range(600)]
    assert len(malformed_of(batches)) == 3 * wraps


def test_json_bytes_that_are_not_utf8_come_apart(jsonl):
    good = b'{"u": "x", "a": 0, "b": 1, "y": 1}'
    batches = batches_of(jsonl, b"\n".join([good, good.replace(b"x", b"\xff"), good]))
    assert len(rows_of(batches)) == 2
    assert malformed_of(batches) == [good.decode().replace("x", "\ufffd")]


def a_table(rows: int) -> pa.Table:
    numbers = list(range(rows))
    texts = [f"p{number}" for number in numbers]
    return pa.table({"u": texts, "z": numbers, "a": ["x"] * rows, "b": numbers, "y": [1] * rows})


@pytest.mark.parametrize(("group", "shares"), [(10, 10), (30, 4), (33, 4), (100, 1), (7, 8)])
def test_parquet_is_cut_at_row_groups(parquet, monkeypatch, group, shares):
    monkeypatch.setattr(split, "BATCH_ROWS", 10)
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


@pytest.mark.parametrize("use_dictionary", [True, False])
@pytest.mark.parametrize(
    "type_", [pa.string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())]
)
@pytest.mark.parametrize("repeats", [1, 100])
def test_texts_mean_the_same_however_parquet_stores_them(parquet, use_dictionary, type_, repeats):
    stored = pa.array([b"p", None, b"\xff", b"q"])
    if type_ == pa.string_view():
        stored = stored.cast(pa.binary_view())
    view = type_ if type_ == pa.string_view() else pa.string()
    names = pa.Array.from_buffers(view, 4, stored.buffers())
    if pa.types.is_dictionary(type_):
        distinct = pa.concat_arrays([names[:1], names[2:]])
        names = pa.DictionaryArray.from_arrays(pa.array([0, None, 1, 2], pa.int32()), distinct)
    table = pa.table({"u": names, "a": [1, 2, 3, 4], "b": [5] * 4, "y": [1] * 4})
    pq.write_table(pa.concat_tables([table] * repeats), parquet, use_dictionary=use_dictionary)
    batches = batches_of(parquet)
    assert rows_of(batches) == [(1, 5, 1, "p"), (2, 5, 1, None), (4, 5, 1, "q")] * repeats
    (rejects,) = batches[0].rejects
    assert rejects["reason"].to_pylist() == ["a text is not UTF-8"] * repeats
    assert not pa.types.is_binary(batches[0].rows["u"].type)


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
    assert split.batch_rows(pa.schema([(str(n), pa.int8()) for n in range(8)])) == split.BATCH_ROWS
    wide = pa.schema([(str(n), pa.int8()) for n in range(80)])
    assert split.batch_rows(wide) == split.BATCH_ROWS // 10


@pytest.mark.parametrize("before", [b"B,D,1,eve\n", b"\xff,D,1,eve\n", b"", b"\n"])
def test_a_byte_order_mark_in_a_row_is_a_part_of_it_wherever_it_stands(tmp_path, before):
    """Arrow drops one at the start of what it is given, and what comes before is another's row."""
    path = tmp_path / "x.csv"
    path.write_bytes(b"left,right,outcome,user\n" + before + b"\xef\xbb\xbfA,C,1,me\n")
    (file,) = list_files([str(path)])
    columns = ComparisonColumns(
        left="left", right="right", outcome="outcome", winner=None, user="user", event=None
    )
    (split,) = plan_files([file], columns)
    rows = [row for batch in read_batches(split) for row in batch.rows.to_pylist()]
    assert rows[-1] == {"left": "\ufeffA", "right": "C", "outcome": "1", "user": "me"}
