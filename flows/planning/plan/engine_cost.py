"""Cost of one night on an engine with many workers: processor hours, shuffle and list price.

Arithmetic, and no run: nothing is read. The code that cuts a job for an engine is asked how it
would cut this one; what a row and a block of the shuffle take was measured (`SECONDS_A_ROW` and
below, docs/benchmarks.md). Only comparisons were measured. Hours leave out that workers start, wait
and reach files over a network, so a real job takes longer. Bytes are those that Python workers
send; a row's 24 hold its pseudonym, its pair and its place.

Prices are a list of a day (`PRICES`), and whoever knows better gives their own. Flink and Spark run
on machines of somebody's own, which have no list price.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import PurePosixPath

from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.errors import ConfigError
from hushrank.flows.methods.registry import calibrate
from hushrank.pipelines.engine.runner import Engine, Runner
from hushrank.pipelines.reduce.reduction_job import ReduceComparisons
from hushrank.privacy.keyed_hash import KEY_BYTES, SecretKey
from hushrank.privacy.randomness import BitSource

COLUMNAR = (".parquet", ".orc")  # other files are text
# Processor seconds: of 20 M rows whose people and items are texts of up to 36 characters, the
# slower of two kinds (`benchmarks/scaling_text.py`), and of a simulated run of shuffle blocks so
# small that rows hardly count (`benchmarks/many_workers.py`). By whether rows meet others of their
# person, and whether files are columnar.
SECONDS_A_ROW = {
    (True, True): 0.307e-6,
    (True, False): 0.418e-6,
    (False, True): 0.033e-6,
    (False, False): 0.208e-6,
}
SECONDS_A_BLOCK = 224e-6
BYTES_A_ROW, BYTES_A_BLOCK = 24, 300  # of a shuffle block; the second is besides its rows
BYTES_OF_EXTRAS = 16  # a row: group, weight, event or covariates
SUM_BYTES, MET_BYTES = 1, 3  # a cell of a partial sum: if all are sent, and if those that were met
ROWS_A_FILE = 1_000_000  # where nobody says how many files there are
MOST_ROWS, MOST_FILES = 10**12, 10**7

PRICED = "Dataflow's list prices of batch jobs in us-central1, in USD, as of 2025"
SOURCE = "https://cloud.google.com/dataflow/pricing"
PRICES = {
    "vcpu-hour": 0.056,
    "memory-gb-hour": 0.003557,
    "disk-gb-hour": 0.000054,
    "shuffle-gb": 0.011,
}
GB_A_VCPU, DISK_GB_A_VCPU = 4, 25
WRITTEN_AND_READ = 2  # Dataflow bills its shuffle for both


class Where(StrEnum):
    """Engines with many workers."""

    DATAFLOW = "dataflow"
    FLINK = "flink"
    SPARK = "spark"


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineCost:
    """Cost of one night.

    Attributes:
        engine: where the rows are counted.
        rows, files: of the input.
        columnar: whether files are Parquet or ORC, not text.
        partitions: parts in which rows meet the others of their person; 1: they need not meet.
        blocks: blocks of rows in the shuffle, at most.
        hours: processor hours of workers.
        shuffle: bytes that are written to the shuffle, rows and partial sums.
        workers_price, shuffle_price: in the currency of the prices; None: there is no price.
    """

    engine: Where
    rows: int
    files: int
    columnar: bool
    partitions: int
    blocks: int
    hours: float
    shuffle: float
    workers_price: float | None
    shuffle_price: float | None

    @property
    def price(self) -> float | None:
        """Both together; None: there is no price."""
        if self.workers_price is None or self.shuffle_price is None:
            return None
        return self.workers_price + self.shuffle_price


def prices_of(engine: Where, given: Mapping[str, float]) -> dict[str, float]:
    """Prices of an engine: the list's on Dataflow, and those given; empty: there are none.

    Raises:
        ConfigError: a price has no such name or is negative.
    """
    for name, value in given.items():
        if name not in PRICES:
            raise ConfigError(f"--price {name}: must be one of {', '.join(PRICES)}")
        if not (math.isfinite(value) and value >= 0):
            raise ConfigError(f"--price {name}: must be a number >= 0, got {value!r}")
    if engine is Where.DATAFLOW:
        return PRICES | dict(given)
    if given and "vcpu-hour" not in given:
        raise ConfigError(f"--price: {engine} has no list prices; add --price vcpu-hour=NUMBER")
    return dict.fromkeys(PRICES, 0.0) | dict(given) if given else {}


def engine_cost(
    config: SurveyConfig,
    engine: Where,
    rows: int,
    files: int | None = None,
    prices: Mapping[str, float] | None = None,
) -> EngineCost:
    """Compute what one night of a job takes on an engine.

    Args:
        config: the job.
        engine: where it runs, whatever the job's own `runner` is.
        rows: number of rows of the night's input.
        files: number of files, each read by one worker at a time; None: one a million rows.
        prices: prices in place of the list's, by the names of `PRICES`.

    Raises:
        ConfigError: a number is out of range, or the job counts something other than comparisons.
    """
    files = max(rows // ROWS_A_FILE, 1) if files is None else files
    for name, value, most in (("rows", rows, MOST_ROWS), ("files", files, MOST_FILES)):
        if not 1 <= value <= most:
            raise ConfigError(f"--{name} must be from 1 to {most}, got {value}")
    price = prices_of(engine, prices or {})
    job = _reduction(config, engine)
    columnar = all(PurePosixPath(f"{path}").suffix in COLUMNAR for path in config.input.paths)
    partitions, blocks = _cut(job, rows, files)
    seconds = rows * SECONDS_A_ROW[job.meets_owners, columnar] + blocks * SECONDS_A_BLOCK
    shuffle = _bytes(job, rows, partitions if job.meets_owners else files, blocks)
    hours = seconds / 3600
    workers_price = shuffle_price = None
    if price:
        memory, disk = GB_A_VCPU * price["memory-gb-hour"], DISK_GB_A_VCPU * price["disk-gb-hour"]
        workers_price = hours * (price["vcpu-hour"] + memory + disk)
        shuffle_price = WRITTEN_AND_READ * shuffle / 1e9 * price["shuffle-gb"]
    return EngineCost(
        engine=engine,
        rows=rows,
        files=files,
        columnar=columnar,
        partitions=partitions,
        blocks=blocks,
        hours=hours,
        shuffle=shuffle,
        workers_price=workers_price,
        shuffle_price=shuffle_price,
    )


def _reduction(config: SurveyConfig, engine: Where) -> ReduceComparisons:
    """The job that an engine would get; its key protects nothing, because there are no rows."""
    calibrated = calibrate(config)
    key = SecretKey(bytes(KEY_BYTES), BitSource.SEEDED)
    job = calibrated.method.reduction(config, calibrated.mechanism, (), key, "nowhere")
    if not isinstance(job, ReduceComparisons) or config.schedule.stream is not None:
        raise ConfigError(
            "--engine: what a night costs was measured for comparisons without a stream alone;"
            " run a small night and look at the engine's own numbers"
        )
    return replace(job, engine=Engine(Runner[engine.name]))


def _cut(job: ReduceComparisons, rows: int, files: int) -> tuple[int, int]:
    """Partitions and blocks of rows, by the code that cuts jobs."""
    if not job.meets_owners:
        return 1, 0
    from hushrank.pipelines.reduce import reduce  # loads Beam

    kind = reduce.kind_of(job)
    partitions = kind.number_of(kind.partitions(rows))
    readers = math.ceil(rows / min(reduce.chunk_rows(kind, rows), max(rows // files, 1)))
    return partitions, min(readers * partitions, rows)


def _bytes(job: ReduceComparisons, rows: int, sums: int, blocks: int) -> float:
    """Bytes of the shuffle: rows, where they meet others of their person, and partial sums."""
    extras = job.groups is not None or job.weighted or bool(job.columns.event)
    extras = extras or bool(job.columns.n_covariates)
    sent = rows * (BYTES_A_ROW + BYTES_OF_EXTRAS * extras) if job.meets_owners else 0
    cells = job.cells
    met = cells * -math.expm1(-rows / sums / cells)
    return sent + blocks * BYTES_A_BLOCK + sums * min(MET_BYTES * met, SUM_BYTES * cells)
