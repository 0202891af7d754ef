"""Who contradicts themselves among comparisons that count, whatever the order and the slices."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hushrank.privacy.keyed_hash import KeyedHash
from hushrank.transforms.common.encode import Comparisons
from hushrank.transforms.common.schema import Ties
from hushrank.transforms.comparisons.bound import Bounds, bound_bucket
from hushrank.transforms.comparisons.contradictions import (
    CONSISTENT,
    CONTRADICTING,
    tally_of_contradictions,
)
from hushrank.transforms.comparisons.heavy_users import bound_heavy_users
from hushrank.transforms.comparisons.shuffle import OwnedRows, own

HASH = KeyedHash(bytes(range(32)))
ROWS = st.lists(
    st.tuples(
        st.integers(0, 5), st.integers(0, 2), st.integers(0, 2), st.sampled_from([-1, 0, 1])
    ).filter(lambda row: row[1] != row[2]),
    max_size=30,
)


def owned(rows: list[tuple[int, int, int, int]], ties: Ties = Ties.SPLIT) -> OwnedRows:
    who, left, right, outcome = np.array(rows, np.int64).reshape(-1, 4).T
    owner = np.stack([who.astype(np.uint64) % np.uint64(2), who.astype(np.uint64)], axis=1)
    compared = Comparisons(
        left.astype(np.int32), right.astype(np.int32), outcome.astype(np.int8), user=owner
    )
    return own(compared, ties, HASH)


def by_hand(rows: list[tuple[int, int, int, int]]) -> dict[str, int]:
    told = {CONTRADICTING: 0, CONSISTENT: 0}
    for person in {row[0] for row in rows}:
        won: dict[frozenset[int], list[int]] = {}
        for _, left, right, outcome in (row for row in rows if row[0] == person and row[3]):
            won.setdefault(frozenset((left, right)), []).append(left if outcome > 0 else right)
        repeated = [each for each in won.values() if len(each) > 1]
        if any(len({*each}) > 1 for each in repeated):
            told[CONTRADICTING] += 1
        elif repeated:
            told[CONSISTENT] += 1
    return told


@given(ROWS)
def test_each_person_is_in_one_number_at_most_and_in_the_right_one(rows):
    assert tally_of_contradictions(owned(rows)) == by_hand(rows)


@given(ROWS, st.randoms(use_true_random=False))
def test_neither_order_nor_the_side_of_an_item_matters(rows, random):
    turned = [(who, right, left, -outcome) for who, left, right, outcome in rows]
    random.shuffle(turned)
    assert tally_of_contradictions(owned(turned)) == tally_of_contradictions(owned(rows))


@given(ROWS, st.integers(0, 5))
@example([(0, 0, 1, 1), (0, 0, 1, -1), (0, 1, 2, 1), (0, 1, 2, -1)], 0)
def test_one_person_moves_the_numbers_by_one_alone(rows, person):
    without = [row for row in rows if row[0] != person]
    all_of, others = (tally_of_contradictions(owned(each)) for each in (rows, without))
    assert sum(abs(all_of[name] - others[name]) for name in all_of) <= 1


@pytest.mark.parametrize("ties", [Ties.SPLIT, Ties.RANDOM, Ties.DROP])
@pytest.mark.parametrize("rows_at_once", [3, 7])
def test_what_counts_is_looked_at_in_slices_and_whole_alike(ties, rows_at_once):
    random = np.random.default_rng(4)
    for _ in range(20):
        left = random.integers(0, 3, 60)
        right = (left + random.integers(1, 3, 60)) % 3
        columns = random.integers(0, 4, 60), left, right, random.integers(-1, 2, 60)
        rows = owned(list(zip(*map(np.ndarray.tolist, columns), strict=True)), ties)
        bounds = Bounds(n_items=3, ties=ties, max_contributions=4, contradictions=True)
        for admit in (None, lambda rows: rows.outcome > 0):
            whole = bound_bucket(rows, bounds, HASH, admit).tally
            pieces = lambda rows=rows: iter([rows])  # noqa: E731
            parts = list(bound_heavy_users(pieces, len(rows), bounds, HASH, rows_at_once, admit))
            for name in (CONTRADICTING, CONSISTENT):
                assert sum(part.tally.get(name, 0) for part in parts) == whole[name]
            assert whole[CONTRADICTING] + whole[CONSISTENT] <= whole["owners"]
        unasked = bound_bucket(rows, replace(bounds, contradictions=False), HASH).tally
        assert CONTRADICTING not in unasked
