"""Nights under faults: a disk that fills up or a kill at every single write, clocks, lost ledgers.

Whatever happens when: no noise that the ledger did not count, no second noisy copy in public, and
the next run goes on.
"""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, NoReturn

import pyarrow.parquet as pq
import pytest

from hushrank.flows import noisy_counts, reduction, report
from hushrank.flows.archive import archived
from hushrank.flows.cli import main
from hushrank.flows.errors import LedgerError
from hushrank.flows.job import prepare_job
from hushrank.flows.ledger import Ledger
from hushrank.flows.nightly import run_job
from hushrank.flows.nights import rank_due
from hushrank.flows.steps import ledger_of
from hushrank.privacy.accounting import Spend
from tests.flows.conftest import InProcessReducer, Survey, answers
from tests.ledgers import Clock

NIGHT = date(2024, 11, 20)
COST, TOTAL = 2.0, 20.0
STRIDE = {"none": 6, "reserved": 3, "drawn": 2, "committed": 3}
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT


@pytest.fixture
def nightly(survey, monkeypatch):
    """One night; its report is a word, for the time that plots take."""
    folder = survey.folder / "log"
    folder.mkdir()
    pq.write_table(answers(20), folder / f"{NIGHT}.parquet")
    monkeypatch.setattr("hushrank.flows.report.render_report", lambda *_: "<html></html>")
    return survey.set(input__paths=["log/{date}.parquet"], ledger__epsilon=TOTAL, ledger__delta=0.0)


def run(nightly) -> tuple[object, ...]:
    return ("run", nightly.config, "--direct", "--date", NIGHT)


def backfill(nightly) -> tuple[object, ...]:
    return ("backfill", nightly.config, "--from", NIGHT, "--to", NIGHT, "--direct")


def start_anew(nightly) -> None:
    for folder in (nightly.output, nightly.work, Path(f"{nightly.ledger}.runs")):
        shutil.rmtree(folder, ignore_errors=True)
    for path in nightly.folder.glob("ledger.jsonl*"):
        path.unlink()
    (nightly.folder / "drawn").unlink(missing_ok=True)


class Fault:
    """From the `step`-th time on that something is to be written, the disk is full, or we die."""

    def __init__(self, step: int, *, kills: bool) -> None:
        self.left = step
        self.kills = kills

    def strike(self) -> None:
        self.left -= 1
        if self.left > 0:
            return
        if self.kills:
            os.kill(os.getpid(), signal.SIGKILL)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "disk")

    def install(self) -> None:
        """Into this process, for good: it is a child that ends soon."""
        for name in ("write", "fsync", "replace", "rename", "mkdir"):
            setattr(os, name, self.before(getattr(os, name)))
        open_file, open_descriptor = io.open, os.open

        def checked_open(file: Any, mode: str = "r", *rest: Any, **named: Any) -> Any:
            if set(mode) & set("wax+"):
                self.strike()
            return open_file(file, mode, *rest, **named)

        def checked_descriptor(path: Any, flags: int, *rest: Any, **named: Any) -> int:
            if flags & WRITES:
                self.strike()
            return open_descriptor(path, flags, *rest, **named)

        io.open = checked_open  # type: ignore[assignment]
        os.open = checked_descriptor

    def before(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def checked(*arguments: Any, **named: Any) -> Any:
            self.strike()
            return function(*arguments, **named)

        return checked


def in_child(work: Callable[[], int], printed: Path) -> int:
    """Exit code of `work` in a child process; minus the signal's number where one killed it."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        _work_and_exit(work, printed)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _work_and_exit(work: Callable[[], int], printed: Path) -> NoReturn:
    code = 99
    with contextlib.suppress(OSError):
        output = os.open(printed, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(output, 1)
        os.dup2(output, 2)
    sys.stdout = sys.stderr = io.TextIOWrapper(io.FileIO(1, "w", closefd=False), write_through=True)
    try:
        code = work()
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def note_every_draw(notes: Path) -> None:
    """Have every noise that is drawn leave a line in `notes`, at once."""
    draw = noisy_counts.release_win_counts
    unharmed = io.open  # taken before any fault is installed

    def noted(*arguments: Any, **named: Any) -> Any:
        noisy = draw(*arguments, **named)
        with unharmed(notes, "a") as stream:
            stream.write("drawn\n")
        return noisy

    noisy_counts.release_win_counts = noted


def exit_code(nightly, *faults: Fault) -> int:
    """Of a whole run in this process."""
    for fault in faults:
        fault.install()
    try:
        main([str(argument) for argument in run(nightly)])
    except SystemExit as stop:
        return int(stop.code or 0)
    return 0


def strike_at_every_write(config: str, kills: bool) -> None:
    """The test below, in a process without threads: only such a one can be forked at will."""
    assert "apache_beam" not in sys.modules
    nightly = Survey(Path(config).parent, {})
    report.render_report = lambda *_: "<html></html>"
    reduction.Reducer = InProcessReducer
    notes, printed = nightly.folder / "drawn", nightly.folder / "printed"
    note_every_draw(notes)
    assert exit_code(nightly) == 0  # and everything is loaded
    stopped_after, step, struck = set(), 1, 0
    while True:
        start_anew(nightly)
        fault = Fault(step, kills=kills)
        code = in_child(lambda fault=fault: exit_code(nightly, fault), printed)
        if code == 0:
            break
        told = printed.read_text()
        assert code in ((-signal.SIGKILL,) if kills else (1, 2)), (step, code, told)
        assert "Traceback" not in told, (step, told)
        state = check_then_go_on(nightly, printed, notes)
        stopped_after.add(state)
        step, struck = step + STRIDE[state], struck + 1
    assert stopped_after >= {"none", "reserved", "drawn"}, stopped_after
    sys.stdout.write(f"{struck} faults")


def check_then_go_on(nightly, printed: Path, notes: Path) -> str:
    """What must hold after a fault, and after the next run; how far the release had got."""
    job = prepare_job(nightly.config, night=NIGHT)
    ledger = ledger_of(job.config)
    assert ledger.balance().spent_epsilon >= COST * lines(notes), "an unrecorded spend"
    state = str(ledger.state(job.release_id))
    code = in_child(lambda: exit_code(nightly), printed)
    assert code == 0, printed.read_text()
    draws = events(nightly).count("draw")
    assert 1 <= lines(notes) <= draws <= 2
    assert ledger.balance().spent_epsilon == pytest.approx(COST * draws)
    assert len(archived(nightly.output)) == 1, "a second noisy copy"
    shown = json.loads((nightly.output / "release.json").read_text())
    assert shown["night"] == str(NIGHT)
    return state


def lines(notes: Path) -> int:
    return len(notes.read_text().split()) if notes.exists() else 0


STRIKE = """
from hushrank.transforms import in_process
in_process.choose()  # an engine without threads, before another is loaded
from tests.flows.test_night_faults import strike_at_every_write
strike_at_every_write({!r}, {})
"""


@pytest.mark.slow
@pytest.mark.parametrize("kills", [False, True], ids=["full-disk", "killed"])
def test_at_every_write_a_night_may_stop_and_the_next_run_goes_on(nightly, kills):
    struck = subprocess.run(
        [sys.executable, "-c", STRIKE.format(str(nightly.config), kills)],
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert struck.returncode == 0, struck.stderr
    assert "faults" in struck.stdout


def events(nightly) -> list[str]:
    return [json.loads(line)["event"] for line in nightly.ledger.read_text().splitlines()]


def test_a_clock_that_goes_back_hands_out_no_budget(nightly, command):
    """Somebody's clock was weeks ahead when the last entry was written; now it is right."""
    config = prepare_job(nightly.config, night=NIGHT).config
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
    (first,) = rank_due(nightly.config, now, lambda job: run_job(job, InProcessReducer()))
    assert first.night == NIGHT
    nightly.set(schedule={"empty": "skip"})
    for back in (1, 24, 300):
        results = list(rank_due(nightly.config, now - timedelta(hours=back), run_job))
        assert all(result.outcome is None for result in results)
    assert events(nightly).count("draw") == 1


@pytest.mark.parametrize("moment", ["at the start", "reserve", "mark_drawn", "commit"])
def test_a_ledger_that_cannot_be_reached_fails_closed(nightly, command, monkeypatch, moment):
    gone = LedgerError("ledger.jsonl: the ledger cannot be read (Connection refused).")

    def fail(*_: Any, **__: Any) -> NoReturn:
        raise gone

    with monkeypatch.context() as patch:
        if moment == "at the start":
            patch.setattr("hushrank.flows.ledger_file.LedgerFile.read", fail)
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
        patch.setattr("hushrank.flows.archive.write_file", fail)
        code, told = command(*run(nightly))
    assert code == 1
    assert "Read-only file system" in told
    assert not archived(nightly.output)
    code, told = command(*backfill(nightly))
    assert code == 0
    assert f"{NIGHT}  released; nothing was spent now." in told
    assert events(nightly).count("draw") == 1
