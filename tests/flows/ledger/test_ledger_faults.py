"""The ledger's promises when processes die or meet: real processes, on a real file and in a store.

A run draws noise only after `mark_drawn` has returned. What is counted must cover every noise that
was drawn, whatever died when, and the next run must be able to go on.
"""

import multiprocessing
import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from hushrank.flows.errors import BudgetRefused, LedgerError
from hushrank.flows.ledger import local_file as ledger_file
from hushrank.flows.ledger.account import ReleaseState
from hushrank.flows.ledger.cloud_object import Lease, LedgerObject
from hushrank.flows.ledger.entries import BudgetTerms
from hushrank.flows.ledger.ledger import Ledger
from hushrank.privacy.accounting import Spend
from hushrank.privacy.units import Adjacency, Unit
from hushrank.transforms.storage.places import CloudPath
from tests.cloud_stores import GO, OURS, asked_store, cloud_store, on_the_go_server
from tests.fake_cloud_storage import Store
from tests.go_cloud_storage import GoStore

COST = 2.0
TOTAL = 10.0
KILLED = -signal.SIGKILL
FORK = multiprocessing.get_context("fork")  # a fresh interpreter would take 2 s to import hushrank


LEASE_SECONDS = 600.0  # of a run whose ledger is in a store


@pytest.fixture
def store(request, monkeypatch) -> Iterator[Store | GoStore]:
    with asked_store(request, monkeypatch, "budget") as store:
        yield store
        assert not [name for name in store.names("budget") if name.endswith(".now")]


@pytest.fixture(params=["file", OURS, GO])
def place(request, tmp_path, monkeypatch) -> Iterator[Path | CloudPath]:
    """Where a ledger is kept: a local file, or an object on either server."""
    if request.param == "file":
        yield tmp_path / "ledger.jsonl"
        return
    with cloud_store(request.param, request, monkeypatch, "budget") as store:
        yield CloudPath.parse("gs://budget/ledger.jsonl")
        assert not [name for name in store.names("budget") if name.endswith(".now")]


@pytest.fixture
def patient_leases(monkeypatch):
    """A store may take its time to answer, however short a lease is."""
    real = Lease.__init__

    def patient(lease: Lease, *arguments: object, **named: object) -> None:
        real(lease, *arguments, **named)
        lease._patience = 60.0

    monkeypatch.setattr(Lease, "__init__", patient)


def ledger_at(place: Path | CloudPath, lease_seconds: float = LEASE_SECONDS) -> Ledger:
    terms = BudgetTerms("campus", TOTAL, 0.0, None, Unit.USER, Adjacency.REPLACE_ONE)
    if isinstance(place, CloudPath):
        return Ledger(LedgerObject(place, lease_seconds=lease_seconds), terms, operator="anna")
    return Ledger(place, terms, operator="anna")


class Run:
    """One run of release `a`, which notes outside of the ledger how far it came."""

    def __init__(self, folder: Path, place: Path | CloudPath | None = None) -> None:
        self.ledger = ledger_at(place or folder / "ledger.jsonl")
        self.notes = folder / "notes"

    def note(self, what: str) -> None:
        with self.notes.open("a") as stream:
            stream.write(what + "\n")

    def noted(self, what: str) -> int:
        return self.notes.read_text().split().count(what) if self.notes.exists() else 0

    def go(self) -> None:
        """From wherever earlier runs left it to the end; their noise counts as lost."""
        with self.ledger.run_lock("a"):
            lost = self.ledger.state("a") in (ReleaseState.DRAWN, ReleaseState.COMMITTED)
            self.ledger.reserve("a", Spend(epsilon=COST), noise_lost=lost)
            self.note("reserved")
            self.ledger.mark_drawn("a")
            self.note("noise")
            self.ledger.commit("a")
            self.note("committed")


def exit_code_of(work: Callable[[], None]) -> int:
    """Run `work` in a child process; minus the signal's number where one killed it."""
    child = os.fork()
    if child == 0:
        _work_and_exit(work)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _work_and_exit(work: Callable[[], None]) -> NoReturn:
    try:
        work()
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def check_then_go_on(run: Run) -> None:
    """What must hold after a death, and after the next run."""
    balance, state = run.ledger.balance(), run.ledger.state("a")
    if run.noted("committed"):
        assert state is ReleaseState.COMMITTED
    elif run.noted("noise"):
        assert state in (ReleaseState.DRAWN, ReleaseState.COMMITTED)
    elif run.noted("reserved"):
        assert state in (ReleaseState.RESERVED, ReleaseState.DRAWN)
    assert balance.spent_epsilon == (0 if state is ReleaseState.NONE else COST)
    assert balance.spent_epsilon >= COST * run.noted("noise")
    run.go()
    assert run.ledger.state("a") is ReleaseState.COMMITTED
    spent = run.ledger.balance().spent_epsilon
    assert COST * run.noted("noise") <= spent <= 2 * COST
    if state in (ReleaseState.NONE, ReleaseState.RESERVED):
        assert spent == COST  # a death before the draw costs nothing


def kill_at_line(step: int) -> None:
    """Kill this process before its `step`-th line in `Run` or in the code that touches files."""
    files = {__file__, ledger_file.__file__}
    left = step

    def trace(frame, event, argument):
        nonlocal left
        if frame.f_code.co_filename not in files:
            return None
        if event == "line":
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
        return trace

    sys.settrace(trace)


@pytest.mark.parametrize("stride", [8, pytest.param(1, marks=pytest.mark.soak)])
def test_killed_before_any_line_that_touches_the_file(tmp_path, stride):
    outcomes = set()
    for step in range(1, 10_000, stride):
        folder = tmp_path / str(step)
        folder.mkdir()
        run = Run(folder)

        def work(step: int = step, run: Run = run) -> None:
            kill_at_line(step)
            run.go()

        code = exit_code_of(work)
        outcomes.add((code, run.noted("noise")))
        if code != KILLED:
            break
        check_then_go_on(run)
    assert code == 0
    assert step > 100  # it did die at many places, before and after the noise
    assert outcomes == {(KILLED, 0), (KILLED, 1), (0, 1)}


def kill_in_write(number: int, length: int) -> None:
    """Let the `number`-th write of the ledger's code put `length` bytes on disk, then kill."""
    real, left = os.write, number

    def write(descriptor: int, content: bytes) -> int:
        nonlocal left
        left -= 1
        if left > 0:
            return real(descriptor, content)
        real(descriptor, bytes(content)[:length])
        os.fsync(descriptor)
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("unreachable")

    os.write = write


@pytest.mark.parametrize("length", [0, 1, 19, 150, 10_000])
@pytest.mark.parametrize("number", range(1, 7))  # three appends, each writes lines and a length
def test_killed_in_the_middle_of_an_append(tmp_path, number, length):
    run = Run(tmp_path)

    def work() -> None:
        kill_in_write(number, length)
        run.go()

    assert exit_code_of(work) == KILLED
    check_then_go_on(run)


def test_a_disk_that_fills_up_under_the_ledger(tmp_path):
    """A real limit of the operating system, at every size: some bytes are written, then no more."""
    whole = Run(tmp_path / "whole")
    whole.notes.parent.mkdir()
    whole.go()
    size = (tmp_path / "whole" / "ledger.jsonl").stat().st_size
    for limit in range(10, size, 37):
        folder = tmp_path / str(limit)
        folder.mkdir()
        run = Run(folder)

        def work(limit: int = limit, run: Run = run) -> None:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
            with pytest.raises(LedgerError, match=r"cannot be written \(File too large\)"):
                run.go()

        assert exit_code_of(work) == 0
        content = (folder / "ledger.jsonl").read_bytes()
        assert content == b"" or content.endswith(b"\n")  # taken back, not left torn
        check_then_go_on(run)


IN_PROGRESS = "Another run of release a is in progress"


def holding(run: Run) -> multiprocessing.process.BaseProcess:
    """A child process that has the run's lock and keeps it."""
    reader, writer = os.pipe()

    def work() -> None:
        with run.ledger.run_lock("a"):
            os.write(writer, b"held")
            signal.pause()

    child = FORK.Process(target=work)
    child.start()
    os.read(reader, 4)
    return child


def kill(child: multiprocessing.process.BaseProcess) -> None:
    child.kill()
    child.join()


def test_a_killed_run_lets_the_next_one_in(tmp_path):
    run = Run(tmp_path)
    child = holding(run)
    with pytest.raises(LedgerError, match=IN_PROGRESS):
        run.go()
    assert not run.notes.exists()
    kill(child)
    run.go()
    assert run.ledger.balance().spent_epsilon == COST


def test_a_run_that_lives_keeps_its_lease_and_a_killed_one_loses_it(
    tmp_path, store, patient_leases, monkeypatch
):
    """However long a run takes. Time passes in the store, whose clock alone counts."""
    monkeypatch.setattr("hushrank.flows.ledger.cloud_object.RENEWALS", 600)  # one in a second
    run = Run(tmp_path, CloudPath.parse("gs://budget/ledger.jsonl"))
    child = holding(run)
    (lease,) = (name for name in store.names("budget") if name.endswith(".lease"))
    for _ in range(2):
        with pytest.raises(LedgerError, match=IN_PROGRESS):
            run.go()
        store.pass_time(LEASE_SECONDS)
        wait_for_another(store, lease)
    with pytest.raises(LedgerError, match=IN_PROGRESS):
        run.go()
    assert not run.notes.exists()
    kill(child)
    store.pass_time(LEASE_SECONDS)
    run.go()
    assert run.ledger.balance().spent_epsilon == COST


def wait_for_another(store: Store, name: str) -> None:
    """Until an object has been written anew."""
    generation, deadline = store.buckets["budget"][name].generation, time.monotonic() + 600
    while store.buckets["budget"][name].generation == generation:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def kill_at_write(number: int, *, carried_out: bool) -> None:
    """Kill this process at its `number`-th write to a store: before it, or before its answer."""
    left = number

    def watched(real: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: object, **more: object) -> object:
            nonlocal left
            left -= 1
            if left > 0:
                return real(*arguments, **more)
            if carried_out:
                real(*arguments, **more)
            os.kill(os.getpid(), signal.SIGKILL)
            raise AssertionError("unreachable")

        return call

    for name in ("write", "delete"):
        setattr(CloudPath, name, watched(getattr(CloudPath, name)))


@pytest.mark.slow
@on_the_go_server
@pytest.mark.parametrize("carried_out", [False, True])
def test_killed_at_any_write_to_a_server_that_others_wrote(store, tmp_path, carried_out):
    for number in range(1, 100):
        folder, at = tmp_path / str(number), f"{number}/ledger.jsonl"
        folder.mkdir()
        run = Run(folder)
        run.ledger = ledger_at(CloudPath.parse(f"gs://budget/{at}"), lease_seconds=600.0)

        def work(number: int = number, run: Run = run) -> None:
            kill_at_write(number, carried_out=carried_out)
            run.go()

        code = exit_code_of(work)
        lease = f"{at}.runs/a.lease"
        if lease in store.names("budget"):
            with pytest.raises(LedgerError, match=IN_PROGRESS):
                run.go()
            CloudPath.parse(f"gs://budget/{lease}").delete()  # as an operator may, of the dead
        if code != KILLED:
            break
        check_then_go_on(run)
    assert code == 0
    assert number > 8  # lease, the length of nothing, three appends and their lengths, lease


@on_the_go_server
def test_a_killed_run_loses_its_lease_by_the_clock_of_the_server(store, tmp_path, patient_leases):
    run = Run(tmp_path, CloudPath.parse("gs://budget/ledger.jsonl"))
    run.ledger = ledger_at(CloudPath.parse("gs://budget/ledger.jsonl"), lease_seconds=2.0)
    kill(holding(run))
    refused, deadline = [], time.monotonic() + 600
    while not run.noted("committed"):
        assert time.monotonic() < deadline
        try:
            run.go()
        except LedgerError as error:
            refused.append(str(error))
            time.sleep(0.2)
    assert all(IN_PROGRESS in message for message in refused)
    assert run.ledger.balance().spent_epsilon == COST


# Several processes at once


def at_once(processes: int, work: Callable[[int], Iterator[str]]) -> list[str]:
    """Everything that `work(index)` yields in each of so many processes, started together."""
    barrier, results = FORK.Barrier(processes), FORK.SimpleQueue()

    def run(index: int) -> None:
        barrier.wait()
        try:
            results.put(list(work(index)))
        except BaseException:
            results.put([traceback.format_exc()])
            raise

    children = [FORK.Process(target=run, args=(index,)) for index in range(processes)]
    for child in children:
        child.start()
    yielded = [what for _ in children for what in results.get()]
    for child in children:
        child.join()
    assert [child.exitcode for child in children] == [0] * processes
    return yielded


@pytest.mark.parametrize("processes", [2, 8])
def test_processes_that_want_more_than_there_is_get_exactly_all_of_it(place, processes):
    def work(index: int) -> Iterator[str]:
        ledger = ledger_at(place)
        for night in range(24 // processes):
            release_id = f"process-{index}-night-{night}"
            try:
                ledger.reserve(release_id, Spend(epsilon=1.0))
            except BudgetRefused:
                yield "refused"
                continue
            ledger.mark_drawn(release_id)
            ledger.commit(release_id)
            yield release_id

    results = at_once(processes, work)
    committed = {row.release_id for row in ledger_at(place).history() if row.state == "committed"}
    assert len(committed) == TOTAL
    assert sorted(results) == sorted([*committed, *["refused"] * 14])  # 24 wanted 1 each, of 10
    assert ledger_at(place).balance().spent_epsilon == TOTAL
    assert len(place.read_bytes().splitlines()) == 1 + 3 * TOTAL  # no update was lost


def test_of_many_processes_that_draw_for_one_release_one_may(place):
    def work(index: int) -> Iterator[str]:
        ledger = ledger_at(place)
        try:  # without the run lock, which is there to keep them from getting this far
            ledger.reserve("a", Spend(epsilon=COST))
            ledger.mark_drawn("a")
        except LedgerError as error:
            yield "refused" if "its noise was drawn" in str(error) else str(error)
        else:
            yield "drawn"

    assert sorted(at_once(8, work)) == ["drawn"] + ["refused"] * 7
    assert ledger_at(place).balance().spent_epsilon == COST


def test_of_a_draw_and_a_cancel_at_once_one_happens(place):
    for night in range(3 if isinstance(place, CloudPath) else 10):
        release_id = f"night-{night}"
        ledger_at(place).reserve(release_id, Spend(epsilon=1.0))

        def work(index: int, release_id: str = release_id) -> Iterator[str]:
            ledger = ledger_at(place)
            step = (ledger.mark_drawn, ledger.cancel)[index]
            try:
                step(release_id)
            except LedgerError:
                return
            yield ("drawn", "cancelled")[index]

        happened = at_once(2, work)
        assert happened == [ledger_at(place).state(release_id)]
