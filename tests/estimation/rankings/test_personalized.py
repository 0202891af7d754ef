"""Personalised scores: the loss and its errors answer by answer, and intervals that hold."""

from __future__ import annotations

import numpy as np
import pytest
import scipy
from numpy.typing import NDArray

from hushrank.estimation.rankings.pair_answer_evidence import (
    AnswerSums,
    PairAnswerCounts,
    count_answers,
)
from hushrank.estimation.rankings.personalized import (
    Personalization,
    _Loss,
    centred_features,
    design_for,
    fit_personalized,
)
from hushrank.privacy.random_pairs import (
    Hide,
    PairAnswers,
    RandomPairs,
    answer_pairs,
    law_of_epsilon,
)
from hushrank.privacy.randomness import seeded_bits
from tests.estimation.scores_alone import scores_alone

ITEMS = 5
PEOPLE = np.array([[-1.0, 0.0], [0.0, 0.0], [1.0, 0.0], [-1.0, 1.0], [0.0, 1.0], [1.0, 1.0]])
PRICES = np.array([[1.0], [2.0], [4.0], [2.5], [0.5]])


def answers_of(
    true: NDArray[np.float64],
    features: NDArray[np.float64],
    law: RandomPairs,
    people: int,
    seed: int,
) -> list[PairAnswers]:
    """Private answers of `people` people, in equal parts of each profile, about Plackett-Luce
    rankings."""
    rng, bits, found = np.random.default_rng(seed), seeded_bits(seed), []
    for own in PEOPLE:
        scores = design_for(own, features) @ true
        noisy = scores + rng.gumbel(size=(people // len(PEOPLE), ITEMS))
        orders = np.argsort(-noisy, axis=1)
        lengths = np.full(len(orders), ITEMS)
        found.append(answer_pairs(orders.ravel(), lengths, ITEMS, law, bits))
    return found


def counted(answers: list[PairAnswers], law: RandomPairs) -> list[PairAnswerCounts]:
    return [count_answers(each, ITEMS, ITEMS, law) for each in answers]


@pytest.mark.parametrize("prices", [None, PRICES])
def test_loss_slope_and_squared_slopes_are_those_of_single_answers(prices):
    features = centred_features(prices, ITEMS)
    size = ITEMS + 2 * features.shape[1]
    rng, law = np.random.default_rng(1), law_of_epsilon(1.0, 1, Hide.ORDER)
    answers = answers_of(rng.normal(size=size), features, law, 240, 1)
    loss = _Loss(
        [AnswerSums.of([(each, law)]) for each in counted(answers, law)],
        [design_for(each, features) for each in PEOPLE],
    )
    at, ridge = rng.normal(size=size) / 2, 0.3
    value, slope, squares = ridge * at @ at / 2, np.zeros(size), np.zeros((size, size))
    for own, given in zip(PEOPLE, answers, strict=True):
        design = design_for(own, features)
        apart = design[given.first] - design[given.second]
        undone = given.outcome / law.attenuation
        d = apart @ at
        value += (np.logaddexp(d / 2, -d / 2) - undone * d / 2).sum()
        single = (np.tanh(d / 2) / 2 - undone / 2)[:, np.newaxis] * apart
        slope, squares = slope + single.sum(axis=0), squares + single.T @ single
    assert loss.value(at, ridge) == pytest.approx(value)
    np.testing.assert_allclose(loss.slope(at), slope, atol=1e-9)
    numeric = scipy.optimize.approx_fprime(at, lambda x: loss.value(x, 0.0), 1e-6)
    np.testing.assert_allclose(loss.slope(at), numeric, atol=1e-3)
    curved = [loss.slope(at + e) - loss.slope(at - e) for e in 1e-5 * np.eye(size)]
    np.testing.assert_allclose(loss.curvature(at), np.array(curved) / 2e-5, atol=1e-4)
    np.testing.assert_allclose(loss.noise(at), squares, rtol=1e-9, atol=1e-9)
    at = loss.minimum(at, ridge)
    assert np.abs(loss.slope(at) + ridge * at).max() < 1e-6


@scores_alone()
def test_intervals_hold_and_those_of_answers_that_were_not_undone_do_not():
    """Deterministic, by seeds. Of 30 fits with 15 coefficients each 95 % of intervals hold."""
    law = law_of_epsilon(4.0, 3, Hide.ORDER)
    features = centred_features(None, ITEMS)
    rng = np.random.default_rng(2)
    base, age, region = (part - part.mean() for part in rng.normal(size=(3, ITEMS)) * 0.7)
    true = np.concatenate([base, age, region])
    held, of_person, plain, errors = [], [], [], []
    for seed in range(30):
        counts = counted(answers_of(true, features, law, 3_000, seed), law)
        fitted = fit_personalized(counts, law, PEOPLE, features)
        assert fitted.known
        held.append(holds(fitted.intervals(), true))
        estimate, own = fitted.estimate_for(PEOPLE[4]), design_for(PEOPLE[4], features) @ true
        of_person.append(holds((estimate.low, estimate.high), own))
        errors.append(estimate.scores - own)
        as_they_are = RandomPairs(epsilon=law.epsilon, pairs=3, hide=Hide.ORDER, threshold=0)
        plain.append(
            holds(fit_personalized(counts, as_they_are, PEOPLE, features).intervals(), true)
        )
    assert 0.93 <= np.mean(held) <= 0.985
    assert np.mean(of_person) >= 0.92
    assert np.mean(plain) < 0.7  # a mechanism that is not undone: intervals around other values
    assert np.sqrt(np.mean(np.square(errors))) < 0.2


def holds(
    ends: tuple[NDArray[np.float64], NDArray[np.float64]], true: NDArray[np.float64]
) -> float:
    return float(((ends[0] <= true) & (true <= ends[1])).mean())


@pytest.mark.parametrize(
    ("people", "ranked", "shown"),
    [
        ([[0, 0], [1, 0], [0, 1]], [5, 5, 0], "a word that nobody has"),
        ([[-1], [0], [1]], [0, 0, 5], "everybody at the upper end"),
        ([[-1], [1]], [4, 4], "an item that nobody ranked"),
        ([[0], [1]], [2, 5], "a profile that ranked two items"),
    ],
)
def test_nothing_is_known_where_rankings_leave_a_difference_of_scores_open(people, ranked, shown):
    """Of each profile the first `ranked` items; another that has them all closes what is open."""
    law, rng, bits = law_of_epsilon(4.0, 1, Hide.ORDER), np.random.default_rng(5), seeded_bits(5)

    def fitted(lengths: list[int]) -> Personalization:
        found = []
        for length in lengths:
            orders = rng.random((1_500 * (length > 0), length)).argsort(axis=1)
            each = np.full(len(orders), length)
            found.append(answer_pairs(orders.ravel(), each, ITEMS, law, bits))
        features = np.array(people, np.float64)
        return fit_personalized(counted(found, law), law, features, centred_features(None, ITEMS))

    left, whole = fitted(ranked), fitted([ITEMS] * len(people))
    assert (left.known, left.complete) == (False, False), shown
    assert (whole.known, whole.complete) == (True, True)
    estimate = left.estimate_for(np.array(people[-1], np.float64))
    assert np.isinf([*estimate.low, *estimate.high, *np.ravel(left.intervals())]).all()
    assert (estimate.rank_low.tolist(), estimate.rank_high.tolist()) == ([1] * 5, [5] * 5)


def test_features_of_items_that_follow_from_each_other_are_refused():
    for features in (np.hstack([PRICES, 3 * PRICES + 1]), np.eye(ITEMS), np.ones((ITEMS, 1))):
        with pytest.raises(ValueError, match="follow from each other"):
            centred_features(features, ITEMS)
    assert centred_features(np.hstack([PRICES, PRICES**2]), ITEMS).shape == (ITEMS, 2)


def test_where_noise_hides_everything_no_interval_is_stated_and_nothing_is_learned_of_nobody():
    law, features = law_of_epsilon(0.1, 1, Hide.ORDER), centred_features(PRICES, ITEMS)
    true = np.zeros(ITEMS + 2)
    fitted = fit_personalized(
        counted(answers_of(true, features, law, 60, 3), law), law, PEOPLE, features
    )
    assert not fitted.known
    estimate = fitted.estimate_for(PEOPLE[0])
    assert not estimate.informative
    assert np.isinf(estimate.low).all()
    assert np.isinf(fitted.intervals()[1]).all()
    assert np.abs(estimate.scores).max() < 3  # drawn to zero, where undone answers reach 20
    nobody = answers_of(true, features, law, 0, 3)
    empty: Personalization = fit_personalized(counted(nobody, law), law, PEOPLE, features)
    assert (empty.rankings, empty.known) == (0, False)
    with pytest.raises(ValueError, match="features of 5"):
        fit_personalized(counted(nobody, law), law, PEOPLE[:5], features)
