"""Weights of rows become whole units, none of them above the largest."""

from __future__ import annotations

import pyarrow as pa
import pytest

from hushrank.transforms.common.encode import BAD_WEIGHT, weights_of


@pytest.mark.parametrize("kind", [pa.float64(), pa.string()])
def test_weights_are_rounded_and_clipped_and_what_is_no_weight_is_told(kind):
    values = [0.0, 0.4, 1.5, 1.5004, 2.0, 1e300, None, -0.5, float("nan"), float("inf")]
    column = pa.array(values).cast(kind)
    units = [0, 400, 1500, 1500, 1500, 1500, *[BAD_WEIGHT] * 4]
    assert weights_of(column, 1500).tolist() == units
