"""How time and memory grow with the rows: 1 M to 1 000 M of them, unit comparison and unit user.

Logs are made once: 300 items, ten rows a person on average, Parquet, 6.4 bytes a row. Every run is
a process of its own, is timed after its imports, and says for each of its stages the seconds by the
clock and of processor time, and the peak memory (the kernel's own mark, reset between stages). At
the sizes up to `--peers-up-to` two query engines do the same without privacy: DuckDB counts wins,
polars keeps five random rows of each person, streaming. The exponent is the slope of log seconds
against log rows, by least squares over the sizes from 10 M on, where start-up no longer counts.

    python benchmarks/scaling.py [--data FOLDER] [--sizes 1 10 100 1000] [--peers-up-to 100]
                                 [--only comparison|user] [--write docs]
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import multiprocessing
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hushrank.transforms.common.schema import ComparisonColumns
    from hushrank.transforms.storage.files import InputFile

N_ITEMS, MAX_CONTRIBUTIONS, ROWS_A_PERSON, EPSILON = 300, 5, 10, 1.0
MILLION, ROW_GROUP, FILE_ROWS = 10**6, 10**6, 25 * 10**6
FIRST_FITTED = 10 * MILLION  # rows from which on the exponent is fitted
MOST_BYTES_A_ROW = 7
BEGIN, END = "<!-- scaling: begin -->", "<!-- scaling: end -->"

COMPARISON, USER = "hushrank, unit comparison", "hushrank, unit user, L = 5"
DUCKDB, POLARS = "DuckDB GROUP BY", "polars, streaming, 5 rows a person"
PEERS = {COMPARISON: DUCKDB, USER: POLARS}


def make(rows: int, folder: Path) -> None:
    """A log of uniform people and pairs; the item with the smaller number wins more often."""
    if folder.exists():
        return
    partial = folder.with_name(f".{folder.name}")
    partial.mkdir(parents=True, exist_ok=True)
    started = time.perf_counter()
    files = math.ceil(rows / FILE_ROWS)
    # In processes of their own: what a parent has had in memory counts as its children's peak.
    with ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn")) as pool:
        list(pool.map(functools.partial(make_file, rows, partial), range(files)))
    partial.rename(folder)
    size = sum(path.stat().st_size for path in folder.iterdir())
    if size > MOST_BYTES_A_ROW * rows + MILLION:
        raise SystemExit(f"{folder}: {size / rows:.1f} bytes a row are more than planned")
    print(
        f"made {folder}: {size / 1e9:.2f} GB in {time.perf_counter() - started:.0f} s", flush=True
    )


def make_file(rows: int, folder: Path, part: int) -> None:
    """One file of a log, a row group at a time."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    n_people = max(rows // ROWS_A_PERSON, 1)
    gaps = np.arange(-N_ITEMS, N_ITEMS) / N_ITEMS * 3
    left_wins = (256 / (1 + np.exp(gaps))).astype(np.uint16)  # of 256, by the gap of the two items
    columns = {"user": pa.int32(), "item_i": pa.int16(), "item_j": pa.int16(), "outcome": pa.int8()}
    schema = pa.schema(list(columns.items()))
    small = ["item_i", "item_j", "outcome"]  # people would overflow any dictionary
    path = folder / f"{part}.parquet"
    with pq.ParquetWriter(path, schema, compression="none", use_dictionary=small) as writer:
        first, last = part * FILE_ROWS, min((part + 1) * FILE_ROWS, rows)
        for start in range(first, last, ROW_GROUP):
            rng, m = np.random.default_rng([rows, start]), min(ROW_GROUP, last - start)
            left = rng.integers(0, N_ITEMS, m, dtype=np.int16)
            right = (left + rng.integers(1, N_ITEMS, m, dtype=np.int16)) % np.int16(N_ITEMS)
            won = rng.integers(0, 256, m, dtype=np.uint8) < left_wins[left - right + N_ITEMS]
            outcome = 2 * won.view(np.int8) - np.int8(1)
            user = rng.integers(0, n_people, m, dtype=np.int32)
            group = pa.table([user, left, right, outcome], schema=schema)
            writer.write_table(group, row_group_size=ROW_GROUP)


@dataclass
class StageClock:
    """Seconds and peak memory of one stage after the other, in this process.

    Attributes:
        stages: of each: name, seconds by the clock, seconds of processor time, peak bytes.
    """

    stages: list[dict[str, float | str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        Path("/proc/self/clear_refs").write_text(
            "5", encoding="utf-8"
        )  # the peak starts again at what is used now
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def end(self, name: str) -> None:
        """Everything since the last end was stage `name`."""
        wall, cpu = time.perf_counter() - self._wall, time.process_time() - self._cpu
        status = Path("/proc/self/status").read_text(encoding="utf-8")
        peak = 1024 * int(re.findall(r"VmHWM:\s+(\d+) kB", status)[0])
        self.stages.append({"stage": name, "wall": wall, "cpu": cpu, "peak": peak})
        self._begin()


@contextmanager
def noticing_bounds(clock: StageClock) -> Iterator[None]:
    """End the stage of reading when the first partition arrives to be bounded."""
    from hushrank.pipelines.reduce import reduce

    bounding = reduce._Bound
    process, seen = bounding.process, []

    def noticed(self: object, element: object) -> object:
        if not seen:
            seen.append(True)
            clock.end("read, encode, partition")
        return process(self, element)

    bounding.process = noticed
    try:
        yield
    finally:
        bounding.process = process


def choose_engine(
    folder: Path, columns: ComparisonColumns, *, meets_owners: bool
) -> tuple[InputFile, ...]:
    """Load the engine that a run on the files of `folder` has, and return the files."""
    import pyarrow as pa

    from hushrank.pipelines.engine.runner import DEFAULT_MEMORY, HERE, does_without_beam
    from hushrank.transforms.engine import in_process
    from hushrank.transforms.storage.files import list_files

    files = tuple(list_files([str(folder)]))
    job = SimpleNamespace(
        files=files,
        columns=columns,
        confidential=str(folder),
        memory_limit=DEFAULT_MEMORY,
        engine=HERE,
        meets_owners=meets_owners,
    )
    if does_without_beam(job):
        in_process.choose()
    else:
        from hushrank.pipelines.engine import options

        options.pipeline_options()
        with suppress(ImportError):
            import IPython  # noqa: F401  # Beam's first pipeline loads it, if that is installed
    pa.scalar(0)  # with the first value of Python's, Arrow loads pandas, if that is installed
    return files


def hushrank(
    max_contributions: int | None, folder: Path, items: tuple[str, ...] | None = None
) -> Callable[[StageClock], int]:
    """Noisy win counts, from the files of `folder` to what is released.

    On Beam's local engine, or on its stand-in where a run would choose that.

    Returns:
        The work; it returns the rows that counted. Without `items` they are named 0, 1, ...
    """
    bounded = max_contributions is not None
    from hushrank.transforms.common.schema import ComparisonColumns, Ties

    columns = ComparisonColumns(
        left="item_i",
        right="item_j",
        outcome="outcome",
        winner=None,
        user="user" if bounded else None,
        event=None,
    )
    files = choose_engine(folder, columns, meets_owners=bounded)
    import numpy as np

    from hushrank.estimation.common.central_noise import calibrate_win_counts, release_win_counts
    from hushrank.estimation.common.matrices import WinCounts
    from hushrank.pipelines.reduce import reduce
    from hushrank.pipelines.reduce.reduction_job import EXACT_FILE, ReduceComparisons, Statistic
    from hushrank.privacy.keyed_hash import SecretKey
    from hushrank.privacy.randomness import system_bits
    from hushrank.privacy.units import Adjacency, PrivacyParams, Unit
    from hushrank.transforms.common.catalogue import Catalogue
    from hushrank.transforms.comparisons.bound import Bounds

    params = PrivacyParams(
        unit=Unit.USER if bounded else Unit.COMPARISON,
        adjacency=Adjacency.REPLACE_ONE,
        epsilon=EPSILON,
        max_contributions=max_contributions or 1,
    )
    few = calibrate_win_counts(params, 2)
    release_win_counts(WinCounts(np.zeros(2, np.int64)), few, system_bits())  # and the sampler

    def work(clock: StageClock) -> int:
        with tempfile.TemporaryDirectory(dir=folder.parent) as confidential:
            job = ReduceComparisons(
                files=files,
                columns=columns,
                catalogue=Catalogue.of_count(N_ITEMS) if items is None else Catalogue(items),
                bounds=Bounds(n_items=N_ITEMS, ties=Ties.DROP, max_contributions=max_contributions),
                statistic=Statistic.WIN_COUNTS,
                key=SecretKey.draw(system_bits()),
                confidential=confidential,
            )
            with noticing_bounds(clock):
                reduce.run(job)
            clock.end("bound, count" if bounded else "read, encode, count")
            with np.load(f"{confidential}/{EXACT_FILE}") as arrays:
                counts = WinCounts(arrays["counts"])
        calibration = calibrate_win_counts(params, counts.n_items)
        release_win_counts(counts, calibration, system_bits())
        clock.end("noise")
        return int(counts.wins.sum())

    return work


def duckdb_group_by(folder: Path) -> Callable[[StageClock], int]:
    """Wins of each item."""
    import duckdb

    query = f"""
        SELECT CASE WHEN outcome > 0 THEN item_i ELSE item_j END AS winner, count(*) AS wins
        FROM read_parquet('{folder}/*.parquet') GROUP BY winner
    """

    def work(clock: StageClock) -> int:
        total = sum(wins for _, wins in duckdb.sql(query).fetchall())
        clock.end("all")
        return total

    return work


def polars_streaming(folder: Path) -> Callable[[StageClock], int]:
    """Wins of each item in five random rows of each person: the fastest streaming query we know."""
    import polars as pl

    winner = pl.when(pl.col("outcome") > 0).then("item_i").otherwise("item_j").alias("winner")
    first = pl.col("winner").shuffle().head(MAX_CONTRIBUTIONS)

    def work(clock: StageClock) -> int:
        rows = pl.scan_parquet(f"{folder}/*.parquet").select("user", winner)
        bounded = rows.group_by("user").agg(first).select("winner").explode("winner")
        counts = bounded.group_by("winner").len().collect(engine="streaming")
        clock.end("all")
        return int(counts["len"].sum())

    return work


SIDES: dict[str, Callable[[Path], Callable[[StageClock], int]]] = {
    COMPARISON: functools.partial(hushrank, None),
    DUCKDB: duckdb_group_by,
    USER: functools.partial(hushrank, MAX_CONTRIBUTIONS),
    POLARS: polars_streaming,
}


@dataclass(frozen=True)
class Run:
    """One side on one log.

    Attributes:
        side, rows: which.
        stages: as `StageClock`.
        counted: rows that counted.
    """

    side: str
    rows: int
    stages: list[dict[str, float | str]]
    counted: int

    def total(self, what: str) -> float:
        """Seconds of all stages together."""
        return sum(float(stage[what]) for stage in self.stages)

    @property
    def peak(self) -> float:
        """Bytes."""
        return max(float(stage["peak"]) for stage in self.stages)


def run_here(side: str, folder: Path) -> None:
    """In the child: do the work of `side`, and print what it took."""
    work = SIDES[side](folder)
    clock = StageClock()
    counted = work(clock)
    print(json.dumps({"stages": clock.stages, "counted": counted}))


def run_apart(side: str, rows: int, folder: Path) -> Run:
    """In the parent: run `side` in a new process."""
    command = [sys.executable, __file__, "--side", side, "--data", str(folder)]
    child = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return Run(side, rows, **json.loads(child.stdout.splitlines()[-1]))


def warm(folder: Path) -> None:
    """Read the log once, so that every side finds it cached, as far as memory holds it."""
    for path in folder.iterdir():
        with path.open("rb") as stream:
            while stream.read(1 << 20):
                pass


def measure(options: argparse.Namespace) -> list[Run]:
    """All runs that were asked for, smallest log first; every line is printed when it is known."""
    runs: list[Run] = []
    for millions in sorted(options.sizes):
        rows = round(millions * MILLION)
        folder = options.data / f"scaling-{rows}"
        make(rows, folder)
        warm(folder)
        for side, peer in PEERS.items():
            if options.only is not None and f"unit {options.only}" not in side:
                continue
            sides = [side, peer] if millions <= options.peers_up_to else [side]
            rivals = [run_apart(each, rows, folder) for each in sides]
            if len({run.counted for run in rivals}) != 1:
                raise SystemExit("the sides counted different numbers of rows")
            print(*(table_lines(run) for run in rivals), sep="\n", flush=True)
            runs += rivals
    return runs


def exponent(runs: list[Run]) -> float:
    """Slope of log seconds against log rows; NaN where fewer than two sizes are large enough."""
    import numpy as np

    large = [run for run in runs if run.rows >= FIRST_FITTED]
    if len(large) < 2:
        return math.nan
    rows, wall = ([math.log(value) for value in values] for values in zip(
        *((run.rows, run.total("wall")) for run in large), strict=True
    ))  # fmt: skip
    return float(np.polyfit(rows, wall, 1)[0])


HEADER = (
    "| rows | what | stage | wall s | CPU s | peak MB |\n|---:|---|---|---:|---:|---:|"  # Markdown
)


def table_lines(run: Run) -> str:
    """Rows of the table: every stage, then their sum."""
    all_stages = {"stage": "**all**", "wall": run.total("wall"), "cpu": run.total("cpu")}
    lines = [*run.stages, {**all_stages, "peak": run.peak}] if len(run.stages) > 1 else run.stages
    return "\n".join(
        f"| {run.rows // MILLION} M | {run.side} | {line['stage']} | {line['wall']:.2f}"
        f" | {line['cpu']:.2f} | {float(line['peak']) / 1e6:.0f} |"
        for line in lines
    )


def by_side(runs: list[Run]) -> dict[str, list[Run]]:
    """The runs of each side, in the order of their sizes."""
    found: dict[str, list[Run]] = {}
    for run in runs:
        found.setdefault(run.side, []).append(run)
    return found


def summary(runs: list[Run]) -> str:
    """Exponents, and ratios to the peers."""
    lines = []
    for side, mine in by_side(runs).items():
        if side in PEERS and not math.isnan(exponent(mine)):
            lines.append(f"- {side}: wall time grows like rows^{exponent(mine):.3f}.")
    seconds = {(run.side, run.rows): run.total("wall") for run in runs}
    for (side, rows), wall in seconds.items():
        peer = seconds.get((PEERS.get(side, ""), rows))
        if peer is not None:
            ratio = f"{wall / peer:.2f}"
            lines.append(f"- {rows // MILLION} M rows: {side} / {PEERS[side]} = {ratio}.")
    return "\n".join(lines)


def plot(runs: list[Run], path: Path) -> None:
    """Seconds against rows, both logarithmic."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.subplots()
    for side, mine in by_side(runs).items():
        style = "o-" if side in PEERS else "x--"
        label = side if math.isnan(exponent(mine)) else f"{side}: rows^{exponent(mine):.2f}"
        axes.loglog(
            [run.rows for run in mine], [run.total("wall") for run in mine], style, label=label
        )
    axes.set(xlabel="rows", ylabel="seconds")
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path, metadata={"Date": None})


def write(runs: list[Run], folder: Path) -> None:
    """Put the table into benchmarks.md, between its two marks, and the plot beside it."""
    page = folder / "benchmarks.md"
    before, _, rest = page.read_text().partition(BEGIN)
    table = "\n".join([HEADER, *map(table_lines, runs)])
    middle = f"\n{summary(runs)}\n\n![Seconds against rows](scaling.svg)\n\n{table}\n"
    page.write_text(before + BEGIN + middle + END + rest.partition(END)[2])
    plot(runs, folder / "scaling.svg")


def main() -> None:
    """Measure, print, and write where asked to; or in a child run one side."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, default=Path(tempfile.gettempdir(), "hushrank-bench"))
    parser.add_argument("--sizes", type=float, nargs="+", default=[1, 10, 100, 1000])
    parser.add_argument("--peers-up-to", type=float, default=100, help="million rows")
    parser.add_argument("--only", choices=("comparison", "user"))
    parser.add_argument("--write", type=Path, help="folder of benchmarks.md")
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        run_here(options.side, options.data)
        return
    print(HEADER, flush=True)
    runs = measure(options)
    print(f"\n{summary(runs)}")
    if options.write is not None:
        write(runs, options.write)


if __name__ == "__main__":
    main()
