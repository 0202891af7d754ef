"""What is packed into words comes out again, in canonical orientation, with its owner."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushrank.privacy.keyed_hash import KeyedHash
from hushrank.transforms.common.encode import Comparisons
from hushrank.transforms.common.schema import Ties
from hushrank.transforms.comparisons.shuffle import OwnedRows, own

HASH = KeyedHash(bytes(range(32)))
CODES = st.sampled_from([0, 1, 2, 46_341, 2**26, 2**27 - 1])  # codes of 27 bits
ROWS = st.lists(
    st.tuples(CODES, CODES, st.sampled_from([-1, 0, 1]), st.integers(0, 3)).filter(
        lambda row: row[0] != row[1]
    ),
    max_size=10,
)


def encoded(rows, *, user=True, event=False) -> Comparisons:
    columns = np.array(rows, np.int64).reshape(-1, 4)
    hashes = HASH.of_integers(columns[:, 3].copy())
    return Comparisons(
        columns[:, 0].astype(np.int32),
        columns[:, 1].astype(np.int32),
        columns[:, 2].astype(np.int8),
        hashes if user else None,
        hashes if event else None,
    )


def as_tuples(rows: Comparisons) -> list[tuple[int, int, int]]:
    columns = (rows.left.tolist(), rows.right.tolist(), rows.outcome.tolist())
    return list(zip(*columns, strict=True))


@given(ROWS, st.sampled_from([Ties.SPLIT, Ties.DROP]))
def test_rows_are_canonical_and_keep_owner_event_and_place(rows, ties):
    owned = own(encoded(rows, event=True), ties, HASH, np.arange(len(rows)) + 5)
    kept = [(*row, place) for place, row in enumerate(rows) if row[2] or ties is Ties.SPLIT]
    assert as_tuples(owned.comparisons()) == [
        (left, right, outcome) if left < right else (right, left, -outcome)
        for left, right, outcome, _, _ in kept
    ]
    people = HASH.of_integers(np.array([row[3] for row in kept], np.int64))
    np.testing.assert_array_equal(owned.owner, people)
    np.testing.assert_array_equal(owned.event, people)
    assert owned.place.tolist() == [place + 5 for *_, place in kept]
    assert len(owned) == len(kept)


@given(ROWS)
def test_without_a_person_the_pair_owns_its_rows(rows):
    owned = own(encoded(rows, user=False), Ties.SPLIT, HASH)
    owners = [tuple(owner) for owner in owned.owner.tolist()]
    pairs = [tuple(sorted(row[:2])) for row in rows]
    assert len(set(zip(owners, pairs, strict=True))) == len(set(owners)) == len(set(pairs))
    assert len(set(owned.pair.tolist())) == len(set(pairs))
    assert owned.event is None


def test_rows_can_be_taken_filtered_and_put_together():
    rows = own(encoded([(0, 1, 1, 7), (2, 1, 1, 8), (3, 4, 0, 7)]), Ties.SPLIT, HASH)
    assert as_tuples(rows.take(np.array([2, 0])).comparisons()) == [(3, 4, 0), (0, 1, 1)]
    assert as_tuples(rows.filter(np.array([False, True, False])).comparisons()) == [(1, 2, -1)]
    both = OwnedRows.concatenate([rows, rows.take(np.array([1]))])
    np.testing.assert_array_equal(both.words[:, 3], rows.words[:, 1])
    assert len(both) == 4


def test_an_event_must_say_where_it_was_read():
    with pytest.raises(ValueError, match="must say where they were read"):
        own(encoded([(0, 1, 1, 7)], event=True), Ties.SPLIT, HASH)
