"""Intervals of perturbed maximum likelihood scores: do they cover, and would a wrong one be seen?

Coverage of score intervals must not be significantly (1e-6) outside 92 to 98 %, the nominal 95 %
give or take what a first-order theory may miss.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy.stats import binom

from hushrank.estimation.common.estimate import mean_ranks
from hushrank.estimation.common.links import LAPLACE, LOGISTIC, Floats, Link
from hushrank.estimation.common.matrices import PairCounts
from hushrank.estimation.comparisons.mle_uncertainty import (
    mle_errors,
    rank_by_scores,
)
from hushrank.estimation.comparisons.perturbed_mle import (
    MleSettings,
    PerturbedMle,
    calibrate_mle,
    perturbed_mle,
)
from hushrank.privacy.randomness import seeded_bits
from hushrank.privacy.units import Adjacency, NoiseKind, PrivacyParams, Unit
from tests.estimation.scores_alone import scores_alone
from tests.statistics import FALSE_POSITIVE_RATE

LOW, HIGH = 0.92, 0.98


@dataclass(frozen=True)
class Survey:
    """People who each answer `rows` questions on random pairs."""

    n_items: int
    people: int
    rows: int
    epsilon: float
    link: Link = LOGISTIC
    delta: float = 0.0
    tilt: float = 0.0  # how much more often items with low numbers are asked about

    def params(self) -> PrivacyParams:
        return PrivacyParams(
            unit=Unit.USER,
            adjacency=Adjacency.REPLACE_ONE,
            epsilon=self.epsilon,
            delta=self.delta,
            noise=NoiseKind.GAUSSIAN if self.delta else NoiseKind.LAPLACE,
            max_contributions=self.rows,
        )

    def settings(self) -> MleSettings:
        each = 2 * self.people * self.rows / self.n_items
        return MleSettings(expected_comparisons=each, link=self.link)

    def design(self) -> Floats:
        popularity = np.exp(-self.tilt * np.arange(self.n_items))
        chance = np.outer(popularity, popularity)
        np.fill_diagonal(chance, 0)
        return 2 * self.people * self.rows * chance / chance.sum()

    def answers(self, truth: Floats, generator: np.random.Generator) -> PairCounts:
        asked = generator.poisson(np.triu(self.design()))
        won = generator.binomial(asked, self.link.cdf(np.subtract.outer(truth, truth)))
        return PairCounts((won + (asked - won).T).astype(np.int64))


@dataclass
class Coverage:
    """Counts of intervals that hold the truth."""

    scores: int = 0
    ranks: int = 0
    all_ranks: int = 0
    without_noise: int = 0  # intervals that ignore the privacy noise
    trials: int = 0
    releases: int = 0


def coverage(survey: Survey, releases: int, design: Floats | None = None) -> Coverage:
    generator, count = np.random.default_rng(11), Coverage()
    mechanism = calibrate_mle(survey.params(), survey.settings(), survey.n_items)
    for _ in range(releases):
        truth = generator.normal(0, 0.7, survey.n_items)
        truth -= truth.mean()
        bits = seeded_bits(int(generator.integers(2**60)))
        scores = perturbed_mle(survey.answers(truth, generator), mechanism, bits)
        errors = mle_errors(scores, mechanism, design)
        ranked = rank_by_scores(scores, mechanism, design)
        together = ranked.at_once
        ranks = mean_ranks(truth)
        count.scores += int(((errors.low <= truth) & (truth <= errors.high)).sum())
        count.ranks += int(((ranked.rank_low <= ranks) & (ranks <= ranked.rank_high)).sum())
        count.all_ranks += bool(
            ((together.rank_low <= ranks) & (ranks <= together.rank_high)).all()
        )
        narrow = 1.96 * np.sqrt(np.diagonal(errors.sampling))
        count.without_noise += int((np.abs(errors.unbiased - truth) <= narrow).sum())
        count.trials += survey.n_items
        count.releases += 1
    return count


def surely_below(hits: int, trials: int, rate: float) -> bool:
    return bool(binom.cdf(hits, trials, rate) < FALSE_POSITIVE_RATE)


def surely_above(hits: int, trials: int, rate: float) -> bool:
    return bool(binom.sf(hits - 1, trials, rate) < FALSE_POSITIVE_RATE)


GRID = {
    "few items": Survey(4, 1000, 2, 1.0),
    "little privacy": Survey(16, 1000, 5, 2.5),
    "much privacy": Survey(16, 1000, 5, 0.5),
    "no privacy": Survey(16, 500, 2, math.inf),
    "many items": Survey(40, 3000, 5, 1.0),
    "one row each": Survey(16, 2000, 1, 0.5),
    "gaussian": Survey(16, 1000, 5, 1.0, delta=1e-6),
    "laplace link": Survey(16, 1000, 5, 1.0, LAPLACE),
}


@pytest.mark.parametrize("name", GRID)
def test_intervals_cover_as_often_as_they_say(name: str) -> None:
    """And intervals without the privacy noise would be caught where it is large."""
    survey = GRID[name]
    found = coverage(survey, releases=min(900 // survey.n_items, 120))
    assert not surely_below(found.scores, found.trials, LOW)
    assert not surely_above(found.scores, found.trials, HIGH)
    assert not surely_below(found.ranks, found.trials, 0.95)
    assert not surely_below(found.all_ranks, found.releases, 0.95)
    if name in ("much privacy", "many items", "gaussian"):
        assert surely_below(found.without_noise, found.trials, LOW)


def test_an_uneven_design_must_be_stated() -> None:
    """Item 0 is in seven times as many questions as item 9."""
    survey = Survey(10, 3000, 5, 2.0, tilt=0.22)
    with scores_alone():
        stated = coverage(survey, 120, survey.design())
        unstated = coverage(survey, 120)
    assert not surely_below(stated.scores, stated.trials, LOW)
    assert surely_below(unstated.scores, unstated.trials, LOW)


def without_chance(link: Link, ridge: float) -> tuple[Floats, Floats, PerturbedMle]:
    """Scores from counts that are their own expectation: only the ridge is between them."""
    truth = np.linspace(-1.2, 1.2, 7)
    each = 10**7
    wins = np.rint(each * link.cdf(np.subtract.outer(truth, truth))).astype(np.int64)
    np.fill_diagonal(wins, 0)
    params = PrivacyParams(unit=Unit.COMPARISON, adjacency=Adjacency.REPLACE_ONE, epsilon=math.inf)
    settings = MleSettings(expected_comparisons=6.0 * each, link=link, ridge=ridge)
    mechanism = calibrate_mle(params, settings, len(wins))
    return truth, perturbed_mle(PairCounts(wins), mechanism, seeded_bits(1)), mechanism


@pytest.mark.parametrize("link", [LOGISTIC, LAPLACE], ids=["logistic", "laplace"])
@pytest.mark.parametrize("ridge", [1e6, 4e6])
def test_the_ridges_bias_is_taken_out(link: Link, ridge: float) -> None:
    truth, released, mechanism = without_chance(link, ridge)
    errors = mle_errors(released, mechanism)
    pulled = np.abs(released - truth).max()
    assert np.abs(errors.unbiased - truth).max() < 0.2 * pulled
    assert errors.unbiased.sum() == pytest.approx(0, abs=1e-9)
    assert (rank_by_scores(released, mechanism).low <= released).all()


def test_what_can_be_told_apart_is() -> None:
    _, released, mechanism = without_chance(LOGISTIC, 1e5)
    ranked = rank_by_scores(released, mechanism)
    assert ranked.groups.tolist() == [7, 6, 5, 4, 3, 2, 1]
    assert ranked.rank_low.tolist() == ranked.rank_high.tolist() == [7, 6, 5, 4, 3, 2, 1]
    assert ranked.informative
    equal = rank_by_scores(np.zeros(7), mechanism)
    assert (equal.rank_low == 1).all()
    assert (equal.rank_high == 7).all()
    assert not equal.informative


def test_noise_that_explains_everything_leaves_intervals_open() -> None:
    survey = replace(GRID["few items"], epsilon=0.005)
    generator = np.random.default_rng(2)
    counts = survey.answers(np.zeros(4), generator)
    mechanism = calibrate_mle(survey.params(), survey.settings(), counts.n_items)
    ranked = rank_by_scores(perturbed_mle(counts, mechanism, seeded_bits(3)), mechanism)
    assert np.isinf(ranked.high - ranked.low).all()
    assert not ranked.informative


def test_misfits_are_refused() -> None:
    _, released, mechanism = without_chance(LOGISTIC, 1e5)
    with pytest.raises(ValueError, match=r"7 items need scores of shape \(7,\)"):
        rank_by_scores(released[:-1], mechanism)
    with pytest.raises(ValueError, match=r"design of shape \(7, 7\)"):
        rank_by_scores(released, mechanism, np.ones((6, 6)))


@pytest.mark.parametrize("epsilon", [1e-5, 1e-3, 0.02])
def test_noise_beyond_all_information_teaches_nothing_and_says_so(epsilon):
    params = PrivacyParams(
        unit=Unit.USER, adjacency=Adjacency.REPLACE_ONE, epsilon=epsilon, max_contributions=6
    )
    wins = 200 * (1 - np.eye(4, dtype=np.int64))
    wins[0, 1:] = 10_000
    mechanism = calibrate_mle(params, MleSettings(expected_comparisons=600), len(wins))
    scores = perturbed_mle(PairCounts(wins), mechanism, seeded_bits(5))
    estimate = rank_by_scores(scores, mechanism)
    assert not estimate.informative
    assert (estimate.rank_low == 1).all()
    assert (estimate.rank_high == 4).all()
    assert np.isneginf(estimate.low).all()
    assert np.isposinf(estimate.high).all()
    ranks = estimate.at_once
    assert (ranks.rank_high == 4).all()
