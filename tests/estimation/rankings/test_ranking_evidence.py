"""Debiased sums of rankings: unbiased for partial lists too, and used where they pay."""

from __future__ import annotations

import numpy as np
import pytest

from hushrank.estimation.rankings.ranking_counts import RankingCounts, count_rankings
from hushrank.estimation.rankings.ranking_evidence import (
    debiased_evidence,
    debiased_pair_counts,
    largest_entry,
    plain_evidence,
    undoing_pays,
)
from hushrank.privacy.mallows import synthetic_rankings
from hushrank.privacy.randomness import seeded_bits

EPSILON, N_ITEMS = 4.0, 5
CAMPS = ((0, 1, 2, 3, 4), (4, 1, 0, 3, 2), (3, 0, 1), (2, 4))
SHARES = (0.25, 0.35, 0.25, 0.15)


def camps(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Items and lengths of n true rankings of four camps; two of them rank few items."""
    sizes = (np.array(SHARES) * n).astype(int)
    items = [np.tile(camp, size) for camp, size in zip(CAMPS, sizes, strict=True)]
    lengths = [np.full(size, len(camp)) for camp, size in zip(CAMPS, sizes, strict=True)]
    return np.concatenate(items), np.concatenate(lengths)


def counts_of(items: np.ndarray, lengths: np.ndarray) -> RankingCounts:
    return count_rankings(items, lengths, N_ITEMS, N_ITEMS, by_place=True)


def test_debiased_sums_are_unbiased_for_lists_of_every_length():
    items, lengths = camps(60_000)
    truth = plain_evidence(counts_of(items, lengths))
    private = counts_of(synthetic_rankings(items, lengths, EPSILON, seeded_bits(3)), lengths)
    plain, debiased = plain_evidence(private), debiased_evidence(private, EPSILON)
    # Of each margin: five standard errors, by the squares that the evidence itself tells.
    error = 5 * np.sqrt(debiased.squares)
    assert (np.abs(debiased.margins - truth.margins) <= error).all()
    assert (np.abs(plain.margins - truth.margins) > 5 * np.sqrt(plain.squares)).any()
    np.testing.assert_array_equal(debiased.totals, truth.totals)
    np.testing.assert_allclose(debiased.wins + debiased.wins.T, truth.totals, atol=1e-6)
    assert undoing_pays(plain, debiased)


def test_complete_rankings_agree_with_the_direct_formula():
    rankings = np.array([[0, 1, 2, 3, 4], [4, 2, 0, 1, 3], [3, 4, 1, 0, 2]])
    counts = counts_of(rankings.ravel(), np.full(3, N_ITEMS))
    expected = debiased_pair_counts(rankings, EPSILON)
    np.testing.assert_allclose(debiased_evidence(counts, EPSILON).wins, expected)


def test_at_a_large_epsilon_debiased_and_plain_are_the_same():
    items, lengths = camps(200)
    counts = counts_of(items, lengths)
    plain, debiased = plain_evidence(counts), debiased_evidence(counts, 500.0)
    for name in ("wins", "totals", "squares"):
        np.testing.assert_allclose(getattr(plain, name), getattr(debiased, name), atol=1e-6)


def test_undoing_does_not_pay_where_chance_is_larger_than_the_bias():
    items, lengths = camps(200)
    private = counts_of(synthetic_rankings(items, lengths, 0.5, seeded_bits(4)), lengths)
    assert not undoing_pays(plain_evidence(private), debiased_evidence(private, 0.5))
    nothing = counts_of(items[:0], lengths[:0])
    assert not undoing_pays(plain_evidence(nothing), debiased_evidence(nothing, 0.5))
    assert largest_entry(nothing, 0.5) == 1


def test_what_cannot_be_undone_is_refused():
    items, lengths = camps(40)
    counts = counts_of(items, lengths)
    with pytest.raises(ValueError, match="one ranking would count as thousands"):
        debiased_evidence(counts, 1e-3)
    without = RankingCounts(**{k: v for k, v in counts.arrays().items() if k != "by_place"})
    with pytest.raises(ValueError, match="needs counts by place"):
        debiased_evidence(without, 1.0)
