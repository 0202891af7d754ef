"""Levels of epsilon: public, and never above what somebody chose."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hushrank.privacy.units import epsilon_levels, level_of


@pytest.mark.parametrize(("low", "high"), [(0.1, 5.0), (1.0, 8.0), (1e-6, 1e6), (0.5, 0.500001)])
def test_nobody_is_given_a_larger_epsilon_than_they_chose(low, high):
    levels = epsilon_levels(low, high)
    assert (levels[0], levels[-1]) == (low, high)
    assert list(levels) == sorted(set(levels))
    chosen = np.concatenate([np.geomspace(low, high, 1001), levels, np.nextafter(levels, 0)])
    chosen = chosen[(chosen >= low) & (chosen <= high)]
    rounded = np.array(levels)[level_of(chosen, levels)]
    assert (rounded <= chosen).all()
    assert (chosen <= rounded * (high / low) ** (1 / 12) * (1 + 1e-3)).all()
    np.testing.assert_array_equal(level_of(np.array(levels), levels), np.arange(len(levels)))


def test_epsilons_of_equal_ratio_are_levels_themselves():
    assert {1.0, 2.0, 4.0, 8.0} <= set(epsilon_levels(1.0, 8.0))
    assert {0.5, 1.0, 2.0} <= set(epsilon_levels(0.5, 2.0))
    assert epsilon_levels(2.0, 2.0) == (2.0,)


def test_what_has_no_level_is_told_apart():
    assert level_of(np.array([0.99, 1.0]), (1.0, 2.0)).tolist() == [-1, 0]
    for low, high in ((0.0, 1.0), (2.0, 1.0), (1.0, math.inf)):
        with pytest.raises(ValueError, match="need 0 < low <= high"):
            epsilon_levels(low, high)
