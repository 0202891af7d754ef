"""Two towers: they learn what a linear function cannot, and stop early."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
import scipy

from hushrank.estimation.rankings.perceptrons import TowerShapes
from hushrank.experiments.rdp.rdp_trial import pairwise_accuracy
from hushrank.experiments.rdp.two_towers import MOST_ITERATIONS, fit_to_rankings, pair_loss
from hushrank.privacy.mallows import synthetic_rankings
from hushrank.privacy.randomness import seeded_bits

N, M = 300, 12


def world(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Preferences by closeness of a person's and an item's only feature: not linear in it."""
    random = np.random.default_rng(seed)
    x, y = random.uniform(-1, 1, (N, 1)), random.uniform(-1, 1, (M, 1))
    return x, y, -np.abs(x - y.T)


def test_the_gradient_is_that_of_the_mean_loss_of_a_pair() -> None:
    x, y, preferences = world(4)
    rankings, shapes = np.argsort(-preferences[:7], axis=1), TowerShapes(1, 1)
    place = shapes.start(seeded_bits(1), seeded_bits(2))

    def loss(weights: np.ndarray) -> float:
        return pair_loss(shapes.scores(weights, x[:7], y), rankings)[0]

    scores = shapes.scores(place, x[:7], y)
    one_by_one = [
        np.log1p(np.exp(row[below] - row[above]))
        for row, ranking in zip(scores, rankings, strict=True)
        for above, below in combinations(ranking, 2)
    ]
    value, slope = pair_loss(scores, rankings)
    assert value == pytest.approx(np.mean(one_by_one), rel=1e-12)
    found = shapes.gradient(place, x[:7], y, slope)
    expected = scipy.optimize.approx_fprime(place, loss, 1e-7)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert np.abs(found).max() > 0.01


@pytest.mark.slow
def test_they_learn_from_private_rankings() -> None:
    x, y, preferences = world(1)
    rankings = np.argsort(-preferences, axis=1)
    private = synthetic_rankings(rankings.ravel(), np.full(N, M), 8.0, seeded_bits(1)).reshape(N, M)
    held_out = np.arange(N) < 80
    fit = fit_to_rankings(private[:250], x[:250], y, held_out[:250], seeded_bits(3))
    assert pairwise_accuracy(fit.scores(x[250:], y), preferences[250:]) > 0.85
    assert 0 < fit.iterations < MOST_ITERATIONS


def test_pure_noise_stops_early_and_is_not_learned() -> None:
    x, y, preferences = world(2)
    rankings = np.argsort(np.random.default_rng(5).normal(size=(N, M)), axis=1)
    fit = fit_to_rankings(rankings, x, y, np.arange(N) < 150, seeded_bits(3))
    assert fit.iterations < 100
    assert fit.held_out_loss > 0.65  # of a fair coin: log 2
    assert 0.2 < pairwise_accuracy(fit.scores(x, y), preferences) < 0.8


def test_arguments_that_do_not_fit_are_refused() -> None:
    x, y, preferences = world(3)
    rankings = np.argsort(-preferences, axis=1)
    with pytest.raises(ValueError, match="held out"):
        fit_to_rankings(rankings, x, y, np.zeros(N, bool), seeded_bits(1))
    with pytest.raises(ValueError, match="one mark for each"):
        fit_to_rankings(rankings, x, y, np.zeros(3, bool), seeded_bits(1))
