"""Pair counts of public pairs alone: sensitivity by enumeration, the law of the noise, an audit."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binomtest

from hushrank.estimation.common.central_noise import (
    Calibration,
    calibrate_pair_counts,
    release_pair_counts,
)
from hushrank.estimation.common.matrices import PairCounts
from hushrank.privacy.audit import audit_epsilon, one_by_one
from hushrank.privacy.randomness import seeded_bits, system_bits
from hushrank.privacy.sensitivity import pair_counts_sensitivity
from hushrank.privacy.units import Adjacency, PrivacyParams, Unit
from tests.statistics import FALSE_POSITIVE_RATE

Counts = NDArray[np.int64]
N = 4
ASKED = [(0, 1), (1, 2), (2, 3)]  # of 6 pairs
MATRIX = np.zeros((N, N), np.bool_)
for _i, _j in ASKED:
    MATRIX[_i, _j] = MATRIX[_j, _i] = True


def params(most: int, adjacency: Adjacency = Adjacency.REPLACE_ONE) -> PrivacyParams:
    """With distinct pairs a person has at most as many rows as there are pairs."""
    return PrivacyParams(
        unit=Unit.USER,
        adjacency=adjacency,
        epsilon=1.0,
        max_contributions=min(most, len(ASKED)),
        distinct_pairs=True,
    )


def bundles(most: int) -> Iterator[Counts]:
    """Counts of every bundle of at most so many rows on distinct listed pairs."""
    for outcomes in itertools.product((None, 0, 1), repeat=len(ASKED)):
        if sum(each is not None for each in outcomes) > most:
            continue
        wins = np.zeros((N, N), np.int64)
        for (i, j), left_won in zip(ASKED, outcomes, strict=True):
            if left_won is not None:
                wins[(i, j) if left_won else (j, i)] += 1
        yield wins


@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize("most", [1, 2, 3, 5])
def test_the_sensitivity_is_exact_on_listed_pairs(most: int, adjacency: Adjacency) -> None:
    found = list(bundles(most))
    others = [np.zeros((N, N), np.int64)] if adjacency is Adjacency.ADD_REMOVE else found
    moves = [one - other for one in found for other in others]
    bound = pair_counts_sensitivity(params(most, adjacency), N)
    assert max(int(np.abs(move).sum()) for move in moves) == bound.l1
    assert max(int((move**2).sum()) for move in moves) == bound.l2_squared


def test_noise_has_its_law_on_listed_pairs_and_is_nowhere_else() -> None:
    calibration, bits = calibrate_pair_counts(params(15), N), system_bits()
    zeros = PairCounts(np.zeros((N, N), np.int64))
    draws = np.array(
        [release_pair_counts(zeros, calibration, bits, MATRIX).dense() for _ in range(3000)]
    )
    assert not draws[:, ~MATRIX].any()
    listed = draws[:, MATRIX].ravel()

    def p_value(scale: float) -> float:
        return float(binomtest(int((listed == 0).sum()), len(listed), np.tanh(0.5 / scale)).pvalue)

    assert calibration.law.scale == 6  # 2 x 3 rows over epsilon 1; 30 without the list
    assert p_value(6) > FALSE_POSITIVE_RATE
    assert p_value(4.5) < FALSE_POSITIVE_RATE  # power, in both directions
    assert p_value(8) < FALSE_POSITIVE_RATE


def test_rows_on_other_pairs_are_refused_before_noise_is_drawn() -> None:
    wins = np.zeros((N, N), np.int64)
    wins[0, 3] = 1
    calibration = calibrate_pair_counts(params(15), N)
    with pytest.raises(ValueError, match="not asked about"):
        release_pair_counts(PairCounts(wins), calibration, seeded_bits(1), MATRIX)


def audited(calibration: Calibration) -> float:
    """The largest epsilon that a black-box audit proves, of a person who answers the other way."""
    one, other = np.zeros((N, N), np.int64), np.zeros((N, N), np.int64)
    for i, j in ASKED:
        one[i, j], other[j, i] = 1, 1
    bits = system_bits()

    def release(wins: Counts) -> Counts:
        return np.ravel(release_pair_counts(PairCounts(wins), calibration, bits, MATRIX).dense())

    found = audit_epsilon(
        one_by_one(release), one, other, trials=2000, confidence=1 - FALSE_POSITIVE_RATE
    )
    return float(found.epsilon_lower)


def test_an_audit_finds_no_more_than_is_stated_and_catches_a_planted_bug() -> None:
    stated = params(15)
    assert audited(calibrate_pair_counts(stated, N)) <= stated.epsilon
    # Calibrated as if a person had one answer, at twice epsilon: the guarantee is of 6, and audits
    # with so few trials prove about 2.5 of it.
    assert audited(calibrate_pair_counts(replace(params(1), epsilon=2.0), N)) > stated.epsilon
