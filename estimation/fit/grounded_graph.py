"""Solve with the matrix of a weighted graph plus a ridge, however far apart its weights are.

    matrix = sum over edges of weight (e_i - e_j)(e_i - e_j)^T + ridge 1,   weights >= 0

Written out as entries, a ridge of 1 beside weights of 1e18 is lost to rounding, and so are the
scores of whole sets of items against each other. Here weights and ridge stay apart: elimination
takes sums and products of numbers that are not negative, and no difference ([AXY02]), and
iterations multiply by differences of neighbours.

A ridge is an edge to one more node, the ground, whose value is 0. Of this graph the tree of the
heaviest edges that spans it, in place of the matrix, makes the number of iterations depend on the
shape of the graph and not on its weights ([BCHT04]).

References:
    [AXY02] Alfa, Xue, Ye. Accurate computation of the smallest eigenvalue of a diagonally dominant
        M-matrix. 2002.
    [BCHT04] Boman, Chen, Hendrickson, Toledo. Maximum-weight-basis preconditioners. 2004.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from hushrank.estimation.common.links import Floats

Nodes = NDArray[np.int64]

ELIMINATED = 600  # nodes up to which elimination is faster than iterations
PATIENCE = 200  # iterations by the diagonal, which few graphs exceed, before the tree
MOST_ITERATIONS = 20_000
REDUCTION = 1e-10  # of energy, as the tree tells it
CAUTION = 1e-10  # times that, as the diagonal tells it

Preconditioner = Callable[[Floats], Floats]


@dataclass(frozen=True, slots=True)
class GroundedGraph:
    """Edges and ridge of the matrix above.

    Attributes:
        left, right: shape (k,), nodes of each edge; no edge comes twice.
        weights: shape (k,), finite, at least 0.
        ridge: finite, > 0.
        n_nodes: n.
    """

    left: Nodes
    right: Nodes
    weights: Floats
    ridge: float
    n_nodes: int

    def times(self, x: Floats) -> Floats:
        """The matrix times x, shape (n,)."""
        flow = self.weights * (x[self.left] - x[self.right])
        out = np.bincount(self.left, flow, self.n_nodes)
        return np.asarray(self.ridge * x + out - np.bincount(self.right, flow, self.n_nodes))

    def solve(self, right_side: Floats) -> Floats:
        """About x with matrix x = right_side, shape (n,); x . right_side > 0 unless both are 0."""
        if self.n_nodes <= ELIMINATED:
            return _eliminated(self._dense(), self.ridge, right_side)
        by_diagonal, by_tree = self._by_diagonal(), self._by_tree()
        x = np.zeros(self.n_nodes)
        for way, most, share in (
            (by_diagonal, PATIENCE, CAUTION * REDUCTION),
            (by_tree, MOST_ITERATIONS, REDUCTION),
        ):
            x = _conjugate_gradients(self, right_side, x, way, most, share)
        return x if x @ right_side > 0 else by_diagonal(right_side)

    def _dense(self) -> Floats:
        dense = np.zeros((self.n_nodes, self.n_nodes))
        dense[self.left, self.right] = dense[self.right, self.left] = self.weights
        return dense

    def _by_diagonal(self) -> Preconditioner:
        sums = np.bincount(self.left, self.weights, self.n_nodes)
        diagonal = self.ridge + sums + np.bincount(self.right, self.weights, self.n_nodes)
        return lambda right_side: np.asarray(right_side / diagonal)

    def _by_tree(self) -> Preconditioner:
        """Exact solutions for the heaviest tree: sums up to the ground, then values down from it.

        All that flows into the nodes behind an edge flows through it, and divided by its weight it
        is the difference of its two ends.
        """
        nodes, parent, weight = self._heaviest_tree()
        n, inner = self.n_nodes, parent < self.n_nodes
        row = np.empty(n, np.int64)
        row[nodes] = np.arange(n)
        entries = np.append(np.ones(n), np.full(int(inner.sum()), -1.0))
        rows = np.append(np.arange(n), np.flatnonzero(inner))
        columns = np.append(np.arange(n), row[parent[inner]])
        differences = scipy.sparse.csc_array(
            scipy.sparse.coo_array((entries, (rows, columns)), shape=(n, n))
        )
        down, up = (
            scipy.sparse.linalg.splu(each, permc_spec="NATURAL", diag_pivot_thresh=0.0)
            for each in (differences, scipy.sparse.csc_array(differences.T))
        )

        def solve(right_side: Floats) -> Floats:
            x = np.empty(n)
            x[nodes] = down.solve(up.solve(right_side[nodes]) / weight)
            return x

        return solve

    def _heaviest_tree(self) -> tuple[Nodes, Nodes, Floats]:
        """Its nodes, each after its parent; their parents, n for the ground; the edges' weights."""
        n = self.n_nodes
        one, other = np.append(self.left, np.arange(n)), np.append(self.right, np.full(n, n))
        weights = np.append(self.weights, np.full(n, self.ridge))
        heaviest_first = np.argsort(-weights, kind="stable")
        place = np.empty(len(weights))
        place[heaviest_first] = np.arange(1, len(weights) + 1)
        tree = scipy.sparse.csgraph.minimum_spanning_tree(
            scipy.sparse.csr_array(scipy.sparse.coo_array((place, (one, other)), (n + 1, n + 1)))
        )
        found, parent = scipy.sparse.csgraph.breadth_first_order(tree, n, directed=False)
        nodes, edges = found[1:].astype(np.int64), heaviest_first[tree.data.astype(np.int64) - 1]
        child = np.where(parent[one[edges]] == other[edges], one[edges], other[edges])
        weight = np.empty(n + 1)
        weight[child] = weights[edges]
        return nodes, parent[nodes].astype(np.int64), weight[nodes]


def _eliminated(weights: Floats, ridge: float, right_side: Floats) -> Floats:
    """By elimination; `weights` is overwritten, and its diagonal means nothing."""
    n = len(right_side)
    excess, value = np.full(n, ridge), right_side.astype(np.float64)
    pivots, shares = np.empty(n), []
    for k in range(n):
        row = weights[k, k + 1 :]
        pivots[k] = excess[k] + row.sum()
        share = row / pivots[k]
        weights[k + 1 :, k + 1 :] += np.outer(share, row)
        excess[k + 1 :] += share * excess[k]
        value[k + 1 :] += share * value[k]
        shares.append(share)
    for k in reversed(range(n)):
        value[k] = value[k] / pivots[k] + shares[k] @ value[k + 1 :]
    return value


def _conjugate_gradients(
    graph: GroundedGraph,
    right_side: Floats,
    x: Floats,
    precondition: Preconditioner,
    most: int,
    share: float,
) -> Floats:
    """From x on, until the energy of what is left is that share of the whole.

    The tree is less than the matrix, so by the tree the energy of an error is not less than it is:
    what the diagonal takes for a solution is seen through, and costs one more iteration if it is.
    """
    residual = right_side - graph.times(x)
    search, energy = x, 0.0
    enough = share * max(float(right_side @ x), 0.0)
    for step in range(most):
        scaled = precondition(residual)
        previous, energy = energy, float(residual @ scaled)
        enough = enough or share * energy
        if not energy > enough:
            break
        search = scaled if step == 0 else scaled + energy / previous * search
        image = graph.times(search)
        length = energy / float(search @ image)
        x = x + length * search
        residual = residual - length * image
    return x
