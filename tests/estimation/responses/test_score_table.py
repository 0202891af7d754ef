"""Abilities by raw score: Warm's estimate by another way, and intervals of simulated people."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import expit, log_expit

from hushrank.estimation.responses.score_table import score_table

DIFFICULTY = np.array([-2.0, -0.4, -0.4, 0.7, 2.1])
EXACT = np.zeros((5, 5))


@pytest.mark.parametrize("score", range(6))
def test_an_ability_has_the_largest_weighted_likelihood(score):
    """Warm's estimate maximises the likelihood times the root of the information."""

    def lack(ability):
        right = expit(ability - DIFFICULTY)
        likelihood = score * ability + log_expit(DIFFICULTY - ability).sum()
        return -likelihood - np.log((right * (1 - right)).sum()) / 2

    found = minimize_scalar(lack, bounds=(-12, 12), method="bounded", options={"xatol": 1e-9})
    assert score_table(DIFFICULTY, EXACT).ability[score] == pytest.approx(found.x, abs=1e-6)


def test_errors_of_difficulties_move_abilities_by_the_derivative():
    table = score_table(DIFFICULTY, EXACT)
    for item in range(5):
        step = 1e-5 * np.eye(5)[item]
        up, down = (score_table(DIFFICULTY + s, EXACT).ability for s in (step, -step))
        assert table.by_difficulty[:, item] == pytest.approx((up - down) / 2e-5, abs=1e-6)
    assert table.by_difficulty.sum(axis=1) == pytest.approx(1)
    noisy = score_table(DIFFICULTY, 0.3 * np.eye(5))
    added = 0.3 * np.square(table.by_difficulty).sum(axis=1)
    assert np.square(noisy.error) - np.square(table.error) == pytest.approx(added)


@pytest.mark.parametrize("items", [3, 40, 600])
@pytest.mark.parametrize("spread", [0.0, 1.0, 3.0])
def test_every_score_has_an_ability_and_more_points_more_of_it(items, spread):
    difficulty = np.random.default_rng(items).normal(0, spread, items)
    table = score_table(difficulty, np.zeros((items, items)))
    assert len(table.ability) == items + 1
    assert (np.diff(table.ability) > 0).all()
    assert np.isfinite(table.error).all()


@pytest.mark.parametrize("ability", [-2.0, -1.0, 0.0, 1.0, 2.0])
def test_intervals_hold_the_abilities_of_people(ability):
    """28 items: of people of any ability 92 to 98 % are inside, or more at the ends of the scale.

    By the law of their scores, without simulation. With few items scores are coarse.
    """
    from hushrank.estimation.responses.conditional_fit import score_law

    difficulty = np.random.default_rng(1).normal(size=28)
    table = score_table(difficulty, np.zeros((28, 28)))
    near = ability + np.linspace(-0.25, 0.25, 41)  # a sheet has a whole score
    inside = np.abs(table.ability - near[:, np.newaxis]) <= 1.96 * table.error
    law = score_law(expit(near[:, np.newaxis] - difficulty))
    covered = float((law * inside).sum(axis=1).mean())
    assert 0.93 < covered < 0.98
