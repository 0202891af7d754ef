"""How long a budget lasts. Pure: what was spent and the calendar in, nights and days out.

One night a day is ranked, each at the same cost, by the accountant of the ledger.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from hushrank.flows.budget import BudgetTerms
from hushrank.privacy.accounting import Spend
from hushrank.privacy.budget_split import releases_left

HORIZON = 3650  # nights; no forecast reaches further


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """What becomes of a budget if every night is ranked.

    Attributes:
        nights_left: how many more nights fit into this period, at most `HORIZON`.
        nights_wanted: how many will ask for budget before it renews, or within `HORIZON`.
        runs_out_on: the first day on which a night is refused; None: none is.
        renews_on: the first day of the next period; None: never.
    """

    nights_left: int
    nights_wanted: int
    runs_out_on: date | None
    renews_on: date | None


def forecast(
    terms: BudgetTerms,
    spends: Sequence[Spend],
    spend: Spend,
    *,
    today: date,
    due: int,
    renews_on: date | None,
) -> Forecast:
    """What becomes of the budget of `terms`.

    Args:
        terms: total and delta.
        spends: what counts in this period.
        spend: of one night.
        today: UTC, as the periods of the ledger are.
        due: nights that are to be ranked today still.
        renews_on: the first day of the next period; None: never.
    """
    days = HORIZON if renews_on is None else (renews_on - today).days - 1  # after today
    wanted = due + max(days, 0)
    left = releases_left(spends, spend, terms.epsilon, terms.delta, HORIZON)
    refused_in = 0 if left < due else left - due + 1  # days from now
    runs_out = None if left >= wanted else today + timedelta(days=refused_in)
    return Forecast(
        nights_left=left, nights_wanted=wanted, runs_out_on=runs_out, renews_on=renews_on
    )


def forecast_text(population: str, cost: str, found: Forecast) -> str:
    """What a person reads; every date in full, for it may be read much later."""
    nights = f"{found.nights_left} more night{'' if found.nights_left == 1 else 's'}"
    if found.nights_left >= HORIZON:
        nights = f"at least {HORIZON} more nights"
    fits = f"{population}: {nights} at {cost} each fit into the budget"
    renewal = "" if found.renews_on is None else f" It renews on {found.renews_on}."
    if found.runs_out_on is not None:
        short = found.nights_wanted - found.nights_left
        lacking = "" if found.renews_on is None else f", {short} nights short of its renewal"
        return f"{fits}. With one a day it runs out on {found.runs_out_on}{lacking}.{renewal}"
    if found.renews_on is not None:
        return f"{fits}; {found.nights_wanted} are wanted before it renews on {found.renews_on}."
    return f"{fits}. With one a day it lasts more than {HORIZON // 365} years."
