"""Tables of first places by precinct: what they add up to, how far they are off, and their law."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from hushrank.estimation.common.uncertainty import quantile
from hushrank.estimation.rankings.precinct_tables import (
    NoisyPrecincts,
    adjusted_votes,
    release_precincts,
    votes_estimate,
)
from hushrank.estimation.rankings.ranking_counts import calibrate_rankings
from hushrank.privacy.noise import NoiseLaw
from hushrank.privacy.randomness import seeded_bits
from hushrank.privacy.ranking_sensitivity import LEVELS, Part, level_weights
from hushrank.privacy.units import NoiseKind
from tests.privacy.test_ranking_sensitivity import ADJACENCIES, params_of

DISTRICTS = ((), (0, 0, 1, 1, 1, -1))


def a_table(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).poisson([[9.0, 3.0, 0.4]] * 6).astype(np.int64)


def released(exact: np.ndarray, districts: tuple[int, ...], kind: NoiseKind, seed: int, **how: int):
    params = params_of(ADJACENCIES[0], noise=kind)
    weights = level_weights(params, districts=bool(districts))
    law = calibrate_rankings(params, 3, weights).law if not how else NoiseLaw(kind, 0.0)
    parts = release_precincts(exact, districts, weights, law, seeded_bits(seed))
    return NoisyPrecincts(parts, weights, law, districts)


@pytest.mark.parametrize("districts", DISTRICTS)
@pytest.mark.parametrize("kind", NoiseKind)
def test_votes_are_whole_numbers_that_add_up_and_intervals_hold(districts, kind) -> None:
    """Deterministic: 300 seeded releases; coverage within 5 standard errors of 95 %."""
    runs, inside, of_totals, order = 300, 0, 0, 0
    for seed in range(runs):
        exact = a_table(seed)
        counts = released(exact, districts, kind, seed)
        votes = adjusted_votes(counts)
        assert votes.precincts.min() >= 0
        assert (votes.precincts.sum(axis=0) == votes.whole).all()
        assert (np.abs(votes.whole - np.maximum(votes.totals, 0)) <= 0.5).all()
        if districts:
            assert votes.districts is not None
            for number, own in enumerate(votes.districts):
                members = np.array(districts) == number
                assert (votes.precincts[members].sum(axis=0) == own).all()
        error = np.abs(counts.of(Part.PRECINCTS) - exact)
        inside += (error <= counts.reach(Part.PRECINCTS)).sum()
        estimate = votes_estimate(votes, kind)
        total = exact.sum(axis=0)
        of_totals += ((estimate.low <= total) & (total <= estimate.high)).sum()
        assert estimate.at_once is not None
        better = estimate.at_once.better
        assert better is not None
        order += bool((better & (total[:, None] < total)).any())
    for held, number in ((inside, runs * 18), (of_totals, runs * 3)):
        assert held / number > 0.95 - 5 * np.sqrt(0.95 * 0.05 / number)
    assert order <= 0.05 * runs + 5 * np.sqrt(0.05 * 0.95 * runs)


@pytest.mark.parametrize("districts", DISTRICTS)
def test_without_noise_the_votes_are_the_counts(districts) -> None:
    exact = a_table(1)
    counts = released(exact, districts, NoiseKind.GAUSSIAN, 1, still=1)
    votes = adjusted_votes(counts)
    assert (votes.precincts == exact).all()
    assert counts.reach(Part.TOTALS) == votes.deviation == 0
    assert votes_estimate(votes, NoiseKind.GAUSSIAN).scores.tolist() == exact.sum(axis=0).tolist()


def test_the_total_has_the_variance_that_is_stated_and_more_levels_lower_it() -> None:
    """Deterministic: 4,000 seeded cells; a variance that is 15 % off would be 4.7 errors away."""
    for districts, kind in product(DISTRICTS, NoiseKind):
        exact = np.full((6, 1_000), 1_000)
        counts = released(exact, districts, kind, 7)
        votes = adjusted_votes(counts)
        errors = votes.totals - exact.sum(axis=0)
        assert np.var(errors) == pytest.approx(votes.deviation**2, rel=0.15)
        cells = np.sqrt(6) * counts.deviation(Part.PRECINCTS)
        assert votes.deviation < min(cells, counts.deviation(Part.TOTALS))
        noise = counts.of(Part.PRECINCTS) - exact
        assert np.std(noise) == pytest.approx(counts.deviation(Part.PRECINCTS), rel=0.1)


def test_a_sum_of_laplace_noise_reaches_no_further_than_one_draw_of_its_variance() -> None:
    for tail, draws in product((0.025, 0.01, 1e-3, 1e-5), (2, 5, 50)):
        sums, one = (float(quantile(np.array(1.0), tail, NoiseKind.LAPLACE, n)) for n in (draws, 1))
        assert sums <= one


def test_levels_take_the_shares_that_are_documented() -> None:
    for kind, two, three in (
        (NoiseKind.GAUSSIAN, (3, 1), (17, 6, 6)),
        (NoiseKind.LAPLACE, (5, 1), (5, 1, 1)),
    ):
        params = params_of(ADJACENCIES[0], noise=kind)
        assert level_weights(params, districts=False) == dict(
            zip((Part.PRECINCTS, Part.TOTALS), two, strict=True)
        )
        assert level_weights(params, districts=True) == dict(zip(LEVELS, three, strict=True))
