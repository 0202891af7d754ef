"""Stationary distribution of a Markov chain, without a digit lost where its spectral gap is small.

pi solves pi_i sum_j q_ij = sum_j pi_j q_ji. Power iteration stops early where the spectral gap is
small: at a gap of 1e-6 a step changes pi by a millionth of what is still missing. The elimination
of [GTH] removes one state after the other and adds to the rates between the others what used to
pass through it. It never subtracts, so nothing cancels: each entry of pi has a small *relative*
error whatever the gap ([OC]). States are eliminated in panels here, so that nearly all the work is
matrix products; these too only add.

References:
    [GTH] Grassmann, Taksar, Heyman. Regenerative analysis and steady state distributions for
        Markov chains. 1985.
    [OC] O'Cinneide. Entrywise perturbation theory and error analysis for Markov chains. 1993.
"""

from __future__ import annotations

import numpy as np
import scipy
from numpy.typing import NDArray

PANEL = 64  # states eliminated between two matrix products


def stationary_distribution(rates: NDArray[np.float64]) -> NDArray[np.float64]:
    """Solve pi G = 0 directly ([GTH], in panels): O(m^3), dense.

    Args:
        rates: shape (m, m), q_ij >= 0 from i to j in any unit; the diagonal is not used.

    Returns:
        pi, shape (m,), positive, sums to 1; the residual of pi M = pi is rounding error.

    Raises:
        ValueError: a rate is negative or not finite, or some state cannot be reached from another.
    """
    if not (np.isfinite(rates).all() and (rates >= 0).all()):
        raise ValueError("rates must be finite and at least 0")
    jumps = np.array(rates, np.float64)
    np.fill_diagonal(jumps, 0)
    n_components, _ = scipy.sparse.csgraph.connected_components(
        jumps > 0, directed=True, connection="strong"
    )
    if n_components > 1:
        raise ValueError(
            f"the chain falls apart into {n_components} components: add regularisation on the "
            "edges of a connected graph"
        )
    for stop in range(len(jumps), 1, -PANEL):
        start = max(1, stop - PANEL)
        _eliminate(jumps, start, stop)
    weights = np.ones(len(jumps))
    for state in range(1, len(jumps)):
        weights[state] = weights[:state] @ jumps[:state, state]
    return np.asarray(weights / weights.sum())


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
