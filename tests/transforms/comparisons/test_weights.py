"""Weighted rows against their sensitivity: every small input through the code that bounds a run.

Every person of every input gets items of their own, so that one call bounds all of them at once and
what is kept still tells whose it is.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, combinations_with_replacement, pairwise, product

import numpy as np
import pytest

import hushrank.privacy.row_weights as row_weights
from hushrank.privacy.keyed_hash import KeyedHash
from hushrank.privacy.row_weights import Counted, RowFactors, weighted_sensitivity
from hushrank.privacy.sensitivity import (
    pair_counts_sensitivity,
    win_counts_sensitivity,
    win_loss_sensitivity,
)
from hushrank.privacy.units import UNITS, Adjacency, Bounding, NoiseKind, PrivacyParams, Unit
from hushrank.transforms.common.encode import Comparisons
from hushrank.transforms.common.schema import Ties
from hushrank.transforms.comparisons.aggregate import add_weighted
from hushrank.transforms.comparisons.bound import Bounds, bound_bucket
from hushrank.transforms.comparisons.shuffle import Carried, own

ITEMS, KEY = 3, KeyedHash(bytes(range(32)))
PAIRS = list(combinations(range(ITEMS), 2))
MOST_ROWS = 4
SENSITIVITY = {
    Counted.WINS: win_counts_sensitivity,
    Counted.PAIRS: pair_counts_sensitivity,
    Counted.WIN_LOSS: win_loss_sensitivity,
}
GRID = (0, 500, 1_300)  # weights of rows, in units; the last is W
GAUSSIAN = {"noise": NoiseKind.GAUSSIAN, "delta": 1e-6}


def params_of(most, adjacency, *, weights=False, survey=False, distinct=True) -> PrivacyParams:
    noise = GAUSSIAN if weights else {}
    return PrivacyParams(
        unit=Unit.USER,
        adjacency=adjacency,
        epsilon=1.0,
        max_contributions=most,
        distinct_pairs=distinct,
        bounding=Bounding.WEIGHTS if weights else Bounding.LEAVE_OUT,
        max_weight=GRID[-1] / UNITS if survey else None,
        **noise,
    )


def every_bundle(survey: bool, outcomes=(1, -1)):
    """Every multiset of at most `MOST_ROWS` rows: owner, pair, outcome and weight of each row."""
    kinds = list(product(range(len(PAIRS)), outcomes, GRID if survey else (0,)))
    found = [
        (owner, *row)
        for owner, bundle in enumerate(
            bundle
            for size in range(1, MOST_ROWS + 1)
            for bundle in combinations_with_replacement(kinds, size)
        )
        for row in bundle
    ]
    return np.array(found, np.int64).T


def kept_of(params: PrivacyParams, counted: Counted, ties: Ties, survey: bool) -> Comparisons:
    """What bounding keeps of every bundle; owner k has the items 3 k to 3 k + 2."""
    owner, pair, outcome, weight = every_bundle(
        survey, (1, -1, 0) if ties.row_weight == 2 else (1, -1)
    )
    low, high = np.array(PAIRS)[pair].T
    rows = Comparisons(
        (ITEMS * owner + low).astype(np.int32),
        (ITEMS * owner + high).astype(np.int32),
        outcome.astype(np.int8),
        KEY.of_integers(owner),
        weight=weight if survey else None,
    )
    factors = None
    if params.bounding is Bounding.WEIGHTS:
        factors = RowFactors(params, counted, ITEMS)
    bounds = Bounds(
        n_items=ITEMS * (int(owner.max()) + 1),
        ties=ties,
        max_contributions=params.max_contributions,
        distinct_pairs=params.distinct_pairs,
        factors=factors,
        carried=Carried.WEIGHTS if survey else Carried.NOTHING,
    )
    return bound_bucket(own(rows, ties, KEY), bounds, KEY).kept


def vectors_of(kept: Comparisons, counted: Counted, ties: Ties) -> np.ndarray:
    """The counts that each bundle adds, by the code that counts; then its sum of squares."""
    owner, n_cells = kept.left // ITEMS, {Counted.WINS: 3, Counted.PAIRS: 9}.get(counted, 6)
    n_owners = int(owner.max()) + 1
    found = np.zeros((n_owners, n_cells + 1), np.int64)

    def cells(winner, loser):
        item, other = winner % ITEMS, loser % ITEMS
        cell = item if counted is not Counted.PAIRS else ITEMS * item + other
        return winner // ITEMS * n_cells + cell

    sums = np.zeros(n_owners * n_cells + 1, np.int64)
    add_weighted(sums, kept, ties, cells)
    found[:, :-1] = sums[:-1].reshape(n_owners, n_cells)
    if counted is Counted.WIN_LOSS:
        sums = np.zeros(n_owners * n_cells + 1, np.int64)
        add_weighted(sums, kept, ties, lambda winner, loser: cells(loser, winner) + ITEMS)
        found[:, :-1] += sums[:-1].reshape(n_owners, n_cells)
    found[:, -1] = np.bincount(owner, kept.weight.astype(float) ** 2, n_owners)
    return np.unique(np.vstack([found, np.zeros_like(found[:1])]), axis=0)


def largest(vectors: np.ndarray, adjacency: Adjacency) -> tuple[int, int]:
    """l1 norm and squared l2 norm of the largest change."""
    if adjacency is Adjacency.ADD_REMOVE:
        return int(np.abs(vectors).sum(axis=1).max()), int(np.square(vectors).sum(axis=1).max())
    l1 = l2 = 0
    for vector in vectors:
        change = np.abs(vectors - vector)
        l1, l2 = max(l1, int(change.sum(axis=1).max())), max(l2, int((change**2).sum(axis=1).max()))
    return l1, l2


@pytest.mark.parametrize("counted", list(Counted))
@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize("most", [1, 2])
@pytest.mark.parametrize("survey", [False, True])
def test_heavy_users_move_the_counts_by_their_sensitivity(counted, adjacency, most, survey):
    ties = Ties.DROP if survey else Ties.SPLIT
    params = params_of(most, adjacency, weights=True, survey=survey)
    found = weighted_sensitivity(params, counted, ITEMS, ties.row_weight)
    vectors = vectors_of(kept_of(params, counted, ties, survey), counted, ties)
    l1, l2 = largest(vectors[:, :-1], adjacency)
    assert l1 <= found.counts.l1
    assert l2 <= found.counts.l2_squared
    if counted is Counted.PAIRS:  # the matrix of wins: exact
        assert l2 == found.counts.l2_squared
    vectors[:, -1] //= found.divisor  # of one person alone; rounding of a total is in the bound
    assert largest(vectors, adjacency)[1] <= found.whole.l2_squared
    # The sum of squares takes at most a hundredth.
    assert found.whole.l2_squared <= 1.0101 * found.counts.l2_squared


@pytest.mark.parametrize("counted", [Counted.WINS, Counted.PAIRS])
@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize("most", [1, 2])
@pytest.mark.parametrize("distinct", [False, True])
def test_survey_weights_move_the_counts_by_their_sensitivity(counted, adjacency, most, distinct):
    params = params_of(most, adjacency, survey=True, distinct=distinct)
    found = weighted_sensitivity(params, counted, ITEMS)
    vectors = vectors_of(kept_of(params, counted, Ties.DROP, survey=True), counted, Ties.DROP)
    l1, l2 = largest(vectors[:, :-1], adjacency)
    assert (l1, l2) == (found.counts.l1, found.counts.l2_squared)
    vectors[:, -1] //= found.divisor
    assert largest(vectors, adjacency)[0] <= found.whole.l1
    if adjacency is Adjacency.ADD_REMOVE and counted is Counted.PAIRS and distinct:
        assert largest(vectors, adjacency)[0] >= found.whole.l1 - 1, (
            "both at once, but for rounding"
        )


@pytest.mark.parametrize("counted", list(Counted))
@pytest.mark.parametrize("most", [1, 2])
@pytest.mark.parametrize("distinct", [False, True])
@pytest.mark.parametrize("noise", list(NoiseKind))
def test_squares_cost_nothing_where_a_person_is_replaced(counted, most, distinct, noise):
    """The change of counts and squares together, at the worst rounding of all people's total."""
    params = params_of(most, Adjacency.REPLACE_ONE, survey=True, distinct=distinct)
    if noise is NoiseKind.GAUSSIAN:
        params = replace(params, **GAUSSIAN)
    found = weighted_sensitivity(params, counted, ITEMS)
    assert found.whole == found.counts
    added = weighted_sensitivity(replace(params, adjacency=Adjacency.ADD_REMOVE), counted, ITEMS)
    assert added.whole != added.counts
    assert found.divisor < added.divisor
    assert most_together(params, counted, found.divisor) <= norm_of(found.counts, noise)


@pytest.mark.parametrize("most", [1, 2])
@pytest.mark.parametrize("survey", [False, True])
def test_squares_of_heavy_users_cost_nothing_beside_pairs(most, survey):
    params = params_of(most, Adjacency.REPLACE_ONE, weights=True, survey=survey)
    found = weighted_sensitivity(params, Counted.PAIRS, ITEMS)
    assert found.whole == found.counts
    worst = most_together(params, Counted.PAIRS, found.divisor)
    assert worst <= found.counts.l2_squared
    assert weighted_sensitivity(params, Counted.WINS, ITEMS).whole.l2_squared > (
        weighted_sensitivity(params, Counted.WINS, ITEMS).counts.l2_squared
    )


def most_together(params, counted, divisor) -> int:
    """l1 norm or squared l2 norm, by the noise, of counts and divided squares."""
    survey = params.max_weight is not None
    vectors = vectors_of(kept_of(params, counted, Ties.DROP, survey), counted, Ties.DROP)
    power = 1 if params.noise is NoiseKind.LAPLACE else 2
    worst = 0
    for vector in vectors:
        change = np.abs(vectors - vector)
        change[:, -1] = -(-change[:, -1] // divisor)
        worst = max(worst, int((change**power).sum(axis=1).max()))
    return worst


def norm_of(sensitivity, noise) -> int:
    return sensitivity.l1 if noise is NoiseKind.LAPLACE else sensitivity.l2_squared


def test_finer_squares_would_cost_something():
    """With half of the divisor they move by more than a bundle below the most leaves."""
    params = params_of(1, Adjacency.REPLACE_ONE, survey=True)
    found = weighted_sensitivity(params, Counted.PAIRS, ITEMS)
    assert most_together(params, Counted.PAIRS, found.divisor // 2) > found.counts.l1


@pytest.mark.parametrize("counted", list(Counted))
def test_each_further_row_adds_to_the_squared_norm(counted):
    """What `row_weights` rests on, of all bounds of a bundle."""
    for n_items, cap, distinct in product((2, 3, 5, 8), (None, 1, 2, 5), (False, True)):
        norms = []
        for most in range(cap or 1, 45):
            plain = PrivacyParams(
                unit=Unit.USER,
                adjacency=Adjacency.ADD_REMOVE,
                epsilon=1.0,
                max_contributions=most,
                per_item_cap=cap,
                distinct_pairs=distinct,
            )
            rows = pair_counts_sensitivity(plain, n_items).l1
            squares = SENSITIVITY[counted](plain, n_items).l2_squared
            norms.append((rows, squares))
        for (rows, squares), (more, larger) in pairwise(norms):
            assert larger >= squares + more - rows


def rounded_up(units, factors):
    weight = UNITS if units is None else units
    return np.asarray(-(-weight * factors >> row_weights.FACTOR_BITS))


def by_rows(factors, rows):
    """sqrt(L / m), which is right on the matrix of wins and too much on wins by item."""
    most = np.minimum(1.0, np.sqrt(factors.params.max_contributions / rows))
    return np.asarray(most * 2**row_weights.FACTOR_BITS).astype(np.int64)


def no_factor(factors, rows):
    return np.full(len(rows), 1 << row_weights.FACTOR_BITS)


BUGS = {
    "rounded up": (Counted.PAIRS, "hushrank.transforms.comparisons.bound.multiplied", rounded_up),
    "rows counted": (Counted.WINS, "hushrank.privacy.row_weights.RowFactors.of", by_rows),
    "no factor": (Counted.PAIRS, "hushrank.privacy.row_weights.RowFactors.of", no_factor),
}


@pytest.mark.parametrize("bug", BUGS)
def test_the_enumeration_finds_planted_bugs(bug, monkeypatch):
    counted, place, planted = BUGS[bug]
    params = params_of(1, Adjacency.ADD_REMOVE, weights=True, survey=True)
    bound = weighted_sensitivity(params, counted, ITEMS).counts.l2_squared

    def found() -> int:
        vectors = vectors_of(kept_of(params, counted, Ties.DROP, True), counted, Ties.DROP)
        return largest(vectors[:, :-1], Adjacency.ADD_REMOVE)[1]

    assert found() <= bound
    monkeypatch.setattr(place, planted)
    assert found() > bound


@pytest.mark.parametrize("counted", list(Counted))
@pytest.mark.parametrize("cap", [None, 2])
def test_factors_fall_with_the_rows_and_never_exceed_the_root(counted, cap):
    n_items, most = 12, 7
    params = replace(params_of(most, Adjacency.ADD_REMOVE, weights=True), per_item_cap=cap)
    rows = np.arange(1, n_items * (n_items - 1) // 2 + 1)
    factors = RowFactors(params, counted, n_items).of(rows)
    assert (factors[:most] == 1 << row_weights.FACTOR_BITS).all()
    assert (np.diff(factors) <= 0).all()
    if counted is Counted.PAIRS and cap is None:
        exact = np.minimum(1, np.sqrt(most / rows)) * 2**row_weights.FACTOR_BITS
        assert ((factors <= exact) & (factors > exact - 1)).all()
