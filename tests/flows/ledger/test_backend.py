"""The ledger on a backend that is no file: an object replaced under a generation match."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

import pytest

from hushrank.flows.errors import BudgetRefused, LedgerError
from hushrank.flows.ledger.ledger import MAX_TRIES, Ledger
from hushrank.flows.ledger.local_file import Snapshot
from tests.ledgers import Clock, pure, release, terms_of


class ObjectStore:
    """One object in memory; a write needs the generation that its writer has read."""

    place = "gs://bucket/ledger.jsonl"

    def __init__(self) -> None:
        self.content, self.generation, self.conflicts = b"", 0, 0
        self._swap = threading.Lock()

    def read(self) -> Snapshot:
        with self._swap:
            return Snapshot(self.content, str(self.generation))

    def append(self, token: str, lines: bytes) -> Snapshot | None:
        with self._swap:
            if token != str(self.generation):
                self.conflicts += 1
                return None
            self.content += lines
            self.generation += 1
            return Snapshot(self.content, str(self.generation))

    @contextmanager
    def hold(self, release_id: str) -> Iterator[None]:
        yield


class MeetingPlace(ObjectStore):
    """Its writers meet: nobody goes on until all have read what nobody has written yet."""

    def __init__(self, writers: int) -> None:
        super().__init__()
        self._all, self._first = threading.Barrier(writers, timeout=600), [True] * writers

    def read(self) -> Snapshot:
        found = super().read()
        with suppress(IndexError):  # later reads do not wait
            self._first.pop()
            self._all.wait()
        return found


def test_eight_writers_lose_no_update_and_spend_no_more_than_there_is():
    store, clock = MeetingPlace(8), Clock()

    def nights(writer: int) -> int:
        ledger = Ledger(store, terms_of(), clock=clock)
        refused = 0
        for night in range(5):
            try:
                release(ledger, f"writer-{writer}-night-{night}", 0.5)
            except BudgetRefused:
                refused += 1
        return refused

    with ThreadPoolExecutor(8) as pool:
        refused = sum(pool.map(nights, range(8)))
    ledger = Ledger(store, terms_of(), clock=clock)
    assert refused == 40 - 20  # of 40 wanted, 20 fit into epsilon 10
    assert [row.state for row in ledger.history()].count("committed") == 20
    assert ledger.balance().spent_epsilon == 10
    assert store.conflicts >= 7  # of the first entries of eight one was in time


def test_a_store_that_never_stands_still_is_given_up():
    class Busy(ObjectStore):
        def append(self, token: str, lines: bytes) -> Snapshot | None:
            self.conflicts += 1
            return None

    store = Busy()
    with pytest.raises(LedgerError) as caught:
        Ledger(store, terms_of()).reserve("a", pure(1))
    assert str(caught.value) == (
        "gs://bucket/ledger.jsonl: too many processes write at once. Run again later."
    )
    assert store.conflicts == MAX_TRIES


def test_a_loss_that_the_backend_knows_of_is_refused():
    class Shortened(ObjectStore):
        def read(self) -> Snapshot:
            return Snapshot(b"", "0", loss="the newest generation is gone")

    with pytest.raises(LedgerError, match=r"^the newest generation is gone$"):
        Ledger(Shortened(), terms_of()).reserve("a", pure(1))
