"""Sensitivity of the differential measurements, by enumeration of every pair of adjacent inputs."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest
from numpy.typing import NDArray

from hushrank.estimation.responses.item_graph import booklet_graph, even_graph
from hushrank.privacy.randomness import seeded_bits
from hushrank.privacy.response_sensitivity import measurement_sensitivity
from hushrank.privacy.units import Adjacency, PrivacyParams, Unit

MISSING, WRONG, RIGHT = 0, 1, 2


def params(max_answers: int, adjacency: Adjacency) -> PrivacyParams:
    return PrivacyParams(
        unit=Unit.USER, adjacency=adjacency, epsilon=1.0, max_contributions=max_answers
    )


def tables(n_items: int, max_answers: int) -> NDArray[np.int8]:
    """What each possible person adds to Y, by the definition, shape (people, m, m)."""
    people = [
        sheet
        for sheet in product((MISSING, WRONG, RIGHT), repeat=n_items)
        if sum(answer != MISSING for answer in sheet) <= max_answers
    ]
    return tables_of(people)


def tables_of(people: list[tuple[int, ...]]) -> NDArray[np.int8]:
    return np.array(
        [[[a == RIGHT and b == WRONG for b in sheet] for a in sheet] for sheet in people], np.int8
    )


def largest_moves(moves: NDArray[np.int8]) -> tuple[tuple[int, int], tuple[int, int]]:
    """Largest (l1, l2^2) of adding a person, and of replacing one by another."""
    flat = moves.reshape(len(moves), -1).astype(np.int64)
    added = (int(np.abs(flat).sum(axis=1).max()), int((flat**2).sum(axis=1).max()))
    replaced = [0, 0]
    for one in flat:
        difference = flat - one
        replaced[0] = max(replaced[0], int(np.abs(difference).sum(axis=1).max()))
        replaced[1] = max(replaced[1], int((difference**2).sum(axis=1).max()))
    return added, (replaced[0], replaced[1])


@pytest.mark.parametrize(
    ("n_items", "max_answers"), [(2, 1), (2, 2), (3, 3), (4, 3), (5, 2), (5, 4), (5, 5), (6, 6)]
)
def test_dense_sensitivity_is_the_largest_move(n_items: int, max_answers: int) -> None:
    added, replaced = largest_moves(tables(n_items, max_answers))
    for adjacency, exact in (
        (Adjacency.ADD_REMOVE, added),
        (Adjacency.REPLACE_ONE, replaced),
    ):
        bound = measurement_sensitivity(params(max_answers, adjacency), n_items)
        assert (bound.l1, bound.l2_squared) == exact


@pytest.mark.parametrize("max_answers", range(2, 7))
@pytest.mark.parametrize("seed", range(4))
def test_sparse_sensitivity_is_never_below_the_largest_move(max_answers: int, seed: int) -> None:
    n_items = max(4, max_answers)
    edge = np.triu(np.random.default_rng(seed).random((n_items, n_items)) < 0.4, 1)
    edge[0, 1] = True
    moves = tables(n_items, max_answers) * (edge | edge.T)
    added, replaced = largest_moves(moves)
    n_edges = int(edge.sum())
    for adjacency, exact in ((Adjacency.ADD_REMOVE, added), (Adjacency.REPLACE_ONE, replaced)):
        bound = measurement_sensitivity(params(max_answers, adjacency), n_items, n_edges)
        assert bound.l1 >= exact[0]
        assert bound.l2_squared >= exact[1]
        degree = int((edge | edge.T).sum(axis=0).max())
        closer = measurement_sensitivity(params(max_answers, adjacency), n_items, n_edges, degree)
        assert bound.l1 >= closer.l1 >= exact[0]
        assert bound.l2_squared >= closer.l2_squared >= exact[1]


@pytest.mark.parametrize(
    ("booklets", "max_answers"),
    [
        (((0, 1, 2), (2, 3, 4)), 3),
        (((0, 1, 2, 3), (2, 3, 4, 5)), 4),
        (((0, 1, 2, 3), (2, 3, 4, 5)), 3),  # one item of each booklet is not counted
        (((0, 1, 2, 3, 4), (4, 5)), 5),
        (((0, 1), (1, 2), (2, 3)), 2),
    ],
)
@pytest.mark.parametrize("missing", [MISSING, WRONG])
def test_sensitivity_with_booklets_is_the_largest_move(booklets, max_answers, missing) -> None:
    """A sheet is of any booklet, which is secret; its blanks are not asked, or wrong."""
    n_items = 1 + max(map(max, booklets))
    sheets = set()
    for items in booklets:
        for answers in product({missing, WRONG, RIGHT}, repeat=len(items)):
            for kept in combinations(range(len(items)), min(max_answers, len(items))):
                sheet = [MISSING] * n_items
                for place in kept:
                    sheet[items[place]] = answers[place]
                sheets.add(tuple(sheet))
    graph = booklet_graph(n_items, booklets)
    moves = tables_of(sorted(sheets))
    assert not moves[:, ~graph.mask()].any()  # nobody moves another pair
    added, replaced = largest_moves(moves)
    for adjacency, exact in ((Adjacency.ADD_REMOVE, added), (Adjacency.REPLACE_ONE, replaced)):
        bound = measurement_sensitivity(
            params(max_answers, adjacency), n_items, graph.n_edges, graph.largest_degree
        )
        assert (bound.l1, bound.l2_squared) == exact


@pytest.mark.parametrize("max_answers", range(2, 7))
def test_sensitivity_on_an_even_graph_is_never_below_the_largest_move(max_answers: int) -> None:
    """Two cycles through six items; with one of them left out, the one cycle alone."""
    for degree in (2, 4):
        graph = even_graph(6, degree, seeded_bits(4))
        added, replaced = largest_moves(tables(6, max_answers) * graph.mask())
        for adjacency, exact in ((Adjacency.ADD_REMOVE, added), (Adjacency.REPLACE_ONE, replaced)):
            bound = measurement_sensitivity(
                params(max_answers, adjacency), 6, graph.n_edges, graph.largest_degree
            )
            assert bound.l1 >= exact[0]
            assert bound.l2_squared >= exact[1]


def test_the_degree_s_sensitivity_is_reached() -> None:
    """Stars of degree 3: whoever answers a centre wrong and its leaves right moves three counts."""
    edge = np.zeros((8, 8), np.bool_)
    edge[0, [2, 3, 4]] = edge[1, [4, 5, 6]] = edge[6, 7] = True
    moves = tables(8, 2) * (edge | edge.T)
    added, _ = largest_moves(moves)
    bound = measurement_sensitivity(params(2, Adjacency.ADD_REMOVE), 8, 7, 3)
    assert (bound.l1, bound.l2_squared) == added == (1, 1)
    cycle = np.zeros((6, 6), np.bool_)
    cycle[np.arange(6), (np.arange(6) + 1) % 6] = True
    added, replaced = largest_moves(tables(6, 3) * (cycle | cycle.T))
    bound = measurement_sensitivity(params(3, Adjacency.ADD_REMOVE), 6, 6, 2)
    assert (bound.l1, bound.l2_squared) == added == (2, 2)
    bound = measurement_sensitivity(params(3, Adjacency.REPLACE_ONE), 6, 6, 2)
    assert (bound.l1, bound.l2_squared) == replaced == (4, 4)


@pytest.mark.parametrize("degree", [0, 4])
def test_a_degree_out_of_range(degree: int) -> None:
    with pytest.raises(ValueError, match="largest_degree"):
        measurement_sensitivity(params(3, Adjacency.REPLACE_ONE), 4, 3, degree)


def test_sparse_sensitivity_is_reached_on_a_tree() -> None:
    edge = np.zeros((6, 6), np.bool_)
    edge[np.arange(5), np.arange(1, 6)] = True  # a path: somebody is right on every second item
    added, replaced = largest_moves(tables(6, 6) * (edge | edge.T))
    assert added == (5, 5)
    assert replaced == (10, 10)
    for adjacency, exact in ((Adjacency.ADD_REMOVE, added), (Adjacency.REPLACE_ONE, replaced)):
        bound = measurement_sensitivity(params(6, adjacency), 6, 5)
        assert (bound.l1, bound.l2_squared) == exact


def test_the_paper_s_sensitivity_is_about_twice_the_dense_one() -> None:
    for n_items in (10, 50, 100):
        bound = measurement_sensitivity(params(n_items, Adjacency.REPLACE_ONE), n_items)
        assert n_items * (n_items - 1) / bound.l2_squared == pytest.approx(2, rel=1.01 / n_items)


def test_nobody_answers_more_than_there_are_items() -> None:
    asked = measurement_sensitivity(params(1000, Adjacency.REPLACE_ONE), 5)
    assert asked == measurement_sensitivity(params(5, Adjacency.REPLACE_ONE), 5)


@pytest.mark.parametrize(
    ("n_items", "n_edges", "message"),
    [(1, None, "at least 2 items"), (4, 0, "n_edges"), (4, 7, "between 1 and 6")],
)
def test_arguments_out_of_range(n_items: int, n_edges: int | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        measurement_sensitivity(params(3, Adjacency.REPLACE_ONE), n_items, n_edges)


def test_a_single_comparison_is_not_a_unit_here() -> None:
    comparison = PrivacyParams(
        unit=Unit.COMPARISON, adjacency=Adjacency.REPLACE_ONE, epsilon=1.0, max_contributions=1
    )
    with pytest.raises(ValueError, match="unit: user"):
        measurement_sensitivity(comparison, 4)
