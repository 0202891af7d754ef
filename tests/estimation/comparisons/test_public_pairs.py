"""Noisy outcomes on a public graph: the law of the noise, and scores from sparse and dense counts.

False-positive rate of each statistical assertion: 1e-6.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from scipy.sparse import csr_array

from hushrank.estimation.common.central_noise import calibrate_outcomes, release_outcomes
from hushrank.estimation.common.links import LAPLACE, LOGISTIC
from hushrank.estimation.common.matrices import (
    CellCounts,
    OutcomeCounts,
    PairCounts,
    outcome_counts_of,
    outcomes_of,
)
from hushrank.estimation.comparisons import pairs_by_chance
from hushrank.estimation.comparisons.pairs_by_chance import fit_public_pairs
from hushrank.estimation.fit.pair_fit import estimate_from
from hushrank.privacy.noise import NoiseLaw
from hushrank.privacy.randomness import seeded_bits, system_bits
from hushrank.privacy.units import Adjacency, NoiseKind, PrivacyParams, Unit
from tests.statistics import (
    FALSE_POSITIVE_RATE,
    discrete_laplace_pmf,
    law_p_value,
)

PARAMS = PrivacyParams(
    unit=Unit.USER,
    adjacency=Adjacency.REPLACE_ONE,
    epsilon=1.0,
    max_contributions=4,
    distinct_pairs=True,
)
NONE = NoiseLaw(NoiseKind.LAPLACE, 0.0)


def sampled(link, n: int, rows: int, seed: int = 0, degree: int = 12) -> tuple[PairCounts, list]:
    """Comparisons on a random sparse graph, and the true scores."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(0, 0.7, n)
    truth -= truth.mean()
    low = rng.integers(0, n, n * degree // 2)
    high = (low + rng.integers(1, n, len(low))) % n
    which = rng.integers(0, len(low), rows)
    i, j = low[which], high[which]
    won = rng.random(rows) < link.cdf(truth[i] - truth[j])
    cells = np.where(won, i * n + j, j * n + i)
    return PairCounts(CellCounts.of(cells).matrix(n)), truth


@pytest.mark.parametrize("dense", [False, True])
def test_outcomes_hold_each_pair_once(dense):
    counts, _ = sampled(LOGISTIC, 30, 500)
    wins = counts.wins.toarray()
    outcomes = outcomes_of(PairCounts(wins) if dense else counts)
    np.testing.assert_array_equal(outcomes.wins.toarray(), np.triu(wins, 1))
    np.testing.assert_array_equal(outcomes.totals.toarray(), np.triu(wins + wins.T, 1))
    assert outcomes.n_pairs == np.count_nonzero(np.triu(wins + wins.T))
    assert outcomes.confidential


def test_noise_of_the_stated_law_goes_on_every_pair_that_met():
    n = 400
    ones = np.triu(np.full((n, n), 3, np.int64), 1)  # somebody won every comparison
    calibration = calibrate_outcomes(PARAMS, n)
    noisy = release_outcomes(PairCounts(ones), calibration, system_bits())
    assert calibration.law == NoiseLaw(NoiseKind.LAPLACE, 4.0)  # L, not 2 L
    assert not noisy.confidential
    np.testing.assert_array_equal(noisy.totals.toarray(), ones)
    drawn = noisy.wins.data - 3
    assert len(drawn) == n * (n - 1) // 2
    assert law_p_value(drawn, discrete_laplace_pmf(4.0)) > FALSE_POSITIVE_RATE
    assert law_p_value(drawn, discrete_laplace_pmf(3.6)) < FALSE_POSITIVE_RATE
    with pytest.raises(ValueError, match="noise already"):
        release_outcomes(PairCounts(ones, confidential=False), calibration, system_bits())


def test_gaussian_noise_on_distinct_pairs_has_the_variance_of_one_norm():
    gaussian = PrivacyParams(
        unit=Unit.USER,
        adjacency=Adjacency.REPLACE_ONE,
        rho=0.5,
        noise=NoiseKind.GAUSSIAN,
        epsilon=float("inf"),
        max_contributions=9,
        distinct_pairs=True,
    )
    calibration = calibrate_outcomes(gaussian, 30)
    assert calibration.sensitivity.l2_squared == 9
    assert calibration.law.scale == pytest.approx(3.0)  # sqrt(9 / (2 * 0.5))


@pytest.mark.parametrize("link", [LOGISTIC, LAPLACE])
def test_sparse_and_dense_fits_agree(link, monkeypatch):
    counts, _ = sampled(link, 120, 60_000)
    calibration = calibrate_outcomes(PARAMS, 120)
    noisy = release_outcomes(counts, calibration, seeded_bits(1))
    dense = fit_public_pairs(noisy, calibration.law, link)
    monkeypatch.setattr(pairs_by_chance, "MOST_DENSE_ITEMS", 10)
    sparse = fit_public_pairs(noisy, calibration.law, link)
    np.testing.assert_allclose(sparse.scores, dense.scores, atol=1e-7)
    np.testing.assert_allclose(sparse.information, dense.information, rtol=1e-6)
    assert sparse.loss == pytest.approx(dense.loss)
    assert sparse.is_minimum
    assert sparse.smallest_curvature <= 1.01 * dense.smallest_curvature
    # Relative standard error of a variance 14 % at most, of 120 items: 6 of them by 2e-7.
    ratio = sparse.covariance.of_scores / np.diagonal(dense.covariance)
    assert np.abs(ratio - 1).max() < 6 * np.sqrt(2 / 100)
    assert abs(ratio.mean() - 1) < 0.1
    one, other = estimate_from(sparse), estimate_from(dense)
    assert (one.rank == other.rank).all()
    lengths = [(each.rank_high - each.rank_low).mean() for each in (one, other)]
    assert lengths[1] <= lengths[0] < 2.5 * lengths[1] + 5


@pytest.mark.parametrize("sparse", [False, True])
def test_intervals_hold_and_scores_are_not_shrunk(sparse, monkeypatch):
    if sparse:
        monkeypatch.setattr(pairs_by_chance, "MOST_DENSE_ITEMS", 10)
    within, slopes = [], []
    for seed in range(6):
        counts, truth = sampled(LOGISTIC, 200, 200_000, seed)
        calibration = calibrate_outcomes(PARAMS, 200)
        noisy = release_outcomes(counts, calibration, seeded_bits(seed))
        estimate = estimate_from(fit_public_pairs(noisy, calibration.law, LOGISTIC))
        within.append(((estimate.low <= truth) & (truth <= estimate.high)).mean())
        slopes.append(float(estimate.scores @ truth / (truth @ truth)))
    assert np.mean(within) > 0.93
    assert 0.93 < np.mean(slopes) < 1.02  # the ridge draws a little, noise in who won does not


def test_few_comparisons_under_much_noise_weigh_little():
    """One pair of 4 comparisons says that the last item is best, many say it is worst."""
    totals = np.array([[0, 4000, 4], [0, 0, 4000], [0, 0, 0]], np.int64)
    wins = np.array([[0, 2000, -90], [0, 0, 3000], [0, 0, 0]], np.int64)
    places = csr_array(totals)
    noisy = OutcomeCounts(
        csr_array((wins[places.nonzero()], places.indices, places.indptr), shape=(3, 3)),
        places,
        confidential=False,
    )
    fit = fit_public_pairs(noisy, NoiseLaw(NoiseKind.GAUSSIAN, 40.0), LOGISTIC)
    assert fit.scores[2] == fit.scores.min()


def test_split_ties_are_half_wins():
    counts, _ = sampled(LOGISTIC, 30, 5000)
    outcomes = outcomes_of(counts)
    single = outcomes.with_wins(outcomes.wins.data)
    halves = OutcomeCounts(2 * single.wins, 2 * single.totals, 2, confidential=False)
    one = fit_public_pairs(single, NoiseLaw(NoiseKind.GAUSSIAN, 2.0), LOGISTIC)
    two = fit_public_pairs(halves, NoiseLaw(NoiseKind.GAUSSIAN, 4.0), LOGISTIC)
    np.testing.assert_allclose(one.scores, two.scores, atol=1e-8)
    np.testing.assert_allclose(one.covariance, two.covariance, rtol=1e-6)


def test_arrays_are_read_back():
    counts, _ = sampled(LOGISTIC, 30, 500)
    noisy = release_outcomes(counts, calibrate_outcomes(PARAMS, 30), seeded_bits(1))
    again = outcome_counts_of(noisy.arrays(), noisy.row_weight)
    assert (again.wins != noisy.wins).nnz == 0
    assert (again.totals != noisy.totals).nnz == 0
    assert not again.confidential


def test_what_breaks_a_rule_is_refused():
    counts, _ = sampled(LOGISTIC, 30, 500)
    exact = outcomes_of(counts)
    with pytest.raises(ValueError, match="only released counts may be fitted"):
        fit_public_pairs(exact, NONE, LOGISTIC)
    noisy = exact.with_wins(exact.wins.data)
    with pytest.raises(ValueError, match="ridge must be finite"):
        fit_public_pairs(noisy, NONE, LOGISTIC, ridge=0)
    with pytest.raises(ValueError, match="between 0 and the total"):
        OutcomeCounts(2 * exact.totals, exact.totals)
    with pytest.raises(ValueError, match="above the diagonal"):
        OutcomeCounts(csr_array(exact.wins.T), csr_array(exact.totals.T))
    with pytest.raises(ValueError, match="same pairs"):
        OutcomeCounts(exact.wins, csr_array((30, 30), dtype=np.int64))


@pytest.mark.slow
def test_a_hundred_thousand_items_are_ranked_by_the_pairs_that_met():
    counts, truth = sampled(LOGISTIC, 100_000, 8_000_000)  # a dense matrix would take 80 GB
    strong = dataclasses.replace(PARAMS, epsilon=4.0)
    calibration = calibrate_outcomes(strong, 100_000)
    noisy = release_outcomes(counts, calibration, seeded_bits(2))
    fit = fit_public_pairs(noisy, calibration.law, LOGISTIC)
    assert fit.gradient_norm < 1e-6
    estimate = estimate_from(fit)
    known = np.isfinite(estimate.low)
    assert known.mean() > 0.95
    within = (estimate.low <= truth) & (truth <= estimate.high)
    assert within[known].mean() > 0.94
    assert np.corrcoef(estimate.scores, truth)[0, 1] > 0.9
    rank = np.empty(len(truth))
    rank[np.argsort(-truth)] = np.arange(1, len(truth) + 1)
    assert ((estimate.rank_low <= rank) & (rank <= estimate.rank_high)).mean() > 0.95
    assert estimate.groups.max() > 1
