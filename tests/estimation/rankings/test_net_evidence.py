"""Undone sums of half nets: the truth in expectation, whatever the lists, and the bias at most."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hushrank.estimation.rankings.mechanism_choice import laplace_places, mallows_places
from hushrank.estimation.rankings.net_evidence import (
    half_nets,
    place_weights,
    plain_nets,
    undone_nets,
)
from hushrank.estimation.rankings.ranking_counts import RankingCounts, count_rankings
from hushrank.privacy.laplace_baselines import laplace_rankings
from hushrank.privacy.mallows import synthetic_rankings
from hushrank.privacy.randomness import seeded_bits

EPSILON, N_ITEMS, PEOPLE = 4.0, 5, 60_000
CAMPS = ((0, 1, 2, 3, 4), (4, 1, 0, 3, 2), (3, 0, 1), (2, 4), (1,))
SHARES = (0.25, 0.3, 0.25, 0.15, 0.05)
MECHANISMS = {
    "mallows": (synthetic_rankings, mallows_places),
    "laplace-ranks": (laplace_rankings, laplace_places),
}


def camps(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Items and lengths of n true rankings of five camps; three of them rank few items."""
    sizes = (np.array(SHARES) * n).astype(int)
    items = [np.tile(camp, size) for camp, size in zip(CAMPS, sizes, strict=True)]
    lengths = [np.full(size, len(camp)) for camp, size in zip(CAMPS, sizes, strict=True)]
    return np.concatenate(items), np.concatenate(lengths)


def counts_of(items: np.ndarray, lengths: np.ndarray, *, by_place: bool = True) -> RankingCounts:
    return count_rankings(items, lengths, N_ITEMS, N_ITEMS, by_place=by_place)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_undone_sums_are_unbiased_for_lists_of_every_length(mechanism):
    """Within five standard errors and the stated bias; the plain ones are far from it."""
    privatise, law = MECHANISMS[mechanism]
    items, lengths = camps(PEOPLE)
    truth = plain_nets(counts_of(items, lengths))
    counts = counts_of(privatise(items, lengths, EPSILON, seeded_bits(3)), lengths)
    plain, undone = plain_nets(counts), undone_nets(counts, lambda m: law(m, EPSILON))
    error = 5 * np.sqrt(np.diagonal(undone.covariance)) + undone.bias * PEOPLE
    assert undone.undone
    assert not plain.undone
    assert (np.abs(undone.sums - truth.sums) <= error).all()
    assert (np.abs(plain.sums - truth.sums) > 10 * np.sqrt(np.diagonal(plain.covariance))).any()
    assert abs(undone.sums.sum()) < 1e-6 * PEOPLE
    np.testing.assert_array_equal(undone.totals, truth.totals)


def test_moments_and_sums_are_those_of_the_single_rankings():
    items, lengths = np.array([2, 0, 1, 1, 2, 0, 4, 3]), np.array([3, 3, 2])
    undone = undone_nets(counts_of(items, lengths), lambda m: mallows_places(m, EPSILON))
    nets = np.zeros((3, N_ITEMS))
    for row, ranking in zip(nets, (items[:3], items[3:6], items[6:]), strict=True):
        n = 2 if len(ranking) == 3 else 1
        row[ranking], _ = place_weights(lambda m: mallows_places(m, EPSILON), len(ranking), n)
    np.testing.assert_allclose(undone.sums, nets.sum(axis=0), atol=1e-12)
    np.testing.assert_allclose(undone.moments, nets.T @ nets, atol=1e-12)


def test_lists_of_one_length_need_no_counts_by_place():
    items = np.tile(CAMPS[0], 3_000)
    lengths = np.full(3_000, N_ITEMS)
    counts = counts_of(synthetic_rankings(items, lengths, EPSILON, seeded_bits(5)), lengths)
    whole = undone_nets(counts, lambda m: mallows_places(m, EPSILON))
    by_items = undone_nets(replace(counts, by_place=None), lambda m: mallows_places(m, EPSILON))
    np.testing.assert_allclose(by_items.sums, whole.sums)
    np.testing.assert_allclose(np.diagonal(by_items.moments), np.diagonal(whole.moments))
    sizes = np.sqrt(np.outer(np.diagonal(whole.moments), np.diagonal(whole.moments)))
    assert (np.abs(by_items.moments - whole.moments) < 0.05 * sizes).all()
    mixed = counts_of(*camps(100), by_place=False)
    with pytest.raises(ValueError, match="lists of one length"):
        undone_nets(mixed, lambda m: mallows_places(m, EPSILON))


@pytest.mark.parametrize("law", [mallows_places, laplace_places])
@pytest.mark.parametrize(("m", "epsilon"), [(2, 0.5), (5, 1.0), (20, 0.5), (40, 2.0)])
def test_the_stated_bias_is_that_of_the_weights_and_small(law, m, epsilon):
    table = law(m, epsilon)
    for n in (10, 1_000, 10**6):
        weights, bias = place_weights(lambda _: table, m, n)
        assert np.abs(table @ weights - half_nets(m)).max() <= bias + 1e-9
        error = np.sqrt((table @ weights**2 - (table @ weights) ** 2).mean() / n)
        assert bias <= 0.25 * error


def test_at_a_large_epsilon_undone_and_plain_are_the_same():
    counts = counts_of(*camps(200))
    plain, undone = plain_nets(counts), undone_nets(counts, lambda m: mallows_places(m, 500.0))
    for name in ("sums", "moments", "totals"):
        np.testing.assert_allclose(getattr(plain, name), getattr(undone, name), atol=1e-6)
    assert undone.kept == pytest.approx(1)


def test_of_no_rankings_nothing_is_said():
    counts = counts_of(np.empty(0, np.int64), np.empty(0, np.int64))
    undone = undone_nets(counts, lambda m: mallows_places(m, 1.0))
    assert not undone.sums.any()
    assert undone.bias == 0
