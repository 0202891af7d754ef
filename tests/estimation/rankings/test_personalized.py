"""Linear personalised ranking: gradients, what it learns, and from private rankings too."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import check_grad

from hushrank.estimation.rankings.personalized import (
    PADDING,
    PSI_SMOOTHING,
    PairLoss,
    fit_linear,
    pair_loss,
    pairwise_accuracy,
)
from hushrank.privacy.mallows import synthetic_rankings
from hushrank.privacy.randomness import seeded_bits

LOSSES = list(PairLoss)


def world(n: int, m: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """People, items, and preferences that depend on both: (beta + B^T x) . y."""
    random = np.random.default_rng(seed)
    x, y = random.uniform(-1, 1, (n, 2)), random.uniform(-1, 1, (m, 3))
    own = np.array([1.0, -1.0, 0.5]) + x @ np.array([[2.0, 0.0, 0.0], [0.0, 2.0, 0.0]])
    return x, y, own @ y.T


@pytest.mark.parametrize("loss", LOSSES)
def test_the_derivative_is_that_of_the_loss(loss: PairLoss) -> None:
    for d in np.linspace(-3, 3, 13):
        assert (
            check_grad(
                lambda point: float(pair_loss(loss, point)[0][0]),
                lambda point: pair_loss(loss, point)[1],
                np.array([d]),
            )
            < 1e-5
        )


def test_psi_is_the_clipped_hinge_with_rounded_corners() -> None:
    d = np.linspace(-2, 3, 101)
    clipped = np.minimum(1, np.maximum(0, 1 - d))
    assert np.abs(pair_loss(PairLoss.PSI, d)[0] - clipped).max() <= PSI_SMOOTHING * np.log(2)


@pytest.mark.parametrize("loss", LOSSES)
def test_rankings_without_noise_are_learned(loss: PairLoss) -> None:
    x, y, preferences = world(200, 8, 1)
    rankings = np.argsort(-preferences, axis=1)
    fit = fit_linear(rankings[:150], x[:150], y, loss=loss, interactions=True)
    assert pairwise_accuracy(fit.scores(x[150:], y), preferences[150:]) > 0.95
    same = fit_linear(rankings[:150], x[:150], y, loss=loss)
    assert not same.interactions.any()
    alone = pairwise_accuracy(same.scores(x[150:], y), preferences[150:])
    assert alone < 0.9  # the interactions are what helps


def test_private_rankings_teach_more_with_a_larger_epsilon() -> None:
    x, y, preferences = world(3000, 8, 2)
    rankings = np.argsort(-preferences, axis=1)
    accuracy = []
    for epsilon in (0.05, 4.0):
        private = synthetic_rankings(
            rankings.ravel(), np.full(3000, 8), epsilon, seeded_bits(1)
        ).reshape(rankings.shape)
        fit = fit_linear(private[:2500], x[:2500], y, interactions=True)
        accuracy.append(pairwise_accuracy(fit.scores(x[2500:], y), preferences[2500:]))
    assert accuracy[0] < accuracy[1]
    assert accuracy[1] > 0.93


def test_short_rankings_count_only_their_items() -> None:
    x, y, preferences = world(60, 6, 3)
    rankings = np.argsort(-preferences, axis=1)[:, :4]
    padded = np.hstack([rankings, np.full((60, 2), PADDING)])
    whole, short = (fit_linear(rows, x, y, interactions=True) for rows in (rankings, padded))
    np.testing.assert_allclose(short.weights, whole.weights, atol=1e-4)


def test_the_accuracy_counts_pairs_once_and_leaves_ties_out() -> None:
    preferences = np.array([[3.0, 2.0, 1.0, 1.0]])
    assert pairwise_accuracy(preferences, preferences) == 1
    assert pairwise_accuracy(-preferences, preferences) == 0
    assert pairwise_accuracy(np.array([[3.0, 2.0, 2.0, 9.0]]), preferences) == pytest.approx(2 / 5)
    with pytest.raises(ValueError, match="different preferences"):
        pairwise_accuracy(preferences, np.zeros((1, 4)))


def test_arguments_that_do_not_fit_are_refused() -> None:
    x, y, preferences = world(5, 4, 4)
    rankings = np.argsort(-preferences, axis=1)
    with pytest.raises(ValueError, match="ridge must be > 0"):
        fit_linear(rankings, x, y, ridge=0.0)
    with pytest.raises(ValueError, match="one row of user features"):
        fit_linear(rankings, x[:3], y)
    with pytest.raises(ValueError, match="codes must be 0 to 3"):
        fit_linear(rankings + 1, x, y)
    with pytest.raises(ValueError, match="features must be finite"):
        fit_linear(rankings, x, np.full_like(y, np.nan))
    with pytest.raises(ValueError, match="two items"):
        fit_linear(np.full((5, 4), PADDING), x, y)
