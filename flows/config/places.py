"""Places that the YAML file names. Relative paths start at the folder of the YAML file."""

from __future__ import annotations

import glob
import itertools
import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Annotated

from pydantic import (
    BeforeValidator,
    PlainSerializer,
    PlainValidator,
    StringConstraints,
    ValidationInfo,
    WithJsonSchema,
)
from pydantic_core import PydanticCustomError

from hushrank.flows.config.problems import refuse
from hushrank.flows.errors import ConfigError
from hushrank.transforms.common.local_files import require_regular
from hushrank.transforms.common.plain_text import hidden_character
from hushrank.transforms.storage.cloud_storage import CLOUD_PREFIX, CloudPath, Place, is_cloud
from hushrank.transforms.storage.files import is_input_name
from hushrank.transforms.tables.names import (
    DELTA,
    ELSEWHERE,
    absolute,
    is_object,
    is_table,
    table_name,
)
from hushrank.transforms.tables.objects import object_place
from hushrank.transforms.tables.patterns import MAGIC, as_regex

ROOM_IN_A_NAME = 55  # bytes that an unfinished file adds to its name
MOST_NAME_BYTES = 255 - ROOM_IN_A_NAME
MOST_PATH_BYTES = 3500  # below 4096, because paths of files inside are longer
GIT_PREFIX = "git:"  # before a folder of a git repository
FOLDER = "folder"  # key of the validation context: where relative paths start
SURVEY = "survey"  # another: the YAML file itself


def _local_path(value: object, info: ValidationInfo) -> object:
    if not isinstance(value, str):
        return value
    if not value:
        refuse(("", "must not be empty"))
    if "://" in value:
        refuse(("", f"must be a local path, got {value!r}"))
    _check_text(value)
    try:
        path = Path(os.path.abspath(_folder(info) / Path(value).expanduser()))
        path.resolve()
    except (OSError, RuntimeError):  # RuntimeError: links in a circle, or ~ of an unknown user
        refuse(("", f"{value}: its links go round in a circle; name another place"))
    return path


def _place(value: object, info: ValidationInfo) -> object:
    if isinstance(value, Path | CloudPath):
        return value
    if not isinstance(value, str):
        raise PydanticCustomError("path_type", "must be a path")
    if not is_cloud(value):
        if "://" in value:
            refuse(("", f"must be a local path or start with {CLOUD_PREFIX}, got {value!r}"))
        return _local_path(value, info)
    try:
        path = CloudPath.parse(value)
    except ValueError as error:
        refuse(("", str(error)))
    if not path.key:
        refuse(("", f"must name something in the bucket, for example {path}/campus"))
    return path


def _anchor(value: object, info: ValidationInfo) -> object:
    if isinstance(value, str) and value.startswith(GIT_PREFIX):
        return f"{GIT_PREFIX}{_local_path(value.removeprefix(GIT_PREFIX), info)}"
    return str(_place(value, info))


def anchor_place(anchor: str) -> Place:
    """The folder, file or objects that an `AnchorPlace` names."""
    return CloudPath.parse(anchor) if is_cloud(anchor) else Path(anchor.removeprefix(GIT_PREFIX))


def contains(outer: Place, inner: Place) -> bool:
    """Whether `inner` is `outer` or is in it, links followed."""
    if isinstance(outer, CloudPath):
        return isinstance(inner, CloudPath) and outer.contains(inner)
    return isinstance(inner, Path) and _real(inner).is_relative_to(_real(outer))


def _real(path: Path) -> Path:
    """The path with its links followed, as far as they lead anywhere."""
    return Path(os.path.realpath(path))


class Use(Enum):
    """What hushrank does with a place."""

    INPUT = "reads the rows of these files, folders and patterns"
    READ = "reads this file"
    WRITTEN = "writes this file; some it reads again"
    OWN_FOLDER = "writes and reads this folder, in which nothing else may be"
    SHARED_FOLDER = "puts files with names of their own into this folder"


USES = {  # every place that a YAML file can name, by dotted key
    "input.paths": Use.INPUT,
    "items.file": Use.READ,
    "privacy.epsilon_table": Use.READ,
    "model.exposures": Use.READ,
    "report.audit": Use.READ,
    "ledger.signing_key": Use.READ,
    "collect.texts": Use.READ,
    "runner.job_server_jar": Use.READ,
    "runner.wheel": Use.READ,
    "output": Use.OWN_FOLDER,
    "confidential": Use.OWN_FOLDER,
    "ledger.path": Use.WRITTEN,
    "ledger.anchor": Use.WRITTEN,
    "observability.log": Use.WRITTEN,
    "observability.metrics": Use.WRITTEN,
    "observability.lineage.file": Use.WRITTEN,
    "observability.support": Use.SHARED_FOLDER,
    "collect.folder": Use.SHARED_FOLDER,
    "runner.spill": Use.SHARED_FOLDER,
}
SURVEY_FILE = "the YAML file"
BESIDE_LEDGER = (".length", ".key", ".lock", ".runs")
ANCHOR_IN_GIT = "hushrank-anchor.jsonl"
# Files that a run leaves in a folder of its own, in whose place an input pattern may find them.
_LEFT_BEHIND = {
    "output": ("release.json", "ranking.csv", "releases/2026-11-20-0123456789abcdef/ranking.csv"),
    "confidential": ("0123456789abcdef/rejects/part.parquet", "ledgers.json"),
}
_NEVER = "what is written must never be what is read; name another place"


@dataclass(frozen=True, slots=True)
class NamedPlace:
    """A place of the YAML file.

    Attributes:
        key: the dotted key that names it.
        use: what hushrank does with it.
        place: the place; of the input the text as configured.
    """

    key: str
    use: Use
    place: Place | str

    @property
    def is_written(self) -> bool:
        """Whether hushrank writes there."""
        return self.use not in (Use.INPUT, Use.READ)


def named_places(config: object, survey: Path | None = None) -> list[NamedPlace]:
    """Every place that a configuration names, and those beside them that hushrank makes.

    Args:
        config: the configuration, whose attributes are the keys of the file.
        survey: the YAML file; None, or a path at which there is no file: it has none.
    """
    found = [NamedPlace(SURVEY_FILE, Use.READ, survey)] if survey and survey.is_file() else []
    for key, use in USES.items():
        value = config
        for name in key.split("."):
            value = getattr(value, name, None)
        if use is Use.INPUT and isinstance(value, tuple):
            found += [NamedPlace(key, use, text) for text in value]
        elif isinstance(value, str):
            found += [NamedPlace(key, use, place) for place in _places_of_anchor(value)]
        elif isinstance(value, Path | CloudPath):
            beside = BESIDE_LEDGER if key == "ledger.path" else ()
            others = (value.parent / f"{value.name}{ending}" for ending in beside)
            found += [NamedPlace(key, use, place) for place in (value, *others)]
    return found


def _places_of_anchor(anchor: str) -> list[Place]:
    place = anchor_place(anchor)
    if anchor.startswith(GIT_PREFIX):
        return [place / ANCHOR_IN_GIT]
    return [place] if isinstance(place, CloudPath) else [place, place.parent / f"{place.name}.lock"]


def conflicts(places: Sequence[NamedPlace]) -> Iterator[tuple[str, str]]:
    """Key and text of each pair of places in which what is written is, or will be, what is read.

    Two places that are only read may be one. Links are followed, hard links too.
    """
    seen = set[tuple[str, str]]()
    for one, other in itertools.combinations(places, 2):
        if one.key == other.key or (one.key, other.key) in seen:
            continue
        if not one.is_written and not other.is_written:
            continue
        inner, outer = (other, one) if other.is_written else (one, other)
        for clash in (_clash(inner, outer), _clash(outer, inner)):
            if clash is not None:
                seen.add((one.key, other.key))
                yield clash
                break


def _clash(inner: NamedPlace, outer: NamedPlace) -> tuple[str, str] | None:
    """What is wrong if `inner` is `outer`, is in it, or would be read as part of it."""
    if outer.use is Use.INPUT:
        if inner.key == "collect.folder" or not _is_read(inner, str(outer.place)):
            return None
        return inner.key, f"would be read as a file of {outer.key} ({outer.place}); {_NEVER}"
    if isinstance(outer.place, str):
        return None
    if inner.use is Use.INPUT:
        if outer.use is not Use.OWN_FOLDER:
            return None
        base = _base_of(str(inner.place))
        if base is None or not (contains(outer.place, base) or _is_same(outer.place, base)):
            return None
        return inner.key, f"({inner.place}) is in {outer.key}, which only hushrank writes; {_NEVER}"
    if isinstance(inner.place, str):
        return None
    if _is_same(inner.place, outer.place):
        return inner.key, f"and {outer.key} are one place; {_NEVER}"
    if outer.use is Use.SHARED_FOLDER or not contains(outer.place, inner.place):
        return None
    return inner.key, f"is in {outer.key}, in which nothing else may be; name another place"


def _is_same(one: Place, other: Place) -> bool:
    if isinstance(one, CloudPath) or isinstance(other, CloudPath):
        return one == other
    with suppress(OSError):  # one does not exist
        return one.samefile(other)
    return _real(one) == _real(other)


def _base_of(path: str) -> Place | None:
    """The place at which an input path begins, before its first wildcard; None: it is elsewhere."""
    path = _without_table(path)
    magic = MAGIC.search(_as_pattern(path))
    start = path if magic is None else path[: magic.start()].rpartition("/")[0]
    if is_cloud(path):
        return CloudPath.parse(start)
    return Path(start) if path.startswith("/") else None


def _without_table(path: str) -> str:
    """The folder of a Delta table; another path as it is."""
    return path.removeprefix(DELTA).partition("?version=")[0] if path.startswith(DELTA) else path


def _as_pattern(path: str) -> str:
    """An input path with a wildcard for the date of the night."""
    return re.sub(r"\{date[^{}]*\}", "*", path)


def _is_read(written: NamedPlace, path: str) -> bool:
    """Whether an input path stands for a file that hushrank writes."""
    place = written.place
    if isinstance(place, str) or written.use is Use.SHARED_FOLDER:
        return False  # files of a shared folder have no ending of an input
    files = [place / name for name in _LEFT_BEHIND.get(written.key, ())] or [place]
    base, wanted = _base_of(path), re.compile(as_regex(_as_pattern(_without_table(path))))
    wild = MAGIC.search(_as_pattern(path)) is not None
    for file in files:
        if not wild and base is not None and _is_same(base, file):
            return True
        texts = {str(file)} if isinstance(file, CloudPath) else {str(file), str(_real(file))}
        if not wild and isinstance(base, Path):
            wanted = re.compile(as_regex(glob.escape(str(_real(base)))))
        if any(_stands_for(wanted, text) for text in texts):
            return True
    return False


def _stands_for(wanted: re.Pattern[str], file: str) -> bool:
    """Whether a pattern matches `file`, or a folder above it whose files are all read."""
    if wanted.fullmatch(file):
        return not file.rpartition("/")[2].startswith(".")
    parts = file.split("/")
    return any(
        is_input_name(PurePosixPath(*parts[end:]))
        for end in range(1, len(parts))
        if wanted.fullmatch("/".join(parts[:end]) or "/")
    )


def check_files_apart(places: Sequence[NamedPlace], files: Iterable[str]) -> None:
    """Refuse input files that hushrank would write to, through whichever links they are found.

    Args:
        places: those of the configuration.
        files: paths of the local input files that were found.

    Raises:
        ConfigError: one is a file that is written, or lies in a folder of hushrank's own.
    """
    written = [each for each in places if each.use is Use.WRITTEN and isinstance(each.place, Path)]
    numbers = {}
    for each in written:
        with suppress(OSError):
            found = os.stat(str(each.place))
            numbers[found.st_dev, found.st_ino] = each.key
    own = [each for each in places if each.use is Use.OWN_FOLDER and isinstance(each.place, Path)]
    folders = [(each.key, os.path.realpath(str(each.place))) for each in own]
    real = cache(os.path.realpath)
    for file in files:
        where = real(file) if os.path.islink(file) else real(os.path.dirname(file))
        inside = (key for key, folder in folders if f"{where}/".startswith(f"{folder}/"))
        with suppress(OSError):
            found = os.stat(file)
            if key := numbers.get((found.st_dev, found.st_ino)) or next(inside, None):
                raise ConfigError(
                    f"input.paths: {file} is a file of {key}; {_NEVER}. Nothing was read or spent."
                )


def _input_path(value: object, info: ValidationInfo) -> object:
    if not isinstance(value, str) or not value or is_cloud(value):
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
        folder = glob.escape(folder)  # only what the user wrote is a pattern
    return os.path.normpath(os.path.join(folder, path))


def _elsewhere(value: str, info: ValidationInfo) -> str:
    """The name of a table or of objects, checked; of a local table with an absolute path."""
    _check_text(value)
    try:
        if is_object(value):
            object_place(value)
            return value
        value = absolute(value, str(_folder(info).absolute()))
        table_name(value)
    except ValueError as error:
        refuse(("", str(error)))
    return value


def _check_text(path: str) -> None:
    """Refuse a path that no file can have, or that nobody could read in a message."""
    if hidden := hidden_character(path):
        refuse(("", f"holds the character {hidden}, which nobody sees; rename it"))
    try:
        name = max(map(len, os.fsencode(path).split(b"/")))
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


def check_can_be_made(key: str, place: Path) -> None:
    """Refuse a folder that does not exist and cannot be made; leave no trace of the attempt.

    Only trying shows it: a disk may be read-only or full, or have a quota; a file may be in the
    way.

    Args:
        key: key of the YAML file.
        place: the folder.

    Raises:
        ConfigError: the folder cannot be made.
    """
    try:
        if place.is_dir():
            return
        if os.path.lexists(place):
            raise ConfigError(f"{key}: {place} is no folder; name a folder. Nothing was spent.")
        parent = next(folder for folder in place.parents if folder.exists())
        with tempfile.TemporaryDirectory(prefix=".hushrank-", dir=parent):
            pass
        if any(
            len(os.fsencode(part)) > os.pathconf(parent, "PC_NAME_MAX") - ROOM_IN_A_NAME
            for part in place.relative_to(parent).parts
        ):
            raise ConfigError(f"{key}: {str(place)[:80]}…: the name is too long; shorten it")
    except OSError as error:
        raise ConfigError(
            f"{key}: {place}: cannot be made ({error.strerror}); name another place, or correct"
            " what is there"
        ) from None


def check_can_be_written(key: str, file: Path) -> None:
    """Refuse a place for a file at which something else is; whether it exists does not matter.

    Raises:
        ConfigError: it is a folder, a FIFO, a device or a socket.
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
LocalPath = Annotated[Path, BeforeValidator(_local_path)]
InputPath = Annotated[str, BeforeValidator(_input_path), StringConstraints(min_length=1)]
