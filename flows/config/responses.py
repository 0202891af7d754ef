"""Section `input` of test answers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import permutations
from typing import Annotated, ClassVar, Literal

import numpy as np
import scipy
from pydantic import BeforeValidator, Field

from hushrank.flows.config.items import ItemName
from hushrank.flows.config.section import (
    ColumnRoles,
    GivenRows,
    Reading,
    RowFiles,
    Text,
    WordList,
    WordsSection,
)
from hushrank.flows.config.yaml_file import refuse
from hushrank.transforms.common.catalogue import Catalogue, Groups
from hushrank.transforms.common.schema import Words
from hushrank.transforms.responses.answer_sheets import MOST_POINTS, Duplicates, Missing, SheetRules
from hushrank.transforms.responses.responses import (
    NOT_ANSWERED,
    ResponseColumns,
    WideColumns,
    key_texts,
    without_cell,
)

MOST_BOOKLETS = 1000


def _each_name_once(booklets: object) -> object:
    """Refuse names that are equal as text or without surrounding blanks."""
    names = [str(name).strip() for name in booklets] if isinstance(booklets, dict) else []
    if twice := [name for name in names if names.count(name) > 1]:
        refuse(("", f"{twice[0]} is the name of two, as blanks around it do not count; rename one"))
    return booklets


def _whole_points(points: object) -> object:
    """Refuse what is neither a number of points nor one for each named item."""
    told = points.values() if isinstance(points, dict) else [points]
    if not told or not all(type(most) is int and 1 <= most <= MOST_POINTS for most in told):
        text = f"must be the most points of every item, 1 to {MOST_POINTS}, or of each by its name"
        refuse(("", f"{text}; write for example 2, or {{q1: 2, q5: 4}}"))
    return points


Points = Annotated[int | dict[ItemName, int], BeforeValidator(_whole_points)]


def _as_texts(key: object) -> object:
    """Read numbers of a key as the texts that stand in cells."""
    if isinstance(key, list):
        return tuple(str(each) if type(each) is int else each for each in key)
    if isinstance(key, dict):
        return {name: str(each) if type(each) is int else each for name, each in key.items()}
    return str(key) if type(key) is int else key


KeyText = Annotated[str, Field(min_length=1, max_length=100)]
Key = Annotated[KeyText | tuple[KeyText, ...] | dict[ItemName, KeyText], BeforeValidator(_as_texts)]
Booklet = Annotated[tuple[ItemName, ...], Field(strict=False)]
Booklets = Annotated[dict[ItemName, Booklet], BeforeValidator(_each_name_once)]
_NO_ORDER = (
    "{} needs columns.order (a time or the number of the attempt): the rows of a set of files have"
    " no order of their own. Name that column, or set duplicates: refuse"
)


class ResponseColumnsConfig(ColumnRoles):
    """The role of each input column; a wide table has neither item nor correct.

    Attributes:
        user: the person who answered.
        item: for layout `long`: the test item, by name or by position in the catalogue.
        correct: for layout `long`: 1, right; 0, wrong.
        order: time or number of the attempt, by which `duplicates` chooses.
        booklet: which of `input.booklets` the person had; without it a sheet belongs to the one
            booklet that has all items that the person answered.
        epsilon: under unit `local`, the epsilon of all answers of this person together; of rows
            with different ones, the smallest.
    """

    user: Text = Field(default="user", examples=["user"])
    item: Text | None = Field(default=None, examples=["item"])
    correct: Text | None = Field(default=None, examples=["correct"])
    order: Text | None = Field(default=None, examples=["time"])
    booklet: Text | None = Field(default=None, examples=["booklet"])
    epsilon: Text | None = Field(default=None, examples=["epsilon"])


class AnswerWords(WordsSection):
    """Words that stand for an answer; case does not count.

    Attributes:
        right: words for a right answer; required, but refused with `input.key`.
        wrong: words for a wrong answer; required, but refused with `input.key`.
        blank: words for no answer, such as a dot, beside the empty cell and NA.
    """

    right: WordList = Field(default=(), examples=["[right]"])
    wrong: WordList = Field(default=(), examples=["[wrong]"])
    blank: WordList = Field(default=(), examples=['["."]'])

    meanings: ClassVar[dict[str, int]] = {"right": 1, "wrong": 0, "blank": NOT_ANSWERED}


class ResponsesConfig(RowFiles):
    """The log of test answers.

    Attributes:
        kind: kind of the rows: answers that are right or wrong.
        layout: `long`, a row is an answer; `wide`, a row is a person and each item has a column,
            empty if it was not answered.
        columns: names of the columns.
        words: words for right and wrong, instead of 1 and 0; a row with another word is set aside.
            An empty cell or NA was not answered. With `key`, further words for a blank.
        duplicates: if one person answers an item several times, `first` or `last` counts, by
            `columns.order`; `refuse` sets all of them aside.
        missing: meaning of a blank, an item of the sheet without an answer. `unseen`: it was not
            asked, by chance; `wrong`: it counts as a wrong answer; `set-aside`: the sheet does not
            count. Left out, it is `unseen`. With the other two an answer that breaks a rule sets
            its whole sheet aside.
        booklets: the items of each booklet of the test, a public design; which booklet a person had
            may be secret. A sheet that belongs to none, or to several, is set aside, and noise and
            fit use only pairs of items that share a booklet.
        points: the most points of every item, or of each by name; items that are not named are
            right or wrong. A sheet with more points, or with a fraction of one, does not count.
            Left out, all answers are right or wrong.
        key: the right answer to each item, where cells hold answers such as A or C: one letter or
            digit an item in a row, in the order of `items`; a list; or each by the name of its
            item. Case does not count, and any other answer is wrong. The certificate shows it.
    """

    kind: Literal["responses"] = Field(examples=["responses"])
    layout: Literal["long", "wide"] = "long"
    columns: ResponseColumnsConfig = Field(
        default_factory=ResponseColumnsConfig,
        examples=["{user: user, item: item, correct: correct}"],
    )
    words: AnswerWords | None = Field(default=None, examples=["{right: [right], wrong: [wrong]}"])
    duplicates: Annotated[Duplicates, Field(strict=False)] = Duplicates.REFUSE
    missing: Annotated[Missing, Field(strict=False)] | None = Field(
        default=None, examples=["wrong"]
    )
    booklets: Booklets | None = Field(
        default=None,
        examples=["{A: [q1, q2, q3], B: [q3, q4, q5]}"],
    )
    points: Points | None = Field(default=None, examples=["2"])
    key: Key | None = Field(default=None, examples=["ABCDA"])

    def _problems(self) -> Iterable[tuple[str, str]]:
        if self.duplicates is not Duplicates.REFUSE and self.columns.order is None:
            yield "duplicates", _NO_ORDER.format(self.duplicates)
        if self.layout == "wide":
            for role in ("item", "correct"):
                if getattr(self.columns, role) is not None:
                    yield (
                        f"columns.{role}",
                        "a wide table has a column for each item instead; remove this line, or set"
                        " layout: long",
                    )
        if self.booklets is not None and not 2 <= len(self.booklets) <= MOST_BOOKLETS:
            yield (
                "booklets",
                f"must be 2 to {MOST_BOOKLETS:,}, got {len(self.booklets)}; remove it if everybody"
                " was asked all items",
            )
        for name, items in (self.booklets or {}).items():
            if len(items) < 2:
                yield "booklets", f"{name} needs at least two items: one has nothing beside it"
        if self.columns.booklet is not None and not self.booklets:
            yield "booklets", "missing; columns.booklet names one of them in each row"
        yield from self._problems_of_scoring()
        if self.points is not None and self.booklets is not None:
            yield (
                "points",
                "items with points are counted where everybody was asked all of them; remove it, or"
                " remove booklets and rank each booklet by a job of its own",
            )
        if self.points is not None and (self.missing or Missing.UNSEEN) is Missing.UNSEEN:
            yield (
                "missing",
                "unseen is not for points, which are counted by whole sheets; write wrong (a blank"
                " has no points) or set-aside (a sheet with a blank does not count)",
            )
        yield from super()._problems()

    def _problems_of_scoring(self) -> Iterable[tuple[str, str]]:
        """Yield what says twice, or not at all, which answers are right."""
        if self.key is not None and self.points is not None:
            yield "key", "says which answers are right, and so does points; remove one"
        for side in ("right", "wrong") if self.words is not None else ():
            told = bool(getattr(self.words, side))
            if self.key is None and not told:
                yield f"words.{side}", f"missing; which words say that an answer is {side}?"
            if self.key is not None and told:
                yield f"words.{side}", "key says which answers are right; remove one of the two"

    def points_of(self, catalogue: Catalogue) -> tuple[int, ...]:
        """Most points of each item, in catalogue order; empty: answers are right or wrong."""
        if self.points is None:
            return ()
        if isinstance(self.points, int):
            return (self.points,) * len(catalogue)
        return tuple(self.points.get(name, 1) for name in catalogue.names)

    def problems_of_points(self, catalogue: Catalogue) -> Iterable[tuple[str, str]]:
        """Yield key and text of the rules that points break with the items."""
        named = self.points if isinstance(self.points, dict) else {}
        if other := [name for name in named if name not in catalogue.names]:
            yield "points", f"{other[0]} is not one of items; correct it"

    def problems_of_key(self, catalogue: Catalogue) -> Iterable[tuple[str, str]]:
        """Yield key and text of the rules that the key of right answers breaks with the items."""
        if isinstance(self.key, dict):
            for name in catalogue.names:
                if name not in self.key:
                    yield "key", f"has no answer to {name}; add it"
                    return
            if other := [name for name in self.key if name not in catalogue.names]:
                yield "key", f"{other[0]} is not one of items; correct it"
        elif self.key is not None and len(self.key) != len(catalogue):
            yield (
                "key",
                f"must have one answer for each of the {len(catalogue):,} items, got"
                f" {len(self.key):,}; write letters in a row, such as ABCDA, or a list",
            )
            return
        key = self._answers_of(catalogue)
        for place in without_cell(key, self._words()):
            yield (
                "key",
                f"has {key[place]!r} for {catalogue.names[place]}, but no cell can hold it: an"
                " empty cell, NA and words.blank stand for no answer; write another",
            )
            return

    def key_of(self, catalogue: Catalogue) -> tuple[str, ...] | None:
        """The right answer to each item, in catalogue order; None: there is no key."""
        return None if self.key is None else key_texts(self._answers_of(catalogue))

    def _answers_of(self, catalogue: Catalogue) -> tuple[str, ...]:
        """The key as it is written, in catalogue order; empty: there is none."""
        if isinstance(self.key, dict):
            return tuple(self.key[name] for name in catalogue.names)
        return tuple(self.key or ())

    def normal_forms(self, catalogue: Catalogue) -> dict[str, tuple[int | str, ...]]:
        """Points and key in the one form of all ways to write them; those that are left out not."""
        forms = {"points": self.points_of(catalogue), "key": self.key_of(catalogue)}
        return {name: form for name, form in forms.items() if form}

    def problems_of_booklets(self, catalogue: Catalogue, most: int) -> Iterable[tuple[str, str]]:
        """Yield key and text of the rules that booklets break with the items and the bound.

        Args:
            catalogue: the items of the job.
            most: privacy.max_contributions.
        """
        booklets = {name: set(items) for name, items in (self.booklets or {}).items()}
        known, asked = set(catalogue.names), set[str]().union(*booklets.values())
        for name, items in (self.booklets or {}).items():
            if other := sorted(set(items) - known):
                yield "booklets", f"{name} has {other[0]}, which is not one of items; correct one"
            if len(set(items)) < len(items):
                yield "booklets", f"{name} has an item twice; remove one"
        if left_out := [name for name in catalogue.names if name not in asked]:
            yield (
                "booklets",
                f"no booklet has {left_out[0]}; add it to one, or remove it from items",
            )
        for (name, inner), (other_name, outer) in permutations(booklets.items(), 2):
            if self.columns.booklet is None and inner <= outer:
                yield (
                    "booklets",
                    f"all items of {name} are in {other_name} too, so nobody can tell which of the"
                    " two a sheet belongs to; name the column that says so in columns.booklet",
                )
                break
        if asked == known and not _connected(list(booklets.values())):
            yield (
                "booklets",
                "fall into parts without a common item, whose difficulties cannot be compared; rank"
                " each part by a job of its own",
            )
        largest = max(map(len, booklets.values()))
        if most > largest:
            yield (
                "booklets",
                f"the largest has {largest} items, but privacy.max_contributions is {most}: nobody"
                f" can answer so many, and the noise would be for them; write {largest} there",
            )

    def sheet_rules(self, catalogue: Catalogue, groups: Groups | None = None) -> SheetRules | None:
        """Rules that decide which sheets count as a whole; None: all do, and a blank was not
        asked.

        Args:
            catalogue: the items of the job.
            groups: groups of people, if sheets are counted by group.
        """
        missing = self.missing or Missing.UNSEEN
        if missing is Missing.UNSEEN and self.booklets is None:
            return None
        named = self.columns.booklet is not None
        return SheetRules(
            n_items=len(catalogue),
            missing=missing,
            booklets=self.booklet_codes(catalogue),
            names=tuple(self.booklets or ()) if named else None,
            points=self.points_of(catalogue),
            groups=groups,
        )

    def _words(self) -> Words | None:
        return None if self.words is None else self.words.words()

    def booklet_codes(self, catalogue: Catalogue) -> tuple[tuple[int, ...], ...]:
        """Codes of the items of each booklet, ascending; empty without booklets."""
        code = {name: number for number, name in enumerate(catalogue.names)}
        booklets = (self.booklets or {}).values()
        return tuple(tuple(sorted(code[item] for item in items)) for items in booklets)

    def readings(self, given: GivenRows) -> Iterator[Reading]:
        """Yield the meaning of an answer if no words for right and wrong are stated."""
        if self.words is None or self.key is not None:
            yield Reading(self._answers_in_words, by_default="words" not in self.model_fields_set)
        yield from super().readings(replace(given, codes=given.codes and self.layout != "wide"))

    @property
    def _answers_in_words(self) -> str:
        own = self.columns.correct or "correct"
        where = "Each item's column" if self.layout == "wide" else f"Column {own}"
        if self.key is not None:
            blank = " or NA" if self.words is None else ", NA or one of input.words.blank"
            return (
                f"{where} should hold an answer, which is right if it is that of input.key and else"
                f" wrong; an empty cell{blank} was not answered."
            )
        if self.points is not None:
            most = self.points if isinstance(self.points, int) else max(self.points.values())
            return (
                f"{where} should hold whole points, 0 to {most} at most. A sheet with anything else"
                " is excluded."
            )
        return (
            f"{where} should hold 1 (right) or 0 (wrong). Anything else, such as 2 points, is"
            " excluded unless input.words says what it means."
        )

    def response_columns(
        self, catalogue: Catalogue, group: str | None = None
    ) -> ResponseColumns | WideColumns:
        """Columns to read; `group` is that of the public group of a person."""
        columns = self.columns
        words, key = self._words(), self.key_of(catalogue)
        if self.layout == "wide":
            return WideColumns(
                user=columns.user,
                items=catalogue.names,
                order=columns.order,
                words=words,
                booklet=columns.booklet,
                epsilon=columns.epsilon,
                key=key,
                group=group,
            )
        return ResponseColumns(
            user=columns.user,
            item=columns.item or "item",
            correct=columns.correct or "correct",
            order=columns.order,
            words=words,
            booklet=columns.booklet,
            epsilon=columns.epsilon,
            key=key,
            group=group,
        )


def _connected(booklets: list[set[str]]) -> bool:
    shares = np.array([[bool(one & other) for other in booklets] for one in booklets])
    return (
        int(
            scipy.sparse.csgraph.connected_components(
                scipy.sparse.csr_array(shares), directed=False
            )[0]
        )
        == 1
    )
