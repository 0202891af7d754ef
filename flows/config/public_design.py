"""Public CSV file of the number of comparisons of each item, or of each pair of items.

    item,exposure            in how many comparisons each item takes part
    left,right,comparisons   how often each pair is compared; other pairs: never
    left,right               which pairs people are asked about; the others: never

The numbers are public: they come from a schedule or from the questions asked, never from the
answers. Messages may show them.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import numpy as np
import scipy
from numpy.typing import NDArray

from hushrank.transforms.common.local_files import MostBytes, open_to_read

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
