"""The `input` section of a job on test answers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from hushrank.flows.config.section import (
    ColumnRoles,
    RowFiles,
    Text,
    WordList,
    WordsSection,
)
from hushrank.transforms.common.catalogue import Catalogue
from hushrank.transforms.responses.answer_sheets import Duplicates
from hushrank.transforms.responses.response_columns import ResponseColumns, WideColumns

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
    """

    user: Text = Field(default="user", examples=["user"])
    item: Text | None = Field(default=None, examples=["item"])
    correct: Text | None = Field(default=None, examples=["correct"])
    order: Text | None = Field(default=None, examples=["time"])


class AnswerWords(WordsSection):
    """Words that stand for an answer; case does not count.

    Attributes:
        right: words for a right answer.
        wrong: words for a wrong answer.
    """

    right: WordList = Field(min_length=1, examples=["[right]"])
    wrong: WordList = Field(min_length=1, examples=["[wrong]"])

    meanings: ClassVar[dict[str, int]] = {"right": 1, "wrong": 0}


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
    """

    kind: Literal["responses"] = Field(examples=["responses"])
    layout: Literal["long", "wide"] = "long"
    columns: ResponseColumnsConfig = Field(
        default_factory=ResponseColumnsConfig,
        examples=["{user: user, item: item, correct: correct}"],
    )
    words: AnswerWords | None = Field(default=None, examples=["{right: [right], wrong: [wrong]}"])
    duplicates: Annotated[Duplicates, Field(strict=False)] = Duplicates.REFUSE

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
        yield from super()._problems()

    def response_columns(self, catalogue: Catalogue) -> ResponseColumns | WideColumns:
        """The columns to read."""
        columns = self.columns
        words = None if self.words is None else self.words.words()
        if self.layout == "wide":
            return WideColumns(
                user=columns.user, items=catalogue.names, order=columns.order, words=words
            )
        return ResponseColumns(
            user=columns.user,
            item=columns.item or "item",
            correct=columns.correct or "correct",
            order=columns.order,
            words=words,
        )
