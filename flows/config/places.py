"""Places that the YAML file names. Relative paths start at the folder of the YAML file."""

from __future__ import annotations

import glob
import os
import re
import tempfile
from pathlib import Path
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
from hushrank.transforms.tables.names import (
    DELTA,
    ELSEWHERE,
    absolute,
    is_object,
    is_table,
    table_name,
)
from hushrank.transforms.tables.objects import object_place

ROOM_IN_A_NAME = 55  # bytes that an unfinished file adds to its name
MOST_NAME_BYTES = 255 - ROOM_IN_A_NAME
MOST_PATH_BYTES = 3500  # below 4096, because paths of files inside are longer
GIT_PREFIX = "git:"  # before a folder of a git repository
FOLDER = "folder"  # key of the validation context: where relative paths start
BASE = "base"  # another: from where paths count that were moved along; None: from that folder
COUNTED = "counted"  # another: takes each absolute path that does not count as it is
SURVEY = "survey"  # another: the YAML file itself


def local_path(value: object, info: ValidationInfo) -> object:
    """Absolute path of a text, which starts at the folder of the YAML file; others as they are."""
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
        _count(str(path), value, str(path), info)
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
    """The folder, file or objects that an `AnchorPlace` names."""
    return CloudPath.parse(anchor) if is_cloud(anchor) else Path(anchor.removeprefix(GIT_PREFIX))


def place_argument(text: str, name: str) -> Place:
    """The place that a command line names; a relative path starts at the working directory.

    Raises:
        ConfigError: it is neither a local path nor a gs:// folder; `name` is that of the argument.
    """
    try:
        if is_cloud(text) and (place := CloudPath.parse(text)).key:
            return place
    except ValueError as error:
        raise ConfigError(f"{name}: {error}") from None
    if "://" in text or not text:
        raise ConfigError(
            f"{name}: must be a local folder or {CLOUD_PREFIX}bucket/folder, got {text!r}"
        )
    return Path(os.path.abspath(Path(text).expanduser()))


def contains(outer: Place, inner: Place) -> bool:
    """Whether `inner` is `outer` or is in it, links followed."""
    if isinstance(outer, CloudPath):
        return isinstance(inner, CloudPath) and outer.contains(inner)
    return isinstance(inner, Path) and real_path(inner).is_relative_to(real_path(outer))


def real_path(path: Path) -> Path:
    """The path with its links followed, as far as they lead anywhere."""
    return Path(os.path.realpath(path))


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
    named = os.path.normpath(os.path.join(folder, path))
    _count(named, value, os.path.join(_folder(info).absolute(), path), info)
    return named


def _count(named: str, written: str, path: str, info: ValidationInfo) -> None:
    """Note how a path enters the identity of the job, which stays where all is moved along.

    A path counts relative to the folder of the YAML file if it is written so, or lies in there, be
    it through links. Without a YAML file a folder `BASE` takes its place; a path that is written
    relative to somewhere else then counts as it is written.

    Args:
        named: the path as the configuration has it.
        written: as the file has it.
        path: the absolute path.
        info: of the validation.
    """
    context = info.context or {}
    base = context.get(BASE)
    if COUNTED not in context:
        return
    start, path = os.path.abspath(_folder(info) if base is None else base), os.path.normpath(path)
    relative = not os.path.isabs(os.path.expanduser(written))
    for inner, outer in ((path, start), (_with_links_followed(path), os.path.realpath(start))):
        if inner.startswith(f"{outer}/"):
            context[COUNTED][named] = os.path.relpath(inner, outer)
            return
    if relative:
        context[COUNTED][named] = (
            os.path.relpath(path, start) if base is None else os.path.normpath(written)
        )


def _with_links_followed(path: str) -> str:
    """An absolute path whose links are followed as far as no part of it is a pattern or a date."""
    parts = path.split("/")
    plain = next((at for at, part in enumerate(parts) if re.search(r"[*?\[{]", part)), len(parts))
    return "/".join([os.path.realpath("/".join(parts[:plain]) or "/"), *parts[plain:]])


def _elsewhere(value: str, info: ValidationInfo) -> str:
    """The name of a table or of objects, checked; of a local table with an absolute path."""
    _check_text(value)
    try:
        if is_object(value):
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
LocalPath = Annotated[Path, BeforeValidator(local_path)]
InputPath = Annotated[str, BeforeValidator(_input_path), StringConstraints(min_length=1)]
