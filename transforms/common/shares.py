"""Bound a partition share by share: one person may have more rows than memory holds.

A partition has all rows of some people. One that is too large to be held at once is gone through in
*shares*. Rows that decide about each other before chance does (answers to one item, rows of one
ranking) are in one share, so a share is *settled* on its own: that also tells which rows break a
rule. Of its rows and those held before, only those are *held* that may still be kept. What is held
in the end is what would be kept of all rows at once, whatever the shares; a partition that fits is
one share. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, Self, TypeVar

import numpy as np

from hushrank.transforms.common.encode import Sifted
from hushrank.transforms.common.sorting import Mask, Words

_MIX = np.uint64(0x9E3779B97F4A7C15)  # spreads numbers over shares, and decides nothing else


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
class InShares(Generic[Rows]):
    """All rows of a partition, some at a time; going through them again gives the same.

    Attributes:
        sizes: of the pieces that the partition comes in; there is at least one.
        piece: gives the piece of a number, again for each share.
        most: about the size of a share; a piece that is larger, or rows of one number, come
            together all the same.
        decides: a number for each row; rows of one number come in one share. None: no row decides
            about another before chance does, so each piece stays whole.
    """

    sizes: Sequence[int]
    piece: Callable[[int], Rows]
    most: int
    decides: Callable[[Rows], Words] | None = None

    def __iter__(self) -> Iterator[Rows]:
        numbers, sizes = np.arange(len(self.sizes)), np.array(self.sizes)
        n_shares = -(-int(sizes.sum()) // self.most)
        if n_shares <= 1:
            yield _joined(map(self.piece, numbers.tolist()))
        elif self.decides is None:
            share = (np.cumsum(sizes) - sizes) // self.most
            for mine in np.split(numbers, np.flatnonzero(np.diff(share)) + 1):
                yield _joined(map(self.piece, mine.tolist()))
        else:
            for share in range(n_shares):
                pieces = map(self.piece, numbers.tolist())
                yield _joined(p.take(of_share(self.decides(p), share, n_shares)) for p in pieces)


def of_share(words: Words, share: int, n_shares: int) -> Mask:
    """Whether a row with each of these numbers is in share `share` of `n_shares`."""
    mixed = (words * _MIX) >> np.uint64(33)  # 31 bits
    mine: Mask = (mixed * np.uint64(n_shares)) >> np.uint64(31) == share
    return mine


def hold(
    shares: Iterable[Sifted[Settled]], keep: Callable[[Held | None, Settled], Held]
) -> Generator[Sifted[None], None, Held]:
    """Go through settled shares; yield what was refused of each, and return what is held at last.

    Args:
        shares: at least one.
        keep: what may still be kept of what is held, None at first, and of another share.
    """
    held: Held | None = None
    for found in shares:
        yield Sifted(None, found.rejects, tally=found.tally)
        held = keep(held, found.rows)
    if held is None:
        raise ValueError("there are no shares to bound")
    return held


def _joined(pieces: Iterable[Rows]) -> Rows:
    parts = list(pieces)
    return parts[0] if len(parts) == 1 else type(parts[0]).concatenated(parts)
