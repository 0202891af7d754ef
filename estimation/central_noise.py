"""The central mechanisms on counts: exact counts in, noisy counts and their guarantee out.

References:
    [CCW] Cai, Chakraborty, Wang. Optimal differentially private ranking from pairwise comparisons.
        2025. Algorithms 2 and 3, the latter with erratum E1 (see `privacy.sensitivity`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hushrank.estimation.matrices import OutcomeCounts, PairCounts, WinCounts, outcomes_of
from hushrank.privacy.accounting import Spend, rho_of, spend_of
from hushrank.privacy.noise import NoiseLaw, add_noise, gaussian_law, laplace_law
from hushrank.privacy.randomness import RandomBits
from hushrank.privacy.sensitivity import (
    Sensitivity,
    outcomes_sensitivity,
    pair_counts_sensitivity,
    win_counts_sensitivity,
)
from hushrank.privacy.units import NoiseKind, PrivacyParams


@dataclass(frozen=True, slots=True)
class Calibration:
    """Noise that gives a statistic its guarantee.

    Attributes:
        sensitivity: of the statistic, in its own integer units.
        law: of the noise on each entry.
        spend: what drawing it costs.
    """

    sensitivity: Sensitivity
    law: NoiseLaw
    spend: Spend


def calibrate_win_counts(params: PrivacyParams, n_items: int, row_weight: int = 1) -> Calibration:
    """Noise for the win counts of `n_items` items; it depends on public parameters only."""
    return calibrate(params, win_counts_sensitivity(params, n_items, row_weight))


def calibrate_pair_counts(params: PrivacyParams, n_items: int, row_weight: int = 1) -> Calibration:
    """Noise for the pair counts of `n_items` items; it depends on public parameters only."""
    return calibrate(params, pair_counts_sensitivity(params, n_items, row_weight))


def calibrate_outcomes(params: PrivacyParams, n_items: int, row_weight: int = 1) -> Calibration:
    """Noise for who won, of a public graph of `n_items` items; from public parameters only."""
    return calibrate(params, outcomes_sensitivity(params, n_items, row_weight))


def calibrate(params: PrivacyParams, sensitivity: Sensitivity) -> Calibration:
    """Noise for integers of this sensitivity, by the law that `params` name.

    Discrete Gaussian of variance l2^2 / (2 rho) is rho-zCDP, discrete Laplace of scale l1 / epsilon
    is epsilon-DP.
    """
    if params.noise is NoiseKind.GAUSSIAN:
        law = gaussian_law(sensitivity, rho_of(params))
    else:
        law = laplace_law(sensitivity, params.epsilon)
    return Calibration(sensitivity, law, spend_of(params))


def release_win_counts(
    counts: WinCounts, params: PrivacyParams, bits: RandomBits
) -> tuple[WinCounts, Calibration]:
    """Add noise to every win count ([CCW] Alg. 2 and 3).

    Guarantee: that of `params`, for counts of a log whose bounds were enforced, if `bits.safe`.

    Args:
        counts: confidential win counts.
        params: unit, adjacency, budget and enforced bounds.
        bits: `system_bits()` in a release.

    Returns:
        Counts that may be published, and how they were made so.

    Raises:
        ValueError: `counts` had noise added already.
    """
    if not counts.confidential:
        raise ValueError("counts have noise already: adding it again would not protect more")
    calibration = calibrate_win_counts(params, counts.n_items, counts.row_weight)
    noisy = add_noise(counts.wins, calibration.law, bits)
    return WinCounts(noisy, counts.row_weight, confidential=False), calibration


def release_pair_counts(
    counts: PairCounts, params: PrivacyParams, bits: RandomBits
) -> tuple[PairCounts, Calibration]:
    """Add noise to every entry off the diagonal, zeros too; nothing is counted on the diagonal.

    Guarantee: that of `params`, for counts of a log whose bounds were enforced, if `bits.safe`.

    Args:
        counts: confidential pair counts.
        params: unit, adjacency, budget and enforced bounds.
        bits: `system_bits()` in a release.

    Returns:
        Counts that may be published, and how they were made so.

    Raises:
        ValueError: `counts` had noise added already.
    """
    if not counts.confidential:
        raise ValueError("counts have noise already: adding it again would not protect more")
    calibration = calibrate_pair_counts(params, counts.n_items, counts.row_weight)
    pairs = ~np.eye(counts.n_items, dtype=bool)
    wins = counts.dense()
    noisy = np.zeros_like(wins)
    noisy[pairs] = add_noise(wins[pairs], calibration.law, bits)
    return PairCounts(noisy, counts.row_weight, confidential=False), calibration


def release_outcomes(
    counts: PairCounts, params: PrivacyParams, bits: RandomBits
) -> tuple[OutcomeCounts, Calibration]:
    """Where who compared what is public: totals as they are, noise on one item's wins a pair.

    Guarantee: that of `params`, for two logs whose rows differ in the outcomes of one unit's
    alone, and whose bounds were enforced, if `bits.safe`. Which pairs met, and how often, has the
    same law for both logs, and given it `outcomes_sensitivity` bounds how far wins move.

    Args:
        counts: confidential pair counts, dense or sparse.
        params: unit, budget and enforced bounds; adjacency `replace-one`.
        bits: `system_bits()` in a release.

    Returns:
        Counts that may be published, and how they were made so.

    Raises:
        ValueError: `counts` had noise added already, or the adjacency hides who took part.
    """
    exact = outcomes_of(counts)
    calibration = calibrate_outcomes(params, counts.n_items, counts.row_weight)
    return exact.with_wins(add_noise(exact.wins.data, calibration.law, bits)), calibration
