"""How the balance of each item varies by chance: privacy noise and the sampling of people.

With p_ij = 1 / (1 + exp(s_j - s_i)) the chance that item i is the wrong one of a pair of which one
answer was right, and symmetric weights w of the pairs, the balance of an item is

    u_i = sum over j of w_ij [Y_ji (1 - p_ij) - Y_ij p_ij],

zero in expectation at the true difficulties, whatever the abilities. Pair by pair this is the
balance pi_i Y_ij = pi_j Y_ji of the chain of [NZ], in other weights.

Noise: independent entries of equal variance, so Cov(u) is a graph Laplacian.

Sampling: people are independent of each other, but the entries of one person are not, and the
counts alone do not hold their covariance. The model supplies it. With pi_i = exp(s_i) let
D_ij = pi_i X_i (1 - X_j) - pi_j X_j (1 - X_i), which has mean zero for every ability, since
pi_i P(i right, j wrong) = pi_j P(j right, i wrong). Then for every ability

    E[D_ij^2]     = pi_i^2 P(i right, j wrong) + pi_j^2 P(j right, i wrong)
    E[D_ij D_ik]  = pi_i pi_j P(j right, k wrong)          (j, k, i different)

and D of four different items are uncorrelated given the ability. A person adds
-sum over j of w_ij / (pi_i + pi_j) D_ij to u_i. So the covariance needs pairs only:
F_ij = pi_i E[Y_ij], whatever the abilities are and however they are distributed. Besides the model
this takes: of the people who answered two items, a share t_k answered item k too, whichever the two
are (1 where everybody answers everything; see `one_right.third_answer_shares`).

References:
    [NZ] Nguyen, Zhang. Optimal and private learning from human response data. 2023.
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from hushrank.estimation.common.links import Floats
from hushrank.estimation.common.pairwise import laplacian, score_differences


def noise_covariance(variance: float, weights: Floats, chance: Floats) -> Floats:
    """Covariance of u from independent noise of `variance` in every entry of Y.

    Args:
        variance: of the noise in an entry.
        weights: w, shape (m, m), symmetric, 0 off the graph.
        chance: p, shape (m, m).
    """
    return laplacian(variance * np.square(weights) * (np.square(chance) + np.square(chance.T)))


def sampling_covariance(
    totals: Floats, scores: Floats, weights: Floats, third_share: Floats
) -> Floats:
    """Covariance of u from the sampling of people, under the Rasch model.

    Its off-diagonal (i, k) holds the pair itself, the triples that share k, those that share i, and
    those that share a third item.

    Args:
        totals: E[Y + its transpose], shape (m, m), at least 0, zero off the graph.
        scores: difficulties s, shape (m,).
        weights: w, shape (m, m), symmetric, 0 off the graph.
        third_share: t, shape (m,), in [0, 1].

    Returns:
        Positive semi-definite, shape (m, m): where the t do not fit together, the nearest one.
    """
    # In chances, which stay in [0, 1]: pi_k pi_i pi_l over the three sums is p_ik p_kl p_li.
    chance = expit(score_differences(scores))
    own, across = weights * chance, totals * chance.T
    pairs = np.square(weights) * totals * chance * chance.T
    shared = own * (across @ own.T) * third_share
    covariance = -pairs - shared - shared.T + across * ((own * third_share) @ own)
    of_item = pairs.sum(axis=1) + third_share * (own * (own.T @ across)).sum(axis=1)
    np.fill_diagonal(covariance, of_item)
    return _without_negative_variance(covariance)


def _without_negative_variance(covariance: Floats) -> Floats:
    """Nearest positive semi-definite matrix."""
    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
    return np.asarray((vectors * np.maximum(values, 0)) @ vectors.T)
