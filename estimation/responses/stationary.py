"""Stationary distribution of a Markov chain from its jump rates, to full precision.

pi solves pi_i sum_j q_ij = sum_j pi_j q_ji. Power iteration stops early where the spectral gap is
small: at a gap of 1e-6 a step changes pi by a millionth of what is still missing. The elimination
of [GTH] removes one state after the other and adds to the rates between the others what used to
pass through it. It never subtracts, so nothing cancels: each entry of pi has a small *relative*
error whatever the gap ([OC]). LU with a normalising equation is as fast, but loses digits to the
conditioning, which the gap determines. States are eliminated in panels here, so that nearly all the
work is matrix products; these too only add.

References:
    [GTH] Grassmann, Taksar, Heyman. Regenerative analysis and steady state distributions for
        Markov chains. 1985.
    [OC] O'Cinneide. Entrywise perturbation theory and error analysis for Markov chains. 1993.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, diags_array
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import ArpackNoConvergence, eigs

from hushrank.estimation.fit.solve import ConvergenceError

PANEL = 64  # states eliminated between two matrix products
RESIDUAL = 1e-12  # largest l1 norm of pi M - pi that the sparse solve may leave ...
ACCURACY = 1e-8  # ... and that over the gap, which is about the error of pi
KRYLOV_VECTORS = 64
MOST_RESTARTS = 1000


class ReducibleChainError(ValueError):
    """The chain cannot get from every state to every other, so pi is not unique or has zeros.

    Attributes:
        component: shape (m,), number of the strongly connected component of each state.
    """

    def __init__(self, component: NDArray[np.int32]) -> None:
        self.component = component
        sizes = np.bincount(component)
        super().__init__(
            f"the chain falls apart into {len(sizes)} components (the largest has {sizes.max()} of "
            f"{len(component)} states): add regularisation on the edges of a connected graph"
        )


def stationary_distribution(rates: NDArray[np.float64]) -> NDArray[np.float64]:
    """Solve pi G = 0 directly ([GTH], in panels): O(m^3), dense.

    Args:
        rates: shape (m, m), q_ij >= 0 from i to j in any unit; the diagonal is not used.

    Returns:
        pi, shape (m,), positive, sums to 1; the residual of pi M = pi is rounding error.

    Raises:
        ValueError: a rate is negative or not finite.
        ReducibleChainError: the chain is not irreducible.
    """
    _check_rates(rates)
    jumps = np.array(rates, np.float64)
    np.fill_diagonal(jumps, 0)
    require_irreducible(csr_array(jumps))
    for stop in range(len(jumps), 1, -PANEL):
        start = max(1, stop - PANEL)
        _eliminate(jumps, start, stop)
    weights = np.ones(len(jumps))
    for state in range(1, len(jumps)):
        weights[state] = weights[:state] @ jumps[:state, state]
    return np.asarray(weights / weights.sum())


def sparse_stationary_distribution(rates: csr_array) -> NDArray[np.float64]:
    """The same from sparse rates, for chains too large to be dense: the leading eigenvector.

    Args:
        rates: sparse (m, m), q_ij >= 0 from i to j, m above 64; zero diagonal.

    Returns:
        pi, shape (m,), positive, sums to 1; the l1 norm of pi M - pi is at most 1e-12, and at most
        1e-8 of the spectral gap.

    Raises:
        ValueError: a rate is negative or not finite.
        ReducibleChainError: the chain is not irreducible.
        ConvergenceError: the iteration did not get there: a gap this small needs the dense solve.
    """
    _check_rates(rates.data)
    require_irreducible(rates)
    exits = np.asarray(rates.sum(axis=1)).ravel()
    chain = rates / exits.max() + diags_array(1 - exits / exits.max())
    start = np.full(len(exits), 1 / len(exits))  # fixed, so the result is reproducible
    try:
        values, vectors = eigs(
            chain.T.tocsr(), k=2, which="LR", v0=start, ncv=KRYLOV_VECTORS, maxiter=MOST_RESTARTS
        )
    except ArpackNoConvergence as error:
        raise ConvergenceError("the eigenvector iteration did not converge") from error
    first, second = np.argsort(-values.real)
    pi = np.real(vectors[:, first] / vectors[:, first].sum())
    residual = float(np.abs(pi @ chain - pi).sum())
    gap = 1 - float(values[second].real)
    if residual > RESIDUAL or residual > ACCURACY * gap or (pi <= 0).any():
        raise ConvergenceError(
            f"the eigenvector is not accurate: residual {residual:.1e} at spectral gap {gap:.1e}"
        )
    return np.asarray(pi)


def require_irreducible(rates: csr_array) -> None:
    """Check that every state can be reached from every other.

    Raises:
        ReducibleChainError: it cannot.
    """
    n_components, component = connected_components(rates, directed=True, connection="strong")
    if n_components > 1:
        raise ReducibleChainError(component)


def _check_rates(values: NDArray[np.float64]) -> None:
    if not (np.isfinite(values).all() and (values >= 0).all()):
        raise ValueError("rates must be finite and at least 0")


def _eliminate(jumps: NDArray[np.float64], start: int, stop: int) -> None:
    """Eliminate states stop - 1 .. start in place; column k then holds q_jk / sum_i q_ki, j < k.

    Inside the panel only its own rows and columns are kept up to date; the rest follows in one
    product, since a path from i to j through the panel enters by its column and leaves by its row.
    """
    for state in range(stop - 1, start - 1, -1):
        leaving = jumps[state, :state]
        jumps[:state, state] /= leaving.sum()
        entering = jumps[:state, state]
        jumps[start:state, :state] += np.outer(entering[start:], leaving)
        jumps[:start, start:state] += np.outer(entering[:start], leaving[start:])
    jumps[:start, :start] += jumps[:start, start:stop] @ jumps[start:stop, :start]
