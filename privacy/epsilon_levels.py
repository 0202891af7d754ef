"""Public levels to which the epsilons that people chose are rounded down. Pure.

Undoing a mechanism takes the sums of each epsilon apart, so a release of rankings or of test
answers knows few epsilons. The levels follow from the public bounds alone: both bounds, and steps
of equal ratio between them, rounded to four digits. With 12 steps between the bounds, two, three,
four, five or seven epsilons of equal ratio (such as 1, 2, 4 and 8) are levels themselves.

An epsilon is rounded down before anything is drawn. So whoever chose epsilon loses at most epsilon,
and what was drawn by is what is stated and undone. The levels do not depend on who chose what.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

STEPS = 12
DIGITS = 4

Levels = tuple[float, ...]


def epsilon_levels(low: float, high: float) -> Levels:
    """The levels between two public bounds, ascending, both bounds among them.

    Args:
        low, high: the bounds; one level where they are equal.

    Raises:
        ValueError: the bounds are not 0 < low <= high < infinity.
    """
    if not 0 < low <= high < math.inf:
        raise ValueError(f"need 0 < low <= high < inf, got {low!r} and {high!r}")
    logs = np.linspace(math.log(low), math.log(high), STEPS + 1)
    between = {float(f"{math.exp(each):.{DIGITS}g}") for each in logs[1:-1]}
    return tuple(sorted({low, high} | {each for each in between if low < each < high}))


def level_of(epsilons: NDArray[np.float64], levels: Levels) -> NDArray[np.int64]:
    """Position of the largest level that does not exceed each epsilon; -1 if there is none."""
    return np.searchsorted(np.array(levels), epsilons, side="right") - 1
