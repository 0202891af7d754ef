"""Whole rankings: what is in a batch, and how a person's pieces of them meet. Pure, confidential.

In list form a row is a ranking. In long form a row is one ranked item, and the rows of a ranking
may be anywhere: neighbouring ones make a *piece*, and pieces meet in the partition of their person.
A ranking that breaks a rule is set aside whole.

In a wide table a row is a ranking, and each item has a column that holds its rank. Such a row is
treated like a ranking in a list: at most L rankings of a person count, so reading ranks by column
changes no bound and no sensitivity. The same holds where each place has a column that names the
item there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hushrank.privacy.keyed_hash import Hashes, KeyedHash
from hushrank.transforms.common.catalogue import UNKNOWN, Catalogue, Codes
from hushrank.transforms.common.encode import Mask, Rules, Sifted, missing, pseudonyms, sift
from hushrank.transforms.common.epsilons import (
    Epsilons,
    EpsilonSource,
    EpsilonTable,
    epsilons_of,
    rules_of_epsilons,
)
from hushrank.transforms.common.schema import (
    any_in_list,
    by_distinct,
    is_text,
    named_before,
    repeats_item,
    take_lists,
    to_numpy,
)
from hushrank.transforms.common.sorting import Words, new_run, number_runs, order_within, sort_by
from hushrank.transforms.rankings.person_features import rules_of_profiles
from hushrank.transforms.rankings.ranking_columns import (
    AS_GIVEN,
    ListColumns,
    PlaceColumns,
    RankColumns,
    RankReading,
    Repeated,
    Rest,
    WideRankColumns,
    are_blank,
    are_unranked,
    cells_among,
    contest_names,
    ranks_of,
    words_of_ranks,
)

REPEATED = "the ranking holds an item twice"
TOO_LONG = "the ranking has more items than max_length"
TIED = "the ranking puts two items at the same rank"
NOTHING_LISTED = "the ranking ends before its first item"
NOT_KNOWN = "an item of the ranking is not in the catalogue"
TWO_EPSILONS = "rows of one ranking have different epsilons"

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Rankings:
    """True rankings, one after the other. Confidential unless they came privatised.

    Attributes:
        items: shape (sum of lengths,), codes of the catalogue, each ranking best first.
        lengths: shape (n,), how many items each has.
        epsilon: shape (n,), of each ranking.
        owner: shape (n, 2), pseudonyms; None: each ranking is another person's.
        tied: shape of the items, whether each shares its place with the item before it; items that
            share one are in the order of the catalogue. None: no ranking has ties.
        copies: shape (n,), how many people whom nobody names gave each ranking; `owner` is then a
            hash of the ranking as it was given. None: each is one ranking.
        profile: shape (n,), of the person's public features, or the group; None: none are read.
    """

    items: Integers
    lengths: Integers
    epsilon: Epsilons
    owner: Hashes | None = None
    tied: Mask | None = None
    copies: Integers | None = None
    profile: Integers | None = None

    def __len__(self) -> int:
        return len(self.lengths)

    def take(self, rows: Integers | Mask) -> Rankings:
        """The chosen rankings, in that order."""
        chosen = np.arange(len(self))[rows]
        return Rankings(
            take_lists(self.items, self.lengths, chosen),
            self.lengths[chosen],
            self.epsilon[chosen],
            None if self.owner is None else np.take(self.owner, chosen, axis=0),
            None if self.tied is None else take_lists(self.tied, self.lengths, chosen),
            None if self.copies is None else self.copies[chosen],
            None if self.profile is None else self.profile[chosen],
        )

    def blocks(self, size: int) -> Iterator[Rankings]:
        """The rankings in order, at most `size` at a time, without copying them."""
        ends = np.append(0, np.cumsum(self.lengths))
        for start in range(0, len(self), size):
            rows = slice(start, min(start + size, len(self)))
            cells = slice(ends[rows.start], ends[rows.stop])
            yield Rankings(
                self.items[cells],
                self.lengths[rows],
                self.epsilon[rows],
                None if self.owner is None else self.owner[rows],
                None if self.tied is None else self.tied[cells],
                None if self.copies is None else self.copies[rows],
                None if self.profile is None else self.profile[rows],
            )

    @classmethod
    def concatenated(cls, parts: Sequence[Rankings]) -> Rankings:
        """The rankings of several parts, at least one; what one of them has, all of them have."""
        owners = [part.owner for part in parts if part.owner is not None]
        tied = [part.tied for part in parts if part.tied is not None]
        copies = [part.copies for part in parts if part.copies is not None]
        profiles = [part.profile for part in parts if part.profile is not None]
        return cls(
            np.concatenate([part.items for part in parts]),
            np.concatenate([part.lengths for part in parts]),
            np.concatenate([part.epsilon for part in parts]),
            np.concatenate(owners) if owners else None,
            np.concatenate(tied) if tied else None,
            np.concatenate(copies) if copies else None,
            np.concatenate(profiles) if profiles else None,
        )


@dataclass(frozen=True, slots=True)
class Pieces:
    """Ranked items by piece: rows of one person and contest that stood together.

    Attributes:
        rankings: items of each piece, in the order of the file, and its owner.
        rank, rank_rest: shape of the items; the rank is their sum, see
            `transforms.rankings.ranking_columns`.
        contest: shape (n,), a keyed hash of each piece's contest. Two contests of one person are
            taken for one with probability 2^-64.
    """

    rankings: Rankings
    rank: Floats
    rank_rest: Rest
    contest: Words

    def __len__(self) -> int:
        return len(self.contest)

    def take(self, rows: Integers | Mask) -> Pieces:
        """The chosen pieces, in that order."""
        lengths, rows = self.rankings.lengths, np.arange(len(self))[rows]
        rank = take_lists(self.rank, lengths, rows)
        rest = take_lists(self.rank_rest, lengths, rows)
        return Pieces(self.rankings.take(rows), rank, rest, self.contest[rows])

    @classmethod
    def concatenated(cls, parts: Sequence[Pieces]) -> Pieces:
        """The pieces of several parts, at least one."""
        return cls(
            Rankings.concatenated([part.rankings for part in parts]),
            np.concatenate([part.rank for part in parts]),
            np.concatenate([part.rank_rest for part in parts]),
            np.concatenate([part.contest for part in parts]),
        )


def encode_lists(
    batch: pa.RecordBatch,
    columns: ListColumns,
    catalogue: Catalogue,
    source: EpsilonSource,
    table: EpsilonTable | None,
    keyed_hash: KeyedHash | None,
    max_length: int,
) -> Sifted[Rankings]:
    """Encode one batch with a ranking in each row.

    Of names that people write, those that are no item are no part of a list.

    Args:
        batch: a batch with the columns that `columns` names.
        columns: roles of the columns.
        catalogue: the public items.
        source: source of the epsilons.
        table: epsilons by person, where `source` says so.
        keyed_hash: makes the pseudonyms of people; None: nobody's rankings need to meet.
        max_length: longer rankings are set aside.
    """
    column = batch[columns.ranking]
    null = to_numpy(pc.is_null(column))
    lengths = to_numpy(pc.fill_null(pc.list_value_length(column), 0)).astype(np.int64)
    items = catalogue.codes(_flat(column)).astype(np.int64)
    if catalogue.written is not None:
        listed = items != UNKNOWN
        row = np.repeat(np.arange(len(batch)), lengths)[listed]
        items, lengths = items[listed], np.bincount(row, minlength=len(batch))
    epsilon, broken = epsilons_of(batch, columns, source, table)
    profile = None if columns.features is None else columns.features.profiles_of(batch)
    rules = [
        *_rules_of_owner(batch, columns.user),
        ("null ranking", null),
        ("empty ranking", (lengths == 0) & ~null),
        (NOT_KNOWN, any_in_list(items == UNKNOWN, lengths)),
        (REPEATED, repeats_item(np.maximum(items, 0), lengths, len(catalogue))),
        (TOO_LONG, lengths > max_length),
        *rules_of_epsilons(broken),
        *rules_of_profiles(columns.features, profile),
    ]
    valid, rejects = sift(batch, rules)
    owner = None
    if columns.user is not None and keyed_hash is not None:
        owner = pseudonyms(batch[columns.user], keyed_hash)
    rankings = Rankings(items, lengths, epsilon, owner, profile=profile)
    return Sifted(rankings if rejects is None else rankings.take(valid), rejects, valid)


def encode_ranks(
    batch: pa.RecordBatch,
    columns: RankColumns,
    catalogue: Catalogue,
    source: EpsilonSource,
    table: EpsilonTable | None,
    keyed_hash: KeyedHash,
) -> Sifted[Pieces]:
    """Encode one batch with one ranked item in each row.

    Args:
        batch: a batch with the columns that `columns` names.
        columns: roles of the columns.
        catalogue: the public items.
        source: source of the epsilons.
        table: epsilons by person, where `source` says so.
        keyed_hash: makes the pseudonyms of people and contests.
    """
    item = catalogue.codes(batch[columns.item]).astype(np.int64)
    rank, rest, no_rank = ranks_of(batch[columns.rank], highest=columns.highest)
    epsilon, broken = epsilons_of(batch, columns, source, table)
    rules = [
        *_rules_of_owner(batch, columns.user),
        ("null item", to_numpy(pc.is_null(batch[columns.item]))),
        ("item not in the catalogue", item == UNKNOWN),
        ("null rank", no_rank),
        ("rank is not a number", ~np.isfinite(rank)),
        *_rules_of_contest(batch, columns.contest),
        *rules_of_epsilons(broken),
    ]
    valid, rejects = sift(batch, rules)
    rows = np.flatnonzero(valid)
    names = [name for name in (columns.user, columns.contest) if name is not None]
    whose = batch.select(names).take(pa.array(rows))
    first = _starts(whose) | new_run(epsilon[rows].view(np.uint64))
    starts = np.flatnonzero(first)
    whose = whose.take(pa.array(starts))
    contest = np.zeros(len(starts), np.uint64)
    if columns.contest is not None:
        contest = pseudonyms(contest_names(whose[columns.contest]), keyed_hash)[:, 0]
    owner = pseudonyms(whose[columns.user], keyed_hash)
    lengths = np.diff(np.append(starts, len(rows)))
    rankings = Rankings(item[rows], lengths, epsilon[rows][starts], owner)
    return Sifted(Pieces(rankings, rank[rows], rest[rows], contest), rejects, valid)


def assemble(
    pieces: Pieces,
    catalogue: Catalogue,
    max_length: int,
    *,
    keep_ties: bool,
    reading: RankReading = AS_GIVEN,
) -> Sifted[Rankings]:
    """Put the pieces of each ranking together, best item first.

    Args:
        pieces: all pieces of these rankings.
        catalogue: the public items.
        max_length: longer rankings are refused.
        keep_ties: mark items at the same rank as tied; otherwise rankings with ties are refused.
        reading: meaning of ranks beside their order.

    Returns:
        The valid rankings; a row for each item of a refused one, whose number is `ranking`.
    """
    contest = np.stack([pieces.contest, pieces.contest], axis=1)
    pieces = pieces.take(sort_by(owners(pieces.rankings), contest))
    parts, owner = pieces.rankings, owners(pieces.rankings)
    first = new_run(owner[:, 0], owner[:, 1], pieces.contest)
    number = number_runs(first)  # number of each piece's ranking
    starts = np.flatnonzero(first)
    lengths = np.add.reduceat(parts.lengths, starts) if len(starts) else parts.lengths
    order = _by_rank(np.repeat(number, parts.lengths), pieces)
    rank, rest = pieces.rank, pieces.rank_rest
    if order is not None:
        rank, rest = rank[order], rest[order]
    items = parts.items if order is None else parts.items[order]
    of_row = np.repeat(np.arange(len(lengths)), lengths)
    tied = np.zeros(len(rank), np.bool_)
    tied[1:] = (rank[1:] == rank[:-1]) & (rest[1:] == rest[:-1]) & (of_row[1:] == of_row[:-1])
    listed = reading.lengths(rank + rest, tied, lengths)
    counts = np.arange(len(rank)) < np.repeat(np.cumsum(lengths) - lengths + listed, lengths)
    has_ties = np.zeros(len(lengths), np.bool_)
    has_ties[of_row[tied & counts]] = True
    marks = tied[counts] if keep_ties else None
    whole = Rankings(items[counts], listed, parts.epsilon[starts], owner[starts], marks)
    differs = np.zeros(len(whole), np.bool_)
    differs[number[parts.epsilon != whole.epsilon[number]]] = True
    rules = [
        (REPEATED, repeats_item(items, lengths, len(catalogue))),
        (NOTHING_LISTED, listed == 0),
        (TOO_LONG, listed > max_length),
        (TIED, has_ties & (not keep_ties)),
        (TWO_EPSILONS, differs),
    ]
    valid, refused = sift(pa.record_batch({"ranking": np.arange(len(whole))}), rules)
    if refused is None:
        return Sifted(whole)
    names = pa.array(catalogue.names, pa.string()).take(pa.array(items))
    rows = pa.table({"item": names, "rank": rank + rest})
    return Sifted(whole.take(valid), _refused_rows(refused, rows, lengths))


def _refused_rows(refused: pa.Table, rows: pa.Table, lengths: Integers) -> pa.Table:
    """The rows of the rankings that are refused, each with the number of its ranking and why.

    Args:
        refused: the number, `ranking`, and the reason of each.
        rows: item and rank, of all rankings one after the other.
        lengths: number of rows of each ranking.
    """
    number = to_numpy(refused["ranking"])
    chosen = rows.take(pa.array(take_lists(np.arange(len(rows)), lengths, number)))
    of_row = np.repeat(np.arange(len(number)), lengths[number])
    made = {"ranking": of_row, "item": chosen["item"], "rank": chosen["rank"]}
    return pa.table(made | {"reason": refused["reason"].take(pa.array(of_row))})


def split_rankings(rankings: Rankings, n_partitions: int) -> Iterator[tuple[int, Rankings]]:
    """Cut rankings into partitions, all of one person in the same; empty ones are left out."""
    for partition, rows in _by_partition(owners(rankings), n_partitions):
        yield partition, rankings if len(rows) == len(rankings) else rankings.take(rows)


def split_pieces(pieces: Pieces, n_partitions: int) -> Iterator[tuple[int, Pieces]]:
    """Cut pieces into partitions, all of one person in the same; empty ones are left out."""
    for partition, rows in _by_partition(owners(pieces.rankings), n_partitions):
        yield partition, pieces if len(rows) == len(pieces.contest) else pieces.take(rows)


def owners(rankings: Rankings) -> Hashes:
    """Shape (n, 2), pseudonyms.

    Raises:
        ValueError: the rankings have no owners.
    """
    if rankings.owner is None:
        raise ValueError("rankings without owners have nobody to meet")
    return rankings.owner


def _by_partition(owner: Hashes, n_partitions: int) -> Iterator[tuple[int, Integers]]:
    place = (owner[:, 1] % np.uint64(n_partitions)).astype(np.uint16)
    order = np.argsort(place, kind="stable")
    edges = np.append(0, np.cumsum(np.bincount(place, minlength=n_partitions)))
    for partition in np.flatnonzero(np.diff(edges)).tolist():
        yield partition, order[edges[partition] : edges[partition + 1]]


def _flat(column: pa.Array) -> pa.Array:
    """Items of all lists, one after the other."""
    items = column.flatten()
    return items.cast(pa.string()) if pa.types.is_null(items.type) else items


def _rules_of_owner(batch: pa.RecordBatch, name: str | None) -> Rules:
    return () if name is None else (("null user", missing(batch, name)),)


def _rules_of_contest(batch: pa.RecordBatch, name: str | None) -> Rules:
    return () if name is None else (("null contest", missing(batch, name)),)


def _starts(whose: pa.RecordBatch) -> Mask:
    """Whether each row names another person or contest than the row before it."""
    first = np.ones(len(whose), np.bool_)
    if len(whose) < 2:
        return first
    first[1:] = False
    for column in whose.columns:
        values = column.indices if pa.types.is_dictionary(column.type) else column
        first[1:] |= to_numpy(pc.not_equal(values[1:], values[:-1]))
    return first


def _by_rank(number: Integers, pieces: Pieces) -> Integers | None:
    """Order of the rows by ranking, rank and item; None where they are in it already."""
    rank, rest = pieces.rank, pieces.rank_rest
    rises = (rank[1:] > rank[:-1]) | (number[1:] > number[:-1])
    if rises.all():
        return None
    item = pieces.rankings.items.astype(np.uint64)
    if rest.any():
        return np.lexsort((item, rest, rank, number))
    return order_within(number, np.column_stack([words_of_ranks(rank), item]))


def encode_wide(
    batch: pa.RecordBatch,
    columns: WideRankColumns,
    catalogue: Catalogue,
    source: EpsilonSource,
    table: EpsilonTable | None,
    keyed_hash: KeyedHash | None,
    max_length: int,
    *,
    keep_ties: bool,
    reading: RankReading = AS_GIVEN,
) -> Sifted[Rankings]:
    """Encode one batch with a ranking in each row.

    Args:
        batch: a batch with the columns that `columns` names.
        columns: columns that hold the ranks of each item.
        catalogue: the public items.
        source, table: source of the epsilons, with its table.
        keyed_hash: makes the pseudonyms of people; None: nobody's rankings need to meet.
        max_length: longer rankings are set aside.
        keep_ties: mark items at the same rank as tied; otherwise rankings with ties are set aside.
        reading: meaning of ranks beside their order.
    """
    by_name = {item: column for column, item in columns.items}
    cells = [_ranks(batch[by_name[name]], reading, columns.highest) for name in catalogue.names]
    rank, rest, unranked = (np.stack(each, axis=1) for each in zip(*cells, strict=True))
    numbers = np.isfinite(rank)
    order = np.lexsort((rest, rank, unranked), axis=1)  # stable: tied items as in the catalogue
    lengths = np.count_nonzero(~unranked, axis=1)
    tied = _ties(order, rank, rest, lengths)
    if reading.end_at_tie or reading.end_at_gap:
        ranked = np.arange(len(catalogue)) < lengths[:, np.newaxis]
        ordered = np.take_along_axis(rank, order, axis=1)
        lengths = reading.lengths(ordered[ranked], tied[ranked], lengths)
        tied &= np.arange(len(catalogue)) < lengths[:, np.newaxis]
    epsilon, broken = epsilons_of(batch, columns, source, table)
    profile = None if columns.features is None else columns.features.profiles_of(batch)
    rules = [
        ("null user", missing(batch, columns.user)),
        ("a rank is not a number", (~numbers & ~unranked).any(axis=1)),
        ("no item has a rank", lengths == 0),
        (TOO_LONG, lengths > max_length),
        (TIED, tied.any(axis=1) & (not keep_ties)),
        *rules_of_epsilons(broken),
        *rules_of_profiles(columns.features, profile),
    ]
    valid, rejects = sift(batch, rules)
    owner = None
    if columns.user is not None and keyed_hash is not None:
        owner = pseudonyms(batch[columns.user], keyed_hash)[valid]
    order, lengths = order[valid], lengths[valid]
    ranked = np.arange(len(catalogue)) < lengths[:, np.newaxis]
    marks = tied[valid][ranked] if keep_ties else None
    kept = None if profile is None else profile[valid]
    rankings = Rankings(order[ranked], lengths, epsilon[valid], owner, marks, profile=kept)
    return Sifted(rankings, rejects, valid)


def encode_places(
    batch: pa.RecordBatch,
    columns: PlaceColumns,
    catalogue: Catalogue,
    source: EpsilonSource,
    table: EpsilonTable | None,
    keyed_hash: KeyedHash | None,
    max_length: int,
    *,
    reading: RankReading = AS_GIVEN,
) -> Sifted[Rankings]:
    """Encode one batch with a ranking in each row, from the first place to the last.

    A ranking ends at the first place that `reading` ends it at; cells after that mean nothing.

    Args:
        batch: a batch with the columns that `columns` names.
        columns: columns that name the item at each place.
        catalogue: the public items.
        source, table: source of the epsilons, with its table.
        keyed_hash: makes the pseudonyms of people; None: nobody's rankings need to meet.
        max_length: longer rankings are set aside.
        reading: meaning of words, rules for gaps, for ties and for repeated items, and what becomes
            of rankings that break a rule.
    """
    items = np.stack(
        [items_there(batch[name], catalogue, reading) for name in columns.places], axis=1
    )
    named, repeated = items >= 0, named_before(items)
    ends = (items == _SEVERAL) & reading.end_at_tie
    ends |= (items == NOBODY) & reading.end_at_gap
    ends |= repeated & (reading.repeated is Repeated.EXHAUST)
    goes_on = ~np.logical_or.accumulate(ends, axis=1)
    wrong = np.asarray(repeated & goes_on & (reading.repeated is Repeated.SET_ASIDE))
    counts = named & goes_on & ~repeated
    lengths = np.count_nonzero(counts, axis=1)
    epsilon, broken = epsilons_of(batch, columns, source, table)
    profile = None if columns.features is None else columns.features.profiles_of(batch)
    of_places: Rules = [
        (NOT_KNOWN, ((items == UNKNOWN) & goes_on).any(axis=1)),
        (TIED, ((items == _SEVERAL) & goes_on).any(axis=1)),
        (REPEATED, np.asarray(wrong.any(axis=1))),
        ("no place names an item that counts", lengths == 0),
        (TOO_LONG, lengths > max_length),
    ]
    if reading.invalid is not None:
        invalid = np.any([mask for _, mask in of_places], axis=0)
        items[invalid, 0] = catalogue.names.index(reading.invalid)
        counts[invalid] = np.arange(items.shape[1]) == 0
        lengths, of_places = np.where(invalid, 1, lengths), []
    rules = [
        *_rules_of_owner(batch, columns.user),
        *of_places,
        *rules_of_epsilons(broken),
        *rules_of_profiles(columns.features, profile),
    ]
    valid, rejects = sift(batch, rules)
    owner = None
    if columns.user is not None and keyed_hash is not None:
        owner = pseudonyms(batch[columns.user], keyed_hash)[valid]
    listed = items[valid][counts[valid]].astype(np.int64)
    kept = None if profile is None else profile[valid]
    rankings = Rankings(listed, lengths[valid], epsilon[valid], owner, profile=kept)
    return Sifted(rankings, rejects, valid)


NOBODY, _SEVERAL = UNKNOWN - 1, UNKNOWN - 2  # in place of an item's code


def items_there(column: pa.Array, catalogue: Catalogue, reading: RankReading) -> Codes:
    """Code of the item that each cell of a place names; `NOBODY` or `_SEVERAL` if it names none.

    A word of `reading` is that word, even if an item has the same name. Where people write names, a
    text that is no item names nobody.
    """
    if pa.types.is_null(column.type):
        return np.full(len(column), NOBODY, np.int32)
    items = catalogue.codes(column)
    if catalogue.written is not None:
        items = np.where(items == UNKNOWN, np.int32(NOBODY), items)
    if reading.other is not None:
        other = np.full(len(column), catalogue.names.index(reading.other), np.int32)
        if is_text(column.type):
            other[by_distinct(column, are_blank, np.True_)] = NOBODY
        items = np.where(items == UNKNOWN, other, items)
    for words, code in ((reading.not_ranked, NOBODY), (reading.tie_words, _SEVERAL)):
        if words:
            items = np.where(cells_among(column, words), np.int32(code), items)
    empty = by_distinct(column, are_unranked, np.True_) if is_text(column.type) else np.False_
    return np.where(to_numpy(pc.is_null(column)) | empty, np.int32(NOBODY), items)


def _ranks(
    column: pa.Array, reading: RankReading, highest: bool
) -> tuple[Floats, NDArray[np.int16], Mask]:
    """The ranks of one item as `ranks_of` has them, and which rows do not rank it."""
    if pa.types.is_null(column.type):
        none = np.ones(len(column), np.bool_)
        return np.full(len(column), np.nan), np.zeros(len(column), np.int16), none
    rank, rest, unranked = ranks_of(column, highest=highest)
    if is_text(column.type):
        unranked = unranked | by_distinct(column, are_unranked, np.True_)
    elif pa.types.is_floating(column.type):
        unranked = unranked | np.isnan(rank)
    if reading.not_ranked:
        unranked = unranked | cells_among(column, reading.not_ranked)
    return np.where(unranked, np.nan, rank), rest, unranked


def _ties(
    order: NDArray[np.int64], rank: Floats, rest: NDArray[np.int16], lengths: NDArray[np.int64]
) -> Mask:
    """Whether each item in `order` has the rank of the item before it, shape (rows, items)."""
    rank = np.take_along_axis(rank, order, axis=1)
    rest = np.take_along_axis(rest, order, axis=1)
    tied = np.zeros(order.shape, np.bool_)
    tied[:, 1:] = (rank[:, 1:] == rank[:, :-1]) & (rest[:, 1:] == rest[:, :-1])
    tied &= np.arange(order.shape[1]) < lengths[:, np.newaxis]
    return tied
