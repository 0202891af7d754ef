"""Lists one after the other: taking some of them, and finding what is wrong with one."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hushrank.transforms.common.schema import any_in_list, repeats_item, take_lists

LISTS = st.lists(st.lists(st.integers(0, 69), max_size=5), min_size=1, max_size=8)


def flat(lists: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    items = np.array([item for each in lists for item in each], np.int64)
    return items, np.array([len(each) for each in lists])


@given(LISTS, st.lists(st.integers(0, 7), max_size=6), st.booleans())
def test_the_chosen_lists_are_taken_in_their_order(lists, chosen, alike):
    if alike:
        lists = [[*each, 1, 2, 3, 4, 5][:3] for each in lists]
    rows = [row % len(lists) for row in chosen]
    items, lengths = flat(lists)
    taken = take_lists(items, lengths, np.array(rows, np.int64))
    assert taken.tolist() == [item for row in rows for item in lists[row]]


@given(LISTS)
def test_a_list_with_a_bad_item_is_found(lists):
    items, lengths = flat(lists)
    assert any_in_list(items == 7, lengths).tolist() == [7 in each for each in lists]


@given(LISTS)
def test_a_list_that_repeats_an_item_is_found(lists):
    items, lengths = flat(lists)
    assert repeats_item(items, lengths, 70).tolist() == [len(set(x)) < len(x) for x in lists]
    few = [[item % 64 for item in each] for each in lists]
    assert repeats_item(items % 64, lengths, 64).tolist() == [len(set(x)) < len(x) for x in few]


def test_an_item_that_fills_the_whole_word_is_found_too():
    assert repeats_item(np.full(4, 63), np.array([4]), 64).tolist() == [True]
