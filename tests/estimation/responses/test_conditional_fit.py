"""Difficulties from totals: the formulas by brute force, and errors against those of the design.

The errors that are reproduced are root mean squares over items of simulated Rasch data.
Difficulties and abilities have standard deviation 1, and noise is for a replaced person unless
said. What is drawn has a fixed seed, so a test never fails by chance.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import expit

from hushrank.estimation.responses.conditional_fit import (
    curvature_of,
    fit_totals,
    probabilities_at_scores,
    score_law,
)
from hushrank.estimation.responses.knots import ScoreHistogram
from hushrank.estimation.responses.sheet_totals import (
    SheetShape,
    SheetTotals,
    release_sheet_totals,
)
from hushrank.estimation.responses.totals_estimate import (
    errors_of_the_chosen,
    estimate_from_totals,
    predicted_error,
    predicted_noise,
)
from hushrank.privacy.noise import NoiseLaw
from hushrank.privacy.randomness import seeded_bits
from hushrank.privacy.units import Adjacency, NoiseKind, PrivacyParams, Unit
from tests.estimation.scores_alone import scores_alone

GAUSSIAN, LAPLACE = NoiseKind.GAUSSIAN, NoiseKind.LAPLACE
ADDED, REPLACED = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE
NOISELESS = NoiseLaw(GAUSSIAN, 0.0)


def totals_of(right, shape=None, kind=GAUSSIAN):
    items = right.shape[1]
    shape = shape or SheetShape.of(items, (), kind)
    person, item = np.divmod(np.arange(right.size), items)
    return SheetTotals(shape.count(person, item, right.ravel().astype(np.uint8)), shape)


def rasch(items, people, rng, ability=None):
    difficulty = rng.normal(size=items)
    difficulty -= difficulty.mean()
    ability = rng.normal(size=people) if ability is None else ability
    return difficulty, rng.random((people, items)) < expit(ability[:, None] - difficulty)


def noisy(exact, kind, epsilon, adjacency, seed):
    params = PrivacyParams(
        unit=Unit.USER,
        adjacency=adjacency,
        epsilon=epsilon,
        delta=1e-6 if kind is GAUSSIAN else 0.0,
        noise=kind,
        max_contributions=exact.n_items,
    )
    calibration = exact.shape.calibrate(params)
    return release_sheet_totals(exact, calibration, seeded_bits(seed)), calibration.law


def sheets_by_score(difficulty):
    """All sheets with their chance given the score, by the definition."""
    sheets = np.array([*product((0, 1), repeat=len(difficulty))])
    weight, score = np.exp(-sheets @ difficulty), sheets.sum(axis=1)
    return sheets, weight / np.bincount(score, weight)[score], score


def test_probabilities_given_a_score_are_those_of_all_sheets():
    difficulty = np.array([-2.0, -0.3, -0.3, 0.8, 3.0])
    sheets, chance, score = sheets_by_score(difficulty)
    found = probabilities_at_scores(difficulty, np.arange(6))
    for r in range(6):
        here = score == r
        assert found[r] == pytest.approx(chance[here] @ sheets[here], abs=1e-12)


def test_probabilities_of_a_long_sheet_add_up_to_the_score():
    difficulty = np.random.default_rng(0).normal(0, 1.5, 600)
    scores = SheetShape.of(600, ()).knots(0)
    assert probabilities_at_scores(difficulty, scores).sum(axis=1) == pytest.approx(
        scores, abs=1e-9
    )
    law = score_law(expit(-difficulty[np.newaxis]))
    assert law.sum() == pytest.approx(1)


@pytest.mark.parametrize("difficulty", [[-1.0, 0.2, 0.3, 1.4], [0.0, 0.0, 0.0, 1.0]])
def test_the_curvature_is_the_covariance_of_answers_given_scores(difficulty):
    difficulty, knots = np.array(difficulty), np.arange(5)
    sheets, chance, score = sheets_by_score(difficulty)
    people = np.array([7.0, 30.0, 50.0, 20.0, 3.0])
    wanted = np.zeros((4, 4))
    for r in range(5):
        here = score == r
        wanted += people[r] * np.cov(sheets[here].T, aweights=chance[here], ddof=0)
    histogram = ScoreHistogram(people, knots, people, None)
    found = curvature_of(difficulty, histogram, probabilities_at_scores(difficulty, knots))
    assert found == pytest.approx(wanted, abs=2e-3)


def test_without_noise_it_is_conditional_maximum_likelihood():
    difficulty, right = rasch(6, 800, np.random.default_rng(1))
    fit = fit_totals(totals_of(right), 0.0)
    right_by_score = np.bincount(right.sum(axis=1), minlength=7)
    expected = right_by_score @ probabilities_at_scores(fit.difficulty, np.arange(7))
    assert expected == pytest.approx(right.sum(axis=0), abs=1e-3)
    assert fit.kept == 1.0
    assert np.abs(fit.difficulty - difficulty).max() < 0.4


@pytest.mark.parametrize("seed", range(4))
def test_a_covariance_has_no_part_in_the_common_shift(seed):
    """V leaves the mean open but for rounding, which must not count as what is known."""
    _, right = rasch(12, 900, np.random.default_rng(seed))
    covariance = fit_totals(totals_of(right), 0.0).covariance
    assert covariance.sum(axis=1) == pytest.approx(np.zeros(12), abs=1e-9)
    known = 900 * 0.17  # about what 900 answers tell of an item
    assert (np.diagonal(covariance) * known > 0.7).all()
    assert (np.diagonal(covariance) * known < 6).all()


def test_the_ridge_draws_towards_the_mean():
    """u rises with b, so a ridge is added to it; with the other sign it drives items away."""
    half, people = 40.0, 100.0

    def solved(sign):
        def balance(b):  # of two items of difficulties b and -b, and people with one point
            right = expit(-2 * b)
            return half / 2 - people * (right - 0.5) + sign * 60 * b

        return brentq(balance, -5, 5)

    free = brentq(lambda b: half / 2 - people * (expit(-2 * b) - 0.5), -5, 5)
    assert abs(solved(1)) < abs(free) < abs(solved(-1))
    rng = np.random.default_rng(3)
    _, right = rasch(5, 200, rng)
    released, law = noisy(totals_of(right), GAUSSIAN, 1.0, REPLACED, 4)
    fit = fit_totals(released, law.variance)
    assert np.std(fit.difficulty) < np.std(fit.unbiased)
    assert 0 < fit.kept < 1


def test_items_that_nobody_missed_are_bounded_on_one_side():
    _, right = rasch(5, 400, np.random.default_rng(5))
    right[:, 0], right[:, 4] = True, False
    found = estimate_from_totals(
        SheetTotals(totals_of(right).entries, totals_of(right).shape, confidential=False), NOISELESS
    )
    assert found.no_lower_limit.tolist() == [True, False, False, False, False]
    assert found.no_upper_limit.tolist() == [False, False, False, False, True]
    assert np.isneginf(found.estimate.low[0])
    assert np.isposinf(found.estimate.high[4])
    assert np.isfinite(found.estimate.scores).all()
    assert found.estimate.errors is None


def test_an_item_that_nobody_misses_leaves_the_others_as_they_are():
    """Seeded: its place is unknown, so zero is the mean of the others; noise confirms nobody."""
    difficulty, covered, confirmed = np.r_[-9.0, np.linspace(-1, 1, 11)], [], []
    for seed in range(30):
        rng = np.random.default_rng((13, seed))
        right = rng.random((3000, 12)) < expit(rng.normal(size=(3000, 1)) - difficulty)
        found = estimate_from_totals(*noisy(totals_of(right), GAUSSIAN, 4.0, ADDED, seed))
        inside = (found.estimate.low <= difficulty) & (difficulty <= found.estimate.high)
        covered += inside[1:].tolist()
        confirmed.append(not found.no_lower_limit[0])
        assert found.fit.difficulty[1:].sum() == pytest.approx(0, abs=1e-9)
        assert found.fit.covariance[1:].sum(axis=0) == pytest.approx(0, abs=1e-9)
    assert 0.91 < np.mean(covered) < 0.98  # with all items as zero .55
    assert sum(confirmed) == 0  # with half of the noise forgotten, 3


def test_two_items_of_equal_noisy_totals_have_one_difficulty():
    """The covariance of equal items is that of items slightly apart, so steps never quite end."""
    answers = [418, 278, 37, -36, -59, -173, -344, -372, -446, -446]
    sheets = [137, 129, 153, 187, 193, 171, 49, 37, 45, 1, -35]
    shape = SheetShape.of(10, ())
    fit = fit_totals(SheetTotals(np.array(answers + sheets), shape, confidential=False), 3117.0)
    assert fit.difficulty[8] == pytest.approx(fit.difficulty[9], abs=1e-5)
    assert (np.diff(fit.difficulty) > -1e-5).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("people", "epsilon", "kind", "adjacency", "draws"),
    [
        (100, 0.75, LAPLACE, ADDED, 700),
        (300, 0.25, GAUSSIAN, ADDED, 450),
        (300, 0.5, LAPLACE, REPLACED, 350),
    ],
)
def test_intervals_hold_although_most_draws_are_not_published(
    people, epsilon, kind, adjacency, draws
):
    """Seeded: those draws are published whose noisy number of sheets came out large."""
    difficulty, inside = np.linspace(-3, 3, 10), []
    for seed in range(draws):
        rng = np.random.default_rng((99, people, seed))
        right = rng.random((people, 10)) < expit(rng.normal(size=(people, 1)) - difficulty)
        found = estimate_from_totals(
            *noisy(totals_of(right, kind=kind), kind, epsilon, adjacency, seed)
        )
        if found.fit is not None:
            bounded = ~(found.no_lower_limit | found.no_upper_limit)
            truth = difficulty - (difficulty[bounded].mean() if bounded.any() else 0)
            inside.append((found.estimate.low <= truth) & (truth <= found.estimate.high))
    assert 30 < len(inside) < draws / 2
    assert np.mean(inside) > 0.95  # without the factor .88 to .91
    assert np.mean(inside, axis=0).min() > 0.9  # .74 to .85


def test_errors_fade_to_those_of_the_fit_where_noise_is_small():
    factors = errors_of_the_chosen(np.array([4.0, 20.0, 100.0]), np.ones(3))
    assert factors == pytest.approx([1 + 1.5**3, 1.027, 1 + 0.06**3])
    assert errors_of_the_chosen(np.array(100.0), np.array(0.0)) == 1


def test_too_few_sheets_say_nothing():
    _, right = rasch(5, 20, np.random.default_rng(6))
    released, law = noisy(totals_of(right), LAPLACE, 0.5, REPLACED, 7)
    found = estimate_from_totals(released, law)
    assert not found.estimate.informative
    assert found.fit is None


@pytest.mark.parametrize("kind", [GAUSSIAN, LAPLACE])
def test_sheets_with_no_point_or_all_points_say_nothing(kind):
    """They tell people apart and no items; a fit to noise alone is no difficulty."""
    right = np.repeat([[True], [False], [True]], 100, axis=0) * np.ones(4, bool)
    inside = []
    for seed in range(10):
        released, law = noisy(totals_of(right, kind=kind), kind, 4.0, REPLACED, seed)
        estimate = estimate_from_totals(released, law).estimate
        if estimate.informative:
            inside += [*((estimate.low <= 0) & (estimate.high >= 0))]
    assert sum(inside) >= 0.8 * len(inside)
    exact = SheetTotals(totals_of(right).entries, totals_of(right).shape, confidential=False)
    assert not estimate_from_totals(exact, NOISELESS).estimate.informative


def test_exact_totals_are_not_estimated_from():
    _, right = rasch(4, 50, np.random.default_rng(8))
    with pytest.raises(ValueError, match="confidential"):
        estimate_from_totals(totals_of(right), NOISELESS)


@dataclass(frozen=True)
class Found:
    """Errors of simulated tests."""

    error: float
    spread: float  # standard error of it, as a share
    covered: float
    predicted: float


def simulate(items, people, kind, epsilon, sets, adjacency=REPLACED) -> Found:
    squares, covered, stated = [], [], []
    for replicate in range(sets):
        difficulty, right = rasch(items, people, np.random.default_rng((items, replicate)))
        released, law = noisy(totals_of(right, kind=kind), kind, epsilon, adjacency, replicate)
        found = estimate_from_totals(released, law)
        assert found.fit is not None
        off = found.estimate.scores - difficulty
        squares.append(np.var(off))
        known = ~(found.no_lower_limit | found.no_upper_limit)  # zero is the mean of these
        truth = difficulty - difficulty[known].mean()
        inside = (found.estimate.low <= truth) & (truth <= found.estimate.high)
        covered.append(inside.mean())
        stated.append(np.diagonal(found.fit.covariance).mean())
    mean = float(np.mean(squares))
    return Found(
        mean**0.5,
        float(np.std(squares) / mean / 2 / sets**0.5),
        float(np.mean(covered)),
        float(np.mean(stated)) ** 0.5,
    )


CELLS = [
    *((5, 1000, GAUSSIAN, *each) for each in ((0.5, 0.152), (1, 0.100), (2, 0.076), (4, 0.071))),
    *((5, 1000, LAPLACE, *each) for each in ((0.5, 0.152), (1, 0.103), (2, 0.075), (4, 0.068))),
    *((28, 2922, GAUSSIAN, *each) for each in ((0.5, 0.116), (1, 0.076), (2, 0.054), (4, 0.048))),
    *((28, 2922, LAPLACE, *each) for each in ((0.5, 0.200), (1, 0.115), (2, 0.064), (4, 0.052))),
    *((100, 10_000, GAUSSIAN, *each) for each in ((1, 0.034),)),
    *((100, 10_000, LAPLACE, *each) for each in ((2, 0.049),)),
]
OF_ADDED = [
    *((28, 2922, GAUSSIAN, *each) for each in ((0.5, 0.077), (2, 0.047))),
    *((28, 2922, LAPLACE, *each) for each in ((0.5, 0.116), (2, 0.051))),
]
SETS = {5: 60, 28: 24, 100: 5}
SPREAD = 0.05  # standard error of the errors in the design, as a share


@pytest.mark.parametrize(
    ("items", "people", "kind", "epsilon", "error", "adjacency"),
    [*((*each, REPLACED) for each in CELLS), *((*each, ADDED) for each in OF_ADDED)],
)
@scores_alone()
def test_errors_and_coverage_are_those_of_the_design(
    items, people, kind, epsilon, error, adjacency
):
    """Within 3 % and two standard errors of the difference of two simulations."""
    found = simulate(items, people, kind, epsilon, SETS[items], adjacency)
    margin = 0.03 + 2 * (found.spread**2 + SPREAD**2) ** 0.5
    assert abs(found.error / error - 1) < margin
    tolerance = 3 * (0.05 * 0.95 / (items * SETS[items] / 2)) ** 0.5  # errors of a test are related
    assert 0.92 - tolerance < found.covered < 0.97 + tolerance
    law = SheetShape.of(items, (), kind)
    params = PrivacyParams(
        unit=Unit.USER,
        adjacency=adjacency,
        epsilon=epsilon,
        delta=1e-6 if kind is GAUSSIAN else 0.0,
        noise=kind,
        max_contributions=items,
    )
    noise = predicted_noise(law, law.calibrate(params).law)
    planned = predicted_error(people, items, 1.0, 1.0, noise)
    assert abs(planned / error - 1) < (0.15 if items >= 20 else 0.25)  # from public facts alone


@scores_alone()
def test_half_the_noise_would_be_seen():
    """The power of the test above: intervals that know of half of the noise cover too little."""
    difficulty, right = rasch(28, 2922, np.random.default_rng(9))
    covered = []
    for replicate in range(10):
        released, law = noisy(totals_of(right, kind=LAPLACE), LAPLACE, 1.0, REPLACED, replicate)
        found = estimate_from_totals(released, NoiseLaw(LAPLACE, law.scale / 2))
        low, high = found.estimate.low, found.estimate.high
        covered.append(((low <= difficulty) & (difficulty <= high)).mean())
    assert np.mean(covered) < 0.85


@pytest.mark.parametrize("shape", ["skew", "two humps"])
@scores_alone()
def test_no_law_of_abilities_is_assumed(shape):
    errors, covered = [], []
    for replicate in range(20):
        rng = np.random.default_rng((11, replicate))
        ability = rng.exponential(1.0, 2922) - 1
        if shape == "two humps":
            ability = rng.normal(0, 0.5, 2922) + 1.2 * rng.choice([-1, 1], 2922)
        difficulty, right = rasch(28, 2922, rng, ability)
        released, law = noisy(totals_of(right), GAUSSIAN, 2.0, REPLACED, replicate)
        found = estimate_from_totals(released, law).estimate
        errors.append(np.mean((found.scores - difficulty) ** 2))
        covered.append(((found.low <= difficulty) & (difficulty <= found.high)).mean())
    assert 0.048 < np.mean(errors) ** 0.5 < 0.064
    assert 0.92 < np.mean(covered) < 0.98


def test_booklets_with_secret_assignment():
    """30 items in three booklets of 20, of people who differ in ability."""
    booklets = (tuple(range(20)), tuple(range(10, 30)), (*range(10), *range(20, 30)))
    squares, covered = [], []
    for replicate in range(10):
        rng = np.random.default_rng((12, replicate))
        difficulty = rng.normal(size=30)
        difficulty -= difficulty.mean()
        shape = SheetShape.of(30, booklets)
        entries = np.zeros(shape.n_entries, np.int64)
        for items, shift in zip(booklets, (-0.7, 0.0, 0.7), strict=True):
            own = np.array(items)
            ability = rng.normal(shift, 1, 1000)
            right = rng.random((1000, 20)) < expit(ability[:, None] - difficulty[own])
            person = np.repeat(np.arange(1000), 20)
            entries += shape.count(person, np.tile(own, 1000), right.ravel().astype(np.uint8))
        params = PrivacyParams(
            unit=Unit.USER, adjacency=REPLACED, epsilon=2.0, delta=1e-6, noise=GAUSSIAN,
            max_contributions=20,
        )  # fmt: skip
        calibration = shape.calibrate(params)
        exact = SheetTotals(entries, shape)
        released = release_sheet_totals(exact, calibration, seeded_bits(replicate))
        found = estimate_from_totals(released, calibration.law).estimate
        squares.append(np.mean((found.scores - difficulty) ** 2))
        covered.append(((found.low <= difficulty) & (difficulty <= found.high)).mean())
    assert abs(np.mean(squares) ** 0.5 / 0.080 - 1) < 0.13
    assert 0.92 < np.mean(covered) < 0.985
