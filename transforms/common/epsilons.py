"""The epsilon of each row of a log: one number, a column, or a table by person.

Pure: a batch in, a column out. A row whose epsilon breaks a rule is set aside with the reason. No
message holds anybody's epsilon.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from hushrank.privacy.units import Levels, level_of
from hushrank.transforms.common.catalogue import bare, integers_in, integers_of_floats
from hushrank.transforms.common.encode import Mask, Rules
from hushrank.transforms.common.local_files import UnfitFile, being_read, open_to_read
from hushrank.transforms.common.schema import (
    TOO_LARGE,
    ComparisonColumns,
    InputError,
    by_distinct,
    is_text,
    numbers_of,
    to_numpy,
)

USER, EPSILON = "user", "epsilon"  # columns of a table of epsilons

NO_EPSILON = "null epsilon"
NOT_A_NUMBER = "epsilon is not a number"
OUT_OF_RANGE = "epsilon is outside epsilon_range"
NOT_IN_TABLE = "user is not in the table of epsilons"
NO_LEVEL = "epsilon is none of the public levels"
REASONS = (None, NO_EPSILON, NOT_A_NUMBER, OUT_OF_RANGE, NOT_IN_TABLE, NO_LEVEL)

Epsilons = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerColumns(ComparisonColumns):
    """Columns of a comparison log, with the column of epsilons if there is one."""

    epsilon: str | None = None


class OwnerAndEpsilon(Protocol):
    """The columns that decide a row's epsilon, of any kind of log."""

    @property
    def user(self) -> str | None:
        """Column that says whose row it is."""
        ...

    @property
    def epsilon(self) -> str | None:
        """The row's epsilon."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class EpsilonSource:
    """The source of epsilons, and the bounds in which they must lie.

    Attributes:
        low, high: public bounds; a row with an epsilon outside is set aside.
        value: one epsilon for all rows; None: it comes from the column or the table.
        table: path of a CSV or Parquet file with the columns `user` and `epsilon`.
        levels: epsilons to which those of the rows are rounded down; empty: they stay as they are.
        levels_alone: a row with an epsilon that is no level is set aside instead.
        drawn_before: rows were privatised with their epsilon already, so one that is no level is
            set aside; rounding it would undo them by another law than theirs.

    Raises:
        ValueError: the bounds are not 0 < low <= high < infinity.
    """

    low: float
    high: float
    value: float | None = None
    table: str | None = None
    levels: Levels = ()
    levels_alone: bool = False
    drawn_before: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.low <= self.high < math.inf:
            raise ValueError(f"need 0 < low <= high < inf, got {self.low!r} and {self.high!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerBudget:
    """Rule by which the epsilon of each answer follows from a person's epsilon.

    Attributes:
        per_user: divide the person's epsilon by the number of the person's answers.
        max_contributions: L, the most answers of one person that count; None: all.
    """

    per_user: bool = False
    max_contributions: int | None = None

    @property
    def meet(self) -> bool:
        """Whether all answers of a person must be brought together."""
        return self.per_user or self.max_contributions is not None


@dataclass(frozen=True, slots=True)
class EpsilonTable:
    """Epsilon of each person; each person occurs once."""

    users: pa.Array  # integers, text or bytes; one name is one person whatever its type
    epsilons: Epsilons

    def of(self, users: pa.Array) -> tuple[Epsilons, Mask]:
        """Epsilon of each person, and a mask of the people in the table."""
        place = by_distinct(users, self._places, np.int32(-1))
        return np.append(self.epsilons, np.nan)[place], place >= 0

    def _places(self, users: pa.Array) -> NDArray[np.int32]:
        known = self.users
        if is_text(users.type) or pa.types.is_uint64(users.type):
            users, known = _as_bytes(users), _as_bytes(known)
        else:
            users, known = users.cast(pa.int64()), _as_int64(known)
        return to_numpy(pc.fill_null(pc.index_in(users, value_set=known, skip_nulls=True), -1))


def read_epsilon_table(path: str) -> EpsilonTable:
    """The table at `path`.

    Raises:
        InputError: the table cannot be read, lacks a column, or names a person twice.
    """
    try:
        with being_read(path):
            users, epsilons = _columns_of(path)
    except MemoryError:
        raise InputError(TOO_LARGE.format(path)) from None
    except UnfitFile as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}). Name a file.") from None
    except (pa.ArrowException, OSError, KeyError):  # Arrow's own text may quote a row
        raise InputError(
            f"{path}: not a table with the columns user and epsilon. Write it as CSV or Parquet."
        ) from None
    if pa.types.is_dictionary(users.type):
        users = users.dictionary_decode()
    if pa.types.is_floating(users.type):
        users, _ = integers_of_floats(users)
    if not (is_text(users.type) or pa.types.is_integer(users.type)):
        raise InputError(
            f"{path}: column user has type {users.type}; it must hold integers or text, so cast it"
            " when you write the file."
        )
    if is_text(users.type):
        users = _as_bytes(users)  # counting has no kernel for views
    if users.null_count or pc.count_distinct(users).as_py() != len(users):
        raise InputError(
            f"{path}: a person occurs twice in column user, or a row names nobody. Give each person"
            " one row."
        )
    values, _ = numbers_of(epsilons)
    return EpsilonTable(users, values)


def _columns_of(path: str) -> tuple[pa.Array, pa.Array]:
    with open_to_read(path) as stream:
        if Path(path).suffix.lower() == ".csv":
            as_text = pyarrow.csv.ConvertOptions(
                column_types={USER: pa.string(), EPSILON: pa.string()},
                include_columns=[USER, EPSILON],
            )
            table = pyarrow.csv.read_csv(stream, convert_options=as_text)
        else:
            table = pq.read_table(stream, columns=[USER, EPSILON])
    return table[USER].combine_chunks(), table[EPSILON].combine_chunks()


def epsilons_of(
    batch: pa.RecordBatch,
    columns: OwnerAndEpsilon,
    source: EpsilonSource,
    table: EpsilonTable | None,
) -> tuple[Epsilons, NDArray[np.int8]]:
    """The epsilon of each row, and the rule that it breaks.

    Args:
        batch: rows as read.
        columns: names the column of epsilons or, with a table, the column of people.
        source: the bounds, and the value if all rows have the same.
        table: the content of `source.table`.

    Returns:
        Epsilons, shape (m,), NaN if there is none; index into `REASONS`, shape (m,), 0: valid.
    """
    m = len(batch)
    if source.value is not None:
        return np.full(m, source.value), np.zeros(m, np.int8)
    if table is not None and columns.user is not None:
        epsilons, found = table.of(batch[columns.user])
        absent = np.where(found, 0, REASONS.index(NOT_IN_TABLE))
    elif columns.epsilon is not None:
        epsilons, null = numbers_of(batch[columns.epsilon])
        absent = np.where(null, REASONS.index(NO_EPSILON), 0)
    else:
        raise ValueError("epsilons need a value, a column, or a table with a column of people")
    within = (epsilons >= source.low) & (epsilons <= source.high)
    broken = np.zeros(m, np.int8)
    if not within.all():
        rule = np.where(
            np.isnan(epsilons), REASONS.index(NOT_A_NUMBER), REASONS.index(OUT_OF_RANGE)
        )
        broken = np.where(within, 0, np.where(absent > 0, absent, rule)).astype(np.int8)
    if not source.levels:
        return epsilons, broken
    level = np.append(source.levels, np.nan)[level_of(epsilons, source.levels)]
    if source.drawn_before or source.levels_alone:
        broken = np.where(within & (level != epsilons), np.int8(REASONS.index(NO_LEVEL)), broken)
    return np.where(within, level, epsilons), broken


def rules_of_epsilons(broken: NDArray[np.int8]) -> Rules:
    """The rules that epsilons break, from the indices of `epsilons_of`."""
    if not broken.any():
        return ()
    return [(reason, broken == k) for k, reason in enumerate(REASONS) if reason is not None]


def _as_bytes(column: pa.Array) -> pa.Array:
    """Names of people as bytes, without blanks around them; integers as their digits."""
    text = column if is_text(column.type) else column.cast(pa.large_string())
    return bare(text.cast(pa.large_binary()))


def _as_int64(people: pa.Array) -> pa.Array:
    """Names of people as int64; null if a name is no integer, or a larger one."""
    if pa.types.is_integer(people.type) and not pa.types.is_uint64(people.type):
        return people.cast(pa.int64())
    names = _as_bytes(people)
    places, integers, above = integers_in(names)
    found, unknown = np.zeros(len(names), np.int64), np.ones(len(names), np.bool_)
    found[places] = integers.view(np.int64)
    unknown[places] = above
    return pa.array(found, mask=unknown)
