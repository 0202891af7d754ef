"""Rows with covariates: bounded as content, merged as events, counted exactly in any order."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from hushrank.estimation.common.covariates import STEPS, pack, unpack
from hushrank.privacy.keyed_hash import KeyedHash
from hushrank.transforms.common.encode import Comparisons
from hushrank.transforms.common.schema import Ties
from hushrank.transforms.comparisons.bound import Bounds, bound_bucket
from hushrank.transforms.comparisons.covariate_counts import CovariateCountsFn, count_rows
from hushrank.transforms.comparisons.heavy_users import bound_heavy_users
from hushrank.transforms.comparisons.shuffle import Carried, OwnedRows, own

N_ITEMS, Q = 4, 2
HASH = KeyedHash(bytes(range(32)))


def log(rows: int, people: int, seed: int, ties: float = 0.2) -> Comparisons:
    rng = np.random.default_rng(seed)
    left = rng.integers(0, N_ITEMS, rows)
    right = (left + rng.integers(1, N_ITEMS, rows)) % N_ITEMS
    outcome = np.where(rng.random(rows) < ties, 0, rng.choice([-1, 1], rows)).astype(np.int8)
    steps = rng.choice([-STEPS, -5, 0, 7, STEPS], (rows, Q)).astype(np.int8)
    user = HASH.of_integers(rng.integers(0, people, rows))
    return Comparisons(left, right, outcome, user, covariates=pack(steps))


def counted_one_by_one(rows: Comparisons, ties: Ties) -> Counter[tuple[int, int, int, int]]:
    assert rows.covariates is not None
    found: Counter[tuple[int, int, int, int]] = Counter()
    for a, b, won, z in zip(
        rows.left.tolist(), rows.right.tolist(), rows.outcome.tolist(),
        unpack(rows.covariates, Q).tolist(), strict=True,
    ):  # fmt: skip
        if won > 0 or (won == 0 and ties is Ties.SPLIT):
            found[(a, b, z[0], z[1])] += ties.row_weight if won else 1
        if won < 0 or (won == 0 and ties is Ties.SPLIT):
            found[(b, a, -z[0], -z[1])] += ties.row_weight if won else 1
    return found


@pytest.mark.parametrize("ties", [Ties.DROP, Ties.SPLIT])
def test_counts_are_those_of_a_plain_loop_in_any_order(ties: Ties) -> None:
    rows, combine = log(900, 30, 1), CovariateCountsFn(N_ITEMS, Q, ties)
    parts = [combine.create_accumulator() for _ in range(3)]
    for number in range(9):
        chosen = np.arange(number, 900, 9)
        combine.add_input(parts[number % 3], rows.take(chosen))
    for order in (parts, parts[::-1]):
        total = combine.extract_output(combine.merge_accumulators(order))
        winner, loser = total.items
        found = Counter(
            {
                (a, b, *z): times
                for a, b, z, times in zip(
                    winner.tolist(), loser.tolist(), total.steps.tolist(), total.counts.tolist(),
                    strict=True,
                )
            }
        )  # fmt: skip
        assert found == counted_one_by_one(rows, ties)
    assert len(count_rows(rows.take(np.zeros(0, np.int64)), N_ITEMS, Q, ties)) == 0


def bounds_of(ties: Ties, most: int) -> Bounds:
    return Bounds(n_items=N_ITEMS, ties=ties, max_contributions=most, carried=Carried.COVARIATES)


def owned(rows: Comparisons) -> OwnedRows:
    return own(rows, Ties.SPLIT, HASH, n_covariates=Q)


def contents(rows: Comparisons) -> Counter[tuple[int, ...]]:
    assert rows.covariates is not None
    return Counter(
        zip(
            rows.left.tolist(), rows.right.tolist(), rows.outcome.tolist(),
            rows.covariates.tolist(), strict=True,
        )
    )  # fmt: skip


def test_nobody_has_more_rows_than_the_bound_and_the_choice_is_by_content() -> None:
    bounds = bounds_of(Ties.SPLIT, 3)
    rows = log(2_000, 25, 2)
    kept = bound_bucket(owned(rows), bounds, HASH).kept
    assert len(kept) == 25 * 3
    shuffled = rows.take(np.random.default_rng(3).permutation(2_000))
    assert contents(bound_bucket(owned(shuffled), bounds, HASH).kept) == contents(kept)
    heavy_users = bound_heavy_users(lambda: [owned(shuffled)], 2_000, bounds, HASH, 100)
    assert sum((contents(part.kept) for part in heavy_users), Counter()) == contents(kept)


def test_which_row_is_kept_depends_on_its_covariates() -> None:
    """One person, one pair, one outcome, five covariates: no copy is preferred by its place."""
    steps = np.arange(-2, 3, dtype=np.int8)[:, np.newaxis] * np.ones(Q, np.int8)
    chosen: Counter[int] = Counter()
    bounds = bounds_of(Ties.DROP, 1)
    for person in range(300):
        user = HASH.of_integers(np.full(5, person))
        two, one = np.full(5, 2), np.ones(5, np.int64)
        rows = Comparisons(two, one, one.astype(np.int8), user, covariates=pack(steps))
        kept = bound_bucket(owned(rows), bounds, HASH).kept
        assert kept.covariates is not None
        assert (kept.left[0], kept.right[0], kept.outcome[0]) == (1, 2, -1)  # turned round
        chosen[-int(unpack(kept.covariates, Q)[0, 0])] += 1
    assert set(chosen) == {-2, -1, 0, 1, 2}
    assert min(chosen.values()) > 20  # below with a chance of 1e-7


def test_copies_of_an_event_must_agree_in_their_covariates() -> None:
    steps = np.array([[3, 1], [3, 1], [5, 1], [6, 1]], np.int8)
    user = HASH.of_integers(np.zeros(4, np.int64))
    event = HASH.of_integers(np.array([1, 1, 2, 2]))
    left, right, won = np.zeros(4, np.int64), np.ones(4, np.int64), np.ones(4, np.int8)
    rows = Comparisons(left, right, won, user, event, pack(steps))
    held = own(rows, Ties.DROP, HASH, np.arange(4), Q)
    bounds = bounds_of(Ties.DROP, 9)
    bounded = bound_bucket(held, bounds, HASH)
    assert len(bounded.kept) == 1
    assert sorted(bounded.conflicts.place.tolist()) == [2, 3]


@pytest.mark.parametrize("ties", [Ties.DROP, Ties.SPLIT])
def test_groups_are_counted_apart_and_together(ties: Ties) -> None:
    rows = log(600, 30, 4)
    group = np.random.default_rng(8).integers(0, 3, 600).astype(np.int16)
    combine = CovariateCountsFn(N_ITEMS, Q, ties, 3)
    counts = combine.extract_output(
        combine.add_input(combine.create_accumulator(), replace(rows, group=group))
    )
    *parts, whole = counts.by_group(3)
    logs = [rows.take(np.flatnonzero(group == k)) for k in range(3)]
    for found, mine in zip([*parts, whole], [*logs, rows], strict=True):
        assert found.n_items == N_ITEMS
        told: Counter[tuple[int, int, int, int]] = Counter()
        winner, loser = found.items
        steps = found.steps.tolist()
        for a, b, z, times in zip(
            winner.tolist(), loser.tolist(), steps, found.counts.tolist(), strict=True
        ):
            told[(a, b, z[0], z[1])] += times
        assert told == counted_one_by_one(mine, ties)
