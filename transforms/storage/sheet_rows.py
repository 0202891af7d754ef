"""Rows of Excel workbooks (.xlsx) and of SPSS files (.sav): every cell becomes a text of its own.

Of a workbook the first visible sheet is read, whose first row names the columns; results of
formulas as they were stored. A row without any cell is no row. A whole number has no decimals, so
that 1.0, as both programs store it, is the text 1; truth values are 1 and 0, dates and times are as
in 2026-11-20. What SPSS declares as missing, and an empty cell, is null. Labels of values are not
read, nor are dates of SPSS made of their numbers.

Both libraries read a file as a whole. A damaged file is refused as a whole, too.
"""

from __future__ import annotations

import datetime
import io
from collections.abc import Callable, Iterator, Sequence
from typing import IO, Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hushrank.transforms.common.schema import InputError

T = TypeVar("T")
EXACT = 2.0**53  # floats below it hold each whole number
BATCH_ROWS = 1 << 16


class BrokenSheetError(OSError):
    """Error for a damaged file; it has no text, which would quote the file."""


def excel_schema(path: str, stream: IO[bytes]) -> pa.Schema:
    """Return the columns that the first row of a workbook names, all texts.

    Raises:
        InputError: it is no workbook, is damaged, or its first row is empty.
    """
    try:
        names = _names(_cells(stream, rows=1))
    except BrokenSheetError:
        raise InputError(
            f"{path}: not a readable Excel file (.xlsx): truncated, damaged, or with a password."
            " Write it again."
        ) from None
    if not names:
        raise InputError(
            f"{path}: the first row of its first sheet is empty; it must name the columns."
        )
    return pa.schema([(name, pa.string()) for name in names])


def read_excel(stream: IO[bytes], schema: pa.Schema, most_rows: int) -> Iterator[pa.RecordBatch]:
    """Yield rows of a workbook, in order; at most `most_rows` at a time.

    Raises:
        BrokenSheetError: the file is damaged.
    """
    cells = _cells(stream)
    names = _names(cells[:1])
    rows = [row for row in cells[1:] if any(cell != "" for cell in row[: len(names)])]
    places = [names.index(name) for name in schema.names]
    chosen = [pa.array([_text(row[place]) for row in rows], pa.string()) for place in places]
    yield from _batches(pa.table(chosen, schema.names), most_rows)


def spss_schema(path: str, stream: IO[bytes]) -> pa.Schema:
    """Return the variables of an SPSS file, all texts.

    Raises:
        InputError: it is none, or is damaged.
    """
    try:
        _, names, _ = _spss(stream, heading=True)
    except BrokenSheetError:
        raise InputError(
            f"{path}: not a complete SPSS file (truncated or damaged). Write it again."
        ) from None
    return pa.schema([(name, pa.string()) for name in names])


def read_spss(stream: IO[bytes], schema: pa.Schema, most_rows: int) -> Iterator[pa.RecordBatch]:
    """Yield rows of an SPSS file, in order; at most `most_rows` at a time.

    Raises:
        BrokenSheetError: the file is damaged.
    """
    columns, _, _ = _spss(stream, wanted=schema.names)
    texts = [_texts(list(columns[name])) for name in schema.names]
    yield from _batches(pa.table(texts, schema.names), most_rows)


def _batches(table: pa.Table, most_rows: int) -> Iterator[pa.RecordBatch]:
    return iter(table.to_batches(max_chunksize=min(most_rows, BATCH_ROWS)))


def _sound(read: Callable[[], T]) -> T:
    """Return what `read` does; whatever a library raises on damaged content becomes one error."""
    try:
        return read()
    except (KeyboardInterrupt, SystemExit, MemoryError):
        raise
    except BaseException:  # a panic of Rust is no Exception; the texts may quote a cell
        raise BrokenSheetError from None


def _cells(stream: IO[bytes], rows: int | None = None) -> Sequence[Sequence[object]]:
    """Cells of the first visible sheet, by row; all rows have the same length."""
    from python_calamine import CalamineWorkbook, SheetTypeEnum, SheetVisibleEnum

    def read() -> Sequence[Sequence[object]]:
        stream.seek(0)
        book = CalamineWorkbook.from_filelike(io.BytesIO(stream.read()))
        first = next(
            each.name
            for each in book.sheets_metadata
            if each.typ == SheetTypeEnum.WorkSheet and each.visible == SheetVisibleEnum.Visible
        )
        return book.get_sheet_by_name(first).to_python(skip_empty_area=False, nrows=rows)

    return _sound(read)


def _names(cells: Sequence[Sequence[object]]) -> list[str]:
    """Names in the first row, up to the last one; a cell without a name in between has ''."""
    names = [(_text(cell) or "").strip() for cell in (cells[0] if cells else ())]
    while names and not names[-1]:
        names.pop()
    return names


def _text(cell: object) -> str | None:
    if isinstance(cell, bool):
        return str(int(cell))
    if isinstance(cell, float) and cell.is_integer() and abs(cell) < EXACT:
        return str(int(cell))
    if isinstance(cell, datetime.datetime):
        midnight = cell.time() == datetime.time()
        return (cell.date() if midnight else cell).isoformat()
    return str(cell) or None


def _spss(
    stream: IO[bytes], wanted: Sequence[str] | None = None, *, heading: bool = False
) -> tuple[dict[str, list[Any]], list[str], int]:
    """Columns by name, names of all variables, and the number of rows."""
    from pyreadstat import read_sav

    def read() -> tuple[dict[str, list[Any]], list[str], int]:
        stream.seek(0)
        columns, head = read_sav(
            io.BytesIO(stream.read()),
            metadataonly=heading,
            usecols=None if wanted is None else [*wanted],
            disable_datetime_conversion=True,
            output_format="dict",
        )
        return columns, list(head.column_names), int(head.number_rows or 0)

    return _sound(read)


def _texts(own: list[Any]) -> pa.Array:
    """A column of an SPSS file as texts; what is missing and empty texts are null.

    A column of texts holds nothing but them and blanks, one of numbers not one text.
    """
    if any(isinstance(each, str) for each in own):
        return pa.array([each if isinstance(each, str) and each else None for each in own])
    numbers = np.array(own, np.float64)
    whole = (np.abs(numbers) < EXACT) & (np.floor(numbers) == numbers)
    integers = pa.array(np.where(whole, numbers, 0).astype(np.int64)).cast(pa.string())
    floats = pa.array(numbers, from_pandas=True).cast(pa.string())
    return pc.if_else(pa.array(whole), integers, floats)
