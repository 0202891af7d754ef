"""Section `input` of rankings, and the rules for its keys."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field

from hushrank.flows.config.section import (
    CODES,
    ColumnRoles,
    GivenRows,
    Reading,
    RowFiles,
    Text,
    WordList,
)
from hushrank.privacy.random_pairs import Hide, RandomPairs
from hushrank.transforms.rankings.ranking_columns import (
    ListColumns,
    PairColumns,
    RankColumns,
    RankReading,
    WideRankColumns,
)
from hushrank.transforms.storage.files import ENDINGS, FileFormat, ending_of

if TYPE_CHECKING:
    from hushrank.transforms.rankings.person_features import PersonFeatures

MAX_LENGTH = 1_000
MOST_PROFILES = 256  # combinations of features of people, each of which has counts of its own
# Layouts that have a column of each role.
ROLES = {
    "user": ("long", "list", "wide"),
    "item": ("long",),
    "rank": ("long",),
    "ranking": ("list",),
    "items": ("wide",),
    "contest": ("long", "list", "wide"),
    "epsilon": ("long", "list", "wide", "pairs"),
    "left": ("pairs",),
    "right": ("pairs",),
    "outcome": ("pairs",),
    "length": ("pairs",),
}


RankingColumns = RankColumns | ListColumns | WideRankColumns | PairColumns


class RankingTies(StrEnum):
    """Treatment of a ranking that puts items at the same rank."""

    REFUSE = "refuse"  # the ranking is excluded
    RANDOM = "random"  # a secret coin puts the items in a random order


class Unlisted(StrEnum):
    """Meaning of a ranking for the items that it does not list."""

    BELOW = "below"  # they are below those it lists
    UNKNOWN = "unknown"  # the ranking says nothing of them


class Overvotes(StrEnum):
    """Treatment of a ranking that puts two items at one rank, if ties are refused."""

    SET_ASIDE = "set-aside"  # the ranking is excluded
    EXHAUST = "exhaust"  # the ranking ends before that rank


class Skipped(StrEnum):
    """Treatment of a ranking that leaves a rank out."""

    CLOSE = "close"  # the items after it move up
    EXHAUST = "exhaust"  # the ranking ends there


FeatureValues = Annotated[tuple[float | Text, ...], Field(strict=False)]


def _as_text(value: object) -> object:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _problem_of_values(values: Sequence[float | str]) -> str:
    """Rule that the values of a feature of people break; empty: none."""
    numbers = [each for each in values if not isinstance(each, str)]
    if numbers and len(numbers) < len(values):
        return "must be all numbers or all words; put numbers that are words in quotes"
    if len(set(values)) < max(len(values), 2):
        return "must have two different values at least, each once"
    if numbers != sorted(numbers) or not all(map(math.isfinite, numbers)):
        return "must be finite numbers in ascending order"
    return ""


class RankingColumnsConfig(ColumnRoles):
    """The role of each input column; list form has neither item nor rank.

    Attributes:
        user: the person who gave the ranking. List form needs it only if rankings of one
            person must be brought together.
        item: for layout `long`: the item, by name or by position in the catalogue.
        rank: for layout `long`: its rank in the person's ranking, a number; see `input.best`.
        ranking: for layout `list`: the items, best first.
        items: for layout `wide`: the item of each column that holds ranks, if the columns do not
            have the items' names.
        contest: the contest of the ranking; rankings of different contests are different.
        epsilon: the epsilon of this ranking.
        left, right: for layout `pairs`: the items of a drawn pair.
        outcome: for layout `pairs`: +1 left above right, -1 below, 0 not both ranked.
        length: for layout `pairs`: how many items the ranking has.
    """

    second: ClassVar[frozenset[str]] = frozenset({"items"})

    user: Text | None = Field(default=None, examples=["user"])
    item: Text | None = Field(default=None, examples=["item"])
    rank: Text | None = Field(default=None, examples=["rank"])
    ranking: Text | None = Field(default=None, examples=["ranking"])
    items: dict[Text, Text] | None = Field(default=None, examples=["{Q3_1: London, Q3_2: Paris}"])
    contest: Text | None = Field(default=None, examples=["contest"])
    epsilon: Text | None = Field(default=None, examples=["epsilon"])
    left: Text | None = Field(default=None, examples=["left"])
    right: Text | None = Field(default=None, examples=["right"])
    outcome: Text | None = Field(default=None, examples=["outcome"])
    length: Text | None = Field(default=None, examples=["length"])

    def _problems(self) -> Iterable[tuple[str, str]]:
        for name, role in ((getattr(self, role), role) for role in ("user", "contest", "epsilon")):
            if self.items is not None and name in self.items:
                yield f"items.{name}", f"column {name} is {role} already; name another"
        yield from super()._problems()


UNKNOWN = (
    "Nothing is taken as known of an item that a ranking does not list (input.unlisted: unknown)."
    " If the unlisted are below the listed, as in elections, write below."
)


class RankingsConfig(RowFiles):
    """The log of rankings.

    Attributes:
        kind: what the rows are: whole or partial rankings.
        layout: `long`, a row is one ranked item; `list`, a row is a ranking; `wide`, a row is a
            ranking, and each item has a column that holds its rank, empty or NA if it is unranked;
            `pairs`, a row has the private answers of a ranking under `mechanism: random-pairs`, and
            the names of their columns are numbered (`left_1`, `left_2`) where `privacy.pairs` is
            above 1.
        columns: names of the columns.
        contest: only rankings of this contest count.
        best: for layouts `long` and `wide`: which number of a ranking is its best item's, the
            `lowest` (1 is the first place) or the `highest` (as of points).
        ties: for layouts `long` and `wide`: `refuse` sets a ranking with ties aside; `random` puts
            tied items in a random order by a secret coin.
        max_length: the most items of a ranking; None: all items of the catalogue.
        unlisted: `below` counts the items that a ranking does not list as below those it lists, as
            on the ballots of most elections; `unknown` takes it to say nothing of them. `below`
            needs unit `user`.
        not_ranked: for layouts `long` and `wide`: cells in place of a rank that say that the item
            was not ranked, such as 0 or 99. An empty cell and NA always say so.
        overvotes: for layouts `long` and `wide` and `ties: refuse`: `set-aside` counts no ranking
            that puts two items at one rank; `exhaust` ends it before that rank.
        skipped: for layouts `long` and `wide`: `close` moves the items after a rank that is left
            out up; `exhaust` ends the ranking there. Ranks then count from 1.
        person_features: for method `personalized` and layouts `list`, `wide` and `pairs`: public
            features of people, each a column and its values. Of numbers, at least two in ascending
            order: a row counts as the nearest, and one outside their range is set aside. Of words,
            all that may occur, the first to be compared with; a row with another is set aside.
    """

    kind: Literal["rankings"] = Field(examples=["rankings"])
    layout: Literal["long", "list", "wide", "pairs"] = "long"
    columns: RankingColumnsConfig = Field(
        default_factory=RankingColumnsConfig, examples=["{user: user, item: item, rank: rank}"]
    )
    contest: Annotated[Text, BeforeValidator(_as_text)] | None = Field(
        default=None, examples=["2024"]
    )
    best: Literal["lowest", "highest"] = Field(default="lowest", examples=["highest"])
    ties: Annotated[RankingTies, Field(strict=False)] = RankingTies.REFUSE
    max_length: int | None = Field(default=None, ge=2, le=MAX_LENGTH, examples=["10"])
    unlisted: Annotated[Unlisted, Field(strict=False)] = Field(
        default=Unlisted.UNKNOWN, examples=["below"]
    )
    not_ranked: WordList = Field(default=(), examples=['["0", "99", "-"]'])
    overvotes: Annotated[Overvotes, Field(strict=False)] = Overvotes.SET_ASIDE
    skipped: Annotated[Skipped, Field(strict=False)] = Skipped.CLOSE
    person_features: dict[Text, FeatureValues] | None = Field(
        default=None, examples=["{age: [20, 40, 60], region: [north, south]}"]
    )

    def _problems(self) -> Iterable[tuple[str, str]]:
        for role in ROLES:
            if getattr(self.columns, role) is not None and self.layout not in ROLES[role]:
                yield (
                    f"columns.{role}",
                    f"belongs to layout: {' or '.join(ROLES[role])}; remove this line, or set that",
                )
        if self.contest is not None and self.columns.contest is None:
            yield "columns.contest", "missing; contest chooses by it. Add for example contest: year"
        if self.layout not in ("long", "wide") and self.ties is not RankingTies.REFUSE:
            what = "a ranking in a list has" if self.layout == "list" else "private answers have"
            yield "ties", f"{what} no ties; remove this line"
        yield from self._problems_of_ranks()
        yield from self._problems_of_features()
        if self.best == "highest" and self.skipped is Skipped.EXHAUST:
            yield (
                "skipped",
                "exhaust counts ranks from 1, where the lowest is best; it cannot stand beside"
                " best: highest",
            )
        if self.best != "lowest" and not self.has_numbers:
            yield "best", "is for layout: long or wide, whose ranks are numbers; remove this line"
        if (
            self.layout in ("list", "wide")
            and self.columns.contest is not None
            and self.contest is None
        ):
            yield (
                "columns.contest",
                f"changes nothing in layout: {self.layout}, where each row is a ranking of its own;"
                " remove it, or choose one by contest",
            )
        yield from super()._problems()

    def _problems_of_ranks(self) -> Iterable[tuple[str, str]]:
        changed = {
            "not_ranked": bool(self.not_ranked),
            "overvotes": self.overvotes is not Overvotes.SET_ASIDE,
            "skipped": self.skipped is not Skipped.CLOSE,
        }
        for name in (name for name, on in changed.items() if on):
            if self.layout not in ("long", "wide"):
                yield name, f"layout: {self.layout} has no ranks; remove this line"
        if self.ties is RankingTies.RANDOM and "overvotes" in self.model_fields_set:
            yield (
                "overvotes",
                "decides nothing beside ties: random, which orders items at one rank by a coin;"
                " remove one of the two lines",
            )
        if self.layout == "pairs" and self.unlisted is Unlisted.BELOW:
            yield "unlisted", "must be unknown in layout: pairs, whose answers were given before"

    def _problems_of_features(self) -> Iterable[tuple[str, str]]:
        if self.person_features is None:
            return
        if self.layout == "long":
            yield (
                "person_features",
                "needs a row for each ranking: layout: list, wide or pairs; in layout: long several"
                " rows of a ranking could contradict each other",
            )
        taken = {*self.columns.model_dump(exclude_none=True, exclude={"items"}).values()}
        for name, values in self.person_features.items():
            key = f"person_features.{name}"
            if name in taken or name in (self.columns.items or {}):
                yield key, "is a column of the ranking already; name another"
            if problem := _problem_of_values(values):
                yield key, problem
        if (features := self.features()) is None:
            yield "person_features", "names no feature; add one, or remove this line"
        elif features.profiles > MOST_PROFILES:
            yield (
                "person_features",
                f"make {features.profiles:,} combinations of values, and at most {MOST_PROFILES}"
                " are kept apart; list fewer values",
            )

    def features(self) -> PersonFeatures | None:
        """Public features of people, by which rows are read; None: the job names none."""
        if not self.person_features:
            return None
        from hushrank.transforms.rankings.person_features import PersonFeature, PersonFeatures

        return PersonFeatures(
            features=tuple(
                PersonFeature(
                    name=name,
                    numbers=tuple(float(each) for each in values if not isinstance(each, str)),
                    words=tuple(each for each in values if isinstance(each, str)),
                )
                for name, values in self.person_features.items()
            )
        )

    @property
    def reading(self) -> RankReading:
        """Meaning of ranks beyond their order."""
        return RankReading(
            not_ranked=self.not_ranked,
            end_at_tie=self.overvotes is Overvotes.EXHAUST,
            end_at_gap=self.skipped is Skipped.EXHAUST,
        )

    @property
    def has_numbers(self) -> bool:
        """Whether ranks are numbers in the rows, instead of positions in a list."""
        return self.layout in ("long", "wide")

    def readings(self, given: GivenRows) -> Iterator[Reading]:
        """Meaning of items that are not listed, of ranks, and of whole numbers."""
        if (
            self.layout != "pairs"
            and not given.complete
            and "unlisted" not in self.model_fields_set
        ):
            yield Reading(UNKNOWN, by_default=True)
        if FileFormat.PREFLIB in given.formats:  # the head of its files says what numbers mean
            return
        if self.has_numbers:
            chosen = {"best", "not_ranked"} <= self.model_fields_set
            yield Reading(self.ranks_in_words, by_default=not chosen)
        if given.codes and self.layout != "wide":
            yield Reading(CODES.format(given.names[0]), by_default=self.layout != "pairs")

    def public_facts(self) -> Iterator[tuple[str, str | float | None]]:
        """Whose rankings are apart where nobody is named."""
        if not self.names_people:
            yield "each ranking in the input is another person's", None

    @property
    def ranks_in_words(self) -> str:
        """Text on the meaning of numbers and words in rankings, by `best` and `not_ranked`."""
        zero = "" if "0" in self.not_ranked else ", and 0 is a number too"
        unranked = ("empty", "NA", *self.not_ranked)
        cell = f"its cell is {', '.join(unranked[:-1])} or {unranked[-1]}"
        without = "it has no row, or " if self.layout == "long" else ""
        return (
            f"The {self.best} number of a ranking is its best item's (input.best){zero}. An item is"
            f" not ranked only if {without}{cell}."
        )

    @property
    def tie_rule(self) -> str:
        """Text on the treatment of items that share a rank; empty: they cannot."""
        if not self.has_numbers:
            return ""
        if self.ties is RankingTies.RANDOM:
            return "a secret coin puts them in order"
        if self.overvotes is Overvotes.EXHAUST:
            return "the ranking ends before them"
        return "the ranking is set aside"

    @property
    def names_people(self) -> bool:
        """Whether the input says which rankings belong to one person; PrefLib files never do.

        A folder of such files is only recognised after it is listed, if `format` is left out.
        """
        formats = {self.format or ENDINGS.get(ending_of(path)) for path in self.paths}
        named = self.columns.user is not None or self.layout == "long"
        return named and FileFormat.PREFLIB not in formats

    def pair_columns(self, law: RandomPairs) -> PairColumns:
        """Columns to read in layout `pairs`, with at most as many answers as `law` has."""
        columns = self.columns
        return PairColumns(
            left=columns.left or "left",
            right=columns.right or "right",
            outcome=columns.outcome or "outcome",
            length=None if law.hide is Hide.ITEMS else columns.length or "length",
            pairs=law.pairs,
            epsilon=columns.epsilon,
            features=self.features(),
        )

    def ranking_columns(self, names: Sequence[str]) -> RankColumns | ListColumns | WideRankColumns:
        """Columns to read in rankings of the items `names`."""
        columns = self.columns
        if self.layout == "wide":
            items = columns.items or {name: name for name in names}
            return WideRankColumns(
                items=tuple(items.items()),
                user=columns.user,
                contest=columns.contest,
                epsilon=columns.epsilon,
                highest=self.best == "highest",
                features=self.features(),
            )
        if self.layout == "list":
            return ListColumns(
                ranking=columns.ranking or "ranking",
                user=columns.user,
                contest=columns.contest,
                epsilon=columns.epsilon,
                features=self.features(),
            )
        return RankColumns(
            user=columns.user or "user",
            item=columns.item or "item",
            rank=columns.rank or "rank",
            contest=columns.contest,
            epsilon=columns.epsilon,
            highest=self.best == "highest",
        )
