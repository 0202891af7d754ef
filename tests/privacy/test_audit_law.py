"""Upper bounds on scales, and what follows for epsilon.

Each bound may be wrong with the probability that it states. With the same seed a test gives the
same result; with another it fails with probability 10^-6 at most.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom

from hushrank.privacy.audit import (
    audit_epsilon,
    epsilon_by_law,
    epsilon_of_shift,
    most_provable,
    scale_at_most,
)
from hushrank.privacy.gaussian_profile import delta_of
from hushrank.privacy.noise import NoiseLaw, add_noise
from hushrank.privacy.randomness import seeded_bits
from hushrank.privacy.units import NoiseKind
from tests.statistics import FALSE_POSITIVE_RATE

LEVEL = 0.02


def noise(kind: NoiseKind, scale: float, shape: tuple[int, ...], seed: int = 1) -> np.ndarray:
    return add_noise(np.zeros(shape, np.int64), NoiseLaw(kind, scale), seeded_bits(seed))


@pytest.mark.parametrize("kind", NoiseKind)
@pytest.mark.parametrize("scale", [1.5, 6.0, 1e6])
def test_a_scale_is_bounded_as_often_as_stated_and_closely(kind, scale):
    samples = noise(kind, scale, (400, 300)).astype(np.float64)
    bounds = np.array([scale_at_most(sample, kind, LEVEL) for sample in samples])
    wrong = int((bounds < scale).sum())
    assert binom.sf(wrong - 1, len(samples), LEVEL) > FALSE_POSITIVE_RATE
    assert np.median(bounds) < 1.35 * scale


@pytest.mark.parametrize("kind", NoiseKind)
def test_no_noise_is_a_scale_of_zero_and_hides_nothing(kind):
    still = np.zeros((50, 2))
    assert scale_at_most(still[:, 0], kind, LEVEL) == 0
    change = np.array([0.0, 1.0])
    assert epsilon_by_law(change, still, kind, delta=0.1, level=LEVEL) == math.inf
    assert epsilon_by_law(0 * change, still, kind, delta=0.1, level=LEVEL) == 0


@pytest.mark.parametrize(("factor", "seen"), [(1.0, False), (1.15, True)])
def test_laplace_noise_loses_the_sum_over_all_counts(factor, seen):
    change = np.array([3.0, 0.0, -1.0, 2.0])
    drawn = noise(NoiseKind.LAPLACE, 6 / 2.0 / factor, (20_000, 4)).astype(np.float64)
    bound = epsilon_by_law(change, drawn, NoiseKind.LAPLACE, delta=0.0, level=FALSE_POSITIVE_RATE)
    assert (bound > 2.0) is seen
    assert bound > 1.85 * factor


@pytest.mark.parametrize(("factor", "seen"), [(1.0, False), (1.15, True)])
def test_gaussian_noise_loses_what_the_shift_says(factor, seen):
    change, delta = np.array([3.0, -4.0]), 1e-6
    stated = epsilon_of_shift(5 / 10, delta)
    drawn = noise(NoiseKind.GAUSSIAN, 10 / factor, (20_000, 2)).astype(np.float64)
    bound = epsilon_by_law(
        change, drawn, NoiseKind.GAUSSIAN, delta=delta, level=FALSE_POSITIVE_RATE
    )
    assert (bound > stated) is seen
    assert bound > 0.9 * stated


def test_epsilon_of_a_shift_is_where_the_exact_delta_is():
    assert delta_of(epsilon_of_shift(0.7, 1e-5), 0.7) == pytest.approx(1e-5, rel=1e-6)


@pytest.mark.parametrize("factor", [1.0, 2.0])
def test_a_bound_on_the_shift_sees_at_a_small_delta_what_events_do_not(factor):
    delta, stated = 1e-6, epsilon_of_shift(0.5, 1e-6)

    def bound(*, gaussian: bool) -> float:
        return audit_epsilon(
            lambda seed, runs: noise(NoiseKind.GAUSSIAN, 100 / factor, (runs,), seed) + 50 * seed,
            0,
            1,
            trials=20_000,
            confidence=1 - FALSE_POSITIVE_RATE,
            delta=delta,
            gaussian=gaussian,
        ).epsilon_lower

    assert bound(gaussian=False) < 0.8 * factor * stated
    assert (bound(gaussian=True) > stated) is (factor > 1)
    assert bound(gaussian=True) > 0.6 * factor * stated


def test_no_audit_shows_more_than_its_runs_allow():
    found = audit_epsilon(
        lambda side, runs: np.full(runs, side), 0, 1, trials=1_000, confidence=0.99
    )
    assert found.epsilon_lower == pytest.approx(most_provable(1_000, 0.99))


@pytest.mark.parametrize("shape", [(0, 2), (5,), (5, 3)])
def test_noise_must_fit_the_counts(shape):
    with pytest.raises(ValueError, match="does not fit"):
        epsilon_by_law(np.ones(2), np.ones(shape), NoiseKind.LAPLACE, delta=0.0, level=0.1)
