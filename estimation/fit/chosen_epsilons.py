"""Epsilons that people chose for their answers, and the worth of each choice.

Randomised response hides what was answered, not with which epsilon. So this may be counted and
shown wherever the answers are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hushrank.estimation.common.links import Floats
from hushrank.estimation.fit.weighted_pairs import ROWS_AT_ONCE, Chosen, pulls

BINS = 20
COARSE = 1 << 20  # units in 1 of the information of a bin: 8 * 10^12 answers fit into 64 bits


@dataclass(frozen=True, slots=True)
class EpsilonBins:
    """Bins of equal width between the public bounds of the epsilons, which differ.

    Attributes:
        low, high: the bounds.
        cap: see `weighted_pairs.weighted_terms`.
    """

    low: float
    high: float
    cap: float | None = None

    def edges(self) -> Floats:
        """Shape (BINS + 1,)."""
        return np.linspace(self.low, self.high, BINS + 1)

    def count(self, epsilon: Floats) -> Chosen:
        """Answers of each bin, and the sum of their a t, by which they count in the fit.

        Each answer's term is rounded before it is summed, so the sums do not depend on batches.

        Args:
            epsilon: shape (m,), within the bounds.
        """
        total, inner = np.zeros((2, BINS), np.int64), self.edges()[1:-1]
        for start in range(0, len(epsilon), ROWS_AT_ONCE):
            rows = epsilon[start : start + ROWS_AT_ONCE]
            places = np.searchsorted(inner, rows, side="right")
            a, t = pulls(rows, self.cap)
            total[0] += np.bincount(places, minlength=BINS)
            total[1] += np.bincount(places, np.rint(a * t * COARSE), BINS).astype(np.int64)
        return total


@dataclass(frozen=True, slots=True)
class Weighing:
    """Rule for how much privatised answers count, and whether their epsilons are counted.

    Where they are, the sums of answers alike are kept as well (`alike`).

    Attributes:
        cap: see `weighted_pairs.weighted_terms`.
        bins: bins of epsilons; None: they are not counted.
    """

    cap: float | None = None
    bins: EpsilonBins | None = None

    @property
    def least(self) -> float | None:
        """The argument `least` of `weighted_pairs.weighted_terms`."""
        return None if self.bins is None else self.bins.low

    @property
    def rows(self) -> int:
        """Number of sums that are kept of a pair."""
        return 2 if self.bins is None else 6

    def chosen(self, epsilon: Floats) -> Chosen:
        """Counts by epsilon, shape (2, bins)."""
        return self.nothing() if self.bins is None else self.bins.count(epsilon)

    def nothing(self) -> Chosen:
        """Counts of no answers."""
        return np.zeros((2, 0 if self.bins is None else BINS), np.int64)


PLAIN = Weighing()


def weight_of_lies(chosen: Chosen, bins: EpsilonBins) -> float:
    """A: if a share x of the answers lies, shares of wins move by at most about A x.

    An answer at the upper end of the range pulls by a(high); a pair's share of wins is S / W. So k
    lies among the answers to a pair move its share by at most k a(high) / W, whatever epsilons
    they claim. Where lies are spread like the answers, that is A k / N with A = a(high) / (W / N).
    A is 1 / t where all answers have one epsilon, and so never below 1.

    Args:
        chosen: counts from `EpsilonBins.count`; there are answers.
        bins: bins of the counts.
    """
    a, _ = pulls(np.array([bins.high]), bins.cap)
    answers, information = (int(part.sum()) for part in chosen)
    return float(a[0]) * answers / max(information / COARSE, np.finfo(float).tiny)


def shares(chosen: Chosen) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Share of the answers, and share of the information, of each bin; both sum to 1."""
    answers, information = chosen / np.maximum(chosen.sum(axis=1, keepdims=True), 1)
    return answers, information
