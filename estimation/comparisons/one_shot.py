"""The one-shot top k: a baseline that releases the best k items and nothing else ([QSZ21]).

Noise goes on every win count, once; the k items with the largest noisy counts are reported, in
order.

Guarantee: epsilon-DP, for discrete Laplace noise of scale s / epsilon, where s is the smaller of
two charges.

For the reported items (`reported_sensitivity`), s = a k. Let one unit move each count by c at most,
and fix the noise of all items but the reported k. If the noise of each of these grows by c less the
change of its own count, all reported values grow by c alike and no other by more, so the same items
are reported in the same order, whatever rule breaks ties by the catalogue. That is a move of at
most a = 2 c each under replace-one and a = c under add-remove, where the counts move all up or all
down (down: the noise makes up for the loss); the probability of k moves changes by the factor
exp(a k / scale) at most.

For all counts, s = `win_counts_sensitivity`: the list is a function of the noisy counts, which
could all be released with that noise. One comparison moves two counts only, and L rows of a person
move them by 2 L; the first charge is the smaller one where a person counts with many rows and with
few for any one item, as under `per_item_cap` or `distinct_pairs`.

[QSZ21] have the scale 8 c sqrt(k log(n / delta)) / epsilon instead, for epsilon <= 0.2 and with a
delta. That is larger than a k / epsilon while k < 16 log(n / delta), 312 for n = 300 and
delta = 1e-6: it is not offered.

References:
    [QSZ21] Qiao, Su, Zhang. Oneshot differentially private top-k selection. 2021.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hushrank.estimation.common.central_noise import Calibration, calibrate
from hushrank.estimation.common.matrices import WinCounts, integers_of
from hushrank.privacy.noise import add_noise
from hushrank.privacy.randomness import RandomBits
from hushrank.privacy.sensitivity import Sensitivity, win_counts_sensitivity
from hushrank.privacy.units import Adjacency, NoiseKind, PrivacyParams


@dataclass(frozen=True, slots=True)
class OneShotNoise:
    """The mechanism, calibrated.

    Attributes:
        k: number of items that it reports.
        calibration: calibration of the noise on each count, which is not released.
    """

    k: int
    calibration: Calibration


def one_shot_top_k(
    counts: WinCounts, mechanism: OneShotNoise, bits: RandomBits
) -> NDArray[np.int64]:
    """Report the k items with the largest noisy win counts, best first: places in the catalogue.

    Guarantee: that for which `mechanism` was calibrated, for counts of a log whose bounds were
    enforced, if `bits.safe`.

    Args:
        counts: raw counts; they stay inside the confidential area.
        mechanism: from `calibrate_one_shot`, for these items and this weight of a row.
        bits: `system_bits()` in a release.

    Raises:
        ValueError: the counts carry noise already.
    """
    if not counts.confidential:
        raise ValueError("one-shot needs raw counts, and these carry noise: rank them directly")
    noisy = add_noise(integers_of(counts.wins), mechanism.calibration.law, bits)
    return np.argsort(-noisy, kind="stable")[: mechanism.k].astype(np.int64)


def calibrate_one_shot(
    params: PrivacyParams, n_items: int, k: int, row_weight: int = 1
) -> OneShotNoise:
    """Noise on each count; it depends on public parameters only.

    Raises:
        ValueError: `k` is not between 1 and the number of items, or the noise is not `laplace`.
    """
    if not 1 <= k <= n_items:
        raise ValueError(f"top_k must be between 1 and {n_items} (the items), got {k!r}")
    if params.weighted:
        raise ValueError("one-shot counts every row once: remove the weights")
    if params.noise is not NoiseKind.LAPLACE:
        raise ValueError("one-shot is pure DP: set noise: laplace, without delta and rho")
    found = one_shot_sensitivity(params, n_items, k, row_weight)
    return OneShotNoise(k, calibrate(params, found, "one_shot_sensitivity"))


def one_shot_sensitivity(
    params: PrivacyParams, n_items: int, k: int, row_weight: int = 1
) -> Sensitivity:
    """The smaller of two charges for the k best items: see the module's text."""
    reported = reported_sensitivity(params, n_items, k, row_weight)
    moved = min(reported.l1, win_counts_sensitivity(params, n_items, row_weight).l1)
    return Sensitivity(moved, moved**2)


def reported_sensitivity(
    params: PrivacyParams, n_items: int, k: int, row_weight: int = 1
) -> Sensitivity:
    """Bound how far the noise of k reported items moves so that they are reported again."""
    both_ways = 1 if params.adjacency is Adjacency.ADD_REMOVE else 2
    moved = both_ways * k * _largest_change(params, n_items) * row_weight
    return Sensitivity(moved, moved**2)


def _largest_change(params: PrivacyParams, n_items: int) -> int:
    """c: how far one unit moves the win count of one item."""
    most = params.max_contributions
    if params.per_item_cap is not None:
        most = min(most, params.per_item_cap)
    return min(most, n_items - 1) if params.distinct_pairs else most
