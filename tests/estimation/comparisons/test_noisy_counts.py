"""Ranking by noisy counts: its rules, and coverage of its intervals in simulation."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import rankdata

from hushrank.estimation.common.estimate import Estimate, mean_ranks, top_k
from hushrank.estimation.common.matrices import WinCounts
from hushrank.estimation.common.pair_separation import rank_probabilities
from hushrank.estimation.comparisons.noisy_counts import rank_by_win_counts
from hushrank.privacy.noise import NoiseLaw, add_noise
from hushrank.privacy.randomness import seeded_bits
from hushrank.privacy.units import NoiseKind

NO_NOISE = NoiseLaw(NoiseKind.LAPLACE, 0.0)
SPREAD = np.array([1.2, 0.5, 0.4, -0.2, -0.7, -1.2])
NEARLY_EQUAL = np.linspace(0.01, -0.01, 6)  # only here does a rank interval often come close
SOAK = pytest.mark.soak  # another setting takes the same way through the code
REPEATS, ENOUGH = 800, 0.90  # at coverage 0.95 an item falls below with chance 1e-8


def released(wins, row_weight=1) -> WinCounts:
    return WinCounts(np.array(wins, np.int64), row_weight, confidential=False)


def laplace(scale: float) -> NoiseLaw:
    return NoiseLaw(NoiseKind.LAPLACE, scale)


counts_and_law = st.tuples(
    arrays(np.int64, st.integers(2, 20), elements=st.integers(-300, 3000)),
    st.sampled_from([1, 2]),
    st.builds(NoiseLaw, st.sampled_from(NoiseKind), st.sampled_from([0.0, 0.3, 5.0, 80.0])),
)


@given(counts_and_law)
def test_an_estimate_keeps_its_promises(case):
    wins, row_weight, law = case
    found = rank_by_win_counts(released(wins, row_weight), law)
    n = len(wins)
    assert abs(found.scores.sum()) < 1e-9
    assert (found.low >= -0.5).all()
    assert (found.high <= 0.5).all()
    assert (found.low <= found.scores).all()
    assert (found.scores <= found.high).all()
    assert ((found.rank_low >= 1) & (found.rank_high <= n)).all()
    assert ((found.rank_low <= found.rank) & (found.rank <= found.rank_high)).all()
    np.testing.assert_array_equal(found.rank, rankdata(-wins))
    assert (np.diff(found.scores[found.order]) <= 0).all()
    assert (np.diff(found.groups[found.order]) >= 0).all()


@given(counts_and_law, st.randoms(use_true_random=False))
def test_the_order_of_the_catalogue_does_not_matter(case, random):
    wins, row_weight, law = case
    order = list(range(len(wins)))
    random.shuffle(order)
    found = rank_by_win_counts(released(wins, row_weight), law)
    moved = rank_by_win_counts(released(wins[order], row_weight), law)
    for name in ("scores", "low", "high", "rank", "rank_low", "rank_high"):
        expected = getattr(found, name)[order]
        np.testing.assert_allclose(getattr(moved, name), expected, atol=1e-9, err_msg=name)


def test_scores_are_net_win_shares():
    found = rank_by_win_counts(released([700, 500, 300]), laplace(2.0))  # 1,000 comparisons each
    np.testing.assert_allclose(found.scores, [0.2, 0.0, -0.2])


def test_without_noise_an_interval_is_the_score_test_interval_of_a_binomial():
    """Two items: N_1 of T is binomial, and Wilson's interval is known in closed form."""
    found = rank_by_win_counts(released([30, 10]), NO_NOISE)
    z2 = 1.959963984540054**2
    centre, half = (30 + z2 / 2) / (40 + z2), math.sqrt(z2) / (40 + z2) * math.sqrt(7.5 + z2 / 4)
    np.testing.assert_allclose(found.low + 0.5, [centre - half, 1 - centre - half])
    np.testing.assert_allclose(found.high + 0.5, [centre + half, 1 - centre + half])


def test_split_ties_are_counted_in_halves():
    """Doubled counts with doubled noise say the same as counts."""
    once = rank_by_win_counts(released([900, 610, 400]), NoiseLaw(NoiseKind.GAUSSIAN, 10.0))
    twice = rank_by_win_counts(released([1800, 1220, 800], 2), NoiseLaw(NoiseKind.GAUSSIAN, 20.0))
    for name in ("scores", "low", "high", "rank_low", "rank_high"):
        np.testing.assert_allclose(getattr(once, name), getattr(twice, name), err_msg=name)


def test_no_interval_shrinks_to_a_point_at_an_extreme_share():
    found = rank_by_win_counts(released([400, 200, 0]), NO_NOISE)
    assert found.scores.tolist() == [0.5, 0.0, -0.5]
    assert (found.high - found.low > 0.005).all()


def test_counts_beyond_what_is_possible_give_scores_within_bounds_and_in_order():
    found = rank_by_win_counts(released([1300, 500, 300, -100]), laplace(40.0))
    assert found.scores[0] == 0.5
    assert found.scores[3] == -0.5
    assert found.scores[1] > found.scores[2]
    assert found.informative


def test_a_sure_order_of_cut_scores_lies_apart_by_its_errors():
    """Two items at 100 %, one of them surely ahead: it is not likely that the other is the best."""
    found = rank_by_win_counts(released([1000, 300, *[40] * 18]), laplace(5.0))
    assert found.scores[:2].tolist() == [0.5, 0.5]
    errors, sure = found.errors, found.at_once
    assert errors is not None
    assert sure is not None
    assert sure.rank_high[0] == 1
    assert errors.centre[0] - errors.centre[1] > 3 * math.sqrt(errors.covariance[:2].sum())
    chances = rank_probabilities(errors, 1)
    assert chances is not None
    assert chances.best[0] > 0.99


def test_a_clear_difference_is_told_and_a_small_one_is_not():
    found = rank_by_win_counts(released([1000, 620, 600, 300]), laplace(10.0))
    assert found.groups.tolist() == [1, 2, 2, 3]
    assert found.rank_low.tolist() == [1, 2, 2, 4]
    assert found.rank_high.tolist() == [1, 3, 3, 4]


def test_more_noise_tells_less_apart():
    quiet, loud = (
        rank_by_win_counts(released([1000, 620, 600, 300]), laplace(scale)) for scale in (10, 60)
    )
    assert (quiet.rank_low >= loud.rank_low).all()
    assert (quiet.rank_high <= loud.rank_high).all()
    assert loud.groups.max() < quiet.groups.max()
    assert (quiet.high - quiet.low < loud.high - loud.low).all()


@pytest.mark.parametrize(
    ("wins", "law"),
    [
        ([40, -20, 15], laplace(30.0)),
        ([-40, -20, -15], laplace(30.0)),
        ([0, 0, 0], NO_NOISE),
        ([400, -390, 12], NoiseLaw(NoiseKind.GAUSSIAN, 300.0)),
    ],
)
def test_where_the_noise_hides_everything_nothing_is_claimed(wins, law):
    found = rank_by_win_counts(released(wins), law)
    assert not found.informative
    assert found.rank.tolist() == rankdata(-np.array(wins)).tolist()  # still listed by its count
    assert (found.scores == 0).all()
    assert (found.low == -0.5).all()
    assert (found.high == 0.5).all()
    assert found.rank_low.tolist() == [1, 1, 1]
    assert found.rank_high.tolist() == [3, 3, 3]
    assert found.groups.tolist() == [1, 1, 1]


def test_thousands_of_items_and_five_people_claim_nothing():
    """A few answers under noise that must hide a person: noise alone never looks like a ranking."""
    bits, law = seeded_bits(7), laplace(30.0)
    wins = np.zeros(6248, np.int64)
    wins[:75] = 1
    for _ in range(20):  # a total of 75 is 0.02 of its noise's standard deviation: chance 1e-6
        noisy = released(add_noise(wins, law, bits))
        assert not rank_by_win_counts(noisy, law).informative


def test_confidential_counts_are_refused():
    with pytest.raises(ValueError, match="confidential"):
        rank_by_win_counts(WinCounts(np.array([3, 2])), laplace(1.0))


def test_one_item_is_refused():
    with pytest.raises(ValueError, match="at least 2 items, got 1"):
        rank_by_win_counts(released([3]), laplace(1.0))


def test_top_k_is_the_best_first_and_catalogue_order_decides_ties():
    found = rank_by_win_counts(released([500, 700, 700, 100]), laplace(1.0))
    assert top_k(found, 3).tolist() == [1, 2, 0]
    assert found.rank.tolist() == [3.0, 1.5, 1.5, 4.0]
    for k in (0, 5):
        with pytest.raises(ValueError, match=f"top_k must be between 1 and 4.*got {k}"):
            top_k(found, k)


@given(arrays(np.int64, st.integers(0, 20), elements=st.integers(-5, 5)))
def test_mean_ranks_are_those_of_scipy(values):
    np.testing.assert_array_equal(mean_ranks(values), rankdata(-values))


def test_an_estimate_checks_its_arrays():
    fields = {name: np.zeros(2) for name in ("scores", "low", "high", "rank")}
    ranks = {name: np.ones(2, np.int64) for name in ("rank_low", "rank_high", "groups")}
    with pytest.raises(ValueError, match=r"rank must have shape \(2,\), got \(3,\)"):
        Estimate(**(fields | ranks | {"rank": np.zeros(3)}))
    with pytest.raises(ValueError, match="lower end"):
        Estimate(**(fields | ranks | {"low": np.ones(2)}))


def win_probabilities(strengths: np.ndarray) -> np.ndarray:
    """[i, j]: the chance that i beats j, in a Bradley-Terry model."""
    return 1 / (1 + np.exp(strengths - strengths[:, None]))


def simulated_wins(strengths: np.ndarray, n_comparisons: int, balanced: bool) -> np.ndarray:
    """Win counts, shape (REPEATS, n); pairs are all asked equally often, or drawn at random."""
    rng = np.random.default_rng(5)
    n, probabilities = len(strengths), win_probabilities(strengths)
    pairs = list(itertools.combinations(range(n), 2))
    asked = np.full((REPEATS, len(pairs)), n_comparisons // len(pairs))
    if not balanced:
        asked = rng.multinomial(n_comparisons, np.full(len(pairs), 1 / len(pairs)), REPEATS)
    wins = np.zeros((REPEATS, n), np.int64)
    for column, (i, j) in enumerate(pairs):
        i_won = rng.binomial(asked[:, column], probabilities[i, j])
        wins[:, i] += i_won
        wins[:, j] += asked[:, column] - i_won
    return wins


def coverage(
    strengths: np.ndarray, wins: np.ndarray, drawn: NoiseLaw, assumed: NoiseLaw
) -> tuple[np.ndarray, np.ndarray]:
    """Shares of repeats, for each item, in which its score and its rank are in their intervals."""
    probabilities = win_probabilities(strengths)
    np.fill_diagonal(probabilities, 0)
    true_scores = probabilities.sum(axis=1) / (len(probabilities) - 1) - 0.5
    true_ranks = rankdata(-true_scores)
    noisy = add_noise(wins, drawn, seeded_bits(11))
    found = [rank_by_win_counts(released(row), assumed) for row in noisy]
    scores = [(one.low <= true_scores) & (true_scores <= one.high) for one in found]
    ranks = [(one.rank_low <= true_ranks) & (true_ranks <= one.rank_high) for one in found]
    return np.mean(scores, axis=0), np.mean(ranks, axis=0)


HALF = [  # every two of the three go together in each way; `make soak` tries the other half
    (kind, balanced, strengths) if even else pytest.param(kind, balanced, strengths, marks=SOAK)
    for one, kind in enumerate(NoiseKind)
    for other, balanced in enumerate((True, False))
    for strengths, even in ((SPREAD, one == other), (NEARLY_EQUAL, one != other))
]


@pytest.mark.parametrize(("kind", "balanced", "strengths"), HALF)
@pytest.mark.parametrize(("n_comparisons", "scale"), [(900, 20.0), (6000, 20.0), (300, 0.5)])
def test_intervals_cover_what_they_promise(n_comparisons, scale, kind, balanced, strengths):
    law = NoiseLaw(kind, scale)
    wins = simulated_wins(strengths, n_comparisons, balanced)
    scores, ranks = coverage(strengths, wins, law, law)
    assert (scores >= ENOUGH).all()
    assert (ranks >= ENOUGH).all()


@pytest.mark.parametrize("kind", NoiseKind)
def test_the_coverage_test_catches_intervals_for_half_the_noise(kind):
    wins = simulated_wins(NEARLY_EQUAL, 900, balanced=False)
    half = NoiseLaw(kind, 10.0)
    scores, ranks = coverage(NEARLY_EQUAL, wins, NoiseLaw(kind, 20.0), half)
    assert (scores < ENOUGH).all()
    assert (ranks < ENOUGH).any()


def test_intervals_are_not_wider_than_pairs_at_random_need():
    """Too wide would pass every test above: here the scores must miss at 5 %, not at 3 %."""
    wins = simulated_wins(SPREAD, 6000, balanced=False)
    scores, _ = coverage(SPREAD, wins, laplace(20.0), laplace(20.0))
    assert scores.mean() < 0.965
