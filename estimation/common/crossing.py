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
STEP = 0.1  # of the table of a curve; cubics between its rows are right to 1e-7 of the weights


def crossing(beyond: Callable[[Floats], NDArray[np.bool_]], scores: Floats) -> Floats:
    """The score of each item at which its curve crosses, the other items being at `scores`.

    Args:
        beyond: of a score for each item, shape (n,): whether its curve has crossed there; False up
            to some score and True from there on.
        scores: shape (n,).

    Returns:
        Shape (n,); minus infinity where the curve has crossed everywhere, infinity where nowhere.
    """
    first, last = scores.min() - FARTHEST, scores.max() + FARTHEST
    low, high = np.full(len(scores), first), np.full(len(scores), last)
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        crossed = beyond(middle)
        low, high = np.where(crossed, low, middle), np.where(crossed, middle, high)
    found = np.where(low == first, -np.inf, (low + high) / 2)
    return np.where(high == last, np.inf, found)


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
        return np.asarray((weights * chance).sum(axis=1) > pulls)

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
        """S_i(x_i), shape (n,), by the cubics that have the values and slopes of the table."""
        end = self.values.shape[1] - 1
        place = np.minimum(np.maximum((x - self.first) / STEP, 0), end)
        row = np.minimum(place.astype(np.int64), end - 1)
        t, items = place - row, np.arange(len(x))
        low, high = self.values[items, row], self.values[items, row + 1]
        rising, falling = self.slopes[items, row], self.slopes[items, row + 1]
        bend = (1 - t) * (rising - (high - low)) + t * (high - low - falling)
        return np.asarray(low + t * (high - low) + t * (1 - t) * bend)
