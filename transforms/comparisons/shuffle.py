"""Carry owned rows to where all rows of their owner meet.

Rows of a few owners make a *bucket*, which is bounded on its own; its rows fit into a processor's
cache. Some buckets make a *partition*, the unit that the engine moves. A *parcel* is what one
reader has for one partition, bucket by bucket. Its rows are inside it where machines differ, unless
they are so many that they wait in a file (`pipelines.reduce.heavy_parcels`), and where rows are so
few that no engine runs; on Beam's local engine they are in a spill file and the parcel says where,
for that engine would keep every row in memory and copy it several times on its way (3 of 6 s for 10
million rows).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from hushrank.transforms.common.sorting import Order, Words
from hushrank.transforms.comparisons.owned_rows import OwnedRows
from hushrank.transforms.storage.spill_file import Place, Spill, SpillFile, further

BUCKET_ROWS = 1 << 17  # 24 bytes each; of 1 << 20 rows, bounding takes twice the time a row
WORD_BYTES = 8
MAX_LOCAL_PARTITION_BITS = 8
MAX_BUCKET_BITS = 5  # so a partition has at most 4 million rows, 100 MB


@dataclass(frozen=True, slots=True)
class Partitioning:
    """How owners are divided: by the leading bits of the first word of their pseudonym.

    Attributes:
        partition_bits: 2^this partitions.
        bucket_bits: 2^this buckets in each.
    """

    partition_bits: int
    bucket_bits: int

    @classmethod
    def of_rows(cls, n_rows: int, partition_rows: int = BUCKET_ROWS << MAX_BUCKET_BITS) -> Self:
        """Buckets of about `BUCKET_ROWS` and partitions of `partition_rows` at most, if no owner
        has that many."""
        bits = (n_rows // BUCKET_ROWS).bit_length()
        most_bits = min(max(partition_rows // BUCKET_ROWS, 1).bit_length() - 1, MAX_BUCKET_BITS)
        bucket_bits = min(max(bits - MAX_LOCAL_PARTITION_BITS, 0), most_bits)
        return cls(bits - bucket_bits, bucket_bits)


@dataclass(frozen=True, slots=True, eq=False)
class OwnedParcel:
    """What one reader has for one partition.

    Attributes:
        edges: bucket k has the rows edges[k] to edges[k + 1].
        words: of a row.
        content: the rows, or the place where they start.
    """

    edges: tuple[int, ...]
    words: int
    content: Words | Place


def pack(
    rows: OwnedRows, partitioning: Partitioning, spill: SpillFile | None
) -> Iterator[tuple[int, OwnedParcel]]:
    """Parcels of `rows` by partition; empty ones are left out.

    Args:
        rows: any rows.
        partitioning: the same for every reader.
        spill: where the rows go; None: into the parcels.
    """
    bits = partitioning.partition_bits + partitioning.bucket_bits
    bucket = _leading(rows.words[0], bits)
    # No further than by bucket: rows then move in long runs, in a quarter of the time.
    order = np.argsort(bucket, kind="stable")
    edges = np.append(0, np.cumsum(np.bincount(bucket, minlength=1 << bits)))
    buckets = 1 << partitioning.bucket_bits
    sizes, n_words = np.diff(edges[::buckets]), len(rows.words)
    place = None if spill is None else spill.append(_laid_out(rows.words, order, sizes))
    for partition in np.flatnonzero(sizes).tolist():
        mine = edges[partition * buckets : (partition + 1) * buckets + 1]
        if place is None:  # in memory of its own, which is free when the parcel is
            part: Words | int = rows.take(order[mine[0] : mine[-1]]).words
        else:
            part = place + n_words * int(mine[0]) * WORD_BYTES
        yield partition, OwnedParcel(tuple((mine - mine[0]).tolist()), n_words, part)


def _laid_out(words: Words, order: Order, sizes: NDArray[np.int64]) -> Words:
    """The rows of each partition, one partition after the other, and in each word by word.

    A thread that takes hundreds of numpy's steps gives way to others at each, and waits to go on;
    so the parts are copied through memory views, which do not give way.

    Args:
        words: shape (words of a row, m).
        order: of the rows, partition by partition.
        sizes: rows of each partition.
    """
    n_words, m = words.shape
    laid = np.empty(n_words * m, np.uint64)
    ends = np.cumsum(sizes).tolist()
    for number, word in enumerate(words):
        ordered, into = np.take(word, order).data, laid.data
        for first, end in itertools.pairwise([0, *ends]):
            start = n_words * first + number * (end - first)
            into[start : start + end - first] = ordered[first:end]
    return laid


def _leading(words: Words, bits: int) -> NDArray[np.unsignedinteger]:
    """The leading `bits` of each word, in as few bytes as they need: numpy sorts these by radix."""
    if bits == 0:
        return np.zeros(len(words), np.uint8)
    return (words >> np.uint64(64 - bits)).astype(np.min_scalar_type((1 << bits) - 1))


@dataclass(frozen=True, slots=True)
class Bucket:
    """The rows of some owners, all of them.

    Attributes:
        number: of the bucket in its partition.
        parts: of each parcel: its rows of this bucket, or where they are.
        n_rows: how many they are.
    """

    number: int
    parts: tuple[Words | _Waiting, ...]
    n_rows: int

    def rows(self) -> OwnedRows:
        """All rows at once."""
        return OwnedRows.concatenate(list(self.pieces()))

    def pieces(self) -> Iterator[OwnedRows]:
        """All rows, parcel by parcel."""
        for part in self.parts:
            yield OwnedRows(_fetched(part))


@dataclass(frozen=True, slots=True)
class _Waiting:
    """Rows in a file: the columns of a parcel from `first` to before `end`."""

    spill: Spill
    parcel: OwnedParcel
    first: int
    end: int


def unpack(
    parcels: Iterable[OwnedParcel], spill: Spill | None, rows_at_once: int | None = None
) -> Iterator[Bucket]:
    """One partition, bucket by bucket; empty buckets are left out.

    Args:
        parcels: all of the partition.
        spill: where their rows are, if not in them.
        rows_at_once: of a partition with more, rows in files are read when a bucket is asked for
            them.
    """
    parcels = list(parcels)
    n_rows = sum(parcel.edges[-1] for parcel in parcels)
    waiting = spill is not None and rows_at_once is not None and n_rows > rows_at_once
    whole = [
        None if waiting and not isinstance(parcel.content, np.ndarray) else _words(parcel, spill)
        for parcel in parcels
    ]
    for bucket in range(len(parcels[0].edges) - 1):
        parts: list[Words | _Waiting] = []
        for parcel, words in zip(parcels, whole, strict=True):
            first, end = parcel.edges[bucket : bucket + 2]
            if words is not None:
                parts.append(words[:, first:end])
            elif spill is not None and end > first:
                parts.append(_Waiting(spill, parcel, first, end))
        size = sum(parcel.edges[bucket + 1] - parcel.edges[bucket] for parcel in parcels)
        if size:
            yield Bucket(bucket, tuple(parts), size)


def _fetched(part: Words | _Waiting) -> Words:
    if not isinstance(part, _Waiting):
        return part
    parcel = part.parcel
    if isinstance(parcel.content, np.ndarray):
        raise ValueError("the parcel holds its rows itself")
    words = np.empty((parcel.words, part.end - part.first), np.uint64)
    for number, row in enumerate(words):
        place = number * parcel.edges[-1] + part.first
        part.spill.read(row, further(parcel.content, place * words.itemsize))
    return words


def _words(parcel: OwnedParcel, spill: Spill | None) -> Words:
    if isinstance(parcel.content, np.ndarray):
        return parcel.content
    if spill is None:
        raise ValueError("the parcel's rows are in a spill file, and none is given")
    words = np.empty((parcel.words, parcel.edges[-1]), np.uint64)
    spill.read(words, parcel.content)
    return words
