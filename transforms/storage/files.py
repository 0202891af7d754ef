"""Input files: the files that a job reads, their identity, their format and their schema.

Everything here reads names, sizes, dates, headers and footers only, never a row.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path, PurePath
from typing import IO

import pyarrow as pa
import pyarrow.parquet as pq

from hushrank.transforms.common.schema import (
    RANKING,
    Columns,
    InputError,
    check_schema,
    is_text,
)
from hushrank.transforms.storage import preflib
from hushrank.transforms.storage.at_once import in_order
from hushrank.transforms.storage.cloud_files import cloud_matches
from hushrank.transforms.storage.cloud_storage import CloudPath
from hushrank.transforms.storage.csv_header import BYTE_ORDER_MARK, HEADER_BYTES, csv_header
from hushrank.transforms.storage.window import Window

REMOTE_PREFIX = "gs://"


class FileFormat(StrEnum):
    """How rows are stored."""

    PARQUET = "parquet"
    CSV = "csv"
    JSONL = "jsonl"
    PREFLIB = "preflib"


PACKED = ".gz"
MOST_UNPACKED = 1032  # bytes that gzip can make of one
TEXT_ENDINGS = {
    ".csv": FileFormat.CSV,
    ".jsonl": FileFormat.JSONL,
    ".ndjson": FileFormat.JSONL,
}
ENDINGS = {
    ".parquet": FileFormat.PARQUET,
    ".pq": FileFormat.PARQUET,
    **TEXT_ENDINGS,
    **{f"{ending}{PACKED}": format_ for ending, format_ in TEXT_ENDINGS.items()},
    **dict.fromkeys((f".{kind}" for kind in preflib.KINDS), FileFormat.PREFLIB),
}


class NoFilesError(InputError):
    """A path names no file at all."""


@dataclass(frozen=True, slots=True, order=True)
class InputFile:
    """One file of a job. Path, size and version identify its content without reading it."""

    path: str
    size: int  # bytes
    version: str  # local: modification time in ns; gs://: generation
    format: FileFormat
    window: Window | None = None  # selects the rows that belong to the job; None: all
    multiline: bool = False  # for CSV: whether quoted fields may hold line ends
    delimiter: str = ","  # for CSV: the character between columns

    @property
    def most_bytes(self) -> int:
        """The most bytes that its content has, unpacked."""
        return self.size * (MOST_UNPACKED if is_packed(self.path) else 1)

    def identity(self) -> list[str | int]:
        """The parts of it that enter the release key."""
        return [self.path, self.size, self.version]


def list_files(
    paths: Sequence[str], format_: FileFormat | None = None, partition: str | None = None
) -> list[InputFile]:
    """The files that `paths` (files, folders, globs; local or gs://) name, sorted, each once.

    A folder stands for every file in or below it with a known ending and no leading `.` or `_`.

    Args:
        paths: absolute local paths or gs:// URLs; `*`, `?`, `[...]` and `**` are patterns.
        format_: the format of all files; None: by each file's ending.
        partition: for example `date=2026-11-20`: only files below a folder with that name.

    Raises:
        NoFilesError: a path matches nothing.
        InputError: a file is empty, its format is unknown, or it is there packed and unpacked.
    """
    found: dict[str, InputFile] = {}
    for path in paths:
        remote = path.startswith(REMOTE_PREFIX)
        matches = list(cloud_matches(path, _is_input) if remote else _local_matches(path))
        if partition is not None:
            matches = [match for match in matches if partition in match[0].split("/")[:-1]]
        if not matches:
            where = path if partition is None else f"{path}: below a folder {partition}"
            raise NoFilesError(f"{where}: no such file. Check input.paths; nothing was read.")
        for name, size, version in matches:
            kind = format_ or _format_of(name)
            # An empty JSON Lines file, which has no header, is a file without rows: no error.
            if size == 0 and kind is not FileFormat.JSONL:
                raise InputError(
                    f"{name}: the file is empty (0 bytes). Remove it, or write it again."
                )
            found[name] = InputFile(name, size, version, kind)
    for name in found:
        if is_packed(name) and name[: -len(PACKED)] in found:
            raise InputError(
                f"{name}: the file without {PACKED} is named too, so rows could count twice. Remove"
                " one of the two."
            )
    return sorted(found.values())


def check_files(
    files: Sequence[InputFile], columns: Columns, schemas: Iterable[pa.Schema] | None = None
) -> dict[str, pa.Schema]:
    """Schemas of `files` by path, after a check that all files can be read and agree.

    Args:
        files: to check.
        columns: that they must have.
        schemas: of each file, in order; None: they are read here.

    Raises:
        InputError: a file is damaged, lacks a column, or names people in another type than the
            other files do (the same person would count as two).
    """
    if schemas is None:
        schemas = in_order(partial(read_schema, columns=columns), files, remote=any_remote(files))
    found: dict[str, pa.Schema] = {}
    first: tuple[str, bool] | None = None
    for file, schema in zip(files, schemas, strict=True):
        check_schema(file.path, schema, columns, named_by_a_line=file.format is FileFormat.CSV)
        if file.window is not None:
            file.window.check(file.path, schema)
        found[file.path] = schema
        if columns.user is not None:
            kind = is_text(schema.field(columns.user).type)
            first = first or (file.path, kind)
            if kind != first[1]:
                raise InputError(
                    f"{file.path}: column {columns.user} holds {_kind(kind)}, but {_kind(first[1])}"
                    f" in {first[0]}. One person must be named in one way: cast one of them."
                )
    return found


def read_schema(file: InputFile, columns: Columns) -> pa.Schema:
    """Names and types of the columns of `file`, from its footer or its header.

    JSON Lines have neither, and no row may decide how other rows are read. So the columns in
    `columns` exist by declaration, as text (rankings as lists of text). A row without one has null.

    Raises:
        InputError: the file does not have its format, or is damaged.
    """
    return _declared(file, columns) if file.format is FileFormat.JSONL else _stated(file)


def _stated(file: InputFile) -> pa.Schema:
    """The schema in a footer or a header."""
    return _SCHEMAS[file.format](file)


def _schema_of_parquet(file: InputFile) -> pa.Schema:
    return parquet_footer(file.path).schema.to_arrow_schema()


def _schema_of_csv(file: InputFile) -> pa.Schema:
    names = csv_header(file.path, _head_of(file), file.delimiter)
    return pa.schema([(name, pa.string()) for name in names])


def _schema_of_preflib(file: InputFile) -> pa.Schema:
    preflib.read_header(file.path, _head_of(file))
    return preflib.SCHEMA


# Of formats whose files state their columns; JSON Lines do not.
_SCHEMAS: dict[FileFormat, Callable[[InputFile], pa.Schema]] = {
    FileFormat.PARQUET: _schema_of_parquet,
    FileFormat.CSV: _schema_of_csv,
    FileFormat.PREFLIB: _schema_of_preflib,
}


def _head_of(file: InputFile) -> bytes:
    with open_bytes(file.path) as stream:
        return stream.read(HEADER_BYTES)


def column_names_of(file: InputFile) -> list[str]:
    """Names of all columns; for JSON Lines the keys in the first MiB, which are part of rows.

    Only for callers that may read the rows anyway: no release may depend on the result.

    Raises:
        InputError: the file does not have its format, or is damaged.
    """
    if file.format is not FileFormat.JSONL:
        return list(_stated(file).names)
    head = _head_of(file)
    lines = head.removeprefix(BYTE_ORDER_MARK).splitlines(keepends=True)
    whole_lines = lines[:-1] if len(head) == HEADER_BYTES and len(lines) > 1 else lines
    rows = [_json_row(line) for line in whole_lines if line.strip()]
    if not rows or rows[0] is None:
        raise InputError(
            f"{file.path}: the first line is not a JSON object; JSON Lines has one a line."
        )
    return list(dict.fromkeys(name for row in rows if row for name in row))


def _declared(file: InputFile, columns: Columns) -> pa.Schema:
    types = {
        name: pa.list_(pa.string()) if role == RANKING else pa.string()
        for role, name in columns.roles()
    }
    if file.window is not None:
        types.setdefault(file.window.column, pa.string())
    return pa.schema(list(types.items()))


def parquet_footer(path: str) -> pq.FileMetaData:
    """Footer of a Parquet file.

    Raises:
        InputError: the file is not a readable Parquet file.
    """
    try:
        with open_bytes(path) as stream:
            return pq.read_metadata(stream)
    except (pa.ArrowException, OSError):  # texts of these errors may quote the file
        raise InputError(
            f"{path}: not a complete Parquet file (truncated or damaged). Write it again."
        ) from None


def check_unchanged(file: InputFile) -> None:
    """Raise `InputError` if a file has changed since `list_files` found it."""
    if is_remote(file.path):
        same = str(CloudPath.parse(file.path).generation()) == file.version
    else:
        status = Path(file.path).stat()
        same = (status.st_size, str(status.st_mtime_ns)) == (file.size, file.version)
    if not same:
        raise InputError(f"{file.path}: changed during the run. Run again when it is complete.")


@contextlib.contextmanager
def open_bytes(path: str) -> Iterator[IO[bytes]]:
    """A readable, seekable stream of a local file or a gs:// object, unpacked if it ends in .gz.

    Raises:
        InputError: the file is not there, may not be read, or is not a whole gzip file.
    """
    with contextlib.ExitStack() as stack:
        try:
            opened = CloudPath.parse(path).open() if is_remote(path) else pa.OSFile(path)
            stream = stack.enter_context(opened)
        except PermissionError:
            raise InputError(f"{path}: no permission to read it.") from None
        except FileNotFoundError:
            raise InputError(f"{path}: no such file.") from None
        if not is_packed(path):
            yield stream
            return
        try:
            yield stack.enter_context(io.BufferedReader(gzip.GzipFile(fileobj=stream)))
        except (EOFError, gzip.BadGzipFile, zlib.error):
            raise InputError(
                f"{path}: not a complete gzip file (truncated or damaged). Write it again."
            ) from None


def _local_matches(path: str) -> Iterator[tuple[str, int, str]]:
    start = Path(path)
    try:
        if start.exists():
            named: Iterable[Path] = [start]
        else:
            root = Path(start.anchor)
            pattern = str(start.relative_to(root))
            named = (match for match in root.glob(pattern) if not match.name.startswith("."))
        for match in named:
            for file in _files_in(match) if match.is_dir() else [match]:
                status = file.stat()
                yield str(file), status.st_size, str(status.st_mtime_ns)
    except PermissionError as error:
        raise InputError(f"{error.filename}: no permission to read it.") from None
    except FileNotFoundError as error:
        raise InputError(f"{error.filename}: no such file.") from None
    except OSError as error:  # e.g. a name too long, a link to itself, a lost disk
        raise InputError(f"{path}: cannot be read ({error.strerror}).") from None
    except ValueError:
        raise InputError(f"{path}: in a pattern, ** must stand alone between slashes.") from None


def _files_in(folder: Path) -> Iterator[Path]:
    def stop(error: OSError) -> None:  # otherwise an unreadable folder would be skipped
        raise error

    for parent, _, names in os.walk(folder, onerror=stop):
        for name in names:
            file = Path(parent, name)
            if _is_input(file.relative_to(folder)):
                yield file


def is_packed(path: str) -> bool:
    """Whether the content is packed with gzip, by the name."""
    return path.lower().endswith(PACKED)


def ending_of(path: str | PurePath) -> str:
    """The ending that tells the format, in small letters: of `a.csv.gz` it is `.csv.gz`."""
    *_, last, ending = ("", "", *PurePath(path).suffixes)
    both = f"{last}{ending}".lower()
    return both if both in ENDINGS else ending.lower()


def is_remote(path: str) -> bool:
    """Whether `path` is an object in Cloud Storage."""
    return path.startswith(REMOTE_PREFIX)


def any_remote(files: Iterable[InputFile]) -> bool:
    """Whether one of them is an object in Cloud Storage."""
    return any(is_remote(file.path) for file in files)


def _is_input(relative: PurePath) -> bool:
    hidden = any(part.startswith((".", "_")) for part in relative.parts)
    return not hidden and ending_of(relative) in ENDINGS


def _format_of(path: str) -> FileFormat:
    ending = ending_of(path)
    if ending not in ENDINGS:
        raise InputError(
            f"{path}: unknown ending {ending or '(none)'}. Known: {', '.join(ENDINGS)};"
            f" or set input.format: {', '.join(FileFormat)}."
        )
    return ENDINGS[ending]


def _json_row(line: bytes) -> dict[str, object] | None:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None


def _kind(text: bool) -> str:
    return "text" if text else "integers"
