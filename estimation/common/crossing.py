"""Where the curve of each item crosses what was seen: ends of intervals, found by bisection.

Most curves are sums over opponents, and an end of one interval asks for some forty values of each:
`WinCurves` tabulates them once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from hushrank.estimation.common.links import Floats, Link
from hushrank.estimation.common.uncertainty import EndsAt, rank_tails

FARTHEST = 30.0  # a score further than this from all others has no effect that anybody could see
BISECTIONS = 36  # of an interval of length 60 and more: 1e-9 of it is left
FEW_ITEMS = 200  # up to here three bisections at once are faster: seven scores of each item
STEP = 0.1  # of the table of a curve; cubics between its rows are right to 1e-7 of the weights

EndsAtAll = Callable[[Sequence[float]], tuple[Floats, Floats]]  # at tail chances


def crossing(
    beyond: Callable[[Floats], NDArray[np.bool_]], scores: Floats, curves: tuple[int, ...] = ()
) -> Floats:
    """The score of each item at which its curve crosses, the other items being at `scores`.

    Args:
        beyond: of scores for each curve of each item, shape (..., *curves, n): whether it has
            crossed there; False up to some score and True from there on.
        scores: shape (n,).
        curves: how many each item has: together they take far less time than one after the other.

    Returns:
        Shape (*curves, n); minus infinity where the curve has crossed everywhere, infinity where
        nowhere.
    """
    first, last = scores.min() - FARTHEST, scores.max() + FARTHEST
    low, step = np.full((*curves, len(scores)), first), last - first
    nowhere = np.ones(low.shape, np.bool_)
    halvings = 3 if len(scores) <= FEW_ITEMS else 1
    parts = np.arange(1, 1 << halvings).reshape(-1, *(1 for _ in low.shape))
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


def ends_together(ends_at: EndsAtAll, n_items: int) -> EndsAt:
    """Ends at one tail chance, of which those that rank intervals ask for are found at once.

    Args:
        ends_at: of tail chances, the lower and upper ends, shape (tails, n).
        n_items: n.
    """
    tails = rank_tails(n_items)
    known = dict(zip(tails, zip(*ends_at(tails), strict=True), strict=True))

    def at(tail: float) -> tuple[Floats, Floats]:
        if tail in known:
            return known[tail]
        low, high = ends_at([tail])
        return low[0], high[0]

    return at


@dataclass(frozen=True, slots=True)
class WinCurves:
    """S_i(x) = sum over j of w[i, j] F(x - score_j), what item i of score x wins; tabulated.

    Attributes:
        first: x of the first row of the table.
        rows: of each item's table; a cubic goes from each to the next.
        cubics: shape (n * rows, 4), item by item: S_i at the row, how much it rises to the next,
            and how much more, and then less, its slope would let it. The last row has the first
            alone.
    """

    first: float
    rows: int
    cubics: Floats

    @classmethod
    def of(cls, weights: Floats, scores: Floats, link: Link) -> Self:
        """Of the weights w, shape (n, n), wherever `crossing` looks for an end."""
        first, last = float(scores.min()) - FARTHEST, float(scores.max()) + FARTHEST
        x = first + STEP * np.arange(np.ceil((last - first) / STEP) + 1)
        away = np.subtract.outer(scores, x)
        np.negative(away, out=away)
        chance = link.cdf(away)
        values, slopes = weights @ chance, weights @ (STEP * link.slope(away) * chance)
        del away, chance  # the tables are as large
        cubics = np.zeros((*values.shape, 4))
        cubics[..., 0], rise = values, cubics[:, :-1, 1]
        np.subtract(values[:, 1:], values[:, :-1], out=rise)
        np.subtract(slopes[:, :-1], rise, out=cubics[:, :-1, 2])
        np.subtract(rise, slopes[:, 1:], out=cubics[:, :-1, 3])
        return cls(first, len(x), cubics.reshape(-1, 4))

    def at(self, x: Floats) -> Floats:
        """S_i(x_i), shape (..., n), by the cubics with the values and slopes of the table."""
        end = self.rows - 1
        place = np.minimum(np.maximum((x - self.first) / STEP, 0), end)
        row = np.minimum(place.astype(np.int64), end - 1)
        t = place - row
        cubics = self.cubics.take(row + self.rows * np.arange(x.shape[-1]), axis=0)
        low, rise, more, less = (cubics[..., k] for k in range(4))
        bend = (1 - t) * more + t * less
        return np.asarray(low + t * rise + t * (1 - t) * bend)
