"""How true rankings are reduced to exact counts, to which noise is added afterwards, once.

Rows meet as in `reduce_rankings`, but nothing is randomised here: the counts are confidential. What
a person contributes, and how ties end, is decided by the run's key and the person's own rankings
alone, so a bundle that is retried counts the same. Equal rankings of people whom nobody names meet
to be numbered, because each of them gets coins of its own (`transforms.rankings.ties`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from hushrank.pipelines.reduce.kind import Parcels, pack_votes, slices, votes_met, with_votes
from hushrank.pipelines.reduce.rankings_job import CountRankings
from hushrank.pipelines.reduce.reduce_rankings import (
    BLOCK_RANKINGS,
    CROWD,
    RankingsKind,
    counted_whole,
)
from hushrank.transforms.common.encode import Sifted
from hushrank.transforms.common.epsilons import EpsilonSource
from hushrank.transforms.common.sorting import Words
from hushrank.transforms.engine.beam import beam
from hushrank.transforms.rankings.bound_rankings import bound_by, ranking_numbers
from hushrank.transforms.rankings.count_rankings import RankingCountsFn
from hushrank.transforms.rankings.ranking_blobs import (
    has_copies,
    pieces_of_blob,
    rankings_of_blob,
)
from hushrank.transforms.rankings.ranking_columns import ListColumns, RankColumns, of_contest
from hushrank.transforms.rankings.rankings import (
    Pieces,
    Rankings,
    encode_lists,
    encode_ranks,
    owners,
)
from hushrank.transforms.rankings.ranks import ranked_rows
from hushrank.transforms.rankings.ties import (
    count_copies,
    each_copy,
    hash_owned,
    merge_copies,
    without_names,
)
from hushrank.transforms.rankings.wide import encode_wide
from hushrank.transforms.storage import preflib
from hushrank.transforms.storage.files import FileFormat
from hushrank.transforms.storage.spill_file import Parcel, Spill, SpillFile, fetch
from hushrank.transforms.storage.split import Split

NO_EPSILONS = EpsilonSource(low=1.0, high=1.0, value=1.0)  # rows have none of their own


class CountRankingsKind(RankingsKind):
    """Rows are those of `RankingsKind`; `Rankings` are counted, true ones."""

    job: CountRankings  # type: ignore[assignment]  # inherited methods read what both jobs have

    def __init__(self, job: CountRankings) -> None:
        self.job = job

    def setup(self) -> None:
        """Nothing is drawn here."""

    @property
    def encode_rows(self) -> int:
        """As many rows as a batch of ballots has, so that no ballot is cut in two."""
        return max(BLOCK_RANKINGS, preflib.BATCH_ROWS)

    def encode(self, batch: pa.RecordBatch, place: int, split: Split) -> Sifted[Any]:
        """`Pieces` of a batch in long form, else `Rankings`, as also ballots of PrefLib are.

        If people vote, their votes are beside them.
        """
        job, columns = self.job, self.job.columns
        if job.contest is not None and columns.contest is not None:
            batch = of_contest(batch, columns.contest, job.contest)
        if isinstance(columns, RankColumns):  # before votes: a row that ranks nothing casts none
            batch = ranked_rows(batch, columns.rank, job.reading)
        found = self._encoded(batch, split)
        if not job.people_vote:
            return found
        return with_votes(found, batch, columns.user, self.keyed_hash)

    def _encoded(self, batch: pa.RecordBatch, split: Split) -> Sifted[Any]:
        job, columns = self.job, self.job.columns
        how = (job.catalogue, NO_EPSILONS, None, self.keyed_hash)
        if isinstance(columns, RankColumns):
            pieces = encode_ranks(batch, columns, *how)
            if split.file.format is not FileFormat.PREFLIB:
                return pieces
            found = self.assembled(pieces.rows)
            rejects = _in_one_table(pieces.rejects, found.rejects)
            found = replace(found, rejects=rejects, valid=pieces.valid)
            return replace(found, rows=without_names(found.rows, self.keyed_hash))
        if isinstance(columns, ListColumns):
            found = encode_lists(batch, columns, *how, job.max_length)
        else:
            found = encode_wide(batch, columns, *how, job.max_length, **self._of_ranks)
        if columns.user is None and job.meets_owners:
            return replace(found, rows=without_names(found.rows, self.keyed_hash))
        return found

    def pack(self, rows: list[Any], partitions: int, spill: SpillFile | None) -> Parcels:
        """Parcels of named people's rows, and after those partitions as many of other rankings.

        After these again as many of votes.
        """
        if self.job.people_vote and self.job.columns.user is not None:
            yield from pack_votes(rows, partitions, 2 * partitions, spill)
            rows = [each.rows for each in rows]
        lists = [part for part in rows if isinstance(part, Rankings)]
        pieces = [part for part in rows if isinstance(part, Pieces)]
        named = [part for part in lists if part.copies is None]
        nameless = [part for part in lists if part.copies is not None]
        if pieces:
            yield from super().pack(pieces, partitions, spill)
        if named:
            yield from super().pack(named, partitions, spill)
        if nameless:
            merged = [merge_copies(Rankings.concatenated(nameless))]
            for place, parcel in super().pack(merged, partitions, spill):
                yield partitions + place, parcel

    def bound(
        self, parcels: Iterable[tuple[int, Parcel]], spill: Spill | None
    ) -> Iterator[Sifted[Any]]:
        """At most L rankings of each person, or all rankings of people whom nobody names."""
        parcels, job, most = list(parcels), self.job, CROWD * self._partition_items
        if job.people_vote and (votes := votes_met(parcels, spill)) is not None:
            yield votes
            return
        if has_copies(fetch(parcels[0][1], spill)):
            for part in slices(parcels, spill, rankings_of_blob, most, _first_word):
                merged = merge_copies(part)
                number = count_copies(merged)
                yield Sifted(None, tally={"rankings_with_owner": number, "rankings_kept": number})
                yield from self._copies(merged)
            return
        kept = yield from bound_by(
            map(counted_whole, self._whole(parcels, spill, most)),
            job.max_rankings,
            lambda rankings: hash_owned(rankings, self.keyed_hash),
        )
        yield Sifted(None, tally={"rankings_kept": len(kept)})
        if kept.tied is None:
            yield from map(Sifted, kept.blocks(BLOCK_RANKINGS))
            return
        owner, copies = hash_owned(kept, self.keyed_hash), np.ones(len(kept), np.int64)
        yield from self._copies(merge_copies(replace(kept, owner=owner, copies=copies)))

    def _copies(self, merged: Rankings) -> Iterator[Sifted[Any]]:
        yield from map(Sifted, each_copy(merged, self.keyed_hash, BLOCK_RANKINGS))

    def _whole(
        self, parcels: Iterable[tuple[int, Parcel]], spill: Spill | None, most: int
    ) -> Iterator[Sifted[Rankings]]:
        """Rankings of a partition, slice by slice, and beside them those that break a rule."""
        if isinstance(self.job.columns, RankColumns):
            parts = slices(parcels, spill, pieces_of_blob, most, ranking_numbers)
            yield from map(self.assembled, parts)
        else:
            lists = slices(parcels, spill, rankings_of_blob, most)
            yield from (Sifted(rankings) for rankings in lists)

    def combine(self) -> beam.CombineFn:
        """Counts of pairs, places and nets."""
        job = self.job
        return RankingCountsFn(len(job.catalogue), job.max_length, by_place=False, below=job.below)


def _first_word(rankings: Rankings) -> Words:
    words: Words = owners(rankings)[:, 0]
    return words


def _in_one_table(*tables: pa.Table | None) -> pa.Table | None:
    """All rows that were set aside, with the columns of each table; None: there are none."""
    plain = [table.cast(_without_dictionaries(table.schema)) for table in tables if table]
    return pa.concat_tables(plain, promote_options="permissive") if plain else None


def _without_dictionaries(schema: pa.Schema) -> pa.Schema:
    return pa.schema(
        field.with_type(field.type.value_type) if pa.types.is_dictionary(field.type) else field
        for field in schema
    )
