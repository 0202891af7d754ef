"""Files that a path of the input names: local files, objects of a store, or parts of a table."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePath, PurePosixPath

from hushrank.transforms import system
from hushrank.transforms.common.schema import InputError
from hushrank.transforms.storage.cloud_storage import CloudPath, Listed, is_cloud
from hushrank.transforms.tables.names import MAGIC, as_regex, is_object, is_table
from hushrank.transforms.tables.parts import DataFile, ServedTable

DELTA_LOG, ICEBERG_METADATA = "_delta_log", ".metadata.json"
# All parts of a night that a collector writes carry its first moment as their time, and those with
# few answers often have one size. A random id tells them apart; a copy under another name keeps it.
_PART = "hushrank part"
_STATED_ID = re.compile(rb"hushrank part ([0-9a-f]{16})\b")
_TAIL_BYTES = 1 << 16  # metadata stand at the end of a footer, and few bytes a column follow

IsInput = Callable[[PurePath], bool]


@dataclass(frozen=True, slots=True)
class Match:
    """File, or a table whose rows a service sends.

    Attributes:
        path, size, version: together they identify the content.
        table: name of its part of a table; None: a file that is its own.
        md5: digest of the bytes of an object, if the store states it.
    """

    path: str
    size: int
    version: str
    table: DataFile | ServedTable | None = None
    md5: str = ""


def matches(path: str, is_input: IsInput, times: str | None) -> list[Match]:
    """List the files that `path` names; empty if it names none.

    Args:
        path: a file, a folder, a pattern or a table.
        is_input: decides by the name below a folder whether a file belongs to the input.
        times: the column of times, if only the rows of some day are wanted.

    Raises:
        InputError: something cannot be read or listed, or the path is not valid; or a folder is
            that of a table, in which older rows lie too.
    """

    def of_no_table(below: PurePath) -> bool:
        if DELTA_LOG in below.parts or below.name.endswith(ICEBERG_METADATA):
            kind = "Delta" if DELTA_LOG in below.parts else "Iceberg"
            raise InputError(
                f"{path}: is the folder of a {kind} table, in which deleted and replaced rows lie"
                " too. Name the table instead: see docs/files.md. Nothing was read."
            )
        return is_input(below)

    if is_table(path):
        from hushrank.transforms.tables.tables import parts_of

        return [_match(path, part) for part in parts_of(path, times)]
    if is_cloud(path):
        return list(_cloud_matches(path, of_no_table))
    if is_object(path):
        from hushrank.transforms.tables.objects import object_matches

        return [Match(*each) for each in object_matches(path, of_no_table)]
    return [Match(*each) for each in _local_matches(path, of_no_table)]


def check_table(path: str, *, stated: bool, partition: str | None) -> None:
    """Refuse a table whose format is stated, or of which a folder is wanted."""
    if stated:
        raise InputError(f"{path}: a table says itself how it is stored; remove input.format.")
    if partition is not None:
        raise InputError(
            f"{path}: schedule.partition selects folders, but this is a table; set schedule.window"
            " to its column of times or dates instead."
        )


def version_now(path: str) -> str:
    """Return the present version of a file of its own; for a missing object, an impossible one."""
    if is_object(path):
        from hushrank.transforms.tables.objects import object_tag

        return object_tag(path)
    if is_cloud(path):
        return str(CloudPath.parse(path).generation())
    return str(Path(path).stat().st_mtime_ns)


def stated_id(id_: str) -> dict[str, str]:
    """Build the Parquet metadata of a part with this id, which has 16 hexadecimal digits."""
    return {_PART: f"{_PART} {id_}"}


def part_id(path: str) -> str:
    """Read the id that a local Parquet file states; empty if it states none or cannot be read.

    The end of the file is searched as bytes: nothing is parsed, so a damaged file does no harm.
    """
    try:
        descriptor = system.open_descriptor(path, os.O_RDONLY, 0, follow_links=True)
        try:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                return ""
            tail = system.read_at(descriptor, _TAIL_BYTES, max(found.st_size - _TAIL_BYTES, 0))
        finally:
            os.close(descriptor)
    except OSError:  # whoever reads its rows says so
        return ""
    stated = _STATED_ID.search(tail)
    return "" if stated is None else stated[1].decode()


def _match(path: str, part: DataFile | ServedTable) -> Match:
    if isinstance(part, DataFile):
        return Match(part.location, part.size, part.layout.version, part)
    return Match(path, part.size, part.version, part)


def _local_matches(path: str, is_input: IsInput) -> Iterator[tuple[str, int, str]]:
    """Yield path, size and modification time of local files."""
    start = Path(path)
    try:
        if start.exists():
            named: Iterable[Path] = [start]
        else:
            if any("**" in part and part != "**" for part in start.parts):
                raise ValueError("as `glob` itself before Python 3.13")
            root = Path(start.anchor)
            pattern = str(start.relative_to(root))
            named = (match for match in root.glob(pattern) if not match.name.startswith("."))
        for match in named:
            for file in _files_in(match, is_input) if match.is_dir() else [match]:
                status = file.stat()
                if not stat.S_ISREG(status.st_mode):
                    raise InputError(
                        f"{file}: is not a regular file; name a file. Nothing was read."
                    )
                yield file.as_posix(), status.st_size, str(status.st_mtime_ns)
    except PermissionError as error:
        raise InputError(f"{error.filename}: no permission to read it.") from None
    except FileNotFoundError as error:
        raise InputError(f"{error.filename}: no such file.") from None
    except OSError as error:  # e.g. a name too long, a link to itself, a lost disk
        raise InputError(f"{path}: cannot be read ({error.strerror}).") from None
    except InputError:
        raise
    except ValueError:
        raise InputError(f"{path}: in a pattern, ** must stand alone between slashes.") from None


def _files_in(folder: Path, is_input: IsInput) -> Iterator[Path]:
    def stop(error: OSError) -> None:  # otherwise an unreadable folder would be skipped
        raise error

    for parent, _, names in os.walk(folder, onerror=stop):
        for name in names:
            file = Path(parent, name)
            if is_input(file.relative_to(folder)):
                yield file


def _cloud_matches(url: str, is_input: Callable[[PurePosixPath], bool]) -> Iterator[Match]:
    """Yield the objects that `url` names; their generation is the version.

    Args:
        url: an object; or a folder, with or without a slash at its end, which stands for the
            objects in and below it that `is_input` accepts; or a pattern, in which `*` and `?`
            stand for anything but a slash and `**` for anything.
        is_input: decides by the name below the folder whether an object belongs to the input.

    Raises:
        InputError: the bucket cannot be listed, or the path is not valid.
    """
    try:
        yield from (
            Match(str(found.path), found.size, str(found.generation), md5=found.md5)
            for found in _objects(url, is_input)
        )
    except InputError:
        raise
    except ValueError as error:
        raise InputError(f"input.paths: {error}") from None
    except OSError as error:
        raise InputError(f"{url}: cannot be listed ({error.strerror}); nothing was read.") from None


def _objects(url: str, is_input: Callable[[PurePosixPath], bool]) -> Iterator[Listed]:
    magic = MAGIC.search(url)
    if magic is not None:
        folder, _, start = url[: magic.start()].rpartition("/")
        place, wanted = CloudPath.parse(folder), re.compile(as_regex(url[len(folder) + 1 :]))
        start_of_name = len(f"{place.key}/") if place.key else 0
        for found in place.objects(start):
            if wanted.fullmatch(found.path.key[start_of_name:]):
                yield found
        return
    place = CloudPath.parse(url)
    for found in place.parent.objects(place.name) if place.key else place.objects():
        below = PurePosixPath(found.path.key[len(place.key) :].lstrip("/"))
        if found.path == place:
            named = not url.endswith("/")
        else:
            named = place.contains(found.path) and is_input(below)
        if named:
            yield found
