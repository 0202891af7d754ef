"""Noise that covers what a computer does to the minimiser of a perturbed objective.

Objective perturbation is private for the exact minimiser under a continuous w ([CCW] Propositions
2.1 and 3.1). A program draws w on a grid, stops at a gradient that is not zero, and rounds; which
of the neighbouring floats comes out can depend on the data. Erratum E3: all of that is bounded, and
the bound covered by more noise, on a grid.

Coupling. Let w be g times a discrete Laplace variable, P(k) proportional to exp(-|k| g / scale).
Matching quantiles pairs it with an exactly Laplace variable that is never further away than
g / 2 + g^2 / (8 scale): the mass at and above k > 0, e^(-k q) / (1 + e^-q) with q = g / scale, is
that of a Laplace variable from k g + scale log((1 + e^-q) / 2) up, k g - g / 2 + at most g q / 8.
So nothing is lost to the grid: the guarantee stays pure. A discrete Gaussian variable of standard
deviation s >= 2^40 grid steps is a rounded normal one (at most g / 2 away) but for a total
variation of 1 / (40 s^2) (by the Taylor remainder of a cell and Poisson summation), which is
charged to delta as n (1 + e^epsilon) 2^-80.

Distance. The objective is ridge-strongly convex, so a point whose gradient is tau or less (in l2,
rounding included) for the w that was drawn is within r = (tau + sqrt(n) g) / ridge of the exact
minimiser for its partner.

Cover. Given the exact minimiser, two adjacent inputs lead to computed points at most 2 r apart in
l2, 2 sqrt(n) r in l1, and so, rounded to a grid of step h, to integer vectors at most
2 sqrt(n) r / h + n apart in l1. Discrete Laplace noise of scale (that bound) / e_out on those
integers makes up for it at e_out: the released integers cost the minimiser's epsilon plus e_out.

References:
    [CCW] Cai, Chakraborty, Wang. Optimal differentially private ranking from pairwise comparisons.
        2025.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hushrank.privacy.noise import NoiseLaw, add_noise, laplace_law
from hushrank.privacy.randomness import RandomBits
from hushrank.privacy.sensitivity import Sensitivity
from hushrank.privacy.units import NoiseKind, PrivacyParams

GRID_BITS = 40  # the grid of w is that many powers of two finer than its scale
LARGEST_EXPONENT = 700.0  # exp of it is still finite
OUTPUT_BITS = 40
OUTPUT_STEP = 2.0**-OUTPUT_BITS
LARGEST_OUTPUT = 2**60  # grid steps; beyond, the minimiser is moved to it, which moves no two apart


@dataclass(frozen=True, slots=True)
class GriddedNoise:
    """Noise on the multiples of `step`, a power of two, so that each is exact in floating point.

    Attributes:
        law: law of the multiples.
        step: 0 where there is no noise.
    """

    law: NoiseLaw
    step: float

    @property
    def variance(self) -> float:
        """Variance of one value."""
        return self.law.variance * self.step**2

    @property
    def standard_deviation(self) -> float:
        """Standard deviation of one value."""
        return math.sqrt(self.variance)

    def draw(self, size: int, bits: RandomBits) -> NDArray[np.float64]:
        """Independent values, shape (size,)."""
        return np.float64(self.step) * add_noise(np.zeros(size, np.int64), self.law, bits)


def gridded(kind: NoiseKind, scale: float) -> GriddedNoise:
    """Noise of that law and scale on a grid 2^40 to 2^41 times finer than the scale.

    Raises:
        ValueError: `scale` is not finite and >= 0.
    """
    if not (math.isfinite(scale) and scale >= 0):
        raise ValueError(f"scale must be finite and >= 0, got {scale!r}")
    if scale == 0:
        return GriddedNoise(NoiseLaw(kind, 0.0), 0.0)
    step = 2.0 ** (math.frexp(scale)[1] - 1 - GRID_BITS)
    return GriddedNoise(NoiseLaw(kind, scale / step), step)


def delta_of_grid(params: PrivacyParams, n_values: int) -> float:
    """Delta that drawing w on its grid adds; zero for Laplace noise."""
    if params.noise is NoiseKind.LAPLACE or not params.private:
        return 0.0
    growth = math.exp(min(params.epsilon, LARGEST_EXPONENT))
    return n_values * (1 + growth) * 2.0 ** (-2 * GRID_BITS)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputCover:
    """Rounding and noise that make a computed minimiser as private as the exact one.

    Attributes:
        noise: noise on the grid of the output.
        tolerance: tau, the gradient norm that the computed point must not exceed.
        epsilon: e_out, what the cover costs.
    """

    noise: GriddedNoise
    tolerance: float
    epsilon: float

    def apply(self, minimiser: NDArray[np.float64], bits: RandomBits) -> NDArray[np.float64]:
        """Round to the grid and add the noise; a computed minimiser, shape (n,), goes in."""
        largest = LARGEST_OUTPUT * self.noise.step
        steps = np.rint(np.clip(minimiser, -largest, largest) / self.noise.step)
        return self.apply_to_steps(steps.astype(np.int64), bits)

    def apply_to_steps(self, steps: NDArray[np.int64], bits: RandomBits) -> NDArray[np.float64]:
        """Add the noise to a computed minimiser in steps of the grid, shape (n,).

        Each step is the nearest one, and of size `LARGEST_OUTPUT` at most.
        """
        return np.float64(self.noise.step) * add_noise(steps, self.noise.law, bits)


def output_cover(
    n_values: int, tolerance: float, noise_step: float, ridge: float, epsilon: float
) -> OutputCover:
    """The cover of the module's text.

    Args:
        n_values: n.
        tolerance: tau, > 0; public.
        noise_step: g, of the grid on which w was drawn.
        ridge: strong convexity of the objective.
        epsilon: e_out, > 0.

    Raises:
        ValueError: an argument is out of range.
    """
    for name, value in (("tolerance", tolerance), ("ridge", ridge), ("epsilon", epsilon)):
        if not (math.isfinite(value) and value > 0):
            raise ValueError(f"{name} must be finite and > 0, got {value!r}")
    apart = cover_reach(n_values, tolerance, noise_step, ridge)
    law = laplace_law(Sensitivity(apart, apart**2), epsilon)
    return OutputCover(noise=GriddedNoise(law, OUTPUT_STEP), tolerance=tolerance, epsilon=epsilon)


def cover_reach(n_values: int, tolerance: float, noise_step: float, ridge: float) -> int:
    """2 sqrt(n) r / h + n, rounded up: how far apart in l1 the integers are; as `output_cover`."""
    radius = (tolerance + math.sqrt(n_values) * noise_step) / ridge
    return math.ceil(2 * math.sqrt(n_values) * radius / OUTPUT_STEP + n_values)
