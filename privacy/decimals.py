"""Floats read as the decimal numbers that people typed.

A budget is written in decimals: ten releases at epsilon 0.1 use up a total of 1.0, although the ten
floats add up to a little more than 1. So budgets are summed exactly, as the rational numbers that
the shortest decimals of the floats state (0.1 is one tenth). To calibrate noise, the smaller of the
two readings of a float is used (`smaller_reading`), so a release never costs more than its decimal
says. Floats compare as their decimals do, because both readings are increasing.
"""

from __future__ import annotations

import math
from fractions import Fraction


def decimal_value(number: float) -> Fraction:
    """The rational number that the shortest decimal of `number` states.

    Raises:
        ValueError: `number` is not finite.
    """
    if not math.isfinite(number):
        raise ValueError(f"only a finite number has a decimal value, got {number!r}")
    return Fraction(repr(float(number)))


def smaller_reading(number: float) -> Fraction:
    """The smaller of the float's binary value and the value of its shortest decimal.

    Raises:
        ValueError: `number` is not finite.
    """
    return min(decimal_value(number), Fraction(number))


def float_at_least(value: Fraction) -> float:
    """The smallest float whose decimal value is at least `value`."""
    nearest = float(value)
    return nearest if decimal_value(nearest) >= value else math.nextafter(nearest, math.inf)


def float_at_most(value: Fraction) -> float:
    """The largest float whose decimal value is at most `value`."""
    return 0.0 - float_at_least(-value)  # gives 0.0 for zero, not -0.0
