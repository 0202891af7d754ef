"""Personalised ranking with two towers: f(x, y) = U(x) . V(y), two perceptrons of three layers.

Needs the optional extra `towers`: JAX, which also runs without a graphics card. The
logistic loss of `experiments.rdp.rdp_trial` is minimised by L-BFGS and stopped early by
the loss on rankings held out.

References:
    [RDP] Xu, Sun, Cheng. Ranking differential privacy. Section 6.3.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax  # type: ignore[import-not-found, unused-ignore]
import jax.numpy as jnp  # type: ignore[import-not-found, unused-ignore]
import numpy as np
import scipy
from numpy.typing import NDArray

from hushrank.privacy.randomness import RandomBits

HIDDEN_UNITS = 10
N_LAYERS = 3
PATIENCE = 20  # iterations without a better loss on the held-out rankings
MOST_ITERATIONS = 500
BETTER = 1e-5  # a decrease of the held-out loss that counts

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class TwoTowers:
    """A fitted scoring function.

    Attributes:
        weights: of all layers of both towers, in one array.
        iterations: how many were made until the held-out loss stopped falling.
        held_out_loss: the smallest mean loss of a held-out pair, at these weights.
    """

    weights: Floats
    iterations: int
    held_out_loss: float

    def scores(self, user_features: Floats, item_features: Floats) -> Floats:
        """Scores of all items for all people, shape (n, items); larger is better."""
        return np.asarray(_scores(self.weights, user_features, item_features), np.float64)


def fit_two_towers(
    rankings: Codes,
    user_features: Floats,
    item_features: Floats,
    held_out: NDArray[np.bool_],
    bits: RandomBits,
) -> TwoTowers:
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
    start = _random_weights(user_features.shape[1], item_features.shape[1], bits)
    best = _Best(start, lambda weights: float(_mean_pair_loss(weights, *watched, item_features)))

    def objective(weights: Floats) -> tuple[float, Floats]:
        value, gradient = _gradient(weights, *training, item_features)
        return float(value), np.asarray(gradient, np.float64)

    scipy.optimize.minimize(
        objective,
        start,
        jac=True,
        method="L-BFGS-B",
        callback=best.watch,
        options={"maxiter": MOST_ITERATIONS},
    )
    return TwoTowers(best.weights, best.iterations, best.loss)


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


def _layers(n_user_features: int, n_item_features: int) -> list[tuple[int, int]]:
    """Inputs and outputs of each layer: of the users' tower, then of the items'."""
    hidden = [(HIDDEN_UNITS, HIDDEN_UNITS)] * (N_LAYERS - 1)
    return [(n_user_features, HIDDEN_UNITS), *hidden, (n_item_features, HIDDEN_UNITS), *hidden]


def _random_weights(n_user_features: int, n_item_features: int, bits: RandomBits) -> Floats:
    """Weights of variance 1 / inputs and no offsets, in one array: layer after layer."""
    parts = []
    for inputs, outputs in _layers(n_user_features, n_item_features):
        uniform = bits.words(inputs * outputs) / 2.0**63 - 1
        parts += [uniform * np.sqrt(3 / inputs), np.zeros(outputs)]
    return np.concatenate(parts)


def _all_scores(weights: Any, users: Any, items: Any) -> Any:
    layers, start = [], 0
    for inputs, outputs in _layers(users.shape[1], items.shape[1]):
        end = start + inputs * outputs
        layers.append((weights[start:end].reshape(inputs, outputs), weights[end : end + outputs]))
        start = end + outputs
    return _tower(layers[:N_LAYERS], users) @ _tower(layers[N_LAYERS:], items).T


def _tower(layers: list[tuple[Any, Any]], features: Any) -> Any:
    for weights, offsets in layers[:-1]:
        features = jax.nn.relu(features @ weights + offsets)
    weights, offsets = layers[-1]
    return features @ weights + offsets


def _pair_loss(weights: Any, rankings: Any, users: Any, items: Any) -> Any:
    ranked = jnp.take_along_axis(_all_scores(weights, users, items), rankings, axis=1)
    above, below = np.triu_indices(rankings.shape[1], 1)
    difference = ranked[:, above] - ranked[:, below]
    return jax.nn.softplus(-difference).mean()


# Compiled once for arrays of the same shapes.
_scores = jax.jit(_all_scores)
_mean_pair_loss = jax.jit(_pair_loss)
_gradient = jax.jit(jax.value_and_grad(_pair_loss))
