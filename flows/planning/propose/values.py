"""Form of the values of a few rows. Pure; no value enters a proposal."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hushrank.flows.planning.propose.names import Row


def text_of(value: object) -> str:
    """Text of a value as in a CSV file; empty for a null."""
    return "" if value is None else str(value).strip()


def texts_of(rows: Sequence[Row], column: str) -> list[str]:
    """Non-empty values of a column, in lower case."""
    return [text.lower() for row in rows if (text := text_of(row.get(column)))]


def holds_numbers(rows: Sequence[Row], column: str) -> bool:
    """Whether a column has values and all of them are finite numbers."""
    values = texts_of(rows, column)
    return bool(values) and all(map(_is_number, values))


def numbered_column(rows: Sequence[Row], columns: Sequence[str]) -> str | None:
    """Find the first of these columns whose values are all whole numbers; None: there is none."""
    for column in columns:
        values = texts_of(rows, column)
        if values and all(value.removesuffix(".0").isdigit() for value in values):
            return column
    return None


def empty_columns(rows: Sequence[Row], columns: Sequence[str]) -> list[str]:
    """List the columns without a value in any of the rows; none if no row was read."""
    return [column for column in columns if rows and not texts_of(rows, column)]


def _is_number(value: str) -> bool:
    try:
        return math.isfinite(float(value))
    except ValueError:
        return False
