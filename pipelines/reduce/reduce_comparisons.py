"""Reduction of comparisons to counts: encoded, packed by owner, bounded, summed."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from hushrank.estimation.common.covariates import CovariateCounts
from hushrank.estimation.common.matrices import MOST_DENSE_ITEMS, CellCounts, arrays_of_sparse
from hushrank.pipelines.reduce.kind import Arrays, Kind, ShuffleBlocks
from hushrank.pipelines.reduce.reduction_job import (
    EXACT_FILE,
    ReduceComparisons,
    Statistic,
    read_tally,
)
from hushrank.privacy.keyed_hash import KeyedHash
from hushrank.transforms.common.catalogue import Naming
from hushrank.transforms.common.encode import Comparisons, Sifted, encode_comparisons
from hushrank.transforms.common.schema import ComparisonColumns, Ties
from hushrank.transforms.comparisons.aggregate import (
    PairCountsFn,
    SparsePairCountsFn,
    TieCountsFn,
    WeightedPairCountsFn,
    WeightedWinCountsFn,
    WinCountsFn,
    WinLossCountsFn,
)
from hushrank.transforms.comparisons.bound import (
    SQUARES,
    SQUARES_KEPT,
    UNITS_KEPT,
    Bounded,
    Counting,
    Pieces,
    bound_bucket,
    tally_of_weights,
)
from hushrank.transforms.comparisons.shuffle import (
    Bucket,
    Carried,
    OwnedRows,
    OwnedShuffleBlock,
    Partitioning,
    own,
    pack,
    unpack,
)
from hushrank.transforms.comparisons.votes import refusals, votes_of, without_refusals
from hushrank.transforms.engine.beam import beam
from hushrank.transforms.storage.places import read_whole
from hushrank.transforms.storage.spill_file import Spill, SpillFile
from hushrank.transforms.storage.split import Split

if TYPE_CHECKING:  # loaded for streams, and where people have more rows than fit into memory
    from hushrank.pipelines.reduce.stream_nights import NightPeople, PartitionOfPeople
    from hushrank.transforms.streams.people_files import Shard

COMBINE = {
    Statistic.WIN_COUNTS: WinCountsFn,
    Statistic.WIN_LOSS_COUNTS: WinLossCountsFn,
    Statistic.PAIR_COUNTS: PairCountsFn,
    Statistic.TIE_COUNTS: TieCountsFn,
}
WEIGHTED = {
    Statistic.WIN_COUNTS: WeightedWinCountsFn,
    Statistic.PAIR_COUNTS: WeightedPairCountsFn,
}


class ComparisonsKind(Kind[ReduceComparisons]):
    """Rows are `OwnedRows` where owners meet, else `Comparisons`, as what is counted."""

    def __init__(self, job: ReduceComparisons) -> None:
        """Raises `InputError` where the people of the night before are missing, or others."""
        super().__init__(job)
        self._people: NightPeople | None = None
        if job.stream is not None:
            from hushrank.pipelines.reduce import stream_nights

            self._people = stream_nights.NightPeople(job.stream)
        self._bounds = replace(job.bounds, carried=_carried(job.columns))

    @property
    def reads_again(self) -> bool:
        return self.job.columns.event is not None

    def answers_of(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if not self.job.columns.pairs:
            return batch
        from hushrank.transforms.comparisons.pair_cells import answers_of_cells

        return answers_of_cells(batch, self.job.columns)

    def encode(
        self, batch: pa.RecordBatch, place: int, split: Split | None
    ) -> Sifted[OwnedRows | Comparisons]:
        job, keyed_hash = self.job, self.keyed_hash if self.meets_owners else None
        pseudonyms, naming = keyed_hash, Naming.BARE
        if self._people is not None:
            pseudonyms, naming = self._people.keyed_hash, self._people.naming
        found = _encoded(batch, job, pseudonyms, naming)
        if keyed_hash is None:
            drops_ties = job.bounds.ties is Ties.DROP
            kept = np.count_nonzero(found.rows.outcome) if drops_ties else len(found.rows)
            tally = {"rows_kept": int(kept)}
            if self.job.weighted:
                tally |= self._weights(found.rows)
            return Sifted(found.rows, found.rejects, found.valid, tally=tally)
        places = None
        if job.columns.event is not None:
            valid = np.arange(len(batch)) if found.valid is None else np.flatnonzero(found.valid)
            places = valid + place
        n_covariates = job.columns.n_covariates
        rows = own(found.rows, job.bounds.ties, keyed_hash, places, n_covariates)
        tally = {"rows_sent": len(rows)}
        if job.people_vote:
            refused = refusals(found.rejects, job.columns, keyed_hash)
            tally["refusals_sent"] = len(refused)
            rows = OwnedRows.concatenate([rows, refused])
        return Sifted(rows, found.rejects, found.valid, tally=tally)

    def votes_against(self, batch: pa.RecordBatch, split: Split | None) -> Sifted[Any]:
        if not self.job.people_vote:
            return Sifted(())
        refused = refusals(pa.Table.from_batches([batch]), self.job.columns, self.keyed_hash)
        return Sifted(refused, tally={"refusals_sent": len(refused)})

    def _weights(self, rows: Comparisons) -> dict[str, int]:
        """The tally of weights of rows that are counted as they are; ties count if not dropped."""
        if self.job.bounds.ties is Ties.DROP:
            rows = rows.take(rows.outcome != 0)
        return tally_of_weights(rows)

    def partitions(self, n_rows: int) -> Partitioning:
        if self._people is not None:
            n_rows = max(n_rows, self._people.n_people)
        return Partitioning.of_rows(n_rows, self.memory.partition_rows)

    def number_of(self, partitions: Partitioning) -> int:
        return 1 << partitions.partition_bits

    def joins(self, partitions: Partitioning) -> list[tuple[int, PartitionOfPeople]]:
        return [] if self._people is None else self._people.joins(partitions)

    def pack(
        self, rows: list[OwnedRows], partitions: Partitioning, spill: SpillFile | None
    ) -> ShuffleBlocks:
        return pack(OwnedRows.concatenate(rows), partitions, spill)

    def bound(
        self, shuffle_blocks: Iterable[OwnedShuffleBlock | PartitionOfPeople], spill: Spill | None
    ) -> Iterator[Sifted[Comparisons | None] | Shard]:
        for counting in self._counting(shuffle_blocks, spill):
            if not isinstance(counting, Counting):
                yield counting
                continue
            if counting.tally:
                yield Sifted(None, tally=counting.tally)
            for bounded in self._bounded(counting):
                places = None
                if len(bounded.conflicts):
                    places = bounded.conflicts.place.view(np.int64)
                yield Sifted(bounded.kept, places=places, tally=bounded.tally)

    def _counting(
        self, shuffle_blocks: Iterable[Any], spill: Spill | None
    ) -> Iterator[Counting | Shard]:
        """Bucket by bucket the rows that may count; of a stream, then who has counted."""
        memory = self.memory
        if self._people is not None:
            at_once, waiting = memory.rows_at_once, memory.partition_rows
            yield from self._people.counting(shuffle_blocks, spill, at_once, waiting)
            return
        for bucket in unpack(shuffle_blocks, spill, memory.partition_rows):
            if self.job.people_vote:
                yield _voted(bucket, memory.rows_at_once)
            else:
                yield Counting(bucket.pieces, bucket.n_rows, {})

    def _bounded(self, rows: Counting) -> Iterable[Bounded]:
        most = self.memory.rows_at_once
        if rows.n_rows > most:
            from hushrank.transforms.comparisons.heavy_users import bound_heavy_users

            return bound_heavy_users(
                rows.pieces, rows.n_rows, self._bounds, self.keyed_hash, most, rows.admit
            )
        together = OwnedRows.concatenate(list(rows.pieces()))
        return [bound_bucket(together, self._bounds, self.keyed_hash, rows.admit)]

    def combine(self) -> beam.CombineFn:
        """Pairs of many items are summed to sparse counts."""
        n_items, ties, groups = len(self.job.catalogue.names), self.job.bounds.ties, self.job.groups
        if self.job.statistic is Statistic.COVARIATE_COUNTS:
            from hushrank.transforms.comparisons.covariate_counts import CovariateCountsFn

            n_groups = 1 if groups is None else len(groups)
            return CovariateCountsFn(n_items, self.job.columns.n_covariates, ties, n_groups)
        if self.job.weighted:
            return WEIGHTED[self.job.statistic](n_items, ties)
        if groups is not None:
            return COMBINE[self.job.statistic](n_items, ties, len(groups))
        if self.job.statistic is Statistic.PAIR_COUNTS and n_items > MOST_DENSE_ITEMS:
            return SparsePairCountsFn(n_items, ties)
        return COMBINE[self.job.statistic](n_items, ties)

    def arrays(self, total: Any) -> Arrays:
        if self._people is not None:
            from hushrank.pipelines.reduce.stream_nights import arrays_of_night

            return arrays_of_night(total[1])
        if isinstance(total, CovariateCounts):
            return total.arrays()
        if isinstance(total, dict):  # the total of weighted rows
            return total
        if isinstance(total, CellCounts):
            return arrays_of_sparse(total.matrix(len(self.job.catalogue.names)))
        return {"counts": total}

    def check(self, n_rows: int) -> None:
        """Raise unless every row that was sent arrived and every one that was kept counted once.

        Engines promise that. Beam's own local one breaks it when it runs `multi_threading`.
        """
        tally = read_tally(self.job.results)
        exact = io.BytesIO(read_whole(f"{self.job.results}/{EXACT_FILE}"))
        with np.load(exact) as arrays:
            overlap = self.job.groups is not None and self.job.groups.most is not None
            counted = int((arrays["counts"][-1] if overlap else arrays["counts"]).sum())
            squares = int(arrays[SQUARES].sum()) if self.job.weighted else 0
        kept = UNITS_KEPT if self.job.weighted else "rows_kept"
        arrived = all(
            tally.get(sent, 0) == tally.get(met, 0)
            for sent, met in (("rows_sent", "rows_with_owner"), ("refusals_sent", "refusals_met"))
        )
        cells = self.job.statistic.cells_of_a_row
        whole = counted == cells * self.job.bounds.ties.row_weight * tally.get(kept, 0)
        if not (arrived and whole and squares == tally.get(SQUARES_KEPT, 0)):
            raise RuntimeError(
                "the engine lost or repeated rows; nothing was released: run it again"
            )


def _encoded(
    batch: pa.RecordBatch, job: ReduceComparisons, keyed_hash: KeyedHash | None, naming: Naming
) -> Sifted[Comparisons]:
    """The valid rows, with covariates if the job counts by them."""
    how = (job.columns, job.catalogue, keyed_hash)
    if not job.columns.n_covariates:
        asked = None if job.asked is None else np.array(job.asked, np.int64)
        return encode_comparisons(batch, *how, groups=job.groups, naming=naming, asked=asked)
    from hushrank.transforms.comparisons.covariate_counts import covariates_of

    covariates = covariates_of(batch, job.columns, job.catalogue)
    found = encode_comparisons(batch, *how, covariates.rules, groups=job.groups, naming=naming)
    words = covariates.words if found.valid is None else covariates.words[found.valid]
    return replace(found, rows=replace(found.rows, covariates=words))


def _carried(columns: ComparisonColumns) -> Carried:
    """Facts that rows carry beside their pair and outcome."""
    found = Carried.NOTHING
    for carried, given in (
        (Carried.GROUPS, columns.group is not None),
        (Carried.WEIGHTS, columns.weight is not None),
        (Carried.COVARIATES, columns.n_covariates > 0),
        (Carried.SETS, columns.sets is not None),
    ):
        found |= carried if given else Carried.NOTHING
    return found


def _voted(bucket: Bucket, rows_at_once: int) -> Counting:
    """The comparisons of a bucket, and the votes of its people in the tally."""
    pieces: Pieces = bucket.pieces
    if bucket.n_rows <= rows_at_once:
        pieces = partial(iter, [bucket.rows()])  # read once
    votes = votes_of(pieces())
    tally = {
        "people_fit": votes.fit,
        "people_unfit": votes.unfit,
        "people_unlisted": votes.unlisted,
        "refusals_met": votes.refusals,
    }
    return Counting(partial(_comparisons, pieces), bucket.n_rows - votes.refusals, tally)


def _comparisons(pieces: Pieces) -> Iterator[OwnedRows]:
    return map(without_refusals, pieces())
