"""Budgets add up as the decimals that people typed."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import reduce
from operator import add

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushrank.privacy.accounting import (
    decimal_value,
    float_at_least,
    float_at_most,
    smaller_reading,
)

FINITE = st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.fractions(-1000, 1000) | st.floats(-1e6, 1e6).map(Fraction)


def test_ten_tenths_are_one() -> None:
    assert reduce(add, [0.1] * 10) != 1.0  # since Python 3.12 `sum` compensates
    assert sum([decimal_value(0.1)] * 10) == 1


@given(FINITE, FINITE)
def test_floats_compare_as_their_decimals(left: float, right: float) -> None:
    assert (left <= right) == (decimal_value(left) <= decimal_value(right))


@given(FINITE)
def test_the_smaller_reading_is_at_most_both(number: float) -> None:
    assert smaller_reading(number) in (Fraction(number), decimal_value(number))
    assert smaller_reading(number) <= min(Fraction(number), decimal_value(number))


@given(VALUES)
def test_rounding_is_directed_and_tight(value: Fraction) -> None:
    above, below = float_at_least(value), float_at_most(value)
    assert decimal_value(below) <= value <= decimal_value(above)
    assert decimal_value(math.nextafter(above, -math.inf)) < value
    assert decimal_value(math.nextafter(below, math.inf)) > value


@given(FINITE)
def test_a_typed_decimal_survives(number: float) -> None:
    assert float_at_least(decimal_value(number)) == number == float_at_most(decimal_value(number))


def test_nothing_left_is_zero_and_not_minus_zero() -> None:
    assert repr(float_at_most(Fraction(0))) == "0.0"


@pytest.mark.parametrize("number", [math.inf, -math.inf, math.nan])
def test_only_finite_numbers_have_decimals(number: float) -> None:
    with pytest.raises(ValueError, match="only a finite number has a decimal value, got"):
        decimal_value(number)
