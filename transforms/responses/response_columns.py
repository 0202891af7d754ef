"""Columns of a log of test answers: one answer a row, or one person a row (a wide table)."""

from __future__ import annotations

from dataclasses import dataclass

from hushrank.transforms.common.schema import WIDE_ITEM, ByRole, Words


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseColumns(ByRole):
    """Columns of a log with one answer a row.

    Attributes:
        user: whose answer it is.
        item: which item was answered, by name or by position in the catalogue.
        correct: 1 where the answer was right, 0 where it was wrong.
        order: when, or as which attempt, the answer was given; None: answers have no order.
        words: what texts of `correct` stand for instead of 1 and 0.
        booklet: which booklet its person had; None: no column says so.
    """

    user: str
    item: str
    correct: str
    order: str | None = None
    words: Words | None = None
    booklet: str | None = None

    def item_names(self) -> list[str]:
        """The column whose values name items."""
        return [self.item]

    def roles(self) -> list[tuple[str, str]]:
        """Role and name of each column."""
        required = [("user", self.user), ("item", self.item), ("correct", self.correct)]
        more = (("order", self.order), ("booklet", self.booklet))
        return [*required, *((role, name) for role, name in more if name is not None)]


@dataclass(frozen=True, slots=True, kw_only=True)
class WideColumns(ByRole):
    """Columns of a table with one row a person: a column of answers for every item.

    Attributes:
        user: whose row it is.
        items: the catalogue's names, which are names of columns; empty cells were not answered.
        order, words, booklet: as in `ResponseColumns`.
    """

    user: str
    items: tuple[str, ...]
    order: str | None = None
    words: Words | None = None
    booklet: str | None = None

    def item_names(self) -> list[str]:
        """None: no value names an item."""
        return []

    def roles(self) -> list[tuple[str, str]]:
        """Role and name of each column."""
        required = [("user", self.user), *((WIDE_ITEM, name) for name in self.items)]
        more = (("order", self.order), ("booklet", self.booklet))
        return [*required, *((role, name) for role, name in more if name is not None)]
