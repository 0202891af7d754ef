"""The people of a night of a stream meet their rows: some count, and the next night is told.

The people of the night before are divided as the rows are. Where the rows of a partition meet, its
people are read, joined bucket by bucket, and written as one shard of the new night. Every partition
is visited, those without rows too, so that nobody is forgotten.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushrank.pipelines.reduce.reduction_job import NightOfStream
from hushrank.privacy.keyed_hash import KeyedHash
from hushrank.transforms.common.names import Naming
from hushrank.transforms.comparisons.crowded import Pieces
from hushrank.transforms.comparisons.owned_rows import OwnedRows
from hushrank.transforms.comparisons.shuffle import Bucket, OwnedParcel, Partitioning, unpack
from hushrank.transforms.storage.spill_file import Spill
from hushrank.transforms.streams.participation import (
    People,
    distinct,
    is_among,
    take_part,
)
from hushrank.transforms.streams.people_files import (
    Shard,
    edges_of,
    open_people,
    write_shard,
)

NUMBERS, DIGESTS, PEOPLE = "shard_numbers", "shard_digests", "shard_people"


@dataclass(frozen=True, slots=True)
class PartitionOfPeople:
    """What meets the rows of a partition: which one it is, so that its people can be read."""

    number: int
    partitioning: Partitioning


@dataclass(frozen=True, slots=True)
class Counting:
    """The rows of a bucket that count tonight.

    Attributes:
        pieces: all of them, some at a time; anew each time, at least one.
        n_rows: how many they are.
        tally: of the rows that do not count.
    """

    pieces: Pieces
    n_rows: int
    tally: dict[str, int]


class NightPeople:
    """The people of one night of a stream. A worker has its own copy."""

    def __init__(self, night: NightOfStream) -> None:
        """Raises `InputError` where the people of the night before are not those of this stream."""
        self._night = night
        self._before = open_people(night.folder, night.stream, night.night - 1, night.before)

    @property
    def keyed_hash(self) -> KeyedHash:
        """Of the stream: it makes the pseudonyms."""
        return KeyedHash(self._night.key.value)

    @property
    def naming(self) -> Naming:
        """How names of the stream are hashed."""
        return self._night.naming

    @property
    def n_people(self) -> int:
        """Those who counted before tonight."""
        return self._before.n_people

    def joins(self, partitioning: Partitioning) -> list[tuple[int, PartitionOfPeople]]:
        """One for each partition."""
        numbers = range(1 << partitioning.partition_bits)
        return [(number, PartitionOfPeople(number, partitioning)) for number in numbers]

    def counting(
        self,
        parcels: Iterable[OwnedParcel | PartitionOfPeople],
        spill: Spill | None,
        rows_at_once: int,
        waiting_rows: int,
    ) -> Iterator[Counting | Shard]:
        """Bucket by bucket the rows of one partition that count; at the end, its people's shard.

        Args:
            parcels: all of the partition, with its `PartitionOfPeople`.
            spill: where their rows are, if not in them.
            rows_at_once: of a bucket with more, some are in memory at a time.
            waiting_rows: of a partition with more, only what is asked for is read.
        """
        parcels = list(parcels)
        (mine,) = (each for each in parcels if isinstance(each, PartitionOfPeople))
        owned = [each for each in parcels if isinstance(each, OwnedParcel)]
        bits = mine.partitioning.partition_bits
        people = self._before.partition(mine.number, bits)
        edges = edges_of(people, mine.number, bits, bits + mine.partitioning.bucket_bits)
        parts = [people.between(*pair) for pair in itertools.pairwise(edges)]
        for bucket in unpack(owned, spill, waiting_rows) if owned else ():
            parts[bucket.number], counting = self._take_part(
                parts[bucket.number], bucket, rows_at_once
            )
            yield counting
        night, after = self._night, People.concatenate(parts)
        yield write_shard(night.folder, night.night, night.attempt, mine.number, bits, after)

    def _take_part(
        self, people: People, bucket: Bucket, rows_at_once: int
    ) -> tuple[People, Counting]:
        """The people of a bucket after tonight, and its rows that count."""
        if bucket.n_rows > rows_at_once:
            return self._take_part_crowded(people, bucket)
        rows = bucket.rows()
        found = distinct(rows.owner_words)
        counts, after = take_part(people, found.owners, self._night.night, self._night.terms)
        if not counts.all():
            rows = rows.filter(counts[found.number])
        n_owners = int(np.count_nonzero(~counts))
        return after, Counting(lambda: [rows], len(rows), _left(bucket, len(rows), n_owners))

    def _take_part_crowded(self, people: People, bucket: Bucket) -> tuple[People, Counting]:
        """The same, parcel by parcel."""
        words = [distinct(piece.owner_words).owners for piece in bucket.pieces()]
        first, second = (np.concatenate(column) for column in zip(*words, strict=True))
        owners = distinct((first, second)).owners
        counts, after = take_part(people, owners, self._night.night, self._night.terms)
        counted = after.counted_on(self._night.night)

        def pieces() -> Iterator[OwnedRows]:
            for piece in bucket.pieces():
                yield piece.filter(is_among(counted, piece.owner_words))

        n_rows = sum(map(len, pieces()))
        n_owners = int(np.count_nonzero(~counts))
        return after, Counting(pieces, n_rows, _left(bucket, n_rows, n_owners))


def arrays_of_shards(shards: Sequence[Shard]) -> dict[str, NDArray[Any]]:
    """As they are stored beside the counts of the same rows."""
    return {
        NUMBERS: np.array([shard.number for shard in shards], np.int64),
        DIGESTS: np.array([shard.digest for shard in shards]),
        PEOPLE: np.array([shard.n_people for shard in shards], np.int64),
    }


def shards_of_arrays(arrays: Mapping[str, NDArray[Any]]) -> list[Shard]:
    """What `arrays_of_shards` made arrays of."""
    columns = (arrays[name].tolist() for name in (NUMBERS, DIGESTS, PEOPLE))
    return [Shard(*each) for each in zip(*columns, strict=True)]


def _left(bucket: Bucket, n_rows: int, n_owners: int) -> dict[str, int]:
    """Confidential counts of rows and owners that do not count tonight."""
    left_out = bucket.n_rows - n_rows
    return {
        "rows_with_owner": left_out,
        "rows_of_nights_that_do_not_count": left_out,
        "owners_whose_night_does_not_count": n_owners,
    }
