"""Simulated variances against the matrices they stand for, on graphs of every connectedness."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

from hushrank.estimation.common.links import laplacian
from hushrank.estimation.fit import pair_fit
from hushrank.estimation.fit.pair_fit import Edges, EdgeSystem, simulated_variances
from hushrank.estimation.fit.solve import ConvergenceError

RIDGE, PULL = 0.5, 2.0


def a_graph(kind: str, n: int) -> csr_array:
    rng = np.random.default_rng(3)
    met = np.zeros((n, n), bool)
    if kind == "path":
        met[np.arange(n - 1), np.arange(1, n)] = True
    else:
        met = np.triu(rng.random((n, n)) < 0.2, 1)
        met[:, -1] = False  # nobody compared the last item
    return csr_array(np.where(met, rng.uniform(1, 40, (n, n)), 0))


def system(curvature: csr_array) -> EdgeSystem:
    return EdgeSystem.of(Edges.of(curvature), curvature.data, 2 * RIDGE)


def exact(curvature: np.ndarray, noise: np.ndarray) -> np.ndarray:
    n = len(curvature)
    inverse = np.linalg.inv(laplacian(curvature + curvature.T) + 2 * RIDGE * np.eye(n))
    pulled = laplacian(noise + noise.T) + PULL * (np.eye(n) - 1 / n)
    return np.diagonal(inverse @ pulled @ inverse)


@pytest.mark.parametrize("kind", ["random", "path"])
def test_variances_are_those_of_the_sandwich(kind, monkeypatch):
    monkeypatch.setattr(pair_fit, "DRAWS", 3000)
    graph = a_graph(kind, 40)
    noise = csr_array((graph.data * 3, graph.indices, graph.indptr), shape=graph.shape)
    found = simulated_variances(system(graph), noise.data, PULL)
    expected = exact(graph.toarray(), noise.toarray())
    # A mean of 3000 squares has a relative standard error of 2.6 % at most; 5.5 of them: 4e-8.
    assert np.abs(found.of_scores / expected - 1).max() < 5.5 * np.sqrt(2 / 3000)
    assert np.abs(found.of_scores / (1.2 * expected) - 1).min() > 0.01  # what is 20 % off is seen


def test_the_same_release_has_the_same_errors_and_t_allows_for_simulation():
    graph = a_graph("random", 40)
    one, other = (simulated_variances(system(graph), graph.data, PULL) for _ in range(2))
    np.testing.assert_array_equal(one.of_scores, other.of_scores)
    reach = one.reach(0.025) / np.sqrt(one.of_scores)
    np.testing.assert_allclose(reach, 1.984, atol=0.001)  # t with 100 degrees of freedom


def test_a_system_that_is_not_solved_is_an_error(monkeypatch):
    monkeypatch.setattr(pair_fit, "MOST_STEPS", 2)
    graph = a_graph("path", 40)
    with pytest.raises(ConvergenceError, match="hang together too loosely"):
        simulated_variances(system(graph), graph.data, PULL)
