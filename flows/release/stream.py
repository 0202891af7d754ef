"""What a release says of the stream that it is a night of."""

from __future__ import annotations

from datetime import date
from typing import Self

import numpy as np
from numpy.typing import NDArray

from hushrank.flows.guarantee.record import Record
from hushrank.privacy.stream import Stream


class StreamRecord(Record):
    """One night of a stream: its place, the terms of all nights, and what was drawn for it.

    With the nights before it, this is all that `privacy.stream` needs: what is shown on two nights
    has a covariance that follows from `window`, `coefficients` and `noise_variance`.

    Attributes:
        stream: id of the stream, in the ledger too.
        number: of the night, from 1.
        nights: how many the stream has.
        first: date of the first.
        participations: nights on which one person's rows count at most.
        gap: nights between two of them at least.
        window: nights that are shown together; null: all so far.
        coefficients: the encoder: how much of a night's counts is in the noisy numbers of that
            night and of each one after it, times 2^20.
        noise_variance: of each noisy number, times 2^40.
        shown_variance: of the noise in each count that this release shows, in units of `released`.
        noisy: what was drawn for this night, times 2^20, item by item or row by row; all that is
            shown is computed from these numbers of all nights so far.
    """

    stream: str
    number: int
    nights: int
    first: date
    participations: int
    gap: int
    window: int | None
    coefficients: tuple[int, ...]
    noise_variance: float
    shown_variance: float
    noisy: tuple[int, ...]

    @classmethod
    def of(
        cls, name: str, first: date, night: int, stream: Stream, noisy: NDArray[np.int64]
    ) -> Self:
        """The record of a night.

        Args:
            name: id of the stream.
            first: date of its first night.
            night: from 0.
            stream: terms, encoder and law.
            noisy: what was drawn for the night, any shape.
        """
        terms = stream.terms
        return cls(
            stream=name,
            number=night + 1,
            nights=terms.nights,
            first=first,
            participations=terms.participations,
            gap=terms.gap,
            window=stream.workload.window,
            coefficients=stream.encoder.coefficients,
            noise_variance=stream.law.variance,
            shown_variance=float(stream.variances[night]),
            noisy=tuple(noisy.ravel().tolist()),
        )

    @property
    def bands(self) -> int:
        """Nights over which a night's counts are spread."""
        return len(self.coefficients)
