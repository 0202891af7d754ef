"""Signals that wait: between files that belong together, in the ledger's lock, while tidying up."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator

import pytest
from filelock import FileLock

from hushrank.flows.ledger.ledger import Ledger
from hushrank.flows.ledger.local_file import LedgerFile
from hushrank.flows.terminal import STOPPING, one_signal, signals_held, stop_as_ctrl_c
from hushrank.privacy.accounting import Spend
from tests.ledgers import terms_of

each_signal = pytest.mark.parametrize("number", STOPPING, ids=lambda number: number.name)


@pytest.fixture(autouse=True)
def as_in_the_command() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in STOPPING}
    for number in STOPPING:
        signal.signal(number, signal.default_int_handler)
    yield
    assert {signal.getsignal(number) for number in STOPPING} == {signal.default_int_handler}
    for number, handler in before.items():
        signal.signal(number, handler)


@each_signal
def test_what_is_held_is_finished_and_then_interrupted(number):
    done = []

    @signals_held()
    def work() -> None:
        signal.raise_signal(number)
        done.append("first")
        with signals_held():
            signal.raise_signal(number)
        done.append("second")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == ["first", "second"]


@each_signal
def test_a_second_signal_does_not_break_off_what_the_first_one_began(number):
    done = []

    @one_signal()
    def work() -> None:
        try:
            signal.raise_signal(signal.SIGTERM)
        except KeyboardInterrupt:
            signal.raise_signal(number)
            done.append("tidied up")
            raise

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == ["tidied up"]


def test_a_second_signal_is_not_lost_where_nobody_obeyed_the_first():
    @one_signal()
    def work() -> None:
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGHUP)

    with pytest.raises(KeyboardInterrupt):
        work()


def test_a_failure_in_a_held_block_does_not_swallow_the_signal():
    @signals_held()
    def work() -> None:
        signal.raise_signal(signal.SIGHUP)
        raise OSError

    with pytest.raises(KeyboardInterrupt):
        work()
    with pytest.raises(OSError, match="as it is"), signals_held():
        raise OSError("as it is")


def test_what_nohup_has_a_process_ignore_stays_ignored():
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    stop_as_ctrl_c()
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    with signals_held(), one_signal():
        signal.raise_signal(signal.SIGHUP)
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGTERM)
    signal.signal(signal.SIGHUP, signal.default_int_handler)


def test_another_thread_is_left_alone():
    passed = []

    def work() -> None:
        stop_as_ctrl_c()
        with signals_held(), one_signal():
            passed.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert passed


@pytest.fixture
def interrupted_locks(monkeypatch) -> list[int]:
    """Signals that come at the moment when a lock is taken, and nobody knows yet to free it."""
    acquire, signals = FileLock.acquire, []

    def interrupted(lock, *arguments, **named):
        taken = acquire(lock, *arguments, **named)
        if signals:
            signal.raise_signal(signals.pop())
        return taken

    monkeypatch.setattr(FileLock, "acquire", interrupted)
    return signals


@each_signal
def test_who_is_interrupted_in_the_lock_of_the_ledger_does_not_wait_for_himself(
    tmp_path, interrupted_locks, number
):
    ledger = Ledger(LedgerFile(tmp_path / "ledger.jsonl", lock_timeout=0.2), terms_of())
    ledger.reserve("a", Spend(epsilon=1.0))
    interrupted_locks.append(number)
    try:
        ledger.reserve("b", Spend(epsilon=1.0))
    except KeyboardInterrupt:  # while the frames of the interrupted call are alive
        ledger.cancel("a")
    assert not interrupted_locks
    assert str(ledger.state("a")) == "cancelled"


@each_signal
def test_who_is_interrupted_while_he_takes_a_release_lets_go_of_it(
    tmp_path, interrupted_locks, number
):
    ledger = Ledger(tmp_path / "ledger.jsonl", terms_of())
    interrupted_locks.append(number)
    lock = ledger.run_lock("a")
    try:
        lock.__enter__()
    except KeyboardInterrupt:
        with ledger.run_lock("a"):
            return
    raise AssertionError("it was interrupted")
