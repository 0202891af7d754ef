"""The ledger in Cloud Storage: what its object, its leases and a failing store do to a run."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from hushrank.flows.errors import LedgerError
from hushrank.flows.ledger.account import ReleaseState
from hushrank.flows.ledger.cloud_object import (
    LEASE_SECONDS,
    Lease,
    LeaseLost,
    LeaseTaken,
    LedgerObject,
)
from hushrank.flows.ledger.entries import LINE_START, BudgetTerms
from hushrank.flows.ledger.ledger import Ledger
from hushrank.privacy.accounting import Spend
from hushrank.privacy.units import Adjacency, Unit
from hushrank.transforms.storage.places import CloudPath
from tests.cloud_stores import asked_store, lose_patience_at_once, on_both_servers
from tests.fake_cloud_storage import Fault, Store
from tests.go_cloud_storage import GoStore
from tests.ports import closed_port

ONE = LINE_START + b'1,"seq":1}\n'
TWO = LINE_START + b'1,"seq":2}\n'
PLACE = CloudPath.parse("gs://budget/campus/ledger.jsonl")
OBJECT, LENGTH = "campus/ledger.jsonl", "campus/ledger.jsonl.length"
LEASE = "campus/ledger.jsonl.runs/a.lease"
KEPT_NAMES = 4  # of writes, where a test makes so many
UNREACHABLE = (
    "gs://budget/campus/ledger.jsonl: the ledger cannot be {} (Cloud Storage does not answer as it"
    " should: {}), and without it nothing may be drawn. Check ledger.path, the permissions of this"
    " account and the network; then run again."
)


@pytest.fixture
def store(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Store | GoStore]:
    with asked_store(request, monkeypatch, "budget") as store:
        yield store


@pytest.fixture
def backend(store) -> LedgerObject:
    return LedgerObject(PLACE)


def add(backend: LedgerObject, lines: bytes) -> None:
    written = backend.append(backend.read().token, lines)
    assert written is not None
    assert written == backend.read()


def message(call, *arguments) -> str:
    with pytest.raises(LedgerError) as caught:
        call(*arguments)
    return str(caught.value)


def campus(backend: LedgerObject) -> Ledger:
    terms = BudgetTerms("campus", 10.0, 0.0, None, Unit.USER, Adjacency.REPLACE_ONE)
    return Ledger(backend, terms, operator="anna")


# The object


@on_both_servers
def test_an_absent_ledger_is_empty_and_reading_makes_nothing(backend, store):
    assert backend.read().content == b""
    assert store.names("budget") == []


@on_both_servers
def test_what_was_appended_is_read(backend, store):
    add(backend, ONE)
    add(backend, TWO)
    assert backend.read().content == ONE + TWO
    assert backend.read().loss is None
    assert store.content("budget", LENGTH) == f"{len(ONE + TWO)}\n".encode()


@on_both_servers
def test_an_append_to_content_that_changed_is_refused(store, backend):
    before = backend.read().token
    add(backend, ONE)
    assert not backend.append(before, TWO)
    assert backend.read().content == ONE


@on_both_servers
def test_an_append_between_reading_and_writing_is_met(backend, store, monkeypatch):
    """The object changes after the writer looked at it: only the match of generations can tell."""
    add(backend, ONE)
    token, other = backend.read().token, LedgerObject(PLACE)
    swap = LedgerObject._swap

    def late(self: LedgerObject, *arguments: object) -> bool:
        monkeypatch.setattr(LedgerObject, "_swap", swap)
        add(other, TWO)
        return swap(self, *arguments)

    monkeypatch.setattr(LedgerObject, "_swap", late)
    assert not backend.append(token, ONE)
    assert backend.read().content == ONE + TWO


@on_both_servers
@pytest.mark.parametrize("left", [0, 7, len(ONE)])
def test_an_older_copy_is_a_loss(backend, store, left):
    add(backend, ONE)
    add(backend, TWO)
    store.put("budget", OBJECT, (ONE + TWO)[:left], {})
    missing = len(ONE + TWO) - left
    assert backend.read().loss == (
        f"{PLACE}: {missing} bytes at its end are missing: it was deleted or replaced by an older"
        " copy. Put the newest generation back (gcloud storage ls --all-versions shows what the"
        " bucket keeps). Without one, count this budget as spent, or run hushrank ledger recover,"
        " which lists the known spending."
    )


@on_both_servers
def test_a_deleted_ledger_is_a_loss_until_that_is_accepted(backend, store):
    campus(backend).reserve("a", Spend(epsilon=1.0))
    PLACE.delete()
    assert "bytes at its end are missing" in message(campus(backend).balance)
    backend.accept_loss()
    assert campus(backend).balance().spent_epsilon == 0


@on_both_servers
def test_lines_without_their_length_are_a_loss(backend, store):
    add(backend, ONE)
    CloudPath.parse(f"{PLACE}.length").delete()
    assert backend.read().loss == (
        f"{PLACE}.length is missing, so hushrank cannot tell whether this ledger is the newest. Put"
        " the newest generation of both back; or run hushrank ledger recover, which lists the known"
        " spending."
    )
    backend.accept_loss()
    assert backend.read().loss is None


def test_a_length_that_lags_behind_is_allowed(backend, store, monkeypatch):
    lose_patience_at_once(monkeypatch)
    add(backend, ONE)
    store.faults.append(Fault("POST", ".length", 503, times=99))
    add(backend, TWO)  # recorded, although its length could not be
    store.faults.clear()
    assert backend.read().content == ONE + TWO
    assert store.content("budget", LENGTH) == f"{len(ONE)}\n".encode()


@on_both_servers
def test_a_damaged_length_is_refused(backend, store):
    add(backend, ONE)
    store.put("budget", LENGTH, b"many", {})
    assert message(backend.read) == (
        f"{PLACE}.length is damaged: it does not hold a number that an append writes. If {PLACE} is"
        " complete, delete it and run hushrank ledger recover."
    )


# A failing store


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_passing_failures_go_unnoticed(backend, store, method, status):
    add(backend, ONE)
    store.faults.append(Fault(method, OBJECT, status))
    add(backend, TWO)
    assert backend.read().content == ONE + TWO
    assert store.faults[0].times == 0


@pytest.mark.parametrize("times", [1, 2])
def test_a_lost_answer_to_a_write_that_happened_is_no_conflict(backend, store, times):
    add(backend, ONE)
    store.faults.append(Fault("POST", OBJECT, "lost", times))
    add(backend, TWO)
    assert backend.read().content == ONE + TWO


def test_a_lost_answer_is_no_conflict_even_if_others_wrote_since(backend, store, monkeypatch):
    monkeypatch.setattr("hushrank.flows.ledger.cloud_object.KEPT_NAMES", KEPT_NAMES)
    add(backend, ONE)
    other, read = LedgerObject(PLACE), CloudPath.read

    def after_others(path: CloudPath, patience: float = 60) -> object:
        if path == PLACE and store.faults[0].times == 0:  # the write was refused: it looks why
            monkeypatch.setattr(CloudPath, "read", read)
            for _ in range(KEPT_NAMES - 1):
                add(other, ONE)
        return read(path, patience)

    store.faults.append(Fault("POST", OBJECT, "lost"))
    monkeypatch.setattr(CloudPath, "read", after_others)
    add(backend, TWO)
    assert backend.read().content == ONE + TWO + (KEPT_NAMES - 1) * ONE


def test_where_nobody_can_tell_any_more_the_step_fails(backend, store, monkeypatch):
    monkeypatch.setattr("hushrank.flows.ledger.cloud_object.KEPT_NAMES", KEPT_NAMES)
    add(backend, ONE)
    other, read = LedgerObject(PLACE), CloudPath.read

    def after_others(path: CloudPath, patience: float = 60) -> object:
        if path == PLACE and store.faults[0].times == 0:
            monkeypatch.setattr(CloudPath, "read", read)
            for _ in range(KEPT_NAMES):
                add(other, ONE)
        return read(path, patience)

    token = backend.read().token
    store.faults.append(Fault("POST", OBJECT, "lost"))
    monkeypatch.setattr(CloudPath, "read", after_others)
    assert message(backend.append, token, TWO) == (
        f"{PLACE}: too many others wrote at once to tell whether this step was recorded."
        " Nothing was drawn; run again."
    )


@pytest.mark.parametrize(("method", "what"), [("GET", "written"), ("POST", "written")])
def test_a_store_that_stays_down_stops_the_run_before_it_draws(store, monkeypatch, method, what):
    lose_patience_at_once(monkeypatch)
    ledger = campus(LedgerObject(PLACE))
    ledger.reserve("a", Spend(epsilon=1.0))
    store.faults.append(Fault(method, OBJECT, 503, times=99))
    assert message(ledger.mark_drawn, "a") == UNREACHABLE.format(what, "RetryError")
    store.faults.clear()
    assert ledger.state("a") is ReleaseState.RESERVED


def test_without_permission_nothing_is_drawn(backend, store):
    store.faults.append(Fault("POST", OBJECT, 403))
    assert "the ledger cannot be written (no permission)" in message(
        campus(backend).reserve, "a", Spend(epsilon=1.0)
    )


def test_a_store_that_nobody_can_reach(monkeypatch):
    lose_patience_at_once(monkeypatch)
    with closed_port() as port:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", f"http://127.0.0.1:{port}")
        ledger = campus(LedgerObject(PLACE))
        assert "the ledger cannot be read" in message(ledger.reserve, "a", Spend(epsilon=1.0))


@on_both_servers
def test_a_bucket_that_is_not_there(store):
    elsewhere = CloudPath.parse("gs://nowhere/ledger.jsonl")
    ledger = campus(LedgerObject(elsewhere))
    assert message(ledger.reserve, "a", Spend(epsilon=1.0)).startswith(
        "gs://nowhere/ledger.jsonl: the ledger cannot be written (no such object or bucket)"
    )


WRITES = ("POST", "DELETE")
IN_PROGRESS = "Another run of release a is in progress"


def kill_after(store: Store, victim: int, number: int) -> None:
    """Kill a process at its `number`-th write, which is carried out."""
    left = number

    def watch(method: str, name: str) -> None:
        nonlocal left
        left -= method in WRITES
        if method in WRITES and left == 0:
            os.kill(victim, signal.SIGKILL)
            os.waitpid(victim, 0)

    store.fault = watch  # type: ignore[method-assign]


def go(ledger: Ledger, noise: CloudPath) -> None:
    """One run of release `a`; noise that was drawn is noted outside of the ledger."""
    with ledger.run_lock("a"):
        lost = ledger.state("a") in (ReleaseState.DRAWN, ReleaseState.COMMITTED)
        ledger.reserve("a", Spend(epsilon=2.0), noise_lost=lost)
        ledger.mark_drawn("a")
        noise.write((noise.read_bytes() if noise.exists() else b"") + b"drawn\n")
        ledger.commit("a")


@pytest.mark.slow
@pytest.mark.parametrize("number", range(1, 10))  # nine writes: lease, three appends, noise, lease
def test_killed_after_any_write_a_run_is_taken_up_where_it_was(store, number):
    ledger = campus(LedgerObject(PLACE))
    noise = CloudPath.parse("gs://budget/noise")
    ready, started = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.read(ready, 1)
            go(ledger, noise)
        finally:
            os._exit(0)
    kill_after(store, child, number)
    os.write(started, b"1")
    deadline = time.monotonic() + 600
    while _alive(child) or store.serving:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    drawn = store.content("budget", "noise").count(b"drawn") if noise.exists() else 0
    assert ledger.balance().spent_epsilon >= 2.0 * drawn
    if LEASE in store.names("budget"):
        assert IN_PROGRESS in message(go, ledger, noise)
    store.pass_time(LEASE_SECONDS)
    go(ledger, noise)
    drawn = store.content("budget", "noise").count(b"drawn")
    assert 2.0 * drawn <= ledger.balance().spent_epsilon <= 4.0
    assert ledger.state("a") is ReleaseState.COMMITTED


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


# Leases


@on_both_servers
def test_a_release_is_held_once_and_others_are_free(backend, store):
    with backend.hold("a"), backend.hold("b"):
        refused = message(backend.hold("a").__enter__)
        assert refused.startswith(
            f"Another run of release a is in progress (process {os.getpid()} on"
            f" {socket.gethostname()}, last seen at "
        )
        assert refused.endswith(f"make sure that the run is dead and delete gs://budget/{LEASE}.")
    assert store.names("budget") == []
    with backend.hold("a"):
        pass


@on_both_servers
def test_a_run_that_fails_lets_go(backend, store):
    with pytest.raises(KeyError), backend.hold("a"):
        raise KeyError
    assert store.names("budget") == []


@on_both_servers
def test_a_lease_that_somebody_else_wrote_is_not_stolen_and_not_deleted(backend, store):
    store.put("budget", LEASE, b"what is this", {})
    assert "(somebody, last seen at" in message(backend.hold("a").__enter__)
    assert store.names("budget") == [LEASE]


def test_a_lost_answer_to_taking_a_lease_is_no_other_run(backend, store):
    store.faults.append(Fault("POST", ".lease", "lost"))
    with backend.hold("a"):
        pass
    assert store.names("budget") == []


class Beats:
    """In place of the event that ends a lease: the test, and no clock, says when it is renewed."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._turn = threading.Semaphore(0)
        self._renewed = threading.Semaphore(0)
        self._ended = False
        self.waits: list[float] = []

    def wait(self, seconds: float) -> bool:
        if self.waits:
            self._renewed.release()
        self.waits.append(seconds)
        self._turn.acquire()
        return self._ended

    def beat(self) -> None:
        """Let the time until the next renewal pass in the store, and have it done."""
        self._store.pass_time(30)
        self._turn.release()
        assert self._renewed.acquire(timeout=600)

    def is_set(self) -> bool:
        return self._ended

    def set(self) -> None:
        self._ended = True
        self._turn.release()


def test_a_lease_is_kept_fresh(store, monkeypatch):
    first, second = (Lease(CloudPath.parse(f"gs://budget/{LEASE}"), 90) for _ in range(2))
    beats = Beats(store)
    monkeypatch.setattr(first, "_ended", beats)
    first.take()
    for _ in range(4):  # 120 s
        beats.beat()
        with pytest.raises(LeaseTaken):
            second.take()
        first.check()
    assert set(beats.waits) == {30}
    store.pass_time(91)  # and it was not renewed
    second.take()
    with pytest.raises(LeaseLost):
        first.check()
    first.release()
    second.check()
    second.release()


def test_of_many_who_take_over_a_stale_lease_one_does(store):
    path = CloudPath.parse(f"gs://budget/{LEASE}")
    stale = store.put("budget", LEASE, b"{}", {})
    stale.updated = "2026-11-21T02:00:00.000000Z"
    start, got = threading.Barrier(4), []

    def take() -> None:
        lease = Lease(path)
        start.wait()
        try:
            lease.take()
            got.append(lease)
        except LeaseTaken:
            pass

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(got) == 1
    got[0].check()
    got[0].release()


def test_ages_are_told_by_the_store_and_not_by_this_machine(store, monkeypatch):
    """A lease that the store dates into the far future of this machine is fresh, or stale."""
    put = store.put

    def shifted(bucket, name, content, metadata):
        made = put(bucket, name, content, metadata)
        made.updated = f"2031{made.updated[4:]}"
        return made

    monkeypatch.setattr(store, "put", shifted)
    path = CloudPath.parse(f"gs://budget/{LEASE}")
    first, second = Lease(path, 30), Lease(path, 30)
    first.take()
    with pytest.raises(LeaseTaken):
        second.take()
    store.buckets["budget"][LEASE].updated = "2030-12-31T23:59:59.000000Z"
    second.take()
    with pytest.raises(LeaseLost):
        first.check()
    second.release()


@pytest.mark.parametrize("how", ["taken over", "deleted"])
def test_a_run_that_lost_its_lease_draws_nothing(store, how):
    sleeper = LedgerObject(PLACE)
    ledger = campus(sleeper)
    with ledger.run_lock("a"):
        ledger.reserve("a", Spend(epsilon=2.0))
        if how == "taken over":
            store.put("budget", LEASE, b"{}", {})
        else:
            CloudPath.parse(f"gs://budget/{LEASE}").delete()
        refused = message(ledger.mark_drawn, "a")
    assert "lost its lease. It draws and records nothing more. Run again." in refused
    assert ledger.state("a") is ReleaseState.RESERVED
    assert (LEASE in store.names("budget")) == (how == "taken over")  # not its own to delete
