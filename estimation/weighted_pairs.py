"""S and W: all that is kept of randomised answers, as sums of integers.

For each pair i < j, over its answers, with t and p of the answer's epsilon ([XSC] eq. 3 and 4
before normalising, see `randomized_response`):

    S = sum t (noisy - p)      W = sum t^2      S / W is unbiased for F(score_i - score_j).

Each answer's terms are rounded to multiples of 2^-30 before they are summed, so the sums are the
same bits for every split of the rows into files, batches and workers. The rounding is 2^-31 a term:
below epsilon = 0.001, where t^2 is less than 270 units, it begins to show.

References:
    [XSC] Xu, Sun, Cheng. Rate-optimal rank aggregation with private pairwise rankings.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hushrank.privacy.laplace_response import GRID
from hushrank.privacy.randomized_response import attenuation, flip_thresholds

UNITS = 1 << 30  # units in 1
ROWS_AT_ONCE = 1 << 22  # times 2^30 units a row: sums in float64 stay exact integers

PairSums = NDArray[np.int64]  # shape (2, n, n): S and W in units of 2^-30


@dataclass(frozen=True, slots=True)
class WeightedPairs:
    """What randomised answers say about each pair; already private, so anyone may keep it.

    Attributes:
        s: shape (n, n), int64, strictly upper triangle, units of 2^-30; may lie outside [0, w].
        w: as `s`, at least 0.
        g: sum of t^2 over the people (not the answers), in units of 2^-30; 0 where not known.

    Raises:
        ValueError: an array has another shape or type, lies outside the triangle, or w is negative.
    """

    s: NDArray[np.int64]
    w: NDArray[np.int64]
    g: int = 0

    def __post_init__(self) -> None:
        for name, matrix in (("s", self.s), ("w", self.w)):
            if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.dtype != np.int64:
                raise ValueError(
                    f"{name} must be a square int64 matrix, got {matrix.shape} {matrix.dtype}"
                )
            if np.tril(matrix).any():
                raise ValueError(f"{name} must be zero on and below the diagonal (pairs are i < j)")
        if self.s.shape != self.w.shape:
            raise ValueError(f"s has shape {self.s.shape}, w {self.w.shape}: they must agree")
        if (self.w < 0).any() or self.g < 0:
            raise ValueError("w and g cannot be negative")

    @property
    def n_items(self) -> int:
        """Size of the public catalogue."""
        return len(self.w)

    def pair_values(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """S and W as real numbers, shape (n, n), strictly upper triangle."""
        return self.s / UNITS, self.w / UNITS


def weighted_sums(
    cells: NDArray[np.int64],
    noisy: NDArray[np.uint8],
    epsilon: float | NDArray[np.float64],
    n_items: int,
) -> PairSums:
    """S and W of one batch of randomised answers.

    Args:
        cells: shape (m,), i * n_items + j of each answer's pair, i < j.
        noisy: shape (m,), 1 where the randomised answer says that i won.
        epsilon: with which it was randomised; one for all rows, or shape (m,).
        n_items: n, size of the public catalogue.

    Returns:
        Sums of shape (2, n, n).

    Raises:
        ValueError: a cell is outside the matrix, an answer is not 0 or 1, or an epsilon is bad.
    """
    _require_binary(noisy)
    if_one, if_zero = _terms(np.atleast_1d(np.asarray(epsilon, np.float64)))
    weight = np.broadcast_to(if_one + if_zero, noisy.shape)
    return _sums(cells, np.where(noisy, if_one, if_zero), weight, n_items)


def counted_sums(cells: NDArray[np.int64], outcomes: NDArray[np.uint8], n_items: int) -> PairSums:
    """Wins of i and comparisons of each pair, in the place of S and W: `classic-rr`, `rr-counts`.

    Args:
        cells, outcomes, n_items: as `weighted_sums`.

    Raises:
        ValueError: a cell is outside the matrix, or an outcome is not 0 or 1.
    """
    _require_binary(outcomes)
    ones = np.broadcast_to(np.float64(UNITS), outcomes.shape)
    return _sums(cells, outcomes * np.float64(UNITS), ones, n_items)


def laplace_sums(cells: NDArray[np.int64], noisy: NDArray[np.int64], n_items: int) -> PairSums:
    """Sum of answers with Laplace noise, and comparisons, of each pair: `laplace-rr`.

    Args:
        cells, n_items: as `weighted_sums`.
        noisy: shape (m,), from `laplace_response.add_laplace`, in units of 1 / GRID.

    Raises:
        ValueError: a cell is outside the matrix.
        OverflowError: a noisy answer is beyond 2^21.
    """
    if (np.abs(noisy) >= GRID << 21).any():
        raise OverflowError("a noisy answer is beyond 2^21: its epsilon is too small for the sums")
    ones = np.broadcast_to(np.float64(GRID), noisy.shape)
    return _multiple(_sums(cells, noisy.astype(np.float64), ones, n_items), UNITS // GRID)


def add_sums(parts: Iterable[PairSums], n_items: int) -> PairSums:
    """Sum of the parts in any order and grouping.

    Raises:
        OverflowError: a sum does not fit into 64 bits (8 * 10^9 answers to one pair do).
    """
    total = np.zeros((2, n_items, n_items), np.int64)
    for part in parts:
        before = total.copy()
        total += part
        # The sum of two numbers wrapped if and only if its sign differs from both of theirs.
        if (((before ^ total) & (part ^ total)) < 0).any():
            raise OverflowError("a pair has too many answers for 64-bit sums")
    return total


def information_units(epsilon_of_people: NDArray[np.float64]) -> int:
    """G = sum of t^2 over people, in units of 2^-30, as the answers' weights are rounded.

    Args:
        epsilon_of_people: shape (people,), one per person: of each of their answers.
    """
    if_one, if_zero = _terms(epsilon_of_people)
    return int((if_one + if_zero).astype(np.int64).sum())


def _terms(
    epsilon: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """t (1 - p) and -t p in units. Their sum, t^2, is the weight: the same with i and j swapped."""
    t = attenuation(flip_thresholds(epsilon))
    return np.rint(t * (1 + t) * (UNITS // 2)), np.rint(t * (t - 1) * (UNITS // 2))


def _multiple(sums: PairSums, factor: int) -> PairSums:
    if (np.abs(sums) > np.iinfo(np.int64).max // factor).any():
        raise OverflowError("a pair has too many answers for 64-bit sums")
    return sums * factor


def _sums(
    cells: NDArray[np.int64],
    s_terms: NDArray[np.float64],
    w_terms: NDArray[np.float64],
    n_items: int,
) -> PairSums:
    n_cells = n_items * n_items
    if len(cells) and not 0 <= int(cells.min()) <= int(cells.max()) < n_cells:
        raise ValueError(f"cells must be between 0 and {n_cells - 1}")
    sums = np.zeros((2, n_cells), np.int64)
    for start in range(0, len(cells), ROWS_AT_ONCE):
        rows = slice(start, start + ROWS_AT_ONCE)
        for total, terms in zip(sums, (s_terms, w_terms), strict=True):
            total += np.bincount(cells[rows], terms[rows], n_cells).astype(np.int64)
    return sums.reshape(2, n_items, n_items)


def _require_binary(outcomes: NDArray[np.uint8]) -> None:
    if outcomes.dtype != np.uint8 or (outcomes > 1).any():
        raise ValueError("outcomes must be a uint8 array of 0 and 1")  # values are private
