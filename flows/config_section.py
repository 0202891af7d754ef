"""What every section of the YAML file has in common."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, StringConstraints, model_validator

from hushrank.flows.config_errors import refuse

Text = Annotated[str, StringConstraints(min_length=1)]


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
