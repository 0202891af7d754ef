"""Errors of two windows: how far the answers and the noise they share make them alike."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hushrank.estimation.common.score_change import (
    NightTotals,
    error_correlation,
    sampling_correlation,
)
from tests.statistics import FALSE_POSITIVE_RATE, mean_p_value


def totals(first: int, *answers: float) -> NightTotals:
    return NightTotals(first=first, answers=np.array(answers))


def test_windows_share_the_answers_of_the_nights_in_both():
    one, other = totals(3, 10, 20, 30), totals(4, 20, 30, 50)
    assert sampling_correlation(one, other) == pytest.approx(50 / math.sqrt(60 * 100))
    assert sampling_correlation(other, one) == pytest.approx(sampling_correlation(one, other))
    assert sampling_correlation(one, one) == pytest.approx(1)


@pytest.mark.parametrize(
    ("one", "other", "found"),
    [
        (totals(0, 5, 5), totals(2, 5, 5), 0.0),  # no night in both
        (totals(0, 5, -9), totals(1, 4, 9), 0.0),  # noise takes a window's answers away
        (totals(0, 9, -4), totals(1, -4, 9), 0.0),  # or those of the nights in both
        (totals(0, -5, 15), totals(1, 15, -5), 1.0),  # or leaves fewer than these alone
    ],
)
def test_noise_in_totals_keeps_it_a_correlation(one, other, found):
    assert sampling_correlation(one, other) == pytest.approx(found)


def test_answers_drawn_anew_have_the_stated_correlation():
    """Of the errors of an item's shares, by simulated answers; 20 % off is seen."""
    rng, runs, chance = np.random.default_rng(1), 40_000, 0.2
    sizes = np.array([30, 50, 40, 80])
    wins = rng.binomial(sizes, chance, (runs, 4))
    one, other = wins[:, :3].sum(axis=1) / 120, wins[:, 1:].sum(axis=1) / 170
    stated = sampling_correlation(totals(0, 30, 50, 40), totals(1, 50, 40, 80))
    change = np.square(other - one)

    def p_value(r: float) -> float:
        each = chance * (1 - chance)
        v = each * (1 / 120 + 1 / 170 - 2 * r / math.sqrt(120 * 170))
        return mean_p_value(change, v, 2 * v**2)

    assert p_value(stated) > FALSE_POSITIVE_RATE
    assert p_value(0.8 * stated) < FALSE_POSITIVE_RATE
    assert p_value(1.2 * stated) < FALSE_POSITIVE_RATE


def test_a_score_is_correlated_as_its_parts_are():
    shares = np.array([0.0, 1.0, 0.36]), np.array([0.0, 1.0, 0.25])
    found = error_correlation(shares, -0.3, 0.9)
    expected = math.sqrt(0.36 * 0.25) * -0.3 + math.sqrt(0.64 * 0.75) * 0.9
    np.testing.assert_allclose(found, [0.9, -0.3, expected])
