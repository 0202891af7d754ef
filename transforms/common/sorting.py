"""Sort rows by keyed hashes, and bound a partition slice by slice.

numpy sorts 64-bit values with vector instructions: a million rows in 6 ms; `argsort` takes 25 and
`lexsort` by two words 250. So the value that is sorted has the row's number in its low bits and the
leading bits of the hash above them. If those bits leave an order undecided, all 128 bits decide it.
So every order here is exact; it only takes longer if bits collide.

A partition has all rows of some people, and one person may have more rows than memory holds. A
partition that is too large for memory is processed in *slices*. If rows decide about each other
before chance does (answers to one item, rows of one ranking), they are in one slice. So each slice
is *settled* on its own, which also shows which rows break a rule. Of its rows and the rows held
before, only those that may still be kept are *held*. In the end exactly those rows are held that
would be kept if all rows were processed at once. A partition that fits into memory is one slice.
Pure."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from hushrank.privacy.keyed_hash import Hashes
from hushrank.transforms.common.encode import Sifted

MORE_BITS = 5  # bits beyond half of those there are: mixed runs take longer to fix than ties
MANY_TIED = 1 / 16  # part of the rows

Words = NDArray[np.uint64]
Order = NDArray[np.int64]
Mask = NDArray[np.bool_]
_MIX = np.uint64(0x9E3779B97F4A7C15)  # only spreads numbers over slices
Settled = TypeVar("Settled")
Held = TypeVar("Held")


def sort_by(major: Hashes, minor: Hashes) -> Order:
    """Order in which equal `major` hashes are neighbours and each such run is sorted by `minor`."""
    return sort_into_runs((major[:, 0], major[:, 1]), minor).order


@dataclass(frozen=True, slots=True)
class SortedRuns:
    """Rows grouped in runs of one major hash, each run sorted by minor hashes.

    Attributes:
        order: the rows; rows with equal major and minor hash keep their order.
        starts: places in `order` at which runs start.
        repeats: places whose row has both hashes of the row before.
    """

    order: Order
    starts: Mask
    repeats: Order


def sort_into_runs(major: tuple[Words, Words], minor: Hashes) -> SortedRuns:
    """Sort once by leading bits of both hashes, then fix what these leave undecided.

    Args:
        major: the two words of each row's hash; the caller may have used leading bits of the first
            word, which are then equal, but not those of the second.
        minor: shape (m, 2).
    """
    number_bits = _number_bits(len(minor))
    bits = (64 - number_bits) // 2 + MORE_BITS  # bits of the major hash
    leading, order = order_leading(_leading_of_both(major[1], minor, bits))
    starts = new_run(*(np.take(word, order) for word in major))
    group = leading >> np.uint64(64 - number_bits - bits)
    mixed = starts & ~new_run(group)  # two major hashes share their leading bits
    if mixed.any():
        places = np.flatnonzero(np.isin(group, group[mixed]))
        rows = order[places]
        words = (minor[rows, 1], minor[rows, 0], major[0][rows], major[1][rows])
        order[places] = rows = rows[np.lexsort(words)]
        starts[places] = new_run(major[0][rows], major[1][rows])
        again = _leading_of_both(major[1][rows], minor[rows], bits)
        leading[places] = again >> np.uint64(number_bits)
    tied = np.flatnonzero((leading[1:] == leading[:-1]) & ~starts[1:])
    if len(tied) > len(order) * MANY_TIED:  # long runs need more bits than were left
        within = order_within(number_runs(starts), np.take(minor, order, axis=0))
        order = np.take(order, within)
        word = np.take(minor[:, 0], order)
        tied = np.flatnonzero((word[1:] == word[:-1]) & ~starts[1:])
    return SortedRuns(order, starts, _settle(order, tied, minor))


def _leading_of_both(major: Words, minor: Hashes, bits: int) -> Words:
    """Return as many leading bits of the second major word, followed by those of the minor hash."""
    words = minor[:, 0] >> np.uint64(bits)
    words |= major & ~np.uint64((1 << (64 - bits)) - 1)
    return words


def order_within(run: Order, hashes: Hashes) -> Order:
    """Order by hash within each run; rows with equal hashes keep their order.

    Args:
        run: shape (m,), the number of each row's run, ascending from 0.
        hashes: shape (m, 2).
    """
    bits = np.uint64(max(int(run.max(initial=0)).bit_length(), 1))
    leading, order = order_leading(run.view(np.uint64) << (64 - bits) | hashes[:, 0] >> bits)
    _settle(order, np.flatnonzero(leading[1:] == leading[:-1]), hashes)
    return order


def _settle(order: Order, tied: Order, hashes: Hashes) -> Order:
    """Sort by all bits, in place, what leading bits left undecided; return the repeated places.

    Args:
        order: rows by run and, within each, by the leading bits of their hashes.
        tied: places, ascending, whose row has the same run and leading bits as the next row.
        hashes: hashes of each row.

    Returns:
        The places whose row has the run and the hash of the row before.
    """
    same = _repeat(order, tied, hashes)
    if not same.all():  # runs of one hash, such as the rows of a contest, are in order already
        chain = np.cumsum(np.append(True, np.diff(tied) > 1))  # numbers chains of tied places
        mixed = tied[np.isin(chain, chain[~same])]
        places = np.union1d(mixed, mixed + 1)
        rows = order[places]
        chain = np.cumsum(~np.isin(places - 1, mixed))
        order[places] = rows[np.lexsort((hashes[rows, 1], hashes[rows, 0], chain))]
        same = _repeat(order, tied, hashes)
    repeats: Order = tied[same] + 1
    return repeats


def _repeat(order: Order, tied: Order, hashes: Hashes) -> Mask:
    """Whether each of these places has the hash of the next."""
    rows, others = order[tied], order[tied + 1]
    same: Mask = np.take(hashes[:, 0], rows) == np.take(hashes[:, 0], others)
    same &= np.take(hashes[:, 1], rows) == np.take(hashes[:, 1], others)
    return same


def new_run(*columns: Words | Order) -> Mask:
    """Whether each row differs from the row before in one of `columns`; True for the first row."""
    new = np.ones(len(columns[0]), np.bool_)
    new[1:] = columns[0][1:] != columns[0][:-1]
    for column in columns[1:]:
        new[1:] |= column[1:] != column[:-1]
    return new


def number_runs(new: Mask) -> Order:
    """The number of each row's run, from 0; `new` marks where runs start."""
    starts = np.flatnonzero(new)
    sizes = np.diff(np.append(starts, len(new)))
    return np.repeat(np.arange(len(starts)), sizes)  # a fifth of the time of a cumulative sum


def place_in_run(new: Mask) -> Order:
    """The place of each row in its run, from 0; `new` marks where runs start."""
    places = np.arange(len(new))
    return places - np.maximum.accumulate(np.where(new, places, 0))


def order_leading(words: Words) -> tuple[Words, Order]:
    """Sort by as many leading bits as leave room for a row's number.

    Returns these bits, sorted, and the order; rows with equal bits keep their order.
    """
    bits = np.uint64(_number_bits(len(words)))
    number = (np.uint64(1) << bits) - np.uint64(1)
    values = words & ~number
    values |= np.arange(len(words), dtype=np.uint64)
    values.sort()
    order = (values & number).view(np.int64)
    values >>= bits
    return values, order


def _number_bits(n_rows: int) -> int:
    return max(n_rows - 1, 1).bit_length()


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


@dataclass(frozen=True, slots=True)
class InSlices(Generic[Rows]):
    """Rows of a partition, in slices; iterating again gives the same slices.

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
        slices: one slice or more.
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
