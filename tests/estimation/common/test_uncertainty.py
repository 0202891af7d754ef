"""Quantiles of normal plus Laplace, and ranks and groups against a check of every pair."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.integrate import quad
from scipy.interpolate import CubicSpline
from scipy.stats import binomtest, gamma, norm

from hushrank.estimation.common.uncertainty import (
    LEVEL,
    SPENT_ON_FAR,
    _Spline,
    every_pair_tail,
    far_tail,
    log_tail,
    quantile,
    separate_ranks,
)
from hushrank.privacy.noise import NoiseLaw, add_noise
from hushrank.privacy.randomness import seeded_bits
from hushrank.privacy.units import NoiseKind

FALSE_POSITIVE_RATE = 1e-6  # of one assertion
M = 400_000
TAILS = (0.2, 0.025, 1e-4, 4e-6)


def normal_plus_laplace_tail(x: float, noise_share: float) -> float:
    """Closed form of the convolution, for a total variance of 1."""
    s, b = math.sqrt(1 - noise_share), math.sqrt(noise_share / 2)
    right = math.exp(s**2 / (2 * b**2) - x / b) * norm.sf(-x / s + s / b)
    left = math.exp(s**2 / (2 * b**2) + x / b) * norm.sf(x / s + s / b)
    return norm.sf(x / s) + (right - left) / 2


def test_the_spline_is_scipy_s():
    values = np.random.default_rng(0).random(65)  # far less smooth than a quantile
    x = np.linspace(0, 1, 1_001).reshape(7, 143)
    expected = CubicSpline(np.linspace(0, 1, 65), values)(x)
    np.testing.assert_allclose(_Spline.through(values)(x), expected, rtol=0, atol=1e-14)


@pytest.mark.parametrize("tail", TAILS)
def test_quantile_is_exact_at_both_ends(tail):
    q = {k: quantile(np.array([0.0, 1.0]), tail, NoiseKind.LAPLACE, k) for k in (1, 2)}
    np.testing.assert_allclose([q[1][0], q[2][0]], norm.isf(tail), rtol=1e-9)
    assert q[1][1] == pytest.approx(-math.log(2 * tail) / math.sqrt(2), rel=1e-9)
    assert (1 + q[2][1]) / 2 * math.exp(-2 * q[2][1]) == pytest.approx(tail, rel=1e-8)


@pytest.mark.parametrize("x", [0.5, 2.0, 5.0])
@pytest.mark.parametrize("noise_share", [0.1, 0.5, 0.9])
def test_tail_is_the_closed_form(x, noise_share):
    closed = normal_plus_laplace_tail(x, noise_share)
    assert math.exp(log_tail(x, noise_share, 1)) == pytest.approx(closed, rel=1e-8)


@pytest.mark.parametrize("x", [0.5, 3.0, 6.0])
@pytest.mark.parametrize("n_draws", [3, 30, 1000, 3000])
def test_tail_of_many_draws_is_the_integral_over_their_scale(x, n_draws):
    def integrand(g):
        return gamma.pdf(g, n_draws) * norm.sf(x / math.sqrt(0.3 + 0.7 * g / n_draws))

    ends = (max(0.0, n_draws - 60 * math.sqrt(n_draws)), n_draws + 80 * math.sqrt(n_draws) + 50)
    exact, _ = quad(integrand, *ends, limit=500, epsabs=0, epsrel=1e-9, points=[n_draws])
    assert math.exp(log_tail(x, 0.7, n_draws)) == pytest.approx(exact, rel=1e-8)


def test_quantile_of_very_many_draws_is_nearly_normal():
    (share_alone,) = quantile(np.array([1.0]), 1e-6, NoiseKind.LAPLACE, 100_000)
    assert norm.isf(1e-6) < share_alone < norm.isf(1e-6) * 1.0001


@pytest.mark.parametrize("tail", TAILS)
@pytest.mark.parametrize("n_draws", [1, 2])
def test_quantile_between_knots_has_its_tail(tail, n_draws):
    shares = np.concatenate([np.linspace(0.001, 0.03, 7), np.linspace(0.03, 1, 50)])
    for share, q in zip(shares, quantile(shares, tail, NoiseKind.LAPLACE, n_draws), strict=True):
        assert log_tail(q, share, n_draws) == pytest.approx(math.log(tail), abs=1e-4)


@pytest.mark.parametrize("scale", [2.0, 12.0])
@pytest.mark.parametrize("n_draws", [1, 2])
def test_discrete_noise_plus_sampling_error_exceeds_it_at_the_stated_rate(scale, n_draws):
    """The sampling error is made to weigh as much as the noise; a share 0.3 off is caught."""
    law, bits, rng = NoiseLaw(NoiseKind.LAPLACE, scale), seeded_bits(1), np.random.default_rng(1)
    noise = sum(add_noise(np.zeros(M, np.int64), law, bits) for _ in range(n_draws))
    variance = n_draws * law.variance
    total = noise + rng.normal(0, math.sqrt(variance), M)

    def p_value(noise_share: float) -> float:
        q = quantile(np.array(noise_share), 2e-3, NoiseKind.LAPLACE, n_draws)
        above = int((np.abs(total) > q * math.sqrt(2 * variance)).sum())
        return binomtest(above, M, 4e-3).pvalue

    assert p_value(0.5) > FALSE_POSITIVE_RATE
    assert p_value(0.2) < FALSE_POSITIVE_RATE
    assert p_value(0.8) < FALSE_POSITIVE_RATE


def test_gaussian_noise_has_the_normal_quantile_at_every_share():
    q = quantile(np.array([[0.0, 0.5, 1.0]]), 0.025, NoiseKind.GAUSSIAN, 1)
    np.testing.assert_allclose(q, [[norm.isf(0.025)] * 3])


@pytest.mark.parametrize("tail", [0.0, 0.5, -1.0, math.nan])
def test_a_tail_outside_its_range_is_refused(tail):
    with pytest.raises(ValueError, match="tail must be above 0 and below 1/2"):
        quantile(np.array(0.5), tail, NoiseKind.LAPLACE, 1)


def no_ends(values):
    return lambda _: (np.full(len(values), -np.inf), np.full(len(values), np.inf))


def constant(by):
    return lambda x, y: np.full(x.shape, by)


def every_pair(values, margin):
    """Rank intervals and groups by definition: all pairs, one after the other."""
    n = len(values)
    better = [
        [bool(values[i] - values[j] > margin(values[i], values[j])) for j in range(n)]
        for i in range(n)
    ]
    low = [1 + sum(better[j][i] for j in range(n)) for i in range(n)]
    high = [n - sum(better[i]) for i in range(n)]
    groups, members, number = [0] * n, [], 1
    for item in np.argsort(-values, kind="stable"):
        if any(better[member][item] for member in members):
            members, number = [], number + 1
        members.append(item)
        groups[item] = number
    return low, high, groups


@given(
    arrays(np.float64, st.integers(1, 30), elements=st.integers(-20, 60)),
    st.floats(0, 20),
    st.floats(0, 1),
)
def test_ranks_and_groups_are_those_of_every_pair(values, noise, sampling):
    def margin(x, y):
        return noise + sampling * np.sqrt(np.maximum(x + y, 0))

    found = separate_ranks(values, lambda _: margin, no_ends(values))
    low, high, groups = every_pair(values, margin)
    assert found.rank_low.tolist() == low
    assert found.rank_high.tolist() == high
    assert found.groups.tolist() == groups


def test_an_item_joins_a_group_only_if_it_cannot_be_told_from_any_member():
    values = np.array([6.0, 10.0, 1.0, 8.0])
    found = separate_ranks(values, lambda _: constant(3.0), no_ends(values))
    assert found.groups.tolist() == [2, 1, 3, 1]  # 10 and 8; 6 is near 8 only; 1 is near nobody
    assert found.rank_low.tolist() == [2, 1, 4, 1]
    assert found.rank_high.tolist() == [3, 2, 4, 3]


def test_many_items_need_little_memory_and_no_table_of_pairs():
    n = 200_000
    values = np.arange(n) * 1.0
    found = separate_ranks(values, lambda _: constant(0.5), no_ends(values))
    assert (found.groups == np.arange(n, 0, -1)).all()  # a table would take 40 GB


def test_tails_of_all_pairs_and_of_the_far_ones_add_up_to_half_of_five_percent():
    n, undecided = 101, 700
    assert every_pair_tail(n) * n * (n - 1) == pytest.approx(LEVEL / 2)
    spent = 2 * undecided * every_pair_tail(n, undecided) + SPENT_ON_FAR
    assert spent == pytest.approx(LEVEL / 2)
    z = norm.isf(SPENT_ON_FAR / 2 / (n * (n - 1)))
    assert norm.isf(far_tail(n * (n - 1), SPENT_ON_FAR)) == pytest.approx(2 * z)


@pytest.mark.parametrize("n_draws", [1, 2])
@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_a_far_pair_is_two_quantiles_apart_under_every_law_of_noise(share, n_draws):
    for claims in (2, 100, 10**6):
        one, both = (
            float(quantile(np.array(share), tail, NoiseKind.LAPLACE, n_draws))
            for tail in (SPENT_ON_FAR / 2 / claims, far_tail(claims, SPENT_ON_FAR))
        )
        assert both >= 2 * one * (1 - 1e-6)
