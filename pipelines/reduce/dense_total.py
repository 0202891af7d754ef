"""Sums of dense counts, cut into blocks of numbers.

On an engine of many workers, no worker meets all partial sums of dense counts. An engine sums in
two steps: each bundle of rows makes a partial sum, and one worker adds all of them. Counts of the
pairs of 3 000 items take 72 MB, and a job of 10^10 rows has thousands of bundles: hundreds of
gigabytes for that one worker. Here a partial sum is cut into blocks of `BLOCK_CELLS` numbers.
Blocks of the same place meet, wherever the engine likes, and only the blocks of the total meet on
one worker. With B bundles and N numbers in the counts, a worker holds no more than the largest of

    a partial sum                 8 N bytes, for each bundle that it works on,
    all blocks of one place       8 B `BLOCK_CELLS` bytes, half of that if a bundle counts less than
                                  2^32 times, an eighth if no pair more than 255 times, and one of
                                  these blocks where the engine hands a group over piece by piece,
    the total, and its blocks     16 N bytes.

Blocks are sent in the shortest of their forms, without zeros where these are most. They hold
integers, so the sum is the same, to the bit, for every cut of the rows into bundles.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushrank.transforms.common.dense_sums import DenseFn, Integers
from hushrank.transforms.engine.beam import GlobalWindows, beam

BLOCK_CELLS = 1 << 14  # at most 1 << 16, so that 16 bits name a place in a block
Narrow = NDArray[np.integer[Any]]
_WIDTHS = (np.uint8, np.uint16, np.uint32, np.int8, np.int16, np.int32, np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """The numbers of one block of a sum.

    Attributes:
        values: in as few bytes as they need: all of the block, or those at `places`.
        places: uint16, ascending; None: `values` has all.
    """

    values: Narrow
    places: NDArray[np.uint16] | None

    @classmethod
    def of(cls, cells: Integers) -> Block:
        """These numbers, at most `BLOCK_CELLS`, at least one."""
        low, high = int(cells.min()), int(cells.max())
        narrow = next(w for w in _WIDTHS if np.iinfo(w).min <= low and high <= np.iinfo(w).max)
        values: Narrow = cells.astype(narrow)
        places = np.flatnonzero(values)
        if len(places) * (2 + values.itemsize) >= values.nbytes:
            return cls(values, None)
        return cls(values[places], places.astype(np.uint16))

    def add_to(self, total: Integers) -> None:
        """Add the block to the numbers of its place.

        Raises:
            OverflowError: a sum does not fit into 64 bits.
        """
        mine = slice(None) if self.places is None else self.places
        before = total[mine].copy()
        after = before + self.values
        # The sum of two numbers wrapped if and only if its sign differs from both of theirs.
        if (((before ^ after) & (self.values ^ after)) < 0).any():
            raise OverflowError("there are too many rows for 64-bit sums")
        total[mine] = after


def blocks_of(cells: Integers) -> Iterator[tuple[int, tuple[int, Block]]]:
    """Yield number, length and numbers of each block of a sum that is not all zero."""
    for number, start in enumerate(range(0, len(cells), BLOCK_CELLS)):
        block = cells[start : start + BLOCK_CELLS]
        if block.any():
            yield number, (len(block), Block.of(block))


def place_of(number: int) -> slice:
    """Place of a block's numbers in its sum."""
    return slice(number * BLOCK_CELLS, (number + 1) * BLOCK_CELLS)


def is_large(fn: beam.CombineFn) -> bool:
    """Whether `fn` sums more numbers than a block has, so that it is worth cutting them."""
    return isinstance(fn, DenseFn) and len(fn.cells(fn.create_accumulator())) > BLOCK_CELLS


class DenseTotal(beam.PTransform):
    """PCollection of what `fn` takes -> its one output, of zeros if there is nothing."""

    def __init__(self, fn: DenseFn[Any]) -> None:
        super().__init__()
        self._fn = fn

    def expand(self, rows: beam.PCollection) -> beam.PCollection:
        """The four steps."""
        blocks = (
            rows
            | "Partial" >> beam.ParDo(_Partial(self._fn))
            | "MeetInBlock" >> beam.GroupByKey()
            | "AddBlocks" >> beam.ParDo(_AddBlocks())
        )
        nothing = rows.pipeline | "Nothing" >> beam.Create([(0, None)])
        return (
            (nothing, blocks)
            | "WithNothing" >> beam.Flatten()
            | "MeetInTotal" >> beam.GroupByKey()
            | "Total" >> beam.ParDo(_Total(self._fn))
        )


class _Partial(beam.DoFn):
    """A bundle -> (number, Block) of each block of its sum that is not all zero."""

    def __init__(self, fn: DenseFn[Any]) -> None:
        self._fn = fn

    def start_bundle(self) -> None:
        self._sum: Any = None

    def process(self, rows: Any) -> None:
        if self._sum is None:
            self._sum = self._fn.create_accumulator()
        self._sum = self._fn.add_input(self._sum, rows)

    def finish_bundle(self) -> Iterator[Any]:
        if self._sum is None:
            return
        cells, self._sum = self._fn.cells(self._sum), None
        yield from map(GlobalWindows.windowed_value, blocks_of(cells))


class _AddBlocks(beam.DoFn):
    """(number, blocks of that place) -> (0, (number, their sum))."""

    def process(self, element: tuple[int, Iterable[tuple[int, Block]]]) -> Iterator[Any]:
        number, blocks = element
        total: Integers | None = None
        for size, block in blocks:
            if total is None:
                total = np.zeros(size, np.int64)
            block.add_to(total)
        yield 0, (number, total)


class _Total(beam.DoFn):
    """(0, all sums of blocks, and None) -> the output of `fn`."""

    def __init__(self, fn: DenseFn[Any]) -> None:
        self._fn = fn

    def process(self, element: tuple[int, Iterable[tuple[int, Integers] | None]]) -> Iterator[Any]:
        cells = self._fn.cells(self._fn.create_accumulator())
        for found in element[1]:
            if found is not None:
                number, block = found
                cells[place_of(number)] = block
        yield self._fn.extract_output(self._fn.of_cells(cells))
