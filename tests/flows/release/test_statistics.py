"""What may be published: exact counts are no argument for any constructor."""

from __future__ import annotations

import json

import numpy as np
import pytest
from pydantic import TypeAdapter
from scipy.sparse import csr_array

from hushrank.estimation.common.matrices import OutcomeCounts, PairCounts, WinCounts, outcomes_of
from hushrank.estimation.fit.weighted_pairs import WeightedPairs
from hushrank.flows.methods.counts.noisy_counts import ReleasedCounts
from hushrank.flows.methods.counts.noisy_pairs import ReleasedOutcomes, ReleasedPairs
from hushrank.flows.methods.counts.one_shot import ReleasedList
from hushrank.flows.methods.likelihood.perturbed_mle import ReleasedScores
from hushrank.flows.release.private_sums import ReleasedSums
from hushrank.flows.release.release import json_text
from hushrank.flows.release.released import Released

ITEMS = ("a", "b", "c")
WINS = np.array([[0, 5, 2], [1, 0, -3], [4, 7, 0]], np.int64)
UPPER = np.array([[0, 5, 0], [0, 0, 6], [0, 0, 0]], np.int64)  # a and c did not meet
OUTCOMES = OutcomeCounts(
    csr_array(np.array([[0, 7, 0], [0, 0, -1], [0, 0, 0]], np.int64)),
    csr_array(UPPER),
    row_weight=2,
    confidential=False,
)


def test_exact_counts_are_refused_by_every_constructor():
    exact = PairCounts(np.abs(WINS))
    with pytest.raises(ValueError, match="only noisy counts can be released"):
        ReleasedPairs.of(exact, ITEMS)
    with pytest.raises(ValueError, match="only noisy counts can be released"):
        ReleasedCounts.of(exact.win_counts(), ITEMS)
    with pytest.raises(ValueError, match="only noisy counts can be released"):
        ReleasedOutcomes.of(outcomes_of(exact), ITEMS)
    for array in (exact.wins, exact.win_counts().wins, exact.wins.astype(float)):
        with pytest.raises(ValueError, match="released scores must be"):
            ReleasedScores.of(array, ITEMS)


def test_what_is_not_a_score_is_refused():
    counts = np.array([5.0, 1.0, 7.0])  # real numbers, but counts all the same
    with pytest.raises(ValueError, match="must sum to zero"):
        ReleasedScores.of(counts, ITEMS)
    with pytest.raises(ValueError, match="finite real numbers"):
        ReleasedScores.of(np.array([np.nan, 0.0, 0.0]), ITEMS)


@pytest.mark.parametrize(
    "released",
    [
        ReleasedCounts.of(WinCounts(np.array([3, -1, 2]), confidential=False), ITEMS),
        ReleasedPairs.of(PairCounts(WINS, confidential=False), ITEMS),
        ReleasedPairs.of(PairCounts(WINS, row_weight=2, confidential=False), ITEMS),
        ReleasedOutcomes.of(OUTCOMES, ITEMS),
        ReleasedSums.of(WeightedPairs(2**30 * UPPER, 2**31 * UPPER, 7), ITEMS),
        ReleasedSums.of(WeightedPairs(csr_array(3 * UPPER), csr_array(UPPER)), ITEMS),
        ReleasedScores.of(np.array([0.25, -1.0, 0.75]), ITEMS),
        ReleasedList(items=("b", "a")),
    ],
)
def test_each_kind_is_written_and_read_back(released):
    text = json_text(released.model_dump(mode="json"))
    assert TypeAdapter(Released).validate_json(text) == released


def test_a_row_of_the_matrix_is_a_line():
    released = ReleasedPairs.of(PairCounts(WINS, confidential=False), ITEMS)
    text = json_text(released.model_dump(mode="json"))
    assert "    [1,0,-3],\n" in text
    assert json.loads(text)["wins"] == WINS.tolist()


def test_wins_by_item_are_comparisons():
    halves = PairCounts(WINS, row_weight=2, confidential=False)
    assert ReleasedPairs.of(halves, ITEMS).wins_by_item() == {"a": 3.5, "b": -1.0, "c": 5.5}
    assert ReleasedPairs.of(halves, ITEMS).among("ab")[0, 1] == 2.5
    assert ReleasedList(items=("a",)).wins_by_item() is None
    assert ReleasedScores.of(np.zeros(3), ITEMS).wins_by_item() is None


def test_items_and_matrix_of_different_sizes_are_refused():
    with pytest.raises(ValueError, match="got 2 items, but counts of 3"):
        ReleasedPairs.of(PairCounts(WINS, confidential=False), ITEMS[:2])


def test_outcomes_name_the_pairs_that_met_and_count_for_both_items():
    released = ReleasedOutcomes.of(OUTCOMES, ITEMS)
    assert (released.pairs, released.compared) == (((1,), (2,), ()), ((5,), (6,), ()))
    assert released.wins == ((7,), (-1,), ())
    assert released.wins_by_item() == {"a": 3.5, "b": -1.5, "c": 3.5}
    among = released.among(("c", "b", "a"))
    np.testing.assert_array_equal(among, [[0, 3.5, np.nan], [-0.5, 0, -1], [np.nan, 3.5, 0]])
    with pytest.raises(ValueError, match="got 2 items, but counts of 3"):
        ReleasedOutcomes.of(OUTCOMES, ITEMS[:2])


def test_outcomes_of_very_many_pairs_are_not_published(monkeypatch):
    monkeypatch.setattr("hushrank.flows.methods.counts.noisy_pairs.MOST_PAIRS", 1)
    released = ReleasedOutcomes.of(OUTCOMES, ITEMS)
    assert (released.pairs, released.compared, released.wins) == (None, None, None)
    assert released.wins_by_item() is None
    assert released.among(ITEMS) is None


def test_sums_of_many_items_name_the_pairs_that_met():
    released = ReleasedSums.of(WeightedPairs(csr_array(3 * UPPER), csr_array(UPPER)), ITEMS)
    assert (released.pairs, released.s, released.w) == (
        ((1,), (2,), ()),
        ((15,), (18,), ()),
        ((5,), (6,), ()),
    )
