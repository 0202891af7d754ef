"""Booklets: intervals hold what they say, and gaps that are by design are seen."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import expit
from scipy.stats import binomtest

from hushrank.estimation.responses.item_graph import booklet_graph, complete_graph
from hushrank.estimation.responses.measurements import (
    calibrate_measurements,
    measurements_of_block,
    measurements_on,
    release_measurements,
)
from hushrank.estimation.responses.pair_balance import booklet_shares
from hushrank.estimation.responses.spectral_estimate import SpectralEstimate, estimate_difficulties
from hushrank.privacy.randomness import seeded_bits
from hushrank.privacy.units import Adjacency, NoiseKind, PrivacyParams, Unit
from tests.statistics import FALSE_POSITIVE_RATE

BLOCK, BLOCKS = 6, 8  # as in TIMSS: booklet b has blocks b and b + 1, in a circle
N_ITEMS = BLOCK * BLOCKS
BOOKLETS = tuple(
    tuple(sorted({*range(b * BLOCK, (b + 1) * BLOCK)} | {*range(c * BLOCK, (c + 1) * BLOCK)}))
    for b, c in ((b, (b + 1) % BLOCKS) for b in range(BLOCKS))
)
TRIALS = 40  # simulated tests; one item in six of each counts, so that misses are nearly alone


@dataclass(frozen=True)
class Setting:
    """A test with booklets."""

    epsilon: float = 4.0
    apart: float = 0.0  # by how much abilities differ between the first booklet and the last
    uneven: bool = False  # twice as many people have the last booklets as the first ones
    known: bool = True


def simulated(setting: Setting, seed: int) -> tuple[NDArray[np.float64], SpectralEstimate]:
    """True difficulties and the estimate from one simulated release."""
    random = np.random.default_rng(seed)
    true = random.normal(size=N_ITEMS)
    true -= true.mean()
    y = np.zeros((N_ITEMS, N_ITEMS), np.int64)
    for booklet, items in enumerate(BOOKLETS):
        place = booklet / (BLOCKS - 1) - 0.5
        people = int(400 * (1 + 2 / 3 * place * setting.uneven))
        ability = random.normal(setting.apart * place, 1, (people, 1))
        answered = np.zeros((people, N_ITEMS), np.bool_)
        answered[:, items] = True
        right = (random.random(answered.shape) < expit(ability - true)) & answered
        y += measurements_of_block(right, answered)
    booklets = BOOKLETS if setting.known else ()
    graph = booklet_graph(N_ITEMS, BOOKLETS) if setting.known else complete_graph(N_ITEMS)
    params = PrivacyParams(
        unit=Unit.USER,
        adjacency=Adjacency.REPLACE_ONE,
        epsilon=setting.epsilon,
        delta=1e-6,
        noise=NoiseKind.GAUSSIAN,
        max_contributions=2 * BLOCK,
    )
    calibration = calibrate_measurements(params, N_ITEMS, graph.n_edges)
    released = release_measurements(measurements_on(graph, y), calibration, seeded_bits(seed))
    return true, estimate_difficulties(released, calibration.law, 2 * BLOCK, booklets)


def held(setting: Setting) -> tuple[int, int, float]:
    """Intervals that hold the truth, all intervals, and the slope of scores on the truth."""
    inside, slopes = [], []
    for seed in range(TRIALS):
        true, found = simulated(setting, seed)
        low, high = found.estimate.low, found.estimate.high
        own = np.arange(seed % 6, N_ITEMS, 6)
        inside += ((low <= true) & (true <= high))[own].tolist()
        slopes.append(float(np.polyfit(true, found.estimate.scores, 1)[0]))
    return sum(inside), len(inside), float(np.mean(slopes))


@pytest.mark.parametrize(
    "setting",
    [
        Setting(),
        pytest.param(Setting(apart=1.0, uneven=True), marks=pytest.mark.soak),
        pytest.param(Setting(epsilon=1.0), marks=pytest.mark.soak),
    ],
)
def test_intervals_hold_92_to_98_percent(setting: Setting) -> None:
    good, trials, slope = held(setting)
    assert binomtest(good, trials, 0.92, "less").pvalue > FALSE_POSITIVE_RATE
    assert binomtest(good, trials, 0.98, "greater").pvalue > FALSE_POSITIVE_RATE
    assert 0.93 < slope < 1.03


def test_without_booklets_they_hold_less_and_the_counts_show_why() -> None:
    good, trials, _ = held(Setting(known=False))
    assert binomtest(good, trials, 0.93, "less").pvalue < FALSE_POSITIVE_RATE
    for epsilon in (1.0, 4.0):
        assert simulated(Setting(epsilon=epsilon, known=False), 0)[1].uneven > 1
        assert simulated(Setting(epsilon=epsilon), 0)[1].uneven == 0


def test_who_had_which_booklet_is_found_from_sums_of_counts() -> None:
    members = np.zeros((BLOCKS, N_ITEMS))
    for booklet, items in enumerate(BOOKLETS):
        members[booklet, list(items)] = 1
    people = np.linspace(1, 3, BLOCKS)
    totals = 50 * (members.T * people) @ members
    np.fill_diagonal(totals, 0)
    assert booklet_shares(totals, 0.0, members) == pytest.approx(people / people.mean(), rel=1e-6)
    drowned = totals + np.random.default_rng(1).normal(0, 1e5, totals.shape)
    shares = booklet_shares(drowned + drowned.T, 1e10, members)
    assert np.abs(shares - 1).max() < 0.5


@pytest.mark.parametrize("hard", [False, True])
def test_an_item_that_nobody_misses_or_solves_opens_no_other_interval(hard: bool) -> None:
    random = np.random.default_rng(5)
    true = random.normal(size=28)
    right = random.random((2922, 28)) < expit(random.normal(size=(2922, 1)) - true)
    right[:, 0] = not hard
    answered = np.ones(right.shape, np.bool_)
    graph = complete_graph(28)
    params = PrivacyParams(
        unit=Unit.USER,
        adjacency=Adjacency.REPLACE_ONE,
        epsilon=2.0,
        delta=1e-6,
        noise=NoiseKind.GAUSSIAN,
        max_contributions=28,
    )
    calibration = calibrate_measurements(params, 28, graph.n_edges)
    counts = measurements_on(graph, measurements_of_block(right, answered))
    released = release_measurements(counts, calibration, seeded_bits(1))
    found = estimate_difficulties(released, calibration.law, 28).estimate
    opened = np.isinf(found.low) | np.isinf(found.high)
    assert opened.tolist() == [True] + [False] * 27
    assert np.median((found.high - found.low)[1:]) < 0.25  # 0.19 without that item
    truth = true[1:] - true[1:].mean()
    inside = (found.low[1:] <= truth) & (truth <= found.high[1:])
    assert inside.sum() >= 22
