"""What every section of the YAML file has in common."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    model_validator,
)

from hushrank.flows.config.problems import refuse

Text = Annotated[str, StringConstraints(min_length=1, max_length=1000)]

# Beyond these, computing with floats ends in zero or infinity: no such guarantee can be kept. Far
# inside of them, it means nothing any more.
LEAST_LOSS, MOST_LOSS = 1e-9, 1e6  # nats
LEAST_RHO = LEAST_LOSS**2
LEAST_DELTA = 1e-50
LEAST_SETTING, MOST_SETTING = 1e-9, 1e9  # of a model
MOST_ROWS = 10**9  # of one person


def _computable(delta: float) -> float:
    if 0 < delta < LEAST_DELTA:
        refuse(("", f"must be 0, or at least {LEAST_DELTA:g}, got {delta!r}; 1e-6 is usual"))
    return delta


Delta = Annotated[float, Field(ge=0, lt=1), AfterValidator(_computable)]


class Section(BaseModel):
    """Keys and values of one section: frozen, strict about types, closed to unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, ser_json_inf_nan="strings")

    @model_validator(mode="after")
    def _check(self) -> Self:
        problems = list(self._problems())
        if problems:
            refuse(*problems)
        return self

    def _problems(self) -> Iterable[tuple[str, str]]:
        """Key and rule of what keys of the section break together."""
        return ()


class ColumnRoles(Section):
    """Which column of the input plays which role; no column plays two."""

    def _problems(self) -> Iterable[tuple[str, str]]:
        roles: dict[str, str] = {}
        for role, column in self.model_dump(exclude_none=True).items():
            if roles.setdefault(column, role) != role:
                yield role, f"column {column} is {roles[column]} already; name another"
