"""Debiased pair counts: the law behind them by enumeration, unbiased where plain shares are not."""

from __future__ import annotations

import math
from itertools import combinations, permutations

import numpy as np
import pytest

from hushrank.estimation.rankings.ranking_counts import pair_counts
from hushrank.estimation.rankings.ranking_evidence import (
    debiased_pair_counts,
    pair_estimator,
    places_law,
)
from hushrank.privacy.mallows import concordance_probability, synthetic_rankings
from hushrank.privacy.randomness import seeded_bits


@pytest.mark.parametrize("epsilon", [0.3, 4.0])
@pytest.mark.parametrize("m", [2, 3, 5])
def test_the_law_of_two_places_is_that_of_all_rankings(m: int, epsilon: float) -> None:
    places = np.array(list(permutations(range(m))))  # place of each true place
    above, below = np.triu_indices(m, 1)
    agreed = (places[:, above] < places[:, below]).sum(axis=1)
    chance = np.exp(epsilon / (m - 1) * agreed)
    chance /= chance.sum()
    for i, j in combinations(range(m), 2):
        expected = np.zeros((m, m))
        np.add.at(expected, (places[:, i], places[:, j]), chance)
        np.testing.assert_allclose(places_law(i, j, m, epsilon), expected, atol=1e-14)


def test_two_items_give_debiased_randomised_response() -> None:
    keep = 1 / (1 + math.exp(-1.5))
    table = pair_estimator(2, 1.5)
    assert table[0, 1] == pytest.approx(keep / (2 * keep - 1))
    assert table[1, 0] == pytest.approx((keep - 1) / (2 * keep - 1))


def test_the_debiased_share_is_unbiased_and_the_plain_one_is_not() -> None:
    """Two camps with different rankings, so no single order explains them."""
    n, epsilon, m = 60_000, 4.0, 5
    camps = np.array([[0, 1, 2, 3, 4], [4, 1, 0, 3, 2]])
    true = np.repeat(camps, [n // 4, n - n // 4], axis=0)
    lengths = np.full(n, m)
    private = synthetic_rankings(true.ravel(), lengths, epsilon, seeded_bits(4)).reshape(n, m)
    truth = pair_counts(true.ravel(), lengths, m) / n
    debiased = debiased_pair_counts(private, epsilon) / n
    # An entry is at most 4: five standard errors of a mean of n are at most 0.09.
    assert np.abs(pair_estimator(m, epsilon)).max() < 4
    off_diagonal = ~np.eye(m, dtype=bool)
    np.testing.assert_allclose((debiased + debiased.T)[off_diagonal], 1)
    assert np.abs(debiased - truth).max() < 0.05
    assert np.abs(pair_counts(private.ravel(), lengths, m) / n - truth).max() > 0.15


def test_private_rankings_can_have_another_order_than_the_true_ones() -> None:
    """[RDP] Theorem 1 (1) and Lemma 6 say that they cannot; undoing the mechanism corrects it.

    Ten items, epsilon 2. In 70 % of the rankings item 0 stands directly above item 1, in the others
    item 1 is first and item 0 last.
    """
    m, epsilon, above = 10, 2.0, 0.7
    near, far = concordance_probability(np.array([1, m - 1]), epsilon, m)
    private = above * near + (1 - above) * (1 - far)
    assert private == pytest.approx(0.447, abs=0.0005)
    # (2): the distance from one half, as a share of the true one, is said to be at least
    least = math.tanh(epsilon / (m - 1) / 2)
    assert (2 * private - 1) / (2 * above - 1) < 0 < least
    table = pair_estimator(m, epsilon)
    undone = sum(
        share * (places_law(*sorted(places), m, epsilon) * table).sum()
        if places[0] < places[1]
        else share * (1 - (places_law(*sorted(places), m, epsilon) * table).sum())
        for share, places in ((above, (0, 1)), (1 - above, (m - 1, 0)))
    )
    assert undone == pytest.approx(above)


def test_a_common_order_is_kept() -> None:
    """What `model.common_order` states: exchanging two items never makes a ranking likelier that
    then has the worse of them in front.
    """
    m, epsilon = 4, 1.0
    orders = np.array(list(permutations(range(m))))
    worth = np.array([2.0, 1.3, 1.1, 1.0])
    left = np.cumsum(worth[orders][:, ::-1], axis=1)[:, ::-1]
    chance = (worth[orders] / left).prod(axis=1)  # the law of Plackett and Luce
    places = np.argsort(orders, axis=1)
    for a, b in combinations(range(m), 2):
        apart = places[:, b] - places[:, a]
        kept = concordance_probability(np.abs(apart), epsilon, m)
        private = float(chance @ np.where(apart > 0, kept, 1 - kept))
        assert 0.5 < private < float(chance[apart > 0].sum())


def test_arguments_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="finite and > 0"):
        pair_estimator(3, 0.0)
    with pytest.raises(ValueError, match="2 items or more"):
        pair_estimator(1, 1.0)
