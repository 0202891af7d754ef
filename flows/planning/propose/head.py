"""The header and the first rows of a file, or of the first file of a folder."""

from __future__ import annotations

import csv
import io
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import IO

import pyarrow as pa
import pyarrow.parquet as pq

from hushrank.flows.errors import ConfigError
from hushrank.flows.planning.propose.names import Row, text_of
from hushrank.transforms.common.plain_text import hidden_character, short
from hushrank.transforms.common.schema import InputError
from hushrank.transforms.storage import preflib
from hushrank.transforms.storage.arrow_rows import arrow_schema, orc_head, read_arrow, read_orc
from hushrank.transforms.storage.avro_rows import avro_schema, read_avro
from hushrank.transforms.storage.files import (
    FileFormat,
    InputFile,
    NoFilesError,
    Service,
    column_names_of,
    is_remote,
    list_files,
    open_file,
)
from hushrank.transforms.storage.sheet_rows import (
    excel_schema,
    read_excel,
    read_spss,
    spss_schema,
)
from hushrank.transforms.storage.text_lines import (
    ENCODINGS,
    HEADER_BYTES,
    WINDOWS,
    check_first_line,
    without_packing,
)
from hushrank.transforms.tables.bigquery import read_stream, streams_of
from hushrank.transforms.tables.names import DataFile, ServedTable, absolute, is_table

HEAD_ROWS = 5

_DELIMITERS = ((",", ","), (";", ";"), ("\t", "tab"))  # and their names in `input.delimiter`
_PARTITION = re.compile(r"(?P<name>[A-Za-z0-9._-]+)=\d{4}-\d\d-\d\d")
# Formats that people have but hushrank does not read, and how to convert them.
_ADVICE = {
    ".zip": "is a zip archive, which is not read; unpack it first",
    ".xls": "is a spreadsheet; save it as .xlsx, or as CSV (UTF-8, columns separated by commas)",
    ".ods": "is a spreadsheet; save it as .xlsx, or as CSV (UTF-8, columns separated by commas)",
    ".dta": "is a file of a statistics program; save it as CSV",
    **dict.fromkeys(
        (".dat", ".prn"),
        "has an ending of columns of fixed width (Winsteps, TAM), which are not read; save it as"
        " CSV with a header: a column for the person and one for each item",
    ),
    ".rds": "is a file of a statistics program; save it as CSV",
    ".rda": "is a file of a statistics program; save it as CSV",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """Header and first rows of a source.

    Attributes:
        columns: names, in the order of the file.
        rows: at most `HEAD_ROWS` rows; values as text, numbers, lists or None.
        file: the file that they come from; None: the source itself.
        files: number of files of the source.
        partition: name of a folder level such as date in `date=2026-11-20`; None: there is none.
        delimiter: the character between columns of a CSV file, as `input.delimiter` calls it.
        encoding, decimal, header_rows: settings of a CSV file, as `input` calls them.
        questions: text of the row below the names, for each column, if that row is no answer.
        folders: columns that names of folders tell, except for one of dates.
        is_csv: whether the file is CSV, or another text with columns.
        format: the value that `input.format` needs because the ending does not tell; None: none.
    """

    columns: list[str]
    rows: list[Row]
    file: str | None = None
    files: int = 1
    partition: str | None = None
    delimiter: str = ","
    encoding: str = "utf-8"
    decimal: str = "."
    header_rows: int = 1
    questions: Mapping[str, str] = field(default_factory=dict)
    folders: tuple[str, ...] = ()
    is_csv: bool = False
    format: FileFormat | None = None


Source = Path | str  # a local file or folder; or a table or objects elsewhere


def source_of(text: str) -> Source:
    """Return the place that a person names."""
    return absolute(text, os.getcwd()) if is_table(text) or is_remote(text) else Path(text)


def read_head(source: Source) -> Head:
    """Read the header and at most `HEAD_ROWS` rows of a file, or of a folder's or table's first
    file.

    Raises:
        ConfigError: the source cannot be read. No text quotes a row.
    """
    if isinstance(source, Path):
        _check(source)
    tabs = without_packing(str(source)).lower().endswith(".tsv")
    format_ = FileFormat.CSV if tabs else None
    try:
        found = list_files([str(source)], format_)
        first, delimiter = _with_delimiter(found[0])
        columns = column_names_of(first)
    except NoFilesError:
        raise ConfigError(
            f"{source}: holds no file of a format that is read; name a folder that does"
        ) from None
    except InputError as error:
        raise ConfigError.from_input(error) from None
    _check_names(first.path, columns)
    first, questions = _below_the_names(first)
    path, rows = first.path, _first_rows(first)
    _check_rows_inside(path, rows)
    head = Head(
        columns=_columns_shown(first, columns, rows),
        rows=rows,
        delimiter=delimiter,
        encoding=first.encoding,
        decimal=_decimal_of(rows) if delimiter != "," else ".",
        header_rows=first.header_rows,
        questions=questions,
        is_csv=first.format is FileFormat.CSV,
        format=format_,
    )
    if isinstance(source, str):
        many = first.table is None and path != source
        return replace(head, file=path, files=len(found)) if many else head
    return _in_folder(head, source, Path(path), len(found)) if source.is_dir() else head


def _in_folder(head: Head, source: Path, path: Path, files: int) -> Head:
    """Return the head of a folder, whose first file is at `path`, with the columns in folder
    names."""
    inside = path.relative_to(source)
    partition = _partition_of(inside)
    levels = [part.partition("=")[0] for part in inside.parts[:-1] if "=" in part]
    folders = tuple(name for name in levels if name not in (partition, *head.columns))
    return replace(
        head, file=f"{path}", files=files, partition=partition, folders=folders, format=None
    )


def _columns_shown(file: InputFile, columns: list[str], rows: Sequence[Row]) -> list[str]:
    """Names of columns; for JSON Lines the keys of these rows, as later rows are not read."""
    if file.format is not FileFormat.JSONL or not rows:
        return columns
    return list(dict.fromkeys(name for row in rows for name in row))


def _check_rows_inside(path: str, rows: Sequence[Row]) -> None:
    """Refuse one object that holds the rows in a list under a key, as programs answer requests."""
    for key, value in rows[0].items() if len(rows) == 1 else ():
        if isinstance(value, list) and value and all(isinstance(each, dict) for each in value):
            raise ConfigError(
                f"{path}: is one object with the rows in a list under {short(key)}, and hushrank"
                " reads a list of objects, or one object a line. Write that list alone into a file,"
                f" for example: jq -c '.[\"{short(key)}\"][]' {path} > rows.jsonl"
            )


def _check_names(path: str, columns: Sequence[str]) -> None:
    for column in columns:
        if hidden := hidden_character(column, lines=True):
            raise ConfigError(
                f"{path}: the name of a column contains the invisible character {hidden};"
                " rename that column"
            )


def _with_delimiter(file: InputFile) -> tuple[InputFile, str]:
    """Detect the delimiter of a file; return the file with it, and its configuration value.

    Raises:
        InputError: the first line does not name columns.
    """
    if file.format is not FileFormat.CSV:
        return file, ","
    with open_file(file) as stream:
        lines = stream.read(HEADER_BYTES).splitlines()[: HEAD_ROWS + 1]
    check_first_line(file.path, b"\n".join(lines[:1]))
    if not _is_utf8(lines):
        file = replace(file, encoding=WINDOWS)
    read = [(replace(file, delimiter=mark), name) for mark, name in _DELIMITERS]
    # if several are equal, the first one: a comma
    best = max(read, key=lambda each: _number_of_columns(each[0]))
    if _number_of_columns(best[0]) == 1 or _is_title(lines, best[0].delimiter):
        below = [line for line in lines[1:] if line.strip()][:2]
        marks = [mark.encode() for mark, _ in _DELIMITERS]
        bars = lines[0].count(b"|") if lines else 0
        if bars and all(line.count(b"|") == bars for line in below):
            raise ConfigError(
                f"{file.path}: columns seem to be separated by |, which is not read. Separate them"
                " by commas, semicolons or tabs"
            )
        if len(below) == 2 and any(all(mark in line for line in below) for mark in marks):
            raise ConfigError(
                f"{file.path}: the first line seems to be a title, as the lines below it have more"
                " columns. The first line must name the columns: delete the lines above that one"
            )
    return best


def _is_title(lines: Sequence[bytes], delimiter: str) -> bool:
    """Whether the first line has several cells, of which only the first is filled."""
    cells = [cell.strip() for cell in lines[0].split(delimiter.encode())] if lines else []
    return len(cells) > 2 and bool(cells[0]) and not any(cells[1:])


def _number_of_columns(file: InputFile) -> int:
    try:
        return len(column_names_of(file))
    except InputError:  # the header is wrong, or its quotes need another delimiter
        return 0


def _is_utf8(lines: Sequence[bytes]) -> bool:
    """Whether the first lines are UTF-8; if not, Excel most likely wrote Windows-1252."""
    try:
        b"\n".join(lines).decode()
    except UnicodeDecodeError:
        return False
    return True


def _below_the_names(file: InputFile) -> tuple[InputFile, dict[str, str]]:
    """Return the file with its header rows counted, and the questions in the second header row.

    Exports of Qualtrics have three: names, questions, and identities such as {"ImportId":"QID1"}.
    """
    if file.format is not FileFormat.CSV:
        return file, {}
    two = list(islice(_rows(file), 2))
    if len(two) < 2 or not any('"ImportId"' in text_of(value) for value in two[1].values()):
        return file, {}
    return replace(file, header_rows=3), {name: text_of(text) for name, text in two[0].items()}


def _decimal_of(rows: Sequence[Row]) -> str:
    """Decimal separator: a comma if numbers of these rows have one, otherwise a point."""
    texts = [text_of(value) for row in rows for value in row.values()]
    return "," if any(re.fullmatch(r"-?\d+,\d+", text) for text in texts) else "."


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
        raise ConfigError.from_input(error) from None
    except (
        pa.ArrowException,
        EOFError,
        OSError,
        OverflowError,
        RecursionError,
        ValueError,
        csv.Error,
    ):  # texts of these errors may quote a row
        raise ConfigError(f"{file.path}: damaged, not readable as {file.format}") from None


def _rows(file: InputFile) -> Iterator[Row]:
    if isinstance(file.table, DataFile | ServedTable):
        yield from _rows_of_table(file, file.table)
    elif file.format is FileFormat.PARQUET:
        with open_file(file) as stream, pq.ParquetFile(stream) as parquet:
            for batch in parquet.iter_batches(HEAD_ROWS):
                yield from batch.to_pylist()
    elif file.format in _BATCHES:
        with open_file(file) as stream:
            for batch in _BATCHES[file.format](stream, file):
                yield from map(_as_text, batch.slice(0, HEAD_ROWS).to_pylist())
    elif file.format is FileFormat.PREFLIB:
        with open_file(file) as stream:
            for batch, refused in preflib.read_rows(file.path, stream):
                if refused:
                    raise preflib.refusal(file.path, refused[0])
                yield from batch.slice(0, HEAD_ROWS).to_pylist()
    else:
        with open_file(file) as stream:
            encoding = "utf-8-sig" if ENCODINGS[file.encoding] is None else file.encoding
            lines = io.TextIOWrapper(stream, encoding=encoding, errors="replace", newline="")
            if file.format is FileFormat.CSV:
                rows = csv.DictReader(lines, delimiter=file.delimiter)
                yield from islice(rows, file.header_rows - 1, None)
            else:
                yield from (_json_row(line) for line in lines if line.strip())


def _rows_of_table(file: InputFile, table: DataFile | ServedTable) -> Iterator[Row]:
    if isinstance(table, ServedTable):
        for name, _ in streams_of(table, table.schema.names, "", 1):
            for batch in read_stream(table, name):
                yield from batch.slice(0, HEAD_ROWS).to_pylist()
        return
    schema = table.layout.schema
    with open_file(file) as stream, pq.ParquetFile(stream) as parquet:
        found = table.columns_of(parquet.schema_arrow, schema.names)
        for batch in parquet.iter_batches(HEAD_ROWS):
            yield from table.as_in_table(batch, schema, found).to_pylist()


def _orc_batches(stream: IO[bytes], file: InputFile) -> Iterator[pa.RecordBatch]:
    schema, stripes = orc_head(file.path, stream)
    return read_orc(stream, schema, range(len(stripes)), HEAD_ROWS)


_BATCHES: dict[FileFormat | Service, Callable[[IO[bytes], InputFile], Iterator[pa.RecordBatch]]] = {
    FileFormat.AVRO: lambda stream, file: read_avro(
        stream, avro_schema(file.path, stream), HEAD_ROWS
    ),
    FileFormat.ORC: _orc_batches,
    FileFormat.ARROW: lambda stream, file: read_arrow(
        stream, arrow_schema(file.path, stream), HEAD_ROWS
    ),
    FileFormat.EXCEL: lambda stream, file: read_excel(
        stream, excel_schema(file.path, stream), HEAD_ROWS
    ),
    FileFormat.SPSS: lambda stream, file: read_spss(
        stream, spss_schema(file.path, stream), HEAD_ROWS
    ),
}


def _as_text(row: Row) -> Row:
    """Return the row with bytes as text; the readers do not check for UTF-8."""
    return {
        name: value.decode(errors="replace") if isinstance(value, bytes) else value
        for name, value in row.items()
    }


def _json_row(line: str) -> Row:
    row = json.loads(line)
    if not isinstance(row, dict):
        raise ValueError("a line of JSON Lines must hold an object")
    return row
