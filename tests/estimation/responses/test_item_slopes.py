"""Slopes (2PL) from totals by bands: errors of the design, intervals, and when none is told."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

from hushrank.estimation.responses.conditional_fit import laws_without_item, score_law
from hushrank.estimation.responses.item_slopes import item_slopes
from hushrank.estimation.responses.sheet_totals import SheetShape, SheetTotals
from tests.estimation.responses.test_conditional_fit import (
    GAUSSIAN,
    NOISELESS,
    REPLACED,
    noisy,
    totals_of,
)

ITEMS = 28


def simulated(replicate, people, epsilon, law="normal", spread=0.3, bands=4):
    """True log slopes, relative to their mean, and what is found of them."""
    rng = np.random.default_rng((33, replicate))
    difficulty = rng.normal(size=ITEMS).clip(-1.8, 1.8)
    log_slope = rng.normal(0, spread, ITEMS) if spread else np.zeros(ITEMS)
    ability = rng.normal(size=people)
    if law == "skew":
        ability = rng.exponential(1.0, people) - 1
    if law == "two humps":
        ability = (rng.normal(0, 0.5, people) + 1.2 * rng.choice([-1, 1], people)) / 1.3
    right = rng.random((people, ITEMS)) < expit(
        np.exp(log_slope) * (ability[:, np.newaxis] - difficulty)
    )
    exact = totals_of(right, SheetShape.of(ITEMS, (), GAUSSIAN, bands))
    released, noise = SheetTotals(exact.entries, exact.shape, confidential=False), NOISELESS
    if epsilon:
        released, noise = noisy(exact, GAUSSIAN, epsilon, REPLACED, replicate)
    return log_slope - log_slope.mean(), item_slopes(released, noise.variance)


@pytest.mark.parametrize(
    ("people", "epsilon", "law", "error", "sets"),
    [
        (2922, 0.0, "normal", 0.068, 6),
        (2922, 2.0, "normal", 0.119, 6),
        (10_000, 1.0, "normal", 0.057, 4),
        (10_000, 2.0, "two humps", 0.049, 4),
        (2922, 2.0, "skew", None, 6),
    ],
)
def test_errors_are_those_of_the_design_and_intervals_hold(people, epsilon, law, error, sets):
    """Seeded; at most a tenth above the design and two standard errors. With a normal law of
    abilities for skew ones half of the intervals would hold."""
    off, inside = [], []
    for replicate in range(sets):
        truth, found = simulated(replicate, people, epsilon, law)
        off.append(np.log(found.slope) - truth)
        inside.append((np.log(found.low) <= truth) & (truth <= np.log(found.high)))
        assert np.log(found.slope).sum() == pytest.approx(0, abs=1e-9)
    if error is not None:
        assert np.sqrt(np.mean(np.square(off))) < error * (1.1 + 2 / np.sqrt(2 * ITEMS * sets))
    assert 0.9 < np.mean(inside) <= 0.995


def test_none_is_told_where_items_do_not_differ_or_bands_say_too_little():
    """With the true slopes alike, fitted ones differ by their errors alone."""
    for replicate in range(6):
        assert simulated(replicate, 2922, 2.0, spread=0.0)[1] is None
    assert simulated(0, 400, 1.0)[1] is None
    assert simulated(0, 2922, 0.0, bands=2)[1] is None


def uneven(easy, middling, replicate):
    """True log slopes, and those found, of a test with items that nearly everybody solves."""
    n, rng = easy + middling, np.random.default_rng((51, replicate))
    difficulty = np.r_[np.linspace(-4.5, -4.0, easy), np.linspace(-0.8, 1.2, middling)]
    log_slope = np.r_[np.resize([0.2, -0.2], easy), np.resize([0.6, -0.6, 0.5, -0.5], middling)]
    log_slope -= log_slope.mean()
    ability, shape = rng.normal(size=(10_000, 1)), SheetShape.of(n, (), GAUSSIAN, 3)
    right = rng.random((10_000, n)) < expit(np.exp(log_slope) * (ability - difficulty))
    exact = totals_of(right, shape).entries
    entries = exact + np.rint(rng.normal(0, 10, len(exact))).astype(np.int64)
    return log_slope, item_slopes(SheetTotals(entries, shape, confidential=False), 100.0)


def test_intervals_hold_for_each_item_of_a_test_with_very_easy_ones():
    """Seeded: two of 20 items are solved by nearly everybody, and 15 tests tell slopes. Those items
    have the widest intervals, and the mean of all errs by theirs."""
    inside = []
    for replicate in range(15):
        log_slope, found = uneven(2, 18, replicate)
        inside.append((np.log(found.low) <= log_slope) & (log_slope <= np.log(found.high)))
    assert np.mean(inside, axis=0).min() >= 0.8
    assert np.mean(inside) > 0.95


@pytest.mark.parametrize(("easy", "middling"), [(0, 7), (2, 4), (4, 8), (3, 17)])
def test_no_slope_is_told_of_few_items_or_many_very_easy_ones(easy, middling):
    """Their intervals would hold in 62 to 84 % of tests for some of the items."""
    assert uneven(easy, middling, 0)[1] is None


def test_a_law_without_an_item_is_that_of_the_others():
    right = np.random.default_rng(4).random((3, 6))
    found = np.full((6, 3, 6), np.nan)
    for score, others, known in laws_without_item(score_law(right), right):
        found[score][known] = others[known]
    for item in range(6):
        wanted = score_law(np.delete(right, item, axis=1))
        assert pytest.approx(wanted, abs=1e-12) == found[:, :, item].T
