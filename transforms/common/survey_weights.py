"""The weight of each row of a log, in integer units: what a public bound makes of a column."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hushrank.privacy.units import UNITS
from hushrank.transforms.common.numbers import numbers_of

BAD_WEIGHT = np.int64(-1)

Units = NDArray[np.int64]


def weights_of(column: pa.Array, most: int) -> Units:
    """Weights in units of 1 / `UNITS`, the nearest, and at most `most`; shape (m,).

    `BAD_WEIGHT` for what is missing, no number, below 0 or infinite. A weight follows from its own
    bytes alone.

    Args:
        column: numbers, or texts of numbers.
        most: largest weight, in units.
    """
    values, _ = numbers_of(column)
    good = np.isfinite(values) & (values >= 0)
    units = np.rint(np.minimum(np.where(good, values, 0.0), most / UNITS) * UNITS)
    return np.where(good, np.minimum(units.astype(np.int64), most), BAD_WEIGHT)
