"""Turn test answers as people write them into codes: items, right or wrong, and pseudonyms.

Pure: a batch in, a batch out. A row that breaks a rule is set aside with the reason. A log has one
answer a row, or one person a row (a wide table).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hushrank.privacy.keyed_hash import Hashes, KeyedHash
from hushrank.privacy.units import level_of
from hushrank.transforms.common.catalogue import GROUP_RULES, UNKNOWN, Catalogue
from hushrank.transforms.common.encode import (
    Rules,
    Sifted,
    missing,
    pseudonyms,
    sift,
    values_of_words,
)
from hushrank.transforms.common.epsilons import (
    EpsilonSource,
    EpsilonTable,
    epsilons_of,
    rules_of_epsilons,
)
from hushrank.transforms.common.schema import (
    WIDE_ITEM,
    ByRole,
    Words,
    by_distinct,
    is_text,
    to_numpy,
    to_text,
)
from hushrank.transforms.responses.answer_sheets import (
    MOST_POINTS,
    NO_BOOKLET,
    Responses,
    SheetRules,
    least_of,
)

ANSWER_TEXTS = {"1": 1, "1.0": 1, "true": 1, "0": 0, "0.0": 0, "false": 0}
POINT_TEXTS = {
    f"{number}{end}": number for number in range(2, MOST_POINTS + 1) for end in ("", ".0")
}
NOT_ANSWERED_TEXTS = ("", "NA")  # texts that statistics programs write into an empty cell
NOT_ANSWERED = -1  # value of a mark without an answer
BAD = -2  # value of a mark that is neither an answer nor a blank

_NO_MARKS = "an answer is neither 0, 1 nor empty"
_NO_POINTS = "an answer is neither a number of points of its item nor empty"
_NO_BOOKLET, _OTHER_BOOKLET = "null booklet", "booklet is not one of input.booklets"
_NO_USER, _NO_ORDER, _BAD_ORDER = (
    "null user",
    "null order",
    "order is neither a whole number nor a time",
)
Marks = NDArray[np.int8]
Integers = NDArray[np.int64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseColumns(ByRole):
    """Columns of a log with one answer a row.

    Attributes:
        user: person who answered.
        item: item that was answered, by name or by position in the catalogue.
        correct: 1 where the answer was right, 0 where it was wrong.
        order: time or number of the attempt at which the answer was given; None: answers have no
            order.
        words: meaning of texts of `correct` in place of 1 and 0; with a key, for a blank.
        booklet: booklet that its person had; None: no column says so.
        epsilon: the epsilon of its person; None: no column says so.
        key: the right answer to each item, as of `key_texts`; None: answers say if they are right.
        group: the public group of its person; None: no column says so.
    """

    user: str
    item: str
    correct: str
    order: str | None = None
    words: Words | None = None
    booklet: str | None = None
    epsilon: str | None = None
    key: tuple[str, ...] | None = None
    group: str | None = None

    def item_names(self) -> list[str]:
        """The column whose values name items."""
        return [self.item]

    def roles(self) -> list[tuple[str, str]]:
        """Role and name of each column."""
        required = [("user", self.user), ("item", self.item), ("correct", self.correct)]
        return [*required, *_optional_roles(self)]


@dataclass(frozen=True, slots=True, kw_only=True)
class WideColumns(ByRole):
    """Columns of a table with one row a person: a column of answers for every item.

    Attributes:
        user: person whose row it is.
        items: the catalogue's names, which are names of columns; empty cells were not answered.
        order, words, booklet, epsilon, key, group: as in `ResponseColumns`.
    """

    user: str
    items: tuple[str, ...]
    order: str | None = None
    words: Words | None = None
    booklet: str | None = None
    epsilon: str | None = None
    key: tuple[str, ...] | None = None
    group: str | None = None

    def item_names(self) -> list[str]:
        """Return no names: no value names an item."""
        return []

    def roles(self) -> list[tuple[str, str]]:
        """Role and name of each column."""
        required = [("user", self.user), *((WIDE_ITEM, name) for name in self.items)]
        return [*required, *_optional_roles(self)]


def _optional_roles(columns: ResponseColumns | WideColumns) -> list[tuple[str, str]]:
    named = ((role, getattr(columns, role)) for role in ("order", "booklet", "epsilon", "group"))
    return [(role, name) for role, name in named if name is not None]


def encode_responses(
    batch: pa.RecordBatch,
    columns: ResponseColumns | WideColumns,
    catalogue: Catalogue,
    keyed_hash: KeyedHash,
    sheets: SheetRules | None = None,
    epsilons: EpsilonSource | None = None,
    table: EpsilonTable | None = None,
) -> Sifted[Responses]:
    """Encode one batch.

    Args:
        batch: a batch with the columns that `columns` names.
        columns: roles of the columns. In a wide table a row with a cell that is neither an
            answer nor empty is set aside as a whole.
        catalogue: the public items.
        keyed_hash: makes the pseudonyms of people.
        sheets: rules of whole sheets. A blank of a long table then breaks no rule; answers are
            followed by marks for the booklet of a row and for an answer that cannot be read.
        epsilons: source of people's epsilons, with their levels; None: people have none.
        table: the content of `epsilons.table`.
    """
    level, epsilon_rules = _levels(batch, columns, epsilons, table)
    if isinstance(columns, WideColumns):
        return _encode_wide(batch, columns, keyed_hash, sheets, level, epsilon_rules)
    item = catalogue.codes(batch[columns.item]).astype(np.int64)
    points = () if sheets is None else sheets.points
    answer = _answers(batch[columns.correct], columns, item, points)
    order, order_rules = _order(batch, columns.order)
    rules = [
        (_NO_USER, missing(batch, columns.user)),
        ("null item", _null(batch[columns.item])),
        ("item not in the catalogue", item == UNKNOWN),
        ("null answer", (answer == NOT_ANSWERED) & (sheets is None)),
        (_NO_POINTS if points else "answer is neither 0 nor 1", answer == BAD),
        *order_rules,
    ]
    booklet, booklet_rules = _booklets(batch, columns.booklet, sheets)
    group, group_rules = _groups(batch, columns.group, sheets)
    valid, rejects = sift(batch, [*rules, *booklet_rules, *group_rules, *epsilon_rules])
    rows = np.flatnonzero(valid & (answer != NOT_ANSWERED))
    owner, person = _people(batch[columns.user], rows, keyed_hash)
    own = None if level is None else least_of(level[rows], person, len(owner))
    correct = answer[rows].astype(np.uint8)
    answers = Responses(owner, person, item[rows], correct, _at(order, rows), own)
    if sheets is None:
        return Sifted(answers, rejects, valid)
    # A row on an item that is left out of the catalogue says nothing of the sheet.
    spoiled = np.flatnonzero(~valid & ~missing(batch, columns.user) & (item != UNKNOWN))
    parts = [answers, _marks_of(batch[columns.user], spoiled, sheets.spoiled, order, keyed_hash)]
    named = np.flatnonzero(valid)
    for codes in _markers(sheets, booklet, group):
        parts.append(_marks_of(batch[columns.user], named, codes[named], order, keyed_hash))
    return Sifted(Responses.concatenated(parts), rejects, valid)


def _encode_wide(
    batch: pa.RecordBatch,
    columns: WideColumns,
    keyed_hash: KeyedHash,
    sheets: SheetRules | None,
    level: Integers | None,
    epsilon_rules: Rules,
) -> Sifted[Responses]:
    most = (sheets.points if sheets is not None else ()) or (1,) * len(columns.items)
    marks = _cells(batch, columns, most)
    order, order_rules = _order(batch, columns.order)
    rules = [
        (_NO_USER, missing(batch, columns.user)),
        (_NO_POINTS if max(most) > 1 else _NO_MARKS, (marks == BAD).any(axis=1)),
        *order_rules,
    ]
    booklet, booklet_rules = _booklets(batch, columns.booklet, sheets)
    if sheets is not None and sheets.booklets:  # the pilot query counts rows, so rows say it too
        outside = (marks != NOT_ANSWERED).astype(np.float32) @ ~sheets.members().T
        fits = outside == 0
        named = fits.any(axis=1) if booklet is None else fits[np.arange(len(batch)), booklet]
        booklet_rules = (*booklet_rules, (NO_BOOKLET, ~named))
    group, group_rules = _groups(batch, columns.group, sheets)
    valid, rejects = sift(batch, [*rules, *booklet_rules, *group_rules, *epsilon_rules])
    rows = np.flatnonzero(valid)
    owner, person_of_row = _people(batch[columns.user], rows, keyed_hash)
    marks = marks[rows]
    row, item = np.nonzero(marks >= 0)
    answers = Responses(
        owner,
        person_of_row[row],
        item,
        marks[row, item].astype(np.uint8),
        _at(order, rows[row]),
        None if level is None else least_of(level[rows], person_of_row, len(owner)),
    )
    if sheets is not None:
        parts = [answers]
        for codes in _markers(sheets, booklet, group):
            parts.append(_marks_of(batch[columns.user], rows, codes[rows], order, keyed_hash))
        answers = Responses.concatenated(parts)
    return Sifted(answers, rejects, valid)


def _answers(
    column: pa.Array, columns: ResponseColumns, item: Integers, points: tuple[int, ...]
) -> Marks:
    """The marks of a log's answers; of an item that is not in the catalogue anything."""
    if columns.key is not None:
        known = pa.array([*columns.key, ""], pa.large_string())
        return marks_by_key(column, known.take(pa.array(item % len(known))), columns.words)
    marks = marks_of(column, columns.words, max(points, default=1))
    if not points:
        return marks
    most = np.append(points, max(points))
    return np.where(marks > most[item], np.int8(BAD), marks)


def _cells(batch: pa.RecordBatch, columns: WideColumns, most: tuple[int, ...]) -> Marks:
    """The marks of a table's cells, shape (rows, items)."""
    if columns.key is None:
        limits = zip(columns.items, most, strict=True)
        return np.column_stack([marks_of(batch[name], columns.words, own) for name, own in limits])
    right = zip(columns.items, pa.array(columns.key, pa.large_string()), strict=True)
    words = columns.words
    return np.column_stack([marks_by_key(batch[name], answer, words) for name, answer in right])


def _levels(
    batch: pa.RecordBatch,
    columns: ResponseColumns | WideColumns,
    epsilons: EpsilonSource | None,
    table: EpsilonTable | None,
) -> tuple[Integers | None, Rules]:
    """The level of each row's epsilon, and the rules that it may break."""
    if epsilons is None:
        return None, ()
    epsilon, broken = epsilons_of(batch, columns, epsilons, table)
    return np.maximum(level_of(epsilon, epsilons.levels), 0), rules_of_epsilons(broken)


def _booklets(
    batch: pa.RecordBatch, name: str | None, sheets: SheetRules | None
) -> tuple[Integers | None, Rules]:
    """The number of each row's booklet, and the rules that it may break."""
    if name is None or sheets is None or sheets.names is None:
        return None, ()
    column, names = batch[name], pa.array(sheets.names, pa.large_string())
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    # A number is a name, too: it never counts booklets from 0.
    text = pc.utf8_trim_whitespace(column.cast(pa.large_string()))
    found = pc.index_in(text, value_set=names, skip_nulls=True)
    booklet = to_numpy(pc.fill_null(found, UNKNOWN)).astype(np.int64)
    return booklet, ((_NO_BOOKLET, _null(column)), (_OTHER_BOOKLET, booklet == UNKNOWN))


def _groups(
    batch: pa.RecordBatch, name: str | None, sheets: SheetRules | None
) -> tuple[Integers | None, Rules]:
    """The public group of each row, and the rules that it may break."""
    if name is None or sheets is None or sheets.groups is None:
        return None, ()
    group = sheets.groups.codes(batch[name]).astype(np.int64)
    return group, [(rule, group == code) for rule, code in GROUP_RULES]


def _markers(
    sheets: SheetRules, booklet: Integers | None, group: Integers | None
) -> Iterator[Integers]:
    """Codes by which each row names its booklet, and the group of its person."""
    if booklet is not None:
        yield sheets.marker(booklet)
    if group is not None:
        yield sheets.group_marker(group)


def _marks_of(
    users: pa.Array,
    rows: Integers,
    code: Integers | int,
    order: Integers | None,
    keyed_hash: KeyedHash,
) -> Responses:
    """A code of `SheetRules` on the sheet of each of these rows."""
    owner, person = _people(users, rows, keyed_hash)
    codes = np.broadcast_to(np.asarray(code, np.int64), rows.shape).copy()
    return Responses(owner, person, codes, np.zeros(len(rows), np.uint8), _at(order, rows))


def _people(column: pa.Array, rows: Integers, keyed_hash: KeyedHash) -> tuple[Hashes, Integers]:
    """Pseudonyms, one for each run of rows that name the same person, and each row's run."""
    column = column.take(pa.array(rows))
    values = column.indices if pa.types.is_dictionary(column.type) else column
    first = np.ones(len(rows), np.bool_)
    first[1:] = to_numpy(pc.not_equal(values[1:], values[:-1]))
    starts = pa.array(np.flatnonzero(first))
    return pseudonyms(column.take(starts), keyed_hash), np.cumsum(first) - 1


def marks_of(column: pa.Array, words: Words | None, most: int = 1) -> Marks:
    """Points of each cell, 0 to `most`; `NOT_ANSWERED` or `BAD` where it has none.

    Args:
        column: cells of any type.
        words: meaning of texts in place of 1 and 0; with points, beside them.
        most: points that an item gives at most; 1: an answer is right or wrong.
    """
    if pa.types.is_null(column.type):
        return np.full(len(column), NOT_ANSWERED, np.int8)
    if words is not None:
        return _marks_of_words(column, words, most)
    if is_text(column.type):
        marks = by_distinct(column, _marks_of_texts, np.int8(NOT_ANSWERED))
        return np.where(marks > most, np.int8(BAD), marks)
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    missing = _null(column)
    values = to_numpy(pc.fill_null(column, 0) if column.null_count else column)
    if values.dtype.kind == "f":
        missing |= np.isnan(values)
    valid = (values == 0) | (values == 1)
    for points in range(2, most + 1):
        valid |= values == points
    marks = np.where(valid, values, BAD).astype(np.int8)
    return np.where(missing, np.int8(NOT_ANSWERED), marks)


def key_texts(key: Sequence[str]) -> tuple[str, ...]:
    """Answers as cells are compared with them: case and blanks around them do not count."""
    texts = pc.utf8_lower(pc.utf8_trim_whitespace(pa.array(key, pa.large_string())))
    return tuple(texts.to_pylist())


def without_cell(key: Sequence[str], words: Words | None) -> Iterator[int]:
    """Yield the places of a key's answers that no cell can hold: as texts they mean a blank.

    Args:
        key: answers as they are written.
        words: as of `marks_by_key`.
    """
    wanted = pa.array(key_texts(key), pa.large_string())
    marks = marks_by_key(pa.array(key, pa.large_string()), wanted, words)
    yield from np.flatnonzero(marks == NOT_ANSWERED).tolist()


def marks_by_key(
    column: pa.Array, wanted: pa.Array | pa.Scalar, words: Words | None = None
) -> Marks:
    """1 where a cell is the right answer, 0 where it is another, `NOT_ANSWERED` where it is empty.

    Args:
        column: cells of any type.
        wanted: as of `key_texts`, one for all cells or one for each.
        words: texts that mean a blank, beside the empty cell and NA.
    """
    if pa.types.is_null(column.type):
        return np.full(len(column), NOT_ANSWERED, np.int8)
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_floating(column.type):
        column = pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), column)
    text = pc.utf8_trim_whitespace(pc.cast(column, pa.large_string()))
    if pa.types.is_floating(column.type):
        text = pc.replace_substring_regex(text, r"\.0$", "")
    blank = to_numpy(pc.fill_null(pc.is_in(text, pa.array(NOT_ANSWERED_TEXTS, text.type)), True))
    if words is not None:
        blank |= values_of_words(text, words, np.int8(BAD)) == NOT_ANSWERED
    right = to_numpy(pc.fill_null(pc.equal(pc.utf8_lower(text), wanted), False))
    marks = np.where(blank, np.int8(NOT_ANSWERED), right.astype(np.int8))
    return np.where(_null(column), np.int8(NOT_ANSWERED), marks)


def _marks_of_words(column: pa.Array, words: Words, most: int) -> Marks:
    marks = values_of_words(column, words, np.int8(BAD))
    unanswered = _null(column)
    if is_text(column.type):
        unanswered |= (marks == BAD) & by_distinct(column, _are_unanswered, np.False_)
    marks[unanswered] = NOT_ANSWERED
    return np.where(marks == BAD, marks_of(column, None, most), marks) if most > 1 else marks


def _are_unanswered(texts: pa.Array) -> NDArray[np.bool_]:
    empty = pa.array(NOT_ANSWERED_TEXTS, pa.large_string())
    return to_numpy(pc.is_in(to_text(texts), value_set=empty))


def _marks_of_texts(texts: pa.Array) -> Marks:
    known = pa.array([*ANSWER_TEXTS, *POINT_TEXTS, *NOT_ANSWERED_TEXTS], pa.large_string())
    text = to_text(texts)
    text = pc.if_else(pc.equal(text, "NA"), text, pc.utf8_lower(text))
    found = to_numpy(pc.fill_null(pc.index_in(text, value_set=known, skip_nulls=True), -1))
    blanks = [NOT_ANSWERED] * len(NOT_ANSWERED_TEXTS)
    marks = np.array([*ANSWER_TEXTS.values(), *POINT_TEXTS.values(), *blanks, BAD], np.int8)
    return np.where(_null(texts), np.int8(NOT_ANSWERED), marks[found])


def _null(column: pa.Array) -> Mask:
    return to_numpy(pc.is_null(column))


def _order(batch: pa.RecordBatch, name: str | None) -> tuple[Integers | None, Rules]:
    """The column `order` as integers, and the rules that its values may break.

    Times become microseconds since 1970 (without a zone: as in UTC). Text is read as whole numbers,
    or as times such as 2026-11-20 or 2026-11-20T02:00:04Z.
    """
    if name is None:
        return None, ()
    column = batch[name]
    missing = _null(column)
    if is_text(column.type):
        pairs = by_distinct(column, _orders_of_texts, np.int64(0))
        return pairs[:, 0], ((_NO_ORDER, missing), (_BAD_ORDER, (pairs[:, 1] == 0) & ~missing))
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_date(column.type) or pa.types.is_timestamp(column.type):
        column = pc.cast(column, pa.timestamp("us"), safe=False).cast(pa.int64())
    order = to_numpy(pc.fill_null(column, 0)).astype(np.int64)
    return order, ((_NO_ORDER, missing), (_BAD_ORDER, _null(column) & ~missing))


def _orders_of_texts(texts: pa.Array) -> Integers:
    """Shape (m, 2): the order, and 1 where there is one."""
    found = _order_of_text(texts)
    known = to_numpy(pc.is_valid(found)).astype(np.int64)
    return np.column_stack([to_numpy(pc.fill_null(found, 0)).astype(np.int64), known])


def _order_of_text(column: pa.Array) -> pa.Array:
    """Whole numbers and times in text as int64; null where it is neither."""
    text = to_text(column)
    nothing = pa.scalar(None, pa.large_string())
    number = pc.match_substring_regex(text, r"^[+-]?([0-9]{1,18}|[1-8][0-9]{18})$")
    digits = pc.utf8_ltrim(pc.if_else(number, text, nothing), "+")
    clock = r"^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
    zone = r"([T ]([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9](\.[0-9]{1,6})?)?Z?)?$"
    time = pc.match_substring_regex(text, clock + zone)
    times = pc.utf8_rtrim(pc.if_else(time, text, nothing), "Z")
    return pc.coalesce(digits.cast(pa.int64()), _microseconds(times))


def _microseconds(times: pa.Array) -> pa.Array:
    """ISO times as microseconds since 1970; null where the day is in no calendar."""
    day = pc.strptime(pc.utf8_slice_codeunits(times, 0, 10), "%Y-%m-%d", "us", error_is_null=True)
    known = pc.equal(pc.strftime(day, "%Y-%m-%d"), pc.utf8_slice_codeunits(times, 0, 10))
    nothing = pa.scalar(None, pa.large_string())
    return pc.if_else(known, times, nothing).cast(pa.timestamp("us")).cast(pa.int64())


def _at(order: Integers | None, rows: Integers) -> Integers | None:
    return None if order is None else order[rows]
