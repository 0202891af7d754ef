"""What a night of a stream shows: counts, the law of their error, how many answers they hold.

All of it is post-processing of the released nights y_1 ... y_t (`privacy.stream`). Row t of
A C^-1 y is rounded to whole counts. Its error is a sum of independent draws, one a night, with
weights: its variance is exact, and a twelfth is added for the rounding. Gaussian draws make it
normal. Laplace noise has one band, so all weights are 1, and there are as many draws as nights
shown.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter

from hushrank.estimation.common.shared_nights import NightTotals
from hushrank.privacy.noise import NoiseLaw
from hushrank.privacy.stream import Stream
from hushrank.privacy.units import NoiseKind

ROUNDING_VARIANCE = 1 / 12


@dataclass(frozen=True, slots=True)
class ShownCounts:
    """What a night shows.

    Attributes:
        counts: int64, in the shape of a night; the diagonal of a matrix holds nothing.
        law: of the error of one count: normal, or Laplace where a night shows itself alone; errors
            of two counts are independent.
        draws: how many independent draws of Laplace noise the error is a sum of; 1 of other noise.
        totals: how many answers each night of the window has.
    """

    counts: NDArray[np.int64]
    law: NoiseLaw
    draws: int
    totals: NightTotals


def shown_counts(stream: Stream, night: int, released: Iterable[NDArray[np.int64]]) -> ShownCounts:
    """What is shown on `night`, from 0.

    Args:
        stream: its terms and law.
        night: the number of the night.
        released: y of the nights from 0 to `night`, in order; one of them is held at a time.

    Raises:
        ValueError: the night is not one of the stream, or not all nights up to it are given.
    """
    stream.terms.check_night(night)
    kernel, sums = stream.kernel, list[float]()
    shown: NDArray[np.float64] = np.zeros(())
    for number, noisy in enumerate(released):
        cells = noisy.astype(np.float64)
        if cells.ndim == 2:
            np.fill_diagonal(cells, 0.0)
        if number <= night:
            shown = shown + kernel[night - number] * cells
        sums.append(float(cells.sum()))
    if len(sums) != night + 1:
        raise ValueError(f"night {night} is shown from {night + 1} nights, got {len(sums)}")
    window = stream.workload.column(night + 1).sum()
    answers = lfilter([1.0], stream.encoder.coefficients, sums)[night + 1 - window :]
    return ShownCounts(
        counts=np.rint(shown).astype(np.int64),
        law=shown_law(stream, night),
        draws=int(window) if stream.law.kind is NoiseKind.LAPLACE else 1,
        totals=NightTotals(first=night + 1 - int(window), answers=answers),
    )


def shown_law(stream: Stream, night: int) -> NoiseLaw:
    """See `ShownCounts.law`; without noise nothing is rounded either."""
    if stream.law.scale == 0:
        return stream.law
    variance = stream.covariance(night, night) + ROUNDING_VARIANCE
    if stream.law.kind is NoiseKind.LAPLACE and stream.workload.window == 1:
        return NoiseLaw(NoiseKind.LAPLACE, math.sqrt(variance / 2))
    return NoiseLaw(NoiseKind.GAUSSIAN, math.sqrt(variance))
