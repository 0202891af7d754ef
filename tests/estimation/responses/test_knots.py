"""Knots of long tests: no simulation, but the sums of a population in place of counts.

What a fit finds there is its error that more people do not mend. With the stated standard error of
a number of people it says how often an interval holds.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.polynomial.hermite_e import hermegauss
from scipy.special import expit
from scipy.stats import chi2, ncx2, norm

from hushrank.estimation.responses.conditional_fit import (
    fit_totals,
    item_fit,
    probabilities_at_scores,
    score_law,
)
from hushrank.estimation.responses.knots import ScoreHistogram, chances_at_all_scores
from hushrank.estimation.responses.partial_credit_fit import (
    Steps,
    fit_partial_credit,
    points_at_scores,
)
from hushrank.estimation.responses.point_totals import PointShape, PointTotals
from hushrank.estimation.responses.sheet_totals import (
    SheetShape,
    SheetTotals,
    knot_shares,
    sheets_at_knots,
)
from hushrank.privacy.units import Adjacency, NoiseKind, PrivacyParams, Unit

MANY = 2**40  # people, so that rounding to whole counts is nothing


def abilities(mean):
    node, weight = hermegauss(81)
    return node + mean, weight / weight.sum()


def population(difficulty, mean, bands, step=None):
    """Totals of `MANY` people of mean ability `mean`, in expectation."""
    node, weight = abilities(mean)
    shape, n = SheetShape.of(len(difficulty), (), bands=bands), len(difficulty)
    if step is not None:
        shape = replace(shape, step=step, sheet_weight=840 * step)
    scores = np.arange(n + 1)
    sheets = MANY * (weight @ score_law(expit(node[:, np.newaxis] - difficulty)))
    right = sheets[:, np.newaxis] * probabilities_at_scores(difficulty, scores)
    band = np.searchsorted(shape.band_starts(0), scores, side="right") - 1
    by_band = [(2 * right - sheets[:, np.newaxis])[band == own].sum(axis=0) for own in range(bands)]
    entries = [
        shape.answer_weight * np.concatenate(by_band),
        sheets @ knot_shares(shape.knots(0), shape.sheet_weight),
    ]
    whole = np.rint(np.concatenate(entries)).astype(np.int64)
    return SheetTotals(whole, shape, confidential=False)


def of_booklets(difficulty, booklets, mean=0.0):
    """Totals of `MANY` people of mean ability `mean` with each booklet, in expectation."""
    shape, n = SheetShape.of(len(difficulty), booklets), len(difficulty)
    parts = [population(difficulty[list(codes)], mean, 1, shape.step) for codes in shape.booklets]
    less_wrong, sheets = np.zeros(n), []
    for codes, part in zip(shape.booklets, parts, strict=True):
        less_wrong[list(codes)] += part.right_minus_wrong / part.shape.answer_weight
        sheets.append(part.histograms[0] / part.shape.sheet_weight * shape.sheet_weight)
    entries = np.concatenate([shape.answer_weight * less_wrong, *sheets])
    return SheetTotals(np.rint(entries).astype(np.int64), shape, confidential=False)


def coverage(bias, variance, people):
    """How often an interval of 95 % holds, from the bias and the variance for `MANY` people."""
    off = bias / np.sqrt(variance * MANY / people)
    return norm.cdf(1.96 - off) - norm.cdf(-1.96 - off)


@pytest.mark.parametrize("bands", [1, 4])
def test_intervals_of_a_long_easy_test_hold_for_each_item(bands):
    """100 items of spread 1.5, mean ability 1.5; curves cut at knots: .60 for the worst item."""
    difficulty = np.random.default_rng(5).normal(0, 1.5, 100)
    difficulty -= difficulty.mean()
    totals = population(difficulty, 1.5, bands)
    fit = fit_totals(totals, 0.0)
    held = coverage(fit.unbiased - difficulty, np.diagonal(fit.covariance), 20_000)
    assert held.min() > 0.94
    if bands > 1:
        found = item_fit(totals, fit, 0.0)
        seen = found.statistic * 20_000 / MANY  # of a law with this much off centre
        rejected = ncx2.sf(chi2.isf(0.05, found.degrees), found.degrees, seen + 1e-9)
        assert rejected.max() < 0.07


def test_a_booklet_of_two_items_beside_a_long_one_has_chances_at_each_score():
    """Its knots are 0 and 2: no score between 1 and 1 is left to draw a line from."""
    difficulty = np.linspace(-1, 1, 49)
    totals = of_booklets(difficulty, (tuple(range(48)), (47, 48)))
    assert totals.shape.knots(1).tolist() == [0, 2]
    fit = fit_totals(totals, 0.0)
    assert np.abs(fit.unbiased - difficulty)[:47].max() < 0.01
    assert np.isfinite(fit.unbiased).all()


@pytest.mark.parametrize(("short", "least", "most"), [(18, 0.93, 0.96), (12, 0.0, 0.9)])
def test_intervals_hold_for_a_booklet_of_six_steps_beside_a_long_one(short, least, most):
    """60 and 18 items, mean ability 1.5, 5,000 people each; with four steps they do not hold."""
    difficulty = np.random.default_rng(1).normal(0, 1, 60)
    difficulty -= difficulty.mean()
    booklets = (tuple(range(60)), tuple(range(0, 60, 60 // short))[:short])
    fit = fit_totals(of_booklets(difficulty, booklets, 1.5), 0.0)
    held = coverage(fit.unbiased - difficulty, np.diagonal(fit.covariance), 5000)
    assert least < held.min() < most


def test_lines_at_knots_alone_would_be_seen():
    """The power of the test above: with the curves cut at knots."""
    difficulty = np.random.default_rng(5).normal(0, 1.5, 100)
    difficulty -= difficulty.mean()
    totals = population(difficulty, 1.5, 1)
    (entries,), knots = totals.histograms, totals.shape.knots(0)
    own = ScoreHistogram.of(entries, knots, totals.shape.sheet_weight)
    right = probabilities_at_scores(difficulty, np.arange(101))
    half = totals.right_minus_wrong / 2
    known = (own.weights[:, np.newaxis] * right * (1 - right)).sum(axis=0)
    held = [
        coverage((half - own.sheets @ (at - 0.5)) / known, 1 / known, 20_000).min()
        for at in (right[knots], own.at_knots(right))
    ]
    assert held[0] < 0.7
    assert held[1] > 0.94


def test_intervals_of_steps_hold_for_an_easy_test_with_many_points():
    rng = np.random.default_rng(6)
    points = tuple(rng.integers(1, 4, 25).tolist())
    steps = Steps(rng.normal(0, 1.0, sum(points)), points)
    zero = np.mean([steps.values[steps.owner == item].mean() for item in range(25)])
    node, weight = abilities(1.0 + zero)
    law = np.zeros((len(node), 1)) + 1.0
    for item in np.moveaxis(steps.chances(node), 1, 0):
        law = np.array([np.convolve(*each) for each in zip(law, item, strict=True)])
    sheets = MANY * (weight @ law[:, : steps.top + 1])
    params = PrivacyParams(
        unit=Unit.USER, adjacency=Adjacency.REPLACE_ONE, epsilon=1.0, delta=1e-6,
        noise=NoiseKind.GAUSSIAN, max_contributions=25,
    )  # fmt: skip
    shape = PointShape.of(points, params)
    given = points_at_scores(steps, np.arange(steps.top + 1))
    cells = [sheets @ given[:, item, : most + 1] for item, most in enumerate(points)]
    entries = [
        shape.answer_weight * np.concatenate(cells),
        sheets @ knot_shares(shape.knots, shape.sheet_weight),
    ]
    assert shape.step > 1
    whole = np.rint(np.concatenate(entries)).astype(np.int64)
    fit = fit_partial_credit(PointTotals(whole, shape, confidential=False), 0.0).of_steps
    bias = fit.unbiased - (steps.values - zero)
    held = coverage(bias, np.diagonal(fit.covariance), 20_000)
    assert held.min() > 0.94


def test_chances_between_knots_are_those_of_all_scores():
    difficulty = np.random.default_rng(1).normal(0, 1.5, 90)

    def of_points(scores):
        right = probabilities_at_scores(difficulty, scores)
        return np.stack([1 - right, right], axis=2)

    found = chances_at_all_scores(of_points, SheetShape.of(90, ()).knots(0))
    off = np.abs(found - of_points(np.arange(91)))
    assert off.max() < 0.02
    assert off.mean() < 3e-5
    assert found[..., 1].sum(axis=1) == pytest.approx(np.arange(91), abs=1e-6)


@pytest.mark.parametrize("knots", [[0, 3, 6, 9, 10], [0, 2, 3, 8], [0, 1, 2]])
def test_a_sheet_adds_its_weight_around_its_score(knots):
    knots, scores = np.array(knots), np.arange(knots[-1] + 1)
    shares = knot_shares(knots, 60)
    assert (shares.sum(axis=1) == 60).all()
    assert (shares @ knots == 60 * scores).all()
    drawn = np.random.default_rng(2).integers(0, knots[-1] + 1, 50)
    assert (sheets_at_knots(drawn, knots, 60) == shares[drawn].sum(axis=0)).all()
