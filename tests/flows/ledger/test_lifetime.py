"""The loss over all periods of a budget that renews: told everywhere, and stopped by a limit."""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import date, timedelta
from pathlib import Path

import pytest

from hushrank.flows.display import balance_text
from hushrank.flows.errors import BudgetRefused
from hushrank.flows.ledger.entries import StreamSpan
from hushrank.flows.ledger.forecast import (
    demand_by_day,
    forecast,
    forecast_of_stream,
    forecast_text,
    yearly_text,
)
from hushrank.flows.ledger.ledger import Ledger
from hushrank.flows.ledger.streams import NightToPay, check_night, reserve_night
from hushrank.flows.ledger.texts import since_first_text
from tests.ledgers import NOW, pure, release, terms_of

DAY = timedelta(days=1)
OLD_LEDGER = Path(__file__).with_name("ledger_before_keys.jsonl")
OLD_TOTAL = "epsilon 3.00 by 2 releases"
DAILY = {"refresh": "daily", "epsilon": 2.0}


def daily(path, clock, **changes) -> Ledger:
    return Ledger(path, terms_of(**{**DAILY, **changes}), clock=clock, operator="anna")


def spent_on(ledger, clock, *epsilons: float) -> None:
    """One release a day, from the present day on; the clock stays on the day of the last one."""
    for number, epsilon in enumerate(epsilons):
        clock.now = NOW + number * DAY
        release(ledger, f"day-{number}", epsilon)


def test_the_balance_has_the_total_over_all_periods(path, clock):
    ledger = daily(path, clock)
    spent_on(ledger, clock, 1.0, 1.1, 1.2)
    balance = ledger.balance()
    assert (balance.spent_epsilon, balance.releases) == (1.2, 1)
    assert (balance.lifetime.spent_epsilon, balance.lifetime.releases) == (3.3, 3)
    assert since_first_text(balance) == "epsilon 3.30 by 3 releases"
    assert balance_text(balance, clock.now.date()) == (
        "campus-choice has epsilon 0.80 left of 2.00 until 24 November."
        " Since the first release: epsilon 3.30 by 3 releases."
    )


def test_a_budget_that_never_renews_has_one_number(path, clock):
    ledger = daily(path, clock, refresh=None)
    release(ledger, "one", 1.0)
    assert ledger.balance().lifetime is None
    assert since_first_text(ledger.balance()) == ""
    assert yearly_text(ledger.terms, NOW.date()) == ""


def test_a_limit_over_all_periods_is_a_hard_stop(path, clock):
    ledger = daily(path, clock, lifetime_epsilon=3.0)
    spent_on(ledger, clock, 1.0, 1.1)
    clock.now += DAY
    before = path.read_bytes()
    assert ledger.balance().remaining_epsilon == 0.9  # of the period, 2.0 are left
    assert since_first_text(ledger.balance()) == "epsilon 2.10 of 3.00 by 2 releases"
    for ask in (
        lambda: ledger.check(pure(1.0)),
        lambda: ledger.reserve("day-2", pure(1.0)),
        lambda: ledger.reserve("day-1", pure(1.0), noise_lost=True),  # what is lost costs again
    ):
        with pytest.raises(BudgetRefused) as refused:
            ask()
        assert str(refused.value) == (
            "Budget: this run would bring all releases of campus-choice since the first one to"
            " epsilon 3.10, and ledger.lifetime_epsilon allows epsilon 3.00 at delta 0 over all"
            " periods; epsilon 0.90 of it is left, and it does not renew. Ask for less, or raise"
            " ledger.lifetime_epsilon, which permanently allows more loss. Nothing was read or"
            " spent."
        )
    assert path.read_bytes() == before
    release(ledger, "day-2", 0.9)
    clock.now += 400 * DAY - timedelta(hours=1)
    with pytest.raises(BudgetRefused, match=r"epsilon 0\.00 of it is left"):
        ledger.reserve("later", pure(0.1))


def test_what_is_given_back_leaves_the_total_of_all_periods(path, clock):
    ledger = daily(path, clock, lifetime_epsilon=3.0)
    spent_on(ledger, clock, 2.0)
    clock.now += DAY
    ledger.reserve("dead", pure(1.0))
    with pytest.raises(BudgetRefused, match="Reserved, but never drawn: dead"):
        ledger.reserve("more", pure(1.0))
    ledger.cancel("dead")
    ledger.reserve("more", pure(1.0))


def test_a_stream_stops_at_the_limit_too(path, clock):
    ledger = daily(path, clock, epsilon=6.0, lifetime_epsilon=7.0)
    spent_on(ledger, clock, 2.0)
    clock.now += DAY
    span = StreamSpan(nights=3, first=clock.now.date())
    for cost, allowed in ((6.0, False), (5.0, True)):
        wanted = NightToPay(
            stream_id=f"stream-{cost:g}", span=span, night=span.first, spend=pure(cost)
        )
        found = forecast_of_stream(
            ledger.terms,
            ledger.costs().spends,
            pure(cost),
            span,
            None,
            ever=ledger.costs(ever=True),
        )
        assert found.fits is allowed
        if allowed:
            check_night(ledger, wanted)
            reserve_night(ledger, "night-1", wanted)
            continue
        for ask in (check_night, lambda ledger, wanted: reserve_night(ledger, "night-1", wanted)):
            with pytest.raises(BudgetRefused, match=r"ledger.lifetime_epsilon allows epsilon 7.00"):
                ask(ledger, wanted)


def test_a_forecast_ends_with_the_limit(path, clock):
    ledger = daily(path, clock, refresh="monthly", epsilon=10.0, lifetime_epsilon=12.0)
    release(ledger, "november", 9.0)
    clock.now += 15 * DAY
    found = forecast(
        ledger.terms,
        ledger.costs().spends,
        pure(1.0),
        demand=demand_by_day(clock.now, 0, date(2027, 1, 1)),
        renews_on=date(2027, 1, 1),
        ever=ledger.costs(ever=True),
    )
    assert (found.nights_left, found.is_for_good) == (3, True)
    assert forecast_text("zoo", "epsilon 1.00", found).startswith(
        "zoo: 3 more nights at epsilon 1.00 each fit into the budget"
        " (ledger.lifetime_epsilon, which does not renew). With one a day it runs out on"
    )


def test_the_alert_of_a_used_up_budget_knows_the_limit(path, clock):
    ledger = daily(path, clock, alerts=(1.0,), lifetime_epsilon=3.0)
    spent_on(ledger, clock, 1.0, 1.0)
    assert ledger.alert() == ()
    clock.now += DAY
    release(ledger, "day-2", 1.0)
    assert ledger.alert() == (1.0,)
    assert ledger.balance().alert == 1.0


def test_the_limit_is_a_recorded_term_and_lines_without_it_are_as_before(path, clock):
    release(daily(path, clock), "one", 1.0)
    assert b"lifetime_epsilon" not in path.read_bytes()
    release(daily(path, clock, lifetime_epsilon=3.0), "two", 0.5)
    release(daily(path, clock, lifetime_epsilon=3.0), "three", 0.1)
    release(daily(path, clock, lifetime_epsilon=4.0), "four", 0.1)
    release(daily(path, clock), "five", 0.1)
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    terms = [each for each in lines if each["event"] == "terms"]
    assert [each.get("lifetime_epsilon") for each in terms] == [3.0, 4.0, None]
    notes = [row.note for row in daily(path, clock).history() if row.state == "terms"]
    assert notes == [
        "epsilon 2, delta 0, daily",
        "epsilon 2, delta 0, daily, epsilon 3 over all periods",
        "epsilon 2, delta 0, daily, epsilon 4 over all periods",
        "epsilon 2, delta 0, daily",
    ]


@pytest.mark.parametrize("limit", [1.9, 0.0, float("nan"), float("inf")])
def test_a_limit_below_the_total_of_a_period_is_no_limit(limit):
    with pytest.raises(ValueError, match="lifetime_epsilon must be finite and >= epsilon"):
        terms_of(**DAILY, lifetime_epsilon=limit)


@pytest.mark.parametrize(
    ("refresh", "today", "added"),
    [
        ("daily", date(2026, 11, 21), "In 2026 its 365 days add up to epsilon 730.00"),
        ("daily", date(2028, 1, 1), "In 2028 its 366 days add up to epsilon 732.00"),
        ("weekly", date(2026, 12, 31), "In 2026 its 53 weeks add up to epsilon 106.00"),
        ("weekly", date(2040, 6, 1), "In 2040 its 54 weeks add up to epsilon 108.00"),
        ("monthly", date(2026, 11, 21), "In 2026 its 12 months add up to epsilon 24.00"),
        ("yearly", date(2026, 11, 21), "In 2026 its 1 year adds up to epsilon 2.00"),
    ],
)
def test_the_worst_year_of_a_budget_that_renews(refresh, today, added):
    terms = terms_of(epsilon=2.0, refresh=refresh)
    assert yearly_text(terms, today) == (
        "campus-choice: this budget renews, so the losses of the same people add up."
        f" {added} (the plain sum). To limit the total over all periods, set for"
        " example ledger.lifetime_epsilon: 20"
    )


def test_the_worst_year_knows_delta_and_limit():
    terms = terms_of(epsilon=0.1, delta=1e-6, refresh="monthly", lifetime_epsilon=0.5)
    assert yearly_text(terms, NOW.date()).endswith(
        "In 2026 its 12 months add up to epsilon 1.20 (the plain sum) at delta 1.2e-05;"
        " ledger.lifetime_epsilon limits the total to 0.50."
    )


def test_a_year_allows_no_more_than_is_said(path, clock):
    """A ledger of weeks takes a full release in each of the 53 weeks that 2026 has days of."""
    ledger = daily(path, clock, refresh="weekly")
    count = 0
    for day in range(365):
        clock.now = NOW.replace(month=1, day=1) + day * DAY
        with suppress(BudgetRefused):
            ledger.reserve(f"day-{day}", pure(2.0))
            ledger.mark_drawn(f"day-{day}")
            count += 1
    assert count == 53
    assert ledger.balance().lifetime.spent_epsilon == 106.0


def test_a_ledger_of_before_tells_what_is_known_of_it(path, clock):
    """It has no limit, its lines stay as they are, and its total of all periods is told."""
    path.write_bytes(OLD_LEDGER.read_bytes())
    Path(f"{path}.length").write_text(f"{path.stat().st_size}\n")
    ledger = Ledger(path, terms_of(), clock=clock, operator="anna")
    assert since_first_text(ledger.balance()) == OLD_TOTAL
    clock.now += 60 * DAY
    assert ledger.balance().spent_epsilon == 0.0
    assert since_first_text(ledger.balance()) == OLD_TOTAL
    ledger.check(pure(10.0))
    assert "over all periods" not in str(ledger.history())
    assert path.read_bytes() == OLD_LEDGER.read_bytes()
