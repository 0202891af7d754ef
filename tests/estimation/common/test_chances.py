"""Probabilities of ranks: against sums over all cases, and against how often they come true."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr
from scipy.stats import norm

from hushrank.estimation.common import pair_separation
from hushrank.estimation.common.pair_separation import (
    FEWEST_DRAWS,
    MOST_ITEMS,
    ScoreErrors,
    rank_probabilities,
    simulated_scores,
)


def brute_force(centre: np.ndarray, variances: np.ndarray) -> np.ndarray:
    """P(best) by integrals: over the spread of the scores, and over the score of the best."""
    x = centre - centre.mean()
    spreads = np.linspace(0.003, 3, 400) * np.sqrt(np.mean(x**2))
    weights = np.array([norm.pdf(x, scale=np.sqrt(t**2 + variances)).prod() for t in spreads])
    best = np.zeros(len(x))
    for t, weight in zip(spreads, weights / weights.sum(), strict=True):
        mean, sd = x * t**2 / (t**2 + variances), t * np.sqrt(variances / (t**2 + variances))
        grid = np.linspace((mean - 8 * sd).min(), (mean + 8 * sd).max(), 1_001)
        standard = (grid - mean[:, np.newaxis]) / sd[:, np.newaxis]
        below, densities = ndtr(standard), np.exp(-np.square(standard) / 2) / np.sqrt(2 * np.pi)
        for i in range(len(x)):
            others = np.delete(below, i, axis=0).prod(axis=0)
            density = densities[i] / sd[i]
            best[i] += weight * (others * density).sum() * (grid[1] - grid[0])
    return best


@settings(max_examples=15)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(2, 5))
def test_probabilities_are_those_of_all_cases(seed, n):
    generator = np.random.default_rng(seed)
    centre = generator.normal(size=n)
    centre -= centre.mean()
    variances = generator.uniform(0.1, 2, n)
    found = rank_probabilities(ScoreErrors(centre, variances), 1)
    np.testing.assert_allclose(found.best, brute_force(centre, variances), atol=0.03)
    assert found.best.sum() == pytest.approx(1)
    np.testing.assert_array_equal(found.best, found.top)


@given(seed=st.integers(0, 2**32 - 1), n=st.integers(2, 12), data=st.data())
@settings(max_examples=20)
def test_k_items_are_among_the_best_k_and_the_best_is_one_of_them(seed, n, data):
    generator, k = np.random.default_rng(seed), data.draw(st.integers(1, n))
    root = generator.normal(size=(n, n))
    errors = ScoreErrors(generator.normal(size=n), root @ root.T)
    found = rank_probabilities(errors, k)
    assert found.top.sum() == pytest.approx(k)
    assert (found.best <= found.top + 1e-12).all()
    again = rank_probabilities(errors, k)
    np.testing.assert_array_equal(found.top, again.top)


@pytest.mark.parametrize(
    ("shape", "spread", "most_off"),
    [
        ("normal", 0.5, 0.05),
        ("normal", 1.0, 0.06),
        ("normal", 3.0, 0.05),
        ("uniform", 1.0, 0.18),  # scores that are not normal cost accuracy, and not all of it
        ("one ahead", 1.0, 0.15),
    ],
)
def test_what_has_chance_p_happens_p_of_the_time(shape, spread, most_off, monkeypatch):
    """The draws to average over are the same at each call, so they are made once.

    2 000 draws are enough: a chance has a standard error of 0.011 at most, and `off` is a mean over
    100 probabilities or more.
    """
    monkeypatch.setattr(
        pair_separation, "normal_draws", functools.cache(pair_separation.normal_draws)
    )
    monkeypatch.setattr(pair_separation, "DRAWS", 2_000)
    generator, n, k, releases = np.random.default_rng(8), 12, 3, 1_000
    told, came = {"best": [], "top": []}, {"best": [], "top": []}
    for _ in range(releases):
        uniform = shape == "uniform"
        truth = spread * (generator.uniform(-1.7, 1.7, n) if uniform else generator.normal(size=n))
        if shape == "one ahead":
            truth[0] += 2 * spread
        root = generator.normal(size=(n, n)) * generator.uniform(0.5, 1.5, (n, 1)) / np.sqrt(n)
        centre = truth + root @ generator.normal(size=n)
        found = rank_probabilities(ScoreErrors(centre, root @ root.T), k)
        place = np.argsort(np.argsort(-truth))
        told["best"].append(found.best)
        told["top"].append(found.top)
        came["best"].append(place == 0)
        came["top"].append(place < k)
    for name in told:
        chance, happened = np.concatenate(told[name]), np.concatenate(came[name])
        for low, high in ((0.0, 0.05), (0.05, 0.2), (0.2, 0.5), (0.5, 0.8), (0.8, 1.01)):
            inside = (low <= chance) & (chance < high)
            if inside.sum() < 100:
                continue
            off = chance[inside].mean() - happened[inside].mean()
            assert abs(off) < most_off, (name, low, high, off)


def test_one_of_two_equal_items_is_seldom_very_likely_the_best(monkeypatch):
    """At 95 %, either of the two in 5 % of the releases; 17 % would be 4 sd above 10 %."""
    monkeypatch.setattr(
        pair_separation, "normal_draws", functools.cache(pair_separation.normal_draws)
    )
    monkeypatch.setattr(pair_separation, "DRAWS", 2_000)
    generator, truth, said = np.random.default_rng(3), np.array([0, 0, -6, -6, -6, -6.0]), 0
    for _ in range(300):
        sd = np.exp(0.4 * generator.normal(size=6))
        errors = ScoreErrors(truth + sd * generator.normal(size=6), np.square(sd))
        said += rank_probabilities(errors, 1).best.max() >= 0.945
    assert 0.02 < said / 300 < 0.17


def test_items_that_nobody_compared_keep_their_chance():
    errors = ScoreErrors(np.array([2.0, 0.0, -2.0, 0.0]), np.array([0.1, 0.1, 0.1, 1e9]))
    best = rank_probabilities(errors, 1).best
    assert 0.05 < best[3] < 0.4
    assert best[0] > 0.6


def test_without_any_difference_all_have_the_same_chance():
    best = rank_probabilities(ScoreErrors(np.zeros(4), np.ones(4)), 2).best
    np.testing.assert_allclose(best, 0.25, atol=0.02)


def test_exact_scores_are_certain():
    assert rank_probabilities(ScoreErrors(np.array([1.0, 3.0, 2.0]), np.zeros(3)), 1).best[1] == 1


def test_too_many_items_have_no_probabilities_and_many_have_few_draws():
    n = MOST_ITEMS
    assert rank_probabilities(ScoreErrors(np.arange(n + 1.0), np.ones(n + 1)), 10) is None
    found = rank_probabilities(ScoreErrors(np.arange(float(n)), np.ones(n)), 10)
    assert found.top[-1] == 1
    assert FEWEST_DRAWS <= 2_000
    assert simulated_scores(ScoreErrors(np.arange(3.0), np.ones(3)), 50).shape == (50, 3)


def test_k_must_be_a_rank():
    with pytest.raises(ValueError, match="k must be between 1 and 3"):
        rank_probabilities(ScoreErrors(np.zeros(3), np.ones(3)), 4)
