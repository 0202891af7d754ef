"""Linear scores: they are those that rankings show, from private rankings too."""

from __future__ import annotations

import numpy as np
import pytest

from hushrank.experiments.rdp.rdp_trial import fit_linear, pairwise_accuracy
from hushrank.privacy.mallows import synthetic_rankings
from hushrank.privacy.randomness import seeded_bits

BETA = np.array([1.0, -1.0, 0.5])


def world(n: int, m: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Features of items, and noisy preferences of people for them."""
    random = np.random.default_rng(seed)
    y = random.uniform(-1, 1, (m, 3))
    return y, y @ BETA + random.gumbel(size=(n, m))


def test_the_weights_behind_rankings_are_found() -> None:
    y, preferences = world(4000, 8, 1)
    found = fit_linear(np.argsort(-preferences, axis=1), y)
    np.testing.assert_allclose(found, BETA, atol=0.06)


def test_private_rankings_teach_more_with_a_larger_epsilon() -> None:
    y, preferences = world(3000, 8, 2)
    rankings = np.argsort(-preferences, axis=1)
    truth = (y @ BETA)[np.newaxis]
    accuracy = []
    for epsilon in (0.05, 4.0):
        private = synthetic_rankings(
            rankings.ravel(), np.full(3000, 8), epsilon, seeded_bits(1)
        ).reshape(rankings.shape)
        accuracy.append(pairwise_accuracy(y @ fit_linear(private, y), truth))
    assert accuracy[0] < accuracy[1]
    assert accuracy[1] > 0.93


def test_the_accuracy_counts_pairs_once_and_leaves_ties_out() -> None:
    preferences = np.array([[3.0, 2.0, 1.0, 1.0]])
    assert pairwise_accuracy(preferences, preferences) == 1
    assert pairwise_accuracy(-preferences, preferences) == 0
    assert pairwise_accuracy(np.array([3.0, 2.0, 2.0, 9.0]), preferences) == pytest.approx(2 / 5)
    with pytest.raises(ValueError, match="different preferences"):
        pairwise_accuracy(preferences, np.zeros((1, 4)))


def test_arguments_that_do_not_fit_are_refused() -> None:
    y, preferences = world(5, 4, 4)
    rankings = np.argsort(-preferences, axis=1)
    with pytest.raises(ValueError, match="features must be finite"):
        fit_linear(rankings, np.full_like(y, np.nan))
    with pytest.raises(ValueError, match="two items"):
        fit_linear(rankings[:, :1], y)
