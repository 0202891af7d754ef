from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushrank.flows.ledger.entries import ALWAYS, Period, period_at

TIMES = st.datetimes(
    min_value=datetime(1990, 1, 1), max_value=datetime(2100, 12, 31), timezones=st.just(UTC)
)
REFRESH = st.sampled_from(["daily", "weekly", "monthly", "yearly"])


def day(year: int, month: int, day: int) -> datetime:
    return datetime(year, month, day, tzinfo=UTC)


@pytest.mark.parametrize(
    ("refresh", "start", "end"),
    [
        ("daily", day(2028, 2, 29), day(2028, 3, 1)),
        ("weekly", day(2028, 2, 28), day(2028, 3, 6)),
        ("monthly", day(2028, 2, 1), day(2028, 3, 1)),
        ("yearly", day(2028, 1, 1), day(2029, 1, 1)),
    ],
)
@pytest.mark.parametrize("hour", [0, 23])
def test_period_of_a_leap_day(refresh, start, end, hour):
    time = datetime(2028, 2, 29, hour, 59, 59, 999_999, tzinfo=UTC)
    assert period_at(time, refresh) == Period(start, end)


@given(time=TIMES, refresh=REFRESH)
def test_periods_cover_all_time_without_overlap(time, refresh):
    period = period_at(time, refresh)
    assert period.start <= time < period.end
    assert period_at(period.end, refresh).start == period.end
    assert period_at(period.end - timedelta(microseconds=1), refresh) == period


def test_a_week_begins_on_monday():
    assert period_at(day(2026, 11, 22), "weekly").start == day(2026, 11, 16)
    assert period_at(day(2026, 11, 23), "weekly").start == day(2026, 11, 23)


def test_without_refresh_there_is_one_period():
    assert period_at(day(1999, 1, 1), None) == period_at(day(2999, 1, 1), None) == ALWAYS


def test_periods_are_those_of_utc_wherever_the_machine_is():
    tokyo = timezone(timedelta(hours=9))
    new_year_in_tokyo = datetime(2027, 1, 1, 3, tzinfo=tokyo)
    assert period_at(new_year_in_tokyo, "yearly").start == day(2026, 1, 1)


def test_a_time_without_zone_is_refused():
    with pytest.raises(ValueError, match=r"^a time needs a time zone, got 2026-11-21T00:00:00$"):
        period_at(datetime(2026, 11, 21), "daily")
