"""Typed columns of a caller's table in the few types that jobs read. Vectorised.

A value that its plain type does not hold becomes null, and so sets its own row aside.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from hushrank.flows.interfaces.python.values import ITEM, MOST_EXACT, Rule
from hushrank.transforms.common.schema import is_list, is_text

_CALENDAR = (-62_135_596_800, 253_402_300_799)  # seconds of the years 1 to 9999, from 1970
_SECONDS_OF_A_DAY = 86_400
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_INT64 = 1 << 63
_MOST_EXACT = {"halffloat": 1 << 11, "float": 1 << 24, "double": MOST_EXACT}


def plain_type(type_: pa.DataType, rule: Rule) -> pa.DataType:
    """The type without dictionaries and views; of a column of nulls, the type of objects."""
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
    """Values in their plain type; null for a value that it does not hold."""
    source = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if pa.types.is_floating(source) and pa.types.is_integer(type_):
        return _integers(column.cast(source), rule)
    if pa.types.is_temporal(source) and rule.has_times:
        column = _in_calendar(column.cast(source))
    return column.cast(type_)


def _integers(floats: pa.Array, rule: Rule) -> pa.Array:
    """The integers that floats stand for, as a data frame writes a column with gaps; else null."""
    most = 1 << 63 if rule.has_times else _MOST_EXACT[str(floats.type)]
    values = floats.cast(pa.float64())
    floors = pc.floor(values)
    fits = pc.less(pc.abs(floors), pa.scalar(float(most)))
    if not rule.is_floored:
        fits = pc.and_(fits, pc.equal(values, floors))
    return pc.if_else(fits, floors, None).cast(pa.int64())


def _in_calendar(times: pa.Array) -> pa.Array:
    """Times and dates of the years 1 to 9999; null for others, which Python's calendar lacks."""
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
