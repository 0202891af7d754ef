"""Delta of discrete Gaussian noise: never below the sum over all outputs, and close to it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from hushrank.estimation.common.central_noise import calibrate_win_counts
from hushrank.privacy.accounting import composed_epsilon
from hushrank.privacy.gaussian_profile import Shift, composed_gaussians, delta_of, shift_of
from hushrank.privacy.units import Adjacency, NoiseKind, PrivacyParams, Unit
from tests.statistics import discrete_gaussian_pmf
from tests.strategies import deltas

SHIFTS = [(1,), (2,), (5,), (1, 1), (2, 1), (3, 1), (1, 1, 1), (2, 1, 1), (1,) * 8]
EPSILONS = np.concatenate([np.linspace(0, 4, 81), [6.0, 9.0]])


def masses(scale: float) -> NDArray[np.float64]:
    """Of the values from -reach to reach, beyond which lies less than 1e-40."""
    reach = math.ceil(14 * scale) + 3
    return discrete_gaussian_pmf(scale)(np.arange(-reach, reach + 1))


def losses(shift: Sequence[int], scale: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Privacy losses log P / P' of one vector that moves by `shift`, and their mass under P.

    With y of law P the loss is (2 <shift, y> + |shift|^2) / (2 scale^2), and <shift, y> is a sum of
    independent integers.
    """
    one = masses(scale)
    whole = np.ones(1)
    for step in shift:
        spread = np.zeros((len(one) - 1) * step + 1)
        spread[::step] = one
        whole = np.convolve(whole, spread)
    projected = np.arange(len(whole)) - len(whole) // 2
    return (2 * projected + sum(step**2 for step in shift)) / (2 * scale**2), whole


def exact_delta(parts: Sequence[tuple[Sequence[int], float]], epsilon: float) -> float:
    """Of independent vectors, each with its shift and scale: sum of (P - e^epsilon P')_+."""
    loss, mass = losses(*parts[0])
    for part in parts[1:]:
        more, weight = losses(*part)
        loss, mass = np.add.outer(loss, more).ravel(), np.multiply.outer(mass, weight).ravel()
    return float((mass * np.maximum(-np.expm1(epsilon - loss), 0)).sum())


def stated_delta(shift: Shift, epsilon: float) -> float:
    bound = delta_of(epsilon - shift.slack, math.sqrt(shift.squared))
    return math.exp(shift.slack) * bound


def shift_for(moved: Sequence[int], scale: float) -> Shift:
    l2_squared = sum(step**2 for step in moved)
    return shift_of(l2_squared / (2 * scale**2), l2_squared)


@pytest.mark.parametrize("scale", [1.2, 1.7, 3.0, 8.0, 25.5])
@pytest.mark.parametrize("moved", SHIFTS)
def test_no_output_is_worse_than_stated(moved: Sequence[int], scale: float) -> None:
    shift = shift_for(moved, scale)
    for epsilon in EPSILONS:
        stated = stated_delta(shift, epsilon) if math.isfinite(shift.squared) else 1.0
        assert exact_delta([(moved, scale)], epsilon) <= stated * (1 + 1e-9)


@pytest.mark.parametrize("moved", [(1,), (3, 1), (1, 1, 1), (1,) * 8])
def test_the_bound_is_close_to_the_truth(moved: Sequence[int]) -> None:
    scale = 25.0 * math.sqrt(sum(step**2 for step in moved))
    shift = shift_for(moved, scale)
    for epsilon in (0.0, 0.05, 0.1, 0.2):
        truth = exact_delta([(moved, scale)], epsilon)
        assert stated_delta(shift, epsilon) <= 1.05 * truth


def test_the_continuous_gaussian_alone_would_promise_too_much() -> None:
    """What the theorem is for: power of the comparison above."""
    moved, scale = (1,), 1.7
    worst = max(
        exact_delta([(moved, scale)], epsilon) / delta_of(epsilon, 1 / scale)
        for epsilon in np.linspace(0, 4, 401)
    )
    assert worst > 1.1


@pytest.mark.parametrize(("first", "second"), [((1,), (2,)), ((1, 1), (1,)), ((3,), (1, 1))])
def test_releases_compose(first: Sequence[int], second: Sequence[int]) -> None:
    parts = [(first, 4.0), (second, 6.5)]
    shifts = [shift_for(*part) for part in parts]
    for delta in (1e-3, 1e-6, 1e-9):
        epsilon = composed_gaussians(shifts, delta)
        assert exact_delta(parts, epsilon) <= delta
        assert exact_delta(parts, 0.95 * epsilon) > delta


@settings(deadline=None)
@given(st.floats(1e-9, 10.0), st.integers(1, 10**6), st.integers(1, 1000))
def test_a_sensitivity_that_is_not_known_costs_more(rho: float, least: int, more: int) -> None:
    unknown, known = shift_of(rho, least), shift_of(rho, least + more)
    assert known.squared <= unknown.squared * (1 + 1e-11)
    if math.isfinite(unknown.squared):
        assert known.slack <= unknown.slack * (1 + 1e-8)
        assert 2 * rho <= known.squared
        assert rho > 0.1 or unknown.slack <= 2e-3 * rho


def reference_delta(epsilon: float, shift: float) -> mpmath.mpf:
    """To 60 digits."""
    with mpmath.workdps(60):
        loss, moved = mpmath.mpf(epsilon), mpmath.mpf(shift)
        upper = mpmath.ncdf(moved / 2 - loss / moved)
        return upper - mpmath.exp(loss) * mpmath.ncdf(-moved / 2 - loss / moved)


@settings(deadline=None)
@given(st.floats(-5, 11), st.floats(-7, 3))
def test_floats_round_delta_up(ends: float, log_shift: float) -> None:
    shift = 10**log_shift
    epsilon = max(shift * (ends + shift / 2), -1e-3 * shift)
    truth = reference_delta(epsilon, shift)
    stated = delta_of(epsilon, shift)
    assert truth <= stated
    if shift >= 1e-3:
        assert stated <= truth * (1 + 1e-4)


@settings(deadline=None)
@given(st.floats(1e-6, 1e3), deltas())
def test_epsilon_is_the_smallest(squared: float, delta: float) -> None:
    shift = Shift(squared, 1e-5)
    epsilon = composed_gaussians([shift], delta)
    assert stated_delta(shift, epsilon) <= delta * (1 + 1e-9)
    if epsilon > 0:
        assert stated_delta(shift, epsilon * (1 - 1e-6)) > delta


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(0.3, 1e-4), (1.0, 1e-4), (1.0, 1e-6), (2.0, 1e-9), (3.0, 0.05)]
)
def test_noise_as_calibrated_keeps_its_delta_and_a_little_less_would_not(
    epsilon: float, delta: float
) -> None:
    """Of win counts of four items, six distinct pairs: `privacy.sensitivity` gives l2^2 = 26."""
    params = PrivacyParams(
        unit=Unit.USER,
        adjacency=Adjacency.REPLACE_ONE,
        epsilon=epsilon,
        delta=delta,
        noise=NoiseKind.GAUSSIAN,
        max_contributions=6,
        distinct_pairs=True,
    )
    calibration = calibrate_win_counts(params, 4)
    scale, worst = calibration.law.scale, (3, 3, 2, 2)
    assert exact_delta([(worst, scale)], epsilon) <= delta
    assert exact_delta([(worst, 0.97 * scale)], epsilon) > delta
    assert calibration.spend.l2_squared == 26
    assert composed_epsilon([calibration.spend], delta) <= epsilon


def test_where_nothing_is_known() -> None:
    assert shift_of(math.inf, 5) == Shift(math.inf, 0.0)
    assert shift_of(50.0, 1) == Shift(math.inf, 0.0)  # a scale of 0.1
    assert composed_gaussians([shift_of(50.0, 1)], 1e-6) == math.inf
    assert composed_gaussians([shift_of(0.1, 1)], 0.0) == math.inf
    assert composed_gaussians([shift_of(0.0, 1)], 1e-6) == 0.0
