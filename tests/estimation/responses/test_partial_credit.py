"""The partial credit model from totals with points: laws, fit, intervals, abilities, alpha."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from hushrank.estimation.responses.conditional_fit import fit_totals
from hushrank.estimation.responses.partial_credit_estimate import (
    estimate_partial_credit,
    point_report,
)
from hushrank.estimation.responses.partial_credit_fit import (
    Steps,
    fit_partial_credit,
    points_at_scores,
    step_covariance,
)
from hushrank.estimation.responses.point_totals import (
    PointShape,
    PointTotals,
    release_point_totals,
)
from hushrank.estimation.responses.score_table import point_score_table, score_table
from hushrank.estimation.responses.sheet_totals import SheetShape, SheetTotals
from hushrank.privacy.randomness import seeded_bits
from hushrank.privacy.units import Adjacency, NoiseKind, PrivacyParams, Unit
from tests.estimation.scores_alone import scores_alone

MIXED = (2, 1, 3, 2)


def points_of(steps, ability, rng):
    chance = steps.chances(ability)
    return (rng.random(chance.shape[:2])[..., None] > chance.cumsum(axis=2)[..., :-1]).sum(axis=2)


def totals_of(points, shape):
    person, item = np.indices(points.shape)
    entries = shape.count(person.ravel(), item.ravel(), points.ravel().astype(np.uint8))
    return PointTotals(entries, shape)


def params_of(items, adjacency=Adjacency.REPLACE_ONE, noise=NoiseKind.GAUSSIAN, epsilon=2.0):
    delta = 1e-6 if noise is NoiseKind.GAUSSIAN else 0.0
    return PrivacyParams(
        unit=Unit.USER,
        adjacency=adjacency,
        epsilon=epsilon,
        delta=delta,
        noise=noise,
        max_contributions=items,
    )


def test_chances_and_covariance_given_a_score_are_those_of_all_sheets():
    rng = np.random.default_rng(1)
    steps = Steps(rng.normal(size=sum(MIXED)), MIXED)
    sheets = np.array(list(product(*(range(most + 1) for most in MIXED))))
    weights = np.exp(steps.log_weights()[np.arange(4), sheets].sum(axis=1))
    scores, people = np.arange(steps.top + 1), rng.random(steps.top + 1)
    reached = (sheets[:, steps.owner] >= steps.place).astype(float)
    found = points_at_scores(steps, scores)
    covariance = np.zeros((steps.top, steps.top))
    for score in scores:
        own = weights * (sheets.sum(axis=1) == score)
        own /= own.sum()
        for item, most in enumerate(MIXED):
            wanted = [own[sheets[:, item] == h].sum() for h in range(most + 1)]
            assert found[score, item, : most + 1] == pytest.approx(wanted, abs=1e-12)
        mean = own @ reached
        covariance += people[score] * ((reached.T * own) @ reached - np.outer(mean, mean))
    exact = step_covariance(steps, scores, people, found, exact=True)
    assert exact == pytest.approx(covariance, abs=1e-12)
    near = step_covariance(steps, scores, people, found, exact=False)
    assert near.sum(axis=1) == pytest.approx(0, abs=1e-12)  # nothing is said of the mean
    assert np.linalg.norm(near - exact) < 0.6 * np.linalg.norm(exact)


def test_of_one_point_it_is_the_rasch_model():
    rng = np.random.default_rng(2)
    difficulty = np.linspace(-1, 1, 5)
    right = points_of(Steps(difficulty, (1,) * 5), rng.normal(size=800), rng)
    person, item = np.indices(right.shape)
    shape = SheetShape.of(5, ())
    entries = shape.count(person.ravel(), item.ravel(), right.ravel().astype(np.uint8))
    rasch = fit_totals(SheetTotals(entries, shape, confidential=False), 0.0)
    points = PointShape.of((1,) * 5, params_of(5))
    fit = fit_partial_credit(totals_of(right, points), 0.0)
    assert fit.of_items.difficulty == pytest.approx(rasch.difficulty, abs=1e-6)
    assert fit.of_items.covariance == pytest.approx(rasch.covariance, abs=1e-6)
    own, other = score_table(difficulty, np.eye(5)), point_score_table(fit.steps, np.eye(5))
    assert own.ability == pytest.approx(
        point_score_table(Steps(difficulty, (1,) * 5), np.eye(5)).ability, abs=1e-9
    )
    assert other.by_difficulty.sum(axis=1) == pytest.approx(1)


def test_abilities_move_with_steps_as_the_table_says():
    values = np.random.default_rng(3).normal(size=sum(MIXED))
    table = point_score_table(Steps(values, MIXED), np.eye(len(values)))
    for step, change in enumerate(1e-5 * np.eye(len(values))):
        up, down = (
            point_score_table(Steps(values + sign * change, MIXED), np.eye(len(values))).ability
            for sign in (1, -1)
        )
        assert (up - down) / 2e-5 == pytest.approx(table.by_difficulty[:, step], abs=1e-7)


@pytest.mark.parametrize(
    ("adjacency", "noise"),
    [
        (Adjacency.REPLACE_ONE, NoiseKind.LAPLACE),
        (Adjacency.ADD_REMOVE, NoiseKind.GAUSSIAN),
    ],
)
@scores_alone()
def test_intervals_cover_steps_whatever_the_abilities_are(adjacency, noise):
    """Seeded, so it fails never or always: 5 tests of 10 items with 1 to 3 points, 2,000 people."""
    covered, reliable = [], []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        points = tuple(rng.integers(1, 4, 10).tolist())
        steps = Steps(0.7 * rng.normal(size=sum(points)), points)
        mean = np.mean([steps.values[steps.owner == item].mean() for item in range(10)])
        humps = rng.normal(rng.choice([-1.2, 1.2], 2000), 0.5)  # abilities with two humps
        sheets = points_of(steps, humps, rng)
        shape = PointShape.of(points, params_of(10, adjacency, noise))
        calibration = shape.calibrate(params_of(10, adjacency, noise))
        noisy = release_point_totals(totals_of(sheets, shape), calibration, seeded_bits(seed))
        found = estimate_partial_credit(noisy, calibration.law)
        truth = steps.values - mean
        covered += [s.low <= d <= s.high for s, d in zip(found.steps, truth, strict=True)]
        told = point_report(noisy, found.fit, calibration.law)
        exact = 10 / 9 * (1 - sheets.var(axis=0).sum() / sheets.sum(axis=1).var())
        reliable.append(told.alpha.low < exact < told.alpha.high)
        assert (np.diff(told.table.ability) > 0).all()
    assert 0.9 <= np.mean(covered) <= 0.99  # 100 steps
    assert all(reliable)


def test_points_that_hardly_anybody_misses_leave_other_items_as_they_are():
    """Seeded: 5 items of 4 points for able people; zero is the mean of items with both ends."""
    grid = np.linspace(-1, 1, 5)[:, None] + np.linspace(-0.6, 0.6, 4)
    steps, params = Steps(grid.ravel(), (4,) * 5), params_of(5, Adjacency.ADD_REMOVE, epsilon=4.0)
    shape, covered, open_ended = PointShape.of(steps.points, params), [], 0
    calibration = shape.calibrate(params)
    for seed in range(6):
        rng = np.random.default_rng((79, seed))
        sheets = points_of(steps, rng.normal(2, 1, 3000), rng)
        noisy = release_point_totals(totals_of(sheets, shape), calibration, seeded_bits(seed))
        found = estimate_partial_credit(noisy, calibration.law)
        both = ~found.no_lower_limit & ~found.no_upper_limit
        truth = grid.mean(axis=1) - grid.mean(axis=1)[both].mean()
        inside = (found.estimate.low <= truth) & (truth <= found.estimate.high)
        covered += inside[both].tolist()
        open_ended += int((~both).sum())
        means = [found.fit.steps.values[found.fit.steps.owner == item].mean() for item in range(5)]
        assert found.estimate.scores == pytest.approx(means, abs=1e-9)
        assert found.estimate.scores[both].sum() == pytest.approx(0, abs=1e-9)
        for told, zero in ((found.fit.of_items, both), (found.fit.of_steps, np.repeat(both, 4))):
            assert told.covariance[zero].sum(axis=0) == pytest.approx(0, abs=1e-9)
    assert open_ended >= 6
    assert np.mean(covered) > 0.9


def test_the_error_of_steps_is_that_of_the_design():
    """10 items of 2 points, 3,000 people: without noise, and with epsilon 1 (Gaussian)."""
    steps = Steps((np.linspace(-1, 1, 10)[:, None] + [-0.5, 0.5]).ravel(), (2,) * 10)
    for epsilon, least, most in ((None, 0.043, 0.055), (1.0, 0.055, 0.09)):
        params, missed = params_of(10, epsilon=epsilon or 1.0), []
        shape = PointShape.of(steps.points, params)
        calibration = shape.calibrate(params)
        for seed in range(5):
            rng = np.random.default_rng(seed)
            totals = totals_of(points_of(steps, rng.normal(size=3000), rng), shape)
            variance = 0.0
            if epsilon:
                totals = release_point_totals(totals, calibration, seeded_bits(seed))
                variance = calibration.law.variance
            missed.append(fit_partial_credit(totals, variance).of_steps.difficulty - steps.values)
        assert least < np.sqrt(np.mean(np.square(missed))) < most


def test_scores_on_knots_tell_nearly_as_much():
    rng = np.random.default_rng(5)
    points = (3,) * 20  # 60 points, so every third score has an entry
    steps = Steps(np.resize([-0.8, 0.0, 0.8], 60) + np.repeat(np.linspace(-1, 1, 20), 3), points)
    sheets = points_of(steps, rng.normal(size=4000), rng)
    fits = [
        fit_partial_credit(totals_of(sheets, shape), 0.0).of_steps
        for shape in (
            PointShape.of(points, params_of(20)),
            PointShape(points=points, step=1, answer_weight=1, sheet_weight=1, share=1),
        )
    ]
    assert np.abs(fits[0].difficulty - fits[1].difficulty).max() < 0.03  # errors: .06
    assert np.abs(fits[0].difficulty - steps.values).max() < 0.35


def test_what_cannot_be_counted_is_refused():
    shape = PointShape.of((2, 1, 1), params_of(3))
    for person, item, points, message in (
        ([0, 0], [0, 1], [1, 1], "must have all items"),
        ([0, 0, 0], [0, 1, 1], [1, 1, 1], "must have all items"),
        ([0, 0, 1], [0, 1, 2], [1, 1, 1], "must have all items"),
        ([0, 0, 0], [0, 1, 2], [1, 2, 1], "more points than it gives"),
    ):
        with pytest.raises(ValueError, match=message):
            shape.count(*map(np.array, (person, item)), np.array(points, np.uint8))
    totals = PointTotals(np.zeros(shape.n_entries, np.int64), shape)
    with pytest.raises(ValueError, match="confidential"):
        estimate_partial_credit(totals, shape.calibrate(params_of(3)).law)
    noisy = release_point_totals(totals, shape.calibrate(params_of(3)), seeded_bits(1))
    with pytest.raises(ValueError, match="noise already"):
        release_point_totals(noisy, shape.calibrate(params_of(3)), seeded_bits(1))
    assert estimate_partial_credit(noisy, shape.calibrate(params_of(3)).law).fit is None
