"""Bound what one person contributes: at most L rows, wherever the person's rows came from.

A sensitivity is only true if its bound is enforced, so this is where the guarantee starts. Rows
meet in the bucket of their person. Which of them are kept depends on a keyed hash of the person and
of the row's content alone: not on files, row groups, bundles, order or retries; and nobody without
the run's key can predict it. Everything here is pure and works on one bucket at a time.

With weights, the bound of a person is derived in `privacy.row_weights`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np

from hushrank.privacy.keyed_hash import Block, Hashes, KeyedHash
from hushrank.privacy.row_weights import FACTOR_BITS, RowFactors, Units
from hushrank.privacy.units import UNITS
from hushrank.transforms.common.encode import Comparisons, Outcomes
from hushrank.transforms.common.schema import Ties, take_lists
from hushrank.transforms.common.sorting import (
    Mask,
    Order,
    Words,
    new_run,
    number_runs,
    order_within,
    sort_into_runs,
)
from hushrank.transforms.comparisons.shuffle import Carried, OwnedRows, comparisons_of

UNITS_KEPT, SQUARES_KEPT = "units_kept", "squares_kept"  # numbers of a tally
SQUARES = "squares"  # the array of the sum of squared weights, shape (1,)
# labels of the hashes; `transforms.comparisons.shuffle` has the next
_EVENT, _ROW, _COPY, _PAIR = range(4)
CONFLICT = "another row of the same user, pair and event has another result, group or weight"


def factored(weight: Units | None, starts: Mask, factors: RowFactors) -> Units:
    """Weights of rows of which all that an owner has count, shape (m,).

    Args:
        weight: weight of the rows themselves, in units; None: one comparison each.
        starts: places where another owner's rows start.
        factors: factor of a row, by the number of its owner's rows.
    """
    first = np.flatnonzero(starts)
    sizes = np.diff(first, append=len(starts))
    return multiplied(weight, np.repeat(factors.of(sizes), sizes))


def multiplied(weight: Units | None, factors: Units) -> Units:
    """Weights times factors in units of 2^-`FACTOR_BITS`, rounded down."""
    units = UNITS if weight is None else weight
    return np.asarray(units * factors >> FACTOR_BITS)  # products stay far below 2^63


def tally_of_weights(rows: Comparisons) -> dict[str, int]:
    """Sum the weights of rows that are counted; empty if they have no weights."""
    if rows.weight is None:
        return {}
    units = int(rows.weight.sum())
    return {UNITS_KEPT: units, SQUARES_KEPT: int(np.square(rows.weight).sum())}


Admit = Callable[[OwnedRows], Mask]
Pieces = Callable[[], Iterable[OwnedRows]]  # all rows of a bucket, some at a time; anew each time


@dataclass(frozen=True, slots=True)
class Counting:
    """The rows of a bucket that may count.

    Attributes:
        pieces: all rows, some at a time; anew each time, at least one.
        n_rows: number of the rows.
        tally: tally of the rows that do not count.
        admit: last choice among the rows that the bounds keep; None: all count.
    """

    pieces: Pieces
    n_rows: int
    tally: dict[str, int]
    admit: Admit | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Limits of what may remain of one person's rows.

    Attributes:
        n_items: size of the catalogue.
        ties: `drop` removes ties before anything is counted; `random` decides those that are kept.
        max_contributions: L; None: no bound (the unit of privacy is one comparison).
        per_item_cap: c; None: no cap.
        distinct_pairs: whether at most one row on each pair of items may remain.
        factors: by which the rows of a person are multiplied instead of leaving out those beyond L;
            None: these are left out.
        most_groups: the most groups in which a row counts, where groups overlap; None: they do not.
        carried: facts that rows carry beside their pair and outcome. All bounds hold across groups:
            they are of a person's rows, and never of those in one group.
        contradictions: whether to count who contradicts themselves.
    """

    n_items: int
    ties: Ties
    max_contributions: int | None
    per_item_cap: int | None = None
    distinct_pairs: bool = False
    factors: RowFactors | None = None
    most_groups: int | None = None
    carried: Carried = Carried.NOTHING
    contradictions: bool = False

    @property
    def most_kept(self) -> int | None:
        """Rows of an owner that are kept; None: all that keep the other bounds."""
        return self.max_contributions if self.factors is None else None


@dataclass(frozen=True, slots=True)
class Bounded:
    """Kept rows of a bucket, and what happened to the rest (confidential).

    Attributes:
        kept: the rows within the bounds.
        conflicts: copies of one event that contradict each other.
        tally: counts of rows and owners.
    """

    kept: Comparisons
    conflicts: OwnedRows
    tally: dict[str, int]


def bound_bucket(
    rows: OwnedRows, bounds: Bounds, keyed_hash: KeyedHash, admit: Admit | None = None
) -> Bounded:
    """Keep a uniformly random share of each owner's rows within `bounds`.

    Without `distinct_pairs` the L rows are a uniform sample without replacement of the owner's
    rows. With it, they are on a uniform sample of the owner's pairs, and on each pair a uniform
    choice among its rows. `per_item_cap` goes through the rows in that random order and leaves out
    every row that is not among the first c of both its items.

    Args:
        rows: all rows of the owners in this bucket.
        bounds: limits of what may remain.
        keyed_hash: the run's secret hash.
        admit: last choice among the rows that would be kept, each owner's in the order in which
            they were chosen; None: all are kept.

    Returns:
        The rows kept; those of events whose copies contradict each other; confidential tallies.
    """
    tally = {"rows_with_owner": len(rows)}
    rows, conflicts = one_row_an_event(rows, keyed_hash, bounds.most_groups)
    tally["conflicting_rows"] = len(conflicts)
    tally["duplicate_rows"] = tally["rows_with_owner"] - len(rows) - len(conflicts)
    order, starts, priority = _prioritise(rows, keyed_hash)
    if bounds.distinct_pairs or bounds.per_item_cap is not None:
        rows, priority = rows.take(order), np.take(priority, order, axis=0)
        rows, priority = _on_pairs_and_items(rows, priority, bounds, keyed_hash)
        order, starts = np.arange(len(rows)), new_run(*rows.owner_words)
    tally["owners"] = int(np.count_nonzero(starts))
    if bounds.most_kept is not None:
        order = order[np.flatnonzero(among_first(starts, bounds.most_kept))]
    if admit is not None:
        order = order[admit(rows.take(order))]
    tally["rows_kept"] = len(order)
    if bounds.contradictions:
        from hushrank.transforms.comparisons.contradictions import tally_of_contradictions

        tally |= tally_of_contradictions(rows.take(order))
    more = None if rows.more is None else np.take(rows.more, order)
    kept = comparisons_of(np.take(rows.content, order), more, bounds.carried)
    if bounds.factors is not None:
        kept = replace(kept, weight=factored(kept.weight, starts, bounds.factors))
    if bounds.ties is Ties.RANDOM:
        kept = replace(kept, outcome=toss(kept.outcome, priority[order]))
    return Bounded(kept, conflicts, tally | tally_of_weights(kept))


def _on_pairs_and_items(
    rows: OwnedRows, priority: Hashes, bounds: Bounds, keyed_hash: KeyedHash
) -> tuple[OwnedRows, Hashes]:
    """The rows within `distinct_pairs` and `per_item_cap`; given and returned by priority."""
    if bounds.distinct_pairs:
        rows, priority = one_row_a_pair(rows, priority, keyed_hash)
    if bounds.per_item_cap is not None:
        among = among_first_of_items(rows, bounds.n_items, bounds.per_item_cap)
        within = np.flatnonzero(among.all(axis=1))
        rows, priority = rows.take(within), priority[within]
    return rows, priority


def one_row_an_event(
    rows: OwnedRows, keyed_hash: KeyedHash, most_groups: int | None = None
) -> tuple[OwnedRows, OwnedRows]:
    """Merge the copies of each event (owner, pair, event); where copies contradict, set all aside.

    Copies with different outcomes, groups, weights or covariates contradict each other. Not just
    any copy may be kept: adding one row must never turn a win into a loss, which would move two
    counts where the sensitivity allows one. Where groups overlap, copies in different groups do not
    contradict each other: they are one answer, in the first `most_groups` of all of their groups.
    """
    if rows.event is None:
        return rows, rows.take(np.empty(0, np.int64))
    identity = keyed_hash.of_tuples(_EVENT, rows.owner_words, (rows.pair,), rows.event)
    by_event = sort_into_runs(rows.owner_words, identity)
    rows, first = rows.take(by_event.order), np.ones(len(rows), np.bool_)
    first[by_event.repeats] = False
    run, contradicts = number_runs(first), np.zeros(int(first.sum()), np.bool_)
    if most_groups is not None and rows.more is not None and len(rows):
        from hushrank.transforms.common.group_sets import first_groups

        united = np.bitwise_or.reduceat(rows.more, np.flatnonzero(first))
        rows.more[:] = first_groups(united, most_groups)[run]
    for word in (rows.content, rows.more):  # these words hold a pair's group and outcome
        if word is not None:
            contradicts[run[word != word[first][run]]] = True
    return rows.filter(first & ~contradicts[run]), rows.filter(contradicts[run])


def _prioritise(rows: OwnedRows, keyed_hash: KeyedHash) -> tuple[Order, Mask, Hashes]:
    """Give every row 128 secret bits made from its owner, its content and which copy it is.

    Returns:
        The order of the rows, owner by owner, in which these bits ascend; at which places of it
        another owner's rows start; the bits of each row.
    """
    priority = priorities(rows, keyed_hash)
    by_content = sort_into_runs(rows.owner_words, priority)
    order, later = by_content.order, by_content.repeats  # the same content again: copies 1, 2, ...
    if len(later) == 0:
        return order, by_content.starts, priority
    new = np.diff(later, prepend=-1) > 1  # after another content's copies, or none
    originals = later[new] - 1
    copies, copy = order[later], (later - originals[number_runs(new)]).view(np.uint64)
    priority[copies] = priorities_of_copies(priority[copies], copy, keyed_hash)
    # Only owners with copies are out of order now; they are few, or else this takes as long again.
    starts = np.flatnonzero(by_content.starts)
    moved = np.unique(np.searchsorted(starts, later, side="right") - 1)
    sizes = np.diff(starts, append=len(order))
    places = take_lists(np.arange(len(order)), sizes, moved)
    theirs, owner = order[places], np.repeat(np.arange(len(moved)), sizes[moved])
    order[places] = theirs[order_within(owner, priority[theirs])]
    return order, by_content.starts, priority


def priorities(rows: OwnedRows, keyed_hash: KeyedHash) -> Hashes:
    """128 secret bits for each row, made from its owner, all that it says, and its event."""
    said = (rows.content,) if rows.more is None else (rows.content, rows.more)
    content: list[Block] = [rows.owner_words, said]
    if rows.event is not None:
        content.append(rows.event)
    return keyed_hash.of_tuples(_ROW, *content)


def priorities_of_copies(priority: Hashes, copy: Words, keyed_hash: KeyedHash) -> Hashes:
    """Return priorities of copies 1, 2, ... of contents with these priorities."""
    return keyed_hash.of_tuples(_COPY, priority, (copy,))


def one_row_a_pair(
    rows: OwnedRows, priority: Hashes, keyed_hash: KeyedHash
) -> tuple[OwnedRows, Hashes]:
    """Keep the first row by priority of each (owner, pair); then sort by owner and the pair's hash.

    Were the pairs sorted by their first row, a pair with many rows would tend to come early.
    """
    pair = keyed_hash.of_tuples(_PAIR, rows.owner_words, (rows.pair,))
    order = order_within(owner_numbers(rows), pair)  # rows on one pair stay ordered by priority
    pair = np.take(pair, order, axis=0)
    first = np.flatnonzero(new_run(pair[:, 0], pair[:, 1]))
    chosen = order[first]
    # The upper word sorts the pairs; the lower word stays the row's own, for the coin.
    return rows.take(chosen), np.stack([pair[first, 0], priority[chosen, 1]], axis=1)


def among_first_of_items(rows: OwnedRows, n_items: int, cap: int) -> Mask:
    """Whether each row is among the first `cap` of its owner on either of its items: shape (m, 2).

    Rows are sorted by owner, each owner's by priority.
    """
    compared, owner = rows.comparisons(), owner_numbers(rows)
    ends = [owner * n_items + item for item in (compared.left, compared.right)]
    holder = np.stack(ends, axis=1).reshape(-1)  # row by row: both of a row's items, then the next
    order = np.argsort(holder, kind="stable")
    among = np.ones(len(holder), np.bool_)
    among[order[~among_first(new_run(holder[order]), cap)]] = False
    return among.reshape(-1, 2)


def toss(outcome: Outcomes, priority: Hashes) -> Outcomes:
    """Decide ties by a secret bit of the row that nothing else uses."""
    coin = np.where(priority[:, 1] & np.uint64(1), np.int8(1), np.int8(-1))
    return np.where(outcome == 0, coin, outcome)


def owner_numbers(rows: OwnedRows) -> Order:
    """0, 1, 2, ... for each owner, of rows in which each owner's are neighbours."""
    return number_runs(new_run(*rows.owner_words))


def among_first(starts: Mask, most: int) -> Mask:
    """Whether each row is among the first `most` of its run, given where runs start."""
    first, reach = starts.copy(), 1  # whether a run starts at most `reach` - 1 rows before
    while reach < min(most, len(starts)):
        step = min(reach, most - reach)
        first[step:] |= first[:-step]
        reach += step
    return first
