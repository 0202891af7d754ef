"""The guess of a ranking from its synthetic ones, and how often it is right."""

from __future__ import annotations

import math
from itertools import combinations, pairwise, permutations

import numpy as np
import pytest

from hushrank.estimation.rankings.inference_attack import (
    guess_ranking,
    largest_success,
    success_rates,
)
from hushrank.privacy.mallows import expected_concordance, synthetic_rankings
from hushrank.privacy.randomness import seeded_bits
from tests.statistics import FALSE_POSITIVE_RATE, mean_p_value


def synthetic(truth: np.ndarray, n: int, epsilon: float, seed: int) -> np.ndarray:
    items, lengths = np.tile(truth, n), np.full(n, len(truth))
    return synthetic_rankings(items, lengths, epsilon, seeded_bits(seed)).reshape(n, -1)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("epsilons", [[2.0] * 5, [0.5, 4.0, 1.0, 4.0, 0.5]])
def test_the_guess_and_its_probability_are_those_of_all_rankings(
    seed: int, epsilons: list[float]
) -> None:
    truth = np.array([2, 0, 3, 1])
    rows = np.concatenate(
        [synthetic(truth, 1, epsilon, 10 * seed + k) for k, epsilon in enumerate(epsilons)]
    )
    likelihood = {
        order: math.exp(
            sum(
                epsilon / 3 * (row.tolist().index(a) < row.tolist().index(b))
                for row, epsilon in zip(rows, epsilons, strict=True)
                for k, a in enumerate(order)
                for b in order[k + 1 :]
            )
        )
        for order in permutations(range(4))
    }
    own = epsilons[0] if len(set(epsilons)) == 1 else np.array(epsilons)
    guess = guess_ranking(rows, own)
    best = max(likelihood.values())
    assert likelihood[tuple(guess.order.tolist())] == pytest.approx(best, rel=1e-12)
    assert guess.probability == pytest.approx(best / sum(likelihood.values()), rel=1e-12)


def test_many_rankings_reveal_the_truth_and_one_hides_it() -> None:
    truth = np.array([4, 2, 0, 3, 1])
    many = guess_ranking(synthetic(truth, 5000, 2.0, 1), 2.0)
    np.testing.assert_array_equal(many.order, truth)
    assert many.probability > 0.999
    assert success_rates(5, 1.0, [1], 50, seeded_bits(2))[0].mean < 0.05


def test_one_ranking_is_guessed_right_as_often_as_it_comes_out_unchanged() -> None:
    """With N = 1 the best guess is the synthetic ranking itself: 1 / sum of q^-distance."""
    epsilon, m = 3.0, 4
    q = math.exp(epsilon / (m - 1))
    unchanged = math.prod((1 - 1 / q) / (1 - q**-t) for t in range(1, m + 1))
    (rate,) = success_rates(m, epsilon, [1], 10, seeded_bits(1))
    assert rate.mean == pytest.approx(unchanged, rel=1e-9)
    assert rate.standard_error == pytest.approx(0, abs=1e-9)


def test_the_success_rate_is_how_often_the_guess_is_right() -> None:
    epsilon, n, trials, truth = 3.0, 8, 2000, np.array([0, 1, 2])
    (rate,) = success_rates(3, epsilon, [n], trials, seeded_bits(7))
    rows = synthetic(truth, n * trials, epsilon, 8).reshape(trials, n, 3)
    places = np.argsort(rows, axis=2)
    agreed = np.stack(
        [
            sum((places[..., a] < places[..., b]).sum(axis=1) for a, b in combinations(order, 2))
            for order in permutations(range(3))
        ]
    )
    best = agreed == agreed.max(axis=0)
    right = best[0] / best.sum(axis=0)  # ties are guessed at random
    spread = right.var() + trials * rate.standard_error**2
    assert mean_p_value(right, rate.mean, spread) > FALSE_POSITIVE_RATE
    assert mean_p_value(right, rate.mean - 0.15, spread) < FALSE_POSITIVE_RATE


def test_one_synthetic_ranking_tells_as_many_pairs_as_it_keeps() -> None:
    """With N = 1 the guess is what was seen, so its pairs are right as often as they are kept."""
    (rate,) = success_rates(5, 2.0, [1], 1000, seeded_bits(3))
    expected = expected_concordance(2.0, 5)
    assert rate.pairs == pytest.approx(expected, abs=0.04)  # 5 standard errors of 0.007
    # the best item is on top as often as the mechanism leaves it there
    q = math.exp(2.0 / 4)
    assert rate.best_item == pytest.approx((1 - 1 / q) / (1 - q**-5), abs=0.08)  # 5 of 0.016


def test_more_releases_of_the_same_ranking_tell_more() -> None:
    rates = success_rates(4, 1.5, [1, 4, 16, 64], 300, seeded_bits(4))
    assert [rate.n_rankings for rate in rates] == [1, 4, 16, 64]
    for few, many in pairwise(rates):
        assert few.mean < many.mean
        assert few.pairs < many.pairs
        assert few.best_item < many.best_item
    assert rates[-1].mean > 0.9


@pytest.mark.parametrize(("m", "n"), [(3, 10), (5, 10), (3, 40)])
def test_releases_at_a_falling_epsilon_help_no_more_than_one_and_may_lose_more(
    m: int, n: int
) -> None:
    """What `hushrank attack` says of N releases, each at epsilon (m - 1) / sqrt(N)."""
    each = (m - 1) / math.sqrt(n)
    (one,) = success_rates(m, m - 1, [1], 2, seeded_bits(6))
    (many,) = success_rates(m, each, [n], 400, seeded_bits(6))
    assert many.mean + 3 * many.standard_error < one.mean
    # at worst all come out as if the first item were last: each then loses its whole epsilon
    kept = np.arange(m)
    moved = np.roll(kept, -1)
    agreed = [sum(a < b for a, b in combinations(order.tolist(), 2)) for order in (kept, moved)]
    assert n * each / (m - 1) * (agreed[0] - agreed[1]) == pytest.approx((m - 1) * math.sqrt(n))


@pytest.mark.parametrize(("m", "epsilon", "n"), [(3, 1.0, 1), (3, 1.0, 9), (4, 2.0, 16)])
def test_no_guess_exceeds_the_bound_of_the_first_two_items(m: int, epsilon: float, n: int) -> None:
    (rate,) = success_rates(m, epsilon, [n], 200, seeded_bits(8))
    most = largest_success(m, epsilon, n)
    flip = 1 / (1 + math.exp(epsilon / (m - 1)))
    probabilities = [math.comb(n, k) * flip**k * (1 - flip) ** (n - k) for k in range(n + 1)]
    assert most == pytest.approx(
        sum(chance * ((2 * k < n) + (2 * k == n) / 2) for k, chance in enumerate(probabilities))
    )
    assert rate.mean < most < 1


def test_without_evidence_the_guess_is_blind() -> None:
    """Nearly no signal: ties between orders must not be broken in favour of the truth."""
    (rate,) = success_rates(4, 1e-9, [2], 600, seeded_bits(5))
    assert rate.mean == pytest.approx(1 / 24, rel=1e-6)
    assert rate.pairs == pytest.approx(0.5, abs=0.055)  # 5 standard errors of 0.011
    assert rate.best_item == pytest.approx(0.25, abs=0.09)  # 5 of 0.018


@pytest.mark.parametrize("epsilon", [0.0, math.inf])
def test_an_epsilon_without_a_likelihood_is_refused(epsilon: float) -> None:
    with pytest.raises(ValueError, match="finite and > 0"):
        guess_ranking(np.tile(np.arange(3), (2, 1)), epsilon)


def test_sizes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="2 to 20 items"):
        guess_ranking(np.tile(np.arange(21), (2, 1)), 1.0)
    with pytest.raises(ValueError, match="simulations >= 2"):
        success_rates(3, 1.0, [0], 10, seeded_bits(1))
    with pytest.raises(ValueError, match="2 epsilons do not match 3 rankings"):
        guess_ranking(np.tile(np.arange(4), (3, 1)), np.array([1.0, 2.0]))
