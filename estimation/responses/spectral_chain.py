"""Item difficulties of the Rasch model from the stationary distribution of a Markov chain.

The model: P(person l is right on item i) = 1 / (1 + exp(-(ability_l - difficulty_i))). For each
person the chance of "right on i, wrong on j" over that of "right on j, wrong on i" is
exp(difficulty_j - difficulty_i), whatever the ability. So the chain that moves from i to j at rate
Y_ij has, up to sampling error, pi_i proportional to exp(difficulty_i): it ends up on hard items.

Intervals. In stationarity sum over j of (pi_j q_ji - pi_i q_ij) = 0 for each item, which is the
balance u of `pair_balance` with the weights w_ij = pi_i + pi_j. At the true difficulties every term
has mean zero, so the weights are as good as fixed, and the covariance of u follows as there. The
published difficulties are the paper's: negative counts are raised to 0 and lambda is added, which
draws difficulties together. The intervals are those of one Newton step from there on the counts as
they were released, without either, and hold the published difficulty too.

References:
    [NZ] Nguyen, Zhang. Optimal and private learning from human response data. 2023. Algorithms 1
        and 2; as there, difficulties sum to zero.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from hushrank.estimation.common.links import Floats
from hushrank.estimation.fit.stationary import stationary_distribution
from hushrank.estimation.responses.item_graph import ItemGraph
from hushrank.estimation.responses.pair_balance import (
    LONGEST_STEP,
    BalanceCovariance,
    BalancedFit,
    PairState,
    expected_totals,
)


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
