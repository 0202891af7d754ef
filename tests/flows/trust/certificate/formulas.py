"""Evaluates the formulas of a certificate as a stranger would: from the certificate alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from math import isqrt
from typing import Any

NAMES = {"min": min, "max": max, "sum": sum, "len": len, "range": range, "isqrt": isqrt}


def evaluated(lines: Iterable[str], inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Every name that the lines assign, and `inputs`."""
    known = dict(inputs)
    for line in lines:
        name, _, term = line.partition(" = ")
        known[name] = eval(term, {"__builtins__": {}, **NAMES, **known})
    return known


def number(text: str) -> Fraction:
    """A fraction of a certificate."""
    above, below = text.split("/")
    return Fraction(int(above), int(below))
