"""Bound buckets that are too large to be held at once: one person may have any number of rows.

The design is that of `transforms.common.sorting`. Comparisons have a loop of their own, for a slice
of them may still be too large: copies of one content are counted, and come back some at a time.
A slice is all rows on some of the pairs of items. Rows that decide about each other before
priorities do (copies of an event, copies of a content, rows on one pair) are on one pair, so a
slice is settled on its own, and hands on only rows that may still be kept. What remains of all
slices is bounded as a whole. The result is that of `bound.bound_bucket`, row for row, whatever the
slices. Pure: works on one bucket at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from hushrank.privacy.keyed_hash import Hashes, KeyedHash
from hushrank.transforms.common.encode import Comparisons
from hushrank.transforms.common.schema import Ties
from hushrank.transforms.common.sorting import Mask, new_run, number_runs, of_slice, sort_into_runs
from hushrank.transforms.comparisons.bound import (
    Admit,
    Bounded,
    Bounds,
    Pieces,
    among_first,
    among_first_of_items,
    factored,
    multiplied,
    one_row_a_pair,
    one_row_an_event,
    owner_numbers,
    priorities,
    priorities_of_copies,
    tally_of_weights,
    toss,
)
from hushrank.transforms.comparisons.contradictions import tally_of_contradictions
from hushrank.transforms.comparisons.shuffle import WORDS, OwnedRows

Copies = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Ranked:
    """Rows with the secret bits that decide about each."""

    rows: OwnedRows
    priority: Hashes

    def and_(self, more: _Ranked) -> _Ranked:
        """Merge both, owner by owner, each owner's rows by priority."""
        rows = OwnedRows.concatenate([self.rows, more.rows])
        priority = np.concatenate([self.priority, more.priority])
        order = sort_into_runs(rows.owner_words, priority).order
        return _Ranked(rows.take(order), np.take(priority, order, axis=0))

    def where(self, keep: Mask) -> _Ranked:
        """The rows where `keep` is true."""
        return _Ranked(self.rows.filter(keep), self.priority[keep])


def bound_heavy_users(
    pieces: Pieces,
    n_rows: int,
    bounds: Bounds,
    keyed_hash: KeyedHash,
    rows_at_once: int,
    admit: Admit | None = None,
) -> Iterator[Bounded]:
    """Keep what `bound_bucket` would keep, with some `rows_at_once` rows in memory.

    More are there only where that many are copies of one event, or where that many are kept.

    Args:
        pieces: the rows, of any owners.
        n_rows: number of the rows.
        bounds: limits of what may remain.
        keyed_hash: the run's secret hash.
        rows_at_once: most rows in memory, at least 1.
        admit: as for `bound_bucket`, for rows on distinct pairs.

    Returns:
        What `bound_bucket` returns, in parts; the tallies of the parts add up to its tally.
    """
    n_slices = -(-n_rows // rows_at_once)
    if bounds.factors is not None and bounds.per_item_cap is None:
        yield from _factored(pieces, n_rows, n_slices, bounds, keyed_hash, rows_at_once)
        return
    one_by_one = bounds.max_contributions is None and bounds.per_item_cap is None
    settled = partial(_settled, pieces, n_slices, bounds, keyed_hash, rows_at_once)
    nothing = _nothing(next(iter(pieces())))
    remaining, owners = nothing, nothing.rows.owner
    for slice_ in range(n_slices):
        on_slice = nothing
        for ranked, conflicts in settled(slice_):
            if conflicts is not None:
                yield conflicts
            if bounds.distinct_pairs:
                on_slice = _first_on_pairs(on_slice.and_(ranked))
            elif not one_by_one:
                on_slice = _hopeful(on_slice.and_(ranked), bounds)
            else:
                owners = np.unique(np.concatenate([owners, ranked.rows.owner]), axis=0)
                yield _kept(ranked, bounds, {})
        if bounds.distinct_pairs:
            on_slice = _Ranked(*one_row_a_pair(on_slice.rows, on_slice.priority, keyed_hash))
        remaining = _hopeful(remaining.and_(on_slice), bounds)
    tally = {"rows_with_owner": n_rows, "conflicting_rows": 0, "duplicate_rows": 0}
    tally["owners"] = len(owners) + int(np.count_nonzero(_starts(remaining)))
    within = _within(remaining, bounds)
    if admit is not None:
        within = within.where(admit(within.rows))
    if bounds.contradictions:
        tally |= tally_of_contradictions(within.rows)
    yield _kept(within, bounds, tally)


def _settled(
    pieces: Pieces,
    n_slices: int,
    bounds: Bounds,
    keyed_hash: KeyedHash,
    rows_at_once: int,
    slice_: int,
) -> Iterator[tuple[_Ranked, Bounded | None]]:
    """Every row of the slice that is no copy of an event, and what was set aside."""
    rows, copies = _collected(pieces, slice_, n_slices, rows_at_once)
    if rows.event is not None:
        single, conflicts = one_row_an_event(rows, keyed_hash, bounds.most_groups)
        tally = {"conflicting_rows": len(conflicts)}
        tally["duplicate_rows"] = len(rows) - len(single) - len(conflicts)
        ranked = _Ranked(single, priorities(single, keyed_hash))
        yield ranked, Bounded(_nothing(rows).rows.comparisons(), conflicts, tally)
        return
    priority, ends = priorities(rows, keyed_hash), np.cumsum(copies)
    for start in range(0, int(copies.sum()), rows_at_once):
        number = np.arange(start, min(start + rows_at_once, int(ends[-1])))
        place = np.searchsorted(ends, number, side="right")
        copy = (number - (ends - copies)[place]).view(np.uint64)
        bits, later = priority[place], np.flatnonzero(copy)
        bits[later] = priorities_of_copies(bits[later], copy[later], keyed_hash)
        yield _Ranked(rows.take(place), bits), None


def _collected(
    pieces: Pieces, slice_: int, n_slices: int, rows_at_once: int
) -> tuple[OwnedRows, Copies]:
    """The rows of a slice, and of each how often it is there; those with events are not merged."""
    held: list[OwnedRows] = []
    times: list[Copies] = []
    for piece in pieces():
        mine = piece.filter(of_slice(piece.pair, slice_, n_slices))
        held.append(mine)
        times.append(np.ones(len(mine), np.int64))
        if mine.event is None and sum(map(len, held)) > rows_at_once:
            held, times = _merged(held, times)
    if held[0].event is None:
        held, times = _merged(held, times)
    return OwnedRows.concatenate(held), np.concatenate(times)


def _merged(held: list[OwnedRows], times: list[Copies]) -> tuple[list[OwnedRows], list[Copies]]:
    """Merge to one row for each owner and content."""
    words, copies = OwnedRows.concatenate(held).words, np.concatenate(times)
    order = np.lexsort(words)
    words = np.take(words, order, axis=1)
    first = np.flatnonzero(new_run(*words))
    if not len(first):
        return [OwnedRows(words)], [copies]
    return [OwnedRows(np.take(words, first, axis=1))], [np.add.reduceat(copies[order], first)]


def _first_on_pairs(ranked: _Ranked) -> _Ranked:
    """The first row by priority of each owner and pair."""
    owner, pair = owner_numbers(ranked.rows), ranked.rows.pair
    order = np.lexsort((pair, owner))
    keep = np.zeros(len(order), np.bool_)
    keep[order[new_run(owner[order], pair[order])]] = True
    return ranked.where(keep)


def _hopeful(ranked: _Ranked, bounds: Bounds) -> _Ranked:
    """Without rows that are certainly not kept, whatever else their owner has.

    A row that is not among the first c on one of its items still counts on the other.
    """
    if bounds.per_item_cap is not None:
        among = among_first_of_items(ranked.rows, bounds.n_items, bounds.per_item_cap)
        return ranked.where(np.asarray(among.any(axis=1)))
    if bounds.most_kept is None:
        return ranked
    return ranked.where(among_first(_starts(ranked), bounds.most_kept))


def _within(ranked: _Ranked, bounds: Bounds) -> _Ranked:
    """The rows within the bounds."""
    if bounds.per_item_cap is not None:
        among = among_first_of_items(ranked.rows, bounds.n_items, bounds.per_item_cap)
        ranked = ranked.where(np.asarray(among.all(axis=1)))
    if bounds.most_kept is not None:
        ranked = ranked.where(among_first(_starts(ranked), bounds.most_kept))
    return ranked


def _kept(ranked: _Ranked, bounds: Bounds, tally: dict[str, int]) -> Bounded:
    kept = ranked.rows.comparisons(bounds.carried)
    if bounds.factors is not None:
        kept = replace(kept, weight=factored(kept.weight, _starts(ranked), bounds.factors))
    return _counted(ranked, kept, bounds, tally)


def _counted(ranked: _Ranked, kept: Comparisons, bounds: Bounds, tally: dict[str, int]) -> Bounded:
    if bounds.ties is Ties.RANDOM:
        kept = replace(kept, outcome=toss(kept.outcome, ranked.priority))
    counts = {"rows_kept": len(kept), **tally_of_weights(kept)}
    return Bounded(kept, _nothing(ranked.rows).rows, {**tally, **counts})


def _factored(
    pieces: Pieces,
    n_rows: int,
    n_slices: int,
    bounds: Bounds,
    keyed_hash: KeyedHash,
    rows_at_once: int,
) -> Iterator[Bounded]:
    """Keep all rows of a person on distinct pairs, each times a factor of how many they are.

    That number is known when all slices were seen, so each is settled twice.
    """
    if bounds.factors is None:
        raise ValueError("no factors are given")
    people = _People(_nothing(next(iter(pieces()))).rows, np.empty(0, np.int64))
    settled = partial(_settled, pieces, n_slices, bounds, keyed_hash, rows_at_once)
    for first_time in (True, False):
        for slice_ in range(n_slices):
            on_slice = _nothing(next(iter(pieces())))
            for ranked, conflicts in settled(slice_):
                if conflicts is not None and first_time:
                    yield conflicts
                on_slice = _first_on_pairs(on_slice.and_(ranked))
            on_slice = _Ranked(*one_row_a_pair(on_slice.rows, on_slice.priority, keyed_hash))
            if first_time:
                people = people.and_(_People.of(on_slice))
                continue
            each = bounds.factors.of(people.rows_of(on_slice.rows))
            kept = on_slice.rows.comparisons(bounds.carried)
            kept = replace(kept, weight=multiplied(kept.weight, each))
            yield _counted(on_slice, kept, bounds, {})
    tally = {"rows_with_owner": n_rows, "conflicting_rows": 0, "duplicate_rows": 0}
    nothing = _nothing(next(iter(pieces())))
    tally["owners"] = len(people.owners)
    yield Bounded(nothing.rows.comparisons(), nothing.rows, tally)


@dataclass(frozen=True, slots=True)
class _People:
    """Every owner once, in some order, as a row without content, and how many rows each has."""

    owners: OwnedRows
    rows: Copies

    @classmethod
    def of(cls, ranked: _Ranked) -> _People:
        """Find the people of rows that are sorted by owner."""
        places = np.flatnonzero(_starts(ranked))
        words = np.take(ranked.rows.words[:WORDS], places, axis=1)
        words[2] = 0
        return cls(OwnedRows(words), np.diff(places, append=len(ranked.rows)))

    def and_(self, more: _People) -> _People:
        """Merge both; rows of the same owner add up."""
        owners = [OwnedRows(self.owners.words[:WORDS]), more.owners]
        (merged,), (rows,) = _merged(owners, [self.rows, more.rows])
        return _People(merged, rows)

    def rows_of(self, rows: OwnedRows) -> Copies:
        """Number of rows that the owner of each row has."""
        words = np.concatenate([self.owners.words[:2], rows.words[:2]], axis=1)
        order = np.lexsort(words)  # among equal owners the one from here comes first
        person = np.empty(len(order), np.int64)
        person[order] = number_runs(new_run(*np.take(words, order, axis=1)))
        found = np.empty(len(self.rows), np.int64)
        found[person[: len(self.rows)]] = self.rows
        return np.asarray(found[person[len(self.rows) :]])


def _starts(ranked: _Ranked) -> Mask:
    """Mark the places where another owner's rows start."""
    return new_run(*ranked.rows.owner_words)


def _nothing(rows: OwnedRows) -> _Ranked:
    """No rows, of as many words."""
    none = rows.take(np.empty(0, np.int64))
    return _Ranked(none, none.owner)
