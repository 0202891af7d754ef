"""Counts of rankings: against counting by hand, and the same however rankings are split."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushrank.estimation.rankings.ranking_counts import (
    RankingCounts,
    count_rankings,
    merge_counts,
    n_place_pairs,
    no_rankings,
    place_pairs,
)

N_ITEMS, LONGEST = 6, 5


@st.composite
def lists_of_items(draw) -> list[list[int]]:
    lists = st.lists(st.permutations(range(N_ITEMS)), max_size=12)
    return [list(order[: draw(st.integers(0, LONGEST))]) for order in draw(lists)]


def counted(rankings: list[list[int]], *, by_place: bool = True) -> RankingCounts:
    items = np.array([item for ranking in rankings for item in ranking], np.int64)
    lengths = np.array([len(ranking) for ranking in rankings], np.int64)
    return count_rankings(items, lengths, N_ITEMS, LONGEST, by_place=by_place)


@given(lists_of_items())
def test_counts_are_those_of_counting_by_hand(rankings):
    counts = counted(rankings)
    wins, places = np.zeros((N_ITEMS, N_ITEMS)), np.zeros((N_ITEMS, LONGEST))
    nets = np.zeros((len(rankings), N_ITEMS))
    for number, ranking in enumerate(rankings):
        for place, item in enumerate(ranking):
            places[item, place] += 1
            wins[item, ranking[place + 1 :]] += 1
            nets[number, item] = len(ranking) - 1 - 2 * place
    np.testing.assert_array_equal(counts.wins, wins)
    np.testing.assert_array_equal(counts.places, places)
    np.testing.assert_array_equal(counts.moments, nets.T @ nets)
    lengths = [len(ranking) for ranking in rankings]
    np.testing.assert_array_equal(counts.lengths, np.bincount(lengths, minlength=LONGEST + 1))
    assert counts.rankings == len(rankings)
    for position, length, first, second in place_pairs(LONGEST):
        expected = np.zeros((N_ITEMS, N_ITEMS))
        for ranking in rankings:
            if len(ranking) == length:
                expected[ranking[first], ranking[second]] += 1
        np.testing.assert_array_equal(counts.by_place[position], expected)


@given(lists_of_items(), st.integers(0, 12))
def test_counts_add_up_and_do_not_depend_on_keeping_places(rankings, cut):
    whole = counted(rankings).arrays()
    parts = merge_counts([counted(rankings[:cut]), counted(rankings[cut:])]).arrays()
    for name, array in counted(rankings, by_place=False).arrays().items():
        np.testing.assert_array_equal(whole[name], array)
    for name, array in whole.items():
        np.testing.assert_array_equal(parts[name], array)


def test_merging_leaves_the_parts_as_they_are():
    part = counted([[0, 1, 2]])
    merge_counts([part, part])
    assert part.wins[0, 1] == 1


def test_many_rankings_are_counted_block_by_block():
    random = np.random.default_rng(0)
    orders = np.argsort(random.random((40_000, N_ITEMS)), axis=1)[:, :LONGEST]
    lengths = np.full(len(orders), LONGEST)
    counts = count_rankings(orders.ravel(), lengths, N_ITEMS, LONGEST, by_place=False)
    assert counts.wins.sum() == len(orders) * LONGEST * (LONGEST - 1) // 2
    assert counts.wins[2, 3] == sum(
        int(((orders[:, p] == 2) & (orders[:, q] == 3)).sum())
        for p in range(LONGEST)
        for q in range(p + 1, LONGEST)
    )


def test_pairs_of_places_are_numbered_by_length():
    positions = list(place_pairs(LONGEST))
    assert [position for position, *_ in positions] == list(range(n_place_pairs(LONGEST)))
    assert positions[:4] == [(0, 2, 0, 1), (1, 3, 0, 1), (2, 3, 0, 2), (3, 3, 1, 2)]


@pytest.mark.parametrize("by_place", [True, False])
def test_what_is_no_ranking_is_refused(by_place):
    def count(items, lengths):
        count_rankings(np.array(items), np.array(lengths), N_ITEMS, LONGEST, by_place=by_place)

    with pytest.raises(ValueError, match="holds an item twice"):
        count([1, 2, 1], [3])
    with pytest.raises(ValueError, match="more than 5 items"):
        count(list(range(6)), [6])
    with pytest.raises(ValueError, match="item codes must be 0 to 5"):
        count([0, 6], [2])
    with pytest.raises(ValueError, match="sum to the number of items"):
        count([0, 1], [3])


def test_counts_of_different_sizes_do_not_go_together():
    counts = no_rankings(3, 3, by_place=True).arrays()
    with pytest.raises(ValueError, match="same items and lengths"):
        RankingCounts(**counts | {"by_place": np.zeros((2, 3, 3), np.int64)})
    with pytest.raises(ValueError, match="same items and lengths"):
        RankingCounts(**counts | {"places": np.zeros((3, 2), np.int64)})


@pytest.mark.parametrize("longest", [2, LONGEST, N_ITEMS])
def test_items_left_out_count_as_below(longest):
    """Against each list by itself, completed by all that it leaves out, tied last."""
    rng, lists = np.random.default_rng(3), []
    for _ in range(40):
        lists.append(rng.permutation(N_ITEMS)[: rng.integers(1, longest + 1)])
    wins, squares = np.zeros((N_ITEMS, N_ITEMS), np.int64), np.zeros(N_ITEMS, np.int64)
    tails = np.zeros((N_ITEMS, min(longest, N_ITEMS - 1)), np.int64)
    for each in lists:
        place = np.full(N_ITEMS, N_ITEMS)
        place[each] = np.arange(len(each))
        above = place[:, np.newaxis] < place
        wins += above
        squares += (above.sum(axis=1) - above.sum(axis=0)) ** 2
        if len(each) < N_ITEMS:
            tails[place == N_ITEMS, len(each) - 1] += 1
    items, lengths = np.concatenate(lists), np.array([*map(len, lists)])
    counts = count_rankings(items, lengths, N_ITEMS, longest, by_place=False, below=True)
    assert (counts.wins == wins).all()
    assert (counts.moments == np.diag(squares)).all()
    assert (counts.tails == tails).all()
    assert counts.places.sum() + counts.tails.sum() == N_ITEMS * len(lists)
    halves = [
        count_rankings(np.concatenate(part), np.array([*map(len, part)]), N_ITEMS, longest, **how)
        for part in (lists[:15], lists[15:])
        for how in [{"by_place": False, "below": True}]
    ]
    merged = merge_counts(halves).arrays()
    assert all((merged[name] == array).all() for name, array in counts.arrays().items())
    with pytest.raises(ValueError, match="kept apart by place only"):
        count_rankings(items, lengths, N_ITEMS, longest, by_place=True, below=True)
