"""Reliability: definitions on whole data, errors by noise as stated, and intervals that hold."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.polynomial.hermite_e import hermegauss
from scipy.special import expit

from hushrank.estimation.responses.conditional_fit import fit_totals, score_law
from hushrank.estimation.responses.reliability import booklet_estimates
from hushrank.estimation.responses.score_table import score_table
from hushrank.estimation.responses.sheet_totals import SheetTotals
from hushrank.privacy.noise import NoiseLaw
from tests.estimation.responses.test_conditional_fit import (
    GAUSSIAN,
    LAPLACE,
    NOISELESS,
    REPLACED,
    noisy,
    rasch,
    totals_of,
)


def report(released, law):
    (found,) = booklet_estimates(released, fit_totals(released, law.variance), law)
    return found


def without_noise(right):
    exact = totals_of(right)
    return SheetTotals(exact.entries, exact.shape, confidential=False)


def truth(difficulty):
    """KR-20 and person separation of the population: standard normal abilities."""
    ability, weight = hermegauss(61)
    right = expit(ability[:, np.newaxis] - difficulty)
    weight = weight / weight.sum()
    law, share, n = weight @ score_law(right), weight @ right, len(difficulty)
    scores = np.arange(n + 1)
    whole = law @ scores**2 - (law @ scores) ** 2
    table = score_table(difficulty, np.zeros((n, n)))
    spread = law @ table.ability**2 - (law @ table.ability) ** 2
    return (
        n / (n - 1) * (1 - (share * (1 - share)).sum() / whole),
        1 - law @ table.error**2 / spread,
    )


def test_without_noise_they_are_what_textbooks_define():
    _, right = rasch(12, 900, np.random.default_rng(1))
    released = without_noise(right)
    found, score, share = report(released, NOISELESS), right.sum(axis=1), right.mean(axis=0)
    wanted = 12 / 11 * (1 - (share * (1 - share)).sum() / score.var())
    assert found.kr20.value == pytest.approx(wanted, abs=1e-9)
    ability, error = found.table.ability[score], found.table.error[score]
    assert found.separation.value == pytest.approx(1 - (error**2).mean() / ability.var(), abs=1e-9)
    for each in (found.kr20, found.separation):
        assert each.low < each.value < each.high <= 1


def test_knots_change_little():
    """100 items, scores in steps of 5: within a thousandth of what all scores tell."""
    _, right = rasch(100, 4000, np.random.default_rng(2))
    found, score, share = report(without_noise(right), NOISELESS), right.sum(1), right.mean(0)
    wanted = 100 / 99 * (1 - (share * (1 - share)).sum() / score.var())
    assert found.kr20.value == pytest.approx(wanted, abs=1e-3)
    ability, error = found.table.ability[score], found.table.error[score]
    assert found.separation.value == pytest.approx(1 - (error**2).mean() / ability.var(), abs=2e-3)


@pytest.mark.parametrize(
    ("items", "people", "kind", "epsilon"),
    [(28, 2922, GAUSSIAN, 1.0), (28, 2922, LAPLACE, 2.0), (5, 1000, GAUSSIAN, 2.0)],
)
def test_intervals_hold_what_is_true_of_the_population(items, people, kind, epsilon):
    """16 tests of two reliabilities each: fewer than 75 % inside have a chance below 1 in 1,000."""
    inside = []
    for replicate in range(16):
        difficulty, right = rasch(items, people, np.random.default_rng((items, replicate)))
        found = report(*noisy(totals_of(right, kind=kind), kind, epsilon, REPLACED, replicate))
        wanted = truth(difficulty)
        for each, value in zip((found.kr20, found.separation), wanted, strict=True):
            inside.append(each is None or each.low <= value <= each.high)
    assert np.mean(inside) >= 0.75


def test_noise_adds_what_is_stated():
    """Of one exact test, 25 draws: means and spread, within 10 % and two standard errors of it."""
    _, right = rasch(28, 2922, np.random.default_rng(3))
    exact, told = report(without_noise(right), NOISELESS), []
    for seed in range(25):
        found = report(*noisy(totals_of(right), GAUSSIAN, 2.0, REPLACED, seed))
        told.append((found.kr20.value, found.kr20.high - found.kr20.low))
    values, widths = np.array(told).T
    noise = np.sqrt(np.mean(widths**2) - (exact.kr20.high - exact.kr20.low) ** 2) / 3.92
    assert values.std() / noise == pytest.approx(1, abs=0.1 + 2 / np.sqrt(2 * 25))
    assert values.mean() == pytest.approx(exact.kr20.value, abs=4 * noise / np.sqrt(25))


@pytest.mark.parametrize(("scale", "told"), [(10.0, True), (20.0, True), (80.0, False)])
def test_it_is_not_told_where_noise_could_make_it(scale, told):
    """The variance of raw scores must exceed four standard errors: noise alone makes any value."""
    _, right = rasch(28, 1000, np.random.default_rng(5))
    released = without_noise(right)
    (found,) = booklet_estimates(released, fit_totals(released, 0.0), NoiseLaw(LAPLACE, scale))
    assert (found.kr20 is not None) == told
    assert told or found.separation is None
    if found.kr20 is not None:
        exact = report(released, NOISELESS).kr20
        assert found.kr20.high - found.kr20.low > 1.1 * (exact.high - exact.low)


def test_people_who_do_not_differ_have_no_separation():
    right = np.random.default_rng(4).random((3000, 8)) < 0.5
    found = report(without_noise(right), NOISELESS)
    assert found.separation is None
    assert found.kr20.low < 0.02
    assert found.kr20.high < 0.1
