"""Reduce rankings to counts of private ones: read, encode, meet by person, privatise, count.

Only counts of private rankings leave this pipeline. They wait in the confidential folder, beside
the rows that broke a rule and the tallies, until the run marks them as released; if it never does,
nobody has seen them. Nothing is logged and no Beam metrics are kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from hushrank.estimation.rankings.ranking_counts import RankingCounts
from hushrank.pipelines.engine.memory_plan import MemoryPlan
from hushrank.pipelines.reduce.confidential_area import set_aside, set_batch_aside
from hushrank.pipelines.reduce.execution import execute
from hushrank.pipelines.reduce.rankings_job import ReduceRankings
from hushrank.pipelines.reduce.results import WriteArrays, WriteTally
from hushrank.privacy.bits_used import Purpose
from hushrank.privacy.keyed_hash import KeyedHash
from hushrank.privacy.randomness import RandomBits, system_bits
from hushrank.transforms.common.bits_tally import bits_tally
from hushrank.transforms.common.epsilons import read_epsilon_table
from hushrank.transforms.common.randomisation import law_of_rankings
from hushrank.transforms.comparisons.aggregate import TallyFn
from hushrank.transforms.engine.beam import TaggedOutput, beam
from hushrank.transforms.rankings.count_rankings import RankingCountsFn
from hushrank.transforms.rankings.crowded_rankings import (
    Kept,
    bound_in_turns,
    list_turns,
    long_turns,
)
from hushrank.transforms.rankings.private_rankings import randomize_rankings
from hushrank.transforms.rankings.ranking_blobs import (
    blob_of_pieces,
    blob_of_rankings,
)
from hushrank.transforms.rankings.ranking_columns import ListColumns, RankColumns, of_contest
from hushrank.transforms.rankings.rankings import (
    Rankings,
    assemble,
    bound_rankings,
    encode_lists,
    encode_ranks,
    split_pieces,
    split_rankings,
)
from hushrank.transforms.storage.read import Split, plan_files, read_batches
from hushrank.transforms.storage.spill_file import Parcel, SpillFile, fetch, park, size_of

PARTITION_RANKINGS = 250_000  # of ten items, sorted in memory at once: about 50 MB
PARTITION_ROWS = 2_500_000
MAX_PARTITIONS = 1 << 15
BLOCK_RANKINGS = 1 << 16  # privatised and counted at a time

TALLY, RANKINGS = "tally", "rankings"


def run(job: ReduceRankings) -> None:
    """Execute `job`; afterwards `job.confidential` holds its counts, tallies and rejects.

    Raises:
        InputError: a file cannot be read, or a row broke a rule under `fail_on_bad_rows`.
    """
    splits = plan(job)
    execute(job, lambda pipeline, spill: build(pipeline, job, splits, spill))


def plan(job: ReduceRankings) -> list[Split]:
    """The shares of the input that are read apart, from footers and headers only."""
    return plan_files(job.files, job.columns)


def build(
    pipeline: beam.Pipeline,
    job: ReduceRankings,
    splits: list[Split],
    spill: SpillFile | None = None,
) -> None:
    """Add the whole graph of `job` to `pipeline`.

    Args:
        pipeline: of any engine.
        job: what to reduce.
        splits: of `plan`.
        spill: where rankings wait for the others of their person, if all workers are in this
            process; None: the engine carries them.
    """
    wanted = PARTITION_ROWS if isinstance(job.columns, RankColumns) else PARTITION_RANKINGS
    n_partitions = min(max(sum(split.rows for split in splits) // wanted, 1), MAX_PARTITIONS)
    read = (
        pipeline
        | "Splits" >> beam.Create(splits)
        | beam.Reshuffle()
        | "ReadEncode"
        >> beam.ParDo(_ReadEncode(job, n_partitions, spill)).with_outputs(TALLY, main=RANKINGS)
    )
    private, tallies = read[RANKINGS], [read[TALLY]]
    if job.columns.user is not None:
        met = (
            private
            | "MeetPeople" >> beam.GroupByKey()
            | "Privatise" >> beam.ParDo(_Meet(job, spill)).with_outputs(TALLY, main=RANKINGS)
        )
        private = met[RANKINGS]
        tallies.append(met[TALLY])
    counts = private | "Count" >> beam.CombineGlobally(
        RankingCountsFn(len(job.catalogue), job.max_length, by_place=job.by_place)
    )
    tally = tuple(tallies) | beam.Flatten() | "Tally" >> beam.CombineGlobally(TallyFn())
    _ = counts | "WriteCounts" >> beam.ParDo(WriteArrays(job.confidential, RankingCounts.arrays))
    _ = tally | "WriteTally" >> beam.ParDo(WriteTally(job.confidential, job.bits))


class _ReadEncode(beam.DoFn):
    """Split -> PrivateRankings, or (partition, parcel of true ones) where people must meet."""

    def __init__(self, job: ReduceRankings, n_partitions: int, spill: SpillFile | None) -> None:
        self._job = job
        self._n_partitions = n_partitions
        self._spill = spill

    def setup(self) -> None:
        _require_law(self._job)
        path = self._job.epsilons.table
        self._table = None if path is None else read_epsilon_table(path)
        self._hash = KeyedHash(self._job.key.value)

    def process(self, split: Split) -> Iterator[Any]:
        job = self._job
        tally = Counter({"rows_read": 0, "rows_rejected": 0})
        for number, batch in enumerate(read_batches(split)):
            rows = batch.rows
            if job.contest is not None and job.columns.contest is not None:
                rows = of_contest(rows, job.columns.contest, job.contest)
            outputs, rejected = self._encoded(rows)
            rejects = [] if rejected is None else [rejected]
            tally.update(set_batch_aside(job.confidential, split, number, batch, rejects))
            yield from outputs
        yield TaggedOutput(TALLY, tally)

    def _encoded(self, rows: pa.RecordBatch) -> tuple[Iterator[Any], pa.Table | None]:
        job = self._job
        columns, how = job.columns, (job.catalogue, job.epsilons, self._table, self._hash)
        if isinstance(columns, ListColumns):
            lists = encode_lists(rows, columns, *how, job.max_length)
            return self._lists(lists.rows), lists.rejects
        ranks = encode_ranks(rows, columns, *how)
        parts = split_pieces(ranks.rows, self._n_partitions)
        parcels = ((place, park(blob_of_pieces(part), self._spill)) for place, part in parts)
        return parcels, ranks.rejects

    def _lists(self, rankings: Rankings) -> Iterator[Any]:
        if rankings.owner is None:
            yield from _private(rankings, self._job)
            return
        for place, part in split_rankings(rankings, self._n_partitions):
            yield place, park(blob_of_rankings(part), self._spill)


class _Meet(beam.DoFn):
    """(partition, parcels of true rankings) -> PrivateRankings, within each person's bound."""

    def __init__(self, job: ReduceRankings, spill: SpillFile | None) -> None:
        self._job = job
        self._spill = spill

    def setup(self) -> None:
        _require_law(self._job)

    def process(self, element: tuple[int, Iterable[Parcel]]) -> Iterator[Any]:
        partition, parcels = element
        n_bytes = sum(map(size_of, parcels))
        at_once = MemoryPlan.of(self._job.memory_limit).packed_bytes
        rejected: list[int] = []
        coins = system_bits() if self._job.break_ties else None
        turns = self._turns(partition, parcels, n_bytes, at_once, coins, rejected)
        most, bits = self._job.max_rankings, system_bits()
        if n_bytes <= at_once:
            (rankings,) = turns
            kept = Kept(bound_rankings(rankings, most, bits), len(rankings))
        else:
            kept = bound_in_turns(turns, most, bits)
        yield from _private(kept.rankings, self._job)
        tally = {"rankings_with_owner": kept.seen, "rankings_kept": len(kept.rankings)}
        drawn = bits_tally(Purpose.ROW_CHOICE, bits.used)
        drawn |= {} if coins is None else bits_tally(Purpose.COINS, coins.used)
        yield TaggedOutput(TALLY, {"rows_rejected": sum(rejected), **tally, **drawn})

    def _turns(
        self,
        partition: int,
        parcels: Iterable[Parcel],
        n_bytes: int,
        at_once: int,
        coins: RandomBits | None,
        rejected: list[int],
    ) -> Iterator[Rankings]:
        """Valid rankings, in one turn where they fit; counts of refused rows go to `rejected`."""
        job = self._job

        def blobs() -> Iterator[bytes]:
            return (fetch(parcel, self._spill) for parcel in parcels)

        if isinstance(job.columns, ListColumns):
            yield from list_turns(blobs, at_once)
            return
        for turn, pieces in enumerate(long_turns(blobs, n_bytes, at_once)):
            found = assemble(pieces, job.catalogue, job.max_length, coins)
            if found.rejects is not None:
                set_aside(job.confidential, f"partition {partition}.{turn}", found.rejects)
                rejected.append(len(found.rejects))
            yield found.rows


def _private(rankings: Rankings, job: ReduceRankings) -> Iterator[Any]:
    """Private rankings, some at a time, so that what is between stays small; a tally of bits."""
    bits = system_bits()
    for block in rankings.blocks(BLOCK_RANKINGS):
        yield randomize_rankings(block, job.mechanism, bits, already_private=job.already_private)
    yield TaggedOutput(TALLY, bits_tally(Purpose.RANDOMISATION, bits.used))


def _require_law(job: ReduceRankings) -> None:
    if job.law is not None:
        ends = (job.epsilons.low, job.epsilons.high)
        job.law.require(law_of_rankings(job.mechanism, *ends, job.max_length))
