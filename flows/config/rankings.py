"""The `input` section of a job on rankings, and the rules for its keys."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from hushrank.flows.config.comparisons import BadRows
from hushrank.flows.config.places import InputPath
from hushrank.flows.config.section import ColumnRoles, Delimiter, Section, Text
from hushrank.transforms.rankings.ranking_columns import ListColumns, RankColumns
from hushrank.transforms.storage.files import ENDINGS, FileFormat, ending_of

MAX_LENGTH = 1_000


class RankingTies(StrEnum):
    """What becomes of a ranking that puts items at the same rank."""

    REFUSE = "refuse"  # the ranking is set aside
    RANDOM = "random"  # a secret coin puts the items in a random order


def _as_text(value: object) -> object:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


class RankingColumnsConfig(ColumnRoles):
    """The role of each input column; list form has neither item nor rank.

    Attributes:
        user: the person who gave the ranking. List form needs it only if rankings of one
            person must be brought together.
        item: for layout `long`: the item, by name or by position in the catalogue.
        rank: for layout `long`: its rank in the person's ranking, 1 for the best.
        ranking: for layout `list`: the items, best first.
        contest: the contest of the ranking; rankings of different contests are different.
        epsilon: the epsilon of this ranking.
    """

    user: Text | None = Field(default=None, examples=["user"])
    item: Text | None = Field(default=None, examples=["item"])
    rank: Text | None = Field(default=None, examples=["rank"])
    ranking: Text | None = Field(default=None, examples=["ranking"])
    contest: Text | None = Field(default=None, examples=["contest"])
    epsilon: Text | None = Field(default=None, examples=["epsilon"])


class RankingsConfig(Section):
    """The log of rankings.

    Attributes:
        kind: what the rows are: whole or partial rankings.
        paths: files, folders or patterns, local or gs://. If a path holds {date}, every night
            reads its own files.
        layout: `long`, a row is one ranked item; `list`, a row is a ranking.
        columns: names of the columns.
        contest: only rankings of this contest count.
        ties: for layout `long`: `refuse` sets a ranking with ties aside; `random` puts tied items
            in a random order by a secret coin.
        max_length: the most items of a ranking; None: all items of the catalogue.
        on_bad_rows: `set-aside` moves rows that break a rule to the confidential folder, with the
            reason; `fail` stops the run, which spends nothing but tells that there are such rows.
        format: format of all files; None: by each file's ending.
        multiline: for CSV files: a quoted field may span lines. A row with an open quote then
            swallows the rows after it, up to 1 MiB, which no noise covers: the release says so.
            Otherwise a record ends where its line ends, and such a row alone is set aside.
        delimiter: for CSV files: the character between columns.
    """

    kind: Literal["rankings"] = Field(examples=["rankings"])
    paths: Annotated[tuple[InputPath, ...], Field(strict=False)] = Field(
        min_length=1, examples=["[ballots/*.parquet]"]
    )
    layout: Literal["long", "list"] = "long"
    columns: RankingColumnsConfig = Field(
        default_factory=RankingColumnsConfig, examples=["{user: user, item: item, rank: rank}"]
    )
    contest: Annotated[Text, BeforeValidator(_as_text)] | None = Field(
        default=None, examples=["2024"]
    )
    ties: Annotated[RankingTies, Field(strict=False)] = RankingTies.REFUSE
    max_length: int | None = Field(default=None, ge=2, le=MAX_LENGTH, examples=["10"])
    on_bad_rows: Annotated[BadRows, Field(strict=False)] = BadRows.SET_ASIDE
    format: Annotated[FileFormat, Field(strict=False)] | None = None
    multiline: bool = False
    delimiter: Delimiter = Field(default=",", examples=['";"'])

    def _problems(self) -> Iterable[tuple[str, str]]:
        other = {"long": ("ranking",), "list": ("item", "rank")}[self.layout]
        for role in other:
            if getattr(self.columns, role) is not None:
                fitting = "list" if self.layout == "long" else "long"
                yield (
                    f"columns.{role}",
                    f"belongs to layout: {fitting}; remove this line, or set that",
                )
        if self.contest is not None and self.columns.contest is None:
            yield "columns.contest", "missing; contest chooses by it. Add for example contest: year"
        if self.layout == "list" and self.ties is not RankingTies.REFUSE:
            yield "ties", "a ranking in a list has no ties; remove this line"
        if self.layout == "list" and self.columns.contest is not None and self.contest is None:
            yield (
                "columns.contest",
                "changes nothing in layout: list, where each row is a ranking of its own; remove"
                " it, or choose one by contest",
            )

    @property
    def names_people(self) -> bool:
        """Whether the input says which rankings belong to one person; PrefLib files never do.

        A folder of such files is only recognised after it is listed, if `format` is left out.
        """
        formats = {self.format or ENDINGS.get(ending_of(path)) for path in self.paths}
        return self.ranking_columns().user is not None and FileFormat.PREFLIB not in formats

    def ranking_columns(self) -> RankColumns | ListColumns:
        """The columns to read."""
        columns = self.columns
        if self.layout == "list":
            return ListColumns(
                ranking=columns.ranking or "ranking",
                user=columns.user,
                contest=columns.contest,
                epsilon=columns.epsilon,
            )
        return RankColumns(
            user=columns.user or "user",
            item=columns.item or "item",
            rank=columns.rank or "rank",
            contest=columns.contest,
            epsilon=columns.epsilon,
        )
