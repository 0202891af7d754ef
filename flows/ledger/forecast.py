"""Forecast of how long a budget lasts. Pure: costs and the calendar in, nights and days out.

Nights are ranked when the configured schedule runs, or one a day if there is no schedule. Each
costs the same. The ledger's accountant adds up the costs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from itertools import islice

from cronsim import CronSim, CronSimError

from hushrank.flows.config.schedule import ScheduleConfig
from hushrank.flows.ledger.account import Costs
from hushrank.flows.ledger.entries import BudgetTerms, StreamSpan, period_at
from hushrank.flows.ledger.texts import left_text, needed_text
from hushrank.privacy.accounting import Spend, decimal_value, float_at_least
from hushrank.privacy.filters import fits, releases_left

NO_COSTS = Costs((), None)
HORIZON = 3650  # forecasts end after this many nights, and after this many days
MOST_RUNS = 50_000  # most runs of a schedule that are computed; a month at one run a minute
ONE_A_DAY = "With one a day"
PERIODS = {"daily": "day", "weekly": "week", "monthly": "month", "yearly": "year"}

# days in order, UTC, each with the number of nights ranked on it
Demand = Iterable[tuple[date, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """Forecast for a budget if every night is ranked.

    Attributes:
        pace: the assumed rhythm of nights, as the beginning of a sentence.
        nights_left: number of nights that still fit into this period, at most `HORIZON`.
        nights_wanted: number of nights that need budget before it renews, or within `HORIZON`.
        runs_out_on: the first day on which a night is refused; None: no night is refused.
        renews_on: the first day of the next period; None: never.
        is_for_good: whether `nights_left` is what the limit over all periods leaves.
    """

    pace: str
    nights_left: int
    nights_wanted: int
    runs_out_on: date | None
    renews_on: date | None
    is_for_good: bool = False


def forecast(
    terms: BudgetTerms,
    spends: Sequence[Spend],
    spend: Spend,
    *,
    demand: Demand,
    renews_on: date | None,
    pace: str = ONE_A_DAY,
    first: Spend | None = None,
    ever: Costs = NO_COSTS,
) -> Forecast:
    """Forecast the budget of `terms` if every night is ranked.

    Args:
        terms: total and delta.
        spends: costs that count in this period.
        spend: cost of one night.
        demand: nights until the period ends, or of `HORIZON` days if it never ends.
        renews_on: the first day of the next period; None: never.
        pace: the rhythm that `demand` follows, as the beginning of a sentence.
        first: the cost that was set aside first, if it is not the first of `spends` any more.
        ever: costs that count in any period, for a limit over all periods.
    """
    left = releases_left(spends, spend, terms.epsilon, terms.delta, HORIZON, first)
    for_good, limit = HORIZON, terms.lifetime_epsilon
    if limit is not None:
        for_good = releases_left(ever.spends, spend, limit, terms.delta, HORIZON, ever.first)
    left, is_for_good = min(left, for_good), for_good < left
    wanted, runs_out = 0, None
    for day, nights in demand:
        wanted += nights
        if wanted > left and runs_out is None:
            runs_out = day
    return Forecast(
        pace=pace,
        nights_left=left,
        nights_wanted=wanted,
        runs_out_on=runs_out,
        renews_on=renews_on,
        is_for_good=is_for_good,
    )


def yearly_text(terms: BudgetTerms, today: date) -> str:
    """Text of the most that people may lose in this calendar year, UTC; empty without renewal.

    Whatever is released in a period costs at most (epsilon, delta), and these add up over periods
    ([DR14] Theorem 3.16). Without a delta, releases exist that cost no less.

    References:
        [DR14] Dwork, Roth. The Algorithmic Foundations of Differential Privacy. 2014.
    """
    if terms.refresh is None:
        return ""
    year, limit, name = today.year, terms.lifetime_epsilon, PERIODS[terms.refresh]
    days = (date.fromordinal(each) for each in range(*_ends_of(year)))
    starts = {period_at(datetime.combine(day, time.min, UTC), terms.refresh).start for day in days}
    total = float_at_least(len(starts) * decimal_value(terms.epsilon))
    delta = float_at_least(len(starts) * decimal_value(terms.delta))
    periods = f"{len(starts)} {name}{'' if len(starts) == 1 else 's'}"
    verb = "adds" if len(starts) == 1 else "add"
    added = f"its {periods} {verb} up to epsilon {needed_text(total)} (the plain sum)"
    if delta:
        added += f" at delta {delta:.3g}"
    told = (
        f"{terms.population}: this budget renews, so the losses of the same people add up. In"
        f" {year}"
    )
    if limit is None:
        return (
            f"{told} {added}. To limit the total over all periods, set for example"
            f" ledger.lifetime_epsilon: {10 * terms.epsilon:g}"
        )
    return f"{told} {added}; ledger.lifetime_epsilon limits the total to {left_text(limit)}."


def _ends_of(year: int) -> tuple[int, int]:
    return date(year, 1, 1).toordinal(), date(year + 1, 1, 1).toordinal()


def demand_by_day(now: datetime, due: int, renews_on: date | None) -> Demand:
    """Yield the nights that are due today, then one night a day until the budget renews."""
    today = now.astimezone(UTC).date()
    yield today, due
    for days in range(1, (_end(now, renews_on) - today).days):
        yield today + timedelta(days=days), 1


def demand_by_schedule(
    schedule: ScheduleConfig, now: datetime, due: int, renews_on: date | None, *, nightly: bool
) -> Demand | None:
    """Yield the nights that are due at each run of `schedule.cron`, until the budget renews.

    Args:
        schedule: schedule whose settings say which missed nights a run catches up with.
        now: the present moment, with a time zone.
        due: nights that wait for the next run.
        renews_on: the first day of the next period; None: never.
        nightly: whether the input has nights; if not, each run ranks the whole input once.

    Returns:
        None if there is no `cron`, or if it cannot be read.
    """
    if schedule.cron is None:
        return None
    try:
        runs = CronSim(schedule.cron, now.astimezone(schedule.zone))
    except CronSimError:
        return None
    end = _end(now, renews_on)
    return _by_night(schedule, now, due, end) if nightly else _by_run(runs, end)


def _by_run(runs: Iterator[datetime], end: date) -> Demand:
    for run in islice(runs, MOST_RUNS):
        day = run.astimezone(UTC).date()
        if day >= end:
            return
        yield day, 1


def _by_night(schedule: ScheduleConfig, now: datetime, due: int, end: date) -> Demand:
    moment, ranked = now.astimezone(schedule.zone), schedule.last_night(now)
    while run := next(CronSim(schedule.cron or "", moment), None):
        day, last = run.astimezone(UTC).date(), schedule.last_night(run)
        if day >= end:
            return
        yield day, min(due + (last - ranked).days, schedule.catch_up_days + 1)
        # a run later today has no new night
        moment = datetime.combine(run.date(), time.max, schedule.zone)
        due, ranked = 0, last


def _end(now: datetime, renews_on: date | None) -> date:
    """Return the first day that the forecast no longer covers."""
    return renews_on or now.astimezone(UTC).date() + timedelta(days=HORIZON + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamForecast:
    """Forecast for a stream: until when its nights are paid for.

    Attributes:
        nights: number of nights of the stream.
        drawn: number of nights that were drawn.
        first, last: dates of its first and its last night.
        begun: whether its budget is set aside or spent.
        fits: whether its budget fits, where it has not begun.
        ended: whether no other night may be drawn.
    """

    nights: int
    drawn: int
    first: date
    last: date
    begun: bool
    fits: bool
    ended: bool


def forecast_of_stream(
    terms: BudgetTerms,
    spends: Sequence[Spend],
    spend: Spend,
    span: StreamSpan,
    drawn: int | None,
    *,
    ended: bool = False,
    first: Spend | None = None,
    ever: Costs = NO_COSTS,
) -> StreamForecast:
    """Forecast until when the nights of a stream are paid for.

    Args:
        terms: total and delta.
        spends: costs that count in this period.
        spend: cost of the stream.
        span: nights of the stream.
        drawn: number of nights that were drawn; None: the stream is not in the ledger.
        ended: whether the ledger lets no other night follow.
        first: the cost that was set aside first, if it is not the first of `spends` any more.
        ever: costs that count in any period, for a limit over all periods.
    """
    limit = terms.lifetime_epsilon
    room = fits(spends, spend, terms.epsilon, terms.delta, first) and (
        limit is None or fits(ever.spends, spend, limit, terms.delta, ever.first)
    )
    return StreamForecast(
        nights=span.nights,
        drawn=drawn or 0,
        first=span.first,
        last=span.last,
        begun=drawn is not None,
        fits=drawn is not None or room,
        ended=ended,
    )


def stream_text(population: str, cost: str, found: StreamForecast) -> str:
    """Text of the forecast of a stream."""
    whole = f"{population}: a stream of {found.nights} nights from {found.first}, {cost} together"
    if not found.fits:
        return f"{whole}, does not fit into the budget."
    if not found.begun:
        return f"{whole}, fits into the budget. Its first night pays for all until {found.last}."
    if found.drawn >= found.nights:
        return f"{whole}, ended on {found.last}. Another stream costs its own budget."
    left = found.nights - found.drawn
    if found.ended:
        return f"{whole}, has ended before its last night: {found.drawn} drawn. Its cost stays."
    return f"{whole}, is paid for until {found.last}: {found.drawn} drawn, {left} left."


def forecast_text(population: str, cost: str, found: Forecast) -> str:
    """Text of the forecast. Every date has its year, because people may read it much later."""
    nights = f"{found.nights_left} more night{'' if found.nights_left == 1 else 's'}"
    if found.nights_left >= HORIZON:
        nights = f"at least {HORIZON} more nights"
    fits = f"{population}: {nights} at {cost} each fit into the budget"
    renewal = "" if found.renews_on is None else f" It renews on {found.renews_on}."
    if found.is_for_good:
        fits += " (ledger.lifetime_epsilon, which does not renew)"
    if found.runs_out_on is not None:
        short = found.nights_wanted - found.nights_left
        lacking = "" if found.renews_on is None else f", {short} nights short of its renewal"
        return f"{fits}. {found.pace} it runs out on {found.runs_out_on}{lacking}.{renewal}"
    if found.renews_on is not None:
        wanted = f"{found.nights_wanted} are wanted before it renews on {found.renews_on}"
        return f"{fits}. {found.pace} {wanted}."
    return f"{fits}. {found.pace} it lasts more than {HORIZON // 365} years."
