"""Section `input` of comparisons: the files, and the meaning of their columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    BeforeValidator,
    Field,
    PrivateAttr,
    StringConstraints,
    ValidationInfo,
    field_validator,
    model_validator,
)

from hushrank.estimation.ties.tie_models import TieModel
from hushrank.flows.config.items import ItemName, PublicDesign, read_asked_pairs
from hushrank.flows.config.section import (
    BadRows,
    ColumnRoles,
    GivenRows,
    LocalPath,
    Reading,
    RowFiles,
    Section,
    Text,
    WordList,
    WordsOrEmpty,
    WordsSection,
    local_path,
)
from hushrank.flows.config.yaml_file import refuse
from hushrank.transforms.common.catalogue import Groups
from hushrank.transforms.common.encode import TIE_WORD
from hushrank.transforms.common.plain_text import hidden_character
from hushrank.transforms.common.schema import (
    BLANKS,
    CHOICE,
    LEFT_ITEM,
    RIGHT_ITEM,
    Feature,
    GroupSets,
    Ties,
    Words,
)
from hushrank.transforms.comparisons.pair_cells import SIDES

MOST_WORDS = 3  # most words of one meaning that a message lists
FIRST = "shown first"  # name of the effect
MOST_OF_A_GROUP = 200  # longest name of a group, in characters


MOST_ASKED = 2_000  # most items for which a list of pairs is turned into a matrix


class Design(StrEnum):
    """Frequency with which pairs of items were asked about, as the operator states it."""

    BALANCED = "balanced"  # every pair equally often
    RANDOM = "random"  # some items more often than others; pairs were formed at random
    ANY = "any"  # unknown, or strong items met strong ones more often than weak ones


class OutcomeWords(WordsSection):
    """Meaning of the words in the column of the result; case is ignored.

    Attributes:
        left: the left item won.
        right: the right item won.
        tie: neither did. The empty word stands for an empty cell.
    """

    left: WordList = Field(default=(), examples=["[model_a]"])
    right: WordList = Field(default=(), examples=["[model_b]"])
    tie: WordsOrEmpty = Field(default=(), examples=['[tie, both_bad, ""]'])

    meanings: ClassVar[dict[str, int]] = {"left": 1, "right": -1, "tie": 0}


PairOfItems = Annotated[tuple[ItemName, ItemName], Field(strict=False)]


class ColumnsConfig(ColumnRoles):
    """Column of the input for each role.

    Attributes:
        user: column of who gave the answer, an integer or text. Not read where neither bounds,
            events nor shares of epsilon need it.
        left: one of the two items compared, by name or by position in the catalogue.
        right: the other item.
        outcome: 1, left won; -1, right won; 0, a tie. The default where there is no `winner`.
        winner: the item that won, or the name of its column (`left`, `right`), or the word tie;
            instead of `outcome`.
        winner_values: further words of the column `winner` for the sides and for a tie. Short for
            `input.words`.
        loser: the item that lost, where each row names the winner and the loser; instead of `left`
            and `right`.
        event: identity of an answer. Rows of one user, pair and event count once; where they
            contradict each other, none counts.
        epsilon: for unit `local`: the epsilon of this answer.
        weight: how much an answer counts, as the weights of a survey's design; needs
            `privacy.max_weight`. A row whose weight is missing, negative or no number is set aside.
        pairs: for layout `pairs-wide`: each column that asks about a pair of items, and its two
            items, of which a cell names the better one.
        first: the item that was shown first, or above; the column of `left` again where that is
            always the left one. Then being shown first has an effect of its own; of method
            `perturbed-mle`, and of `debiased-rr`, where a coin decided it.
    """

    second: ClassVar[frozenset[str]] = frozenset({"first", "winner_values", "pairs"})

    user: Text = Field(default="user", examples=["user"])
    left: Text = Field(default="left", examples=["left"])
    right: Text = Field(default="right", examples=["right"])
    outcome: Text | None = Field(default=None, examples=["outcome"])
    winner: Text | None = Field(default=None, examples=["winner"])
    winner_values: OutcomeWords | None = Field(
        default=None, examples=["{left: model_a, right: model_b, tie: [tie, both_bad]}"]
    )
    loser: Text | None = Field(default=None, examples=["loser"])
    event: Text | None = Field(default=None, examples=["event"])
    epsilon: Text | None = Field(default=None, examples=["epsilon"])
    weight: Text | None = Field(default=None, examples=["weight"])
    pairs: dict[Text, PairOfItems] | None = Field(
        default=None, min_length=1, examples=['{"Tea or coffee?": [Tea, Coffee]}']
    )
    first: Text | None = Field(default=None, examples=["left"])

    @model_validator(mode="before")
    @classmethod
    def _default_outcome(cls, value: Any) -> Any:
        if isinstance(value, dict) and not {"outcome", "winner", "pairs"} & value.keys():
            return {**value, "outcome": "outcome"}
        return value

    def _problems(self) -> Iterable[tuple[str, str]]:
        if self.pairs is not None:
            yield from self._problems_of_pairs(self.pairs)
            yield from super()._problems()
            return
        if (self.outcome is None) == (self.winner is None):
            yield "", "needs exactly one of outcome and winner"
        if self.winner_values is not None and self.winner is None:
            yield "winner_values", "needs columns.winner; add that, or write input.words"
        if self.loser is not None:
            if self.winner is None:
                yield "loser", "needs columns.winner, the item that won; add it"
            for role in ("left", "right"):
                if role in self.model_fields_set:
                    yield role, "has no effect if winner and loser name the items; remove it"
        told = {self.outcome, self.winner, self.loser, self.user, self.event} - {None}
        if self.first in told:
            yield "first", f"column {self.first} does not say who was shown first; name another"
        yield from super()._problems()

    def _problems_of_pairs(self, pairs: dict[str, PairOfItems]) -> Iterable[tuple[str, str]]:
        others = {"left", "right", "outcome", "winner", "winner_values", "loser", "event", "first"}
        for role in sorted(others & self.model_fields_set):
            yield role, "has no effect beside columns.pairs, whose cells name who won; remove it"
        roles = {self.user: "user", self.epsilon: "epsilon", self.weight: "weight"}
        for column in pairs:
            if column in roles:
                yield "pairs", f"column {column} is {roles[column]} already; name another"
        for column in sorted({LEFT_ITEM, RIGHT_ITEM, CHOICE} & {*filter(None, roles)}):
            yield roles[column], f"no column may be called {column} here; rename it in the file"
        for column, (left, right) in pairs.items():
            if left == right:
                yield "pairs", f"column {column} has twice the item {left}; name two items"

    def sides(self) -> tuple[str, str]:
        """Columns of the two items, the left one first."""
        if self.pairs is not None:
            return LEFT_ITEM, RIGHT_ITEM
        if self.winner is not None and self.loser is not None:
            return self.winner, self.loser
        return self.left, self.right

    def asked(self) -> tuple[tuple[str, str, str], ...]:
        """Column, left and right item of each pair of layout `pairs-wide`."""
        return tuple((column, *items) for column, items in (self.pairs or {}).items())


def _file_or_pairs(value: object, info: ValidationInfo) -> object:
    """Accept a file, relative to the YAML file, or pairs of names."""
    if isinstance(value, str | Path):
        return local_path(value, info)
    if isinstance(value, list | tuple) and value and all(map(_is_pair, value)):
        return tuple((str(left).strip(), str(right).strip()) for left, right in value)
    refuse(("", "must be a file, or a list of pairs of items such as [[London, Paris]]"))
    return None


def _is_pair(value: object) -> bool:
    names = value if isinstance(value, list | tuple) else ()
    known = (isinstance(name, str | int) and not isinstance(name, bool) for name in names)
    return len(names) == 2 and all(known)


AskedPairs = Annotated[LocalPath | tuple[tuple[str, str], ...], BeforeValidator(_file_or_pairs)]


class FeatureConfig(Section):
    """Feature of a comparison: the difference of a public number between the left and right item.

    Attributes:
        column: holds that difference, left less right; instead of `left` and `right`.
        left, right: hold the values of the two items, whose difference counts.
        scale: public: a difference of that size counts as 1, and larger ones count no more. The
            effect is the log odds that a difference of this size is worth.
        name: name of the effect in the release; by default the column.
    """

    column: Text | None = Field(default=None, examples=["length_difference"])
    left: Text | None = Field(default=None, examples=["length_a"])
    right: Text | None = Field(default=None, examples=["length_b"])
    scale: float = Field(gt=0, ge=1e-9, le=1e12, examples=["500"])
    name: Text | None = Field(default=None, examples=["length"])

    def _problems(self) -> Iterable[tuple[str, str]]:
        sides = [side for side in (self.left, self.right) if side is not None]
        if len(sides) != (0 if self.column is not None else 2):
            yield "", "needs column, or left and right; give one of the two"
        elif sides and self.left == self.right:
            yield "right", f"column {self.right} is left already; name another"

    @property
    def title(self) -> str:
        """Name of the effect."""
        return self.name or self.column or f"{self.left} - {self.right}"

    def feature(self) -> Feature:
        """Return the feature in the form that readers of rows take."""
        return Feature(column=self.column or self.left or "", right=self.right, scale=self.scale)


SIGNS = (
    "Column {} should hold 1 (left won), -1 (right won) or 0 (a tie). Rows with any other number"
    " are excluded, so convert a column of scores to these numbers first."
)


class InputConfig(RowFiles):
    """The log of comparisons.

    Attributes:
        kind: kind of the rows: two items and which of them won.
        layout: `long`, a row is one answer; `pairs-wide`, a row is a person and each pair of items
            has a column, whose cell names one of the two; an empty cell or NA is no answer.
        columns: names of the columns.
        design: pairs that were asked about, which the operator states and nobody checks in the
            rows: `balanced`, every pair equally often; `random`, some items more often than others,
            but chance decided who met whom; `any`, none of these or unknown.
        pairs: the pairs that people were asked about, if these are not all: a CSV file with the
            columns `left` and `right`, or a list of pairs of items. They are public: of a schedule,
            never made from the rows. A row on another pair breaks a rule, and only these pairs get
            noise and are fitted; of method `noisy-pairs`.
        words: of the column `outcome`: what its words stand for, instead of 1, -1 and 0; true and
            false are words too. Of the column `winner`: further words beside the names of the
            items and of their two columns, and tie. A row with another word is set aside.
        features: up to eight features of a comparison whose effect on who wins is estimated, so
            that scores are those of items with equal features (style control); of method
            `perturbed-mle`. A row in which one is missing or no number is set aside.
        ties: `drop` leaves ties out; `split` gives half a win each, and counts every win twice so
            that halves stay whole, which doubles the sensitivity too; `random` lets a fair secret
            coin decide; `model` counts ties as an outcome of their own, with the same sensitivity
            as wins, and estimates how often items tie; of method `noisy-pairs`.
        tie_model: with `ties: model`, how ties follow from scores: `davidson` or `rao-kupper`.
    """

    kind: Literal["comparisons"] = Field(examples=["comparisons"])
    layout: Literal["long", "pairs-wide"] = "long"
    columns: ColumnsConfig = Field(
        default_factory=ColumnsConfig, examples=["{user: user, left: left, right: right}"]
    )
    design: Annotated[Design, Field(strict=False)] = Field(
        default=Design.ANY, examples=["balanced"]
    )
    pairs: AskedPairs | None = Field(default=None, examples=["pairs.csv"])
    words: OutcomeWords | None = Field(
        default=None, examples=["{left: [model_a], right: [model_b], tie: [tie, both_bad]}"]
    )
    features: Annotated[tuple[FeatureConfig, ...], Field(strict=False)] = Field(
        default=(), max_length=8, examples=["[{column: length_difference, scale: 500}]"]
    )
    ties: Annotated[Ties, Field(strict=False)] = Ties.DROP
    tie_model: Annotated[TieModel, Field(strict=False)] = TieModel.DAVIDSON

    _asked: PublicDesign | None = PrivateAttr(default=None)

    @model_validator(mode="after")
    def _read_pairs(self) -> Self:
        if isinstance(self.pairs, Path):
            try:
                self._asked = read_asked_pairs(self.pairs)
            except ValueError as error:
                refuse(("pairs", f"{self.pairs}: {error}"))
        elif self.pairs is not None:
            places = tuple(range(1, len(self.pairs) + 1))
            self._asked = PublicDesign(places, self.pairs, (1.0,) * len(places))
        return self

    def asked(self) -> PublicDesign | None:
        """Pairs that people were asked about, as read with the configuration."""
        return self._asked

    @property
    def covariates(self) -> tuple[tuple[str, float | None], ...]:
        """Name of each effect, and the scale of its feature; None for the effect of being shown
        first."""
        features = [(feature.title, feature.scale) for feature in self.features]
        first: list[tuple[str, float | None]] = (
            [] if self.columns.first is None else [(FIRST, None)]
        )
        return (*first, *features)

    def _problems(self) -> Iterable[tuple[str, str]]:
        names = [name for name, _ in self.covariates]
        for name in sorted({name for name in names if names.count(name) > 1}):
            yield "features", f"two effects have the name {name}; write another name for one"
        yield from self._problems_of_layout()
        if self.ties is not Ties.MODEL and "tie_model" in self.model_fields_set:
            yield "tie_model", f"needs ties: model, got {self.ties}; remove it, or change ties"
        yield from self._problems_of_words()
        yield from super()._problems()

    def _problems_of_layout(self) -> Iterable[tuple[str, str]]:
        wide = self.layout == "pairs-wide"
        if wide != (self.columns.pairs is not None):
            how = (
                "columns.pairs names the pair of each column; add it"
                if wide
                else ("columns.pairs names a column for each pair; write layout: pairs-wide")
            )
            yield ("columns.pairs" if wide else "layout"), how
        if not wide:
            return
        if self.features:
            yield "features", "is for rows of one answer each; remove it, or write layout: long"
        told = () if self.told is None else self.told.words().meanings
        words = {word.strip().lower() for word, _ in told}
        if words & {*BLANKS}:
            yield "words", "an empty cell is no answer in layout pairs-wide, nor is NA; remove it"
        for word in sorted(words & {*SIDES}):
            yield "words", f"no word may be {word} in layout pairs-wide; rename it in the file"

    def _problems_of_words(self) -> Iterable[tuple[str, str]]:
        if self.told is None:
            return
        key = "words" if self.words is not None else "columns.winner_values"
        if self.words is not None and self.columns.winner_values is not None:
            yield "columns.winner_values", "says what words says; remove one of the two"
        if self.columns.loser is not None:
            yield key, "have no effect if winner and loser name the items; remove it"
        for side in ("left", "right"):
            named = bool(getattr(self.told, side))
            if self.columns.outcome is not None and not named:
                yield f"{key}.{side}", f"missing; which words say that the {side} item won?"

    @property
    def told(self) -> OutcomeWords | None:
        """Words that the file states, under either of their two keys."""
        return self.words or self.columns.winner_values

    @property
    def has_signs(self) -> bool:
        """Whether the words mean the same as 1, -1 and 0 without words."""
        told = None if self.words is None else self.words.words().meanings
        return self.columns.outcome is not None and told == (("1", 1), ("-1", -1), ("0", 0))

    def needs_no_words(self, names: Sequence[str]) -> bool:
        """Whether rows are read the same if no words are stated."""
        if self.told is None or self.has_signs:
            return self.told is not None
        columns = self.columns.model_copy(update={"winner_values": None})
        bare = self.model_copy(update={"words": None, "columns": columns}).meanings(names)
        told = self.meanings(names)
        return bare is not None and told is not None and _read(bare) == _read(told)

    def meanings(self, names: Sequence[str]) -> Words | None:
        """Meaning of the words of the result; None: signs, or winner and loser, decide.

        Args:
            names: names of the items, none of which is a word.
        """
        columns = self.columns
        told = () if self.told is None or self.has_signs else self.told.words().meanings
        if columns.pairs is not None:
            named = {word.strip().lower() for word, _ in told}
            tie = () if TIE_WORD in named else ((TIE_WORD, 0),)
            return Words((*told, *tie, (LEFT_ITEM, 1), (RIGHT_ITEM, -1)))
        if columns.winner is None or columns.loser is not None:
            return Words(told) if told else None
        taken = {name.strip().lower() for name in names}
        meant = {word.strip().lower(): value for word, value in told}
        bare = {columns.left.strip().lower(): 1, columns.right.strip().lower(): -1}
        clear = len(bare) == 2 and TIE_WORD not in bare and not bare.keys() & taken
        agrees = all(meant.get(word, value) == value for word, value in bare.items())
        own = [(columns.left, 1), (columns.right, -1)] if clear and agrees else []
        own.append((TIE_WORD, 0))
        return Words((*told, *(each for each in own if each[0].strip().lower() not in meant)))

    def readings(self, given: GivenRows) -> Iterator[Reading]:
        """Meaning of the result of a row."""
        if words := self.spelled_out(given.names):
            by_default = self.ties is not Ties.DROP and self.told is None
            by_default = by_default and self.columns.pairs is None  # where empty is no answer
            empty = ", an empty cell too: input.words can call it a tie" if by_default else ""
            yield Reading(f"{words[0].upper()}{words[1:]}{empty}.", by_default)
        if (column := self.columns.outcome) is not None and self.told is None:
            chosen = "words" in self.model_fields_set or column.strip().lower() == "outcome"
            yield Reading(SIGNS.format(column), by_default=not chosen)
        wide = self.columns.pairs is not None
        yield from super().readings(replace(given, codes=given.codes and not wide))

    def row_rules(self, names: Sequence[str]) -> Iterator[str]:
        """Meaning of the result, and rows of one event."""
        if words := self.spelled_out(names):
            yield f"{words[0].upper()}{words[1:]}."
        if self.columns.event is not None:
            yield "Rows of one user, pair and event count once; contradicting ones never."
        if self.columns.pairs is not None:
            yield (
                "Each cell of a column of input.columns.pairs is an answer of its own; an empty"
                " one or NA is none."
            )

    def public_facts(self) -> Iterator[tuple[str, str | float | None]]:
        """The design, and covariates with their scales."""
        if self.design is not Design.ANY:
            words = "which pairs were asked about; results rest on it, the guarantee does not"
            yield words, self.design.value
        for name, scale in self.covariates:
            yield f"the covariate {name}, and its scale", scale

    def spelled_out(self, names: Sequence[str]) -> str:
        """Text on how the result of a row is read, from public settings alone; empty: by its
        sign."""
        words, columns = self.meanings(names), self.columns
        if columns.loser is not None or words is None:
            return ""
        parts = []
        named_sides = () if columns.pairs is None else (LEFT_ITEM, RIGHT_ITEM)
        for value, what in ((1, "a left win"), (-1, "a right win"), (0, "a tie")):
            found = [word for word, meant in words.meanings if meant == value]
            found = [word or "an empty cell" for word in found if word not in named_sides]
            if found:
                shown = ", ".join(found[:MOST_WORDS])
                several = f"one of {len(found)} words ({shown} ...)"
                word = several if len(found) > MOST_WORDS else " or ".join(found)
                parts.append(f"{word} for {what}")
        named = "" if columns.outcome is not None else "the winning item, or "
        column = f"column {columns.winner or columns.outcome}"
        if columns.pairs is not None:
            named, column = "one of its two items, or ", "each column of input.columns.pairs"
        others = "make the run fail" if self.on_bad_rows is BadRows.FAIL else "are excluded"
        what = "; ".join(parts)
        return f"{column} should hold {named}{what}. Rows with anything else {others}"


class Others(StrEnum):
    """Treatment of rows of no listed group."""

    SET_ASIDE = "set-aside"
    WHOLE = "whole"


def _as_text(value: object) -> object:
    """Turn a name that YAML reads as a number or a truth value back into text."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int) else value


GroupName = Annotated[
    str,
    StringConstraints(min_length=1, max_length=MOST_OF_A_GROUP, strip_whitespace=True),
    BeforeValidator(_as_text),
]


SeparatorText = Annotated[str, StringConstraints(min_length=1, max_length=8)]
Members = Annotated[tuple[GroupName, ...], Field(strict=False)]


class GroupsConfig(Section):
    """Groups of rows, such as languages: each is ranked, and all together, at one epsilon.

    Attributes:
        column: column with the group of a row, an integer or text; with `most` a list of groups, or
            a text of several.
        columns: instead of `column`: a column of true and false for each group.
        values: the groups that are ranked. They are public: never made from the rows. By default
            the names of `columns`, and in their order.
        most: of comparisons and rankings, where groups overlap: the most groups in which an answer
            counts, a public number. It counts in the first of its groups in the order of `values`,
            and once in the whole. Noise grows with it. None: an answer is in one group.
        separator: with `most`, where cells of `column` are texts: the text between two groups, or
            "[]" where each is a list, such as ['coding', 'hard'] or ["coding", "hard"].
        others: rule for a row whose group is missing or not listed. `set-aside`: it breaks a
            rule, like a row with an unknown item; `whole`: it counts in the whole only.
        districts: for method `precinct-table`: a third level between the groups and the whole. Each
            district lists its groups, and each group is in one district. Sorted by name.
    """

    column: Text | None = Field(default=None, examples=["language"])
    columns: Annotated[tuple[Text, ...] | None, Field(strict=False)] = Field(
        default=None, min_length=1, examples=["[is_code, is_hard]"]
    )
    values: Annotated[tuple[GroupName, ...], Field(strict=False)] = Field(
        min_length=1, examples=["[English, German]"]
    )
    most: int | None = Field(default=None, ge=1, examples=["2"])
    separator: SeparatorText | None = Field(default=None, examples=['"|"'])
    others: Annotated[Others, Field(strict=False)] = Others.SET_ASIDE
    districts: dict[GroupName, Members] | None = Field(
        default=None, examples=["{North: [P-1, P-2], South: [P-3]}"]
    )

    @model_validator(mode="before")
    @classmethod
    def _name_by_columns(cls, value: Any) -> Any:
        if isinstance(value, dict) and "values" not in value and value.get("columns"):
            return {**value, "values": value["columns"]}
        return value

    def _problems(self) -> Iterable[tuple[str, str]]:
        if (self.column is None) == (self.columns is None):
            yield "", "needs exactly one of column and columns"
        if self.columns is not None:
            if self.most is None:
                yield "most", "missing; columns needs the most groups of an answer, for example 2"
            if len(self.columns) != len(self.values):
                yield (
                    "values",
                    f"names {len(self.values)} groups, and columns has {len(self.columns)} columns;"
                    " name each in its order, or remove values",
                )
            for name in sorted({e for e in self.columns if self.columns.count(e) > 1}):
                yield "columns", f"column {name} occurs twice; name another"
        if self.separator is not None and (self.most is None or self.columns is not None):
            yield "separator", "divides a cell of column into groups; it needs column and most"
        if self.separator is not None and any(self.separator in each for each in self.values):
            yield "separator", "occurs in the name of a group; rename the group, or use another"

    @field_validator("districts")
    @classmethod
    def _sort(cls, districts: dict[str, Any] | None) -> dict[str, Any] | None:
        # Released numbers have no names, and the identity of a job does not know this order.
        return districts and dict(sorted(districts.items()))

    @model_validator(mode="after")
    def _make(self) -> Self:
        for name in self.values:
            if hidden := hidden_character(name):
                refuse(("values", f"a group's name holds {hidden}, which is invisible; rename it"))
        try:
            self.groups()
        except ValueError as error:
            refuse(("values", str(error)))
        if self.districts is not None:
            listed = [name for names in self.districts.values() for name in names]
            if sorted(listed) != sorted(self.values):
                odd = next(
                    name
                    for name in (*self.values, *listed)
                    if listed.count(name) != self.values.count(name)
                )
                refuse(
                    ("districts", f"must list each of groups.values once, and nothing else: {odd}")
                )
            if not all(self.districts.values()) or any(map(hidden_character, self.districts)):
                refuse(("districts", "each needs a name without invisible characters, and a group"))
        return self

    def groups(self) -> Groups:
        """Return the groups in the form that readers of rows take."""
        return Groups(self.values, others=self.others is Others.WHOLE, most=self.most)

    def sets(self) -> GroupSets | None:
        """Return where a row says in which groups it is; None: groups do not overlap."""
        if self.most is None:
            return None
        return GroupSets(
            column=self.column or "", separator=self.separator, flags=self.columns or ()
        )

    @property
    def read(self) -> tuple[str, ...]:
        """Names of all columns that say in which groups a row is."""
        return self.columns or tuple(filter(None, (self.column,)))


def _read(words: Words) -> set[tuple[str, int]]:
    """Collect the meaning of each word, as rows are read: without case and surrounding blanks."""
    return {(word.strip().lower(), value) for word, value in words.meanings}
