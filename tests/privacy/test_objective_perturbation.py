"""The privacy of objective perturbation, by brute force on its densities.

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
from scipy.stats import binom

from hushrank.estimation.common.links import LAPLACE, LOGISTIC, Floats, Link
from hushrank.estimation.comparisons.perturbed_mle import loss_bounds
from hushrank.estimation.fit.likelihood import Objective
from hushrank.estimation.fit.solve import minimise
from hushrank.privacy.objective_perturbation import (
    Constants,
    ObjectiveNoise,
    calibrate_noise,
    gradient_sensitivity,
    least_ridge,
)
from hushrank.privacy.units import Adjacency, NoiseKind, PrivacyParams, Unit
from tests.statistics import FALSE_POSITIVE_RATE

Bundle = tuple[tuple[int, int], ...]
BOTH_LINKS = pytest.mark.parametrize("link", [LOGISTIC, LAPLACE], ids=["logistic", "laplace"])


def params_for(
    rows: int = 1,
    adjacency: Adjacency = Adjacency.REPLACE_ONE,
    *,
    epsilon: float = 1.0,
    delta: float = 0.0,
    distinct_pairs: bool = False,
) -> PrivacyParams:
    return PrivacyParams(
        unit=Unit.USER,
        adjacency=adjacency,
        epsilon=epsilon,
        delta=delta,
        noise=NoiseKind.GAUSSIAN if delta else NoiseKind.LAPLACE,
        max_contributions=rows,
        distinct_pairs=distinct_pairs,
    )


@dataclass(frozen=True)
class Density:
    """Of the exact minimiser over R^n under Laplace noise, for a win matrix."""

    wins: Floats
    link: Link
    noise: ObjectiveNoise

    def log_at(self, theta: Floats) -> float:
        slope, curvature = self.link.derivatives(np.subtract.outer(theta, theta))
        pull, edges = self.wins * slope, self.wins * curvature
        gradient = self.noise.ridge * theta + pull.sum(axis=0) - pull.sum(axis=1)
        edges = edges + edges.T
        hessian = np.diag(edges.sum(axis=0) + self.noise.ridge) - edges
        return float(np.linalg.slogdet(hessian)[1] - np.abs(gradient).sum() / self.noise.scale)


def wins_of(rows: Bundle, n_items: int) -> Floats:
    wins = np.zeros((n_items, n_items))
    for winner, loser in rows:
        wins[winner, loser] += 1
    return wins


def worst_loss(left: Density, right: Density) -> float:
    """Largest log ratio of the densities, by search from many points."""
    generator = np.random.default_rng(3)
    n = len(left.wins)
    starts = [
        spread * np.array(order)
        for spread in (0.3, 2.0, 6.0, 30.0)
        for order in itertools.permutations(np.arange(n) - (n - 1) / 2)
    ]
    starts += list(generator.normal(0, 3, (10, n)))

    def loss(theta: Floats) -> float:
        return right.log_at(theta) - left.log_at(theta)

    best = sorted(starts, key=loss)[:4]
    found = [minimize(loss, start, method="Nelder-Mead").fun for start in best]
    return -min(min(found), loss(best[0]))


def rows_of_one_unit(n_items: int, rows: int) -> list[Bundle]:
    outcomes = list(itertools.permutations(range(n_items), 2))
    return list(itertools.combinations_with_replacement(outcomes, rows))


@BOTH_LINKS
@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize("ridge", [0.7, 5.0, 60.0])
@pytest.mark.parametrize("others", [(), ((0, 1), (1, 0), (2, 0))])
def test_no_output_tells_adjacent_inputs_apart_by_more_than_epsilon(
    link: Link, adjacency: Adjacency, ridge: float, others: Bundle
) -> None:
    """One comparison among three items, Laplace noise: every pair of inputs, the worst output.

    Ridges below and above the scale: with and without a charge for a logistic determinant.
    """
    epsilon = 1.0 if link is LOGISTIC else 3.0
    params = params_for(1, adjacency, epsilon=epsilon)
    if ridge <= least_ridge(loss_bounds(link), params, 3, epsilon):
        ridge = 1.3 * least_ridge(loss_bounds(link), params, 3, epsilon)
    noise = calibrate_noise(loss_bounds(link), params, 3, ridge, epsilon=epsilon)
    one = rows_of_one_unit(3, 1)[0]
    replacements = [()] if adjacency is Adjacency.ADD_REMOVE else rows_of_one_unit(3, 1)
    worst = 0.0
    for replacement in replacements:
        left = Density(wins_of((*others, *one), 3), link, noise)
        right = Density(wins_of((*others, *replacement), 3), link, noise)
        worst = max(worst, worst_loss(left, right), worst_loss(right, left))
    assert worst <= epsilon
    assert noise.privacy_loss == pytest.approx(epsilon, rel=1e-9)
    assert worst > 0.45 * epsilon


@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize("ridge", [8.0, 60.0])
def test_some_output_costs_all_of_epsilon(adjacency: Adjacency, ridge: float) -> None:
    """With less noise it would not be private: other comparisons can make one upset count fully.

    Items 0 and 4 are far below 1 and 5, and what the others did gives each gradient its sign.
    """
    params, often = params_for(1, adjacency), 10**5
    noise = calibrate_noise(loss_bounds(LOGISTIC), params, 8, ridge, epsilon=1.0)
    theta = np.array([-20.0, 20, -60, 60, -20, 20, 60, -60])
    others = often * wins_of(((2, 0), (1, 3), (4, 6), (7, 5)), 8)
    added = Density(others + wins_of(((0, 1),), 8), LOGISTIC, noise)
    replacement = () if adjacency is Adjacency.ADD_REMOVE else ((4, 5),)
    without = Density(others + wins_of(replacement, 8), LOGISTIC, noise)
    assert added.log_at(theta) - without.log_at(theta) == pytest.approx(1.0, rel=1e-6)


@BOTH_LINKS
@pytest.mark.parametrize("distinct_pairs", [False, True])
def test_users_with_several_rows(link: Link, distinct_pairs: bool) -> None:
    """Two rows a user, three items, the worst of all replacements."""
    epsilon, rows = 2.0, 2
    params = params_for(rows, epsilon=epsilon, distinct_pairs=distinct_pairs)
    ridge = max(2.0, 1.5 * least_ridge(loss_bounds(link), params, 3, epsilon))
    noise = calibrate_noise(loss_bounds(link), params, 3, ridge, epsilon=epsilon)
    choices = [
        bundle
        for bundle in rows_of_one_unit(3, rows)
        if not distinct_pairs or len({frozenset(row) for row in bundle}) == rows
    ]
    generator = np.random.default_rng(4)
    worst = 0.0
    for first in (((0, 1), (0, 2)), ((0, 1), (1, 2)), ((0, 1), (0, 1))):
        if first not in choices:
            continue
        for position in generator.permutation(len(choices))[:8]:
            second = choices[position]
            left, right = (Density(wins_of(own, 3), link, noise) for own in (first, second))
            worst = max(worst, worst_loss(left, right))
    assert 0.5 * epsilon < worst <= epsilon


def test_a_large_ridge_makes_the_logistic_determinant_free() -> None:
    loss = loss_bounds(LOGISTIC)
    for adjacency, l1 in ((Adjacency.ADD_REMOVE, 2), (Adjacency.REPLACE_ONE, 4)):
        params = params_for(1, adjacency, epsilon=0.5)
        above = calibrate_noise(loss, params, 10, 1.001 * l1 / 0.5, epsilon=0.5)
        assert above.scale == pytest.approx(l1 / 0.5, rel=1e-9)
        assert above.determinant_epsilon == 0
        below = calibrate_noise(loss, params, 10, 0.999 * l1 / 0.5, epsilon=0.5)
        assert below.determinant_epsilon == pytest.approx(math.log1p(0.5 / below.ridge))
        assert below.scale == pytest.approx(l1 / (0.5 - below.determinant_epsilon), rel=1e-9)
    laplace = calibrate_noise(loss_bounds(LAPLACE), params, 10, 1e3, epsilon=0.5)
    assert laplace.determinant_epsilon == pytest.approx(math.log1p(4 / 1e3))


def test_public_graph() -> None:
    params = params_for(3, epsilon=0.5)
    noise = calibrate_noise(loss_bounds(LOGISTIC), params, 10, 1e-3, epsilon=0.5, public_graph=True)
    assert noise.scale == pytest.approx(2 * 3 / 0.5)  # a quarter of the paper's 48 / 0.5 * ...
    assert noise.determinant_epsilon == 0
    laplace = calibrate_noise(
        loss_bounds(LAPLACE), params, 10, 100.0, epsilon=0.5, public_graph=True
    )
    assert laplace.determinant_epsilon == pytest.approx(3 * math.log1p(4 / 100))
    assert laplace.scale == pytest.approx(4 * 3 / (0.5 - laplace.determinant_epsilon))


def test_paper_constants() -> None:
    single = PrivacyParams(unit=Unit.COMPARISON, adjacency=Adjacency.REPLACE_ONE, epsilon=0.5)
    loss, share = loss_bounds(LOGISTIC), 0.99 * 0.5
    paper = calibrate_noise(loss, single, 300, 83.0, epsilon=share, constants=Constants.PAPER)
    tight = calibrate_noise(loss, single, 300, 83.0, epsilon=share)
    assert paper.scale == 8 / 0.5
    assert tight.scale == pytest.approx(4 / share, rel=1e-9)
    assert paper.privacy_loss == pytest.approx(0.25, rel=1e-9)  # half of what is promised
    assert least_ridge(loss, single, 300, share, constants=Constants.PAPER) == 4 * 0.25 / 0.5
    users = params_for(5, epsilon=0.5)
    assert least_ridge(loss, users, 16, share, constants=Constants.PAPER) == 8 * 5 * 0.25 / 0.5
    scale = calibrate_noise(loss, users, 16, 83.0, epsilon=share, constants=Constants.PAPER).scale
    assert scale == 8 * 5 / 0.5


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 4.0, 20.0])
@pytest.mark.parametrize("rows", [1, 7])
@BOTH_LINKS
def test_papers_constants_at_their_floor_are_private(link: Link, rows: int, epsilon: float) -> None:
    """With the tight proof as the judge; where the floor leaves too little, noise is added."""
    params, loss = params_for(rows, epsilon=epsilon), loss_bounds(link)
    floor = least_ridge(loss, params, 9, 0.99 * epsilon, constants=Constants.PAPER)
    noise = calibrate_noise(
        loss, params, 9, 1.0001 * floor, epsilon=0.99 * epsilon, constants=Constants.PAPER
    )
    assert noise.privacy_loss <= 0.99 * epsilon * (1 + 1e-12)
    assert noise.scale >= 8 * rows * loss.kappa1 / epsilon


def test_small_ridges_are_refused_with_the_least_one() -> None:
    params, loss = params_for(4, epsilon=1.0), loss_bounds(LOGISTIC)
    least = least_ridge(loss, params, 5, 1.0)
    assert 4 * math.log1p(0.5 / least) == pytest.approx(1.0)
    with pytest.raises(ValueError, match=f"ridge 1 is too small.*more than {least:.6g}"):
        calibrate_noise(loss, params, 5, 1.0, epsilon=1.0)
    assert calibrate_noise(loss, params, 5, 1.01 * least, epsilon=1.0).scale > 1e3
    with pytest.raises(ValueError, match="constants: paper need at least 8"):
        calibrate_noise(loss, params, 5, 7.9, epsilon=1.0, constants=Constants.PAPER)
    for bad in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(ValueError, match="finite and > 0"):
            calibrate_noise(loss, params, 5, bad, epsilon=1.0)


def test_gaussian_noise_is_no_zcdp() -> None:
    params = PrivacyParams(
        unit=Unit.COMPARISON,
        adjacency=Adjacency.REPLACE_ONE,
        epsilon=1.0,
        rho=0.1,
        noise=NoiseKind.GAUSSIAN,
    )
    with pytest.raises(ValueError, match="not zCDP"):
        calibrate_noise(loss_bounds(LOGISTIC), params, 5, 5.0, epsilon=1.0)


def share_of_large_losses(
    noise: ObjectiveNoise, left: Bundle, right: Bundle, draws: int
) -> tuple[int, int]:
    """How often the privacy loss at minimisers drawn under `left` exceeds epsilon.

    Item 1 beat item 0, and 0 beat 2, so often that an upset pulls with nearly all its force.
    """
    generator = np.random.default_rng(5)
    often, n = 20_000.0, 3
    wins = np.array([[0, 0, often], [often, 0, 0], [0, 0, 0]])
    wins += wins_of(left, n)
    exceed = 0
    for _ in range(draws):
        w = generator.normal(0, noise.scale, n)
        theta = minimise(Objective(wins, LOGISTIC, noise.ridge, w)).theta
        change = np.zeros(n)
        for rows, sign in ((left, 1), (right, -1)):
            for winner, loser in rows:
                slope = LOGISTIC.slope(np.array([theta[winner] - theta[loser]]))[0]
                change[[winner, loser]] += sign * slope * np.array([1, -1])
        other = w - change  # the noise that would give the same minimiser under `right`
        loss = (other @ other - w @ w) / (2 * noise.scale**2)
        exceed += bool(loss + noise.determinant_epsilon > noise.epsilon)
    return exceed, draws


@pytest.mark.parametrize("rows", [1, 3])
def test_gaussian_losses_exceed_epsilon_with_probability_delta_at_most(rows: int) -> None:
    """And the test would notice: with 60 % of the noise they do so more often."""
    epsilon, delta = 1.0, 0.02
    params = params_for(rows, epsilon=epsilon, delta=delta)
    noise = calibrate_noise(loss_bounds(LOGISTIC), params, 3, 20.0 * rows, epsilon=epsilon)
    left, right = rows * ((0, 1),), rows * ((2, 0),)
    exceed, draws = share_of_large_losses(noise, left, right, 2_000)
    assert binom.sf(exceed - 1, draws, delta) > FALSE_POSITIVE_RATE
    weaker = replace(noise, scale=0.6 * noise.scale)
    exceed, draws = share_of_large_losses(weaker, left, right, 2_000)
    assert binom.sf(exceed - 1, draws, delta) < FALSE_POSITIVE_RATE


@pytest.mark.parametrize(("rows", "n_items"), [(1, 50), (5, 50), (15, 6), (400, 200)])
def test_gaussian_tail_allows_for_several_directions(rows: int, n_items: int) -> None:
    """One direction needs the normal quantile; any number of them 5 % more at most."""
    loss, delta = loss_bounds(LOGISTIC), 1e-6
    params = params_for(rows, epsilon=1.0, delta=delta)
    noise = calibrate_noise(loss, params, n_items, 1e6, epsilon=1.0)
    x = noise.sensitivity / noise.scale
    t = (1.0 - noise.determinant_epsilon - x**2 / 2) / x
    assert 4.7534 < t < 1.05 * 4.7534
    public = calibrate_noise(loss, params, n_items, 1e6, epsilon=1.0, public_graph=True)
    y = public.sensitivity / public.scale
    assert (1.0 - y**2 / 2) / y == pytest.approx(4.7534, abs=1e-3)  # a constant change: exact


@pytest.mark.parametrize(("rows", "ridge"), [(1, 1.0), (3, 6.0)])
def test_gaussian_noise_is_for_what_the_determinant_leaves_of_epsilon(
    rows: int, ridge: float
) -> None:
    """A small ridge, whose determinant takes a good part: the rest needs the normal quantile."""
    params = params_for(rows, epsilon=1.0, delta=1e-6)
    noise = calibrate_noise(loss_bounds(LOGISTIC), params, 50, ridge, epsilon=1.0)
    assert noise.determinant_epsilon > 0.1
    x = noise.sensitivity / noise.scale
    assert (1.0 - noise.determinant_epsilon - x**2 / 2) / x > 4.7534


def test_sums_of_dependent_terms_stay_within_the_shortfall() -> None:
    """Monte Carlo on the step that the proof rests on: sums of best ends, however dependent."""
    generator, draws, delta = np.random.default_rng(6), 400_000, 1e-2
    params = params_for(6, epsilon=1.0, delta=delta)
    change = gradient_sensitivity(loss_bounds(LOGISTIC), params, 40)
    bound = calibrate_noise(loss_bounds(LOGISTIC), params, 40, 1e9, epsilon=1.0)
    tail = bound.scale * (1.0 - (bound.sensitivity / bound.scale) ** 2 / 2)
    b = generator.normal(0, 1, (draws, 40))
    aligned = np.array([[0, 1, 2]] * 6)  # item 0 loses to 1, and 2 to 0, in every term
    scattered = np.array([[3 * k, 3 * k + 1, 3 * k + 2] for k in range(6)])
    for terms in (aligned, scattered, np.array([[0, k + 1, k + 10] for k in range(6)])):
        total = np.zeros(draws)
        for item, better, worse in terms:
            first, second = b[:, item] - b[:, better], b[:, item] - b[:, worse]
            total += np.maximum(0, np.maximum(np.maximum(first, second), first + second))
        exceed = int((total > tail).sum())
        assert binom.sf(exceed - 1, draws, delta) > FALSE_POSITIVE_RATE
    assert tail <= change.l2 * 2.8  # against 2.33 of a single normal variable


def test_gaussian_paper_constants() -> None:
    params, loss = params_for(2, epsilon=1.0, delta=1e-5), loss_bounds(LOGISTIC)
    noise = calibrate_noise(loss, params, 20, 50.0, epsilon=0.99, constants=Constants.PAPER)
    expected = 2 * math.sqrt(2) * 2 * math.sqrt(8 * math.log(2 / 1e-5) + 4)
    assert noise.scale == pytest.approx(expected)
    assert noise.scale > calibrate_noise(loss, params, 20, 50.0, epsilon=0.99).scale
    assert least_ridge(loss, params, 20, 0.99, constants=Constants.PAPER) == 4 * 2 * 0.25


def test_without_privacy_there_is_no_noise() -> None:
    params = params_for(epsilon=math.inf)
    noise = calibrate_noise(loss_bounds(LOGISTIC), params, 5, 0.1, epsilon=math.inf)
    assert (noise.scale, noise.privacy_loss) == (0.0, math.inf)
