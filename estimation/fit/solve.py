"""Minimise a penalised likelihood over sum-to-zero scores: damped Newton, never a silent failure.

References:
    [NW06] Nocedal, Wright. Numerical optimization, 2nd edition. 2006.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy
from scipy.special import logit

from hushrank.estimation.common.links import Floats
from hushrank.estimation.fit.comparison_graph import require_scores_to_exist
from hushrank.estimation.fit.likelihood import Hessian, Objective, centred, norm


class ConvergenceError(RuntimeError):
    """A fit did not reach its tolerance; nothing that it computed can be used."""


SMALL = 200  # items up to which factorising is faster than iterating
FACTORISABLE = 4_000  # items up to which it is the way out where iterating is slow
PATIENCE = 100  # conjugate-gradient steps before that
MOST_CONJUGATE_STEPS = 5_000
SUFFICIENT_DECREASE = 1e-4
MOST_HALVINGS = 40
LIKELY_SHARES = (0.05, 0.95)  # of wins, to start from
LARGEST_SCORE = 1e9  # no minimum of use lies beyond, and rounding would soon hide any gradient


@dataclass(frozen=True, slots=True)
class Solution:
    """Where a fit ended.

    Attributes:
        theta: the minimiser, shape (n,), sum zero.
        gradient_norm: l2 norm of the computed gradient at `theta`.
        gradient_error: how far rounding can have put it from the exact gradient, whose norm is
            therefore at most the sum of the two.
        steps: Newton steps taken.
    """

    theta: Floats
    gradient_norm: float
    gradient_error: float
    steps: int


def minimise(
    objective: Objective,
    start: Floats | None = None,
    tolerance: float = 1e-9,
    max_steps: int = 2_000,
) -> Solution:
    """Newton's method from `start` (win shares where None) to a gradient of l2 norm `tolerance`.

    A full step is taken if it halves the smallest gradient norm so far, which can happen only so
    often, and else the first of its halves that decreases the objective enough ([NW06] 3.4). So the
    method converges from anywhere on a strictly convex objective, also where second derivatives
    jump. Weights beyond about 1e6 put the tolerance below what rounding leaves of the gradient; the
    fit then ends where the gradient is all rounding, and the two norms in the result say so.

    Raises:
        DisconnectedGraphError: the ridge is 0 and no minimum exists; its text names items.
        ConvergenceError: neither was reached within `max_steps`. Its text holds no data.
    """
    if objective.ridge == 0:
        require_scores_to_exist(objective.weights)
    theta = _scores_of_shares(objective) if start is None else start
    theta = centred(theta)
    gradient, hessian = objective.derivatives(theta)
    length = best = norm(gradient)
    for step in range(max_steps + 1):
        if length <= tolerance:
            return _solution(objective, theta, gradient, step)
        direction = _newton_direction(hessian, gradient, tolerance)
        ahead = theta + direction
        gradient_ahead, hessian_ahead = objective.derivatives(ahead)
        length_ahead = norm(gradient_ahead)
        if not length_ahead <= best / 2:
            if length <= objective.gradient_error(theta):
                return _solution(objective, theta, gradient, step)
            ahead = _backtracked(objective, theta, direction, gradient)
            gradient_ahead, hessian_ahead = objective.derivatives(ahead)
            length_ahead = norm(gradient_ahead)
        theta, gradient, hessian, length = ahead, gradient_ahead, hessian_ahead, length_ahead
        best = min(best, length)
        if not np.abs(theta).max() <= LARGEST_SCORE:
            raise ConvergenceError("the objective falls without end: set a larger ridge")
    raise ConvergenceError(
        f"the fit did not reach a gradient norm of {tolerance:g} in {max_steps} Newton steps: "
        "set a larger ridge, or allow more steps"
    )


def _scores_of_shares(objective: Objective) -> Floats:
    """Log-odds of each item's share of wins, drawn to zero as the ridge will do: near the minimum.

    The linear term counts like losses; entries below zero, of estimated weights, like nothing.
    """
    won, lost = (np.maximum(objective.weights.sum(axis=axis), 0) for axis in (1, 0))
    played = won + lost
    share = np.clip((won - objective.linear + 0.5) / (played + 1), *LIKELY_SHARES)
    return np.asarray(logit(share) * played / (played + 4 * objective.ridge + 1))


def _solution(objective: Objective, theta: Floats, gradient: Floats, steps: int) -> Solution:
    error = objective.gradient_error(theta)
    return Solution(centred(theta), norm(gradient), error, steps)


def _backtracked(
    objective: Objective, theta: Floats, direction: Floats, gradient: Floats
) -> Floats:
    """The first point theta + direction / 2^k that decreases the objective enough."""
    slope = float(direction @ gradient)
    if slope >= 0:  # possible only where the objective is not convex
        direction, slope = -gradient, -float(gradient @ gradient)
    value = objective.value(theta)
    length = 1.0
    for _ in range(MOST_HALVINGS):
        ahead = theta + length * direction
        if objective.value(ahead) <= value + SUFFICIENT_DECREASE * length * slope:
            return ahead
        length /= 2
    raise ConvergenceError("no step along the Newton direction decreases the objective any more")


def _newton_direction(hessian: Hessian, gradient: Floats, tolerance: float) -> Floats:
    """Solve hessian @ direction = -gradient, as exactly as this Newton step deserves."""
    n = len(gradient)
    direction = _factorised(hessian, gradient) if n <= SMALL else None
    if direction is not None:
        return direction
    steep = norm(gradient)
    closeness = steep / (np.sqrt(n) * hessian.diagonal.mean())  # about the length of the step
    residual = max(steep * min(0.1, closeness), tolerance / 4)
    patience = PATIENCE if SMALL < n <= FACTORISABLE else MOST_CONJUGATE_STEPS
    direction, solved = _conjugate_gradients(hessian, -gradient, residual, patience)
    exact = None if solved or patience > PATIENCE else _factorised(hessian, gradient)
    return direction if exact is None else exact


def _factorised(hessian: Hessian, gradient: Floats) -> Floats | None:
    """The direction by Cholesky; None where the matrix is not positive definite on the subspace."""
    matrix, n = hessian.dense(), len(gradient)
    matrix += hessian.diagonal.sum() / n / n  # moves only the eigenvalue of the ones vector
    # Of a symmetric matrix the transpose is LAPACK's own order of it, so nothing is copied. SciPy's
    # two functions for this take longer than it does where there are a few items.
    _, direction, flaw = scipy.linalg.lapack.dposv(matrix.T, gradient, lower=True, overwrite_a=True)
    return None if flaw else centred(-direction)


def _conjugate_gradients(
    hessian: Hessian, right: Floats, residual_norm: float, max_steps: int
) -> tuple[Floats, bool]:
    """Solve hessian @ x = right to that residual; False where it stopped before.

    Preconditioned by the diagonal, within the subspace. It stops early at a direction of
    non-positive curvature ([NW06] Algorithm 7.1); what it has then is still a descent direction.
    """
    x = np.zeros_like(right)
    residual = right
    search, product = x, 0.0
    for step in range(max_steps):
        if norm(residual) <= residual_norm:
            return x, True
        scaled = residual / hessian.diagonal
        scaled -= scaled.mean()
        previous, product = product, float(residual @ scaled)
        if not product > 0:  # rounding is all that is left of it
            return (right if step == 0 else x), False
        search = scaled if step == 0 else scaled + product / previous * search
        image = hessian.times(search)
        curvature = float(search @ image)
        if curvature <= 0:
            return (right if step == 0 else x), False
        x = x + product / curvature * search
        residual = residual - product / curvature * image
    return x, False
