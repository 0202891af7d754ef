"""Public CSV file of features of items: a column `item`, and a column of numbers for each feature.

Messages may show what it holds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hushrank.flows.config.public_design import rows_of, shown

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
        values[item] = tuple(_number(row[name], f"line {line}: {name}") for name in names)
    return ItemFeatures(names, values)


def _number(text: str | None, where: str) -> float:
    try:
        number = float(text or "")
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"{where} must be a number, got {shown(text or '')}")
    return number
