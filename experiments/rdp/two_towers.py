"""Personalised ranking with two towers, fitted to whole rankings and stopped early.

The towers are those of `estimation.rankings.perceptrons`. The loss is the mean over all pairs of
all rankings of log(1 + e^-(f(better) - f(worse))), as `experiments.rdp.rdp_trial` has it for the
linear function, and not corrected for what the mechanism does. It is minimised by L-BFGS and
stopped early by the loss on rankings held out.

References:
    [RDP] Xu, Sun, Cheng. Ranking differential privacy. Section 6.3.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray
from scipy.special import expit

from hushrank.estimation.rankings.perceptrons import TowerShapes
from hushrank.privacy.randomness import RandomBits

PATIENCE = 20  # iterations without a better loss on the held-out rankings
MOST_ITERATIONS = 500
BETTER = 1e-5  # a decrease of the held-out loss that counts

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class FittedTowers:
    """A fitted scoring function.

    Attributes:
        shapes: of the two towers.
        weights: of all layers of both towers, in one array.
        iterations: how many were made until the held-out loss stopped falling.
        held_out_loss: the smallest mean loss of a held-out pair, at these weights.
    """

    shapes: TowerShapes
    weights: Floats
    iterations: int
    held_out_loss: float

    def scores(self, user_features: Floats, item_features: Floats) -> Floats:
        """Scores of all items for all people, shape (n, items); larger is better."""
        return self.shapes.scores(self.weights, user_features, item_features)


def fit_to_rankings(
    rankings: Codes,
    user_features: Floats,
    item_features: Floats,
    held_out: NDArray[np.bool_],
    bits: RandomBits,
) -> FittedTowers:
    """Fit two towers to full rankings, private or not.

    Args:
        rankings: shape (n, m), rows of item codes, best first.
        user_features: shape (n, p).
        item_features: shape (items, q).
        held_out: shape (n,), the rankings that only decide when to stop.
        bits: any, for the random weights at the start; nothing private depends on them.

    Raises:
        ValueError: the shapes do not fit, or no ranking is left on one side of `held_out`.
    """
    if not len(rankings) == len(user_features) == len(held_out):
        raise ValueError("there must be one row of user features and one mark for each ranking")
    if held_out.all() or not held_out.any():
        raise ValueError("some rankings must be held out, and some not")
    training, watched = ((rankings[side], user_features[side]) for side in (~held_out, held_out))
    shapes = TowerShapes(user_features.shape[1], item_features.shape[1])

    def held_out_loss(weights: Floats) -> float:
        return pair_loss(shapes.scores(weights, watched[1], item_features), watched[0])[0]

    def objective(weights: Floats) -> tuple[float, Floats]:
        value, slope = pair_loss(shapes.scores(weights, training[1], item_features), training[0])
        return value, shapes.gradient(weights, training[1], item_features, slope)

    start = shapes.start(bits, bits)
    best = _Best(start, held_out_loss)
    scipy.optimize.minimize(
        objective,
        start,
        jac=True,
        method="L-BFGS-B",
        callback=best.watch,
        options={"maxiter": MOST_ITERATIONS},
    )
    return FittedTowers(shapes, best.weights, best.iterations, best.loss)


def pair_loss(scores: Floats, rankings: Codes) -> tuple[float, Floats]:
    """Mean loss of a pair, and its slope in the scores, both of shape (n, items)."""
    ranked = np.take_along_axis(scores, rankings, axis=1)
    m = ranked.shape[1]
    above, below = np.triu_indices(m, 1)
    difference = ranked[:, above] - ranked[:, below]
    pulls = np.zeros((len(ranked), m, m))
    pulls[:, above, below] = expit(-difference) / difference.size
    slope = np.zeros_like(scores)
    np.put_along_axis(slope, rankings, pulls.sum(axis=1) - pulls.sum(axis=2), axis=1)
    return float(np.logaddexp(0, -difference).mean()), slope


class _Best:
    """The weights with the smallest held-out loss so far; ends the search when it stops falling."""

    def __init__(self, start: Floats, held_out_loss: Callable[[Floats], float]) -> None:
        self.weights, self.iterations = start, 0
        self.loss = held_out_loss(start)
        self._held_out_loss, self._last = held_out_loss, 0

    def watch(self, xk: Floats) -> None:
        self.iterations += 1
        current = self._held_out_loss(xk)
        if current < self.loss - BETTER:
            self.weights, self.loss, self._last = xk.copy(), current, self.iterations
        elif self.iterations - self._last >= PATIENCE:
            raise StopIteration
