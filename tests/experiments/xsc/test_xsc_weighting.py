"""What weights are worth: the simulated people, the errors, and the factors of the derivation."""

from __future__ import annotations

import numpy as np
import pytest

from hushrank.experiments.xsc.xsc_scenarios import (
    ONE_ORDER,
    OWN_ORDERS,
    drawn_epsilon,
    inverse_sqrt_b,
    item_totals,
    kendall_errors,
    simulated_answers,
)

M = 10
FIRST, SECOND = np.triu_indices(M, 1)


def totals_of_people(kind: str) -> np.ndarray:
    answers = simulated_answers(kind, M, 4000, np.random.default_rng(1))
    return np.stack([item_totals(2.0 * row - 1, M) for row in answers])


def test_own_orders_are_as_steady_as_about_the_cars() -> None:
    totals = totals_of_people(OWN_ORDERS)
    transitive = (np.sort(totals, axis=1) == np.arange(1 - M, M, 2)).all(axis=1)
    assert 1 - transitive.mean() == pytest.approx(0.70, abs=0.03)  # [XSC] section 5.2
    answers = simulated_answers(OWN_ORDERS, M, 4000, np.random.default_rng(1))
    lead = totals[:, FIRST] - totals[:, SECOND]
    against = (lead != 0) & ((lead > 0) != (answers == 1))
    assert against.mean() == pytest.approx(0.0698, abs=0.006)


@pytest.mark.parametrize(("kind", "spread"), [(ONE_ORDER, 1.0), (OWN_ORDERS, 2.7)])
def test_totals_vary_more_where_people_have_orders_of_their_own(kind: str, spread: float) -> None:
    totals = totals_of_people(kind)
    chance = simulated_answers(kind, M, 4000, np.random.default_rng(1)).mean(axis=0)
    alone = 4 * chance * (1 - chance)
    independent = np.bincount(FIRST, alone, M) + np.bincount(SECOND, alone, M)
    assert (totals.var(axis=0) / independent).mean() == pytest.approx(spread, rel=0.1)


@pytest.mark.parametrize("s", [1.0, 2.7])
def test_the_best_factors_are_those_of_the_derivation(s: float) -> None:
    t = np.tanh(np.random.default_rng(2).uniform(0.5, 1.5, 60) / 2)

    def excess(a: np.ndarray) -> float:
        a = a / (a @ t)
        return float(np.square(a) @ (1 - t**2) + s * np.square(a * t - 1 / len(t)).sum())

    best = t / (1 + (s - 1) * t**2)
    rng = np.random.default_rng(3)
    others = [best * (1 + 0.02 * rng.standard_normal(len(t))) for _ in range(200)]
    assert all(excess(other) > excess(best) for other in others)
    assert excess(t) >= excess(best)
    gain = excess(np.ones(60)) / excess(t) - 1  # of the paper's weights over equal ones
    assert gain > 0.03 if s == 1 else abs(gain) < 0.02


def test_equal_items_are_no_error_or_half_of_one() -> None:
    truth, scores = np.array([3.0, 2.0, 1.0, 0.0]), np.array([1.0, 1.0, 2.0, 0.0])
    errors = kendall_errors(scores, truth, "x")
    assert errors["x", "kendall"] == pytest.approx(2 / 6)
    assert errors["x", "kendall_ties_half"] == pytest.approx(2.5 / 6)


def test_privacy_is_the_mean_of_the_squared_attenuations() -> None:
    epsilon = drawn_epsilon(1000, np.random.default_rng(4))
    assert np.ptp(epsilon) < 1
    expected = 1 / np.sqrt(np.square(np.tanh(epsilon / 2)).mean())
    assert inverse_sqrt_b(epsilon) == pytest.approx(expected)
