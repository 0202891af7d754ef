"""Noise on three counts a pair: its law on wins and on ties, with power."""

from __future__ import annotations

import numpy as np
import pytest

from hushrank.estimation.ties.tie_models import (
    TieCounts,
    calibrate_tie_counts,
    counted_cells,
    release_tie_counts,
)
from hushrank.privacy.randomness import system_bits
from hushrank.privacy.units import Adjacency, PrivacyParams, Unit
from tests.statistics import FALSE_POSITIVE_RATE, discrete_laplace_pmf, law_p_value

N_ITEMS, L = 50, 3
PARAMS = PrivacyParams(
    unit=Unit.USER, adjacency=Adjacency.REPLACE_ONE, epsilon=0.5, max_contributions=L
)


def test_noise_has_its_law_on_every_cell_and_no_other_scale() -> None:
    """A scale 20 % off is refused of 6 000 and more draws, wins and ties apart."""
    calibration = calibrate_tie_counts(PARAMS, N_ITEMS)
    assert calibration.law.scale == pytest.approx(2 * L / 0.5)
    counted = counted_cells(N_ITEMS)
    cells = np.where(counted, np.arange(2 * N_ITEMS**2).reshape(counted.shape), 0)
    exact = TieCounts(cells.astype(np.int64))
    drawn = [release_tie_counts(exact, calibration, system_bits()).cells for _ in range(5)]
    for kind in (0, 1):
        noise = np.concatenate([(each - cells)[kind][counted[kind]] for each in drawn])
        assert len(noise) >= 6_000
        scale = calibration.law.scale
        assert law_p_value(noise, discrete_laplace_pmf(scale)) > FALSE_POSITIVE_RATE
        for wrong in (0.8, 1.2):
            assert law_p_value(noise, discrete_laplace_pmf(wrong * scale)) < FALSE_POSITIVE_RATE
    assert not any(each[~counted].any() for each in drawn)


def test_noise_is_added_once_and_cells_are_three_a_pair() -> None:
    calibration = calibrate_tie_counts(PARAMS, 3)
    exact = TieCounts(np.zeros((2, 3, 3), np.int64))
    noisy = release_tie_counts(exact, calibration, system_bits())
    with pytest.raises(ValueError, match="noise already"):
        release_tie_counts(noisy, calibration, system_bits())
    assert counted_cells(3).sum() == 9
    for wrong in ((0, 1, 1), (1, 1, 0), (1, 2, 2)):
        cells = np.zeros((2, 3, 3), np.int64)
        cells[wrong] = 1
        with pytest.raises(ValueError, match="no item meets itself"):
            TieCounts(cells)
    with pytest.raises(ValueError, match="cannot be negative"):
        TieCounts(np.where(counted_cells(3), -1, 0))
