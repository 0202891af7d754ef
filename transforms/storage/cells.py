"""Which rows have readable texts: valid UTF-8 of at most `MOST_TEXT_BYTES` bytes each.

The meaning of a row follows from its own bytes, so a row whose text breaks a rule is set aside
alone. The bound on texts is public; it keeps the work on one row small, whatever its content.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hushrank.transforms.common.names import integers_of_floats
from hushrank.transforms.common.schema import by_distinct, is_list, is_text, to_numpy

MOST_TEXT_BYTES = 4096
NOT_UTF8 = "a text is not UTF-8"
NOT_A_NAME = "a user or an event is a number that is not whole, or too large to be exact"
TOO_LONG = f"a text is longer than {MOST_TEXT_BYTES} bytes"

_FINE, _LONG, _BROKEN, _NAMELESS = 0, 1, 2, 3
_VIEWS = (  # of which Arrow finds no lengths; texts are not checked as they are converted
    (pa.types.is_string_view, pa.large_string()),
    (pa.types.is_binary_view, pa.large_binary()),
)
# Well-formed UTF-8, byte by byte (table 3-7 of the Unicode standard).
_WELL_FORMED = (
    r"^(?:[\x00-\x7F]|[\xC2-\xDF][\x80-\xBF]|\xE0[\xA0-\xBF][\x80-\xBF]"
    r"|[\xE1-\xEC\xEE\xEF][\x80-\xBF]{2}|\xED[\x80-\x9F][\x80-\xBF]"
    r"|\xF0[\x90-\xBF][\x80-\xBF]{2}|[\xF1-\xF3][\x80-\xBF]{3}|\xF4[\x80-\x8F][\x80-\xBF]{2})*$"
)

Flaws = NDArray[np.int8]


def set_unreadable_apart(
    rows: pa.RecordBatch, identities: Collection[str]
) -> tuple[pa.RecordBatch, pa.Table | None]:
    """Split the rows of a batch by whether all of their texts are readable.

    Args:
        rows: rows from a reader.
        identities: columns of names, whose bytes alone count; in a binary type they need not be
            UTF-8, for example if a UUID of 16 bytes names each person.

    Returns:
        The readable rows, in order, with strings instead of bytes except in `identities`, and there
        with integers instead of floats; the other rows with the column `reason`, None if there are
        none.
    """
    for place, field in enumerate(rows.schema):
        for is_view, plain in _VIEWS:
            if is_view(field.type):
                rows = rows.set_column(place, field.name, rows.column(place).cast(plain))
    flaws, named = np.zeros(len(rows), np.int8), rows
    for name in identities:
        if _holds_floats(rows[name].type):
            integers, nameless = integers_of_floats(rows[name])
            named = named.set_column(rows.schema.names.index(name), name, integers)
            flaws[nameless] = _NAMELESS
    texts = [name for name in rows.schema.names if _holds_text(rows[name].type)]
    as_bytes = {name for name in texts if name in identities and _is_binary(rows[name].type)}
    for name in texts:
        np.maximum(flaws, _flaws_of_cells(rows[name], utf8=name not in as_bytes), out=flaws)
    rejects = None
    if flaws.any():
        of_flaw = pa.array([None, TOO_LONG, NOT_UTF8, NOT_A_NAME])
        reasons = of_flaw.take(pa.array(flaws[flaws > 0]))
        rejects = as_rejects(rows.filter(pa.array(flaws > 0)), reasons)
        named = named.filter(pa.array(flaws == 0))
    rows = named
    for name in texts:
        if name not in as_bytes and not _is_plain_string(rows[name].type):
            strings = _on_values(rows[name], _strings)
            rows = rows.set_column(rows.schema.names.index(name), name, strings)
    return rows, rejects


def as_rejects(rows: pa.RecordBatch, reasons: pa.Array) -> pa.Table:
    r"""Rows with the column `reason`, with all texts as strings; bytes appear as in `\xe9`."""
    columns = {name: _on_values(rows[name], _shown) for name in rows.schema.names}
    return pa.table({**columns, "reason": reasons})


def _holds_floats(type_: pa.DataType) -> bool:
    if pa.types.is_dictionary(type_):
        return _holds_floats(type_.value_type)
    return bool(pa.types.is_floating(type_))


def _holds_text(type_: pa.DataType) -> bool:
    return is_text(type_.value_type if is_list(type_) else type_)


def is_string(type_: pa.DataType) -> bool:
    """Whether a type is of texts that are UTF-8 by its own rules, plain or dictionary-encoded."""
    if pa.types.is_dictionary(type_):
        return is_string(type_.value_type)
    return bool(pa.types.is_string_view(type_) or not _is_binary(type_))


def _is_binary(type_: pa.DataType) -> bool:
    """Whether values have to be converted to become strings."""
    if pa.types.is_dictionary(type_):
        return _is_binary(type_.value_type)
    return not (pa.types.is_string(type_) or pa.types.is_large_string(type_))


def _is_plain_string(type_: pa.DataType) -> bool:
    if is_list(type_):
        return _is_plain_string(type_.value_type)
    return not pa.types.is_dictionary(type_) and is_text(type_) and not _is_binary(type_)


def _flaws_of_cells(column: pa.Array, *, utf8: bool) -> Flaws:
    """The flaw of each cell; for a list, the worst flaw of its items."""
    if not is_list(column.type):
        return by_distinct(column, lambda values: _flaws(values, utf8=utf8), np.int8(_FINE))
    worst = np.zeros(len(column), np.int8)
    of_item = _flaws_of_cells(column.flatten(), utf8=utf8)
    if of_item.any():
        lengths = to_numpy(pc.fill_null(pc.list_value_length(column), 0))
        np.maximum.at(worst, np.repeat(np.arange(len(column)), lengths), of_item)
    return worst


def _flaws(values: pa.Array, *, utf8: bool) -> Flaws:
    flaws = np.zeros(len(values), np.int8)
    length = pc.binary_length(values)
    if (pc.max(length).as_py() or 0) > MOST_TEXT_BYTES:
        flaws[to_numpy(pc.fill_null(pc.greater(length, MOST_TEXT_BYTES), False))] = _LONG
    if utf8:
        content = values.cast(pa.large_binary())
        try:
            content.cast(pa.large_string())
        except pa.ArrowInvalid:  # Arrow does not say which value is wrong
            formed = pc.match_substring_regex(content, _WELL_FORMED)
            flaws[~to_numpy(pc.fill_null(formed, True))] = _BROKEN
    return flaws


def _on_values(column: pa.Array, change: Callable[[pa.Array], pa.Array]) -> pa.Array:
    """A column with its texts changed, also inside dictionaries and lists."""
    if is_list(column.type):
        if not is_text(column.type.value_type):
            return column
        changed = _on_values(column.flatten(), change)
        null = pc.is_null(column)
        lengths = to_numpy(pc.fill_null(pc.list_value_length(column), 0))
        offsets = pa.array(np.append(0, np.cumsum(lengths)), pa.int64())
        return pa.LargeListArray.from_arrays(offsets, changed, mask=null)
    if not is_text(column.type):
        return column
    if pa.types.is_dictionary(column.type):
        return pa.DictionaryArray.from_arrays(column.indices, change(column.dictionary))
    return change(column)


def _strings(values: pa.Array) -> pa.Array:
    """The same texts as strings; unreadable ones, which no row uses any more, become ''."""
    type_ = pa.large_string() if _is_binary(values.type) else values.type
    flaws = _flaws(values, utf8=True)
    if flaws.any():
        values = pc.if_else(pa.array(flaws == _FINE), values.cast(pa.large_binary()), b"")
    return values.cast(type_)


def _shown(values: pa.Array) -> pa.Array:
    if not _flaws(values, utf8=True).any() and not _is_binary(values.type):
        return values
    content = values.cast(pa.large_binary()).to_pylist()
    shown = [None if each is None else each.decode(errors="backslashreplace") for each in content]
    return pa.array(shown, pa.large_string())
