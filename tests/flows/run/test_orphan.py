"""A thread ends the child where the kernel does not; `test_run_faults` has the kernel's way."""

from __future__ import annotations

import multiprocessing
import os
import queue
import signal
from types import SimpleNamespace

import pytest

from hushrank.flows import reading


def test_a_thread_waits_for_the_parent_to_go(monkeypatch):
    held, parents_end = os.pipe()
    signals: queue.Queue[tuple[int, int]] = queue.Queue()
    parent = SimpleNamespace(pid=os.getppid(), sentinel=held)
    monkeypatch.setattr(multiprocessing, "parent_process", lambda: parent)
    monkeypatch.setattr(reading.system, "ends_with_parent", lambda: False)
    monkeypatch.setattr(os, "kill", lambda *sent: signals.put(sent))
    reading.end_with_parent()
    with pytest.raises(queue.Empty):
        signals.get(timeout=0.2)
    os.close(parents_end)
    assert signals.get(timeout=600) == (os.getpid(), signal.SIGTERM)
    os.close(held)


def test_a_parent_that_was_gone_before_is_noticed(monkeypatch):
    signals = []
    parent = SimpleNamespace(pid=-1, sentinel=0)
    monkeypatch.setattr(multiprocessing, "parent_process", lambda: parent)
    monkeypatch.setattr(reading.system, "ends_with_parent", lambda: True)
    monkeypatch.setattr(os, "kill", lambda *sent: signals.append(sent))
    reading.end_with_parent()
    assert signals == [(os.getpid(), signal.SIGTERM)]


def test_what_nobody_started_has_no_parent():
    with pytest.raises(ValueError, match="was not started by multiprocessing"):
        reading.end_with_parent()
