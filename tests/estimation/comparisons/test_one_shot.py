"""The one-shot baseline: its privacy by enumeration, and that it is tuned as well as it can be."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit

from hushrank.estimation.common.matrices import WinCounts
from hushrank.estimation.comparisons.noisy_counts import calibrate_one_shot, one_shot_top_k
from hushrank.privacy.noise import NoiseLaw
from hushrank.privacy.randomness import seeded_bits, system_bits
from hushrank.privacy.units import Adjacency, NoiseKind, PrivacyParams, Unit

SINGLE = PrivacyParams(unit=Unit.COMPARISON, adjacency=Adjacency.REPLACE_ONE, epsilon=1.5)
ADDED = replace(SINGLE, adjacency=Adjacency.ADD_REMOVE)
USER = PrivacyParams(
    unit=Unit.USER, adjacency=Adjacency.REPLACE_ONE, epsilon=1.0, max_contributions=7
)


def report_probabilities(wins: list[int], k: int, scale: float) -> dict[tuple[int, ...], float]:
    """Chance of each report, by summing over noise up to 12 scales: right to 1 part in 10^4."""
    reach = int(12 * scale)
    noise = np.arange(-reach, reach + 1)
    weight = np.exp(-np.abs(noise) / scale)
    weight /= weight.sum()
    values = [count + noise for count in wins]
    grid = np.meshgrid(*values, indexing="ij")
    mass = np.einsum("i,j,k->ijk", weight, weight, weight)
    order = np.argsort(-np.stack(grid), axis=0, kind="stable")[:k]
    return {
        report: float(mass[(order == np.reshape(report, (k, 1, 1, 1))).all(axis=0)].sum())
        for report in itertools.permutations(range(3), k)
    }


CAPPED = replace(USER, epsilon=2.0, max_contributions=3, per_item_cap=2)


def moves_of(params: PrivacyParams) -> list[list[int]]:
    """How one unit moves the wins of three items: every bundle, or every two of them."""
    if params.unit is Unit.COMPARISON:
        bundles = np.eye(3, dtype=int).tolist()
    else:
        most = params.per_item_cap or params.max_contributions
        wins = itertools.product(range(most + 1), repeat=3)
        bundles = [list(each) for each in wins if sum(each) <= params.max_contributions]
    if params.adjacency is Adjacency.ADD_REMOVE:
        return bundles
    return [list(np.subtract(up, down)) for up in bundles for down in bundles]


@pytest.mark.parametrize("k", [1, 2])
@pytest.mark.parametrize(
    "params",
    [SINGLE, ADDED, CAPPED, replace(CAPPED, adjacency=Adjacency.ADD_REMOVE)],
    ids=["replace-one", "add-remove", "cap, replace-one", "cap, add-remove"],
)
def test_no_report_tells_neighbours_apart_by_more_than_epsilon(
    params: PrivacyParams, k: int
) -> None:
    """Three items, all their neighbours; with half of the noise the promise breaks."""
    left = [4, 3, 3]

    def worst(scale: float) -> float:
        left_probabilities = report_probabilities(left, k, scale)
        return max(
            abs(math.log(left_probabilities[report] / chance))
            for move in moves_of(params)
            for report, chance in report_probabilities(list(np.add(left, move)), k, scale).items()
        )

    scale = law_of(params, 3, k).scale
    assert worst(scale) <= params.epsilon * 1.001
    assert worst(scale / 2) > params.epsilon


def law_of(params: PrivacyParams, n_items: int, k: int, row_weight: int = 1) -> NoiseLaw:
    return calibrate_one_shot(params, n_items, k, row_weight).calibration.law


def test_scale_follows_the_smaller_of_two_charges() -> None:
    """One comparison moves one count up and one down, whatever k is."""
    capped = replace(USER, per_item_cap=2)
    distinct = replace(USER, distinct_pairs=True)
    for law, expected in (
        (law_of(SINGLE, 9, 3), 2 / 1.5),
        (law_of(ADDED, 9, 3), 1 / 1.5),
        (law_of(SINGLE, 9, 3, row_weight=2), 2 * 2 / 1.5),
        (law_of(USER, 9, 3), 2 * 7),
        (law_of(capped, 9, 3), 2 * 3 * 2),  # three items, by 2 each way
        (law_of(distinct, 5, 1), 2 * 4),
        (law_of(distinct, 5, 3), 2 * 7),
    ):
        assert expected <= law.scale <= expected * (1 + 1e-12)


def test_without_noise_it_reports_the_best_in_order() -> None:
    counts = WinCounts(np.array([5, 9, 9, 1], np.int64))
    mechanism = calibrate_one_shot(replace(SINGLE, epsilon=math.inf), 4, 3)
    top = one_shot_top_k(counts, mechanism, system_bits())
    assert top.tolist() == [1, 2, 0]
    assert math.isinf(mechanism.calibration.spend.epsilon)


def test_baseline_beats_chance_clearly() -> None:
    """300 items, every pair compared once, epsilon 5, the best 75: chance misses 75 %."""
    generator, misses = np.random.default_rng(1), []
    n, k = 300, 75
    for seed in range(20):
        scores = np.log(np.where(np.arange(n) < k, 1.0, generator.uniform(0.2, 0.7, n)))
        won = generator.random((n, n)) < expit(np.subtract.outer(scores, scores))
        upper = np.triu(won, 1)
        wins = upper.sum(axis=1) + np.tril(~upper.T, -1).sum(axis=1)
        mechanism = calibrate_one_shot(replace(SINGLE, epsilon=5.0), n, k)
        top = one_shot_top_k(WinCounts(wins.astype(np.int64)), mechanism, seeded_bits(seed))
        misses.append(np.mean(top >= k))
    assert np.mean(misses) < 0.5


def test_misuse_is_refused() -> None:
    counts = WinCounts(np.array([5, 9, 9, 1], np.int64))
    for k in (0, 5):
        with pytest.raises(ValueError, match=f"top_k must be between 1 and 4 .the items., got {k}"):
            calibrate_one_shot(SINGLE, 4, k)
    gaussian = replace(SINGLE, noise=NoiseKind.GAUSSIAN, delta=1e-6)
    with pytest.raises(ValueError, match="noise: laplace"):
        calibrate_one_shot(gaussian, 4, 1)
    with pytest.raises(ValueError, match="raw counts"):
        one_shot_top_k(
            replace(counts, confidential=False), calibrate_one_shot(SINGLE, 4, 1), system_bits()
        )
