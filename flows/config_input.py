"""The `input` section: which files, and what their columns mean."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from hushrank.flows.config_errors import refuse
from hushrank.flows.config_section import Section, Text
from hushrank.flows.locations import InputPath
from hushrank.transforms.files import FileFormat
from hushrank.transforms.schema import Ties


class BadRows(StrEnum):
    """What becomes of rows that break a rule of the input."""

    SET_ASIDE = "set-aside"
    FAIL = "fail"


class ColumnsConfig(Section):
    """Which column of the input plays which role."""

    user: Text = Field(default="user", examples=["user"])
    left: Text = Field(default="left", examples=["left"])
    right: Text = Field(default="right", examples=["right"])
    outcome: Text | None = Field(default=None, examples=["outcome"])
    winner: Text | None = Field(default=None, examples=["winner"])
    event: Text | None = Field(default=None, examples=["event"])
    epsilon: Text | None = Field(default=None, examples=["epsilon"])

    @model_validator(mode="before")
    @classmethod
    def _default_outcome(cls, value: Any) -> Any:
        if isinstance(value, dict) and not {"outcome", "winner"} & value.keys():
            return {**value, "outcome": "outcome"}
        return value

    @model_validator(mode="after")
    def _check(self) -> Self:
        problems = []
        if (self.outcome is None) == (self.winner is None):
            problems.append(("", "needs exactly one of outcome and winner"))
        roles: dict[str, str] = {}
        for role, column in self.model_dump(exclude_none=True).items():
            if roles.setdefault(column, role) != role:
                problems.append((role, f"column {column} is {roles[column]} already; name another"))
        if problems:
            refuse(*problems)
        return self


class InputConfig(Section):
    """The log of answers."""

    kind: Literal["comparisons"] = Field(examples=["comparisons"])
    paths: Annotated[tuple[InputPath, ...], Field(strict=False)] = Field(
        min_length=1, examples=["[survey/*.parquet]"]
    )
    columns: ColumnsConfig = Field(
        default_factory=ColumnsConfig, examples=["{user: user, left: left, right: right}"]
    )
    ties: Annotated[Ties, Field(strict=False)] = Ties.DROP
    on_bad_rows: Annotated[BadRows, Field(strict=False)] = BadRows.SET_ASIDE
    format: Annotated[FileFormat, Field(strict=False)] | None = None
