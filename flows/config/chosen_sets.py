"""Rows with a choice of the best and the worst of items (`layout: best-worst`), and their rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Annotated, Protocol

from pydantic import Field

from hushrank.flows.config.section import Section, Text
from hushrank.transforms.common.schema import BEST_ITEM, SHOWN_ITEM, WORST_ITEM
from hushrank.transforms.rankings.ranking_columns import ItemSet

MOST_SHOWN = 1_000
MOST_SETS = 1_000
_ALONE = {"user": "user", "best": "best", "worst": "worst", "shown": "[item 1, item 2]"}

Columns = Annotated[tuple[Text, ...], Field(strict=False, min_length=2, max_length=MOST_SHOWN)]


class SetConfig(Section):
    """Columns of one of several sets that a row holds.

    Attributes:
        best, worst: the item chosen as the best, and as the worst; both empty: no answer.
        shown: the columns that name the items shown, best and worst among them.
        items: the items shown, by name, if everybody saw the same ones; instead of `shown`.
    """

    best: Text = Field(examples=["best_1"])
    worst: Text = Field(examples=["worst_1"])
    shown: Columns | None = Field(default=None, examples=["[s1_item1, s1_item2, s1_item3]"])
    items: Columns | None = Field(default=None, examples=["[Tea, Coffee, Milk]"])

    def _problems(self) -> Iterable[tuple[str, str]]:
        if (self.shown is None) == (self.items is None):
            yield "", "needs exactly one of shown (columns) and items (names)"
        if self.items is not None and len(set(self.items)) < len(self.items):
            yield "items", "names an item twice; remove one of them"

    def named(self) -> ItemSet:
        """The columns of the set, and the items shown if they are public."""
        return ItemSet(
            best=self.best, worst=self.worst, shown=self.shown or (), items=self.items or ()
        )


class SetColumns(Protocol):
    """Columns of a log of rankings, as far as these rules look at them."""

    @property
    def user(self) -> str | None:
        """Column of the person."""

    @property
    def contest(self) -> str | None:
        """Column of the contest."""

    @property
    def shown(self) -> tuple[str, ...] | None:
        """Columns of the items shown, of a row with one set."""

    @property
    def sets(self) -> tuple[SetConfig, ...] | None:
        """The sets of a row that holds several."""


def sets_of(columns: SetColumns) -> tuple[ItemSet, ...]:
    """The sets of a row that holds several; empty: a row is one set."""
    return tuple(each.named() for each in columns.sets or ())


def most_shown(columns: SetColumns) -> int:
    """Most items that a set of the job shows; 0: nothing says it."""
    sizes = [each.size for each in sets_of(columns)]
    return max(sizes, default=len(columns.shown or ()))


def items_of_sets(columns: SetColumns) -> Sequence[str]:
    """Names of items that `columns.sets` states."""
    return [name for each in columns.sets or () for name in each.items or ()]


def problems_of_columns(columns: SetColumns) -> Iterable[tuple[str, str]]:
    """Yield key and rule where the columns of one set, or of several, contradict each other."""
    if columns.sets is None:
        yield from _problems_of_one(columns)
        return
    taken = {columns.user: "user", columns.contest: "contest"}
    held = [name for each in sets_of(columns) for name in each.columns]
    for name, times in Counter(held).items():
        if name in taken:
            yield "sets", f"column {name} is {taken[name]} already; name another"
        elif times > 1:
            yield "sets", f"names column {name} twice; each set has columns of its own"
    for column, role in taken.items():
        if column is not None and column.startswith((BEST_ITEM, WORST_ITEM, SHOWN_ITEM)):
            yield role, f"no column may be called {column} here; rename it in the file"


def _problems_of_one(columns: SetColumns) -> Iterable[tuple[str, str]]:
    roles = ("user", "contest", "epsilon", "best", "worst")
    taken = {getattr(columns, role): role for role in roles}
    for name in columns.shown or ():
        if name in taken:
            yield "shown", f"column {name} is {taken[name]} already; name another"
    if columns.shown is not None and len(set(columns.shown)) < len(columns.shown):
        yield "shown", "names a column twice; remove one of them"


def missing_columns(columns: SetColumns) -> Iterable[tuple[str, str]]:
    """Yield key and rule for each column that layout `best-worst` needs and the job lacks."""
    if columns.sets is None:
        for role, example in _ALONE.items():
            if getattr(columns, role) is None:
                yield f"columns.{role}", f"missing; add for example {role}: {example}"
        return
    if columns.user is None:
        yield "columns.user", "missing; add for example user: user"
    for role in ("best", "worst", "shown"):
        if getattr(columns, role) is not None:
            yield f"columns.{role}", "is one set's, and columns.sets names several; remove one"
