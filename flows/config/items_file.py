"""The public catalogue as a file: its names, what people read, and the nights that list them.

    .txt            one name a line, no header; blank lines are skipped
    .csv, .parquet  a column `item` or `name`; with both, `item` stands in the rows and `name` is
                    what people read. Columns `from` and `until` are the first and the last night
                    that list an item. Other columns are ignored. In a published ranking `label` is
                    what people read, and its CSV writes an apostrophe before = + - @, which is not
                    part of the text (`transforms.common.plain_text`)
    .soc and so on  the alternatives in the header of a PrefLib file; no ballot is read

All of this is public, so messages may show it.

A path may hold `{date}`, as input paths do: then every night has a file of its own.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from hushrank.flows.config.schedule import names_night, path_on
from hushrank.flows.errors import HushrankError
from hushrank.flows.reading import read_apart
from hushrank.pipelines.engine.runner import LEAST_MEMORY
from hushrank.transforms.common.local_files import MostBytes, being_read, open_to_read, read_local
from hushrank.transforms.common.plain_text import read_cell
from hushrank.transforms.common.schema import TOO_LARGE, InputError
from hushrank.transforms.storage import preflib

PREFLIB_ENDINGS = tuple(f".{kind}" for kind in preflib.KINDS)
ENDINGS = (".txt", ".csv", ".parquet", *PREFLIB_ENDINGS)
FEWEST = 2  # names of a list that can be ranked
DAYS_BACK = 3653  # a list of no night is the newest of the last ten years

_COLUMNS = ("item", "name")
_SPAN = ("from", "until")
_PUBLISHED = "rank"  # column of published rankings
_NO_LIST = "every night has a list of its own, so write one at this path for {}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemsFile:
    """Content of a catalogue file.

    Attributes:
        names: names of the items as in the rows, in the order of the file.
        labels: text that people read instead, for each item that has one.
        dated: whether the night decides which items are listed.
    """

    names: tuple[str, ...]
    labels: dict[str, str]
    dated: bool = False


@dataclass(frozen=True, slots=True)
class _Read:
    """Entries of a file: their names, and either no labels or as many labels, and spans likewise.

    A span is the text of the first and of the last night; an empty text: without end.
    """

    names: list[str]
    labels: list[str]
    spans: list[tuple[str, str]]


def read_item_names(path: Path) -> tuple[str, ...]:
    """Read only the names: see `read_items`."""
    return read_items(path).names


def read_items(path: Path, night: date | None = None) -> ItemsFile:
    """Read names and labels, without surrounding spaces.

    If several items share a label, or a label is the name of another item, the item's own name is
    appended in brackets, so that a reader knows which item is meant.

    Args:
        path: a local file; where it holds `{date}`, the night's file is read.
        night: the night whose items are wanted; None: the items of today, or else of the last day
            before it that has two, or else of the first day: a list that is still being written
            stops no night before it.

    Raises:
        ValueError: the file cannot be read, has another ending, lacks the column, or has an entry
            that is not a name, or nights that are none or overlap. The text gives the rule and the
            fix.
    """
    if by_path := names_night(path):
        night = night or _newest(path)
        path = Path(path_on(str(path), night))
    read = _read_file(path, f"night {night}" if by_path else "")
    bare = [name.strip() for name in read.names]
    labels = [label.strip() for label in read.labels]
    if read.spans:
        listed = _listed(path, bare, read.spans, night)
        bare = [bare[place] for place in listed]
        labels = [labels[place] for place in listed if labels]
    names = tuple(bare)
    dated = by_path or bool(read.spans)
    return ItemsFile(names=names, labels=_distinct(names, labels), dated=dated)


def _newest(path: Path) -> date:
    """The last day up to today whose list can be ranked; else the last with a list, or today."""
    today = datetime.now(UTC).date()
    days = (today - timedelta(days=back) for back in range(DAYS_BACK))
    last = None
    for day in days:
        file = Path(path_on(str(path), day))
        if file.exists():
            last = last or day
            with suppress(ValueError):
                names = [name.strip() for name in _read_file(file, "").names]
                if len(set(names)) == len(names) >= FEWEST:
                    return day
    return last or today


def _read_file(path: Path, night: str) -> _Read:
    readers = {".txt": _read_text, ".csv": _read_csv, ".parquet": _read_parquet}
    readers |= dict.fromkeys(PREFLIB_ENDINGS, _read_preflib)
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise ValueError(f"{path} must end in {', '.join(ENDINGS)}; rename it")
    try:
        return reader(path)
    except FileNotFoundError:
        advice = _NO_LIST.format(night) if night else "relative paths start at the YAML file"
        raise ValueError(f"{path}: no such file; {advice}") from None
    except OSError as error:
        raise ValueError(f"{path} cannot be read ({error.strerror or 'not a file'})") from None
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not UTF-8 text; save it as UTF-8") from None
    except (pa.ArrowException, csv.Error):
        raise ValueError(f"{path} is damaged; write it again") from None


def _listed(
    path: Path, names: Sequence[str], texts: Sequence[tuple[str, str]], night: date | None
) -> list[int]:
    """Places of the entries that `night` lists, after a check of the nights of all entries."""
    spans = [
        (_day(path, name, "from", first, date.min), _day(path, name, "until", last, date.max))
        for name, (first, last) in zip(names, texts, strict=True)
    ]
    _check_spans(path, sorted(zip(names, spans, strict=True)))
    days = _days(spans) if night is None else [night]
    found = list[int]()
    for day in days:
        listed = [at for at, (first, last) in enumerate(spans) if first <= day <= last]
        if len(listed) >= FEWEST:
            return listed
        found = found or listed
    if not found:
        raise ValueError(f"{path} lists no item on {night}; correct its columns from and until")
    return found


def _check_spans(path: Path, entries: Sequence[tuple[str, tuple[date, date]]]) -> None:
    for name, (first, last) in entries:
        if last < first:
            raise ValueError(
                f"{path}: item {name} is listed from {first} until {last}, which is before it;"
                " correct one"
            )
    for (name, (_, last)), (other, (first, _)) in pairwise(entries):
        if name == other and first <= last:
            raise ValueError(
                f"{path}: two entries list item {name} on the same nights; let one end before the"
                " other begins"
            )


def _days(spans: Sequence[tuple[date, date]]) -> list[date]:
    """Today, days before it from the last on, and then later days from the first on."""
    today = datetime.now(UTC).date()
    days = {day for span in spans for day in span}
    return [today, *sorted((day for day in days if day < today), reverse=True), *sorted(days)]


def _day(path: Path, name: str, column: str, text: str, otherwise: date) -> date:
    if not text.strip():
        return otherwise
    try:
        return date.fromisoformat(text.strip())
    except ValueError:
        raise ValueError(
            f"{path}: item {name}: {column} must be a date such as 2026-11-20, or empty, got"
            f" {text[:40]!r}"
        ) from None


def _distinct(names: tuple[str, ...], labels: list[str]) -> dict[str, str]:
    known, times = set(names), Counter(labels)
    pairs = ((name, label) for name, label in zip(names, labels, strict=False) if label != name)
    return {
        name: f"{label} ({name})" if times[label] > 1 or label in known else label
        for name, label in pairs
        if label
    }


def _read_text(path: Path) -> _Read:
    lines = read_local(path, MostBytes.LIST).decode("utf-8-sig").splitlines()
    return _Read([line for line in lines if line.strip()], [], [])


def _read_csv(path: Path) -> _Read:
    opened = open_to_read(path, MostBytes.LIST)
    with io.TextIOWrapper(opened, encoding="utf-8-sig", newline="") as stream:
        rows = csv.reader(stream)
        header = next(rows, [])
        columns = _columns(path, header)
        lines = [row for row in rows if row]
    cells = {
        role: _cells(header, lines, column)
        for role, column in columns.items()
        if column is not None
    }
    return _entries(cells, len(lines))


def _entries(cells: dict[str, list[str]], n: int) -> _Read:
    spans: list[tuple[str, str]] = []
    if any(role in cells for role in _SPAN):
        first, last = (cells.get(role, [""] * n) for role in _SPAN)
        spans = list(zip(first, last, strict=True))
    return _Read(cells["item"], cells.get("label", []), spans)


def _cells(header: list[str], lines: list[list[str]], column: str) -> list[str]:
    place = header.index(column)
    cells = [row[place] if len(row) > place else "" for row in lines]
    # In a published ranking, texts that look like formulas have an apostrophe.
    return [read_cell(cell) for cell in cells] if _PUBLISHED in header else cells


def _read_parquet(path: Path) -> _Read:
    try:
        return read_apart(_parse_parquet, path, memory=LEAST_MEMORY)
    except HushrankError as error:
        raise ValueError(f"{error}") from None


def _parse_parquet(path: Path) -> _Read:
    """Parse as `_read_parquet` does, in the process that parses; raises InputError."""
    try:
        with being_read(f"{path}"):
            return _columns_of_parquet(path)
    except MemoryError:
        raise InputError(TOO_LARGE.format(path)) from None
    # Arrow raises this for a damaged file without an error number
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise InputError(f"{path} is damaged; write it again") from None
    except ValueError as error:  # the text shows only the rule: all of this is public
        raise InputError(f"{error}") from None


def _columns_of_parquet(path: Path) -> _Read:
    with open_to_read(path, MostBytes.LIST) as stream:
        columns = _columns(path, pq.read_schema(stream).names)
    cells = {
        role: _values(path, column, dates=role in _SPAN)
        for role, column in columns.items()
        if column is not None
    }
    if None in cells["item"]:
        raise ValueError(f"{path} has an entry without a name")
    texts = {role: [value or "" for value in values] for role, values in cells.items()}
    return _entries(texts, len(texts["item"]))


def _values(path: Path, column: str, *, dates: bool) -> list[str | None]:
    with open_to_read(path, MostBytes.LIST) as stream:
        values = pq.read_table(stream, columns=[column])[column]
    if not (
        (pa.types.is_date(values.type) if dates else pa.types.is_integer(values.type))
        or pa.types.is_string(values.type)
        or pa.types.is_large_string(values.type)
    ):
        what = "dates or text" if dates else "text or integers"
        raise ValueError(f"{path}: column {column} must hold {what}, not {values.type}")
    return [None if value is None else str(value) for value in values.to_pylist()]


def _read_preflib(path: Path) -> _Read:
    with open_to_read(path, MostBytes.LIST) as stream:
        header = preflib.read_header(str(path), stream.read(preflib.HEADER_BYTES))
    return _Read(list(header.names), [], [])


def _columns(path: Path, columns: list[str]) -> dict[str, str | None]:
    """Find the column of items, and those of labels and nights, which may be missing."""
    by_word = {column.strip().lower(): column for column in reversed(columns)}
    item, name = (by_word.get(word) for word in _COLUMNS)
    spans = {word: by_word.get(word) for word in _SPAN}
    if item is not None:
        label = by_word.get("label") if _PUBLISHED in columns else name
        return {"item": item, "label": label, **spans}
    if name is not None:
        return {"item": name, **spans}
    raise ValueError(
        f"{path} has no column item or name; add the header line `item`,"
        " or use a .txt file with one name a line"
    )
