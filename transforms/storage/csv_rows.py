"""Rows of a CSV file: the meaning of a record follows from its own bytes and the header.

A record ends at a line end, so an open quote damages only its own line: that line is not a row, and
the next line is read as usual. Arrow only parses records whose quotes stand around whole fields and
are doubled inside (RFC 4180), and reads all columns as text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from hushrank.transforms.common.schema import to_numpy
from hushrank.transforms.storage.csv_header import BYTE_ORDER_MARK, Readable
from hushrank.transforms.storage.text_lines import QUOTE, Mask, Places, Records, read_records

_LINE_END = r"(?:\r\n|\r|\n)"


def read_csv_rows(
    stream: Readable,
    header: Sequence[str],
    schema: pa.Schema,
    block_bytes: int,
    *,
    multiline: bool,
    delimiter: str = ",",
) -> Iterator[tuple[pa.Table, tuple[str, ...]]]:
    """Rows of `stream`, in order, and the records that are not rows.

    Args:
        stream: CSV after its header.
        header: names of all columns.
        schema: the columns to read, each once in `header`: text, or dictionaries of text.
        block_bytes: how many bytes to read at once.
        multiline: whether quoted fields may hold line ends. A row with an open quote then swallows
            the rows after it.
        delimiter: the character between columns.
    """
    reader = _Reader(schema, tuple(header), multiline, delimiter)
    for records in read_records(stream, block_bytes, carriage_returns=True, quoted=multiline):
        yield reader.read(records)


@dataclass(frozen=True, slots=True)
class _Reader:
    schema: pa.Schema
    header: tuple[str, ...]
    multiline: bool
    delimiter: str

    def read(self, records: Records) -> tuple[pa.Table, tuple[str, ...]]:
        """The rows of a block, and its records that are not rows."""
        if (plain := self._plain_rows(records)) is not None:
            return plain
        broken = records.no_text() | self._odd_quotes(records)
        parts = list(self._parse(records, np.flatnonzero(~broken), records.blank()))
        malformed = [line for _, refused in parts for line in refused]
        tables = [rows for rows, _ in parts] or [self.schema.empty_table()]
        rows = tables[0] if len(tables) == 1 else pa.concat_tables(tables).unify_dictionaries()
        return rows, (*records.texts(broken), *malformed)

    def _plain_rows(self, records: Records) -> tuple[pa.Table, tuple[str, ...]] | None:
        """The same, if it is clear where each record ends: in nearly all blocks of most files."""
        expected = records.plain_lines()
        if not expected:
            return None
        rows, refused = self._parsed(records.content)
        # A blank line is neither; then all is looked at again.
        whole = rows is not None and len(rows) + len(refused) == expected
        return (rows, tuple(refused)) if whole else None

    def _odd_quotes(self, records: Records) -> Mask:
        """Records with a quote that neither surrounds a whole field nor is doubled inside one."""
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
        """Parse all records at once; if the number of rows is wrong, parse each half."""
        if not len(numbers):
            return
        # Arrow drops a byte order mark at the start of its text, so there no record comes first.
        start = int(records.offsets[numbers[0]])
        marked = records.content.startswith(BYTE_ORDER_MARK, start)
        text = records.joined(numbers, before=b"\n" if marked else b"")
        rows, refused = self._parsed(text)
        expected = len(numbers) - int(blank[numbers].sum())
        if rows is not None and len(rows) + len(refused) == expected:
            yield rows, refused
        elif len(numbers) == 1:
            yield self.schema.empty_table(), [records.text(int(numbers[0]))]
        else:
            half = len(numbers) // 2
            yield from self._parse(records, numbers[:half], blank)
            yield from self._parse(records, numbers[half:], blank)

    def _parsed(self, text: bytes) -> tuple[pa.Table | None, list[str]]:
        """The rows, None where Arrow gives up, and lines of too few or too many fields."""
        refused: list[str] = []

        def set_aside(row: pyarrow.csv.InvalidRow) -> str:
            refused.append(row.text)
            return "skip"

        # By position, because two columns that are not read may have the same name.
        places = [str(self.header.index(name)) for name in self.schema.names]
        try:
            table = pyarrow.csv.read_csv(
                pa.BufferReader(text),
                pyarrow.csv.ReadOptions(
                    # With threads, `set_aside` could run in one of them while this thread goes on.
                    use_threads=False,
                    block_size=len(text) + 1,
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
            return None, refused
        return table.rename_columns(self.schema.names), refused


def with_points(rows: pa.Table, numbers: Iterable[str]) -> pa.Table:
    """Rows with a decimal point instead of a comma in the columns `numbers`.

    A point becomes a comma, so that 1.000, which may be meant as a thousand, is no number.
    """
    for name in numbers:
        text = rows[name].cast(pa.large_string())
        for old, new in ((",", "\0"), (".", ","), ("\0", ".")):
            text = pc.replace_substring(text, old, new)
        rows = rows.set_column(rows.schema.get_field_index(name), name, text)
    return rows
