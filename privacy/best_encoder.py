"""Encoder with the least noise, for streams that show all nights so far.

The noise in what is shown on night t has variance N(c) / (2 rho) times the sum of the first t + 1
entries of d^2, where d = a / c is the first column of A C^-1 as a power series and N(c) the squared
norm of `Encoder.norms`. `best_encoder` minimises the mean over nights,

    N(c) sum_i (T - i) / T d_i^2,    c_0 = 1, c_j >= 0,

by L-BFGS-B from three starts; with e = d / c the derivative of d_i after c_j is -e_{i-j}. At a gap
of 7, 14 and 28 nights of a year the noise is 8.6, 7.9 and 5.2 % less than with the square root of
A, the optimum where T is large and nothing is cut. For windows it would be 1 % at most.

No guarantee rests on this module: coefficients >= 0 of any size give the one of `privacy.stream`,
which is computed from the rounded integers. A stream keeps those of its first night.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import scipy

from hushrank.privacy.stream_encoder import (
    ONE,
    Encoder,
    Floats,
    MeteredTerms,
    StreamTerms,
    Workload,
    decoding,
    square_root,
)

MOST_STEPS = 1 << 19  # nights times bands; beyond it a search would take more than seconds


@lru_cache(maxsize=64)
def best_encoder(workload: Workload, terms: StreamTerms, bands: int) -> Encoder:
    """Return the encoder of so many bands with the least noise, as far as a search finds it.

    Args:
        workload: nights whose sum is shown; for a window the square root is near the best.
        terms: enforced on every person.
        bands: number of coefficients, at most `workload.most_bands(terms)`.

    Returns:
        The square root, or coefficients with less noise, in multiples of 2^-20.

    Raises:
        ValueError: as `square_root`.
    """
    root = square_root(workload, bands)
    if workload.window is not None or bands == 1 or terms.nights * bands > MOST_STEPS:
        return root
    start = np.array(root.coefficients[1:]) / ONE
    times, shown = _times_in_norm(terms, bands), np.arange(terms.nights, 0, -1) / terms.nights
    found = root
    for first in (start, start / 2, np.linspace(0.9, 0.3, bands - 1)):
        with np.errstate(all="ignore"):  # far from the best the noise may overflow
            result = scipy.optimize.minimize(
                _noise, first, (times, shown), "L-BFGS-B", jac=True, bounds=[(0, 2)] * (bands - 1)
            )
        rounded = Encoder((ONE, *np.rint(result.x * ONE).astype(np.int64).tolist()))
        found = min(found, rounded, key=lambda each: encoder_noise(workload, terms, each))
    return found


def encoder_noise(workload: Workload, terms: StreamTerms, encoder: Encoder) -> float:
    """Mean over nights of the noise's variance in a shown cell, times 2 rho: what is minimised."""
    squares = np.cumsum(decoding(workload, encoder, terms.nights) ** 2)
    return encoder.norms(terms).l2_squared * float(squares.mean())


def _times_in_norm(terms: StreamTerms, bands: int) -> Floats:
    """How often the square of each coefficient is in the squared norm; constant factors apart."""
    if isinstance(terms, MeteredTerms):
        return np.ones(bands)
    ends = np.array([min(bands, terms.nights - night) for night in terms.earliest])
    return np.array([float((ends > place).sum()) for place in range(bands)])


def _noise(after: Floats, times: Floats, shown: Floats) -> tuple[float, Floats]:
    """The objective at c = (1, *after), and its gradient."""
    c = np.append(1.0, after)
    d = scipy.signal.lfilter([1.0], c, np.ones(len(shown)))
    e = scipy.signal.lfilter([1.0], c, d)
    norm, error = float(times @ c**2), float(shown @ d**2)
    weighed = shown * d
    turned = [float(weighed[place:] @ e[: len(e) - place]) for place in range(1, len(c))]
    gradient: Floats = 2 * times[1:] * after * error - 2 * norm * np.array(turned)
    return norm * error, gradient
