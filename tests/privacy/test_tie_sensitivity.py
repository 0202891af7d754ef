"""Sensitivity of three counts a pair against the largest change over every small bundle.

Cells are those of the code that counts (`transforms.comparisons.aggregate.add_outcomes`).
"""

from __future__ import annotations

from itertools import combinations, combinations_with_replacement, product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from hushrank.privacy.sensitivity import Sensitivity, tie_counts_sensitivity
from hushrank.privacy.units import Adjacency, PrivacyParams, Unit
from hushrank.transforms.common.encode import Comparisons
from hushrank.transforms.comparisons.aggregate import add_outcomes

ADJACENCIES = list(Adjacency)


def bundles(n_items: int, most: int, *, distinct: bool, cap: int | None) -> NDArray[np.int64]:
    """Cells of every bundle that keeps all bounds, shape (m, 2 n n)."""
    rows = [(*pair, won) for pair in combinations(range(n_items), 2) for won in (-1, 0, 1)]
    found = []
    for size in range(most + 1):
        for chosen in combinations_with_replacement(rows, size):
            pairs = [row[:2] for row in chosen]
            shown = np.bincount([item for pair in pairs for item in pair], minlength=n_items)
            if distinct and len(set(pairs)) < len(pairs):
                continue
            if cap is not None and shown.max() > cap:
                continue
            columns = np.array(chosen, np.int64).reshape(-1, 3)
            counts = np.zeros((2, n_items, n_items), np.int64)
            left, right, outcome = columns[:, 0], columns[:, 1], columns[:, 2]
            add_outcomes(counts, Comparisons(left, right, outcome.astype(np.int8)))
            found.append(counts.ravel())
    return np.unique(found, axis=0)


def largest_change(values: NDArray[np.int64], adjacency: Adjacency) -> Sensitivity:
    pairs = product(values, values)
    if adjacency is Adjacency.ADD_REMOVE:
        pairs = ((value, np.zeros_like(value)) for value in values)
    changes = np.array([one - other for one, other in pairs])
    return Sensitivity(
        int(np.abs(changes).sum(axis=1).max()), int(np.square(changes).sum(axis=1).max())
    )


def params(adjacency: Adjacency, most: int, **bounds: Any) -> PrivacyParams:
    return PrivacyParams(
        unit=Unit.USER, adjacency=adjacency, epsilon=1.0, max_contributions=most, **bounds
    )


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("n_items", [2, 3, 4])
def test_one_comparison_is_exact(adjacency: Adjacency, n_items: int) -> None:
    one = PrivacyParams(unit=Unit.COMPARISON, adjacency=adjacency, epsilon=1.0)
    rows = bundles(n_items, 1, distinct=False, cap=None)
    rows = rows[rows.any(axis=1)]  # a row is replaced by a row
    assert tie_counts_sensitivity(one, n_items) == largest_change(rows, adjacency)


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("distinct", [False, True])
@pytest.mark.parametrize(("n_items", "most"), [(2, 1), (2, 3), (3, 1), (3, 2), (3, 3)])
def test_one_person_is_exact(adjacency: Adjacency, distinct: bool, n_items: int, most: int) -> None:
    bound = tie_counts_sensitivity(params(adjacency, most, distinct_pairs=distinct), n_items)
    found = largest_change(bundles(n_items, most, distinct=distinct, cap=None), adjacency)
    assert bound == found


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize(("n_items", "most", "cap"), [(2, 3, 2), (3, 3, 1), (3, 3, 2)])
def test_a_cap_bounds(adjacency: Adjacency, n_items: int, most: int, cap: int) -> None:
    bound = tie_counts_sensitivity(params(adjacency, most, per_item_cap=cap), n_items)
    found = largest_change(bundles(n_items, most, distinct=False, cap=cap), adjacency)
    assert found.l1 == bound.l1
    assert found.l2_squared <= bound.l2_squared


def test_groups_and_ties_change_nothing() -> None:
    alone, grouped = (
        tie_counts_sensitivity(params(Adjacency.REPLACE_ONE, 5), 4, n) for n in (1, 3)
    )
    assert alone == grouped == Sensitivity(10, 50)
