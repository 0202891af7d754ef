"""Real numbers as integers of any size, in units of 2^-bits: what float64 has no digits for.

Arrays are of Python's integers (`dtype=object`), so nothing overflows and sums are exact in every
order. Each function here says by how many units at most it can be off.

References:
    [MCA10] Brent, Zimmermann. Modern computer arithmetic. 2010.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hushrank.estimation.common.links import LAPLACE, LOGISTIC, Floats, Link

Integers = NDArray[np.object_]  # of Python's integers

GUARD = 32  # bits carried beyond those asked for
HALVINGS = 16  # of the argument of exp, before its series


@dataclass(frozen=True, slots=True)
class FixedPoint:
    """Real numbers `units` 2^-bits, exactly.

    Attributes:
        units: shape (n,), Python's integers.
        bits: at least 0.
    """

    units: Integers
    bits: int

    @classmethod
    def of(cls, values: Floats, bits: int) -> FixedPoint:
        """Finite numbers, each rounded down to a unit."""
        ratios = (value.as_integer_ratio() for value in np.asarray(values, np.float64).tolist())
        return cls(integers((top << bits) // bottom for top, bottom in ratios), bits)

    def floats(self) -> Floats:
        """The nearest floats, shape (n,)."""
        return np.array([unit / (1 << self.bits) for unit in self.units], np.float64)

    def steps(self, step_bits: int, largest: int) -> NDArray[np.int64]:
        """The nearest multiples of 2^-step_bits, at most `largest` of them on either side of 0."""
        finer = max(self.bits, step_bits)
        half = (1 << (finer - step_bits)) >> 1
        whole = ((self.units << (finer - self.bits)) + half) >> (finer - step_bits)
        steps: NDArray[np.int64] = np.clip(whole, -largest, largest).astype(np.int64)
        return steps


def integers(values: Iterable[int]) -> Integers:
    """Python's integers as an array, shape (k,)."""
    listed = list(values)
    array = np.empty(len(listed), np.object_)
    array[:] = listed
    return array


def exp_of_minus(x: Integers, bits: int) -> Integers:
    """exp(-x) for x >= 0, both in units of 2^-bits; off by less than 1.1 units.

    exp(-x) is the 2^16-th power of exp(-x / 2^16), whose series ([MCA10] 4.3) is short. A squaring
    doubles what is off and adds one unit of 2^-(bits + 32): 2^16 times the series' own 60 units
    remain below 2^-10 of a unit.
    """
    if not len(x):
        return x
    work, most = bits + GUARD, bits << bits  # exp of minus `bits` is below one unit
    small = (np.minimum(x, most) << GUARD) >> HALVINGS
    one = 1 << work
    power = np.full(len(x), one, np.object_)
    for j in range(_terms(math.log2(bits) - HALVINGS, work), 0, -1):
        power = one - ((small * power) >> work) // j
    for _ in range(HALVINGS):
        power = (power * power) >> work
    return np.asarray(power >> GUARD)


def _terms(log_argument: float, bits: int) -> int:
    """How many terms the series of exp needs until the next is below 2^-bits."""
    j, log_term = 0, 0.0
    while log_term > -bits:
        j += 1
        log_term += log_argument - math.log2(j)
    return j


def slopes(d: Integers, link: Link, bits: int) -> tuple[Integers, Integers]:
    """(log F)' at d and at -d, all in units of 2^-bits; off by less than 4 units.

    Raises:
        ValueError: the link has no formula here.
    """
    one = 1 << bits
    e = exp_of_minus(np.abs(d), bits)
    if link is LOGISTIC:
        low = (e << bits) // (one + e)  # the smaller of the two; 1 / (1 + e) is the other
        high = one - low
    elif link is LAPLACE:
        low, high = (e << bits) // (2 * one - e), np.full(len(d), one, np.object_)
    else:
        raise ValueError(f"no exact slopes for link {link.name}")
    ahead = d > 0
    return np.where(ahead, low, high), np.where(ahead, high, low)
