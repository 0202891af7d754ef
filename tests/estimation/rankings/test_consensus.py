"""Kemeny and Borda: against brute force, bounds that hold, and real ballots."""

from __future__ import annotations

import time
import tracemalloc
from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushrank.estimation.rankings.ranking_estimates import (
    borda_scores,
    cheapest_order,
    disagreements,
    kemeny,
    log_sum_over_orders,
    majority_groups,
)


def random_wins(n_items: int, seed: int, most: int = 20) -> np.ndarray:
    wins = np.random.default_rng(seed).integers(0, most, (n_items, n_items))
    np.fill_diagonal(wins, 0)
    return wins


def costs_of_all_orders(cost: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    orders = np.array(list(permutations(range(len(cost)))))
    front, back = np.triu_indices(len(cost), 1)
    return orders, cost[orders[:, front], orders[:, back]].sum(axis=1)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 7), st.integers(0, 2**32), st.sampled_from([2, 4, 50]))
def test_the_exact_order_is_the_first_of_the_best_of_all(n: int, seed: int, most: int) -> None:
    wins = random_wins(n, seed, most)
    orders, costs = costs_of_all_orders(wins.T)
    np.testing.assert_array_equal(cheapest_order(wins.T), orders[np.argmin(costs)])
    found = kemeny(wins)
    assert found.optimal
    assert found.disagreements == found.lower_bound == costs.min()
    assert disagreements(wins, found.order) == found.disagreements


@pytest.mark.parametrize("seed", range(3))
def test_eight_items_agree_with_brute_force(seed: int) -> None:
    wins = random_wins(8, seed)
    _, costs = costs_of_all_orders(wins.T)
    assert kemeny(wins).disagreements == costs.min()


@pytest.mark.parametrize("n", [1, 2, 5, 7])
def test_the_sum_over_orders_is_that_of_all(n: int) -> None:
    cost = np.random.default_rng(n).normal(size=(n, n))
    _, costs = costs_of_all_orders(cost)
    assert log_sum_over_orders(cost) == pytest.approx(np.log(np.exp(-costs).sum()), rel=1e-12)


def test_twenty_items_in_a_cycle_of_cycles_are_solved_exactly() -> None:
    """Every item beats the ten after it on a circle: one group, and rotations are all best."""
    n = 20
    gap = (np.arange(n) - np.arange(n)[:, None]) % n
    wins = np.where((gap > 0) & (gap < 10), 3, 1) * (gap > 0)
    found = kemeny(wins)
    assert len(majority_groups(wins)) == 1
    assert found.optimal
    assert found.order.tolist() == list(range(n))  # of twenty rotations, the alphabetical first
    rotated = np.roll(np.arange(n), 7)
    assert disagreements(wins, rotated) == found.disagreements
    assert disagreements(wins, np.arange(n)[::-1]) > found.disagreements


def test_twenty_items_stay_within_their_time_and_memory() -> None:
    """Random counts split into no groups, so nothing is saved: 20 s of processor time and 1 GB."""
    cost = np.random.default_rng(0).integers(0, 1000, (20, 20)).astype(np.float64)
    tracemalloc.start()
    started = time.process_time()
    order = cheapest_order(cost)
    seconds, (_, peak) = time.process_time() - started, tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert sorted(order) == list(range(20))
    assert seconds < 20
    assert peak < 1e9


@pytest.mark.parametrize("seed", range(4))
def test_above_twenty_items_the_bound_holds_and_no_move_helps(seed: int) -> None:
    wins = random_wins(24, seed, 4)
    found = kemeny(wins)
    assert len(majority_groups(wins)) == 1
    assert not found.optimal
    assert sorted(found.order) == list(range(24))
    assert found.lower_bound <= found.disagreements <= 1.6 * found.lower_bound
    for source, target in product(range(24), repeat=2):
        moved = np.insert(np.delete(found.order, source), target, found.order[source])
        assert disagreements(wins, moved) >= found.disagreements


def test_a_clear_majority_of_many_items_is_optimal_without_search() -> None:
    truth = np.random.default_rng(3).permutation(60)
    place = np.argsort(truth)
    wins = np.where(place[:, None] < place, 6, 4)
    np.fill_diagonal(wins, 0)
    found = kemeny(wins)
    assert found.optimal
    np.testing.assert_array_equal(found.order, truth)
    np.testing.assert_array_equal(np.argsort(-borda_scores(wins)), truth)


def test_groups_are_ordered_and_solved_apart() -> None:
    wins = np.zeros((6, 6), np.int64)
    for a, b in [(3, 1), (1, 5), (5, 3), (0, 2), (2, 4), (4, 0)]:  # two cycles
        wins[a, b] = 2
    for a in (1, 3, 5):
        wins[a, [0, 2, 4]] = 1
    assert [set(group) for group in majority_groups(wins)] == [{1, 3, 5}, {0, 2, 4}]
    found = kemeny(wins)
    assert found.order.tolist() == [1, 5, 3, 0, 2, 4]
    assert found.disagreements == 4


def test_counts_of_any_sign_are_taken() -> None:
    noisy = np.array([[0.0, -1.5, 2.0], [0.5, 0.0, -0.25], [-3.0, 1.0, 0.0]])
    _, costs = costs_of_all_orders(noisy.T)
    assert kemeny(noisy).disagreements == pytest.approx(costs.min())


def test_borda_counts_the_items_beaten() -> None:
    ballots = np.array([[0, 1, 2, 3], [1, 0, 2, 3], [0, 2, 1, 3]])
    wins = np.zeros((4, 4), np.int64)
    for ballot in ballots:
        for place, item in enumerate(ballot):
            wins[item, ballot[place + 1 :]] += 1
    beaten = (3 - np.argsort(ballots, axis=1)).sum(axis=0)
    np.testing.assert_allclose(borda_scores(wins), beaten - beaten.mean())


@pytest.mark.parametrize("wins", [np.zeros((2, 3)), np.zeros((0, 0)), np.full((2, 2), np.nan)])
def test_what_is_no_matrix_of_numbers_is_refused(wins: np.ndarray) -> None:
    with pytest.raises(ValueError, match="wins must be"):
        kemeny(wins)


def test_more_items_than_the_tables_hold_are_refused() -> None:
    with pytest.raises(ValueError, match="1 to 20 items"):
        cheapest_order(np.zeros((21, 21)))
    with pytest.raises(ValueError, match="square matrix"):
        log_sum_over_orders(np.zeros((2, 3)))
