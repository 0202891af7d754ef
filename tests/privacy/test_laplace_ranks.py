"""The Laplace baseline: its sensitivity by enumeration, its law, and that Mallows beats it."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from hushrank.privacy.laplace_baselines import (
    GRID,
    laplace_rankings,
    rank_sensitivity,
    whole_ranking_epsilon,
)
from hushrank.privacy.mallows import expected_concordance
from hushrank.privacy.randomness import seeded_bits, system_bits
from tests.statistics import FALSE_POSITIVE_RATE, mean_p_value

DRAWS = 100_000


@pytest.mark.parametrize("n_items", [2, 3, 5])
def test_the_sensitivity_is_the_largest_change_by_one_move(n_items: int) -> None:
    ranking = np.arange(n_items)
    changes = []
    for item in ranking:
        rest = np.delete(ranking, item)
        for place in range(n_items):
            moved = np.argsort(np.insert(rest, place, item))
            changes.append((moved - ranking) * GRID)
    sensitivity = rank_sensitivity(n_items)
    assert max(int(np.abs(change).sum()) for change in changes) == sensitivity.l1
    assert max(int((change**2).sum()) for change in changes) == sensitivity.l2_squared


@pytest.mark.parametrize("epsilon", [0.5, 4.0])
def test_two_items_keep_their_order_as_laplace_noise_gives(epsilon: float) -> None:
    pairs = laplace_rankings(np.tile([4, 9], DRAWS), np.full(DRAWS, 2), epsilon, seeded_bits(3))
    kept = (pairs[::2] == 4).astype(float)
    gap = epsilon / 2  # of the ranks, in scales of the noise

    def p_value(gap: float) -> float:  # difference of two Laplace variables: tail in closed form
        right = 1 - np.exp(-gap) * (2 + gap) / 4
        return mean_p_value(kept, right, right * (1 - right))

    assert p_value(gap) > FALSE_POSITIVE_RATE
    assert p_value(1.3 * gap) < FALSE_POSITIVE_RATE
    assert p_value(0.7 * gap) < FALSE_POSITIVE_RATE


@pytest.mark.parametrize(("n_items", "epsilon"), [(3, 0.5), (10, 3.0), (10, 20.0)])
def test_mallows_keeps_more_pairs_in_order(n_items: int, epsilon: float) -> None:
    n = 20_000
    items = np.tile(np.arange(n_items), n)
    noisy = laplace_rankings(items, np.full(n, n_items), epsilon, seeded_bits(5))
    positions = np.argsort(noisy.reshape(n, n_items), axis=1)
    first, second = np.triu_indices(n_items, 1)
    kept = (positions[:, first] < positions[:, second]).mean(axis=1)
    assert kept.mean() + 5 * kept.std() / np.sqrt(n) < expected_concordance(epsilon, n_items)


def test_lists_keep_their_items_and_ties_have_no_favourite() -> None:
    sizes = np.array([0, 3, 1, 3])
    items = np.array([5, 6, 7, 1, 2, 8, 9])
    before = items.copy()
    noisy = laplace_rankings(items, sizes, 0.1, system_bits())
    np.testing.assert_array_equal(items, before)
    assert sorted(noisy[:3]) == [5, 6, 7]
    assert noisy[3] == 1
    assert sorted(noisy[4:]) == [2, 8, 9]
    outputs = laplace_rankings(np.tile([0, 1, 2], 3000), np.full(3000, 3), 1e-3, seeded_bits(1))
    assert {tuple(row) for row in outputs.reshape(-1, 3)} == set(permutations(range(3)))


def test_arguments_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="sum to the number of items"):
        laplace_rankings(np.arange(3), np.array([2]), 1.0, system_bits())
    with pytest.raises(ValueError, match="epsilon must be > 0"):
        laplace_rankings(np.arange(3), np.array([3]), 0.0, system_bits())


@pytest.mark.parametrize("m", [1, 2, 3, 4, 5])
def test_the_whole_ranking_bound_is_the_largest_distance_over_the_scale(m: int) -> None:
    ranks = np.array(list(permutations(range(m))))
    largest = np.abs(ranks[:, None] - ranks).sum(axis=2).max()
    steps = max(2 * (m - 1), 1)  # l1 change of one moved item, which costs epsilon
    assert whole_ranking_epsilon(1.5, m) == pytest.approx(1.5 * largest / steps)
