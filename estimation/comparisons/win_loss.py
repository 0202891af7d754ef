"""Ranking by noisy wins and losses of each item, where pairs met by chance (`win-loss`).

The release is the number of comparisons that each item won and the number that it lost, each with
noise of its own. What an item was shown how often is thereby known, and its share won is wins over
appearances, whatever the exposure. That makes scores, too, where an item's opponents are a chance
sample of all comparisons: then wins less losses are the sufficient statistic of the Bradley-Terry
model whose design is that of the exposures (`estimation.comparisons.exposures`). Where strong
items meet strong ones, as in a league, the pairing has to be known: use `perturbed-mle` there.

Noise: with Laplace noise of scale b on each count, the pull (wins - losses) / 2 has noise of
variance b^2 and the exposure wins + losses one of variance 4 b^2, uncorrelated. At sensitivity 4 L
for a person replaced that is half the variance of the pull that `perturbed-mle` pays for, and the
exposures come with it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hushrank.estimation.common.central_noise import Calibration, calibrate
from hushrank.estimation.common.estimate import Estimate, nothing_learned
from hushrank.estimation.common.links import LOGISTIC, Floats, Link
from hushrank.estimation.comparisons.exposures import Exposures
from hushrank.estimation.comparisons.pulls import Pulls, rank_by_pulls
from hushrank.privacy.noise import NoiseLaw, add_noise
from hushrank.privacy.randomness import RandomBits
from hushrank.privacy.sensitivity import win_loss_sensitivity
from hushrank.privacy.units import PrivacyParams

CLEAR_TOTAL = 5.0  # standard deviations of its own noise by which the total must exceed zero


@dataclass(frozen=True, slots=True)
class WinLossCounts:
    """Comparisons that each item won and lost.

    Attributes:
        wins, losses: shape (n,), int64; at least 0 while confidential, of any sign once noisy.
        row_weight: what one comparison adds to either: 1, or 2 where ties were split.
        confidential: True until noise was added.

    Raises:
        ValueError: an array has another shape or type, or a confidential count is negative.
    """

    wins: NDArray[np.int64]
    losses: NDArray[np.int64]
    row_weight: int = 1
    confidential: bool = True

    def __post_init__(self) -> None:
        for name in ("wins", "losses"):
            counts = getattr(self, name)
            if counts.shape != self.wins.shape or counts.ndim != 1 or counts.dtype != np.int64:
                raise ValueError(f"{name} must be a 1-d int64 array, one entry an item")
            if self.confidential and (counts < 0).any():
                raise ValueError(f"{name} without noise cannot be negative")
        if self.row_weight not in (1, 2):
            raise ValueError(f"row_weight must be 1 or 2, got {self.row_weight}")

    @property
    def n_items(self) -> int:
        """Size of the public catalogue."""
        return len(self.wins)


def calibrate_win_loss(params: PrivacyParams, n_items: int, row_weight: int = 1) -> Calibration:
    """Noise for wins and losses of `n_items` items; it depends on public parameters only."""
    sensitivity = win_loss_sensitivity(params, n_items, row_weight)
    return calibrate(params, sensitivity, "win_loss_sensitivity")


def release_win_loss(
    counts: WinLossCounts, calibration: Calibration, bits: RandomBits
) -> WinLossCounts:
    """Add noise to every count: counts that may be published.

    Guarantee: that for which `calibration` was made, for counts of a log whose bounds were
    enforced, if `bits.safe`.

    Args:
        counts: confidential.
        calibration: of `calibrate_win_loss`, for these items and this weight of a row.
        bits: `system_bits()` in a release.

    Raises:
        ValueError: `counts` had noise added already.
    """
    if not counts.confidential:
        raise ValueError("counts have noise already: adding it again would not protect more")
    both = add_noise(np.concatenate([counts.wins, counts.losses]), calibration.law, bits)
    n = counts.n_items
    return WinLossCounts(both[:n], both[n:], counts.row_weight, confidential=False)


def rank_by_win_loss(counts: WinLossCounts, law: NoiseLaw, link: Link = LOGISTIC) -> Estimate:
    """Rank items by their scores, with 95 % intervals, rank intervals and groups.

    Args:
        counts: noisy counts of at least 2 items.
        law: law of the noise in one count, in the counts' own integer units.
        link: F.

    Returns:
        Scores that sum to zero. A total that does not stand clear of its own noise says nothing of
        any item: scores are 0 and `informative` is False.

    Raises:
        ValueError: `counts` is confidential, or has fewer than 2 items.
    """
    if counts.confidential:
        raise ValueError("counts are confidential: only released counts may be ranked")
    if counts.n_items < 2:
        raise ValueError(f"a ranking needs at least 2 items, got {counts.n_items}")
    exposures = exposures_of(counts, law)
    total_variance = exposures.noise_variance * counts.n_items
    if exposures.values.sum() <= CLEAR_TOTAL * np.sqrt(total_variance):
        return nothing_learned(np.zeros(counts.n_items))
    return rank_by_pulls(_pulls(counts, law, exposures, link))


def exposures_of(counts: WinLossCounts, law: NoiseLaw) -> Exposures:
    """Wins and losses of each item, in comparisons."""
    appearances = (counts.wins + counts.losses) / counts.row_weight
    return Exposures(appearances, 2 * law.variance / counts.row_weight**2)


def _pulls(counts: WinLossCounts, law: NoiseLaw, exposures: Exposures, link: Link) -> Pulls:
    n, unit = counts.n_items, counts.row_weight
    values: Floats = (counts.wins - counts.losses) / (2 * unit)
    return Pulls(
        values=values,
        design=exposures.design(),
        sampling_factor=np.ones((n, n)),
        link=link,
        noise_variance=np.full(n, law.variance / (2 * unit**2)),
        exposure_variance=exposures.noise_variance,
        free_share=np.full(n, 0.5),
        kind=law.kind,
        draws=2,
    )
