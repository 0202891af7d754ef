"""Bounds on gradients against enumeration of all small bundles, at many scores.

Scores that are far apart matter most: there a comparison pulls with all its force.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray

from hushrank.estimation.common.links import LAPLACE, LOGISTIC, Floats, Link, loss_bounds
from hushrank.privacy.objective_perturbation import (
    GradientSensitivity,
    LossBounds,
    gradient_sensitivity,
)
from hushrank.privacy.units import Adjacency, PrivacyParams, Unit

BOTH_LINKS = pytest.mark.parametrize("link", [LOGISTIC, LAPLACE], ids=["logistic", "laplace"])
Bundle = tuple[tuple[int, int], ...]  # (winner, loser) of each row


def user_params(
    max_contributions: int,
    adjacency: Adjacency = Adjacency.REPLACE_ONE,
    *,
    distinct_pairs: bool = False,
    per_item_cap: int | None = None,
) -> PrivacyParams:
    return PrivacyParams(
        unit=Unit.USER,
        adjacency=adjacency,
        epsilon=1.0,
        max_contributions=max_contributions,
        distinct_pairs=distinct_pairs,
        per_item_cap=per_item_cap,
    )


def bundles(params: PrivacyParams, n_items: int, exactly: bool = False) -> Iterator[Bundle]:
    """Every bundle that the bounds allow, up to the order of its rows."""
    outcomes = list(itertools.permutations(range(n_items), 2))
    choose = itertools.combinations_with_replacement
    sizes = range(params.max_contributions, params.max_contributions + 1)
    for size in sizes if exactly else range(params.max_contributions + 1):
        for bundle in choose(outcomes, size):
            pairs = [frozenset(row) for row in bundle]
            if params.distinct_pairs and len(set(pairs)) < size:
                continue
            occurrences = np.bincount(np.ravel(bundle).astype(int), minlength=n_items)
            if params.per_item_cap is None or occurrences.max() <= params.per_item_cap:
                yield bundle


def points(n_items: int) -> Floats:
    """All orders of far-apart scores, equal scores, and some in between."""
    far = 40.0 * np.array(list(itertools.permutations(range(n_items))))
    tied = 40.0 * np.array(list(itertools.product(range(2), repeat=n_items)))
    near = np.random.default_rng(1).normal(0, 1, (40, n_items))
    return np.concatenate([far, tied, near])


def gradients(link: Link, all_bundles: list[Bundle], theta: Floats) -> Floats:
    """Shape (bundles, n)."""
    slopes = link.slope(np.subtract.outer(theta, theta))
    out = np.zeros((len(all_bundles), len(theta)))
    for position, bundle in enumerate(all_bundles):
        for winner, loser in bundle:
            out[position, winner] -= slopes[winner, loser]
            out[position, loser] += slopes[winner, loser]
    return out


def worst_change(
    link: Link, all_bundles: list[Bundle], others: list[Bundle], n_items: int, norm: int
) -> float:
    """Largest distance between a gradient of `all_bundles` and one of `others`."""
    worst = 0.0
    for theta in points(n_items):
        left, right = (gradients(link, group, theta) for group in (all_bundles, others))
        for row in np.unique(left, axis=0):
            worst = max(worst, float(np.linalg.norm(right - row, norm, axis=1).max()))
    return worst


CASES = [
    (2, 2, {}),
    (3, 1, {}),
    (3, 2, {}),
    (4, 1, {}),
    (3, 3, {"distinct_pairs": True}),
    (3, 2, {"distinct_pairs": True}),
    (4, 2, {"distinct_pairs": True}),
    (4, 3, {"distinct_pairs": True}),
    (3, 2, {"per_item_cap": 1}),
    (3, 3, {"per_item_cap": 2}),
]


@BOTH_LINKS
@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize(("n_items", "rows", "bounds"), CASES)
def test_no_change_exceeds_the_bounds(
    link: Link, adjacency: Adjacency, n_items: int, rows: int, bounds: dict[str, int]
) -> None:
    params = user_params(rows, adjacency, **bounds)
    change = gradient_sensitivity(loss_bounds(link), params, n_items)
    everything = list(bundles(params, n_items))
    others = [()] if adjacency is Adjacency.ADD_REMOVE else everything
    l1 = worst_change(link, everything, others, n_items, 1)
    l2 = worst_change(link, everything, others, n_items, 2)
    assert l1 <= change.l1 * (1 + 1e-9)
    assert l2 <= change.l2 * (1 + 1e-9)
    # Two items leave no room for two pairs: there one replaced row flips at most.
    if n_items > 2 or adjacency is Adjacency.ADD_REMOVE or link is LAPLACE:
        assert l1 == pytest.approx(change.l1, rel=1e-6), "the l1 bound should be attained"


@BOTH_LINKS
@pytest.mark.parametrize(("n_items", "rows", "bounds"), CASES)
def test_a_public_graph_leaves_only_flips(
    link: Link, n_items: int, rows: int, bounds: dict[str, int]
) -> None:
    params = user_params(rows, **bounds)
    change = gradient_sensitivity(loss_bounds(link), params, n_items, public_graph=True)
    worst = 0.0
    for design in {tuple(sorted(map(tuple, map(sorted, b)))) for b in bundles(params, n_items)}:
        same_pairs = [
            tuple(row[::-1] if flip else row for row, flip in zip(design, flips, strict=True))
            for flips in itertools.product((False, True), repeat=len(design))
        ]
        worst = max(worst, worst_change(link, same_pairs, same_pairs, n_items, 1))
        assert worst_change(link, same_pairs, same_pairs, n_items, 2) <= change.l2 * (1 + 1e-9)
    assert worst == pytest.approx(change.l1, rel=1e-6)
    assert change.rows == (0 if link is LOGISTIC else min(rows, change.rows))


def test_values_for_single_comparisons() -> None:
    """[CCW] A.1 has 4 kappa1 for all of these."""
    params = PrivacyParams(unit=Unit.COMPARISON, adjacency=Adjacency.REPLACE_ONE, epsilon=1.0)
    added = PrivacyParams(unit=Unit.COMPARISON, adjacency=Adjacency.ADD_REMOVE, epsilon=1.0)
    logistic, laplace = loss_bounds(LOGISTIC), loss_bounds(LAPLACE)
    assert gradient_sensitivity(logistic, params, 5).l1 == 4
    assert gradient_sensitivity(laplace, params, 5).l1 == 4  # half of 4 kappa1
    assert gradient_sensitivity(logistic, added, 5).l1 == 2
    assert gradient_sensitivity(logistic, params, 5, public_graph=True).l1 == 2
    assert gradient_sensitivity(laplace, params, 5, public_graph=True).l1 == 4
    assert gradient_sensitivity(logistic, params, 5).l2 == pytest.approx(math.sqrt(6))
    assert gradient_sensitivity(laplace, params, 5).l2 == pytest.approx(math.sqrt(8))


def test_every_pair_once_costs_a_third() -> None:
    """Six items, every pair answered once: 18 where 15 unrelated answers make 60."""
    loss = loss_bounds(LOGISTIC)
    assert gradient_sensitivity(loss, user_params(15), 6).l1 == 60
    change = gradient_sensitivity(loss, user_params(15, distinct_pairs=True), 6)
    assert change.l1 == 18
    assert (change.rows, change.rows_within) == (15, 6)


@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize(("n_items", "rows", "bounds"), CASES)
def test_rows_within_counts_what_is_left_of_a_bundle(
    adjacency: Adjacency, n_items: int, rows: int, bounds: dict[str, int]
) -> None:
    """By enumeration: whichever set is cut, pairs across it trade for rows not across it.

    What a logistic loss charges is 2 kappa1 / scale a pair across and less than half of that a row
    of the first bundle that is not; the bound must cover the worst pair of bundles and cut.
    """
    params = user_params(rows, adjacency, **bounds)
    change: GradientSensitivity = gradient_sensitivity(loss_bounds(LOGISTIC), params, n_items)
    # Who won does not matter here, so one outcome of each pair is enough.
    everything = [b for b in bundles(params, n_items) if all(w < loser for w, loser in b)]
    others = [()] if adjacency is Adjacency.ADD_REMOVE else everything
    for per_row in (0.1, 0.5, 1.0):
        worst = max(
            _charge(left, right, cut, per_row, params.distinct_pairs)
            for left in everything
            for right in others
            for cut in _cuts(n_items)
        )
        assert worst <= change.l1 / 2 + per_row * change.rows_within + 1e-12


def _cuts(n_items: int) -> list[frozenset[int]]:
    return [
        frozenset(cut)
        for size in range(1, n_items // 2 + 1)
        for cut in itertools.combinations(range(n_items), size)
    ]


def _charge(
    left: Bundle, right: Bundle, cut: frozenset[int], per_row: float, distinct: bool
) -> float:
    across = [frozenset(row) for row in left + right if len(cut & set(row)) == 1]
    shared = {frozenset(row) for row in left} & {frozenset(row) for row in right}
    within = [
        row
        for row in left
        if len(cut & set(row)) != 1 and not (distinct and frozenset(row) in shared)
    ]
    return len(set(across) if distinct else across) + per_row * len(within)


def test_misuse_is_refused() -> None:
    loss = loss_bounds(LOGISTIC)
    with pytest.raises(ValueError, match="public_graph says that who compared what is public"):
        gradient_sensitivity(loss, user_params(2, Adjacency.ADD_REMOVE), 4, public_graph=True)
    with pytest.raises(ValueError, match="n_items must be >= 2"):
        gradient_sensitivity(loss, user_params(2), 1)
    for bad in (math.inf, math.nan, 0.0):
        with pytest.raises(ValueError, match="bounded gradient"):
            LossBounds(slope=bad, kappa1=bad, kappa2=1.0, outcome_free_curvature=False)


def test_enumeration_is_complete() -> None:
    """Of the test itself: bundles of 2 rows over 3 items, with and without bounds."""
    assert len(list(bundles(user_params(2), 3, exactly=True))) == 21  # 6 * 7 / 2
    assert len(list(bundles(user_params(2, distinct_pairs=True), 3, exactly=True))) == 12
    capped: list[NDArray[np.int64]] = [
        np.array(b) for b in bundles(user_params(2, per_item_cap=1), 4, exactly=True)
    ]
    assert len(capped) == 12  # 3 ways to split 4 items into pairs, 4 outcomes
