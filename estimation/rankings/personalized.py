"""Personalised ranking: scores of items for a person from their features, learned from rankings.

A scoring function f(x, y) of a person's features x and an item's features y is fitted by the mean
over all pairs of all rankings of v(f(x, better) - f(x, worse)) plus a ridge, for a decreasing loss
v. Private rankings keep every person's order of each two items more likely than not, so the best f
for them is the best for the true rankings too ([RDP] Lemma 6); no correction is needed.

Here f is linear in the item's features: f(x, y) = (beta + B^T x) . y, or beta . y without
interactions. The latter is the model alpha . x + beta . y of [RDP] §6.4: its alpha . x is the same
for all items, so no ranking says anything about it.

References:
    [RDP] Xu, Sun, Cheng. Ranking differential privacy. Sections 5 and 6, equation 6.
    [D21] Dai, Shen, Wang, Qu. Scalable collaborative ranking for personalized prediction. 2021.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit

from hushrank.estimation.fit.solve import ConvergenceError
from hushrank.estimation.rankings.ranking_pairs import pair_counts

PSI_SMOOTHING = 0.1  # the corners of psi are rounded off: it is less than 0.07 from the original
GRADIENT_TOLERANCE = 1e-6
MOST_ITERATIONS = 1000
PADDING = -1  # in the place of an item, where a ranking is shorter than others

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]


class PairLoss(StrEnum):
    """Loss v(d) of a score difference d = f(better) - f(worse)."""

    LOGISTIC = "logistic"  # log(1 + e^-d)
    EXPONENTIAL = "exponential"  # e^-d
    PSI = "psi"  # min(1, max(0, 1 - d)), smoothed; not convex ([D21])


@dataclass(frozen=True, slots=True)
class LinearScoring:
    """f(x, y) = (weights + interactions^T x) . y.

    Attributes:
        weights: beta, shape (q,).
        interactions: B, shape (p, q); zeros where the model has none.
    """

    weights: Floats
    interactions: Floats

    def scores(self, user_features: Floats, item_features: Floats) -> Floats:
        """Scores of all items for all people, shape (n, items); larger is better."""
        own = self.weights + user_features @ self.interactions
        return np.asarray(own @ item_features.T)


def fit_linear(
    rankings: Codes,
    user_features: Floats,
    item_features: Floats,
    *,
    loss: PairLoss = PairLoss.LOGISTIC,
    interactions: bool = False,
    ridge: float = 1e-4,
) -> LinearScoring:
    """Fit a linear scoring function to rankings, private or not.

    Args:
        rankings: shape (n, m), rows of item codes, best first; `PADDING` after the last item of a
            short one.
        user_features: shape (n, p).
        item_features: shape (items, q).
        loss: v. The psi loss starts from the logistic fit and finds a local minimum near it.
        interactions: fit B; otherwise everybody gets the same order.
        ridge: weight of the squared norm of beta and B, > 0: without it, rankings that a linear
            function explains completely have no minimum.

    Raises:
        ValueError: shapes do not fit, a feature is not finite, no ranking has two items, or
            `ridge` is not positive.
        ConvergenceError: the solver did not reach its tolerance.
    """
    if not ridge > 0:
        raise ValueError(f"ridge must be > 0, got {ridge!r}")
    if rankings.ndim != 2 or len(user_features) != len(rankings):
        raise ValueError("there must be one row of user features for each ranking")
    if (rankings < PADDING).any() or (rankings >= len(item_features)).any():
        raise ValueError(f"item codes must be 0 to {len(item_features) - 1}")
    counts = np.ones(len(rankings))
    if interactions:
        people = np.hstack([np.ones((len(rankings), 1)), user_features])
    else:  # everybody has the same item weights, so the counts of the pairs say it all
        rankings, counts = _distinct_pairs(rankings, len(item_features))
        people = np.ones((len(rankings), 1))
    problem = _Problem(rankings, counts, people, item_features, ridge)
    start = np.zeros((people.shape[1], item_features.shape[1]))
    if loss is PairLoss.PSI:
        start = problem.minimum(PairLoss.LOGISTIC, start)
    solution = problem.minimum(loss, start)
    cross = solution[1:] if interactions else np.zeros((user_features.shape[1], solution.shape[1]))
    return LinearScoring(solution[0], cross)


def pair_loss(loss: PairLoss, difference: Floats) -> tuple[Floats, Floats]:
    """v(d) and its derivative."""
    if loss is PairLoss.LOGISTIC:
        return np.logaddexp(0, -difference), -expit(-difference)
    if loss is PairLoss.EXPONENTIAL:
        value = np.exp(-difference)
        return value, -value
    upper, lower = (1 - difference) / PSI_SMOOTHING, -difference / PSI_SMOOTHING
    value = PSI_SMOOTHING * (np.logaddexp(0, upper) - np.logaddexp(0, lower))
    return value, expit(lower) - expit(upper)


def pairwise_accuracy(scores: Floats, preferences: Floats) -> float:
    """Share of the pairs of items that `scores` puts in the order of `preferences`.

    Pairs with equal preferences do not count; equal scores are wrong. Twice [RDP] equation 11,
    which counts every pair in both directions.

    Args:
        scores, preferences: shape (n, m), larger is better.

    Raises:
        ValueError: no pair has different preferences.
    """
    first, second = np.triu_indices(preferences.shape[1], 1)
    wanted = np.sign(preferences[:, first] - preferences[:, second])
    found = np.sign(scores[:, first] - scores[:, second])
    if not wanted.any():
        raise ValueError("no pair of items has different preferences")
    return float((wanted == found)[wanted != 0].mean())


def _distinct_pairs(rankings: Codes, n_items: int) -> tuple[Codes, Floats]:
    """Pairs (above, below) that occur, and in how many rankings."""
    present = rankings != PADDING
    wins = pair_counts(rankings[present], present.sum(axis=1), n_items)
    pairs = np.argwhere(wins)
    return pairs, wins[tuple(pairs.T)].astype(np.float64)


class _Problem:
    """Objective over theta, shape (columns of `people`, q); the item weights are people theta."""

    def __init__(
        self,
        rankings: Codes,
        counts: Floats,
        people: Floats,
        item_features: Floats,
        ridge: float,
    ) -> None:
        present = rankings != PADDING
        if not (np.isfinite(people).all() and np.isfinite(item_features).all()):
            raise ValueError("features must be finite")
        self._people, self._ridge = people, ridge
        self._ranked = item_features[rankings]  # (n, m, q), best first
        places = np.eye(rankings.shape[1])
        above, below = np.triu_indices(rankings.shape[1], 1)
        self._difference = places[:, above] - places[:, below]  # (m, pairs)
        counted = (present[:, above] & present[:, below]) * counts[:, None]
        if not counted.any():
            raise ValueError("no ranking has two items")
        self._weight = counted / counted.sum()

    def minimum(self, loss: PairLoss, start: Floats) -> Floats:
        """The minimiser that L-BFGS finds from `start`."""

        def objective(theta: Floats) -> tuple[float, Floats]:
            return self._value(loss, theta.reshape(start.shape))

        found = minimize(
            objective,
            start.ravel(),
            jac=True,
            method="L-BFGS-B",
            options={"gtol": GRADIENT_TOLERANCE, "ftol": 0.0, "maxiter": MOST_ITERATIONS},
        )
        if np.abs(np.asarray(found.jac)).max() > 100 * GRADIENT_TOLERANCE:
            raise ConvergenceError(f"the {loss} fit stopped early: {found.message}")
        return np.asarray(found.x).reshape(start.shape)

    def _value(self, loss: PairLoss, theta: Floats) -> tuple[float, Floats]:
        own = self._people @ theta
        scores = np.einsum("umq,uq->um", self._ranked, own)
        value, slope = pair_loss(loss, scores @ self._difference)
        by_place = (slope * self._weight) @ self._difference.T
        gradient = self._people.T @ np.einsum("um,umq->uq", by_place, self._ranked)
        total = float((value * self._weight).sum() + self._ridge * np.square(theta).sum())
        return total, (gradient + 2 * self._ridge * theta).ravel()
