"""How true rankings are reduced to exact counts, to which noise is added afterwards, once.

Rows meet as in `reduce_rankings`, but nothing is randomised here: the counts are confidential. What
a person contributes, and how ties end, is decided by the run's key and the person's own rankings
alone, so a bundle that is retried counts the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from hushrank.pipelines.reduce.kind import slices
from hushrank.pipelines.reduce.rankings_job import CountRankings
from hushrank.pipelines.reduce.reduce_rankings import (
    BLOCK_RANKINGS,
    CROWD,
    RankingsKind,
    counted_whole,
)
from hushrank.transforms.common.encode import Sifted
from hushrank.transforms.common.epsilons import EpsilonSource
from hushrank.transforms.engine.beam import beam
from hushrank.transforms.rankings.bound_rankings import (
    bound_by,
    keyed_priorities,
    ranking_numbers,
)
from hushrank.transforms.rankings.count_rankings import RankingCountsFn
from hushrank.transforms.rankings.ranking_blobs import pieces_of_blob, rankings_of_blob
from hushrank.transforms.rankings.ranking_columns import ListColumns, RankColumns, of_contest
from hushrank.transforms.rankings.rankings import (
    KeyedCoins,
    Pieces,
    Rankings,
    assemble,
    encode_lists,
    encode_ranks,
)
from hushrank.transforms.rankings.wide import encode_wide
from hushrank.transforms.storage.spill_file import Parcel, Spill

NO_EPSILONS = EpsilonSource(low=1.0, high=1.0, value=1.0)  # rows have none of their own


class CountRankingsKind(RankingsKind):
    """Rows are those of `RankingsKind`; `Rankings` are counted, true ones."""

    job: CountRankings  # type: ignore[assignment]  # inherited methods read what both jobs have

    def __init__(self, job: CountRankings) -> None:
        self.job = job

    def setup(self) -> None:
        """Nothing is drawn here."""

    def encode(self, batch: pa.RecordBatch, place: int) -> Sifted[Any]:
        """`Pieces` of a batch in long form, else `Rankings`."""
        job, columns = self.job, self.job.columns
        if job.contest is not None and columns.contest is not None:
            batch = of_contest(batch, columns.contest, job.contest)
        how = (job.catalogue, NO_EPSILONS, None, self.keyed_hash)
        if isinstance(columns, ListColumns):
            return encode_lists(batch, columns, *how, job.max_length)
        if isinstance(columns, RankColumns):
            return encode_ranks(batch, columns, *how)
        coins = KeyedCoins(self.keyed_hash) if job.break_ties else None
        return encode_wide(batch, columns, *how, job.max_length, coins, place)

    def bound(
        self, parcels: Iterable[tuple[int, Parcel]], spill: Spill | None
    ) -> Iterator[Sifted[Any]]:
        """At most L rankings of each person."""
        job, most = self.job, CROWD * self._partition_items
        kept = yield from bound_by(
            map(counted_whole, self._whole(parcels, spill, most)),
            job.max_rankings,
            keyed_priorities(self.keyed_hash),
        )
        yield Sifted(None, tally={"rankings_kept": len(kept)})
        for block in kept.blocks(BLOCK_RANKINGS):
            yield Sifted(block)

    def _whole(
        self, parcels: Iterable[tuple[int, Parcel]], spill: Spill | None, most: int
    ) -> Iterator[Sifted[Rankings]]:
        """Rankings of a partition, slice by slice, and beside them those that break a rule."""
        job = self.job
        if not isinstance(job.columns, RankColumns):
            lists: Iterable[Rankings] = slices(parcels, spill, rankings_of_blob, most)
            yield from (Sifted(rankings) for rankings in lists)
            return
        coins = KeyedCoins(self.keyed_hash) if job.break_ties else None
        parts: Iterable[Pieces] = slices(parcels, spill, pieces_of_blob, most, ranking_numbers)
        for part in parts:
            yield assemble(part, job.catalogue, job.max_length, coins)

    def combine(self) -> beam.CombineFn:
        """Counts of pairs, places and nets."""
        job = self.job
        return RankingCountsFn(len(job.catalogue), job.max_length, by_place=False)
