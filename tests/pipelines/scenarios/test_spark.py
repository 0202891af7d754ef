"""On a real Spark with two executors, one of which is lost in each stage: the same results.

The cluster is the one of `infra/spark/cluster.py`, which needs Java, Maven and, the first time, the
network. Where it cannot be had the tests are skipped and say why.
"""

from __future__ import annotations

import dataclasses
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import psutil
import pytest

from hushrank.flows.config.runner import SparkRunner
from hushrank.pipelines.engine.options import pipeline_options
from hushrank.pipelines.reduce import reduce
from tests.pipelines.reduce.test_reduce_stream import a_night_job
from tests.pipelines.scenarios.engine_jobs import (
    KINDS,
    children,
    counted,
    exact,
    rejects,
    run_together,
    started,
    tally,
    wait_for,
    write_large,
)
from tests.pipelines.scenarios.held_stages import STAGES, Gates, HeldKind

PATIENCE = 900  # seconds; a job takes some twenty on two free cores

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1500)]  # the first time jars are fetched


@dataclasses.dataclass(frozen=True)
class Spark:
    """A running cluster."""

    job_server: str
    workers: str
    machines: list[int]
    events: str

    def job(self, job: Any, work: Path) -> Any:
        """The same reduction on the cluster, into another folder."""
        runner = {
            "kind": "spark", "job_server": self.job_server, "environment": "external",
            "workers": self.workers, "max_hours": PATIENCE / 3600,
        }  # fmt: skip
        engine = SparkRunner.model_validate(runner).engine()
        return dataclasses.replace(job, engine=engine, confidential=str(work))

    def stages(self) -> list[tuple[str, int]]:
        """Names and attempts of the stages of the newest job that ended, in that order."""
        logs = sorted(Path(self.events).iterdir(), key=lambda path: path.stat().st_mtime)
        lines = logs[-1].read_text().splitlines() if logs else []
        ended = [
            line for line in lines if line.startswith('{"Event":"SparkListenerStageCompleted"')
        ]
        told = [json.loads(line)["Stage Info"] for line in ended if line.endswith("}")]
        return [(stage["Stage Name"], stage["Stage Attempt ID"]) for stage in told]

    def executors(self) -> list[int]:
        """Their processes."""
        return [each for machine in self.machines for each in sorted(children(machine))]


@pytest.fixture(scope="module")
def spark(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Spark]:
    with started(Spark, checkout, tmp_path_factory.mktemp("spark")) as cluster:
        yield cluster


def kill_where(spark: Spark, gates: Gates, stage: str) -> None:
    """The executor whose Python worker came first to a stage's gate; then the gate is opened."""
    wait_for(lambda: gates.waiting(stage), PATIENCE)
    (worker, *_) = gates.processes(stage)
    ports = {each.raddr.port for each in psutil.Process(worker).net_connections() if each.raddr}
    (target,) = (
        each
        for each in spark.executors()
        if ports & {own.laddr.port for own in psutil.Process(each).net_connections()}
    )
    os.kill(target, signal.SIGKILL)
    gates.open(stage)


def test_results_are_those_of_the_local_runner(spark: Spark, tmp_path: Path) -> None:
    """Of all reductions, as one job, for every job starts executors and workers anew."""
    here = [kind(tmp_path / kind.__name__, tmp_path / f"{kind.__name__} here") for kind in KINDS]
    there = [spark.job(job, Path(f"{job.confidential} there")) for job in here]
    run_together(there)
    for local, remote in zip(here, there, strict=True):
        reduce.run(local)
        reduce.run(remote)  # takes the results that are there, and checks them
        assert exact(remote) == exact(local)
        assert tally(remote) == tally(local)


def test_an_executor_killed_in_any_stage_is_made_up_for_and_nothing_counts_twice(
    spark: Spark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One job, a night of a stream, loses one in each of its stages: each is held until then."""
    for name in ("1", "0"):
        write_large(tmp_path / "in", 150_000, first=int(name))
        (tmp_path / "in" / "0.parquet").rename(tmp_path / "in" / f"{name}.parquet")
    here, there = (
        a_night_job(tmp_path / "in", tmp_path / name, tmp_path / f"{name} stream", 0)
        for name in ("here", "there")
    )
    there = spark.job(there, tmp_path / "there")
    gates = Gates(tmp_path / "gates")
    pipeline = beam.Pipeline(options=pipeline_options(there.engine))
    with monkeypatch.context() as held:
        held.setattr(reduce, "kind_of", lambda job: HeldKind(job, gates))
        reduce.build(pipeline, there)
    running = pipeline.run()
    for stage in STAGES:
        kill_where(spark, gates, stage)
    assert running.wait_until_finish(1000 * PATIENCE) == "DONE"
    assert any(attempt > 0 for _, attempt in spark.stages())  # some were computed again
    assert counted(there) == counted(here)
    assert tally(there) == tally(here)
    assert rejects(there) == rejects(here)
