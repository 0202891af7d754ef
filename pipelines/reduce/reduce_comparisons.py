"""How comparisons are reduced to counts: encoded, packed by owner, bounded, summed."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from functools import partial

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hushrank.estimation.common.matrices import MOST_DENSE_ITEMS, arrays_of_sparse
from hushrank.estimation.common.sparse_counts import CellCounts
from hushrank.pipelines.reduce.confidential_area import read_tally
from hushrank.pipelines.reduce.kind import Kind, Parcels
from hushrank.pipelines.reduce.reduction_job import EXACT_FILE, ReduceComparisons, Statistic
from hushrank.pipelines.reduce.results import Arrays
from hushrank.transforms.common.encode import Comparisons, Sifted, encode_comparisons
from hushrank.transforms.common.schema import Ties
from hushrank.transforms.comparisons.aggregate import (
    PairCountsFn,
    SparsePairCountsFn,
    WinCountsFn,
)
from hushrank.transforms.comparisons.bound import Bounded, bound_bucket
from hushrank.transforms.comparisons.crowded import Pieces, bound_crowded
from hushrank.transforms.comparisons.owned_rows import OwnedRows, own
from hushrank.transforms.comparisons.shuffle import OwnedParcel, Partitioning, pack, unpack
from hushrank.transforms.comparisons.votes import Votes, refusals, votes_of, without_refusals
from hushrank.transforms.engine.beam import beam
from hushrank.transforms.storage.spill_file import SpillFile
from hushrank.transforms.storage.write import read_whole

COMBINE = {Statistic.WIN_COUNTS: WinCountsFn, Statistic.PAIR_COUNTS: PairCountsFn}


class ComparisonsKind(Kind[ReduceComparisons]):
    """Rows are `OwnedRows` where owners meet, else `Comparisons`, as what is counted."""

    @property
    def meets_owners(self) -> bool:
        return self.job.meets_owners

    @property
    def reads_again(self) -> bool:
        return self.job.columns.event is not None

    def encode(self, batch: pa.RecordBatch, place: int) -> Sifted[OwnedRows | Comparisons]:
        job, keyed_hash = self.job, self.keyed_hash if self.meets_owners else None
        found = encode_comparisons(batch, job.columns, job.catalogue, keyed_hash)
        if keyed_hash is None:
            drops_ties = job.bounds.ties is Ties.DROP
            kept = np.count_nonzero(found.rows.outcome) if drops_ties else len(found.rows)
            return Sifted(found.rows, found.rejects, found.valid, tally={"rows_kept": int(kept)})
        places = None
        if job.columns.event is not None:
            valid = np.arange(len(batch)) if found.valid is None else np.flatnonzero(found.valid)
            places = valid + place
        rows = own(found.rows, job.bounds.ties, keyed_hash, places)
        tally = {"rows_sent": len(rows)}
        if job.people_vote:
            refused = refusals(found.rejects, job.columns, keyed_hash)
            tally["refusals_sent"] = len(refused)
            rows = OwnedRows.concatenate([rows, refused])
        return Sifted(rows, found.rejects, found.valid, tally=tally)

    def partitions(self, n_rows: int) -> Partitioning:
        return Partitioning.of_rows(n_rows, self.memory.partition_rows)

    def pack(
        self, rows: list[OwnedRows], partitions: Partitioning, spill: SpillFile | None
    ) -> Parcels:
        return pack(OwnedRows.concatenate(rows), partitions, spill)

    def bound(
        self, parcels: Iterable[OwnedParcel], spill: SpillFile | None
    ) -> Iterator[Sifted[Comparisons | None]]:
        for bucket in unpack(parcels, spill, self.memory.partition_rows):
            crowded = bucket.n_rows > self.memory.rows_at_once
            pieces: Pieces = bucket.pieces if crowded else partial(_whole, bucket.rows())
            n_rows = bucket.n_rows
            if self.job.people_vote:
                votes = votes_of(pieces())
                yield Sifted(None, tally=_tally_of(votes))
                pieces, n_rows = partial(_comparisons_of, pieces), n_rows - votes.refusals
            for bounded in self._bounded(pieces, n_rows, crowded=crowded):
                places = None
                if len(bounded.conflicts):
                    places = bounded.conflicts.place.view(np.int64)
                yield Sifted(bounded.kept, places=places, tally=bounded.tally)

    def _bounded(self, pieces: Pieces, n_rows: int, *, crowded: bool) -> Iterable[Bounded]:
        bounds, most = self.job.bounds, self.memory.rows_at_once
        if crowded:
            return bound_crowded(pieces, n_rows, bounds, self.keyed_hash, most)
        (rows,) = pieces()
        return [bound_bucket(rows, bounds, self.keyed_hash)]

    def combine(self) -> beam.CombineFn:
        """Pairs of many items are summed to sparse counts."""
        n_items, combine = len(self.job.catalogue), COMBINE[self.job.statistic]
        if self.job.statistic is Statistic.PAIR_COUNTS and n_items > MOST_DENSE_ITEMS:
            combine = SparsePairCountsFn
        return combine(n_items, self.job.bounds.ties)

    def arrays(self, total: NDArray[np.int64] | CellCounts) -> Arrays:
        if isinstance(total, CellCounts):
            return arrays_of_sparse(total.matrix(len(self.job.catalogue)))
        return {"counts": total}

    def check(self) -> None:
        """Raise unless every row that was sent arrived and every one that was kept counted once.

        Engines promise that. Beam's own local one breaks it when it runs `multi_threading`.
        """
        tally = read_tally(self.job.confidential)
        exact = io.BytesIO(read_whole(f"{self.job.confidential}/{EXACT_FILE}"))
        with np.load(exact) as arrays:
            counted = int(arrays["counts"].sum())
        arrived = all(
            tally.get(sent, 0) == tally.get(met, 0)
            for sent, met in (("rows_sent", "rows_with_owner"), ("refusals_sent", "refusals_met"))
        )
        if not arrived or counted != self.job.bounds.ties.row_weight * tally.get("rows_kept", 0):
            raise RuntimeError(
                "the engine lost or repeated rows; nothing was released: run it again"
            )


def _whole(rows: OwnedRows) -> Iterator[OwnedRows]:
    yield rows


def _comparisons_of(pieces: Pieces) -> Iterator[OwnedRows]:
    return map(without_refusals, pieces())


def _tally_of(votes: Votes) -> dict[str, int]:
    return {
        "people_fit": votes.fit,
        "people_unfit": votes.unfit,
        "refusals_met": votes.refusals,
    }
