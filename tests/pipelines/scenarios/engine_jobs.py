"""Clusters of this machine for tests, and every reduction as a job of one."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hushrank.estimation.common.matrices import MOST_DENSE_ITEMS
from hushrank.flows.config.runner import FlinkRunner
from hushrank.pipelines.engine.options import pipeline_options
from hushrank.pipelines.reduce import reduce
from hushrank.pipelines.reduce.reduction_job import Statistic
from hushrank.pipelines.reduce.stream_nights import keep_counted
from hushrank.privacy.randomized_response import split_response
from hushrank.transforms.common.catalogue import Catalogue
from hushrank.transforms.common.epsilons import AnswerBudget, EpsilonSource
from hushrank.transforms.common.randomisation import LocalAnswers
from hushrank.transforms.common.schema import Ties
from hushrank.transforms.responses.answer_sheets import Duplicates
from tests.pipelines.reduce import test_reduce_comparisons as comparisons
from tests.pipelines.reduce import test_reduce_private as private
from tests.pipelines.reduce import test_reduce_rankings as rankings
from tests.pipelines.reduce import test_reduce_responses as responses
from tests.pipelines.reduce.test_reduce_stream import counts_of as night_counts
from tests.pipelines.reduce.test_reduce_stream import state_of

CANNOT = 69  # exit code of the cluster: there is no Java, or no jars
HUGE_EPSILON = 100.0  # of an answer: e^-100 is the chance that one of them flips
PATIENCE = 900  # seconds; a job takes some ten
ENDED = {"FINISHED", "FAILED", "CANCELED"}

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class Flink:
    """A running cluster."""

    job_server: str
    workers: str
    worker_pool: int
    task_managers: list[int]
    master: str
    job_server_jar: str
    process: int

    def runner(self) -> dict[str, Any]:
        """The `runner` section of a job on it."""
        return {
            "kind": "flink", "job_server": self.job_server, "environment": "external",
            "workers": self.workers, "parallelism": 2, "max_hours": PATIENCE / 3600,
        }  # fmt: skip

    def runner_by_master(self) -> dict[str, Any]:
        """Another: a job server is started for it, and workers are in the process that submits."""
        return {
            "kind": "flink", "master": self.master, "job_server_jar": Path(self.job_server_jar),
            "environment": "loopback", "parallelism": 2, "max_hours": PATIENCE / 3600,
        }  # fmt: skip

    def asked(self, path: str) -> Any:
        """What Flink's REST interface says."""
        with urllib.request.urlopen(f"http://{self.master}/{path}", timeout=PATIENCE) as answer:
            return json.load(answer)

    def running_jobs(self) -> list[str]:
        """Those that have not ended, as Flink says."""
        jobs = self.asked("jobs")["jobs"]
        return [job["id"] for job in jobs if job["status"] not in ENDED]

    def kill(self, number: int) -> None:
        """A task manager, as a machine dies; another one of its name is started."""
        before = children(self.process)
        os.kill(self.task_managers[number], signal.SIGKILL)
        (self.task_managers[number],) = wait_for(lambda: self._revived(before))

    def _revived(self, before: set[int]) -> set[int]:
        """New processes of the cluster; it is asked again until the dead one is quite dead."""
        os.kill(self.process, signal.SIGHUP)
        return children(self.process) - before


@contextlib.contextmanager
def started(cluster_of: type[T], checkout: Path, folder: Path, *options: str) -> Iterator[T]:
    """What `infra/<name of the class>/cluster.py` starts, and tells in fields of the class."""
    script = checkout / "infra" / cluster_of.__name__.lower() / "cluster.py"
    command = [sys.executable, str(script), "--folder", str(folder), *options]
    with (folder / "stderr").open("w+") as errors:
        cluster = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, text=True, cwd=checkout
        )
        try:
            line = cluster.stdout.readline()
            if not line and cluster.wait(PATIENCE) == CANNOT:
                pytest.skip((folder / "stderr").read_text().strip())
            found = json.loads(line)
            names = [field.name for field in dataclasses.fields(cluster_of)]
            yield cluster_of(**{name: found[name] for name in names})
        finally:
            cluster.terminate()
            cluster.wait(PATIENCE)


def on(runner: dict[str, Any], job: Any, work: Path) -> Any:
    """The same reduction on a cluster, into another folder."""
    engine = FlinkRunner.model_validate(runner).engine()
    return dataclasses.replace(job, engine=engine, confidential=str(work))


def exact(job: Any) -> dict[str, Any]:
    with np.load(f"{job.confidential}/exact.npz") as arrays:
        return {name: arrays[name].tolist() for name in arrays}


def tally(job: Any) -> dict[str, int]:
    return json.loads(Path(job.confidential, "diagnostics.json").read_text())


def a_log(folder: Path) -> Path:
    comparisons.write(comparisons.a_log(), folder, files=3, row_group=100, seed=2)
    return folder


def wins(folder: Path, work: Path) -> Any:
    return comparisons.a_job(a_log(folder), work)


def pairs(folder: Path, work: Path) -> Any:
    """With everything that needs a meeting: events, random ties, one row a pair."""
    changes = {"statistic": Statistic.PAIR_COUNTS, "event": "id", "ties": Ties.RANDOM}
    return comparisons.a_job(a_log(folder), work, **changes, distinct_pairs=True)


def local_answers(folder: Path, work: Path) -> Any:
    log = private.a_log()
    folder.mkdir()
    pq.write_table(log, folder / "0.parquet", row_group_size=500)
    epsilons = EpsilonSource(low=HUGE_EPSILON, high=HUGE_EPSILON, value=HUGE_EPSILON)
    budget = AnswerBudget(max_contributions=7)
    job = private.a_job(folder, work, budget=budget, epsilons=epsilons)
    return dataclasses.replace(job, columns=dataclasses.replace(job.columns, epsilon=None))


def test_answers(folder: Path, work: Path) -> Any:
    responses.write(responses.a_log(repeated=True), folder, files=3)
    return responses.a_job(folder, work, duplicates=Duplicates.LAST, order="time")


test_answers.__test__ = False  # type: ignore[attr-defined]


def local_test_answers(folder: Path, work: Path) -> Any:
    responses.write(responses.a_log(), folder, files=3)
    local = LocalAnswers(split_response(HUGE_EPSILON * responses.K, responses.K), debiased=False)
    return responses.a_job(folder, work, local=local)


def local_rankings(folder: Path, work: Path) -> Any:
    rankings.write(rankings.long_form(rankings.true_rankings()), folder, files=2)
    epsilons = EpsilonSource(low=HUGE_EPSILON, high=HUGE_EPSILON, value=HUGE_EPSILON)
    return rankings.a_job(folder, work, already_private=False, epsilons=epsilons)


def of_many_items(job: Any) -> Any:
    """The same job with a catalogue so large that counts and sums are sparse."""
    names = (*job.catalogue.names, *(f"never met {place}" for place in range(MOST_DENSE_ITEMS)))
    return dataclasses.replace(job, catalogue=Catalogue(names))


def sparse_pairs(folder: Path, work: Path) -> Any:
    job = of_many_items(pairs(folder, work))
    bounds = dataclasses.replace(job.bounds, n_items=len(job.catalogue))
    return dataclasses.replace(job, bounds=bounds)


def sparse_local_answers(folder: Path, work: Path) -> Any:
    return of_many_items(local_answers(folder, work))


KINDS = (
    wins,
    pairs,
    sparse_pairs,
    local_answers,
    sparse_local_answers,
    local_rankings,
    test_answers,
    local_test_answers,
)


class Whole(beam.PTransform):  # type: ignore[misc]
    """The graph of one reduction, as a part of a larger one."""

    def __init__(self, job: Any) -> None:
        super().__init__()
        self._job = job

    def expand(self, begin: Any) -> Any:
        reduce.build(begin.pipeline, self._job)
        return beam.pvalue.PDone(begin.pipeline)


def run_together(jobs: Sequence[Any]) -> None:
    """Reductions as one job of their cluster, for every job starts workers anew."""
    pipeline = beam.Pipeline(options=pipeline_options(jobs[0].engine))
    for number, job in enumerate(jobs):
        _ = pipeline | f"{number}" >> Whole(job)
    assert pipeline.run().wait_until_finish(1000 * PATIENCE) == "DONE"


def rejects(job: Any) -> list[str]:
    """Rows that were set aside."""
    files = Path(job.confidential).glob("rejects/*")
    return sorted(str(row) for path in files for row in pq.read_table(path).to_pylist())


def assert_are_as_here(here: Any, there: Any) -> None:
    """The results of one reduction by the local runner and by a cluster."""
    assert exact(there) == exact(here)
    assert tally(there) == tally(here)
    assert rejects(there) == rejects(here)


def counted(job: Any) -> tuple[list[int], list[list[int]]]:
    """Exact counts of a night of a stream, and who has counted."""
    reduce.run(job)
    keep_counted(job)
    place = Path(job.stream.folder)
    return night_counts(place, job.stream.night).tolist(), state_of(place, job.stream.night)


def a_survey(runner: Any) -> dict[str, Any]:
    """A job of few items, which spends its whole budget in one release."""
    return {
        "name": "zoo",
        "input": {
            "kind": "comparisons", "design": "balanced", "paths": ["in"],
            "columns": {"user": "who", "left": "a", "right": "b", "outcome": "y"},
        },
        "items": {"names": [str(item) for item in range(comparisons.N_ITEMS)]},
        "privacy": {"unit": "user", "epsilon": 1.0, "max_contributions": 5},
        "method": "noisy-counts", "output": "out", "confidential": "work",
        "ledger": {"path": "ledger.jsonl", "epsilon": 1.0}, "runner": runner,
    }  # fmt: skip


def children(process: int) -> set[int]:
    """Of a process that starts some from any of its threads."""
    lists = Path(f"/proc/{process}/task").glob("*/children")
    return {int(child) for threads in lists for child in threads.read_text().split()}


def wait_for(condition: Callable[[], Any], seconds: float = PATIENCE) -> Any:
    """What `condition` finds."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.05)
    return found


def write_large(folder: Path, n_rows: int, first: int = 0) -> pa.Table:
    """Rows for some seconds of work; the first is bad, so that its reader leaves a trace."""
    random = np.random.default_rng(5)
    n_items = comparisons.N_ITEMS
    left = random.integers(0, n_items, n_rows)
    columns = {
        "who": first + random.integers(0, 300_000, n_rows),
        "a": np.append(99, left[1:]),
        "b": (left + random.integers(1, n_items, n_rows)) % n_items,
        "y": random.choice([-1, 1], n_rows).astype(np.int8),
    }
    folder.mkdir(exist_ok=True, parents=True)
    table = pa.table(columns)
    pq.write_table(table, folder / "0.parquet", row_group_size=500_000)
    return table
