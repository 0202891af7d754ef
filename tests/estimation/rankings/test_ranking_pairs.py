"""Pair and position counts against counting by hand."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushrank.estimation.rankings import ranking_counts
from hushrank.estimation.rankings.ranking_counts import pair_counts

N_ITEMS = 6
lists = st.lists(
    st.integers(0, N_ITEMS).flatmap(lambda k: st.permutations(range(N_ITEMS)).map(lambda p: p[:k])),
    max_size=12,
)


def flat(rankings: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    items = np.array([item for ranking in rankings for item in ranking], np.int64)
    return items, np.array([len(ranking) for ranking in rankings], np.int64)


@settings(max_examples=60)
@given(lists)
def test_counts_are_those_of_a_loop(rankings: list[list[int]]) -> None:
    wins = np.zeros((N_ITEMS, N_ITEMS), int)
    for ranking in rankings:
        for above, below in combinations(ranking, 2):
            wins[above, below] += 1
    np.testing.assert_array_equal(pair_counts(*flat(rankings), N_ITEMS), wins)


def test_blocks_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    rankings = [random.permutation(N_ITEMS).tolist() for _ in range(50)]
    whole = pair_counts(*flat(rankings), N_ITEMS)
    monkeypatch.setattr(ranking_counts, "BLOCK_CELLS", 20)
    np.testing.assert_array_equal(pair_counts(*flat(rankings), N_ITEMS), whole)


def test_what_is_no_ranking_is_refused() -> None:
    with pytest.raises(ValueError, match="sum to the number of items"):
        pair_counts(np.array([0, 1]), np.array([1]), 3)
    with pytest.raises(ValueError, match="codes must be 0 to 2"):
        pair_counts(np.array([0, 3]), np.array([2]), 3)
    with pytest.raises(ValueError, match="an item twice"):
        pair_counts(np.array([1, 0, 1]), np.array([3]), 3)
    with pytest.raises(ValueError, match="an item twice"):
        pair_counts(np.array([1, 0, 1, 0]), np.array([4]), 3)
