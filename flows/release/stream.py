"""Record of a stream, in the release of one of its nights."""

from __future__ import annotations

import math
from datetime import date, timedelta
from typing import Self

import numpy as np
from numpy.typing import NDArray

from hushrank.estimation.common.score_change import NightTotals
from hushrank.flows.statement.record import Record
from hushrank.privacy.stream import Stream, shown_covariance
from hushrank.privacy.stream_encoder import (
    Encoder,
    RowTerms,
    StreamTerms,
    Terms,
    Workload,
    decoding,
)


class MeteredRows(Record):
    """Terms of a stream that counts a person's rows.

    Attributes:
        rows: the most rows of one person that count in the whole stream.
        pair_gap: nights in which rows of a person on the same two items count once at most.
        burst: the most rows of one person that count on the first night; the allowance grows evenly
            from it to `rows` on the last night, or by `refill` a night.
        refill: rows by which the allowance grows a night, up to `rows`; null: evenly.
    """

    rows: int
    pair_gap: int
    burst: int
    refill: float | None = None


class MeteredSquares(Record):
    """Terms of a stream that counts squares of a person's numbers of rows.

    Attributes:
        squares: allowance of one person for the whole stream; a night on which l rows of the person
            count takes l^2 + l from it.
        gap: nights between two nights on which rows of a person count, at least.
        burst: the part of the allowance that there is on the first night; it grows evenly from it
            to `squares` on the last night, or by `refill` a night.
        refill: amount by which the allowance grows a night, up to `squares`; null: evenly.
    """

    squares: int
    gap: int
    burst: int
    refill: float | None = None


def metered(terms: StreamTerms) -> MeteredRows | MeteredSquares | None:
    """Record of the terms that count rows or squares; None: they count nights."""
    if isinstance(terms, Terms):
        return None
    if isinstance(terms, RowTerms):
        return MeteredRows(
            rows=terms.rows, pair_gap=terms.gap, burst=terms.burst, refill=terms.refill
        )
    return MeteredSquares(
        squares=terms.squares, gap=terms.gap, burst=terms.burst, refill=terms.refill
    )


class StreamRecord(Record):
    """One night of a stream: its place, the terms of all nights, and what was drawn for it.

    With the nights before it, this is all that `privacy.stream` needs: what is shown on two nights
    has a covariance that follows from `window`, `coefficients` and `noise_variance`.

    Attributes:
        stream: id of the stream, in the ledger too.
        number: number of the night, from 1.
        nights: number of nights of the stream.
        first: date of the first.
        participations: nights on which one person's rows count at most; null: rows or squares are
            counted.
        gap: nights between two of them at least; null: as above.
        participation: terms that count rows or squares; null: nights are counted.
        window: nights that are shown together; null: all so far.
        coefficients: the encoder: how much of a night's counts is in the noisy numbers of that
            night and of each one after it, times 2^20.
        noise_variance: variance of each noisy number, times 2^40.
        shown_variance: variance of the noise in each count that this release shows, in units of
            `released`; with groups in each count of one group, of which those of the whole are
            sums, or where groups overlap of the whole too.
        noisy: what was drawn for this night, times 2^20, group by group (of groups that overlap
            the whole is the last), item by item or row by row; all that is shown is computed from
            these numbers of all nights so far.
        answers: number of answers of each night that is shown, in all groups, each once, the oldest
            first, noise included; in units of `released`.
    """

    stream: str
    number: int
    nights: int
    first: date
    participations: int | None
    gap: int | None
    participation: MeteredRows | MeteredSquares | None = None
    window: int | None
    coefficients: tuple[int, ...]
    noise_variance: float
    shown_variance: float
    noisy: tuple[int, ...]
    answers: tuple[float, ...]

    @classmethod
    def of(
        cls,
        name: str,
        first: date,
        night: int,
        stream: Stream,
        noisy: NDArray[np.int64],
        answers: NDArray[np.float64],
    ) -> Self:
        """The record of a night.

        Args:
            name: id of the stream.
            first: date of its first night.
            night: number of the night, from 0.
            stream: terms, encoder and law.
            noisy: noisy numbers drawn for the night, any shape.
            answers: answers of each night that is shown, with noise.
        """
        terms = stream.terms
        nights = terms if isinstance(terms, Terms) else None
        return cls(
            stream=name,
            number=night + 1,
            nights=terms.nights,
            first=first,
            participations=None if nights is None else nights.participations,
            gap=None if nights is None else nights.gap,
            participation=metered(terms),
            window=stream.workload.window,
            coefficients=stream.encoder.coefficients,
            noise_variance=stream.law.variance,
            shown_variance=float(stream.variances[night]),
            noisy=tuple(noisy.ravel().tolist()),
            answers=tuple(answers.tolist()),
        )

    @property
    def bands(self) -> int:
        """Nights over which a night's counts are spread."""
        return len(self.coefficients)

    @property
    def night(self) -> date:
        """Date of this night."""
        return self.first + timedelta(days=self.number - 1)

    @property
    def first_shown(self) -> date:
        """Date of the oldest night that is shown."""
        return self.night - timedelta(days=len(self.answers) - 1)

    @property
    def last(self) -> date:
        """Date of the stream's last night."""
        return self.first + timedelta(days=self.nights - 1)

    @property
    def totals(self) -> NightTotals:
        """Number of answers of each night that is shown."""
        first = self.number - len(self.answers)
        return NightTotals(first=first, answers=np.array(self.answers))

    def noise_correlation(self, other: StreamRecord) -> float:
        """Correlation between the noise in one count in this night's release and in another's.

        Both follow from the same noisy numbers, so it is exact (`privacy.stream`).

        Raises:
            ValueError: the other night is of another stream.
        """
        if other.stream != self.stream:
            raise ValueError("the nights are of different streams")
        nights = max(self.number, other.number)
        encoder = Encoder(self.coefficients)
        kernel = decoding(Workload(self.window), encoder, nights)
        one, two = self.number - 1, other.number - 1
        own = shown_covariance(kernel, one, one) * shown_covariance(kernel, two, two)
        return shown_covariance(kernel, one, two) / math.sqrt(own)
