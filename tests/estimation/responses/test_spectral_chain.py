"""The chain on items: its sign, its truth in expectation, and its stationary distribution."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import expit

from hushrank.estimation.fit import stationary
from hushrank.estimation.fit.stationary import PANEL, stationary_distribution
from hushrank.estimation.responses.item_graph import ItemGraph, complete_graph, random_graph
from hushrank.estimation.responses.measurements import (
    DifferentialMeasurements,
    measurements_of_answers,
)
from hushrank.estimation.responses.spectral_estimate import (
    chain_difficulties,
    estimate_difficulties,
    jump_rates,
)
from hushrank.privacy.noise import NoiseLaw
from hushrank.privacy.randomness import seeded_bits
from hushrank.privacy.units import NoiseKind
from tests.estimation.scores_alone import scores_alone


def fitted(
    y: NDArray[np.float64], graph: ItemGraph | None = None, regularization: float = 0.0
) -> NDArray[np.float64]:
    graph = graph or complete_graph(len(y))
    return chain_difficulties(jump_rates(y, graph, regularization=regularization))


def expected_counts(
    true: NDArray[np.float64], abilities: NDArray[np.float64]
) -> NDArray[np.float64]:
    """E[Y] of people with these abilities who answer everything."""
    right = expit(abilities[:, np.newaxis] - true)
    y = right.T @ (1 - right)
    np.fill_diagonal(y, 0)
    return y


def test_sign_two_items() -> None:
    """Three people are right on item 0 and wrong on item 1, one the other way: item 1 is harder."""
    person, item = np.repeat(np.arange(4), 2), np.tile([0, 1], 4)
    correct = np.array([1, 0, 1, 0, 1, 0, 0, 1], np.uint8)
    y = measurements_of_answers(person, item, correct, 2).astype(np.float64)
    assert fitted(y) == pytest.approx([-math.log(3) / 2, math.log(3) / 2], rel=1e-14)


@given(st.integers(2, 8), st.integers(0, 2**32 - 1))
@settings(deadline=None)
def test_expected_counts_give_the_true_difficulties_whatever_the_abilities(
    n_items: int, seed: int
) -> None:
    random = np.random.default_rng(seed)
    true = random.normal(size=n_items)
    true -= true.mean()
    abilities = random.standard_t(3, 20)
    y = expected_counts(true, abilities)
    graph = random_graph(n_items, 0.6, seeded_bits(seed))
    assert fitted(y) == pytest.approx(true, abs=1e-10)
    assert fitted(y, graph) == pytest.approx(true, abs=1e-10)


@given(st.integers(2, 6), st.integers(0, 2**32 - 1))
@settings(deadline=None)
def test_symmetries(n_items: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    y = random.integers(1, 50, (n_items, n_items)).astype(np.float64)
    scores = fitted(y)
    order = random.permutation(n_items)
    assert fitted(y[np.ix_(order, order)]) == pytest.approx(scores[order], abs=1e-12)
    assert fitted(7 * y) == pytest.approx(scores, abs=1e-12)
    assert scores.sum() == pytest.approx(0, abs=1e-12)
    if n_items == 2:
        assert fitted(y.T) == pytest.approx(-scores, abs=1e-12)


def test_rates_are_clipped_and_regularised_on_every_edge_and_nowhere_else() -> None:
    graph = ItemGraph(3, np.array([[0, 1], [1, 2]]))
    y = np.array([[0.0, -5, 9], [0, 0, 3], [9, 1, 0]])
    rates = jump_rates(y, graph, floor=0.5, regularization=2)
    assert rates.tolist() == [[0, 2.5, 0], [2.5, 0, 5], [0, 3, 0]]


def test_without_regularisation_zeros_can_tear_the_chain() -> None:
    y = np.array([[0.0, 4, 2], [1, 0, 2], [0, 0, 0]])
    with pytest.raises(ValueError, match="2 components"):
        fitted(y)
    assert fitted(y, regularization=1.0).argmax() == 2


def exactly(rates: NDArray[np.float64]) -> NDArray[np.float64]:
    """pi in rational arithmetic: Gaussian elimination on pi G = 0, last equation sum pi = 1."""
    n = len(rates)
    rows = [[Fraction(float(rates[j, i])) * (i != j) for j in range(n)] for i in range(n)]
    for i in range(n):
        rows[i][i] = -sum(Fraction(float(rates[i, j])) for j in range(n) if j != i)
    rows[-1] = [Fraction(1)] * n
    right = [Fraction(0)] * (n - 1) + [Fraction(1)]
    for column in range(n):
        pivot = next(row for row in range(column, n) if rows[row][column] != 0)
        rows[column], rows[pivot] = rows[pivot], rows[column]
        right[column], right[pivot] = right[pivot], right[column]
        for row in range(n):
            if row != column and rows[row][column] != 0:
                factor = rows[row][column] / rows[column][column]
                rows[row] = [a - factor * b for a, b in zip(rows[row], rows[column], strict=True)]
                right[row] -= factor * right[column]
    return np.array([float(right[i] / rows[i][i]) for i in range(n)])


def residual(rates: NDArray[np.float64], pi: NDArray[np.float64]) -> float:
    """l1 norm of pi M - pi for the chain with d = the largest exit rate."""
    exits = rates.sum(axis=1)
    return float(np.abs(pi @ rates - pi * exits).sum() / exits.max())


def weakly_linked(n_items: int, link: float) -> NDArray[np.float64]:
    """Two halves of a chain that meet by one pair of small rates."""
    rates = np.random.default_rng(1).uniform(0.5, 2, (n_items, n_items))
    half = n_items // 2
    rates[:half, half:] = rates[half:, :half] = 0
    rates[0, half], rates[half, 0] = link, 3 * link
    np.fill_diagonal(rates, 0)
    return rates


def power_iteration(rates: NDArray[np.float64]) -> NDArray[np.float64]:
    """1000 steps from the uniform distribution, stopping where a step moves less than 1e-5."""
    exits = rates.sum(axis=1)
    chain = rates / exits.max() + np.diag(1 - exits / exits.max())
    pi = np.full(len(rates), 1 / len(rates))
    for _ in range(1000):
        before, pi = pi, pi @ chain
        if np.linalg.norm(pi - before) < 1e-5:
            break
    return pi


@given(st.integers(2, 7), st.integers(0, 2**32 - 1), st.integers(0, 12))
@settings(deadline=None)
def test_every_entry_is_right_to_nearly_all_digits(n: int, seed: int, spread: int) -> None:
    random = np.random.default_rng(seed)
    rates = 10.0 ** random.uniform(-spread, 0, (n, n))
    np.fill_diagonal(rates, 0)
    assert stationary_distribution(rates) == pytest.approx(exactly(rates), rel=1e-13)


@pytest.mark.parametrize("n", [PANEL, PANEL + 1, PANEL + 2, 2 * PANEL + 1, 150])
def test_panels_change_nothing(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rates = np.random.default_rng(n).exponential(size=(n, n))
    in_panels = stationary_distribution(rates)
    monkeypatch.setattr(stationary, "PANEL", 1)
    assert in_panels == pytest.approx(stationary_distribution(rates), rel=1e-13)
    np.fill_diagonal(rates, 0)
    assert residual(rates, in_panels) < 1e-12


def test_a_spectral_gap_of_a_millionth_costs_no_digit() -> None:
    rates = weakly_linked(12, 1e-5)
    exits = rates.sum(axis=1)
    eigenvalues = np.linalg.eigvals((rates - np.diag(exits)) / exits.max())
    gap = -np.sort(eigenvalues.real)[-2]
    assert 3e-7 < gap < 3e-6
    truth = exactly(rates)
    pi = stationary_distribution(rates)
    assert residual(rates, pi) < 1e-12
    assert pi == pytest.approx(truth, rel=1e-13)
    stopped_early = power_iteration(rates)
    assert residual(rates, stopped_early) < 1e-5  # it looks finished
    assert np.abs(stopped_early / truth - 1).max() > 0.3


def test_the_argument_is_left_alone_and_its_diagonal_ignored() -> None:
    rates = np.random.default_rng(0).exponential(size=(5, 5))
    before = rates.copy()
    pi = stationary_distribution(rates)
    assert (rates == before).all()
    np.fill_diagonal(rates, 7.0)
    assert (stationary_distribution(rates) == pi).all()
    assert pi.sum() == pytest.approx(1, rel=1e-15)


def test_a_chain_that_falls_apart_is_refused() -> None:
    rates = np.zeros((4, 4))
    rates[0, 1] = rates[1, 0] = rates[2, 3] = rates[3, 2] = rates[1, 2] = 1.0
    with pytest.raises(ValueError, match="2 components"):
        stationary_distribution(rates)


@pytest.mark.parametrize("bad", [-1.0, np.nan, np.inf])
def test_rates_out_of_range_are_refused(bad: float) -> None:
    rates = np.ones((3, 3))
    rates[0, 1] = bad
    with pytest.raises(ValueError, match="at least 0"):
        stationary_distribution(rates)


@scores_alone()
def test_intervals_around_the_chain_hold_and_its_difficulties_are_the_papers() -> None:
    """Deterministic, by seeds; with noise that makes counts negative, and with hardly any."""
    for noise, people in ((40.0, 1000), (1.0, 800)):
        rng, held = np.random.default_rng(7), []
        truth = rng.normal(size=8)
        truth -= truth.mean()
        for _ in range(60):
            right = rng.random((people, 8)) < expit(rng.normal(size=(people, 1)) - truth)
            seen = np.argsort(rng.random((people, 8)), axis=1) < 6
            y = (right & seen).astype(np.int64).T @ (~right & seen)
            y += np.rint(rng.normal(size=y.shape) * noise).astype(np.int64)
            np.fill_diagonal(y, 0)
            counts = DifferentialMeasurements(y, complete_graph(8), confidential=False)
            law = NoiseLaw(NoiseKind.GAUSSIAN, noise)
            found = estimate_difficulties(counts, law, 6, chain=True).estimate
            papers = chain_difficulties(jump_rates(y.astype(np.float64), complete_graph(8)))
            assert found.scores - found.scores.mean() == pytest.approx(papers, abs=1e-9)
            held.append((found.low <= truth) & (truth <= found.high))
        assert 0.92 <= np.mean(held) <= 0.995
