"""Scores of items for everybody from features of the items, learned from rankings.

The scoring function f(y) = beta . y of an item's features y is fitted by the mean over all pairs of
all rankings of log(1 + e^-(f(better) - f(worse))) plus a ridge. It is not corrected for what the
mechanism does. A private ranking keeps the order of each two items of the one true ranking behind
it more likely than not, and in these experiments all people have one true ranking, given their
features. Where true rankings vary, the best f for private rankings can be another one than the best
for the true ones, whatever [RDP] Lemma 6 says (`estimation.rankings.personalized` undoes the
mechanism). The model of [RDP] Section 6.4 is
alpha . x + beta . y: its alpha . x, of a person's features x, is the same for all items, so no
ranking says anything about it.

References:
    [RDP] Xu, Sun, Cheng. Ranking differential privacy. Sections 5 and 6, equation 6.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit

from hushrank.estimation.fit.solve import ConvergenceError
from hushrank.estimation.rankings.ranking_counts import pair_counts

GRADIENT_TOLERANCE = 1e-6
MOST_ITERATIONS = 1000
RIDGE = 1e-4  # without it, rankings that a linear function explains completely have no minimum

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]


def fit_linear(rankings: Codes, item_features: Floats) -> Floats:
    """Fit beta, shape (q,), to rankings, private or not.

    Args:
        rankings: shape (n, m), rows of item codes, best first.
        item_features: shape (items, q).

    Raises:
        ValueError: a code is out of range, a feature is not finite, or no ranking has two items.
        ConvergenceError: the solver did not reach its tolerance.
    """
    if not np.isfinite(item_features).all():
        raise ValueError("features must be finite")
    wins = pair_counts(
        rankings.ravel(), np.full(len(rankings), rankings.shape[1]), len(item_features)
    )
    above, below = np.nonzero(wins)
    if not len(above):
        raise ValueError("no ranking has two items")
    weight = wins[above, below] / wins.sum()
    apart = item_features[above] - item_features[below]

    def objective(beta: Floats) -> tuple[float, Floats]:
        difference = apart @ beta
        value = weight @ np.logaddexp(0, -difference) + RIDGE * beta @ beta
        return float(value), 2 * RIDGE * beta - (weight * expit(-difference)) @ apart

    found = minimize(
        objective,
        np.zeros(item_features.shape[1]),
        jac=True,
        method="L-BFGS-B",
        options={"gtol": GRADIENT_TOLERANCE, "ftol": 0.0, "maxiter": MOST_ITERATIONS},
    )
    if np.abs(np.asarray(found.jac)).max() > 100 * GRADIENT_TOLERANCE:
        raise ConvergenceError(f"the fit stopped early: {found.message}")
    return np.asarray(found.x)


def pairwise_accuracy(scores: Floats, preferences: Floats) -> float:
    """Share of the pairs of items that `scores` puts in the order of `preferences`.

    Pairs with equal preferences do not count; equal scores are wrong. Twice [RDP] equation 11,
    which counts every pair in both directions.

    Args:
        scores: shape (m,) or (n, m), larger is better.
        preferences: shape (n, m), larger is better.

    Raises:
        ValueError: no pair has different preferences.
    """
    first, second = np.triu_indices(preferences.shape[1], 1)
    wanted = np.sign(preferences[:, first] - preferences[:, second])
    found = np.sign(scores[..., first] - scores[..., second])
    if not wanted.any():
        raise ValueError("no pair of items has different preferences")
    return float((wanted == found)[wanted != 0].mean())
