"""Folders of jobs that an earlier version wrote: this version goes on where that one stopped.

Each archive in `tests/verifier/older/jobs` holds three folders: `released` (signed), `killed`
(struck between the draw and the publication) and `stream` (two of three nights are drawn).
"""

from __future__ import annotations

import tarfile
from datetime import UTC, datetime
from pathlib import Path

import pytest

from hushrank.flows.interfaces.cli.main import main
from hushrank.flows.ledger.ledger import Ledger
from tests.flows.conftest import InProcessReducer

JOBS = sorted((Path(__file__).parents[2] / "verifier" / "older" / "jobs").glob("*.tar.xz"))
NOW = datetime(2026, 11, 28, tzinfo=UTC)


@pytest.fixture(params=JOBS, ids=lambda path: path.name.removesuffix(".tar.xz"))
def jobs(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The three folders, on the day after they were written."""

    def as_kept(member: tarfile.TarInfo, path: str) -> tarfile.TarInfo:  # with modes, as mine
        return member.replace(uid=None, gid=None, uname=None, gname=None)  # type: ignore[arg-type]

    with tarfile.open(request.param) as archive:
        archive.extractall(tmp_path, filter=as_kept)
    monkeypatch.setattr(Ledger, "clock", lambda _: NOW)
    monkeypatch.setattr("hushrank.flows.reading.Reducer", InProcessReducer)
    return tmp_path


def run(*words: str) -> None:
    main([*words])  # exits where anything is wrong


def lines_of(job: Path) -> list[str]:
    return (job / "ledger.jsonl").read_text().splitlines()


def drawn_in(job: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in job.rglob("drawn.npz")}


@pytest.mark.parametrize(("name", "releases"), [("released", 1), ("killed", 0), ("stream", 2)])
def test_what_was_kept_is_printed_and_verifies(jobs, capsys, name, releases):
    job = jobs / name
    before = lines_of(job)
    run("ledger", "show", str(job / "survey.yaml"))
    assert "epsilon 3.00 left of 5.00" in " ".join(capsys.readouterr().out.split())
    if releases:
        run("history", str(job / "survey.yaml"))
        printed = capsys.readouterr().out
        for folder in (job / "out" / "releases").iterdir():
            assert folder.name[11:] in printed
            run("verify", str(folder), "--ledger", str(job / "ledger.jsonl"))
            assert "WRONG" not in capsys.readouterr().out
    assert lines_of(job) == before


@pytest.mark.parametrize("name", ["released", "killed"])
def test_a_job_goes_on_from_what_it_drew(jobs, name):
    job = jobs / name
    before, drawn = lines_of(job), drawn_in(job)
    run("run", str(job / "survey.yaml"))
    assert [line for line in lines_of(job)[len(before) :] if '"event":"commit"' not in line] == []
    assert drawn_in(job) == drawn
    (folder,) = (job / "out" / "releases").iterdir()
    run("verify", str(folder), "--ledger", str(job / "ledger.jsonl"))


def test_noise_without_its_name_is_taken_up(jobs):
    job = jobs / "killed"
    ((path, content),) = drawn_in(job).items()
    digest = next(line for line in lines_of(job) if '"event":"draw"' in line)
    digest = digest.partition('"result":"')[2][:32]
    Path(path).rename(Path(path).with_name(f".drawn.npz.{digest}"))
    run("run", str(job / "survey.yaml"))
    assert drawn_in(job) == {path: content}


def test_a_stream_goes_on_to_its_last_night(jobs):
    job = jobs / "stream"
    before, drawn = lines_of(job), drawn_in(job)
    run("run", str(job / "survey.yaml"), "--date", "2026-11-18")
    events = [line.partition('"event":"')[2].split('"')[0] for line in lines_of(job)[len(before) :]]
    assert events == ["reserve", "draw", "commit"]
    assert drawn.items() < drawn_in(job).items()
    assert len(list((job / "out" / "releases").iterdir())) == 3
