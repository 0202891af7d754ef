"""Capped pulls: what one answer can move, and that sums stay unbiased; counts by epsilon."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushrank.estimation.fit.chosen_epsilons import (
    BINS,
    COARSE,
    EpsilonBins,
    shares,
    weight_of_lies,
)
from hushrank.estimation.fit.pair_fit import AnswerVariance
from hushrank.estimation.fit.weighted_pairs import UNITS, pulls, weighted_terms
from hushrank.privacy.randomized_response import flip_thresholds

ONE, NONE = np.array([1], np.uint8), np.array([0], np.uint8)
EPSILONS = st.floats(0.05, 8.0)


def terms(epsilon: float, cap: float | None) -> tuple[tuple[int, int], int]:
    """S of the answers 0 and 1, and W, in units."""
    said = [weighted_terms(noisy, epsilon, cap) for noisy in (NONE, ONE)]
    return tuple(int(each.s[0]) for each in said), int(said[0].w[0])


@given(EPSILONS, EPSILONS)
def test_no_answer_moves_a_sum_by_more_than_the_cap_s_pull(epsilon, cap):
    (if_zero, if_one), _ = terms(epsilon, cap)
    most = pulls(np.array([cap]), None)[0][0] * UNITS
    assert if_one - if_zero <= most + 1
    if epsilon > cap:
        assert if_one - if_zero >= most - 1


@given(EPSILONS, EPSILONS, st.sampled_from([0, 1]))
def test_the_mean_of_a_capped_sum_is_the_outcome_times_its_weight(epsilon, cap, outcome):
    flip = Fraction(int(flip_thresholds(np.array([epsilon]))[0]), 2**64)
    said, weight = terms(epsilon, cap)
    mean = (1 - flip) * said[outcome] + flip * said[1 - outcome]
    assert abs(mean - outcome * weight) <= 2


@given(EPSILONS, EPSILONS, st.floats(0, 1))
def test_the_stated_variance_holds_that_of_capped_sums(epsilon, cap, chance):
    """Of an answer that is 1 with `chance`; the least epsilon of the job is 0.05, below the cap."""
    (if_zero, if_one), weight = (np.array(each) / UNITS for each in terms(epsilon, cap))
    _, t = (float(each[0]) for each in pulls(np.array([epsilon]), cap))
    says_one = 0.5 + t * (chance - 0.5)
    variance = says_one * (1 - says_one) * (if_one - if_zero) ** 2
    least = float(pulls(np.array([0.05]), None)[1][0]) ** 2
    stated = AnswerVariance(least_weight=least).of_sums(weight, np.array(chance))
    assert variance <= stated + 1e-8


@pytest.mark.parametrize("cap", [0.3, 1.0, 2.0])
def test_of_all_bounded_pulls_of_one_weight_capped_ones_have_the_least_variance(cap):
    """By enumeration on a grid; the variance of S is at most sum a^2 / 4."""
    capped, t = pulls(np.array([0.2, 1.0, 4.0]), cap)
    grid = [np.linspace(0, capped[-1], 25)] * 3
    as_heavy = [each for each in product(*grid) if np.dot(each, t) >= np.dot(capped, t)]
    assert as_heavy
    assert all(np.dot(each, each) >= np.dot(capped, capped) * (1 - 1e-9) for each in as_heavy)


def test_answers_are_counted_in_the_bin_of_their_epsilon():
    bins = EpsilonBins(0.5, 2.5)
    epsilon = np.array([0.5, 0.5, 0.59, 0.6, 2.5])
    answers, information = bins.count(epsilon)
    assert answers[[0, 1, -1]].tolist() == [3, 1, 1]
    assert answers.sum() == 5
    assert len(answers) == BINS
    t = pulls(epsilon, None)[1]
    assert information.sum() / COARSE == pytest.approx(np.sum(t**2), abs=5 / COARSE)
    of_answers, of_information = shares(bins.count(epsilon))
    assert of_answers.sum() == pytest.approx(1)
    assert of_information[-1] == pytest.approx(t[-1] ** 2 / np.sum(t**2), abs=1e-4)


@pytest.mark.parametrize("cap", [None, 1.0])
def test_lies_move_a_share_of_wins_by_no_more_than_is_said(cap):
    """Every tenth of 1 000 answers to one pair turns from 0 to 1, claiming any epsilon at all."""
    bins = EpsilonBins(0.5, 4.0, cap)
    honest = np.tile([0.5, 1.0, 2.0], 300)
    for claimed in (0.5, 1.0, 2.0, 4.0):
        everyone = np.concatenate([honest, np.full(100, claimed)])
        said = np.zeros(len(everyone), np.uint8)
        moved = said.copy()
        moved[900:] = 1
        before, after = (weighted_terms(each, everyone, cap) for each in (said, moved))
        shift = (after.s.sum() - before.s.sum()) / before.w.sum()
        bound = weight_of_lies(bins.count(everyone), bins)
        assert shift <= 0.1 * bound * (1 + 1e-6)
        if claimed == 4.0:
            assert shift == pytest.approx(0.1 * bound, rel=1e-3)
