"""Input files: the files that a job reads, their identity, their format and their schema.

Everything here reads names, sizes, dates, headers and footers only, never a row.

A path may hold columns: `language=de/date=2026-11-20/part.parquet`. Engines that write such folders
leave these columns out of the files. So the folders are part of the rows' content, and public
settings say which of them count.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from pathlib import PurePath
from typing import IO
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from hushrank.transforms.common.local_files import UnfitFile, being_read, require_regular
from hushrank.transforms.common.plain_text import short_list
from hushrank.transforms.common.schema import LISTS, TOO_LARGE, Columns, InputError, check_schema
from hushrank.transforms.storage import preflib
from hushrank.transforms.storage.arrow_rows import arrow_schema, orc_head
from hushrank.transforms.storage.json_rows import json_names
from hushrank.transforms.storage.places import CloudPath
from hushrank.transforms.storage.text_lines import (
    HEADER_BYTES,
    LIST_ENDING,
    PACKINGS,
    as_utf8,
    csv_header,
    is_json_list,
    is_packed,
    packing_of,
    unpacked,
    without_packing,
)
from hushrank.transforms.storage.window import Match, Window, check_table, matches, version_now
from hushrank.transforms.tables.names import (
    BEAM,
    BeamSource,
    DataFile,
    ServedTable,
    in_order,
    is_object,
    is_source,
    is_table,
)

NO_SOURCE = (
    "input.source: missing; input.version names rows of a Beam transform. Write input.source, or"
    " pass the transform in Python: hushrank.run(survey, source=...). Nothing was read or spent."
)
NO_VALUE = "__HIVE_DEFAULT_PARTITION__"  # name of a folder of rows that have none

Partitions = tuple[tuple[str, str | None], ...]  # name and value of each column


def partitions_of(path: str, names: Sequence[str]) -> Partitions:
    """Return the value of each column that folders of a path state.

    Raises:
        InputError: a column has no such folder, or two.
    """
    found = []
    for name in names:
        told = [part for part in path.split("/")[:-1] if part.startswith(f"{name}=")]
        if len(told) != 1:
            raise InputError(
                f"{path}: {'two folders' if told else 'no folder'} {name}=… in the path. Correct"
                " input.partitions, or move the file."
            )
        value = unquote(told[0].partition("=")[2])
        found.append((name, None if value == NO_VALUE else value))
    return tuple(found)


def with_fields(schema: pa.Schema, partitions: Partitions) -> pa.Schema:
    """Return the schema of a file with the columns that its path states, which are text."""
    for name, _ in partitions:
        schema = schema.append(pa.field(name, pa.string()))
    return schema


def with_columns(rows: pa.RecordBatch, partitions: Partitions) -> pa.RecordBatch:
    """Return rows of a file with the columns that its path states, as dictionaries of one text."""
    for name, value in partitions:
        codes = pa.array(np.zeros(len(rows), np.int32))
        values = pa.array([value], pa.string())
        rows = rows.append_column(name, pa.DictionaryArray.from_arrays(codes, values))
    return rows


class FileFormat(StrEnum):
    """Format in which rows are stored."""

    PARQUET = "parquet"
    CSV = "csv"
    JSONL = "jsonl"
    AVRO = "avro"
    ORC = "orc"
    ARROW = "arrow"  # record batches of Arrow, also called Feather
    PREFLIB = "preflib"
    EXCEL = "excel"
    SPSS = "spss"


OF_PROGRAMS = (FileFormat.EXCEL, FileFormat.SPSS)  # formats whose readers are an extra


class Service(StrEnum):
    """Service that sends rows that no file holds."""

    BIGQUERY = "BigQuery"
    BEAM = "Beam"


TEXT_ENDINGS = {
    ".csv": FileFormat.CSV,
    ".jsonl": FileFormat.JSONL,
    ".ndjson": FileFormat.JSONL,
    LIST_ENDING: FileFormat.JSONL,
}
ENDINGS = {
    ".parquet": FileFormat.PARQUET,
    ".pq": FileFormat.PARQUET,
    **TEXT_ENDINGS,
    **{f"{end}{packed}": text for end, text in TEXT_ENDINGS.items() for packed in PACKINGS},
    ".avro": FileFormat.AVRO,
    ".orc": FileFormat.ORC,
    ".arrow": FileFormat.ARROW,
    ".feather": FileFormat.ARROW,
    **dict.fromkeys((f".{kind}" for kind in preflib.KINDS), FileFormat.PREFLIB),
    ".xlsx": FileFormat.EXCEL,
    ".sav": FileFormat.SPSS,
}


class NoFilesError(InputError):
    """Error if a path names no file at all."""


@dataclass(frozen=True, slots=True, order=True)
class InputFile:
    """File of a job. `version` shows whether it changed since it was listed.

    By its content it is identified in `flows.identity`.

    Tables: `table` is the file's part of a snapshot, the table whose rows a service sends, or the
    Beam transform that yields them; None for a file that is its own, and for a Beam transform that
    is not known yet.
    """

    path: str
    size: int  # bytes
    version: str  # local: modification time in ns; gs://: generation; ETag; or a table's snapshot
    format: FileFormat | Service
    window: Window | None = None  # selects the rows that belong to the job; None: all
    multiline: bool = False  # for CSV: whether quoted fields may hold line ends
    delimiter: str = ","  # for CSV: the character between columns
    encoding: str = "utf-8"  # for CSV: one of `csv_header.ENCODINGS`
    decimal: str = "."  # for CSV: what stands before the decimals of a number
    header_rows: int = 1  # for CSV: how many rows come before the first answer
    partitions: Partitions = ()  # columns that folders of its path tell
    digest: str = ""  # keyed, of the rows: the file is a copy of a table that was in memory
    md5: str = ""  # digest of the bytes of an object, if the store states it
    table: DataFile | ServedTable | BeamSource | None = field(default=None, compare=False)

    @property
    def name(self) -> str:
        """Name of the file in messages."""
        return self.table.name if isinstance(self.table, DataFile) else self.path

    @property
    def most_bytes(self) -> int:
        """Most bytes of the unpacked content."""
        packing = packing_of(self.path)
        return self.size * (1 if packing is None else packing.ratio)


def list_files(
    paths: Sequence[str],
    format_: FileFormat | None = None,
    partition: str | None = None,
    times: str | None = None,
) -> list[InputFile]:
    """List the files that `paths` (files, folders, globs, tables) name, sorted, each once.

    A folder stands for every file in or below it with a known ending and no leading `.` or `_`.

    Args:
        paths: absolute local paths, URLs or tables; `*`, `?`, `[...]` and `**` are patterns.
        format_: the format of all files; None: by each file's ending.
        partition: for example `date=2026-11-20`: only files below a folder with that name.
        times: the column of times, if only the rows of some day are wanted.

    Raises:
        NoFilesError: a path matches nothing.
        InputError: a file is empty, its format is unknown or has no reader here, or it is there
            packed and unpacked.
    """
    found: dict[str, InputFile] = {}
    for path in paths:
        if is_source(path):
            found[path] = InputFile(path, 0, path.removeprefix(BEAM), Service.BEAM)
            continue
        if is_table(path):
            check_table(path, stated=format_ is not None, partition=partition)
        matched = matches(path, is_input_name, times)
        if partition is not None:
            matched = [match for match in matched if partition in match.path.split("/")[:-1]]
        if not matched:
            where = path if partition is None else f"{path}: below a folder {partition}"
            if is_table(path):
                raise NoFilesError(f"{path}: the table holds no rows yet; nothing was read.")
            raise NoFilesError(f"{where}: no such file. Check input.paths; nothing was read.")
        found |= {match.path: _input_file(match, format_) for match in matched}
    for name in found:
        if is_packed(name) and without_packing(name) in found:
            raise InputError(
                f"{name}: the file without {name[len(without_packing(name)) :]} is named too, so"
                " rows could count twice. Remove one of the two."
            )
    _check_empty(found.values())
    return sorted(found.values())


def _input_file(match: Match, format_: FileFormat | None) -> InputFile:
    name, size, version, table = match.path, match.size, match.version, match.table
    if table is not None:
        kind = FileFormat.PARQUET if isinstance(table, DataFile) else Service.BIGQUERY
        return InputFile(name, size, version, kind, table=table)
    format_ = format_ or _format_of(name)
    if format_ in OF_PROGRAMS:
        if is_remote(name):
            raise InputError(f"{name}: files of Excel and SPSS are read on this machine; copy it.")
        from hushrank.transforms.common.extras import need

        need("sheets", name)
    return InputFile(name, size, version, format_, md5=match.md5)


def _check_empty(files: Iterable[InputFile]) -> None:
    """Refuse files of 0 bytes, all of them at once.

    An empty JSON Lines file, which has no header, is a file without rows: no error. Packed, it
    would not be empty.
    """
    empty = [
        file.path
        for file in files
        if file.size == 0 and file.table is None and not isinstance(file.format, Service)
        if file.format is not FileFormat.JSONL or is_changed(file.path)
    ]
    if len(empty) == 1:
        raise InputError(f"{empty[0]}: the file is empty (0 bytes). Remove it, or write it again.")
    if empty:
        raise InputError(
            f"{empty[0]}: the file is empty (0 bytes), and so are {short_list(empty[1:])}. Remove"
            " them, or write them again."
        )


def source_of(files: Sequence[InputFile]) -> BeamSource | None:
    """Return the Beam transform that yields the rows of a job; None: its rows are in files.

    Raises:
        InputError: nothing says which transform it is.
    """
    for file in files:
        if file.format is Service.BEAM:
            if not isinstance(file.table, BeamSource):
                raise InputError(NO_SOURCE)
            return file.table
    return None


def check_files(
    files: Sequence[InputFile], columns: Columns, schemas: Iterable[pa.Schema] | None = None
) -> dict[str, pa.Schema]:
    """Check that all of `files` can be read; return their schemas by path.

    Args:
        files: files to check.
        columns: columns that they must have.
        schemas: schema of each file, in order; None: they are read here.

    Raises:
        InputError: a file is damaged, lacks a column, or has one in a type that cannot be read.
    """
    if schemas is None:
        schemas = in_order(partial(read_schema, columns=columns), files, remote=any_remote(files))
    found: dict[str, pa.Schema] = {}
    fitting: dict[tuple[FileFormat | Service, int], pa.Schema] = {}  # by object: most share one
    for file, schema in zip(files, schemas, strict=True):
        try:
            schema.names  # noqa: B018 - Arrow decodes them only here
        except UnicodeDecodeError:
            raise InputError(
                f"{file.name}: damaged: the name of a column is not UTF-8. Write it again."
            ) from None
        if (file.format, id(schema)) not in fitting:
            check_schema(file.name, schema, columns, named_by_a_line=file.format is FileFormat.CSV)
            fitting[file.format, id(schema)] = schema
        if file.window is not None:
            file.window.check(file.name, schema)
        found[file.path] = schema
    return found


def read_schema(file: InputFile, columns: Columns) -> pa.Schema:
    """Read names and types of the columns of `file`, from its footer or its header.

    JSON Lines and Beam transforms have neither, and no row may decide how other rows are read. So
    the columns in `columns` exist by declaration, as text (rankings as lists of text). A row
    without one has null.

    Raises:
        InputError: the file does not have its format, or is damaged.
    """
    if file.format in (FileFormat.JSONL, Service.BEAM):
        return _declared(file, columns)
    return with_fields(_stated(file), file.partitions)


def _stated(file: InputFile) -> pa.Schema:
    """Return the schema in a footer or a header, or a table's own schema."""
    if isinstance(file.table, DataFile):
        return file.table.layout.schema
    if isinstance(file.table, ServedTable):
        return file.table.schema
    if file.format is FileFormat.PARQUET:
        return parquet_footer(file).schema.to_arrow_schema()
    with open_file(file) as stream:
        if file.format is not FileFormat.CSV:
            return _SCHEMAS[file.format](file.path, stream)
        head = as_utf8(stream, file.encoding).read(HEADER_BYTES)
    names = csv_header(file.path, head, file.delimiter)
    return pa.schema([(name, pa.string()) for name in names])


def _schema_of_preflib(path: str, stream: IO[bytes]) -> pa.Schema:
    preflib.read_header(path, stream.read(HEADER_BYTES))
    return preflib.SCHEMA


def _schema_of_avro(path: str, stream: IO[bytes]) -> pa.Schema:
    from hushrank.transforms.storage.avro_rows import avro_schema  # loads fastavro

    return avro_schema(path, stream)


def _schema_of_excel(path: str, stream: IO[bytes]) -> pa.Schema:
    from hushrank.transforms.storage.sheet_rows import excel_schema

    return excel_schema(path, stream)


def _schema_of_spss(path: str, stream: IO[bytes]) -> pa.Schema:
    from hushrank.transforms.storage.sheet_rows import spss_schema

    return spss_schema(path, stream)


# Formats with a schema that the path and the open file tell.
_SCHEMAS: dict[FileFormat | Service, Callable[[str, IO[bytes]], pa.Schema]] = {
    FileFormat.AVRO: _schema_of_avro,
    FileFormat.ORC: lambda path, stream: orc_head(path, stream)[0],
    FileFormat.ARROW: arrow_schema,
    FileFormat.PREFLIB: _schema_of_preflib,
    FileFormat.EXCEL: _schema_of_excel,
    FileFormat.SPSS: _schema_of_spss,
}


def _head_of(file: InputFile) -> bytes:
    with open_file(file) as stream:
        return stream.read(HEADER_BYTES)


def column_names_of(file: InputFile) -> list[str]:
    """Names of all columns; for JSON Lines the keys in the first MiB, which are part of rows.

    Only for callers that may read the rows anyway: no release may depend on the result.

    Raises:
        InputError: the file does not have its format, or is damaged.
    """
    if file.format is not FileFormat.JSONL:
        return list(_stated(file).names)
    return json_names(file.path, _head_of(file), HEADER_BYTES)


def _declared(file: InputFile, columns: Columns) -> pa.Schema:
    types = {
        name: pa.list_(pa.string()) if role in LISTS else pa.string()
        for role, name in columns.roles()
    }
    if file.window is not None:
        types.setdefault(file.window.column, pa.string())
    return pa.schema(list(types.items()))


def parquet_footer(file: InputFile) -> pq.FileMetaData:
    """Read the footer of a Parquet file.

    Raises:
        InputError: the file is not a readable Parquet file.
    """
    try:
        with open_file(file) as stream:
            return pq.read_metadata(stream)
    except (pa.ArrowException, OSError, UnicodeDecodeError):  # their texts may quote the file
        raise InputError(
            f"{file.name}: not a complete Parquet file (truncated or damaged). Write it again."
        ) from None


def check_unchanged(file: InputFile) -> None:
    """Raise `InputError` if a file has changed since `list_files` found it."""
    if isinstance(file.table, DataFile | ServedTable):
        from hushrank.transforms.tables.tables import check_same

        check_same(file.table)
        return
    if version_now(file.path) != file.version:
        raise InputError(f"{file.path}: changed during the run. Run again when it is complete.")


@contextlib.contextmanager
def open_file(file: InputFile) -> Iterator[IO[bytes]]:
    """Open a stream of a file; an empty one for a table whose rows a service sends.

    Raises:
        InputError: `open_bytes` fails, or what reads the stream in the block lacks memory.
    """
    opened: IO[bytes] | None = None
    if isinstance(file.table, ServedTable):
        opened = io.BytesIO()
    elif isinstance(file.table, DataFile) and is_remote(file.path):
        from hushrank.transforms.tables.tables import open_data_file

        opened = open_data_file(file.table)
    with being_read(file.name), opened or open_bytes(file.path, file.name) as stream:
        try:
            if file.format is FileFormat.JSONL and is_json_list(file.path):
                from hushrank.transforms.storage import json_lists

                stream = json_lists.lines_of(file.name, stream)
            yield stream
        except MemoryError:
            raise InputError(TOO_LARGE.format(file.name)) from None


@contextlib.contextmanager
def open_bytes(path: str, name: str | None = None) -> Iterator[IO[bytes]]:
    """Open a stream of a local file or an object, unpacked if it is packed.

    Args:
        path: the path or URL.
        name: name for messages; None: its path.

    Raises:
        InputError: the file is not there, may not be read, or is not a whole packed file.
    """
    name = name or path
    with contextlib.ExitStack() as stack:
        try:
            if not is_remote(path):
                require_regular(path)
            if is_object(path):
                from hushrank.transforms.tables.objects import open_object

                stream = stack.enter_context(open_object(path, name))
            elif is_remote(path):
                stream = stack.enter_context(CloudPath.parse(path).open())
            else:
                stream = stack.enter_context(pa.OSFile(path))
        except PermissionError:
            raise InputError(f"{name}: no permission to read it.") from None
        except FileNotFoundError:
            raise InputError(f"{name}: no such file.") from None
        except (UnfitFile, IsADirectoryError) as error:
            raise InputError(f"{name}: cannot be read ({error.strerror}); name a file.") from None
        yield stack.enter_context(unpacked(path, stream))


def is_changed(path: str) -> bool:
    """Whether the rows are in other bytes than those of the file, so that it is read as a whole."""
    return is_packed(path) or is_json_list(path)


def ending_of(path: str | PurePath) -> str:
    """Extension that decides the format, in lower case: of `a.csv.gz` it is `.csv.gz`."""
    *_, last, ending = ("", "", *PurePath(path).suffixes)
    both = f"{last}{ending}".lower()
    return both if both in ENDINGS else ending.lower()


def reads_only_text(
    paths: Iterable[str], format_: FileFormat | None, files: Iterable[InputFile]
) -> bool:
    """Whether `list_files` finds only files whose columns are all text, today and always.

    Args:
        paths, format_: as in `list_files`.
        files: files that it has found today.
    """
    texts = set(TEXT_ENDINGS.values())
    formats = {ENDINGS.get(ending_of(path)) if format_ is None else format_ for path in paths}
    return formats <= texts and {file.format for file in files} <= texts


def is_remote(path: str) -> bool:
    """Whether `path` is on another machine."""
    return "://" in path


def any_remote(files: Iterable[InputFile]) -> bool:
    """Whether one of the files is on another machine."""
    return any(is_remote(file.path) for file in files)


def is_input_name(relative: PurePath) -> bool:
    """Whether a file at this path below an input folder belongs to the input.

    Files of one JSON list do not: in folders, such files mostly say what others hold.
    """
    hidden = any(part.startswith((".", "_")) for part in relative.parts)
    return not hidden and ending_of(relative) in ENDINGS and not is_json_list(relative.name)


def _format_of(path: str) -> FileFormat:
    ending = ending_of(path)
    if ending not in ENDINGS:
        raise InputError(
            f"{path}: unknown ending {ending or '(none)'}. Known: {', '.join(ENDINGS)};"
            f" or set input.format: {', '.join(FileFormat)}."
        )
    return ENDINGS[ending]
