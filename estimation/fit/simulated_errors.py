"""Errors of the scores of many items, whose covariance matrix would not fit: by simulation.

The errors of a fit are H^-1 z, where H is the Laplacian A of its pairs plus a ridge and z has a
covariance that is known (see `pair_fit`). Its part from the pairs is the Laplacian of a graph, so a
draw of z costs one coin a pair: its sign times the root of the pair's weight, along the pair. The
system is sparse, and solved by conjugate
gradients. `DRAWS` of them give the variance of each score without bias, at a relative error of
sqrt(2 / DRAWS); quantiles of Student's t with as many degrees of freedom allow for it. Memory is
linear in the pairs that met. How well items are connected counts in full: a score that hangs on one
pair has the error of that pair, and those behind it.

The coins are no secret and no guarantee rests on them. They follow from a fixed seed, so that one
release has the same intervals however often it is estimated.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray
from scipy.special import stdtrit

from hushrank.estimation.common.links import Floats
from hushrank.estimation.fit.solve import ConvergenceError
from hushrank.privacy.randomness import RandomBits, seeded_bits

DRAWS = 100
SEED = 0  # of the coins
TOLERANCE = 1e-6  # of a residual, relative to z
MOST_STEPS = 20_000  # of conjugate gradients


@dataclass(frozen=True, slots=True)
class SimulatedVariances:
    """Variances of the errors of n scores.

    Attributes:
        of_scores: shape (n,).
        draws: simulated errors of which each is the mean square.
    """

    of_scores: Floats
    draws: int

    def reach(self, tail: float) -> Floats:
        """What each error exceeds with chance `tail`, shape (n,)."""
        return np.asarray(-stdtrit(self.draws, tail) * np.sqrt(self.of_scores))


@dataclass(frozen=True, slots=True)
class Edges:
    """Pairs of n items, each once.

    Attributes:
        low, high: shape (m,), the two items of each pair.
        n_items: n.
    """

    low: NDArray[np.int32]
    high: NDArray[np.int32]
    n_items: int

    @classmethod
    def of(cls, pairs: scipy.sparse.csr_array) -> Edges:
        """The pairs that a matrix stores, row by row."""
        n_items = int(pairs.shape[0])
        low = np.repeat(np.arange(n_items, dtype=np.int32), np.diff(pairs.indptr))
        return cls(low, pairs.indices.astype(np.int32), n_items)

    def differences(self, scores: Floats) -> Floats:
        """Score of `low` less that of `high`, shape (m,)."""
        return np.asarray(scores[self.low] - scores[self.high])

    def sums(self, values: Floats) -> Floats:
        """Sum of the values of each item's pairs, shape (n,): the diagonal of their Laplacian."""
        of_low = np.bincount(self.low, values, self.n_items)
        return np.asarray(of_low + np.bincount(self.high, values, self.n_items))

    def along(self, values: Floats) -> Floats:
        """Sum over pairs of the value times (e_low - e_high), shape (n,)."""
        of_low = np.bincount(self.low, values, self.n_items)
        return np.asarray(of_low - np.bincount(self.high, values, self.n_items))

    def laplacian(self, weights: Floats, diagonal: float) -> scipy.sparse.csr_array:
        """Laplacian of these weights plus `diagonal` times the identity, shape (n, n)."""
        ends = (np.concatenate([self.low, self.high]), np.concatenate([self.high, self.low]))
        shape = (self.n_items, self.n_items)
        off = scipy.sparse.csr_array((np.concatenate([weights, weights]), ends), shape=shape)
        return scipy.sparse.csr_array(scipy.sparse.diags_array(self.sums(weights) + diagonal) - off)


@dataclass(frozen=True, slots=True)
class EdgeSystem:
    """H, the Laplacian A of weights on edges plus a ridge: what it takes to solve by it.

    Attributes:
        edges: the pairs that met.
        matrix: shape (n, n).
    """

    edges: Edges
    matrix: scipy.sparse.csr_array

    @classmethod
    def of(cls, edges: Edges, weights: Floats, ridge: float) -> EdgeSystem:
        """Of weights of shape (m,), at least 0, and a ridge > 0."""
        return cls(edges, edges.laplacian(weights, ridge))

    def solve(self, z: Floats) -> Floats:
        """H^-1 z, shape (n,).

        Raises:
            ConvergenceError: the system could not be solved.
        """
        preconditioner = scipy.sparse.diags_array(1 / self.matrix.diagonal())
        found, failed = scipy.sparse.linalg.cg(
            self.matrix, z, rtol=TOLERANCE, maxiter=MOST_STEPS, M=preconditioner
        )
        if failed:
            raise ConvergenceError(
                "the errors of the scores could not be found: items hang together too loosely for"
                " this ridge; a larger one helps"
            )
        return np.asarray(found)


def simulated_variances(system: EdgeSystem, noise: Floats, pull: float) -> SimulatedVariances:
    """Diagonal of H^-1 (B + pull (1 - 1/n)) H^-1, by simulation.

    Args:
        system: H.
        noise: shape (m,), at least 0: weights of the Laplacian B.
        pull: variance of what the ridge adds to the gradient of each score.

    Raises:
        ConvergenceError: a system could not be solved.
    """
    edges, root, bits = system.edges, np.sqrt(noise), seeded_bits(SEED)
    squares = np.zeros(edges.n_items)
    for _ in range(DRAWS):
        own = np.sqrt(pull) * _signs(edges.n_items, bits)
        z = edges.along(root * _signs(len(root), bits)) + own - own.mean()
        squares += system.solve(z) ** 2
    return SimulatedVariances(squares / DRAWS, DRAWS)


def _signs(count: int, bits: RandomBits) -> Floats:
    """Fair coins, +1 or -1."""
    coins = np.unpackbits(np.frombuffer(bits.take(-(-count // 8)), np.uint8), count=count)
    return np.asarray(2.0 * coins.astype(np.float64) - 1.0)
