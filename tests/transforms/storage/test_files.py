"""Which files a job reads, what their columns are, and the exact text where that cannot be told."""

from __future__ import annotations

import errno
import gzip
import os
from dataclasses import replace
from datetime import date
from pathlib import Path
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hushrank.transforms.common.schema import ComparisonColumns, InputError
from hushrank.transforms.rankings.ranking_columns import ListColumns
from hushrank.transforms.storage.files import (
    FileFormat,
    InputFile,
    check_files,
    check_unchanged,
    column_names_of,
    list_files,
    parquet_footer,
    read_schema,
    reads_only_text,
)
from hushrank.transforms.storage.read import plan_files, read_batches, read_heads
from hushrank.transforms.storage.text_lines import HEADER_BYTES
from hushrank.transforms.storage.window import Window

COLUMNS = ComparisonColumns(user="user", left="a", right="b", outcome="y", winner=None, event=None)
HEADER = b"user,a,b,y\n"


def put(path: Path, content: bytes = HEADER) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def found(*paths: object) -> list[str]:
    return [file.path for file in list_files([str(path) for path in paths])]


def refusal(call, *arguments) -> str:
    with pytest.raises(InputError) as error:
        call(*arguments)
    return str(error.value)


def rows_of(files) -> list[tuple[pa.RecordBatch, tuple[str, ...]]]:
    batches = [batch for split in plan_files(files, COLUMNS) for batch in read_batches(split)]
    return [(batch.rows, batch.malformed) for batch in batches]


def schema_of(path: Path, content: bytes) -> dict[str, pa.DataType]:
    (file,) = list_files([str(put(path, content))])
    schema = read_schema(file, COLUMNS)
    return dict(zip(schema.names, schema.types, strict=True))


def test_a_folder_means_every_input_in_or_below_it(tmp_path):
    wanted = [
        put(tmp_path / "b.csv"),
        put(tmp_path / "a.PARQUET"),
        put(tmp_path / "date=2026-01-01" / "country=CH" / "part.parquet"),
        put(tmp_path / "date=2026-01-02" / "part.ndjson"),
    ]
    for other in ("notes.txt", ".hidden.csv", "_SUCCESS", "_tmp/part.csv", ".cache/part.csv"):
        put(tmp_path / other)
    assert found(tmp_path) == sorted(map(str, wanted))


def test_a_pattern_means_files_and_folders_but_nothing_hidden(tmp_path):
    one, two = put(tmp_path / "day1" / "x.csv"), put(tmp_path / "day2" / "deep" / "y.csv")
    put(tmp_path / "day1" / ".x.csv")
    put(tmp_path / "night" / "z.csv")
    assert found(tmp_path / "day*") == [str(one), str(two)]
    assert found(tmp_path / "day1" / "*.csv") == [str(one)]
    assert found(tmp_path / "**" / "y.csv") == [str(two)]
    assert found(tmp_path / "day[12]" / "x.csv") == [str(one)]


def test_paths_may_be_relative_and_a_name_may_look_like_a_pattern(tmp_path, monkeypatch):
    put(tmp_path / "log[1].csv")
    put(tmp_path / "log1.csv")
    assert found(tmp_path / "log[1].csv") == [str(tmp_path / "log[1].csv")]
    monkeypatch.chdir(tmp_path)
    assert found("log?.csv") == ["log1.csv"]
    assert found(".") == ["log1.csv", "log[1].csv"]


def test_each_file_once_in_order_with_its_version(tmp_path):
    path = put(tmp_path / "x.csv")
    put(tmp_path / "a.csv")
    files = list_files([str(path), str(tmp_path), str(tmp_path / "*.csv")])
    assert [Path(file.path).name for file in files] == ["a.csv", "x.csv"]
    status = path.stat()
    assert (files[1].size, files[1].version) == (status.st_size, str(status.st_mtime_ns))
    assert files[1].format is FileFormat.CSV


def test_a_format_may_be_told(tmp_path):
    (file,) = list_files([str(put(tmp_path / "answers.log"))], FileFormat.CSV)
    assert file.format is FileFormat.CSV


@pytest.mark.parametrize("name", ["gone.csv", "*.csv", "empty"])
def test_nothing_found(tmp_path, name):
    (tmp_path / "empty").mkdir()
    put(tmp_path / "other.parquet")
    path = str(tmp_path / name)
    assert refusal(list_files, [path]) == (
        f"{path}: no such file. Check input.paths; nothing was read."
    )


def test_an_empty_file(tmp_path):
    path = put(tmp_path / "x.csv", b"")
    assert refusal(list_files, [str(tmp_path)]) == (
        f"{path}: the file is empty (0 bytes). Remove it, or write it again."
    )


def test_empty_files_are_named_at_once(tmp_path):
    names = [put(tmp_path / name, b"") for name in ("x.csv", "y.parquet")]
    put(tmp_path / "z.jsonl", b"")
    said = refusal(list_files, [str(tmp_path)])
    assert ": the file is empty (0 bytes), and so are " in said
    assert said.endswith(". Remove them, or write them again.")
    assert all(name.name in said for name in names)
    assert "z.jsonl" not in said


def test_an_empty_file_of_json_lines_has_no_rows(tmp_path):
    """It has no header either, so an error would tell whether somebody's only row is there."""
    put(tmp_path / "x.jsonl", b"")
    (file,) = list_files([str(tmp_path)])
    assert file.size == 0
    (split,) = plan_files([file], COLUMNS)
    assert sum(len(batch.rows) for batch in read_batches(split)) == 0


@pytest.mark.parametrize(
    ("name", "ending"), [("x.xls", ".xls"), ("x.csv.zip", ".zip"), ("x", "(none)")]
)
def test_an_unknown_ending(tmp_path, name, ending):
    path = put(tmp_path / name)
    assert refusal(list_files, [str(path)]) == (
        f"{path}: unknown ending {ending}. Known: .parquet, .pq, .csv, .jsonl, .ndjson, .json,"
        " .csv.gz, .csv.zst, .jsonl.gz, .jsonl.zst, .ndjson.gz, .ndjson.zst, .json.gz, .json.zst,"
        " .avro, .orc, .arrow, .feather, .soc, .soi, .toc, .toi, .xlsx, .sav; or set input.format:"
        " parquet, csv, jsonl, avro, orc, arrow, preflib, excel, spss."
    )


def test_a_packed_file_has_the_format_of_its_content(tmp_path):
    for name in ("a.csv.gz", "b.jsonl.GZ", "c.d.ndjson.gz"):
        put(tmp_path / name)
    found = list_files([str(tmp_path)])
    assert [file.format.value for file in found] == ["csv", "jsonl", "jsonl"]


@pytest.mark.parametrize("name", ["x.parquet.gz", "x.gz", "x.soc.gz", ".csv.gz"])
def test_of_packed_files_only_text_is_known(tmp_path, name):
    path = put(tmp_path / name)
    assert "unknown ending .gz. Known: " in refusal(list_files, [str(path)])


def test_a_file_that_is_there_packed_and_unpacked_is_refused(tmp_path):
    put(tmp_path / "x.csv")
    path = put(tmp_path / "x.csv.gz")
    assert refusal(list_files, [str(tmp_path)]) == (
        f"{path}: the file without .gz is named too, so rows could count twice. Remove one of the"
        " two."
    )


def test_a_damaged_packed_file_says_so(tmp_path):
    whole = gzip.compress(HEADER + b"u1,a,b,1\n" * 50, mtime=0)
    for number, content in enumerate((whole[:-9], b"no gzip", whole[:15] + b"?" + whole[16:])):
        path = tmp_path / f"{number}.csv.gz"
        path.write_bytes(content)
        files = list_files([str(path)])
        with pytest.raises(InputError, match="not a complete gzip file") as refused:
            rows_of(files)
        assert "u1" not in str(refused.value)


@pytest.mark.parametrize("name", ["x.csv", "x.jsonl"])
def test_rows_of_a_packed_file_are_those_of_the_file(tmp_path, name):
    lines = [f"u{k},a,b,{k % 3 - 1}\n" for k in range(5_000)]
    content = b"\xef\xbb\xbf" + HEADER + "".join(lines).encode() + b"no row\n"
    if name.endswith("jsonl"):
        content = b'{"user": "u1", "a": "a", "b": "b", "y": 1}\n' * 5_000 + b"no row\n"
    plain, packed = put(tmp_path / "1" / name, content), tmp_path / "2" / f"{name}.gz"
    put(packed, gzip.compress(content, mtime=0))
    assert rows_of(list_files([str(packed)])) == rows_of(list_files([str(plain)]))


def test_a_pattern_that_is_none(tmp_path):
    path = f"{tmp_path}/a**b"
    assert refusal(list_files, [path]) == (
        f"{path}: in a pattern, ** must stand alone between slashes."
    )


def test_a_folder_that_may_not_be_opened_is_not_left_out(tmp_path, monkeypatch):
    put(tmp_path / "open.csv")
    locked = put(tmp_path / "locked" / "x.csv").parent
    scandir = os.scandir

    def refuse(path):  # as the system does to everybody but the super-user
        if Path(path) == locked:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    assert refusal(list_files, [str(tmp_path)]) == f"{locked}: no permission to read it."


@pytest.mark.parametrize(
    "header",
    [
        b"user,a,b,y\n1,2,3,4\n",
        b"\xef\xbb\xbfuser,a,b,y\r\n1,2,3,4\r\n",
        b'"user","a","b","y"',
        b"user,a,b,y\r1,2,3,4\r",
        b"user,a,b,y\n\xff\xfe\n",
    ],
)
def test_the_header_of_a_csv_file_names_columns_of_text(tmp_path, header):
    assert schema_of(tmp_path / "x.csv", header) == dict.fromkeys(
        ["user", "a", "b", "y"], pa.string()
    )


def test_a_quoted_name_may_hold_a_comma(tmp_path):
    assert list(schema_of(tmp_path / "x.csv", b'"a, b","say ""c"""\n')) == ["a, b", 'say "c"']


def test_a_header_in_another_encoding(tmp_path):
    path = put(tmp_path / "x.csv", "prénom,a\n".encode("latin-1"))
    assert refusal(read_schema, list_files([str(path)])[0], COLUMNS) == (
        f"{path}: the header is not UTF-8 text. Save the file as UTF-8; or, if Excel wrote it in"
        " Western Europe, set input.encoding: windows-1252."
    )


@pytest.mark.parametrize("content", [b"\n1,2\n", b"   \n"[3:] + b"\n"])
def test_no_header(tmp_path, content):
    path = put(tmp_path / "x.csv", content)
    assert refusal(read_schema, list_files([str(path)])[0], COLUMNS) == (
        f"{path}: no header line. The first line must name the columns."
    )


def test_an_open_quote_in_the_header_shows_no_row(tmp_path):
    path = put(tmp_path / "x.csv", b'user,"a,b\nalice,London,Paris\n')
    assert refusal(read_schema, list_files([str(path)])[0], COLUMNS) == (
        f"{path}: a column name has a line break, or a quote is not closed."
    )


def test_no_row_of_json_lines_decides_the_schema(tmp_path):
    for content in (b'{"u": null, "a": 1}\n', b"[1]\n", b"{'u': 1}\n", b"[" * 100_000, b"\n \n"):
        found = schema_of(tmp_path / "x.jsonl", content)
        assert found == dict.fromkeys(COLUMNS.names(), pa.string())
    (file,) = list_files([str(tmp_path / "x.jsonl")])
    window = Window.of("when", date(2026, 11, 20), ZoneInfo("UTC"))
    lists = ListColumns(ranking="l", user="u")
    schema = read_schema(replace(file, window=window), lists)
    assert schema == pa.schema(
        [("u", pa.string()), ("l", pa.list_(pa.string())), ("when", pa.string())]
    )
    assert list(check_files([replace(file, window=window)], lists)) == [file.path]


def test_names_in_a_file_are_those_of_its_first_rows(tmp_path):
    rows = b'\xef\xbb\xbf{"u": null, "a": 1}\n\n{"u": "x", "w": 1.5}\n{"v": "'
    path = put(tmp_path / "x.jsonl", rows + b"x" * HEADER_BYTES + b'"}\n')
    assert column_names_of(list_files([str(path)])[0]) == ["u", "a", "w"]
    (file,) = list_files([str(put(tmp_path / "x.csv"))])
    assert column_names_of(file) == ["user", "a", "b", "y"]


@pytest.mark.parametrize(
    "content", [b"[1]\n", b"null\n", b"{'u': 1}\n", b'{"u": 1\n', b"[" * 100_000, b"\n \n"]
)
def test_a_first_line_that_is_no_json_object_has_no_names(tmp_path, content):
    path = put(tmp_path / "x.jsonl", content)
    assert refusal(column_names_of, list_files([str(path)])[0]) == (
        f"{path}: the first line is not a JSON object; JSON Lines has one a line."
    )


def test_a_header_that_is_too_long(tmp_path):
    path = put(tmp_path / "x.csv", b"user,a,b,y," + b"x" * HEADER_BYTES + b"\n1,2,3,4,5\n")
    assert refusal(read_schema, list_files([str(path)])[0], COLUMNS) == (
        f"{path}: the header line is longer than 1 MiB. Write fewer columns."
    )


@pytest.mark.parametrize("keep", [3, 40, -1])
def test_a_parquet_file_that_is_cut_off(tmp_path, keep):
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"user": ["alice"] * 100}), path)
    path.write_bytes(path.read_bytes()[:keep])
    assert refusal(parquet_footer, list_files([str(path)])[0]) == (
        f"{path}: not a complete Parquet file (truncated or damaged). Write it again."
    )


def test_a_file_that_went_away(tmp_path):
    file = InputFile(str(tmp_path / "x.parquet"), 1, "1", FileFormat.PARQUET)
    assert refusal(parquet_footer, file) == f"{file.path}: no such file."


@pytest.mark.parametrize(
    ("paths", "format_", "only"),
    [
        (["/a/log-{date}.csv", "/b/*.jsonl.gz"], None, True),
        (["/a/log-{date}.csv", "/b/*.parquet"], None, False),
        (["/a"], None, False),
        (["/a"], FileFormat.CSV, True),
        (["/a/x.csv"], FileFormat.PARQUET, False),
        (["a table in memory"], None, False),
    ],
)
def test_columns_are_text_for_certain_where_all_formats_are(paths, format_, only):
    assert reads_only_text(paths, format_, []) is only
    found = InputFile("/a/log.csv/x", 1, "1", FileFormat.PARQUET)
    assert not reads_only_text(paths, format_, [found])


def test_schemas_come_by_path_and_every_file_is_checked(tmp_path):
    good = put(tmp_path / "1.csv")
    assert list(check_files(list_files([str(tmp_path)]), COLUMNS)) == [str(good)]
    bad = put(tmp_path / "2.csv", b"user,a,b,z\n")
    assert refusal(check_files, list_files([str(tmp_path)]), COLUMNS) == (
        f"{bad}: column y not found in the first line. No message shows that line, for a damaged"
        " one may hold answers; hushrank init shows it to you. Correct input.columns.outcome, or"
        " the line."
    )


def test_a_csv_file_without_a_header_shows_no_row(tmp_path):
    path = put(tmp_path / "x.csv", b"alice,London,Paris,1\n")
    message = refusal(check_files, list_files([str(path)]), COLUMNS)
    assert message.startswith(f"{path}: the first line names none of the columns a, b, y, user.")
    assert not {"alice", "London", "Paris"} & set(message.replace(",", " ").split())


def test_a_file_that_changes_is_noticed(tmp_path):
    path = put(tmp_path / "x.csv", HEADER)
    (file,) = list_files([str(path)])
    check_unchanged(file)
    with path.open("ab") as stream:
        stream.write(b"1,2,3,4\n")
    assert refusal(check_unchanged, file) == (
        f"{path}: changed during the run. Run again when it is complete."
    )


def rows_in(path: Path, names: str, rows: int, group: int) -> Path:
    table = pa.table({name: [1] * rows for name in names.split()})
    pq.write_table(table, path, row_group_size=group)
    return path


@pytest.mark.parametrize(("names", "rows"), [("user a b y", 1), ("a b", 9), ("v w x y z", 9)])
def test_a_file_that_changed_since_its_footer_was_read_says_so_whatever_it_holds_now(
    tmp_path, names, rows
):
    """Its row groups or columns are no more, at which the reader fails in many ways."""
    path = rows_in(tmp_path / "x.parquet", "user a b y", 9, 3)
    files = list_files([str(path)])
    heads = read_heads(files, COLUMNS)
    rows_in(path, names, rows, 9)
    os.utime(path, ns=(0, 1))  # another time of its change, however soon that was
    (split,) = plan_files(files, COLUMNS, heads)
    assert refusal(list, read_batches(split)) == (
        f"{path}: changed during the run. Run again when it is complete."
    )
