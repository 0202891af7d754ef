"""The `input` section of a job on rankings, and the rules between it and the others."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from pathlib import PurePath
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BeforeValidator, Field

from hushrank.flows.config.comparisons import BadRows
from hushrank.flows.config.places import InputPath
from hushrank.flows.config.section import ColumnRoles, Section, Text
from hushrank.privacy.units import Unit
from hushrank.transforms.common.randomisation import RankingMechanism
from hushrank.transforms.rankings.ranking_columns import ListColumns, RankColumns
from hushrank.transforms.storage.files import ENDINGS, FileFormat

if TYPE_CHECKING:
    from hushrank.flows.config.survey import SurveyConfig

MAX_ITEMS = 1_000  # three matrices of this size are released: 20 MB of JSON
MAX_LENGTH = 1_000

_ONE_EPSILON = (
    "needs exactly one of privacy.epsilon (a number for all), privacy.epsilon_table (a file with"
    " the columns user and epsilon) and input.columns.epsilon (a column of the rankings)"
)


class RankingTies(StrEnum):
    """What becomes of a ranking that puts items at the same rank."""

    REFUSE = "refuse"  # it is set aside
    RANDOM = "random"  # the items get a random order by a secret coin


def _as_text(value: object) -> object:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


class RankingColumnsConfig(ColumnRoles):
    """Which column of the input plays which role; list form has neither item nor rank.

    Attributes:
        user: whose ranking it is. In list form only needed where people's rankings must meet.
        item: of layout `long`: the item, by name or by position in the catalogue.
        rank: of layout `long`: its rank in the person's ranking, 1 for the best.
        ranking: of layout `list`: the items, best first.
        contest: which contest a ranking belongs to; rankings of different contests are different.
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
        paths: files, folders or patterns, local or gs://. Where a path holds {date}, every night
            reads its own files.
        layout: `long`, a row is one ranked item; `list`, a row is a ranking.
        columns: names of the columns.
        contest: only rankings of this contest count.
        ties: of layout `long`: `refuse` sets a ranking with ties aside; `random` puts tied items
            in a random order by a secret coin.
        max_length: the most items of a ranking; None: all items of the catalogue.
        on_bad_rows: `set-aside` moves rows that break a rule to the confidential folder, with the
            reason; `fail` stops the run, which spends nothing but tells that there are such rows.
        format: of all files; None: by each file's ending.
        multiline: of CSV files: a quoted field may span lines. A row with an open quote then
            swallows the rows after it, up to 1 MiB, which no noise covers: the release says so.
            Otherwise a record ends where its line ends, and such a row alone is set aside.
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
            yield "ties", "of a list there are none; remove this line"
        if self.layout == "list" and self.columns.contest is not None and self.contest is None:
            yield (
                "columns.contest",
                "changes nothing in layout: list, where each row is a ranking of its own; remove"
                " it, or choose one by contest",
            )

    @property
    def names_people(self) -> bool:
        """Whether the input says which rankings are one person's; PrefLib files never do.

        Of a folder of such files that is not known before it is listed, if `format` is left out.
        """
        formats = {self.format or ENDINGS.get(PurePath(path).suffix.lower()) for path in self.paths}
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


def problems_of_rankings(config: SurveyConfig) -> Iterable[tuple[str, str]]:
    """Key and rule of what the sections of a job on rankings break together."""
    privacy, n_items = config.privacy, len(config.items.catalogue())
    if privacy.unit is not Unit.LOCAL:
        yield (
            "privacy.unit",
            f"must be local with input.kind: rankings, got {privacy.unit}: rankings are privatised"
            " one by one, before they are counted",
        )
        return
    if privacy.mechanism is None:
        yield "privacy.mechanism", "missing; add mechanism: mallows"
    if "budget" in privacy.model_fields_set:
        yield "privacy.budget", "has no meaning for rankings; set max_contributions, and remove it"
    if n_items > MAX_ITEMS:
        yield "items", f"must be at most {MAX_ITEMS} with input.kind: rankings"
    yield from _problems_of_epsilon(config)
    if config.rankings.columns.user is None and config.rankings.layout == "list":
        for key, given in (
            ("privacy.max_contributions", privacy.max_contributions is not None),
            ("privacy.epsilon_table", privacy.epsilon_table is not None),
        ):
            if given:
                yield key, "needs input.columns.user, which says whose ranking a row is"


def _problems_of_epsilon(config: SurveyConfig) -> Iterable[tuple[str, str]]:
    privacy, columns = config.privacy, config.rankings.columns
    sources = (privacy.epsilon, privacy.epsilon_table, columns.epsilon)
    if sum(source is not None for source in sources) != 1:
        yield "privacy", _ONE_EPSILON
    if privacy.mechanism is RankingMechanism.LAPLACE_RANKS and privacy.epsilon is None:
        yield "privacy.epsilon", "missing; mechanism: laplace-ranks takes one number for all"
    if config.model.debiased is True:
        if privacy.epsilon is None:
            yield "model.debiased", "needs privacy.epsilon, one number for all; write auto or false"
        if privacy.mechanism is RankingMechanism.LAPLACE_RANKS:
            yield "model.debiased", "needs mechanism: mallows; write auto or false"
