"""Noisy pair counts of at most L rows a person: hushrank beside PipelineDP, both on Beam.

Both read the same Parquet file with the same engine on the same machine, keep at most L random rows
of each person, count how often each item beat each other, and add Laplace noise of scale L / eps.
to every ordered pair of the public items: eps.-DP for adding or removing one person. hushrank's
noise is the discrete Laplace law on the integers, PipelineDP's a secure continuous one, rounded.
Each side is a process of its own and is timed after its imports. The slower one runs once, the
faster one, which takes a tenth of a second, several times before it and after it. A file of this
size hushrank reduces as `hushrank run` does: by the same graph, without loading Beam.

    python benchmarks/pipelinedp.py [--rows N] [--data FOLDER] [--runs N]
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import multiprocessing
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

N_ITEMS, MAX_CONTRIBUTIONS, EPSILON, ROWS_A_PERSON = 50, 5, 1.0, 10
ROW_GROUP = 1 << 20
OURS, THEIRS = "hushrank", "PipelineDP"


def make(rows: int, path: Path) -> None:
    """Uniform people and pairs; the item with the smaller number wins more often."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(rows)
    left = rng.integers(0, N_ITEMS, rows, dtype=np.int32)
    right = ((left + rng.integers(1, N_ITEMS, rows)) % N_ITEMS).astype(np.int32)
    wins = rng.random(rows) < 1 / (1 + np.exp((left - right) / N_ITEMS * 3))
    table = pa.table(
        {
            "user": rng.integers(0, rows // ROWS_A_PERSON, rows),
            "left": left,
            "right": right,
            "outcome": np.where(wins, np.int8(1), np.int8(-1)),
        }
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".partial")
    pq.write_table(table, temporary, row_group_size=ROW_GROUP)
    temporary.rename(path)


def hushrank(path: Path) -> Callable[[], float]:
    """Sum of all noisy counts."""
    from hushrank.transforms.engine import in_process

    in_process.choose()  # as `hushrank run` does: see `pipelines.engine.runner`
    import numpy as np
    import pyarrow as pa

    from hushrank.estimation.common.central_noise import calibrate_pair_counts, release_pair_counts
    from hushrank.estimation.common.matrices import PairCounts
    from hushrank.pipelines.reduce import reduce
    from hushrank.pipelines.reduce.reduction_job import EXACT_FILE, ReduceComparisons, Statistic
    from hushrank.privacy.keyed_hash import SecretKey
    from hushrank.privacy.randomness import system_bits
    from hushrank.privacy.units import Adjacency, PrivacyParams, Unit
    from hushrank.transforms.common.catalogue import Catalogue
    from hushrank.transforms.common.schema import ComparisonColumns, Ties
    from hushrank.transforms.comparisons.bound import Bounds
    from hushrank.transforms.storage.files import list_files

    params = PrivacyParams(
        unit=Unit.USER,
        adjacency=Adjacency.ADD_REMOVE,
        epsilon=EPSILON,
        max_contributions=MAX_CONTRIBUTIONS,
    )
    columns = ComparisonColumns(
        left="left", right="right", outcome="outcome", winner=None, user="user", event=None
    )

    nothing = PairCounts(np.zeros((2, 2), np.int64))
    few = calibrate_pair_counts(params, 2)
    release_pair_counts(nothing, few, system_bits())  # loads what is loaded when it is needed,
    pa.array([0])  # and so does this: pandas, if that is installed

    def work() -> float:
        with tempfile.TemporaryDirectory(dir=path.parent) as confidential:
            job = ReduceComparisons(
                files=tuple(list_files([str(path)])),
                columns=columns,
                catalogue=Catalogue.of_count(N_ITEMS),
                bounds=Bounds(n_items=N_ITEMS, ties=Ties.DROP, max_contributions=MAX_CONTRIBUTIONS),
                statistic=Statistic.PAIR_COUNTS,
                key=SecretKey.draw(system_bits()),
                confidential=confidential,
            )
            reduce.run(job)
            with np.load(f"{confidential}/{EXACT_FILE}") as arrays:
                counts = PairCounts(arrays["counts"])
        calibration = calibrate_pair_counts(params, counts.n_items)
        noisy = release_pair_counts(counts, calibration, system_bits())
        return float(noisy.wins.sum())

    return work


def pipelinedp(path: Path) -> Callable[[], float]:
    """Sum of all noisy counts."""
    import apache_beam as beam
    import pipeline_dp
    from pipeline_dp.beam_backend import BeamBackend

    from hushrank.pipelines.engine.options import pipeline_options

    pairs = list(itertools.permutations(range(N_ITEMS), 2))
    params = pipeline_dp.AggregateParams(
        metrics=[pipeline_dp.Metrics.COUNT],
        noise_kind=pipeline_dp.NoiseKind.LAPLACE,
        max_contributions=MAX_CONTRIBUTIONS,
    )
    extractors = pipeline_dp.DataExtractors(
        privacy_id_extractor=lambda row: row["user"],
        partition_extractor=lambda row: (
            (row["left"], row["right"]) if row["outcome"] > 0 else (row["right"], row["left"])
        ),
        value_extractor=lambda _: 1,
    )

    def work() -> float:
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            accountant = pipeline_dp.NaiveBudgetAccountant(total_epsilon=EPSILON, total_delta=0.0)
            with beam.Pipeline(options=pipeline_options()) as pipeline:
                rows = pipeline | beam.io.ReadFromParquet(str(path))
                engine = pipeline_dp.DPEngine(accountant, BeamBackend())
                counts = engine.aggregate(rows, params, extractors, public_partitions=pairs)
                accountant.compute_budgets()
                _ = (
                    counts
                    | beam.Map(lambda pair_and_count: float(pair_and_count[1].count))
                    | beam.CombineGlobally(sum)
                    | beam.Map(str)
                    | beam.io.WriteToText(f"{folder}/total", shard_name_template="")
                )
            return float(Path(folder, "total").read_text(encoding="utf-8"))

    return work


SIDES: dict[str, Callable[[Path], Callable[[], float]]] = {OURS: hushrank, THEIRS: pipelinedp}


def run_here(side: str, path: Path) -> None:
    """In the child: do the work of `side`, and print what it took."""
    work = SIDES[side](path)
    start, cpu = time.perf_counter(), time.process_time()
    total = work()
    wall, cpu = time.perf_counter() - start, time.process_time() - cpu
    peak = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps({"wall": wall, "cpu": cpu, "peak": peak, "total": total}))


def run_apart(side: str, path: Path) -> dict[str, float]:
    """In the parent: run `side` in a new process."""
    command = [sys.executable, __file__, "--side", side, "--data", str(path)]
    child = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, float] = json.loads(child.stdout.splitlines()[-1])
    return found


def require_same_counts(runs: dict[str, dict[str, float]]) -> None:
    """Raise unless both sides kept about as many rows, but for six deviations of the noise."""
    ours, theirs = (runs[side]["total"] for side in (OURS, THEIRS))
    variance = 2 * 2 * N_ITEMS * (N_ITEMS - 1) * (MAX_CONTRIBUTIONS / EPSILON) ** 2
    if abs(ours - theirs) > 0.01 * theirs + 6 * math.sqrt(variance):
        raise SystemExit(f"the sides counted different numbers of rows: {ours:g} and {theirs:g}")


def main() -> None:
    """Make the file, run both sides, print the ratio; or in a child run one side."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--data", type=Path, default=Path(tempfile.gettempdir(), "hushrank-bench"))
    parser.add_argument("--runs", type=int, default=10, help="of hushrank; its fastest counts")
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        run_here(options.side, options.data)
        return
    path = options.data / f"pairs-{options.rows}-{N_ITEMS}.parquet"
    if not path.exists():
        maker = multiprocessing.get_context("spawn").Process(target=make, args=(options.rows, path))
        maker.start()
        maker.join()
    path.read_bytes()
    before = [run_apart(OURS, path) for _ in range(-(-options.runs // 2))]
    theirs = run_apart(THEIRS, path)
    ours = [*before, *(run_apart(OURS, path) for _ in range(options.runs // 2))]
    runs = {OURS: min(ours, key=lambda run: run["wall"]), THEIRS: theirs}
    require_same_counts(runs)
    print(
        f"{options.rows:,} rows, {N_ITEMS} items, at most {MAX_CONTRIBUTIONS} rows a person,"
        f" epsilon {EPSILON:g}, {N_ITEMS * (N_ITEMS - 1):,} noisy counts"
    )
    print(f"{'':12} {'wall s':>9} {'CPU s':>9} {'peak MB':>8}")
    for side, run in runs.items():
        print(f"{side:12} {run['wall']:9.2f} {run['cpu']:9.2f} {run['peak'] / 1e6:8.0f}")
    wall, cpu = (runs[THEIRS][what] / runs[OURS][what] for what in ("wall", "cpu"))
    print(f"PipelineDP / hushrank: {wall:.0f} by the clock, {cpu:.0f} of processor time")
    median = statistics.median(run["wall"] for run in ours)
    usual = theirs["wall"] / median
    print(f"median of {len(ours)} runs of hushrank: {median:.2f} s, which makes it {usual:.0f}")


if __name__ == "__main__":
    main()
