"""Circles among the answers of a person: counted, undone, and with an error that holds."""

from __future__ import annotations

import math
from itertools import combinations, product

import numpy as np
import pytest

from hushrank.estimation.comparisons.contradictions import Contradictions, contradictions
from hushrank.estimation.comparisons.mixed_effects import PersonAnswers

M = 5
PAIRS = np.array(list(combinations(range(M), 2)))


def answers_of(won: np.ndarray, epsilon: float | None = None, seed: int = 0) -> PersonAnswers:
    """All pairs of `won`, shape (people, pairs); randomised at `epsilon` an answer."""
    people, pairs = won.shape
    person = np.repeat(np.arange(people), pairs)
    first, second = np.tile(PAIRS[:pairs], (people, 1)).T
    y, t, p = won.ravel().astype(float), 1.0, 0.0
    if epsilon is not None:
        p, t = 1 / (math.exp(epsilon) + 1), math.tanh(epsilon / 2)
        y = np.where(np.random.default_rng(seed).random(len(y)) < p, 1 - y, y)
    return PersonAnswers(person, first, second, t * (y - p), np.full(len(y), t * t), people, M)


def circles_of(won: np.ndarray) -> float:
    """Share of threes, one by one."""
    found = []
    for row in won:
        beats = {(a, b) if wins else (b, a) for (a, b), wins in zip(PAIRS, row, strict=True)}
        found += [
            {(a, b), (b, c), (c, a)} <= beats or {(b, a), (c, b), (a, c)} <= beats
            for a, b, c in combinations(range(M), 3)
        ]
    return float(np.mean(found))


def test_circles_of_true_answers_are_counted() -> None:
    won = np.random.default_rng(1).random((40, len(PAIRS))) < 0.5
    found = contradictions(answers_of(won))
    assert found.share == pytest.approx(circles_of(won), abs=1e-12)
    assert (found.threes, found.people) == (40 * math.comb(M, 3), 40)
    ordered = contradictions(answers_of(np.ones((3, len(PAIRS)), bool)))
    assert ordered == Contradictions(0.0, 0.0, 30, 3)


def test_an_open_path_is_no_three() -> None:
    one = np.zeros(2, np.int64), np.array([0, 1]), np.array([1, 2])
    path = PersonAnswers(*one, np.ones(2), np.ones(2), 1, 3)
    with pytest.raises(ValueError, match="at least two people"):
        contradictions(path)


def test_a_pair_answered_twice_is_refused() -> None:
    twice = np.array([0, 1]), np.array([1, 0])
    with pytest.raises(ValueError, match="only once"):
        contradictions(
            PersonAnswers(np.zeros(2, np.int64), *twice, np.ones(2), np.ones(2), 2, 3),
        )


def test_the_noise_is_undone_whatever_the_answers_are() -> None:
    """Exactly: the mean over all flips of the answers about three items, by their chances."""
    epsilon = 1.0
    p, t = 1 / (math.exp(epsilon) + 1), math.tanh(epsilon / 2)
    place = np.zeros(6, np.int64), np.array([0, 0, 1] * 2), np.array([1, 2, 2] * 2)
    place[0][3:] = 1
    for true in product((0, 1), repeat=3):
        mean = 0.0
        for flips in product((0, 1), repeat=3):
            said = np.abs(np.array(true) - flips)
            answers = PersonAnswers(*place, np.tile(t * (said - p), 2), np.full(6, t * t), 2, 3)
            mean += contradictions(answers).share * p ** sum(flips) * (1 - p) ** (3 - sum(flips))
        assert mean == pytest.approx(float(true in {(1, 0, 1), (0, 1, 0)}), abs=1e-9)


def test_the_error_is_that_of_people_and_flips() -> None:
    """200 surveys: the mean is off by more than 4 standard errors once in 16 000 seeds.

    The spread of 200 values is off by more than a quarter, 5 standard errors, less often. Undone
    with epsilon 1.5 in place of the 2 that randomised, the mean is off by 18 standard errors.
    """
    chance = 0.75 * 0.25 * 0.75 + 0.25 * 0.75 * 0.25  # the first of a pair wins three of four
    found = []
    for seed in range(200):
        won = np.random.default_rng(1000 + seed).random((300, len(PAIRS))) < 0.75
        found.append(contradictions(answers_of(won, 2.0, seed)))
    shares = np.array([each.share for each in found])
    spread = shares.std(ddof=1)
    assert abs(shares.mean() - chance) < 4 * spread / math.sqrt(200)
    assert np.mean([each.error for each in found]) == pytest.approx(spread, rel=0.25)


def test_the_share_of_people_costs_what_the_text_says() -> None:
    """Variance of the one unbiased estimate of "a circle anywhere", over all true answers."""
    p = 1 / (math.e + 1)
    undo = np.array([[1 - p, -p], [-p, 1 - p]]) / (1 - 2 * p)
    flip = np.array([[1 - p, p], [p, 1 - p]])
    for m, (least, most) in {3: (3.5, 5.3), 4: (23, 28), 5: (280, 460)}.items():
        pairs = list(combinations(range(m), 2))
        truth = np.empty((2,) * len(pairs))
        for won in product((0, 1), repeat=len(pairs)):
            wins = np.bincount(
                [a if one else b for (a, b), one in zip(pairs, won, strict=True)], minlength=m
            )
            truth[won] = sorted(wins) != list(range(m))
        estimate = truth
        for axis in range(len(pairs)):
            estimate = np.moveaxis(np.tensordot(undo, estimate, (1, axis)), 0, axis)
        squares = np.square(estimate)
        for axis in range(len(pairs)):
            squares = np.moveaxis(np.tensordot(flip, squares, (1, axis)), 0, axis)
        variance = squares - np.square(truth)
        assert variance.min() == pytest.approx(least, rel=0.02)
        assert variance.max() == pytest.approx(most, rel=0.02)
