"""Sensitivities of counts by group, against all small inputs, through the code that bounds rows.

Every multiset of a person's rows of 3 items in 2 groups is bounded by `bound_bucket` and counted by
`add_wins` and `add_pairs`, as a run does. The largest change that any two of them make is the
stated sensitivity: not more, and not less.
"""

from __future__ import annotations

from functools import cache
from itertools import combinations, combinations_with_replacement, product

import numpy as np
import pyarrow as pa
import pytest

from hushrank.estimation.common.central_noise import (
    calibrate_pair_counts,
    calibrate_win_counts,
    calibrate_win_loss,
)
from hushrank.privacy.audit import audit_epsilon
from hushrank.privacy.keyed_hash import KeyedHash
from hushrank.privacy.noise import add_noise
from hushrank.privacy.randomness import system_bits
from hushrank.privacy.sensitivity import (
    pair_counts_sensitivity,
    tie_counts_sensitivity,
    win_counts_sensitivity,
    win_loss_sensitivity,
)
from hushrank.privacy.units import Adjacency, PrivacyParams, Unit
from hushrank.transforms.common.catalogue import Catalogue, Groups
from hushrank.transforms.common.encode import Comparisons, encode_comparisons
from hushrank.transforms.common.schema import ComparisonColumns, GroupSets, Ties
from hushrank.transforms.comparisons.aggregate import (
    PairCountsFn,
    TieCountsFn,
    add_pairs,
    each_group,
)
from hushrank.transforms.comparisons.bound import Bounds, bound_bucket
from hushrank.transforms.comparisons.shuffle import Carried, own
from tests.statistics import FALSE_POSITIVE_RATE, discrete_laplace_pmf, law_p_value

N, GROUPS = 3, 2
HASH = KeyedHash(bytes(range(32)))
PAIRS = list(combinations(range(N), 2))
ROWS = [(*pair, outcome, group) for pair, outcome, group in product(PAIRS, (1, -1), range(GROUPS))]
BOUNDS = [
    {"max_contributions": most, "distinct_pairs": distinct, "per_item_cap": cap}
    for most, distinct, cap in product((1, 2, 3), (False, True), (None, 1, 2))
    if cap is None or cap <= most
]
STATISTICS = {
    "wins": (win_counts_sensitivity, lambda wins: wins.sum(axis=-1)),
    "pairs": (pair_counts_sensitivity, lambda wins: wins),
    "win-loss": (
        win_loss_sensitivity,
        lambda wins: np.stack([wins.sum(axis=-1), wins.sum(axis=-2)], axis=-2),
    ),
}


def counts_of(rows, *, per_group=False, **bounds) -> np.ndarray:
    """Wins of one person's rows, shape (groups, n, n), as a run bounds and counts them."""
    if per_group:  # the bug that the audit has to catch
        parts = [
            counts_of([row for row in rows if row[3] == group], **bounds) for group in range(GROUPS)
        ]
        return np.sum(parts, axis=0)
    columns = np.array(rows, np.int64).reshape(-1, 4)
    person = HASH.of_integers(np.zeros(len(columns), np.int64))
    encoded = Comparisons(
        columns[:, 0].astype(np.int32),
        columns[:, 1].astype(np.int32),
        columns[:, 2].astype(np.int8),
        person,
        group=columns[:, 3].astype(np.int16),
    )
    limits = Bounds(n_items=N, ties=Ties.DROP, carried=Carried.GROUPS, **bounds)
    kept = bound_bucket(own(encoded, Ties.DROP, HASH), limits, HASH).kept
    wins = np.zeros((GROUPS, N, N), np.int64)
    add_pairs(wins, kept, Ties.DROP)
    return wins


@cache
def bundles(most: int, distinct: bool, cap: int | None) -> np.ndarray:
    """Counts of every person with up to 3 rows, and of some with more than may count."""
    found = [
        counts_of(rows, max_contributions=most, distinct_pairs=distinct, per_item_cap=cap)
        for size in range(4)
        for rows in combinations_with_replacement(ROWS, size)
    ]
    more = [
        counts_of(rows * 3, max_contributions=most, distinct_pairs=distinct, per_item_cap=cap)
        for rows in combinations(ROWS, 2)
    ]
    return np.unique(np.array([*found, *more]), axis=0)


@pytest.mark.parametrize("name", STATISTICS)
@pytest.mark.parametrize("bounds", BOUNDS, ids=lambda bounds: "-".join(map(str, bounds.values())))
def test_it_is_the_largest_change_of_all_small_inputs(bounds, name) -> None:
    sensitivity, statistic = STATISTICS[name]
    wins = bundles(*bounds.values())
    flat = statistic(wins).reshape(len(wins), -1)
    for adjacency in Adjacency:
        params = PrivacyParams(unit=Unit.USER, adjacency=adjacency, epsilon=1.0, **bounds)
        stated = sensitivity(params, N, 1, GROUPS)
        if adjacency is Adjacency.ADD_REMOVE:
            changes = flat
        else:
            changes = (flat[:, np.newaxis] - flat).reshape(-1, flat.shape[1])
        l1, l2 = np.abs(changes).sum(axis=1).max(), np.square(changes).sum(axis=1).max()
        assert l1 == stated.l1, adjacency
        # A cap leaves few small inputs that attain the squared norm of two counts a row.
        assert l2 <= stated.l2_squared, adjacency
        if name != "win-loss" and bounds["per_item_cap"] is None:
            assert l2 == stated.l2_squared, adjacency


@cache
def overlapping(most: int, groups: int) -> tuple[np.ndarray, ...]:
    """Counts of every person of at most 2 rows, each in a set of at most `most` groups."""
    sets = [
        sum(1 << group for group in chosen)
        for size in range(most + 1)
        for chosen in combinations(range(groups), size)
    ]
    rows = [(*pair, outcome, each) for pair, outcome, each in product(PAIRS, (1, -1), sets)]
    found = []
    for size in range(3):
        for person in combinations_with_replacement(rows, size):
            wins = np.zeros((groups + 1, N, N), np.int64)
            columns = np.array(person, np.int64).reshape(-1, 4)
            encoded = Comparisons(
                columns[:, 0].astype(np.int32),
                columns[:, 1].astype(np.int32),
                columns[:, 2].astype(np.int8),
                sets=columns[:, 3].astype(np.uint64),
            )
            for cells, mine in each_group(wins, encoded):
                add_pairs(cells, mine, Ties.DROP)
            found.append(wins)
    return tuple(np.unique(np.array(found), axis=0))


@pytest.mark.parametrize("name", STATISTICS)
@pytest.mark.parametrize(("most", "groups"), [(1, 2), (2, 2), (1, 3), (2, 3)])
def test_groups_that_overlap_cost_one_more_than_an_answer_has(name, most, groups) -> None:
    """All cells move together, those of the whole too: by no more than stated, and by no less."""
    sensitivity, statistic = STATISTICS[name]
    wins = statistic(np.array(overlapping(most, groups)))
    flat = wins.reshape(len(wins), -1)
    for adjacency in Adjacency:
        params = PrivacyParams(
            unit=Unit.USER, adjacency=adjacency, epsilon=1.0, max_contributions=2
        )
        stated = sensitivity(params, N, 1, groups + 1).in_groups(most)
        l1 = l2 = 0
        for each in flat[:1] if adjacency is Adjacency.ADD_REMOVE else flat:
            change = flat - each
            l1 = max(l1, np.abs(change).sum(axis=1).max())
            l2 = max(l2, np.square(change).sum(axis=1).max())
        assert (l1, l2) == (stated.l1, stated.l2_squared), adjacency


NAMES = ("p", "q", "r")
LISTS = (None, [], ["p"], ["q", "r"], ["r", "q", "p", "p"], ["other", "r"])
SHARED = [(*pair, outcome, each) for pair, outcome, each in product(PAIRS, (1, -1, 0), LISTS)]
WORST = [  # rows on one pair, and on all pairs, each with those that take back what they add
    [(0, 1, outcome, list(NAMES), event) for event in range(3)] for outcome in (1, -1)
] + [[(*pair, outcome, list(NAMES), 0) for pair in PAIRS] for outcome in (1, -1)]


def read_bounded_and_counted(rows, groups, ties, *, event, **bounds) -> dict[str, np.ndarray]:
    """Counts of one person's rows, from their cells on, as a run makes them."""
    columns = zip(*rows, strict=True) if rows else [[]] * 5
    types = (pa.int64(), pa.int64(), pa.int64(), pa.list_(pa.string()), pa.int64())
    cells = [pa.array(each, type_) for each, type_ in zip(columns, types, strict=True)]
    user = pa.array(["x"] * len(rows), pa.string())
    batch = pa.record_batch([user, *cells], ["user", "a", "b", "y", "tags", "event"])
    asked = ComparisonColumns(
        left="a",
        right="b",
        outcome="y",
        winner=None,
        user="user",
        event="event" if event else None,
        sets=GroupSets(column="tags"),
    )
    found = encode_comparisons(batch, asked, Catalogue.of_count(N), HASH, groups=groups).rows
    owned = own(found, ties, HASH, np.arange(len(found)) if event else None)
    limits = Bounds(n_items=N, ties=ties, most_groups=groups.most, carried=Carried.SETS, **bounds)
    kept = bound_bucket(owned, limits, HASH).kept
    if ties is Ties.MODEL:
        counts = TieCountsFn(N, ties, len(groups))
        return {"ties": counts.add_input(counts.create_accumulator(), kept)}
    counts = PairCountsFn(N, ties, len(groups))
    wins = counts.add_input(counts.create_accumulator(), kept)
    return {name: statistic(wins) for name, (_, statistic) in STATISTICS.items()}


@pytest.mark.parametrize("event", [False, True], ids=["rows", "events"])
@pytest.mark.parametrize("ties", [Ties.SPLIT, Ties.RANDOM, Ties.MODEL])
@pytest.mark.parametrize(
    "bounds", [(1, False, None), (3, False, None), (3, True, None), (3, True, 2)]
)
def test_no_person_moves_groups_that_overlap_by_more_than_stated(bounds, ties, event) -> None:
    """People of up to 4 rows at random, and the worst; sets are larger than counts, or empty."""
    limits = dict(zip(("max_contributions", "distinct_pairs", "per_item_cap"), bounds, strict=True))
    groups, random = Groups(NAMES, others=True, most=2), np.random.default_rng(0)
    people = [
        [(*SHARED[row], int(random.integers(2))) for row in random.integers(len(SHARED), size=size)]
        for size in (0, *[1, 2, 3, 4] * 12)
    ]
    found = [
        read_bounded_and_counted(rows, groups, ties, event=event, **limits)
        for rows in [*people, *WORST]
    ]
    for name in found[0]:
        flat = np.array([each[name].ravel() for each in found])
        for adjacency in Adjacency:
            params = PrivacyParams(unit=Unit.USER, adjacency=adjacency, epsilon=1.0, **limits)
            if name == "ties":
                disjoint = tie_counts_sensitivity(params, N, len(groups))
            else:
                disjoint = STATISTICS[name][0](params, N, ties.row_weight, len(groups))
            stated = disjoint.in_groups(groups.most)
            others = flat[:1] if adjacency is Adjacency.ADD_REMOVE else flat
            change = (flat[:, np.newaxis] - others).reshape(-1, flat.shape[1])
            l1, l2 = np.abs(change).sum(axis=1).max(), np.square(change).sum(axis=1).max()
            assert l1 <= stated.l1, (name, adjacency)
            assert l2 <= stated.l2_squared, (name, adjacency)
            if name in ("pairs", "ties") and bounds != (3, True, 2):
                assert (l1, l2) == (stated.l1, stated.l2_squared), (name, adjacency)


def test_groups_cost_what_would_cancel_without_them() -> None:
    """A person whose rows go to another group takes nothing off what the new ones add."""
    params = PrivacyParams(
        unit=Unit.USER,
        adjacency=Adjacency.REPLACE_ONE,
        epsilon=1.0,
        max_contributions=3,
        distinct_pairs=True,
    )
    assert win_counts_sensitivity(params, N).l1 < win_counts_sensitivity(params, N, 1, 2).l1 == 6
    assert win_counts_sensitivity(params, N, 1, 2) == win_counts_sensitivity(params, N, 1, 9)
    assert pair_counts_sensitivity(params, N) == pair_counts_sensitivity(params, N, 1, 2)
    assert win_loss_sensitivity(params, N).l1 < win_loss_sensitivity(params, N, 1, 2).l1 == 12


def test_one_row_moves_two_cells_under_unit_comparison() -> None:
    params = PrivacyParams(unit=Unit.COMPARISON, adjacency=Adjacency.REPLACE_ONE, epsilon=1.0)
    for sensitivity, l1 in (
        (win_counts_sensitivity, 2),
        (pair_counts_sensitivity, 2),
        (win_loss_sensitivity, 4),
    ):
        assert sensitivity(params, N, 1, GROUPS).l1 == l1
        assert sensitivity(params, N, 2, GROUPS).l1 == 2 * l1  # ties are split


@pytest.mark.parametrize("per_group", [False, True], ids=["across", "bug: per group"])
def test_an_audit_catches_bounds_per_group(per_group) -> None:
    """A person with L rows in each group moves twice as much if L holds in each alone."""
    epsilon, most = 1.0, 3
    params = PrivacyParams(
        unit=Unit.USER,
        adjacency=Adjacency.REPLACE_ONE,
        epsilon=epsilon,
        max_contributions=most,
    )
    law = calibrate_win_counts(params, N, 1, GROUPS).law
    logs = [
        [(0, 1, outcome, group) for group in range(GROUPS) for _ in range(most)]
        for outcome in (1, -1)
    ]
    one, other = (
        counts_of(log, per_group=per_group, max_contributions=most).sum(axis=-1).ravel()
        for log in logs
    )

    def release(counts, runs):
        return add_noise(np.tile(counts, (runs, 1)), law, system_bits())

    bound = audit_epsilon(
        release, one, other, trials=40_000, confidence=1 - FALSE_POSITIVE_RATE
    ).epsilon_lower
    # It is 1.53 and 0.52 on average with a standard deviation of 0.05 and 0.02: 8 of them away.
    assert (bound > 1.1 * epsilon) if per_group else (0.3 * epsilon < bound <= epsilon)


def test_the_noise_of_every_group_has_the_stated_law() -> None:
    """Chi-square; false positives 1e-6. A scale that is 10 % off is caught on the same sample."""
    params = PrivacyParams(
        unit=Unit.USER, adjacency=Adjacency.REPLACE_ONE, epsilon=2.0, max_contributions=3
    )
    law = calibrate_win_loss(params, N, 1, GROUPS).law
    assert law.scale == pytest.approx(4 * 3 / 2)
    assert calibrate_pair_counts(params, N, 1, GROUPS).law.scale == pytest.approx(2 * 3 / 2)
    noise = add_noise(np.zeros((40_000, GROUPS), np.int64), law, system_bits())
    for each in noise.T:
        assert law_p_value(each, discrete_laplace_pmf(law.scale)) > FALSE_POSITIVE_RATE
        assert law_p_value(each, discrete_laplace_pmf(0.9 * law.scale)) < FALSE_POSITIVE_RATE
    assert abs(np.corrcoef(noise.T)[0, 1]) < 0.03  # 6 standard errors
