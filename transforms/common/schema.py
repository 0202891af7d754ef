"""Columns of a log: their roles, the types that they may have, and the values that they become.

A schema (names and types) is public; no message here holds a value or a count of rows. A number
follows from its own bytes, whether it is written as an integer, a decimal, a float or text."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from enum import StrEnum
from functools import cached_property
from typing import Any, Protocol, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hushrank.transforms.common.plain_text import hidden_character, short, short_list, short_message

MOST_BIT_ITEMS = 64  # most items for which one word holds a set

Integers = NDArray[np.int64]
Mask = NDArray[np.bool_]
Values = TypeVar("Values", Integers, NDArray[np.float64], NDArray[np.int16], Mask)
MANY_ROWS = 64  # rows for each entry of a dictionary from which on no entry is looked for
MOST_COLUMNS = 20  # columns of a file or a table that a message names
# A file may be larger in memory than on disk: what is stored once may stand in many rows.
TOO_LARGE = (
    "{}: reading it takes more memory than the process may have. Write it with smaller row groups,"
    " stripes or batches and without very long texts, or raise memory_limit."
)
WIDE_ITEM = "wide item"  # the role of an item's own column in a table with one row for each person
GROUP_LIST, GROUP_TEXT, GROUP_FLAG = "list of groups", "groups in a text", "flag of a group"
TRUTHS = (
    "correct",
    WIDE_ITEM,
    "outcome",
    GROUP_FLAG,
)  # roles of columns in which true and false are values
OTHER_LETTERS = (
    " The file has this name in other letters (capitals), or with spaces around it: write it"
    " exactly as the file does."
)
FEATURE = "feature"  # the role of a column of a covariate
NUMBERS = {  # roles of numbers
    "epsilon": "epsilons are numbers, in nats",
    "weight": "weights are numbers",
    FEATURE: "features are numbers",
}
WIDE_RANK = "wide rank"  # the role of an item's own column in a table of rankings
RANK, RANKING, CONTEST = "rank", "ranking", "contest"  # roles of columns of a log of rankings
PLACE = "places"  # the role of a column for a place, whose cells name the item there
BEST, WORST, SHOWN = "best", "worst", "shown"  # of a choice of the best and the worst of a set
BEST_ITEM, WORST_ITEM, SHOWN_ITEM = "best item", "worst item", "shown item"  # of rows of one set
PAIR = "pairs"  # the role of a column for a pair of items, whose cells name the one that won
LEFT_ITEM, RIGHT_ITEM, CHOICE = "left item", "right item", "choice"  # columns of such cells' rows
OUTCOME, LENGTH = "outcome", "length"  # and of private answers to pairs of a ranking
PERSON_FEATURE = "person feature"  # the role of a public feature of the person who ranks
MAYBE_FLOATS = frozenset(
    {
        *("user", "event", RANK, WIDE_RANK, OUTCOME, LENGTH, PERSON_FEATURE, "correct", WIDE_ITEM),
        *(PAIR, GROUP_FLAG),
    }
)
LISTS = frozenset({RANKING, GROUP_LIST})  # roles of columns of lists
DECIMALS = frozenset(
    {*NUMBERS, RANK, WIDE_RANK, PERSON_FEATURE}
)  # roles of numbers that need not be whole
Numbers = NDArray[np.float64]


def take_lists(values: Values, lengths: Integers, rows: Integers) -> Values:
    """The values of the chosen lists, list by list."""
    if len(lengths) and (lengths == lengths[0]).all():  # the common case, in a fraction of the time
        return np.take(values.reshape(len(lengths), -1), rows, axis=0).ravel()
    starts = (np.cumsum(lengths) - lengths)[rows]
    chosen = lengths[rows]
    before = np.cumsum(chosen) - chosen
    return values[np.repeat(starts - before, chosen) + np.arange(int(chosen.sum()))]


def any_in_list(broken: Mask, lengths: Integers) -> Mask:
    """Whether each list has a broken item."""
    found = np.zeros(len(lengths), np.bool_)
    places = np.flatnonzero(broken)
    if len(places):
        found[np.searchsorted(np.cumsum(lengths), places, side="right")] = True
    return found


def repeats_item(items: Integers, lengths: Integers, n_items: int) -> Mask:
    """Whether each list holds an item twice; same shape as `lengths`."""
    repeats = np.zeros(len(lengths), np.bool_)
    held = np.flatnonzero(lengths)
    if not len(held):
        return repeats
    if n_items <= MOST_BIT_ITEMS:
        # A sum of k powers of two has k bits set exactly if they are distinct, because a carry,
        # inside the word or out of it, loses at least one bit.
        bits = np.left_shift(np.uint64(1), items.astype(np.uint64))
        total = np.add.reduceat(bits, (np.cumsum(lengths) - lengths)[held])
        repeats[held] = np.bitwise_count(total) != lengths[held]
        return repeats
    ranking = np.repeat(np.arange(len(lengths)), lengths)
    cells = np.sort(ranking * n_items + items)
    repeats[cells[1:][cells[1:] == cells[:-1]] // n_items] = True
    return repeats


class InputError(ValueError):
    """An input that the job cannot read. The text says which file, which rule and how to fix it.

    The text has an end, whatever names it holds.
    """

    def __init__(self, text: object = "") -> None:
        """Args: the text."""
        super().__init__(short_message(str(text)))


@dataclass(frozen=True, slots=True)
class Words:
    """Texts and the values that they mean; case and surrounding blanks do not count.

    They are public settings, never learned from rows.

    Attributes:
        meanings: pairs of a text and its value; no text occurs twice.
    """

    meanings: tuple[tuple[str, int], ...]


class Ties(StrEnum):
    """Rule for a comparison without a winner."""

    DROP = "drop"
    SPLIT = "split"  # half a win each; every count is doubled so that halves stay integers
    RANDOM = "random"  # a fair secret coin decides
    MODEL = "model"  # an outcome like the others, with a count of its own in each pair

    @cached_property
    def row_weight(self) -> int:
        """Amount that one win adds to its count: 2 if ties are split, so that half a win is 1."""
        return 2 if self is Ties.SPLIT else 1


class Columns(Protocol):
    """Names of the columns of any kind of input."""

    @property
    def user(self) -> str | None:
        """The column that names the person of a row."""
        ...

    def names(self) -> list[str]:
        """The columns that must exist, each once."""
        ...

    def item_names(self) -> list[str]:
        """The columns whose values name items, or are few for another reason."""
        ...

    def roles(self) -> list[tuple[str, str]]:
        """Role and name of each column; the role decides which types it may have."""
        ...


class ByRole:
    """Columns that are told apart by their roles: the parts that they play in a row."""

    __slots__ = ()

    def roles(self) -> list[tuple[str, str]]:
        """Role and name of each column."""
        raise NotImplementedError

    def names(self) -> list[str]:
        """The columns that must exist, each once."""
        return list(dict.fromkeys(name for _, name in self.roles()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """A covariate of a comparison: how much more of something the left item has than the right one.

    Attributes:
        column: column with that difference; with `right`, the value of the left item.
        right: column with the value of the right item; None: `column` holds the difference.
        scale: public, > 0: a difference of that size counts as 1, and larger ones do not count
            more.
    """

    column: str
    right: str | None = None
    scale: float


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSets:
    """Columns that say in which groups a row is, where groups overlap: one column, or flags.

    Attributes:
        column: a column of lists, or of texts that `separator` divides; empty with `flags`.
        separator: text between two names, or "[]" where a text is a list; None: cells are lists.
        flags: a column of true and false for each group, in the order of the groups.
    """

    column: str = ""
    separator: str | None = None
    flags: tuple[str, ...] = ()

    def roles(self) -> list[tuple[str, str]]:
        """Role and name of each column."""
        if self.flags:
            return [(GROUP_FLAG, name) for name in self.flags]
        return [(GROUP_LIST if self.separator is None else GROUP_TEXT, self.column)]

    def names(self) -> list[str]:
        """The columns."""
        return [name for _, name in self.roles()]


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonColumns(ByRole):
    """Names of the columns of a comparison log; exactly one of `outcome` and `winner` is set.

    Attributes:
        left, right: the two items, by name or by position in the catalogue.
        outcome: +1 left won, -1 right won, 0 tie.
        winner: the item that won, or the word `tie`.
        user: the person who answered; may be None if the unit of privacy is one comparison.
        event: identity of the event; rows with the same user, pair and event are copies.
        words: texts of `outcome` for +1, -1 and 0; with `winner`: texts beside the items' names,
            instead of the word `tie`.
        group: the public group of a row, such as its language; None: there are no groups, or they
            overlap.
        sets: where a row says in which groups it is, if groups overlap; None: they do not.
        weight: column with how much a row counts; None: all count alike.
        most_units: the largest weight, in integer units (`privacy.units.UNITS`); 0 without weights.
        first: the item that was shown first; None: that is no covariate.
        features: the other covariates.
        pairs: of a form with a column for each pair of items: the column, the left item and the
            right one. Then `left`, `right` and `outcome` are columns of the rows that
            `transforms.comparisons.pair_cells` makes of its cells.
    """

    left: str
    right: str
    outcome: str | None
    winner: str | None
    user: str | None
    event: str | None
    words: Words | None = None
    group: str | None = None
    sets: GroupSets | None = None
    weight: str | None = None
    most_units: int = 0
    first: str | None = None
    features: tuple[Feature, ...] = ()
    pairs: tuple[tuple[str, str, str], ...] = ()

    @property
    def n_covariates(self) -> int:
        """Number of covariates of a row."""
        return (self.first is not None) + len(self.features)

    def item_names(self) -> list[str]:
        """The columns of few distinct values: items, outcomes, and the group."""
        items = [self.left, self.right, self.outcome, self.winner]
        items = [name for name, _, _ in self.pairs] or items
        chosen = (*items, self.first, self.group)
        return list(dict.fromkeys(name for name in chosen if name is not None))

    def roles(self) -> list[tuple[str, str]]:
        """Role and name of each column."""
        of_cells = ("left", "right", "outcome") if self.pairs else ()
        named = [field.name for field in fields(self) if field.name not in of_cells]
        chosen = [(name, getattr(self, name)) for name in named]
        chosen += [(PAIR, name) for name, _, _ in self.pairs]
        chosen += [] if self.sets is None else self.sets.roles()
        chosen += [(FEATURE, name) for each in self.features for name in (each.column, each.right)]
        return [(role, name) for role, name in chosen if isinstance(name, str)]


def check_schema(
    path: str,
    schema: pa.Schema,
    columns: Columns,
    *,
    named_by_a_line: bool = False,
) -> None:
    """Raise `InputError` unless `schema` has every column once, with a readable type.

    Args:
        path: path of the file, for the message.
        schema: schema of all columns of the file.
        columns: the columns that are needed.
        named_by_a_line: the names are the first line of the file. It may be a row, or, where the
            end of a line is damaged, hold one, so no message shows it.
    """
    if named_by_a_line and not set(columns.names()) & set(schema.names):
        raise InputError(_no_header(path, columns.names(), schema.names))
    for role, name in columns.roles():
        if name not in schema.names:
            present = [] if named_by_a_line else schema.names
            alike = {each.strip().casefold() for each in schema.names}
            written = OTHER_LETTERS if name.strip().casefold() in alike else ""
            raise InputError(_missing_column(path, role, name, present) + written)
        if schema.names.count(name) > 1:
            raise InputError(f"{path}: column {name} occurs twice. Rename one of them.")
        type_ = schema.field(name).type
        if role == OUTCOME and pa.types.is_boolean(type_) and getattr(columns, "words", None):
            continue  # true and false are words
        problem = _type_problem(role, type_)
        if problem:
            key = "" if role in (WIDE_ITEM, WIDE_RANK, PAIR) else f" ({_key_of(role)})"
            raise InputError(f"{path}: column {name}{key} {problem}")


def _key_of(role: str) -> str:
    """The key that names the column of a role."""
    elsewhere = {
        FEATURE: "input.features",
        PERSON_FEATURE: "input.person_features",
        **dict.fromkeys(("group", GROUP_LIST, GROUP_TEXT), "groups.column"),
        GROUP_FLAG: "groups.columns",
    }
    return elsewhere.get(role, f"input.columns.{role}")


BLANKS = ("", "na", "n/a")  # what programs write into an empty cell


def is_text(type_: pa.DataType) -> bool:
    """Whether a column of `type_` holds text or bytes, plain or dictionary-encoded."""
    if pa.types.is_dictionary(type_):
        return is_text(type_.value_type)
    return bool(
        pa.types.is_string(type_)
        or pa.types.is_large_string(type_)
        or pa.types.is_string_view(type_)
        or pa.types.is_binary(type_)
        or pa.types.is_binary_view(type_)
        or pa.types.is_large_binary(type_)
        or pa.types.is_fixed_size_binary(type_)
    )


def is_list(type_: pa.DataType) -> bool:
    """Whether a column of `type_` holds lists."""
    return bool(
        pa.types.is_list(type_)
        or pa.types.is_large_list(type_)
        or pa.types.is_fixed_size_list(type_)
    )


def to_text(column: pa.Array) -> pa.Array:
    """Text or bytes as large strings without surrounding blanks; null if a value is not UTF-8."""
    try:
        return pc.utf8_trim_whitespace(column.cast(pa.large_string()))
    except pa.ArrowInvalid:  # convert one by one: rare, and Arrow does not say which failed
        values = column.cast(pa.large_binary()).to_pylist()
        return pa.array([_decoded(value) for value in values], pa.large_string())


def named_before(items: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Whether each place names an item that a place before it names."""
    repeated = np.zeros(items.shape, np.bool_)
    for place in range(1, items.shape[1]):  # few columns, whatever the number of rows
        before = items[:, :place] == items[:, place : place + 1]
        repeated[:, place] = (items[:, place] >= 0) & before.any(axis=1)
    return repeated


def cell_texts(column: pa.Array) -> pa.Array:
    """Cells as texts without surrounding blanks; 1.0 is 1, since a column with gaps may hold
    floats."""
    if is_text(column.type):
        return to_text(column)
    texts = column.cast(pa.large_string())
    floats = pa.types.is_floating(column.type)
    return pc.replace_substring_regex(texts, r"\.0$", "") if floats else texts


def to_numpy(column: pa.Array) -> NDArray[Any]:
    """Values of `column`, which must hold no nulls; without a copy if Arrow can."""
    values: NDArray[Any] = column.to_numpy(zero_copy_only=False)
    return values


def names_in(columns: Iterable[pa.Array]) -> set[str]:
    """Texts or integers of several columns, as names; surrounding blanks do not count.

    Integers beyond int64 are not names, because integer names of items are int64.
    """
    names = set[str]()
    for column in columns:
        found = pc.drop_null(pc.unique(column))
        if pa.types.is_uint64(found.type):
            found = found.filter(pc.less(found, pa.scalar(1 << 63, pa.uint64())))
        names.update(name.strip() for name in found.cast(pa.large_string()).to_pylist())
    return names - {""}


def items_in(columns: Iterable[pa.Array]) -> set[str]:
    """Like `names_in`, for items; a name with a hidden character is left out."""
    return {name for name in names_in(columns) if hidden_character(name) is None}


def by_distinct(
    column: pa.Array, function: Callable[[pa.Array], NDArray[Any]], of_null: Any
) -> NDArray[Any]:
    """The result of `function` for each value; with a dictionary, computed once per entry.

    A dictionary may hold a long text that a million rows use; the text is never copied for them.

    Args:
        column: a column of any type.
        function: returns one entry for each value, on the first axis; the entry of a null is free.
        of_null: the entry of a null, in a column with a dictionary.
    """
    if not pa.types.is_dictionary(column.type):
        return function(column)
    codes, texts = _places(column), column.dictionary
    used = np.arange(len(texts))
    if len(texts) > len(codes) // MANY_ROWS:  # a slice of a batch may need only a few
        named = np.zeros(len(texts) + 1, np.bool_)
        named[codes] = True
        used = np.flatnonzero(named[:-1])
        texts = texts.take(pa.array(used))
    found = function(texts)
    if np.ndim(of_null) == 0 and found.ndim == 1 and not (found != of_null).any():
        return np.full(len(codes), of_null, found.dtype)  # the common case of a search for flaws
    known = np.empty((len(column.dictionary) + 1, *found.shape[1:]), found.dtype)
    known[-1] = of_null
    known[used] = found
    return np.take(known, codes, axis=0)


def _places(column: pa.Array) -> NDArray[Any]:
    """Return each row's place in the dictionary; a place behind its end for a null."""
    places = column.indices
    if places.null_count:
        places = pc.fill_null(places.cast(pa.int64()), len(column.dictionary))
    elif not pa.types.is_int32(places.type):
        places = places.cast(pa.int64())
    return to_numpy(places)


def _decoded(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode().strip()
    except UnicodeDecodeError:
        return None


def _no_header(path: str, names: list[str], found: list[str]) -> str:
    for mark, name, value in ((";", "semicolons", '";"'), ("\t", "tabs", "tab")):
        if len(found) == 1 and set(names) & set(found[0].split(mark)):
            return (
                f"{path}: columns are separated by {name}. Set input.delimiter: {value}, or save"
                " the file with commas."
            )
    return (
        f"{path}: the first line names none of the columns {short_list(names)}. It must name the"
        " columns: add such a line, or correct input.columns."
    )


def _missing_column(path: str, role: str, name: str, present: list[str]) -> str:
    if role in (WIDE_ITEM, WIDE_RANK):
        other = " or say under input.columns.items which column is whose," * (role == WIDE_RANK)
        return (
            f"{path}: column {name} not found. In a wide table every item of the catalogue has a"
            f" column of its name. Correct items,{other} or set input.layout: long."
        )
    key = _key_of(role)
    if not present:
        return (
            f"{path}: column {short(name)} not found in the first line. No message shows that"
            " line, for a damaged one may hold answers; hushrank init shows it to you. Correct"
            f" {key}, or the line."
        )
    close = difflib.get_close_matches(name, present, n=1, cutoff=0.5)
    advice = f"Set {key}: {short(close[0])}." if close else f"Set {key}."
    columns = short_list(present, MOST_COLUMNS)
    return f"{path}: column {short(name)} not found. Columns: {columns}. {advice}"


def _type_problem(role: str, type_: pa.DataType) -> str | None:
    if role in (WIDE_ITEM, WIDE_RANK, PLACE, BEST, WORST, SHOWN, PAIR) and pa.types.is_null(type_):
        return None  # nobody answered this item or pair, or ranked it, or named an item here
    if pa.types.is_dictionary(type_):
        return _type_problem(role, type_.value_type)
    if pa.types.is_null(type_):
        return "holds nothing but nulls; write real values, or name another column"
    if role == RANKING:
        return _list_problem(type_)
    if role in GROUP_HINTS and (problem := _problem_of_groups(role, type_)):
        return problem
    if role in (GROUP_LIST, GROUP_FLAG):
        return None
    if pa.types.is_integer(type_) or is_text(type_):
        return None
    if role in MAYBE_FLOATS and pa.types.is_floating(type_):
        return None  # 0.0, 1.0: a data frame writes integers with gaps so
    if role in NUMBERS and (pa.types.is_floating(type_) or pa.types.is_decimal(type_)):
        return None
    if role in NUMBERS:
        return f"has type {type_}; {NUMBERS[role]}"
    if role in ("correct", WIDE_ITEM):
        if pa.types.is_boolean(type_):
            return None
        return f"has type {type_}; answers are 1 (right) or 0 (wrong)"
    if role == "order" and (pa.types.is_timestamp(type_) or pa.types.is_date(type_)):
        return None
    if role in (RANK, WIDE_RANK):
        return f"has type {type_}; ranks are numbers, the smallest of a ranking its best item"
    if role == OUTCOME and pa.types.is_boolean(type_):
        return "holds true and false. Say which is which: input.words: {left: true, right: false}"
    if role == OUTCOME:
        return f"has type {type_}; outcomes are integers: +1 left won, -1 right won, 0 tie"
    return f"has type {type_}; it must hold integers or text, so cast it when you write the file"


GROUP_HINTS = {  # roles of groups, and what another type of the column needs
    "group": "holds lists, so a row may be in several groups: add groups.most, the most of them",
    GROUP_LIST: (
        'holds no lists; where a text names several groups, set groups.separator ("[]" for lists'
        " in a text), and where each group has a column of true and false, list them under"
        " groups.columns"
    ),
    GROUP_TEXT: "is no text that a separator divides; remove groups.separator",
    GROUP_FLAG: "holds neither true and false nor 1 and 0; write these, or name another column",
}


def _problem_of_groups(role: str, type_: pa.DataType) -> str | None:
    """Say why a column cannot say in which groups a row is; None: it can, or `role` is "group" and
    the rules of all columns decide."""
    listed = is_list(type_)
    inner = type_.value_type if listed else type_
    named = is_text(inner) or pa.types.is_integer(inner) or pa.types.is_null(inner)
    flagged = pa.types.is_boolean(type_)
    if role == "group" and flagged:
        return "holds true and false: list such columns under groups.columns, and set groups.most"
    if role == GROUP_LIST and listed and not named:
        return f"has type {type_}; groups in its lists must be integers or text"
    fits = {
        "group": not listed,
        GROUP_LIST: listed and named,
        GROUP_TEXT: is_text(type_),
        GROUP_FLAG: not listed and (flagged or named or pa.types.is_floating(type_)),
    }[role]
    return None if fits else GROUP_HINTS[role]


def _list_problem(type_: pa.DataType) -> str | None:
    if not is_list(type_):
        return (
            f"has type {type_}; it must hold lists of items, best first, which Parquet and JSON"
            " Lines can. Where a row is one ranked item, set input.layout: long"
        )
    items = type_.value_type
    if pa.types.is_integer(items) or is_text(items) or pa.types.is_null(items):
        return None
    return f"has type {type_}; items in its lists must be integers or text"


def numbers_of(column: pa.Array) -> tuple[Numbers, NDArray[np.bool_]]:
    """Values as the nearest numbers, NaN if there is none, and a mask of nulls."""
    return by_distinct(column, _numbers, np.nan), to_numpy(pc.is_null(column))


def _numbers(values: pa.Array) -> Numbers:
    if not is_text(values.type):
        nearest = pc.cast(values, pa.float64(), safe=False)  # also for integers above 2^53
        return np.asarray(to_numpy(pc.fill_null(nearest, np.nan)), np.float64)
    try:
        return to_numpy(pc.fill_null(values.cast(pa.float64()), np.nan))
    except pa.ArrowInvalid:  # some text is no number: convert each distinct text
        coded = values.dictionary_encode()
        return by_distinct(coded, _numbers_one_by_one, np.nan)


def _numbers_one_by_one(texts: pa.Array) -> Numbers:
    return np.array([*map(_number, to_text(texts).to_pylist())], np.float64)


def _number(text: str | None) -> float:
    try:
        return math.nan if text is None else float(text)
    except ValueError:
        return math.nan
