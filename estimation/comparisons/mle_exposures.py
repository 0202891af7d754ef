"""Scores by perturbed maximum likelihood and exposures: ranked with no guess of the design.

The scores theta~ of `perturbed_mle` are where

    sum over j of A[i, j] (F(theta~_i - theta~_j) - F(theta_i - theta_j)) + ridge theta~_i

is an error, of sampling and of the noise w, A the comparisons of a pair times F' / (F (1 - F)) at
theta~ (see `mle_uncertainty`). With the design that exposures lead to in place of the comparisons,
that gives pulls (`estimation.comparisons.pulls`) without the ridge, which privacy needs and scores
do not. Where the design is wrong it is wrong on both sides: a pull at theta~ is not moved by it.
Exposures are released with noise or public; where it is public how often each pair is compared,
that is the design.
"""

from __future__ import annotations

import numpy as np

from hushrank.estimation.common.estimate import Estimate
from hushrank.estimation.common.links import Floats
from hushrank.estimation.common.pairwise import laplacian, score_differences
from hushrank.estimation.comparisons.exposures import Exposures
from hushrank.estimation.comparisons.perturbed_mle import PerturbedMle
from hushrank.estimation.comparisons.pulls import Pulls, rank_by_pulls


def rank_by_scores_and_exposures(
    scores: Floats, mechanism: PerturbedMle, exposures: Exposures
) -> Estimate:
    """Scores without the ridge's pull, with 95 % intervals, rank intervals and groups.

    Args:
        scores: as `mechanism` released them, shape (n,).
        mechanism: what released them.
        exposures: of the same comparisons, of a release of their own.

    Raises:
        ValueError: the shapes do not fit.
    """
    if scores.shape != (mechanism.n_items,) or exposures.values.shape != scores.shape:
        raise ValueError(
            f"{mechanism.n_items} items, but scores of shape {scores.shape} and exposures of"
            f" shape {exposures.values.shape}"
        )
    return rank_by_pulls(pulls_of(scores, mechanism, exposures.design(), exposures.noise_variance))


def rank_by_scores_and_pairs(
    scores: Floats, mechanism: PerturbedMle, comparisons: Floats
) -> Estimate:
    """As `rank_by_scores_and_exposures`, where it is public who meets whom.

    Args:
        scores: as `mechanism` released them, shape (n,).
        mechanism: what released them.
        comparisons: public, of each pair, shape (n, n): symmetric, zero on the diagonal.

    Raises:
        ValueError: the shapes do not fit.
    """
    n = mechanism.n_items
    if scores.shape != (n,) or comparisons.shape != (n, n):
        raise ValueError(
            f"{n} items, but scores of shape {scores.shape} and comparisons of shape"
            f" {comparisons.shape}"
        )
    return rank_by_pulls(pulls_of(scores, mechanism, comparisons, 0.0))


def pulls_of(
    scores: Floats, mechanism: PerturbedMle, comparisons: Floats, exposure_variance: float
) -> Pulls:
    """What the released scores say of the pulls.

    Args:
        scores, mechanism: as `rank_by_scores_and_exposures`.
        comparisons: of each pair, to expect, shape (n, n).
        exposure_variance: of the noise in each exposure.
    """
    link, ridge = mechanism.settings.link, mechanism.objective.ridge
    d = score_differences(scores)
    force = link.slope(d) + link.slope(-d)  # F' / (F (1 - F))
    weights, chance = comparisons * force, link.cdf(d)
    noise = np.full(len(scores), mechanism.noise.variance)
    if mechanism.cover is not None:
        stiffness = laplacian(weights * link.slope(d) * chance)
        noise = noise + mechanism.cover.noise.variance * (stiffness**2).sum(axis=1)
    seen = np.maximum(weights.sum(axis=1), np.finfo(float).tiny)
    return Pulls(
        values=(weights * (chance - 0.5)).sum(axis=1) + ridge * scores,
        design=weights,
        sampling_factor=force,
        link=link,
        noise_variance=noise,
        exposure_variance=exposure_variance,
        free_share=(weights * chance).sum(axis=1) / seen,
        kind=mechanism.params.noise,
        draws=1,
    )
