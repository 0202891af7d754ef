"""Two towers of perceptrons, f(x, y) = U(x) . V(y), and the gradient of a loss in their weights.

U takes the features x of a person, V those of an item, y; each has `LAYERS` layers of `HIDDEN`
units, all but the last cut off at 0. All weights and offsets are one array, U's before V's, layer
after layer, so that a solver can take them. The loss is the caller's: it says how the sum changes
with the scores, and `TowerShapes.gradient` carries that back to the weights.

References:
    [RDP] Xu, Sun, Cheng. Ranking differential privacy. Section 6.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hushrank.estimation.common.links import Floats
from hushrank.privacy.randomness import RandomBits

HIDDEN, LAYERS = 10, 3

Layer = tuple[Floats, Floats]  # weights of shape (inputs, outputs), and offsets
Shapes = list[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class TowerShapes:
    """Numbers of features that the two towers take.

    Attributes:
        user_features, item_features: columns of x and of y.
    """

    user_features: int
    item_features: int

    def start(self, for_users: RandomBits, for_items: RandomBits) -> Floats:
        """Weights and offsets of variance 1 / inputs, of each tower from bits of its own."""
        parts = []
        for bits, features in ((for_users, self.user_features), (for_items, self.item_features)):
            for inputs, outputs in _shapes(features):
                uniform = bits.words((inputs + 1) * outputs) / 2.0**63 - 1
                parts.append(uniform * np.sqrt(3 / inputs))
        return np.concatenate(parts)

    def scores(self, weights: Floats, users: Floats, items: Floats) -> Floats:
        """Scores of all items for all people, shape (people, items)."""
        u, v = self._outputs(weights, users, items)
        return np.asarray(u[-1] @ v[-1].T)

    def gradient(self, weights: Floats, users: Floats, items: Floats, slope: Floats) -> Floats:
        """Gradient in all weights of a loss whose slope in the scores is `slope`."""
        towers = self._towers(weights)
        u, v = self._outputs(weights, users, items)
        back = [_back(towers[0], u, slope @ v[-1]), _back(towers[1], v, slope.T @ u[-1])]
        return np.concatenate(back)

    def _outputs(
        self, weights: Floats, users: Floats, items: Floats
    ) -> tuple[list[Floats], list[Floats]]:
        u, v = self._towers(weights)
        return _outputs(u, users), _outputs(v, items)

    def _towers(self, weights: Floats) -> tuple[list[Layer], list[Layer]]:
        shapes = _shapes(self.user_features) + _shapes(self.item_features)
        found, at = [], 0
        for inputs, outputs in shapes:
            end = at + inputs * outputs
            found.append((weights[at:end].reshape(inputs, outputs), weights[end : end + outputs]))
            at = end + outputs
        return found[:LAYERS], found[LAYERS:]


def _shapes(inputs: int) -> Shapes:
    return [(inputs, HIDDEN), *[(HIDDEN, HIDDEN)] * (LAYERS - 1)]


def _outputs(layers: Sequence[Layer], features: Floats) -> list[Floats]:
    """Features, then what each layer gives."""
    found = [features]
    for place, (weights, offsets) in enumerate(layers):
        given = found[-1] @ weights + offsets
        found.append(given if place == len(layers) - 1 else np.maximum(given, 0))
    return found


def _back(layers: Sequence[Layer], outputs: list[Floats], slope: Floats) -> Floats:
    """Gradient in the weights of one tower, in their order."""
    found = []
    for (weights, _), given in zip(reversed(layers), reversed(outputs[:-1]), strict=True):
        found += [slope.sum(axis=0), (given.T @ slope).ravel()]
        slope = (slope @ weights.T) * (given > 0)
    return np.concatenate(found[::-1])
