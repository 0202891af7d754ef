"""The solver for objectives that need not be convex: right points, honest about what they are."""

from __future__ import annotations

import numpy as np
import pytest

from hushrank.estimation.common.links import LINKS, LOGISTIC, PROBIT, Link
from hushrank.estimation.fit.likelihood import Objective
from hushrank.estimation.fit.solve import (
    ConvergenceError,
    minimise,
    minimise_nonconvex,
    smallest_curvature,
)


def two_items(won: float, lost: float, link: Link, ridge: float = 1.0) -> Objective:
    return Objective(np.array([[0.0, won], [lost, 0.0]]), link, ridge, np.zeros(2))


@pytest.mark.parametrize("link", LINKS.values(), ids=LINKS)
def test_a_convex_objective_has_the_minimum_of_newton_s_method(link: Link) -> None:
    weights = np.random.default_rng(1).uniform(1, 9, (7, 7)) * (1 - np.eye(7))
    objective = Objective(weights, link, 0.5, np.zeros(7))
    solution = minimise_nonconvex(objective)
    assert solution.gradient_norm <= 1e-9
    np.testing.assert_allclose(solution.theta, minimise(objective).theta, atol=1e-9)
    eigenvalues = np.linalg.eigvalsh(objective.derivatives(solution.theta)[1].dense())
    assert eigenvalues[0] == pytest.approx(0.5)  # along (1, ..., 1), which does not count
    assert smallest_curvature(objective, solution.theta) == pytest.approx(eigenvalues[1])


def test_a_region_of_negative_curvature_is_crossed() -> None:
    link = LINKS["laplace"]  # bends only on the right of 0, here downwards
    push = np.array([-20.0, 20.0])
    objective = Objective(np.array([[0.0, -2.0], [9.0, 0.0]]), link, 4.0, push)
    assert smallest_curvature(objective, np.array([0.05, -0.05])) < 0
    solution = minimise_nonconvex(objective)
    assert smallest_curvature(objective, solution.theta) > 0
    values = [objective.value(np.array([x, -x])) for x in np.linspace(-10, 10, 100_001)]
    assert objective.value(solution.theta) == pytest.approx(min(values), abs=1e-6)
    assert solution.theta[0] > 1


def test_a_stationary_point_that_is_no_minimum_is_called_so() -> None:
    upside_down = two_items(-5.0, -5.0, LOGISTIC)
    solution = minimise_nonconvex(upside_down)
    np.testing.assert_array_equal(solution.theta, [0.0, 0.0])
    assert smallest_curvature(upside_down, solution.theta) == pytest.approx(1 - 10 * 0.25 * 2)


def test_an_objective_without_minimum_is_an_error() -> None:
    with pytest.raises(ConvergenceError, match="without end"):
        minimise_nonconvex(two_items(-3.0, 3.1, PROBIT))


def test_rounding_of_large_values_does_not_stop_it() -> None:
    objective = two_items(3e12, 1e12, LINKS["laplace"])
    solution = minimise_nonconvex(objective)
    # F(d) = 3/4 at d = log 2.
    np.testing.assert_allclose(solution.theta, np.log(2) / 2 * np.array([1, -1]), atol=1e-9)
