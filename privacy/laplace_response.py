"""Laplace noise on binary answers: the baseline `laplace-rr` of randomised response.

References:
    [XSC] Xu, Sun, Cheng. Rate-optimal rank aggregation with private pairwise rankings. Scenario V.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hushrank.privacy.noise import NoiseLaw, add_noise, laplace_law
from hushrank.privacy.randomness import RandomBits
from hushrank.privacy.sensitivity import Sensitivity

GRID = 1 << 10  # the noise lies on multiples of 1 / GRID: its variance is that of continuous noise


def add_laplace(
    outcomes: NDArray[np.uint8], epsilon: NDArray[np.float64], bits: RandomBits
) -> NDArray[np.int64]:
    """Add discrete Laplace noise of scale 1 / epsilon to each answer, on a grid of 1 / GRID.

    Guarantee: answer l is epsilon_l-DP, if `bits.safe`: it moves GRID units of the grid.

    Args:
        outcomes: shape (m,), values in {0, 1}.
        epsilon: shape (m,), nats, finite and > 0. Each distinct value costs one call of the exact
            sampler, so this baseline is for thousands of people, not millions.
        bits: `system_bits()` in a release.

    Returns:
        shape (m,), noisy answers in units of 1 / GRID.

    Raises:
        ValueError: an outcome is not 0 or 1, an epsilon is not finite and positive, or the shapes
            differ.
    """
    if outcomes.dtype != np.uint8 or (outcomes > 1).any():
        raise ValueError("outcomes must be a uint8 array of 0 and 1")  # values are private
    if outcomes.shape != epsilon.shape:
        raise ValueError(f"{epsilon.shape} epsilons do not match {outcomes.shape} outcomes")
    if not (np.isfinite(epsilon).all() and (epsilon > 0).all()):
        raise ValueError("every epsilon must be finite and > 0")
    noisy = outcomes.astype(np.int64) * GRID
    order = np.argsort(epsilon, kind="stable")
    changes = np.flatnonzero(np.diff(epsilon[order])) + 1
    for rows in np.split(order, changes) if len(order) else []:
        noisy[rows] = add_noise(noisy[rows], response_law(float(epsilon[rows[0]])), bits)
    return noisy


def response_law(epsilon: float) -> NoiseLaw:
    """Noise of one answer, in units of the grid.

    Raises:
        ValueError: `epsilon` is not > 0, or too small.
    """
    return laplace_law(Sensitivity(GRID, GRID**2), epsilon)
