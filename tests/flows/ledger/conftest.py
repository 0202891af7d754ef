"""A ledger of one population, by a clock that tests set."""

from __future__ import annotations

from pathlib import Path

import pytest

from hushrank.flows.ledger.ledger import Ledger
from tests.ledgers import Clock, terms_of


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "ledger.jsonl"


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def ledger(path, clock) -> Ledger:
    return Ledger(path, terms_of(), clock=clock, operator="anna")
