"""Objective perturbation with covariates, by brute force on its densities.

For small inputs the density of the minimiser is explicit, so the privacy loss can be maximised over
the output, adjacent inputs enumerated, and the result held against the promised epsilon.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy.optimize import minimize

from hushrank.estimation.common.links import Floats
from hushrank.privacy.covariate_perturbation import (
    CovariateNoise,
    calibrate_covariates,
    changed_rows,
    free_ridge,
    reach,
    share_of_effects,
)
from hushrank.privacy.units import Adjacency, NoiseKind, PrivacyParams, Unit

N_ITEMS = 3
Row = tuple[int, int, tuple[float, ...]]  # winner, loser, covariates as they speak for the winner


def params_for(rows: int = 1, adjacency: Adjacency = Adjacency.REPLACE_ONE) -> PrivacyParams:
    return PrivacyParams(unit=Unit.USER, adjacency=adjacency, epsilon=1.0, max_contributions=rows)


def design_of(rows: list[Row], n_items: int, n_effects: int) -> Floats:
    design = np.zeros((len(rows), n_items + n_effects))
    for row, (winner, loser, z) in zip(design, rows, strict=True):
        row[winner], row[loser], row[n_items:] = 1, -1, z
    return design


@dataclass(frozen=True)
class Density:
    """Of the exact minimiser over R^(n + q), for weighted rows."""

    design: Floats
    weights: Floats
    n_items: int
    noise: CovariateNoise

    def log_at(self, theta: Floats) -> float:
        slope = 1 / (1 + np.exp(np.clip(self.design @ theta, -700, 700)))
        more = self.design.shape[1] - self.n_items
        held = np.repeat([1.0, 1 / self.noise.share], [self.n_items, more])
        gradient = self.noise.ridge * held * theta - self.design.T @ (self.weights * slope)
        curved = self.design.T * (self.weights * slope * (1 - slope))
        hessian = curved @ self.design + self.noise.ridge * np.diag(held)
        loss = (np.abs(gradient) / (self.noise.scale * held)).sum()
        return float(np.linalg.slogdet(hessian)[1] - loss)


def density(rows: list[Row], noise: CovariateNoise, n_effects: int) -> Density:
    return Density(design_of(rows, N_ITEMS, n_effects), np.ones(len(rows)), N_ITEMS, noise)


def worst_loss(left: Density, right: Density) -> float:
    """Largest log ratio of the densities, by search from many points."""
    generator = np.random.default_rng(3)
    starts = [spread * generator.normal(0, 1, left.design.shape[1]) for spread in [0.5, 3, 10] * 12]

    def loss(theta: Floats) -> float:
        return right.log_at(theta) - left.log_at(theta)

    best = sorted(starts, key=loss)[:2]
    options = {"maxfev": 400}
    return -min(minimize(loss, start, method="Nelder-Mead", options=options).fun for start in best)


def rows_of_one_unit(n_effects: int) -> list[Row]:
    signs = list(itertools.product((-1.0, 1.0), repeat=n_effects))
    halves = [tuple(0.5 * each for each in z) for z in signs[:1]]
    pairs = itertools.permutations(range(N_ITEMS), 2)
    return [(*pair, z) for pair in pairs for z in (*signs, *halves)]


OTHERS = [[], [(0, 1, (1.0, -0.3)), (1, 0, (0.2, 1.0)), (2, 0, (-1.0, 0.0))]]


@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize("ridge", [0.6, 30.0], ids=["charged", "free"])
@pytest.mark.parametrize(("n_effects", "share"), [(1, 1.0), (2, 0.25)])
def test_no_output_tells_adjacent_inputs_apart_by_more_than_epsilon(
    adjacency: Adjacency, ridge: float, n_effects: int, share: float
) -> None:
    """One comparison among three items: every pair of inputs, the worst output."""
    epsilon = 2.0
    noise = calibrate_covariates(
        params_for(1, adjacency), N_ITEMS, n_effects, ridge, share, epsilon
    )
    assert (noise.determinant_epsilon > 0) == (ridge < 30)
    one: Row = (0, 1, (1.0,) * n_effects)
    others = [[(winner, loser, z[:n_effects]) for winner, loser, z in rows] for rows in OTHERS]
    replaced = (
        [[]]
        if adjacency is Adjacency.ADD_REMOVE
        else [[row] for row in rows_of_one_unit(n_effects)[:: 2 if n_effects == 1 else 5]]
    )
    worst = 0.0
    for shared, replacement in itertools.product(others, replaced):
        left = density([*shared, one], noise, n_effects)
        right = density([*shared, *replacement], noise, n_effects)
        worst = max(worst, worst_loss(left, right), worst_loss(right, left))
    assert 0.4 * epsilon < worst <= epsilon


@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize("share", [1.0, 0.25])
def test_some_output_costs_all_of_epsilon(adjacency: Adjacency, share: float) -> None:
    """With less noise it would not be private: other comparisons make one upset count fully.

    Both upsets move two scores and both effects, and what the others did gives each gradient its
    sign.
    """
    params, often = params_for(1, adjacency), 10.0**6
    noise = calibrate_covariates(params, 10, 2, 40.0, share, 1.0)
    assert noise.determinant_epsilon == 0
    theta = np.array([-20.0, 20, -60, 60, -20, 20, 60, -60, -20, 20, 0, 0])
    nothing, up, down = (0.0, 0.0), (1.0, 1.0), (-1.0, -1.0)
    others: list[Row] = [
        *((2, 0, nothing), (1, 3, nothing), (4, 6, nothing), (7, 5, nothing)),
        (8, 9, down),
    ]
    added = [*others, (0, 1, up)]
    without = others if adjacency is Adjacency.ADD_REMOVE else [*others, (4, 5, down)]
    losses = []
    for rows in (added, without):
        weights = np.array([often] * len(others) + [1.0] * (len(rows) - len(others)))
        losses.append(Density(design_of(rows, 10, 2), weights, 10, noise).log_at(theta))
    assert losses[0] - losses[1] == pytest.approx(1.0, rel=1e-5)


def test_without_the_determinant_s_part_epsilon_would_be_exceeded() -> None:
    """A small ridge: what the noise alone is calibrated for is not all that an output costs."""
    params, epsilon = params_for(1, Adjacency.ADD_REMOVE), 2.0
    noise = calibrate_covariates(params, N_ITEMS, 1, 0.2, 1.0, epsilon)
    planted = replace(noise, scale=noise.sensitivity / epsilon, ridge=0.02)
    one: list[Row] = [(0, 1, (1.0,))]
    losses = [worst_loss(density(one, law, 1), density([], law, 1)) for law in (noise, planted)]
    assert losses[0] <= epsilon < losses[1]


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_the_gradient_and_the_determinant_come_to_epsilon(adjacency: Adjacency, rows: int) -> None:
    """With a ridge that is not free: l1 / scale + e_det, by the formulas of the module."""
    ridge, epsilon = 1.2, 2.0
    noise = calibrate_covariates(params_for(rows, adjacency), N_ITEMS, 2, ridge, 0.5, epsilon)
    sides = 1 if adjacency is Adjacency.ADD_REMOVE else 2
    assert noise.sensitivity == sides * rows * 3.0  # U = 2 + 0.5 * 2
    assert noise.determinant_epsilon >= rows * math.log1p(3.0 / (4 * ridge)) > 0.3
    assert noise.sensitivity / noise.scale + noise.determinant_epsilon <= epsilon
    assert noise.sensitivity / noise.scale + noise.determinant_epsilon > 0.999 * epsilon


def test_covariates_beyond_one_would_exceed_epsilon() -> None:
    """Were they not clipped, nothing would bound the pull at an effect."""
    params = params_for(1, Adjacency.ADD_REMOVE)
    noise = calibrate_covariates(params, N_ITEMS, 1, 30.0, 1.0, 1.0)
    for z, within in ((1.0, True), (3.0, False)):
        left, right = density([(0, 1, (z,))], noise, 1), density([], noise, 1)
        assert (worst_loss(right, left) <= 1.0) == within


def test_a_users_rows_add_up() -> None:
    epsilon = 1.0
    noise = calibrate_covariates(params_for(2), N_ITEMS, 1, 40.0, 0.5, epsilon)
    assert noise.sensitivity == 2 * 2 * 2.5
    many: list[Row] = [(0, 1, (1.0,)), (0, 2, (1.0,))]
    other: list[Row] = [(1, 0, (-1.0,)), (2, 0, (-1.0,))]
    left, right = density(many, noise, 1), density(other, noise, 1)
    assert max(worst_loss(left, right), worst_loss(right, left)) <= epsilon
    too_many = density([*many, *many, *many], noise, 1)  # of a person whose bound is not enforced
    assert max(worst_loss(too_many, right), worst_loss(right, too_many)) > epsilon


def test_bounds_of_a_person_count() -> None:
    capped = replace(params_for(50), per_item_cap=2)
    assert changed_rows(capped, 6) == 2 * 6
    assert changed_rows(replace(params_for(50), distinct_pairs=True), 5) == 2 * 10
    assert changed_rows(params_for(7, Adjacency.ADD_REMOVE), 5) == 7
    assert reach(4, 0.25) == 3


def test_what_cannot_be_calibrated_is_refused() -> None:
    params = params_for(2)
    with pytest.raises(ValueError, match=r"ridge 0\.01 is too small: .* more than 1\.1"):
        calibrate_covariates(params, 4, 1, 0.01, 1.0, 1.0)
    with pytest.raises(ValueError, match="ridge must be finite"):
        calibrate_covariates(params, 4, 1, math.inf, 1.0, 1.0)
    for share in (0.0, 0.3, 2.0):
        with pytest.raises(ValueError, match="share must be a power of two"):
            calibrate_covariates(params, 4, 1, 9.0, share, 1.0)
    gaussian = replace(params, noise=NoiseKind.GAUSSIAN, delta=1e-6)
    with pytest.raises(ValueError, match="laplace noise"):
        calibrate_covariates(gaussian, 4, 1, 9.0, 1.0, 1.0)


@pytest.mark.parametrize("n_items", [2, 8, 30, 500])
def test_the_free_ridge_is_free_and_shares_are_exact(n_items: int) -> None:
    share = share_of_effects(n_items)
    assert math.frexp(share)[0] == 0.5
    ridge = free_ridge(params_for(3), n_items, 4, share, 0.7)
    noise = calibrate_covariates(params_for(3), n_items, 4, ridge, share, 0.7)
    assert noise.determinant_epsilon == 0
    assert noise.sensitivity / noise.scale == pytest.approx(0.7)


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_a_row_of_a_group_takes_part_in_two_fits(adjacency: Adjacency) -> None:
    """An upset in group 0, or one in group 1 instead: fits of both groups and of all rows.

    Their densities multiply. Some output costs all of epsilon, and twice that with noise for one
    fit.
    """
    params, often = params_for(1, adjacency), 10.0**6
    theta = np.array([-20.0, 20, -60, 60, -20, 20, 60, -60, -20, 20, 0, 0])
    nothing, up, down = (0.0, 0.0), (1.0, 1.0), (-1.0, -1.0)
    others: list[Row] = [
        *((2, 0, nothing), (1, 3, nothing), (4, 6, nothing), (7, 5, nothing)),
        (8, 9, down),
    ]
    here: list[Row] = [(0, 1, up)]
    there: list[Row] = [] if adjacency is Adjacency.ADD_REMOVE else [(4, 5, down)]
    sides = [(here, [], here), ([], there, there)]  # the rows of each fit: two groups, the whole
    for copies, cost in ((2, 1.0), (1, 2.0)):
        noise = calibrate_covariates(params, 10, 2, 80.0, 0.25, 1.0, copies)
        assert noise.determinant_epsilon == 0
        losses = []
        for fits in sides:
            weights = [np.array([often] * len(others) + [1.0] * len(own)) for own in fits]
            designs = [design_of([*others, *own], 10, 2) for own in fits]
            parts = zip(designs, weights, strict=True)
            losses.append(sum(Density(*part, 10, noise).log_at(theta) for part in parts))
        assert losses[0] - losses[1] == pytest.approx(cost, rel=1e-5)


def test_bounds_of_a_person_count_in_each_fit() -> None:
    assert changed_rows(params_for(7), 5, 2) == 28
    charged = calibrate_covariates(params_for(3), N_ITEMS, 2, 1.2, 0.5, 4.0, 2)
    assert charged.sensitivity == 2 * 3 * 2 * 3.0
    assert charged.determinant_epsilon >= 6 * math.log1p(3.0 / (4 * 1.2))
    assert free_ridge(params_for(3), 8, 2, 1.0, 1.0, 2) == 2 * free_ridge(
        params_for(3), 8, 2, 1.0, 1.0
    )
