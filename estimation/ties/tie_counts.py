"""Three counts a pair of items: the first won, the second won, they tied; and noise on all of them.

The array has shape (2, n, n): wins[a, b], how often a beat b, and ties[a, b], how often they tied,
for a < b alone; all else is zero.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hushrank.estimation.common.central_noise import Calibration, calibrate
from hushrank.estimation.common.links import Floats
from hushrank.estimation.common.matrices import Counts, integers_of
from hushrank.privacy.noise import add_noise
from hushrank.privacy.randomness import RandomBits
from hushrank.privacy.sensitivity import tie_counts_sensitivity
from hushrank.privacy.units import PrivacyParams


@dataclass(frozen=True, slots=True)
class TieCounts:
    """Outcomes of comparisons of each pair.

    Attributes:
        cells: shape (2, n, n), int64, or float64 once noisy: wins and ties, as above.
        confidential: True until noise was added.

    Raises:
        ValueError: the array has another shape or type, an entry that counts nothing is not zero,
        or a confidential count is negative.
    """

    cells: Counts
    confidential: bool = True

    def __post_init__(self) -> None:
        cells = self.cells
        if cells.ndim != 3 or cells.shape[0] != 2 or cells.shape[1] != cells.shape[2]:
            raise ValueError(f"cells must have shape (2, n, n), got {cells.shape}")
        if cells.dtype != np.int64 and (self.confidential or cells.dtype != np.float64):
            raise ValueError(f"cells must be int64, got {cells.dtype}")
        if cells[~counted_cells(self.n_items)].any():
            raise ValueError("no item meets itself, and ties are counted above the diagonal alone")
        if self.confidential and (cells < 0).any():
            raise ValueError("counts without noise cannot be negative")

    @property
    def n_items(self) -> int:
        """Size of the public catalogue."""
        return int(self.cells.shape[1])

    def of_pairs(self) -> Floats:
        """Wins of the first, wins of the second, ties, of each pair a < b: shape (3, pairs)."""
        a, b = np.triu_indices(self.n_items, 1)
        wins, ties = self.cells
        return np.stack([wins[a, b], wins[b, a], ties[a, b]]).astype(np.float64)


def counted_cells(n_items: int) -> NDArray[np.bool_]:
    """Mark the entries of the array that count something: three a pair."""
    unequal = ~np.eye(n_items, dtype=bool)
    return np.stack([unequal, np.triu(unequal)])


def calibrate_tie_counts(params: PrivacyParams, n_items: int, n_groups: int = 1) -> Calibration:
    """Noise for the three counts of each pair; it depends on public parameters only."""
    sensitivity = tie_counts_sensitivity(params, n_items, n_groups)
    return calibrate(params, sensitivity, "tie_counts_sensitivity")


def release_tie_counts(counts: TieCounts, calibration: Calibration, bits: RandomBits) -> TieCounts:
    """Add noise to all three counts of every pair, zeros too.

    Guarantee: the one of `calibration`, for counts of a log whose bounds were
    enforced, if `bits.safe`.

    Args:
        counts: confidential.
        calibration: noise from `calibrate_tie_counts`, for these items.
        bits: `system_bits()` in a release.

    Returns:
        Counts that may be published.

    Raises:
        ValueError: `counts` had noise added already.
    """
    if not counts.confidential:
        raise ValueError("counts have noise already: adding it again would not protect more")
    cells = integers_of(counts.cells)
    noisy, counted = np.zeros_like(cells), counted_cells(counts.n_items)
    noisy[counted] = add_noise(cells[counted], calibration.law, bits)
    return TieCounts(noisy, confidential=False)
