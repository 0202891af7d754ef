"""Guess whether a log holds rankings, and the role of each column. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from hushrank.flows.propose.names import Row, only_with_meaning, sides_of
from hushrank.flows.propose.people import UserGuess, guess_user
from hushrank.flows.propose.values import holds_numbers

_ITEM = re.compile(
    "item|candidate|option|alternative|choice|product|variety|movie|film|song|artist|team|player"
    "|name|label"
)
_RANK = re.compile("rank|ranking|position|place|placement|pos")
_CONTEST = re.compile("contest|election|round|race|poll|ballot|survey|session|year")


@dataclass(frozen=True, slots=True, kw_only=True)
class RankingGuess:
    """The likely role of each column.

    Attributes:
        layout: `long` with `item` and `rank`, or `list` with `ranking`.
    """

    layout: str
    user: UserGuess | None = None
    item: str | None = None
    rank: str | None = None
    ranking: str | None = None
    contest: str | None = None

    def known(self) -> dict[str, str]:
        """The column of each role that was found."""
        found = {"user": self.user.column} if self.user is not None else {}
        roles = ("item", "rank", "ranking", "contest")
        return found | {
            role: column for role in roles if (column := getattr(self, role)) is not None
        }

    def unknown(self) -> list[str]:
        """Roles that the person must fill in."""
        needed = ("user", "item", "rank") if self.layout == "long" else ("ranking",)
        return [role for role in needed if role not in self.known()]

    def items_seen(self, rows: Sequence[Row]) -> int:
        """How many items occur in `rows`."""
        if self.ranking is not None:
            lists = [row.get(self.ranking) for row in rows]
            return len({str(item) for each in lists if isinstance(each, list) for item in each})
        found = [row.get(self.item) for row in rows] if self.item is not None else []
        return len({str(item) for item in found if item is not None})


def guess_rankings(columns: Sequence[str], rows: Sequence[Row]) -> RankingGuess | None:
    """Read names and values of columns as a log of rankings; None: it seems to be something else.

    Args:
        columns: names, in the order of the file.
        rows: the first few rows; values as text, numbers, lists or None.
    """
    if sides_of(columns) is not None:
        return None
    lists = [column for column in columns if _holds_lists(rows, column)]
    if len(lists) == 1:
        user = guess_user(columns, rows, lists, row_a_person=True)
        return RankingGuess(layout="list", user=user, ranking=lists[0])
    item, rank = only_with_meaning(columns, _ITEM), only_with_meaning(columns, _RANK)
    contest = only_with_meaning(columns, _CONTEST)
    user = guess_user(columns, rows, [name for name in (item, rank, contest) if name])
    if user is None or item is None or rank is None or not holds_numbers(rows, rank):
        return None
    return RankingGuess(layout="long", user=user, item=item, rank=rank, contest=contest)


def _holds_lists(rows: Sequence[Row], column: str) -> bool:
    values = [value for row in rows if (value := row.get(column)) is not None]
    return bool(values) and all(
        isinstance(value, list) and all(isinstance(item, str | int) for item in value)
        for value in values
    )
