"""The Newton solver against an independent slow one, and on graphs that break naive solvers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.sparse import csr_array
from scipy.special import expit

from hushrank.estimation.common.links import LAPLACE, LINKS, LOGISTIC, PROBIT, Link
from hushrank.estimation.fit import solve
from hushrank.estimation.fit.likelihood import Floats, Objective
from hushrank.estimation.fit.solve import ConvergenceError, DisconnectedGraphError, minimise

EVERY_LINK = pytest.mark.parametrize("link", LINKS.values(), ids=LINKS)


def simulated_wins(n_items: int, per_pair: float, seed: int, spread: float = 1.0) -> Floats:
    generator = np.random.default_rng(seed)
    scores = generator.normal(0, spread, n_items)
    met = np.triu(generator.poisson(per_pair, (n_items, n_items)), 1)
    won = generator.binomial(met, expit(np.subtract.outer(scores, scores)))
    return (won + (met - won).T).astype(np.float64)


def slow_minimiser(wins: Floats, link: Link, ridge: float, linear: Floats) -> Floats:
    """Over all of R^n, from the sum over single comparisons, by SciPy's quasi-Newton method."""
    winners, losers = np.nonzero(wins)
    times = wins[winners, losers]

    def value(theta: Floats) -> float:
        loss = -times @ link.log_cdf(theta[winners] - theta[losers])
        return float(loss + ridge / 2 * theta @ theta + linear @ theta)

    def gradient(theta: Floats) -> Floats:
        pull = times * link.slope(theta[winners] - theta[losers])
        out = ridge * theta + linear
        np.add.at(out, losers, pull)
        np.subtract.at(out, winners, pull)
        return out

    found = minimize(
        value, np.zeros(len(wins)), jac=gradient, method="BFGS", options={"gtol": 1e-8}
    )
    return np.asarray(found.x)


@EVERY_LINK
@pytest.mark.parametrize("ridge", [0.5, 20.0])
def test_minimiser_is_that_of_a_slow_reference(link: Link, ridge: float) -> None:
    wins = simulated_wins(12, 3.0, seed=1)
    linear = np.random.default_rng(2).laplace(0, 4, 12)
    reference = slow_minimiser(wins, link, ridge, linear)
    solution = minimise(Objective(wins, link, ridge, linear))
    assert solution.gradient_norm <= 1e-9
    # The part of the minimiser along (1, ..., 1) is noise alone, as the module says.
    np.testing.assert_allclose(reference.mean(), -linear.mean() / ridge, atol=1e-7)
    np.testing.assert_allclose(solution.theta, reference - reference.mean(), atol=1e-7)
    assert solution.theta.sum() == pytest.approx(0, abs=1e-13)


@EVERY_LINK
def test_without_ridge(link: Link) -> None:
    wins = simulated_wins(8, 10.0, seed=3)
    reference = slow_minimiser(wins, link, 0.0, np.zeros(8))
    solution = minimise(Objective(wins, link, 0.0, np.zeros(8)))
    np.testing.assert_allclose(solution.theta, reference - reference.mean(), atol=1e-6)


@pytest.mark.parametrize("link", [LOGISTIC, LAPLACE], ids=["logistic", "laplace"])
@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    size=st.integers(-1, 9),
    log_ridge=st.floats(-2, 4),
    noise=st.floats(-2, 3),
    iterate=st.booleans(),
    sparse=st.booleans(),
)
def test_every_problem_converges(
    link: Link,
    seed: int,
    size: int,
    log_ridge: float,
    noise: float,
    iterate: bool,
    sparse: bool,
) -> None:
    """Counts up to 10^9, scores that differ much or little, noise larger or smaller than data.

    The Laplace link's second derivative jumps wherever two scores meet; equal counts make them.
    """
    generator = np.random.default_rng(seed)
    n = int(generator.integers(2, 25))
    wins = simulated_wins(n, 10.0**size, seed, spread=generator.uniform(0, 3))
    linear = generator.laplace(0, 10**noise, n) * generator.integers(0, 2)
    weights = csr_array(wins) if sparse else wins
    objective = Objective(weights, link, 10**log_ridge, linear)
    with pytest.MonkeyPatch.context() as patch:
        if iterate:
            patch.setattr(solve, "SMALL", 0)
        solution = minimise(objective)
    assert solution.gradient_norm <= max(1e-9, solution.gradient_error)
    # Strong convexity turns the gradient into a distance; the fit from elsewhere must be as near.
    start = generator.normal(0, 3, n)
    again = minimise(objective, start)
    reach = solution.gradient_norm + solution.gradient_error
    reach += again.gradient_norm + again.gradient_error
    assert np.linalg.norm(solution.theta - again.theta) <= reach / objective.ridge + 1e-12


def test_equal_items_meet_at_the_kink_of_the_laplace_link() -> None:
    wins = np.array([[0.0, 5, 9], [5, 0, 9], [1, 1, 0]])
    solution = minimise(Objective(wins, LAPLACE, 0.1, np.zeros(3)), start=np.array([3.0, 0, -1]))
    assert solution.theta[0] == pytest.approx(solution.theta[1], abs=1e-12)
    assert solution.gradient_norm <= 1e-9


def test_iterating_and_factorising_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    wins = simulated_wins(60, 0.3, seed=5)
    objective = Objective(wins, LOGISTIC, 0.2, np.random.default_rng(6).normal(0, 3, 60))
    direct = minimise(objective).theta
    monkeypatch.setattr(solve, "SMALL", 0)
    np.testing.assert_allclose(minimise(objective).theta, direct, atol=1e-9)
    monkeypatch.setattr(solve, "PATIENCE", 2)  # then factorised after all
    np.testing.assert_allclose(minimise(objective).theta, direct, atol=1e-9)


def test_ill_conditioned_path_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each item met its neighbours only: conjugate gradients alone need one step per item."""
    n = 400
    wins = csr_array((np.full(n - 1, 3.0), (np.arange(n - 1), np.arange(1, n))), shape=(n, n))
    wins = csr_array(wins + 0.5 * wins.T)
    expected = np.log(2) * np.arange(n)[::-1]
    solution = minimise(Objective(wins, LOGISTIC, 0.0, np.zeros(n)))
    np.testing.assert_allclose(solution.theta, expected - expected.mean(), atol=1e-5)


def test_ridge_carries_what_the_data_leave_open() -> None:
    """Items that never met, never lost, or met once: finite scores on the right side."""
    wins = np.zeros((5, 5))
    wins[0, 1], wins[1, 2], wins[2, 1] = 7, 1, 2  # 0 never lost; 3 and 4 met nobody
    solution = minimise(Objective(wins, LOGISTIC, 0.01, np.zeros(5)))
    assert solution.theta[0] == solution.theta.max()
    assert solution.theta[3] == pytest.approx(solution.theta[4])
    assert solution.gradient_norm <= 1e-9


def test_without_ridge_open_questions_are_refused() -> None:
    wins = np.zeros((4, 4))
    wins[0, 1] = wins[1, 0] = wins[2, 3] = wins[3, 2] = 1
    with pytest.raises(DisconnectedGraphError, match=r"\{0, 1\}, \{2, 3\}"):
        minimise(Objective(wins, LOGISTIC, 0.0, np.zeros(4)))
    wins[0, 2] = 1
    with pytest.raises(DisconnectedGraphError, match="won or lost all"):
        minimise(Objective(csr_array(wins), LOGISTIC, 0.0, np.zeros(4)))


def test_out_of_steps_raises_and_tells_no_data() -> None:
    wins = simulated_wins(10, 5.0, seed=7)
    with pytest.raises(ConvergenceError) as failure:
        minimise(Objective(wins, LOGISTIC, 1.0, np.zeros(10)), max_steps=1)
    assert str(failure.value) == (
        "the fit did not reach a gradient norm of 1e-09 in 1 Newton steps: "
        "set a larger ridge, or allow more steps"
    )


def test_an_objective_without_minimum_raises() -> None:
    """A negative weight under a probit link, whose log falls like a square: no end to it."""
    wins = np.array([[0.0, -3.0], [3.1, 0.0]])
    with pytest.raises(ConvergenceError):
        minimise(Objective(wins, PROBIT, 0.1, np.zeros(2)), np.array([-1.0, 1.0]), max_steps=50)
