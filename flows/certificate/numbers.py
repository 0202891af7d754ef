"""Exact numbers as text, and the forms that texts of a certificate take."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Annotated

from pydantic import Field

from hushrank.privacy.decimals import decimal_value, smaller_reading

INFINITE = "inf"

# A fraction that is at least 0, in lowest terms, such as `7/10` or `2/1`; or `inf`.
Rational = Annotated[str, Field(pattern=r"^(inf|(0|[1-9][0-9]*)/[1-9][0-9]*)$")]
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]  # SHA-256, in hex
Size = Annotated[int, Field(ge=0)]
Count = Annotated[int, Field(ge=1)]


def text_of(value: Fraction | int) -> str:
    """The text of a fraction."""
    exact = Fraction(value)
    return f"{exact.numerator}/{exact.denominator}"


def exact(value: float) -> str:
    """The exact value of a float."""
    return INFINITE if math.isinf(value) else text_of(Fraction(value))


def as_shown(value: float) -> str:
    """The exact value of the decimals that a float is shown with: of 0.1 it is 1/10."""
    return INFINITE if math.isinf(value) else text_of(Fraction(decimal_value(value)))


def at_most(value: float) -> str:
    """The less of `exact` and `as_shown`: noise is calibrated to it, so both hold."""
    return INFINITE if math.isinf(value) else text_of(smaller_reading(value))
