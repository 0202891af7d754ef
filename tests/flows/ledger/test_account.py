"""In which period a release counts, and what a wrong clock can and cannot do."""

import json
from datetime import UTC, date, datetime, timedelta

import pytest

from hushrank.flows.errors import BudgetRefused, LedgerError
from hushrank.flows.ledger.ledger import Ledger
from hushrank.flows.ledger.rules import MAX_CLOCK_LAG
from tests.ledgers import NOW, Clock, pure, release, terms_of


def refusal(call, *arguments, **options) -> str:
    with pytest.raises((LedgerError, BudgetRefused)) as caught:
        call(*arguments, **options)
    return str(caught.value)


@pytest.mark.parametrize(
    ("refresh", "renews"),
    [
        ("daily", datetime(2026, 11, 22, tzinfo=UTC)),
        ("weekly", datetime(2026, 11, 23, tzinfo=UTC)),
        ("monthly", datetime(2026, 12, 1, tzinfo=UTC)),
        ("yearly", datetime(2027, 1, 1, tzinfo=UTC)),
    ],
)
def test_budget_renews_at_the_boundary_and_not_a_moment_before(path, clock, refresh, renews):
    ledger = Ledger(path, terms_of(refresh=refresh), clock=clock)
    release(ledger, "a", 10)
    assert ledger.balance().renews_on == renews.date()
    clock.now = renews - timedelta(microseconds=1)
    with pytest.raises(BudgetRefused):
        ledger.reserve("b", pure(1))
    clock.now = renews
    ledger.reserve("b", pure(10))


def test_the_day_of_renewal_names_another_year(path):
    clock = Clock(datetime(2026, 12, 31, 23, tzinfo=UTC))
    ledger = Ledger(path, terms_of(), clock=clock)
    assert "left until 1 January 2027." in refusal(ledger.reserve, "a", pure(11))


def test_a_reservation_that_crosses_the_boundary_counts_on_both_sides(ledger, clock):
    clock.now = datetime(2026, 11, 30, 23, 59, 59, tzinfo=UTC)
    ledger.reserve("a", pure(6))
    clock.now = datetime(2026, 12, 1, tzinfo=UTC)
    assert ledger.balance().spent_epsilon == 6
    ledger.mark_drawn("a")
    assert ledger.balance().spent_epsilon == 6
    with pytest.raises(BudgetRefused):
        ledger.reserve("b", pure(5))
    clock.now = datetime(2027, 1, 1, tzinfo=UTC)
    assert ledger.balance().spent_epsilon == 0


def test_a_reservation_that_was_never_drawn_counts_until_it_is_cancelled(ledger, clock):
    ledger.reserve("a", pure(6))
    clock.now += timedelta(days=400)
    assert ledger.balance().spent_epsilon == 6
    assert ledger.reserve("a", pure(6)).repeated
    ledger.cancel("a")
    assert ledger.balance().spent_epsilon == 0


def test_a_clock_set_back_reopens_nothing(ledger, clock):
    release(ledger, "october", 1)
    clock.now = datetime(2026, 12, 2, tzinfo=UTC)
    release(ledger, "december", 10)
    clock.now = NOW
    assert ledger.balance().remaining_epsilon == 0
    assert ledger.balance().renews_on == date(2027, 1, 1)
    expected = (
        ": the last entry is dated 2026-12-02 00:00 UTC, but this machine's clock says 2026-11-21"
        " 12:00 UTC. Set the clock right. If the entry's date is wrong instead, hushrank ledger"
        " recover corrects it. Nothing was read or spent."
    )
    assert refusal(ledger.reserve, "b", pure(1)).endswith(expected)
    assert refusal(ledger.check, pure(1)).endswith(expected)


def test_a_clock_set_back_keeps_no_run_from_ending(ledger, clock, path):
    ledger.reserve("a", pure(1))
    ledger.reserve("b", pure(1))
    clock.now -= timedelta(days=100)
    ledger.mark_drawn("a")
    ledger.commit("a")
    ledger.cancel("b")
    times = [json.loads(line)["time"] for line in path.read_text().splitlines()]
    assert times == ["2026-11-21T12:00:00Z"] * len(times)


def test_a_small_step_back_is_allowed_and_dated_like_the_last_entry(ledger, clock):
    release(ledger, "a", 1)
    clock.now -= MAX_CLOCK_LAG
    assert ledger.reserve("b", pure(1)).reserved_at == NOW
    clock.now -= timedelta(seconds=1)
    with pytest.raises(LedgerError):
        ledger.reserve("c", pure(1))


def test_a_clock_set_back_does_not_matter_without_renewal(path, clock):
    ledger = Ledger(path, terms_of(refresh=None), clock=clock)
    release(ledger, "a", 9)
    clock.now -= timedelta(days=100)
    ledger.reserve("b", pure(1))
    assert ledger.balance().remaining_epsilon == 0


def test_a_period_that_was_spent_ahead_has_nothing_left_when_it_comes(ledger, clock):
    clock.now = datetime(2026, 12, 5, tzinfo=UTC)
    release(ledger, "ahead", 10)
    clock.now = datetime(2026, 12, 4, 23, 30, tzinfo=UTC)
    with pytest.raises(BudgetRefused):
        ledger.reserve("a", pure(1))
    clock.now = datetime(2026, 12, 20, tzinfo=UTC)
    with pytest.raises(BudgetRefused):
        ledger.reserve("a", pure(1))
