"""How a job is cut for an engine: by its rows and `memory_limit`, on whatever machine it starts."""

from __future__ import annotations

import dataclasses

import pytest

from hushrank.pipelines.engine.runner import DEFAULT_MEMORY, LEAST_MEMORY, Engine, Runner
from hushrank.pipelines.reduce import reduce
from hushrank.transforms import system
from hushrank.transforms.comparisons.shuffle import Partitioning
from tests.pipelines.reduce.test_reduce_comparisons import a_job, a_log, write
from tests.pipelines.scenarios.test_small_inputs import jobs_on

TEN_BILLION = 10**10
PROCESSORS = (1, 2, 4, 96)
OTHERS = [runner for runner in Runner if runner is not Runner.LOCAL]


def layout(job: reduce.Job) -> tuple[object, ...]:
    """What the launcher decides of the parts of a job, and what each worker decides again."""
    kind = reduce.kind_of(job)
    read = reduce._Encode(kind, TEN_BILLION, None)
    return read._partitions, read._chunk_rows, kind.memory


def test_every_machine_cuts_a_job_of_any_kind_alike(tmp_path, monkeypatch):
    for job in jobs_on(tmp_path / "input", tmp_path / "work"):
        elsewhere, layouts = dataclasses.replace(job, engine=Engine(Runner.FLINK)), set()
        for number in PROCESSORS:
            monkeypatch.setattr(system, "processors", lambda number=number: number)
            layouts.add(layout(elsewhere))
        assert len(layouts) == 1


@pytest.mark.parametrize("runner", OTHERS)
def test_a_worker_plans_as_the_launcher_did(tmp_path, monkeypatch, runner):
    write(a_log(), tmp_path / "log", 1, 1000, 0)
    kind = reduce.kind_of(a_job(tmp_path / "log", tmp_path / "w", engine=Engine(runner)))
    plans = set()
    for number in PROCESSORS:
        monkeypatch.setattr(system, "processors", lambda number=number: number)
        plans.add((kind.memory, kind.partitions(TEN_BILLION)))
    assert plans == {(kind.memory, Partitioning(partition_bits=12, bucket_bits=5))}
    here = reduce.kind_of(a_job(tmp_path / "log", tmp_path / "w"))
    monkeypatch.setattr(system, "processors", lambda: 4)
    assert here.memory.rows_at_once < kind.memory.rows_at_once  # four threads share a process


def test_less_memory_makes_more_parts(tmp_path):
    write(a_log(), tmp_path / "log", 1, 1000, 0)
    elsewhere = {"engine": Engine(Runner.FLINK)}
    few, many = (
        reduce.kind_of(
            a_job(tmp_path / "log", tmp_path / "w", memory_limit=limit, **elsewhere)
        ).partitions(TEN_BILLION)
        for limit in (DEFAULT_MEMORY, LEAST_MEMORY)
    )
    assert (few.partition_bits, many.partition_bits) == (12, 15)
