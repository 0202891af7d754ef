"""Randomised response: exact thresholds, the law of the flips, never beyond the stated epsilon.

False-positive rate of each statistical assertion: 1e-6.
"""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import binomtest

from hushrank.privacy.audit import audit_epsilon
from hushrank.privacy.randomized_response import (
    BLOCK,
    attenuation,
    debiased_outcomes,
    epsilon_of_answer,
    flip_probability,
    flip_thresholds,
    randomize,
)
from hushrank.privacy.randomness import seeded_bits, system_bits
from tests.statistics import FALSE_POSITIVE_RATE

M = 200_000
EPSILONS = st.floats(min_value=1e-308, max_value=1e308, exclude_min=True) | st.floats(1e-7, 60.0)


def realised_epsilon(thresholds: NDArray[np.uint64]) -> NDArray[np.float64]:
    """ln((2^64 - T) / T), the privacy loss that T gives."""
    return np.log1p(attenuation(thresholds) / flip_probability(thresholds))


def threshold(epsilon: float) -> int:
    return int(flip_thresholds(np.array([epsilon]))[0])


@given(EPSILONS)
def test_realised_epsilon_never_exceeds_the_stated_one(epsilon: float) -> None:
    flips = threshold(epsilon)
    assert 1 <= flips <= 2**63  # never no flip at all, never more often than a fair coin
    with mpmath.workdps(60):
        realised = mpmath.log(mpmath.mpf(2**64 - flips) / flips)
        assert realised <= mpmath.mpf(epsilon)


@given(st.floats(1e-6, 44.0))
def test_realised_epsilon_is_close_to_the_stated_one(epsilon: float) -> None:
    flips = threshold(epsilon)
    with mpmath.workdps(60):
        exact = mpmath.mpf(2**64) / (mpmath.exp(mpmath.mpf(epsilon)) + 1)
        assert exact <= flips <= exact * (1 + mpmath.mpf(2) ** -39) + 1


def test_epsilons_at_the_ends() -> None:
    assert threshold(1e-300) == 2**63  # below 2e-12 a fair coin
    assert threshold(44.37) == 1 == threshold(1e308)
    assert threshold(1e-6) < 2**63
    largest = float(realised_epsilon(flip_thresholds(np.array([1e308])))[0])
    assert largest == pytest.approx(math.log(2**64 - 1))


def test_an_unrounded_threshold_would_be_caught() -> None:
    # The formula rounded to the nearest integer exceeds some epsilons: what the tests above find.
    epsilons = np.linspace(30.0, 40.0, 200)
    naive = np.rint(2.0**64 / (np.exp(epsilons) + 1))
    with mpmath.workdps(60):
        realised = [mpmath.log((2**64 - int(flips)) / mpmath.mpf(int(flips))) for flips in naive]
    assert any(loss > epsilon for loss, epsilon in zip(realised, epsilons, strict=True))


@given(st.lists(st.floats(1e-9, 50.0), min_size=1, max_size=40), st.integers(0, 39))
def test_threshold_does_not_depend_on_the_rows_around_it(epsilons: list[float], cut: int) -> None:
    column = np.array(epsilons)
    parts = np.concatenate([flip_thresholds(column[:cut]), flip_thresholds(column[cut:])])
    strided = flip_thresholds(np.repeat(column, 3)[::3])
    np.testing.assert_array_equal(flip_thresholds(column), parts)
    np.testing.assert_array_equal(flip_thresholds(column), strided)


@given(st.lists(st.floats(1e-6, 60.0), min_size=1, max_size=20))
def test_identities_follow_the_realised_threshold(epsilons: list[float]) -> None:
    thresholds = flip_thresholds(np.array(epsilons))
    p, t = flip_probability(thresholds), attenuation(thresholds)
    exact_t = [float(mpmath.mpf(2**63 - int(flips)) / 2**63) for flips in thresholds]
    np.testing.assert_array_equal(t, exact_t)  # correctly rounded
    np.testing.assert_allclose(p, (1 - t) / 2, rtol=0, atol=2**-53)
    np.testing.assert_allclose(t, np.tanh(np.array(epsilons) / 2), rtol=0, atol=1e-12)
    shown = realised_epsilon(thresholds)
    assert (shown <= np.array(epsilons) * (1 + 1e-12)).all()


def flips_of(truth: int, epsilon: float | NDArray[np.float64], rows: slice = slice(None)) -> int:
    noisy = randomize(np.full(M, truth, np.uint8), epsilon, system_bits())
    return int((noisy[rows] != truth).sum())


def p_value(flips: int, trials: int, epsilon: float) -> float:
    return float(binomtest(flips, trials, 1 / (1 + math.exp(epsilon))).pvalue)


@pytest.mark.parametrize("epsilon", [0.25, 1.0, 3.0])
@pytest.mark.parametrize("truth", [0, 1])
def test_flip_rate_is_the_theorem_s(epsilon: float, truth: int) -> None:
    flips = flips_of(truth, epsilon)
    assert p_value(flips, M, epsilon) > FALSE_POSITIVE_RATE
    assert p_value(flips, M, 1.2 * epsilon) < FALSE_POSITIVE_RATE  # power, in both directions
    assert p_value(flips, M, 0.8 * epsilon) < FALSE_POSITIVE_RATE


@pytest.mark.parametrize("truth", [0, 1])
def test_each_row_has_its_own_epsilon(truth: int) -> None:
    epsilon = np.tile([0.5, 4.0], M // 2)
    for offset, mine, other in ((0, 0.5, 4.0), (1, 4.0, 0.5)):
        flips = flips_of(truth, epsilon, slice(offset, None, 2))
        assert p_value(flips, M // 2, mine) > FALSE_POSITIVE_RATE
        assert p_value(flips, M // 2, other) < FALSE_POSITIVE_RATE


def test_blocks_draw_fresh_bits() -> None:
    zeros = np.zeros(3 * BLOCK, np.uint8)
    noisy = randomize(zeros, 0.5, system_bits()).reshape(3, BLOCK)
    agreement = int((noisy[0] == noisy[1]).sum())
    p = 1 / (1 + math.exp(0.5))
    assert binomtest(agreement, BLOCK, p**2 + (1 - p) ** 2).pvalue > FALSE_POSITIVE_RATE
    assert agreement < BLOCK


def test_debiased_outcomes_have_lemma_2_s_mean_and_variance() -> None:
    epsilon, share = 0.8, 0.7
    truth = (np.arange(M) < share * M).astype(np.uint8)
    values = debiased_outcomes(randomize(truth, epsilon, seeded_bits(1)), epsilon)
    contrast = math.tanh(epsilon / 2)
    variance = (1 / contrast**2 - (2 * share - 1) ** 2) / 4
    # The share is exact here, so the noise alone moves the mean: its variance is p(1-p)/t^2.
    standard_error = math.sqrt((1 / contrast**2 - 1) / 4 / M)
    assert abs(values.mean() - share) < 4.9 * standard_error
    assert values.var() == pytest.approx(variance, rel=0.01)


def test_shares_of_a_person_s_epsilon_stay_within_it() -> None:
    k = np.arange(1, 400)
    epsilon = np.full(len(k), 1.7)
    realised = realised_epsilon(flip_thresholds(epsilon_of_answer(epsilon, k)))
    assert (k * realised <= 1.7).all()
    assert (k * realised >= 1.7 * (1 - 1e-9)).all()
    for total in (0.3, 1.0, 1.7):  # as the numbers that the floats are: a tenth is above 1 / 10
        shares = epsilon_of_answer(np.full(len(k), total), k).tolist()
        exact = (n * Fraction(share) for n, share in zip(k.tolist(), shares, strict=True))
        assert max(exact) <= Fraction(total)
    with pytest.raises(ValueError, match="n_answers"):
        epsilon_of_answer(epsilon[:1], np.array([0]))


def test_input_is_kept_and_wrong_input_refused() -> None:
    outcomes = np.array([0, 1, 1], np.uint8)
    randomize(outcomes, 0.1, seeded_bits(3))
    np.testing.assert_array_equal(outcomes, [0, 1, 1])
    for wrong in (np.array([0, 2], np.uint8), np.array([0, 1])):
        with pytest.raises(ValueError, match="outcomes"):
            randomize(wrong, 1.0, seeded_bits(3))
    for epsilon in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(ValueError, match="epsilon"):
            randomize(outcomes, epsilon, seeded_bits(3))
    with pytest.raises(ValueError, match="do not match"):
        randomize(outcomes, np.ones(2), seeded_bits(3))
    with pytest.raises(ValueError, match="too small"):
        debiased_outcomes(outcomes, 1e-13)


# Runs of each audit: the bound then is within 10 % below epsilon, and a flip that is one of 256
# too rare is clearly above it.
AUDITS = pytest.mark.parametrize(
    ("epsilon", "trials"), [(0.1, 8_000_000), (1.0, 4_000_000), (5.0, 500_000)]
)


@AUDITS
def test_audit_finds_the_stated_epsilon_and_no_more(epsilon: float, trials: int) -> None:
    found = audit_epsilon(
        lambda outcome, runs: randomize(np.full(runs, outcome, np.uint8), epsilon, system_bits()),
        0,
        1,
        trials=trials,
        confidence=1 - FALSE_POSITIVE_RATE,
    )
    assert 0.9 * epsilon <= found.epsilon_lower <= epsilon


@AUDITS
def test_audit_catches_a_threshold_that_is_one_too_low(epsilon: float, trials: int) -> None:
    # With 8-bit words T = ceil(256 p) is private; one less is what `<=` for `<` does to the
    # answers that are kept, and at 8 bits it shows.
    threshold = math.ceil(256 / (math.exp(epsilon) + 1))

    def release(shift: int, outcome: int, runs: int) -> NDArray[np.uint8]:
        words = np.frombuffer(system_bits().take(runs), np.uint8)
        return (words < threshold - shift) ^ np.uint8(outcome)

    bounds = [
        audit_epsilon(
            lambda outcome, runs, shift=shift: release(shift, outcome, runs),
            0,
            1,
            trials=trials,
            confidence=1 - FALSE_POSITIVE_RATE,
        ).epsilon_lower
        for shift in (0, 1)
    ]
    assert bounds[0] <= epsilon < bounds[1]
