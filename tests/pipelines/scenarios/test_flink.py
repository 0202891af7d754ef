"""On a real Flink with three task managers: the same results, and what a killed worker leaves.

The cluster is the one of `infra/flink/cluster.py`, which needs Java, Maven and, the first time, the
network. Where it cannot be had the tests are skipped and say why.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import yaml

from hushrank.estimation.common.matrices import MOST_DENSE_ITEMS
from hushrank.flows.config.runner import FlinkRunner
from hushrank.pipelines.engine.flink_restarts import doubt_about, settings_of
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
from tests.pipelines.reduce.test_reduce_stream import a_night_job, state_of
from tests.pipelines.reduce.test_reduce_stream import counts_of as night_counts

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1500)]  # the first time jars are fetched

CANNOT = 69  # exit code of the cluster: there is no Java, or no jars
HUGE_EPSILON = 100.0  # of an answer: e^-100 is the chance that one of them flips
PATIENCE = 900  # seconds; a job takes some ten

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


@contextlib.contextmanager
def started(cluster_of: type[T], checkout: Path, folder: Path, *options: str) -> Iterator[T]:
    """What `infra/<name of the class>/cluster.py` starts, and tells in fields of the class."""
    script = checkout / "infra" / cluster_of.__name__.lower() / "cluster.py"
    command = [sys.executable, str(script), "--folder", str(folder), *options]
    with (folder / "stderr").open("w+") as errors:
        cluster = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
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


@pytest.fixture(scope="module")
def flink(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Flink]:
    folder = tmp_path_factory.mktemp("flink")
    with started(Flink, checkout, folder, "--task-managers", "3") as cluster:
        yield cluster


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


def test_results_are_those_of_the_local_runner(flink, tmp_path):
    """All reductions in a job: to start workers and to send jars takes longer than the rows."""
    here = [kind(tmp_path / kind.__name__, tmp_path / f"{kind.__name__} here") for kind in KINDS]
    there = [on(flink.runner(), job, Path(f"{job.confidential} there")) for job in here]
    run_together(there)
    for local, remote in zip(here, there, strict=True):
        reduce.run(local)
        reduce.run(remote)  # takes the results that are there, and checks them
        assert_are_as_here(local, remote)


def test_a_job_server_is_started_for_a_cluster_that_is_named_alone(flink, tmp_path):
    here = test_answers(tmp_path / "in", tmp_path / "here")
    there = on(flink.runner_by_master(), here, tmp_path / "there")
    reduce.run(here)
    reduce.run(there)
    assert_are_as_here(here, there)


def nights_of(folder: Path, stream: Path) -> Iterator[Any]:
    """Two nights of a stream, with everything that needs a meeting; each follows upon the other."""
    folder.mkdir()
    for night in range(2):
        log = comparisons.a_log(seed=night)  # of which some come again
        who = pc.add(log["who"], night * comparisons.N_USERS // 2)
        log = log.set_column(0, "who", who)
        comparisons.write(log, folder / str(night), files=3, row_group=100, seed=night)
        work = stream.parent / f"{stream.name}-{night}"
        changes = {"event": "id", "ties": Ties.RANDOM, "distinct_pairs": True}
        yield a_night_job(folder / str(night), work, stream, night, max_contributions=3, **changes)


def counted(job: Any) -> tuple[list[int], list[list[int]]]:
    """Exact counts of a night of a stream, and who has counted."""
    reduce.run(job)
    keep_counted(job)
    place = Path(job.stream.folder)
    return night_counts(place, job.stream.night).tolist(), state_of(place, job.stream.night)


def test_nights_of_a_stream_are_those_of_the_local_runner(flink, tmp_path):
    here, there = (
        nights_of(tmp_path / name, tmp_path / f"{name} stream") for name in ("here", "there")
    )
    for job, remote in zip(here, there, strict=True):
        expected = counted(job)
        remote = on(flink.runner(), remote, Path(remote.confidential))
        assert counted(remote) == expected
        assert tally(remote) == tally(job)
        assert sum(expected[0]) > 0
    assert tally(job)["owners_whose_night_does_not_count"] > 0


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


def write_large(folder: Path, n_rows: int = 3_000_000, first: int = 0) -> pa.Table:
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


def is_reading(work: Path) -> bool:
    """Whether a worker has set the bad row of `write_large` aside."""
    return any(work.glob("**/rejects/*.parquet"))


def in_the_middle(work: Path, kill: Callable[[], int]) -> threading.Thread:
    """Once rows are being read, end the process that `kill` chooses."""

    def wait_and_kill() -> None:
        wait_for(lambda: is_reading(work))
        os.kill(kill(), signal.SIGKILL)

    thread = threading.Thread(target=wait_and_kill)
    thread.start()
    return thread


def hushrank(*arguments: object) -> tuple[int, str]:
    """Exit code of a command, and what it printed."""
    command = [sys.executable, "-m", "hushrank.flows.cli.main", *map(str, arguments)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=2 * PATIENCE)
    return ended.returncode, ended.stdout + ended.stderr


def a_survey(flink: Flink, **changes: Any) -> dict[str, Any]:
    return {
        "name": "zoo",
        "input": {
            "kind": "comparisons", "design": "balanced", "paths": ["in"],
            "columns": {"user": "who", "left": "a", "right": "b", "outcome": "y"},
        },
        "items": {"names": [str(item) for item in range(comparisons.N_ITEMS)]},
        "privacy": {"unit": "user", "epsilon": 1.0, "max_contributions": 5},
        "method": "noisy-counts", "output": "out", "confidential": "work",
        "ledger": {"path": "ledger.jsonl", "epsilon": 1.0}, "runner": flink.runner(),
    } | changes  # fmt: skip


def test_a_killed_worker_costs_a_run_but_no_budget(flink, tmp_path):
    write_large(tmp_path / "in")
    config = tmp_path / "survey.yaml"
    config.write_text(yaml.safe_dump(a_survey(flink)))
    before = children(flink.worker_pool)
    killer = in_the_middle(tmp_path / "work", lambda: min(children(flink.worker_pool) - before))
    code, printed = hushrank("run", config, "--direct")
    killer.join()
    assert code == 1, printed
    assert "No budget was spent" in printed
    assert "Traceback" not in printed
    assert not (tmp_path / "out").exists()
    assert not list(tmp_path.glob("work/*/exact.npz"))
    write_large(tmp_path / "in", 100_000)  # nothing has to be killed any more
    config.write_text(yaml.safe_dump(a_survey(flink, runner="local")))  # which is quicker to start
    code, printed = hushrank("run", config, "--direct")
    assert code == 0, printed
    assert "0 left of 1" in printed  # the whole budget bought one release
    release = json.loads((tmp_path / "out" / "release.json").read_text())
    assert release["privacy"]["epsilon"] == 1.0
    assert not list(tmp_path.glob("work/*/exact.npz"))


NIGHTS = ("2024-11-16", "2024-11-17")


def survey_of_nights(flink: Flink) -> dict[str, Any]:
    """A person counts on one night; the noise in a shown count is about 0.1."""
    stream = {"nights": 3, "participations": 1, "gap": 1, "show": "night", "first": NIGHTS[0]}
    survey = a_survey(flink)
    return survey | {
        "input": survey["input"] | {"paths": ["in/{date}"]},
        "privacy": {"unit": "user", "rho": 1e5, "noise": "gaussian", "max_contributions": 20},
        "ledger": {"path": "ledger.jsonl", "epsilon": 1e6, "delta": 1e-6},
        "schedule": {"stream": stream},
    }


def running_jobs(flink: Flink) -> list[str]:
    """Those that have not ended, as Flink says."""
    with urllib.request.urlopen(f"http://{flink.master}/jobs", timeout=PATIENCE) as answer:
        jobs = json.load(answer)["jobs"]
    return [job["id"] for job in jobs if job["status"] not in ("FINISHED", "FAILED", "CANCELED")]


def wins_of(table: pa.Table, *, without: set[int]) -> list[int]:
    """Wins by item of the valid rows of a night, of people who did not count before."""
    columns = [table[name].to_numpy()[1:] for name in ("who", "a", "b", "y")]
    who, a, b, y = columns
    counts = ~np.isin(who, sorted(without))
    winners = np.where(y > 0, a, b)[counts]
    return np.bincount(winners, minlength=comparisons.N_ITEMS).tolist()


def test_a_job_that_outlives_its_killed_run_does_not_mix_with_the_next(flink, tmp_path):
    """All processes of a run are killed at once, so nobody stops its job; the files then change."""
    first, second = (tmp_path / "in" / night for night in NIGHTS)
    write_large(first)
    config = tmp_path / "survey.yaml"
    config.write_text(yaml.safe_dump(survey_of_nights(flink)))
    command = [sys.executable, "-m", "hushrank.flows.cli.main", "run", str(config), "--direct"]
    killed = subprocess.Popen([*command, "--date", NIGHTS[0]], start_new_session=True)
    wait_for(lambda: is_reading(tmp_path / "work"))
    os.killpg(killed.pid, signal.SIGKILL)
    killed.wait()
    left = running_jobs(flink)
    assert left
    (stream,) = (tmp_path / "work").glob("stream-*")
    late = {path.parent.name for path in stream.glob("counting/00000/*/*")}
    counted = write_large(first, 200_000, first=300_000)
    code, printed = hushrank("run", config, "--direct", "--date", NIGHTS[0])
    assert code == 0, printed
    wait_for(lambda: not set(left) & set(running_jobs(flink)))
    (manifest,) = stream.glob("people/00000/*.json")
    assert json.loads(manifest.read_text())["attempt"] not in late
    known = set(counted["who"].to_pylist()[1:])
    both = [write_large(second, 200_000), write_large(second / "more", 200_000, first=300_000)]
    (second / "more" / "0.parquet").rename(second / "1.parquet")
    (second / "more").rmdir()
    # The next night on another engine, which is quicker to start: the stream goes on all the same.
    config.write_text(yaml.safe_dump(survey_of_nights(flink) | {"runner": "local"}))
    code, printed = hushrank("run", config, "--direct", "--date", NIGHTS[1])
    assert code == 0, printed
    expected = [
        wins_of(counted, without=set()),
        np.sum([wins_of(t, without=known) for t in both], axis=0).tolist(),
    ]
    for night, wanted in zip(NIGHTS, expected, strict=True):
        (release,) = (tmp_path / "out" / "releases").glob(f"{night}-*/release.json")
        told = json.loads(release.read_text())
        shown = list(told["released"]["wins"].values())
        assert shown == pytest.approx(wanted, abs=2)
    events = [json.loads(line) for line in (tmp_path / "ledger.jsonl").read_text().splitlines()]
    assert sum(event["event"] == "draw" for event in events) == len(NIGHTS)
    assert not list(stream.glob("*/00000/*"))
    assert not list(stream.glob("counting/*"))


def asked(flink: Flink, path: str) -> Any:
    with urllib.request.urlopen(f"http://{flink.master}/{path}", timeout=PATIENCE) as answer:
        return json.load(answer)


def vertices(flink: Flink) -> list[tuple[str, set[int]]]:
    """State of each part of the job that runs, and the task managers on which it does."""
    found = []
    for job in running_jobs(flink):
        for vertex in asked(flink, f"jobs/{job}")["vertices"]:
            place = f"jobs/{job}/vertices/{vertex['id']}/taskmanagers"
            names = {each["taskmanager-id"] for each in asked(flink, place)["taskmanagers"]}
            numbers = {int(name[13:]) for name in names if name.startswith("task-manager-")}
            found.append((vertex["status"], numbers))
    return found


def working(flink: Flink) -> set[int]:
    """Numbers of the task managers on which a part of a job runs."""
    return set().union(*(where for state, where in vertices(flink) if state == "RUNNING"))


def test_killed_task_managers_are_made_up_for_and_nothing_counts_twice(flink, tmp_path):
    """A night of a stream; one dies while rows are read, another one when the job goes on.

    The last test: it leaves a cluster of one task manager.
    """
    write_large(tmp_path / "in")
    here, there = (
        a_night_job(tmp_path / "in", tmp_path / name, tmp_path / f"{name} stream", 0)
        for name in ("here", "there")
    )
    there = on(flink.runner(), there, tmp_path / "there")
    killed = []

    def kill_two() -> None:
        wait_for(lambda: is_reading(tmp_path / "there"))
        for _ in range(2):  # the second, once the job is on others alone
            wait_for(lambda: working(flink) and not working(flink) & set(killed))
            number = min(wait_for(lambda: working(flink) - set(killed)))
            os.kill(flink.task_managers[number], signal.SIGKILL)
            killed.append(number)

    killer = threading.Thread(target=kill_two, daemon=True)
    killer.start()
    found = counted(there)
    killer.join()
    assert len(killed) == 2
    assert found == counted(here)
    assert tally(there) == tally(here)


def test_the_cluster_s_settings_promise_that(flink):
    settings = settings_of(flink.master)
    assert settings["restart-strategy.type"] == "fixed-delay"
    assert doubt_about(settings) is None
