"""The search for the largest wins and losses on distinct pairs, against all bundles."""

from __future__ import annotations

from functools import cache
from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray

from hushrank.privacy.sensitivity import MOST_ROWS, searched_squares, win_loss_sensitivity
from hushrank.privacy.units import Adjacency, PrivacyParams, Unit

Counts = NDArray[np.int64]


@cache
def bundles(n_items: int) -> tuple[Counts, Counts]:
    """Number of rows of every bundle on distinct pairs, and its wins and losses, each once."""
    pairs = list(combinations(range(n_items), 2))
    states = np.indices((3,) * len(pairs)).reshape(len(pairs), -1)  # 0: not compared
    counts = np.zeros((states.shape[1], 2, n_items), np.int64)
    for state, (i, j) in zip(states, pairs, strict=True):
        for outcome, winner, loser in ((1, i, j), (2, j, i)):
            counts[state == outcome, 0, winner] += 1
            counts[state == outcome, 1, loser] += 1
    # Wins add up to the number of rows, so equal counts are those of equally many rows.
    counts = np.unique(counts.reshape(len(counts), -1), axis=0)
    return counts[:, :n_items].sum(axis=1), counts


@cache
def largest_squares(n_items: int) -> tuple[Counts, Counts]:
    """For each L: the largest squared norm of a bundle, and of the change from one to another."""
    rows, counts = bundles(n_items)
    squares = np.square(counts).sum(axis=1)
    alone, between = np.zeros((2, rows.max() + 1), np.int64)
    np.maximum.at(alone, rows, squares)
    wins, losses = counts[:, :n_items], counts[:, n_items:]
    # Items have no order: of the bundles that differ in their names, one stands for all.
    in_order = (np.diff(wins * (n_items + 1) + losses, axis=1) >= 0).all(axis=1)
    for one, own, size in zip(counts[in_order], squares[in_order], rows[in_order], strict=True):
        np.maximum.at(between, np.maximum(rows, size), own + squares - 2 * counts @ one)
    return np.maximum.accumulate(alone), np.maximum.accumulate(between)


@pytest.mark.parametrize("n_items", [3, 4, 5])
def test_the_search_finds_the_maxima(n_items: int) -> None:
    alone, between = largest_squares(n_items)
    for most in range(n_items, len(alone)):
        assert searched_squares(n_items, most) == (alone[most], between[most])


@pytest.mark.parametrize("n_items", [2, 3, 4, 5])
def test_the_sensitivity_is_exact(n_items: int) -> None:
    alone, between = largest_squares(n_items)
    for most in range(1, len(alone) + 1):
        rows = min(most, len(alone) - 1)
        for adjacency, groups, found in (
            (Adjacency.ADD_REMOVE, 1, alone[rows]),
            (Adjacency.REPLACE_ONE, 1, between[rows]),
            (Adjacency.REPLACE_ONE, 3, 2 * alone[rows]),
        ):
            assert win_loss_sensitivity(params(adjacency, most), n_items, 1, groups).l2_squared == (
                found
            )


def test_five_items() -> None:
    """Two bundles that keep the best item of each cannot both win against all others."""
    found = [
        win_loss_sensitivity(params(Adjacency.REPLACE_ONE, most), 5).l2_squared
        for most in range(4, 11)
    ]
    assert found == [40, 44, 60, 64, 72, 76, 80]


def test_turning_all_rows_round_is_not_always_the_most() -> None:
    """7 items, 17 rows: u and v rank different halves. Twice a bundle turned round is 204."""
    beaten = [4, 4, 3, 3, 2, 1], [5, 5, 4, 3]
    u, t = (
        np.array([[(b >= 7 - a) for b in range(7)] for a in [*rows, *[0] * (7 - len(rows))]])
        for rows in beaten
    )
    assert u.sum() == t.sum() == 17
    assert not np.tril(u | t).any()
    change = [u.sum(axis=1) - t.sum(axis=0), t.sum(axis=1) - u.sum(axis=0)]
    assert np.square(change).sum() == 206
    assert searched_squares(7, 17) == (136, 206)


def test_more_rows_than_are_searched() -> None:
    """k items beat the n - k others, and lose to them: k (n - k) rows, and 2 n of each."""
    for n_items, k in [(10, 3), (10, 4), (11, 5), (40, 20), (1000, 1), (1000, 7)]:
        beaten = np.repeat([n_items - k, 0], [k, n_items - k])
        change = np.tile(beaten - np.repeat([0, k], [k, n_items - k]), 2)
        rows = k * (n_items - k)
        bound = win_loss_sensitivity(params(Adjacency.REPLACE_ONE, rows), n_items)
        assert bound.l2_squared == np.square(change).sum() == 2 * n_items * rows


def test_random_bundles_of_more_items_stay_within_the_bound() -> None:
    """Climb from random bundles: each of u and v in turn takes the best rows for the other."""
    draw = np.random.default_rng(5)
    for n_items, most in [(6, 10), (7, 14), (8, 20), (9, 20), (9, 26), (12, 40)]:
        bound = win_loss_sensitivity(params(Adjacency.REPLACE_ONE, most), n_items).l2_squared
        found = max(climbed(n_items, most, draw) for _ in range(40))
        assert 0.8 * bound < found <= bound, (n_items, most)


def climbed(n_items: int, most: int, draw: np.random.Generator) -> int:
    """A change that neither bundle alone can make larger by a linear step."""
    change = draw.normal(size=(2, n_items))
    for _ in range(8):
        gain = change[0][:, np.newaxis] + change[1]  # of a row a beats b in u; lost in v
        change = counts_of(best_rows(gain, most)) - counts_of(best_rows(-gain, most))
    return int(np.square(change).sum())


def best_rows(gain: NDArray[np.float64], most: int) -> NDArray[np.bool_]:
    """Which a beat which b: the rows on distinct pairs that gain most, and gain something."""
    better = np.where(
        (gain > gain.T) | ((gain == gain.T) & np.tri(len(gain), k=-1).T.astype(bool)), gain, 0
    )
    least = np.sort(better.ravel())[-most]
    chosen = (better > least) & (better > 0)
    ties = np.argwhere((better == least) & (better > 0))[: most - chosen.sum()]
    chosen[tuple(ties.T)] = True
    return chosen


def counts_of(rows: NDArray[np.bool_]) -> Counts:
    return np.array([rows.sum(axis=1), rows.sum(axis=0)])


def test_only_few_rows_are_searched() -> None:
    assert searched_squares(5, 4) is None  # a star is the most, and known
    assert searched_squares(MOST_ROWS, MOST_ROWS) is not None
    assert searched_squares(8, MOST_ROWS + 1) is None


def params(adjacency: Adjacency, most: int) -> PrivacyParams:
    return PrivacyParams(
        unit=Unit.USER,
        adjacency=adjacency,
        epsilon=1.0,
        max_contributions=most,
        distinct_pairs=True,
    )
