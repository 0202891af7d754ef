"""Minimise a likelihood that need not be convex, and say what was found.

The exact trust-region method of [CGT00] §7.3 (SciPy's) comes near a minimum from any start, through
regions of negative curvature. Its test of progress compares values, so rounding stops it short of a
small gradient; Newton's method goes the rest of the way. Of many items, whose matrices are sparse,
the trust-region problem is solved by conjugate gradients ([CGT00] §7.5).

References:
    [CGT00] Conn, Gould, Toint. Trust-region methods. 2000.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import scipy

from hushrank.estimation.common.links import Floats
from hushrank.estimation.fit.likelihood import Hessian, Objective
from hushrank.estimation.fit.solve import ConvergenceError, Solution, minimise

MOST_STEPS = 500
MOST_SEARCHES = 200  # restarts of the search for an eigenvalue
EIGENVALUE_TOLERANCE = 1e-3  # relative
LARGEST_SCORE = 1e3  # beyond it every F of a difference is 0 or 1: the objective falls without end


def minimise_nonconvex(objective: Objective, tolerance: float = 1e-9) -> Solution:
    """From equal scores to a point whose gradient has l2 norm `tolerance`, through any terrain.

    Args:
        objective: its weights may be of any sign.
        tolerance: see `solve.minimise`.

    Returns:
        A stationary point, in general a minimum: see `smallest_curvature`. An objective that is not
        convex may have others.

    Raises:
        ConvergenceError: no such point was reached, perhaps since the objective falls without end,
            as that of a probit link with weights below zero may.
    """
    near = _near(objective, tolerance)
    if not np.abs(near).max() < LARGEST_SCORE:
        raise ConvergenceError(
            "the objective falls without end: too few answers for this link at this privacy; "
            "use link: logistic, more answers or a larger ridge"
        )
    return minimise(objective, near, tolerance)


def _near(objective: Objective, tolerance: float) -> Floats:
    start = np.zeros(objective.n_items)
    sparse = isinstance(objective.weights, scipy.sparse.csr_array)

    def gradient(scores: Floats) -> Floats:
        return objective.derivatives(scores)[0]

    def hessian(scores: Floats) -> Floats:
        return _grounded(objective.derivatives(scores)[1])

    curvatures = objective.derivatives(start)[1].diagonal if sparse else hessian(start)
    visible = _visible(objective, start, float(np.abs(curvatures).max()))
    found = scipy.optimize.minimize(
        objective.value,
        start,
        method="trust-ncg" if sparse else "trust-exact",
        jac=gradient,
        hess=None if sparse else hessian,
        hessp=_products(objective) if sparse else None,
        options={"gtol": max(tolerance, visible), "maxiter": MOST_STEPS},
    )
    return np.asarray(found.x - found.x.mean())


def _products(objective: Objective) -> Callable[[Floats, Floats], Floats]:
    """The Hessian at some scores times a vector."""
    held: dict[bytes, Hessian] = {}  # that of the last point: its products are asked for many times

    def product(scores: Floats, vector: Floats) -> Floats:
        point = scores.tobytes()
        if point not in held:
            held.clear()
            held[point] = objective.derivatives(scores)[1]
        return held[point].times(vector)

    return product


def _visible(objective: Objective, start: Floats, curvature: float) -> float:
    """The smallest gradient norm to ask for.

    A gradient g promises a gain of about g^2 / curvature, which rounding hides when it is some
    1e-14 of the value: further than that these methods cannot see.
    """
    return math.sqrt(1e-14 * abs(objective.value(start)) * curvature)


def smallest_curvature(objective: Objective, theta: Floats) -> float:
    """Smallest eigenvalue of the Hessian at `theta`, on the scores that sum to zero.

    Above zero a stationary point is a minimum.

    Raises:
        ConvergenceError: of a sparse Hessian it was not found.
    """
    hessian = objective.derivatives(theta)[1]
    if isinstance(hessian.curvatures, scipy.sparse.csr_array):
        return _smallest_of_sparse(hessian)
    return float(
        scipy.linalg.eigh(_grounded(hessian), eigvals_only=True, subset_by_index=[0, 0])[0]
    )


def _smallest_of_sparse(hessian: Hessian) -> float:
    n, ceiling = len(hessian.diagonal), 2 * float(np.abs(hessian.diagonal).max())

    def grounded(vector: Floats) -> Floats:
        return np.asarray(hessian.times(vector) + ceiling * vector.mean())

    operator = scipy.sparse.linalg.LinearOperator((n, n), matvec=grounded, dtype=np.float64)
    start = np.cos(np.arange(n, dtype=np.float64))  # any vector that is not special
    try:
        found = scipy.sparse.linalg.eigsh(
            operator, 1, which="SA", v0=start, maxiter=MOST_SEARCHES, tol=EIGENVALUE_TOLERANCE
        )
    except scipy.sparse.linalg.ArpackNoConvergence:
        raise ConvergenceError(
            "it could not be found whether the fit is a minimum: use link: logistic, or a larger"
            " ridge"
        ) from None
    return float(found[0][0])


def _grounded(hessian: Hessian) -> Floats:
    """The Hessian with its largest curvature along (1, ..., 1), where it has none of interest."""
    matrix = hessian.dense()
    return np.asarray(matrix + np.abs(matrix).sum(axis=1).max() / len(matrix))
