"""On a real Spark with two executors, of which one is lost: the same results.

The cluster is the one of `infra/spark/cluster.py`, which needs Java, Maven and, the first time, the
network. Where it cannot be had the tests are skipped and say why.
"""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hushrank.flows.config.runner import SparkRunner
from hushrank.pipelines.reduce import reduce
from tests.pipelines.reduce.test_reduce_stream import a_night_job
from tests.pipelines.scenarios.engine_jobs import (
    KINDS,
    children,
    counted,
    exact,
    run_together,
    started,
    tally,
    wait_for,
    write_large,
)

MEETING = "GroupNonMergingWindows"  # in Spark's name of a stage that ends where keys meet
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


def kill_an_executor(spark: Spark) -> threading.Thread:
    """Once rows have been read and sent to where they are bounded: they are lost with it."""

    def wait_and_kill() -> None:
        wait_for(lambda: any(MEETING in name for name, _ in spark.stages()), PATIENCE)
        os.kill(spark.executors()[0], signal.SIGKILL)

    thread = threading.Thread(target=wait_and_kill, daemon=True)
    thread.start()
    return thread


def test_results_are_those_of_the_local_runner_though_an_executor_is_lost(
    spark: Spark, tmp_path: Path
) -> None:
    """Of all reductions, as one job, for every job starts executors and workers anew.

    It begins with a night of a stream, large enough for an executor to be killed in its middle.
    """
    write_large(tmp_path / "night", 1_000_000)
    nights = [
        a_night_job(tmp_path / "night", tmp_path / name, tmp_path / f"{name} stream", 0)
        for name in ("here", "there")
    ]
    here = [kind(tmp_path / kind.__name__, tmp_path / f"{kind.__name__} here") for kind in KINDS]
    there = [spark.job(job, Path(f"{job.confidential} there")) for job in here]
    night = spark.job(nights[1], tmp_path / "there")
    killer = kill_an_executor(spark)
    run_together([night, *there])
    killer.join()
    assert any(attempt > 0 for _, attempt in spark.stages())  # some were computed again
    assert counted(night) == counted(nights[0])  # takes the results that are there, checks them
    assert tally(night) == tally(nights[0])
    for local, remote in zip(here, there, strict=True):
        reduce.run(local)
        reduce.run(remote)
        assert exact(remote) == exact(local)
        assert tally(remote) == tally(local)
