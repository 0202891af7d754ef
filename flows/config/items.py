"""Section `items`: the public catalogue, and how it is read from a file.

    .txt            one name a line, no header; blank lines are skipped
    .csv, .parquet  a column `item` or `name`; with both, `item` stands in the rows and `name` is
                    what people read. Other columns are ignored. In a published ranking `label` is
                    what people read, and its CSV writes an apostrophe before = + - @, which is not
                    part of the text (`transforms.common.plain_text`)
    .soc and so on  the alternatives in the header of a PrefLib file; no ballot is read

All of this is public, so messages may show it.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, Self

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import BeforeValidator, Field, PrivateAttr, StringConstraints, model_validator

from hushrank.flows.config.section import LocalPath, Section
from hushrank.flows.config.yaml_file import refuse
from hushrank.flows.errors import HushrankError
from hushrank.flows.reading import read_apart
from hushrank.pipelines.engine.memory_plan import LEAST_MEMORY
from hushrank.transforms.common.catalogue import Catalogue
from hushrank.transforms.common.local_files import MostBytes, being_read, open_to_read, read_local
from hushrank.transforms.common.plain_text import hidden_character, read_cell
from hushrank.transforms.common.schema import TOO_LARGE, InputError
from hushrank.transforms.storage import preflib

COMPLETE_ORDERS = (".soc", ".toc")  # PrefLib files in which each ballot lists all items
PREFLIB_ENDINGS = tuple(f".{kind}" for kind in preflib.KINDS)
ENDINGS = (".txt", ".csv", ".parquet", *PREFLIB_ENDINGS)

_COLUMNS = ("item", "name")
_PUBLISHED = "rank"  # column of published rankings
_LONG = "longer than 1000 characters"
MOST_CHARACTERS = 1000  # most characters of a name
# the matrix of wins has this number squared of entries; more is probably a typing error
MAX_ITEMS = 1_000_000


def _integer_as_text(value: object) -> object:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


ItemName = Annotated[
    str,
    StringConstraints(min_length=1, strip_whitespace=True),
    BeforeValidator(_integer_as_text),
]


class ItemsConfig(Section):
    """The public catalogue, in one of three forms. It must not be made from the answers.

    Attributes:
        names: the items.
        count: number of items; their names are 0 to count - 1.
        file: a text file with one name a line, a CSV or Parquet file with a column `item` or
            `name`, or a PrefLib file, of which only the header is read. With both columns, `item`
            is what stands in the rows and `name` what people read in place of it.
        first_code: for names that are no whole numbers: the whole number that means the first of
            them where the rows hold numbers in place of names, 0 or 1. Left out, it is 0 in
            text (CSV and JSON Lines, too), and a column of integers is refused.
    """

    names: Annotated[tuple[ItemName, ...], Field(strict=False)] | None = Field(
        default=None, examples=["[London, Paris]"]
    )
    count: int | None = Field(default=None, ge=2, le=MAX_ITEMS, examples=["6"])
    file: LocalPath | None = Field(default=None, examples=["items.csv"])
    first_code: Literal[0, 1] | None = Field(default=None, examples=["1"])

    _catalogue: Catalogue = PrivateAttr()
    _labels: dict[str, str] = PrivateAttr(default_factory=dict)

    @model_validator(mode="after")
    def _read(self) -> Self:
        given = [key for key in ("names", "count", "file") if getattr(self, key) is not None]
        if len(given) != 1:
            refuse(("", "needs exactly one of names, count and file"))
        try:
            self._catalogue = self._made_catalogue()
        except ValueError as error:
            refuse((given[0], str(error)))
        if self.first_code is not None and self._catalogue.has_integers:
            refuse(("first_code", "names are whole numbers, as the rows have them; remove it"))
        for name in (*self._catalogue.names, *self._labels.values()):
            if hidden := hidden_character(name):
                refuse((given[0], f"an item's name holds {hidden}, which is invisible; rename it"))
            if len(name) > MOST_CHARACTERS:
                refuse((given[0], f"item {name[:40]}… is {_LONG}; shorten it"))
        return self

    def _made_catalogue(self) -> Catalogue:
        if self.count is not None:
            return Catalogue.of_count(self.count)
        if self.file is not None:
            read = read_items(self.file)
            self._labels = read.labels
            return Catalogue(read.names, self.first_code or 0)
        return Catalogue(self.names or (), self.first_code or 0)

    def catalogue(self) -> Catalogue:
        """Items as they were read when the configuration was loaded."""
        return self._catalogue

    @property
    def codes_unclear(self) -> bool:
        """Whether nothing defines which item a whole number in the rows means."""
        return self.first_code is None and not self._catalogue.has_integers

    def labels(self) -> dict[str, str]:
        """Name that people read, for each item that has one besides its own."""
        return self._labels


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemsFile:
    """Content of a catalogue file.

    Attributes:
        names: names of the items as in the rows, in the order of the file.
        labels: text that people read instead, for each item that has one.
    """

    names: tuple[str, ...]
    labels: dict[str, str]


def read_item_names(path: Path) -> tuple[str, ...]:
    """Read only the names: see `read_items`."""
    return read_items(path).names


def read_items(path: Path) -> ItemsFile:
    """Read names and labels, without surrounding spaces.

    If several items share a label, or a label is the name of another item, the item's own name is
    appended in brackets, so that a reader knows which item is meant.

    Args:
        path: a local file.

    Raises:
        ValueError: the file cannot be read, has another ending, lacks the column, or has an entry
            that is not a name. The text gives the rule and the fix.
    """
    readers = {".txt": _read_text, ".csv": _read_csv, ".parquet": _read_parquet}
    readers |= dict.fromkeys(PREFLIB_ENDINGS, _read_preflib)
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise ValueError(f"{path} must end in {', '.join(ENDINGS)}; rename it")
    try:
        names, labels = reader(path)
    except FileNotFoundError:
        raise ValueError(f"{path}: no such file; relative paths start at the YAML file") from None
    except OSError as error:
        raise ValueError(f"{path} cannot be read ({error.strerror or 'not a file'})") from None
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not UTF-8 text; save it as UTF-8") from None
    except (pa.ArrowException, csv.Error):
        raise ValueError(f"{path} is damaged; write it again") from None
    bare = tuple(name.strip() for name in names)
    return ItemsFile(names=bare, labels=_distinct(bare, [label.strip() for label in labels]))


_Read = tuple[list[str], list[str]]  # names, and either no labels or as many labels


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
    return [line for line in lines if line.strip()], []


def _read_csv(path: Path) -> _Read:
    opened = open_to_read(path, MostBytes.LIST)
    with io.TextIOWrapper(opened, encoding="utf-8-sig", newline="") as stream:
        rows = csv.reader(stream)
        header = next(rows, [])
        item, label = _columns(path, header)
        lines = [row for row in rows if row]
        names = _cells(header, lines, item)
        return names, [] if label is None else _cells(header, lines, label)


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
        item, label = _columns(path, pq.read_schema(stream).names)
    names = _values(path, item)
    if None in names:
        raise ValueError(f"{path} has an entry without a name")
    labels = [] if label is None else _values(path, label)
    return [name or "" for name in names], [each or "" for each in labels]


def _values(path: Path, column: str) -> list[str | None]:
    with open_to_read(path, MostBytes.LIST) as stream:
        values = pq.read_table(stream, columns=[column])[column]
    if not (
        pa.types.is_integer(values.type)
        or pa.types.is_string(values.type)
        or pa.types.is_large_string(values.type)
    ):
        raise ValueError(f"{path}: column {column} must hold text or integers, not {values.type}")
    return [None if value is None else str(value) for value in values.to_pylist()]


def _read_preflib(path: Path) -> _Read:
    with open_to_read(path, MostBytes.LIST) as stream:
        return list(preflib.read_header(str(path), stream.read(preflib.HEADER_BYTES)).names), []


def _columns(path: Path, columns: list[str]) -> tuple[str, str | None]:
    """Find the column of items, and the column of labels if there is one."""
    by_word = {column.strip().lower(): column for column in reversed(columns)}
    item, name = (by_word.get(word) for word in _COLUMNS)
    if item is not None:
        return item, by_word.get("label") if _PUBLISHED in columns else name
    if name is not None:
        return name, None
    raise ValueError(
        f"{path} has no column item or name; add the header line `item`,"
        " or use a .txt file with one name a line"
    )
