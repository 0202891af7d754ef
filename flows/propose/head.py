"""The header and the first rows of a file, or of the first file of a folder."""

from __future__ import annotations

import csv
import gzip
import json
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from hushrank.flows.errors import ConfigError
from hushrank.flows.propose.names import Row
from hushrank.transforms.common.plain_text import hidden_character
from hushrank.transforms.common.schema import InputError
from hushrank.transforms.storage import preflib
from hushrank.transforms.storage.files import (
    PACKED,
    FileFormat,
    InputFile,
    NoFilesError,
    column_names_of,
    is_packed,
    list_files,
)

HEAD_ROWS = 5

_DELIMITERS = ((",", ","), (";", ";"), ("\t", "tab"))  # with their names in `input.delimiter`
_PARTITION = re.compile(r"(?P<name>[A-Za-z0-9._-]+)=\d{4}-\d\d-\d\d")
# Formats that people have but hushrank does not read, and how to convert them.
_ADVICE = {
    ".zip": "is a zip archive, which is not read; unpack it first",
    ".xlsx": "is a spreadsheet; save it as CSV (UTF-8, columns separated by commas)",
    ".xls": "is a spreadsheet; save it as CSV (UTF-8, columns separated by commas)",
    ".ods": "is a spreadsheet; save it as CSV (UTF-8, columns separated by commas)",
    ".json": "is JSON; JSON Lines, with one object a line, are read. Of one list of objects make"
    " them with: jq -c '.[]' {path} > {stem}.jsonl",
    ".sav": "is a file of a statistics program; save it as CSV",
    ".dta": "is a file of a statistics program; save it as CSV",
    ".rds": "is a file of a statistics program; save it as CSV",
    ".rda": "is a file of a statistics program; save it as CSV",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """What was read of a source.

    Attributes:
        columns: names, in the order of the file.
        rows: at most `HEAD_ROWS` rows; values as text, numbers, lists or None.
        file: the file that they come from; None: the source itself.
        files: how many files the source has.
        partition: name of a folder level such as date in `date=2026-11-20`; None: there is none.
        delimiter: the character between columns of a CSV file, as `input.delimiter` calls it.
        format: the value that `input.format` needs because the ending does not tell; None: none.
    """

    columns: list[str]
    rows: list[Row]
    file: str | None = None
    files: int = 1
    partition: str | None = None
    delimiter: str = ","
    format: FileFormat | None = None


def read_head(source: Path) -> Head:
    """The header and at most `HEAD_ROWS` rows of a file, or of the first file of a folder.

    Raises:
        ConfigError: the source cannot be read. No text quotes a row.
    """
    _check(source)
    tabs = source.name.lower().removesuffix(PACKED).endswith(".tsv")
    format_ = FileFormat.CSV if tabs else None
    try:
        found = list_files([str(source)], format_)
        first, delimiter = _with_delimiter(found[0])
        columns = column_names_of(first)
    except NoFilesError:
        raise ConfigError(
            f"{source}: holds no Parquet, CSV, JSON Lines or PrefLib file; name a folder that does"
        ) from None
    except InputError as error:
        raise ConfigError(str(error)) from None
    path = first.path
    for column in columns:
        if hidden := hidden_character(column, lines=True):
            raise ConfigError(
                f"{path}: the name of a column holds the character {hidden}, which nobody sees;"
                " rename that column"
            )
    rows = _first_rows(first)
    if not source.is_dir():
        return Head(columns=columns, rows=rows, delimiter=delimiter, format=format_)
    return Head(
        columns=columns,
        rows=rows,
        file=path,
        files=len(found),
        partition=_partition_of(Path(path).relative_to(source)),
        delimiter=delimiter,
    )


def _with_delimiter(file: InputFile) -> tuple[InputFile, str]:
    """The file with its delimiter set, and the delimiter as the configuration calls it."""
    if file.format is not FileFormat.CSV:
        return file, ","
    read = [(replace(file, delimiter=mark), name) for mark, name in _DELIMITERS]
    return max(read, key=lambda each: _number_of_columns(each[0]))  # if equal, the first: a comma


def _number_of_columns(file: InputFile) -> int:
    try:
        return len(column_names_of(file))
    except InputError:  # the header is wrong, or its quotes need another delimiter
        return 0


def _check(source: Path) -> None:
    if source.is_dir():
        return
    advice = _ADVICE.get(source.suffix.lower())
    if not source.is_file():
        raise ConfigError(
            f"{source}: no such file; name a local Parquet, CSV or JSON Lines file, or a folder of"
            " such files"
        )
    if advice is not None:
        raise ConfigError(f"{source}: {advice.format(path=source, stem=source.stem)}")


def _partition_of(relative: Path) -> str | None:
    for part in relative.parts[:-1]:
        if match := _PARTITION.fullmatch(part):
            return match["name"]
    return None


def _first_rows(file: InputFile) -> list[Row]:
    try:
        return list(islice(_rows(file), HEAD_ROWS))
    except InputError as error:
        raise ConfigError(str(error)) from None
    except (
        pa.ArrowException,
        EOFError,
        OSError,
        OverflowError,
        RecursionError,
        ValueError,
        csv.Error,
        zlib.error,
    ):  # texts of these errors may quote a row
        raise ConfigError(f"{file.path}: damaged, not readable as {file.format}") from None


def _rows(file: InputFile) -> Iterator[Row]:
    if file.format is FileFormat.PARQUET:
        with pq.ParquetFile(file.path) as parquet:
            for batch in parquet.iter_batches(HEAD_ROWS):
                yield from batch.to_pylist()
    elif file.format is FileFormat.PREFLIB:
        with open(file.path, "rb") as stream:
            for batch, refused in preflib.read_rows(file.path, stream):
                if refused:
                    raise preflib.refusal(file.path, refused[0])
                yield from batch.slice(0, HEAD_ROWS).to_pylist()
    else:
        opened = gzip.open if is_packed(file.path) else open
        with opened(file.path, "rt", encoding="utf-8-sig", errors="replace", newline="") as lines:
            if file.format is FileFormat.CSV:
                yield from csv.DictReader(lines, delimiter=file.delimiter)
            else:
                yield from (_json_row(line) for line in lines if line.strip())


def _json_row(line: str) -> Row:
    row = json.loads(line)
    if not isinstance(row, dict):
        raise ValueError("a line of JSON Lines must hold an object")
    return row
