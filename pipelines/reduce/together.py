"""Rows of many small files become one batch before they are encoded.

Encoding costs some tenths of a millisecond a batch, however few rows it has. No result depends on
batches: the meaning of a row follows from its own bytes.
"""

from __future__ import annotations

from contextlib import suppress

import pyarrow as pa

from hushrank.pipelines.reduce.kind import Part
from hushrank.transforms.storage.split import SMALL_BYTES, SMALL_ROWS


class Together:
    """Small parts that are encoded as one batch; most of them are files of few rows."""

    def __init__(self) -> None:
        self.parts: list[tuple[Part, pa.RecordBatch]] = []
        self._rows = self._bytes = 0

    def takes(self, part: Part, rows: pa.RecordBatch) -> bool:
        """Whether a part has the same form as those that are here, and there is room for it."""
        if not self.parts:
            return True
        (first, batch), *_ = self.parts
        alike = batch.schema == rows.schema and _format_of(first) == _format_of(part)
        return alike and self._rows < SMALL_ROWS and self._bytes < SMALL_BYTES

    def add(self, part: Part, rows: pa.RecordBatch) -> None:
        """Keep a part."""
        self.parts.append((part, rows))
        self._rows, self._bytes = self._rows + len(rows), self._bytes + rows.nbytes

    def batch(self) -> pa.RecordBatch | None:
        """Return all rows in one batch; None: there are no two parts, or Arrow cannot join them."""
        if len(self.parts) > 1:
            with suppress(pa.ArrowException):
                return pa.concat_batches([rows for _, rows in self.parts])
        return None


def _format_of(part: Part) -> str | None:
    return None if part.split is None else part.split.file.format
