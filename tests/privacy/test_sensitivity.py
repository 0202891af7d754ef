"""Sensitivities against the largest change found by enumerating every small bundle.

A bundle is what one user contributes: rows on pairs of items, each won by one of the two or, where
ties are split, tied. Every bundle and every pair of bundles that the bounds allow is tried.
"""

from __future__ import annotations

from functools import cache
from itertools import combinations, combinations_with_replacement, product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from hushrank.privacy.sensitivity import (
    Sensitivity,
    exposures_sensitivity,
    outcomes_sensitivity,
    pair_counts_sensitivity,
    win_counts_sensitivity,
    win_loss_sensitivity,
)
from hushrank.privacy.units import Adjacency, PrivacyParams, Unit

ADJACENCIES = list(Adjacency)
STATISTICS = {
    "wins": win_counts_sensitivity,
    "pairs": pair_counts_sensitivity,
    "win-loss": win_loss_sensitivity,
}
BOUNDED = STATISTICS | {"exposures": exposures_sensitivity}


def n_pairs(n_items: int) -> int:
    return n_items * (n_items - 1) // 2


@cache
def possible_rows(n_items: int, ties: bool) -> NDArray[np.int64]:
    """Matrix wins[a, b] of every possible row, shape (pairs, outcomes, n, n); 2 a row with ties."""
    rows = np.zeros((n_pairs(n_items), 3 if ties else 2, n_items, n_items), np.int64)
    for pair, (i, j) in enumerate(combinations(range(n_items), 2)):
        rows[pair, 0, i, j] = rows[pair, 1, j, i] = 2 if ties else 1
        if ties:
            rows[pair, 2, i, j] = rows[pair, 2, j, i] = 1
    return rows


@cache
def bundle_matrices(n_items: int, most: int, distinct: bool, ties: bool) -> NDArray[np.int64]:
    """Every bundle of at most `most` rows, as the sum of its rows, shape (m, n, n)."""
    rows = possible_rows(n_items, ties)
    if distinct:
        absent = np.zeros_like(rows[:, :1])
        options = np.concatenate([absent, rows], axis=1)  # (pairs, states, n, n)
        states = np.indices((options.shape[1],) * len(options)).reshape(len(options), -1)
        states = states[:, (states > 0).sum(axis=0) <= most]
        return sum(option[state] for option, state in zip(options, states, strict=True))
    flat = rows.reshape(-1, n_items, n_items)
    sums = [
        flat[list(chosen)].sum(axis=0)
        for size in range(most + 1)
        for chosen in combinations_with_replacement(range(len(flat)), size)
    ]
    return np.array(sums)


def bundles(
    statistic: str, n_items: int, most: int, distinct: bool, ties: bool, cap: int | None
) -> NDArray[np.int64]:
    """Distinct values of the statistic of one bundle that keeps all bounds, shape (m, d)."""
    wins = bundle_matrices(n_items, most, distinct, ties)
    if cap is not None:
        occurrences = (wins + wins.transpose(0, 2, 1)).sum(axis=2)  # a row weighs 2 with ties
        wins = wins[(occurrences <= cap * (2 if ties else 1)).all(axis=1)]
    won, lost = wins.sum(axis=2), wins.sum(axis=1)
    values = {
        "wins": won,
        "pairs": wins.reshape(len(wins), -1),
        "win-loss": np.hstack([won, lost]),
        "exposures": won + lost,
    }
    return np.unique(values[statistic], axis=0)


def largest_change(values: NDArray[np.int64], adjacency: Adjacency) -> Sensitivity:
    """Over every bundle against nothing, or every bundle against every other."""
    if adjacency is Adjacency.ADD_REMOVE:
        return Sensitivity(int(values.sum(axis=1).max()), int((values**2).sum(axis=1).max()))
    l1 = l2_squared = 0
    for value in values:
        change = values - value
        l1 = max(l1, int(np.abs(change).sum(axis=1).max()))
        l2_squared = max(l2_squared, int((change**2).sum(axis=1).max()))
    return Sensitivity(l1, l2_squared)


def user_params(adjacency: Adjacency, most: int, **bounds: Any) -> PrivacyParams:
    return PrivacyParams(
        unit=Unit.USER, adjacency=adjacency, epsilon=1.0, max_contributions=most, **bounds
    )


def check(
    statistic: str,
    adjacency: Adjacency,
    n_items: int,
    most: int,
    *,
    distinct: bool = False,
    ties: bool = False,
    cap: int | None = None,
) -> tuple[Sensitivity, Sensitivity]:
    """Assert that the bound holds; return (bound, enumerated)."""
    params = user_params(adjacency, most, distinct_pairs=distinct, per_item_cap=cap)
    bound = BOUNDED[statistic](params, n_items, 2 if ties else 1)
    found = largest_change(bundles(statistic, n_items, most, distinct, ties, cap), adjacency)
    assert found.l1 <= bound.l1
    assert found.l2_squared <= bound.l2_squared
    return bound, found


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("statistic", STATISTICS)
@pytest.mark.parametrize("n_items", [2, 3, 4, 5])
def test_unit_comparison_is_exact(
    statistic: str, adjacency: Adjacency, n_items: int, ties: bool
) -> None:
    params = PrivacyParams(unit=Unit.COMPARISON, adjacency=adjacency, epsilon=1.0)
    bound = STATISTICS[statistic](params, n_items, 2 if ties else 1)
    one_row = bundles(statistic, n_items, 1, False, ties, None)
    assert bound == largest_change(one_row, adjacency)


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("statistic", STATISTICS)
@pytest.mark.parametrize(
    ("n_items", "most", "ties"),
    [(n, most, False) for n in (2, 3, 4) for most in (1, 2, 3, 4)]
    + [(5, most, False) for most in (1, 2, 3)]
    + [(n, most, True) for n in (2, 3) for most in (1, 2, 3, 4)]
    + [(4, 3, True), (5, 2, True)],
)
def test_unit_user_is_exact(
    statistic: str, adjacency: Adjacency, n_items: int, most: int, ties: bool
) -> None:
    bound, found = check(statistic, adjacency, n_items, most, ties=ties)
    assert bound == found


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize(
    ("n_items", "most", "ties"),
    [(n, most, False) for n in (2, 3, 4, 5) for most in range(1, n_pairs(n) + 2)]
    + [(n, most, True) for n in (2, 3, 4) for most in range(1, n_pairs(n) + 1)],
)
def test_win_counts_on_distinct_pairs_are_exact(
    adjacency: Adjacency, n_items: int, most: int, ties: bool
) -> None:
    bound, found = check("wins", adjacency, n_items, most, distinct=True, ties=ties)
    assert bound == found


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize(
    ("n_items", "most", "ties"),
    [(n, most, False) for n in (2, 3, 4) for most in range(1, n_pairs(n) + 2)]
    + [(5, 2, False), (2, 1, True), (3, 2, True), (3, 3, True)],
)
def test_pair_counts_on_distinct_pairs_are_exact(
    adjacency: Adjacency, n_items: int, most: int, ties: bool
) -> None:
    bound, found = check("pairs", adjacency, n_items, most, distinct=True, ties=ties)
    assert bound == found


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize(
    ("n_items", "most", "distinct"),
    [(n, most, distinct) for n in (2, 3, 4) for most in range(1, 7) for distinct in (False, True)]
    + [(5, 2, False), (6, 2, False)]
    + [(5, most, True) for most in range(1, 12)],
)
def test_exposures(adjacency: Adjacency, n_items: int, most: int, distinct: bool) -> None:
    bound, found = check("exposures", adjacency, n_items, most, distinct=distinct)
    assert bound.l1 == found.l1
    if adjacency is Adjacency.ADD_REMOVE and not (distinct and 2 < n_items - 1 < most):
        assert bound == found


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize(
    ("n_items", "most", "cap", "distinct"),
    [(n, 4, cap, distinct) for n in (2, 3, 4) for cap in (1, 2, 3) for distinct in (False, True)]
    + [(5, 10, cap, True) for cap in (1, 2, 3, 4)],
)
def test_the_l1_norm_of_exposures_under_a_cap_is_exact(
    adjacency: Adjacency, n_items: int, most: int, cap: int, distinct: bool
) -> None:
    bound, found = check("exposures", adjacency, n_items, most, distinct=distinct, cap=cap)
    assert bound.l1 == found.l1


def test_exposures_of_few_items() -> None:
    """Without common items two bundles would move 4L: 8 for L = 2, 12 and 16 for L = 3 and 4."""
    for n_items, most, l1 in [(4, 2, 4), (5, 3, 8), (5, 4, 8), (6, 3, 12), (100_000, 4, 16)]:
        params = user_params(Adjacency.REPLACE_ONE, most, distinct_pairs=True)
        assert exposures_sensitivity(params, n_items).l1 == l1
    for n_items, l1 in [(2, 14), (3, 14), (4, 28)]:
        assert exposures_sensitivity(user_params(Adjacency.REPLACE_ONE, 7), n_items).l1 == l1


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("statistic", ["win-loss"])
@pytest.mark.parametrize(
    ("n_items", "most"), [(n, most) for n in (2, 3, 4) for most in range(1, n_pairs(n) + 2)]
)
def test_wins_and_losses_on_distinct_pairs(
    statistic: str, adjacency: Adjacency, n_items: int, most: int
) -> None:
    bound, found = check(statistic, adjacency, n_items, most, distinct=True)
    assert bound.l1 == found.l1
    if most < n_items or most >= n_pairs(n_items):
        assert bound == found  # a star; every pair: wins n - 1, n - 2, ..., losses turned round


def test_no_signs_of_wins_and_losses_add_up_to_more_than_the_proof_says() -> None:
    """Step by step: the largest sum of k entries of a change, over all signs, whatever L."""
    for n in (3, 4):
        signs = np.array(list(product((-1, 0, 1), repeat=2 * n)))
        s, t = signs[:, :n], signs[:, n:]
        total = np.zeros(len(signs), int)
        for a, b in combinations(range(n), 2):
            one, other = s[:, a] + t[:, b], s[:, b] + t[:, a]
            total += np.maximum(0, np.maximum(one, other)) - np.minimum(0, np.minimum(one, other))
        steps = np.repeat([n - 1 - 2 * i for i in range(n)], 4)[: 2 * n]
        for k in range(1, 2 * n + 1):
            assert total[np.abs(signs).sum(axis=1) == k].max() == steps[:k].sum()
        assert 3 * np.square(steps).sum() == 2 * n * (n * n - 1)


@pytest.mark.parametrize("n_items", [5, 6, 7])
def test_a_ranking_turned_round_moves_wins_and_losses_most(n_items: int) -> None:
    params = user_params(Adjacency.REPLACE_ONE, n_pairs(n_items), distinct_pairs=True)
    change = np.tile(2 * np.arange(n_items) - (n_items - 1), 2)
    assert win_loss_sensitivity(params, n_items).l2_squared == np.square(change).sum()


def test_exposures_of_stars_and_complete_graphs_are_exact() -> None:
    for most, l2_squared in [(3, 12), (6, 36)]:  # of four items
        params = user_params(Adjacency.ADD_REMOVE, most, distinct_pairs=True)
        assert exposures_sensitivity(params, 4) == Sensitivity(2 * most, l2_squared)


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("statistic", BOUNDED)
@pytest.mark.parametrize(
    ("n_items", "most", "distinct", "ties"),
    [(n, most, False, False) for n in (2, 3, 4) for most in (1, 2, 3, 4)]
    + [(n, most, True, False) for n in (3, 4) for most in (2, 3, n_pairs(n))]
    + [(3, 4, False, True), (4, 3, True, True)],
)
def test_per_item_cap(
    statistic: str, adjacency: Adjacency, n_items: int, most: int, distinct: bool, ties: bool
) -> None:
    for cap in range(1, most + 1):
        check(statistic, adjacency, n_items, most, distinct=distinct, ties=ties, cap=cap)


def test_a_cap_bounds_the_rows() -> None:
    params = user_params(Adjacency.ADD_REMOVE, 4, per_item_cap=1)
    assert win_counts_sensitivity(params, 4) == Sensitivity(2, 2)  # two disjoint pairs, not four
    values = bundles("wins", 4, 4, False, False, 1)
    assert largest_change(values, Adjacency.ADD_REMOVE) == Sensitivity(2, 2)


def test_one_per_user_of_six_items_all_pairs() -> None:
    params = user_params(Adjacency.REPLACE_ONE, 15, distinct_pairs=True)
    assert win_counts_sensitivity(params, 6) == Sensitivity(24, 100)
    assert pair_counts_sensitivity(params, 6) == Sensitivity(30, 30)
    assert win_loss_sensitivity(params, 6) == Sensitivity(36, 140)


@pytest.mark.parametrize("most", [1, 2, 3])
def test_erratum_1_the_published_scale_is_below_the_truth(most: int) -> None:
    published_l1 = most  # [CCW] Alg. 3 adds Laplace(L / epsilon) under replace-one
    values = bundles("wins", 4, most, False, False, None)
    truth = largest_change(values, Adjacency.REPLACE_ONE).l1
    assert published_l1 < truth
    assert win_counts_sensitivity(user_params(Adjacency.REPLACE_ONE, most), 4).l1 == truth


@pytest.mark.parametrize("sensitivity_of", BOUNDED.values())
def test_sizes_are_checked(sensitivity_of: Any) -> None:
    params = user_params(Adjacency.REPLACE_ONE, 2)
    with pytest.raises(ValueError, match="n_items must be >= 2, got 1"):
        sensitivity_of(params, 1)
    with pytest.raises(ValueError, match="row_weight must be >= 1, got 0"):
        sensitivity_of(params, 4, 0)


def largest_change_of_outcomes(
    n_items: int, most: int, distinct: bool, ties: bool, cap: int | None
) -> Sensitivity:
    """Over every two bundles on the same pairs: of the entries a < b alone."""
    wins = bundle_matrices(n_items, most, distinct, ties)
    upper = np.triu_indices(n_items, 1)
    totals = (wins + wins.transpose(0, 2, 1))[:, *upper]
    if cap is not None:
        occurrences = (wins + wins.transpose(0, 2, 1)).sum(axis=2)
        within = (occurrences <= cap * (2 if ties else 1)).all(axis=1)
        wins, totals = wins[within], totals[within]
    _, graph = np.unique(totals, axis=0, return_inverse=True)
    changes = [
        largest_change(np.unique(wins[graph == same][:, *upper], axis=0), Adjacency.REPLACE_ONE)
        for same in range(graph.max() + 1)
    ]
    return Sensitivity(max(one.l1 for one in changes), max(one.l2_squared for one in changes))


@pytest.mark.parametrize("distinct", [False, True])
@pytest.mark.parametrize(
    ("n_items", "most", "ties"),
    [(n, most, False) for n in (2, 3, 4) for most in (1, 2, 3, 4)]
    + [(n, most, True) for n in (2, 3) for most in (1, 2, 3)],
)
def test_outcomes_on_a_public_graph_are_exact(
    n_items: int, most: int, ties: bool, distinct: bool
) -> None:
    params = user_params(Adjacency.REPLACE_ONE, most, distinct_pairs=distinct)
    bound = outcomes_sensitivity(params, n_items, 2 if ties else 1)
    found = largest_change_of_outcomes(n_items, most, distinct, ties, None)
    assert bound == found
    assert 2 * bound.l1 == pair_counts_sensitivity(params, n_items, 2 if ties else 1).l1


@pytest.mark.parametrize(("most", "cap"), [(2, 1), (3, 1), (3, 2), (4, 2)])
def test_outcomes_under_a_cap_per_item(most: int, cap: int) -> None:
    params = user_params(Adjacency.REPLACE_ONE, most, per_item_cap=cap)
    bound = outcomes_sensitivity(params, 4)
    found = largest_change_of_outcomes(4, most, False, False, cap)
    assert found.l1 == bound.l1
    assert found.l2_squared <= bound.l2_squared


def test_outcomes_alone_cannot_hide_who_took_part() -> None:
    with pytest.raises(ValueError, match="adjacency must be replace-one"):
        outcomes_sensitivity(user_params(Adjacency.ADD_REMOVE, 3), 4)
