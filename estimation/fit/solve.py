"""Minimise a penalised likelihood over sum-to-zero scores: damped Newton, never a silent failure.

Which items can be put on one scale: the graph of who met, and who beat, whom.

These facts are as confidential as the counts they are read from. Their texts name items and sizes,
so they belong to released matrices and to simulations, not to the path of a private release, whose
ridge needs none of them.

Minimise a likelihood that need not be convex, and say what was found.

The exact trust-region method of [CGT00] §7.3 (SciPy's) comes near a minimum from any start, through
regions of negative curvature. Its test of progress compares values, so rounding stops it short of a
small gradient; Newton's method goes the rest of the way. Of many items, whose matrices are sparse,
the trust-region problem is solved by conjugate gradients ([CGT00] §7.5).

References:
    [NW06] Nocedal, Wright. Numerical optimization, 2nd edition. 2006.
    [F57] Ford. Solution of a ranking problem from binary comparisons. 1957.
    [CGT00] Conn, Gould, Toint. Trust-region methods. 2000.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray
from scipy.special import logit

from hushrank.estimation.common.links import Floats
from hushrank.estimation.fit.likelihood import Hessian, Objective, centred, norm

MOST_NAMED = 5  # components, and items of one component, that an error text lists

Wins = (
    NDArray[np.int64] | NDArray[np.float64] | scipy.sparse.csr_array
)  # entry (a, b) > 0: a beat b


class DisconnectedGraphError(ValueError):
    """Scores of some items cannot be compared; the text names the components."""


@dataclass(frozen=True, slots=True)
class ComparisonGraph:
    """Graph of the positive entries in a win matrix; arrays of shape (n,).

    Attributes:
        opponents: number of other items that each item met.
        component: number, from 0, of the set of items that meet each other directly or through
            others; scores in different sets share no scale.
        class_of: number, from 0, of the set of items that reach each other through wins in both
            directions; a likelihood without a ridge has a minimum only if there is one set ([F57]).
        never_won, never_lost: met others, and lost or won every time.
    """

    opponents: NDArray[np.int64]
    component: NDArray[np.int64]
    class_of: NDArray[np.int64]
    never_won: NDArray[np.bool_]
    never_lost: NDArray[np.bool_]

    @property
    def n_components(self) -> int:
        """1 where all items share a scale."""
        return int(self.component.max()) + 1

    @property
    def n_classes(self) -> int:
        """1 where a fit without a ridge exists."""
        return int(self.class_of.max()) + 1


def comparison_graph(wins: Wins) -> ComparisonGraph:
    """Read the graph off a win matrix, shape (n, n), dense or CSR; entries <= 0 are no wins."""
    beat = scipy.sparse.csr_array(wins > 0)
    met = (beat + beat.T).tocsr()
    wins_over, losses_to = np.diff(beat.indptr), np.diff(beat.tocsc().indptr)
    opponents = np.diff(met.indptr).astype(np.int64)
    _, component = scipy.sparse.csgraph.connected_components(met, directed=False)
    _, class_of = scipy.sparse.csgraph.connected_components(
        beat, directed=True, connection="strong"
    )
    return ComparisonGraph(
        opponents=opponents,
        component=component.astype(np.int64),
        class_of=class_of.astype(np.int64),
        never_won=(opponents > 0) & (wins_over == 0),
        never_lost=(opponents > 0) & (losses_to == 0),
    )


def require_scores_to_exist(wins: Wins, items: Sequence[str] | None = None) -> None:
    """Refuse a win matrix whose likelihood has no minimum without a ridge.

    Args:
        wins: shape (n, n).
        items: names for the text; numbers where None.

    Raises:
        DisconnectedGraphError: some items never met the others, or one set of items won every
            comparison with the rest.
    """
    if not isinstance(wins, scipy.sparse.csr_array) and _surely_strong(wins > 0):
        return
    graph = comparison_graph(wins)
    if graph.n_components > 1:
        raise DisconnectedGraphError(
            f"the comparisons fall into {graph.n_components} sets of items that never met: "
            f"{_listed(graph.component, items)}. Set a ridge, add comparisons between the sets, "
            "or rank each set by itself"
        )
    if graph.n_classes > 1:
        raise DisconnectedGraphError(
            f"the items fall into {graph.n_classes} sets, each of which won or lost all its "
            f"comparisons with the next: {_listed(graph.class_of, items)}. Their distance has no "
            "finite estimate: set a ridge"
        )


def _surely_strong(beat: NDArray[np.bool_]) -> bool:
    """Item 0 reaches every item through wins and is reached from it: quick in dense graphs."""
    return _all_reached(beat) and _all_reached(beat.T)


def _all_reached(beat: NDArray[np.bool_], most_passes: int = 4) -> bool:
    reached = beat[0].copy()
    reached[0] = True
    for _ in range(most_passes):
        if reached.all():
            return True
        reached |= beat[reached].any(axis=0)
    return False


def _listed(label: NDArray[np.int64], items: Sequence[str] | None) -> str:
    """The smallest sets first, each with its first items."""
    n_sets = int(label.max()) + 1
    sets = []
    for number in np.argsort(np.bincount(label), kind="stable")[:MOST_NAMED]:
        members = np.flatnonzero(label == number)
        names = [items[i] if items is not None else str(i) for i in members[:MOST_NAMED]]
        more = f" and {len(members) - MOST_NAMED} more" if len(members) > MOST_NAMED else ""
        sets.append("{" + ", ".join(names) + more + "}")
    return ", ".join(sets) + (", ..." if n_sets > MOST_NAMED else "")


class ConvergenceError(RuntimeError):
    """A fit did not reach its tolerance; nothing that it computed can be used."""


SMALL = 200  # items up to which factorising is faster than iterating
FACTORISABLE = 4_000  # items up to which it is the way out where iterating is slow
PATIENCE = 100  # conjugate-gradient steps before that
MOST_CONJUGATE_STEPS = 5_000
SUFFICIENT_DECREASE = 1e-4
MOST_HALVINGS = 40
LIKELY_SHARES = (0.05, 0.95)  # shares of wins to start from
LARGEST_SCORE = 1e9  # no minimum of use lies beyond, and rounding would soon hide any gradient


@dataclass(frozen=True, slots=True)
class Solution:
    """Point where a fit ended.

    Attributes:
        theta: the minimiser, shape (n,), sum zero.
        gradient_norm: l2 norm of the computed gradient at `theta`.
        gradient_error: distance by which rounding can have moved it from the exact gradient, whose
            norm is therefore at most the sum of the two.
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
    # The transpose of a symmetric matrix is LAPACK's own order of it, so nothing is copied. SciPy's
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


MOST_STEPS = 500
MOST_SEARCHES = 200  # restarts of the search for an eigenvalue
EIGENVALUE_TOLERANCE = 1e-3  # relative
LARGEST_TRIED_SCORE = (
    1e3  # beyond it every F of a difference is 0 or 1: the objective falls without end
)


def minimise_nonconvex(objective: Objective, tolerance: float = 1e-9) -> Solution:
    """Go from equal scores to a point whose gradient has l2 norm `tolerance`, through any terrain.

    Args:
        objective: an objective whose weights may be of any sign.
        tolerance: see `solve.minimise`.

    Returns:
        A stationary point, in general a minimum: see `smallest_curvature`. An objective that is not
        convex may have others.

    Raises:
        ConvergenceError: no such point was reached, perhaps since the objective falls without end,
            as that of a probit link with weights below zero may.
    """
    near = _near(objective, tolerance)
    if not np.abs(near).max() < LARGEST_TRIED_SCORE:
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
    held: dict[bytes, Hessian] = {}  # Hessian of the last point: its products are used many times

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
        ConvergenceError: the smallest curvature of a sparse Hessian was not found.
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
