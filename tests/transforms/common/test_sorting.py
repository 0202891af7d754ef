"""Orders are exact, also where the bits that are sorted first collide."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushrank.transforms.common.sorting import (
    new_run,
    number_runs,
    order_leading,
    order_within,
    sort_by,
    sort_into_runs,
)

# A sort of m rows looks at the leading 64 - log2(m) bits: these agree in them, or differ.
COLLIDING = st.sampled_from([0, 1, 2, 1 << 24, 1 << 60, (1 << 60) + 1, 2**64 - 1])


def hashes(words: int):
    """Rows of that many words which often agree in some of them."""
    return st.lists(st.tuples(*[COLLIDING] * words), max_size=20).map(
        lambda rows: np.array(rows, np.uint64).reshape(-1, words)
    )


def runs_of(rows: np.ndarray) -> list[list[tuple[int, ...]]]:
    """Neighbours that agree in their first two words."""
    listed = [tuple(row) for row in rows.tolist()]
    return [list(run) for _, run in itertools.groupby(listed, key=lambda row: row[:2])]


@given(hashes(4))
def test_sort_by_makes_one_sorted_run_of_each_major_hash(rows):
    order = sort_by(rows[:, :2].copy(), rows[:, 2:].copy())
    assert sorted(order.tolist()) == list(range(len(rows)))
    runs = runs_of(rows[order])
    assert len(runs) == len({run[0][:2] for run in runs})
    assert all(run == sorted(run) for run in runs)


@pytest.mark.parametrize("n_runs", [1, 3, 5000])
@pytest.mark.parametrize("values", [2, 40, 2**62])  # many repeats, some, none
@pytest.mark.parametrize("low_bits", [False, True])  # leading bits decide nothing
def test_runs_are_sorted_and_repeats_found(n_runs, values, low_bits):
    rng = np.random.default_rng(n_runs)
    major = rng.integers(0, 2**63, (n_runs, 2)).astype(np.uint64)
    if low_bits:
        major &= np.uint64(255)
    major = major[rng.integers(0, n_runs, 5000)]
    minor = rng.integers(0, values, (5000, 2)).astype(np.uint64)
    if not low_bits:
        minor <<= np.uint64(1)
    found = sort_into_runs((major[:, 0], major[:, 1]), minor)
    rows = np.concatenate([major, minor], axis=1)[found.order]
    runs = runs_of(rows)
    assert sorted(found.order.tolist()) == list(range(5000))
    assert len(runs) == len({run[0][:2] for run in runs})
    assert all(run == sorted(run) for run in runs)
    firsts = np.flatnonzero(found.starts)
    np.testing.assert_array_equal(firsts, np.cumsum([0, *map(len, runs)])[:-1])
    same = (rows[1:] == rows[:-1]).all(axis=1)
    np.testing.assert_array_equal(found.repeats, np.flatnonzero(same) + 1)
    assert (np.diff(found.order)[same] > 0).all()


@given(hashes(2), st.lists(st.booleans(), min_size=20, max_size=20))
def test_order_within_sorts_each_run_and_keeps_rows_of_one_hash_in_order(rows, changes):
    run = np.cumsum(changes[: len(rows)], dtype=np.int64)
    run -= run[0] if len(run) else 0
    order = order_within(run, rows)
    expected = sorted(range(len(rows)), key=lambda row: (run[row], *rows[row].tolist()))
    assert order.tolist() == expected


def test_leading_bits_are_as_many_as_leave_room_for_the_row_number():
    leading, order = order_leading(np.array([7 << 61, 3 << 61, 0, 3 << 61 | 2, 1], np.uint64))
    assert order.tolist() == [2, 4, 1, 3, 0]  # 5 rows: the last 3 bits do not count
    assert leading.tolist() == [0, 0, 3 << 58, 3 << 58, 7 << 58]


@pytest.mark.parametrize(
    ("column", "starts", "numbers"),
    [([], [], []), ([4], [True], [0]), ([4, 4, 5, 4], [True, False, True, True], [0, 0, 1, 2])],
)
def test_runs_start_where_a_row_differs_from_the_one_before(column, starts, numbers):
    new = new_run(np.array(column, np.uint64))
    assert new.tolist() == starts
    assert number_runs(new).tolist() == numbers


def test_a_run_also_ends_where_only_the_second_column_changes():
    first, second = np.array([1, 1, 1], np.uint64), np.array([2, 3, 3], np.uint64)
    assert new_run(first, second).tolist() == [True, True, False]
