"""What every section of the YAML file has in common."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, ClassVar, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    model_validator,
)

from hushrank.flows.config.problems import refuse
from hushrank.transforms.common.words import Words

Text = Annotated[str, StringConstraints(min_length=1, max_length=1000)]

# Beyond these bounds, floating-point results become zero or infinity, so no guarantee could be
# kept. Values far inside the bounds are already meaningless in practice.
LEAST_LOSS, MOST_LOSS = 1e-9, 1e6  # nats
LEAST_RHO = LEAST_LOSS**2
LEAST_DELTA = 1e-50
LEAST_SETTING, MOST_SETTING = 1e-9, 1e9  # bounds of numbers in section `model`
MOST_ROWS = 10**9  # most rows of one person

Delimiter = Literal[",", ";", "tab"]


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
        """Key and text of the rules that keys of the section break together."""
        return ()


class ColumnRoles(Section):
    """The role of each input column; no column plays two roles, but for roles of `second`."""

    second: ClassVar[frozenset[str]] = frozenset()

    def _problems(self) -> Iterable[tuple[str, str]]:
        roles: dict[str, str] = {}
        for role, column in self.model_dump(exclude_none=True, exclude=set(self.second)).items():
            if roles.setdefault(column, role) != role:
                yield role, f"column {column} is {roles[column]} already; name another"


def _as_text(value: object) -> object:
    """A word that YAML reads as a number or a truth value, as text again."""
    return str(value).lower() if isinstance(value, bool | int) else value


WordList = Annotated[
    tuple[Annotated[Text, BeforeValidator(_as_text)], ...], Field(strict=False, max_length=100)
]


class WordsSection(Section):
    """The meaning of each word of a column; each key is a list of words."""

    meanings: ClassVar[dict[str, int]]  # the value that the words of a key stand for

    def _problems(self) -> Iterable[tuple[str, str]]:
        seen: dict[str, str] = {}
        for key in self.meanings:
            for word in getattr(self, key):
                if seen.setdefault(word.strip().lower(), key) != key:
                    yield key, f"the word {word} stands for {seen[word.strip().lower()]} already"
        if not seen:
            yield "", f"needs at least one word for {' or '.join(self.meanings)}; or remove it"

    def words(self) -> Words:
        """The words in the form that rows are read with."""
        return Words(
            tuple(
                {
                    word.strip().lower(): (word, value)
                    for key, value in self.meanings.items()
                    for word in getattr(self, key)
                }.values()
            )
        )
