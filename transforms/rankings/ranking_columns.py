"""Columns of a log of rankings: one ranked item a row, one ranking a row, or private answers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hushrank.transforms.common.encode import Mask
from hushrank.transforms.common.schema import (
    CONTEST,
    LENGTH,
    OUTCOME,
    RANK,
    RANKING,
    WIDE_RANK,
    ByRole,
    by_distinct,
    is_text,
    to_numpy,
    to_text,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RankColumns(ByRole):
    """Columns of a log with one ranked item a row (long form).

    Attributes:
        user: whose ranking it is.
        item: which item was ranked, by name or by position in the catalogue.
        rank: a number; the smallest of a ranking is its best item, or the highest.
        contest: which of a person's rankings it is; None: a person has one.
        epsilon: of the ranking; None: it comes from elsewhere.
        highest: whether the highest number is the best.
    """

    user: str
    item: str
    rank: str
    contest: str | None = None
    epsilon: str | None = None
    highest: bool = False

    def item_names(self) -> list[str]:
        """The column whose values name items."""
        return [self.item]

    def roles(self) -> list[tuple[str, str]]:
        """Role and name of each column."""
        chosen = [
            ("user", self.user),
            ("item", self.item),
            (RANK, self.rank),
            (CONTEST, self.contest),
            ("epsilon", self.epsilon),
        ]
        return [(role, name) for role, name in chosen if name is not None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListColumns(ByRole):
    """Columns of a log with one ranking a row (list form).

    Attributes:
        ranking: a list of items, best first.
        user: whose ranking it is; None: each row is another person's.
        contest: as in `RankColumns`; here it only serves to choose one contest.
        epsilon: as in `RankColumns`.
    """

    ranking: str
    user: str | None = None
    contest: str | None = None
    epsilon: str | None = None

    def item_names(self) -> list[str]:
        """None: items are named inside lists."""
        return []

    def roles(self) -> list[tuple[str, str]]:
        """Role and name of each column."""
        chosen = [
            ("user", self.user),
            (RANKING, self.ranking),
            (CONTEST, self.contest),
            ("epsilon", self.epsilon),
        ]
        return [(role, name) for role, name in chosen if name is not None]


@dataclass(frozen=True, slots=True, kw_only=True)
class WideRankColumns(ByRole):
    """Columns of a table with one ranking a row: each item's column holds its rank.

    Attributes:
        items: name of the column, and of the item whose rank it holds; an empty cell is unranked.
        user, contest, epsilon: as in `ListColumns`.
        highest: as in `RankColumns`.
    """

    items: tuple[tuple[str, str], ...]
    user: str | None = None
    contest: str | None = None
    epsilon: str | None = None
    highest: bool = False

    def item_names(self) -> list[str]:
        """None: no value names an item."""
        return []

    def roles(self) -> list[tuple[str, str]]:
        """Role and name of each column."""
        chosen = [("user", self.user), (CONTEST, self.contest), ("epsilon", self.epsilon)]
        found = [(role, name) for role, name in chosen if name is not None]
        return [*found, *((WIDE_RANK, name) for name, _ in self.items)]


@dataclass(frozen=True, slots=True, kw_only=True)
class PairColumns(ByRole):
    """Columns of a file of private answers to random pairs, one ranking a row.

    Attributes:
        left, right: two items; each name gets a number, `left_1`, `left_2`, where a ranking has
            several answers.
        outcome: +1 left above right, -1 below, 0 not both ranked; numbered likewise.
        length: how many items the ranking has; None: that is hidden.
        pairs: d, how many answers a row has.
    """

    left: str
    right: str
    outcome: str
    length: str | None
    pairs: int

    @property
    def user(self) -> None:
        """None: each row is another person's."""
        return

    @property
    def contest(self) -> None:
        """None: all rows count."""
        return

    def item_names(self) -> list[str]:
        """The columns whose values name items."""
        return [*self.numbered(self.left), *self.numbered(self.right)]

    def roles(self) -> list[tuple[str, str]]:
        """Role and name of each column."""
        chosen = [("left", self.left), ("right", self.right), (OUTCOME, self.outcome)]
        found = [(role, name) for role, each in chosen for name in self.numbered(each)]
        return found if self.length is None else [*found, (LENGTH, self.length)]

    def numbered(self, name: str) -> list[str]:
        """Names of the columns of all answers."""
        return [name] if self.pairs == 1 else [f"{name}_{k + 1}" for k in range(self.pairs)]


def of_contest(batch: pa.RecordBatch, name: str, contest: str) -> pa.RecordBatch:
    """The rows of one contest, named as text."""

    def is_it(contests: pa.Array) -> Mask:
        return to_numpy(pc.fill_null(pc.equal(contest_names(contests), contest), False))

    return batch.filter(pa.array(by_distinct(batch[name], is_it, np.False_)))


def contest_names(column: pa.Array) -> pa.Array:
    """Contests as text, so that files which name them by integers and by text agree."""
    if pa.types.is_dictionary(column.type):
        names = contest_names(column.dictionary)
        return pa.DictionaryArray.from_arrays(column.indices, names)
    return to_text(column) if is_text(column.type) else column.cast(pa.large_string())
