"""Rank Centrality from noisy counts of pairs: the chain of the paper, and intervals that hold."""

from __future__ import annotations

import numpy as np
import pytest

from hushrank.estimation.common.central_noise import calibrate_pair_counts, release_pair_counts
from hushrank.estimation.common.links import LOGISTIC
from hushrank.estimation.common.matrices import PairCounts
from hushrank.estimation.comparisons.noisy_pairs import rank_noisy_pairs
from hushrank.estimation.comparisons.spectral_pairs import fit_spectral
from hushrank.pipelines.simulate.planned_survey import Arena
from hushrank.privacy.noise import NoiseLaw
from hushrank.privacy.randomness import seeded_bits
from hushrank.privacy.units import Adjacency, NoiseKind, PrivacyParams, Unit


def test_without_noise_it_is_the_papers_chain() -> None:
    """Negahban, Oh, Shah: P[a, b] = share of b's wins over a / d, with lambda = 4 / n a count."""
    n, each, pull = 6, 400, 4 / 6
    wins = np.triu(np.random.default_rng(2).binomial(each, 0.6, (n, n)), 1)
    wins = wins + np.tril(each - wins.T, -1)
    shares = (wins.T + pull) / (each + 2 * pull) / n
    np.fill_diagonal(shares, 0)
    chain = shares + np.diag(1 - shares.sum(axis=1))
    values, vectors = np.linalg.eig(chain.T)
    expected = np.log(np.abs(vectors[:, np.argmax(values.real)].real))
    fit, noise_share = fit_spectral(PairCounts(wins, 1, False), NoiseLaw(NoiseKind.LAPLACE, 0.0))
    assert fit.scores == pytest.approx(expected - expected.mean(), abs=1e-9)
    assert fit.scores[0] > fit.scores[-1]  # item 0 wins three of five against all others
    assert not noise_share.any()


@pytest.mark.parametrize(
    ("kind", "arena", "epsilon"),
    [
        (NoiseKind.LAPLACE, Arena(8, 8_000, zipf=0.0), 0.5),
        (NoiseKind.GAUSSIAN, Arena(8, 8_000, zipf=0.5), 1.0),
    ],
)
def test_intervals_hold_at_the_worst_item(kind: NoiseKind, arena: Arena, epsilon: float) -> None:
    """Deterministic, by seeds: near 95 % of 60 releases, 88 % or more for every item."""
    generator = np.random.default_rng(11)
    truth = arena.truth(generator)
    design = arena.design(truth, generator)
    calibration = calibrate_pair_counts(
        PrivacyParams(
            unit=Unit.USER,
            adjacency=Adjacency.REPLACE_ONE,
            epsilon=epsilon,
            delta=0.0 if kind is NoiseKind.LAPLACE else 1e-6,
            noise=kind,
            max_contributions=3,
        ),
        arena.n_items,
    )
    held, width = np.zeros(arena.n_items), []
    for _ in range(60):
        counts = arena.answers(truth, design, generator)
        noisy = release_pair_counts(
            counts, calibration, seeded_bits(int(generator.integers(2**60)))
        )
        found = rank_noisy_pairs(noisy, calibration.law, LOGISTIC, chance=True, spectral=True)
        held += (found.estimate.low <= truth) & (truth <= found.estimate.high)
        width.append(np.median(found.estimate.high - found.estimate.low))
    assert 0.93 <= held.mean() / 60 <= 0.98
    assert held.min() >= 53
    assert np.mean(width) < 1.5  # log odds, of scores of standard deviation 0.7: they say something
