"""Bound a partition slice by slice, because one person may have more rows than memory holds.

A partition has all rows of some people. A partition that is too large for memory is processed in
*slices*. If rows decide about each other before chance does (answers to one item, rows of one
ranking), they are in one slice. So each slice is *settled* on its own, which also shows which rows
break a rule. Of its rows and the rows held before, only those that may still be kept are *held*. In
the end exactly those rows are held that would be kept if all rows were processed at once. A
partition that fits into memory is one slice. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, Self, TypeVar

import numpy as np

from hushrank.transforms.common.encode import Sifted
from hushrank.transforms.common.sorting import Mask, Words

_MIX = np.uint64(0x9E3779B97F4A7C15)  # only spreads numbers over slices


class Divisible(Protocol):
    """Rows that can be joined and divided."""

    def take(self, rows: Mask, /) -> Self:
        """The rows for which `rows` is true, in their order."""
        ...

    @classmethod
    def concatenated(cls, parts: Sequence[Self], /) -> Self:
        """The rows of several parts; there is at least one part."""
        ...


Rows = TypeVar("Rows", bound=Divisible)
Settled = TypeVar("Settled")
Held = TypeVar("Held")


@dataclass(frozen=True, slots=True)
class InSlices(Generic[Rows]):
    """All rows of a partition, in slices; iterating again gives the same slices.

    Attributes:
        sizes: sizes of the pieces that make up the partition; there is at least one.
        piece: returns the piece with a number, again for each slice.
        most: about the size of a slice; a larger piece, or rows with one number, still come
            together.
        decides: a number for each row; rows with one number come in one slice. None: no row decides
            about another before chance does, so each piece stays whole.
    """

    sizes: Sequence[int]
    piece: Callable[[int], Rows]
    most: int
    decides: Callable[[Rows], Words] | None = None

    def __iter__(self) -> Iterator[Rows]:
        numbers, sizes = np.arange(len(self.sizes)), np.array(self.sizes)
        n_slices = -(-int(sizes.sum()) // self.most)
        if n_slices <= 1:
            yield _joined(map(self.piece, numbers.tolist()))
        elif self.decides is None:
            slice_ = (np.cumsum(sizes) - sizes) // self.most
            for mine in np.split(numbers, np.flatnonzero(np.diff(slice_)) + 1):
                yield _joined(map(self.piece, mine.tolist()))
        else:
            for slice_ in range(n_slices):
                pieces = map(self.piece, numbers.tolist())
                yield _joined(p.take(of_slice(self.decides(p), slice_, n_slices)) for p in pieces)


def of_slice(words: Words, slice_: int, n_slices: int) -> Mask:
    """Whether a row with each of these numbers is in slice `slice_` of `n_slices`."""
    mixed = (words * _MIX) >> np.uint64(33)  # 31 bits
    mine: Mask = (mixed * np.uint64(n_slices)) >> np.uint64(31) == slice_
    return mine


def hold(
    slices: Iterable[Sifted[Settled]], keep: Callable[[Held | None, Settled], Held]
) -> Generator[Sifted[None], None, Held]:
    """Process settled slices; yield what each refuses, and return the rows held at the end.

    Args:
        slices: at least one slice.
        keep: selects what may still be kept of the held rows, None at first, and the next slice.
    """
    held: Held | None = None
    for found in slices:
        yield Sifted(None, found.rejects, tally=found.tally)
        held = keep(held, found.rows)
    if held is None:
        raise ValueError("there are no slices to bound")
    return held


def _joined(pieces: Iterable[Rows]) -> Rows:
    parts = list(pieces)
    return parts[0] if len(parts) == 1 else type(parts[0]).concatenated(parts)
