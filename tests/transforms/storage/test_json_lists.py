"""Files of one JSON list: their objects are read as the lines of a JSON Lines file are."""

from __future__ import annotations

import gzip
import io
import json
import random
from typing import Any

import pytest

from hushrank.transforms.common.schema import ComparisonColumns, InputError
from hushrank.transforms.storage import json_lists, json_rows
from hushrank.transforms.storage.files import InputFile, list_files
from hushrank.transforms.storage.read import plan_files, read_batches

COLUMNS = ComparisonColumns(user="user", left="a", right="b", outcome="y", winner=None, event=None)
ROWS: list[dict[str, Any]] = [
    {"user": f"u{k}", "a": 'q"\\', "b": "], {\\\\", "y": k % 2, "said": [{"text": "x,\n[\t"}, k]}
    for k in range(50)
]
SIGNS = 'ab"\\,{}[]:\n\u20ac'
WAYS = [
    json.dumps(ROWS),
    json.dumps(ROWS, indent=2),
    json.dumps(ROWS, indent=1).replace("\n", "\r\n"),
    json.dumps(ROWS, separators=(",", ":"), ensure_ascii=False),
    "\ufeff \n" + json.dumps(ROWS) + "\n",
    "[" + ",\n".join(map(json.dumps, ROWS)) + "]",
    "\n".join(map(json.dumps, ROWS)),
]


def objects(text: bytes) -> list[dict[str, Any]]:
    with json_lists.lines_of("x.json", io.BytesIO(text)) as lines:
        return [json.loads(line) for line in lines.read().splitlines() if line.strip()]


def rows_of(files: list[InputFile]) -> list[dict[str, Any]]:
    splits = plan_files(files, COLUMNS)
    batches = [batch for split in splits for batch in read_batches(split)]
    return [row for batch in batches for row in batch.rows.to_pylist()]


@pytest.mark.parametrize("text", WAYS)
@pytest.mark.parametrize("block", [1, 2, 3, 7, 64, 1 << 20])
def test_every_object_is_a_line_wherever_a_block_ends(monkeypatch, text, block):
    monkeypatch.setattr(json_lists, "BLOCK", block)
    if block < 64 and (text.startswith("\ufeff") or not text.startswith("[")):
        monkeypatch.setattr(json_lists, "BLOCK", 64)  # the mark and the first sign are in one block
    assert objects(text.encode()) == ROWS


def test_random_lists_are_read_as_python_reads_them(monkeypatch):
    chance = random.Random(3)
    for _ in range(300):
        rows: list[dict[str, Any]] = [
            {"".join(chance.choices(SIGNS, k=4)): [chance.choice(["\\", '"', 1.5, None])]}
            for _ in range(chance.randrange(5))
        ]
        monkeypatch.setattr(json_lists, "BLOCK", chance.randrange(8, 40))
        way: dict[str, Any] = {"indent": chance.choice([None, 0, 3])}
        text = json.dumps(rows, ensure_ascii=chance.random() < 0.5, **way)
        assert objects(text.encode()) == rows


@pytest.mark.parametrize(
    "text",
    [
        b'[{"user": "u1"}',
        b'[{"user": "u1}]',
        b'[{"user": "u1"}, {"user": u2", "a": "b"}]',
        b'[{"user": "u\n1"}]',
        b"",
        b'[{"user": "u1"}]]',
        b'[{"user": "u1"}][{"user": "u2"}]',
        b'[{"user": "u1"}] u2',
        b'"u1"',
        b"[1, 2",
    ],
)
def test_text_that_is_no_whole_list_is_refused_and_shows_no_row(text):
    with pytest.raises(InputError, match=r"^x\.json: not a ") as refused:
        objects(text)
    assert "u1" not in str(refused.value)


@pytest.mark.parametrize("name", ["x.json", "x.json.gz"])
@pytest.mark.parametrize("text", WAYS)
def test_rows_are_those_of_the_same_objects_as_lines(tmp_path, name, text):
    lines = tmp_path / "x.jsonl"
    lines.write_text("\n".join(map(json.dumps, ROWS)))
    path = tmp_path / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    found = rows_of(list_files([str(path)]))
    assert found == rows_of(list_files([str(lines)]))
    assert len(found) == len(ROWS)


def test_a_large_list_is_read_as_one_part(tmp_path):
    path = tmp_path / "x.json"
    rows = [{"user": f"u{k}", "a": "a", "b": "b", "y": 1} for k in range(120_000)]
    path.write_text(json.dumps(rows))
    files = list_files([str(path)])
    assert len(list(plan_files(files, COLUMNS))) == 1
    assert len(rows_of(files)) == len(rows)


def test_a_folder_does_not_stand_for_lists_in_it(tmp_path):
    (tmp_path / "a.jsonl").write_text("{}")
    (tmp_path / "about.json").write_text("{}")
    assert [file.path for file in list_files([str(tmp_path)])] == [str(tmp_path / "a.jsonl")]


@pytest.mark.parametrize("indent", [None, 2])
def test_objects_of_a_list_are_parsed_together(tmp_path, monkeypatch, indent):
    """Spaces before an object once sent all lines of lists to Python's parser, one by one."""
    alone: list[int] = []
    one_by_one = json_rows._Reader._one_by_one

    def counted(reader, lines, numbers):
        alone.append(len(numbers))
        return one_by_one(reader, lines, numbers)

    monkeypatch.setattr(json_rows._Reader, "_one_by_one", counted)
    path = tmp_path / "x.json"
    rows = [{"user": f"u{k}", "a": "a", "b": "b", "y": 1, "said": '\\"\n' * 9} for k in range(999)]
    path.write_text(json.dumps(rows, indent=indent))
    assert len(rows_of(list_files([str(path)]))) == len(rows)
    assert sum(alone) <= 2  # the last one may stand before the end of the list


@pytest.mark.parametrize("slashes", range(1, 9))
@pytest.mark.parametrize("block", range(1, 9))
def test_runs_of_backslashes_escape_over_the_end_of_a_block(monkeypatch, slashes, block):
    monkeypatch.setattr(json_lists, "BLOCK", block)
    row = {"a": "\\" * slashes + '"', "b": "\\" * slashes}
    assert objects(json.dumps([row, row]).encode()) == [row, row]
