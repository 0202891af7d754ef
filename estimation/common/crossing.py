"""Where the curve of each item crosses what was seen: ends of intervals, found by bisection.

Most curves are sums over opponents, and an end of one interval asks for some forty values of each:
`WinCurves` tabulates them once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from hushrank.estimation.common.links import Floats, Link

FARTHEST = 30.0  # a score further than this from all others has no effect that anybody could see
BISECTIONS = 36  # of an interval of length 60 and more: 1e-9 of it is left
FEW_ITEMS = 200  # up to here three bisections at once are faster: seven scores of each item
STEP = 0.1  # of the table of a curve; cubics between its rows are right to 1e-7 of the weights


def crossing(beyond: Callable[[Floats], NDArray[np.bool_]], scores: Floats) -> Floats:
    """The score of each item at which its curve crosses, the other items being at `scores`.

    Args:
        beyond: of scores for each item, shape (..., n): whether its curve has crossed there; False
            up to some score and True from there on.
        scores: shape (n,).

    Returns:
        Shape (n,); minus infinity where the curve has crossed everywhere, infinity where nowhere.
    """
    first, last = scores.min() - FARTHEST, scores.max() + FARTHEST
    low, step = np.full(len(scores), first), last - first
    nowhere = np.ones(len(scores), np.bool_)
    halvings = 3 if len(scores) <= FEW_ITEMS else 1
    parts = np.arange(1, 1 << halvings)[:, np.newaxis]
    for _ in range(BISECTIONS // halvings):
        step /= 1 << halvings
        before = np.count_nonzero(~beyond(low + step * parts), axis=0)
        low = low + step * before
        nowhere &= before == len(parts)
    found = np.where(low == first, -np.inf, low + step / 2)
    return np.where(nowhere, np.inf, found)


def scores_of_pulls(pulls: Floats, weights: Floats, scores: Floats, link: Link) -> Floats:
    """The score at which each item would have its pull, the other items being at `scores`.

    Args:
        pulls: sum over opponents of weight times F, shape (n,).
        weights: shape (n, n).
        scores: shape (n,).
        link: F.

    Returns:
        Shape (n,); infinite where no score has such a pull.
    """

    def strong(at: Floats) -> NDArray[np.bool_]:
        chance = link.cdf(np.subtract.outer(at, scores))
        return np.asarray((weights * chance).sum(axis=-1) > pulls)

    return crossing(strong, scores)


@dataclass(frozen=True, slots=True)
class WinCurves:
    """S_i(x) = sum over j of w[i, j] F(x - score_j), what item i of score x wins; tabulated.

    Attributes:
        first: x of the first row of the table.
        values, slopes: S_i and its derivative times `STEP`; shape (n, rows).
    """

    first: float
    values: Floats
    slopes: Floats

    @classmethod
    def of(cls, weights: Floats, scores: Floats, link: Link) -> Self:
        """Of the weights w, shape (n, n), wherever `crossing` looks for an end."""
        first, last = float(scores.min()) - FARTHEST, float(scores.max()) + FARTHEST
        x = first + STEP * np.arange(np.ceil((last - first) / STEP) + 1)
        away = np.subtract.outer(scores, x)
        np.negative(away, out=away)
        chance = link.cdf(away)
        return cls(first, weights @ chance, weights @ (STEP * link.slope(away) * chance))

    def at(self, x: Floats) -> Floats:
        """S_i(x_i), shape (..., n), by the cubics with the values and slopes of the table."""
        end = self.values.shape[1] - 1
        place = np.minimum(np.maximum((x - self.first) / STEP, 0), end)
        row = np.minimum(place.astype(np.int64), end - 1)
        t, items = place - row, np.arange(x.shape[-1])
        low, high = self.values[items, row], self.values[items, row + 1]
        rising, falling = self.slopes[items, row], self.slopes[items, row + 1]
        bend = (1 - t) * (rising - (high - low)) + t * (high - low - falling)
        return np.asarray(low + t * (high - low) + t * (1 - t) * bend)
