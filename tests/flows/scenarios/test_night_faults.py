"""Nights under faults: clocks, lost ledgers, folders that go. `test_crashes` strikes single writes.

Whatever happens when: no noise that the ledger did not count, no second noisy copy in public, and
the next run goes on.
"""

from __future__ import annotations

import errno
import json
import os
from datetime import UTC, date, datetime, timedelta
from typing import Any, NoReturn

import pyarrow.parquet as pq
import pytest

from hushrank.flows.assembly import run_job
from hushrank.flows.errors import LedgerError
from hushrank.flows.ledger.ledger import Ledger
from hushrank.flows.nights.nights import rank_due
from hushrank.flows.release.archive import archived
from hushrank.flows.run.context import ledger_of
from hushrank.flows.run.job import prepare_job, read_survey
from hushrank.privacy.accounting import Spend
from tests.flows.conftest import InProcessReducer, answers
from tests.ledgers import Clock

NIGHT = date(2024, 11, 20)
TOTAL = 20.0


@pytest.fixture
def nightly(survey, monkeypatch):
    """One night; its report is a word, for the time that plots take."""
    folder = survey.folder / "log"
    folder.mkdir()
    pq.write_table(answers(20), folder / f"{NIGHT}.parquet")
    monkeypatch.setattr(
        "hushrank.flows.report.page.render_report", lambda *_, **__: "<html></html>"
    )
    return survey.set(input__paths=["log/{date}.parquet"], ledger__epsilon=TOTAL, ledger__delta=0.0)


def run(nightly) -> tuple[object, ...]:
    return ("run", nightly.config, "--direct", "--date", NIGHT)


def backfill(nightly) -> tuple[object, ...]:
    return ("backfill", nightly.config, "--from", NIGHT, "--to", NIGHT, "--direct")


def events(nightly) -> list[str]:
    return [json.loads(line)["event"] for line in nightly.ledger.read_text().splitlines()]


def test_a_clock_that_goes_back_hands_out_no_budget(nightly, command):
    """Somebody's clock was weeks ahead when the last entry was written; now it is right."""
    config = prepare_job(read_survey(nightly.config), night=NIGHT).config
    ahead = Clock(datetime.now(UTC) + timedelta(days=40))
    Ledger(nightly.ledger, ledger_of(config).terms, clock=ahead).reserve("x", Spend(epsilon=1.0))
    before = nightly.ledger.read_bytes()
    for arguments in (run(nightly), backfill(nightly)):
        code, told = command(*arguments)
        assert code == 2
        assert "Set the clock right." in told
    assert nightly.ledger.read_bytes() == before
    assert not list(nightly.work.rglob("*.npz"))


def test_a_schedule_whose_clock_goes_back_finds_nothing_to_do(nightly, command):
    now = datetime(2024, 11, 21, 2, tzinfo=UTC)
    (first,) = rank_due(
        read_survey(nightly.config), now, lambda job: run_job(job, InProcessReducer())
    )
    assert first.night == NIGHT
    nightly.set(schedule={"empty": "skip"})
    for back in (1, 24, 300):
        results = list(rank_due(read_survey(nightly.config), now - timedelta(hours=back), run_job))
        assert all(result.outcome is None for result in results)
    assert events(nightly).count("draw") == 1


@pytest.mark.parametrize("moment", ["at the start", "reserve", "mark_drawn", "commit"])
def test_a_ledger_that_cannot_be_reached_fails_closed(nightly, command, monkeypatch, moment):
    gone = LedgerError("ledger.jsonl: the ledger cannot be read (Connection refused).")

    def fail(*_: Any, **__: Any) -> NoReturn:
        raise gone

    with monkeypatch.context() as patch:
        if moment == "at the start":
            patch.setattr("hushrank.flows.ledger.local_file.LedgerFile.read", fail)
        else:
            patch.setattr(Ledger, moment, fail)
        code, told = command(*run(nightly))
    assert code == 2
    assert "the ledger cannot be read" in told
    drawn = list(nightly.work.rglob("drawn.npz"))
    assert bool(drawn) == (moment == "commit")
    assert command(*run(nightly))[0] == 0
    assert events(nightly).count("draw") == 1
    assert len(archived(nightly.output)) == 1


def test_a_place_for_the_ledger_that_is_none_stops_every_command(nightly, command):
    (nightly.folder / "file").write_text("not a folder")
    nightly.set(ledger__path="file/ledger.jsonl")
    for arguments in (
        run(nightly),
        ("catch-up", nightly.config, "--direct"),
        backfill(nightly),
        ("ledger", "forecast", nightly.config),
        ("resume", "0123456789abcdef", nightly.config),
    ):
        code, told = command(*arguments)
        assert code == 2, told
        assert "file/ledger.jsonl" in told
    assert not nightly.work.exists()


def test_a_report_folder_that_cannot_be_written_is_seen_before_budget_is_spent(nightly, command):
    (nightly.folder / "blocked").write_text("a file is in the way")
    nightly.set(output="blocked/out")
    code, told = command(*run(nightly))
    assert code == 2
    assert "blocked" in told
    assert not nightly.ledger.exists()


def test_a_report_folder_that_is_lost_while_ranking_costs_nothing_more(
    nightly, command, monkeypatch
):
    def fail(*_: Any, **__: Any) -> NoReturn:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    with monkeypatch.context() as patch:
        patch.setattr("hushrank.flows.release.archive.write_file", fail)
        code, told = command(*run(nightly))
    assert code == 1
    assert "Read-only file system" in told
    assert not archived(nightly.output)
    code, told = command(*backfill(nightly))
    assert code == 0
    assert f"{NIGHT}  released; nothing was spent now." in told
    assert events(nightly).count("draw") == 1
