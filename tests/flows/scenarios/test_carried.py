"""A command reads its configuration once and calibrates once: what was checked is what runs."""

from __future__ import annotations

from collections import Counter
from datetime import date, timedelta
from typing import Any

import pyarrow.parquet as pq
import pytest

from hushrank.flows.methods import registry
from hushrank.flows.methods.counts.noisy_counts import NoisyCounts
from tests.flows.conftest import answers

FIRST = date(2024, 11, 16)
NIGHTS = [FIRST + timedelta(days) for days in range(3)]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often the YAML file was read, and how often the mechanism was calibrated."""
    found: Counter[str] = Counter()
    read_yaml, calibrate = registry.read_yaml, NoisyCounts.calibrate

    def counted_read(path: Any) -> Any:
        found["read"] += 1
        return read_yaml(path)

    def counted_calibrate(self: NoisyCounts, config: Any) -> Any:
        found["calibrated"] += 1
        return calibrate(self, config)

    monkeypatch.setattr(registry, "read_yaml", counted_read)
    monkeypatch.setattr(NoisyCounts, "calibrate", counted_calibrate)
    return found


def test_a_plain_run_reads_and_calibrates_once(survey, command, calls):
    code, printed = command("run", survey.config, "--direct")
    assert code == 0, printed
    assert calls == {"read": 1, "calibrated": 1}


@pytest.mark.parametrize("arguments", [("validate",), ("run", "--plan")])
def test_so_does_a_look_at_what_would_be_done(survey, command, calls, arguments):
    code, printed = command(arguments[0], survey.config, *arguments[1:])
    assert code == 0, printed
    assert calls == {"read": 1, "calibrated": 1}


def test_a_backfill_calibrates_at_most_once_a_night(survey, command, calls):
    for seed, night in enumerate(NIGHTS):
        folder = survey.folder / "log" / f"date={night}"
        folder.mkdir(parents=True)
        pq.write_table(answers(50, seed), folder / "part-0.parquet")
    survey.set(input__paths=["log/date={date}/*.parquet"], ledger__epsilon=20, ledger__refresh=None)
    code, printed = command(
        "backfill", survey.config, "--from", NIGHTS[0], "--to", NIGHTS[-1], "--direct"
    )
    assert code == 0, printed
    assert calls["read"] == 1
    assert 1 <= calls["calibrated"] <= len(NIGHTS)
