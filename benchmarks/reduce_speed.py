"""Speed and memory of reducing a log, beside a query engine that does the same without privacy.

Every run is a process of its own, so that the peak memory is its own; the two sides take turns on
the same Parquet files. Time is measured after imports; what comes before is printed beside it. The
files are made once, with numpy, and read once before the first run, so that both find them cached.

    python benchmarks/reduce_speed.py [--data FOLDER] [--runs N] [--only comparison|user]
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

N_ITEMS, MAX_CONTRIBUTIONS = 300, 5
FILES, ROW_GROUP = 8, 1 << 20
COLUMNS = ("user", "item_i", "item_j", "outcome")


@dataclass(frozen=True)
class Log:
    """A log that is the same wherever it is made."""

    rows: int
    people: int

    def folder(self, cache: Path) -> Path:
        """Where its files are."""
        return cache / f"{self.rows // 10**6}M-rows-{self.people // 10**6}M-people"


@dataclass(frozen=True)
class Race:
    """Ours and its peers on one log; the first peer is the one that the claim is about."""

    title: str
    log: Log
    ours: str
    peers: tuple[str, ...]


RACES = {
    "comparison": Race(
        "unit comparison: wins of each item",
        Log(100_000_000, 10_000_000),
        "hushrank, unit comparison",
        ("DuckDB GROUP BY",),
    ),
    "user": Race(
        f"unit user: wins of each item in at most {MAX_CONTRIBUTIONS} random rows a person",
        Log(10_000_000, 1_000_000),
        "hushrank, unit user",
        ("polars shuffle().over", "polars sample, head"),
    ),
}


def make(log: Log, folder: Path) -> None:
    """Uniform people and pairs; the item with the smaller number wins more often."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir(parents=True)
    for part in range(FILES):
        rng = np.random.default_rng([log.rows, part])
        m = log.rows // FILES
        left = rng.integers(0, N_ITEMS, m, dtype=np.int32)
        right = ((left + rng.integers(1, N_ITEMS, m)) % N_ITEMS).astype(np.int32)
        wins = rng.random(m) < 1 / (1 + np.exp((left - right) / N_ITEMS * 3))
        outcome = np.where(wins, np.int8(1), np.int8(-1))
        columns = (rng.integers(0, log.people, m), left, right, outcome)
        temporary = folder / f".{part}"
        table = pa.table(dict(zip(COLUMNS, columns, strict=True)))
        pq.write_table(table, temporary, row_group_size=ROW_GROUP)
        temporary.rename(folder / f"{part}.parquet")


def hushrank(folder: Path, max_contributions: int | None) -> Callable[[], int]:
    """Exact counts, up to the point where noise would be added."""
    import numpy as np

    from hushrank.pipelines.reduce import reduce
    from hushrank.pipelines.reduce.reduction_job import EXACT_FILE, ReduceComparisons, Statistic
    from hushrank.privacy.keyed_hash import SecretKey
    from hushrank.privacy.randomness import system_bits
    from hushrank.transforms.common.catalogue import Catalogue
    from hushrank.transforms.common.schema import ComparisonColumns, Ties
    from hushrank.transforms.comparisons.bound import Bounds
    from hushrank.transforms.storage.files import list_files

    def work() -> int:
        with tempfile.TemporaryDirectory(dir=folder.parent) as confidential:
            job = ReduceComparisons(
                files=tuple(list_files([str(folder)])),
                columns=ComparisonColumns(
                    left="item_i",
                    right="item_j",
                    outcome="outcome",
                    winner=None,
                    user="user" if max_contributions else None,
                    event=None,
                ),
                catalogue=Catalogue.of_count(N_ITEMS),
                bounds=Bounds(n_items=N_ITEMS, ties=Ties.DROP, max_contributions=max_contributions),
                statistic=Statistic.WIN_COUNTS,
                key=SecretKey.draw(system_bits()),
                confidential=confidential,
            )
            reduce.run(job)
            with np.load(f"{confidential}/{EXACT_FILE}") as arrays:
                return int(arrays["counts"].sum())

    return work


def duckdb_group_by(folder: Path) -> Callable[[], int]:
    """Wins of each item."""
    import duckdb

    query = f"""
        SELECT CASE WHEN outcome > 0 THEN item_i ELSE item_j END AS winner, count(*) AS wins
        FROM read_parquet('{folder}/*.parquet') GROUP BY winner
    """
    return lambda: sum(wins for _, wins in duckdb.sql(query).fetchall())


def polars_over(folder: Path) -> Callable[[], int]:
    """Number each person's rows in random order and keep the first ones: one lazy query."""
    import polars as pl

    def work() -> int:
        winner = pl.when(pl.col("outcome") > 0).then("item_i").otherwise("item_j")
        bounded = pl.int_range(pl.len()).shuffle().over("user") < MAX_CONTRIBUTIONS
        rows = pl.scan_parquet(f"{folder}/*.parquet").filter(bounded)
        return int(rows.group_by(winner.alias("winner")).len().collect()["len"].sum())

    return work


def polars_head(folder: Path) -> Callable[[], int]:
    """Shuffle all rows in memory, then take each person's first ones."""
    import polars as pl

    def work() -> int:
        winner = pl.when(pl.col("outcome") > 0).then("item_i").otherwise("item_j")
        rows = pl.scan_parquet(f"{folder}/*.parquet").select("user", winner.alias("winner"))
        shuffled = rows.collect().sample(fraction=1, shuffle=True)
        bounded = shuffled.group_by("user").head(MAX_CONTRIBUTIONS)
        return int(bounded.group_by("winner").len()["len"].sum())

    return work


SIDES: dict[str, Callable[[Path], Callable[[], int]]] = {
    "hushrank, unit comparison": lambda folder: hushrank(folder, None),
    "hushrank, unit user": lambda folder: hushrank(folder, MAX_CONTRIBUTIONS),
    "DuckDB GROUP BY": duckdb_group_by,
    "polars shuffle().over": polars_over,
    "polars sample, head": polars_head,
}


@dataclass(frozen=True)
class Run:
    """One side, once. Seconds and bytes; `total` is the sum of the counts."""

    start_up: float
    wall: float
    cpu: float
    peak: int
    total: int


def run_here(side: str, folder: Path) -> None:
    """In the child: do the work of `side`, and print what it took."""
    work = SIDES[side](folder)
    cpu, start = time.process_time(), time.perf_counter()
    total = work()
    wall, cpu = time.perf_counter() - start, time.process_time() - cpu
    peak = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps({"wall": wall, "cpu": cpu, "peak": peak, "total": total}))


def run_apart(side: str, folder: Path) -> Run:
    """In the parent: run `side` in a new process."""
    start = time.perf_counter()
    command = [sys.executable, __file__, "--side", side, "--data", str(folder)]
    child = subprocess.run(command, check=True, capture_output=True, text=True)
    elapsed = time.perf_counter() - start
    found = json.loads(child.stdout.splitlines()[-1])
    return Run(start_up=elapsed - found["wall"], **found)


def compare(race: Race, cache: Path, runs: int) -> None:
    """Print the fastest of `runs` runs of each side, and the ratio of ours to each peer."""
    folder = race.log.folder(cache)
    if not folder.exists():
        print(f"making {folder}", flush=True)
        # In a process of its own: what a parent has had in memory counts as its children's peak.
        context = multiprocessing.get_context("spawn")
        maker = context.Process(target=make, args=(race.log, folder))
        maker.start()
        maker.join()
    for path in folder.iterdir():
        with path.open("rb") as stream:
            while stream.read(1 << 20):
                pass
    sides = (race.ours, *race.peers)
    rounds = [{side: run_apart(side, folder) for side in sides} for _ in range(runs)]
    if len({run.total for found in rounds for run in found.values()}) != 1:
        raise SystemExit("the sides counted different numbers of rows")
    print(f"\n{race.title}\n{race.log.rows:,} rows of {race.log.people:,} people, best of {runs}")
    print(f"{'':26} {'wall s':>8} {'CPU s':>8} {'peak MB':>8} {'start-up s':>11} {'ours / it':>10}")
    best = {
        side: min((found[side] for found in rounds), key=lambda run: run.wall) for side in sides
    }
    ours = best[race.ours]
    for side, run in best.items():
        ratio = "" if side == race.ours else f"{ours.wall / run.wall:.2f}"
        print(
            f"{side:26} {run.wall:8.2f} {run.cpu:8.2f} {run.peak / 1e6:8.0f}"
            f" {run.start_up:11.2f} {ratio:>10}"
        )


def main() -> None:
    """Run the races, or in a child one side."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, default=Path(tempfile.gettempdir(), "hushrank-bench"))
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", choices=RACES)
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        run_here(options.side, options.data)
        return
    for name, race in RACES.items():
        if options.only in (None, name):
            compare(race, options.data, options.runs)


if __name__ == "__main__":
    main()
