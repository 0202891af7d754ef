"""The papers' measures of error, against their definitions and each other."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushrank.estimation.common.estimate import (
    footrule_distance,
    kendall_distance,
    linf_error,
    mean_rank_difference,
    relative_l2_error,
    relative_linf_error,
    rms_error,
    top_k_distance,
)

RANKINGS = st.integers(2, 8).flatmap(
    lambda n: st.tuples(st.permutations(range(n)), st.permutations(range(n)))
)


def test_score_errors_by_hand() -> None:
    scores, truth = np.array([1.0, -3.0, 2.0]), np.array([1.0, 0.0, -2.0])
    assert rms_error(scores, truth) == pytest.approx(5 / math.sqrt(3))
    assert linf_error(scores, truth) == 4.0
    assert relative_l2_error(scores, truth) == pytest.approx(5 / math.sqrt(5))
    assert relative_linf_error(scores, truth) == 2.0


@given(RANKINGS)
def test_rank_errors_are_their_definitions(rankings: tuple[list[int], list[int]]) -> None:
    first, second = (-np.array(ranks, np.float64) for ranks in rankings)  # best is largest
    n, (r, s) = len(first), rankings
    opposite = sum((r[i] - r[j]) * (s[i] - s[j]) < 0 for i, j in combinations(range(n), 2))
    assert kendall_distance(first, second) == pytest.approx(2 * opposite / (n * (n - 1)))
    moved = sum(abs(a - b) for a, b in zip(r, s, strict=True))
    assert footrule_distance(first, second) == pytest.approx(2 * moved / n**2)
    assert mean_rank_difference(first, second) == pytest.approx(moved / n)
    for k in range(1, n + 1):
        wrong = sum((r[i] >= k) != (s[i] >= k) for i in range(n))
        assert top_k_distance(first, second, k) == pytest.approx(wrong / (2 * k))


@given(RANKINGS)
def test_distances_are_symmetric_and_zero_for_the_same_order(
    rankings: tuple[list[int], list[int]],
) -> None:
    first, second = (np.array(ranks, np.float64) for ranks in rankings)
    for distance in (kendall_distance, footrule_distance):
        assert distance(first, second) == distance(second, first)
        assert distance(first, np.exp(first)) == 0.0
    # Diaconis and Graham: the footrule sum is between the number of opposite pairs and its double.
    n = len(first)
    opposite = kendall_distance(first, second) * n * (n - 1) / 2
    moved = footrule_distance(first, second) * n**2 / 2
    assert opposite - 1e-9 <= moved <= 2 * opposite + 1e-9


def test_equal_scores_share_ranks_and_are_in_no_opposite_order() -> None:
    scores, truth = np.array([1.0, 1.0, 0.0]), np.array([3.0, 2.0, 1.0])
    assert kendall_distance(scores, truth) == 0.0
    assert mean_rank_difference(scores, truth) == pytest.approx(1 / 3)
    assert top_k_distance(scores, truth, 1) == 0.0  # the first in the catalogue


def test_wrong_arguments_are_refused() -> None:
    scores = np.array([1.0, 2.0])
    for k in (0, 3):
        with pytest.raises(ValueError, match="k must be"):
            top_k_distance(scores, scores, k)
    with pytest.raises(ValueError, match="do not match"):
        linf_error(scores, np.zeros(3))
    for relative in (relative_l2_error, relative_linf_error):
        with pytest.raises(ValueError, match="zero"):
            relative(scores, np.zeros(2))
