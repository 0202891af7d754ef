"""Tests of calls from Python, in a process that goes on to other tests."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def no_engine_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A caller's process stays without Beam; this one runs other tests on it afterwards."""
    monkeypatch.setattr("hushrank.transforms.engine.in_process.choose", lambda: None)
