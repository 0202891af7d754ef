"""The shuffle theorem: its value, its condition, and the exact privacy of an actual shuffle."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from hushrank.privacy.amplification import (
    largest_amplified_epsilon,
    local_epsilon_for,
    shuffled_epsilon,
)


def theorem(local_epsilon: float, n_reports: int, delta: float) -> mpmath.mpf:
    with mpmath.workdps(60):
        growth = mpmath.exp(mpmath.mpf(local_epsilon))
        spread = (
            8 * mpmath.sqrt(growth * mpmath.log(4 / mpmath.mpf(delta))) / mpmath.sqrt(n_reports)
        )
        return mpmath.log(1 + (growth - 1) / (growth + 1) * (spread + 8 * growth / n_reports))


@pytest.mark.parametrize(
    ("local_epsilon", "n_reports"), [(1e-6, 10**4), (0.5, 10**5), (1, 10**6), (5, 10**7)]
)
@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-10])
def test_value_is_the_theorem_s_rounded_up(
    local_epsilon: float, n_reports: int, delta: float
) -> None:
    exact = min(theorem(local_epsilon, n_reports, delta), mpmath.mpf(local_epsilon))
    value = shuffled_epsilon(local_epsilon, n_reports, delta)
    assert value >= exact
    assert value <= exact * (1 + 1e-11)


def test_nothing_is_claimed_outside_the_condition() -> None:
    n_reports, delta = 10**6, 1e-6
    border = math.log(n_reports / (16 * math.log(2 / delta)))
    assert largest_amplified_epsilon(n_reports, delta) == pytest.approx(border)
    assert shuffled_epsilon(0.999 * border, n_reports, delta) < 0.2 * border
    assert shuffled_epsilon(1.001 * border, n_reports, delta) == 1.001 * border
    assert shuffled_epsilon(0.1, 10, delta) == 0.1  # no epsilon is covered by so few


def shuffled_loss(local_epsilon: float, n_reports: int, others_ones: int, epsilon: float) -> float:
    """Exact delta of shuffled binary randomised response: only the number of ones is left."""
    flip = 1 / (1 + math.exp(local_epsilon))
    others = np.convolve(
        binom.pmf(np.arange(others_ones + 1), others_ones, 1 - flip),
        binom.pmf(np.arange(n_reports - others_ones), n_reports - 1 - others_ones, flip),
    )
    one = np.convolve(others, [flip, 1 - flip])
    zero = np.convolve(others, [1 - flip, flip])
    return float(np.maximum(one - math.exp(epsilon) * zero, 0).sum())


@pytest.mark.parametrize("local_epsilon", [0.5, 1.0, 2.0])
def test_an_actual_shuffle_keeps_the_guarantee(local_epsilon: float) -> None:
    n_reports, delta = 4000, 1e-4
    epsilon = shuffled_epsilon(local_epsilon, n_reports, delta)
    assert epsilon < local_epsilon
    losses = [shuffled_loss(local_epsilon, n_reports, ones, epsilon) for ones in (0, 2000, 3999)]
    assert max(losses) <= delta
    # Power: an epsilon ten times smaller (8 forgotten, say) is not what the shuffle gives.
    assert max(shuffled_loss(local_epsilon, n_reports, o, epsilon / 10) for o in (0, 2000)) > delta


@given(
    st.floats(1e-4, 10.0),
    st.integers(10, 10**9),
    st.sampled_from([1e-3, 1e-6, 1e-12]),
)
def test_local_epsilon_for_is_the_largest_that_keeps_the_target(
    epsilon: float, n_reports: int, delta: float
) -> None:
    local = local_epsilon_for(epsilon, n_reports, delta)
    assert local >= epsilon
    assert shuffled_epsilon(local, n_reports, delta) <= epsilon
    assert shuffled_epsilon(local * (1 + 1e-6), n_reports, delta) > epsilon


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ((0.0, 10, 1e-6), "local_epsilon"),
        ((math.inf, 10, 1e-6), "local_epsilon"),
        ((math.nan, 10, 1e-6), "local_epsilon"),
        ((1.0, 0, 1e-6), "n_reports"),
        ((1.0, 10, 0.0), "delta"),
        ((1.0, 10, 1.0), "delta"),
    ],
)
def test_arguments_out_of_range_are_named(arguments: tuple[float, int, float], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        shuffled_epsilon(*arguments)
