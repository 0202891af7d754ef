"""The law, scale and shape of integer noise, from OpenDP and from the seeded sampler."""

from __future__ import annotations

import itertools
import math
import os
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushrank.privacy.noise import MAX_SCALE, THREAD, NoiseLaw, add_noise, gaussian_law, laplace_law
from hushrank.privacy.randomness import RandomBits, seeded_bits, system_bits
from hushrank.privacy.sensitivity import Sensitivity
from hushrank.privacy.units import NoiseKind
from tests.statistics import (
    FALSE_POSITIVE_RATE,
    discrete_gaussian_pmf,
    discrete_laplace_pmf,
    law_p_value,
    mean_p_value,
)
from tests.strategies import epsilons

DRAWS = 60_000  # a scale 10 % off is then more than 12 standard errors away
PMFS = {NoiseKind.LAPLACE: discrete_laplace_pmf, NoiseKind.GAUSSIAN: discrete_gaussian_pmf}
ONE = Sensitivity(1, 1)
SENSITIVITIES = st.builds(Sensitivity, st.integers(1, 10_000), st.integers(1, 10**8))


@pytest.mark.parametrize("bits", [system_bits(), seeded_bits(5)], ids=["release", "simulation"])
@pytest.mark.parametrize(
    ("kind", "scale"),
    [
        (NoiseKind.LAPLACE, 0.7),
        (NoiseKind.LAPLACE, 12.0),
        (NoiseKind.LAPLACE, 500.5),
        (NoiseKind.GAUSSIAN, 5.0),
        (NoiseKind.GAUSSIAN, 80.25),
    ],
)
def test_noise_has_the_stated_law(kind: NoiseKind, scale: float, bits: RandomBits) -> None:
    noise = add_noise(np.zeros(DRAWS, np.int64), NoiseLaw(kind, scale), bits)
    assert law_p_value(noise, PMFS[kind](scale)) > FALSE_POSITIVE_RATE
    assert law_p_value(noise, PMFS[kind](1.1 * scale)) < FALSE_POSITIVE_RATE  # power, both ways
    assert law_p_value(noise, PMFS[kind](0.9 * scale)) < FALSE_POSITIVE_RATE


@pytest.mark.parametrize(("kind", "scales"), [(NoiseKind.LAPLACE, 8.0), (NoiseKind.GAUSSIAN, 3.5)])
def test_noise_is_not_cut_off(kind: NoiseKind, scales: float) -> None:
    """17 and 23 draws are expected beyond, so none of them with a probability of 1e-7 at most.

    The test of the law cannot see a limit: what lies beyond the largest draw counts with it.
    """
    noise = add_noise(np.zeros(50_000, np.int64), NoiseLaw(kind, 40.0), system_bits())
    assert np.abs(noise).max() > 40.0 * scales


def test_a_narrow_gaussian_is_discrete_and_not_rounded() -> None:
    scale = 0.6  # a rounded normal would have variance 0.36 + 1/12
    noise = add_noise(np.zeros(DRAWS, np.int64), NoiseLaw(NoiseKind.GAUSSIAN, scale), system_bits())
    assert law_p_value(noise, discrete_gaussian_pmf(scale)) > FALSE_POSITIVE_RATE
    assert (
        law_p_value(noise, discrete_gaussian_pmf(math.hypot(scale, 12**-0.5))) < FALSE_POSITIVE_RATE
    )


@pytest.mark.parametrize("kind", list(NoiseKind))
@pytest.mark.parametrize("scale", [0.8, 3.0, 40.0])
def test_variance_is_that_of_the_law(kind: NoiseKind, scale: float) -> None:
    values = np.arange(-2000, 2001)
    mass = PMFS[kind](scale)(values)
    exact = float((mass * values**2).sum())
    stated = NoiseLaw(kind, scale).variance
    if kind is NoiseKind.LAPLACE:
        assert stated == pytest.approx(exact, rel=1e-9)
    else:
        assert exact <= stated * (1 + 1e-12)
    squares_variance = float((mass * (values**2 - exact) ** 2).sum())
    noise = add_noise(np.zeros(20_000, np.int64), NoiseLaw(kind, scale), seeded_bits(3))
    if kind is NoiseKind.LAPLACE:  # the simulated Gaussian is wider by 1/12, as documented
        squares = noise.astype(float) ** 2
        assert mean_p_value(squares, stated, squares_variance) > FALSE_POSITIVE_RATE
        assert mean_p_value(squares, 1.21 * stated, 1.5 * squares_variance) < FALSE_POSITIVE_RATE


def test_entries_get_independent_noise() -> None:
    noise = add_noise(np.zeros((DRAWS // 2, 2), np.int64), laplace_law(ONE, 0.1), system_bits())
    products = (noise[:, 0] * noise[:, 1]).astype(float)
    variance = NoiseLaw(NoiseKind.LAPLACE, 10.0).variance
    assert mean_p_value(products, 0.0, variance**2) > FALSE_POSITIVE_RATE
    same = (noise[:, 0] ** 2).astype(float)  # power: what one draw used twice would look like
    assert mean_p_value(same, 0.0, variance**2) < FALSE_POSITIVE_RATE


def test_threads_draw_independent_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 3)
    assert DRAWS >= THREAD  # so each of three threads draws one share
    counts = np.arange(3 * DRAWS) % 7
    noise = add_noise(counts, laplace_law(ONE, 0.1), system_bits()) - counts
    shares = noise.reshape(3, DRAWS).astype(float)
    variance = NoiseLaw(NoiseKind.LAPLACE, 10.0).variance
    for one, other in itertools.combinations(range(3), 2):
        assert mean_p_value(shares[one] * shares[other], 0.0, variance**2) > FALSE_POSITIVE_RATE
    assert mean_p_value(shares[0] ** 2, 0.0, variance**2) < FALSE_POSITIVE_RATE  # power


@given(SENSITIVITIES, epsilons())
def test_laplace_scale_is_never_below_the_exact_rational(
    sensitivity: Sensitivity, epsilon: float
) -> None:
    scale = Fraction(laplace_law(sensitivity, epsilon).scale)
    for reading in (Fraction(epsilon), Fraction(str(epsilon))):  # in binary and in decimal
        exact = sensitivity.l1 / reading
        assert exact <= scale <= exact * (1 + Fraction(1, 2**50))


@given(SENSITIVITIES, epsilons())
def test_gaussian_scale_is_never_below_the_exact_root(sensitivity: Sensitivity, rho: float) -> None:
    square = Fraction(gaussian_law(sensitivity, rho).scale) ** 2
    for reading in (Fraction(rho), Fraction(str(rho))):
        exact = sensitivity.l2_squared / (2 * reading)
        assert exact <= square <= exact * (1 + Fraction(1, 2**49))


@pytest.mark.parametrize("bits", [system_bits(), seeded_bits(5)], ids=["release", "simulation"])
@pytest.mark.parametrize("kind", list(NoiseKind))
@pytest.mark.parametrize("shape", [(0,), (1,), (3, 4), (2, 3, 4), ()])
def test_shape_and_type_are_kept_and_the_input_is_untouched(
    kind: NoiseKind, shape: tuple[int, ...], bits: RandomBits
) -> None:
    counts = np.full(shape, 7, np.int64)
    noisy = add_noise(counts, NoiseLaw(kind, 3.0), bits)
    assert noisy.shape == shape
    assert noisy.dtype == np.int64
    assert (counts == 7).all()


def test_more_entries_than_one_library_call() -> None:
    noise = add_noise(np.zeros(70_001, np.int64), laplace_law(ONE, 0.01), system_bits())
    assert np.count_nonzero(noise) > 69_000  # P(0) = 0.005: every part was filled


@pytest.mark.parametrize("law", [laplace_law(ONE, math.inf), gaussian_law(ONE, math.inf)])
def test_no_noise_at_infinite_budget_is_a_copy(law: NoiseLaw) -> None:
    counts = np.arange(5)
    noisy = add_noise(counts, law, system_bits())
    assert law.scale == law.variance == 0
    assert (noisy == counts).all()
    assert noisy is not counts


def test_seeded_noise_is_reproducible() -> None:
    counts, law = np.zeros(50, np.int64), laplace_law(ONE, 0.1)
    first, second = (add_noise(counts, law, seeded_bits(1)) for _ in range(2))
    assert (first == second).all()
    assert (first != add_noise(counts, law, seeded_bits(2))).any()
    assert (first != add_noise(counts, law, system_bits())).any()


@pytest.mark.parametrize("kind", list(NoiseKind))
def test_the_widest_law_does_not_overflow(kind: NoiseKind) -> None:
    noise = add_noise(np.zeros(100, np.int64), NoiseLaw(kind, MAX_SCALE), system_bits())
    assert np.abs(noise).max() < 2**62


@pytest.mark.parametrize("scale", [-1.0, math.nan, math.inf, 2 * MAX_SCALE])
def test_a_scale_outside_the_range_is_refused(scale: float) -> None:
    with pytest.raises(ValueError, match="noise scale must be at least 0 and at most 2"):
        NoiseLaw(NoiseKind.LAPLACE, scale)


@pytest.mark.parametrize("budget", [0.0, -1.0, math.nan])
def test_a_budget_must_be_positive(budget: float) -> None:
    with pytest.raises(ValueError, match="epsilon must be > 0, got"):
        laplace_law(ONE, budget)
    with pytest.raises(ValueError, match="rho must be > 0, got"):
        gaussian_law(ONE, budget)


def test_a_budget_too_small_for_integers_is_refused() -> None:
    with pytest.raises(ValueError, match="epsilon 1e-300 is too small: the noise could overflow"):
        laplace_law(ONE, 1e-300)
    with pytest.raises(ValueError, match="rho 1e-320 is too small: the noise could overflow"):
        gaussian_law(ONE, 1e-320)
