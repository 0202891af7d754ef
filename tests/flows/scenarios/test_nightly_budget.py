"""The budget over nights: a month's shares, the forecast, alerts once a crossing."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime

import pytest

from hushrank.flows.config.schedule import ScheduleConfig
from hushrank.flows.errors import BudgetRefused, ConfigError, LedgerError
from hushrank.flows.ledger.entries import Protects
from hushrank.flows.ledger.forecast import (
    HORIZON,
    demand_by_day,
    demand_by_schedule,
    forecast,
    forecast_text,
)
from hushrank.flows.ledger.ledger import Ledger
from hushrank.flows.methods.registry import METHODS, load_config
from hushrank.flows.run.context import protects
from hushrank.privacy.accounting import Spend
from tests.ledgers import Clock, pure, release, terms_of

MONTHLY = {"budget": "per_month", "window": "at"}


def spend_of(survey) -> Spend:
    config = load_config(survey.config)
    return METHODS[config.method].calibrate(config).spend


def test_a_month_of_nights_shares_the_budget_and_all_of_them_fit(survey):
    survey.set(privacy__epsilon=None, schedule=MONTHLY, ledger__epsilon=6.2, ledger__delta=0.0)
    assert spend_of(survey) == Spend(epsilon=0.2)
    survey.set(schedule={**MONTHLY, "nights": 4})
    assert spend_of(survey) == Spend(epsilon=1.55)
    survey.set(schedule=MONTHLY, ledger__delta=1e-3, ledger__epsilon=1.0)
    share = spend_of(survey)
    assert share.epsilon > 1 / 31  # composed, not only summed
    config = load_config(survey.config)
    ledger = Ledger(survey.ledger, terms_of(epsilon=1.0, delta=1e-3), clock=Clock())
    for night in range(31):
        ledger.reserve(f"night-{night}", share)
    assert config.job_hash() == load_config(survey.config).job_hash()


def test_gaussian_nights_share_the_rho(survey):
    survey.set(privacy__epsilon=None, privacy__noise="gaussian", schedule=MONTHLY)
    share = spend_of(survey)
    assert share.rho is not None
    ledger = Ledger(survey.ledger, terms_of(epsilon=5.0, delta=1e-6), clock=Clock())
    for night in range(31):
        ledger.reserve(f"night-{night}", share)
    with pytest.raises(BudgetRefused):
        ledger.reserve("one-more", share)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({}, "privacy.epsilon: is computed under schedule.budget: per-month; remove it"),
        (
            {"privacy__epsilon": None, "ledger__refresh": "weekly"},
            "ledger.refresh: must be monthly with schedule.budget: per-month",
        ),
        (
            {"privacy__epsilon": None, "privacy__noise": "gaussian", "ledger__delta": 0.0},
            "ledger.delta: missing; noise: gaussian needs it",
        ),
        (
            {"privacy": {"unit": "local"}, "method": "debiased-rr"},
            "schedule.budget: per-month is not for privacy.unit: local",
        ),
        ({"privacy__epsilon": None, "ledger__epsilon": "ten"}, "ledger.epsilon: must be a number"),
        ({"privacy__epsilon": None, "ledger__epsilon": 1e308}, "ledger.epsilon: must be"),
        ({"privacy__epsilon": None, "ledger__epsilon": 2**62}, "ledger.epsilon: must be"),
        ({"privacy__epsilon": None, "privacy__noise": ["a"]}, "privacy.noise: must be"),
    ],
)
def test_a_month_that_cannot_be_shared_is_refused(survey, changes, message):
    survey.set(schedule=MONTHLY, **changes)
    with pytest.raises(ConfigError) as refused:
        load_config(survey.config)
    assert message in str(refused.value)


NOW, MONTH = datetime(2026, 11, 21, 12, tzinfo=UTC), date(2026, 12, 1)


def by_day(terms, spends, spend, *, due: int, renews_on: date | None):
    demand = demand_by_day(NOW, due, renews_on)
    return forecast(terms, spends, spend, demand=demand, renews_on=renews_on)


def test_the_forecast_names_the_day_of_the_first_refusal():
    terms, spent = terms_of(epsilon=10.0), [pure(2.0)]
    found = by_day(terms, spent, pure(2.0), due=1, renews_on=MONTH)
    assert (found.nights_left, found.nights_wanted) == (4, 10)
    assert found.runs_out_on == date(2026, 11, 25)  # ranked on the 21st, 22nd, 23rd and 24th
    assert forecast_text("zoo", "epsilon 2.00", found) == (
        "zoo: 4 more nights at epsilon 2.00 each fit into the budget. With one a day it runs out on"
        " 2026-11-25, 6 nights short of its renewal. It renews on 2026-12-01."
    )
    later = by_day(terms, spent, pure(2.0), due=0, renews_on=MONTH)
    assert later.runs_out_on == date(2026, 11, 26)
    used_up = by_day(terms, [pure(9.0)], pure(2.0), due=1, renews_on=None)
    assert (used_up.nights_left, used_up.runs_out_on) == (0, NOW.date())
    lasting = by_day(terms, [], pure(1.0), due=1, renews_on=MONTH)
    assert lasting.runs_out_on is None
    told = "With one a day 10 are wanted before it renews on 2026-12-01."
    assert told in forecast_text("zoo", "x", lasting)
    tiny = by_day(terms, [], pure(0.001), due=1, renews_on=None)
    assert tiny.nights_left == HORIZON


@pytest.mark.parametrize(
    ("schedule", "nightly", "due", "expected"),
    [
        ({"cron": "0 2 * * 1"}, True, 3, [(23, 5), (30, 7)]),  # Mondays: three, and those since
        ({"cron": "0 2 * * 1", "catch_up_days": 1}, True, 3, [(23, 2), (30, 2)]),
        ({"cron": "0 2 * * 1"}, False, 0, [(23, 1), (30, 1)]),
        ({"cron": "0 */8 29 * *"}, False, 0, [(29, 1)] * 3),
        ({"cron": "0 */8 29 * *"}, True, 0, [(29, 8)]),
        ({"cron": "30 23 29,30 * *", "timezone": "America/Lima"}, False, 0, [(30, 1)]),
    ],
)
def test_a_forecast_follows_the_schedule(schedule, nightly, due, expected):
    config = ScheduleConfig.model_validate(schedule)
    demand = demand_by_schedule(config, NOW, due, MONTH, nightly=nightly)
    assert [(day.day, nights) for day, nights in demand] == expected


@pytest.mark.parametrize("cron", [None, "every night", "0 2 * *", "0 2 30 2 *"])
def test_without_a_schedule_that_can_be_read_there_is_no_cadence(cron):
    config = ScheduleConfig(cron=cron)
    assert demand_by_schedule(config, NOW, 1, MONTH, nightly=True) is None


def test_the_command_says_which_cadence_it_took(survey, command):
    survey.set(ledger__refresh=None, ledger__delta=0.0, schedule={"cron": "0 2 1 1 *"})
    now = datetime.now(UTC)
    code, printed = command("ledger", "forecast", survey.config)
    assert code == 0
    next_year = now.year + (now >= datetime(now.year, 1, 1, 2, tzinfo=UTC))
    refused = f"{next_year + 2}-01-01"  # two years fit
    told = f'each fit into the budget. With cron "0 2 1 1 *" it runs out on {refused}'
    assert told in printed
    survey.set(schedule={"cron": "at night"})
    assert "With one a day it runs out on" in command("ledger", "forecast", survey.config)[1]


def test_the_command_forecasts_and_reads_nothing(survey, command):
    survey.set(ledger__refresh=None, ledger__delta=0.0)
    code, printed = command("ledger", "forecast", survey.config)
    assert code == 0
    assert "zoo: 2 more nights at epsilon 2.00 each fit into the budget." in printed
    code, printed = command("ledger", "forecast", survey.config, "--json")
    assert json.loads(printed)["nights_left"] == 2
    assert not survey.ledger.exists()


def test_alerts_come_once_a_crossing_and_once_a_period(tmp_path):
    clock = Clock(datetime(2026, 11, 21, tzinfo=UTC))
    terms = terms_of(epsilon=10.0, alerts=(0.5, 0.8, 1.0))
    ledger = Ledger(tmp_path / "ledger.jsonl", terms, clock=clock)
    release(ledger, "a", 4.0)
    assert ledger.alert() == ()
    assert ledger.balance().alert is None
    release(ledger, "b", 4.0)
    assert ledger.balance().alert == 1.0
    assert ledger.alert() == (0.5, 0.8, 1.0)  # 80 %, and a third one does not fit
    assert ledger.alert() == ()
    clock.now = datetime(2026, 12, 1, tzinfo=UTC)
    assert ledger.alert() == ()
    release(ledger, "c", 5.0)
    assert ledger.alert() == (0.5,)
    raised = Ledger(tmp_path / "ledger.jsonl", terms_of(epsilon=6.0, alerts=(0.5,)), clock=clock)
    assert raised.alert() == (0.5,)  # another total: told anew
    states = [row.state for row in raised.history()]
    assert states.count("alert") == 5
    assert "50% of epsilon 10 used" in {row.note for row in raised.history()}


def test_an_alert_is_shown_where_the_budget_is_and_does_not_fail_the_run(survey, command):
    survey.set(ledger__alerts=[0.3, 1.0], ledger__epsilon=3)
    code, printed = command("run", survey.config, "--direct")
    assert code == 0
    assert "Budget alert: 30% of the budget is used. zoo has epsilon 1.00 left of 3.00" in printed
    assert "Budget alert: one more release at this cost does not fit." in printed
    told = "<strong>Budget alert</strong>: one more release at this cost does not fit."
    assert told in (survey.output / "report.html").read_text()
    code, printed = command("run", survey.config, "--direct")
    assert "Budget alert" not in printed
    assert "Budget alert" in command("ledger", "show", survey.config)[1]
    survey.set(ledger__alerts=[1.5])
    assert "ledger.alerts[0]: must be <= 1, got 1.5" in command("ledger", "show", survey.config)[1]


def test_releases_that_hide_another_part_of_a_person_are_kept_apart(survey, command):
    def hidden(**changes):
        survey.set(**changes)
        return str(protects(load_config(survey.config)))

    assert hidden() == "rows"
    command("run", survey.config, "--direct")
    public = {"public_graph": True, "public_graph_statement": "assigned"}
    settings = {"unit": "user", "epsilon": 1.0, "max_contributions": 6, **public}
    mle = {"method": "perturbed-mle", "model": {"expected_comparisons": 300}}
    assert hidden(privacy=settings, input__ties="random", output="out2", **mle) == "outcomes"
    code, printed = command("run", survey.config, "--direct")
    assert code == 2
    assert "counts its budget for releases that hide everything, who compared what" in printed
    assert "this one hides who won (public_graph: true)." in printed
    local = {"unit": "local", "epsilon": 1.0}
    assert hidden(privacy=local, method="debiased-rr", model={}) == "answer"
    assert hidden(privacy={**local, "max_contributions": 3}) == "person"


def test_a_ledger_from_before_takes_both_as_it_did(tmp_path):
    old = Ledger(tmp_path / "ledger.jsonl", terms_of(epsilon=10.0), clock=Clock())
    old.reserve("a", pure(1.0))
    line = (tmp_path / "ledger.jsonl").read_text()
    assert '"protects":null' in line
    for each in ("rows", "outcomes"):
        terms = terms_of(epsilon=10.0, protects=Protects(each))
        Ledger(tmp_path / "ledger.jsonl", terms, clock=Clock()).reserve(each, pure(1.0))
    new = tmp_path / "new.jsonl"
    Ledger(new, terms_of(protects=Protects.ROWS), clock=Clock()).reserve("a", pure(1.0))
    with pytest.raises(LedgerError, match="Costs of the two cannot be added up"):
        Ledger(new, terms_of(protects=Protects.OUTCOMES), clock=Clock()).balance()
