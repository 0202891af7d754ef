"""Base of the YAML file's sections: places, files, words. Relative paths start at its folder."""

from __future__ import annotations

import errno
import glob
import json
import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    StringConstraints,
    ValidationInfo,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import PydanticCustomError

from hushrank.flows.config.yaml_file import refuse
from hushrank.flows.errors import ConfigError
from hushrank.transforms import system
from hushrank.transforms.common.local_files import UnfitFile, home_path, require_regular, slashed
from hushrank.transforms.common.plain_text import hidden_character
from hushrank.transforms.common.schema import Words
from hushrank.transforms.storage.files import FileFormat
from hushrank.transforms.storage.places import CLOUD_PREFIX, CloudPath, Place, is_cloud
from hushrank.transforms.storage.text_lines import WINDOWS
from hushrank.transforms.tables.names import (
    BEAM,
    DELTA,
    ELSEWHERE,
    absolute,
    is_object,
    is_source,
    is_table,
    table_name,
)

ROOM_IN_A_NAME = 55  # bytes that an unfinished file adds to its name
MOST_NAME_BYTES = 255 - ROOM_IN_A_NAME
MOST_PATH_BYTES = 3500  # below 4096, because paths of files inside are longer
ROOM_IN_A_FOLDER = 120  # bytes of the longest path that hushrank makes in a folder of its own
GIT_PREFIX = "git:"  # prefix of a folder in a git repository
FOLDER = "folder"  # key of the validation context: folder where relative paths start
BASE = "base"  # another: folder that replaces it in the identity of moved files; None: that folder
COUNTED = "counted"  # another: function that gets each absolute path whose text enters the identity
SURVEY = "survey"  # another: the YAML file itself
NIGHT = "night"  # another: the night whose items are listed; None: that of no night


def local_path(value: object, info: ValidationInfo) -> object:
    """Make a text an absolute path, starting at the folder of the YAML file; keep other values."""
    if not isinstance(value, str):
        return value
    if not value:
        refuse(("", "must not be empty"))
    if "://" in value:
        refuse(("", f"must be a local path, got {value!r}"))
    _check_text(value)
    try:
        named = os.path.abspath(_folder(info) / home_path(value))
        Path(named).resolve()
    except UnfitFile as error:
        refuse(("", f"{value}: {error.strerror}; write the path in full"))
    except (OSError, RuntimeError):  # RuntimeError: circular links
        refuse(("", f"{value}: its links go round in a circle; name another place"))
    _check_length(named, value)
    _count(named, value, named, info)
    return Path(named)


def _place(value: object, info: ValidationInfo) -> object:
    if isinstance(value, Path | CloudPath):
        return value
    if not isinstance(value, str):
        raise PydanticCustomError("path_type", "must be a path")
    if "://" in value and not is_cloud(value):
        refuse(("", f"must be a local path or start with {CLOUD_PREFIX}, got {value!r}"))
    if not is_cloud(value):
        return local_path(value, info)
    try:
        path = CloudPath.parse(value)
    except ValueError as error:
        refuse(("", str(error)))
    if not path.key:
        refuse(("", f"must name something in the bucket, for example {path}/campus"))
    return path


def _anchor(value: object, info: ValidationInfo) -> object:
    if isinstance(value, str) and value.startswith(GIT_PREFIX):
        return f"{GIT_PREFIX}{local_path(value.removeprefix(GIT_PREFIX), info)}"
    return str(_place(value, info))


def anchor_place(anchor: str) -> Place:
    """Return the folder, file or objects that an `AnchorPlace` names."""
    return CloudPath.parse(anchor) if is_cloud(anchor) else Path(anchor.removeprefix(GIT_PREFIX))


def _input_path(value: object, info: ValidationInfo) -> object:
    if not isinstance(value, str) or not value or is_cloud(value) or is_source(value):
        return value
    if is_table(value) or is_object(value):
        return _elsewhere(value, info)
    if "://" in value:
        refuse(
            (
                "",
                f"must be a local path or start with {CLOUD_PREFIX}, {', '.join(ELSEWHERE)}, got"
                f" {value!r}",
            )
        )
    _check_text(value)
    folder, path = str(_folder(info).absolute()), os.path.expanduser(value)
    if re.search(r"[*?\[]", path):
        folder = glob.escape(folder)  # only the part that the user wrote is a pattern
    named = slashed(os.path.normpath(os.path.join(folder, path)))
    _check_length(named, value)
    _count(named, value, os.path.join(_folder(info).absolute(), path), info)
    return named


def _count(named: str, written: str, path: str, info: ValidationInfo) -> None:
    """Record how a path enters the identity of the job, which stays if all files move together.

    A path counts relative to the folder of the YAML file if it is written so, or lies in there, be
    it through links. Without a YAML file a folder `BASE` takes its place; a path that is written
    relative to somewhere else then counts as it is written. In the root of a disk lies everything,
    so there an absolute path counts as it is.

    Args:
        named: the path as the configuration has it.
        written: value as the file has it.
        path: the absolute path.
        info: facts about the validation.
    """
    context = info.context or {}
    base = context.get(BASE)
    if COUNTED not in context:
        return
    start, path = os.path.abspath(_folder(info) if base is None else base), os.path.normpath(path)
    relative = not os.path.isabs(os.path.expanduser(written))
    for inner, outer in ((path, start), (_with_links_followed(path), os.path.realpath(start))):
        if outer != os.path.dirname(outer) and Path(outer) in Path(inner).parents:
            context[COUNTED][named] = slashed(os.path.relpath(inner, outer))
            return
    if relative:
        context[COUNTED][named] = slashed(
            os.path.relpath(path, start) if base is None else os.path.normpath(written)
        )


def _with_links_followed(path: str) -> str:
    """Return an absolute path with links followed, up to the first part with a pattern or a
    date."""
    parts = Path(path).parts
    plain = next((at for at, part in enumerate(parts) if re.search(r"[*?\[{]", part)), len(parts))
    return os.path.join(os.path.realpath(Path(*parts[:plain])), *parts[plain:])


def _elsewhere(value: str, info: ValidationInfo) -> str:
    """Check the name of a table or of objects; make the path of a local table absolute."""
    _check_text(value)
    try:
        if is_object(value):
            from hushrank.transforms.tables.objects import object_place

            object_place(value)
            return value
        written, value = value, absolute(value, str(_folder(info).absolute()))
        table_name(value)
        if written != value:
            _count(value, written.removeprefix(DELTA), value.removeprefix(DELTA), info)
    except ValueError as error:
        refuse(("", str(error)))
    return value


def _check_text(path: str) -> None:
    """Refuse a path that no file can have here, or that is unreadable in a message."""
    if "://" not in path:  # a local one, in which a date may have a colon
        file = re.sub(r"\{date:[^{}]*\}", "{date}", path.removeprefix(DELTA)).partition(
            "?version="
        )[0]
        if unfit := system.unfit_name(file):
            refuse(("", f"{path}: {unfit}; rename it"))
    if hidden := hidden_character(path):
        refuse(("", f"holds the character {hidden}, which nobody sees; rename it"))
    try:
        name = max(map(len, os.fsencode(slashed(path)).split(b"/")))
    except UnicodeEncodeError:
        refuse(
            (
                "",
                f"{path[:80]!a} has letters that this process cannot name a file with; set"
                " LC_ALL=C.UTF-8, or rename it",
            )
        )
    if name > MOST_NAME_BYTES or len(os.fsencode(path)) > MOST_PATH_BYTES:
        refuse(
            (
                "",
                f"{path[:40]}… is too long: at most {MOST_PATH_BYTES} bytes, and {MOST_NAME_BYTES}"
                " between two slashes; shorten it",
            )
        )


def _check_length(path: str, written: str) -> None:
    """Refuse an absolute path that is longer than this system opens."""
    if too_long := _too_long(path, 0):
        refuse(("", f"{written[:80]}: {too_long}"))


def _too_long(path: str, room: int) -> str | None:
    """Rule that an absolute path breaks, if files inside need `room`; None: it is short enough."""
    length, most = system.length_of_path(path), system.longest_path()
    if length + room <= most:
        return None
    inside = f", {room} of them for files inside" if room else ""
    return (
        f"its path has {length} {system.UNIT_OF_PATHS}, and this system opens at most"
        f" {most}{inside}; move it to a folder with a shorter path{system.TO_OPEN_LONGER}"
    )


def check_can_be_made(key: str, place: Path) -> None:
    """Refuse a folder that cannot be made, which only trying shows; leave no trace of that.

    Args:
        key: key of the YAML file.
        place: the folder.

    Raises:
        ConfigError: the folder cannot be made.
    """
    try:
        if unfit := system.unfit_name(str(place)):
            raise OSError(errno.EINVAL, unfit)
        if too_long := _too_long(str(place), ROOM_IN_A_FOLDER):
            raise ConfigError(f"{key}: {str(place)[:80]}: {too_long}. Nothing was spent.")
        if place.is_dir():
            return
        if os.path.lexists(place):
            raise ConfigError(f"{key}: {place} is no folder; name a folder. Nothing was spent.")
        parent = next(folder for folder in place.parents if folder.exists())
        with tempfile.TemporaryDirectory(prefix=".hushrank-", dir=parent):
            pass
        if any(
            len(os.fsencode(part)) > system.longest_name(parent) - ROOM_IN_A_NAME
            for part in place.relative_to(parent).parts
        ):
            raise ConfigError(f"{key}: {str(place)[:80]}…: the name is too long; shorten it")
    except OSError as error:
        raise ConfigError(
            f"{key}: {place}: cannot be made ({error.strerror}); name another place, or correct"
            " what is there"
        ) from None


def check_can_be_written(key: str, file: Path) -> None:
    """Refuse a place for a file if something else is there; the file itself may exist.

    Raises:
        ConfigError: the path is a folder, a FIFO, a device or a socket.
    """
    try:
        require_regular(file)
    except OSError as error:
        raise ConfigError(
            f"{key}: {file} cannot be written ({error.strerror}); name another file. Nothing was"
            " read or spent."
        ) from None


def _folder(info: ValidationInfo) -> Path:
    folder: Path = (info.context or {}).get(FOLDER, Path())
    return folder


AnyPlace = Annotated[
    Path | CloudPath,
    PlainValidator(_place),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"type": "string", "format": "path"}),
]
AnchorPlace = Annotated[str, BeforeValidator(_anchor)]
LocalPath = Annotated[Path, BeforeValidator(local_path)]
InputPath = Annotated[str, BeforeValidator(_input_path), StringConstraints(min_length=1)]


Text = Annotated[str, StringConstraints(min_length=1, max_length=1000)]

# Beyond these bounds, floating-point results become zero or infinity, so no guarantee could be
# kept. Values far inside the bounds are already meaningless in practice.
LEAST_LOSS, MOST_LOSS = 1e-9, 1e6  # in nats
LEAST_RHO = LEAST_LOSS**2
LEAST_DELTA = 1e-50
LEAST_SETTING, MOST_SETTING = 1e-9, 1e9  # bounds of numbers in section `model`
MOST_ROWS = 10**9  # most rows of one person

Version = Annotated[str, StringConstraints(min_length=1, max_length=200)]

Delimiter = Literal[",", ";", "tab"]
# attributes that a file has too
FORM = ("multiline", "delimiter", "encoding", "decimal", "header_rows")


def _computable(delta: float) -> float:
    if 0 < delta < LEAST_DELTA:
        refuse(("", f"must be 0, or at least {LEAST_DELTA:g}, got {delta!r}; 1e-6 is usual"))
    return delta


Delta = Annotated[float, Field(ge=0, lt=1), AfterValidator(_computable)]


class Section(BaseModel):
    """Base of the sections: frozen, strict about types, closed to unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, ser_json_inf_nan="strings")

    @model_validator(mode="after")
    def _check(self) -> Self:
        problems = list(self._problems())
        if problems:
            refuse(*problems)
        return self

    def _problems(self) -> Iterable[tuple[str, str]]:
        """Yield key and text of the rules that keys of the section break together."""
        return ()


class ColumnRoles(Section):
    """Role of each input column; no column plays two roles, except roles of `second`."""

    second: ClassVar[frozenset[str]] = frozenset()

    def _problems(self) -> Iterable[tuple[str, str]]:
        roles: dict[str, str] = {}
        for role, column in self.model_dump(exclude_none=True, exclude=set(self.second)).items():
            if roles.setdefault(column, role) != role:
                yield role, f"column {column} is {roles[column]} already; name another"


def _as_text(value: object) -> object:
    """Turn a word that YAML reads as a number or a truth value back into text."""
    return str(value).lower() if isinstance(value, bool | int) else value


def _as_list(value: object) -> object:
    return (value,) if isinstance(value, str | bool | int) else value


WordList = Annotated[
    tuple[Annotated[Text, BeforeValidator(_as_text)], ...],
    BeforeValidator(_as_list),
    Field(strict=False, max_length=100),
]
WordsOrEmpty = Annotated[  # the same, but one word may be the empty text of an empty cell
    tuple[Annotated[str, StringConstraints(max_length=1000), BeforeValidator(_as_text)], ...],
    BeforeValidator(_as_list),
    Field(strict=False, max_length=100),
]


class WordsSection(Section):
    """Meaning of each word of a column; each key is a word or a list of words."""

    meanings: ClassVar[dict[str, int]]  # value that the words of a key stand for

    def _problems(self) -> Iterable[tuple[str, str]]:
        seen: dict[str, str] = {}
        for key in self.meanings:
            for word in getattr(self, key):
                if seen.setdefault(word.strip().lower(), key) != key:
                    yield key, f"the word {word} stands for {seen[word.strip().lower()]} already"
        if not seen:
            yield "", f"needs at least one word for {' or '.join(self.meanings)}; or remove it"

    def words(self) -> Words:
        """Return the words in the form that readers of rows take."""
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
    """Treatment of rows that break a rule of the input."""

    SET_ASIDE = "set-aside"
    FAIL = "fail"


def _not_left_out(value: object) -> object:
    if value == "leave-out":
        why = "leave-out is refused: others' rows vanish with a damaged file, and no noise covers"
        fix = "hushrank validate --files lists damaged files; write them again"
        refuse(("", f"{why} that (docs/guarantee.md); {fix}"))
    return value


def _lower(value: object) -> object:
    return value.lower() if isinstance(value, str) else value


CODES = (
    "A whole number in place of an item's name counts from 0, so 0 is {}. If 1 is, write"
    " items.first_code: 1."
)


@dataclass(frozen=True, slots=True)
class GivenRows:
    """Facts about a job's rows that are known before any row is read.

    Attributes:
        names: names of the items.
        formats: formats of the files.
        complete: every ranking lists all items, by the names of the files.
        codes: nothing says which item a whole number in the rows means.
        written: people write the names, and which of them are items is found in the rows.
    """

    names: Sequence[str]
    formats: Set[str]
    complete: bool
    codes: bool
    written: bool = False


@dataclass(frozen=True, slots=True)
class Reading:
    """Rule by which values of the rows are read; it follows from the configuration alone.

    Attributes:
        text: description in a sentence.
        by_default: the configuration leaves it to a default that is easily not what was meant.
    """

    text: str
    by_default: bool = False


class SourceConfig(Section):
    """Beam transform that yields the rows, in place of files.

    Attributes:
        type: name of a transform of Beam YAML that reads rows, such as `ReadFromJdbc`, or
            `PyTransform` for one of your own.
        config: settings of the transform, as Beam's pages describe them; {date} in a text is the
            night. They are published and recorded nowhere.
    """

    type: Text = Field(examples=["ReadFromParquet"])
    config: dict[str, Any] = Field(
        default_factory=dict, exclude=True, repr=False, examples=["{path: gs://survey/rows*}"]
    )

    def _problems(self) -> Iterable[tuple[str, str]]:
        try:
            json.dumps(self.config, allow_nan=False)
        except (TypeError, ValueError):
            yield "config", "must hold texts, numbers, lists and sections alone; no other values"
        yield from super()._problems()


_OF_FILES = ("format", "partitions", *FORM)  # keys that say nothing of a transform's rows


class RowFiles(Section):
    """The files of a job, or the Beam transform that yields its rows.

    Attributes:
        paths: files, folders or patterns, local or in gs://, s3:// or abfs://; or tables, as
            iceberg://, delta: and bigquery:// name them (docs/files.md). Where a path holds
            {date}, every night reads its own files.
        source: a Beam transform that yields the rows, instead of `paths` (docs/beam.md); missing
            with `version`: Python passes it.
        version: public name of the rows of `source`, which no file names. The same version again is
            the same release and spends nothing, so write another one for other rows. No two
            populations may read one version. Where it holds {date}, every night has its own.
        format: format of all files; None: by each file's ending.
        partitions: columns that folders of the paths tell, as in `language=de/part.parquet`, and
            the files do not hold. Who looks at the folders sees their names, so they must not name
            people.
        multiline: for CSV files: a quoted field may span lines. A row with an open quote then
            swallows the rows after it, up to 1 MiB, which no noise covers: the release says so.
            Otherwise a record ends where its line ends, and such a row alone is set aside.
        delimiter: for CSV files: the character between columns.
        encoding: for CSV files: `utf-8`, or `windows-1252`, which Excel writes in Western Europe.
        decimal: for CSV files: what stands before the decimals of a weight, a feature, an epsilon
            or a rank. With a comma, 1.000 is no number: it may be meant as a thousand.
        header_rows: for CSV files: number of rows before the first answer; the first of them
            names the columns. Files of Qualtrics have 3.
        on_bad_rows: `set-aside` moves rows that break a rule to the confidential folder, with the
            reason; `fail` stops the run, which spends nothing but tells that there are such rows.
        on_bad_files: `fail` stops the run, which spends nothing, if a file is damaged; the rows of
            other people stand in it, so no guarantee covers leaving it out (docs/guarantee.md).
    """

    kind: str
    paths: Annotated[tuple[InputPath, ...], Field(strict=False)] = Field(
        min_length=1, examples=["[survey/*.parquet]"]
    )
    source: SourceConfig | None = None
    version: Version | None = Field(default=None, examples=["battles {date}"])
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
    on_bad_files: Annotated[Literal["fail"], BeforeValidator(_not_left_out)] = Field(
        default="fail", exclude=True
    )

    @model_validator(mode="before")
    @classmethod
    def _name_the_rows(cls, value: Any) -> Any:
        """Write the version in place of paths, which tell everywhere which rows a job reads."""
        if not isinstance(value, dict) or not isinstance(version := value.get("version"), str):
            if isinstance(value, dict) and "source" in value:
                refuse(("version", "missing; give the rows of input.source a public name"))
            return value
        named = [f"{BEAM}{version}"]
        if list(value.get("paths", named)) != named:
            refuse(("version", "names rows of a Beam transform, but paths names files; remove one"))
        return {**value, "paths": named}

    def readings(self, given: GivenRows) -> Iterator[Reading]:
        """Yield the rules by which rows are read: `validate` shows all, a run those by default.

        Args:
            given: items and files of the job.
        """
        if given.codes and given.formats & {FileFormat.CSV, FileFormat.JSONL}:
            yield Reading(CODES.format(given.names[0]))

    def row_rules(self, names: Sequence[str]) -> Iterator[str]:
        """Rules for single rows that a certificate states beside those of the kind."""
        return iter(())

    def public_facts(self) -> Iterator[tuple[str, str | float | None]]:
        """Facts that a guarantee takes for public: in words, with a value where that is short."""
        return iter(())

    def _problems(self) -> Iterable[tuple[str, str]]:
        if self.version is None:
            if any(map(is_source, self.paths)):
                yield "paths", f"{BEAM} stands for input.version; write that"
        else:
            if hidden := hidden_character(self.version):
                yield "version", f"holds the character {hidden}, which nobody sees; rename it"
            if "{date:" in self.version:
                yield "version", "must write a night as {date}, without a form of its own"
            for key in sorted(set(_OF_FILES) & self.model_fields_set):
                yield key, "is for files, and a Beam transform yields the rows; remove it"
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
