"""Tables that hushrank returns: an Arrow table, ready for other libraries."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from html import escape
from typing import Any

import pyarrow as pa

from hushrank.flows.errors import ConfigError
from hushrank.flows.interfaces.python.plain_errors import plainly
from hushrank.transforms.common.plain_text import shown

MOST_ROWS = 50  # that a notebook shows


class Table:
    """An Arrow table: `to_arrow()`, `to_pandas()`, `to_polars()`, and all that Arrow's has.

    Libraries that take Arrow tables take it as it is: `polars.DataFrame(table)`,
    `pyarrow.table(table)`, `duckdb.sql("select * from table")`.
    """

    @plainly
    def __init__(self, table: pa.Table) -> None:
        """Args: the Arrow table."""
        self._table = table

    def to_arrow(self) -> Any:
        """The `pyarrow.Table`."""
        return self._table

    def to_pandas(self) -> Any:
        """A `pandas.DataFrame`.

        Raises:
            ConfigError: pandas is not installed.
        """
        _library("pandas")
        return self._table.to_pandas()

    def to_polars(self) -> Any:
        """A `polars.DataFrame`.

        Raises:
            ConfigError: polars is not installed.
        """
        return _library("polars").from_arrow(self._table)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._table.__arrow_c_stream__(requested_schema)

    def __getattr__(self, name: str) -> Any:
        """What an Arrow table has."""
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._table, name)

    def __getitem__(self, key: Any) -> Any:
        return self._table[key]

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """The rows, as dicts."""
        return iter(self._table.to_pylist())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Table) and bool(self._table.equals(other.to_arrow()))

    __hash__ = None  # type: ignore[assignment]  # tables are compared by content

    def __repr__(self) -> str:
        return str(self._table.to_string(preview_cols=20))

    def _repr_html_(self) -> str:
        names = self._table.column_names
        head = "".join(f"<th>{_cell(name)}</th>" for name in names)
        rows = self._table.slice(0, MOST_ROWS).to_pylist()
        body = "".join(
            f"<tr>{''.join(f'<td>{_cell(row[name])}</td>' for name in names)}</tr>" for row in rows
        )
        more = len(self) - len(rows)
        note = f"<p>{more:,} more rows</p>" if more > 0 else ""
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{note}"


def _cell(value: object) -> str:
    if value is None:
        return ""
    return escape(shown(f"{value:.6g}" if isinstance(value, float) else str(value), lines=True))


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        raise ConfigError(
            f"to_{name}(): {name} is not installed. Run pip install {name}, or use to_arrow()."
        ) from None
