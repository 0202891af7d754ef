"""The calendar periods in which a budget counts. Pure; every time is in UTC."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

Refresh = Literal["daily", "weekly", "monthly", "yearly"]


@dataclass(frozen=True, slots=True)
class Period:
    """The half-open span [start, end); None: no limit on that side."""

    start: datetime | None
    end: datetime | None


ALWAYS = Period(None, None)


def period_at(time: datetime, refresh: Refresh | None) -> Period:
    """The day, week from Monday, month or year that contains `time`; all time without `refresh`.

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
