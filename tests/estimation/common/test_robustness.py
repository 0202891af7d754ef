"""How many people it takes to change the first place: bounds, law of the range, real data."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from hushrank.estimation.common.score_change import (
    Gaps,
    LeadBy,
    RowBounds,
    bound_of,
    estimated_changes,
    range_quantile,
)
from hushrank.privacy.units import NoiseKind

FALSE_ALARM = 5.0  # standard errors: a chance of 6e-7 that a right law fails

BOUNDS = [
    RowBounds(rows=rows, per_item=cap, distinct=distinct)
    for rows, cap, distinct in itertools.product((1, 2, 3), (None, 1, 2), (False, True))
    if cap is None or cap <= rows
]


def _moves(by: LeadBy, rows: tuple[tuple[int, int], ...], n: int) -> int:
    """By how much the rows, winner first, move item 0 ahead of item 1."""
    wins = np.zeros((n, n), int)
    for winner, loser in rows:
        wins[winner, loser] += 1
    won, lost = wins.sum(axis=1), wins.sum(axis=0)
    if by is LeadBy.WINS:
        return int(won[0] - won[1])
    if by is LeadBy.NET_WINS:
        return int(won[0] - lost[0] - won[1] + lost[1])
    return int(wins[0, 1] - wins[1, 0])


@pytest.mark.parametrize("n", [3, 4])
@pytest.mark.parametrize("by", [LeadBy.WINS, LeadBy.NET_WINS, LeadBy.MAJORITIES])
def test_a_bound_is_the_largest_move_of_one_person(by: LeadBy, n: int):
    every = [*itertools.permutations(range(n), 2)]
    for bounds in BOUNDS:
        largest = 0
        for count in range(bounds.rows + 1):
            for rows in itertools.combinations_with_replacement(every, count):
                pairs = [frozenset(row) for row in rows]
                of_item = [sum(item in pair for pair in pairs) for item in range(n)]
                repeated = bounds.distinct and len({*pairs}) < len(pairs)
                if repeated or max(of_item) > (bounds.per_item or count):
                    continue
                largest = max(largest, abs(_moves(by, rows, n)))
        assert bound_of(by, bounds, n) == largest, bounds


def test_bounds_of_rankings_are_the_largest_moves_of_one():
    n = 4
    orders = [*itertools.permutations(range(n))]
    nets = [[n - 1 - 2 * order.index(item) for item in range(n)] for order in orders]
    one = RowBounds(rows=1)
    assert bound_of(LeadBy.BORDA, one, n) == max(net[0] - net[1] for net in nets)
    assert bound_of(LeadBy.FIRST_PLACES, one, n) == 1
    assert bound_of(LeadBy.MAJORITIES, one, n) == 1
    assert bound_of(LeadBy.BORDA, RowBounds(rows=3), n) == 3 * bound_of(LeadBy.BORDA, one, n)
    for longest in (2, 3, 4, 5):
        lists = [order[:length] for order in orders for length in range(1, longest + 1)]
        held = [{item: len(each) - 1 - 2 * k for k, item in enumerate(each)} for each in lists]
        bound = bound_of(LeadBy.BORDA, RowBounds(rows=1, longest=longest), n)
        assert bound == max(net.get(0, 0) - net.get(1, 0) for net in held)
    with pytest.raises(ValueError, match="depends on the fit"):
        bound_of(LeadBy.SCORES, one, n)


@pytest.mark.parametrize("kind", NoiseKind)
@pytest.mark.parametrize("n", [2, 6, 40])
def test_the_range_of_noise_is_within_its_quantile_in_95_percent(kind: NoiseKind, n: int):
    rng = np.random.default_rng(7 + n)
    draws = 100_000
    noise = (
        rng.normal(size=(draws, n))
        if kind is NoiseKind.GAUSSIAN
        else rng.laplace(scale=math.sqrt(0.5), size=(draws, n))
    )
    ranges, found = np.ptp(noise, axis=1), range_quantile(n, kind)
    error = math.sqrt(0.95 * 0.05 / draws)
    assert abs((ranges <= found).mean() - 0.95) < FALSE_ALARM * error
    assert abs((ranges <= 0.97 * found).mean() - 0.95) > FALSE_ALARM * error  # a wrong scale


def test_no_more_is_claimed_than_is_true_and_noise_that_is_forgotten_is_caught():
    rng, n, releases = np.random.default_rng(3), 4, 4_000
    true = np.array([100.0, 96.0, 60.0, 20.0])  # two people, of whom each moves a gap by 2
    claims: dict[float, int] = {1.0: 0, 0.25: 0}
    for _ in range(releases):
        noisy = true + np.rint(rng.normal(scale=8.0, size=n))
        first = int(noisy.argmax())
        truth = 2 if first == 0 else 0
        for share in claims:
            gaps = Gaps(
                by=LeadBy.WINS,
                gaps=np.delete(noisy[first] - noisy, first),
                deviation=8.0 * share,
                kind=NoiseKind.GAUSSIAN,
            )
            claims[share] += gaps.at_least(2) > truth
    assert claims[1.0] / releases < 0.05
    assert claims[0.25] / releases > 0.2


def test_ties_and_gaps_within_the_noise_allow_no_claim():
    def claim(gaps: list[float], deviation: float = 0.0) -> int:
        return Gaps(
            by=LeadBy.WINS, gaps=np.array(gaps), deviation=deviation, kind=NoiseKind.LAPLACE
        ).at_least(2)

    assert [claim([0.0, 9.0]), claim([1.0]), claim([4.0]), claim([4.1])] == [0, 1, 2, 3]
    assert claim([40.0, 60.0], deviation=12.0) == 0
    assert claim([-3.0, 9.0]) == 0  # the first of a ranking by scores need not have most wins


# Ties are left out. People who have to be replaced, and taken away, for the first place by wins;
# the same for a majority over each other item; by estimate for the best score: replaced.
REAL = {
    "cems": ((35, 69), (48, 95), 24),
    "germanparties2009": ((9, 18), (28, 56), 9),
    "firstnames": ((5, 10), (9, 18), 5),
}


@pytest.mark.parametrize("name", REAL)
def test_real_surveys_without_noise(real_data: Path, name: str):
    table = pq.read_table(real_data / f"pair_{name}.parquet")
    left, right, said = (table[each].to_numpy() for each in ("item_i", "item_j", "outcome"))
    n = int(max(left.max(), right.max())) + 1
    wins = np.zeros((n, n))
    for sign in (1, -1):
        rows = said == sign
        of_rows = (left[rows], right[rows]) if sign > 0 else (right[rows], left[rows])
        np.add.at(wins, of_rows, 1)
    bounds = RowBounds(rows=15, distinct=True)
    by_wins, by_majorities, estimate = REAL[name]
    scores = _fitted(wins)
    first = int(scores.argmax())
    for by, numbers, wanted in (
        (LeadBy.WINS, wins.sum(axis=1), by_wins),
        (LeadBy.MAJORITIES, wins - wins.T, by_majorities),
    ):
        own = numbers[first] - (numbers if numbers.ndim == 1 else 0)
        gaps = Gaps(by=by, gaps=np.delete(own, first), deviation=0.0, kind=NoiseKind.LAPLACE)
        bound = bound_of(by, bounds, n)
        assert (gaps.at_least(2 * bound), gaps.at_least(bound)) == wanted
    found = estimated_changes(scores, wins, 0.0, NoiseKind.LAPLACE, bounds)
    assert found is not None
    assert found.replaced == estimate
    assert found.replaced <= found.changed


def _fitted(wins: np.ndarray) -> np.ndarray:
    """Bradley-Terry scores by minorise-maximise steps."""
    strength = np.ones(len(wins))
    met = wins + wins.T
    for _ in range(2_000):
        strength = wins.sum(axis=1) / (met / np.add.outer(strength, strength)).sum(axis=1)
        strength /= strength.mean()
    return np.log(strength)


def test_scores_within_their_noise_or_items_that_never_met_have_no_estimate():
    wins = np.array([[0.0, 30, 30], [20, 0, 25], [20, 25, 0]])
    scores, bounds = _fitted(wins), RowBounds(rows=2)
    assert estimated_changes(scores, wins, 0.0, NoiseKind.GAUSSIAN, bounds) is not None
    assert estimated_changes(scores, wins, 1e4, NoiseKind.GAUSSIAN, bounds) is None
    apart = np.array([[0.0, 5, 0], [3, 0, 0], [0, 0, 0]])
    assert estimated_changes(np.zeros(3), apart, 0.0, NoiseKind.GAUSSIAN, bounds) is None
