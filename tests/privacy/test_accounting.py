"""Totals against closed forms: never below the truth, and close to it where the bound is tight."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from hushrank.privacy import accounting
from hushrank.privacy.accounting import (
    RDP_ORDERS,
    Spend,
    composed_epsilon,
    epsilon_of,
    rho_for,
    rho_of,
    spend_of,
)
from hushrank.privacy.units import Adjacency, NoiseKind, PrivacyParams, Unit
from tests.strategies import deltas, epsilons, privacy_params

FLOAT = 1 + 1e-9
GRID = 1e-4  # every epsilon may be rounded up by this much
SMALL_LISTS = st.lists(epsilons(most=3.0), min_size=1, max_size=6)
RHOS = st.floats(1e-8, 1e3)


def pure(*values: float) -> list[Spend]:
    return [Spend(epsilon=value) for value in values]


def response_delta(values: Sequence[float], epsilon: float) -> float:
    """Exact delta of composed randomised responses, by every pattern of truths and lies."""
    delta = 0.0
    for signs in itertools.product((1, -1), repeat=len(values)):
        loss = math.fsum(sign * value for sign, value in zip(signs, values, strict=True))
        mass = math.prod(
            1 / (1 + math.exp(-sign * value)) for sign, value in zip(signs, values, strict=True)
        )
        delta += mass * max(0.0, -math.expm1(epsilon - loss))
    return delta


def repeated_response_delta(value: float, times: int, epsilon: float) -> float:
    """The same for equal epsilons ([KOV15] Theorem 3.3), by the number of lies."""
    lies = stats.binom(times, 1 / (1 + math.exp(value)))
    gains = ((k, -math.expm1(epsilon - (times - 2 * k) * value)) for k in range(times + 1))
    return math.fsum(float(lies.pmf(k)) * gain for k, gain in gains if gain > 0)


def gaussian_delta(rho: float, epsilon: float) -> float:
    """Exact delta of the Gaussian mechanism with this rho (Balle and Wang 2018, Theorem 8)."""
    shift = math.sqrt(2 * rho)  # sensitivity over standard deviation
    upper = stats.norm.cdf(shift / 2 - epsilon / shift)
    log_lower = epsilon + stats.norm.logcdf(-shift / 2 - epsilon / shift)
    return float(upper - math.exp(log_lower))


# --- Pure and (epsilon, delta) spends


@settings(max_examples=60, deadline=None)
@given(SMALL_LISTS, deltas())
def test_no_accountant_gets_further_below_the_sum_than_is_possible(
    values: list[float], delta: float
) -> None:
    spends, total = pure(*values), math.fsum(values)
    gain = total - accounting._accountant_epsilon(spends, delta)
    most = accounting._most_gain(spends, delta)
    assert gain <= most + 1e-9
    alone = values[0] - accounting._most_gain(spends[:1], delta)
    if alone >= 0:  # of one release the bound is reached, by randomised response
        assert response_delta(values[:1], alone) == pytest.approx(delta, rel=1e-6)


@settings(deadline=None)
@given(SMALL_LISTS)
def test_without_delta_the_total_is_the_decimal_sum(values: list[float]) -> None:
    total = composed_epsilon(pure(*values), 0.0)
    assert Decimal(str(total)) >= sum(Decimal(str(value)) for value in values)
    assert total <= math.fsum(values) * (1 + 1e-15)


@settings(max_examples=60, deadline=None)
@given(SMALL_LISTS, deltas())
def test_pure_spends_compose_optimally(values: list[float], delta: float) -> None:
    total = composed_epsilon(pure(*values), delta)
    assert total <= math.fsum(values) * FLOAT
    assert response_delta(values, total) <= delta * FLOAT
    below = total - GRID * (len(values) + 1)
    assert below < 0 or response_delta(values, below) >= delta  # nothing much smaller is true


@pytest.mark.parametrize("times", [30, 40, 50])
def test_the_error_of_convolutions_is_on_the_safe_side(times: int) -> None:
    """Losses lie on the grid, so nothing else is rounded. The error is a hundredth of the delta."""
    value, delta = 2500 * accounting.PLD_GRID, accounting.PLD_MIN_DELTA
    total = composed_epsilon(pure(*[value] * times), delta)
    assert total < times * value
    assert repeated_response_delta(value, times, total) <= delta * FLOAT


@settings(max_examples=30, deadline=None)
@given(SMALL_LISTS, deltas(), deltas())
def test_approximate_spends_compose_optimally(
    values: list[float], each: float, delta: float
) -> None:
    each /= 2 * len(values)
    spends = [Spend(epsilon=value, delta=each) for value in values]
    total = composed_epsilon(spends, delta)
    kept = (1 - each) ** len(values)  # [KOV15]: with the rest of the mass everything is lost
    if 1 - kept > delta:
        assert total == math.inf
    else:
        assert 1 - kept * (1 - response_delta(values, total)) <= delta * FLOAT
        below = total - GRID * (len(values) + 1)
        assert below < 0 or 1 - kept * (1 - response_delta(values, below)) >= delta * (1 - 1e-3)


@pytest.mark.parametrize(("value", "times"), [(0.1, 365), (0.5, 100), (1.0, 300), (2.0, 29)])
@pytest.mark.parametrize("delta", [1e-10, 1e-6, 1e-3])
def test_a_year_of_nights(value: float, times: int, delta: float) -> None:
    total = composed_epsilon(pure(*[value] * times), delta)
    assert repeated_response_delta(value, times, total) <= delta * FLOAT
    assert repeated_response_delta(value, times, 0.99 * total) > delta  # within 1 % of the optimum


def test_repeated_and_listed_responses_agree() -> None:
    for epsilon in (0.0, 0.3, 1.0, 2.2):
        expected = response_delta([0.6] * 5, epsilon)
        assert repeated_response_delta(0.6, 5, epsilon) == pytest.approx(expected, rel=1e-9)


def test_deltas_that_use_up_the_total() -> None:
    assert composed_epsilon([Spend(epsilon=1.0, delta=1e-7)] * 10, 1e-6) <= 10.0
    assert composed_epsilon([Spend(epsilon=1.0, delta=1e-7)] * 11, 1e-6) == math.inf
    assert composed_epsilon([Spend(epsilon=1.0, delta=1e-7)], 0.0) == math.inf


def test_totals_beyond_the_grid_of_losses_are_still_bounded() -> None:
    assert composed_epsilon(pure(400.0, 400.0), 1e-6) == 800.0
    # By RDP; the sum of losses passes its mean, e tanh(e / 2) for each, half of the time.
    assert 800 * math.tanh(1.0) < composed_epsilon(pure(*[2.0] * 400), 1e-6) < 0.95 * 800
    assert composed_epsilon(pure(*[0.1] * 100), 1e-12) < 0.9 * 10  # delta too small for the grid


# --- Gaussian spends


@settings(deadline=None)
@given(RHOS, deltas())
def test_zero_concentration_converts_between_the_gaussian_and_the_closed_form(
    rho: float, delta: float
) -> None:
    epsilon = epsilon_of(Spend(rho=rho), delta)
    assert epsilon <= rho + 2 * math.sqrt(rho * math.log(1 / delta))  # [BS16] Proposition 1.3
    assert gaussian_delta(rho, epsilon) <= delta * FLOAT  # which has this very rho


@settings(deadline=None)
@given(st.lists(RHOS, min_size=1, max_size=5), deltas())
def test_rhos_add_up(rhos: list[float], delta: float) -> None:
    together = composed_epsilon([Spend(rho=rho) for rho in rhos], delta)
    total = math.fsum(rhos)
    assert gaussian_delta(total, together) <= delta * FLOAT  # as one Gaussian mechanism
    assert together <= total + 2 * math.sqrt(total * math.log(1 / delta))


@settings(deadline=None)
@given(st.lists(st.floats(1e-6, 0.1), min_size=1, max_size=5), deltas(), st.integers(20, 10**6))
def test_gaussian_noise_composes_nearly_as_one_gaussian_mechanism(
    rhos: list[float], delta: float, l2_squared: int
) -> None:
    spends = [Spend(rho=rho, l2_squared=l2_squared) for rho in rhos]
    total = composed_epsilon(spends, delta)
    assert gaussian_delta(math.fsum(rhos), total) <= delta * FLOAT
    below = 0.99 * total - 1e-9
    assert below < 0 or gaussian_delta(math.fsum(rhos), below) > delta


@settings(deadline=None)
@given(epsilons(most=3.0), st.floats(1e-4, 2.0), deltas())
def test_pure_and_concentrated_spends_together(value: float, rho: float, delta: float) -> None:
    total = composed_epsilon([Spend(epsilon=value), Spend(rho=rho)], delta)
    truth = 1 / (1 + math.exp(-value))
    exact = truth * gaussian_delta(rho, total - value)
    exact += (1 - truth) * gaussian_delta(rho, total + value)
    assert exact <= delta * FLOAT
    assert total <= value + epsilon_of(Spend(rho=rho), delta) + 1e-9


def test_all_three_kinds_share_the_delta() -> None:
    spends = [Spend(epsilon=1.0, delta=1e-7), Spend(epsilon=0.5), Spend(rho=0.1)]
    expected = 1.5 + epsilon_of(Spend(rho=0.1), 9e-7)
    assert composed_epsilon(spends, 1e-6) == pytest.approx(expected, rel=1e-12)
    assert composed_epsilon(spends, 1e-7) == math.inf  # nothing is left to convert rho


@pytest.mark.parametrize("rho", [0.01, math.inf])
def test_concentrated_spends_need_a_delta(rho: float) -> None:
    assert epsilon_of(Spend(rho=rho), 0.0) == math.inf
    assert composed_epsilon([Spend(rho=rho)] * 2, 0.0) == math.inf


@pytest.mark.parametrize("unbounded", [Spend(rho=math.inf), Spend(epsilon=math.inf)])
def test_a_release_without_privacy_has_no_total(unbounded: Spend) -> None:
    assert epsilon_of(unbounded, 1e-6) == math.inf
    assert composed_epsilon([unbounded, Spend(epsilon=1.0)], 1e-6) == math.inf
    assert composed_epsilon([unbounded, Spend(rho=0.1)], 1e-6) == math.inf


@settings(deadline=None)
@given(st.floats(0.01, 10.0), deltas())
def test_rho_for_inverts_the_conversion(epsilon: float, delta: float) -> None:
    rho = rho_for(epsilon, delta)
    assert epsilon_of(Spend(rho=rho), delta) <= epsilon
    assert epsilon_of(Spend(rho=rho * (1 + 1e-8)), delta) > epsilon


def test_rho_may_exceed_epsilon_at_a_large_delta() -> None:
    assert rho_for(1.0, 0.9) > 1.0


def test_the_orders_of_divergence_suit_the_accountant() -> None:
    assert min(RDP_ORDERS) > 1.01  # dp-accounting converts nothing below


# --- Monotonicity


@settings(max_examples=40, deadline=None)
@given(SMALL_LISTS, epsilons(most=3.0), deltas())
def test_one_more_spend_never_lowers_the_total(
    values: list[float], extra: float, delta: float
) -> None:
    spends = pure(*values)
    more = composed_epsilon([*spends, Spend(epsilon=extra)], delta)
    # Of the shorter list the accountant may not have been asked; of the longer it gained more.
    assert more * FLOAT + 3 * GRID >= composed_epsilon(spends, delta)


@settings(max_examples=40, deadline=None)
@given(SMALL_LISTS, st.lists(RHOS, max_size=3), deltas(), st.floats(1, 9))
def test_a_larger_delta_never_raises_the_total(
    values: list[float], rhos: list[float], delta: float, factor: float
) -> None:
    spends = pure(*values) + [Spend(rho=rho) for rho in rhos]
    assert composed_epsilon(spends, factor * delta) <= composed_epsilon(spends, delta) * FLOAT


@settings(deadline=None)
@given(st.permutations([*pure(0.1, 0.3, 0.3, 1.0), Spend(epsilon=0.2, delta=1e-8)]))
def test_the_order_of_the_spends_does_not_matter(spends: list[Spend]) -> None:
    assert composed_epsilon(spends, 1e-6) == pytest.approx(
        composed_epsilon(spends[::-1], 1e-6), rel=1e-9
    )


@pytest.mark.parametrize(
    ("epsilon", "delta", "saved"), [(1.0, 1e-4, 0.09), (4.0, 1e-4, 0.07), (1.0, 1e-6, 0.065)]
)
def test_gaussian_noise_is_less_than_zcdp_asks_for(
    epsilon: float, delta: float, saved: float
) -> None:
    low, high = 0.0, 10.0  # of rho, by the best conversion of zCDP
    while high - low > 1e-9:
        middle = (low + high) / 2
        if accounting._rdp([Spend(rho=middle)]).get_epsilon(delta) <= epsilon:
            low = middle
        else:
            high = middle
    rho = rho_for(epsilon, delta, l2_squared=50)
    assert 1 - math.sqrt(low / rho) > saved  # of the standard deviation
    assert gaussian_delta(rho, epsilon) <= delta
    # Where noise is so small that the theorem gives nothing, zCDP still does.
    assert rho_for(8.0, 1e-6, l2_squared=1) == pytest.approx(1.0521, rel=1e-4)


# --- Spends


@settings(deadline=None)
@given(privacy_params(), st.integers(1, 10**6))
def test_a_release_costs_what_its_noise_was_made_for(
    params: PrivacyParams, l2_squared: int
) -> None:
    spend = spend_of(params, l2_squared)
    if params.noise is NoiseKind.LAPLACE:
        assert spend == Spend(epsilon=params.epsilon)
    elif params.rho is not None:
        assert spend == Spend(rho=params.rho, l2_squared=l2_squared)
    else:
        assert epsilon_of(spend, params.delta) <= params.epsilon


def test_only_gaussian_noise_has_a_rho() -> None:
    params = PrivacyParams(unit=Unit.USER, adjacency=Adjacency.ADD_REMOVE, epsilon=1.0)
    with pytest.raises(ValueError, match="only noise: gaussian has a rho"):
        rho_of(params, 1)


@pytest.mark.parametrize("noise", [{"delta": 1e-6}, {}])
def test_no_privacy_costs_an_infinite_rho(noise: dict[str, Any]) -> None:
    params = PrivacyParams(
        unit=Unit.USER,
        adjacency=Adjacency.ADD_REMOVE,
        epsilon=math.inf,
        noise=NoiseKind.GAUSSIAN,
        **noise,
    )
    assert spend_of(params, 1) == Spend(rho=math.inf)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"epsilon": -0.1}, "a spend needs epsilon >= 0 and 0 <= delta < 1, got Spend("),
        ({"epsilon": math.nan}, "a spend needs epsilon >= 0 and 0 <= delta < 1, got Spend("),
        ({"delta": 1.0}, "a spend needs epsilon >= 0 and 0 <= delta < 1, got Spend("),
        ({"delta": math.nan}, "a spend needs epsilon >= 0 and 0 <= delta < 1, got Spend("),
        ({"rho": -1.0}, "a spend needs rho >= 0, got Spend("),
        ({"rho": math.nan}, "a spend needs rho >= 0, got Spend("),
        ({"rho": 1.0, "l2_squared": 0}, "a spend needs l2_squared >= 1, got Spend("),
        ({"rho": 1.0, "epsilon": 1.0}, "a spend is either rho or (epsilon, delta), got Spend("),
        ({"rho": 1.0, "delta": 1e-6}, "a spend is either rho or (epsilon, delta), got Spend("),
    ],
)
def test_an_impossible_spend_is_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        Spend(**fields)


@pytest.mark.parametrize(
    "spend", [Spend(epsilon=0.1), Spend(rho=0.2, l2_squared=7), Spend(epsilon=1, delta=0.1)]
)
def test_a_spend_survives_its_fields(spend: Spend) -> None:
    assert Spend(**spend.to_dict()) == spend


@pytest.mark.parametrize("delta", [-1e-9, 1.0, math.nan])
def test_delta_is_checked(delta: float) -> None:
    for call in (
        lambda: composed_epsilon([], delta),
        lambda: epsilon_of(Spend(), delta),
    ):
        with pytest.raises(ValueError, match="delta must be at least 0 and below 1, got"):
            call()


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(0.0, 0.1), (math.inf, 0.1), (math.nan, 0.1), (1.0, 0.0), (1.0, 1.0)]
)
def test_rho_for_needs_a_finite_target(epsilon: float, delta: float) -> None:
    with pytest.raises(ValueError, match="need a finite epsilon > 0 and 0 < delta < 1, got"):
        rho_for(epsilon, delta)
