"""Solutions are good however far apart the weights are, by elimination and by iterations."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from hushrank.estimation.fit import exact_fit as module
from hushrank.estimation.fit.exact_fit import GroundedGraph

WAYS = {"elimination": {}, "diagonal": {"ELIMINATED": 0}, "tree": {"ELIMINATED": 0, "PATIENCE": 0}}


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in WAYS[request.param].items():
        monkeypatch.setattr(module, name, value)


def a_graph(n: int, n_edges: int, spread: float, seed: int) -> GroundedGraph:
    """Weights between 1 and 10^spread."""
    rng = np.random.default_rng(seed)
    cells = rng.choice(n * (n - 1) // 2, n_edges, replace=False)
    left, right = (each[cells] for each in np.triu_indices(n, 1))
    return GroundedGraph(left, right, 10 ** rng.uniform(0, spread, n_edges), 1.0, n)


def exact(graph: GroundedGraph, right_side: np.ndarray) -> list[Fraction]:
    """By elimination in rational numbers."""
    n = graph.n_nodes
    rows = [[Fraction(0)] * n + [Fraction(float(value))] for value in right_side]
    for i in range(n):
        rows[i][i] += Fraction(graph.ridge)
    for i, j, weight in zip(graph.left, graph.right, map(Fraction, graph.weights), strict=True):
        for a, b in ((i, j), (j, i)):
            rows[a][a] += weight
            rows[a][b] -= weight
    for k in range(n):
        rows[k] = [value / rows[k][k] for value in rows[k]]
        for i in range(n):
            if i != k and rows[i][k]:
                rows[i] = [a - rows[i][k] * b for a, b in zip(rows[i], rows[k], strict=True)]
    return [row[n] for row in rows]


def energy(graph: GroundedGraph, x: list[Fraction]) -> float:
    """x . matrix x."""
    edges = zip(graph.left, graph.right, map(Fraction, graph.weights), strict=True)
    total = Fraction(graph.ridge) * sum(value**2 for value in x)
    return float(total + sum(weight * (x[i] - x[j]) ** 2 for i, j, weight in edges))


@pytest.mark.parametrize(("spread", "n_edges"), [(1, 20), (18, 20), (18, 7), (18, 0)])
@pytest.mark.usefixtures("way")
def test_the_error_is_small_in_the_matrix_s_own_norm(spread: float, n_edges: int) -> None:
    """Of sparse graphs too, which fall into parts: the ridge alone tells those apart."""
    graph = a_graph(9, n_edges, spread, seed=n_edges)
    right_side = np.random.default_rng(1).normal(size=9)
    solution = exact(graph, right_side)
    found = [Fraction(float(value)) for value in graph.solve(right_side)]
    off = [a - b for a, b in zip(found, solution, strict=True)]
    assert energy(graph, off) <= 1e-8 * energy(graph, solution)


def test_written_out_the_ridge_would_be_lost() -> None:
    """What this module is for: two pairs of items that are tied by 10^18 comparisons each."""
    graph = GroundedGraph(np.array([0, 2]), np.array([1, 3]), np.full(2, 1e18), 1.0, 4)
    right_side = np.array([1.0, 0.0, -1.0, 0.0])
    np.testing.assert_allclose(graph.solve(right_side), [0.5, 0.5, -0.5, -0.5])
    matrix = np.array([graph.times(unit) for unit in np.eye(4)])
    assert np.linalg.matrix_rank(matrix) < 4


@pytest.mark.usefixtures("way")
def test_nothing_in_nothing_out() -> None:
    graph = a_graph(5, 4, 3.0, seed=1)
    np.testing.assert_array_equal(graph.solve(np.zeros(5)), np.zeros(5))


def test_of_many_nodes_iterations_by_the_tree_do_not_depend_on_the_weights() -> None:
    """Ten thousand nodes on a path of weights between 1 and 10^18: the tree is the graph."""
    n = 10_000
    weights = 10 ** np.random.default_rng(3).uniform(0, 18, n - 1)
    graph = GroundedGraph(np.arange(n - 1), np.arange(1, n), weights, 1.0, n)
    right_side = np.random.default_rng(4).normal(size=n)
    x = graph.solve(right_side)
    assert x @ right_side > 0
    # What flows in flows out through the ridge.
    assert x.sum() == pytest.approx(right_side.sum(), rel=1e-6)
