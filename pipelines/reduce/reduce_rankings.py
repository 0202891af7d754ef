"""How rankings are reduced to counts of private ones: encoded, put together, bounded, randomised.

Only counts of private rankings, or of private answers to random pairs, leave the graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TypedDict

import pyarrow as pa

from hushrank.estimation.rankings.pair_answer_counts import PairAnswerCounts
from hushrank.estimation.rankings.ranking_counts import RankingCounts
from hushrank.pipelines.reduce.kind import Kind, Parcels, partitions_of, slices
from hushrank.pipelines.reduce.rankings_job import ReduceRankings
from hushrank.pipelines.reduce.results import Arrays
from hushrank.privacy.bits_used import Purpose
from hushrank.privacy.random_pairs import PairAnswers
from hushrank.privacy.randomness import system_bits
from hushrank.transforms.common.bits_tally import bits_tally
from hushrank.transforms.common.encode import Sifted
from hushrank.transforms.common.epsilons import EpsilonTable, read_epsilon_table
from hushrank.transforms.common.randomisation import law_of_pairs, law_of_rankings
from hushrank.transforms.engine.beam import beam
from hushrank.transforms.rankings.bound_rankings import bound_rankings, ranking_numbers
from hushrank.transforms.rankings.count_rankings import PairAnswersFn, RankingCountsFn
from hushrank.transforms.rankings.pair_answers import answer_rankings, encode_pair_answers
from hushrank.transforms.rankings.private_rankings import PrivateRankings, randomize_rankings
from hushrank.transforms.rankings.ranking_blobs import (
    blob_of_pieces,
    blob_of_rankings,
    pieces_of_blob,
    rankings_of_blob,
)
from hushrank.transforms.rankings.ranking_columns import (
    ListColumns,
    PairColumns,
    RankColumns,
    of_contest,
)
from hushrank.transforms.rankings.rankings import (
    Pieces,
    Rankings,
    assemble,
    encode_lists,
    encode_ranks,
    split_pieces,
    split_rankings,
)
from hushrank.transforms.rankings.ranks import RankReading, ranked_rows
from hushrank.transforms.rankings.ties import break_ties, random_coins
from hushrank.transforms.rankings.wide import encode_wide
from hushrank.transforms.storage.spill_file import Parcel, Spill, SpillFile, park
from hushrank.transforms.storage.split import Split

PARTITION_ITEMS = 2_500_000  # ranked ones, sorted in memory at once: about 50 MB
LIST_ITEMS = 10  # of a ranking in list form, about: only steers how the work is cut
CROWD = 2  # times as many items as a partition should have are not bounded at once
MAX_PARTITIONS = 1 << 15
BLOCK_RANKINGS = 1 << 16  # privatised and counted at a time, so that what is between stays small


Private = PrivateRankings | PairAnswers


class _OfRanks(TypedDict):
    keep_ties: bool
    reading: RankReading


class RankingsKind(Kind[ReduceRankings]):
    """Rows are `Pieces` in long form, otherwise `Rankings`; `Private` ones are counted."""

    _table: EpsilonTable | None = None

    @property
    def encode_rows(self) -> int:
        return BLOCK_RANKINGS

    def setup(self) -> None:
        job, epsilons = self.job, self.job.epsilons
        if job.law is not None:
            ends = (epsilons.low, epsilons.high)
            if job.pairs is not None:
                job.law.require(law_of_pairs(job.pairs))
            else:
                job.law.require(law_of_rankings(job.mechanism, *ends, job.max_length))
        if epsilons.table is not None and self._table is None:
            self._table = read_epsilon_table(epsilons.table)

    def encode(
        self, batch: pa.RecordBatch, place: int, split: Split
    ) -> Sifted[Rankings] | Sifted[Pieces] | Sifted[Private] | Sifted[PairAnswers]:
        job, columns = self.job, self.job.columns
        if isinstance(columns, PairColumns):
            if job.pairs is None or not job.already_private:
                raise ValueError("columns of private answers need their law")
            given = encode_pair_answers(batch, columns, job.catalogue, job.pairs, job.max_length)
            return Sifted(given.rows, given.rejects, given.valid)
        if job.contest is not None and columns.contest is not None:
            batch = of_contest(batch, columns.contest, job.contest)
        how = (job.catalogue, job.epsilons, self._table, self.keyed_hash)
        if isinstance(columns, RankColumns):
            return encode_ranks(ranked_rows(batch, columns.rank, job.reading), columns, *how)
        if isinstance(columns, ListColumns):
            lists = encode_lists(batch, columns, *how, job.max_length)
        else:
            wide = encode_wide(batch, columns, *how, job.max_length, **self._of_ranks)
            lists = self._without_ties(wide)
        if self.meets_owners:
            return lists
        private = self._private(lists.rows)
        return Sifted(private.rows, lists.rejects, tally={**private.tally, **lists.tally})

    @property
    def _of_ranks(self) -> _OfRanks:
        """How ranks are read."""
        return {"keep_ties": self.job.break_ties, "reading": self.job.reading}

    def assembled(self, pieces: Pieces) -> Sifted[Rankings]:
        """Whole rankings of their pieces, and those that break a rule."""
        job = self.job
        return assemble(pieces, job.catalogue, job.max_length, **self._of_ranks)

    def _without_ties(self, found: Sifted[Rankings]) -> Sifted[Rankings]:
        """Break ties by coins that are drawn here."""
        bits = system_bits()
        rows = break_ties(found.rows, random_coins(bits))
        return replace(found, rows=rows, tally=bits_tally(Purpose.COINS, bits.used))

    def _private(self, rankings: Rankings) -> Sifted[Private]:
        job, bits = self.job, system_bits()
        private: Private
        if job.pairs is not None:
            private = answer_rankings(rankings, len(job.catalogue), job.pairs, bits)
        else:
            private = randomize_rankings(
                rankings, job.mechanism, bits, already_private=job.already_private
            )
        return Sifted(private, tally=bits_tally(Purpose.RANDOMISATION, bits.used))

    def partitions(self, n_rows: int) -> int:
        items = n_rows if isinstance(self.job.columns, RankColumns) else n_rows * LIST_ITEMS
        return partitions_of(items, self._partition_items, MAX_PARTITIONS)

    @property
    def _partition_items(self) -> int:
        """Ranked items that are bounded at once, about."""
        return min(PARTITION_ITEMS, self.memory.rows_at_once)

    def pack(
        self, rows: list[Rankings] | list[Pieces], partitions: int, spill: SpillFile | None
    ) -> Parcels:
        if isinstance(rows[0], Rankings):
            for place, part in split_rankings(Rankings.concatenated(rows), partitions):
                yield place, (len(part.items), park(blob_of_rankings(part), spill))
        else:
            for place, pieces in split_pieces(Pieces.concatenated(rows), partitions):
                yield place, (len(pieces.rank), park(blob_of_pieces(pieces), spill))

    def bound(
        self, parcels: Iterable[tuple[int, Parcel]], spill: Spill | None
    ) -> Iterator[Sifted[Private] | Sifted[None]]:
        job, bits = self.job, system_bits()
        in_pieces = isinstance(job.columns, RankColumns)
        most = CROWD * self._partition_items
        whole: Iterable[Sifted[Rankings]]
        if not in_pieces:
            whole = map(Sifted, slices(parcels, spill, rankings_of_blob, most))
        else:
            parts = slices(parcels, spill, pieces_of_blob, most, ranking_numbers)
            whole = map(self._without_ties, map(self.assembled, parts))
        kept = yield from bound_rankings(map(counted_whole, whole), job.max_rankings, bits)
        tally = {"rankings_kept": len(kept)} | bits_tally(Purpose.ROW_CHOICE, bits.used)
        yield Sifted(None, tally=tally)
        for block in kept.blocks(BLOCK_RANKINGS):
            yield self._private(block)

    def combine(self) -> beam.CombineFn:
        job = self.job
        if job.pairs is not None:
            return PairAnswersFn(len(job.catalogue), job.max_length, job.pairs)
        return RankingCountsFn(len(job.catalogue), job.max_length, by_place=job.by_place)

    def arrays(self, total: RankingCounts | PairAnswerCounts) -> Arrays:
        return {**total.arrays()}


def counted_whole(found: Sifted[Rankings]) -> Sifted[Rankings]:
    """With a tally of the rankings that break no rule."""
    return replace(found, tally={**found.tally, "rankings_with_owner": len(found.rows)})
