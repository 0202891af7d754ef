"""Conversion of Python objects to Arrow; a value and its column's role alone decide its meaning.

Arrow infers the type of a column from all of its values, so one row would decide how all others are
read. Here a value becomes the text that JSON Lines would hold for it, whatever stands beside it. So
7, 7.0, `numpy.int64(7)`, `Decimal(7)` and "7" are one name. A value that no text stands for becomes
null, or `UNFIT` where null has a meaning; either sets its own row aside.

Typed columns become one of the few types that jobs read, vectorised. A value that its plain type
does not hold becomes null, and so sets its own row aside.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import ROUND_FLOOR, Decimal
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hushrank.transforms.common.schema import (
    DECIMALS,
    LENGTH,
    LISTS,
    OUTCOME,
    TRUTHS,
    WIDE_ITEM,
    WIDE_RANK,
    is_list,
    is_text,
)

WINDOW = "window"  # role of the column of times that selects the rows of a night
UNFIT = "\x1a"  # ASCII's substitute character; no name, word or number contains it
MOST_EXACT = 1 << 53  # from here on, one float stands for several integers

_IDENTITIES = frozenset({"user", "event"})  # roles of names that may be bytes
_TIMES = frozenset({WINDOW, "order"})
_CELLS = frozenset({WIDE_ITEM, WIDE_RANK})  # roles in which null means: not answered, or not ranked
_FRACTIONS = DECIMALS | {OUTCOME, LENGTH, *TRUTHS}  # roles in which floats need not be whole
_MISSING = frozenset({"NAType", "NaTType"})  # types that pandas uses for missing values
_INTEGERS = range(-(1 << 63), 1 << 64)  # integers that an Arrow column can hold
_MOST_DIGITS = 20  # most digits of such an integer
_NO_DATETIME = frozenset({"ns", "ps", "fs", "as"})  # units that numpy turns into integers


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Rule by which the values of a column are read.

    Attributes:
        type: type of the column when its values are Python objects: lists of texts, bytes or texts.
        has_truths: whether true and false are values.
        has_fractions: whether floats stay floats; else those that are whole stand for integers.
        has_times: whether dates and times are values.
        is_floored: whether a fraction of a time does not matter, because a night has whole seconds.
        unfit: text that is written for a value that no text stands for; None: null.
    """

    type: pa.DataType
    has_truths: bool
    has_fractions: bool
    has_times: bool
    is_floored: bool
    unfit: str | None

    @classmethod
    def from_roles(cls, roles: Collection[str]) -> Rule:
        """Build the rule of a column that plays these roles."""
        played = frozenset(roles)
        type_ = pa.large_binary() if played <= _IDENTITIES else pa.large_string()
        return cls(
            type=pa.large_list(pa.large_string()) if played & LISTS else type_,
            has_truths=bool(played & {*TRUTHS}),
            has_fractions=bool(played & _FRACTIONS),
            has_times=bool(played & _TIMES),
            is_floored=WINDOW in played,
            unfit=UNFIT if played & _CELLS else None,
        )

    def arrow(self, values: Sequence[Any]) -> pa.Array:
        """Convert values to a column of `type`; the length stays."""
        if is_list(self.type):
            return _lists(values)
        kinds = set(map(type, values))
        plain = None
        if kinds <= {str, type(None)}:
            plain = _at_once(values, pa.large_string())
        elif kinds <= {int, type(None)}:
            plain = _at_once(values, pa.int64())
        elif kinds <= {datetime, type(None)} and self.has_times and not _any_zone(values):
            plain = _at_once(values, pa.timestamp("us"))
        if plain is not None:  # the same texts as below, but faster
            return plain.cast(pa.large_string()).cast(self.type)
        as_bytes = self.type == pa.large_binary()
        return pa.array([self._bytes_or_text(value, as_bytes) for value in values], self.type)

    def _bytes_or_text(self, value: Any, as_bytes: bool) -> str | bytes | None:
        """Convert one value to text; names may stay bytes."""
        try:
            if as_bytes and isinstance(value, bytes | bytearray | memoryview):
                return memoryview(value).tobytes()
            text = self._text(value)
            encoded = None if text is None else text.encode()  # a lone surrogate is no text
        except Exception:  # an object of the caller's own class may raise anything
            return self.unfit
        return encoded if as_bytes else text

    def _text(self, value: Any) -> str | None:
        """Convert one value to text; None means that it is missing.

        Raises:
            Exception: no text stands for it.
        """
        if isinstance(value, pa.Scalar):
            value = value.as_py()
        if isinstance(value, np.generic):
            if isinstance(value, np.floating):
                digits = min(int(np.finfo(value.dtype).nmant) + 1, 53)
                return self._text_of_float(float(value), 1 << digits)
            value = _without_numpy(value)
        if value is None or type(value).__name__ in _MISSING:
            return None
        if isinstance(value, str):
            return str.__str__(value)
        if isinstance(value, bool) and self.has_truths:
            return "true" if value else "false"
        if isinstance(value, int) and not isinstance(value, bool):
            return _text_of_integer(int.__pos__(value))
        if isinstance(value, float):
            return self._text_of_float(float.__pos__(value), MOST_EXACT)
        if isinstance(value, Decimal):
            return self._text_of_decimal(value)
        if isinstance(value, date) and self.has_times:
            return _text_of_time(value)
        if isinstance(value, bytes | bytearray | memoryview):
            return memoryview(value).tobytes().decode()
        if isinstance(value, UUID):
            return str(value)
        raise ValueError("no text")

    def _text_of_float(self, value: float, most: int) -> str | None:
        if math.isnan(value):
            return None
        if value.is_integer() and abs(value) < most:
            return str(int(value))
        if self.has_fractions:
            return repr(value)
        if self.has_times and (value.is_integer() or self.is_floored):
            return _text_of_integer(math.floor(value))
        raise ValueError("no integer")

    def _text_of_decimal(self, value: Decimal) -> str | None:
        if value.is_nan():
            return None
        if value.is_finite() and value.adjusted() < _MOST_DIGITS:
            whole = value.to_integral_value(ROUND_FLOOR)
            if value == whole or (self.is_floored and not self.has_fractions):
                return _text_of_integer(int(whole))
        if self.has_fractions:
            return repr(float(value))
        raise ValueError("no integer")


ITEM = Rule.from_roles({"item"})  # rule of the items of a ranking


def _at_once(values: Sequence[Any], type_: pa.DataType) -> pa.Array | None:
    """Convert values that all have one Python type; None if some of them do not fit."""
    try:
        return pa.array(values, type_)
    except (pa.ArrowException, ValueError, OverflowError):  # a lone surrogate, an integer too large
        return None


def _any_zone(times: Sequence[datetime | None]) -> bool:
    return any(each is not None and each.tzinfo is not None for each in times)


def _lists(values: Sequence[Any]) -> pa.Array:
    """Convert rankings to lists of item texts; null for a value that is no list."""
    lists = [_list(value) for value in values]
    lengths = [0 if each is None else len(each) for each in lists]
    items = ITEM.arrow([item for each in lists if each is not None for item in each])
    offsets = pa.array(np.append(0, np.cumsum(lengths, dtype=np.int64)))
    return pa.LargeListArray.from_arrays(
        offsets, items, mask=pa.array([each is None for each in lists], pa.bool_())
    )


def _list(value: Any) -> list[Any] | None:
    try:
        if isinstance(value, pa.Scalar):
            value = value.as_py()
        if isinstance(value, np.ndarray | pa.Array):
            value = value.tolist()
        return list(value) if isinstance(value, list | tuple) else None
    except Exception:  # an object of the caller's own class may raise anything
        return None


def _without_numpy(value: np.generic) -> Any:
    """Convert a scalar of numpy to a Python object.

    Raises:
        ValueError: the value is a time that Python cannot hold.
    """
    if not isinstance(value, np.datetime64):
        return value.item()
    if np.isnat(value):
        return None
    is_fine = np.datetime_data(value.dtype)[0] in _NO_DATETIME
    moment = (value.astype("datetime64[us]") if is_fine else value).item()
    if isinstance(moment, int):
        raise ValueError("outside the calendar")
    return moment


def _text_of_integer(value: int) -> str:
    if value not in _INTEGERS:
        raise ValueError("more than 64 bits")
    return str(value)


def _text_of_time(value: date) -> str:
    """Write a time as Arrow does: with a zone in UTC and with Z, without one as local time."""
    if not isinstance(value, datetime):
        return value.isoformat()
    has_zone = value.tzinfo is not None and value.utcoffset() is not None
    moment = (value.astimezone(UTC) if has_zone else value).replace(tzinfo=None)
    return moment.isoformat(sep=" ", timespec="microseconds") + "Z" * has_zone


_CALENDAR = (-62_135_596_800, 253_402_300_799)  # seconds of the years 1 to 9999, from 1970
_SECONDS_OF_A_DAY = 86_400
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_INT64 = 1 << 63
_MOST_EXACT = {"halffloat": 1 << 11, "float": 1 << 24, "double": MOST_EXACT}


def plain_type(type_: pa.DataType, rule: Rule) -> pa.DataType:
    """Return the type without dictionaries and views; a column of nulls gets the type of
    objects."""
    if pa.types.is_dictionary(type_):
        return plain_type(type_.value_type, rule)
    if pa.types.is_null(type_):
        return rule.type
    if is_list(type_):
        item = type_.value_type
        item = item.value_type if pa.types.is_dictionary(item) else item
        return pa.large_list(item if pa.types.is_floating(item) else plain_type(item, ITEM))
    if pa.types.is_string_view(type_) or pa.types.is_string(type_):
        return pa.large_string()
    if is_text(type_) and not pa.types.is_large_string(type_):
        return pa.large_binary()
    if pa.types.is_floating(type_):
        return pa.float64() if rule.has_fractions else pa.int64()
    if pa.types.is_timestamp(type_) and type_.unit == "s":
        return pa.timestamp("ms", type_.tz)  # Parquet has no seconds
    return type_


def plain_column(column: pa.Array, type_: pa.DataType, rule: Rule) -> pa.Array:
    """Convert values to their plain type; null for a value that the type cannot hold."""
    source = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if pa.types.is_floating(source) and pa.types.is_integer(type_):
        return _integers(column.cast(source), rule)
    if pa.types.is_temporal(source) and rule.has_times:
        column = _in_calendar(column.cast(source))
    return column.cast(type_)


def _integers(floats: pa.Array, rule: Rule) -> pa.Array:
    """Convert floats to the integers that they stand for, as in a data frame with gaps; else
    null."""
    most = 1 << 63 if rule.has_times else _MOST_EXACT[str(floats.type)]
    values = floats.cast(pa.float64())
    floors = pc.floor(values)
    fits = pc.less(pc.abs(floors), pa.scalar(float(most)))
    if not rule.is_floored:
        fits = pc.and_(fits, pc.equal(values, floors))
    return pc.if_else(fits, floors, None).cast(pa.int64())


def _in_calendar(times: pa.Array) -> pa.Array:
    """Keep times and dates of the years 1 to 9999; null for others, which Python's calendar
    lacks."""
    type_ = times.type
    if pa.types.is_timestamp(type_):
        per_second, counts = _PER_SECOND[type_.unit], times.cast(pa.int64())
        first, last = (second * per_second for second in _CALENDAR)
    elif pa.types.is_date64(type_):
        counts = times.cast(pa.int64())
        first, last = (second * _PER_SECOND["ms"] for second in _CALENDAR)
    elif pa.types.is_date32(type_):
        counts = times.cast(pa.int32())
        first, last = (second // _SECONDS_OF_A_DAY for second in _CALENDAR)
    else:
        return times
    if pc.all(inside := _between(counts, first, last), min_count=0).as_py():
        return times
    return pc.if_else(inside, times, None)


def _between(counts: pa.Array, first: int, last: int) -> pa.Array:
    lowest, highest = (max(-_INT64, first), min(_INT64 - 1, last))
    return pc.and_(
        pc.greater_equal(counts, pa.scalar(lowest, counts.type)),
        pc.less_equal(counts, pa.scalar(highest, counts.type)),
    )
