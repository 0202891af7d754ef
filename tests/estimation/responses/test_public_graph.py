"""When an even graph is taken: the formula, and that it is right where it says so."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

from hushrank.estimation.common.estimate import Estimate
from hushrank.estimation.responses.item_graph import (
    ItemGraph,
    complete_graph,
    degree_for,
    even_graph,
    even_graph_pays,
    noise_ratio,
)
from hushrank.estimation.responses.measurements import (
    calibrate_measurements,
    measurements_on,
    release_measurements,
)
from hushrank.estimation.responses.spectral_estimate import estimate_difficulties
from hushrank.privacy.randomness import seeded_bits
from hushrank.privacy.units import Adjacency, NoiseKind, PrivacyParams, Unit


def params(max_answers: int, noise: NoiseKind = NoiseKind.LAPLACE) -> PrivacyParams:
    return PrivacyParams(
        unit=Unit.USER,
        adjacency=Adjacency.REPLACE_ONE,
        epsilon=4.0,
        delta=1e-6 if noise is NoiseKind.GAUSSIAN else 0.0,
        noise=noise,
        max_contributions=max_answers,
    )


def test_the_ratio_is_the_derived_one() -> None:
    assert noise_ratio(params(600), 600, 6) == pytest.approx(600**2 / (4 * 600 * 6), rel=0.01)
    assert noise_ratio(params(100), 300, 12) == pytest.approx(100**2 / (4 * 300 * 12), rel=0.01)
    gaussian = params(600, NoiseKind.GAUSSIAN)
    assert noise_ratio(gaussian, 600, 6) == pytest.approx(1 / 2, rel=0.01)


@pytest.mark.parametrize(
    ("n_items", "max_answers", "pays"),
    [(600, 600, True), (300, 150, True), (100, 100, True), (300, 20, False), (20, 20, False)],
)
def test_it_pays_where_people_answer_many_of_many_items(
    n_items: int, max_answers: int, pays: bool
) -> None:
    assert even_graph_pays(params(max_answers), n_items) == pays
    assert not even_graph_pays(params(max_answers, NoiseKind.GAUSSIAN), n_items)


def test_degrees_are_even_and_leave_pairs_out() -> None:
    for n_items in range(3, 50):
        degree = degree_for(n_items, 10)
        assert degree % 2 == 0
        assert 2 <= degree < n_items
    assert degree_for(600, 600) == 6
    assert degree_for(300, 100) == 12
    assert not even_graph_pays(params(1), 600)


def estimated(graph: ItemGraph, y: np.ndarray, max_answers: int) -> Estimate:
    calibration = calibrate_measurements(
        params(max_answers), graph.n_items, graph.n_edges, graph.largest_degree
    )
    released = release_measurements(measurements_on(graph, y), calibration, seeded_bits(1))
    return estimate_difficulties(released, calibration.law, max_answers).estimate


@pytest.mark.parametrize(("n_items", "max_answers"), [(200, 200), (200, 20)])
def test_the_choice_is_the_more_accurate_one(n_items: int, max_answers: int) -> None:
    random = np.random.default_rng(2)
    true = random.normal(size=n_items)
    true -= true.mean()
    shape = (20_000, n_items)
    answered = random.random(shape, np.float32).argsort(axis=1) < max_answers
    right = answered & (random.random(shape) < expit(random.normal(size=(shape[0], 1)) - true))
    wrong = answered & ~right
    y = (right.astype(np.float32).T @ wrong.astype(np.float32)).astype(np.int64)
    even = even_graph(n_items, degree_for(n_items, max_answers), seeded_bits(5))
    graphs = {False: complete_graph(n_items), True: even}
    errors = {
        pays: np.square(estimated(graph, y, max_answers).scores - true).mean()
        for pays, graph in graphs.items()
    }
    chosen = even_graph_pays(params(max_answers), n_items)
    assert errors[chosen] < 0.8 * errors[not chosen]
    assert errors[chosen] < np.square(true).mean()  # better than to guess that all are alike
