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
from hushrank.transforms.common.catalogue import Catalogue
from hushrank.transforms.common.groups import Groups
from hushrank.transforms.responses.answer_sheets import Duplicates
from hushrank.transforms.responses.responses import NOT_ANSWERED, ResponseColumns, WideColumns
from hushrank.transforms.responses.whole_sheets import Missing, SheetRules

MOST_BOOKLETS = 1000


def _each_name_once(booklets: object) -> object:
    """Refuse names that are equal as text or without surrounding blanks."""
    names = [str(name).strip() for name in booklets] if isinstance(booklets, dict) else []
    if twice := [name for name in names if names.count(name) > 1]:
        refuse(("", f"{twice[0]} is the name of two, as blanks around it do not count; rename one"))
    return booklets


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
        right: words for a right answer.
        wrong: words for a wrong answer.
        blank: words for no answer, such as a dot, beside the empty cell and NA.
    """

    right: WordList = Field(min_length=1, examples=["[right]"])
    wrong: WordList = Field(min_length=1, examples=["[wrong]"])
    blank: WordList = Field(default=(), examples=['["."]'])

    meanings: ClassVar[dict[str, int]] = {"right": 1, "wrong": 0, "blank": NOT_ANSWERED}


class ResponsesConfig(RowFiles):
    """The log of test answers.

    Attributes:
        kind: what the rows are: answers that are right or wrong.
        layout: `long`, a row is an answer; `wide`, a row is a person and each item has a column,
            empty if it was not answered.
        columns: names of the columns.
        words: words for right and wrong, instead of 1 and 0; a row with another word is set aside.
            An empty cell or NA was not answered.
        duplicates: if one person answers an item several times, `first` or `last` counts, by
            `columns.order`; `refuse` sets all of them aside.
        missing: what a blank means, an item of the sheet without an answer. `unseen`: it was not
            asked, by chance; `wrong`: it counts as a wrong answer; `set-aside`: the sheet does not
            count. Left out, it is `unseen`. With the other two an answer that breaks a rule sets
            its whole sheet aside.
        booklets: the items of each booklet of the test, a public design; which booklet a person had
            may be secret. A sheet that belongs to none, or to several, is set aside, and noise and
            fit use only pairs of items that share a booklet.
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
        yield from super()._problems()

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
            groups: of people, if sheets are counted by group.
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
            groups=groups,
        )

    def booklet_codes(self, catalogue: Catalogue) -> tuple[tuple[int, ...], ...]:
        """Codes of the items of each booklet, ascending; empty without booklets."""
        code = {name: number for number, name in enumerate(catalogue.names)}
        booklets = (self.booklets or {}).values()
        return tuple(tuple(sorted(code[item] for item in items)) for items in booklets)

    def readings(self, given: GivenRows) -> Iterator[Reading]:
        """Yield the meaning of an answer if no words are stated."""
        if self.words is None:
            yield Reading(self._answers_in_words, by_default="words" not in self.model_fields_set)
        yield from super().readings(replace(given, codes=given.codes and self.layout != "wide"))

    @property
    def _answers_in_words(self) -> str:
        where = "Each item's column" if self.layout == "wide" else f"Column {self.columns.correct}"
        return (
            f"{where} should hold 1 (right) or 0 (wrong). Anything else, such as 2 points, is"
            " excluded unless input.words says what it means."
        )

    def response_columns(
        self, catalogue: Catalogue, group: str | None = None
    ) -> ResponseColumns | WideColumns:
        """Columns to read; `group` is that of the public group of a person."""
        columns = self.columns
        words = None if self.words is None else self.words.words()
        if self.layout == "wide":
            return WideColumns(
                user=columns.user,
                items=catalogue.names,
                order=columns.order,
                words=words,
                booklet=columns.booklet,
                epsilon=columns.epsilon,
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
