"""The size of memory, as people write it."""

from __future__ import annotations

import pytest
from pydantic import TypeAdapter, ValidationError

from hushrank.flows.config.runner import MemorySize
from hushrank.pipelines.engine.runner import (
    DEFAULT_MEMORY,
    LEAST_MEMORY,
    Engine,
    MemoryPlan,
    memory_for,
    most_workers,
)
from hushrank.transforms import system

SIZE = TypeAdapter(MemorySize)


@pytest.mark.parametrize(
    ("written", "size"),
    [
        ("2 GiB", 2 << 30),
        ("1.5GiB", 3 << 29),
        (" 900 MiB ", 900 << 20),
        ("2 GB", 2 * 10**9),
        (2 << 30, 2 << 30),
    ],
)
def test_a_size_is_bytes_or_a_number_with_a_unit(written, size):
    assert SIZE.validate_python(written) == size


@pytest.mark.parametrize(
    "written", ["2", "2 gb", "-1 GiB", "GiB", "", "1e9 B", True, 2.5e9, "1 MiB"]
)
def test_anything_else_is_refused(written):
    with pytest.raises(ValidationError):
        SIZE.validate_python(written, strict=True)


def test_a_size_below_what_the_engine_takes_is_refused_with_the_least_one():
    with pytest.raises(ValidationError) as refused:
        SIZE.validate_python("767 MiB")
    assert "must be at least 768 MiB" in str(refused.value.errors())
    with pytest.raises(ValueError, match="memory_limit must be at least 768 MiB"):
        MemoryPlan.of(LEAST_MEMORY - 1)


def test_a_plan_grows_with_the_limit():
    small, large = MemoryPlan.of(LEAST_MEMORY), MemoryPlan.of(8 << 30)
    assert 0 < small.waiting_bytes < large.waiting_bytes < 8 << 30
    assert 0 < small.rows_at_once < large.rows_at_once


@pytest.mark.parametrize("workers", [1, 4, 5, 6, 16, 64, 1024])
def test_the_memory_for_workers_is_the_least_that_has_room_for_them(workers):
    least = memory_for(workers)
    assert most_workers(least) >= workers
    assert least == LEAST_MEMORY or most_workers(least - 1) == workers - 1
    plan = MemoryPlan.of(least, workers)
    assert plan.waiting_bytes > 0 < plan.rows_at_once


def test_auto_takes_every_processor_that_there_is_memory_for(monkeypatch):
    monkeypatch.setattr(system, "processors", lambda: 96)
    found = [Engine().workers_within(size) for size in (LEAST_MEMORY, DEFAULT_MEMORY, 16 << 30)]
    assert found == [4, 6, 54]
    assert Engine().workers_within(1 << 40) == 96
    assert Engine(workers=7).workers_within(DEFAULT_MEMORY) == 7
