"""Every format gives the same rows; a damaged file is refused; a bad row is a matter of itself."""

from __future__ import annotations

import contextlib
import io
from dataclasses import replace
from pathlib import Path

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.ipc
import pyarrow.orc
import pytest

from hushrank.privacy.keyed_hash import KEY_BYTES, KeyedHash
from hushrank.transforms.common.encode import pseudonyms
from hushrank.transforms.common.schema import ComparisonColumns, InputError
from hushrank.transforms.storage.files import InputFile, check_files, list_files, partitions_of
from hushrank.transforms.storage.read import plan_files, read_batches
from hushrank.transforms.storage.text_lines import HEADER_BYTES
from tests.written_files import BINARY, OF_PROGRAMS, WRITERS, write_avro, zstd

COLUMNS = ComparisonColumns(
    left="left", right="right", outcome="outcome", winner=None, user="user", event=None
)
WEIGHTED = replace(COLUMNS, weight="weight", most_units=1 << 20)
ROWS = 1000


def table(rows: int = ROWS) -> pa.Table:
    rng = np.random.default_rng(0)
    return pa.table(
        {
            "user": [f"ünal {k}" for k in range(rows)],
            "left": rng.choice(["London", "Paris"], rows),
            "right": rng.choice(["Rome", "St. Gallen", None], rows),
            "outcome": rng.integers(-1, 2, rows),
            "note": pa.array([None if k % 3 else f"{k}" for k in range(rows)], pa.string()),
        }
    )


def rows_of(file: InputFile, columns: ComparisonColumns = COLUMNS) -> tuple[list[str], list[str]]:
    """The rows of a file as text, and the reasons of those that were set aside."""
    rows, reasons = [], []
    for split in plan_files([file], columns):
        for batch in read_batches(split):
            rows += [
                ",".join("" if v is None else _text(v) for v in row.values())
                for row in batch.rows.select(columns.names()).to_pylist()
            ]
            reasons += ["line"] * len(batch.malformed)
            reasons += [reason for each in batch.rejects for reason in each["reason"].to_pylist()]
    return rows, reasons


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def listed(path: Path, **form: object) -> InputFile:
    (file,) = list_files([str(path)])
    return replace(file, **form)


@pytest.mark.parametrize("name", WRITERS)
def test_each_format_gives_the_same_rows(tmp_path, name):
    WRITERS[name](table(), tmp_path / name)
    wanted = [
        ",".join("" if value is None else str(value) for value in row)
        for row in zip(*(table()[each].to_pylist() for each in COLUMNS.names()), strict=True)
    ]
    assert rows_of(listed(tmp_path / name)) == (wanted, [])


def names_in(path: Path) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """The pseudonyms of the users and events of a file."""
    columns, keyed_hash = replace(COLUMNS, event="event"), KeyedHash(bytes(KEY_BYTES))
    found = []
    for split in plan_files([listed(path)], columns):
        for batch in read_batches(split):
            users, events = (
                map(tuple, pseudonyms(batch.rows[each], keyed_hash).tolist())
                for each in ("user", "event")
            )
            found += list(zip(users, events, strict=True))
    return found


def test_one_name_is_one_person_and_one_event_in_every_format(tmp_path):
    def named(users: pa.Array) -> pa.Table:
        items = {"left": ["a"] * 3, "right": ["b"] * 3, "outcome": pa.array([1] * 3, pa.int64())}
        return pa.table({"user": users, "event": users, **items})

    numbers = pa.array([7, 0, 2**40], pa.int64())
    written = 0
    for kind in (pa.int64(), pa.string(), pa.float64(), pa.binary()):
        users = numbers if pa.types.is_floating(kind) else numbers.cast(pa.string())
        for name, write in WRITERS.items():
            if "csv" in name and pa.types.is_floating(kind):
                continue  # there 7.0 is a text
            if ("jsonl" in name or name in OF_PROGRAMS) and kind == pa.binary():
                continue  # has no bytes
            folder = tmp_path / str(kind)
            folder.mkdir(exist_ok=True)
            write(named(users.cast(kind)), folder / name)
            written += 1
    for kind in (pa.string_view(), pa.binary_view()):
        users = numbers.cast(pa.string()).cast(kind)
        WRITERS["rows.arrow"](named(users), tmp_path / "string" / f"{kind}.arrow")
        written += 1
    paths = sorted(path for path in tmp_path.glob("*/*"))
    assert len(paths) == written > 30
    assert len({tuple(names_in(path)) for path in paths}) == 1
    (first, *_) = map(names_in, paths)
    assert len(set(first)) == 3


def test_in_json_a_number_and_its_text_are_one_name(tmp_path):
    path = tmp_path / "rows.jsonl"
    rows = '"event": 1, "left": "a", "right": "b", "outcome": 1}\n'
    told = ["7", '"7"', "7.0", "7e0", '"7.0"', '"07"']
    path.write_text("".join(f'{{"user": {each}, {rows}' for each in told))
    users = [user for user, _ in names_in(path)]
    assert len(set(users[:4])) == 1
    assert len(set(users)) == 3


@pytest.mark.parametrize("name", [*BINARY, "rows.csv.zst", "rows.jsonl.zst", "rows.csv.gz"])
@pytest.mark.parametrize("kept", [0.0, 0.02, 0.5, 0.97])
def test_a_file_cut_short_is_refused_in_one_sentence(tmp_path, name, kept):
    path = tmp_path / name
    WRITERS[name](table(), path)
    whole = path.read_bytes()
    path.write_bytes(whole[: max(int(kept * len(whole)), 3)])
    with pytest.raises(InputError) as caught:
        rows_of(listed(path))
    assert str(caught.value).startswith(f"{path}: ")
    assert str(caught.value).endswith("Write it again.")
    assert "ünal" not in str(caught.value)


@pytest.mark.parametrize("name", BINARY)
def test_damage_anywhere_is_refused_or_changes_only_values(tmp_path, name):
    """No byte makes Arrow or fastavro crash, or another error leave the reader."""
    path = tmp_path / name
    WRITERS[name](table(60), path)
    whole = bytearray(path.read_bytes())
    rng = np.random.default_rng(1)
    refused = 0
    for place in rng.choice(len(whole), 150, replace=False).tolist():
        broken = bytearray(whole)
        broken[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(broken)
        with contextlib.suppress(InputError):
            rows_of(listed(path))
            continue
        refused += 1
    assert refused > 10


def not_utf8(name: str, path: Path, bad: int) -> None:
    """A file in which one text of one row is not UTF-8."""
    plain = table(200)
    texts = [value.encode() for value in plain["left"].to_pylist()]
    texts[bad] = b"Lond\xe9n"
    whole = plain.set_column(1, "left", pa.array(texts, pa.binary()))
    if name == "rows.avro":
        write_avro(whole, path)
        content = path.read_bytes().replace(b'["null", "bytes"]', b'["null","string"]')
        path.write_bytes(content)
    elif name == "rows.orc":
        fixed = whole.set_column(1, "left", whole["left"].combine_chunks().view(pa.string()))
        pyarrow.orc.write_table(fixed, str(path))
    else:
        fixed = whole.set_column(1, "left", whole["left"].combine_chunks().view(pa.string()))
        WRITERS[name](fixed, path)


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("bad", [0, 137])
def test_a_text_that_is_not_utf8_sets_its_own_row_aside(tmp_path, name, bad):
    path = tmp_path / name
    WRITERS[name](table(200), path)
    honest, _ = rows_of(listed(path))
    not_utf8(name, path, bad)
    assert rows_of(listed(path)) == (honest[:bad] + honest[bad + 1 :], ["a text is not UTF-8"])


def test_an_avro_time_in_no_calendar_is_a_matter_of_its_own_row(tmp_path):
    fields = [{"name": name, "type": "string"} for name in ("user", "left", "right")]
    fields += [
        {"name": "outcome", "type": {"type": "enum", "name": "sign", "symbols": ["one", "two"]}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
    ]
    plain = [*fields[:-1], {"name": "at", "type": "long"}]
    rows = [
        {"user": f"{k}", "left": "London", "right": "Rome", "outcome": "one", "at": at}
        for k, at in enumerate([0, 1 << 62, -(1 << 62), 1_700_000_000_000_000])
    ]
    content = io.BytesIO()
    fastavro.writer(content, {"type": "record", "name": "row", "fields": plain}, rows)
    path = tmp_path / "rows.avro"
    again = io.BytesIO()
    fastavro.writer(again, {"type": "record", "name": "row", "fields": fields}, [])
    head = again.getvalue()[:-16]  # without its sync marker
    body = content.getvalue()
    marker = body[-16:]
    start = body.index(marker) + 16
    path.write_bytes(head + marker + body[start:])
    kept, reasons = rows_of(listed(path))
    assert (len(kept), reasons) == (4, [])
    assert kept[0] == "London,Rome,one,0"
    columns = replace(COLUMNS, event="at")
    with pytest.raises(InputError, match=r"column at .* has type timestamp"):
        check_files([listed(path)], columns)


@pytest.mark.parametrize(
    ("type_", "shown"),
    [
        (["null", "string", "long"], "struct<union: null>"),
        ({"type": "record", "name": "who", "fields": []}, "struct<record: null>"),
        ({"type": "map", "values": "long"}, "struct<map: null>"),
    ],
)
def test_an_avro_type_without_counterpart_is_refused_only_where_it_is_needed(
    tmp_path, type_, shown
):
    names = ("left", "right", "outcome", "user")
    fields = [{"name": name, "type": "string"} for name in names]
    value = {"union": "x", "record": {}, "map": {}}[shown.partition("<")[2].partition(":")[0]]
    row = dict.fromkeys(names, "a") | {"other": value}
    schema = {
        "type": "record",
        "name": "row",
        "fields": [*fields, {"name": "other", "type": type_}],
    }
    path = tmp_path / "rows.avro"
    with path.open("wb") as stream:
        fastavro.writer(stream, schema, [row])
    assert rows_of(listed(path)) == (["a,a,a,a"], [])
    with pytest.raises(InputError) as caught:
        check_files([listed(path)], replace(COLUMNS, user="other"))
    assert f"column other (input.columns.user) has type {shown}" in str(caught.value)


@pytest.mark.filterwarnings("ignore:Feather V1")
def test_old_feather_and_a_missing_codec_are_said_clearly(tmp_path, monkeypatch):
    old = tmp_path / "rows.feather"
    pyarrow.feather.write_feather(table(3).drop(["note"]), str(old), version=1)
    with pytest.raises(InputError, match="version 1 of Feather, which is not read"):
        rows_of(listed(old))
    path = tmp_path / "rows.avro"
    write_avro(table(3), path, codec="null")
    path.write_bytes(path.read_bytes().replace(b"\x08null", b"\x0csnappy", 1))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(InputError, match="packed with snappy, which this installation cannot"):
        rows_of(listed(path))


def test_windows_1252_is_read_where_told_and_a_byte_without_character_costs_one_row(tmp_path):
    path = tmp_path / "rows.csv"
    lines = ["user;left;right;outcome", "Zoë;Köln;Gênes;1", "Ann;Köln;€uro;-1", "Bob;Köln;x;0"]
    content = [line.encode("cp1252") for line in lines]
    path.write_bytes(b"\r\n".join([*content, b"Eve;K\x81ln;x;1", b"Sue;K\xf6ln;x;1"]) + b"\r\n")
    told = listed(path, delimiter=";", encoding="windows-1252")
    kept, reasons = rows_of(told)
    wanted = ["Köln,Gênes,1,Zoë", "Köln,€uro,-1,Ann", "Köln,x,0,Bob", "Köln,x,1,Sue"]
    assert (kept, reasons) == (wanted, ["line"])
    assert rows_of(listed(path, delimiter=";")) == ([], ["line"] * 5)


def test_a_decimal_comma_is_read_where_told_and_a_thousand_is_no_number(tmp_path):
    path = tmp_path / "rows.csv"
    rows = ["a;b;1;u;0,5", "a;b;1;u;1.000", "a;b;1;u;2", "a,c;b;1;u;1,25"]
    path.write_text("\n".join(["left;right;outcome;user;weight", *rows]) + "\n")
    kept, _ = rows_of(listed(path, delimiter=";", decimal=","), WEIGHTED)
    assert [row.split(",")[-1] for row in kept] == ["0.5", "000", "2", "1.25"]
    assert kept[1].endswith("1,000")  # no number any more
    assert kept[3].startswith("a,c,b")  # only columns of numbers change


def test_rows_below_the_names_are_skipped_even_if_a_question_spans_lines(tmp_path):
    path = tmp_path / "rows.csv"
    header = 'user,left,right,outcome\r\n"Your ""id""","Left,\nor first",Right,Which?\r\n'
    imports = '"{""ImportId"":""QID1""}",x,y,z\r\n'
    path.write_bytes((header + imports + 'ann,a,b,1\r\n"bob",b,a,-1\r\n').encode())
    assert rows_of(listed(path, header_rows=3)) == (["a,b,1,ann", "b,a,-1,bob"], [])
    assert len(rows_of(listed(path))[0]) > 2
    with pytest.raises(InputError, match="but so many rows do not end"):
        rows_of(listed(path, header_rows=9))
    open_quote = "user,left,right,outcome\n" + '"' + "x" * HEADER_BYTES
    path.write_text(open_quote)
    with pytest.raises(InputError, match="do not end within the first MiB"):
        rows_of(listed(path, header_rows=2))


def test_folders_tell_columns_where_told(tmp_path):
    folder = tmp_path / "language=de/kind=St.%20Gallen"
    folder.mkdir(parents=True)
    path = folder / "part.parquet"
    WRITERS["rows.parquet"](table(3).drop(["left"]), path)
    told = partitions_of(str(path), ["kind", "language"])
    assert told == (("kind", "St. Gallen"), ("language", "de"))
    columns = replace(COLUMNS, left="kind", group="language")
    kept, _ = rows_of(listed(path, partitions=told), columns)
    assert [row.split(",")[0] for row in kept] == ["St. Gallen"] * 3
    assert all(row.endswith(",de") for row in kept)
    assert partitions_of("/x/a=__HIVE_DEFAULT_PARTITION__/b", ["a"]) == (("a", None),)
    with pytest.raises(InputError, match="no folder date=… in the path"):
        partitions_of(str(path), ["date"])
    with pytest.raises(InputError, match="two folders a=… in the path"):
        partitions_of("/a=1/a=2/x", ["a"])


def test_zstd_frames_follow_each_other_and_the_content_can_be_read_again(tmp_path):
    path = tmp_path / "rows.csv.zst"
    path.write_bytes(zstd(b"user,left,right,outcome\nann,a,b,1\n") + zstd(b"bob,b,a,0\n"))
    file = listed(path)
    assert rows_of(file) == (["a,b,1,ann", "b,a,0,bob"], [])
    path.write_bytes(path.read_bytes() + b"no frame")
    with pytest.raises(InputError, match="not a complete zstd file"):
        rows_of(listed(path))
