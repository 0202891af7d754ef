"""Probability that an item is the best, or among the best k, given its estimate.

An estimate shows the true scores theta but for an error: x ~ N(theta, Sigma). Where scores lie
closer together than their errors, the largest estimate is too large. What the scores of all items
show of how far true scores lie apart corrects that (parametric empirical Bayes, [M83]):
theta ~ N(0, t^2 I), and t has a flat prior on a grid that is weighed by how well it explains x.
Along an eigenvector of Sigma with eigenvalue v, theta given t has mean x t^2 / (t^2 + v) and
variance v t^2 / (t^2 + v). Where true scores are spread like normal ones, what has chance p happens
p of the time; scores of another shape, such as one item far ahead, make it wrong by 0.1 or so.

Probabilities are shares of simulated theta. Their bits are no secret and no guarantee rests on
them: they follow from a fixed seed, so that one release has the same probabilities however often
they are computed.

References:
    [M83] Morris. Parametric empirical Bayes inference. 1983.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from hushrank.estimation.common.links import Floats
from hushrank.privacy.randomness import seeded_bits

SEED = 0
MOST_ITEMS = 2_000  # beyond, probabilities of single items are small and take long
DRAWS, FEWEST_DRAWS, CELLS = 10_000, 1_000, 4_000_000  # a standard error of 0.005, or 0.016
SPREADS = np.geomspace(0.003, 3, 80)  # t, in root mean squares of x


@dataclass(frozen=True, slots=True)
class ScoreErrors:
    """Scores without shrinkage to zero, and their errors.

    Attributes:
        centre: shape (n,).
        covariance: shape (n, n); or (n,), the variances of errors that are taken as independent.
    """

    centre: Floats
    covariance: Floats


@dataclass(frozen=True, slots=True)
class RankChances:
    """Probabilities of ranks; shape (n,), in catalogue order.

    Attributes:
        best: chance of rank 1.
        top: chance of rank k or better.
        k: the k of `top`.
    """

    best: Floats
    top: Floats
    k: int


def rank_probabilities(errors: ScoreErrors, k: int) -> RankChances | None:
    """Probabilities of being the best and of being among the best k; None of too many items.

    Raises:
        ValueError: k is not between 1 and the number of items.
    """
    n = len(errors.centre)
    if not 1 <= k <= n:
        raise ValueError(f"k must be between 1 and {n} (the items), got {k!r}")
    if n > MOST_ITEMS:
        return None
    scores = simulated_scores(errors, min(DRAWS, max(FEWEST_DRAWS, CELLS // n)))
    ahead = np.argpartition(-scores, k - 1, axis=1)[:, :k]
    best = np.bincount(scores.argmax(axis=1), minlength=n)
    return RankChances(best / len(scores), np.bincount(ahead.ravel(), minlength=n) / len(scores), k)


def simulated_scores(errors: ScoreErrors, draws: int) -> Floats:
    """Draws of the true scores given the estimate, shape (draws, n)."""
    centre = errors.centre - errors.centre.mean()
    variances, vectors = _axes(errors.covariance)
    along = centre if vectors is None else vectors.T @ centre
    size = float(np.sqrt(np.mean(np.square(centre))))
    if size == 0:  # nothing tells items apart: any spread does
        size = float(np.sqrt(variances.mean())) or 1.0
    spreads = np.square(size * SPREADS)
    log_weights = _log_likelihood(along, variances, spreads) + np.log(SPREADS)  # t is flat
    counts = _shares(log_weights, draws)
    normal = normal_draws(draws, len(centre))
    parts = []
    for spread, part in zip(spreads, np.split(normal, np.cumsum(counts)[:-1]), strict=True):
        kept = spread / (spread + variances)
        parts.append(_along(part, np.sqrt(kept * variances), vectors))
        parts[-1] += kept * along if vectors is None else vectors @ (kept * along)
    return np.concatenate(parts)


def _axes(covariance: Floats) -> tuple[Floats, Floats | None]:
    """Variances of independent parts of the errors, and their directions; scores sum to zero."""
    if covariance.ndim == 1:
        return covariance, None
    centred = covariance - covariance.mean(axis=0)
    centred = centred - centred.mean(axis=1, keepdims=True)
    values, vectors = np.linalg.eigh((centred + centred.T) / 2)
    level = np.argmax(np.abs(vectors.sum(axis=0)))  # the direction that moves all scores alike
    others = np.arange(len(values)) != level
    return np.maximum(values[others], 0), vectors[:, others]


def _log_likelihood(along: Floats, variances: Floats, spreads: Floats) -> Floats:
    """Log likelihood of each spread, shape as `spreads`."""
    total = np.add.outer(spreads, variances)
    return np.asarray(-0.5 * (np.log(total) + np.square(along) / total).sum(axis=1))


def _shares(log_weights: Floats, draws: int) -> NDArray[np.int64]:
    """Whole numbers in proportion to the weights, which add up to `draws`."""
    weights = np.exp(log_weights - log_weights.max())
    ends = np.rint(draws * np.cumsum(weights) / weights.sum()).astype(np.int64)
    return np.asarray(np.diff(ends, prepend=0))


def _along(normal: Floats, root: Floats, vectors: Floats | None) -> Floats:
    """Normal draws of these standard deviations along the directions.

    By the symmetric root, which does not depend on the signs that a solver gives the directions.
    """
    if vectors is None:
        return np.asarray(normal * root)
    return np.asarray(((normal @ vectors) * root) @ vectors.T)


def normal_draws(draws: int, n: int) -> Floats:
    """Standard normal draws, equal at each call, shape (draws, n), to average over.

    The draws hide nothing: what is computed with them is computed from what is public.
    """
    words = seeded_bits(SEED).words((draws, n))
    return np.asarray(ndtri(((words >> np.uint64(11)) + 0.5) / 2.0**53))
