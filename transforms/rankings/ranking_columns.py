"""Columns of a log of rankings: one ranked item a row, or one ranking a row."""

from __future__ import annotations

from dataclasses import dataclass

from hushrank.transforms.common.schema import CONTEST, RANK, RANKING


@dataclass(frozen=True, slots=True, kw_only=True)
class RankColumns:
    """Columns of a log with one ranked item a row (long form).

    Attributes:
        user: whose ranking it is.
        item: which item was ranked, by name or by position in the catalogue.
        rank: a number; the smallest of a ranking is its best item.
        contest: which of a person's rankings it is; None: a person has one.
        epsilon: of the ranking; None: it comes from elsewhere.
    """

    user: str
    item: str
    rank: str
    contest: str | None = None
    epsilon: str | None = None

    def names(self) -> list[str]:
        """The columns that must exist, each once."""
        return list(dict.fromkeys(name for _, name in self.roles()))

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
class ListColumns:
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

    def names(self) -> list[str]:
        """The columns that must exist, each once."""
        return list(dict.fromkeys(name for _, name in self.roles()))

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
