"""Files that come after their night was released: every command of nights says so, at no cost."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pyarrow.parquet as pq
import pytest

from hushrank.flows.nights import nights
from hushrank.flows.release import identity
from hushrank.flows.run.context import ledger_of
from hushrank.flows.run.job import read_survey
from tests.flows.conftest import answers

TODAY = datetime.now(UTC).date()
NIGHT, LAST = TODAY - timedelta(days=2), TODAY - timedelta(days=1)
SAYS = f"Night {NIGHT} changed after its release: files came or have another content. Release"


def write(survey, night, part: int, seed: int) -> None:
    folder = survey.folder / "log" / f"date={night}"
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(answers(50, seed), folder / f"part-{part}.parquet")


@pytest.fixture
def released(survey, command):
    """Two nights that are released."""
    for seed, night in enumerate((NIGHT, LAST)):
        write(survey, night, 0, seed)
    survey.set(input__paths=["log/date={date}/*.parquet"], ledger__refresh=None, ledger__epsilon=20)
    code, printed = command("backfill", survey.config, "--from", NIGHT, "--to", LAST, "--direct")
    assert code == 0, printed
    return survey


def spent(survey) -> str:
    return survey.ledger.read_text()


def printed_by(command, survey) -> dict[str, str]:
    words = {
        "run": ("run", survey.config, "--date", NIGHT, "--direct"),
        "backfill": ("backfill", survey.config, "--from", NIGHT, "--to", NIGHT, "--direct"),
        "catch-up": ("catch-up", survey.config, "--direct"),
        "history": ("history", survey.config),
    }
    found = {}
    for name, line in words.items():
        code, printed = command(*line)
        assert code == 0, printed
        found[name] = " ".join(printed.split())
    return found


@pytest.mark.parametrize("how", ["another file", "another content"])
def test_every_command_of_nights_says_that_files_came_late(released, command, how):
    before = spent(released)
    assert not [text for text in printed_by(command, released).values() if "changed" in text]
    write(released, NIGHT, 1 if how == "another file" else 0, 7)
    for name, printed in printed_by(command, released).items():
        assert SAYS in printed, name
        assert f"--date {NIGHT} --again ranks the night as it is now, and pays again" in printed
        assert f"Night {LAST} changed" not in printed
    run = command("run", released.config, "--date", NIGHT, "--direct", "--json")[1]
    document, _ = json.JSONDecoder().raw_decode(run)  # progress follows, of standard error
    assert document["late"].startswith(SAYS)
    listed = json.loads(command("history", released.config, "--json")[1])
    assert [each["says"].startswith(SAYS) for each in listed["late_files"]] == [True]
    assert listed["late_files"][0]["release_id"] in {e["release_id"] for e in listed["releases"]}
    assert spent(released) == before


def test_after_a_fresh_draw_nothing_is_late(released, command):
    write(released, NIGHT, 1, 7)
    code, printed = command("run", released.config, "--date", NIGHT, "--direct", "--again")
    assert code == 0, printed
    assert not [text for text in printed_by(command, released).values() if "changed after" in text]


def test_a_copy_in_another_place_and_a_file_that_is_gone_are_not_late(released, command):
    folder = released.folder / "log" / f"date={NIGHT}"
    (folder / "part-0.parquet").rename(folder / "moved.parquet")
    assert not [text for text in printed_by(command, released).values() if "changed after" in text]
    (folder / "moved.parquet").unlink()
    assert not [text for text in printed_by(command, released).values() if "changed after" in text]


def test_rows_of_a_window_and_entries_without_names_say_nothing(released):
    config = read_survey(released.config).config
    known = ledger_of(config).nights(config.job_hashes)
    write(released, NIGHT, 1, 7)
    assert list(nights.late_files(config, known)) == [NIGHT]
    older = {night: replace(each, inputs=()) for night, each in known.items()}
    assert nights.late_files(config, older) == {}
    window = config.schedule.model_copy(update={"window": "at"})
    growing = config.model_copy(update={"schedule": window})
    assert nights.late_files(growing, known) == {}


def test_history_reads_no_large_file(released, command, monkeypatch):
    """It says nothing of a large file until another command has read it."""
    write(released, NIGHT, 1, 7)
    monkeypatch.setattr(nights, "REMEMBERED_BYTES", 1)
    read: list[str] = []
    digest = identity.Contents._digest
    monkeypatch.setattr(
        identity.Contents,
        "_digest",
        lambda self, path: read.append(path) or digest(self, path),
    )
    code, printed = command("history", released.config)
    assert (code, read, "changed after" in printed) == (0, [], False)
    assert "changed after" in command("catch-up", released.config, "--direct")[1]


def test_a_list_of_releases_needs_no_ledger(released, command):
    released.ledger.write_text("no ledger\n")
    assert command("history", released.config)[0] == 0
