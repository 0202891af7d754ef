"""`hushrank clean`: what is over its time goes, and never what a release still needs."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from hushrank.flows.errors import DrawError, EstimateError
from hushrank.flows.methods.registry import load_config
from hushrank.flows.run.context import ledger_of

DAY = 86_400


def age(folder: Path, days: float) -> None:
    """Make everything in a folder look as old as that."""
    then = time.time() - days * DAY
    for path in sorted(folder.rglob("*"), reverse=True):
        os.utime(path, (then, then))


def names(work: Path) -> set[str]:
    return {path.name for path in work.iterdir()}


def set_aside(work: Path) -> None:
    (work / "rejects").mkdir(exist_ok=True)
    (work / "rejects" / "part-0.parquet").write_bytes(b"rows")
    (work / "error.txt").write_bytes(b"rows")


@pytest.fixture
def released(survey, command) -> Path:
    """The confidential folder of a published release, with rows that were set aside."""
    assert command("run", survey.config, "--direct")[0] == 0
    (work,) = (path for path in survey.work.iterdir() if path.is_dir())
    set_aside(work)
    return work


def test_what_is_over_its_time_is_listed_and_then_deleted(survey, command, released):
    before = names(released)
    assert {"rejects", "diagnostics.json", "error.txt", "drawn.npz"} <= before
    age(survey.work, 29)
    assert "No file is older than section retention allows" in command("clean", survey.config)[1]
    age(survey.work, 31)
    code, printed = command("clean", survey.config)
    assert (code, names(released)) == (0, before)
    assert f"Would delete {released}/rejects" in printed
    assert command("clean", survey.config, "--delete")[0] == 0
    assert names(released) == {"drawn.npz"}
    age(survey.work, 366)
    assert command("clean", survey.config, "--delete")[0] == 0
    assert names(released) == set()
    code, printed = command("run", survey.config, "--direct")  # it is published: nothing is paid
    assert (code, "nothing was spent now" in printed) == (0, True)
    survey.output.rename(survey.folder / "away")
    code, printed = command("run", survey.config, "--direct")
    assert code == 1
    assert "Put it back; or hushrank run --again draws new noise, which costs" in printed
    code, printed = command("run", survey.config, "--direct", "--again")
    assert code == 0
    assert "this draw costs another epsilon 2.00." in printed
    assert "Spent epsilon 2.00; zoo has epsilon 1.00 left" in printed


def test_stored_noise_stays_while_the_published_files_are_not_as_they_were(
    survey, command, released
):
    (kept,) = survey.archived()
    (kept / "ranking.csv").chmod(0o600)
    (kept / "ranking.csv").write_text("changed")
    age(survey.work, 4000)
    command("clean", survey.config, "--delete")
    assert names(released) == {"drawn.npz"}


def test_a_release_that_waits_to_be_published_keeps_everything(survey, command, monkeypatch):
    def fail(*_: object) -> None:
        raise EstimateError("It cannot be ranked.")

    with monkeypatch.context() as patched:
        patched.setattr("hushrank.flows.run.run.estimate", fail)
        assert command("run", survey.config, "--direct")[0] == 1
    (work,) = (path for path in survey.work.iterdir() if path.is_dir())
    before = names(work)
    assert "drawn.npz" in before
    age(survey.work, 4000)
    survey.set(retention={"rejects_days": 0, "drawn_days": 0})
    assert (
        "No file is older than section retention allows"
        in command("clean", survey.config, "--delete")[1]
    )
    assert names(work) == before
    code, printed = command("run", survey.config, "--direct")
    assert (code, "nothing was spent now" in printed) == (0, True)


def test_what_the_ledger_does_not_know_or_a_run_uses_is_left_alone(survey, command, released):
    other = survey.work / "0123456789abcdef"
    other.mkdir()
    (other / "drawn.npz").write_bytes(b"another population's")
    age(survey.work, 4000)
    before = names(released)
    with ledger_of(load_config(survey.config)).run_lock(released.name):
        command("clean", survey.config, "--delete")
        assert names(released) == before
    command("clean", survey.config, "--delete")
    assert names(other) == {"drawn.npz"}
    assert names(released) == set()


@pytest.mark.parametrize("published", [True, False])
def test_an_unsafe_release_is_over_once_it_was_drawn(survey, command, published):
    assert command("run", survey.config, "--direct", "--unsafe-seed", 7)[0] == 0
    (work,) = (path for path in survey.work.iterdir() if path.is_dir())
    set_aside(work)
    if not published:
        survey.output.rename(survey.folder / "away")
    age(survey.work, 31)
    assert command("clean", survey.config, "--delete")[0] == 0
    assert names(work) == {"drawn.npz"}
    age(survey.work, 366)
    assert command("clean", survey.config, "--delete")[0] == 0
    assert names(work) == set()


def test_rows_of_a_release_whose_mechanism_failed_go_and_the_mark_stays(
    survey, command, monkeypatch
):
    def fail(*_: object) -> None:
        raise DrawError("It cannot be drawn.")

    with monkeypatch.context() as patched:
        patched.setattr("hushrank.flows.run.stages.noise_of", fail)
        assert command("run", survey.config, "--direct")[0] == 1
    (work,) = (path for path in survey.work.iterdir() if path.is_dir())
    set_aside(work)
    age(survey.work, 29)
    assert (
        "No file is older than section retention allows"
        in command("clean", survey.config, "--delete")[1]
    )
    age(survey.work, 31)
    assert command("clean", survey.config, "--delete")[0] == 0
    assert names(work) == {"draw-failed"}
    assert command("run", survey.config, "--direct", "--again")[0] == 0  # pays, and is published
    assert {"drawn.npz", "diagnostics.json"} <= names(work)
