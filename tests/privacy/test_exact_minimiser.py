"""What covers grid, solver and rounding: the coupling it rests on, and the noise that it adds."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from scipy.stats import norm

from hushrank.privacy.exact_minimiser import (
    GRID_BITS,
    OUTPUT_STEP,
    GriddedNoise,
    delta_of_grid,
    gridded,
    output_cover,
)
from hushrank.privacy.noise import NoiseLaw
from hushrank.privacy.randomness import seeded_bits, system_bits
from hushrank.privacy.units import Adjacency, NoiseKind, PrivacyParams, Unit
from tests.statistics import FALSE_POSITIVE_RATE, discrete_laplace_pmf, law_p_value


@pytest.mark.parametrize("step_over_scale", [2.0, 0.3, 2.0**-10, 2.0**-GRID_BITS])
def test_a_discrete_laplace_is_a_nearby_continuous_one(step_over_scale: float) -> None:
    """Matched quantiles: the cell of each grid value reaches no further than the module says."""
    with mpmath.workdps(60):
        q = mpmath.mpf(step_over_scale)  # in units of the scale
        at_zero = mpmath.tanh(q / 2)
        reach = q / 2 + q**2 / 8
        for k in (1, 2, 3, 50):
            below = at_zero * mpmath.fsum(mpmath.exp(-abs(j) * q) for j in range(-k + 1, k))
            upper_tail = (1 - below) / 2  # of k and all above
            start = -mpmath.log(2 * upper_tail)  # where a Laplace variable has that tail
            assert k * q - reach <= start <= k * q + reach - q  # within reach of k, and of k - 1


@pytest.mark.parametrize("deviation", [3.0, 20.0])
def test_a_discrete_gaussian_is_nearly_a_rounded_one(deviation: float) -> None:
    """Total variation 1 / (40 s^2), checked where it is large enough to see."""
    k = np.arange(-int(12 * deviation), int(12 * deviation) + 1)
    rounded = norm.cdf((k + 0.5) / deviation) - norm.cdf((k - 0.5) / deviation)
    discrete = np.exp(-0.5 * (k / deviation) ** 2)
    distance = 0.5 * np.abs(rounded - discrete / discrete.sum()).sum()
    assert 0.5 / (40 * deviation**2) < distance <= 1 / (40 * deviation**2)


def test_the_grid_costs_delta_for_gaussian_noise_only() -> None:
    def params(delta: float) -> PrivacyParams:
        return PrivacyParams(
            unit=Unit.COMPARISON,
            adjacency=Adjacency.REPLACE_ONE,
            epsilon=2.0,
            delta=delta,
            noise=NoiseKind.GAUSSIAN if delta else NoiseKind.LAPLACE,
        )

    assert delta_of_grid(params(0.0), 100) == 0
    assert delta_of_grid(params(1e-6), 100) == 100 * (1 + math.exp(2)) * 2.0**-80


@pytest.mark.parametrize("kind", list(NoiseKind))
@pytest.mark.parametrize("scale", [3e-5, 1.0, 7.3, 2.0**20])
def test_gridded_noise_has_the_scale_asked_for(kind: NoiseKind, scale: float) -> None:
    noise = gridded(kind, scale)
    assert noise.law.scale * noise.step == scale
    assert math.frexp(noise.step)[0] == 0.5  # a power of two
    assert 2**GRID_BITS <= noise.law.scale < 2 ** (GRID_BITS + 1)
    drawn = noise.draw(40_000, system_bits())
    factor = math.sqrt(2) if kind is NoiseKind.LAPLACE else 1
    assert noise.variance == pytest.approx((factor * scale) ** 2)
    # 6 standard errors of a mean square, whose kurtosis is 6 for the wider of the two laws.
    assert np.mean(drawn**2) == pytest.approx((factor * scale) ** 2, rel=6 * math.sqrt(5 / 40_000))
    np.testing.assert_array_equal(drawn / noise.step, np.rint(drawn / noise.step))


def test_no_scale_no_noise() -> None:
    assert not gridded(NoiseKind.LAPLACE, 0.0).draw(5, system_bits()).any()
    for bad in (-1.0, math.inf, math.nan):
        with pytest.raises(ValueError, match="scale must be finite and >= 0"):
            gridded(NoiseKind.LAPLACE, bad)


def test_cover_is_that_of_the_derivation() -> None:
    n, tolerance, noise_step, ridge, epsilon = 25, 1e-9, 2.0**-37, 4.0, 0.01
    cover = output_cover(n, tolerance, noise_step, ridge, epsilon)
    radius = (1e-9 + 5 * 2.0**-37) / 4
    assert cover.noise.law.scale == pytest.approx(math.ceil(2 * 5 * radius * 2**40 + 25) / 0.01)
    assert cover.noise.step == OUTPUT_STEP
    assert cover.noise.variance < 1e-12  # far below any error of a score


@pytest.mark.parametrize("name", ["tolerance", "ridge", "epsilon"])
def test_cover_needs_positive_numbers(name: str) -> None:
    values = {"tolerance": 1e-9, "ridge": 1.0, "epsilon": 0.01}
    for bad in (0.0, math.inf, math.nan):
        with pytest.raises(ValueError, match=f"{name} must be finite and > 0"):
            output_cover(5, noise_step=1e-12, **(values | {name: bad}))


def test_apply_rounds_and_adds_noise_of_the_law() -> None:
    cover = output_cover(4, 1e-9, 2.0**-40, 1.0, 5.0)
    start = np.full(60_000, 1.25)
    out = cover.apply(start, system_bits())
    steps = np.rint((out - start) / OUTPUT_STEP).astype(np.int64)
    np.testing.assert_array_equal(out, start + steps * OUTPUT_STEP)
    scale = cover.noise.law.scale
    assert law_p_value(steps, discrete_laplace_pmf(scale)) > FALSE_POSITIVE_RATE
    assert law_p_value(steps, discrete_laplace_pmf(1.1 * scale)) < FALSE_POSITIVE_RATE


def test_apply_moves_no_two_points_apart() -> None:
    """The step before the noise: points within r stay within r / h + 1 grid steps, even far out."""
    cover = output_cover(2, 1e-9, 2.0**-40, 1.0, 5.0)
    quiet = type(cover)(
        noise=GriddedNoise(NoiseLaw(NoiseKind.LAPLACE, 0.0), OUTPUT_STEP),
        tolerance=1e-9,
        epsilon=5.0,
    )
    for centre in (0.0, -1.0 / 3, 12.3, 1e6, 1e12):
        near, far = quiet.apply(np.array([centre, centre + 3.7 * OUTPUT_STEP]), seeded_bits(1))
        assert abs(far - near) <= 4.7 * OUTPUT_STEP
    assert np.isfinite(quiet.apply(np.array([1e300]), seeded_bits(1))).all()
