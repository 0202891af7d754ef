"""Connectivity of win matrices, and the refusals that name the items concerned."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.sparse import csr_array

from hushrank.estimation.fit.solve import (
    DisconnectedGraphError,
    comparison_graph,
    require_scores_to_exist,
)

ITEMS = ["ash", "beech", "cedar", "dogwood", "elm"]


def wins_of(*results: tuple[int, int], n_items: int = 5) -> NDArray[np.int64]:
    wins = np.zeros((n_items, n_items), np.int64)
    for winner, loser in results:
        wins[winner, loser] += 1
    return wins


def test_facts_about_items() -> None:
    graph = comparison_graph(wins_of((0, 1), (0, 1), (1, 2), (2, 1)))
    assert graph.opponents.tolist() == [1, 2, 1, 0, 0]
    assert graph.never_lost.tolist() == [True, False, False, False, False]
    assert graph.never_won.tolist() == [False] * 5
    assert graph.n_components == 3
    assert graph.n_classes == 4
    assert graph.class_of[1] == graph.class_of[2] != graph.class_of[0]


@given(seed=st.integers(0, 10**6), n_items=st.integers(2, 9), share=st.floats(0.05, 0.9))
def test_scores_exist_exactly_where_wins_lead_everywhere(
    seed: int, n_items: int, share: float
) -> None:
    """The condition by brute force: transitive closure of who beat whom."""
    wins = (np.random.default_rng(seed).random((n_items, n_items)) < share).astype(np.int64)
    np.fill_diagonal(wins, 0)
    reach = np.linalg.matrix_power(wins + np.eye(n_items, dtype=np.int64), n_items) > 0
    for form in (wins, csr_array(wins)):
        if reach.all():
            require_scores_to_exist(form)
        else:
            with pytest.raises(DisconnectedGraphError):
                require_scores_to_exist(form)


def test_a_long_cycle_is_one_class() -> None:
    """Longer than the quick look sees."""
    n = 50
    require_scores_to_exist(wins_of(*[(i, (i + 1) % n) for i in range(n)], n_items=n))


def test_text_names_the_components() -> None:
    with pytest.raises(DisconnectedGraphError, match=r"2 sets .*\{dogwood, elm\}, \{ash, beech"):
        require_scores_to_exist(wins_of((0, 1), (1, 2), (2, 0), (3, 4), (4, 3)), ITEMS)


def test_text_names_who_always_won() -> None:
    cycle = wins_of((0, 1), (1, 2), (2, 3), (3, 0), (4, 0), (4, 1))
    with pytest.raises(DisconnectedGraphError, match=r"won or lost all .*\{elm\}, \{ash, beech"):
        require_scores_to_exist(cycle, ITEMS)


def test_long_lists_are_cut() -> None:
    lonely = np.zeros((40, 40), np.int64)
    with pytest.raises(DisconnectedGraphError, match=r"40 sets .*\{0\}, \{1\}, .*\{4\}, \.\.\."):
        require_scores_to_exist(lonely)
    halves = np.kron(np.eye(2, dtype=np.int64), np.ones((20, 20), np.int64) - np.eye(20)).astype(
        int
    )
    with pytest.raises(DisconnectedGraphError, match=r"\{0, 1, 2, 3, 4 and 15 more\}"):
        require_scores_to_exist(halves)


def test_noisy_entries_below_zero_are_no_wins() -> None:
    wins = np.array([[0.0, 3.0], [-0.5, 0.0]])
    assert comparison_graph(wins).never_lost.tolist() == [True, False]
