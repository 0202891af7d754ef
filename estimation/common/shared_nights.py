"""Correlation between the errors of scores that two nights of a stream show.

What is shown on a night is of a window of nights. The score of a window is what its answers would
say if every night had as many answers as it has, and each of them came out anew very often: a mean
over nights, by their numbers of answers. A change is the difference of the two windows' scores. A
night that is in both windows is the same night, with the same answers: it moves both scores alike.

Sampling: answers are independent given the scores. A window of M answers has an error of variance
proportional to 1 / M, and M_o answers that are in both windows make the covariance proportional to
M_o / (M M'). So the correlation is M_o / sqrt(M M'), and what is left of the variance of a
difference is that of the nights which only one of the windows has.

Noise: that of a cell on the two nights has the correlation that `privacy.stream` knows exactly, and
cells are alike; so have sums of cells that are weighed alike on both nights.

With f and f' the shares of noise in the variances of the two errors, their correlation is therefore

    sqrt(f f') r_noise + sqrt((1 - f) (1 - f')) r_sampling.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from hushrank.estimation.common.links import Floats
from hushrank.privacy.stream import Stream


@dataclass(frozen=True, slots=True, kw_only=True)
class NightTotals:
    """Number of answers on the nights of a window.

    Attributes:
        first: number of the window's first night.
        answers: answers of each night, noise included; shape (nights,).
    """

    first: int
    answers: Floats

    @property
    def end(self) -> int:
        """Number of the night after the last one."""
        return self.first + len(self.answers)

    def between(self, first: int, end: int) -> float:
        """Answers of the nights from `first` to before `end`, all of them in the window."""
        return float(self.answers[first - self.first : end - self.first].sum())


def window_totals(stream: Stream, sums: Floats | NDArray[np.int64]) -> NightTotals:
    """Return the number of answers on the nights that the last of some released nights shows.

    Post-processing, as what is shown: C^-1 takes the bands apart, so the sums of a window's nights
    add up to that of the cells shown.

    Args:
        stream: the terms.
        sums: sums of the released cells of each night, from the first to the one shown, in the
            units in which they are released; shape (nights,).

    Raises:
        ValueError: no night, or more than the stream has.
    """

    stream.terms.check_night(len(sums) - 1)
    each = scipy.signal.lfilter([1.0], stream.encoder.coefficients, sums)
    shown = int(stream.workload.column(len(sums)).sum())
    return NightTotals(first=len(sums) - shown, answers=each[len(sums) - shown :])


def sampling_correlation(one: NightTotals, other: NightTotals) -> float:
    """Correlation of the sampling errors of two windows; noise in the totals makes it inexact."""
    first, end = max(one.first, other.first), min(one.end, other.end)
    sizes = float(one.answers.sum()), float(other.answers.sum())
    if first >= end or min(sizes) <= 0:
        return 0.0
    shared = (one.between(first, end) + other.between(first, end)) / 2
    shared = min(max(shared, 0.0), *sizes)
    return shared / float(np.sqrt(sizes[0] * sizes[1]))


def error_correlation(
    shares: tuple[Floats, Floats], noise_correlation: float, sampling_correlation: float
) -> Floats:
    """Correlation of the errors of each score on two nights.

    Args:
        shares: share of privacy noise in the variances of the scores, one array of shape (n,) a
            night.
        noise_correlation: correlation of the noise in one cell as the two nights show it.
        sampling_correlation: correlation of the two windows' answers.

    Returns:
        Shape (n,); below 0 where noise of the earlier night is taken off from the later one's.
    """
    noise, sampling = np.sqrt(shares[0] * shares[1]), np.sqrt((1 - shares[0]) * (1 - shares[1]))
    both = noise * noise_correlation + sampling * sampling_correlation
    return np.asarray(np.clip(both, -1.0, 1.0))
