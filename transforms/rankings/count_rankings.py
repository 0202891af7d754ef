"""Count rankings, on Beam: private ones and answers, or true ones before noise is added.

Keep at most so many rankings of each person, chosen at random. Pure.

For the shuffle, rankings and pieces of them become bytes: Arrow streams with one row a list.

Break ties in rankings by fair coins: random ones, or coins that a retry repeats. Pure.

A coin that is repeated is a keyed hash of whose ranking it is, of the ranking as it was given, of
the item, and of which copy of that ranking it is. Copies are equal, so it does not matter which has
which number: m copies have the numbers from 0 to m - 1, wherever their rows stand. So under one key
a row that is added or removed changes nothing that is counted of other people, and one more copy
adds what that copy counts.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hushrank.estimation.rankings.election_rules import first_choices, n_sets
from hushrank.estimation.rankings.pair_answer_evidence import (
    PairAnswerCounts,
    count_answers,
    merge_answers,
    no_answers,
)
from hushrank.estimation.rankings.ranking_counts import (
    RankingCounts,
    count_rankings,
    merge_counts,
    no_rankings,
)
from hushrank.privacy.keyed_hash import Hashes, KeyedHash
from hushrank.privacy.random_pairs import PairAnswers, RandomPairs
from hushrank.privacy.randomness import RandomBits
from hushrank.transforms.common.dense_sums import (
    ArraySumFn,
    DenseFn,
    Integers,
    in_a_row,
    named_like,
    shaped_like,
)
from hushrank.transforms.common.encode import Sifted
from hushrank.transforms.common.schema import to_numpy
from hushrank.transforms.common.sorting import (
    Order,
    Words,
    hold,
    new_run,
    number_runs,
    order_within,
    sort_by,
)
from hushrank.transforms.rankings.pair_answers import ByLevel, PrivateRankings
from hushrank.transforms.rankings.rankings import Pieces, Rankings, owners


class RankingCountsFn(DenseFn[RankingCounts]):
    """PCollection[PrivateRankings or Rankings] -> RankingCounts: exact in any order of merging."""

    def __init__(
        self, n_items: int, max_length: int, *, by_place: bool, below: bool = False
    ) -> None:
        self._n_items = n_items
        self._max_length = max_length
        self._how = {"by_place": by_place, "below": below}

    def create_accumulator(self) -> RankingCounts:
        return no_rankings(self._n_items, self._max_length, **self._how)

    def add_input(self, total: RankingCounts, rows: PrivateRankings | Rankings) -> RankingCounts:
        if isinstance(rows, Rankings) and rows.tied is not None:
            raise ValueError("ties must be broken before rankings are counted")
        own = count_rankings(rows.items, rows.lengths, self._n_items, self._max_length, **self._how)
        return merge_counts([total, own])

    def merge_accumulators(self, parts: Iterable[RankingCounts]) -> RankingCounts:
        return merge_counts(parts)

    def extract_output(self, total: RankingCounts) -> RankingCounts:
        return total

    def cells(self, total: RankingCounts) -> Integers:
        return in_a_row(total.arrays().values())

    def of_cells(self, cells: Integers) -> RankingCounts:
        return RankingCounts(**named_like(self.create_accumulator().arrays(), cells))


class FirstPlacesFn(ArraySumFn):
    """PCollection[Rankings] -> in how many rankings of each group each item is first."""

    def __init__(self, n_groups: int, n_items: int) -> None:
        self._shape = (n_groups, n_items)

    @property
    def shape(self) -> tuple[int, ...]:
        return self._shape

    def add_input(self, total: Integers, rows: Rankings) -> Integers:
        if rows.tied is not None or rows.profile is None:
            raise ValueError("rankings whose first places are counted have a group and no ties")
        first = rows.items[np.cumsum(rows.lengths) - rows.lengths]
        cells = np.bincount(rows.profile * self._shape[1] + first, minlength=total.size)
        return np.asarray(total + cells.reshape(self._shape))


class FirstChoicesFn(ArraySumFn):
    """PCollection[Rankings] -> which item comes right after which set of others, as counts."""

    def __init__(self, n_items: int, longest: int) -> None:
        self._n_items = n_items
        self._longest = longest

    @property
    def shape(self) -> tuple[int, int]:
        return n_sets(self._n_items, self._longest), self._n_items

    def add_input(self, total: Integers, rows: Rankings) -> Integers:
        if rows.tied is not None:
            raise ValueError("ties must be broken before rankings are counted")
        return total + first_choices(rows.items, rows.lengths, self._n_items, self._longest)


class PairAnswersFn(DenseFn[PairAnswerCounts]):
    """PCollection[PairAnswers] -> PairAnswerCounts: integers, exact in any order of merging."""

    def __init__(self, n_items: int, max_length: int, law: RandomPairs) -> None:
        self._n_items = n_items
        self._max_length = max_length
        self._law = law

    def create_accumulator(self) -> PairAnswerCounts:
        return no_answers(self._n_items, self._max_length)

    def add_input(self, total: PairAnswerCounts, answers: PairAnswers) -> PairAnswerCounts:
        own = count_answers(answers, self._n_items, self._max_length, self._law)
        return merge_answers([total, own])

    def merge_accumulators(self, parts: Iterable[PairAnswerCounts]) -> PairAnswerCounts:
        return merge_answers(parts)

    def extract_output(self, total: PairAnswerCounts) -> PairAnswerCounts:
        return total

    def cells(self, total: PairAnswerCounts) -> Integers:
        return in_a_row(total.arrays().values())

    def of_cells(self, cells: Integers) -> PairAnswerCounts:
        arrays = named_like(self.create_accumulator().arrays(), cells)
        return merge_answers([PairAnswerCounts(**arrays)])  # looks at its size


class ByLevelFn(DenseFn[tuple[Any, ...]]):
    """PCollection[ByLevel or Rankings] -> what a function of each level makes of its part, in turn.

    The level of a ranking that comes alone is its group. Where groups overlap (`overlap`), it
    counts in each of its groups, and in the whole, which is last.
    """

    def __init__(self, levels: Sequence[DenseFn[Any]], *, overlap: bool = False) -> None:
        self._levels = tuple(levels)
        self._overlap = overlap

    def create_accumulator(self) -> tuple[Any, ...]:
        return tuple(each.create_accumulator() for each in self._levels)

    def add_input(self, total: tuple[Any, ...], rows: ByLevel | Rankings) -> tuple[Any, ...]:
        if isinstance(rows, Rankings):
            return self._add_groups(total, rows)
        each = zip(self._levels, total, rows.parts, strict=True)
        return tuple(level.add_input(own, part) for level, own, part in each)

    def _add_groups(self, total: tuple[Any, ...], rows: Rankings) -> tuple[Any, ...]:
        if rows.profile is None:
            raise ValueError("rankings that are counted by group have a group")
        found, every = [*total], len(total) - 1 if self._overlap else len(total)
        for group in range(every):
            own = rows.profile >> group & 1 == 1 if self._overlap else rows.profile == group
            if own.any():
                part = rows.take(np.flatnonzero(own))
                found[group] = self._levels[group].add_input(found[group], part)
        if self._overlap:
            found[-1] = self._levels[-1].add_input(found[-1], rows)
        return tuple(found)

    def merge_accumulators(self, parts: Iterable[tuple[Any, ...]]) -> tuple[Any, ...]:
        columns = zip(self._levels, zip(*parts, strict=True), strict=True)
        return tuple(level.merge_accumulators(column) for level, column in columns)

    def extract_output(self, total: tuple[Any, ...]) -> tuple[Any, ...]:
        return total

    def cells(self, total: tuple[Any, ...]) -> Integers:
        each = zip(self._levels, total, strict=True)
        return in_a_row(level.cells(own) for level, own in each)

    def of_cells(self, cells: Integers) -> tuple[Any, ...]:
        nothing = zip(self._levels, self.create_accumulator(), strict=True)
        rows = shaped_like([level.cells(none) for level, none in nothing], cells)
        return tuple(level.of_cells(row) for level, row in zip(self._levels, rows, strict=True))


Priorities = Callable[[Rankings], Hashes]


def blob_of_rankings(rankings: Rankings) -> bytes:
    """Rankings with owners; a multiple of 8 bytes."""
    return _stream(_columns(rankings))


def blob_of_pieces(pieces: Pieces) -> bytes:
    """Pieces of rankings; a multiple of 8 bytes."""
    offsets = _offsets(pieces.rankings.lengths)
    parts = {"rank": pieces.rank, "rank_rest": pieces.rank_rest}
    ranks = {
        name: pa.LargeListArray.from_arrays(offsets, pa.array(part)) for name, part in parts.items()
    }
    return _stream(_columns(pieces.rankings) | ranks | {"contest": pa.array(pieces.contest)})


def rankings_of_blob(blob: bytes) -> Rankings:
    """Return the rankings that `blob_of_rankings` was given."""
    return _rankings(_table(blob))


def has_copies(blob: bytes) -> bool:
    """Whether the rankings of a blob are copies that nobody names."""
    return "copies" in pa.ipc.open_stream(blob).schema.names


def pieces_of_blob(blob: bytes) -> Pieces:
    """Return the pieces that `blob_of_pieces` was given."""
    table = _table(blob)
    rank = _items(table, "rank").astype(np.float64)
    rest = _items(table, "rank_rest").astype(np.int16)
    return Pieces(_rankings(table), rank, rest, to_numpy(table["contest"]))


def _columns(rankings: Rankings) -> dict[str, pa.Array]:
    if rankings.owner is None:
        raise ValueError("only rankings with owners are shuffled")
    owner: Hashes = rankings.owner
    offsets = _offsets(rankings.lengths)
    codes = pa.array(rankings.items.astype(np.int32))
    columns = {
        "0": pa.array(owner[:, 0]),
        "1": pa.array(owner[:, 1]),
        "epsilon": pa.array(rankings.epsilon),
        "item": pa.LargeListArray.from_arrays(offsets, codes),
    }
    if rankings.tied is not None:
        columns["tied"] = pa.LargeListArray.from_arrays(offsets, pa.array(rankings.tied))
    if rankings.copies is not None:
        columns["copies"] = pa.array(rankings.copies)
    if rankings.profile is not None:
        columns["profile"] = pa.array(rankings.profile)
    return columns


def _offsets(lengths: NDArray[np.int64]) -> pa.Array:
    return pa.array(np.append(0, np.cumsum(lengths)), pa.int64())


def _stream(columns: dict[str, pa.Array]) -> bytes:
    batch = pa.record_batch(columns)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    blob: bytes = sink.getvalue().to_pybytes()
    return blob


def _table(blob: bytes) -> pa.Table:
    return pa.ipc.open_stream(blob).read_all()


def _rankings(table: pa.Table) -> Rankings:
    (lists,) = table["item"].chunks
    lengths = np.diff(to_numpy(lists.offsets))
    return Rankings(
        items=_items(table, "item").astype(np.int64),
        lengths=lengths,
        epsilon=to_numpy(table["epsilon"]),
        owner=np.column_stack([to_numpy(table["0"]), to_numpy(table["1"])]),
        tied=_items(table, "tied") if "tied" in table.column_names else None,
        copies=to_numpy(table["copies"]) if "copies" in table.column_names else None,
        profile=to_numpy(table["profile"]) if "profile" in table.column_names else None,
    )


def _items(table: pa.Table, name: str) -> NDArray[Any]:
    (lists,) = table[name].chunks
    return to_numpy(lists.flatten())


@dataclass(frozen=True, slots=True)
class _Drawn:
    """Rankings with the random bits that decide which are kept: the smallest."""

    rankings: Rankings
    priority: Hashes


def bound_rankings(
    slices: Iterable[Sifted[Rankings]], most: int, bits: RandomBits
) -> Generator[Sifted[None], None, Rankings]:
    """Keep at most `most` rankings of each person, chosen uniformly at random over all slices.

    A ranking gets 128 random bits when its slice comes; those with the smallest stay.

    Args:
        slices: one slice or more; a person's rankings may be in all of them.
        most: most rankings of one person.
        bits: decide which.

    Returns:
        What was refused of each slice is yielded; the rankings that are kept are returned.
    """
    return (yield from bound_by(slices, most, lambda rankings: bits.words((len(rankings), 2))))


def bound_by(
    slices: Iterable[Sifted[Rankings]], most: int, priorities: Priorities
) -> Generator[Sifted[None], None, Rankings]:
    """Bound by the 128 bits that `priorities` makes for each ranking."""

    def keep(held: _Drawn | None, more: Rankings) -> _Drawn:
        rankings, priority = more, priorities(more)
        if held is not None:
            rankings = Rankings.concatenated([held.rankings, more])
            priority = np.concatenate([held.priority, priority])
        kept = _first_of_owners(rankings, most, priority)
        if len(kept) == len(rankings):
            return _Drawn(rankings, priority)
        return _Drawn(rankings.take(kept), priority[kept])

    held = yield from hold(slices, keep)
    return held.rankings


def _first_of_owners(rankings: Rankings, most: int, priority: Hashes) -> Order:
    """Places, ascending, of each person's `most` rankings with the smallest `priority`."""
    owner = owners(rankings)
    leading = np.sort(owner[:, 0])
    if (leading[1:] != leading[:-1]).all():  # nobody has two
        return np.arange(len(owner))
    order = sort_by(owner, priority)
    owner = owner[order]
    first = new_run(owner[:, 0], owner[:, 1])
    starts = np.flatnonzero(first)
    position = np.arange(len(order)) - starts[number_runs(first)]
    return np.sort(order[position < most])


def ranking_numbers(pieces: Pieces) -> Words:
    """A number for each piece; pieces of one ranking have the same."""
    numbers: Words = pieces.contest ^ owners(pieces.rankings)[:, 0]
    return numbers


_RANKING, _COIN, _GROUP = 0, 1, 2  # labels of hashes

Coins = Callable[[Rankings, Integers], Hashes]  # rankings and their places to bits by item


def random_coins(bits: RandomBits) -> Coins:
    """Coins that are drawn from `bits`."""
    return lambda rankings, _: bits.words((len(rankings.items), 2))


def break_ties(rankings: Rankings, coins: Coins) -> Rankings:
    """Put tied items in order by coin; all orders are equally likely if the coins are fair."""
    if rankings.tied is None:
        return rankings
    number = np.repeat(np.arange(len(rankings)), rankings.lengths)
    has_ties = np.zeros(len(rankings), np.bool_)
    has_ties[number[rankings.tied]] = True
    places = np.flatnonzero(has_ties)
    chosen = replace(rankings.take(places), tied=None)
    place_number = np.cumsum(~rankings.tied[has_ties[number]]) - 1
    items = rankings.items.copy()
    items[has_ties[number]] = chosen.items[order_within(place_number, coins(chosen, places))]
    return replace(rankings, items=items, tied=None)


def hash_given(rankings: Rankings, keyed_hash: KeyedHash) -> Hashes:
    """Hash each ranking as it was given, shape (n, 2): items in order, which are tied, group."""
    codes = rankings.items.astype(np.int32) << 1
    if rankings.tied is not None:
        codes |= rankings.tied
    offsets = 4 * np.append(0, np.cumsum(rankings.lengths))
    hashes = keyed_hash.of_strings(offsets, codes.view(np.uint8))
    if rankings.profile is None:
        return hashes
    group = rankings.profile.astype(np.uint64)
    return keyed_hash.of_tuples(_GROUP, hashes, (group, group))


def hash_owned(rankings: Rankings, keyed_hash: KeyedHash) -> Hashes:
    """Hash each ranking as it was given together with its owner, shape (n, 2).

    Copies of one ranking of a person have the same hash: they are equal, so it does not matter
    which of them is kept.
    """
    return keyed_hash.of_tuples(_RANKING, owners(rankings), hash_given(rankings, keyed_hash))


def without_names(rankings: Rankings, keyed_hash: KeyedHash) -> Rankings:
    """The rankings of people whom nobody names: equal ones have one owner and are copies."""
    copies = np.ones(len(rankings), np.int64)
    return replace(rankings, owner=hash_given(rankings, keyed_hash), copies=copies)


def merge_copies(rankings: Rankings) -> Rankings:
    """Merge each owner's equal rankings into one, with the number of all of its copies.

    Raises:
        ValueError: nobody counted the copies.
    """
    owner, copies = owners(rankings), _copies(rankings)
    if not len(rankings):
        return rankings
    order = sort_by(owner, owner)
    starts = np.flatnonzero(new_run(owner[order, 0], owner[order, 1]))
    merged = rankings.take(order[starts])
    return replace(merged, copies=np.add.reduceat(copies[order], starts))


def count_copies(rankings: Rankings) -> int:
    """Count the rankings with all copies."""
    return int(_copies(rankings).sum())


def each_copy(rankings: Rankings, keyed_hash: KeyedHash, size: int) -> Iterator[Rankings]:
    """Yield all copies of `rankings`, at most `size` at a time, ties broken by coins of their own.

    Args:
        rankings: from `merge_copies`; the owner tells whose ranking it is and how it was given.
        keyed_hash: makes the coins.
        size: rankings that are in memory at a time.
    """
    owner, copies = owners(rankings), _copies(rankings)
    ends = np.cumsum(copies)
    number_of_all = count_copies(rankings)
    for start in range(0, number_of_all, size):
        places = np.arange(start, min(start + size, number_of_all))
        of_copy = np.searchsorted(ends, places, side="right")
        number = places - (ends - copies)[of_copy]
        block = replace(rankings, copies=None).take(of_copy)
        yield break_ties(block, _keyed_coins(keyed_hash, owner[of_copy], number))


def _keyed_coins(keyed_hash: KeyedHash, owner: Hashes, copy: Integers) -> Coins:
    """Coins of rankings with these owners and numbers of copies, each shape (n, ...)."""

    def coins(rankings: Rankings, places: Integers) -> Hashes:
        lengths = rankings.lengths
        number = np.repeat(copy[places], lengths).view(np.uint64)
        item = rankings.items.astype(np.uint64)
        return keyed_hash.of_tuples(
            _COIN, np.repeat(owner[places], lengths, axis=0), (number, item)
        )

    return coins


def _copies(rankings: Rankings) -> Integers:
    if rankings.copies is None:
        raise ValueError("copies of rankings must be counted before they are numbered")
    return rankings.copies
