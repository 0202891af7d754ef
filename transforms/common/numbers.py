"""Columns of numbers as people write them: integers, decimals, floats or text.

Pure. What a value is follows from its own bytes.
"""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hushrank.transforms.common.schema import by_distinct, is_text, to_numpy, to_text

Numbers = NDArray[np.float64]


def numbers_of(column: pa.Array) -> tuple[Numbers, NDArray[np.bool_]]:
    """Values as the nearest numbers, NaN if there is none, and a mask of nulls."""
    return by_distinct(column, _numbers, np.nan), to_numpy(pc.is_null(column))


def _numbers(values: pa.Array) -> Numbers:
    if not is_text(values.type):
        nearest = pc.cast(values, pa.float64(), safe=False)  # also for integers above 2^53
        return np.asarray(to_numpy(pc.fill_null(nearest, np.nan)), np.float64)
    try:
        return to_numpy(pc.fill_null(values.cast(pa.float64()), np.nan))
    except pa.ArrowInvalid:  # some text is no number: convert each distinct text
        coded = values.dictionary_encode()
        return by_distinct(coded, _numbers_one_by_one, np.nan)


def _numbers_one_by_one(texts: pa.Array) -> Numbers:
    return np.array([*map(_number, to_text(texts).to_pylist())], np.float64)


def _number(text: str | None) -> float:
    try:
        return math.nan if text is None else float(text)
    except ValueError:
        return math.nan
