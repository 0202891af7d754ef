"""Expected totals of pairs: what noise leaves of them, and what the pattern adds."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import expit

from hushrank.estimation.responses.item_graph import random_graph
from hushrank.estimation.responses.pair_balance import expected_totals, third_answer_shares
from hushrank.privacy.randomness import seeded_bits

M = 40
TRUE = np.random.default_rng(4).normal(size=M)
OFTEN = np.random.default_rng(5).permutation(np.arange(1, M + 1.0) ** -1.0)
EVERY_PAIR = 1 - np.eye(M)


def model_totals() -> NDArray[np.float64]:
    """Of a Rasch model with normal abilities; some items are answered forty times as often."""
    ability = np.random.default_rng(6).normal(size=(4000, 1))
    right = expit(ability - TRUE)
    y = right.T @ (1 - right)
    return (y + y.T) * np.outer(OFTEN, OFTEN) * EVERY_PAIR


def test_without_noise_totals_stay_as_they_are() -> None:
    totals = model_totals()
    assert expected_totals(totals, EVERY_PAIR, 0.0, TRUE) == pytest.approx(totals)


def test_noise_of_rare_pairs_is_not_taken_for_answers() -> None:
    totals, rare = model_totals(), np.median(OFTEN) > OFTEN
    variance = float(np.square(totals).mean()) / 20
    expected, raised = [], []
    for seed in range(20):
        noise = np.random.default_rng(seed).normal(0, np.sqrt(2 * variance), (M, M))
        noisy = totals + np.triu(noise, 1) + np.triu(noise, 1).T
        found = expected_totals(noisy, EVERY_PAIR, variance, TRUE)
        assert (found == found.T).all()
        assert (found >= 0).all()
        expected.append(found[rare].sum() / totals[rare].sum())
        raised.append(np.maximum(noisy, 0)[rare].sum() / totals[rare].sum())
    assert np.mean(raised) > 1.4  # the test has power
    assert np.mean(expected) == pytest.approx(1, abs=0.1)


def test_totals_are_continued_off_a_sparse_graph() -> None:
    totals, graph = model_totals(), random_graph(M, 0.3, seeded_bits(2))
    mask = graph.mask().astype(float)
    found = expected_totals(totals * mask, mask, 0.0, TRUE)
    off = (EVERY_PAIR - mask).astype(bool)
    error = np.sqrt(np.square(found[off] / totals[off] - 1).mean())
    blind = np.sqrt(np.square(totals[mask > 0].mean() / totals[off] - 1).mean())
    assert found[graph.entries] == pytest.approx(totals[graph.entries])
    assert error < 0.25
    assert error < 0.1 * blind


def test_third_answers() -> None:
    totals = model_totals()
    shares = third_answer_shares(totals, 10)
    assert (shares >= 0).all()
    assert (shares <= 1).all()
    assert shares.sum() == pytest.approx(8 * M / (M - 2))
    assert shares[OFTEN.argmax()] == 1
    assert (third_answer_shares(totals, M) == 1).all()
    assert third_answer_shares(EVERY_PAIR, 10) == pytest.approx(np.full(M, 8 / (M - 2)))
