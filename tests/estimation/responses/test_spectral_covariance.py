"""Errors of spectral difficulties: derivatives, and the model's covariance by enumeration."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import expit

from hushrank.estimation.responses.item_graph import ItemGraph, complete_graph, random_graph
from hushrank.estimation.responses.spectral import difficulties
from hushrank.estimation.responses.spectral_covariance import (
    balanced_flow,
    effect_of,
    noise_covariance,
    responses,
    sampling_covariance,
)
from hushrank.estimation.responses.stationary import stationary_distribution
from hushrank.privacy.randomness import seeded_bits

Matrix = NDArray[np.float64]
TREE = ItemGraph(5, np.array([[0, 1], [1, 2], [1, 3], [3, 4]]))
TRUE = np.array([-1.2, 0.4, 0.9, -0.5, 0.4])
ABILITIES = np.array([-1.5, 0.3, 2.0])
CHANCES = np.array([0.3, 0.5, 0.2])


def random_rates(n: int, seed: int) -> Matrix:
    rates = np.random.default_rng(seed).exponential(size=(n, n))
    np.fill_diagonal(rates, 0)
    return rates


def true_pi() -> NDArray[np.float64]:
    return np.exp(TRUE) / np.exp(TRUE).sum()


@given(st.integers(2, 7), st.integers(0, 2**32 - 1))
@settings(deadline=None)
def test_effect_is_the_derivative(n: int, seed: int) -> None:
    rates = random_rates(n, seed)
    change = rates * random_rates(n, seed + 1)
    pi = stationary_distribution(rates)
    effect = effect_of(change, pi, responses(rates, pi))
    step = 1e-6
    moved = [
        difficulties(stationary_distribution(rates + sign * step * change)) for sign in (1, -1)
    ]
    assert effect == pytest.approx((moved[0] - moved[1]) / (2 * step), rel=1e-5, abs=1e-7)


@pytest.mark.parametrize("graph", [complete_graph(5), TREE], ids=["dense", "tree"])
def test_noise_covariance_adds_up_one_entry_at_a_time(graph: ItemGraph) -> None:
    rates = random_rates(5, 3) * graph.mask()
    pi = stationary_distribution(rates)
    response = responses(rates, pi)
    expected = np.zeros((5, 5))
    for i, j in zip(*graph.entries, strict=True):
        unit = np.zeros((5, 5))
        unit[i, j] = 1
        effect = effect_of(unit, pi, response)
        expected += 2.5 * np.outer(effect, effect)
    assert noise_covariance(2.5, graph, pi, response) == pytest.approx(expected, abs=1e-12)


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
    y_of_all = sum(
        chance * each * table
        for ability, items, chance in people(max_answers)
        for table, each in sheets(ability, items)
    )
    pi, y = true_pi(), np.asarray(y_of_all) * graph.mask()
    response = responses(y, pi)
    expected = np.zeros((5, 5))
    for ability, items, chance in people(max_answers):
        for table, each in sheets(ability, items):
            effect = effect_of(table * graph.mask(), pi, response)
            expected += chance * each * np.outer(effect, effect)
    flow = pi[:, np.newaxis] * y_of_all  # for all pairs, as if the graph were complete
    share = (max_answers - 2) / (len(TRUE) - 2)
    found = sampling_covariance(flow, graph, pi, response, share)
    assert found == pytest.approx(expected, rel=1e-10, abs=1e-12)
    pairs_only = sampling_covariance(flow, graph, pi, response, 0.0)
    if max_answers > 2:  # one person's entries are not independent, and it matters
        assert np.abs(np.diagonal(pairs_only) / np.diagonal(found) - 1).max() > 0.1


def test_flow_is_symmetric_and_kept_on_a_complete_graph() -> None:
    y = np.random.default_rng(0).integers(-3, 30, (5, 5)).astype(float)
    np.fill_diagonal(y, 0)
    pi = true_pi()
    flow = balanced_flow(y, complete_graph(5), pi)
    assert flow == pytest.approx((pi[:, np.newaxis] * y + (pi[:, np.newaxis] * y).T) / 2)


def test_flow_is_continued_off_a_sparse_graph() -> None:
    random = np.random.default_rng(4)
    true = random.normal(size=40)
    true -= true.mean()
    right = expit(random.normal(size=(4000, 1)) - true)
    y = right.T @ (1 - right)
    np.fill_diagonal(y, 0)
    pi = np.exp(true) / np.exp(true).sum()
    graph = random_graph(40, 0.2, seeded_bits(2))
    flow = balanced_flow(y * graph.mask(), graph, pi)
    truth = pi[:, np.newaxis] * y
    off_graph = ~graph.mask() & ~np.eye(40, dtype=bool)
    assert (flow == flow.T).all()
    assert not np.diagonal(flow).any()
    assert flow[graph.mask()] == pytest.approx(truth[graph.mask()])
    errors = {
        "fitted": flow[off_graph] / truth[off_graph] - 1,
        "constant": truth[graph.mask()].mean() / truth[off_graph] - 1,
    }
    typical = {name: float(np.sqrt(np.mean(error**2))) for name, error in errors.items()}
    assert typical["fitted"] < 0.2
    assert typical["fitted"] < 0.3 * typical["constant"]  # the fit is not idle
