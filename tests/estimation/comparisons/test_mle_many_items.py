"""Errors in linear time agree with those of the whole matrices, where both can be computed."""

from __future__ import annotations

import numpy as np
import pytest

from hushrank.estimation.common.links import LAPLACE, LOGISTIC
from hushrank.estimation.common.matrices import MOST_DENSE_ITEMS, CellCounts, PairCounts
from hushrank.estimation.comparisons.mle_uncertainty import (
    many_errors,
    mle_errors,
    rank_by_scores,
    rank_many_by_scores,
)
from hushrank.estimation.comparisons.perturbed_mle import (
    MleSettings,
    PerturbedMle,
    calibrate_mle,
    perturbed_mle,
)
from hushrank.privacy.randomness import seeded_bits
from hushrank.privacy.units import Adjacency, PrivacyParams, Unit

N_ITEMS = 600
PARAMS = PrivacyParams(unit=Unit.COMPARISON, adjacency=Adjacency.REPLACE_ONE, epsilon=1.0)


def a_mechanism(link=LOGISTIC, expected=500, n_items=N_ITEMS) -> PerturbedMle:
    return calibrate_mle(PARAMS, MleSettings(expected_comparisons=expected, link=link), n_items)


def some_scores(n_items=N_ITEMS) -> np.ndarray:
    scores = np.random.default_rng(2).normal(0, 1, n_items)
    return scores - scores.mean()


@pytest.mark.parametrize("link", [LOGISTIC, LAPLACE])
def test_variances_and_intervals_are_those_of_the_matrices_but_for_one_in_n(link):
    mechanism, scores = a_mechanism(link), some_scores()
    whole, many = mle_errors(scores, mechanism), many_errors(scores, mechanism)
    bounded = np.isfinite(whole.low) & np.isfinite(whole.high)
    assert (bounded == (np.isfinite(many.low) & np.isfinite(many.high))).mean() > 0.99
    typical = bounded & (np.abs(scores) < 2.5)
    width = (whole.high - np.where(bounded, whole.low, 0))[typical]
    for ours, theirs in (
        (many.unbiased, whole.unbiased),
        (many.low, whole.low),
        (many.high, whole.high),
    ):
        off = np.abs((ours[typical] - theirs[typical]) / width)
        assert np.quantile(off, 0.95) < 0.05
        assert off.max() < 0.25  # the Laplace link has a kink, which groups of items round off
    for ours, theirs in ((many.sampling, whole.sampling), (many.noise, whole.noise)):
        assert np.abs(ours / np.diagonal(theirs) - 1)[typical].max() < 0.05


def test_rank_intervals_are_never_shorter_than_those_of_the_matrices():
    mechanism, scores = a_mechanism(expected=5_000), some_scores()
    whole, many = rank_by_scores(scores, mechanism), rank_many_by_scores(scores, mechanism)
    assert (many.rank_low <= whole.rank_low).all()
    assert (many.rank_high >= whole.rank_high).all()
    assert (many.rank == whole.rank).all()
    lengths = [(each.rank_high - each.rank_low).mean() for each in (whole, many)]
    assert lengths[0] < lengths[1] < 2 * lengths[0]
    assert many.informative


def test_where_noise_is_all_nothing_is_claimed():
    nothing = rank_many_by_scores(some_scores(), a_mechanism(expected=1))
    assert not nothing.informative
    assert (nothing.rank_low == 1).all()


def test_scores_of_another_shape_are_refused():
    with pytest.raises(ValueError, match="600 items have no scores of shape"):
        rank_many_by_scores(np.zeros(3), a_mechanism())


@pytest.mark.slow
def test_a_hundred_thousand_items_are_fitted_and_mostly_within_their_intervals():
    n, m = 100_000, 3_000_000
    rng = np.random.default_rng(4)
    truth = some_scores(n)
    left = rng.integers(0, n, m)
    right = (left + rng.integers(1, n, m)) % n
    left_won = rng.random(m) < 1 / (1 + np.exp(truth[right] - truth[left]))
    cells = np.where(left_won, left * n + right, right * n + left)
    counts = PairCounts(CellCounts.of(cells).matrix(n))
    settings = MleSettings(expected_comparisons=2 * m / n)
    drawing = calibrate_mle(PARAMS, settings, n)
    scores = perturbed_mle(counts, drawing, seeded_bits(1))
    assert abs(scores.sum()) < 1e-6
    estimate = rank_many_by_scores(scores, drawing)
    inside = (estimate.low <= truth) & (truth <= estimate.high)
    assert inside.mean() > 0.94  # 95 % by design; a share of 10^5 is known to 0.1 %
    ranks = (n - np.argsort(np.argsort(truth))).astype(np.float64)
    held = (estimate.rank_low <= ranks) & (ranks <= estimate.rank_high)
    assert held.mean() > 0.95
    assert np.corrcoef(estimate.scores, truth)[0, 1] > 0.8
    assert n > MOST_DENSE_ITEMS
