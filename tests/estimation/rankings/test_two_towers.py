"""Two towers on released private answers: their gradient, and what a linear score cannot learn."""

from __future__ import annotations

import numpy as np
import pytest
import scipy

from hushrank.estimation.common.links import Floats
from hushrank.estimation.rankings import two_towers
from hushrank.estimation.rankings.pair_answer_evidence import PairAnswerCounts, count_answers
from hushrank.estimation.rankings.personalized import (
    centred_features,
    design_for,
    fit_personalized,
)
from hushrank.estimation.rankings.two_towers import FOLDS, fit_two_towers, folds_of
from hushrank.privacy.random_pairs import Hide, answer_pairs, law_of_epsilon
from hushrank.privacy.randomness import seeded_bits

N, AGES = 4, np.linspace(-1, 1, 9)[:, np.newaxis]
LAW = law_of_epsilon(4.0, 2, Hide.ORDER)
# The young and the old prefer items 0 and 1, people in the middle items 2 and 3.
TRUTH = np.where(np.abs(AGES) > 0.4, [1.2, 0.8, -0.8, -1.2], [-1.0, -1.4, 1.4, 1.0])


def answers_of(truth: Floats, people: int, seed: int) -> PairAnswerCounts:
    rng = np.random.default_rng(seed)
    orders = np.argsort(-(truth + rng.gumbel(size=(people, N))), axis=1)
    lengths = np.full(people, N, np.int64)
    return count_answers(
        answer_pairs(orders.ravel(), lengths, N, LAW, seeded_bits(seed)), N, N, LAW
    )


def test_the_gradient_is_that_of_the_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def check(objective, start, **_):
        place = start + 0.1
        value, slope = objective(place)
        if seen:  # once is enough
            return scipy.optimize.OptimizeResult(x=start)
        numbers = scipy.optimize.approx_fprime(place, lambda w: objective(w)[0], 1e-6)
        seen.append(np.abs(numbers - slope).max() / abs(value))
        return scipy.optimize.OptimizeResult(x=start)

    profiles = [answers_of(row, 50, seed) for seed, row in enumerate(TRUTH[:5])]
    monkeypatch.setattr(two_towers.scipy.optimize, "minimize", check)
    monkeypatch.setattr(two_towers, "DECAYS", (3.0,))
    fit_two_towers(profiles, LAW, AGES[:5], centred_features(None, N))
    assert max(seen) < 1e-5


@pytest.mark.parametrize(("slow", "fast"), [(2, 5), (3, 5), (4, 10), (5, 4), (8, 5)])
def test_no_value_is_left_out_of_a_fit_whole(slow: int, fast: int) -> None:
    """Profiles come in the order of their features, so each fifth one may have the same value."""
    people = np.array([(a, b) for a in range(slow) for b in range(fast)], float)
    folds = folds_of(people)
    assert np.ptp(np.bincount(folds, minlength=FOLDS)) <= 1
    for fold in range(FOLDS):
        for column in people.T:
            assert set(column[folds != fold]) == set(column)


def share_in_order(scores: Floats) -> float:
    """Share of the pairs of items of all ages whose order is the true one."""
    above, below = np.triu_indices(N, 1)
    true = np.sign(TRUTH[:, above] - TRUTH[:, below])
    return float((np.sign(scores[:, above] - scores[:, below]) == true).mean())


def test_towers_learn_what_a_linear_score_cannot() -> None:
    """Deterministic, by seeds: private answers at epsilon 4 of 9 x 400 people."""
    profiles = [answers_of(row, 400, seed) for seed, row in enumerate(TRUTH)]
    features = centred_features(None, N)
    fit = fit_two_towers(profiles, LAW, AGES, features)
    linear = fit_personalized(profiles, LAW, AGES, features)
    by_line = np.stack([design_for(age, features) @ linear.coefficients for age in AGES])
    assert share_in_order(fit.scores(AGES)) > 0.95
    assert share_in_order(by_line) < 0.8
    assert fit.gain > 0.1
    with pytest.raises(ValueError, match="at least 5 profiles, got 4"):
        fit_two_towers(profiles[:4], LAW, AGES[:4], centred_features(None, N))
