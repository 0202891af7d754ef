"""Nights of a stream that count, the workload, and the matrix that spreads nights.

A and C are lower triangular Toeplitz matrices of T rows, given by their first columns: `Workload`
and `Encoder`. `privacy.stream` says what they do and proves what they promise.

References:
    [FHU22] Fichtenberger, Henzinger, Upadhyay. Constant matters: fine-grained complexity of
        differentially private continual observation. 2022.
    [KL24] Kalinin, Lampert. Banded square root matrix factorization for differentially private
        model training. 2024.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
import scipy
from numpy.typing import NDArray

from hushrank.privacy.sensitivity import Sensitivity

FRACTION_BITS = 20  # coefficients are multiples of 2^-20
ONE = 1 << FRACTION_BITS
MAX_NIGHTS = 1 << 15  # 90 years; a night's number fits into two bytes of a person's state
ENDLESS = MAX_NIGHTS  # so many nights is a stream without an end in sight

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Nights of a stream, and the gap that keeps a person's bands apart.

    Attributes:
        nights: T, the length of the stream, between 1 and 2^15.
        gap: b, a distance in nights, >= 1; the terms say of what.

    Raises:
        ValueError: a field is out of range.
    """

    nights: int
    gap: int

    def __post_init__(self) -> None:
        if not 1 <= self.nights <= MAX_NIGHTS:
            raise ValueError(f"nights must be between 1 and {MAX_NIGHTS}, got {self.nights!r}")
        if self.gap < 1:
            raise ValueError(f"gap must be >= 1, got {self.gap!r}")

    def check_night(self, night: int) -> None:
        """Raise `ValueError` unless `night` is one of the stream's, counted from 0."""
        if not 0 <= night < self.nights:
            raise ValueError(f"night must be between 0 and {self.nights - 1}, got {night!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms(Span):
    """Terms that count a person's nights.

    Attributes:
        participations: k, the most nights on which one person's rows count, >= 1; any two of them
            are at least `gap` nights apart.

    Raises:
        ValueError: a field is out of range.
    """

    participations: int

    def __post_init__(self) -> None:
        Span.__post_init__(self)
        if self.participations < 1:
            raise ValueError(f"participations must be >= 1, got {self.participations!r}")

    @property
    def earliest(self) -> range:
        """The earliest nights on which one person can count, all that fit."""
        return range(0, self.nights, self.gap)[: self.participations]


@dataclass(frozen=True, slots=True, kw_only=True)
class MeteredTerms(Span):
    """Terms of which a person has an allowance for the whole stream: a number of rows or squares.

    Attributes:
        unit: name of what is counted.
        burst: B0, the part of the allowance that there is on the first night, between 1 and all; it
            grows from there evenly, to all on the last night. B0 = all: no such limit.
        refill: amount by which the allowance grows a night, up to all, for a stream that is to go
            on for years; None: evenly.

    Raises:
        ValueError: a field is out of range.
    """

    unit: ClassVar[str]
    burst: int
    refill: float | None = None

    def __post_init__(self) -> None:
        Span.__post_init__(self)
        if not 1 <= self.most <= MAX_NIGHTS:
            raise ValueError(f"{self.unit} must be between 1 and {MAX_NIGHTS}, got {self.most!r}")
        if not 1 <= self.burst <= self.most:
            raise ValueError(
                f"burst must be between 1 and {self.unit} ({self.most}), got {self.burst!r}"
            )
        if self.refill is not None and not 0 < self.refill <= self.most:
            raise ValueError(f"refill must be above 0 and at most {self.unit}, got {self.refill!r}")

    @property
    def most(self) -> int:
        """The whole allowance: the sum over all nights is never above it."""
        raise NotImplementedError

    def allowance(self, night: int) -> int:
        """Part of one person's allowance that may have been used up to and with `night`."""
        if self.refill is not None:  # exactly as it is written in decimals
            return min(self.most, self.burst + int(Fraction(str(self.refill)) * night))
        return self.burst + (self.most - self.burst) * night // max(1, self.nights - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowTerms(MeteredTerms):
    """Terms that count a person's rows, for counts of ordered pairs of items.

    A row counts if no row of the same person on the same two items counted on the `gap` - 1 nights
    before or earlier that night, and if at most `allowance(night)` of the person's rows have
    counted with it. Two nights of a person may follow each other.

    Attributes:
        rows: B, the most rows of one person that count, between 1 and 2^15.
    """

    unit = "rows"
    rows: int

    @property
    def most(self) -> int:
        """B."""
        return self.rows


@dataclass(frozen=True, slots=True, kw_only=True)
class SquareTerms(MeteredTerms):
    """Terms that count squares of a person's numbers of rows, for wins and losses of each item.

    A night on which l rows of a person count, all on distinct pairs, uses `charge(l)` of the
    allowance. Rows count if the last night on which rows of this person counted is at least `gap`
    nights before, and as many of them as `allowance(night)` leaves room for.

    Attributes:
        squares: Q, the most that one person uses up, between 1 and 2^15.
    """

    unit = "squares"
    squares: int

    @property
    def most(self) -> int:
        """Q."""
        return self.squares

    @staticmethod
    def charge(rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Part of the allowance that a night of so many rows uses: l^2 + l."""
        return rows * rows + rows

    def rows_within(self, left: NDArray[np.int64]) -> NDArray[np.int64]:
        """The most rows whose charge is at most what is left of the allowance."""
        most = math.isqrt(self.squares)
        return np.searchsorted(self.charge(np.arange(1, most + 1)), left, side="right")


StreamTerms = Terms | RowTerms | SquareTerms


@dataclass(frozen=True, slots=True)
class Workload:
    """Workload of each night: the sum of the cells of the last `window` nights.

    Attributes:
        window: W >= 1, 1 for the night alone; None: of all nights so far.

    Raises:
        ValueError: `window` is below 1.
    """

    window: int | None

    def __post_init__(self) -> None:
        if self.window is not None and self.window < 1:
            raise ValueError(f"window must be >= 1 night, got {self.window!r}")

    def column(self, nights: int) -> NDArray[np.int64]:
        """First column of A: ones for as many nights as one night's rows are shown."""
        ones = nights if self.window is None else min(self.window, nights)
        return (np.arange(nights) < ones).astype(np.int64)

    def most_bands(self, terms: Span) -> int:
        """The most bands that the square root may have: the guarantee needs bands <= gap, and from
        the window on its coefficients turn negative."""
        longest = terms.nights if self.window is None else min(self.window, terms.nights)
        return min(terms.gap, longest)


@dataclass(frozen=True, slots=True)
class Encoder:
    """First column of C, in multiples of 2^-20.

    Attributes:
        coefficients: integers >= 0, the first > 0; their norm, not that of what they were rounded
            from, is what sensitivities are computed with.

    Raises:
        ValueError: there are no coefficients, one is negative, or the first is 0.
    """

    coefficients: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.coefficients or self.coefficients[0] < 1:
            raise ValueError("an encoder needs a first coefficient above 0")
        if min(self.coefficients) < 0:
            raise ValueError(
                f"coefficient {int(np.argmin(self.coefficients))} of the encoder is negative: for a"
                " window, take at most as many bands as it has nights"
            )

    @property
    def bands(self) -> int:
        """Number of nights that a night's cells are in."""
        return len(self.coefficients)

    def norms(self, terms: StreamTerms) -> Sensitivity:
        """N1 and N of `privacy.stream`: how far the coefficients carry a person's nights or rows.

        A row is carried over as many nights as there are bands at most, so B rows carry B times the
        sum of the coefficients and of their squares; likewise Q squares.
        """
        squares = [coefficient**2 for coefficient in self.coefficients]
        if isinstance(terms, MeteredTerms):
            return Sensitivity(terms.most * sum(self.coefficients), terms.most * sum(squares))
        ends = [min(self.bands, terms.nights - night) for night in terms.earliest]
        return Sensitivity(
            sum(sum(self.coefficients[:end]) for end in ends),
            sum(sum(squares[:end]) for end in ends),
        )


def square_root(workload: Workload, bands: int) -> Encoder:
    """The power-series square root of A's first column ([FHU22]), cut to `bands` ([KL24]), rounded.

    c_0 = 1, c_i = (a_i - sum_{0 < j < i} c_j c_{i-j}) / 2, computed exactly: 4^i c_i are integers,
    even from i = 1 on.

    Raises:
        ValueError: `bands` is below 1, or so large that a coefficient is negative.
    """
    if bands < 1:
        raise ValueError(f"bands must be >= 1, got {bands!r}")
    a, c = workload.column(bands).tolist(), [1]
    for i in range(1, bands):
        c.append(((a[i] << 2 * i) - sum(c[j] * c[i - j] for j in range(1, i))) // 2)
    return Encoder(tuple((2 * c[i] * ONE + 4**i) // (2 * 4**i) for i in range(bands)))


def decoding(workload: Workload, encoder: Encoder, nights: int) -> Floats:
    """First column of A C^-1, shape (nights,): the power series of A's over that of C's."""
    column = workload.column(nights).astype(np.float64)
    kernel: Floats = scipy.signal.lfilter([1.0], encoder.coefficients, column)
    return kernel
