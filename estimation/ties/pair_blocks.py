"""Sums over pairs as matrices of items, for a fit of scores, log exposures and the tie parameter.

Parameters are in this order: n scores, n log exposures (where they are fitted), and t. A pair a < b
enters by d = score_a - score_b, by the log of how often it met, and by t.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hushrank.estimation.common.links import Floats


@dataclass(frozen=True, slots=True)
class Pairs:
    """The pairs a < b of n items.

    Attributes:
        n_items: n.
        first, second: shape (pairs,).
    """

    n_items: int
    first: NDArray[np.intp]
    second: NDArray[np.intp]

    @classmethod
    def of(cls, n_items: int) -> Pairs:
        """All pairs."""
        return cls(n_items, *np.triu_indices(n_items, 1))

    def gaps(self, values: Floats) -> Floats:
        """values[a] - values[b], shape (pairs,)."""
        return np.asarray(values[self.first] - values[self.second])

    def sums(self, values: Floats) -> Floats:
        """values[a] + values[b], shape (pairs,)."""
        return np.asarray(values[self.first] + values[self.second])

    def to_items(self, values: Floats, sign: int) -> Floats:
        """Sum over pairs of value (e_a + sign e_b), shape (n,)."""
        at_first = np.bincount(self.first, values, self.n_items)
        return np.asarray(at_first + sign * np.bincount(self.second, values, self.n_items))

    def matrix(self, values: Floats) -> Floats:
        """values in a symmetric matrix of items, shape (n, n)."""
        found = np.zeros((self.n_items, self.n_items))
        found[self.first, self.second] = values
        return found + found.T

    def gaps_by_gaps(self, values: Floats) -> Floats:
        """Sum over pairs of value (e_a - e_b)(e_a - e_b)': a Laplacian."""
        whole = self.matrix(values)
        return np.asarray(np.diag(whole.sum(axis=1)) - whole)

    def sums_by_sums(self, values: Floats) -> Floats:
        """Sum over pairs of value (e_a + e_b)(e_a + e_b)'."""
        whole = self.matrix(values)
        return np.asarray(np.diag(whole.sum(axis=1)) + whole)

    def gaps_by_sums(self, values: Floats) -> Floats:
        """Sum over pairs of value (e_a - e_b)(e_a + e_b)'."""
        found = np.zeros((self.n_items, self.n_items))
        found[self.first, self.second], found[self.second, self.first] = values, -values
        return np.asarray(np.diag(found.sum(axis=1)) + found)

    def with_exposures(self, weight: Floats, by_gap: Floats, by_tie: Floats) -> Floats:
        """Sum over pairs and outcomes of weight x x', x being an outcome's slopes.

        Args:
            weight: shape (3, pairs), as the slopes are.
            by_gap, by_tie: in d and in t; that in the log of how often the pair met is 1.
        """
        return np.block(
            [
                [
                    self.gaps_by_gaps((weight * by_gap**2).sum(axis=0)),
                    self.gaps_by_sums((weight * by_gap).sum(axis=0)),
                    self.to_items((weight * by_gap * by_tie).sum(axis=0), -1)[:, np.newaxis],
                ],
                [
                    self.gaps_by_sums((weight * by_gap).sum(axis=0)).T,
                    self.sums_by_sums(weight.sum(axis=0)),
                    self.to_items((weight * by_tie).sum(axis=0), 1)[:, np.newaxis],
                ],
                [
                    self.to_items((weight * by_gap * by_tie).sum(axis=0), -1),
                    self.to_items((weight * by_tie).sum(axis=0), 1),
                    np.full(1, (weight * by_tie**2).sum()),
                ],
            ]
        )

    def without_exposures(self, weight: Floats, by_gap: Floats, by_tie: Floats) -> Floats:
        """The same of scores and t alone."""
        cross = self.to_items((weight * by_gap * by_tie).sum(axis=0), -1)[:, np.newaxis]
        scores = self.gaps_by_gaps((weight * by_gap**2).sum(axis=0))
        return np.block([[scores, cross], [cross.T, np.full((1, 1), (weight * by_tie**2).sum())]])


def known_of(information: Floats, wanted: slice) -> Floats:
    """Information about some parameters where the others are not known: the Schur complement.

    Args:
        information: about all, symmetric; that about the others has an inverse.
        wanted: which.
    """
    others = np.ones(len(information), bool)
    others[wanted] = False
    cross = information[wanted][:, others]
    shared = cross @ np.linalg.solve(information[np.ix_(others, others)], cross.T)
    known = information[wanted, wanted] - shared
    return np.asarray((known + known.T) / 2)
