"""The chain on items: its sign, its truth in expectation, and what its counts do not say."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import expit

from hushrank.estimation.responses import spectral
from hushrank.estimation.responses.item_graph import ItemGraph, complete_graph, random_graph
from hushrank.estimation.responses.measurements import measurements_of_answers
from hushrank.estimation.responses.spectral import (
    ChainOptions,
    Connection,
    chain_of,
    connection,
    difficulties,
    jump_rates,
)
from hushrank.estimation.responses.stationary import ReducibleChainError
from hushrank.privacy.randomness import seeded_bits

BARE = ChainOptions(regularization=0.0)


def fitted(
    y: NDArray[np.float64], graph: ItemGraph | None = None, options: ChainOptions = BARE
) -> NDArray[np.float64]:
    graph = graph or complete_graph(len(y))
    return difficulties(chain_of(jump_rates(y, graph, options), graph))


def expected_counts(
    true: NDArray[np.float64], abilities: NDArray[np.float64]
) -> NDArray[np.float64]:
    """E[Y] of people with these abilities who answer everything."""
    right = expit(abilities[:, np.newaxis] - true)
    y = right.T @ (1 - right)
    np.fill_diagonal(y, 0)
    return y


def test_sign_two_items() -> None:
    """Three people are right on item 0 and wrong on item 1, one the other way: item 1 is harder."""
    person, item = np.repeat(np.arange(4), 2), np.tile([0, 1], 4)
    correct = np.array([1, 0, 1, 0, 1, 0, 0, 1], np.uint8)
    y = measurements_of_answers(person, item, correct, 2).astype(np.float64)
    assert fitted(y) == pytest.approx([-math.log(3) / 2, math.log(3) / 2], rel=1e-14)


@given(st.integers(2, 8), st.integers(0, 2**32 - 1))
@settings(deadline=None)
def test_expected_counts_give_the_true_difficulties_whatever_the_abilities(
    n_items: int, seed: int
) -> None:
    random = np.random.default_rng(seed)
    true = random.normal(size=n_items)
    true -= true.mean()
    abilities = random.standard_t(3, 20)
    y = expected_counts(true, abilities)
    graph = random_graph(n_items, 0.6, seeded_bits(seed))
    assert fitted(y) == pytest.approx(true, abs=1e-10)
    assert fitted(y, graph) == pytest.approx(true, abs=1e-10)


@given(st.integers(2, 6), st.integers(0, 2**32 - 1))
@settings(deadline=None)
def test_symmetries(n_items: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    y = random.integers(1, 50, (n_items, n_items)).astype(np.float64)
    scores = fitted(y)
    order = random.permutation(n_items)
    assert fitted(y[np.ix_(order, order)]) == pytest.approx(scores[order], abs=1e-12)
    assert fitted(7 * y) == pytest.approx(scores, abs=1e-12)
    assert scores.sum() == pytest.approx(0, abs=1e-12)
    if n_items == 2:
        assert fitted(y.T) == pytest.approx(-scores, abs=1e-12)


def test_rates_are_clipped_and_regularised_on_every_edge_and_nowhere_else() -> None:
    graph = ItemGraph(3, np.array([[0, 1], [1, 2]]))
    y = np.array([[0.0, -5, 9], [0, 0, 3], [9, 1, 0]])
    rates = jump_rates(y, graph, ChainOptions(floor=0.5, regularization=2))
    assert rates.tolist() == [[0, 2.5, 0], [2.5, 0, 5], [0, 3, 0]]


def test_without_regularisation_zeros_can_tear_the_chain() -> None:
    y = np.array([[0.0, 4, 2], [1, 0, 2], [0, 0, 0]])
    with pytest.raises(ReducibleChainError):
        fitted(y)
    assert fitted(y, options=ChainOptions()).argmax() == 2


def test_large_sparse_chains_go_to_the_sparse_solver(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    graph = random_graph(60, 0.15, seeded_bits(0))
    rates = jump_rates(random.integers(1, 9, (60, 60)).astype(float), graph, BARE)
    direct = chain_of(rates, graph)
    monkeypatch.setattr(spectral, "DIRECT_ITEMS", 10)
    monkeypatch.setattr(spectral, "stationary_distribution", None)
    assert chain_of(rates, graph) == pytest.approx(direct, rel=1e-10)


@pytest.mark.parametrize("field", ["floor", "regularization"])
@pytest.mark.parametrize("value", [-0.1, math.nan, math.inf])
def test_options_out_of_range(field: str, value: float) -> None:
    with pytest.raises(ValueError, match=field):
        ChainOptions(**{field: value})


def limits(found: Connection) -> list[str]:
    """Per item: which limits its difficulty has."""
    return [
        "".join(
            mark
            for mark, missing in (("<", found.no_lower_limit[i]), (">", found.no_upper_limit[i]))
            if not missing
        )
        for i in range(len(found.component))
    ]


def test_what_the_counts_do_not_limit_is_found() -> None:
    y = np.full((5, 5), 10.0)
    y[3, :] = 0  # nobody is right on item 3
    y[:, 3] = 8
    y[:, 4] = 0  # everybody is right on item 4
    y[3, 4] = 0
    np.fill_diagonal(y, 0)
    found = connection(y, complete_graph(5), 0.0)
    assert limits(found) == ["<>", "<>", "<>", "<", ">"]
    assert len(set(found.component[:3].tolist())) == 1
    y[4, :] = 0  # nobody answers item 4
    assert limits(connection(y, complete_graph(5), 0.0))[4] == ""


def test_two_booklets_without_a_common_item_share_no_scale() -> None:
    y = np.kron(np.eye(2), np.full((3, 3), 20.0))
    np.fill_diagonal(y, 0)
    found = connection(y, complete_graph(6), 0.0)
    assert limits(found) == [""] * 6
    assert found.component.tolist() in ([0] * 3 + [1] * 3, [1] * 3 + [0] * 3)
    y[0, 3] = y[3, 0] = 1
    assert limits(connection(y, complete_graph(6), 0.0)) == ["<>"] * 6


@pytest.mark.parametrize("scale", [0.02, 0.5])
def test_noise_hides_neither_a_linked_nor_an_empty_item(scale: float) -> None:
    """At 0.5 no single count stands clear of noise, but the sums do."""
    m, typical = 40, 100.0
    noise_sd = scale * typical
    y = np.random.default_rng(1).normal(typical, noise_sd, (m, m))
    y[:, 7] -= typical  # everybody is right on item 7
    y[9, :] -= typical  # nobody is right on item 9
    np.fill_diagonal(y, 0)
    found = limits(connection(y, complete_graph(m), noise_sd))
    assert found[7] == ">"
    assert found[9] == "<"
    assert [found[i] for i in range(m) if i not in (7, 9)] == ["<>"] * (m - 2)
