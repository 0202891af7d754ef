"""Sums of integer arrays whose shape is public: they can be cut and added piece by piece."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from hushrank.transforms.engine.beam import beam

Integers = NDArray[np.int64]
Total = TypeVar("Total")


class DenseFn(beam.CombineFn, Generic[Total]):
    """A `CombineFn` whose accumulators are all as long, and add up number by number.

    `of_cells(cells(a) + cells(b))` is `a` and `b` merged.
    """

    @abstractmethod
    def cells(self, total: Total) -> Integers:
        """Return all numbers of an accumulator in one row, of the same length for each."""

    @abstractmethod
    def of_cells(self, cells: Integers) -> Total:
        """The accumulator with these numbers."""


def in_a_row(arrays: Iterable[Integers]) -> Integers:
    """Return all numbers of some arrays in one row, one array after the other."""
    return np.concatenate([array.reshape(-1) for array in arrays])


def shaped_like(arrays: Iterable[Integers], cells: Integers) -> list[Integers]:
    """Cut what `in_a_row` made into arrays of the same shapes again."""
    found, start = [], 0
    for array in arrays:
        found.append(cells[start : start + array.size].reshape(array.shape))
        start += array.size
    return found


def named_like(arrays: Mapping[str, Integers], cells: Integers) -> dict[str, Integers]:
    """Return the same arrays by name, filled from `cells`."""
    return dict(zip(arrays, shaped_like(arrays.values(), cells), strict=True))


class ArraySumFn(DenseFn[Integers]):
    """The sum of integer arrays of one shape."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """Shape of an accumulator."""

    def create_accumulator(self) -> Integers:
        """Zeros."""
        return np.zeros(self.shape, np.int64)

    def merge_accumulators(self, parts: Iterable[Integers]) -> Integers:
        """Return the sum of the parts."""
        merged = self.create_accumulator()
        for part in parts:
            merged += part
        return merged

    def extract_output(self, total: Integers) -> Any:
        """The array itself."""
        return total

    def cells(self, total: Integers) -> Integers:
        """Return the numbers of the array."""
        return total.reshape(-1)

    def of_cells(self, cells: Integers) -> Integers:
        """Return the cells as an array."""
        return cells.reshape(self.shape)
