"""Reduce rankings to counts of private ones, or to exact counts, to which noise is added later.

Rankings are encoded, put together and bounded. Where each is randomised, only counts of private
rankings, or of private answers to random pairs, leave the graph. Exact counts are confidential. A
person's contribution, and how ties end, is decided by the run's key and the person's own rankings
alone, so a bundle that is retried counts the same. Equal rankings of people whom nobody names meet
to be numbered, because each of them gets coins of its own (`transforms.rankings.count_rankings`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import repeat
from typing import Any, TypedDict

import numpy as np
import pyarrow as pa

from hushrank.pipelines.reduce.kind import (
    Arrays,
    Kind,
    ShuffleBlocks,
    bits_tally,
    pack_votes,
    partitions_of,
    slices,
    votes_against,
    votes_met,
    with_votes,
)
from hushrank.pipelines.reduce.rankings_job import CountRankings, ReduceRankings
from hushrank.privacy.keyed_hash import Hashes
from hushrank.privacy.random_pairs import PairAnswers, RandomPairs
from hushrank.privacy.randomness import Purpose, RandomBits, system_bits
from hushrank.privacy.units import level_of
from hushrank.transforms.common.dense_sums import DenseFn
from hushrank.transforms.common.encode import Sifted
from hushrank.transforms.common.epsilons import EpsilonSource, EpsilonTable, read_epsilon_table
from hushrank.transforms.common.randomisation import law_of_pairs, law_of_rankings
from hushrank.transforms.common.sorting import Words, new_run
from hushrank.transforms.engine.beam import beam
from hushrank.transforms.rankings.best_worst import encode_best_worst, rows_of_sets
from hushrank.transforms.rankings.count_rankings import (
    ByLevelFn,
    FirstChoicesFn,
    FirstPlacesFn,
    PairAnswersFn,
    RankingCountsFn,
    blob_of_pieces,
    blob_of_rankings,
    bound_by,
    bound_rankings,
    break_ties,
    count_copies,
    each_copy,
    has_copies,
    hash_owned,
    merge_copies,
    pieces_of_blob,
    random_coins,
    ranking_numbers,
    rankings_of_blob,
    without_names,
)
from hushrank.transforms.rankings.pair_answers import (
    ByLevel,
    PrivateRankings,
    answer_rankings,
    encode_pair_answers,
    randomize_rankings,
)
from hushrank.transforms.rankings.ranking_columns import (
    BestWorstColumns,
    ListColumns,
    PairColumns,
    PlaceColumns,
    RankColumns,
    RankReading,
    of_contest,
    ranked_rows,
)
from hushrank.transforms.rankings.rankings import (
    Pieces,
    Rankings,
    assemble,
    encode_lists,
    encode_places,
    encode_ranks,
    encode_wide,
    owners,
    split_pieces,
    split_rankings,
)
from hushrank.transforms.storage import preflib
from hushrank.transforms.storage.files import FileFormat
from hushrank.transforms.storage.spill_file import ShuffleBlock, Spill, SpillFile, fetch, park
from hushrank.transforms.storage.split import Split

PARTITION_ITEMS = 2_500_000  # ranked ones, sorted in memory at once: about 50 MB
LIST_ITEMS = 10  # items of a ranking in list form, about: only steers how the work is cut
CROWD = 2  # times as many items as a partition should have are not bounded at once
MAX_PARTITIONS = 1 << 15
BLOCK_RANKINGS = 1 << 16  # privatised and counted at a time, so that what is between stays small


Private = PrivateRankings | PairAnswers | ByLevel
NO_EPSILONS = EpsilonSource(low=1.0, high=1.0, value=1.0)  # rows have none of their own


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
                job.law.require(law_of_pairs(job.laws_of_pairs))
            else:
                job.law.require(law_of_rankings(job.mechanism, *ends, job.max_length))
        if epsilons.table is not None and self._table is None:
            self._table = read_epsilon_table(epsilons.table)

    @property
    def joins_parts(self) -> bool:
        return False

    def encode(
        self, batch: pa.RecordBatch, place: int, split: Split | None
    ) -> Sifted[Rankings] | Sifted[Pieces] | Sifted[Private]:
        job, columns = self.job, self.job.columns
        if isinstance(columns, PairColumns):
            if job.pairs is None or not job.already_private:
                raise ValueError("columns of private answers need their law")
            given = encode_pair_answers(
                batch, columns, job.catalogue, job.laws_of_pairs, job.max_length, job.epsilons
            )
            rows: Private = ByLevel(tuple(given.rows)) if job.apart else given.rows[0]
            return Sifted(rows, given.rejects, given.valid)
        if job.contest is not None and columns.contest is not None:
            batch = of_contest(batch, columns.contest, job.contest)
        how = (job.catalogue, job.epsilons, self._table, self.keyed_hash)
        if isinstance(columns, RankColumns):
            return encode_ranks(ranked_rows(batch, columns.rank, job.reading), columns, *how)
        if isinstance(columns, ListColumns):
            lists = encode_lists(batch, columns, *how, job.max_length)
        elif isinstance(columns, PlaceColumns):
            lists = encode_places(batch, columns, *how, job.max_length, reading=job.reading)
        elif isinstance(columns, BestWorstColumns):
            lists = self._without_ties(encode_best_worst(batch, columns, *how, job.max_length))
        else:
            wide = encode_wide(batch, columns, *how, job.max_length, **self._of_ranks)
            lists = self._without_ties(wide)
        if self.meets_owners:
            return lists
        private = self._private(lists.rows)
        return Sifted(private.rows, lists.rejects, tally={**private.tally, **lists.tally})

    @property
    def _of_ranks(self) -> _OfRanks:
        """Rules by which ranks are read."""
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
        if job.features is not None and rankings.profile is not None:
            chosen = (rankings.profile == place for place in range(job.features.profiles))
            of_profile = map(rankings.take, chosen)
            private = ByLevel(tuple(self._drawn(each, job.pairs, bits) for each in of_profile))
        elif job.levels is None:
            private = self._drawn(rankings, job.pairs, bits)
        else:
            level = level_of(rankings.epsilon, job.levels.levels)
            each = zip(job.levels.epsilons, job.levels.pairs or repeat(None), strict=False)
            parts = []
            for place, (epsilon, law) in enumerate(each):
                own = rankings.take(np.flatnonzero(level == place))
                own = replace(own, epsilon=np.full(len(own), epsilon))
                parts.append(self._drawn(own, law, bits))
            private = ByLevel(tuple(parts))
        return Sifted(private, tally=bits_tally(Purpose.RANDOMISATION, bits.used))

    def _drawn(
        self, rankings: Rankings, law: RandomPairs | None, bits: RandomBits
    ) -> PrivateRankings | PairAnswers:
        job = self.job
        if law is not None:
            return answer_rankings(rankings, len(job.catalogue), law, bits)
        return randomize_rankings(
            rankings, job.mechanism, bits, already_private=job.already_private
        )

    def partitions(self, n_rows: int) -> int:
        items = n_rows if isinstance(self.job.columns, RankColumns) else n_rows * LIST_ITEMS
        return partitions_of(items, self._partition_items, MAX_PARTITIONS)

    @property
    def _partition_items(self) -> int:
        """Ranked items that are bounded at once, about."""
        return min(PARTITION_ITEMS, self.memory.rows_at_once)

    def pack(
        self, rows: list[Rankings] | list[Pieces], partitions: int, spill: SpillFile | None
    ) -> ShuffleBlocks:
        if isinstance(rows[0], Rankings):
            for place, part in split_rankings(Rankings.concatenated(rows), partitions):
                yield place, (len(part.items), park(blob_of_rankings(part), spill))
        else:
            for place, pieces in split_pieces(Pieces.concatenated(rows), partitions):
                yield place, (len(pieces.rank), park(blob_of_pieces(pieces), spill))

    def bound(
        self, shuffle_blocks: Iterable[tuple[int, ShuffleBlock]], spill: Spill | None
    ) -> Iterator[Sifted[Private] | Sifted[None]]:
        job, bits = self.job, system_bits()
        in_pieces = isinstance(job.columns, RankColumns)
        most = CROWD * self._partition_items
        whole: Iterable[Sifted[Rankings]]
        if not in_pieces:
            whole = map(Sifted, slices(shuffle_blocks, spill, rankings_of_blob, most))
        else:
            parts = slices(shuffle_blocks, spill, pieces_of_blob, most, ranking_numbers)
            whole = map(self._without_ties, map(self.assembled, parts))
        kept = yield from bound_rankings(map(counted_whole, whole), job.max_rankings, bits)
        tally = {"rankings_kept": len(kept)} | bits_tally(Purpose.ROW_CHOICE, bits.used)
        yield Sifted(None, tally=tally)
        for block in kept.blocks(BLOCK_RANKINGS):
            yield self._private(block)

    def combine(self) -> beam.CombineFn:
        job, n_items = self.job, len(self.job.catalogue)
        each: Sequence[DenseFn[Any]]
        if job.pairs is not None:
            each = [PairAnswersFn(n_items, job.max_length, law) for law in job.laws_of_pairs]
            each = each if job.features is None else [*each] * job.features.profiles
        else:
            n_levels = 1 if job.levels is None else len(job.levels.levels)
            each = [RankingCountsFn(n_items, job.max_length, by_place=job.by_place)] * n_levels
        return ByLevelFn(each) if job.apart else each[0]

    def arrays(self, total: Any) -> Arrays:
        """Counts by name; of levels or profiles one after the other, along the first axis."""
        if not isinstance(total, tuple):
            return {**total.arrays()}
        levels = [each.arrays() for each in total]
        return {name: np.stack([each[name] for each in levels]) for name in levels[0]}


def counted_whole(found: Sifted[Rankings]) -> Sifted[Rankings]:
    """Add a tally of the rankings that break no rule."""
    return replace(found, tally={**found.tally, "rankings_with_owner": len(found.rows)})


class CountRankingsKind(RankingsKind):
    """Rows are those of `RankingsKind`; `Rankings` are counted, true ones."""

    job: CountRankings  # type: ignore[assignment]  # inherited methods read what both jobs have

    def __init__(self, job: CountRankings) -> None:
        self.job = job

    def setup(self) -> None:
        """Nothing is drawn here."""

    @property
    def encode_rows(self) -> int:
        """Number of rows in a batch of ballots at least, so that no ballot is cut in two."""
        return max(BLOCK_RANKINGS, preflib.BATCH_ROWS)

    def answers_of(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = self.job.columns
        if isinstance(columns, BestWorstColumns) and columns.sets:
            return rows_of_sets(batch, columns)
        return batch

    def encode(self, batch: pa.RecordBatch, place: int, split: Split | None) -> Sifted[Any]:
        """`Pieces` of a batch in long form, else `Rankings`, as also ballots of PrefLib are.

        If people vote, their votes are beside them.
        """
        batch = self._counted(batch)
        found = self._encoded(batch, split)
        if not self.job.meets_owners:
            kept = {"rankings_kept": len(found.rows), "people_kept": len(found.rows)}
            found = replace(found, tally={**found.tally, **kept})
        if not self.job.people_vote:
            return found
        return with_votes(found, batch, self.job.columns.user, self.keyed_hash)

    def votes_against(self, batch: pa.RecordBatch, split: Split | None) -> Sifted[Any]:
        if not self.job.people_vote:
            return Sifted(())
        batch = self._counted(batch)
        none = self.encode(batch[:0], 0, split)
        return votes_against(none, batch, self.job.columns.user, self.keyed_hash)

    def _counted(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of the contest that is counted; before votes, as what ranks nothing has none."""
        job, columns = self.job, self.job.columns
        if job.contest is not None and columns.contest is not None:
            batch = of_contest(batch, columns.contest, job.contest)
        if isinstance(columns, RankColumns):
            batch = ranked_rows(batch, columns.rank, job.reading)
        return batch

    def _encoded(self, batch: pa.RecordBatch, split: Split | None) -> Sifted[Any]:
        job, columns = self.job, self.job.columns
        how = (job.catalogue, NO_EPSILONS, None, self.keyed_hash)
        if isinstance(columns, RankColumns):
            pieces = encode_ranks(batch, columns, *how)
            if split is None or split.file.format is not FileFormat.PREFLIB:
                return pieces
            found = self.assembled(pieces.rows)
            rejects = _in_one_table(pieces.rejects, found.rejects)
            found = replace(found, rejects=rejects, valid=pieces.valid)
            return replace(found, rows=without_names(found.rows, self.keyed_hash))
        if isinstance(columns, ListColumns):
            found = encode_lists(batch, columns, *how, job.max_length)
        elif isinstance(columns, PlaceColumns):
            found = encode_places(batch, columns, *how, job.max_length, reading=job.reading)
        elif isinstance(columns, BestWorstColumns):
            found = encode_best_worst(batch, columns, *how, job.max_length)
        else:
            found = encode_wide(batch, columns, *how, job.max_length, **self._of_ranks)
        if columns.user is None and job.meets_owners:
            return replace(found, rows=without_names(found.rows, self.keyed_hash))
        return found

    def pack(self, rows: list[Any], partitions: int, spill: SpillFile | None) -> ShuffleBlocks:
        """Shuffle blocks of named people's rows, and after those partitions as many of other
        rankings.

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
            for place, shuffle_block in super().pack(merged, partitions, spill):
                yield partitions + place, shuffle_block

    def bound(
        self, shuffle_blocks: Iterable[tuple[int, ShuffleBlock]], spill: Spill | None
    ) -> Iterator[Sifted[Any]]:
        """Yield at most L rankings of each person, or all rankings of people whom nobody names."""
        shuffle_blocks, job, most = list(shuffle_blocks), self.job, CROWD * self._partition_items
        if job.people_vote:  # an item that does not fit changes the ranking that the rows make
            whole = isinstance(job.columns, RankColumns)
            if (votes := votes_met(shuffle_blocks, spill, whole=whole)) is not None:
                yield votes
                return
        if has_copies(fetch(shuffle_blocks[0][1], spill)):
            for part in slices(shuffle_blocks, spill, rankings_of_blob, most, _first_word):
                merged = merge_copies(part)
                number = count_copies(merged)
                told = ("rankings_with_owner", "rankings_kept", "people_kept")
                yield Sifted(None, tally=dict.fromkeys(told, number))
                yield from self._copies(merged)
            return
        kept = yield from bound_by(
            map(counted_whole, self._whole(shuffle_blocks, spill, most)),
            job.max_rankings,
            lambda rankings: hash_owned(rankings, self.keyed_hash),
        )
        people = len(kept) if job.max_rankings == 1 else count_owners(owners(kept))
        yield Sifted(None, tally={"rankings_kept": len(kept), "people_kept": people})
        if kept.tied is None:
            yield from map(Sifted, kept.blocks(BLOCK_RANKINGS))
            return
        owner, copies = hash_owned(kept, self.keyed_hash), np.ones(len(kept), np.int64)
        yield from self._copies(merge_copies(replace(kept, owner=owner, copies=copies)))

    def _copies(self, merged: Rankings) -> Iterator[Sifted[Any]]:
        yield from map(Sifted, each_copy(merged, self.keyed_hash, BLOCK_RANKINGS))

    def _whole(
        self, shuffle_blocks: Iterable[tuple[int, ShuffleBlock]], spill: Spill | None, most: int
    ) -> Iterator[Sifted[Rankings]]:
        """Rankings of a partition, slice by slice, and beside them those that break a rule."""
        if isinstance(self.job.columns, RankColumns):
            parts = slices(shuffle_blocks, spill, pieces_of_blob, most, ranking_numbers)
            yield from map(self.assembled, parts)
        else:
            lists = slices(shuffle_blocks, spill, rankings_of_blob, most)
            yield from (Sifted(rankings) for rankings in lists)

    def combine(self) -> beam.CombineFn:
        """Counts of pairs, places and nets, by group if there are any; of first choices, or of
        first places by group."""
        job = self.job
        if job.first_places:
            return FirstPlacesFn(job.groups, len(job.catalogue))
        if job.rounds:
            return FirstChoicesFn(len(job.catalogue), job.max_length)
        each = RankingCountsFn(len(job.catalogue), job.max_length, by_place=False, below=job.below)
        return ByLevelFn([each] * job.groups, overlap=job.overlap) if job.groups else each

    def arrays(self, total: Any) -> Arrays:
        """Counts by name; of groups one after the other, along the first axis."""
        if self.job.first_places:
            return {"first_places": total}
        return {"firsts": total} if self.job.rounds else super().arrays(total)


def count_owners(owner: Hashes) -> int:
    """Number of different people among these owners of rankings, shape (m, 2)."""
    return int(new_run(*owner[np.lexsort(owner.T)].T).sum())


def _first_word(rankings: Rankings) -> Words:
    words: Words = owners(rankings)[:, 0]
    return words


def _in_one_table(*tables: pa.Table | None) -> pa.Table | None:
    """Return all rows that were set aside, with the columns of each table; None: there are none."""
    plain = [table.cast(_without_dictionaries(table.schema)) for table in tables if table]
    return pa.concat_tables(plain, promote_options="permissive") if plain else None


def _without_dictionaries(schema: pa.Schema) -> pa.Schema:
    return pa.schema(
        field.with_type(field.type.value_type) if pa.types.is_dictionary(field.type) else field
        for field in schema
    )
