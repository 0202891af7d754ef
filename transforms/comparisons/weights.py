"""Weights of the rows that are kept of a person: pure, a bucket at a time.

The bound itself is derived in `privacy.row_weights`.
"""

from __future__ import annotations

import numpy as np

from hushrank.privacy.row_weights import FACTOR_BITS, RowFactors, Units
from hushrank.privacy.units import UNITS
from hushrank.transforms.common.encode import Comparisons
from hushrank.transforms.common.sorting import Mask

SQUARES = "squares"  # the array of the sum of squared weights, shape (1,)
UNITS_KEPT, SQUARES_KEPT = "units_kept", "squares_kept"  # of a tally
SQUARES = "squares"  # the array of the sum of squared weights, shape (1,)


def factored(weight: Units | None, starts: Mask, factors: RowFactors) -> Units:
    """Weights of rows of which all that an owner has count, shape (m,).

    Args:
        weight: of the rows themselves, in units; None: one comparison each.
        starts: where another owner's rows start.
        factors: by the number of an owner's rows.
    """
    first = np.flatnonzero(starts)
    sizes = np.diff(first, append=len(starts))
    return multiplied(weight, np.repeat(factors.of(sizes), sizes))


def multiplied(weight: Units | None, factors: Units) -> Units:
    """Weights times factors in units of 2^-`FACTOR_BITS`, rounded down."""
    units = UNITS if weight is None else weight
    return np.asarray(units * factors >> FACTOR_BITS)  # products stay far below 2^63


def tally_of_weights(rows: Comparisons) -> dict[str, int]:
    """What rows that are counted weigh; nothing where they have no weights."""
    if rows.weight is None:
        return {}
    units = int(rows.weight.sum())
    return {UNITS_KEPT: units, SQUARES_KEPT: int(np.square(rows.weight).sum())}
