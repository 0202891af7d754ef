"""Break ties in rankings by fair coins: random ones, or coins that a retry repeats. Pure.

A coin that is repeated is a keyed hash of whose ranking it is, of the ranking as it was given, of
the item, and of which copy of that ranking it is. Copies are equal, so it does not matter which has
which number: m copies have the numbers from 0 to m - 1, wherever their rows stand. So under one key
a row that is added or removed changes nothing that is counted of other people, and one more copy
adds what that copy counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from hushrank.privacy.keyed_hash import Hashes, KeyedHash
from hushrank.privacy.randomness import RandomBits
from hushrank.transforms.common.sorting import new_run, order_within, sort_by
from hushrank.transforms.rankings.rankings import Integers, Rankings, owners

_RANKING, _COIN, _GROUP = 0, 1, 2  # labels of hashes

Coins = Callable[[Rankings, Integers], Hashes]  # of some rankings, and their places: bits by item


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
    """Each ranking once, by its owner, with the number of all of its copies.

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
    """How many rankings there are with all copies."""
    return int(_copies(rankings).sum())


def each_copy(rankings: Rankings, keyed_hash: KeyedHash, size: int) -> Iterator[Rankings]:
    """All copies of `rankings`, at most `size` at a time, with ties broken by coins of their own.

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
