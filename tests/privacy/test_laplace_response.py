"""The Laplace baseline: the noise of each answer's own epsilon. False-positive rate: 1e-6 each."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hushrank.privacy.laplace_baselines import GRID, add_laplace
from hushrank.privacy.randomness import seeded_bits, system_bits
from tests.statistics import FALSE_POSITIVE_RATE, discrete_laplace_pmf, law_p_value

M = 120_000  # half for each epsilon: its chi-square is then 6 standard errors beyond the limit


@pytest.mark.parametrize("outcome", [0, 1])
def test_noise_is_discrete_laplace_with_each_answer_s_epsilon(outcome: int) -> None:
    epsilon = np.tile([0.5, 2.0], M // 2)
    noisy = add_laplace(np.full(M, outcome, np.uint8), epsilon, system_bits())
    noise = noisy - outcome * GRID
    for offset, mine in ((0, 0.5), (1, 2.0)):
        p_values = [
            law_p_value(noise[offset::2], discrete_laplace_pmf(GRID / (factor * mine)))
            for factor in (1, 0.9, 1.1)
        ]
        assert p_values[0] > FALSE_POSITIVE_RATE
        assert max(p_values[1:]) < FALSE_POSITIVE_RATE  # power: a wrong scale is caught


def test_wrong_input_is_refused() -> None:
    bits, one = seeded_bits(1), np.array([1], np.uint8)
    with pytest.raises(ValueError, match="outcomes"):
        add_laplace(np.array([2], np.uint8), np.ones(1), bits)
    with pytest.raises(ValueError, match="epsilon"):
        add_laplace(one, np.array([math.nan]), bits)
    with pytest.raises(ValueError, match="do not match"):
        add_laplace(one, np.ones(2), bits)
    assert add_laplace(np.empty(0, np.uint8), np.empty(0), bits).shape == (0,)
