"""What sections of the YAML file have in common; and the files and words of every `input`."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
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

from hushrank.flows.config.places import InputPath
from hushrank.flows.config.problems import refuse
from hushrank.transforms.common.schema import Words
from hushrank.transforms.storage.csv_header import WINDOWS
from hushrank.transforms.storage.files import FileFormat

Text = Annotated[str, StringConstraints(min_length=1, max_length=1000)]

# Beyond these bounds, floating-point results become zero or infinity, so no guarantee could be
# kept. Values far inside the bounds are already meaningless in practice.
LEAST_LOSS, MOST_LOSS = 1e-9, 1e6  # nats
LEAST_RHO = LEAST_LOSS**2
LEAST_DELTA = 1e-50
LEAST_SETTING, MOST_SETTING = 1e-9, 1e9  # bounds of numbers in section `model`
MOST_ROWS = 10**9  # most rows of one person

Delimiter = Literal[",", ";", "tab"]
FORM = ("multiline", "delimiter", "encoding", "decimal", "header_rows")  # attributes of a file too


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


def _as_list(value: object) -> object:
    return (value,) if isinstance(value, str | bool | int) else value


WordList = Annotated[
    tuple[Annotated[Text, BeforeValidator(_as_text)], ...],
    BeforeValidator(_as_list),
    Field(strict=False, max_length=100),
]
WordsOrEmpty = Annotated[  # the same, of which one may be the text of an empty cell
    tuple[Annotated[str, StringConstraints(max_length=1000), BeforeValidator(_as_text)], ...],
    BeforeValidator(_as_list),
    Field(strict=False, max_length=100),
]


class WordsSection(Section):
    """The meaning of each word of a column; each key is a word or a list of words."""

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


class BadRows(StrEnum):
    """What becomes of rows that break a rule of the input."""

    SET_ASIDE = "set-aside"
    FAIL = "fail"


def _lower(value: object) -> object:
    return value.lower() if isinstance(value, str) else value


class RowFiles(Section):
    """The files of a job.

    Attributes:
        paths: files, folders or patterns, local or in gs://, s3:// or abfs://; or tables, as
            iceberg://, delta: and bigquery:// name them (docs/files.md). Where a path holds
            {date}, every night reads its own files.
        format: of all files; None: by each file's ending.
        partitions: columns that folders of the paths tell, as in `language=de/part.parquet`, and
            the files do not hold. Who looks at the folders sees their names, so they must not name
            people.
        multiline: of CSV files: a quoted field may span lines. A row with an open quote then
            swallows the rows after it, up to 1 MiB, which no noise covers: the release says so.
            Otherwise a record ends where its line ends, and such a row alone is set aside.
        delimiter: of CSV files: what stands between columns.
        encoding: of CSV files: `utf-8`, or `windows-1252`, which Excel writes in Western Europe.
        decimal: of CSV files: what stands before the decimals of a weight, a feature, an epsilon or
            a rank. With a comma, 1.000 is no number: it may be meant as a thousand.
        header_rows: of CSV files: how many rows come before the first answer; the first of them
            names the columns. Files of Qualtrics have 3.
        on_bad_rows: `set-aside` moves rows that break a rule to the confidential folder, with the
            reason; `fail` stops the run, which spends nothing but tells that there are such rows.
    """

    kind: str
    paths: Annotated[tuple[InputPath, ...], Field(strict=False)] = Field(
        min_length=1, examples=["[survey/*.parquet]"]
    )
    format: Annotated[FileFormat, Field(strict=False)] | None = None
    partitions: Annotated[tuple[Text, ...], Field(strict=False)] = Field(
        default=(), max_length=20, examples=["[language, date]"]
    )
    multiline: bool = False
    delimiter: Delimiter = Field(default=",", examples=['";"'])
    encoding: Annotated[Literal["utf-8", "windows-1252"], BeforeValidator(_lower)] = Field(
        default="utf-8", examples=[WINDOWS]
    )
    decimal: Literal[".", ","] = Field(default=".", examples=['","'])
    header_rows: int = Field(default=1, ge=1, le=100, examples=["3"])
    on_bad_rows: Annotated[BadRows, Field(strict=False)] = BadRows.SET_ASIDE

    def _problems(self) -> Iterable[tuple[str, str]]:
        if self.decimal == "," and self.delimiter == ",":
            yield (
                "decimal",
                'a comma stands between columns already; set delimiter: ";", or remove this line',
            )
        for name in sorted({name for name in self.partitions if self.partitions.count(name) > 1}):
            yield "partitions", f"{name} is there twice; remove one"
        if (user := getattr(getattr(self, "columns", None), "user", None)) in self.partitions:
            yield (
                "partitions",
                f"{user} is columns.user: a folder named after a person shows that this person took"
                " part. Write the column into the files",
            )
        yield from super()._problems()
