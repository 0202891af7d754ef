"""Each value of Python becomes one text, alone or beside any others."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from enum import IntEnum, StrEnum
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushrank.flows.interfaces.python.values import UNFIT, Rule
from hushrank.transforms.common.plain_text import hidden_character

NAME, ITEM, OUTCOME, WEIGHT, CELL, ORDER, AT, LIST = (
    Rule.from_roles({role})
    for role in ("user", "left", "outcome", "weight", "wide item", "order", "window", "ranking")
)


class Number(IntEnum):
    SEVEN = 7


class Word(StrEnum):
    SEVEN = "seven"


@pytest.mark.parametrize(
    ("rule", "value", "text"),
    [
        *((ITEM, value, "7") for value in (7, 7.0, "7", b"7", Decimal("7.0"), np.int8(7))),
        *((ITEM, value, "7") for value in (np.float16(7), np.str_("7"), Number.SEVEN)),
        (ITEM, Word.SEVEN, "seven"),
        (ITEM, UUID(int=7), "00000000-0000-0000-0000-000000000007"),
        *((ITEM, value, None) for value in (None, math.nan, Decimal("NaN"), np.datetime64("NaT"))),
        *((ITEM, value, None) for value in (7.5, Decimal("7.5"), True, [], "\ud800", b"\xff")),
        *((ITEM, value, None) for value in (2.0**53, np.float32(2**24), np.float16(2**11))),
        (ITEM, Decimal("7.00000000000000000001"), None),
        (ITEM, 2.0**53 - 1, "9007199254740991"),
        (ITEM, (1 << 64) - 1, "18446744073709551615"),
        *((ITEM, value, None) for value in (1 << 64, -(1 << 63) - 1, 10**4200, Decimal("1E+99"))),
        *((ITEM, value, None) for value in (datetime(2026, 11, 20), timedelta(1), 7j)),
        (NAME, b"\xff", b"\xff"),
        (NAME, 7, b"7"),
        (OUTCOME, True, "true"),
        (OUTCOME, np.bool_(False), "false"),
        (OUTCOME, -0.0, "0"),
        (WEIGHT, np.float32(0.5), "0.5"),
        (WEIGHT, Decimal("0.10"), "0.1"),
        (WEIGHT, math.inf, "inf"),
        (WEIGHT, 2.0**53, "9007199254740992.0"),
        *((CELL, value, None) for value in (None, math.nan)),
        *((CELL, value, UNFIT) for value in ([], "\ud800", 1 << 64, datetime(2026, 1, 1), b"\xff")),
        (ORDER, 1.5, None),
        (ORDER, 1.795e18, "1795000000000000000"),
        (AT, 1795129200.75, "1795129200"),
        (AT, -1.5, "-2"),
        (AT, Decimal("1795129200.75"), "1795129200"),
        *((AT, value, None) for value in (2.0**63 * 2, math.inf, math.nan, True)),
        (AT, date(2026, 11, 20), "2026-11-20"),
        (AT, datetime(2026, 11, 20, 23, 30), "2026-11-20 23:30:00.000000"),
        (AT, datetime(2026, 11, 20, 23, 30, tzinfo=UTC), "2026-11-20 23:30:00.000000Z"),
        (AT, np.datetime64("2026-11-20T23:30:00.123456789"), "2026-11-20 23:30:00.123456"),
        (AT, np.datetime64("2026-11-20"), "2026-11-20"),
        *((AT, np.datetime64(each), None) for each in ("20000-01-01", "20000-01-01T00:00:00")),
        (AT, datetime.min.replace(tzinfo=timezone(timedelta(hours=9))), None),
        (LIST, ["London", 7, None, 7.5, b"7"], ["London", "7", None, None, "7"]),
        (LIST, np.array(["London", "Rome"]), ["London", "Rome"]),
        *((LIST, value, None) for value in ("London", {"London"}, {"a": 1}, 7, np.array(5))),
    ],
)
def test_a_value_is_one_text_whatever_stands_beside_it(rule: Rule, value: Any, text: Any):
    for beside in ([], [None], [value], ["x"], [7], [7.5], [datetime(2026, 1, 1)], [["x"]], [{}]):
        found = rule.arrow([*beside, value, *beside])
        assert found.type == rule.type
        assert found[len(beside)].as_py() == text


@pytest.mark.parametrize("rule", [NAME, ITEM, WEIGHT, AT])
@settings(max_examples=20, deadline=None)
@given(st.lists(st.text() | st.none()) | st.lists(st.integers()) | st.lists(st.datetimes()))
def test_many_values_of_one_type_are_what_each_is_alone(rule: Rule, values: list[Any]):
    alone = [rule.arrow([object(), value])[1] for value in values]  # never all at once
    assert rule.arrow(values).to_pylist() == [each.as_py() for each in alone]


def test_values_of_pandas():
    pd = pytest.importorskip("pandas")
    for missing in (pd.NaT, pd.NA):
        assert [rule.arrow([missing])[0].as_py() for rule in (ITEM, CELL, AT)] == [None] * 3
    moment = pd.Timestamp("2026-11-20 23:30:00.123456789", tz="Europe/Berlin")
    assert AT.arrow([moment])[0].as_py() == "2026-11-20 22:30:00.123456Z"
    far = pd.Timestamp(np.datetime64("20000-01-01", "s"))
    assert AT.arrow([far])[0].as_py().startswith("20000-")  # which no window reads


def test_the_mark_of_what_fits_nothing_can_be_no_name():
    assert hidden_character(UNFIT)
    assert Rule.from_roles({"wide rank"}).arrow([{}])[0].as_py() == UNFIT
    assert pa.types.is_large_string(Rule.from_roles({"user", "group"}).type)
