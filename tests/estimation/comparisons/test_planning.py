"""Predicted errors are those that simulated surveys have."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import ndtr

from hushrank.estimation.common.links import LINKS, LOGISTIC, Link
from hushrank.estimation.comparisons.planning import (
    _largest_of_normals,
    information_needed,
    mean_pair_weight,
    people_needed,
    predicted_error,
)
from hushrank.estimation.fit.pair_fit import AnswerVariance, fit_scores
from hushrank.estimation.fit.weighted_pairs import UNITS, WeightedPairs

N, REPLICATES = 12, 200


@pytest.mark.parametrize("count", [2, 3, 20, 100_000])
def test_the_largest_of_normals_is_its_integral(count: int) -> None:
    exact, _ = quad(lambda x: 1 - (2 * ndtr(x) - 1) ** count, 0, 16, limit=200)
    assert _largest_of_normals(count) == pytest.approx(exact, abs=1e-8)


@pytest.mark.parametrize("link", LINKS.values(), ids=LINKS)
def test_prediction_is_the_error_of_simulated_surveys(link: Link) -> None:
    generator = np.random.default_rng(1)
    errors = []
    weight = 400.0
    for _ in range(REPLICATES):
        s = weight / 2 + math.sqrt(weight) / 2 * generator.standard_normal((N, N))  # Lemma 2
        units = np.triu(np.rint(s * UNITS).astype(np.int64), 1)
        pairs = WeightedPairs(units, np.triu(np.full((N, N), int(weight) * UNITS), 1))
        errors.append(fit_scores(pairs, link, AnswerVariance()).scores)
    assert mean_pair_weight(pairs) == pytest.approx(weight)
    predicted = predicted_error(N, weight, link)
    typical = math.sqrt(np.square(errors).mean())
    largest = float(np.abs(errors).max(axis=1).mean())
    # 200 surveys of 12 items: standard errors of 1.5 % and 1.7 %.
    assert typical == pytest.approx(predicted.typical, rel=0.08)
    assert largest == pytest.approx(predicted.largest, rel=0.08)


def test_the_information_needed_gives_the_target_error() -> None:
    information = information_needed(0.1, 20, 0.5, LOGISTIC)
    assert predicted_error(20, 0.5 * information, LOGISTIC).largest == pytest.approx(0.1)
    assert information_needed(0.05, 20, 0.5, LOGISTIC) == pytest.approx(4 * information)  # rate


def test_people_needed_reach_the_information_together() -> None:
    mix = {1.0: 3.0, 4.0: 1.0}
    per_person = (3 * math.tanh(0.5) ** 2 + math.tanh(2.0) ** 2) / 4
    people = people_needed(500.0, mix)
    assert (people - 1) * per_person < 500 <= people * per_person * (1 + 1e-9)
    assert people_needed(500.0, {0.5: 1.0}) > people_needed(500.0, {1.0: 1.0})


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="pair_share"):
        information_needed(0.1, 10, 1.5, LOGISTIC)
    with pytest.raises(ValueError, match="target_error"):
        information_needed(0.0, 10, 0.5, LOGISTIC)
    with pytest.raises(ValueError, match="2 items"):
        predicted_error(1, 1.0, LOGISTIC)
    with pytest.raises(ValueError, match="pair_weight"):
        predicted_error(3, math.nan, LOGISTIC)
    with pytest.raises(ValueError, match="information"):
        people_needed(math.inf, {1.0: 1.0})
    for mix in ({}, {1.0: 0.0}, {1.0: -1.0, 2.0: 2.0}):
        with pytest.raises(ValueError, match="mix"):
            people_needed(1.0, mix)
    with pytest.raises(ValueError, match="nothing"):
        people_needed(1.0, {1e-13: 1.0})
