"""Steps of one night of a stream, around the moment at which it is released.

    count_night, or count_empty_night    people and exact counts are kept; may be repeated
    transforms.streams.released_files.draw_night        the release: once
    forget_night                         what no later night needs is deleted; may be repeated

A run that dies anywhere starts again at the first step, and the steps that are done change nothing:
what the night before has left is deleted in the last step only.

The people of the night before are divided as the rows are. Where the rows of a partition meet, its
people are read, joined bucket by bucket, and written as one shard of the new night. Every partition
is visited, those without rows too, so that nobody is forgotten.
"""

from __future__ import annotations

import io
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hushrank.estimation.common.matrices import MOST_DENSE_ITEMS
from hushrank.pipelines.reduce.reduction_job import (
    BITS_FILE,
    EXACT_FILE,
    TALLY_FILE,
    NightOfStream,
    ReduceComparisons,
    Statistic,
)
from hushrank.privacy.keyed_hash import KeyedHash
from hushrank.privacy.stream_encoder import Terms
from hushrank.transforms.common.catalogue import Naming
from hushrank.transforms.common.sorting import Mask
from hushrank.transforms.comparisons.bound import Counting, Pieces
from hushrank.transforms.comparisons.shuffle import (
    Bucket,
    OwnedRows,
    OwnedShuffleBlock,
    Partitioning,
    unpack,
)
from hushrank.transforms.storage.places import read_whole, write_whole
from hushrank.transforms.storage.spill_file import Spill
from hushrank.transforms.streams.people_files import (
    People,
    Shard,
    carry_people,
    distinct,
    edges_of,
    finish_people,
    forget_people,
    is_among,
    open_people,
    take_part,
    write_shard,
)
from hushrank.transforms.streams.released_files import (
    Drawn,
    drawn_night,
    forget_cells,
    forget_shown,
    keep_cells,
)
from hushrank.transforms.streams.square_meter import AnyMeter, meter_of
from hushrank.transforms.streams.stream_folder import COUNTING, delete_counting, delete_nights, end

if TYPE_CHECKING:
    from hushrank.privacy.stream import Stream

NUMBERS, DIGESTS, PEOPLE = "shard_numbers", "shard_digests", "shard_people"


@dataclass(frozen=True, slots=True)
class PartitionOfPeople:
    """Number of a partition, which meets its rows so that its people can be read."""

    number: int
    partitioning: Partitioning


class NightPeople:
    """The people of one night of a stream. A worker has its own copy."""

    def __init__(self, night: NightOfStream) -> None:
        """Raises `InputError` where the people of the night before are not those of this stream."""
        self._night = night
        self._before = open_people(night.folder, night.stream, night.night - 1, night.before)

    @property
    def keyed_hash(self) -> KeyedHash:
        """Keyed hash of the stream: it makes the pseudonyms."""
        return KeyedHash(self._night.key.value)

    @property
    def naming(self) -> Naming:
        """Rule by which names of the stream are hashed."""
        return self._night.naming

    @property
    def n_people(self) -> int:
        """Number of people who counted before tonight."""
        return self._before.n_people

    def joins(self, partitioning: Partitioning) -> list[tuple[int, PartitionOfPeople]]:
        """Return one join for each partition."""
        numbers = range(1 << partitioning.partition_bits)
        return [(number, PartitionOfPeople(number, partitioning)) for number in numbers]

    def counting(
        self,
        shuffle_blocks: Iterable[OwnedShuffleBlock | PartitionOfPeople],
        spill: Spill | None,
        rows_at_once: int,
        waiting_rows: int,
    ) -> Iterator[Counting | Shard]:
        """Bucket by bucket the rows of one partition that count; at the end, its people's shard.

        Args:
            shuffle blocks: all blocks of the partition, with its `PartitionOfPeople`.
            spill: file that holds their rows, if the blocks do not.
            rows_at_once: size of a bucket above which only some of its rows are in memory at a
                time.
            waiting_rows: size of a partition above which only rows that are asked for are read.
        """
        shuffle_blocks = list(shuffle_blocks)
        (mine,) = (each for each in shuffle_blocks if isinstance(each, PartitionOfPeople))
        owned = [each for each in shuffle_blocks if isinstance(each, OwnedShuffleBlock)]
        bits = mine.partitioning.partition_bits
        people = self._before.partition(mine.number, bits)
        edges = edges_of(people, mine.number, bits, bits + mine.partitioning.bucket_bits)
        parts = [people.between(*pair) for pair in itertools.pairwise(edges)]
        buckets = unpack(owned, spill, waiting_rows) if owned else ()
        terms = self._night.terms
        if not isinstance(terms, Terms):
            meters = [meter_of(part, self._night.night, terms) for part in parts]
            for bucket in buckets:
                yield _metered(meters[bucket.number], bucket, rows_at_once)
            parts = [meter.after for meter in meters]
        else:
            for bucket in buckets:
                parts[bucket.number], counting = self._take_part(
                    parts[bucket.number], bucket, rows_at_once, terms
                )
                yield counting
        night, after = self._night, People.concatenate(parts)
        yield write_shard(night.folder, night.night, night.attempt, mine.number, bits, after)

    def _take_part(
        self, people: People, bucket: Bucket, rows_at_once: int, terms: Terms
    ) -> tuple[People, Counting]:
        """The people of a bucket after tonight, and its rows that count."""
        if bucket.n_rows > rows_at_once:
            return self._take_part_heavy(people, bucket, terms)
        rows = bucket.rows()
        found = distinct(rows.owner_words)
        counts, after = take_part(people, found.owners, self._night.night, terms)
        if not counts.all():
            rows = rows.filter(counts[found.number])
        n_owners = int(np.count_nonzero(~counts))
        return after, Counting(lambda: [rows], len(rows), _left(bucket, len(rows), n_owners))

    def _take_part_heavy(
        self, people: People, bucket: Bucket, terms: Terms
    ) -> tuple[People, Counting]:
        """Take part like `_take_part`, shuffle block by shuffle block."""
        words = [distinct(piece.owner_words).owners for piece in bucket.pieces()]
        first, second = (np.concatenate(column) for column in zip(*words, strict=True))
        owners = distinct((first, second)).owners
        counts, after = take_part(people, owners, self._night.night, terms)
        counted = after.counted_on(self._night.night)

        def pieces() -> Iterator[OwnedRows]:
            for piece in bucket.pieces():
                yield piece.filter(is_among(counted, piece.owner_words))

        n_rows = sum(map(len, pieces()))
        n_owners = int(np.count_nonzero(~counts))
        return after, Counting(pieces, n_rows, _left(bucket, n_rows, n_owners))


def _metered(meter: AnyMeter, bucket: Bucket, rows_at_once: int) -> Counting:
    """Rows of a bucket that no row of the nights before excludes; the meter chooses among them."""
    meter.begin()
    pieces: Pieces = partial(_apart, meter, bucket)
    if bucket.n_rows <= rows_at_once:
        pieces = partial(iter, [_of_other_pairs(meter, bucket.rows())])  # read once
    n_rows = sum(map(len, pieces()))
    left_out = bucket.n_rows - n_rows
    tally = {"rows_with_owner": left_out, meter.excluded: left_out}
    return Counting(pieces, n_rows, tally, partial(_admitted, meter))


def _apart(meter: AnyMeter, bucket: Bucket) -> Iterator[OwnedRows]:
    return map(partial(_of_other_pairs, meter), bucket.pieces())


def _of_other_pairs(meter: AnyMeter, rows: OwnedRows) -> OwnedRows:
    return rows.filter(meter.apart(rows.owner_words, rows.short_pair))


def _admitted(meter: AnyMeter, rows: OwnedRows) -> Mask:
    return meter.admit(rows.owner_words, rows.short_pair)


def arrays_of_night(parts: Iterable[Any]) -> dict[str, NDArray[Any]]:
    """Arrays of a night's total: the counts, and the shards of the people who counted."""
    found = list(parts)
    shards = [part for part in found if isinstance(part, Shard)]
    (total,) = (part for part in found if not isinstance(part, Shard))
    return {
        "counts": total,
        NUMBERS: np.array([shard.number for shard in shards], np.int64),
        DIGESTS: np.array([shard.digest for shard in shards]),
        PEOPLE: np.array([shard.n_people for shard in shards], np.int64),
    }


def shards_of_arrays(arrays: Mapping[str, NDArray[Any]]) -> list[Shard]:
    """Rebuild the shards from the arrays of `arrays_of_night`."""
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


def count_night(
    job: ReduceComparisons, stream: Stream, reduce: Callable[[ReduceComparisons], None]
) -> None:
    """Reduce a night of a stream and keep its exact counts; nothing where it was drawn already.

    Args:
        job: the night.
        stream: the terms and the law.
        reduce: executes a job, as `pipelines.reduce.reduce.run` does.

    Raises:
        InputError: `reduce` refuses the input, or the night before is not there.
        ValueError: the job is no night of a stream, or counts pairs of too many items.
    """
    night = job.stream
    if night is None:
        raise ValueError("the job is no night of a stream")
    if job.statistic is Statistic.PAIR_COUNTS and len(job.catalogue) > MOST_DENSE_ITEMS:
        raise ValueError(
            f"a stream counts every pair: it takes at most {MOST_DENSE_ITEMS} items, got"
            f" {len(job.catalogue)}; count wins instead"
        )
    if _is_drawn(night, stream):
        return
    delete_counting(night.folder, night.night)
    reduce(job)
    keep_counted(job)


def keep_counted(job: ReduceComparisons) -> str:
    """Keep what an attempt at a night was reduced to: its people first, then its counts.

    Both are in one file, so they are of the same rows. The counts name the people, so nothing is
    drawn from those of another attempt.

    Returns:
        Digest of the people of the night.

    Raises:
        InputError: some people are missing.
        ValueError: the job is no night of a stream.
    """
    night = job.stream
    if night is None:
        raise ValueError("the job is no night of a stream")
    with np.load(io.BytesIO(read_whole(f"{job.results}/{EXACT_FILE}"))) as arrays:
        counts, shards = arrays["counts"], shards_of_arrays(arrays)
    place = (night.folder, night.stream, night.night)
    people = finish_people(*place, night.attempt, shards, night.before)
    for name in (TALLY_FILE, BITS_FILE):  # one for the operator, one for the draw
        write_whole(f"{job.confidential}/{name}", read_whole(f"{job.results}/{name}"))
    keep_cells(*place, counts, people.digest)
    return people.digest


def count_empty_night(night: NightOfStream, shape: tuple[int, ...], stream: Stream) -> None:
    """Count a night without a row: it is a night like any other, of zeros.

    Args:
        night: the night.
        shape: shape of the counts of any night.
        stream: the terms and the law.

    Raises:
        InputError: the night before is not there.
    """
    if _is_drawn(night, stream):
        return
    delete_counting(night.folder, night.night)
    place = (night.folder, night.stream, night.night)
    people = carry_people(*place, night.attempt, night.before)
    keep_cells(*place, np.zeros(shape, np.int64), people.digest)


def forget_night(folder: str, name: str, night: int, stream: Stream, drawn: Drawn) -> None:
    """Delete what no night after this one needs; after the last night everything exact.

    Args:
        folder: folder of the stream.
        name: name of the stream and all of its terms.
        night: number of the night, from 0.
        stream: the terms and the law.
        drawn: release of the night.

    Raises:
        InputError: the people of the night are missing, or are not those of its digest.
    """
    if night == stream.terms.nights - 1:
        end(folder)
        return
    delete_nights(folder, COUNTING, night)
    forget_people(folder, name, night, drawn.people)
    forget_cells(folder, night, stream.encoder.bands)
    forget_shown(folder, night, stream.encoder.bands)


def _is_drawn(night: NightOfStream, stream: Stream) -> bool:
    return drawn_night(night.folder, night.stream, night.night, stream) is not None
