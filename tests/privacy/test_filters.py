"""Totals hold for an analyst who chooses each cost in view of all earlier results.

The worst such analyst is computed: at each state, costs so far and privacy loss so far, he takes
whatever raises delta most. Totals for fixed costs let him get beyond delta, and filters do not.
"""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from functools import lru_cache

import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.privacy_accountant import NeighboringRelation
from dp_accounting.rdp import RdpAccountant
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from hushrank.privacy.accounting import Spend, composed_epsilon, epsilon_of, spend_of
from hushrank.privacy.filters import (
    RENYI_ORDERS,
    RENYI_SHARE,
    SUM_SHARE,
    Rule,
    adaptive_total,
    charge_of,
    epsilon_of_renyi,
    even_share,
    fits,
    remaining_epsilon,
    renyi_divergence,
)
from hushrank.privacy.gaussian_profile import shift_of
from hushrank.privacy.units import Adjacency, NoiseKind, PrivacyParams, Unit
from tests.strategies import deltas, epsilons

UNIT = 0.1  # of costs and losses, so that losses lie on a lattice
MANY = 10**6  # squared sensitivity so large that discrete Gaussian noise is as good as continuous
GRID = 1e-4  # every composed epsilon may be rounded up by this much

History = tuple[int, ...]  # costs in units: the first, then the others in ascending order


def pure(*values: float) -> list[Spend]:
    return [Spend(epsilon=value) for value in values]


def spends_of(history: History) -> list[Spend]:
    return pure(*(round(cost * UNIT, 9) for cost in history))


# --- The worst analyst


def worst_delta(
    costs: tuple[int, ...], epsilon: float, is_allowed: Callable[[History], bool]
) -> float:
    """The largest delta, at `epsilon`, of any strategy of randomised responses inside a rule."""
    allowed = lru_cache(None)(is_allowed)

    @lru_cache(None)
    def worst(history: History, loss: int) -> float:
        best = max(0.0, -math.expm1(epsilon - loss * UNIT))
        for cost in costs:
            longer = (*history[:1], *sorted((*history[1:], cost)))
            if len(longer) <= 14 and allowed(longer):
                truth = 1 / (1 + math.exp(-cost * UNIT))
                told = truth * worst(longer, loss + cost)
                best = max(best, told + (1 - truth) * worst(longer, loss - cost))
        return best

    return worst((), 0)


def fixed_delta(history: History, epsilon: float) -> float:
    """Exact delta of these costs, if they were fixed before."""
    law = {0: 1.0}
    for cost in history:
        truth, after = 1 / (1 + math.exp(-cost * UNIT)), dict[int, float]()
        for loss, chance in law.items():
            for moved, share in ((cost, truth), (-cost, 1 - truth)):
                after[loss + moved] = after.get(loss + moved, 0.0) + chance * share
        law = after
    gains = (chance * -math.expm1(epsilon - loss * UNIT) for loss, chance in law.items())
    return math.fsum(gain for gain in gains if gain > 0)


@pytest.mark.parametrize(
    ("costs", "epsilon", "delta", "beyond"),
    [
        ((1, 2, 4), 1.0, 1e-2, 1.7),
        ((1, 2, 3), 0.6, 1e-2, 1.4),
        ((1, 2), 0.7, 1e-2, 1.1),
        ((1, 3), 1.0, 3e-2, 1.0),
    ],
)
def test_no_strategy_gets_beyond_delta_as_it_does_under_totals_of_fixed_costs(
    costs: tuple[int, ...], epsilon: float, delta: float, beyond: float
) -> None:
    by_fixed = worst_delta(costs, epsilon, lambda each: fixed_delta(each, epsilon) <= delta)
    assert by_fixed > beyond * delta
    found = worst_delta(
        costs,
        epsilon,
        lambda each: fits(spends_of(each[:-1]), *spends_of(each[-1:]), epsilon, delta),
    )
    assert found <= delta


@pytest.mark.parametrize("history", [(1,) * 14, (1, 2, 2, 3), (1, 1, 1, 1, 2, 4)])
def test_the_analyst_s_rule_is_that_of_totals_of_fixed_costs(history: History) -> None:
    total = composed_epsilon(spends_of(history), 1e-2)
    assert fixed_delta(history, total) <= 1e-2 <= fixed_delta(history, total - 2 * GRID)


def gaussian(shift: float) -> Spend:
    return Spend(rho=shift**2 / 2, l2_squared=MANY)


def largest(holds: Callable[[float], bool], high: float = 4.0) -> float:
    low = 0.0
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def delta_after_choice(first: float, cost: float, second: float, epsilon: float) -> float:
    """Exact delta of Gaussian noise of shift `first`, and then what its loss makes the worse: a
    randomised response of `cost`, or Gaussian noise of shift `second`."""
    normal = np.linspace(-12.0, 12.0, 20_001)
    weights = stats.norm.pdf(normal) * (normal[1] - normal[0])
    left = epsilon - (first**2 / 2 + first * normal)
    truth = 1 / (1 + math.exp(-cost))
    gains = [np.maximum(0.0, -np.expm1(left - sign * cost)) for sign in (1, -1)]
    by_response = truth * gains[0] + (1 - truth) * gains[1]
    far = np.exp(left + stats.norm.logcdf(-second / 2 - left / second))
    by_noise = stats.norm.cdf(second / 2 - left / second) - far
    return float(np.sum(weights * np.maximum(by_response, by_noise)))


@pytest.mark.parametrize(
    ("epsilon", "delta", "share", "beyond"),
    [(1.0, 1e-6, 0.3, 1.6), (2.0, 1e-4, 0.6, 1.5), (2.0, 1e-2, 0.3, 1.5), (0.5, 1e-2, 0.6, 1.0)],
)
def test_the_choice_between_noise_and_response_costs_no_second_delta(
    epsilon: float, delta: float, share: float, beyond: float
) -> None:
    first = largest(lambda shift: epsilon_of(gaussian(shift), delta) <= share * epsilon)

    def fixed(second: Spend) -> bool:
        return composed_epsilon([gaussian(first), second], delta) <= epsilon

    cost = largest(lambda each: fixed(Spend(epsilon=each)))
    second = largest(lambda each: fixed(gaussian(each)))
    assert delta_after_choice(first, cost, second, epsilon) > beyond * delta
    cost = remaining_epsilon([gaussian(first)], epsilon, delta)
    second = largest(lambda each: fits([gaussian(first)], gaussian(each), epsilon, delta))
    found = delta_after_choice(first, cost, second, epsilon)
    assert 0.97 * delta < found <= delta


# --- Totals


COSTS = st.lists(
    st.one_of(
        epsilons(most=2.0).map(lambda each: Spend(epsilon=each)),
        st.floats(1e-5, 0.3).map(lambda each: Spend(rho=each, l2_squared=20)),
    ),
    min_size=1,
    max_size=5,
)


@settings(max_examples=40, deadline=None)
@given(COSTS, deltas())
def test_a_total_is_never_below_that_of_fixed_costs_and_grows(
    spends: list[Spend], delta: float
) -> None:
    total = adaptive_total(spends, delta)
    assert total.epsilon * (1 + 1e-9) + GRID >= composed_epsilon(spends, delta)
    fewer = adaptive_total(spends[:-1], delta)
    assert fewer.epsilon <= total.epsilon * (1 + 1e-9) + GRID
    assert fits(spends[:-1], spends[-1], total.epsilon, delta)
    if 0 < total.epsilon < math.inf:
        assert not fits(spends[:-1], spends[-1], total.epsilon * (1 - 1e-6), delta)


@pytest.mark.parametrize("spend", [Spend(epsilon=0.7), Spend(rho=0.03, l2_squared=9)])
def test_a_single_release_costs_its_own_epsilon(spend: Spend) -> None:
    total = adaptive_total([Spend(), spend], 1e-6)
    assert total.epsilon == epsilon_of(spend, 1e-6)
    assert total.rule is (Rule.SUM if spend.rho is None else Rule.ONE)


@pytest.mark.parametrize("delta", [1e-9, 1e-6])
@pytest.mark.parametrize(
    ("spend", "times", "rule"),
    [
        (Spend(epsilon=0.1), 100, Rule.EQUAL_COSTS),
        (Spend(epsilon=0.1), 31, Rule.EQUAL_COSTS),
        (Spend(rho=0.005, l2_squared=50), 31, Rule.GAUSSIAN),
        (Spend(rho=0.05, l2_squared=2), 10, Rule.GAUSSIAN),
    ],
)
def test_equal_costs_cost_hardly_more_than_if_they_were_fixed(
    spend: Spend, times: int, rule: Rule, delta: float
) -> None:
    total = adaptive_total([spend] * times, delta)
    assert total.rule is rule
    assert total.epsilon <= 1.001 * composed_epsilon([spend] * times, delta)


@pytest.mark.parametrize("noise", list(NoiseKind))
@pytest.mark.parametrize("delta", [1e-9, 1e-6, 1e-3])
@pytest.mark.parametrize("epsilon", [0.5, 3.0, 12.0])
def test_the_nights_of_a_month_fit_as_planned(
    noise: NoiseKind, epsilon: float, delta: float
) -> None:
    share = even_share(noise, 31, epsilon, delta)
    planned = Spend(epsilon=share.epsilon, rho=share.rho, l2_squared=1 if share.rho is None else 8)
    assert fits([planned] * 30, planned, epsilon, delta)
    assert adaptive_total([share] * 31, delta).epsilon > 0.98 * epsilon


def test_pure_and_gaussian_costs_go_by_renyi_divergence() -> None:
    total = adaptive_total([Spend(epsilon=0.2), Spend(rho=0.01)], 1e-6)
    assert (total.rule, total.epsilon) == (Rule.RENYI, pytest.approx(1.02, rel=0.01))
    assert adaptive_total([Spend(epsilon=0.2), Spend(rho=0.01)], 0.0).epsilon == math.inf


def test_the_first_cost_selects_the_rule() -> None:
    small, large = Spend(epsilon=0.19), Spend(epsilon=0.2)
    upwards = adaptive_total([*[small] * 60, large], 1e-6)
    downwards = adaptive_total([large, *[small] * 60], 1e-6)
    assert upwards.rule is not Rule.EQUAL_COSTS
    assert adaptive_total([small] * 60, 1e-6, first=large) == adaptive_total(
        [large, *[small] * 59], 1e-6
    )
    assert downwards.rule is Rule.EQUAL_COSTS
    assert downwards == adaptive_total([large] * 61, 1e-6)
    stopped = adaptive_total([Spend(epsilon=0.17), *[small] * 60], 1e-6, first=small)
    assert stopped == adaptive_total([small] * 61, 1e-6)  # a look counts as one of them


def test_costs_with_a_delta_add_up() -> None:
    costs = [Spend(epsilon=1.0, delta=1e-7)] * 10
    assert adaptive_total(costs, 1e-6) == adaptive_total(pure(*[1.0] * 10), 0.0)
    assert adaptive_total([*costs, *costs[:1]], 1e-6).epsilon == math.inf
    assert adaptive_total([*costs[:1], Spend(rho=0.1)], 1e-6).epsilon == math.inf
    # Beside costs without a delta they have a small part of the limit's.
    part = float(SUM_SHARE) * 1e-6
    later = Spend(epsilon=1.0, delta=part)
    assert adaptive_total([Spend(epsilon=0.5), later], 1e-6).epsilon == 1.5
    more = Spend(epsilon=1.0, delta=part * 1.01)
    assert adaptive_total([Spend(epsilon=0.5), more], 1e-6).epsilon == math.inf
    assert math.isfinite(adaptive_total([Spend(rho=0.01), later], 1e-6).epsilon)


def test_a_small_scale_is_charged_by_its_slack() -> None:
    for rho in (1e-4, 0.01, 0.3):
        assert charge_of(Spend(rho=rho)) == shift_of(rho, 1).squared
    shift = shift_of(1.0, 1)
    assert charge_of(Spend(rho=1.0)) >= shift.slack / 1e-3 > shift.squared
    assert charge_of(Spend(rho=2.0)) == math.inf  # the theorem gives nothing
    assert adaptive_total([Spend(rho=2.0)] * 2, 1e-6).rule is Rule.RENYI


@pytest.mark.parametrize("spend", [Spend(epsilon=0.01), Spend(epsilon=2.0), Spend(rho=0.3)])
def test_renyi_divergences_are_those_of_the_accountant(spend: Spend) -> None:
    accountant = RdpAccountant(RENYI_ORDERS, NeighboringRelation.REPLACE_ONE)
    odds = math.exp(-spend.epsilon)
    event = dp_event.RandomizedResponseDpEvent(2 * odds / (1 + odds), 2)
    accountant.compose(event if spend.rho is None else dp_event.ZCDpEvent(spend.rho))
    found = [renyi_divergence(spend, order) for order in RENYI_ORDERS]
    assert found == pytest.approx(accountant._rdp, rel=1e-6)
    share = float(RENYI_SHARE) * 1e-6
    best = min(map(epsilon_of_renyi, found, RENYI_ORDERS, [share] * len(found)))
    assert best == pytest.approx(accountant.get_epsilon(share), rel=1e-9)


def test_renyi_divergences_keep_their_digits_at_the_ends() -> None:
    for order in RENYI_ORDERS:
        tiny = renyi_divergence(Spend(epsilon=1e-9), order)
        assert tiny == pytest.approx(order * 1e-18 / 2, rel=1e-6)
        assert renyi_divergence(Spend(epsilon=1e4), order) <= 1e4
        edge = 30.0 / order  # where the form of the formula changes
        below, above = (renyi_divergence(Spend(epsilon=edge * x), order) for x in (1, 1 + 1e-9))
        assert above == pytest.approx(below, rel=1e-8)


@pytest.mark.parametrize("delta", [-1e-9, 1.0, math.nan])
def test_delta_is_checked(delta: float) -> None:
    for call in (
        lambda: adaptive_total([], delta),
        lambda: fits([], Spend(), 1.0, delta),
        lambda: remaining_epsilon([], 1.0, delta),
    ):
        with pytest.raises(ValueError, match="delta must be at least 0 and below 1, got"):
            call()


def test_the_first_releases_of_a_ledger_need_no_accountant() -> None:
    """It takes a second to load, which is the most of a small run."""
    command = (
        "import sys; from hushrank.privacy.accounting import *; "
        "from hushrank.privacy.filters import *\n"
        "spends = [Spend(epsilon=2.0)] * 3\n"
        "assert fits(spends, Spend(epsilon=2.0), 10.0, 1e-6)\n"
        "assert not fits(spends, Spend(epsilon=4.1), 10.0, 1e-6)\n"
        "assert composed_epsilon(spends, 1e-6) == 6.0\n"
        "assert remaining_epsilon(spends, 10.0, 1e-6) == 4.0\n"
        "assert 'dp_accounting' not in sys.modules\n"
        "assert composed_epsilon([Spend(epsilon=0.1)] * 100, 1e-6) < 10.0\n"
        "assert 'dp_accounting' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", command], check=True)


# --- What fits into a total


def test_a_budget_of_decimals_is_used_up_exactly() -> None:
    spends = pure(*[0.1] * 9)
    assert sum(spend.epsilon for spend in [*spends, *pure(0.1, 0.1)]) > 1.0
    assert fits(spends, Spend(epsilon=0.1), 1.0, 0.0)
    assert remaining_epsilon(spends, 1.0, 0.0) == 0.1
    assert remaining_epsilon(pure(*[0.1] * 10), 1.0, 0.0) == 0.0
    assert fits(pure(0.1), Spend(epsilon=0.2), 0.3, 0.0)


@pytest.mark.parametrize("too_much", [0.1000000001, 0.11, 1.0, math.inf])
def test_more_than_the_total_is_refused(too_much: float) -> None:
    assert not fits(pure(*[0.1] * 9), Spend(epsilon=too_much), 1.0, 0.0)


def test_rounding_never_loses_budget_at_a_small_delta() -> None:
    assert adaptive_total(pure(*[2.0] * 5), 1e-6).epsilon <= 10.0
    assert remaining_epsilon(pure(*[2.0] * 4), 10.0, 1e-6) >= 2.0
    assert fits(pure(*[2.0] * 4), Spend(epsilon=2.0), 10.0, 1e-6)
    assert not fits(pure(*[2.0] * 5), Spend(epsilon=0.01), 10.0, 1e-6)


def test_a_concentrated_spend_fits_where_it_was_calibrated() -> None:
    params = PrivacyParams(
        unit=Unit.USER,
        adjacency=Adjacency.REPLACE_ONE,
        epsilon=0.7,
        delta=1e-6,
        noise=NoiseKind.GAUSSIAN,
    )
    for l2_squared in (1, 26, 1000):
        spend = spend_of(params, l2_squared)
        assert fits([], spend, 0.7, 1e-6)
        assert not fits([], spend, 0.699, 1e-6)
        assert not fits([], spend, 0.7, 1e-7)
        assert spend.rho is not None
        assert not fits([], Spend(rho=spend.rho * 1.001, l2_squared=l2_squared), 0.7, 1e-6)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(epsilons(most=1.0), max_size=4),
    st.lists(st.floats(1e-4, 0.1), max_size=2),
    st.sampled_from([0.0, 1e-9, 1e-6, 1e-2]),
    epsilons(most=5.0),
)
def test_what_remains_fits_and_is_at_least_the_difference(
    values: list[float], rhos: list[float], delta: float, epsilon: float
) -> None:
    spends = pure(*values) + [Spend(rho=rho) for rho in rhos]
    remaining = remaining_epsilon(spends, epsilon, delta)
    assert 0 <= remaining <= epsilon
    assert remaining == 0 or fits(spends, Spend(epsilon=remaining), epsilon, delta)
    if not rhos:
        left = Decimal(str(epsilon)) - sum(Decimal(str(value)) for value in values)
        assert Decimal(str(math.nextafter(remaining, math.inf))) > left


@pytest.mark.parametrize(
    "spends",
    [
        pure(*[0.1] * 100),
        pure(*[0.05 + 0.001 * night for night in range(50)]),
        [Spend(rho=0.01)] * 20,
        pure(*[0.1] * 20) + [Spend(rho=0.01)] * 10,
    ],
    ids=["equal", "different", "concentrated", "mixed"],
)
def test_remaining_is_close_to_the_largest_that_fits(spends: list[Spend]) -> None:
    remaining = remaining_epsilon(spends, 12.0, 1e-6)
    assert fits(spends, Spend(epsilon=remaining), 12.0, 1e-6)
    assert not fits(spends, Spend(epsilon=remaining + 2e-3 * 12.0), 12.0, 1e-6)


def test_many_small_spends_leave_more_than_the_difference() -> None:
    assert remaining_epsilon(pure(*[0.1] * 100), 12.0, 1e-6) > 2 * (12.0 - 10.0)


def test_an_overspent_ledger_has_nothing_left() -> None:
    assert remaining_epsilon(pure(2.0, 2.0), 3.0, 1e-6) == 0.0
    assert remaining_epsilon([Spend(rho=1.0)], 3.0, 0.0) == 0.0
    assert remaining_epsilon([], 3.0, 0.0) == 3.0
