"""What it costs to know who counted before: a night of a stream against the same night alone.

A log of answers is reduced twice, each time in a process of its own: bounded by person, and with
the rule of participation against the people of the nights before, ten times as many as tonight's.
Printed: seconds, peak memory and their ratios; bytes that a person takes on disk. With --flink on
a cluster of this machine, a new one for each run: its processor time, and the peaks of its
processes added up.

    python benchmarks/stream_reduce.py [--rows N] [--people N] [--known N] [--data DIR] [--runs N]
        [--flink]
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import tempfile
from functools import partial
from multiprocessing import Process
from pathlib import Path

import numpy as np
from flink_cluster import a_cluster
from measuring import Taken, show, taken_apart, taken_by
from reduce_speed import Log, make

from hushrank.flows.config.runner import FlinkRunner
from hushrank.pipelines.engine.runner import does_without_beam
from hushrank.pipelines.reduce.reduction_job import NightOfStream, ReduceComparisons, Statistic
from hushrank.privacy.keyed_hash import KeyedHash, SecretKey
from hushrank.privacy.randomness import BitSource, system_bits
from hushrank.privacy.stream_encoder import Terms
from hushrank.transforms.common.catalogue import Catalogue
from hushrank.transforms.common.schema import ComparisonColumns, Ties
from hushrank.transforms.comparisons.bound import Bounds
from hushrank.transforms.comparisons.shuffle import Partitioning
from hushrank.transforms.engine import in_process
from hushrank.transforms.storage.files import list_files
from hushrank.transforms.streams.people_files import (
    People,
    finish_people,
    people_folder,
    write_shard,
)
from hushrank.transforms.streams.stream_folder import delete_counting

N_ITEMS, MAX_CONTRIBUTIONS, NIGHT = 300, 5, 40
ATTEMPT = "a"
KEY = SecretKey(bytes(32), BitSource.SEEDED)
TERMS = Terms(nights=365, participations=12, gap=28)


def known_people(folder: Path, count: int) -> None:
    """People 0 to `count`, each with some last night and number of nights."""
    hashes = np.concatenate(
        [KeyedHash(KEY.value).of_integers(each) for each in np.array_split(np.arange(count), 64)]
    )
    rng, shards = np.random.default_rng(0), []
    bits = Partitioning.of_rows(count).partition_bits
    place = (str(folder), NIGHT - 1, ATTEMPT)
    for number in range(1 << bits):
        leading = hashes[:, 0] >> np.uint64(64 - bits) if bits else np.zeros(count, np.uint64)
        mine = hashes[leading == number]
        mine = mine[np.lexsort((mine[:, 1], mine[:, 0]))]
        last = rng.integers(0, NIGHT, len(mine)).astype(np.uint16)
        times = rng.integers(1, 4, len(mine)).astype(np.uint16)
        people = People(mine[:, 0].copy(), mine[:, 1].copy(), last, times)
        shards.append(write_shard(*place, number, bits, people))
    finish_people(str(folder), "s", NIGHT - 1, ATTEMPT, shards, "")


def a_job(log: Path, work: str, stream: Path | None) -> ReduceComparisons:
    """Win counts of the log."""
    job = ReduceComparisons(
        files=tuple(list_files([str(log)])),
        columns=ComparisonColumns(
            left="item_i", right="item_j", outcome="outcome", winner=None, user="user", event=None
        ),
        catalogue=Catalogue.of_count(N_ITEMS),
        bounds=Bounds(n_items=N_ITEMS, ties=Ties.DROP, max_contributions=MAX_CONTRIBUTIONS),
        statistic=Statistic.WIN_COUNTS,
        key=SecretKey.draw(system_bits()),
        confidential=work,
    )
    if stream is None:
        return job
    (manifest,) = Path(people_folder(str(stream), NIGHT - 1)).glob("*.json")
    night = NightOfStream(
        stream="s", folder=str(stream), key=KEY, terms=TERMS, night=NIGHT, attempt=ATTEMPT,
        before=manifest.stem,
    )  # fmt: skip
    return dataclasses.replace(job, stream=night)


def reduced(job: ReduceComparisons) -> None:
    """As a run does it, to the files that the draw reads."""
    if does_without_beam(job):
        in_process.choose()
    from hushrank.pipelines.reduce import reduce

    reduce.run(job)
    if job.stream is not None:
        from hushrank.pipelines.reduce.stream_nights import keep_counted

        keep_counted(job)
        delete_counting(job.stream.folder, NIGHT)


def on_flink(side: str) -> Taken:
    """One side on a cluster of its own."""
    with a_cluster() as cluster:
        before = cluster.seconds()
        taken = taken_apart("--side", side, "--cluster", json.dumps(cluster.runner))
        cpu = taken.cpu + cluster.seconds() - before
        return Taken(taken.wall, cpu, cluster.peak())


def main() -> None:
    """Print the comparison, or run one side of it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--people", type=int, default=1_000_000)
    parser.add_argument("--known", type=int, default=10_000_000)
    parser.add_argument("--data", type=Path, default=Path(tempfile.gettempdir(), "hushrank-bench"))
    parser.add_argument(
        "--runs", type=int, default=3, help="the one of least processor time counts"
    )
    parser.add_argument("--flink", action="store_true", help="on a cluster of this machine")
    parser.add_argument("--side", choices=("alone", "stream"))
    parser.add_argument("--cluster", type=json.loads)
    arguments = parser.parse_args()
    log = Log(arguments.rows, arguments.people)
    rows, stream = log.folder(arguments.data), arguments.data / f"stream-{arguments.known}"
    if arguments.side:
        with tempfile.TemporaryDirectory(dir=arguments.data) as work:
            job = a_job(rows, work, stream if arguments.side == "stream" else None)
            if arguments.cluster:
                engine = FlinkRunner.model_validate(arguments.cluster).engine()
                job = dataclasses.replace(job, engine=engine)
            show(taken_by(lambda: reduced(job)))
        return
    # In processes of their own: a child's peak is never below what its parent held.
    for process in (
        Process(target=make, args=(log, rows)) if not rows.exists() else None,
        Process(target=known_people, args=(stream, arguments.known))
        if not stream.exists()
        else None,
    ):
        if process is not None:
            process.start()
            process.join()
    place = Path(people_folder(str(stream), NIGHT - 1))
    size = sum(path.stat().st_size for path in place.rglob("*") if path.is_file())
    print(f"{arguments.known:,} people known, {size / arguments.known:.1f} bytes each on disk")
    taken = {}
    for side in ("alone", "stream"):
        run = on_flink if arguments.flink else partial(taken_apart, "--side")
        runs = [run(side) for _ in range(arguments.runs)]
        taken[side] = best = min(runs, key=lambda run: run.cpu)
        print(
            f"{side:7} {best.wall:6.1f} s, {best.cpu:6.1f} s of processors, {best.peak >> 20} MiB"
        )
    alone, within = taken["alone"], taken["stream"]
    print(
        f"ratio   {within.wall / alone.wall:.2f} of time, {within.cpu / alone.cpu:.2f} of"
        f" processors, {within.peak / alone.peak:.2f} of memory"
    )


if __name__ == "__main__":
    main()
