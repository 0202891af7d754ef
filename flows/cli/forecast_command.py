"""`hushrank ledger forecast`: how many nights are left, and the day the budget runs out."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from hushrank.flows.cli.arguments import ConfigPath
from hushrank.flows.terminal import Console

if TYPE_CHECKING:
    from hushrank.flows.config.survey import SurveyConfig
    from hushrank.flows.ledger.budget import Balance
    from hushrank.flows.ledger.ledger import Ledger
    from hushrank.privacy.accounting import Spend

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


def _of_stream(
    config: SurveyConfig, ledger: Ledger, spend: Spend, balance: Balance, *, as_json: bool
) -> None:
    """Print until when the nights of a stream are paid for."""
    from hushrank.flows.display import show_balance
    from hushrank.flows.ledger.budget_text import spend_text
    from hushrank.flows.ledger.forecast import forecast_of_stream, stream_text
    from hushrank.flows.run.stream_turns import has_closed, span_of, standing_of

    account, span = ledger.book().account, span_of(config)
    standing, ended = standing_of(account, config), has_closed(account, config)
    found = forecast_of_stream(ledger.terms, ledger.spends(), spend, span, standing, ended=ended)
    if as_json:
        _print_document(config, spend, asdict(found))
        return
    console = Console()
    console.print(Text(stream_text(config.name, spend_text(spend), found)), soft_wrap=True)
    show_balance(console, balance)


def forecast(config: ConfigPath, as_json: AsJson = False) -> None:
    """Say how many more nights fit into the budget, and on which day it runs out.

    Counts the nights of schedule.cron, or one a day without it, at the cost that the configuration
    states. Of a stream of nights it says until when they are paid for. Reads no rows and spends
    nothing.
    """
    from hushrank.flows.run.budget import ledger_of
    from hushrank.flows.run.job import read_survey

    survey = read_survey(config)
    checked, ledger = survey.config, ledger_of(survey.config)
    spend, balance = survey.calibrated.spend, ledger.balance()
    if checked.schedule.stream is not None:
        _of_stream(checked, ledger, spend, balance, as_json=as_json)
    else:
        _of_nights(checked, ledger, spend, balance, as_json=as_json)


def _of_nights(
    checked: SurveyConfig, ledger: Ledger, spend: Spend, balance: Balance, *, as_json: bool
) -> None:
    """Print how many nights that each cost as much fit into the budget."""
    from hushrank.flows.display import show_balance
    from hushrank.flows.ledger.budget_text import spend_text
    from hushrank.flows.ledger.forecast import (
        ONE_A_DAY,
        demand_by_day,
        demand_by_schedule,
        forecast_text,
    )
    from hushrank.flows.ledger.forecast import forecast as forecast_of
    from hushrank.flows.run.nights import due_nights

    now = datetime.now(UTC)
    due = 0
    if checked.nightly:
        due = len(due_nights(checked, checked.schedule.last_night(now)))
    calendar = (now, due, balance.renews_on)
    scheduled = demand_by_schedule(checked.schedule, *calendar, nightly=checked.nightly)
    found = forecast_of(
        ledger.terms,
        ledger.spends(),
        spend,
        demand=demand_by_day(*calendar) if scheduled is None else scheduled,
        renews_on=balance.renews_on,
        pace=ONE_A_DAY if scheduled is None else f'With cron "{checked.schedule.cron}"',
    )
    if as_json:
        _print_document(checked, spend, asdict(found))
        return
    console = Console()
    console.print(Text(forecast_text(checked.name, spend_text(spend), found)), soft_wrap=True)
    show_balance(console, balance)


def _print_document(config: SurveyConfig, spend: Spend, found: dict[str, Any]) -> None:
    document = {"population": config.name, "spend": spend.to_dict(), **found}
    Console().print(json.dumps(document, default=str), soft_wrap=True, markup=False)
