"""The central mechanisms on counts: exact counts in, noisy counts and their guarantee out.

References:
    [CCW] Cai, Chakraborty, Wang. Optimal differentially private ranking from pairwise comparisons.
        2025. Algorithms 2 and 3, the latter with erratum E1 (see `privacy.sensitivity`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from hushrank.estimation.common.matrices import (
    OutcomeCounts,
    PairCounts,
    WinCounts,
    WinLossCounts,
    integers_of,
    outcomes_of,
)
from hushrank.privacy.accounting import Spend, spend_of
from hushrank.privacy.noise import NoiseLaw, add_noise, gaussian_law, laplace_law
from hushrank.privacy.randomness import RandomBits
from hushrank.privacy.row_weights import Counted, weighted_sensitivity
from hushrank.privacy.sensitivity import (
    Sensitivity,
    exposures_sensitivity,
    outcomes_sensitivity,
    pair_counts_sensitivity,
    win_counts_sensitivity,
    win_loss_sensitivity,
)
from hushrank.privacy.units import NoiseKind, PrivacyParams


@dataclass(frozen=True, slots=True)
class Calibration:
    """Noise that gives a statistic its guarantee: what draws is what is stated.

    Attributes:
        sensitivity: sensitivity of the statistic, in its own integer units.
        derivation: the function whose docstring derives the sensitivity.
        law: law of the noise on each entry.
        spend: cost of one draw.
    """

    sensitivity: Sensitivity
    derivation: str
    law: NoiseLaw
    spend: Spend


def calibrate_win_counts(
    params: PrivacyParams, n_items: int, row_weight: int = 1, n_groups: int = 1
) -> Calibration:
    """Noise for the win counts of `n_items` items; it depends on public parameters only."""
    sensitivity = win_counts_sensitivity(params, n_items, row_weight, n_groups)
    return calibrate(params, sensitivity, "win_counts_sensitivity")


def calibrate_win_loss(
    params: PrivacyParams, n_items: int, row_weight: int = 1, n_groups: int = 1
) -> Calibration:
    """Noise for wins and losses of `n_items` items; it depends on public parameters only."""
    sensitivity = win_loss_sensitivity(params, n_items, row_weight, n_groups)
    return calibrate(params, sensitivity, "win_loss_sensitivity")


def calibrate_pair_counts(
    params: PrivacyParams, n_items: int, row_weight: int = 1, n_groups: int = 1
) -> Calibration:
    """Noise for the pair counts of `n_items` items; it depends on public parameters only."""
    sensitivity = pair_counts_sensitivity(params, n_items, row_weight, n_groups)
    return calibrate(params, sensitivity, "pair_counts_sensitivity")


def calibrate_exposures(
    params: PrivacyParams, epsilon: float, n_items: int, row_weight: int = 1
) -> Calibration:
    """Laplace noise for how often each item was compared, at an epsilon of its own.

    Laplace noise whatever `params` name: it costs no delta.
    """
    sensitivity = exposures_sensitivity(params, n_items, row_weight)
    pure = replace(params, epsilon=epsilon, delta=0.0, rho=None, noise=NoiseKind.LAPLACE)
    return calibrate(pure, sensitivity, "exposures_sensitivity")


def calibrate_outcomes(params: PrivacyParams, n_items: int, row_weight: int = 1) -> Calibration:
    """Noise for who won, of a public graph of `n_items` items; from public parameters only."""
    sensitivity = outcomes_sensitivity(params, n_items, row_weight)
    return calibrate(params, sensitivity, "outcomes_sensitivity")


def calibrate_weighted(
    params: PrivacyParams, counted: Counted, n_items: int, row_weight: int = 1
) -> tuple[Calibration, int]:
    """Noise for counts of weighted rows and their sum of squares; and what divides that sum."""
    found = weighted_sensitivity(params, counted, n_items, row_weight)
    return calibrate(params, found.whole, "weighted_sensitivity"), found.divisor


def calibrate(params: PrivacyParams, sensitivity: Sensitivity, derivation: str) -> Calibration:
    """Noise for integers of this sensitivity, by the law that `params` name.

    Discrete Laplace of scale l1 / epsilon is epsilon-DP. Discrete Gaussian of variance
    l2^2 / (2 rho) is rho-zCDP; where `params` name epsilon and delta, rho is the largest at which
    it is (epsilon, delta)-DP, by the theorem of `privacy.gaussian_profile`, or by zCDP where that
    gives more.
    """
    spend = spend_of(params, sensitivity.l2_squared)
    if spend.rho is None:
        law = laplace_law(sensitivity, params.epsilon)
    else:
        law = gaussian_law(sensitivity, spend.rho)
    return Calibration(sensitivity, derivation, law, spend)


def law_of_sum(law: NoiseLaw, draws: int) -> NoiseLaw:
    """Law that the sum of so many draws of `law` is taken to have: normal, of the same variance.

    For estimates from a sum of released counts, such as the whole of several groups.
    """
    if draws == 1:
        return law
    return NoiseLaw(NoiseKind.GAUSSIAN, math.sqrt(draws * law.variance))


def release_win_counts(counts: WinCounts, calibration: Calibration, bits: RandomBits) -> WinCounts:
    """Add noise to every win count ([CCW] Alg. 2 and 3): counts that may be published.

    Guarantee: the one of `calibration`, for counts of a log whose bounds were
    enforced, if `bits.safe`.

    Args:
        counts: confidential win counts.
        calibration: noise from `calibrate_win_counts`, for these items and this weight of a row.
        bits: `system_bits()` in a release.

    Raises:
        ValueError: `counts` had noise added already.
    """
    _check_without_noise(counts)
    noisy = add_noise(integers_of(counts.wins), calibration.law, bits)
    return WinCounts(noisy, counts.row_weight, confidential=False)


def release_win_loss(
    counts: WinLossCounts, calibration: Calibration, bits: RandomBits
) -> WinLossCounts:
    """Add noise to every count: counts that may be published.

    Guarantee: the one of `calibration`, for counts of a log whose bounds were
    enforced, if `bits.safe`.

    Args:
        counts: confidential.
        calibration: noise from `calibrate_win_loss`, for these items and this weight of a row.
        bits: `system_bits()` in a release.

    Raises:
        ValueError: `counts` had noise added already.
    """
    _check_without_noise(counts)
    both = add_noise(np.concatenate([counts.wins, counts.losses]), calibration.law, bits)
    n = counts.n_items
    return WinLossCounts(both[:n], both[n:], counts.row_weight, confidential=False)


def release_pair_counts(
    counts: PairCounts,
    calibration: Calibration,
    bits: RandomBits,
    asked: NDArray[np.bool_] | None = None,
) -> PairCounts:
    """Add noise to every entry off the diagonal, zeros too; nothing is counted on the diagonal.

    Nothing is counted, and nothing drawn, for pairs that nobody was asked about, either.

    Guarantee: the one of `calibration`, for counts of a log whose bounds were
    enforced, if `bits.safe`.

    Args:
        counts: confidential pair counts.
        calibration: noise from `calibrate_pair_counts`, for these items and this weight of a row.
        bits: `system_bits()` in a release.
        asked: the pairs that rows may be of, public, symmetric, of shape (n, n); None: all.

    Returns:
        Counts that may be published.

    Raises:
        ValueError: `counts` had noise added already, or hold a pair that was not asked about.
    """
    _check_without_noise(counts)
    pairs = ~np.eye(counts.n_items, dtype=bool) if asked is None else asked
    wins = integers_of(counts.dense())
    if wins[~pairs].any():
        raise ValueError("counts hold rows on pairs that were not asked about: filter them before")
    noisy = np.zeros_like(wins)
    noisy[pairs] = add_noise(wins[pairs], calibration.law, bits)
    return PairCounts(noisy, counts.row_weight, confidential=False)


def release_outcomes(
    counts: PairCounts, calibration: Calibration, bits: RandomBits
) -> OutcomeCounts:
    """Release outcomes of a public graph: exact totals, and noise on one item's wins of each pair.

    Guarantee: the one of `calibration`, for two logs whose rows differ in the outcomes
    of one unit's alone, and whose bounds were enforced, if `bits.safe`. Which pairs met, and how
    often, has the same law for both logs, and given it `outcomes_sensitivity` bounds how far wins
    move.

    Args:
        counts: confidential pair counts, dense or sparse.
        calibration: noise from `calibrate_outcomes`, for these items and this weight of a row.
        bits: `system_bits()` in a release.

    Returns:
        Counts that may be published.

    Raises:
        ValueError: `counts` had noise added already.
    """
    exact = outcomes_of(counts)
    return exact.with_wins(add_noise(exact.wins.data, calibration.law, bits))


def release_squares(
    squares: NDArray[np.int64], divisor: int, calibration: Calibration, bits: RandomBits
) -> NDArray[np.int64]:
    """Add noise to the sum of squared weights: one more entry of the vector of counts.

    Guarantee: together with counts that get noise by the same calibration, of
    `calibrate_weighted`, that for which it was made.

    Args:
        squares: exact, shape (1,), in squared units.
        divisor: divisor of the squares, from `calibrate_weighted`.
        calibration: noise of the counts.
        bits: `system_bits()` in a release.

    Returns:
        Shape (1,), in units of `divisor`.
    """
    return add_noise(squares // divisor, calibration.law, bits)


def _check_without_noise(counts: WinCounts | WinLossCounts | PairCounts) -> None:
    if not counts.confidential:
        raise ValueError("counts have noise already: adding it again would not protect more")
