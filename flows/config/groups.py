"""The `groups` section: public groups of rows that are ranked one by one and all together."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Self

from pydantic import BeforeValidator, Field, StringConstraints, model_validator

from hushrank.flows.config.problems import refuse
from hushrank.flows.config.section import Section, Text
from hushrank.transforms.common.groups import Groups
from hushrank.transforms.common.plain_text import hidden_character

MOST_CHARACTERS = 200


class Others(StrEnum):
    """What becomes of rows of no listed group."""

    SET_ASIDE = "set-aside"
    WHOLE = "whole"


def _as_text(value: object) -> object:
    """A name that YAML reads as a number or a truth value, as text again."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int) else value


GroupName = Annotated[
    str,
    StringConstraints(min_length=1, max_length=MOST_CHARACTERS, strip_whitespace=True),
    BeforeValidator(_as_text),
]


class GroupsConfig(Section):
    """Groups of rows, such as languages: each is ranked, and all together, at one epsilon.

    Attributes:
        column: which group a row is in, an integer or text.
        values: the groups that are ranked. They are public: never made from the rows.
        others: what becomes of a row whose group is missing or not listed. `set-aside`: it breaks a
            rule, like a row with an unknown item; `whole`: it counts in the whole only.
    """

    column: Text = Field(examples=["language"])
    values: Annotated[tuple[GroupName, ...], Field(strict=False)] = Field(
        min_length=1, examples=["[English, German]"]
    )
    others: Annotated[Others, Field(strict=False)] = Others.SET_ASIDE

    @model_validator(mode="after")
    def _make(self) -> Self:
        for name in self.values:
            if hidden := hidden_character(name):
                refuse(("values", f"a group's name holds {hidden}, which nobody sees; rename it"))
        try:
            self.groups()
        except ValueError as error:
            refuse(("values", str(error)))
        return self

    def groups(self) -> Groups:
        """The groups in the form that rows are read with."""
        return Groups(self.values, others=self.others is Others.WHOLE)
