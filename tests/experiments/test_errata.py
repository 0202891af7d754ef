"""docs/reproduction.md, Errata of the papers: what it says of formulas, computed.

Errata that are about a mechanism of hushrank are tested where the mechanism is.
"""

from __future__ import annotations

import math
from itertools import combinations, permutations
from pathlib import Path

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq

from hushrank.estimation.common.links import LAPLACE, LOGISTIC
from hushrank.experiments.nz.nz_trial import GAUSSIAN, PAPER, Method, noise_law
from hushrank.privacy.accounting import Spend, epsilon_of, rho_for
from hushrank.privacy.amplification import largest_amplified_epsilon
from hushrank.privacy.response_sensitivity import measurement_sensitivity
from hushrank.privacy.units import Adjacency, NoiseKind, PrivacyParams, Unit

DELTA = 1e-4  # of the paper's figures


@pytest.fixture(scope="module")
def page(checkout: Path) -> str:
    """The errata, each paragraph on one line."""
    text = (checkout / "docs" / "reproduction.md").read_text().split("\n## Errata of the papers")[1]
    return " ".join(text.split())


def papers_rho(m: int, epsilon: float) -> float:
    """Of the noise of [NZ] on all pairs, at its own sensitivity m (m - 1)."""
    law = noise_law(Method(GAUSSIAN, "dense", PAPER), m, m * (m - 1) // 2, epsilon, DELTA)
    return m * (m - 1) / (2 * law.scale**2)


def moved_by_one(m: int) -> int:
    """Squared sensitivity of all counts of m items, for a person who answers all."""
    params = PrivacyParams(
        unit=Unit.USER,
        adjacency=Adjacency.REPLACE_ONE,
        epsilon=1.0,
        delta=DELTA,
        noise=NoiseKind.GAUSSIAN,
        max_contributions=m,
    )
    return measurement_sensitivity(params, m).l2_squared


def test_n3_is_what_the_accountant_says(page: str) -> None:
    """Where the rho of [NZ] is more than its epsilon allows, at its sensitivities and at ours."""
    theirs, ours = {}, {}
    for m in (10, 100):
        all_of_it, moved = m * (m - 1), moved_by_one(m)

        def spare(epsilon: float, l2_squared: int, m: int = m, all_of_it: int = all_of_it) -> float:
            rho = papers_rho(m, epsilon) * l2_squared / all_of_it
            return rho_for(epsilon, DELTA, l2_squared) - rho

        theirs[m] = brentq(spare, 4, 12, args=(all_of_it,), xtol=1e-3)
        ours[m] = brentq(spare, 12, 60, args=(moved,), xtol=1e-2)
    assert f"From ε = {theirs[10]:.1f} on with 10 items and {theirs[100]:.1f} with 100" in page
    assert f"up to ε = {ours[10]:.0f} with 10 items and {ours[100]:.0f} with 100" in page
    stated = 5.0
    true = epsilon_of(
        Spend(rho=papers_rho(50, stated) * moved_by_one(50) / 2450, l2_squared=moved_by_one(50)),
        DELTA,
    )
    assert f"at a stated ε = 5 with 50 items ε is {true:.1f}" in page


def test_n5_the_shuffle_bound_lacks_a_term(page: str) -> None:
    local, n = 2.0, 200
    growth = math.exp(local)
    printed = 8 * math.sqrt(growth * math.log(4 / DELTA) / n)
    found = [
        math.log1p(math.tanh(local / 2) * spread) for spread in (printed, printed + 8 * growth / n)
    ]
    assert "{:.3f} as printed, {:.3f} in truth".format(*found) in page
    assert local > largest_amplified_epsilon(n, DELTA)  # as the page says: neither bound holds


def test_n6_the_sparse_graph_of_the_paper_is_often_not_connected(page: str) -> None:
    m, draws, rng = 100, 400, np.random.default_rng(1)
    connected = 0
    for _ in range(draws):
        edges = np.triu(rng.random((m, m)) < math.log(m) / m, 1)
        reached, new = np.zeros(m, bool), np.arange(m) == 0
        while new.any():
            reached |= new
            new = ((edges | edges.T) & new).any(axis=1) & ~reached
        connected += bool(reached.all())
    assert 0.25 < connected / draws < 0.5  # in the limit 1 / e; four standard errors are 0.1
    assert "log(m)/m is connected with probability 1/e = 0.37 in the limit" in page


def test_n7_a_gap_is_bridged_by_errors_of_half_of_it() -> None:
    true, error = np.array([1.0, 0.0]), 0.6
    found = true + np.array([-error, error])
    assert error < true[0] - true[1]
    assert found[0] < found[1]


def test_n8_the_logarithm_is_steeper_below_the_smallest_true_value() -> None:
    """[NZ] Lemma 1.6 with m = 2 and kappa = 0: both items equally difficult."""
    pi, true = np.array([0.999, 0.001]), np.array([0.5, 0.5])
    beta = np.log(pi) - np.log(pi).mean()
    assert np.abs(beta).max() > 2 * 2 * np.abs(pi - true).max()


def test_c2_one_constant_cannot_serve_both_ends(page: str) -> None:
    curvature = 0.25 / math.cosh(2.0) ** 2  # of -log F at 4, logistic link
    assert f"more than {1 / curvature:.0f}, where 1/4 is enough" in page
    assert LOGISTIC.kappa2 == 0.25
    x, h = -1.0, 1e-3  # (A2) wants more than 0 everywhere; the Laplace link has 0 below 0
    log_f = [math.log(LAPLACE.cdf(np.array([x + k * h]))[0]) for k in (-1, 0, 1)]
    assert log_f[0] - 2 * log_f[1] + log_f[2] == pytest.approx(0, abs=1e-12)


def test_c3_the_determinants_of_proposition_3_1(page: str) -> None:
    """L rank-one changes multiply by (1 + 2 kappa2 / gamma)^L; gamma = 8 L kappa2 / epsilon."""

    def changes(epsilon: float, most: int) -> tuple[float, float]:
        return (1 + epsilon / (4 * most)) ** most, 1 + epsilon / 2

    for epsilon, holds in ((1.0, True), (5.0, True), (6.0, False)):
        true, printed = changes(epsilon, 1000)
        assert (true <= printed) is holds
        assert true <= math.exp(epsilon / 2)  # so the proposition stands
    assert "above ε = 5 for many answers" in page


def test_x1_the_printed_density_integrates_to_two() -> None:
    assert quad(lambda y: math.exp(-abs(y) / 2) / 2, -np.inf, np.inf)[0] == pytest.approx(2)
    np.testing.assert_allclose(LAPLACE.cdf(np.array([-50.0, 0.0, 50.0])), [0, 0.5, 1], atol=1e-12)


def test_x4_the_laplace_link_has_no_curvature_to_bound() -> None:
    """-g' is 0 below 0, where log F = x - log 2: the lemma bounds a probability by 1 - m."""
    x = np.array([-3.0, -2.0, -1.0])
    np.testing.assert_allclose(np.diff(np.log(LAPLACE.cdf(x))), 1, rtol=1e-12)
    m, curvature = 10, 0.0
    assert 1 - m * math.exp(-3 * curvature**2 / 128) == 1 - m


def test_x5_a_missed_item_costs_one_and_not_half() -> None:
    """[XSC] proof of Lemma S8: K = 1, the worse of two items on top, and t below both."""
    found, t = np.array([0.0, 1.0]), -1.0  # item 0 is the better one
    wrong = int(found[0] <= t) + int(found[1] >= t)
    error = 1.0  # H_K: one of one is missed
    assert wrong / 2 < error <= wrong


def test_r4_the_printed_likelihood_is_least_at_the_worst_order() -> None:
    """[RDP] equation 1: m = 3, one synthetic ranking that is the true one."""
    orders = list(permutations(range(3)))

    def agreed(one: tuple[int, ...], other: tuple[int, ...]) -> int:
        pairs = combinations(range(3), 2)
        return sum(
            (one.index(a) < one.index(b)) == (other.index(a) < other.index(b)) for a, b in pairs
        )

    total = {
        order: math.log(sum(math.exp(agreed(order, each)) for each in orders)) for order in orders
    }
    assert max(total.values()) == pytest.approx(min(total.values()))  # of no consequence
    printed = {order: total[order] + agreed(order, (0, 1, 2)) for order in orders}
    assert min(printed, key=printed.__getitem__) == (2, 1, 0)
    assert max(printed, key=printed.__getitem__) == (0, 1, 2)
