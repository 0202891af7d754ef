"""Ties: all orders of tied items are equally likely, and each copy of a ranking has own coins."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest

from hushrank.privacy.keyed_hash import Hashes, KeyedHash
from hushrank.privacy.randomness import seeded_bits
from hushrank.transforms.rankings.count_rankings import (
    RankingCountsFn,
    break_ties,
    count_copies,
    each_copy,
    hash_given,
    hash_owned,
    merge_copies,
    random_coins,
    without_names,
)
from hushrank.transforms.rankings.rankings import Rankings
from tests.statistics import FALSE_POSITIVE_RATE, binomial_p_value, uniform_p_value

HASH = KeyedHash(bytes(range(32)))
M = 24 * 400  # copies
ORDERS = {order: number for number, order in enumerate(permutations(range(4)))}


def weak(*rankings: str, owner: Hashes | None = None) -> Rankings:
    """Rankings such as 0=1,3: items 0 and 1 share the first place."""
    groups = [[group.split("=") for group in ranking.split(",")] for ranking in rankings]
    flat = [(int(item), k > 0) for each in groups for group in each for k, item in enumerate(group)]
    lengths = np.array([sum(map(len, each)) for each in groups])
    items, tied = (np.array(column) for column in zip(*flat, strict=True))
    return Rankings(items, lengths, np.ones(len(lengths)), owner, tied)


def nameless(*rankings: str, copies: int = 1) -> Rankings:
    merged = merge_copies(without_names(weak(*rankings), HASH))
    return replace(merged, copies=merged.copies * copies)


def orders_of(rankings: Rankings, keyed_hash: KeyedHash = HASH, size: int = 1000) -> list[tuple]:
    found = list(each_copy(rankings, keyed_hash, size))
    assert all(block.tied is None and block.copies is None for block in found)
    assert all(len(block) <= size for block in found)
    return [order for block in found for order in lists_of(block)]


def lists_of(rankings: Rankings) -> list[tuple[int, ...]]:
    ends = np.cumsum(rankings.lengths)[:-1]
    return [tuple(each.tolist()) for each in np.split(rankings.items, ends)]


def p_value_of(orders: list[tuple[int, ...]]) -> float:
    """That all orders of four items are equally likely, and neighbours in the list independent."""
    number = np.array([ORDERS[order] for order in orders])
    same = int((number[1:] == number[:-1]).sum())
    fair = uniform_p_value(np.bincount(number, minlength=len(ORDERS)))
    return min(fair, binomial_p_value(same, len(orders) - 1, 1 / len(ORDERS)))


def test_copies_have_fair_coins_of_their_own_for_each_item():
    assert p_value_of(orders_of(nameless("0=1=2=3", copies=M))) > FALSE_POSITIVE_RATE
    drawn = break_ties(weak(*["0=1=2=3"] * M), random_coins(seeded_bits(7)))
    assert p_value_of(lists_of(drawn)) > FALSE_POSITIVE_RATE


def test_one_coin_for_all_copies_or_for_all_items_is_caught():
    alike = weak(*["0=1=2=3"] * M)
    merged = without_names(alike, HASH)  # each row once: all have the number of the first copy
    assert p_value_of(orders_of(merged)) < FALSE_POSITIVE_RATE
    word = seeded_bits(1)
    by_ranking = break_ties(alike, lambda rows, _: np.repeat(word.words((M, 2)), 4, axis=0))
    assert p_value_of(lists_of(by_ranking)) < FALSE_POSITIVE_RATE
    # A coin that leans by a sixth: nearly as good as fair ones, and still seen.
    leaning = lists_of(break_ties(alike, random_coins(seeded_bits(7))))
    for place in range(0, M, 24):
        leaning[place : place + 4] = [(0, 1, 2, 3)] * 4
    assert p_value_of(leaning) < FALSE_POSITIVE_RATE


def test_coins_of_different_rankings_people_and_keys_are_independent():
    """What ties 0 and 1 in one ranking says nothing of another one's, copy by copy."""
    first = orders_of(nameless("0=1", copies=M))
    others = {
        "ranking": orders_of(nameless("0=1,2", copies=M)),
        "key": orders_of(nameless("0=1", copies=M), KeyedHash(bytes(32))),
    }
    for number in range(2):
        owner = np.full((1, 2), number, np.uint64)
        own = weak("0=1", owner=owner)
        own = replace(own, owner=hash_owned(own, HASH), copies=np.array([M]))
        others[f"person {number}"] = orders_of(own)
    orders = {"first": first} | others
    for name, found in orders.items():
        for other, compared in orders.items():
            same = sum(a[:2] == b[:2] for a, b in zip(found, compared, strict=True))
            fits = binomial_p_value(same, M, 0.5) > FALSE_POSITIVE_RATE
            assert fits == (name != other), (name, other)


def test_a_tie_moves_tied_items_alone():
    found = orders_of(nameless("2,0=3,1", copies=200))
    assert set(found) == {(2, 0, 3, 1), (2, 3, 0, 1)}
    mixed = weak("3,2,1,0", "1=2", "0", "0,2=3")
    broken = lists_of(break_ties(mixed, random_coins(seeded_bits(3))))
    assert broken[0] == (3, 2, 1, 0)
    assert set(broken[1]) == {1, 2}
    assert broken[2] == (0,)
    assert (broken[3][0], set(broken[3][1:])) == (0, {2, 3})


def test_what_is_counted_does_not_depend_on_how_rankings_are_cut_and_merged():
    rows = ["0=1=2", "0=1,2", "0=1=2", "3", "0=1=2", "0,1=2", "0=1,2"] * 3
    whole = merge_copies(without_names(weak(*rows), HASH))
    expected = sorted(orders_of(whole))
    assert (len(whole), count_copies(whole)) == (4, len(rows))
    parts = [merge_copies(without_names(weak(*part), HASH)) for part in (rows[9:], rows[:2])]
    parts.append(without_names(weak(*rows[2:9]), HASH))
    again = merge_copies(Rankings.concatenated(parts))
    assert sorted(orders_of(again, size=2)) == expected


def test_one_more_copy_adds_what_it_counts():
    few, more = (orders_of(nameless("0=1=2=3", copies=m)) for m in (50, 51))
    assert more[:50] == few


def test_rankings_that_tie_other_items_have_other_hashes():
    different = weak("0=1=2", "0=1,2", "0,1=2", "0,1,2", "0=1", "1", "0", "0,1", "0,2,1")
    assert len(np.unique(hash_given(different, HASH), axis=0)) == len(different)


def test_ties_and_uncounted_copies_are_refused():
    counts = RankingCountsFn(4, 4, by_place=False)
    with pytest.raises(ValueError, match="ties must be broken"):
        counts.add_input(counts.create_accumulator(), weak("0=1"))
    with pytest.raises(ValueError, match="copies of rankings must be counted"):
        count_copies(weak("0=1"))
    nobody = without_names(weak("0=1").take(np.zeros(0, np.int64)), HASH)
    assert orders_of(merge_copies(nobody)) == []
