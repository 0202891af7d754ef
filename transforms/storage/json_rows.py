"""Rows of JSON Lines: the meaning of a line follows from its own bytes and the requested columns.

Every value becomes text, so 1, "1" and 1.0 are one value, whatever other lines hold. Arrow parses
many lines at once if the result is the same as parsing each line alone:

* Each of these lines starts with {, behind spaces or not, and ends with }. Between a } and a { JSON
  allows a line end only between two whole values (a list would need a comma, and no string holds a
  bare line end). So if the lines parse at all, each holds at least one value; if there are as many
  rows as lines, each holds exactly one.
* Arrow gets the types, so no row chooses them for another row. If lines do not fit the types, the
  lines before and after them are parsed separately, and the odd lines one by one.
* Lines on which the two parsers might differ (`_for_arrow`) are always read one by one.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from hushrank.transforms.common.schema import InputError, is_list
from hushrank.transforms.storage.text_lines import (
    BYTE_ORDER_MARK,
    CARRIAGE_RETURN,
    Mask,
    Places,
    Readable,
    Records,
    read_records,
    refuse_utf_16,
)

MOST_BRACKETS = 256  # most brackets that open in one line, also in texts: it bounds the nesting
MOST_EXACT = 1 << 53  # numbers with a fraction or an exponent are floats, exact below this
_INT64 = 1 << 63
_INT64_DIGITS = 20  # digits with a sign
_ONE_BY_ONE = 128  # number of lines that are not worth another attempt at once
_LOCATED = 1 << 13  # up to so many lines Arrow's report of where it stopped is worth following
_GUESSED_FROM = 8  # lines from which types are guessed
_ROW = re.compile(r"in row (\d+)$")  # in Arrow's error
_OPEN_BRACE, _CLOSE_BRACE, _OPEN_BRACKET, _SPACE = b"{}[ "
_MOST_INDENTED = 16  # most spaces before the objects of a list that were a line each, or indented
# Texts that only one of the parsers may take for a number, and lone surrogates, which some releases
# of Arrow accept. Each begins with bytes that can be found fast.
_DOUBTFUL = [re.compile(each) for each in (rb"NaN[\s,}\]]", rb"Inf(?:inity)?[\s,}\]]", rb"\\u[dD]")]
_BLANKS = " \t\r\n"

Kinds = dict[str, pa.DataType]


class _NotARowError(Exception):
    """Error for a line that is not a row; it has no text, because that would quote the line."""


class _UnfitError(Exception):
    """Error for lines that cannot be parsed at once; `row` is where Arrow stopped, if known."""

    def __init__(self, row: int | None = None) -> None:
        super().__init__()
        self.row = row


class _Integer(str):
    __slots__ = ()


class _Decimal(str):
    __slots__ = ()


class _Object(list[tuple[str, object]]):
    """Keys and values in their order, including repeated keys."""


_CONSTANT = object()  # NaN or Infinity
_DECODER = json.JSONDecoder(
    object_pairs_hook=_Object,
    parse_int=_Integer,
    parse_float=_Decimal,
    parse_constant=lambda _: _CONSTANT,
)


def read_json_rows(
    stream: Readable, schema: pa.Schema, truths: frozenset[str], block_bytes: int
) -> Iterator[tuple[pa.Table, tuple[str, ...]]]:
    """Yield rows of `stream`, in order, and the lines that are not rows.

    Args:
        stream: JSON Lines after the byte order mark.
        schema: the columns to read: text, or lists of text.
        truths: columns in which true and false are values; in other columns they make the line
            invalid.
        block_bytes: number of bytes to read at once.
    """
    reader = _Reader(schema, truths)
    for lines in read_records(stream, block_bytes, carriage_returns=False):
        yield reader.read(lines)


@dataclass(frozen=True, slots=True)
class _Part:
    """Result for some lines.

    Attributes:
        numbers: numbers of the lines that are rows, ascending.
        rows: values of the lines.
        refused: numbers of the lines that are not rows.
    """

    numbers: Places
    rows: pa.Table
    refused: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class _Reader:
    schema: pa.Schema
    truths: frozenset[str]
    _guesses: Kinds = field(default_factory=dict)  # the last guesses: only what to try first

    def read(self, lines: Records) -> tuple[pa.Table, tuple[str, ...]]:
        """Return the rows of a block, and its lines that are not rows."""
        broken = lines.no_text() | _many_brackets(lines)
        together = _for_arrow(lines) & ~broken
        apart = ~together & ~broken & ~lines.blank()
        parts = list(self._together(lines, np.flatnonzero(together)))
        parts.append(self._one_by_one(lines, np.flatnonzero(apart)))
        for part in parts:
            broken[list(part.refused)] = True
        rows = pa.concat_tables([part.rows for part in parts]).combine_chunks()
        numbers = np.concatenate([part.numbers for part in parts])
        if (numbers[1:] < numbers[:-1]).any():
            rows = rows.take(pa.array(np.argsort(numbers)))
        return rows, lines.texts(broken)

    def _together(self, lines: Records, numbers: Places) -> Iterator[_Part]:
        """Yield results for lines that Arrow may parse, as many at once as Arrow accepts."""
        while len(numbers):
            try:
                yield _Part(numbers, self._at_once(lines, numbers))
                return
            except _UnfitError as unfit:
                row = unfit.row
            if row is None or len(numbers) > _LOCATED:
                row = len(numbers) // 2
            if min(row, len(numbers) - row) < _ONE_BY_ONE // 2:
                yield self._one_by_one(lines, numbers[:_ONE_BY_ONE])
                numbers = numbers[_ONE_BY_ONE:]
            else:
                yield from self._together(lines, numbers[:row])
                numbers = numbers[row:]

    def _at_once(self, lines: Records, numbers: Places) -> pa.Table:
        """Return the rows, if every line is a row with values of the guessed types.

        Raises:
            _UnfitError: some line is not.
        """
        kinds = self._guessed(lines, numbers[:_GUESSED_FROM])
        text = lines.joined(numbers)
        try:
            table = _parsed(text, kinds)
        except _UnfitError as unfit:
            floats = {name: _in_floats(kind) for name, kind in kinds.items()}
            if unfit.row is not None or floats == kinds:
                raise
            table = _parsed(text, floats)
        columns = [_as_text(table[name].combine_chunks()) for name in self.schema.names]
        if len(table) != len(numbers) or any(column is None for column in columns):
            raise _UnfitError
        return pa.table(columns, self.schema)

    def _guessed(self, lines: Records, numbers: Places) -> Kinds:
        """Guess the column types from the first lines; a guess never decides a meaning."""
        found: Kinds = {}
        for number in numbers.tolist():
            try:
                row = self._values(lines.text(number))
            except _NotARowError:
                continue
            for name in row.keys() - found.keys():
                if (kind := _kind(row[name])) is not None and self._suits(name, kind):
                    found[name] = kind
        self._guesses.update(found)
        return {each.name: self._guesses.get(each.name, each.type) for each in self.schema}

    def _suits(self, name: str, kind: pa.DataType) -> bool:
        """Whether the column may hold values of this type."""
        if pa.types.is_boolean(kind):
            return name in self.truths
        asked = self.schema.field(name).type
        if is_list(kind) and is_list(asked):
            return not (is_list(kind.value_type) or pa.types.is_boolean(kind.value_type))
        return is_list(kind) == is_list(asked)

    def _one_by_one(self, lines: Records, numbers: Places) -> _Part:
        kept, rows, refused = [], [], []
        for number in numbers.tolist():
            text = lines.text(number).strip(_BLANKS)
            if not text:
                continue
            try:
                rows.append(self._row(text))
                kept.append(number)
            except _NotARowError:
                refused.append(number)
        table = pa.Table.from_pylist(rows, self.schema)
        return _Part(np.array(kept, np.int64), table, tuple(refused))

    def _values(self, text: str) -> dict[str, object]:
        """Return the values of the columns that the line has.

        Raises:
            _NotARowError: the line is no JSON object, or has one of the columns twice.
        """
        try:
            found = _DECODER.decode(text)
        except (ValueError, RecursionError):
            raise _NotARowError from None
        if not isinstance(found, _Object):
            raise _NotARowError
        values: dict[str, object] = {}
        for name, value in found:
            if name in values:
                raise _NotARowError
            if name in self.schema.names:
                values[name] = value
        return values

    def _row(self, text: str) -> dict[str, object]:
        """Return the line as a row.

        Raises:
            _NotARowError: the line is not a row, or a value does not suit its column.
        """
        values = self._values(text)
        row: dict[str, object] = {}
        for name, type_ in zip(self.schema.names, self.schema.types, strict=True):
            value = values.get(name)
            if not is_list(type_):
                row[name] = _text(value, truth=name in self.truths)
            elif value is None:
                row[name] = None
            elif isinstance(value, list) and not isinstance(value, _Object):
                row[name] = [_text(each, truth=False) for each in value]
            else:
                raise _NotARowError
        return row


def _text(value: object, *, truth: bool) -> str | None:
    """Write a value that is not a list as text.

    Raises:
        _NotARowError: no column may hold this value.
    """
    if value is None:
        return None
    if isinstance(value, _Integer):
        number = int(value) if len(value) <= _INT64_DIGITS else _INT64
        if -_INT64 <= number < _INT64:
            return str(number)
    elif isinstance(value, _Decimal):
        if abs(float(value)) < MOST_EXACT:
            text: str = _text_of_floats(pa.array([float(value)]))[0].as_py()
            return text
    elif isinstance(value, str):
        if value.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in value):
            return value
    elif truth and isinstance(value, bool):
        return "true" if value else "false"
    raise _NotARowError


def _kind(value: object) -> pa.DataType | None:
    """Return the type in which Arrow can read the value; None if any type will do."""
    if value is None:
        return None
    if isinstance(value, bool):
        return pa.bool_()
    if isinstance(value, list) and not isinstance(value, _Object):
        told = next((kind for each in value if (kind := _kind(each)) is not None), None)
        return None if told is None else pa.list_(told)
    if isinstance(value, _Integer | _Decimal):
        return pa.int64() if isinstance(value, _Integer) else pa.float64()
    return pa.string()


def _parsed(text: bytes, kinds: Kinds) -> pa.Table:
    """Parse the values in `text`, if it consists of JSON objects with values of these types.

    Raises:
        _UnfitError: the value does not fit.
    """
    schema = pa.schema(list(kinds.items()))
    try:
        return pyarrow.json.read_json(
            io.BytesIO(text),
            pyarrow.json.ReadOptions(use_threads=False, block_size=len(text) + 1),
            pyarrow.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
        )
    except pa.ArrowException as error:
        row = _ROW.search(str(error))
        raise _UnfitError(None if row is None else int(row[1])) from None


def _as_text(column: pa.Array) -> pa.Array | None:
    """Convert values as `_text` writes them; None if Arrow may have rounded them."""
    if pa.types.is_list(column.type):
        values = _as_text(column.values)
        if values is None:
            return None
        return pa.ListArray.from_arrays(column.offsets, values, mask=column.is_null())
    if not pa.types.is_floating(column.type):
        return column.cast(pa.string())
    exact = pc.less(pc.abs(column), pa.scalar(float(MOST_EXACT)))
    return _text_of_floats(column) if pc.all(exact, min_count=0).as_py() else None


def _text_of_floats(values: pa.Array) -> pa.Array:
    """Write floats below `MOST_EXACT` as text; whole numbers look like integers."""
    whole = pc.equal(values, pc.trunc(values))
    integers = pc.if_else(whole, values, 0.0).cast(pa.int64()).cast(pa.string())
    return pc.if_else(whole, integers, values.cast(pa.string()))


def _in_floats(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_list(kind):
        return pa.list_(_in_floats(kind.value_type))
    return pa.float64() if pa.types.is_integer(kind) else kind


def _many_brackets(lines: Records) -> Mask:
    """Mark lines in which more than `MOST_BRACKETS` brackets open."""
    if lines.lengths.max(initial=0) <= MOST_BRACKETS:
        return np.zeros(len(lines), np.bool_)
    places = np.flatnonzero((lines.octets == _OPEN_BRACE) | (lines.octets == _OPEN_BRACKET))
    return np.diff(np.searchsorted(places, lines.offsets)) > MOST_BRACKETS


def _for_arrow(lines: Records) -> Mask:
    """Mark lines that start with {, end with }, and hold nothing on which the parsers differ."""
    start = lines.offsets[:-1]
    for _ in range(_MOST_INDENTED):  # a line ends with its line end, so none is left
        if not (indented := lines.octets[start] == _SPACE).any():
            break
        start = start + indented
    last = lines.offsets[1:] - 2
    last = last - (lines.octets[last] == CARRIAGE_RETURN)
    suit: Mask = (lines.octets[start] == _OPEN_BRACE) & (lines.octets[last] == _CLOSE_BRACE)
    suit &= last > start
    for pattern in _DOUBTFUL:
        places = np.array([found.start() for found in pattern.finditer(lines.content)], np.int64)
        suit &= ~lines.where(places)
    return suit


def json_names(path: str, head: bytes, most: int) -> list[str]:
    """Collect the keys of the rows in the first bytes of a file.

    Args:
        path: path of the file, for the message.
        head: the first bytes.
        most: number of bytes that were asked for; with as many bytes, the last line may be cut off.

    Raises:
        InputError: the first line is not an object.
    """
    refuse_utf_16(path, head)
    lines = head.removeprefix(BYTE_ORDER_MARK).splitlines(keepends=True)
    whole_lines = lines[:-1] if len(head) == most and len(lines) > 1 else lines
    rows = [_object(line) for line in whole_lines if line.strip()]
    if not rows or rows[0] is None:
        raise InputError(f"{path}: the first line is not a JSON object; JSON Lines has one a line.")
    return list(dict.fromkeys(name for row in rows if row for name in row))


def _object(line: bytes) -> dict[str, object] | None:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None
