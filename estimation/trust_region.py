"""Minimise a likelihood that need not be convex, and say what was found.

The exact trust-region method of [CGT00] §7.3 (SciPy's) comes near a minimum from any start, through
regions of negative curvature. Its test of progress compares values, so rounding stops it short of a
small gradient; Newton's method goes the rest of the way.

References:
    [CGT00] Conn, Gould, Toint. Trust-region methods. 2000.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg import eigh
from scipy.optimize import minimize

from hushrank.estimation.convergence import ConvergenceError
from hushrank.estimation.likelihood import Hessian, Objective
from hushrank.estimation.links import Floats
from hushrank.estimation.solve import Solution, minimise

MOST_STEPS = 500
LARGEST_SCORE = 1e3  # beyond it every F of a difference is 0 or 1: the objective falls without end


def minimise_nonconvex(objective: Objective, tolerance: float = 1e-9) -> Solution:
    """From equal scores to a point whose gradient has l2 norm `tolerance`, through any terrain.

    Args:
        objective: its weights may be of any sign; dense up to a few thousand items.
        tolerance: see `solve.minimise`.

    Returns:
        A stationary point, in general a minimum: see `smallest_curvature`. An objective that is not
        convex may have others.

    Raises:
        ConvergenceError: no such point was reached, perhaps since the objective falls without end,
            as that of a probit link with weights below zero may.
    """
    start = np.zeros(objective.n_items)

    def gradient(scores: Floats) -> Floats:
        return objective.derivatives(scores)[0]

    def hessian(scores: Floats) -> Floats:
        return _grounded(objective.derivatives(scores)[1])

    # A gradient g promises a gain of about g^2 / curvature, which rounding hides when it is some
    # 1e-14 of the value: further than that this method cannot see.
    visible = math.sqrt(1e-14 * abs(objective.value(start)) * np.abs(hessian(start)).max())
    near = minimize(
        objective.value,
        start,
        method="trust-exact",
        jac=gradient,
        hess=hessian,
        options={"gtol": max(tolerance, visible), "maxiter": MOST_STEPS},
    ).x
    if not np.abs(near).max() < LARGEST_SCORE:
        raise ConvergenceError(
            "the objective falls without end: too few answers for this link at this privacy; "
            "use link: logistic, more answers or a larger ridge"
        )
    return minimise(objective, near, tolerance)


def smallest_curvature(objective: Objective, theta: Floats) -> float:
    """Smallest eigenvalue of the Hessian at `theta`, on the scores that sum to zero.

    Above zero a stationary point is a minimum.
    """
    hessian = _grounded(objective.derivatives(theta)[1])
    return float(eigh(hessian, eigvals_only=True, subset_by_index=[0, 0])[0])


def _grounded(hessian: Hessian) -> Floats:
    """The Hessian with its largest curvature along (1, ..., 1), where it has none of interest."""
    matrix = hessian.dense()
    return np.asarray(matrix + np.abs(matrix).sum(axis=1).max() / len(matrix))
