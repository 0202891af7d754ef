"""Bound a partition slice by slice: one person may have more rows than memory holds.

A partition has all rows of some people. One that is too large to be held at once is gone through in
*slices*. Rows that decide about each other before chance does (answers to one item, rows of one
ranking) are in one slice, so a slice is *settled* on its own: that also tells which rows break a
rule. Of its rows and those held before, only those are *held* that may still be kept. What is held
in the end is what would be kept of all rows at once, whatever the slices; a partition that fits is
one slice. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, Self, TypeVar

import numpy as np

from hushrank.transforms.common.encode import Sifted
from hushrank.transforms.common.sorting import Mask, Words

_MIX = np.uint64(0x9E3779B97F4A7C15)  # spreads numbers over slices, and decides nothing else


class Divisible(Protocol):
    """Rows that can be put together and divided."""

    def take(self, rows: Mask, /) -> Self:
        """The rows where `rows` is true, in the order they are in."""
        ...

    @classmethod
    def concatenated(cls, parts: Sequence[Self], /) -> Self:
        """The rows of several parts, at least one."""
        ...


Rows = TypeVar("Rows", bound=Divisible)
Settled = TypeVar("Settled")
Held = TypeVar("Held")


@dataclass(frozen=True, slots=True)
class InSlices(Generic[Rows]):
    """All rows of a partition, some at a time; going through them again gives the same.

    Attributes:
        sizes: of the pieces that the partition comes in; there is at least one.
        piece: gives the piece of a number, again for each slice.
        most: about the size of a slice; a piece that is larger, or rows of one number, come
            together all the same.
        decides: a number for each row; rows of one number come in one slice. None: no row decides
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
    """Whether a row with each of these numbers is in slice `slice` of `n_slices`."""
    mixed = (words * _MIX) >> np.uint64(33)  # 31 bits
    mine: Mask = (mixed * np.uint64(n_slices)) >> np.uint64(31) == slice_
    return mine


def hold(
    slices: Iterable[Sifted[Settled]], keep: Callable[[Held | None, Settled], Held]
) -> Generator[Sifted[None], None, Held]:
    """Go through settled slices; yield what was refused of each, and return what is held at last.

    Args:
        slices: at least one.
        keep: what may still be kept of what is held, None at first, and of another slice.
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
