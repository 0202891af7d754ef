"""Simulated surveys have the law that they state. False-positive rate: 1e-6 an assertion."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import binomtest, chi2

from hushrank.estimation.common.links import LOGISTIC, PROBIT
from hushrank.estimation.fit.weighted_pairs import UNITS, information_units
from hushrank.experiments.xsc import xsc_setting
from hushrank.experiments.xsc.xsc_setting import (
    TUNED,
    Survey,
    all_scores,
    debiased_scores,
    draw_survey,
    randomized_sums,
    survey_in_parts,
)
from hushrank.privacy.gaussian_profile import delta_of
from tests.statistics import FALSE_POSITIVE_RATE

TRUTH = np.array([0.9, 0.2, -0.3, -0.8])
N_PAIRS = 6


def survey_of(people: int, share: float, seed: int, epsilon: float = 1.0) -> Survey:
    rng = np.random.default_rng(seed)
    return draw_survey(TRUTH, LOGISTIC, np.full(people, epsilon), share, rng)


def test_share_and_outcomes_have_their_law() -> None:
    survey = survey_of(20_000, 0.4, seed=1)
    answers = binomtest(len(survey.cells), 20_000 * N_PAIRS, 0.4)
    assert answers.pvalue > FALSE_POSITIVE_RATE
    assert binomtest(len(survey.cells), 20_000 * N_PAIRS, 0.41).pvalue < FALSE_POSITIVE_RATE
    of_pair = survey.outcomes[survey.cells == 3]  # items 0 and 3
    chance = 1 / (1 + math.exp(-1.7))
    assert binomtest(int(of_pair.sum()), len(of_pair), chance).pvalue > FALSE_POSITIVE_RATE
    assert binomtest(int(of_pair.sum()), len(of_pair), 0.9 * chance).pvalue < FALSE_POSITIVE_RATE


def test_each_answer_has_its_person_s_epsilon() -> None:
    epsilon = np.array([0.5, 1.0, 2.0])
    survey = draw_survey(TRUTH, PROBIT, epsilon, 1.0, np.random.default_rng(2))
    np.testing.assert_array_equal(survey.epsilon, np.repeat(epsilon, N_PAIRS))
    np.testing.assert_array_equal(survey.cells, np.tile([1, 2, 3, 6, 7, 11], 3))


def test_a_survey_in_parts_is_one_survey(monkeypatch: pytest.MonkeyPatch) -> None:
    epsilon = np.random.default_rng(3).uniform(1, 5, 1001)
    monkeypatch.setattr(xsc_setting, "ANSWERS_AT_ONCE", 1000)
    (_, w), seconds = survey_in_parts(TRUTH, LOGISTIC, epsilon, np.random.default_rng(4))
    np.testing.assert_array_equal(w[np.triu_indices(4, 1)], information_units(epsilon))
    assert seconds > 0


def test_every_method_scores_and_only_the_naive_one_stays_biased() -> None:
    survey = survey_of(20_000, 1.0, seed=5)
    scores = all_scores(survey, LOGISTIC, np.random.default_rng(6))
    errors = {method: np.abs(found - TRUTH).max() for method, found in scores.items()}
    counts = errors.pop("rr-counts")
    naive = errors.pop("classic-rr")
    private = ["debiased-rr", "laplace-rr", "noisy-objective", "noisy-objective-tuned"]
    assert sorted(errors) == private
    assert max(errors.values()) < 0.15
    assert naive > 0.3
    assert counts > 1000  # totals, not scores
    assert np.argsort(-scores["rr-counts"]).tolist() == [0, 1, 2, 3]
    single = debiased_scores(survey, LOGISTIC, np.random.default_rng(6))
    np.testing.assert_array_equal(single, scores["debiased-rr"])


def test_objective_noise_has_the_scale_of_its_theorem() -> None:
    survey = survey_of(4000, 1.0, seed=7, epsilon=2.0)
    rng = np.random.default_rng(8)
    scores = [all_scores(survey, LOGISTIC, rng) for _ in range(60)]
    published = math.sqrt(2) * math.sqrt(8 * math.log(2e6) + 8) / 2
    _check_scale([found["noisy-objective"] for found in scores], published, ridge=4 / 4 / 2.0)
    # tuned: sensitivity sqrt(2), and the least noise that is (2, 1e-6)-DP
    tuned = brentq(lambda sigma: delta_of(2.0, math.sqrt(2) / sigma) - 1e-6, 1, 10)
    assert tuned < 0.55 * published
    _check_scale([found[TUNED] for found in scores], tuned, ridge=1.0)


def test_the_least_noise_is_far_below_that_of_the_theorem() -> None:
    """At the smallest epsilon of Scenario V; docs/reproduction.md, Who wins Scenario V."""
    published = math.sqrt(8 * math.log(2e6) + 0.8) / 0.2
    least = brentq(lambda sigma: delta_of(0.2, 1 / sigma) - 1e-6, 5, 50)
    assert published / least == pytest.approx(2.8, abs=0.05)


def _check_scale(runs: list[np.ndarray], sigma: float, ridge: float) -> None:
    chance = LOGISTIC.cdf(np.subtract.outer(TRUTH, TRUTH))
    weights = 4000 * chance * (1 - chance) * (1 - np.eye(4))
    hessian = np.diag(weights.sum(axis=1)) - weights + ridge * np.eye(4)
    moved = np.array([hessian @ (run - np.mean(runs, axis=0)) for run in runs]) / sigma
    statistic = float(np.square(moved).sum())  # chi-square, 3 directions in each of 59 runs
    degrees = 3 * 59
    p_value = 2 * min(chi2.sf(statistic, degrees), chi2.cdf(statistic, degrees))
    assert p_value > FALSE_POSITIVE_RATE
    for factor in (0.6, 1.6):
        off = statistic / factor**2
        assert min(chi2.sf(off, degrees), chi2.cdf(off, degrees)) < FALSE_POSITIVE_RATE


def test_noise_that_leaves_no_minimum_meets_a_larger_ridge() -> None:
    survey = survey_of(3, 1.0, seed=13, epsilon=0.1)
    scores = all_scores(survey, PROBIT, np.random.default_rng(14))
    assert all(np.isfinite(found).all() for found in scores.values())


def test_probit_has_no_objective_perturbation() -> None:
    methods = all_scores(survey_of(200, 1.0, seed=9), PROBIT, np.random.default_rng(10))
    assert "noisy-objective" not in methods


def test_both_sums_are_of_the_same_answers() -> None:
    survey = survey_of(300, 1.0, seed=11, epsilon=40.0)  # hardly an answer is flipped
    weighted, counted = randomized_sums(survey, np.random.default_rng(12))
    np.testing.assert_allclose(weighted, counted, atol=300)  # units of 2^-30
    assert counted[1, 0, 1] == 300 * UNITS
