"""Rankings across the trust boundary: the law of what comes out, on every path."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from hushrank.privacy.randomness import seeded_bits, system_bits
from hushrank.transforms.common.randomisation import RankingMechanism
from hushrank.transforms.rankings.pair_answers import randomize_rankings
from hushrank.transforms.rankings.rankings import Rankings
from tests.statistics import FALSE_POSITIVE_RATE, cells_p_value

MALLOWS, LAPLACE = RankingMechanism.MALLOWS, RankingMechanism.LAPLACE_RANKS
N = 60_000


def all_alike(epsilon: float, n: int = N) -> Rankings:
    """The ranking 2, 0, 1 of everybody."""
    return Rankings(np.tile([2, 0, 1], n), np.full(n, 3), np.full(n, epsilon))


def law(epsilon: float) -> tuple[list[tuple[int, ...]], np.ndarray]:
    """All orders of (2, 0, 1) with q^T / Z, q = e^(epsilon / 2), T agreeing pairs."""
    orders = list(permutations((2, 0, 1)))
    place = {2: 0, 0: 1, 1: 2}
    agreed = [
        sum(place[a] < place[b] for i, a in enumerate(order) for b in order[i + 1 :])
        for order in orders
    ]
    chance = np.exp(epsilon / 2 * np.array(agreed))
    return orders, chance / chance.sum()


def counts_of(table: np.ndarray, orders: list[tuple[int, ...]]) -> np.ndarray:
    return np.array([(table == order).all(axis=1).sum() for order in orders])


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_what_comes_out_has_the_law_of_the_mechanism(epsilon):
    orders, chance = law(epsilon)
    private = randomize_rankings(all_alike(epsilon), MALLOWS, system_bits())
    counts = counts_of(private.items.reshape(N, 3), orders)
    assert cells_p_value(counts, chance) > FALSE_POSITIVE_RATE
    assert cells_p_value(counts, law(1.2 * epsilon)[1]) < FALSE_POSITIVE_RATE


def test_each_ranking_has_its_own_epsilon():
    rankings = all_alike(1.0, 2_000)
    epsilon = np.where(np.arange(2_000) < 1_000, 200.0, 1e-3)
    own = Rankings(rankings.items, rankings.lengths, epsilon)
    table = randomize_rankings(own, MALLOWS, seeded_bits(1)).items.reshape(-1, 3)
    assert (table[:1_000] == [2, 0, 1]).all()
    assert 100 < (table[1_000:] == [2, 0, 1]).all(axis=1).sum() < 250  # 1 in 6
    with pytest.raises(ValueError, match="one epsilon for all"):
        randomize_rankings(own, LAPLACE, seeded_bits(1))


def test_laplace_ranks_keep_the_order_at_a_large_epsilon_and_lose_it_at_a_small_one():
    large = randomize_rankings(all_alike(500.0, 300), LAPLACE, seeded_bits(2))
    small = randomize_rankings(all_alike(0.01, 300), LAPLACE, seeded_bits(2))
    assert (large.items.reshape(-1, 3) == [2, 0, 1]).all()
    assert 20 < (small.items.reshape(-1, 3) == [2, 0, 1]).all(axis=1).sum() < 90


def test_what_came_privatised_passes_as_it_is():
    rankings = all_alike(0.1, 10)
    private = randomize_rankings(rankings, MALLOWS, system_bits(), already_private=True)
    np.testing.assert_array_equal(private.items, rankings.items)
    nobody = Rankings(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))
    assert len(randomize_rankings(nobody, MALLOWS, system_bits()).items) == 0
