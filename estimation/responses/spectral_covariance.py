"""How far spectral difficulties may be off: privacy noise, sampling of people, clipping.

First order in the rates (delta method). With G the generator of the chain (rates off the diagonal,
rows that sum to zero), pi G = 0 gives d pi = pi dG H, where H = (1 pi - G)^-1 - 1 pi is the chain's
deviation matrix (minus the group inverse of G, [M75]). In terms of difficulties, entry (i, j)
of the rates acts as

    d difficulty = pi_i (r_j - r_i) dq_ij,   r_i = row i of H, its entry k divided by pi_k, centred.

Noise: independent entries of equal variance, so the covariance is a weighted graph Laplacian
between two r.

Sampling: people are independent of each other, but the entries of one person are not, and the
counts alone do not hold their covariance. The model supplies it. Let
D_ij = pi_i X_i (1 - X_j) - pi_j X_j (1 - X_i), which has mean zero for every ability, since
pi_i P(i right, j wrong) = pi_j P(j right, i wrong). Then for every ability

    E[D_ij^2]     = pi_i^2 P(i right, j wrong) + pi_j^2 P(j right, i wrong)
    E[D_ij D_ik]  = pi_i pi_j P(j right, k wrong)          (j, k, i different)

and D of four different items are uncorrelated given the ability. So the covariance needs pairs
only: F_jk = pi_j Y_jk, known from the counts, whatever the abilities are and however they are
distributed. Besides the model this takes: of the people who answered two items, a share t answered
a given third one, the same for all three (1 where everybody answers everything, (K - 2) / (m - 2)
where each answers K at random).

References:
    [M75] Meyer. The role of the group generalized inverse in the theory of finite Markov chains.
        1975.
    [NZ] Nguyen, Zhang. Optimal and private learning from human response data. 2023.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hushrank.estimation.responses.item_graph import ItemGraph

Matrix = NDArray[np.float64]


def responses(rates: Matrix, pi: NDArray[np.float64]) -> Matrix:
    """r of the module's text, shape (m, m): row i is what a unit of flow into state i does.

    Args:
        rates: shape (m, m), of an irreducible chain; zero diagonal.
        pi: its stationary distribution.
    """
    exits = rates.sum(axis=1)
    unit = float(exits.mean())  # of time: keeps the two summands of the inverse comparable
    generator = rates - np.diag(exits)
    one_pi = np.broadcast_to(pi, rates.shape)
    deviation = np.linalg.inv(unit * one_pi - generator) - one_pi / unit
    relative = deviation / pi
    return np.asarray(relative - relative.mean(axis=1, keepdims=True))


def effect_of(change: Matrix, pi: NDArray[np.float64], response: Matrix) -> NDArray[np.float64]:
    """First-order change of the difficulties, shape (m,), under a `change` of the rates."""
    flow = pi[:, np.newaxis] * change
    return np.asarray((flow.sum(axis=0) - flow.sum(axis=1)) @ response)


def noise_covariance(
    variance: float, graph: ItemGraph, pi: NDArray[np.float64], response: Matrix
) -> Matrix:
    """Covariance of the difficulties from independent noise of `variance` in every entry."""
    weights = variance * graph.mask() * np.square(pi)[:, np.newaxis]
    weights += weights.T
    laplacian = np.diag(weights.sum(axis=1)) - weights
    return np.asarray(response.T @ laplacian @ response)


def balanced_flow(y: Matrix, graph: ItemGraph, pi: NDArray[np.float64]) -> Matrix:
    """F_ij = pi_i Y_ij for all pairs, symmetric: the mean of the two directions, zero diagonal.

    Off the graph nothing was counted. There F is continued by a quadratic in the two difficulties,
    fitted to the edges: in the model F depends on them alone where every pair of items was asked
    equally often.

    Args:
        y: shape (m, m), released counts, noisy and of any sign; zero off the graph.
        graph: the public graph.
        pi: the stationary distribution.
    """
    flow = pi[:, np.newaxis] * y
    flow = (flow + flow.T) / 2
    if graph.complete:
        return np.asarray(flow)
    rows, columns = graph.edges.T
    scores = np.log(pi) - np.log(pi).mean()
    first, second = np.triu_indices(len(pi), 1)
    fitted = np.linalg.lstsq(_basis(scores, rows, columns), flow[rows, columns])[0]
    continued = np.zeros_like(flow)
    continued[first, second] = np.maximum(_basis(scores, first, second) @ fitted, 0)
    continued += continued.T
    return np.where(graph.mask(), flow, continued)


def sampling_covariance(
    flow: Matrix,
    graph: ItemGraph,
    pi: NDArray[np.float64],
    response: Matrix,
    third_answer_share: float,
) -> Matrix:
    """Covariance of the difficulties from the sampling of people, under the Rasch model.

    With u_i = sum over j of D_ij, what one person adds to the difficulties is -sum_i u_i r_i, so
    this is the covariance of u between two r. Its off-diagonal (i, k) holds the pair itself, the
    triples that share k, those that share i, and those that share a third item.

    Args:
        flow: F for all pairs, as `balanced_flow`.
        graph: the public graph; only its edges enter the chain.
        pi: the stationary distribution.
        response: as `responses`.
        third_answer_share: t of the module's text, in [0, 1].
    """
    edge = graph.mask().astype(np.float64)
    through = third_answer_share * (flow @ edge)  # entry (i, k): sum over neighbours j of k of F_ij
    shared = edge * through * pi
    pairs = edge * (pi[:, np.newaxis] + pi) * flow
    covariance = -pairs - shared - shared.T + third_answer_share * flow * ((edge * pi) @ edge)
    np.fill_diagonal(covariance, pairs.sum(axis=1) + pi * (edge * through.T).sum(axis=1))
    return _without_negative_variance(response.T @ covariance @ response)


def _without_negative_variance(covariance: Matrix) -> Matrix:
    """Nearest positive semi-definite matrix: noise or a sparse graph can leave F inconsistent."""
    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
    return np.asarray((vectors * np.maximum(values, 0)) @ vectors.T)


def _basis(
    scores: NDArray[np.float64], first: NDArray[np.intp], second: NDArray[np.intp]
) -> Matrix:
    total, difference = scores[first] + scores[second], scores[first] - scores[second]
    return np.column_stack([np.ones_like(total), total, total**2, difference**2])
