"""The sums S and W: the paper's terms, the same bits for any split, and no silent overflow."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushrank.estimation.fit import weighted_pairs
from hushrank.estimation.fit.weighted_pairs import (
    UNITS,
    WeightedPairs,
    add_sums,
    counted_sums,
    information_units,
    laplace_sums,
    weighted_sums,
)
from hushrank.privacy.laplace_baselines import GRID
from hushrank.privacy.randomized_response import flip_thresholds

N = 5
CELLS = np.array([i * N + j for i in range(N) for j in range(i + 1, N)])
ROWS = st.lists(
    st.tuples(st.sampled_from(CELLS.tolist()), st.integers(0, 1), st.floats(1e-6, 60.0)),
    min_size=1,
    max_size=60,
)


def batch(rows: list[tuple[int, int, float]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    cells, noisy, epsilon = zip(*rows, strict=True)
    return np.array(cells), np.array(noisy, np.uint8), np.array(epsilon)


@pytest.mark.parametrize("epsilon", [0.01, 0.3, 1.0, 5.0, 30.0])
def test_terms_are_the_paper_s_weighted_debiased_values(epsilon: float) -> None:
    weight = ((math.exp(epsilon) - 1) / (math.exp(epsilon) + 1)) ** 2
    for noisy in (0, 1):
        debiased = ((math.exp(epsilon) + 1) * noisy - 1) / (math.exp(epsilon) - 1)  # eq. 3
        s, w = weighted_sums(np.array([1]), np.array([noisy], np.uint8), epsilon, N)
        assert s[0, 1] == pytest.approx(weight * debiased * UNITS, abs=0.51)
        assert w[0, 1] == pytest.approx(weight * UNITS, abs=1.02)
        assert np.count_nonzero(w) == 1


@given(st.floats(0.001, 60.0), st.integers(0, 1))
def test_mean_of_s_is_the_outcome_times_w(epsilon: float, outcome: int) -> None:
    flip = Fraction(int(flip_thresholds(np.array([epsilon]))[0]), 2**64)
    s_of = [
        int(weighted_sums(np.array([1]), np.array([noisy], np.uint8), epsilon, N)[0, 0, 1])
        for noisy in (0, 1)
    ]
    mean = (1 - flip) * s_of[outcome] + flip * s_of[1 - outcome]
    w = int(weighted_sums(np.array([1]), np.array([0], np.uint8), epsilon, N)[1, 0, 1])
    assert abs(mean - outcome * w) <= 1


@given(ROWS, st.lists(st.integers(0, 60), max_size=5), st.randoms(use_true_random=False))
# type: ignore[no-untyped-def]
def test_any_split_and_order_gives_the_same_bits(rows, cuts, order) -> None:
    whole = weighted_sums(*batch(rows), N)
    shuffled = order.sample(rows, len(rows))
    edges = [0, *sorted(cut for cut in cuts if cut < len(rows)), len(rows)]
    pieces = [shuffled[a:b] for a, b in pairwise(edges) if b > a]
    parts = [weighted_sums(*batch(piece), N) for piece in pieces]
    np.testing.assert_array_equal(add_sums(parts, N), whole)
    np.testing.assert_array_equal(add_sums([add_sums(parts[:1], N), *parts[1:]], N), whole)


def test_long_batches_are_summed_in_exact_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(0)
    cells, noisy = generator.choice(CELLS, 1000), generator.integers(0, 2, 1000, np.uint8)
    whole = weighted_sums(cells, noisy, 1.0, N)
    monkeypatch.setattr(weighted_pairs, "ROWS_AT_ONCE", 7)
    np.testing.assert_array_equal(weighted_sums(cells, noisy, 1.0, N), whole)


def test_swapping_the_names_of_a_pair_mirrors_s() -> None:
    epsilon = np.array([0.3, 2.0, 7.0])
    cells, noisy = np.array([1, 1, 1]), np.array([0, 1, 1], np.uint8)
    s, w = weighted_sums(cells, noisy, epsilon, N)
    mirrored_s, mirrored_w = weighted_sums(cells, 1 - noisy, epsilon, N)
    np.testing.assert_array_equal(w, mirrored_w)
    np.testing.assert_array_equal(s, w - mirrored_s)


def test_a_noisy_answer_that_is_very_far_out_is_moved_and_no_reason_to_fail() -> None:
    far = np.array([GRID << 30, -(GRID << 40), 3 * GRID], np.int64)
    s, _ = laplace_sums(np.array([1, 2, 3]), far, N) / UNITS
    np.testing.assert_array_equal(s.ravel()[1:4], [2**21, -(2**21), 3])


def test_counts_and_laplace_sums_are_plain_sums() -> None:
    cells, outcomes = np.array([1, 1, 7]), np.array([1, 0, 1], np.uint8)
    s, w = counted_sums(cells, outcomes, N)
    assert (s[0, 1], s[1, 2], w[0, 1], w[1, 2]) == (UNITS, UNITS, 2 * UNITS, UNITS)
    noisy = np.array([3 * GRID, -GRID, GRID // 2])
    s, w = laplace_sums(cells, noisy, N)
    assert (s[0, 1], s[1, 2], w[0, 1]) == (2 * UNITS, UNITS // 2, 2 * UNITS)


def test_information_is_the_weight_of_one_answer_a_person() -> None:
    epsilon = np.array([0.5, 1.0, 3.0])
    w = weighted_sums(np.array([1, 1, 1]), np.zeros(3, np.uint8), epsilon, N)[1]
    assert information_units(epsilon) == w[0, 1]


def test_overflow_is_an_error_in_both_directions() -> None:
    big = np.zeros((2, N, N), np.int64)
    big[0, 0, 1] = 2**62
    assert add_sums([big, big - 1], N)[0, 0, 1] == 2**63 - 1
    with pytest.raises(OverflowError, match="64-bit"):
        add_sums([big, big], N)
    assert add_sums([-big, -big], N)[0, 0, 1] == -(2**63)
    with pytest.raises(OverflowError, match="64-bit"):
        add_sums([-big, -big, np.full_like(big, -1)], N)


def test_wrong_batches_are_refused() -> None:
    one = np.array([1], np.uint8)
    for cell in (-1, N * N):
        with pytest.raises(ValueError, match="cells"):
            weighted_sums(np.array([cell]), one, 1.0, N)
    with pytest.raises(ValueError, match="0 and 1"):
        weighted_sums(np.array([1]), np.array([2], np.uint8), 1.0, N)
    with pytest.raises(ValueError, match="0 and 1"):
        counted_sums(np.array([1]), np.array([2], np.uint8), N)
    empty = weighted_sums(np.empty(0, np.int64), np.empty(0, np.uint8), 1.0, N)
    assert not empty.any()


def test_matrices_are_checked_when_made() -> None:
    good = np.triu(np.ones((N, N), np.int64), 1)
    pairs = WeightedPairs(-good, UNITS * good, 3)
    assert pairs.n_items == N
    s, w = pairs.pair_values()
    assert (s[0, 1], w[0, 1]) == (-(2.0**-30), 1.0)
    for s_wrong, w_wrong, named in (
        (good.T, good, "s must be zero"),
        (good, good + np.eye(N, dtype=np.int64), "w must be zero"),
        (good.astype(float), good, "int64"),
        (good, good[:3, :3], "agree"),
        (good, -good, "negative"),
    ):
        with pytest.raises(ValueError, match=named):
            WeightedPairs(s_wrong, w_wrong)
