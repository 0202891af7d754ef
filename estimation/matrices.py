"""The reduced matrices that cross the seams: small, integer, and checked when made.

All counts are integers, so a sum does not depend on how the input was sharded or in which order
shards were merged. `confidential` marks a matrix without noise: the publisher refuses it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class WinCounts:
    """Comparisons won by each item.

    Attributes:
        wins: shape (n,), int64; at least 0 while confidential, of any sign once noisy.
        row_weight: what one win adds: 1, or 2 where ties were split into two halves.
        confidential: True until noise was added.

    Raises:
        ValueError: the array has another shape or type, or a confidential count is negative.
    """

    wins: NDArray[np.int64]
    row_weight: int = 1
    confidential: bool = True

    def __post_init__(self) -> None:
        if self.wins.ndim != 1 or self.wins.dtype != np.int64:
            raise ValueError(
                f"wins must be a 1-d int64 array, got {self.wins.ndim}-d {self.wins.dtype}"
            )
        if self.row_weight not in (1, 2):
            raise ValueError(f"row_weight must be 1 or 2, got {self.row_weight}")
        if self.confidential and (self.wins < 0).any():
            raise ValueError("wins without noise cannot be negative")

    @property
    def n_items(self) -> int:
        """Size of the public catalogue."""
        return len(self.wins)


@dataclass(frozen=True, slots=True)
class PairCounts:
    """Times each item beat each other.

    Attributes:
        wins: shape (n, n), int64, zero diagonal; wins[a, b] = times a beat b.
        row_weight: what one win adds: 1, or 2 where ties were split into two halves.
        confidential: True until noise was added.

    Raises:
        ValueError: the array has another shape or type, its diagonal is not zero, or a confidential
        count is negative.
    """

    wins: NDArray[np.int64]
    row_weight: int = 1
    confidential: bool = True

    def __post_init__(self) -> None:
        if (
            self.wins.ndim != 2
            or self.wins.shape[0] != self.wins.shape[1]
            or self.wins.dtype != np.int64
        ):
            raise ValueError(
                f"wins must be a square int64 matrix, got {self.wins.shape} {self.wins.dtype}"
            )
        if self.row_weight not in (1, 2):
            raise ValueError(f"row_weight must be 1 or 2, got {self.row_weight}")
        if np.diagonal(self.wins).any():
            raise ValueError("the diagonal of wins must be zero: no item meets itself")
        if self.confidential and (self.wins < 0).any():
            raise ValueError("wins without noise cannot be negative")

    @property
    def n_items(self) -> int:
        """Size of the public catalogue."""
        return len(self.wins)

    def win_counts(self) -> WinCounts:
        """Comparisons won by each item: the row sums."""
        return WinCounts(self.wins.sum(axis=1), self.row_weight, self.confidential)
