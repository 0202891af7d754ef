"""e^-x within the error its callers round for."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hushrank.privacy.exponential import LARGEST_EXPONENT, exp_of_minus


@given(st.floats(0.0, 60.0))
def test_the_relative_error_is_below_the_stated_one(x: float) -> None:
    with localcontext() as context:
        context.prec = 40
        exact = (-Decimal(min(x, LARGEST_EXPONENT))).exp()
        error = abs(Decimal(float(exp_of_minus(np.array([x]))[0])) / exact - 1)
    assert float(error) < 2**-41.8


def test_it_does_not_modify_its_argument() -> None:
    x = np.array([1.0, 50.0])
    assert math.isclose(exp_of_minus(x)[0], math.exp(-1))
    assert x.tolist() == [1.0, 50.0]
