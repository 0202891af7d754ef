"""Test answers of people who chose their own epsilon: errors, weights, and the law of the flips."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from hushrank.estimation.responses.item_graph import complete_graph
from hushrank.estimation.responses.measurements import (
    OF_PRODUCT,
    RandomizedMeasurements,
    merge_measurements,
    no_measurements,
    randomize_answers,
    randomized_measurements,
)
from hushrank.estimation.responses.spectral_estimate import estimate_randomized
from hushrank.privacy.audit import audit_epsilon
from hushrank.privacy.randomized_response import (
    PersonalResponse,
    attenuation,
    flip_probability,
    split_response,
)
from hushrank.privacy.randomness import seeded_bits, system_bits
from tests.statistics import FALSE_POSITIVE_RATE

ITEMS, PEOPLE, PARTS = 20, 6_000, 16
LOW, HIGH = 1.0 * ITEMS, 4.0 * ITEMS  # of a person: 1 and 4 an answer
RESPONSE = PersonalResponse((split_response(LOW, ITEMS), split_response(HIGH, ITEMS)))
TRUTH = np.linspace(-1.5, 1.5, ITEMS)


def parts_of(seed: int, *, by_ability: bool = False) -> list[RandomizedMeasurements]:
    rng = np.random.default_rng(seed)
    ability = rng.normal(size=PEOPLE)
    level = (rng.random(PEOPLE) < 0.3).astype(np.int64)
    if by_ability:
        level = (ability > 0.5).astype(np.int64)
    right = rng.random((PEOPLE, ITEMS)) < 1 / (1 + np.exp(TRUTH - ability[:, None]))
    person, item = np.repeat(np.arange(PEOPLE), ITEMS), np.tile(np.arange(ITEMS), PEOPLE)
    noisy = randomize_answers(
        person, right.ravel().astype(np.uint8), RESPONSE, seeded_bits(seed), level
    )
    found = []
    for part in range(PARTS):
        rows = person % PARTS == part
        found.append(
            randomized_measurements(
                person[rows], item[rows], noisy[rows], ITEMS, RESPONSE, level=level
            )
        )
    return found


@pytest.mark.parametrize(("by_ability", "error"), [(False, 0.054), (True, 0.058)])
def test_difficulties_have_the_error_that_the_weights_promise(by_ability, error):
    errors, covered = [], []
    for seed in range(6):
        estimate = estimate_randomized(
            parts_of(seed, by_ability=by_ability), complete_graph(ITEMS)
        ).estimate
        errors.append(estimate.scores - TRUTH)
        covered.append((estimate.low <= TRUTH) & (estimate.high >= TRUTH))
    rms = np.sqrt(np.square(errors).mean())
    assert rms == pytest.approx(error, rel=0.05 + 2 / np.sqrt(2 * 6 * (ITEMS - 1)))
    assert np.mean(covered) > 0.9
    assert np.polyfit(TRUTH, np.mean(errors, axis=0), 1)[0] == pytest.approx(0, abs=0.03)


def test_sums_are_those_of_the_formula_and_fit_into_their_units():
    person, item = np.repeat(np.arange(4), 2), np.tile([0, 1], 4)
    noisy = np.array([1, 0, 0, 1, 1, 1, 1, 0], np.uint8)
    level = np.array([0, 1, 1, 0])
    found = randomized_measurements(person, item, noisy, ITEMS, RESPONSE, level=level)
    wanted, weights = 0.0, []
    for one in range(4):
        threshold = RESPONSE.levels[level[one]].by_answers()[[2]]
        p, t = flip_probability(threshold)[0], attenuation(threshold)[0]
        v = p * (1 - p) / t**2
        weights.append(OF_PRODUCT / (v**2 + v + OF_PRODUCT))
        first, second = (noisy[2 * one : 2 * one + 2] - p) / t
        wanted += weights[-1] * first * (1 - second)
    assert found.sums[0, 1] / 2**30 == pytest.approx(wanted, abs=1e-7)
    assert found.y()[0, 1] == pytest.approx(wanted / np.mean(weights), abs=1e-7)
    assert found.people[:, 2].tolist() == [2, 2]
    for epsilon in (1e-3, 0.1, 1.0, 3.0, 10.0, 40.0):  # a factor above 1 would be cut off
        t = attenuation(split_response(epsilon, 2).by_answers())[2]
        p = (1 - t) / 2
        v = p * (1 - p) / t**2
        assert OF_PRODUCT / (v**2 + v + OF_PRODUCT) / t**2 <= 1


def test_parts_add_up_and_what_does_not_belong_together_is_refused():
    parts = parts_of(1)
    merged = merge_measurements(parts)
    assert merged.people[:, ITEMS].sum() == PEOPLE
    assert no_measurements(ITEMS, RESPONSE).people.shape == (2, ITEMS + 1)
    with pytest.raises(ValueError, match="need a level each"):
        randomize_answers(np.zeros(1, np.int64), np.ones(1, np.uint8), RESPONSE, system_bits())
    with pytest.raises(ValueError, match="always debiased"):
        RandomizedMeasurements(merged.sums, merged.people, RESPONSE, debiased=False)
    with pytest.raises(ValueError, match="levels must be 0 to 1"):
        RESPONSE.randomize(np.ones(1, np.uint8), np.ones(1, np.int64), np.full(1, 2), system_bits())


SMALL = PersonalResponse((split_response(0.5, 2), split_response(5.0, 2)))
TRIALS = 40_000


def answers_of(answers: list[int], runs: int, level: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Noisy answers of people with the smaller epsilon, who stand between others."""
    person = np.repeat(np.arange(2 * runs), 2)
    true = np.tile(np.array([*answers, 0, 0], np.uint8), runs)
    noisy = randomize_answers(person, true, SMALL, system_bits(), np.tile(level, runs))
    return noisy.reshape(runs, 4)[:, :2]


def test_a_person_loses_their_own_epsilon_and_the_epsilon_of_another_row_is_caught():
    """A correct draw fails with probability 10^-6 at most; the bug loses ten times as much."""
    bounds = [
        audit_epsilon(
            lambda answers, runs, own=level: answers_of(answers, runs, np.array(own)),
            [1, 1], [0, 0], trials=TRIALS, confidence=1 - FALSE_POSITIVE_RATE,
        ).epsilon_lower
        for level in ([0, 1], [1, 0])
    ]  # fmt: skip
    assert 0.2 < bounds[0] <= 0.5 < 2 < bounds[1]


def test_one_level_flips_as_everybody_does_with_one_epsilon():
    one = PersonalResponse((split_response(3.0, 5),))
    outcomes, answers = np.ones(1000, np.uint8), np.full(1000, 4)
    level = np.zeros(1000, np.int64)
    np.testing.assert_array_equal(
        one.randomize(outcomes, answers, level, seeded_bits(1)),
        split_response(3.0, 5).randomize(outcomes, answers, seeded_bits(1)),
    )
