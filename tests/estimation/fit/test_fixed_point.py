"""Integers in place of floats are off by no more than they say."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest

from hushrank.estimation.common.links import LAPLACE, LOGISTIC, PROBIT, Link
from hushrank.estimation.fit.exact_fit import FixedPoint, exp_of_minus, integers, slopes

NUMBERS = [0.0, 1e-30, 1e-9, 0.3, 1.0, math.pi, 25.0, 43.7, 119.9, 1e4, 1e9]


@pytest.mark.parametrize("bits", [64, 105, 240])
def test_exp_is_good_to_a_unit(bits: int) -> None:
    x = FixedPoint.of(np.array(NUMBERS), bits).units
    with mpmath.workdps(120):
        for found, unit in zip(exp_of_minus(x, bits), x, strict=True):
            exact = mpmath.exp(-mpmath.mpf(unit) / 2**bits) * 2**bits
            assert abs(found - exact) < 1.1
            assert abs(found + 2 - exact) > 0.9  # two units more would be seen


@pytest.mark.parametrize("link", [LOGISTIC, LAPLACE], ids=["logistic", "laplace"])
@pytest.mark.parametrize("bits", [64, 130])
def test_slopes_are_good_to_four_units(link: Link, bits: int) -> None:
    x = FixedPoint.of(np.array([*NUMBERS, *(-number for number in NUMBERS)]), bits).units
    ahead, behind = slopes(x, link, bits)
    with mpmath.workdps(120):
        for unit, both in zip(x, zip(ahead, behind, strict=True), strict=True):
            for sign, found in zip((1, -1), both, strict=True):
                d = sign * mpmath.mpf(unit) / 2**bits
                decay = mpmath.exp(-max(d, 0))
                exact = 1 / (1 + mpmath.exp(d)) if link is LOGISTIC else decay / (2 - decay)
                assert abs(found - exact * 2**bits) < 4


def test_no_slopes_of_a_link_that_is_never_private() -> None:
    with pytest.raises(ValueError, match="no exact slopes for link probit"):
        slopes(integers([0]), PROBIT, 64)


def test_numbers_come_back_and_steps_are_the_nearest() -> None:
    numbers = np.array([0.1, -2.5, 3e9, 2.0**-70, -7.0])
    fixed = FixedPoint.of(numbers, 130)
    np.testing.assert_array_equal(fixed.floats(), numbers)
    np.testing.assert_array_equal(fixed.steps(2, 1 << 40), [0, -10, 12 * 10**9, 0, -28])
    np.testing.assert_array_equal(fixed.steps(2, 100), [0, -10, 100, 0, -28])
    half_way = FixedPoint(integers([5, -5, 7, -7, 6]), 3)  # eighths, to halves
    np.testing.assert_array_equal(half_way.steps(1, 100), [1, -1, 2, -2, 2])
    np.testing.assert_array_equal(half_way.steps(4, 100), [10, -10, 14, -14, 12])
