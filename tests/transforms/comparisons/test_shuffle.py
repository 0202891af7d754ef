"""Shuffle blocks carry every row once, to its owner's bucket, in memory or through a file."""

from __future__ import annotations

import pickle
import tempfile
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushrank.transforms.comparisons.shuffle import (
    BUCKET_ROWS,
    OwnedRows,
    Partitioning,
    pack,
    unpack,
)
from hushrank.transforms.storage.spill_file import SpillFile

OWNERS = st.sampled_from([0, 1, 1 << 61, 1 << 62, (1 << 62) + 1, 3 << 62, 2**64 - 1])


@st.composite
def chunks(draw) -> list[OwnedRows]:
    """What several readers have; the second word tells rows apart."""
    words = draw(st.sampled_from([3, 6]))
    made = []
    for chunk in range(draw(st.integers(1, 3))):
        owners = draw(st.lists(OWNERS, min_size=1, max_size=10))
        rows = np.arange(words * len(owners), dtype=np.uint64).reshape(words, -1)
        rows[0] = owners
        rows[1] += np.uint64(1000 * chunk)
        made.append(OwnedRows(rows))
    return made


def as_rows(parts: list[OwnedRows]) -> Counter:
    return Counter(tuple(row) for part in parts for row in part.words.T.tolist())


def met(made: list[OwnedRows], partitioning: Partitioning, spill: SpillFile | None):
    """Buckets of rows, after every shuffle block was sent as bytes."""
    partitions: dict[int, list] = {}
    for rows in made:
        for partition, shuffle_block in pack(rows, partitioning, spill):
            sent = pickle.loads(pickle.dumps(shuffle_block))
            partitions.setdefault(partition, []).append(sent)
    return [bucket.rows() for mine in partitions.values() for bucket in unpack(mine, spill)]


@given(chunks(), st.integers(0, 3), st.integers(0, 3))
def test_all_rows_of_an_owner_meet_and_no_row_is_lost_or_doubled(made, partition_bits, bucket_bits):
    partitioning = Partitioning(partition_bits, bucket_bits)
    with tempfile.TemporaryFile() as file:
        spilled = met(made, partitioning, SpillFile(file.fileno()))
    for buckets in (spilled, met(made, partitioning, None)):
        assert as_rows(buckets) == as_rows(made)
        bucket_of = [
            {owner >> (64 - partition_bits - bucket_bits) for owner in bucket.words[0].tolist()}
            for bucket in buckets
        ]
        assert all(len(numbers) == 1 for numbers in bucket_of)
        assert len(set.union(*bucket_of)) == len(buckets)


def test_a_shuffle_block_in_memory_keeps_no_other_in_memory():
    owners = np.arange(64, dtype=np.uint64) << np.uint64(58)
    rows = OwnedRows(np.stack([owners, owners, owners]))
    for _, shuffle_block in pack(rows, Partitioning(4, 1), None):
        assert shuffle_block.content.shape == (3, 4)
        assert shuffle_block.content.base is None


def test_a_shuffle_block_in_a_file_needs_the_file():
    rows = OwnedRows(np.zeros((3, 2), np.uint64))
    with tempfile.TemporaryFile() as file:
        ((_, shuffle_block),) = pack(rows, Partitioning(0, 0), SpillFile(file.fileno()))
        with pytest.raises(ValueError, match="in a spill file, and none is given"):
            list(unpack([shuffle_block], None))


@pytest.mark.parametrize(
    ("rows", "partitions", "buckets"),
    [
        (0, 1, 1),
        (BUCKET_ROWS - 1, 1, 1),
        (10_000_000, 128, 1),
        (100_000_000, 256, 4),
        (1_000_000_000, 256, 32),
        (100_000_000_000, 32768, 32),
    ],
)
def test_buckets_stay_small_and_partitions_few(rows, partitions, buckets):
    found = Partitioning.of_rows(rows)
    assert (1 << found.partition_bits, 1 << found.bucket_bits) == (partitions, buckets)
    assert rows / (partitions * buckets) <= BUCKET_ROWS
