"""Carry owned rows to where all rows of their owner meet.

Rows of a few owners make a *bucket*, which is bounded on its own; its rows fit into a processor's
cache. Some buckets make a *partition*, the unit that the engine moves. A *parcel* is what one
reader has for one partition, bucket by bucket. Its rows are inside it where machines differ; on one
machine they are in a spill file and the parcel says where, for the local engine would keep every
row in memory and copy it several times on its way (3 of 6 s for 10 million rows).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from hushrank.transforms.owned_rows import OwnedRows
from hushrank.transforms.sorting import Words, order_leading
from hushrank.transforms.spill_file import SpillFile

BUCKET_ROWS = 1 << 17  # 24 bytes each; of 1 << 20 rows, bounding takes twice the time a row
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
    def of_rows(cls, n_rows: int) -> Partitioning:
        """Buckets of at most about `BUCKET_ROWS`, if no owner has that many."""
        bits = (n_rows // BUCKET_ROWS).bit_length()
        bucket_bits = min(max(bits - MAX_LOCAL_PARTITION_BITS, 0), MAX_BUCKET_BITS)
        return cls(bits - bucket_bits, bucket_bits)


@dataclass(frozen=True, slots=True)
class Parcel:
    """What one reader has for one partition.

    Attributes:
        edges: bucket k has the rows edges[k] to edges[k + 1].
        words: of a row.
        content: the rows, or the place in the spill file where they start.
    """

    edges: tuple[int, ...]
    words: int
    content: bytes | int


def pack(
    rows: OwnedRows, partitioning: Partitioning, spill: SpillFile | None
) -> Iterator[tuple[int, Parcel]]:
    """Parcels of `rows` by partition; empty ones are left out.

    Args:
        rows: any rows.
        partitioning: the same for every reader.
        spill: where the rows go; None: into the parcels.
    """
    _, order = order_leading(rows.words[0])
    words = rows.take(order).words
    buckets = 1 << partitioning.bucket_bits
    bits = partitioning.partition_bits + partitioning.bucket_bits
    firsts = np.arange(1 << bits, dtype=np.uint64) << (64 - bits)
    edges = np.append(np.searchsorted(words[0], firsts), len(rows))
    for partition in range(1 << partitioning.partition_bits):
        mine = edges[partition * buckets : (partition + 1) * buckets + 1]
        if mine[-1] > mine[0]:
            share = np.ascontiguousarray(words[:, mine[0] : mine[-1]])
            content = share.tobytes() if spill is None else spill.append(share)
            yield partition, Parcel(tuple((mine - mine[0]).tolist()), len(share), content)


def unpack(parcels: Iterable[Parcel], spill: SpillFile | None) -> Iterator[OwnedRows]:
    """The rows of one partition, bucket by bucket; empty buckets are left out."""
    opened = [(parcel.edges, _words(parcel, spill)) for parcel in parcels]
    for bucket in range(len(opened[0][0]) - 1):
        shares = [words[:, edges[bucket] : edges[bucket + 1]] for edges, words in opened]
        rows = OwnedRows(np.concatenate(shares, axis=1))
        if len(rows):
            yield rows


def _words(parcel: Parcel, spill: SpillFile | None) -> Words:
    shape = (parcel.words, parcel.edges[-1])
    if isinstance(parcel.content, bytes):
        return np.frombuffer(parcel.content, np.uint64).reshape(shape)
    if spill is None:
        raise ValueError("the parcel's rows are in a spill file, and none is given")
    words = np.empty(shape, np.uint64)
    spill.read(words, parcel.content)
    return words
