"""Errors of balances: noise entry by entry, and the model's covariance by enumeration."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import expit

from hushrank.estimation.responses.item_graph import ItemGraph, complete_graph, random_graph
from hushrank.estimation.responses.pair_balance import PairState
from hushrank.estimation.responses.spectral_estimate import noise_covariance, sampling_covariance
from hushrank.privacy.randomness import seeded_bits

Matrix = NDArray[np.float64]
TREE = ItemGraph(5, np.array([[0, 1], [1, 2], [1, 3], [3, 4]]))
TRUE = np.array([-1.2, 0.4, 0.9, -0.5, 0.4])
ABILITIES = np.array([-1.5, 0.3, 2.0])
CHANCES = np.array([0.3, 0.5, 0.2])


def weights_on(graph: ItemGraph) -> Matrix:
    """Symmetric weights that differ from pair to pair, zero off the graph."""
    drawn = np.random.default_rng(5).uniform(0.2, 1.0, (5, 5))
    return graph.mask() * (drawn + drawn.T) / 2


def balance(y: Matrix, weights: Matrix) -> NDArray[np.float64]:
    return PairState(y, weights, np.zeros_like(y), TRUE).balance(y)


@pytest.mark.parametrize("graph", [complete_graph(5), TREE], ids=["dense", "tree"])
def test_noise_covariance_adds_up_one_entry_at_a_time(graph: ItemGraph) -> None:
    weights = weights_on(graph)
    expected = np.zeros((5, 5))
    for i, j in zip(*graph.entries, strict=True):
        unit = np.zeros((5, 5))
        unit[i, j] = 1
        expected += 2.5 * np.outer(balance(unit, weights), balance(unit, weights))
    chance = expit(TRUE[:, np.newaxis] - TRUE)
    assert noise_covariance(2.5, weights, chance) == pytest.approx(expected, abs=1e-12)


def people(max_answers: int) -> list[tuple[float, tuple[int, ...], float]]:
    """Every ability, every choice of `max_answers` items: (ability, items, chance)."""
    choices = list(combinations(range(len(TRUE)), max_answers))
    return [
        (ability, items, chance / len(choices))
        for ability, chance in zip(ABILITIES, CHANCES, strict=True)
        for items in choices
    ]


def sheets(ability: float, items: tuple[int, ...]) -> list[tuple[Matrix, float]]:
    """What each way of answering adds to Y, and its chance under the Rasch model."""
    found = []
    for answers in product((0, 1), repeat=len(items)):
        right, wrong = np.zeros(len(TRUE)), np.zeros(len(TRUE))
        chance = 1.0
        for item, answer in zip(items, answers, strict=True):
            (right if answer else wrong)[item] = 1
            solved = expit(ability - TRUE[item])
            chance *= solved if answer else 1 - solved
        found.append((np.outer(right, wrong), chance))
    return found


@pytest.mark.parametrize("max_answers", [2, 3, 5])
@pytest.mark.parametrize(
    "graph",
    [complete_graph(5), TREE, random_graph(5, 0.5, seeded_bits(1))],
    ids=["dense", "tree", "random"],
)
def test_sampling_covariance_is_the_model_s(max_answers: int, graph: ItemGraph) -> None:
    """Exactly, by enumeration of all abilities, choices of items and answers."""
    weights = weights_on(graph)
    y, mean, expected = np.zeros((5, 5)), np.zeros(5), np.zeros((5, 5))
    for ability, items, chance in people(max_answers):
        for table, each in sheets(ability, items):
            own = balance(table, weights)
            y += chance * each * table
            mean += chance * each * own
            expected += chance * each * np.outer(own, own)
    assert mean == pytest.approx(np.zeros(5), abs=1e-15)  # balanced at the true difficulties
    share = np.full(5, (max_answers - 2) / (len(TRUE) - 2))
    found = sampling_covariance(y + y.T, TRUE, weights, share)
    assert found == pytest.approx(expected, rel=1e-10, abs=1e-12)
    pairs_only = sampling_covariance(y + y.T, TRUE, weights, np.zeros(5))
    if max_answers > 2:  # one person's entries are not independent, and it matters
        assert np.abs(np.diagonal(pairs_only) / np.diagonal(found) - 1).max() > 0.1
