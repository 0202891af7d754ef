"""The privacy budget of a population: terms, periods, the cost of a release, and what is left.

Pure; every time is in UTC.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from typing import Literal

from hushrank.privacy.accounting import Spend
from hushrank.privacy.filters import Rule
from hushrank.privacy.units import Adjacency, Unit

Refresh = Literal["daily", "weekly", "monthly", "yearly"]


@dataclass(frozen=True, slots=True)
class Period:
    """Half-open time span [start, end); None: no limit on that side."""

    start: datetime | None
    end: datetime | None


ALWAYS = Period(None, None)


def period_at(time: datetime, refresh: Refresh | None) -> Period:
    """Return the day, week from Monday, month or year that contains `time`; all time without
    `refresh`.

    Raises:
        ValueError: `time` carries no time zone.
    """
    if time.tzinfo is None:
        raise ValueError(f"a time needs a time zone, got {time.isoformat()}")
    if refresh is None:
        return ALWAYS
    day = time.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    if refresh == "daily":
        return Period(day, day + timedelta(days=1))
    if refresh == "weekly":
        monday = day - timedelta(days=day.weekday())
        return Period(monday, monday + timedelta(weeks=1))
    if refresh == "monthly":
        first = day.replace(day=1)
        return Period(first, (first + timedelta(days=31)).replace(day=1))
    first = day.replace(month=1, day=1)
    return Period(first, first.replace(year=first.year + 1))


class Protects(StrEnum):
    """Part of a unit that every release of a population hides; costs of two parts do not add."""

    ROWS = "rows"  # everything, including who compared what
    OUTCOMES = "outcomes"  # who won; it is public who compared what
    ANSWER = "answer"  # one answer; nothing links it to a person, or bounds how many a person gives
    PERSON = "person"  # all local answers of one person


@dataclass(frozen=True, slots=True)
class BudgetTerms:
    """Largest privacy loss that one population may have in all its releases.

    Attributes:
        population: the name under which its releases are added up.
        epsilon: total in nats, finite and > 0, at `delta`.
        delta: in [0, 1); > 0 if releases use gaussian noise.
        refresh: period after which the total renews; None: never.
        unit: unit that every release of the population protects.
        adjacency: relation between two adjacent inputs of every release.
        protects: part of the unit that every release hides; None: not recorded.
        alerts: fractions of the total, in (0, 1], at which people are warned; 1: used up.
        other_people: populations that may read the same files, because they are other people.
        lifetime_epsilon: the most over all periods of a total that renews, at `delta`; None: no
            limit.

    Raises:
        ValueError: a field breaks one of these rules.
    """

    population: str
    epsilon: float
    delta: float
    refresh: Refresh | None
    unit: Unit
    adjacency: Adjacency
    protects: Protects | None = None
    alerts: tuple[float, ...] = ()
    other_people: tuple[str, ...] = ()
    lifetime_epsilon: float | None = None

    def __post_init__(self) -> None:
        if not self.population:
            raise ValueError("population must not be empty")
        if not (math.isfinite(self.epsilon) and self.epsilon > 0):
            raise ValueError(f"epsilon must be finite and > 0, got {self.epsilon!r}")
        if not 0 <= self.delta < 1:
            raise ValueError(f"delta must be at least 0 and below 1, got {self.delta!r}")
        if not all(0 < fraction <= 1 for fraction in self.alerts):
            raise ValueError(f"alerts must be above 0 and at most 1, got {self.alerts!r}")
        limit = self.lifetime_epsilon
        if limit is not None and not (math.isfinite(limit) and limit >= self.epsilon):
            raise ValueError(f"lifetime_epsilon must be finite and >= epsilon, got {limit!r}")


@dataclass(frozen=True, slots=True)
class Reservation:
    """Budget set aside for one attempt at a release.

    Attributes:
        attempt: 1 for the first.
        reserved_at: UTC.
        repeated: the reservation existed before, so this call spent nothing.
    """

    release_id: str
    attempt: int
    spend: Spend
    reserved_at: datetime
    repeated: bool


@dataclass(frozen=True, slots=True)
class Statement:
    """Statement of an operator that two populations consist of different people.

    Attributes:
        by: the account that recorded it.
        at: time of the line of the ledger that has it, UTC.
    """

    by: str
    at: datetime


@dataclass(frozen=True, slots=True)
class SharedInput:
    """Another population of the ledger that reads the same input.

    Attributes:
        stated: the operator states that this population consists of other people.
        added: whether its costs count in `Balance.shared_epsilon`; costs of another unit do not.
        statement: the first record of that statement; None: the ledger has none yet.
    """

    population: str
    stated: bool
    added: bool
    statement: Statement | None = None


@dataclass(frozen=True, slots=True)
class Lifetime:
    """Total cost of the releases of all periods, for a budget that renews.

    Attributes:
        spent_epsilon: epsilon of all attempts that count, at `Balance.delta`; `inf`: none holds
            there.
        releases: number of attempts that count.
        limit: `BudgetTerms.lifetime_epsilon`.
    """

    spent_epsilon: float
    releases: int
    limit: float | None


@dataclass(frozen=True, slots=True)
class Balance:
    """The budget of the current period.

    Attributes:
        total: epsilon allowed, at `delta`.
        spent_epsilon: epsilon of all counted attempts together, although each may have been chosen
            in view of earlier results.
        remaining_epsilon: the most that one more release with laplace noise may cost, by the total
            of the period and by that of all periods.
        releases: number of attempts that count.
        undrawn: releases that hold budget but have not drawn noise.
        unsafe: number of releases that no budget covers, over all time.
        renews_on: the first day of the next period, UTC; None: never.
        unpublished: releases whose noise was drawn but that are not published, over all time.
        alert: the largest fraction of `BudgetTerms.alerts` that is reached; None: none is.
        shared: other populations that read the same input.
        shared_epsilon: epsilon of all releases of all these populations, in all periods, as if they
            were the same people.
        begun: whether the population has an entry in the ledger.
        lifetime: total over all periods; None: the budget never renews, so the period is all time.
        rule: the rule by which `spent_epsilon` holds.
    """

    population: str
    total: float
    delta: float
    spent_epsilon: float
    remaining_epsilon: float
    releases: int
    undrawn: tuple[str, ...]
    unsafe: int
    renews_on: date | None
    unpublished: tuple[str, ...] = ()
    alert: float | None = None
    shared: tuple[SharedInput, ...] = ()
    shared_epsilon: float = 0.0
    begun: bool = True
    lifetime: Lifetime | None = None
    rule: Rule = Rule.SUM
