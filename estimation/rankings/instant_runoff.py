"""Instant runoff by noisy rounds: exact first choices in, noisy rounds out, and what they say.

In each round a ranking counts for the best of its items that are left; without any it is exhausted.
The item with the smallest noisy count leaves, of equal ones the last of the catalogue, until one is
left. The noise of all rounds is drawn before the first one.

Exact counts. How a ranking counts depends on which items are left alone, so all rounds, whatever
leaves when, follow from one table: in how many rankings item a comes right after the items of a
set, in any order. A round is the sum of its rows whose items all have left. The table has a row for
each set of fewer items than the longest ranking has: its size is public.

Law: with probability 95 % or more all of this holds at once. Let m items be left in a round and k
of them be K. In the exact counts of these m, all of K together have less than each other one if

    (noisy count of a) - (noisy counts of K) > reach(m, k)    for each a that is not in K.

Then all of K leave before any other item does: as long as one of K is left, the rankings of those
are among those that counted for K at first, and the others never lose any. So whatever the order
in K, the next items left are the same, and what is surely so goes on from there.

For one K the statement is wrong only if the item a outside of K with the smallest exact count has
no more than all of K together, and its noise less theirs exceeds the reach: one event, as a does
not depend on the noise. Half of the 5 % of a round is for k = 1, where K would have to be one of
the m - 1 items that do not have the smallest exact count; so too if the one that has it is missing
from `possible`. The rest is shared evenly by the larger k, each with C(m, k) sets K (Bonferroni).
Rounds share the 5 % evenly. The noise of a round is independent of the items left in it, which
follow from earlier rounds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from hushrank.estimation.common.estimate import CLEAR_TOTAL, Estimate
from hushrank.estimation.common.uncertainty import LEVEL
from hushrank.estimation.rankings.election_rules import Mask, Result, noise_reach
from hushrank.estimation.rankings.ranking_counts import Integers, tables_by_length
from hushrank.estimation.rankings.ranking_estimates import order_estimate
from hushrank.privacy.noise import NoiseLaw, add_noise
from hushrank.privacy.randomness import RandomBits

MOST_ROUNDS = 20
MOST_CELLS = 1 << 21  # of the table of first choices: 16 MB
RULE = "instant-runoff"


def n_sets(n_items: int, longest: int) -> int:
    """Sets of fewer than `longest` items."""
    return sum(math.comb(n_items, size) for size in range(longest))


def first_choices(items: Integers, lengths: Integers, n_items: int, longest: int) -> Integers:
    """Count which item of rankings comes right after which set of others.

    Args:
        items: shape (sum of lengths,), the rankings one after the other, each best first; codes
            below `n_items`, no item twice in a ranking.
        lengths: shape (n,), how many items each has, at most `longest`.
        n_items: size of the catalogue.
        longest: most items of a ranking.

    Returns:
        Shape (`n_sets`, n_items), entry [s, a] = rankings with a right after all items of set s.

    Raises:
        ValueError: the lengths do not fit, a code is out of range, or a ranking repeats an item.
    """
    counts = np.zeros((n_sets(n_items, longest), n_items), np.int64)
    if len(lengths) and lengths.max() > longest:
        raise ValueError(f"a ranking has more than {longest} items")
    for table in tables_by_length(items, lengths, n_items):
        ordered = np.sort(table, axis=1)
        if (ordered[:, 1:] == ordered[:, :-1]).any():
            raise ValueError("a ranking holds an item twice")  # which, is private
        for place in range(table.shape[1]):
            cells = _set_numbers(table[:, :place], n_items) * n_items + table[:, place]
            counts += np.bincount(cells, minlength=counts.size).reshape(counts.shape)
    return counts


def _set_numbers(sets: Integers, n_items: int) -> Integers:
    """Number of each set: smaller ones first, then by the combinatorial number system.

    Args:
        sets: shape (rows, size), the items of each in any order.
        n_items: size of the catalogue.
    """
    size = sets.shape[1]
    choose = np.array([[math.comb(item, k) for k in range(size + 1)] for item in range(n_items)])
    first = sum(math.comb(n_items, k) for k in range(size))
    return np.asarray(first + choose[np.sort(sets, axis=1), np.arange(1, size + 1)].sum(axis=1))


def members_of_sets(n_items: int, longest: int) -> Mask:
    """Which items each set of `first_choices` has, shape (`n_sets`, n_items)."""
    members = np.zeros((n_sets(n_items, longest), n_items), np.bool_)
    for size in range(1, longest):
        sets = np.array(list(combinations(range(n_items), size)))
        members[_set_numbers(sets, n_items)[:, np.newaxis], sets] = True
    return members


def release_rounds(firsts: Integers, longest: int, law: NoiseLaw, bits: RandomBits) -> Integers:
    """Count all rounds with noise on every cell, zeros and exhausted rankings too.

    Guarantee: that for which the law was made by `ranking_below_sensitivity` of rounds, for counts
    of a log whose bounds were enforced, if `bits.safe`. All noise is drawn before the first round,
    and a cell of an item that has left is none.

    Args:
        firsts: confidential, of `first_choices`.
        longest: as for these.
        law: of the noise on each cell.
        bits: `system_bits()` in a release.

    Returns:
        Shape (rounds, n_items + 1), the last column of exhausted rankings; 0 of items that left.
    """
    n_items = firsts.shape[1]
    cells = np.arange(n_items + 1, 2, -1)  # of items left and of exhausted rankings, round by round
    noise = np.split(add_noise(np.zeros(cells.sum(), np.int64), law, bits), cells.cumsum()[:-1])
    members, left = members_of_sets(n_items, longest), np.ones(n_items, np.bool_)
    rounds = []
    for own in noise:
        counts = count_round(firsts, members, left)
        counts[np.append(left, True)] += own
        rounds.append(counts)
        left[smallest(counts[:-1], left)] = False
    return np.array(rounds)


def count_round(firsts: Integers, members: Mask, left: Mask) -> Integers:
    """Count rankings by their best item left, and last those without one; exact.

    Args:
        firsts: of `first_choices`.
        members: of `members_of_sets`.
        left: shape (n_items,), which items are left; others have 0.
    """
    counts = firsts[~(members & left).any(axis=1)].sum(axis=0) * left
    return np.append(counts, firsts[0].sum() - counts.sum())


def smallest(counts: Integers, left: Mask) -> int:
    """The item left with the smallest count; of equal ones the last of the catalogue."""
    among = np.flatnonzero(left)[::-1]
    return int(among[np.argmin(counts[among])])


@dataclass(frozen=True, slots=True, eq=False)
class Rounds:
    """Noisy rounds and what is sure without the noise, all at once with 95 %.

    Attributes:
        counts: shape (rounds, n_items), noisy; 0 of items that left.
        exhausted: shape (rounds,), noisy.
        law: of the noise on each cell.
        order: items, best first: the one that stays, and before that who left last.
        possible: shape (rounds, n_items): who may have had the fewest of those left.
        reached: shape (rounds + 1,): whether these items were surely left, without the noise too;
            the last one says so of the winner.
    """

    counts: Integers
    exhausted: Integers
    law: NoiseLaw
    order: Integers
    possible: Mask
    reached: Mask

    @classmethod
    def of(cls, released: Integers, law: NoiseLaw) -> Rounds:
        """What follows from the rounds that `release_rounds` made."""
        counts = released[:, :-1]
        n_items = counts.shape[1]
        left, outs = np.ones(n_items, np.bool_), []
        possible = np.zeros(counts.shape, np.bool_)
        for own, may_leave in zip(counts, possible, strict=True):
            out = smallest(own, left)
            may_leave[:] = left & (own - own[out] <= _reach(n_items, int(left.sum()), 1, law))
            may_leave[out] = True
            left[out] = False
            outs.append(out)
        order = np.array([int(np.flatnonzero(left)[0]), *reversed(outs)])
        reached = np.zeros(n_items, np.bool_)
        reached[0] = True
        for first, end in _sure_steps(counts, order, law):
            reached[end] |= reached[first]
        return cls(counts, released[:, -1], law, order, possible, reached)

    @property
    def surely_left(self) -> int:
        """Rounds after which the items left are surely the same without the noise."""
        return int(np.flatnonzero(self.reached)[-1])

    def result(self) -> Result:
        """The winner, and those who could have won without the noise."""
        n_items = len(self.order)
        winners, possible = np.zeros(n_items, np.bool_), np.zeros(n_items, np.bool_)
        winners[self.order[0]] = True
        possible[self.order[: n_items - self.surely_left]] = True
        return Result.of(RULE, winners, possible)

    def estimate(self) -> Estimate:
        """The order in which items stayed; who surely stayed longer is surely above."""
        n_items = len(self.order)
        place = np.argsort(self.order)
        better = np.zeros((n_items, n_items), np.bool_)
        for rounds in np.flatnonzero(self.reached).tolist():
            stayed = place < n_items - rounds
            better |= stayed[:, np.newaxis] & ~stayed
        total = float(self.counts[0].sum() + self.exhausted[0])
        deviation = math.sqrt((n_items + 1) * self.law.variance)
        informative = total > CLEAR_TOTAL * deviation
        return order_estimate(self.order, lambda _: better, informative=informative)


def _sure_steps(counts: Integers, order: Integers, law: NoiseLaw) -> Iterator[tuple[int, int]]:
    """Rounds (first, end) where those who left between them surely leave before all others do."""
    n_items = len(order)
    for first, own in enumerate(counts):
        for end in range(first + 1, n_items):
            stays, leaves = order[: n_items - end], order[n_items - end : n_items - first]
            lead = own[stays].min() - own[leaves].sum()
            if lead > _reach(n_items, n_items - first, end - first, law):
                yield first, end


def _reach(n_items: int, left: int, leave: int, law: NoiseLaw) -> float:
    """What the noise in the count of one item less those of `leave` others does not exceed."""
    share = 1.0 if left == 2 else 0.5 if leave == 1 else 0.5 / (left - 2)
    ways = left - 1 if leave == 1 else math.comb(left, leave)
    tail = LEVEL * share / ((n_items - 1) * ways)
    deviation = math.sqrt((leave + 1) * law.variance)
    return noise_reach(tail, deviation, law.kind, leave + 1, 1.0)
