"""Section `items`: the public catalogue (`items_file` reads it from a file), and public designs.

Public CSV file of the number of comparisons of each item, or of each pair of items.

    item,exposure            in how many comparisons each item takes part
    left,right,comparisons   how often each pair is compared; other pairs: never
    left,right               which pairs people are asked about; the others: never

The numbers are public: they come from a schedule or from the questions asked, never from the
answers. Messages may show them.

Public CSV file of features of items: a column `item`, and a column of numbers for each feature.

Messages may show what it holds.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal, Self

import numpy as np
import scipy
from numpy.typing import NDArray
from pydantic import (
    BeforeValidator,
    Field,
    PrivateAttr,
    StringConstraints,
    ValidationInfo,
    field_validator,
    model_validator,
)

from hushrank.flows.config.discover import NOT_FOUND, DiscoverConfig
from hushrank.flows.config.schedule import date_problem
from hushrank.flows.config.section import NIGHT, LocalPath, Section
from hushrank.flows.config.yaml_file import refuse
from hushrank.transforms.common.catalogue import Catalogue
from hushrank.transforms.common.local_files import MostBytes, open_to_read
from hushrank.transforms.common.plain_text import hidden_character

COMPLETE_ORDERS = (".soc", ".toc")  # PrefLib files in which each ballot lists all items
_LONG = "longer than 1000 characters"
MOST_CHARACTERS = 1000  # most characters of a name
# the matrix of wins has this number squared of entries; more is probably a typing error
MAX_ITEMS = 1_000_000


def spelled_out(value: object) -> object:
    """Return the section for which `items: discover` is short; another value as it is."""
    return {"discover": {}} if value == "discover" else value


def _integer_as_text(value: object) -> object:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


ItemName = Annotated[
    str,
    StringConstraints(min_length=1, strip_whitespace=True),
    BeforeValidator(_integer_as_text),
]


class ItemsConfig(Section):
    """The catalogue, in one of four forms. But for `discover` it must not be made from the answers.

    Attributes:
        names: the items.
        count: number of items; their names are 0 to count - 1.
        file: a text file with one name a line, a CSV or Parquet file with a column `item` or
            `name`, or a PrefLib file, of which only the header is read. With both columns, `item`
            is what stands in the rows and `name` what people read in place of it. Columns `from`
            and `until` hold the first and the last night that list an item; or the path holds
            {date}, and every night has a file of its own.
        first_code: for names that are no whole numbers: the whole number that means the first of
            them where the rows hold numbers in place of names, 0 or 1. Left out, it is 0 in
            text (CSV and JSON Lines, too), and a column of integers is refused.
        discover: the names that enough people write; `items: discover` is short for
            `items: {discover: {}}`.
    """

    names: Annotated[tuple[ItemName, ...], Field(strict=False)] | None = Field(
        default=None, examples=["[London, Paris]"]
    )
    count: int | None = Field(default=None, ge=2, le=MAX_ITEMS, examples=["6"])
    file: LocalPath | None = Field(default=None, examples=["items.csv"])
    first_code: Literal[0, 1] | None = Field(default=None, examples=["1"])
    discover: DiscoverConfig | None = Field(default=None, examples=["{most_items: 20}"])

    _labels: dict[str, str] = PrivateAttr(default_factory=dict)
    _dated: bool = PrivateAttr(default=False)
    _night: date | None = PrivateAttr(default=None)
    _found: tuple[str, ...] = PrivateAttr(default=NOT_FOUND)

    @field_validator("file")
    @classmethod
    def _check_date(cls, file: Path | None) -> Path | None:
        if file is not None and (problem := date_problem(str(file))):
            refuse(("", problem))
        return file

    @model_validator(mode="after")
    def _read(self, info: ValidationInfo) -> Self:
        self._night = (info.context or {}).get(NIGHT)
        forms = ("names", "count", "file", "discover")
        given = [key for key in forms if getattr(self, key) is not None]
        if len(given) != 1:
            refuse(("", "needs exactly one of names, count, file and discover"))
        if self.discover is not None and self.first_code is not None:
            refuse(("first_code", "a number in the rows is a name with discover; remove it"))
        try:
            catalogue = self.catalogue
        except ValueError as error:
            of_night = f" (items of {self._night})" if self._dated and self._night else ""
            refuse((given[0], f"{error}{of_night}"))
        if self.first_code is not None and self._dated:
            refuse(("first_code", "a number would mean another item on another night; remove it"))
        if self.first_code is not None and catalogue.has_integers:
            refuse(("first_code", "names are whole numbers, as the rows have them; remove it"))
        for name in (*catalogue.names, *self._labels.values()):
            if hidden := hidden_character(name):
                refuse((given[0], f"an item's name holds {hidden}, which is invisible; rename it"))
            if len(name) > MOST_CHARACTERS:
                refuse((given[0], f"item {name[:40]}… is {_LONG}; shorten it"))
        return self

    @cached_property
    def catalogue(self) -> Catalogue:
        """Items, as they were read when the configuration was loaded."""
        if self.discover is not None:
            from hushrank.transforms.common.written_names import NameRules

            return Catalogue(self._found, written=NameRules(self.discover.deny))
        if self.count is not None:
            return Catalogue.of_count(self.count)
        if self.file is not None:
            from hushrank.flows.config.items_file import read_items

            read = read_items(self.file, self._night)
            self._labels, self._dated = read.labels, read.dated
            return Catalogue(read.names, self.first_code or 0)
        return Catalogue(self.names or (), self.first_code or 0)

    @property
    def dated(self) -> bool:
        """Whether the night decides which items are listed."""
        self.catalogue  # noqa: B018 - reads the file, if it was not read
        return self._dated

    def of_night(self) -> tuple[str, ...] | None:
        """Items that the night lists; None: all nights have one list."""
        return self.catalogue.names if self.dated else None

    @property
    def codes_unclear(self) -> bool:
        """Whether nothing defines which item a whole number in the rows means."""
        named = self.discover is not None or self.catalogue.has_integers
        return self.first_code is None and not named

    @property
    def unknown(self) -> bool:
        """Whether names are still to be found, so that `catalogue` stands for any two."""
        return self.discover is not None and self._found == NOT_FOUND

    def identity(self, counted: Mapping[str, str] | None = None) -> object:
        """Return what identifies the catalogue in a job: its names, or the rules that find them.

        Args:
            counted: text by which an absolute path counts, where it is another.
        """
        if self.discover is not None:
            return {"discover": self.discover.model_dump(mode="json")}
        if self.dated:
            return {"by night": (counted or {}).get(str(self.file), str(self.file))}
        return self.catalogue.names

    def with_found(self, names: tuple[str, ...]) -> Self:
        """Return a copy whose catalogue are these found names, at least two."""
        copied = self.model_copy()
        copied._found = names
        copied.__dict__.pop("catalogue", None)
        return copied

    def with_listed(self, names: tuple[str, ...]) -> Self:
        """Return a copy with these items, which the night of a draw listed."""
        copied = self.model_copy()
        copied.__dict__["catalogue"] = Catalogue(names)
        return copied

    def labels(self) -> dict[str, str]:
        """Name that people read, for each item that has one besides its own."""
        return self._labels


ITEMS, PAIRS = ("item", "exposure"), ("left", "right", "comparisons")
MOST_SHOWN = 40  # characters of a cell that a message shows


@dataclass(frozen=True, slots=True)
class PublicDesign:
    """Rows of a public design file.

    Attributes:
        lines: line of each row in the file.
        items: names in each row: one name, or the two of a pair.
        numbers: comparisons, of each row; finite and >= 0.
        factor: factor by which the numbers are multiplied.
    """

    lines: tuple[int, ...]
    items: tuple[tuple[str, ...], ...]
    numbers: tuple[float, ...]
    factor: float = 1.0

    @property
    def of_pairs(self) -> bool:
        """Whether the file states numbers of pairs."""
        return len(self.items[0]) == 2

    @property
    def comparisons(self) -> float:
        """Total number of comparisons."""
        return self.factor * sum(self.numbers) / (1 if self.of_pairs else 2)

    def named(self) -> list[list[str]]:
        """Names of the items of each row, in the order of the file."""
        return sorted(sorted(items) for items in self.items)

    def of_size(self, comparisons: float) -> Self:
        """Return the same design with another number of comparisons."""
        return replace(self, factor=self.factor * comparisons / self.comparisons)

    def exposures(self, names: Sequence[str]) -> NDArray[np.float64]:
        """Number of comparisons of each item, in the order of `names`.

        Raises:
            ValueError: as `pairs`, or `names` and the items of the file are not the same.
        """
        if self.of_pairs:
            return np.asarray(self.pairs(names).sum(axis=1))
        places = self._places(names)[:, 0]
        self._refuse_twice(places)
        missing = np.flatnonzero(np.bincount(places, minlength=len(names)) == 0)
        if len(missing):
            name = shown(names[missing[0]])
            raise ValueError(f"item {name} is missing; add a line for every item")
        exposures = np.empty(len(names))
        exposures[places] = self.numbers
        for name, exposure in zip(names, exposures, strict=True):
            if exposure > exposures.sum() - exposure:
                raise ValueError(
                    f"item {shown(name)} was shown more often than all others together, which"
                    " comparisons of two different items cannot do; correct its exposure"
                )
        return np.asarray(self.factor * exposures)

    def pairs(self, names: Sequence[str]) -> NDArray[np.float64]:
        """Number of comparisons of each pair, shape (n, n): symmetric, zero on the diagonal.

        Raises:
            ValueError: a name is not among `names`, an item meets itself, a pair stands twice, or
                items fall into groups that never meet.
        """
        left, right = self._places(names).T
        for line, i, j in zip(self.lines, left, right, strict=True):
            if i == j:
                raise ValueError(f"line {line}: an item does not meet itself; remove the line")
        self._refuse_twice(np.minimum(left, right) * len(names) + np.maximum(left, right))
        design = np.zeros((len(names), len(names)))
        design[left, right] = design[right, left] = self.numbers
        groups, group = scipy.sparse.csgraph.connected_components(design > 0)
        if groups > 1:
            apart = shown(names[int(np.argmax(group != group[0]))])
            raise ValueError(
                f"items {shown(names[0])} and {apart} are in groups that never meet, so no"
                " comparison tells which is better; add a pair that joins them, or rank each group"
                " in a job of its own"
            )
        return np.asarray(self.factor * design)

    def _places(self, names: Sequence[str]) -> NDArray[np.int64]:
        """Positions of the items of each row, shape (rows, 1 or 2)."""
        place = {name: k for k, name in enumerate(names)}
        for line, items in zip(self.lines, self.items, strict=True):
            for item in items:
                if item not in place:
                    text = f"line {line}: item {shown(item)} is not in the catalogue"
                    raise ValueError(f"{text}; remove the line")
        return np.array([[place[item] for item in items] for items in self.items], np.int64)

    def _refuse_twice(self, keys: NDArray[np.int64]) -> None:
        _, first, times = np.unique(keys, return_index=True, return_counts=True)
        if (times > 1).any():
            key = keys[first[times > 1][0]]
            again = int(np.flatnonzero(keys == key)[1])
            what = " and ".join(map(shown, self.items[again]))
            noun = "pair" if self.of_pairs else "item"
            raise ValueError(
                f"line {self.lines[again]}: {noun} {what} stands twice; remove the line"
            )


def read_asked_pairs(path: Path) -> PublicDesign:
    """Read the pairs that the CSV file at `path` names in its columns `left` and `right`.

    Each pair has the number 1.

    Raises:
        ValueError: the file cannot be read, has other columns or no row; the text gives the rule
            and the fix.
    """
    header, rows = rows_of(path)
    if not {"left", "right"} <= header or not rows:
        raise ValueError("needs rows, under the header left,right")
    return PublicDesign(
        tuple(line for line, _ in rows),
        tuple(tuple((row[name] or "").strip() for name in ("left", "right")) for _, row in rows),
        (1.0,) * len(rows),
    )


def read_public_design(path: Path) -> PublicDesign:
    """Read the rows of the file at `path`.

    Raises:
        ValueError: the file cannot be read, has other columns or no row, or a number is none; the
            text gives the rule and the fix.
    """
    header, rows = rows_of(path)
    columns = next((each for each in (ITEMS, PAIRS) if set(each) <= header), None)
    if columns is None or not rows:
        raise ValueError(f"needs rows, under the header {','.join(ITEMS)} or {','.join(PAIRS)}")
    *named, counted = columns
    design = PublicDesign(
        tuple(line for line, _ in rows),
        tuple(tuple((row[name] or "").strip() for name in named) for _, row in rows),
        tuple(_number(row[counted], f"line {line}: {counted}") for line, row in rows),
    )
    if not any(design.numbers):
        raise ValueError(f"every {counted} is 0; write how often items are compared")
    return design


def rows_of(path: Path) -> tuple[set[str], list[tuple[int, dict[str, str | None]]]]:
    """Read the columns of the CSV file, and each row with its line number.

    Raises:
        ValueError: the file cannot be read, names a column twice, or a row has other cells than the
            header; the text gives the rule and the fix.
    """
    try:
        opened = open_to_read(path, MostBytes.LIST)
        with io.TextIOWrapper(opened, encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file)
            names = list(reader.fieldnames or ())
            rows = [(reader.line_num, row) for row in reader]
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror}") from None
    except (UnicodeDecodeError, csv.Error):
        raise ValueError("is no CSV file in UTF-8; save it as that") from None
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ValueError(f"column {shown(twice)} stands twice in the header; remove one")
    for line, row in rows:
        if None in row or None in row.values():
            raise ValueError(
                f"line {line}: has {'more' if None in row else 'fewer'} cells than the header names"
                f" columns ({len(names)}); correct it, and put a text with a comma in quotes"
            )
    return set(names), rows


def _number(text: str | None, where: str) -> float:
    try:
        number = float(text or "")
    except ValueError:
        number = math.nan
    if not (math.isfinite(number) and number >= 0):
        raise ValueError(f"{where} must be a number >= 0, got {shown(text or '')}")
    return number


def shown(text: str) -> str:
    """Quote the start of a text of a public file."""
    return repr(text[:MOST_SHOWN])


ITEM = "item"


@dataclass(frozen=True, slots=True)
class ItemFeatures:
    """Features of items.

    Attributes:
        names: names of the features, in alphabetical order.
        values: values of each item, one number for each feature; finite.
    """

    names: tuple[str, ...]
    values: dict[str, tuple[float, ...]]

    def of(self, items: Sequence[str]) -> NDArray[np.float64]:
        """Features of `items`, shape (n, features).

        Raises:
            ValueError: the file lacks one of them or names another, or a feature is the same for
                all items.
        """
        for item in items:
            if item not in self.values:
                raise ValueError(f"item {shown(item)} is missing; add a line for every item")
        for item in self.values:
            if item not in set(items):
                raise ValueError(f"item {shown(item)} is not in the catalogue; remove the line")
        found = np.array([self.values[item] for item in items])
        for name, column in zip(self.names, found.T, strict=True):
            if (column == column[0]).all():
                raise ValueError(f"{name} is the same for all items; remove the column")
        return found

    def content(self) -> dict[str, object]:
        """Content of the file, whatever the order of its lines."""
        return {"names": list(self.names), "values": dict(sorted(self.values.items()))}


def read_item_features(path: Path) -> ItemFeatures:
    """Read the CSV file at `path`.

    Raises:
        ValueError: the file cannot be read, lacks a column, names an item twice, or a cell is no
            number; the text gives the rule and the fix.
    """
    header, rows = rows_of(path)
    names = tuple(sorted(header - {ITEM}))
    if ITEM not in header or not names or not rows:
        raise ValueError(f"needs rows, under a header with {ITEM} and a column for each feature")
    values: dict[str, tuple[float, ...]] = {}
    for line, row in rows:
        item = (row[ITEM] or "").strip()
        if item in values:
            raise ValueError(f"line {line}: item {shown(item)} stands twice; remove the line")
        values[item] = tuple(_feature_value(row[name], f"line {line}: {name}") for name in names)
    return ItemFeatures(names, values)


def _feature_value(text: str | None, where: str) -> float:
    try:
        number = float(text or "")
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"{where} must be a number, got {shown(text or '')}")
    return number
