"""Honest answers never look impossible, by enumeration of the bound; crude lies do."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

from hushrank.estimation.fit.weighted_pairs import WeightedPairs, impossible_shares, weighted_sums
from hushrank.privacy.randomized_response import flip_probability, flip_thresholds

N, ANSWERS = 5, 20_000


def answers(lies: int, epsilon: float = 1.0) -> WeightedPairs:
    """Item 0 beats every other one, in truth always; then lies for the last item."""
    rng = np.random.default_rng(7)
    i = np.zeros(ANSWERS, np.int64)
    j = rng.integers(1, N, ANSWERS)
    said = (rng.random(ANSWERS) >= flip_probability(flip_thresholds(np.array([epsilon])))[0]) * 1
    said[:lies], j[:lies] = 0, N - 1
    return WeightedPairs(*weighted_sums(i * N + j, said.astype(np.uint8), epsilon, N))


def test_honest_answers_to_clear_questions_raise_no_alarm():
    """Probabilities at the very edge are the worst case; the rate of false alarms is 1e-6."""
    for epsilon in (0.1, 1.0, 5.0):
        found = impossible_shares(answers(0, epsilon))
        assert (found.items, found.pairs) == ((), 0)


def test_lies_beyond_what_is_possible_are_found_with_the_item_they_are_for():
    pairs = answers(ANSWERS // 2)
    found = impossible_shares(pairs)
    assert N - 1 in found.items
    assert found.pairs == 1
    sparse = WeightedPairs(csr_array(pairs.s), csr_array(pairs.w))
    assert impossible_shares(sparse) == found


@pytest.mark.parametrize("factor", [0.9, 1.1])
def test_the_bound_is_hoeffding_s(factor):
    """One pair and two items, so six tests: the reach is sqrt(W log(6e6) / 2)."""
    weight = 10_000
    reach = factor * np.sqrt(weight * np.log(6e6) / 2)
    s, w = np.zeros((2, 2, 2), np.int64)
    w[0, 1], s[0, 1] = weight << 30, round((weight + reach) * (1 << 30))
    assert impossible_shares(WeightedPairs(s, w)).pairs == (factor > 1)
