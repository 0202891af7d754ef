"""Section `input` of rankings, and the rules for its keys."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, model_validator

from hushrank.flows.config.chosen_sets import (
    MOST_SETS,
    SetConfig,
    missing_columns,
    problems_of_columns,
    sets_of,
)
from hushrank.flows.config.section import (
    CODES,
    ColumnRoles,
    GivenRows,
    Reading,
    RowFiles,
    Text,
    WordList,
)
from hushrank.flows.config.yaml_file import refuse
from hushrank.privacy.random_pairs import Hide, RandomPairs
from hushrank.transforms.rankings.ranking_columns import (
    BestWorstColumns,
    ListColumns,
    OneRowColumns,
    PairColumns,
    PlaceColumns,
    RankColumns,
    RankReading,
    Repeated,
    WideRankColumns,
)
from hushrank.transforms.storage.files import ENDINGS, FileFormat, ending_of

if TYPE_CHECKING:
    from hushrank.transforms.rankings.person_features import PersonFeatures

MAX_LENGTH = 1_000
MOST_PROFILES = 256  # combinations of features of people, each of which has counts of its own
# Layouts that have a column of each role.
ROLES = {
    "user": ("long", "list", "wide", "places", "best-worst"),
    "item": ("long",),
    "rank": ("long",),
    "ranking": ("list",),
    "items": ("wide",),
    "places": ("places",),
    "best": ("best-worst",),
    "worst": ("best-worst",),
    "shown": ("best-worst",),
    "sets": ("best-worst",),
    "contest": ("long", "list", "wide", "places", "best-worst"),
    "epsilon": ("long", "list", "wide", "places", "pairs"),
    "left": ("pairs",),
    "right": ("pairs",),
    "outcome": ("pairs",),
    "length": ("pairs",),
}


RankingColumns = RankColumns | ListColumns | OneRowColumns | PairColumns


class RankingTies(StrEnum):
    """Treatment of a ranking that puts items at the same rank."""

    REFUSE = "refuse"  # the ranking is excluded
    RANDOM = "random"  # a secret coin puts the items in a random order


class Unlisted(StrEnum):
    """Meaning of a ranking for the items that it does not list."""

    BELOW = "below"  # unlisted items are below those that the ranking lists
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


MOST_CANDIDATES = 100  # paths and locked pairs take time that grows with the third power


class ElectionRule(StrEnum):
    """A rule of elections that finds winners in released counts, beside `approval-k`."""

    CONDORCET = "condorcet"
    SMITH = "smith"
    COPELAND = "copeland"
    SCHULZE = "schulze"
    RANKED_PAIRS = "ranked-pairs"
    MINIMAX = "minimax"
    BORDA = "borda"
    PLURALITY = "plurality"
    INSTANT_RUNOFF = "instant-runoff"


_NOT_OF_PAIRS = (ElectionRule.PLURALITY, ElectionRule.INSTANT_RUNOFF)
USUAL_RULES = {  # usual rules, by what a method counts (`MethodFacts.elections`)
    "pairs": tuple(rule for rule in ElectionRule if rule not in _NOT_OF_PAIRS),
    "places": (ElectionRule.PLURALITY,),
    "rounds": (ElectionRule.INSTANT_RUNOFF,),
}


SEVERAL_SEATS = (
    "hushrank has no count for several seats (STV): one ballot can change there how much all others"
    " count, so no noise of a fixed size hides it. Count one seat with method: instant-runoff, or"
    " order the candidates with method: kemeny"
)
STV = ("stv", "single-transferable-vote", "multi-seat", "droop", "meek")


def approval_rules(longest: int) -> list[str]:
    """Rules that count how often an item is among the first k places."""
    return [f"approval-{k}" for k in range(2, longest + 1)]


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
        places: for layout `places`: the columns of the first place, the second and so on, whose
            cells name the item there.
        best, worst: for layout `best-worst`: the item chosen as the best, and as the worst.
        shown: for layout `best-worst`: the columns that name the items shown, best and worst among
            them; an empty cell names none.
        sets: for layout `best-worst`, if a row holds several sets: the columns of each, in place of
            `best`, `worst` and `shown`.
        contest: the contest of the ranking; rankings of different contests are different.
        epsilon: the epsilon of this ranking.
        left, right: for layout `pairs`: the items of a drawn pair.
        outcome: for layout `pairs`: +1 left above right, -1 below, 0 not both ranked.
        length: for layout `pairs`: how many items the ranking has.
    """

    second: ClassVar[frozenset[str]] = frozenset({"items", "places", "shown", "sets"})

    user: Text | None = Field(default=None, examples=["user"])
    item: Text | None = Field(default=None, examples=["item"])
    rank: Text | None = Field(default=None, examples=["rank"])
    ranking: Text | None = Field(default=None, examples=["ranking"])
    items: dict[Text, Text] | None = Field(default=None, examples=["{Q3_1: London, Q3_2: Paris}"])
    places: Annotated[tuple[Text, ...], Field(strict=False, min_length=1)] | None = Field(
        default=None, max_length=MAX_LENGTH, examples=["[Rank 1, Rank 2, Rank 3]"]
    )
    best: Text | None = Field(default=None, examples=["most liked"])
    worst: Text | None = Field(default=None, examples=["least liked"])
    shown: Annotated[tuple[Text, ...], Field(strict=False, min_length=2)] | None = Field(
        default=None, max_length=MAX_LENGTH, examples=["[item 1, item 2, item 3, item 4]"]
    )
    sets: Annotated[tuple[SetConfig, ...], Field(strict=False, min_length=1)] | None = Field(
        default=None,
        max_length=MOST_SETS,
        examples=["[{best: best_1, worst: worst_1, items: [Tea, Coffee, Milk]}]"],
    )
    contest: Text | None = Field(default=None, examples=["contest"])
    epsilon: Text | None = Field(default=None, examples=["epsilon"])
    left: Text | None = Field(default=None, examples=["left"])
    right: Text | None = Field(default=None, examples=["right"])
    outcome: Text | None = Field(default=None, examples=["outcome"])
    length: Text | None = Field(default=None, examples=["length"])

    @model_validator(mode="before")
    @classmethod
    def _without_weights(cls, value: Any) -> Any:
        if isinstance(value, dict) and value.get("weight") is not None:
            refuse(
                ("weight", "is for input.kind: comparisons; each ranking counts once. Remove it")
            )
        return value

    def _problems(self) -> Iterable[tuple[str, str]]:
        for name, role in ((getattr(self, role), role) for role in ("user", "contest", "epsilon")):
            if self.items is not None and name in self.items:
                yield f"items.{name}", f"column {name} is {role} already; name another"
            if self.places is not None and name in self.places:
                yield "places", f"column {name} is {role} already; name another"
        if self.places is not None and len(set(self.places)) < len(self.places):
            yield "places", "names a column twice; each place has a column of its own"
        yield from problems_of_columns(self)
        yield from super()._problems()


UNKNOWN = (
    "Nothing is taken as known of an item that a ranking does not list (input.unlisted: unknown)."
    " If the unlisted are below the listed, as in elections, write below."
)


WRITTEN = (
    "A name that too few people write is left out of its ranking, and the others in it count. Of"
    " items that a ranking does not list, nothing is taken as known."
)


SEVERAL_SETS = (
    "Each of input.columns.sets is an answer of its own: its best item is above, and its worst"
    " below, the others that were shown. One whose best and worst are empty or NA is none."
)
BEST_AND_WORST = (
    "A row says that its best item is above, and its worst below, the others that were shown. It"
    " says nothing of items that were not shown, nor of the order of those between."
)


class RankingsConfig(RowFiles):
    """The log of rankings.

    Attributes:
        kind: kind of the rows: whole or partial rankings.
        layout: `long`, a row is one ranked item; `list`, a row is a ranking; `wide`, a row is a
            ranking, and each item has a column that holds its rank, empty or NA if it is unranked;
            `places`, a row is a ranking, and each place has a column that names the item there;
            `best-worst` (MaxDiff), a row is one choice of the best and the worst of some items, or
            several of one person (`columns.sets`);
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
        person_features: for method `personalized` and layouts `list`, `wide` and `pairs`: public
            features of people, each a column and its values. Of numbers, at least two in ascending
            order: a row counts as the nearest, and one outside their range is set aside. Of words,
            all that may occur, the first to be compared with; a row with another is set aside.
        not_ranked: for layouts `long`, `wide` and `places`: cells in place of a rank that say that
            the item was not ranked, such as 0 or 99; or in place of an item that say that nobody
            is at that place, such as undervote. An empty cell and NA always say so.
        overvoted: for layout `places`: cells that say that several items were put at that place.
        overvotes: for layouts `long`, `wide` and `places` and `ties: refuse`: `set-aside` counts no
            ranking that puts two items at one rank; `exhaust` ends it before that rank.
        skipped: for layouts `long`, `wide` and `places`: `close` moves the items after a rank that
            is left out up; `exhaust` ends the ranking there. Ranks then count from 1.
        repeated: for layout `places`: `set-aside` counts no ranking that names an item at two
            places; `first` passes over all but the first of them, which is no gap; `exhaust` ends
            it before the second.
        write_ins: for layout `places`: the item that each name outside the catalogue counts as.
        no_valid_vote: for layout `places` and method `precinct-table`: the item as which a ballot
            counts that lists nobody, or that would be set aside for what its places say. Without
            it, such ballots count nowhere.
            Blanks, NA and N/A in any case are no name. Two such names on a ballot are one item at
            two places, which `repeated` decides. Without it, a ranking with such a name is
            excluded.
    """

    kind: Literal["rankings"] = Field(examples=["rankings"])
    layout: Literal["long", "list", "wide", "places", "best-worst", "pairs"] = "long"
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
    overvoted: WordList = Field(default=(), examples=["[overvote]"])
    overvotes: Annotated[Overvotes, Field(strict=False)] = Overvotes.SET_ASIDE
    skipped: Annotated[Skipped, Field(strict=False)] = Skipped.CLOSE
    person_features: dict[Text, FeatureValues] | None = Field(
        default=None, examples=["{age: [20, 40, 60], region: [north, south]}"]
    )
    repeated: Annotated[Repeated, Field(strict=False)] = Repeated.SET_ASIDE
    write_ins: Text | None = Field(default=None, examples=["Write-in"])
    no_valid_vote: Text | None = Field(default=None, examples=["No valid vote"])

    def _problems(self) -> Iterable[tuple[str, str]]:
        for role in ROLES:
            if getattr(self.columns, role) is not None and self.layout not in ROLES[role]:
                yield (
                    f"columns.{role}",
                    f"belongs to layout: {' or '.join(ROLES[role])}; remove this line, or set that",
                )
        if self.contest is not None and self.columns.contest is None:
            yield "columns.contest", "missing; contest chooses by it. Add for example contest: year"
        if self.layout == "places" and self.columns.places is None:
            yield "columns.places", "missing; add for example places: [Rank 1, Rank 2, Rank 3]"
        if self.layout == "best-worst":
            yield from self._problems_of_best_worst()
        elif not self.has_numbers and self.ties is not RankingTies.REFUSE:
            what = {
                "list": "a ranking in a list has no ties",
                "places": "a cell names one item, so nothing says which items are tied",
                "pairs": "private answers have no ties",
            }
            yield "ties", f"{what[self.layout]}; remove this line"
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
            self.layout in ("list", "wide", "places", "best-worst")
            and self.columns.contest is not None
            and self.contest is None
        ):
            yield (
                "columns.contest",
                f"changes nothing in layout: {self.layout}, where each row is a ranking of its own;"
                " remove it, or choose one by contest",
            )
        yield from super()._problems()

    def _problems_of_best_worst(self) -> Iterable[tuple[str, str]]:
        yield from missing_columns(self.columns)
        if self.ties is not RankingTies.RANDOM:
            yield (
                "ties",
                "must be random in layout: best-worst, whose rows leave the order of the other"
                " items open: a secret coin decides it",
            )
        if self.unlisted is Unlisted.BELOW:
            yield "unlisted", "must be unknown in layout: best-worst: other items were not shown"

    def _problems_of_ranks(self) -> Iterable[tuple[str, str]]:
        changed = {
            "not_ranked": bool(self.not_ranked),
            "overvotes": self.overvotes is not Overvotes.SET_ASIDE,
            "skipped": self.skipped is not Skipped.CLOSE,
        }
        for name in (name for name, on in changed.items() if on):
            if self.layout not in ("long", "wide", "places"):
                yield name, f"layout: {self.layout} has no ranks; remove this line"
        yield from self._problems_of_places()
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
        if self.layout not in ("list", "wide", "pairs"):
            yield (
                "person_features",
                "needs layout: list, wide or pairs; in layout: long several rows of a ranking could"
                " contradict each other",
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

    def _problems_of_places(self) -> Iterable[tuple[str, str]]:
        changed = {
            "overvoted": bool(self.overvoted),
            "repeated": self.repeated is not Repeated.SET_ASIDE,
            "write_ins": self.write_ins is not None,
            "no_valid_vote": self.no_valid_vote is not None,
        }
        for name in (name for name, on in changed.items() if on and self.layout != "places"):
            yield name, "is for layout: places; remove this line"
        if self.layout == "places" and not self.overvoted and "overvotes" in self.model_fields_set:
            yield (
                "overvotes",
                "no cell says so; add for example overvoted: [overvote], or remove it",
            )
        known: dict[str, str] = {}
        for name in ("not_ranked", "overvoted"):
            for word in getattr(self, name) if self.layout == "places" else ():
                if known.setdefault(word.strip().lower(), name) != name:
                    yield name, f"the word {word} is one of not_ranked already; remove one of them"

    @property
    def reading(self) -> RankReading:
        """Meaning of ranks beyond their order."""
        return RankReading(
            not_ranked=self.not_ranked,
            end_at_tie=self.overvotes is Overvotes.EXHAUST,
            end_at_gap=self.skipped is Skipped.EXHAUST,
            tie_words=self.overvoted,
            repeated=self.repeated,
            other=self.write_ins,
            invalid=self.no_valid_vote,
        )

    @property
    def has_numbers(self) -> bool:
        """Whether ranks are numbers in the rows, instead of positions in a list."""
        return self.layout in ("long", "wide")

    def readings(self, given: GivenRows) -> Iterator[Reading]:
        """Meaning of items that are not listed, of ranks, and of whole numbers."""
        if given.written:
            yield Reading(WRITTEN)
        elif (
            self.layout not in ("pairs", "best-worst")
            and not given.complete
            and "unlisted" not in self.model_fields_set
        ):
            yield Reading(UNKNOWN, by_default=True)
        if FileFormat.PREFLIB in given.formats:  # the head of its files says what numbers mean
            return
        if self.has_numbers:
            chosen = {"best", "not_ranked"} <= self.model_fields_set
            yield Reading(self.ranks_in_words, by_default=not chosen)
        if self.layout == "places":
            yield Reading(self.places_in_words(written=given.written))
        if self.layout == "best-worst":
            yield Reading(BEST_AND_WORST if self.columns.sets is None else SEVERAL_SETS)
        if given.codes and self.layout != "wide":
            yield Reading(CODES.format(given.names[0]), by_default=self.layout != "pairs")

    def public_facts(self) -> Iterator[tuple[str, str | float | None]]:
        """Yield who counts as another person if nobody is named."""
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

    def places_in_words(self, *, written: bool) -> str:
        """Text on the meaning of cells in layout `places`; `written`: people write the names."""
        names = self.columns.places or ()
        nobody = ", ".join(("empty", "NA", *self.not_ranked))
        told = f"{names[0]} is the first place. Cells that name nobody: {nobody}"
        told += f"; several: {', '.join(self.overvoted)}" if self.overvoted else ""
        if self.no_valid_vote is not None:
            if self.write_ins is not None:
                told += f". Any other name counts as {self.write_ins}"
            return f"{told}. A ballot that names nobody, or breaks a rule, is {self.no_valid_vote}."
        if self.write_ins is not None:
            return (
                f"{told}. Any other name that is not an item counts as {self.write_ins}, but for"
                " blanks, na and N/A."
            )
        if written:
            return f"{told}."
        return f"{told}. A ranking with any other name that is not an item is excluded."

    @property
    def tie_rule(self) -> str:
        """Text on the treatment of items that share a rank; empty: they cannot."""
        if not self.has_numbers and not self.overvoted and self.layout != "best-worst":
            return ""
        if self.ties is RankingTies.RANDOM:
            return "a secret coin puts them in order"
        if self.overvotes is Overvotes.EXHAUST:
            return "the ranking ends before them"
        if self.no_valid_vote is not None:
            return "the ranking counts as no valid vote"
        return "the ranking is set aside"

    @property
    def in_preflib(self) -> bool:
        """Whether rankings are in PrefLib files, which have no columns.

        A folder of such files is only recognised after it is listed, if `format` is left out.
        """
        formats = {self.format or ENDINGS.get(ending_of(path)) for path in self.paths}
        return FileFormat.PREFLIB in formats

    @property
    def names_people(self) -> bool:
        """Whether the input says which rankings belong to one person; PrefLib files never do."""
        return (self.columns.user is not None or self.layout == "long") and not self.in_preflib

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

    def ranking_columns(self, names: Sequence[str]) -> RankColumns | ListColumns | OneRowColumns:
        """Columns to read in rankings of the items `names`."""
        columns, highest = self.columns, self.best == "highest"
        of_a_row = {role: getattr(columns, role) for role in ("user", "contest", "epsilon")}
        if self.layout == "places":
            return PlaceColumns(places=columns.places or (), **of_a_row)
        if self.layout == "best-worst":
            if sets := sets_of(columns):
                return BestWorstColumns.of_sets(sets, **of_a_row)
            best, worst = columns.best or "best", columns.worst or "worst"
            return BestWorstColumns(best=best, worst=worst, shown=columns.shown or (), **of_a_row)
        if self.layout == "wide":
            items = columns.items or {name: name for name in names}
            return WideRankColumns(
                items=tuple(items.items()), highest=highest, features=self.features(), **of_a_row
            )
        if self.layout == "list":
            ranking = columns.ranking or "ranking"
            return ListColumns(ranking=ranking, features=self.features(), **of_a_row)
        return RankColumns(
            user=columns.user or "user",
            item=columns.item or "item",
            rank=columns.rank or "rank",
            contest=columns.contest,
            epsilon=columns.epsilon,
            highest=highest,
        )
