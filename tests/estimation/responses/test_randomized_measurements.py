"""Measurements of randomised answers: unbiased, private per person, exact under every split.

False-positive rate of each statistical assertion: 1e-6.
"""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import binomtest

from hushrank.estimation.responses.measurements import (
    UNITS,
    RandomizedMeasurements,
    measurements_of_answers,
    merge_measurements,
    randomize_answers,
    randomized_measurements,
)
from hushrank.privacy.randomized_response import (
    epsilon_of_answer,
    flip_probability,
    flip_thresholds,
    split_response,
)
from hushrank.privacy.randomness import seeded_bits, system_bits
from tests.statistics import FALSE_POSITIVE_RATE

ITEMS = 4


def flip_chance(epsilon: float, n_answers: int) -> float:
    share = epsilon_of_answer(np.array([epsilon]), np.array([n_answers]))
    return float(flip_probability(flip_thresholds(share))[0])


def one_person(sheet: tuple[int, ...]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    return np.zeros(len(sheet), np.int64), np.arange(len(sheet))


@pytest.mark.parametrize("epsilon", [0.05, 1.0, 6.0])
@pytest.mark.parametrize("sheet", [(1, 0), (1, 1), (0, 0), (1, 0, 0), (1, 0, 1, 1)])
def test_expectation_over_all_flips_is_the_true_measurement(
    epsilon: float, sheet: tuple[int, ...]
) -> None:
    person, item = one_person(sheet)
    p = flip_chance(epsilon, len(sheet))
    mean = np.zeros((ITEMS, ITEMS))
    for flips in product((0, 1), repeat=len(sheet)):
        chance = math.prod(p if flip else 1 - p for flip in flips)
        noisy = np.array([answer ^ flip for answer, flip in zip(sheet, flips, strict=True)])
        measured = randomized_measurements(
            person, item, noisy.astype(np.uint8), ITEMS, split_response(epsilon, ITEMS)
        )
        mean += chance * measured.y()
    truth = measurements_of_answers(person, item, np.array(sheet, np.uint8), ITEMS)
    tolerance = 3 / UNITS / (1 - 2 * p) ** 2  # of three rounded terms
    assert np.abs(mean - truth).max() <= 1.01 * tolerance + 1e-9


def test_people_with_few_answers_weigh_more() -> None:
    """Weights follow t^4, and their mean over pairs is one."""
    epsilon, k = 2.0, ITEMS
    person = np.repeat([0, 1], [2, k])
    item = np.concatenate([np.arange(2), np.arange(k)])
    t = {n: 1 - 2 * flip_chance(epsilon, n) for n in (2, k)}
    mean = {}
    for who, n in ((0, 2), (1, k)):  # mean of the sums over the flips, one person at a time
        mean[n] = np.zeros((ITEMS, ITEMS))
        for flips in product((0, 1), repeat=n):
            p = flip_chance(epsilon, n)
            noisy = np.array([(i == 0) ^ flip for i, flip in zip(range(n), flips, strict=True)])
            rows = person == who
            part = randomized_measurements(
                person[rows],
                item[rows],
                noisy.astype(np.uint8),
                ITEMS,
                split_response(epsilon, ITEMS),
            )
            mean[n] += math.prod(p if flip else 1 - p for flip in flips) * part.sums
    assert mean[2][0, 1] / mean[k][0, 1] == pytest.approx((t[2] / t[k]) ** 4, rel=1e-6)


@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.booleans())
@settings(deadline=None)
def test_every_split_of_the_people_gives_the_same_bits(
    seed: int, n_parts: int, debiased: bool
) -> None:
    random = np.random.default_rng(seed)
    answered = random.random((30, ITEMS)) < 0.7
    person, item = np.nonzero(answered)
    noisy = random.integers(0, 2, len(person)).astype(np.uint8)
    response = split_response(1.5, ITEMS)
    whole = randomized_measurements(person, item, noisy, ITEMS, response, debiased=debiased)
    part_of = random.integers(0, n_parts, 30)[person]
    parts = []
    for part in range(n_parts):
        rows = part_of == part
        parts.append(
            randomized_measurements(
                person[rows], item[rows], noisy[rows], ITEMS, response, debiased=debiased
            )
        )
    random.shuffle(parts)
    merged = merge_measurements(parts)
    assert (merged.sums == whole.sums).all()
    assert (merged.people == whole.people).all()
    assert np.array_equal(merged.y(), whole.y())


def test_the_plain_baseline_takes_noisy_answers_as_they_are() -> None:
    random = np.random.default_rng(1)
    person, item = np.nonzero(random.random((40, ITEMS)) < 0.7)
    noisy = random.integers(0, 2, len(person)).astype(np.uint8)
    response = split_response(1.0, ITEMS)
    plain = randomized_measurements(person, item, noisy, ITEMS, response, debiased=False)
    assert (plain.y() == measurements_of_answers(person, item, noisy, ITEMS)).all()


@pytest.mark.parametrize("n_answers", [1, 3])
def test_a_person_s_epsilon_is_split_over_their_answers(n_answers: int) -> None:
    epsilon, people = 1.2, 60_000
    person = np.repeat(np.arange(people), n_answers)
    correct = np.ones(len(person), np.uint8)
    response = split_response(epsilon, n_answers)
    noisy = randomize_answers(person, correct, response, system_bits())
    flips = int((noisy != correct).sum())

    def p_value(eps: float) -> float:
        return float(binomtest(flips, len(person), 1 / (1 + math.exp(eps))).pvalue)

    assert p_value(epsilon / n_answers) > FALSE_POSITIVE_RATE
    assert p_value(1.2 * epsilon / n_answers) < FALSE_POSITIVE_RATE
    assert p_value(0.8 * epsilon / n_answers) < FALSE_POSITIVE_RATE


@given(st.floats(0.01, 30), st.integers(1, 50))
def test_a_person_s_whole_sheet_is_epsilon_private(epsilon: float, n_answers: int) -> None:
    p = flip_chance(epsilon, n_answers)
    assert n_answers * math.log((1 - p) / p) <= epsilon * (1 + 1e-12)


def test_nobody_measured_is_zero() -> None:
    nothing = np.array([], np.int64)
    response = split_response(1.0, 3)
    empty = randomized_measurements(nothing, nothing, nothing.astype(np.uint8), ITEMS, response)
    assert not empty.y().any()
    assert not empty.people.any()


def test_arguments_that_break_a_rule() -> None:
    person, item = one_person((1, 0, 1))
    noisy = np.array([1, 0, 1], np.uint8)
    with pytest.raises(ValueError, match="max_answers = 2"):
        randomized_measurements(person, item, noisy, ITEMS, split_response(1.0, 2))
    with pytest.raises(ValueError, match="1 to 2 answers"):
        randomize_answers(person, noisy, split_response(1.0, 2), system_bits())
    with pytest.raises(ValueError, match="one answer has no pair"):
        randomized_measurements(person[:1], item[:1], noisy[:1], ITEMS, split_response(1.0, 1))
    with pytest.raises(ValueError, match="too small to split"):
        randomized_measurements(person, item, noisy, ITEMS, split_response(1e-12, 3))
    with pytest.raises(ValueError, match="nothing to merge"):
        merge_measurements([])
    one, other = (
        randomized_measurements(person, item, noisy, ITEMS, split_response(epsilon, 3))
        for epsilon in (1.0, 2.0)
    )
    with pytest.raises(ValueError, match="share"):
        merge_measurements([one, other])


def test_an_overflow_is_an_error() -> None:
    sums = np.array([[0, 2**62], [-(2**62), 0]])
    part = RandomizedMeasurements(sums, np.array([0, 0, 5]), split_response(1.0, 2))
    with pytest.raises(OverflowError, match="64-bit"):
        merge_measurements([part, part, part])


@pytest.mark.parametrize(
    ("sums", "people", "message"),
    [
        (np.zeros((2, 3), np.int64), np.zeros(3, np.int64), "square"),
        (np.eye(2, dtype=np.int64), np.zeros(3, np.int64), "diagonal"),
        (np.zeros((2, 2), np.int64), np.array([0, -1, 0]), "counts"),
        (np.zeros((2, 2), np.int64), np.zeros(4, np.int64), r"the shape \(3,\), got \(4,\)"),
    ],
)
def test_malformed_measurements_are_refused(
    sums: NDArray[np.int64], people: NDArray[np.int64], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        RandomizedMeasurements(sums, people, split_response(1.0, 2))


@pytest.mark.parametrize("epsilon", [math.inf, 0.0, -1.0])
def test_an_epsilon_that_cannot_be_split_is_refused(epsilon: float) -> None:
    with pytest.raises(ValueError, match="finite and > 0"):
        split_response(epsilon, 3)
    with pytest.raises(ValueError, match="max_answers must be >= 1"):
        split_response(1.0, 0)


def test_seeded_bits_repeat() -> None:
    person, _ = one_person((1, 0, 1))
    correct = np.array([1, 0, 1], np.uint8)
    response = split_response(0.1, 3)
    first, second = (randomize_answers(person, correct, response, seeded_bits(3)) for _ in range(2))
    assert (first == second).all()
