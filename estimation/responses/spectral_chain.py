"""Item difficulties of the Rasch model from the stationary distribution of a Markov chain.

The model: P(person l is right on item i) = 1 / (1 + exp(-(ability_l - difficulty_i))). For each
person the chance of "right on i, wrong on j" over that of "right on j, wrong on i" is
exp(difficulty_j - difficulty_i), whatever the ability. So the chain that moves from i to j at rate
Y_ij has, up to sampling error, pi_i proportional to exp(difficulty_i): it ends up on hard items.

pi solves pi_i sum_j q_ij = sum_j pi_j q_ji. Power iteration stops early where the spectral gap is
small: at a gap of 1e-6 a step changes pi by a millionth of what is still missing. The elimination
of [GTH] removes one state after the other and adds to the rates between the others what used to
pass through it. It never subtracts, so nothing cancels: each entry of pi has a small *relative*
error whatever the gap ([OC]). States are eliminated in panels here, so that nearly all the work is
matrix products; these too only add.

Intervals. In stationarity sum over j of (pi_j q_ji - pi_i q_ij) = 0 for each item, which is the
balance u of `pair_balance` with the weights w_ij = pi_i + pi_j. At the true difficulties every term
has mean zero, so the weights are as good as fixed, and the covariance of u follows as there. The
published difficulties are the paper's: negative counts are raised to 0 and lambda is added, which
draws difficulties together. The intervals are those of one Newton step from there on the counts as
they were released, without either, and hold the published difficulty too.

References:
    [NZ] Nguyen, Zhang. Optimal and private learning from human response data. 2023. Algorithms 1
        and 2; as there, difficulties sum to zero.
    [GTH] Grassmann, Taksar, Heyman. Regenerative analysis and steady state distributions for
        Markov chains. 1985.
    [OC] O'Cinneide. Entrywise perturbation theory and error analysis for Markov chains. 1993.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy
from numpy.typing import NDArray

from hushrank.estimation.common.links import Floats
from hushrank.estimation.responses.item_graph import ItemGraph
from hushrank.estimation.responses.pair_balance import (
    LONGEST_STEP,
    BalanceCovariance,
    BalancedFit,
    PairState,
    expected_totals,
)

PANEL = 64  # states eliminated between two matrix products


def fit_chain(
    y: Floats,
    graph: ItemGraph,
    variance: float,
    covariance: BalanceCovariance,
    limited: NDArray[np.bool_] | None = None,
    asked: Floats | None = None,
) -> BalancedFit:
    """Difficulties of [NZ] Algorithm 2, with the errors of a Newton step from there.

    Arguments are those of `pair_balance.fit_balance`.
    """
    mask = graph.mask().astype(np.float64)
    scores = chain_difficulties(jump_rates(y, graph))
    totals = expected_totals(y + y.T, mask, variance, scores, asked)
    chances = np.exp(scores - scores.max())
    state = PairState(y, mask * (chances[:, np.newaxis] + chances), totals, scores)
    stiffness = state.stiffness
    on = np.ones(len(y)) if limited is None else limited.astype(np.float64)
    centre = np.eye(len(y)) - on / on.sum()
    inverse = centre @ np.linalg.pinv(stiffness, hermitian=True)
    scores = centre @ scores
    unbiased = scores + np.clip(inverse @ state.balance(y), -LONGEST_STEP, LONGEST_STEP)
    noise, sampling = (inverse @ part @ inverse.T for part in covariance(state))
    return BalancedFit(
        scores=scores,
        unbiased=unbiased,
        noise=noise,
        sampling=sampling,
        kept=1.0,
        state=replace(state, scores=unbiased),
        stiffness=stiffness,
    )


def jump_rates(
    y: NDArray[np.float64], graph: ItemGraph, *, floor: float = 0.0, regularization: float = 1.0
) -> NDArray[np.float64]:
    """Rates max(y, floor) + regularization on the entries of the graph, 0 elsewhere; shape (m, m).

    Args:
        y: shape (m, m), people right on i and wrong on j, noisy or not.
        graph: the public graph.
        floor: value that counts below it are raised to; noise makes counts negative.
        regularization: lambda, added on every edge, both ways; in people. Where it is positive the
            chain is irreducible; it pulls difficulties together by lambda over the typical count.
    """
    rates = np.zeros(y.shape)
    rates[graph.entries] = np.maximum(y[graph.entries], floor) + regularization
    return rates


def chain_difficulties(rates: NDArray[np.float64]) -> NDArray[np.float64]:
    """Difficulties log pi less their mean: larger is harder."""
    logarithm = np.log(stationary_distribution(rates))
    return np.asarray(logarithm - logarithm.mean())


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
