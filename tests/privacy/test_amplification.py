"""The theorems on shuffling: their values, and the exact privacy of an actual shuffle."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from dp_accounting.pld.privacy_loss_distribution import from_two_probability_mass_functions
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from hushrank.privacy.amplification import (
    largest_amplified_epsilon,
    local_epsilon_for,
    shuffled_bit_epsilon,
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


def blanket_laws(local_epsilon: float, n_reports: int) -> tuple[dict, dict]:
    """Chances of (coins, ones) where the report in question is of a one, and of a zero."""
    flip = 1 / (1 + math.exp(local_epsilon))
    of_one, of_zero = {}, {}
    for coins in range(n_reports):
        chance = binom.pmf(coins, n_reports - 1, 2 * flip)
        others = chance * binom.pmf(np.arange(coins + 1), coins, 0.5)
        for law, ones in ((of_one, 1 - flip), (of_zero, flip)):
            for count, mass in enumerate(np.convolve(others, [1 - ones, ones])):
                law[coins, count] = mass
    return of_one, of_zero


@pytest.mark.parametrize("local_epsilon", [0.3, 1.0, 3.0])
@pytest.mark.parametrize(("n_reports", "delta"), [(1, 1e-3), (12, 1e-3), (150, 1e-5)])
def test_bits_get_the_epsilon_of_the_whole_blanket(
    local_epsilon: float, n_reports: int, delta: float
) -> None:
    """Every outcome is enumerated: the bound is kept, and a thousandth less is not."""
    epsilon = shuffled_bit_epsilon(local_epsilon, n_reports, delta)
    of_one, of_zero = blanket_laws(local_epsilon, n_reports)

    def loss(epsilon: float) -> float:
        return sum(max(of_one[k] - math.exp(epsilon) * of_zero[k], 0.0) for k in of_one)

    assert loss(epsilon) <= delta
    assert loss(0.997 * epsilon) > delta


def test_bits_get_the_epsilon_that_an_accountant_finds() -> None:
    """dp-accounting discretises losses by 1e-4, outwards: it may find that much more."""
    of_one, of_zero = blanket_laws(1.0, 200)
    logs = [
        {outcome: math.log(mass) for outcome, mass in law.items() if mass > 0}
        for law in (of_zero, of_one)
    ]
    both = set(logs[0]) & set(logs[1])
    losses = from_two_probability_mass_functions(
        *({k: law[k] for k in both} for law in logs), value_discretization_interval=1e-4
    )
    found = losses.get_epsilon_for_delta(1e-5)
    assert shuffled_bit_epsilon(1.0, 200, 1e-5) == pytest.approx(found, abs=3e-4)


def test_bits_of_ten_thousand_people() -> None:
    assert shuffled_bit_epsilon(2.0, 10_000, 1e-6) == pytest.approx(0.1144, abs=1e-4)
    assert shuffled_epsilon(2.0, 10_000, 1e-6) == pytest.approx(0.501, abs=1e-3)


@pytest.mark.parametrize("local_epsilon", [0.5, 1.0, 2.0])
def test_an_actual_shuffle_of_bits_keeps_the_guarantee(local_epsilon: float) -> None:
    n_reports, delta = 4000, 1e-4
    epsilon = shuffled_bit_epsilon(local_epsilon, n_reports, delta)
    of_others = (0, 1000, 2000, 3999)
    assert max(shuffled_loss(local_epsilon, n_reports, o, epsilon) for o in of_others) <= delta
    # Power: half of it is not what the shuffle gives.
    assert max(shuffled_loss(local_epsilon, n_reports, o, epsilon / 2) for o in of_others) > delta


@settings(max_examples=25, deadline=None)
@given(
    st.floats(1e-3, 200.0),
    st.integers(1, 10**6),
    st.sampled_from([1e-3, 1e-6, 1e-12]),
)
def test_bits_never_get_more_than_any_report(
    local_epsilon: float, n_reports: int, delta: float
) -> None:
    epsilon = shuffled_bit_epsilon(local_epsilon, n_reports, delta)
    assert 0 < epsilon <= shuffled_epsilon(local_epsilon, n_reports, delta)
    assert shuffled_bit_epsilon(local_epsilon, 4 * n_reports, delta) <= epsilon * (1 + 1e-3)


@pytest.mark.parametrize(
    ("trials", "deviations"), [(10, 1), (10**5, 0), (10**5, 3), (10**5, 8), (10**9, 8)]
)
@pytest.mark.parametrize("chance", [0.5, 0.2384, 1e-3])
def test_binomial_terms_are_as_exact_as_the_margin_says(
    trials: int, chance: float, deviations: int
) -> None:
    spread = math.sqrt(trials * chance * (1 - chance))
    count = min(int(trials * chance + deviations * spread), trials - 1)
    with mpmath.workdps(40):
        odds = mpmath.mpf(chance) / (1 - mpmath.mpf(chance))
        term = mpmath.exp(
            mpmath.loggamma(trials + 1)
            - mpmath.loggamma(count + 1)
            - mpmath.loggamma(trials - count + 1)
            + count * mpmath.log(odds)
            + trials * mpmath.log1p(-chance)
        )
        tail, ratio = mpmath.mpf(0), mpmath.mpf(1)
        for ones in range(count, trials):
            ratio *= odds * (trials - ones) / (ones + 1)
            tail += ratio
            if ratio < 1e-20 * tail:
                break
    assert binom.pmf(count, trials, chance) == pytest.approx(float(term), rel=1e-10, abs=0)
    assert binom.sf(count, trials, chance) == pytest.approx(float(term * tail), rel=1e-10, abs=0)
