"""Stationary distributions: exact against rational arithmetic, whatever the gap and the size."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.sparse import csr_array

from hushrank.estimation.fit.solve import ConvergenceError
from hushrank.estimation.responses import stationary
from hushrank.estimation.responses.stationary import (
    PANEL,
    ReducibleChainError,
    sparse_stationary_distribution,
    stationary_distribution,
)


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


@pytest.mark.parametrize("seed", range(3))
def test_sparse_and_dense_agree(seed: int) -> None:
    random = np.random.default_rng(seed)
    rates = random.exponential(size=(300, 300)) * (random.random((300, 300)) < 0.03)
    ring = np.arange(300)
    rates[ring, (ring + 1) % 300] += 1
    np.fill_diagonal(rates, 0)
    pi = sparse_stationary_distribution(csr_array(rates))
    assert pi == pytest.approx(stationary_distribution(rates), rel=1e-10)
    assert residual(rates, pi) < 1e-12


def test_a_small_gap_does_not_fool_the_sparse_solve() -> None:
    rates = weakly_linked(100, 1e-4)
    pi = sparse_stationary_distribution(csr_array(rates))
    assert pi == pytest.approx(stationary_distribution(rates), rel=1e-7)
    with pytest.raises(ConvergenceError, match="gap"):  # its residual is small, pi is not right
        sparse_stationary_distribution(csr_array(weakly_linked(100, 1e-9)))


def test_an_iteration_that_does_not_get_there_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stationary, "MOST_RESTARTS", 1)
    ring = np.arange(2000)
    walk = np.ones(2000), (ring, (ring + 1) % 2000)
    back = np.ones(2000), ((ring + 1) % 2000, ring)
    with pytest.raises(ConvergenceError, match="converge"):
        sparse_stationary_distribution(csr_array(walk, (2000, 2000)) + csr_array(back))


def test_a_chain_that_falls_apart_is_named() -> None:
    rates = np.zeros((4, 4))
    rates[0, 1] = rates[1, 0] = rates[2, 3] = rates[3, 2] = rates[1, 2] = 1.0

    def solve_sparse(dense: NDArray[np.float64]) -> NDArray[np.float64]:
        return sparse_stationary_distribution(csr_array(dense))

    for solve in (stationary_distribution, solve_sparse):
        with pytest.raises(ReducibleChainError, match="2 components") as refusal:
            solve(rates)
        component = refusal.value.component
        assert component[0] == component[1] != component[2] == component[3]


@pytest.mark.parametrize("bad", [-1.0, np.nan, np.inf])
def test_rates_out_of_range(bad: float) -> None:
    rates = np.ones((3, 3))
    rates[0, 1] = bad
    with pytest.raises(ValueError, match="at least 0"):
        stationary_distribution(rates)
    with pytest.raises(ValueError, match="at least 0"):
        sparse_stationary_distribution(csr_array(rates))
