"""Counts equal counting by hand, and do not depend on how rows are shared out and merged."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushrank.transforms.common.encode import Comparisons
from hushrank.transforms.common.schema import Ties
from hushrank.transforms.comparisons import aggregate
from hushrank.transforms.comparisons.aggregate import (
    PairCountsFn,
    SparsePairCountsFn,
    TallyFn,
    TieCountsFn,
    WinCountsFn,
    WinLossCountsFn,
    add_outcomes,
    add_pairs,
    add_wins,
)

N_ITEMS = 4
TIES = [Ties.DROP, Ties.SPLIT]


@st.composite
def comparisons(draw, max_rows: int = 12) -> Comparisons:
    items = st.integers(0, N_ITEMS - 1)
    pairs = st.tuples(items, items).filter(lambda pair: pair[0] != pair[1])
    rows = draw(st.lists(st.tuples(pairs, st.sampled_from([-1, 0, 1])), max_size=max_rows))
    columns = np.array([(*pair, outcome) for pair, outcome in rows], np.int32).reshape(-1, 3)
    return Comparisons(columns[:, 0], columns[:, 1], columns[:, 2].astype(np.int8))


def counted_by_hand(rows: Comparisons, ties: Ties) -> np.ndarray:
    wins = np.zeros((N_ITEMS, N_ITEMS), np.int64)
    for left, right, outcome in zip(rows.left, rows.right, rows.outcome, strict=True):
        if outcome == 0 and ties is Ties.SPLIT:
            wins[left, right] += 1
            wins[right, left] += 1
        elif outcome:
            winner, loser = (left, right) if outcome > 0 else (right, left)
            wins[winner, loser] += 2 if ties is Ties.SPLIT else 1
    return wins


@given(comparisons(), st.sampled_from(TIES), st.sampled_from([0, 1, 1000]))
def test_counts_equal_counting_by_hand(rows, ties, cells_a_row):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(aggregate, "CELLS_A_ROW", cells_a_row)  # one by one, or by a histogram
        wins, pairs = np.zeros(N_ITEMS, np.int64), np.zeros((N_ITEMS, N_ITEMS), np.int64)
        for _ in range(2):
            add_wins(wins, rows, ties)
            add_pairs(pairs, rows, ties)
    expected = counted_by_hand(rows, ties)
    np.testing.assert_array_equal(pairs, 2 * expected)
    np.testing.assert_array_equal(wins, 2 * expected.sum(axis=1))
    assert wins.sum() == 2 * ties.row_weight * (
        len(rows) if ties is Ties.SPLIT else np.count_nonzero(rows.outcome)
    )


def test_pairs_of_many_items_are_not_numbered_in_32_bits(monkeypatch):
    n_items = 50_000
    rows = Comparisons(np.int32([n_items - 1]), np.int32([7]), np.int8([-1]))
    cells: list[int] = []
    monkeypatch.setattr(aggregate, "add_cells", lambda _, cell, __: cells.extend(cell.tolist()))
    add_pairs(np.zeros((n_items, 0), np.int64), rows, Ties.DROP)  # the matrix itself is too large
    assert cells == [7 * n_items + n_items - 1]


COMBINERS = [
    make(N_ITEMS, ties) for make in (WinCountsFn, WinLossCountsFn, PairCountsFn) for ties in TIES
]


def accumulated(combine, parts):
    total = combine.create_accumulator()
    for part in parts:
        total = combine.add_input(total, part)
    return total


def merged(combine, *parts):
    return combine.merge_accumulators([part.copy() for part in parts])


@given(st.sampled_from(COMBINERS), *(st.lists(comparisons(5), max_size=3) for _ in range(3)))
def test_merging_counts_is_associative_commutative_and_has_an_identity(combine, a, b, c):
    one, two, three = (accumulated(combine, part) for part in (a, b, c))
    whole = combine.extract_output(accumulated(combine, [*a, *b, *c]))
    ways = [
        merged(combine, one, two, three),
        merged(combine, three, one, two),
        merged(combine, merged(combine, one, two), three),
        merged(combine, one, merged(combine, two, three)),
        merged(combine, one, combine.create_accumulator(), two, three),
    ]
    for way in ways:
        np.testing.assert_array_equal(combine.extract_output(way), whole)
    np.testing.assert_array_equal(merged(combine), combine.create_accumulator())


@given(st.sampled_from(COMBINERS), st.lists(comparisons(5), min_size=2, max_size=4))
def test_merging_leaves_what_it_merges_as_it_is(combine, parts):
    accumulators = [accumulated(combine, [part]) for part in parts]
    before = [accumulator.copy() for accumulator in accumulators]
    combine.merge_accumulators(accumulators)
    for accumulator, copy in zip(accumulators, before, strict=True):
        np.testing.assert_array_equal(accumulator, copy)


TALLIES = st.dictionaries(st.sampled_from(["rows_read", "rows_kept", "owners"]), st.integers(0, 9))


@given(*(st.lists(TALLIES, max_size=3) for _ in range(3)))
def test_tallies_add_up_by_name_in_any_order(a, b, c):
    combine = TallyFn()
    one, two, three = (accumulated(combine, part) for part in (a, b, c))
    expected = {
        name: sum(tally.get(name, 0) for tally in [*a, *b, *c])
        for name in {name for tally in [*a, *b, *c] for name in tally}
    }
    for parts in ([one, two, three], [three, one, two, Counter()]):
        assert combine.extract_output(merged(combine, *parts)) == expected
    nested = merged(combine, merged(combine, one, two), three)
    assert combine.extract_output(nested) == expected


@given(comparisons(), st.sampled_from(TIES), st.integers(0, 12))
def test_sparse_pair_counts_are_the_dense_ones_however_they_are_merged(log, ties, cut):
    dense, sparse = PairCountsFn(N_ITEMS, ties), SparsePairCountsFn(N_ITEMS, ties)
    parts = []
    for rows in (slice(0, cut), slice(cut, None)):
        places = np.arange(len(log))[rows]
        parts.append(sparse.add_input(sparse.create_accumulator(), log.take(places[::2])))
        parts[-1] = sparse.add_input(parts[-1], log.take(places[1::2]))
    merged = sparse.extract_output(sparse.merge_accumulators([parts[1], parts[0]]))
    whole = dense.extract_output(dense.add_input(dense.create_accumulator(), log))
    assert (merged.matrix(N_ITEMS).toarray() == whole).all()


@given(comparisons(), st.sampled_from(TIES))
def test_wins_and_losses_are_the_sums_of_pairs(rows, ties):
    counts = WinLossCountsFn(N_ITEMS, ties)
    found = counts.add_input(counts.create_accumulator(), rows)
    pairs = counted_by_hand(rows, ties)
    np.testing.assert_array_equal(found, [pairs.sum(axis=1), pairs.sum(axis=0)])


def test_wins_and_losses_of_a_group_are_counted_in_that_group():
    items = np.array([0, 3, 1]), np.array([1, 2, 0])
    rows = Comparisons(*items, np.array([1, 0, -1], np.int8), group=np.array([1, 0, 1], np.int32))
    counts = WinLossCountsFn(N_ITEMS, Ties.SPLIT, 2)
    found = counts.add_input(counts.create_accumulator(), rows)
    assert found.shape == (2, 2, N_ITEMS)
    assert {tuple(place): int(found[tuple(place)]) for place in np.argwhere(found)} == {
        (1, 0, 0): 4, (1, 1, 1): 4, (0, 0, 2): 1, (0, 0, 3): 1, (0, 1, 2): 1, (0, 1, 3): 1,
    }  # fmt: skip


@given(comparisons(), st.integers(0, 12))
def test_a_row_counts_in_one_of_three_cells_of_its_pair(rows, cut):
    counts = np.zeros((2, N_ITEMS, N_ITEMS), np.int64)
    add_outcomes(counts, rows)
    assert counts.sum() == len(rows)
    decided = rows.take(np.flatnonzero(rows.outcome))
    assert np.array_equal(counts[0], counted_by_hand(decided, Ties.DROP))
    met = Counter(
        (min(pair), max(pair))
        for *pair, outcome in zip(rows.left, rows.right, rows.outcome, strict=True)
        if outcome == 0
    )
    assert {pair: int(counts[1][pair]) for pair in met} == met
    assert not np.tril(counts[1]).any()
    combine = TieCountsFn(N_ITEMS, Ties.MODEL)
    halves = [rows.take(np.arange(len(rows))[part]) for part in (slice(cut), slice(cut, None))]
    parts = [combine.add_input(combine.create_accumulator(), half) for half in halves]
    assert np.array_equal(combine.extract_output(combine.merge_accumulators(parts)), counts)


def test_a_row_of_a_group_counts_in_that_group():
    outcomes = np.array([1, 0, -1, 0], np.int8)
    items = np.array([0, 3, 1, 2]), np.array([1, 2, 0, 3])
    group = np.array([1, 0, 1, 1], np.int32)
    rows = Comparisons(*items, outcomes, group=group)
    counts = TieCountsFn(N_ITEMS, Ties.MODEL, 2)
    found = counts.add_input(counts.create_accumulator(), rows)
    assert found.shape == (2, 2, N_ITEMS, N_ITEMS)
    assert {tuple(place) for place in np.argwhere(found)} == {
        (1, 0, 0, 1), (0, 1, 2, 3), (1, 1, 2, 3),
    }  # fmt: skip
    assert found[1, 0, 0, 1] == 2
