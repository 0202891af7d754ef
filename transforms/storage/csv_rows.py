"""Rows of a CSV file: what a record means follows from its own bytes and the header.

A record ends at a line end, so a quote that one line leaves open is that line's own fault: the line
is no row, and the next one is read as if it were not there. Arrow parses only records whose quotes
stand around whole fields, doubled inside (RFC 4180), and takes all columns as text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from hushrank.transforms.common.schema import to_numpy
from hushrank.transforms.storage.text_lines import QUOTE, Mask, Places, Records, read_records

_LINE_END = r"(?:\r\n|\r|\n)"


def read_csv_rows(
    stream: IO[bytes],
    header: Sequence[str],
    schema: pa.Schema,
    block_bytes: int,
    *,
    multiline: bool,
    delimiter: str = ",",
) -> Iterator[tuple[pa.Table, tuple[str, ...]]]:
    """Rows of `stream`, in order, and the records that are no rows.

    Args:
        stream: CSV after the byte order mark, header included.
        header: names of all columns.
        schema: the columns to read, each of them once in `header`: text, or dictionaries of text.
        block_bytes: read at once.
        multiline: whether quoted fields may hold line ends. One row with an open quote then
            swallows those after it.
        delimiter: what stands between columns, one character.
    """
    reader = _Reader(schema, tuple(header), multiline, delimiter)
    is_first = True
    for records in read_records(stream, block_bytes, carriage_returns=True, quoted=multiline):
        yield reader.read(records, has_header=is_first)
        is_first = False


@dataclass(frozen=True, slots=True)
class _Reader:
    schema: pa.Schema
    header: tuple[str, ...]
    multiline: bool
    delimiter: str

    def read(self, records: Records, *, has_header: bool) -> tuple[pa.Table, tuple[str, ...]]:
        """The rows of a block, and its records that are no rows."""
        broken = records.no_text() | self._odd_quotes(records)
        whole = ~broken
        if has_header:
            broken[:1] = whole[:1] = False
        parts = list(self._parse(records, np.flatnonzero(whole), records.blank()))
        malformed = [line for _, refused in parts for line in refused]
        tables = [rows for rows, _ in parts] or [self.schema.empty_table()]
        rows = tables[0] if len(tables) == 1 else pa.concat_tables(tables).unify_dictionaries()
        return rows, (*records.texts(broken), *malformed)

    def _odd_quotes(self, records: Records) -> Mask:
        """Records with a quote that is neither around a whole field nor doubled inside one."""
        if QUOTE not in records.content:
            return np.zeros(len(records), np.bool_)
        inside = r'[^"]' if self.multiline else r'[^"\r\n]'
        between = self.delimiter
        cell = rf'(?:[^"{between}\r\n]+|"(?:{inside}|"")*")?'
        pattern = rf"^{cell}(?:{between}{cell})*{_LINE_END}$"
        whole = pc.match_substring_regex(records.values(), pattern)
        return ~to_numpy(whole)

    def _parse(
        self, records: Records, numbers: Places, blank: Mask
    ) -> Iterator[tuple[pa.Table, list[str]]]:
        """Parse all at once; should there be another number of rows, each half."""
        if not len(numbers):
            return
        refused: list[str] = []

        def set_aside(row: pyarrow.csv.InvalidRow) -> str:
            refused.append(row.text)
            return "skip"

        text = records.joined(numbers)
        rows = self._parsed(text, set_aside)
        expected = len(numbers) - int(blank[numbers].sum())
        if rows is not None and len(rows) + len(refused) == expected:
            yield rows, refused
        elif len(numbers) == 1:
            yield self.schema.empty_table(), [records.text(int(numbers[0]))]
        else:
            half = len(numbers) // 2
            yield from self._parse(records, numbers[:half], blank)
            yield from self._parse(records, numbers[half:], blank)

    def _parsed(self, text: bytes, set_aside: Callable[[Any], str]) -> pa.Table | None:
        # By place: two columns that are not read may have one name.
        places = [str(self.header.index(name)) for name in self.schema.names]
        try:
            table = pyarrow.csv.read_csv(
                # Arrow drops a byte order mark with which its text begins, so no record is first.
                pa.BufferReader(b"\n" + text),
                pyarrow.csv.ReadOptions(
                    # Without threads: rows are set aside in one of them while this one takes them.
                    use_threads=False,
                    block_size=len(text) + 2,
                    column_names=[str(place) for place in range(len(self.header))],
                ),
                pyarrow.csv.ParseOptions(
                    delimiter=self.delimiter,
                    newlines_in_values=self.multiline,
                    invalid_row_handler=set_aside,
                ),
                pyarrow.csv.ConvertOptions(
                    check_utf8=False,
                    column_types=dict(zip(places, self.schema.types, strict=True)),
                    include_columns=places,
                    strings_can_be_null=True,
                    null_values=[""],
                ),
            )
        except pa.ArrowException:
            return None
        return table.rename_columns(self.schema.names)
