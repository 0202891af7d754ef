"""Tables that hushrank returns: Arrow tables, and a ranking with interval bars for a notebook."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from html import escape
from typing import Any

import pyarrow as pa

from hushrank.flows.errors import ConfigError
from hushrank.flows.interfaces.python.arguments import plainly
from hushrank.flows.release.boards import RankedItem
from hushrank.flows.release.release import Release
from hushrank.flows.release.scale import (
    WORDS,
    Axis,
    axis_of,
    interval_text,
    score_decimals,
    score_text,
    with_unit,
)
from hushrank.flows.release.wording import certainty, interval_headings, rank_interval, verdict
from hushrank.transforms.common.plain_text import shown

MOST_BARS = 60
ACCENT, BAND = "#00796b", "#80cbc4"
WIDTH, HEIGHT, DOT = 260, 16, 4  # size of a bar and its dot, in pixels
_CELL = 'style="text-align:left;padding:2px 10px"'
_NO_WORDS = '<td aria-hidden="true"></td>'  # above the bars, whose numbers stand beside them


def ranking_html(release: Release) -> str:
    """Build the HTML of verdict, warnings and ranking; each row has a bar for its 95 % interval.

    Columns and bars are those of the terminal and the page: the thick bar is the interval of one
    item alone, the thin one that of all items at once, where the release has it. Everything is
    drawn with inline style, so nothing of the notebook changes. Only what the release publishes is
    shown.
    """
    axis = axis_of(release.scale, [line.at_once for line in release.ranking])
    decimals = score_decimals(release.scale, release.ranking)
    lines = list(zip(release.places(), release.ranking, strict=True))
    rows = "".join(_row(release, axis, decimals, place, line) for place, line in lines[:MOST_BARS])
    more = len(lines) - MOST_BARS
    more_items = f"{more:,} more items in .ranking" if more > 0 else ""
    notes = (*release.count_sentences, certainty(release), more_items, *release.warnings)
    privacy = release.privacy
    about = f"{release.name}, {release.day}, method {release.method}, epsilon {privacy.epsilon:g}"
    if not release.safe:
        about += ". UNSAFE: protects nobody"
    names = ("place", "item", WORDS[release.scale].heading, *_intervals(release), "", "rank")
    head = "".join(
        f'<th scope="col" {_CELL}>{_safe(text)}</th>' if text else _NO_WORDS for text in names
    )
    caption = f"Ranking of {release.name}, {WORDS[release.scale].first} first"
    seen = "" if release.look is None else f"<p><small>{_safe(release.look.seen)}</small></p>"
    return (
        f"<div>{seen}<p><b>{_safe(verdict(release))}</b></p>"
        f'<table style="border-collapse:collapse"><caption {_CELL}>{_safe(caption)}</caption>'
        f"<thead><tr>{head}</tr></thead>"
        f"<tbody>{rows}</tbody></table>"
        + "".join(f"<p>{_safe(note)}</p>" for note in notes if note)
        + f"<p><small>{_safe(about)}</small></p></div>"
    )


def _intervals(release: Release) -> tuple[str, ...]:
    """Headings of intervals; places in an order are no measurements, so they have none."""
    return () if release.is_order else interval_headings(release)


def _row(release: Release, axis: Axis, decimals: int, place: str, line: RankedItem) -> str:
    scale = release.scale
    ends = (line, line.at_once)[: len(_intervals(release))]
    texts = [place, line.shown, with_unit(scale, score_text(scale, line.score, decimals))]
    texts += [with_unit(scale, interval_text(scale, each, decimals)) for each in ends]
    first, item, *others = (_safe(text) for text in texts)
    cells = "".join(f"<td {_CELL}>{text}</td>" for text in others)
    named = f'<td {_CELL}>{first}</td><th scope="row" {_CELL}>{item}</th>{cells}'
    bar = f'<td aria-hidden="true">{_bar(axis, line)}</td>'
    return f"<tr>{named}{bar}<td {_CELL}>{_safe(rank_interval(line))}</td></tr>"


def _bar(axis: Axis, line: RankedItem) -> str:
    ends = (line.low, line.score, line.high, line.at_once.low, line.at_once.high)
    low, at, high, low_all, high_all = (WIDTH * axis.percent(value) / 100 for value in ends)
    middle = HEIGHT / 2
    return (
        f'<svg width="{WIDTH}" height="{HEIGHT}" aria-hidden="true">'
        f'<rect x="{low:.1f}" y="{middle - 3}" width="{max(high - low, 1):.1f}" height="6" rx="3"'
        f' fill="{BAND}"/><rect x="{low_all:.1f}" y="{middle - 0.5}"'
        f' width="{max(high_all - low_all, 1):.1f}" height="1" fill="{ACCENT}"/>'
        f'<circle cx="{at:.1f}" cy="{middle}" r="{DOT}" fill="{ACCENT}"/></svg>'
    )


def _safe(text: str) -> str:
    """Escape a text for HTML, and show hidden characters as their codes."""
    return escape(shown(text, lines=True))


MOST_ROWS = 50  # rows that a notebook shows


class Table:
    """An Arrow table with `to_arrow()`, `to_pandas()`, `to_polars()` and all of Arrow's methods.

    Libraries that take Arrow tables take it as it is: `polars.DataFrame(table)`,
    `pyarrow.table(table)`, `duckdb.sql("select * from table")`.
    """

    @plainly
    def __init__(self, table: pa.Table) -> None:
        """Args: the Arrow table."""
        self._table = table

    def to_arrow(self) -> Any:
        """Return the `pyarrow.Table`."""
        return self._table

    def to_pandas(self) -> Any:
        """Return a `pandas.DataFrame`.

        Raises:
            ConfigError: pandas is not installed.
        """
        _library("pandas")
        return self._table.to_pandas()

    def to_polars(self) -> Any:
        """Return a `polars.DataFrame`.

        Raises:
            ConfigError: polars is not installed.
        """
        return _library("polars").from_arrow(self._table)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._table.__arrow_c_stream__(requested_schema)

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the Arrow table."""
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._table, name)

    def __getitem__(self, key: Any) -> Any:
        return self._table[key]

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Iterate over the rows, as dicts."""
        return iter(self._table.to_pylist())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Table) and bool(self._table.equals(other.to_arrow()))

    __hash__ = None  # type: ignore[assignment]  # tables are compared by content

    def __repr__(self) -> str:
        return str(self._table.to_string(preview_cols=20))

    def _repr_html_(self) -> str:
        names = self._table.column_names
        head = "".join(f'<th scope="col">{_cell(name)}</th>' for name in names)
        rows = self._table.slice(0, MOST_ROWS).to_pylist()
        body = "".join(
            f"<tr>{''.join(f'<td>{_cell(row[name])}</td>' for name in names)}</tr>" for row in rows
        )
        more = len(self) - len(rows)
        note = f"<p>{more:,} more rows</p>" if more > 0 else ""
        caption = f"<caption>{len(self):,} row{'' if len(self) == 1 else 's'}</caption>"
        inside = f"{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody>"
        return f"<table>{inside}</table>{note}"


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
