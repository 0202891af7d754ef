"""e^-x from additions and multiplications only, which IEEE 754 fixes to the last bit.

A mechanism whose probabilities come from here has the same ones on every machine, and can round
them to the safe side by a known amount.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

LARGEST_EXPONENT = 45.0  # e^-x is taken at this where x is larger: below 2^-64 all the same
HALVINGS = 10  # e^-x is the Taylor polynomial at x / 2^10, squared 10 times
TAYLOR = (1 / 40320, 1 / 5040, 1 / 720, 1 / 120, 1 / 24, 1 / 6, 1 / 2, 1.0, 1.0)


def exp_of_minus(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """exp(-min(x, 45)), with a relative error below 2^-41.8.

    The error: 2.1 * 2^10 half-ulps from the squarings, and 2^-49 from the polynomial.

    Args:
        x: any shape, at least 0.
    """
    scaled = np.minimum(x, LARGEST_EXPONENT) * -(0.5**HALVINGS)
    exponential = np.full_like(scaled, TAYLOR[0])
    for coefficient in TAYLOR[1:]:
        exponential *= scaled
        exponential += coefficient
    for _ in range(HALVINGS):
        exponential *= exponential
    return exponential
