"""Parts of a text file hold the rows of the whole, each once, wherever it is cut."""

from __future__ import annotations

import gzip
import io
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushrank.transforms.common.schema import ComparisonColumns
from hushrank.transforms.storage import split, text_lines
from hushrank.transforms.storage.files import InputFile, list_files
from hushrank.transforms.storage.read import plan_files, read_batches
from hushrank.transforms.storage.split import records_in, spans_of

COLUMNS = ComparisonColumns(
    left="left", right="right", outcome="outcome", winner=None, user="user", event=None
)
HEADER = b"\xef\xbb\xbfuser,left,right,outcome\r\n"
SPAN = 40  # longer than the header
PIECES = (
    b"\n",
    b"\r\n",
    b"\r",
    b"\r\r\n",
    b'"',
    b",",
    b"a,b,c,1",
    b"x" * 30,
    b"\xe4",
    b"p,q,r,-1\n",
)
CONTENT = st.lists(st.sampled_from(PIECES), max_size=30).map(b"".join)


def read_whole(files: list[InputFile]) -> tuple[list[dict], list[str], int]:
    """Rows, lines that are no rows, and the number of splits."""
    splits = plan_files(files, COLUMNS)
    batches = [batch for each in splits for batch in read_batches(each)]
    rows = [row for batch in batches for row in batch.rows.to_pylist()]
    rejects = [row for batch in batches for table in batch.rejects for row in table.to_pylist()]
    malformed = sorted(line for batch in batches for line in batch.malformed)
    return [*rows, *rejects], malformed, len(splits)


def same_when_cut(path: Path) -> int:
    """Compare; into how many parts the file was cut."""
    files = list_files([str(path)])
    whole = read_whole(files)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(split, "SPAN_BYTES", SPAN)
        cut = read_whole(files)
    assert cut[:2] == whole[:2]
    return cut[2]


@given(CONTENT)
def test_parts_of_a_csv_file_are_the_whole(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("cut") / "log.csv"
    path.write_bytes(HEADER + content)
    assert same_when_cut(path) == -(-len(HEADER + content) // SPAN)


@given(CONTENT.map(lambda text: text.replace(b"a,b,c,1", b'{"user": 1, "left": "a"}')))
def test_parts_of_json_lines_are_the_whole(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("cut") / "log.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + b'{"user": "\xc3\xa4", "left": "b"}\n' + content)
    same_when_cut(path)


@pytest.mark.parametrize(
    ("mebibytes", "parts"), [(7, 1), (8, 1), (58, 8), (64, 8), (100, 8), (512, 8), (640, 10)]
)
def test_a_file_of_some_megabytes_has_parts_for_all_workers(tmp_path, mebibytes, parts):
    path = tmp_path / "log.csv"
    path.write_bytes(HEADER + b"a,b,c,1\n")
    (file,) = list_files([str(path)])
    found = [each.span for each in plan_files([replace(file, size=mebibytes << 20)], COLUMNS)]
    assert len(found) == parts
    if parts > 1:
        spans = [span for span in found if span is not None]
        assert [*(start for start, _ in spans), mebibytes << 20] == [0, *(end for _, end in spans)]
        assert min(end - start for start, end in spans[:-1]) > split.HEADER_BYTES


def test_lines_that_are_too_long_end_where_they_end(tmp_path, monkeypatch):
    monkeypatch.setattr(text_lines, "MOST_RECORD_BYTES", 50)
    monkeypatch.setattr(text_lines, "HEAD_BYTES", 20)
    path = tmp_path / "log.csv"
    path.write_bytes(HEADER + b"a,b,c,1\n" + b"y" * 333 + b"\na,b,d,1\n")
    assert same_when_cut(path) > 5


def test_quoted_line_ends_and_packed_files_are_not_cut(tmp_path, monkeypatch):
    monkeypatch.setattr(split, "SPAN_BYTES", SPAN)
    path = tmp_path / "log.csv"
    path.write_bytes(HEADER + b"a,b,c,1\n" * 100)
    (file,) = list_files([str(path)])
    assert len(plan_files([file], COLUMNS)) > 10
    assert len(plan_files([replace(file, multiline=True)], COLUMNS)) == 1
    packed = tmp_path / "log.csv.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert len(plan_files(list_files([str(packed)]), COLUMNS)) == 1


@given(CONTENT, st.integers(1, 9), st.booleans())
def test_every_byte_is_in_one_part_and_parts_end_with_lines(content, size, returns):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(split, "SEARCHED_BYTES", 3)
        found = [
            records_in(io.BytesIO(content), span, len(content), carriage_returns=returns)
            for span in spans_of(len(content), size)
        ]
    assert found[0][0] == 0
    assert found[-1][1] == len(content)
    for (_, end), (begin, _) in pairwise(found):
        assert begin == end
        before, after = content[:end][-1:], content[end : end + 1]
        ended = before == b"\n" or (returns and before == b"\r" and after != b"\n")
        assert ended or end == len(content)
        assert not (before == b"\r" and after == b"\n")
