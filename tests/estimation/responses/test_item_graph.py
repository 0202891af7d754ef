"""Public graphs: well formed, connected, drawn with the stated probability and without data."""

from __future__ import annotations

import inspect
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from hushrank.estimation.responses.item_graph import (
    ItemGraph,
    complete_graph,
    connecting_probability,
    even_graph,
    random_graph,
)
from hushrank.privacy.randomness import seeded_bits
from tests.statistics import FALSE_POSITIVE_RATE


@given(st.integers(2, 40))
def test_complete_graph_has_every_pair(n_items: int) -> None:
    graph = complete_graph(n_items)
    assert graph.complete
    assert graph.n_edges == n_items * (n_items - 1) // 2
    assert (graph.mask() == ~np.eye(n_items, dtype=bool)).all()


@given(st.integers(3, 40), st.integers(0, 2**32))
def test_random_graphs_are_connected_and_reproducible(n_items: int, seed: int) -> None:
    probability = connecting_probability(n_items)
    graph = random_graph(n_items, probability, seeded_bits(seed))
    assert not graph.complete or n_items < 6
    reached = {0}
    for _ in range(n_items):
        reached |= {int(j) for edge in graph.edges for j in edge if reached & set(edge.tolist())}
    assert len(reached) == n_items
    again = random_graph(n_items, probability, seeded_bits(seed))
    assert (again.edges == graph.edges).all()


@given(st.integers(3, 40), st.integers(1, 4), st.integers(0, 2**32))
def test_an_even_graph_is_connected_and_nobody_has_more_than_the_degree(
    n_items: int, half: int, seed: int
) -> None:
    degree = min(2 * half, (n_items - 1) // 2 * 2)
    graph = even_graph(n_items, degree, seeded_bits(seed))  # ItemGraph checks that it connects
    degrees = np.bincount(graph.edges.ravel())
    assert degrees.min() >= 2
    assert graph.largest_degree == degrees.max() <= degree
    again = even_graph(n_items, degree, seeded_bits(seed))
    assert (again.edges == graph.edges).all()


@pytest.mark.parametrize(("n_items", "degree"), [(2, 2), (5, 3), (5, 0), (4, 4)])
def test_a_degree_that_cannot_be(n_items: int, degree: int) -> None:
    with pytest.raises(ValueError, match="degree must be even"):
        even_graph(n_items, degree, seeded_bits(0))


def test_edges_are_drawn_with_the_stated_probability() -> None:
    n_items, probability = 400, 0.05  # connected at the first draw, nearly surely
    graph = random_graph(n_items, probability, seeded_bits(1))
    n_pairs = n_items * (n_items - 1) // 2
    assert binomtest(graph.n_edges, n_pairs, probability).pvalue > FALSE_POSITIVE_RATE
    for wrong in (0.9 * probability, 1.1 * probability):  # the test has power
        assert binomtest(graph.n_edges, n_pairs, wrong).pvalue < FALSE_POSITIVE_RATE


def test_a_graph_is_drawn_without_data() -> None:
    assert set(inspect.signature(random_graph).parameters) == {
        "n_items",
        "edge_probability",
        "bits",
    }


def test_default_probability_is_the_threshold_of_connectedness() -> None:
    assert connecting_probability(2) == 1
    assert connecting_probability(100) == pytest.approx(math.log(100) / 100)


def test_a_graph_that_cannot_be_connected_is_refused() -> None:
    with pytest.raises(ValueError, match="raise it"):
        random_graph(50, 0.001, seeded_bits(0))


@pytest.mark.parametrize("probability", [0.0, -1.0, 1.5, math.nan])
def test_probability_out_of_range(probability: float) -> None:
    with pytest.raises(ValueError, match="edge_probability"):
        random_graph(5, probability, seeded_bits(0))


@pytest.mark.parametrize(
    ("n_items", "edges", "message"),
    [
        (1, [[0, 1]], "at least 2"),
        (3, [[1, 0], [1, 2]], "i < j"),
        (3, [[0, 1], [1, 3]], "j < 3"),
        (3, [[0, 1], [0, 1], [1, 2]], "none twice"),
        (3, [[1, 2], [0, 1]], "order"),
        (4, [[0, 1], [2, 3]], "connect"),
        (3, [[0, 1, 2]], "shape"),
    ],
)
def test_malformed_graphs_are_refused(n_items: int, edges: list[list[int]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ItemGraph(n_items, np.array(edges, np.int64))


def test_edges_of_another_type_are_refused() -> None:
    with pytest.raises(ValueError, match="int64"):
        ItemGraph(2, np.array([[0, 1]], np.int32))
