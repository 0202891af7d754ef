"""Leaving noisy pairs out must not shrink the scores of the rest."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hushrank.estimation.common.links import LOGISTIC, Floats
from hushrank.estimation.common.matrices import PairCounts
from hushrank.estimation.comparisons.noisy_pairs import fit_noisy_pairs
from hushrank.estimation.fit.likelihood import Objective
from hushrank.estimation.fit.solve import minimise
from hushrank.privacy.noise import NoiseLaw
from hushrank.privacy.units import NoiseKind

DEVIATION = 10.0  # of the noise in one entry


def noisy_wins(
    truth: Floats, each_pair: float, share: float, kind: NoiseKind, generator: np.random.Generator
) -> Floats:
    """Counts of a share of the pairs, with noise on all of them."""
    n = len(truth)
    asked = np.triu(generator.poisson(each_pair, (n, n)) * (generator.random((n, n)) < share), 1)
    won = generator.binomial(asked, LOGISTIC.cdf(np.subtract.outer(truth, truth)))
    if kind is NoiseKind.LAPLACE:
        noise = generator.laplace(0, DEVIATION / math.sqrt(2), (n, n))
    else:
        noise = generator.normal(0, DEVIATION, (n, n))
    noisy = won + (asked - won).T + np.rint(noise)
    np.fill_diagonal(noisy, 0)
    return np.asarray(noisy)


def law_of(kind: NoiseKind) -> NoiseLaw:
    return NoiseLaw(kind, DEVIATION / (math.sqrt(2) if kind is NoiseKind.LAPLACE else 1))


@pytest.mark.parametrize("kind", list(NoiseKind))
def test_scores_of_the_pairs_that_stay_are_not_shrunk(kind: NoiseKind) -> None:
    """A fifth of the pairs was asked about, so often that they stay only in most cases.

    The slope of the scores on the truth is near one; for the same pairs cut off by their totals
    alone it is not, so the test would notice.
    """
    generator, n = np.random.default_rng(6), 150
    slopes, cut_slopes = [], []
    for _ in range(6):
        truth = generator.normal(0, 0.7, n)
        noisy = noisy_wins(truth, 50.0, 0.2, kind, generator)
        counts = PairCounts(noisy.astype(np.int64), confidential=False)
        found = fit_noisy_pairs(counts, law_of(kind), LOGISTIC)
        assert 0.7 < found.n_left_out / found.n_pairs < 0.95
        slopes.append(np.polyfit(truth, found.fit.scores, 1)[0])
        clear = noisy + noisy.T > 3 * math.sqrt(2) * DEVIATION
        cut = Objective(np.where(clear, noisy, 0.0), LOGISTIC, 2.0, np.zeros(n))
        cut_slopes.append(np.polyfit(truth, minimise(cut).theta, 1)[0])
    assert np.mean(slopes) == pytest.approx(1, abs=0.1)
    assert np.mean(cut_slopes) < 0.88


def test_nothing_is_left_out_where_every_pair_was_asked_about() -> None:
    """Each total is near its noise, but together they say much."""
    truth = np.linspace(-1, 1, 40)
    noisy = noisy_wins(truth, 30.0, 1.0, NoiseKind.GAUSSIAN, np.random.default_rng(5))
    counts = PairCounts(noisy.astype(np.int64), confidential=False)
    found = fit_noisy_pairs(counts, law_of(NoiseKind.GAUSSIAN), LOGISTIC)
    assert found.n_left_out == 0
    assert np.polyfit(truth, found.fit.scores, 1)[0] == pytest.approx(1, abs=0.2)
