"""Many fits at once: the minimisers of fits of one, or a word that they are not certain."""

from __future__ import annotations

import numpy as np
import pytest

from hushrank.estimation.common.covariates import CovariateCounts, pack
from hushrank.estimation.common.links import LAPLACE, LOGISTIC
from hushrank.estimation.common.matrices import PairCounts
from hushrank.estimation.comparisons import covariate_mle, perturbed_mle
from hushrank.estimation.comparisons.perturbed_mle import MleSettings, calibrate_mle
from hushrank.estimation.fit.covariate_fit import fit_covariates, likelihood_of
from hushrank.estimation.fit.likelihood import many_fits
from hushrank.privacy.randomness import system_bits
from hushrank.privacy.units import Adjacency, NoiseKind, PrivacyParams, Unit

WINS = np.array([[0, 3, 0, 1], [5_000, 0, 6, 2], [9, 4_000, 0, 0], [0, 1, 3_000, 0]])
RUNS = 30
PARAMS = PrivacyParams(
    unit=Unit.USER, adjacency=Adjacency.ADD_REMOVE, epsilon=2.0, max_contributions=6
)
COVARIATES = CovariateCounts(
    cells=np.array([1, 4, 4, 9]),
    words=pack(np.array([[64, -20], [-64, 64], [64, 64], [64, 0]], np.int8)),
    counts=np.array([7, 3_000, 6, 2_000]),
    n_items=4,
    n_covariates=2,
)


def scores_of(link) -> perturbed_mle.PerturbedMle:
    return calibrate_mle(PARAMS, MleSettings(expected_comparisons=200.0, link=link), 4)


@pytest.mark.parametrize("link", [LOGISTIC, LAPLACE])
def test_scores_are_those_of_a_release(link):
    counts, made, bits = PairCounts(WINS), scores_of(link), system_bits()
    w = made.noise.draw(4 * RUNS, bits).reshape(RUNS, 4)
    linear = w - w.mean(axis=1, keepdims=True)
    objective = perturbed_mle.likelihood_of(counts, made)
    found, certain = many_fits(objective, linear, made.tolerance)
    # Two points whose exact gradients are within the tolerance are no further apart than that.
    apart = 2 * made.tolerance / made.objective.ridge
    assert certain.mean() > 0.8
    for run in np.flatnonzero(certain):
        alone = perturbed_mle._minimiser(counts, made, w[run])
        assert np.linalg.norm(found[run] - alone) <= apart
    assert np.allclose(objective.pulls(found[certain]), linear[certain], atol=2 * made.tolerance)


def test_scores_and_effects_are_those_of_a_release():
    made = covariate_mle.calibrate_covariate_mle(PARAMS, 4, 2, first=True)
    noises = (made.score_noise, 4), (made.effect_noise, 2)
    w = np.hstack([law.draw(n * RUNS, system_bits()).reshape(RUNS, n) for law, n in noises])
    found, certain = many_fits(likelihood_of(COVARIATES, made.ridges), w, made.tolerance)
    assert certain.all()
    for run in range(RUNS):
        alone = fit_covariates(COVARIATES, made.ridges, w[run], made.tolerance)
        assert np.linalg.norm(found[run] - alone) <= 2 * made.tolerance / made.objective.ridge


def test_what_is_not_certain_is_fitted_alone(monkeypatch):
    """No draw takes a minimiser from the batch that the batch does not vouch for."""
    counts, made = PairCounts(WINS), scores_of(LOGISTIC)
    found, certain = many_fits(perturbed_mle.likelihood_of(counts, made), np.zeros((3, 4)), 1e-300)
    assert not certain.any()
    assert np.isfinite(found).all()
    wrong = lambda _, linear, __: (linear + 1e6, np.arange(len(linear)) % 2 == 0)  # noqa: E731
    monkeypatch.setattr("hushrank.estimation.fit.likelihood.many_fits", wrong)
    scores = perturbed_mle.perturbed_mles(counts, made, 4, system_bits())
    assert (np.abs(scores[1::2]) < 100).all()
    made_effects = covariate_mle.calibrate_covariate_mle(PARAMS, 4, 2, first=True)
    drawn = covariate_mle.covariate_mles(COVARIATES, made_effects, 4, system_bits())
    assert (np.abs(drawn.effects[1::2]) < 100).all()
    assert (np.abs(drawn.effects[::2]) > 1_000).all()


def test_noise_of_many_draws_is_that_of_the_mechanism():
    """Independent in every run, and of the stated scale, as scores tell by their gradients.

    5 standard deviations: a correct mechanism fails with probability 2e-6; with a scale 10 % off
    the sum of squares is 13 away.
    """
    made = calibrate_mle(
        PrivacyParams(
            unit=Unit.USER,
            adjacency=Adjacency.REPLACE_ONE,
            epsilon=2.0,
            delta=0.01,
            noise=NoiseKind.GAUSSIAN,
            max_contributions=6,
        ),
        MleSettings(expected_comparisons=200.0),
        4,
    )
    counts = PairCounts(WINS)
    scores = perturbed_mle.perturbed_mles(counts, made, 4_000, system_bits())
    noise = perturbed_mle.likelihood_of(counts, made).pulls(scores)
    noise -= noise.mean(axis=1, keepdims=True)
    degrees = 3 * 4_000
    deviation = np.sqrt(2 / degrees)  # of chi squared by its degrees
    ratio = float(np.square(noise).sum()) / made.objective.scale**2 / degrees
    assert abs(ratio - 1) < 5 * deviation
    assert abs(ratio / 1.1**2 - 1) > 5 * deviation
    assert abs(np.corrcoef(noise[1:, 0], noise[:-1, 0])[0, 1]) < 5 / np.sqrt(4_000)
