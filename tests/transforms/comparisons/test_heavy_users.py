"""A bucket that is bounded in shares keeps the same rows as one that is bounded at once."""

from __future__ import annotations

import tempfile
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushrank.privacy.keyed_hash import KeyedHash
from hushrank.privacy.row_weights import Counted, RowFactors
from hushrank.privacy.units import Adjacency, Bounding, NoiseKind, PrivacyParams, Unit
from hushrank.transforms.common.encode import Comparisons
from hushrank.transforms.common.schema import Ties
from hushrank.transforms.comparisons.bound import Bounds, bound_bucket
from hushrank.transforms.comparisons.heavy_users import bound_heavy_users
from hushrank.transforms.comparisons.shuffle import (
    OwnedRows,
    OwnedShuffleBlock,
    Partitioning,
    own,
    pack,
    unpack,
)
from hushrank.transforms.storage.spill_file import SpillFile

N_ITEMS, KEY = 5, bytes(range(32))


@st.composite
def buckets(draw) -> OwnedRows:
    """Rows of few people on few items, so that copies and conflicts abound."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    m = draw(st.integers(1, 120))
    keyed_hash = KeyedHash(KEY)
    left = rng.integers(0, N_ITEMS, m)
    right = (left + rng.integers(1, N_ITEMS, m)) % N_ITEMS
    event = rng.integers(0, 30, m) if draw(st.booleans()) else None
    rows = Comparisons(
        left,
        right,
        rng.integers(-1, 2, m).astype(np.int8),
        keyed_hash.of_integers(rng.integers(0, draw(st.integers(1, 6)), m)),
        None if event is None else keyed_hash.of_integers(event),
        rng.integers(0, 3, m) * 700 if draw(st.booleans()) else None,
    )
    return own(rows, Ties.SPLIT, keyed_hash, None if event is None else np.arange(m))


@st.composite
def all_bounds(draw) -> Bounds:
    most = draw(st.sampled_from([None, 1, 3, 50]))
    cap, distinct = draw(st.sampled_from([None, 1, 2])), draw(st.booleans())
    factors = None
    if distinct and most is not None and draw(st.booleans()):
        params = PrivacyParams(
            unit=Unit.USER,
            adjacency=Adjacency.REPLACE_ONE,
            epsilon=1.0,
            delta=1e-6,
            noise=NoiseKind.GAUSSIAN,
            max_contributions=most,
            distinct_pairs=True,
            bounding=Bounding.WEIGHTS,
        )
        factors = RowFactors(params, draw(st.sampled_from(list(Counted))), N_ITEMS)
    return Bounds(
        n_items=N_ITEMS,
        ties=draw(st.sampled_from([Ties.SPLIT, Ties.RANDOM])),
        max_contributions=most,
        per_item_cap=cap,
        distinct_pairs=distinct,
        factors=factors,
    )


def as_rows(kept: Comparisons) -> Counter:
    columns = [kept.left, kept.right, kept.outcome]
    if kept.weight is not None:
        columns.append(kept.weight)
    return Counter(zip(*(column.tolist() for column in columns), strict=True))


def in_shares(bucket: OwnedRows, bounds: Bounds, rows_at_once: int, piece: int):
    """Kept rows, places of rows in conflict, and the tally."""

    def pieces():
        for start in range(0, len(bucket), piece):
            yield OwnedRows(bucket.words[:, start : start + piece])

    kept, places, tally = Counter(), Counter(), Counter()
    for part in bound_heavy_users(pieces, len(bucket), bounds, KeyedHash(KEY), rows_at_once):
        kept += as_rows(part.kept)
        if len(part.conflicts):
            places.update(part.conflicts.place.tolist())
        tally.update(part.tally)
    return kept, places, dict(tally)


@given(buckets(), all_bounds(), st.integers(1, 150), st.integers(1, 150))
def test_the_same_rows_are_kept_and_set_aside_whatever_the_shares(
    bucket, bounds, rows_at_once, piece
):
    whole = bound_bucket(bucket, bounds, KeyedHash(KEY))
    kept, places, tally = in_shares(bucket, bounds, rows_at_once, piece)
    assert kept == as_rows(whole.kept)
    expected = whole.conflicts.place.tolist() if len(whole.conflicts) else []
    assert places == Counter(expected)
    assert tally == whole.tally


@pytest.mark.parametrize("most", [1, 3])
@pytest.mark.parametrize("cap", [None, 1, 2])
@pytest.mark.parametrize("distinct", [False, True])
def test_each_bound_holds_in_shares(most, cap, distinct):
    """Of two people with a hundred rows each, on five items: every bound leaves some out."""
    rng = np.random.default_rng(7)
    left = rng.integers(0, N_ITEMS, 200)
    right = (left + rng.integers(1, N_ITEMS, 200)) % N_ITEMS
    outcome, people = rng.choice([-1, 1], 200).astype(np.int8), np.arange(200) % 2
    owners = KeyedHash(KEY).of_integers(people)
    bucket = own(Comparisons(left, right, outcome, owners), Ties.SPLIT, KeyedHash(KEY))
    bounds = Bounds(
        n_items=N_ITEMS,
        ties=Ties.SPLIT,
        max_contributions=most,
        per_item_cap=cap,
        distinct_pairs=distinct,
    )
    whole = bound_bucket(bucket, bounds, KeyedHash(KEY))
    assert 0 < len(whole.kept) <= 2 * most
    for rows_at_once in (1, 7, 60, 200):
        kept, _, tally = in_shares(bucket, bounds, rows_at_once, piece=13)
        assert kept == as_rows(whole.kept)
        assert tally == whole.tally


@pytest.mark.parametrize("spilled", [True, False])
def test_a_partition_above_the_limit_is_read_piece_by_piece_and_is_the_same(spilled):
    rng = np.random.default_rng(3)
    made = [OwnedRows(rng.integers(0, 2**63, (6, 400), dtype=np.uint64) * 2) for _ in range(3)]
    with tempfile.TemporaryFile() as file:
        spill = SpillFile(file.fileno()) if spilled else None
        partitions: dict[int, list[OwnedShuffleBlock]] = {}
        for rows in made:
            for partition, shuffle_block in pack(rows, Partitioning(1, 3), spill):
                partitions.setdefault(partition, []).append(shuffle_block)
        for shuffle_blocks in partitions.values():
            at_once = list(unpack(shuffle_blocks, spill, 10_000))
            in_pieces = list(unpack(shuffle_blocks, spill, 1))
            for one, other in zip(at_once, in_pieces, strict=True):
                assert one.n_rows == other.n_rows == len(one.rows())
                assert (one.rows().words == other.rows().words).all()
                joined = OwnedRows.concatenate(list(other.pieces()))
                assert (joined.words == one.rows().words).all()
