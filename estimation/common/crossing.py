"""Where the curve of each item crosses what was seen: ends of intervals, found by bisection."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from hushrank.estimation.common.links import Floats

FARTHEST = 30.0  # a score further than this from all others has no effect that anybody could see
BISECTIONS = 36  # of an interval of length 60 and more: 1e-9 of it is left


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
