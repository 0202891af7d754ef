"""The likelihood and its derivatives against the explicit sum over comparisons."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import approx_fprime
from scipy.sparse import csr_array

from hushrank.estimation.common.links import LAPLACE, LINKS, LOGISTIC, Link
from hushrank.estimation.fit.likelihood import Floats, Objective, Weights

EVERY_LINK = pytest.mark.parametrize("link", LINKS.values(), ids=LINKS)
EITHER_FORM = pytest.mark.parametrize("form", [np.asarray, csr_array], ids=["dense", "sparse"])


def some_wins(n_items: int, seed: int) -> Floats:
    wins = np.random.default_rng(seed).poisson(2, (n_items, n_items)).astype(np.float64)
    np.fill_diagonal(wins, 0)
    return wins


def some_scores(n_items: int, seed: int) -> Floats:
    scores = np.random.default_rng(seed).normal(0, 1.5, n_items)
    return scores - scores.mean()


def explicit_value(objective: Objective, wins: Floats, theta: Floats) -> float:
    """One comparison at a time."""
    total = 0.0
    for winner, loser in np.argwhere(wins):
        d = np.array([theta[winner] - theta[loser]])
        total -= wins[winner, loser] * float(objective.link.log_cdf(d)[0])
    return total + objective.ridge / 2 * float(theta @ theta) + float(objective.linear @ theta)


@EVERY_LINK
@EITHER_FORM
@pytest.mark.parametrize("n_items", [2, 7, 300])  # 300: more than one block
def test_value_is_the_sum_over_comparisons(link: Link, form: type[Weights], n_items: int) -> None:
    wins = some_wins(n_items, 1) if n_items < 300 else np.triu(some_wins(n_items, 2), 297)
    objective = Objective(form(wins), link, 0.7, some_scores(n_items, 3))
    theta = some_scores(n_items, 4)
    assert objective.value(theta) == pytest.approx(explicit_value(objective, wins, theta), 1e-12)


@EVERY_LINK
@EITHER_FORM
def test_derivatives_are_those_of_the_value(link: Link, form: type[Weights]) -> None:
    wins, theta, n = some_wins(6, 5), some_scores(6, 6), 6
    objective = Objective(form(wins), link, 0.3, np.arange(n, dtype=np.float64))
    gradient, hessian = objective.derivatives(theta)
    full = approx_fprime(theta, objective.value, 1e-7)
    assert gradient == pytest.approx(full - full.mean(), abs=1e-4)
    assert gradient.sum() == pytest.approx(0, abs=1e-12)
    columns = [
        (objective.derivatives(theta + step)[0] - objective.derivatives(theta - step)[0]) / 2e-6
        for step in 1e-6 * np.eye(n)
    ]
    centring = np.eye(n) - 1 / n
    np.testing.assert_allclose(centring @ hessian.dense() @ centring, columns @ centring, atol=1e-6)
    vector = some_scores(n, 7)
    np.testing.assert_allclose(hessian.times(vector), hessian.dense() @ vector, rtol=1e-12)


def test_dense_and_sparse_agree_across_blocks() -> None:
    n = 700
    wins, theta = some_wins(n, 8), some_scores(n, 9)
    dense, sparse = (
        Objective(form(wins), LOGISTIC, 1.0, np.zeros(n)).derivatives(theta)
        for form in (np.asarray, csr_array)
    )
    np.testing.assert_allclose(dense[0], sparse[0], atol=1e-9)
    np.testing.assert_allclose(dense[1].diagonal, sparse[1].diagonal, rtol=1e-12)


@pytest.mark.parametrize("link", [LOGISTIC, LAPLACE], ids=["logistic", "laplace"])
@EITHER_FORM
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6), size=st.integers(0, 9))
def test_the_bound_on_rounding_holds(link: Link, form: type[Weights], seed: int, size: int) -> None:
    """Against 50 digits, for counts up to 10^9: the bound is never broken."""
    n = 5
    wins = np.rint(some_wins(n, seed) * 10.0**size)
    theta = some_scores(n, seed + 1) * 3
    objective = Objective(form(wins), link, 12.3, 10 * some_scores(n, seed + 2))
    computed = objective.derivatives(theta)[0]
    with mpmath.workdps(50):
        exact = exact_gradient(objective, wins, theta)
    assert np.linalg.norm(computed - exact) <= objective.gradient_error(theta)


def exact_gradient(objective: Objective, wins: Floats, theta: Floats) -> Floats:
    """Rounded once, at the end."""
    pull = [mpmath.mpf(0)] * len(theta)
    for winner, loser in np.argwhere(wins):
        d = mpmath.mpf(theta[winner]) - mpmath.mpf(theta[loser])
        if objective.link is LOGISTIC:
            slope = 1 / (1 + mpmath.exp(d))
        else:
            decay = mpmath.exp(-max(d, 0))
            slope = decay / (2 - decay)
        pull[winner] -= wins[winner, loser] * slope
        pull[loser] += wins[winner, loser] * slope
    for item in range(len(theta)):
        pull[item] += objective.ridge * mpmath.mpf(theta[item]) + mpmath.mpf(objective.linear[item])
    mean = mpmath.fsum(pull) / len(pull)
    return np.array([float(value - mean) for value in pull])


def test_misfits_are_refused() -> None:
    wins, linear = some_wins(3, 1), np.zeros(3)
    with pytest.raises(ValueError, match=r"weights of shape \(3, 3\) do not fit"):
        Objective(wins, LOGISTIC, 1.0, np.zeros(4))
    with pytest.raises(ValueError, match="float64, got int64"):
        Objective(wins.astype(np.int64), LOGISTIC, 1.0, linear)
    for ridge in (-1.0, math.inf, math.nan):
        with pytest.raises(ValueError, match="ridge must be finite and >= 0"):
            Objective(wins, LOGISTIC, ridge, linear)
