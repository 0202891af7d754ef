"""Runs that are interrupted, killed, starved of disk or doubled: no second draw, no lost spend."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from subprocess import PIPE
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest

from hushrank.flows import assembly
from hushrank.flows.errors import ConfigError, HushrankError, LedgerError
from hushrank.flows.interfaces.python.arguments import plainly
from hushrank.flows.ledger.ledger import Ledger
from hushrank.flows.ledger.local_file import LedgerFile
from hushrank.flows.nights.nights import rank_nights
from hushrank.flows.reading import Reducer
from hushrank.flows.run.context import ledger_of
from hushrank.flows.run.job import prepare_job, read_survey
from hushrank.flows.terminal import STOPPING
from hushrank.pipelines.reduce.reduction_job import ReduceComparisons, Statistic
from hushrank.transforms.common.schema import Ties
from hushrank.transforms.comparisons.bound import Bounds
from tests.flows.conftest import answers


def events(survey) -> list[str]:
    return [json.loads(line)["event"] for line in survey.ledger.read_text().splitlines()]


def left_of(survey) -> float:
    return ledger_of(prepare_job(read_survey(survey.config)).config).balance().remaining_epsilon


def raising(error: BaseException):
    def fail(*_: object, **__: object) -> None:
        raise error

    return fail


@pytest.mark.parametrize(
    "where",
    ["hushrank.pipelines.reduce.reduce.run", "hushrank.flows.run.run.npz_bytes"],
)
def test_ctrl_c_before_the_noise_gives_the_budget_back(survey, command, monkeypatch, where):
    with monkeypatch.context() as patch:
        patch.setattr(where, raising(KeyboardInterrupt()))
        code, printed = command("run", survey.config, "--direct")
    assert code == 130
    assert "Interrupted. What was reserved but not drawn is given back" in printed
    assert events(survey) == ["open", "reserve", "cancel"]
    assert survey.published() == []
    assert not list(survey.work.rglob("exact.npz"))
    assert command("run", survey.config, "--direct")[0] == 0
    assert left_of(survey) == 3.0


def test_ctrl_c_after_the_noise_keeps_it_and_the_next_run_publishes_it(
    survey, command, monkeypatch
):
    with monkeypatch.context() as patch:
        patch.setattr(
            "hushrank.flows.methods.counts.noisy_counts.rank_by_win_counts",
            raising(KeyboardInterrupt()),
        )
        assert command("run", survey.config, "--direct")[0] == 130
    assert events(survey) == ["open", "reserve", "draw"]
    assert not list(survey.work.rglob("exact.npz"))
    (noisy,) = survey.work.rglob("drawn.npz")
    drawn = noisy.read_bytes()
    code, printed = command("run", survey.config, "--direct")
    assert code == 0
    assert "nothing was spent now" in printed
    assert noisy.read_bytes() == drawn
    assert events(survey) == ["open", "reserve", "draw", "commit"]
    assert left_of(survey) == 3.0


def test_a_disk_that_is_full_before_the_noise_costs_nothing(survey, command, monkeypatch):
    full = OSError(errno.ENOSPC, "No space left on device", "work")
    with monkeypatch.context() as patch:
        patch.setattr("hushrank.flows.run.confidential_folder.write_whole", raising(full))
        code, printed = command("run", survey.config, "--direct")
    assert code == 1
    assert "work: No space left on device." in printed
    assert events(survey) == ["open", "reserve", "cancel"]
    assert left_of(survey) == 5.0


def test_a_disk_that_is_full_while_publishing_leaves_nothing_and_costs_no_more(
    survey, command, monkeypatch
):
    full = OSError(errno.ENOSPC, "No space left on device")
    with monkeypatch.context() as patch:
        patch.setattr("hushrank.flows.release.publish.keep", raising(full))
        code, printed = command("run", survey.config, "--direct")
    assert code == 1
    assert "nothing was published: No space left on device" in printed
    assert survey.published() == []
    code, printed = command("run", survey.config, "--direct")
    assert code == 0
    assert "nothing was spent now" in printed
    assert left_of(survey) == 3.0


def test_two_runs_of_one_release_at_once(survey, command):
    job = prepare_job(read_survey(survey.config))
    with ledger_of(job.config).run_lock(job.release_id):
        code, printed = command("run", survey.config, "--direct")
    assert code == 2
    assert "in progress" in printed
    assert survey.published() == []


def test_a_drawn_release_is_not_published_under_a_ledger_that_never_paid(survey, command):
    command("run", survey.config, "--direct")
    for output in ("out", "elsewhere"):  # published already, or not yet
        survey.set(ledger__path="other.jsonl", output=output)
        code, printed = command("run", survey.config, "--direct")
        assert code == 2
        assert "other.jsonl" in printed or "no noise was drawn" in printed
    assert not (survey.folder / "elsewhere").exists()
    assert not (survey.folder / "other.jsonl").exists()


def test_noise_of_before_is_not_published_by_a_ledger_that_has_its_key_alone(survey, command):
    """With the key, the release has its old name; its cost is in no line of the new ledger."""
    command("run", survey.config, "--direct")
    shutil.copy(f"{survey.ledger}.key", survey.folder / "other.jsonl.key")
    survey.set(ledger__path="other.jsonl", output="elsewhere")
    code, printed = command("run", survey.config, "--direct")
    assert code == 2
    assert "other.jsonl: does not know release" in printed
    assert not (survey.folder / "elsewhere").exists()


def test_lost_noise_is_paid_for_again_on_demand_and_never_silently(survey, command):
    command("run", survey.config, "--direct")
    (noisy,) = survey.work.rglob("drawn.npz")
    noisy.unlink()
    shutil.rmtree(survey.output)
    assert command("run", survey.config, "--direct")[0] == 1
    code, printed = command("run", survey.config, "--direct", "--again")
    assert code == 0
    assert "Spent epsilon 2.00; zoo has epsilon 1.00 left" in printed


def stopped_before_the_name(survey, command, monkeypatch) -> Path:
    """The noise of a run that stopped after the mark in the ledger; it has no name yet."""
    broken = OSError(errno.EIO, os.strerror(errno.EIO), "disk")
    with monkeypatch.context() as patch:
        patch.setattr("hushrank.flows.run.run.finish_drawn", raising(broken))
        assert command("run", survey.config, "--direct")[0] == 1
    assert events(survey) == ["open", "reserve", "draw"]
    assert not list(survey.work.rglob("drawn.npz"))
    assert not list(survey.work.rglob("exact.npz"))
    (unmarked,) = survey.work.glob("*/.drawn.npz.*")
    return unmarked


@pytest.mark.parametrize("way", ["run", "resume"])
def test_what_was_marked_and_has_no_name_is_published_and_not_paid_again(
    survey, command, monkeypatch, way
):
    noise = stopped_before_the_name(survey, command, monkeypatch).read_bytes()
    job = prepare_job(read_survey(survey.config))
    again = {"run": ("run", survey.config, "--direct"), "resume": ("resume", job.release_id)}
    rest = (survey.config,) if way == "resume" else ()
    code, printed = command(*again[way], *rest)
    assert code == 0, printed
    assert "nothing was spent now" in printed
    assert (job.work / "drawn.npz").read_bytes() == noise
    assert events(survey) == ["open", "reserve", "draw", "commit"]
    assert not list(survey.work.glob("*/.*"))


def test_a_run_of_another_release_finishes_what_was_marked(survey, command, monkeypatch):
    noise = stopped_before_the_name(survey, command, monkeypatch).read_bytes()
    job = prepare_job(read_survey(survey.config))
    other = survey.set(privacy__epsilon=1.0, output="other").config
    assert command("run", other, "--direct")[0] == 0
    assert (job.work / "drawn.npz").read_bytes() == noise


def test_a_run_under_another_ledger_leaves_what_was_marked(survey, command, monkeypatch):
    unmarked = stopped_before_the_name(survey, command, monkeypatch)
    pq.write_table(answers(50, seed=9), survey.folder / "others.parquet")
    other = survey.set(
        name="others", input__paths=["others.parquet"], output="other", ledger__path="other.jsonl"
    )
    code, printed = command("run", other.config, "--direct")
    assert code == 0, printed
    assert unmarked.exists()


def test_noise_of_which_the_disk_lost_the_end_is_not_that_of_the_mark(survey, command, monkeypatch):
    unmarked = stopped_before_the_name(survey, command, monkeypatch)
    unmarked.write_bytes(unmarked.read_bytes()[:-9])
    release_id = prepare_job(read_survey(survey.config)).release_id
    code, printed = command("resume", release_id, survey.config)
    assert code == 2
    assert "holds no drawn.npz" in printed
    code, printed = command("run", survey.config, "--direct", "--again")
    assert code == 0
    assert "Spent epsilon 2.00; zoo has epsilon 1.00 left" in printed
    assert not unmarked.exists()


@pytest.mark.parametrize("failing", [{"exact"}, {"ledger"}, {"exact", "ledger"}])
def test_giving_back_and_deleting_counts_are_both_tried_and_both_failures_said(
    survey, command, monkeypatch, failing
):
    broken = OSError(errno.EIO, os.strerror(errno.EIO), "disk")
    with monkeypatch.context() as patch:
        patch.setattr("hushrank.flows.run.run.npz_bytes", raising(KeyboardInterrupt()))
        if "exact" in failing:
            patch.setattr("hushrank.flows.run.stages.forget_exact", raising(broken))
        if "ledger" in failing:
            patch.setattr(Ledger, "cancel", raising(LedgerError("ledger.jsonl: out of reach.")))
        code, printed = command("run", survey.config, "--direct")
    told = " ".join(printed.split())
    assert code == 130
    assert "Interrupted." in told
    assert "is given back" not in told
    assert ("Exact counts could not be deleted from" in told) == ("exact" in failing)
    assert bool(list(survey.work.rglob("exact.npz"))) == ("exact" in failing)
    kept = "may still be reserved, for it could not be given back: ledger.jsonl: out of reach."
    assert (kept in told) == ("ledger" in failing)
    assert events(survey)[-1] == ("reserve" if "ledger" in failing else "cancel")
    assert command("run", survey.config, "--direct")[0] == 0
    assert left_of(survey) == 3.0
    assert not list(survey.work.rglob("exact.npz"))


@pytest.mark.parametrize("reads", ["once", "never again"])
def test_a_reservation_after_which_the_ledger_cannot_be_read_is_given_back_or_told_of(
    survey, command, monkeypatch, reads
):
    left = [0]

    def keep(*arguments: object) -> None:
        left[0] = 1 if reads == "once" else 1000
        return kept(*arguments)

    def failing(real: Callable[..., Any]) -> Callable[..., Any]:
        def tried(*arguments: Any) -> Any:
            if left[0]:
                left[0] -= 1
                raise LedgerError("ledger.jsonl: the ledger cannot be read (Input/output error).")
            return real(*arguments)

        return tried

    kept = assembly.MEMORY.keep
    with monkeypatch.context() as patch:
        patch.setattr(assembly, "MEMORY", replace(assembly.MEMORY, keep=keep))
        for name in ("read", "append"):
            patch.setattr(LedgerFile, name, failing(getattr(LedgerFile, name)))
        code, printed = command("run", survey.config, "--direct")
    told = " ".join(printed.split())
    assert (code, "cannot be read" in told) == (2, True)
    assert told.endswith("hushrank ledger cancel ends it.") == (reads == "never again")
    assert events(survey)[-1] == ("reserve" if reads == "never again" else "cancel")
    assert command("run", survey.config, "--direct")[0] == 0
    assert left_of(survey) == 3.0


def test_notes_of_a_night_that_failed_are_told_at_the_end(survey, command, monkeypatch):
    """With others of a backfill; and from Python, where an interruption is not told twice."""
    error = ConfigError("The file changed.")
    error.add_note("Release 7 may still be reserved.")
    survey.set(input__paths=["rows-{date}.parquet"])
    shutil.copy(survey.folder / "answers.parquet", survey.folder / "rows-2024-11-20.parquet")
    results = rank_nights(
        read_survey(survey.config), [date(2024, 11, 20)], datetime.now(UTC), raising(error)
    )
    assert next(results).text == "The file changed. Release 7 may still be reserved."
    with pytest.raises(ConfigError, match="may still be reserved"):
        next(results)
    stopped = KeyboardInterrupt()
    stopped.add_note("Release 7 may still be reserved.")
    with pytest.raises(KeyboardInterrupt) as caught:
        plainly(raising(stopped))()
    assert caught.value.__notes__ == ["Release 7 may still be reserved."]


KILLED_RUNS = """
import json, os, signal, sys
from pathlib import Path
from typing import Any
from hushrank.transforms.engine import in_process
in_process.choose()  # an engine without threads: this process is forked
import opendp.measurements
from hushrank.flows.assembly import run_job
from hushrank.flows.methods.counts import noisy_counts
from hushrank.flows.run.job import prepare_job, read_survey
from tests.flows.conftest import InProcessReducer

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

def run(config, point):
    def perform(step, action):
        if step.name == point:
            die()
        result = action()
        if point == "after " + step.name:
            die()
        return result

    if point == "inside draw":
        noisy_counts.release_win_counts = die
    run_job(prepare_job(read_survey(Path(config))), InProcessReducer(), perform)

for line in sys.stdin:
    child = os.fork()
    if child == 0:
        try:
            run(*json.loads(line))
        finally:
            os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@pytest.fixture(scope="module")
def killed_run() -> Iterator[Callable[[Path, str], int]]:
    """Runs a job and dies at a point of it, in a child of a process that has loaded everything."""
    command = [sys.executable, "-c", KILLED_RUNS]
    with subprocess.Popen(command, stdin=PIPE, stdout=PIPE, text=True) as server:
        assert server.stdin is not None
        assert server.stdout is not None

        def exit_code(config: Path, point: str) -> int:
            print(json.dumps([str(config), point]), file=server.stdin, flush=True)
            return int(server.stdout.readline())

        yield exit_code
        server.stdin.close()


NOT_DRAWN = ["reserve", "reduce", "draw"]
DRAWN = ["after draw", "estimate", "publish", "commit", "after commit"]


@pytest.mark.slow
@pytest.mark.parametrize("point", [*NOT_DRAWN, "inside draw", *DRAWN])
def test_killed_between_any_two_steps_a_run_is_taken_up_where_it_was(
    survey, command, killed_run, point
):
    assert killed_run(survey.config, point) == -signal.SIGKILL
    before = list(survey.work.rglob("drawn.npz"))
    drawn = before[0].read_bytes() if before else None
    assert bool(drawn) == (point in DRAWN)

    code, printed = command("run", survey.config, "--direct")
    assert code == 0, printed
    whole = ["certificate.json", "ranking.csv", "release.json", "report.html"]
    assert survey.published() == whole
    (noisy,) = survey.work.rglob("drawn.npz")
    if drawn:
        assert noisy.read_bytes() == drawn, "a second noisy copy"
    assert left_of(survey) == pytest.approx(3.0)
    assert events(survey)[-1] == "commit"
    assert events(survey).count("draw") == 1
    assert not list(survey.work.rglob("exact.npz"))


def nobody_left(process_group: int) -> bool:
    """Whether its processes are gone, after a moment for those that are just ending."""
    for _ in range(6_000):
        try:
            os.killpg(process_group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.1)
    return False


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_a_signal_to_the_real_command_ends_its_child_and_gives_the_budget_back(survey, number):
    run = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "hushrank.flows.interfaces.cli.main",
            "run",
            str(survey.config),
            "--direct",
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    deadline = time.monotonic() + 600
    while not (survey.ledger.exists() and "reserve" in events(survey)):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    os.killpg(run.pid, number)
    output, _ = run.communicate(timeout=840)
    if "draw" in events(survey):  # the signal came too late to stop it: then it counts
        assert left_of(survey) == 3.0
    else:
        assert run.returncode == 130
        assert b"Traceback" not in output
        assert events(survey) == ["open", "reserve", "cancel"]
    assert nobody_left(run.pid)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_ctrl_c_and_hang_up_do_not_reach_the_child_from_its_first_moment(survey, number):
    with Reducer() as reducer:
        child = reducer.reader._process
        os.kill(child.pid, number)
        with pytest.raises(HushrankError, match="reduce: failed"):  # and not for want of a child
            reducer.run(broken_reduction(survey))
        assert reducer.reader._process is child


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_who_is_interrupted_while_the_child_counts_meets_no_counts_later(survey, number):
    """The child is dead before anybody deletes what it left."""
    before = {each: signal.getsignal(each) for each in STOPPING}
    for each in STOPPING:
        signal.signal(each, signal.default_int_handler)
    with Reducer() as reducer:
        with pytest.raises(HushrankError, match="reduce: failed"):  # it is up
            reducer.run(broken_reduction(survey))
        child, answer = reducer.reader._process, reducer.reader._connection.recv
        os.kill(child.pid, signal.SIGSTOP)  # it takes long

        def interrupt() -> None:
            os.kill(os.getpid(), number)
            time.sleep(0.3)
            os.kill(child.pid, signal.SIGCONT)

        def interrupted() -> object:  # from here on, however late the machine is
            threading.Timer(0.1, interrupt).start()
            return answer()

        reducer.reader._connection.recv = interrupted
        with pytest.raises(KeyboardInterrupt):
            reducer.run(broken_reduction(survey))
        assert not child.is_alive()
    for each, handler in before.items():
        signal.signal(each, handler)


KILLED_PARENT = """
import os, signal, sys
from pathlib import Path
from typing import Any
from hushrank.flows.run.job import prepare_job, read_survey
from hushrank.flows.methods.registry import METHODS
from hushrank.flows.reading import Reducer, _reduce
from hushrank.flows.run.confidential_folder import make_confidential
from hushrank.privacy.keyed_hash import SecretKey

def main():
    job = prepare_job(read_survey(Path(sys.argv[1])))
    make_confidential(job.config.confidential, job.release_id)
    reduction = METHODS[job.config.method].reduction(
        job.config, job.mechanism, job.files, SecretKey.draw(job.bits()), str(job.work)
    )
    with Reducer() as reducer:
        reducer.run(reduction)  # it is up, and can do it
        (job.work / "exact.npz").unlink()
        os.kill(reducer.reader._process.pid, signal.SIGSTOP)
        reducer.reader._connection.send((_reduce, (reduction,), reduction.memory_limit, 0))
        print(reducer.reader._process.pid, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)

if __name__ == "__main__":
    main()
"""


@pytest.mark.slow
def test_the_child_that_reads_does_not_outlive_a_parent_that_is_killed(survey):
    script = survey.folder / "killed_parent.py"
    script.write_text(KILLED_PARENT)
    printed = survey.folder / "printed"  # a pipe would be held open by the child, which sleeps
    with printed.open("w") as stream:
        parent = subprocess.run(
            [sys.executable, str(script), str(survey.config)], stdout=stream, timeout=840
        )
    assert parent.returncode == -signal.SIGKILL
    child = int(printed.read_text())
    with suppress(ProcessLookupError):
        os.kill(child, signal.SIGCONT)  # had it slept on, it would have counted now
    assert ended(child)
    assert list(survey.work.rglob(".counting"))
    assert not list(survey.work.rglob("exact.npz"))


def ended(process: int) -> bool:
    """Whether a process is gone, or dead and waits for whoever inherited it, after a moment."""
    for _ in range(6_000):
        try:
            state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return True
        if state == "Z":
            return True
        time.sleep(0.1)
    return False


class Loud:
    """Prints a row where it is unpickled, as an engine or a library may."""

    def __init__(self, stream: int) -> None:
        self.stream = stream

    @property
    def names(self) -> tuple[str, ...]:
        return ("ants",)

    def __reduce__(self):
        return os.write, (self.stream, b"user 4711")


@pytest.mark.slow
def test_the_child_process_keeps_unforeseen_texts_in_the_confidential_area(survey, capfd):
    broken = broken_reduction(survey)
    with Reducer() as reducer:
        with pytest.raises(HushrankError) as failure:
            reducer.run(broken)
        for stream in (1, 2):
            with pytest.raises(HushrankError, match="reduce: failed"):
                reducer.run(replace(broken, catalogue=Loud(stream)))  # type: ignore[arg-type]
    assert "4711" not in "".join(capfd.readouterr())
    assert str(failure.value) == (
        "reduce: failed (AttributeError). No budget was spent. The details may hold private values,"
        f" so they are in {survey.work}/error.txt only."
    )
    assert "Traceback" in (survey.work / "error.txt").read_text()


def broken_reduction(survey) -> ReduceComparisons:
    job = prepare_job(read_survey(survey.config))
    return ReduceComparisons(
        files=job.files,
        columns=job.config.comparison_columns(),
        catalogue=SimpleNamespace(names=("ants",)),  # type: ignore[arg-type] # what a bug might do
        bounds=Bounds(n_items=4, ties=Ties.DROP, max_contributions=5),
        statistic=Statistic.WIN_COUNTS,
        key=bytes(32),
        confidential=str(survey.work),
    )


@pytest.mark.slow
def test_a_child_that_is_killed_is_told_apart_and_replaced(survey, monkeypatch):
    broken = broken_reduction(survey)
    with Reducer() as reducer:
        os.kill(reducer.reader._process.pid, signal.SIGKILL)
        with monkeypatch.context() as patch:  # it dies once the job is on its way
            patch.setattr(reducer.reader._process, "is_alive", lambda: True)
            with pytest.raises(HushrankError, match="ended without an answer"):
                reducer.run(broken)
        reducer.reader._process.join()
        with pytest.raises(HushrankError, match="reduce: failed"):  # by a child that lives
            reducer.run(broken)
