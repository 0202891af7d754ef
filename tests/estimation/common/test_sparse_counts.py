"""Sparse counts are those of the dense matrix, however they are grouped."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushrank.estimation.common.matrices import (
    CellCounts,
    PairCounts,
    arrays_of_sparse,
    pair_counts_of,
)

N_ITEMS = 5
CELLS = st.lists(st.integers(0, N_ITEMS**2 - 1), max_size=60)


@given(CELLS, st.integers(1, 2), st.lists(st.integers(0, 60), max_size=4))
def test_sums_of_parts_are_the_histogram_in_any_grouping(cells, weight, cuts):
    every = np.array(cells, np.int64)
    parts = [CellCounts.of(part, weight) for part in np.split(every, sorted(cuts))]
    total = CellCounts.sum([CellCounts.sum(parts[1:]), parts[0]])
    histogram = weight * np.bincount(every, minlength=N_ITEMS**2)
    assert (total.cells == np.flatnonzero(histogram)).all()
    assert (total.counts == histogram[histogram > 0]).all()
    assert (total.matrix(N_ITEMS).toarray() == histogram.reshape(N_ITEMS, N_ITEMS)).all()
    assert total.matrix(N_ITEMS).dtype == np.int64


def test_cells_beyond_32_bits_keep_their_place():
    n = 100_000
    cells = np.array([n * n - 2, 1, n * n - 2, 50_000 * n + 49_999], np.int64)
    matrix = CellCounts.of(cells).matrix(n)
    assert matrix[n - 1, n - 2] == 2
    assert matrix[0, 1] == 1
    assert matrix[50_000, 49_999] == 1
    assert matrix.sum() == 4


def test_pair_counts_are_stored_as_arrays_and_read_again():
    matrix = CellCounts.of(np.array([1, 1, 7, 10], np.int64)).matrix(N_ITEMS)
    stored = arrays_of_sparse(matrix)
    again = pair_counts_of(stored, row_weight=2)
    assert again.n_items == N_ITEMS
    assert (again.wins.toarray() == matrix.toarray()).all()
    assert (again.in_comparisons().toarray() == matrix.toarray() / 2).all()
    assert (again.win_counts().wins == matrix.toarray().sum(axis=1)).all()
    dense = pair_counts_of({"counts": matrix.toarray()}, row_weight=1)
    assert (dense.dense() == matrix.toarray()).all()
    with pytest.raises(ValueError, match="sparse: dense ones are needed"):
        again.dense()


def test_noisy_counts_are_never_sparse_because_places_would_be_a_release():
    matrix = CellCounts.of(np.array([1], np.int64)).matrix(N_ITEMS)
    with pytest.raises(ValueError, match="noise goes on every pair"):
        PairCounts(matrix, confidential=False)


@pytest.mark.parametrize("cells", [[0], [6, 1]])
def test_an_item_that_meets_itself_is_refused(cells):
    with pytest.raises(ValueError, match="diagonal"):
        PairCounts(CellCounts.of(np.array(cells, np.int64)).matrix(N_ITEMS))
