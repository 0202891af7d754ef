"""Person effects and scores together: the minimum of the stated objective, at arrow-matrix cost."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize

from hushrank.estimation.common.links import LINKS, LOGISTIC, Link
from hushrank.estimation.comparisons.mixed_effects import (
    PersonAnswers,
    fit_mixed,
    presentation_effect,
)
from hushrank.estimation.fit.solve import ConvergenceError
from hushrank.privacy.randomized_response import attenuation, flip_thresholds, randomize
from hushrank.privacy.randomness import seeded_bits

Floats = NDArray[np.float64]


def survey(n_people: int, scores: Floats, sigma: float, seed: int) -> tuple[PersonAnswers, Floats]:
    """Everybody answers every pair; no privacy."""
    generator = np.random.default_rng(seed)
    n = len(scores)
    first, second = (np.tile(codes, n_people) for codes in np.triu_indices(n, 1))
    person = np.repeat(np.arange(n_people), n * (n - 1) // 2)
    effects = sigma * generator.standard_normal(n_people)
    x = effects[person] + scores[first] - scores[second]
    y = (generator.random(len(x)) < LOGISTIC.cdf(x)).astype(np.float64)
    return PersonAnswers(person, first, second, y, np.ones(len(y)), n_people, n), effects


@pytest.mark.parametrize("link", LINKS.values(), ids=LINKS)
def test_minimum_is_that_of_the_stated_objective(link: Link) -> None:
    answers, _ = survey(6, np.array([0.8, 0.0, -0.1, -0.7]), 1.0, seed=1)

    def objective(parameters: Floats) -> float:
        effects, scores = parameters[:6], parameters[6:]
        x = effects[answers.person] + scores[answers.first] - scores[answers.second]
        loss = -(answers.s @ link.log_cdf(x) + (1 - answers.s) @ link.log_cdf(-x))
        return float(loss + 0.7 * scores @ scores + 0.3 * effects @ effects)

    fit = fit_mixed(answers, link, ridge=0.7, effect_ridge=0.3)
    slow = minimize(objective, np.zeros(10), tol=1e-12)
    np.testing.assert_allclose(np.concatenate([fit.effects, fit.scores]), slow.x, atol=2e-5)
    assert abs(fit.scores.sum()) < 1e-9
    assert fit.sigma == pytest.approx(np.std(slow.x[:6], ddof=1), abs=1e-4)


def test_scores_effects_and_their_spread_are_recovered() -> None:
    scores = np.linspace(-1, 1, 15)
    answers, effects = survey(150, scores, 1.0, seed=2)
    fit = fit_mixed(answers, LOGISTIC)
    assert math.sqrt(np.square(fit.scores - scores).mean()) < 0.09
    assert np.corrcoef(fit.effects, effects)[0, 1] > 0.95
    assert fit.sigma == pytest.approx(np.std(effects, ddof=1), abs=0.1)
    # Without effects the same answers give scores that are pulled together.
    pooled = fit_mixed(answers, LOGISTIC, effect_ridge=1e9)
    assert np.std(pooled.scores) < 0.93 * np.std(fit.scores)


def test_one_sided_people_and_noisy_answers_have_finite_effects() -> None:
    answers, _ = survey(80, np.linspace(-1, 1, 6), 2.5, seed=3)
    assert any(answers.s[answers.person == person].min() == 1 for person in range(80))
    assert np.abs(fit_mixed(answers, LOGISTIC).effects).max() < 20
    thresholds = flip_thresholds(np.full(len(answers.s), 1.0))
    t, noisy = attenuation(thresholds), randomize(answers.s.astype(np.uint8), 1.0, seeded_bits(4))
    private = dataclasses.replace(answers, s=t * (noisy - (1 - t) / 2), w=t**2)
    fit = fit_mixed(private, LOGISTIC, effect_ridge=0.5)
    assert np.abs(fit.effects).max() < 20
    assert np.corrcoef(fit.scores, np.linspace(1, -1, 6))[0, 1] < -0.8


def test_many_people_cost_no_more_than_their_answers() -> None:
    # A dense Newton matrix of 20 000 people would take 3 GB.
    scores = np.array([0.6, 0.1, -0.7])
    answers, _ = survey(20_000, scores, 1.0, seed=9)
    np.testing.assert_allclose(
        fit_mixed(answers, LOGISTIC, effect_ridge=0.5).scores, scores, atol=0.1
    )


def test_unanswered_people_and_items_stay_at_zero() -> None:
    answers, _ = survey(5, np.array([0.5, -0.5]), 1.0, seed=5)
    padded = dataclasses.replace(answers, n_people=7, n_items=4)
    fit = fit_mixed(padded, LOGISTIC)
    np.testing.assert_allclose(fit.effects[5:], 0, atol=1e-12)
    np.testing.assert_allclose(fit.scores[2:], 0, atol=1e-12)


def test_a_fit_that_does_not_end_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    answers, _ = survey(6, np.array([0.8, 0.0, -0.8]), 1.0, seed=6)
    monkeypatch.setattr("hushrank.estimation.comparisons.mixed_effects.STEPS", 2)
    with pytest.raises(ConvergenceError, match="after 2 steps"):
        fit_mixed(answers, LOGISTIC)


def test_wrong_arguments_are_refused() -> None:
    answers, _ = survey(3, np.array([0.5, -0.5]), 1.0, seed=7)
    for field, value, named in (
        ("person", answers.person + 1, "person"),
        ("first", answers.first - 1, "first"),
        ("second", answers.first, "differ"),
        ("w", -answers.w, "w at least 0"),
        ("s", answers.s * math.nan, "finite"),
        ("s", answers.s[1:], "same length"),
    ):
        with pytest.raises(ValueError, match=named):
            dataclasses.replace(answers, **{field: value})
    with pytest.raises(ValueError, match="effect_ridge"):
        fit_mixed(answers, LOGISTIC, effect_ridge=0.0)
    with pytest.raises(ValueError, match="ridge"):
        fit_mixed(answers, LOGISTIC, ridge=math.inf)
    alone, _ = survey(1, np.array([0.5, -0.5]), 1.0, seed=8)
    with pytest.raises(ValueError, match="2 people"):
        fit_mixed(alone, LOGISTIC)


ITEM_SCORES = np.linspace(-1, 1, 8)


def few_answers(epsilon: float | None, seed: int, *, sigma: float = 1.0) -> PersonAnswers:
    """12 answers of each of 1500 people, to random pairs in random order."""
    rng = np.random.default_rng(seed)
    people, each, n = 1500, 12, len(ITEM_SCORES)
    person = np.repeat(np.arange(people), each)
    first = rng.integers(0, n, people * each)
    second = (first + rng.integers(1, n, people * each)) % n
    gamma = 0.3 + sigma * rng.standard_normal(people)
    x = gamma[person] + ITEM_SCORES[first] - ITEM_SCORES[second]
    y = (rng.random(len(x)) < LOGISTIC.cdf(x)).astype(np.uint8)
    if epsilon is None:
        s, w = y.astype(float), np.ones(len(y))
    else:
        t = float(attenuation(flip_thresholds(np.array([epsilon])))[0])
        noisy = randomize(y, epsilon, seeded_bits(seed))
        s, w = t * (noisy - (1 - t) / 2), np.full(len(y), t**2)
    return PersonAnswers(person, first, second, s, w, people, n)


@pytest.mark.parametrize(("epsilon", "deviation"), [(None, 0.06), (2.0, 0.08), (1.0, 0.16)])
def test_the_preference_for_the_first_item_and_its_spread_are_found(epsilon, deviation):
    found = [presentation_effect(few_answers(epsilon, seed)) for seed in range(12)]
    variances = np.array([each.variance for each in found])
    error = 2 / math.sqrt(len(found))
    assert variances.mean() == pytest.approx(0.94, abs=0.05 * 0.94 + error * deviation)
    assert np.mean([each.variance_error for each in found]) == pytest.approx(deviation, rel=0.3)
    assert np.mean([each.first for each in found]) == pytest.approx(0.285, abs=0.014 + error * 0.04)
    first_error = np.mean([each.first_error for each in found])
    assert 0.02 < first_error < 0.06
    rms = math.sqrt(np.mean([np.square(each.scores - ITEM_SCORES).mean() for each in found]))
    assert rms < {None: 0.05, 2.0: 0.06, 1.0: 0.1}[epsilon]
    assert all(each.unbalanced == 0 for each in found)


def test_people_who_are_alike_have_no_spread_and_an_order_that_is_fixed_is_noticed():
    alike = presentation_effect(few_answers(None, 1, sigma=0.0))
    assert abs(alike.variance) < 4 * alike.variance_error
    assert alike.spread == pytest.approx(math.sqrt(max(alike.variance, 0)))
    answers = few_answers(None, 1)
    low = np.minimum(answers.first, answers.second)
    fixed = dataclasses.replace(answers, first=low, second=answers.first + answers.second - low)
    assert presentation_effect(fixed).unbalanced == 28


def test_a_spread_needs_two_answers_of_a_person():
    one = PersonAnswers(
        np.arange(2), np.zeros(2, int), np.ones(2, int), np.ones(2), np.ones(2), 2, 2
    )
    with pytest.raises(ValueError, match="needs 2 people, and 2 answers"):
        presentation_effect(one)
    with pytest.raises(ValueError, match="ridge must be"):
        presentation_effect(one, ridge=0.0)
