"""Reduce a comparison log to counts: read, encode, bound, aggregate.

Everything here is left of the trust boundary. What it writes (counts without noise, rows that broke
a rule, tallies) goes to the confidential folder and nowhere else; it keeps no Beam metrics and logs
nothing, because a row count is private data too. Noise is drawn afterwards, in one place, once: an
engine that retries a bundle can then never draw a second noisy copy, and a failure while reading
costs no budget.
"""

from __future__ import annotations

import functools
import io
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hushrank.estimation.common.matrices import MOST_DENSE_ITEMS, arrays_of_sparse
from hushrank.estimation.common.sparse_counts import CellCounts
from hushrank.pipelines.engine.memory_plan import MemoryPlan
from hushrank.pipelines.reduce.confidential_area import read_tally, set_aside, set_batch_aside
from hushrank.pipelines.reduce.execution import execute
from hushrank.pipelines.reduce.reduction_job import (
    EXACT_FILE,
    ReduceComparisons,
    Statistic,
)
from hushrank.pipelines.reduce.results import Arrays, WriteArrays, WriteTally
from hushrank.privacy.keyed_hash import KeyedHash
from hushrank.transforms.common.encode import (
    Comparisons,
    Sifted,
    encode_comparisons,
)
from hushrank.transforms.common.schema import Ties
from hushrank.transforms.comparisons.aggregate import (
    PairCountsFn,
    SparsePairCountsFn,
    TallyFn,
    WinCountsFn,
)
from hushrank.transforms.comparisons.bound import CONFLICT, Bounded, bound_bucket
from hushrank.transforms.comparisons.crowded import bound_crowded
from hushrank.transforms.comparisons.owned_rows import OwnedRows, own
from hushrank.transforms.comparisons.shuffle import Bucket, OwnedParcel, Partitioning, pack, unpack
from hushrank.transforms.engine.beam import GlobalWindows, TaggedOutput, beam
from hushrank.transforms.storage.read import Split, plan_files, read_batches
from hushrank.transforms.storage.spill_file import SpillFile
from hushrank.transforms.storage.write import read_whole

ENCODE_ROWS = 1 << 18  # at a time: near a processor's cache, and long between two threads' turns
CHUNK_ROWS = 1 << 18  # at least as many make the parcels of one reader
CHUNK_BITS = 8  # 2^this times as many rows: more make larger parcels, as each has a cost of its own
ROW_BITS = 40  # of the place where a row was read; the others are the number of its split

SLICES, ROWS, PARCELS, CONFLICTS, TALLY = "slices", "rows", "parcels", "conflicts", "tally"
COMBINE = {Statistic.WIN_COUNTS: WinCountsFn, Statistic.PAIR_COUNTS: PairCountsFn}


def run(job: ReduceComparisons) -> None:
    """Execute `job`; afterwards `job.confidential` holds its counts, tallies and rejects.

    Raises:
        InputError: a file cannot be read, or a row broke a rule under `fail_on_bad_rows`.
    """
    splits = plan(job)
    execute(job, lambda pipeline, spill: build(pipeline, job, splits, spill))
    _check_nothing_was_lost(job)


def _check_nothing_was_lost(job: ReduceComparisons) -> None:
    """Raise unless every row that was sent arrived and every row that was kept was counted once.

    Engines promise that. Beam's own local one breaks it when it runs `multi_threading`.
    """
    tally = read_tally(job.confidential)
    exact = io.BytesIO(read_whole(f"{job.confidential}/{EXACT_FILE}"))
    with np.load(exact) as arrays:
        counted = int(arrays["counts"].sum())
    arrived = tally.get("rows_sent", 0) == tally.get("rows_with_owner", 0)
    if not arrived or counted != job.bounds.ties.row_weight * tally.get("rows_kept", 0):
        raise RuntimeError("the engine lost or repeated rows; nothing was released: run it again")


def _combine(job: ReduceComparisons) -> beam.CombineFn:
    """How comparisons are summed: pairs of many items to sparse counts."""
    n_items, combine = len(job.catalogue), COMBINE[job.statistic]
    if job.statistic is Statistic.PAIR_COUNTS and n_items > MOST_DENSE_ITEMS:
        combine = SparsePairCountsFn
    return combine(n_items, job.bounds.ties)


def plan(job: ReduceComparisons) -> list[Split]:
    """The shares of the input that are read apart, from footers and headers only."""
    return plan_files(job.files, job.columns)


def build(
    pipeline: beam.Pipeline,
    job: ReduceComparisons,
    splits: list[Split],
    spill: SpillFile | None = None,
) -> None:
    """Add the whole graph of `job` to `pipeline`.

    Args:
        pipeline: of any engine.
        job: what to reduce.
        splits: of `plan`.
        spill: where rows wait for the others of their owner, if all workers are in this process;
            None: the engine carries them.
    """
    rows, tallies = count(pipeline, job, splits, spill)
    combine, arrays_of = _combine(job), functools.partial(_arrays, len(job.catalogue))
    _ = (
        rows
        | "Count" >> beam.CombineGlobally(combine)
        | "WriteCounts" >> beam.ParDo(WriteArrays(job.confidential, arrays_of))
    )
    _ = (
        tallies
        | "Tally" >> beam.CombineGlobally(TallyFn()).without_defaults()
        | "WriteTally" >> beam.ParDo(WriteTally(job.confidential, job.bits))
    )


def count(
    pipeline: beam.Pipeline, job: ReduceComparisons, splits: list[Split], spill: SpillFile | None
) -> tuple[Any, Any]:
    """Comparisons to count, and tallies of what happened to how many rows: both confidential."""
    read = (
        pipeline
        | "Splits" >> beam.Create(list(enumerate(splits)))  # shares them out as well
        | "Read" >> beam.ParDo(_Read(job.confidential)).with_outputs(TALLY, main=SLICES)
    )
    if not job.meets_owners:
        encode = beam.ParDo(_Encode(job)).with_outputs(TALLY, main=ROWS)
        encoded = read[SLICES] | "Encode" >> encode
        return encoded[ROWS], (read[TALLY], encoded[TALLY]) | "Tallies" >> beam.Flatten()
    n_rows, memory = sum(split.rows for split in splits), MemoryPlan.of(job.memory_limit)
    partitioning = Partitioning.of_rows(n_rows, memory.partition_rows)
    chunk_rows = max(CHUNK_ROWS, min(n_rows >> CHUNK_BITS, memory.rows_at_once))
    pack = _EncodePack(job, partitioning, spill, chunk_rows)
    packed = read[SLICES] | "Encode" >> beam.ParDo(pack).with_outputs(TALLY, main=PARCELS)
    bounded = (
        packed[PARCELS]
        | "MeetOwners" >> beam.GroupByKey()
        | "Bound" >> beam.ParDo(_Bound(job, spill)).with_outputs(TALLY, CONFLICTS, main=ROWS)
    )
    if job.columns.event is not None:
        _ = (
            bounded[CONFLICTS]
            | "MeetInSplit" >> beam.GroupByKey()
            | "SetAside" >> beam.ParDo(_SetConflictsAside(job, splits))
        )
    tallies = (read[TALLY], packed[TALLY], bounded[TALLY]) | "Tallies" >> beam.Flatten()
    return bounded[ROWS], tallies


@dataclass(frozen=True, slots=True)
class _Slice:
    """Rows as they were read, as many as are encoded at a time.

    Attributes:
        number: of the split.
        source: what the split is called.
        first: number, in the split, of the first row.
        rows: at most `ENCODE_ROWS`.
    """

    number: int
    source: str
    first: int
    rows: pa.RecordBatch


class _Read(beam.DoFn):
    """(number, Split) -> slices, and a tally; engines fuse it with the stage that encodes them."""

    def __init__(self, confidential: str) -> None:
        self._confidential = confidential

    def process(self, element: tuple[int, Split]) -> Iterator[Any]:
        number, split = element
        tally, first = Counter({"rows_read": 0, "rows_rejected": 0}), 0
        for batch_number, batch in enumerate(read_batches(split)):
            tally.update(set_batch_aside(self._confidential, split, batch_number, batch, ()))
            for start in range(0, len(batch.rows), ENCODE_ROWS):
                rows = batch.rows.slice(start, ENCODE_ROWS)
                yield _Slice(number, split.name, first + start, rows)
            first += len(batch.rows)
        yield TaggedOutput(TALLY, tally)


class _Encoder(beam.DoFn):
    """What the two ways to encode have in common."""

    def __init__(self, job: ReduceComparisons) -> None:
        self._job = job

    def _encoded(self, read: _Slice, keyed_hash: KeyedHash | None) -> Sifted[Comparisons]:
        """Rows that break a rule are set aside."""
        job = self._job
        encoded = encode_comparisons(read.rows, job.columns, job.catalogue, keyed_hash)
        if encoded.rejects is not None:
            set_aside(job.confidential, f"{read.source}#{read.first}", encoded.rejects)
        return encoded


class _Encode(_Encoder):
    """Slice -> Comparisons that no bound holds together, and a tally."""

    def process(self, element: _Slice) -> Iterator[Any]:
        rows = self._encoded(element, None).rows
        drops_ties = self._job.bounds.ties is Ties.DROP
        kept = int(np.count_nonzero(rows.outcome)) if drops_ties else len(rows)
        yield rows
        rejected = len(element.rows) - len(rows)
        yield TaggedOutput(TALLY, {"rows_rejected": rejected, "rows_kept": kept})


class _EncodePack(_Encoder):
    """Slice -> (partition, OwnedParcel), and a tally."""

    def __init__(
        self,
        job: ReduceComparisons,
        partitioning: Partitioning,
        spill: SpillFile | None,
        chunk_rows: int,
    ) -> None:
        super().__init__(job)
        self._partitioning = partitioning
        self._spill = spill
        self._chunk_rows = chunk_rows

    def start_bundle(self) -> None:
        self._waiting: list[OwnedRows] = []  # of several splits: many small files, large parcels

    def process(self, element: _Slice) -> Iterator[Any]:
        keyed_hash = KeyedHash(self._job.key.value)
        encoded = self._encoded(element, keyed_hash)
        place = None
        if self._job.columns.event is not None:
            place = _valid_rows(encoded) + ((element.number << ROW_BITS) + element.first)
        rows = own(encoded.rows, self._job.bounds.ties, keyed_hash, place)
        self._waiting.append(rows)
        if sum(map(len, self._waiting)) >= self._chunk_rows:
            yield from self._parcels()
        rejected = len(element.rows) - len(encoded.rows)
        yield TaggedOutput(TALLY, {"rows_rejected": rejected, "rows_sent": len(rows)})

    def finish_bundle(self) -> Iterator[Any]:
        yield from map(GlobalWindows.windowed_value, self._parcels())

    def _parcels(self) -> Iterator[tuple[int, OwnedParcel]]:
        waiting, self._waiting = self._waiting, []
        if waiting:
            yield from pack(OwnedRows.concatenate(waiting), self._partitioning, self._spill)


class _Bound(beam.DoFn):
    """(partition, parcels) -> Comparisons within the bounds, tallies, (split, rows in conflict)."""

    def __init__(self, job: ReduceComparisons, spill: SpillFile | None) -> None:
        self._job = job
        self._spill = spill

    def process(self, element: tuple[int, Iterable[OwnedParcel]]) -> Iterator[Any]:
        job = self._job
        most = MemoryPlan.of(job.memory_limit).partition_rows
        buckets = unpack(element[1], self._spill, most)
        for bounded in itertools.chain.from_iterable(map(self._bounded, buckets)):
            yield bounded.kept
            yield TaggedOutput(TALLY, bounded.tally)
            if len(bounded.conflicts):
                place = bounded.conflicts.place.view(np.int64)
                for number in np.unique(place >> ROW_BITS).tolist():
                    mine = place[place >> ROW_BITS == number] - (number << ROW_BITS)
                    yield TaggedOutput(CONFLICTS, (number, mine))

    def _bounded(self, bucket: Bucket) -> Iterable[Bounded]:
        job, keyed_hash = self._job, KeyedHash(self._job.key.value)
        most = MemoryPlan.of(job.memory_limit).rows_at_once
        if bucket.n_rows > most:
            return bound_crowded(bucket.pieces, bucket.n_rows, job.bounds, keyed_hash, most)
        return [bound_bucket(bucket.rows(), job.bounds, keyed_hash)]


class _SetConflictsAside(beam.DoFn):
    """(number of split, rows in conflict): read these again, to keep all their columns."""

    def __init__(self, job: ReduceComparisons, splits: list[Split]) -> None:
        self._job = job
        self._splits = splits

    def process(self, element: tuple[int, Iterable[NDArray[np.int64]]]) -> None:
        split, rows = self._splits[element[0]], np.sort(np.concatenate(list(element[1])))
        tables, first = [], 0
        for batch in read_batches(split):
            mine = rows[np.searchsorted(rows, first) :] - first
            mine = mine[: np.searchsorted(mine, len(batch.rows))]
            tables.append(pa.Table.from_batches([batch.rows]).take(pa.array(mine)))
            first += len(batch.rows)
        table = pa.concat_tables(tables)
        reasons = pa.array([CONFLICT] * len(table), pa.string())
        table = table.append_column("reason", reasons)
        set_aside(self._job.confidential, f"{split.name}#conflicts", table)


def _arrays(n_items: int, counts: NDArray[np.int64] | CellCounts) -> Arrays:
    if isinstance(counts, CellCounts):
        return arrays_of_sparse(counts.matrix(n_items))
    return {"counts": counts}


def _valid_rows(encoded: Sifted[Comparisons]) -> NDArray[np.int64]:
    """Where in its slice each of the valid rows was."""
    if encoded.valid is None:
        return np.arange(len(encoded.rows))
    return np.flatnonzero(encoded.valid)
