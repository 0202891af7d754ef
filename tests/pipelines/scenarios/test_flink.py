"""On a real Flink with three task managers: the same results, and what a killed worker leaves.

The cluster is the one of `infra/flink/cluster.py`, which needs Java, Maven and, the first time, the
network. Where it cannot be had the tests are skipped and say why.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import yaml

from hushrank.pipelines.engine.flink_restarts import doubt_about, settings_of
from hushrank.pipelines.engine.options import pipeline_options
from hushrank.pipelines.engine.runner import LEAST_MEMORY
from hushrank.pipelines.reduce import reduce
from hushrank.transforms.common.schema import Ties
from tests.pipelines.reduce import test_reduce_comparisons as comparisons
from tests.pipelines.reduce.test_reduce_stream import a_night_job
from tests.pipelines.scenarios.engine_jobs import (
    KINDS,
    PATIENCE,
    Flink,
    a_survey,
    assert_are_as_here,
    children,
    counted,
    on,
    rejects,
    run_together,
    started,
    tally,
    test_answers,
    wait_for,
    write_large,
)
from tests.pipelines.scenarios.held_stages import STAGES, Gates, HeldKind

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1500)]  # the first time jars are fetched

HEAVY_ROWS = 3_000_000
WORKER_BYTES = 430e6  # most memory of a Python worker, libraries included
MANAGER_BYTES = 850e6  # of a task manager: 384 MB of heap, 192 MB for the network, and Java itself

# What stands for each stage in the names that Flink gives to parts of its graph.
VERTEX_OF = {
    "read": r"\{Read, Encode\b",
    "bound": r"\{Bound\b",
    "count": r"\bCount/Sum/\{CombinePerKey\b",
}


@pytest.fixture(scope="module")
def flink(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Flink]:
    folder = tmp_path_factory.mktemp("flink")
    with started(Flink, checkout, folder, "--task-managers", "3") as cluster:
        yield cluster


@contextlib.contextmanager
def most_memory(processes: Callable[[], set[int]]) -> Iterator[dict[int, int]]:
    """The most bytes that each of `processes` holds while this lasts."""
    found: dict[int, int] = {}
    listed: set[int] = set()
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.05):
            with contextlib.suppress(OSError):  # a thread ended while it was asked
                listed.update(processes())
            for process in listed:
                with contextlib.suppress(OSError, IndexError):  # it has ended
                    status = Path(f"/proc/{process}/status").read_text()
                    found[process] = 1024 * int(status.split("VmHWM:")[1].split()[0])

    for process in processes():
        Path(f"/proc/{process}/clear_refs").write_text("5")  # forget the most so far
    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield found
    finally:
        over.set()
        watcher.join()


def write_heavy(folder: Path) -> None:
    """Rows of which one person has nine in ten."""
    table = write_large(folder, HEAVY_ROWS)
    who = np.where(np.arange(HEAVY_ROWS) % 10, 0, table["who"].to_numpy())
    table = table.set_column(0, "who", pa.array(who))
    pq.write_table(table, folder / "0.parquet", row_group_size=500_000)


@pytest.mark.soak
def test_a_heavy_person_takes_no_more_memory_in_workers_than_others(flink, tmp_path):
    """A worker that read the 65 MB of a partition at once would take 470 MB, not 390. A shuffle
    block with
    all of them would not even fit into a task manager's buffer for sorting: the job would fail."""
    write_heavy(tmp_path / "in")
    here, there = (
        comparisons.a_job(tmp_path / "in", tmp_path / name, memory_limit=LEAST_MEMORY)
        for name in ("here", "there")
    )
    there = on(flink.runner(), there, tmp_path / "there")
    before = children(flink.worker_pool)
    with (
        most_memory(lambda: children(flink.worker_pool) - before) as by_worker,
        most_memory(lambda: set(flink.task_managers)) as by_manager,
    ):
        reduce.run(there)
    assert by_worker
    assert max(by_worker.values()) < WORKER_BYTES
    assert max(by_manager.values()) < MANAGER_BYTES
    reduce.run(here)
    assert_are_as_here(here, there)


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
    command = [sys.executable, "-m", "hushrank.flows.interfaces.cli.main", *map(str, arguments)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=2 * PATIENCE)
    return ended.returncode, ended.stdout + ended.stderr


def test_a_killed_worker_costs_a_run_but_no_budget(flink, tmp_path):
    write_large(tmp_path / "in", 1_500_000)
    config = tmp_path / "survey.yaml"
    config.write_text(yaml.safe_dump(a_survey(flink.runner())))
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
    config.write_text(yaml.safe_dump(a_survey("local")))  # which is quicker to start
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
    survey = a_survey(flink.runner())
    return survey | {
        "input": survey["input"] | {"paths": ["in/{date}"]},
        "privacy": {"unit": "user", "rho": 1e5, "noise": "gaussian", "max_contributions": 20},
        "ledger": {"path": "ledger.jsonl", "epsilon": 1e6, "delta": 1e-6},
        "schedule": {"stream": stream},
    }


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
    write_large(first, 1_500_000)
    config = tmp_path / "survey.yaml"
    config.write_text(yaml.safe_dump(survey_of_nights(flink)))
    command = [
        sys.executable,
        "-m",
        "hushrank.flows.interfaces.cli.main",
        "run",
        str(config),
        "--direct",
    ]
    killed = subprocess.Popen([*command, "--date", NIGHTS[0]], start_new_session=True)
    wait_for(lambda: is_reading(tmp_path / "work"))
    os.killpg(killed.pid, signal.SIGKILL)
    killed.wait()
    left = flink.running_jobs()
    assert left
    (stream,) = (tmp_path / "work").glob("stream-*")
    late = {path.parent.name for path in stream.glob("counting/00000/*/*")}
    counted = write_large(first, 200_000, first=300_000)
    code, printed = hushrank("run", config, "--direct", "--date", NIGHTS[0])
    assert code == 0, printed
    wait_for(lambda: not set(left) & set(flink.running_jobs()))
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


@dataclasses.dataclass(frozen=True)
class Kill:
    """Of a task manager, in a stage.

    Attributes:
        vertex: the part of Flink's graph that the stage is: its address and its name.
        subtask: which of its subtasks ran on the task manager.
        attempt: how often that had been begun anew.
    """

    vertex: str
    name: str
    subtask: int
    attempt: int


def kill_in(flink: Flink, gates: Gates, stage: str) -> Kill:
    """A task manager on which the stage is held, once every stage before has finished."""
    vertex, target = wait_for(lambda: gates.waiting(stage) and held_at(flink, gates, stage))
    flink.kill(int(target["taskmanager-id"].removeprefix("task-manager-")))
    gates.open(stage)
    return Kill(vertex["address"], vertex["name"], target["subtask"], target["attempt"])


def held_at(flink: Flink, gates: Gates, stage: str) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """The vertex and a subtask of it, if all of its subtasks that run wait at the gate."""
    (job,) = flink.running_jobs()
    vertices = flink.asked(f"jobs/{job}")["vertices"]
    *before, aimed = (
        next(vertex for vertex in vertices if re.search(VERTEX_OF[each], vertex["name"]))
        for each in STAGES[: STAGES.index(stage) + 1]
    )
    aimed["address"] = f"jobs/{job}/vertices/{aimed['id']}"
    subtasks = flink.asked(aimed["address"])["subtasks"]
    running = [each for each in subtasks if each["status"] == "RUNNING"]
    finished = [each for each in (*subtasks, *before) if each["status"] == "FINISHED"]
    settled = len(running) + len(finished) == len(subtasks) + len(before)
    return (aimed, running[0]) if settled and len(running) == gates.waiting(stage) else None


def test_a_task_manager_killed_in_any_stage_is_made_up_for_and_nothing_counts_twice(
    flink, tmp_path, monkeypatch
):
    """One job, a night of a stream, loses one in each of its stages: each is held until then.

    Flink carries out the sum, its meeting with the people, and the writing as one stage.
    """
    for name in ("1", "0"):  # so that both task managers of the job read
        write_large(tmp_path / "in", 150_000, first=int(name))
        (tmp_path / "in" / "0.parquet").rename(tmp_path / "in" / f"{name}.parquet")
    here, there = (
        a_night_job(tmp_path / "in", tmp_path / name, tmp_path / f"{name} stream", 0)
        for name in ("here", "there")
    )
    there = on(flink.runner(), there, tmp_path / "there")
    gates = Gates(tmp_path / "gates")
    pipeline = beam.Pipeline(options=pipeline_options(there.engine))
    with monkeypatch.context() as held:
        held.setattr(reduce, "kind_of", lambda job: HeldKind(job, gates))
        reduce.build(pipeline, there)
    running = pipeline.run()
    kills = [kill_in(flink, gates, stage) for stage in STAGES]
    assert running.wait_until_finish(1000 * PATIENCE) == "DONE"
    for kill in kills:
        again = flink.asked(kill.vertex)["subtasks"][kill.subtask]
        assert again["status"] == "FINISHED"
        assert again["attempt"] > kill.attempt, kill.name
    assert counted(there) == counted(here)
    assert tally(there) == tally(here)
    assert rejects(there) == rejects(here)


def test_the_cluster_s_settings_promise_that(flink):
    settings = settings_of(flink.master)
    assert settings["restart-strategy.type"] == "fixed-delay"
    assert doubt_about(settings) is None
