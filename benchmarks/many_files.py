"""How reading thousands of files gains from processors, and how much memory a worker takes.

Each run is a process of its own and counts files with `--workers` workers of one process, unit
comparison. The share of the work that only one worker at a time can do (Amdahl) is at most that of
the same files with one row each: opening, footers and all other Python code, which holds the
interpreter's lock. It is measured in processor time, so other programs on the machine matter little
to it. More workers than this machine has processors are simulated: each takes for every file what a
real one takes, that share of it one at a time, and sleeps meanwhile. `--memory` measures peaks with
files of one row group of a million rows, whose people are UUIDs.

    python benchmarks/many_files.py [--files 5000] [--rows 4000] [--runs 3] [--memory]
                                    [--data FOLDER]
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import uuid
from dataclasses import replace
from pathlib import Path

N_ITEMS = 300
SIMULATED = (2, 4, 8, 16, 32)
LARGE = (16, 10**6)  # files, and rows of each, of the runs that measure memory


def make(files: int, rows: int, folder: Path, *, uuids: bool) -> None:
    """Files of uniform pairs, of which the left item wins as often as the right one."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir(parents=True)
    for part in range(files):
        rng = np.random.default_rng([files, rows, part])
        left = rng.integers(0, N_ITEMS, rows, dtype=np.int32)
        right = ((left + rng.integers(1, N_ITEMS, rows)) % N_ITEMS).astype(np.int32)
        outcome = rng.choice(np.array([-1, 1], np.int8), rows)
        people = rng.integers(0, 1 << 62, rows // 10 + 1)
        names = np.array([str(uuid.UUID(int=int(each))) for each in people]) if uuids else people
        table = pa.table(
            {
                "user": names[rng.integers(0, len(names), rows)],
                "item_i": left,
                "item_j": right,
                "outcome": outcome,
            }
        )
        pq.write_table(table, folder / f"{part:05}.parquet", row_group_size=rows)


def count(folder: Path, workers: int, bound: int | None) -> dict[str, float]:
    """Count the files with so many workers: seconds, peak bytes, and the sum of the counts."""
    from hushrank.transforms.engine import in_process

    in_process.choose()
    import numpy as np

    from hushrank.pipelines.engine.runner import DEFAULT_MEMORY, Engine, memory_for
    from hushrank.pipelines.reduce import reduce
    from hushrank.pipelines.reduce.reduction_job import EXACT_FILE, ReduceComparisons, Statistic
    from hushrank.privacy.keyed_hash import SecretKey
    from hushrank.privacy.randomness import system_bits
    from hushrank.transforms.common.catalogue import Catalogue
    from hushrank.transforms.common.schema import ComparisonColumns, Ties
    from hushrank.transforms.comparisons.bound import Bounds
    from hushrank.transforms.storage.files import list_files

    files = tuple(list_files([str(folder)]))
    with tempfile.TemporaryDirectory(dir=folder.parent) as confidential:
        job = ReduceComparisons(
            files=files[:1],
            columns=ComparisonColumns(
                left="item_i",
                right="item_j",
                outcome="outcome",
                winner=None,
                user="user" if bound else None,
                event=None,
            ),
            catalogue=Catalogue.of_count(N_ITEMS),
            bounds=Bounds(n_items=N_ITEMS, ties=Ties.DROP, max_contributions=bound),
            statistic=Statistic.WIN_COUNTS,
            key=SecretKey.draw(system_bits()),
            confidential=confidential,
            memory_limit=max(DEFAULT_MEMORY, memory_for(workers)),
            engine=Engine(workers=workers),
        )
        reduce.run(job)  # loads what is loaded late
        job = replace(job, files=files)
        before = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        cpu, start = time.process_time(), time.perf_counter()
        reduce.run(job)
        wall, cpu = time.perf_counter() - start, time.process_time() - cpu
        with np.load(f"{confidential}/{EXACT_FILE}") as arrays:
            total = int(arrays["counts"].sum())
    peak = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"wall": wall, "cpu": cpu, "peak": peak - before, "total": total}


def count_apart(folder: Path, workers: int, bound: int | None = None) -> dict[str, float]:
    """The same in a process of its own."""
    command = [sys.executable, __file__, "--count", str(folder), "--workers", str(workers)]
    command += ["--bound", str(bound)] if bound else []
    child = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(child.stdout.splitlines()[-1])
    return found


def simulated(files: int, workers: int, seconds: float, serial: float) -> float:
    """Seconds of the stand-in's threads, of which each file takes `seconds`, so much of it alone.

    Args:
        files: number of files.
        workers: number of workers.
        seconds: time of one file.
        serial: share of it during which no other worker gets on.
    """
    import threading

    from hushrank.transforms.engine import in_process

    alone = threading.Lock()

    class Read(in_process.DoFn):
        """Sleeps for the time of a file."""

        def process(self, element: int) -> list[int]:
            time.sleep(seconds * (1 - serial))
            with alone:
                time.sleep(seconds * serial)
            return [element]

    class Add(in_process.CombineFn):
        """Counts the files."""

        def create_accumulator(self) -> int:
            return 0

        def add_input(self, accumulator: int, element: int) -> int:
            return accumulator + 1

        def extract_output(self, accumulator: int) -> int:
            return accumulator

    start = time.perf_counter()
    with in_process.with_workers(workers):
        pipeline = in_process.Pipeline()
        read = in_process.ParDo(Read()).with_outputs(main="files")
        found = (pipeline | in_process.Create(range(files)) | read)["files"]
        (total,) = (found | in_process.CombineGlobally(Add())).elements
    if total != files:
        raise SystemExit(f"{total} files were counted instead of {files}")
    return time.perf_counter() - start


def speed(options: argparse.Namespace) -> None:
    """Print the times of one worker and of two, and of more that are simulated."""
    folders = [options.data / f"{options.files}-files-of-{rows}" for rows in (1, options.rows)]
    for rows, folder in zip((1, options.rows), folders, strict=True):
        if not folder.exists():
            make(options.files, rows, folder, uuids=False)
    count_apart(folder, 2)  # so that all runs find the files cached
    empty, full = (
        min(count_apart(each, 1)["cpu"] for _ in range(options.runs)) for each in folders
    )
    serial = min(empty / full, 1.0)
    runs = [{n: count_apart(folder, n) for n in (1, 2)} for _ in range(options.runs)]
    if len({each["total"] for run in runs for each in run.values()}) != 1:
        raise SystemExit("the runs counted different numbers of rows")
    one, two = (min(run[n]["wall"] for run in runs) for n in (1, 2))
    print(
        f"{options.files:,} files of {options.rows:,} rows: 1 worker {one:.2f} s, 2 {two:.2f} s;"
        f" load of the machine {os.getloadavg()[0]:.1f}"
    )
    print(f"processor time {full:.2f} s, with one row a file {empty:.2f} s: {serial:.0%}")
    first = simulated(options.files, 1, full / options.files, serial)
    for workers in SIMULATED:
        took = simulated(options.files, workers, full / options.files, serial)
        print(f"{workers:3} simulated workers: {took:6.2f} s, {first / took:5.1f} times one")


def memory(options: argparse.Namespace) -> None:
    """Print peak memory by the number of workers."""
    folder = options.data / f"{LARGE[0]}-large-files"
    if not folder.exists():
        make(*LARGE, folder, uuids=True)
    for bound in (None, 5):
        for workers in (1, 2, 4, 8, 16):
            found = count_apart(folder, workers, bound)
            unit = "user" if bound else "comparison"
            peak = found["peak"] / (1 << 20)
            print(f"unit {unit}, {workers:2} workers: {peak:5.0f} MiB, {found['wall']:.1f} s")


def main() -> None:
    """Measure, or count in a child."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, default=Path(tempfile.gettempdir(), "hushrank-bench"))
    parser.add_argument("--files", type=int, default=5000)
    parser.add_argument("--rows", type=int, default=4000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--count", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--workers", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--bound", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.count:
        print(json.dumps(count(options.count, options.workers, options.bound)))
    elif options.memory:
        memory(options)
    else:
        speed(options)


if __name__ == "__main__":
    main()
