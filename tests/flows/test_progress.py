"""How far a reading is: files and bytes from public sizes, and the time that is left."""

from __future__ import annotations

import errno
import io
import logging
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hushrank.flows import progress
from hushrank.flows.display import StepDisplay
from hushrank.flows.interfaces.cli.main import main
from hushrank.flows.progress import Lines, Progress, logged, time_text
from hushrank.flows.reading import Reader
from hushrank.flows.run.job import prepare_job, read_survey
from hushrank.flows.run.stages import REDUCE
from hushrank.flows.terminal import Console
from hushrank.transforms.storage import files_read
from hushrank.transforms.storage.files import InputFile, list_files
from hushrank.transforms.storage.files_read import FilesRead
from hushrank.transforms.storage.split import Split
from tests.flows.conftest import answers


class Clock:
    """A clock that a test moves."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def files_of(folder: Path, sizes: list[int]) -> list[InputFile]:
    for number, size in enumerate(sizes):
        (folder / f"{number}.csv").write_bytes(b"x" * size)
    return list_files([str(folder)])


def test_files_bytes_and_the_time_left_are_said(tmp_path, clock):
    told = Progress(files_of(tmp_path, [4000, 1000, 5000]), clock)
    assert told.text(0, 0) == "0 of 3 files, 0 of 10 kB"
    clock.now += 20
    assert told.text(1, 4000) == "1 of 3 files, 4 of 10 kB, about 30 s left"
    assert told.text(2, 5000) == "2 of 3 files, 5 of 10 kB, about 20 s left"
    assert told.text(3, 10_000) == "all 3 files are read"


def test_what_an_earlier_run_has_read_tells_nothing_of_the_time_left(tmp_path, clock):
    told = Progress(files_of(tmp_path, [4000, 1000, 5000]), clock)
    clock.now += 10
    assert told.text(1, 4000, 4000) == "1 of 3 files, 4 of 10 kB"
    assert told.text(2, 5000, 4000) == "2 of 3 files, 5 of 10 kB, about 50 s left"


def test_where_a_service_states_no_size_files_alone_tell(tmp_path, clock):
    told = Progress([InputFile("t", 0, "1", file.format) for file in files_of(tmp_path, [1])] * 4)
    assert told.text(1, 0).startswith("1 of 4 files")
    assert "of 0" not in told.text(1, 0)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.1, "1 s"), (59.4, "59 s"), (60, "1 min"), (3500, "58 min"), (7200, "2 h")],
)
def test_a_time_has_one_unit(seconds, text):
    assert time_text(seconds) == text


def test_lines_come_now_and_then(tmp_path, clock):
    said: list[str] = []
    lines = Lines(Progress(files_of(tmp_path, [10] * 9), clock), said.append, clock)
    for number in range(9):
        lines.told(number, 10 * number)
        clock.now += 4
    assert [line.split(",")[0] for line in said] == ["3 of 9 files", "6 of 9 files"]


def test_a_log_gets_the_lines(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(progress, "LINE_SECONDS", 0.0)
    with caplog.at_level(logging.INFO, "hushrank.progress"):
        logged(files_of(tmp_path, [10, 10]))(1, 10)
    assert caplog.messages[0].startswith("1 of 2 files, 10 of 20 B")


def test_a_file_counts_when_all_of_its_parts_are_read(tmp_path, monkeypatch):
    """How many row groups a file has depends on its rows, so nothing is told of one alone."""
    told: list[tuple[int, int, int]] = []
    monkeypatch.setattr(files_read, "_told", [lambda *done: told.append(done)])
    first, second = files_of(tmp_path, [100, 300])
    none = pa.schema([])
    groups = [Split(first, none, (), (group,), 1) for group in range(3)]
    spans = [Split(second, none, (), (), 1, span=span) for span in ((0, 120), (120, 300))]
    reading = FilesRead([*groups, *spans])
    for split in (groups[2], spans[1], groups[0], spans[0], groups[1]):
        reading.note(split, before=split is spans[1])
    assert told == [(0, 0, 0), (0, 180, 180), (0, 180, 180), (1, 300, 180), (2, 400, 180)]


@pytest.mark.parametrize("beam", [False, True])
def test_a_run_shows_how_far_it_is(survey, monkeypatch, capsys, reading_apart, beam):
    """The whole way: from the process that reads to the lines of whoever has no terminal."""
    monkeypatch.setattr(progress, "LINE_SECONDS", 0.0)
    table = answers(200)
    for part in range(3):
        pq.write_table(table.slice(part * 400, 400), survey.folder / f"part{part}.parquet")
    survey.set(input__paths=["part*.parquet"], runner={"kind": "local", "beam": beam})
    main(["run", str(survey.config), "--direct"])
    said = capsys.readouterr().out
    assert "1 of 3 files, " in said
    assert "all 3 files are read" in said


def test_a_run_goes_on_where_its_progress_cannot_be_shown(survey, monkeypatch, reading_apart):
    def full_disk(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Lines, "told", full_disk)
    main(["run", str(survey.config), "--direct"])
    assert (survey.output / "release.json").exists()


def test_a_display_forgets_the_reader_after_a_step(survey):
    reader, text = Reader(), io.StringIO()
    job = prepare_job(read_survey(survey.config))
    display = StepDisplay(Console(file=text, width=100), job, reader)
    seen = []

    def action() -> int:
        seen.append(reader.watch)
        return 7

    assert display.perform(REDUCE, action) == 7
    assert seen != [None]
    assert reader.watch is None
