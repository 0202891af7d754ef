"""docs/reproduction.md, Errata of the papers: what it says of formulas, computed.

Errata that are about a mechanism of hushrank are tested where the mechanism is.
"""

from __future__ import annotations

import math
import re
from itertools import combinations, permutations, product
from pathlib import Path

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq

from hushrank.estimation.common.estimate import top_k_distance
from hushrank.estimation.common.links import LAPLACE, LOGISTIC, PROBIT
from hushrank.estimation.comparisons.perturbed_mle import OUTPUT_SHARE, RIDGE_FACTOR
from hushrank.estimation.rankings.inference_attack import largest_success
from hushrank.experiments.nz.nz_trial import GAUSSIAN, PAPER, Method, noise_law
from hushrank.experiments.rdp.rdp_trial import pairwise_accuracy
from hushrank.experiments.xsc.xsc_scenarios import scheme_epsilon
from hushrank.privacy.accounting import Spend, epsilon_of, rho_for
from hushrank.privacy.amplification import largest_amplified_epsilon
from hushrank.privacy.mallows import concordance_probability
from hushrank.privacy.objective_perturbation import Constants, LossBounds, calibrate_noise
from hushrank.privacy.response_sensitivity import measurement_sensitivity
from hushrank.privacy.sensitivity import win_counts_sensitivity
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


class NeverReturnsError(Exception):
    pass


def first_loop_as_printed(rng: np.random.Generator, t: int, most: int, *, leaves: bool) -> int:
    """[NZ] supplement, `discrete_gaussian_sample`, up to the first loop's end.

    Args:
        rng: of the draws.
        t: as there, floor(sigma) + 1.
        most: draws of the loop after which it is given up.
        leaves: leave the loop where the sampler that it is of does: with D = 1.
    """
    for _ in range(most):
        u = int(rng.integers(t))
        one = rng.random() < math.exp(-u / t)  # D of exponential_bernoulli_sample(U / t)
        if one and leaves:
            return u
        # with D = 0 the function starts again, with this same loop first
    raise NeverReturnsError


def test_n9_the_printed_sampler_never_returns(page: str) -> None:
    """A call that leaves the loop does so within 400 draws but for a chance of 1e-79."""
    rng = np.random.default_rng(1)
    drawn = [first_loop_as_printed(rng, 5, 400, leaves=True) for _ in range(50)]
    assert set(drawn) == set(range(5))
    with pytest.raises(NeverReturnsError):
        first_loop_as_printed(rng, 5, 100_000, leaves=False)
    assert "as printed it never returns" in page


def test_c4_the_theorem_and_its_proof_choose_otherwise(page: str) -> None:
    """[CCW] Theorem 3.1 and supplement B.2.1: the ridge, and the noise with L once more."""
    n, L, epsilon, kappa = 50, 3, 0.5, 0.25

    def ridge_of_proof(m: int) -> float:
        return RIDGE_FACTOR * math.sqrt(2 * m * L / n * math.log(n))

    of_theorem = 8 * L * kappa / epsilon  # whatever m is
    assert ridge_of_proof(4000) == pytest.approx(2 * ridge_of_proof(1000))
    assert ridge_of_proof(100) < of_theorem * 1.5 < of_theorem * 2.5 < ridge_of_proof(10_000)
    own = 8 * L * LOGISTIC.kappa1 / epsilon
    assert L * own == pytest.approx(8 * L**2 * LOGISTIC.kappa1 / epsilon)
    assert "γ = c₀√(S log n) with S = 2mL/n" in page
    assert "(Lλ = 8L²κ₁/ε)" in page


def test_c1_a_sort_by_position_favours_the_items_in_front() -> None:
    """All items tie: with the best in front no item is missed, in random order as by chance."""
    n, rng = 40, np.random.default_rng(3)
    truth, equal = np.linspace(1, -1, n), np.zeros(n)
    assert top_k_distance(equal, truth, n // 4) == 0
    errors = [top_k_distance(equal, rng.permutation(truth), n // 4) for _ in range(400)]
    assert np.mean(errors) == pytest.approx(0.75, abs=0.03)  # 5 standard errors


def test_r1_the_largest_of_many_log_ratios_is_above_the_true_one() -> None:
    """[RDP] equation 8 on draws whose true ratio is e^epsilon for half of the outputs."""
    rng, epsilon, outputs, draws = np.random.default_rng(5), 0.5, 24, 20_000
    half = np.repeat([math.exp(epsilon), 1.0], outputs // 2)
    found = []
    for _ in range(20):
        one, other = (
            rng.multinomial(draws, weights / weights.sum()) for weights in (half, half[::-1])
        )
        found.append(np.abs(np.log(one / other)).max())
    assert min(found) > epsilon  # twelve ratios each way: the largest is above the true one


def test_r2_a_perfect_function_has_half_the_printed_accuracy() -> None:
    """[RDP] equation 11: pairs in the right order over m (m - 1)."""
    m, scores = 6, np.arange(6.0)
    right = sum(
        scores[i] > scores[j] and scores[i] > scores[j] for i, j in permutations(range(m), 2)
    )
    assert right / (m * (m - 1)) == 0.5
    assert pairwise_accuracy(scores, scores[np.newaxis]) == 1


def test_r5_no_constant_bounds_the_chance_of_a_wrong_guess() -> None:
    """[RDP] Theorem 2 at N = 1: the printed bound without C_0 outgrows every number."""

    def printed(m: int, epsilon: float, n: int) -> float:
        more = math.expm1(epsilon / (m - 1))
        return (more + 2) / more * math.sqrt(2 / (math.pi * n)) * math.exp(-n * more**2)

    for epsilon in (1e-3, 1e-6):
        assert printed(5, epsilon, 1) == pytest.approx(1.6 * 4 / epsilon, rel=0.01)
    for n in (1, 11, 101, 10_001):  # the second half: at (m - 1) / sqrt(N) guesses stay wrong
        assert 1 - largest_success(5, 4 / math.sqrt(n), n) > 0.25


def test_r6_a_mean_of_products_is_no_product_of_means() -> None:
    """[RDP] proof of Corollary 1: people with errors choose the smaller epsilon."""
    psi, error = np.array([10.0, 1.0]), np.array([0.2, 0.0])
    assert (psi * error).mean() > psi.mean() * error.mean()


def test_n10_the_printed_probability_is_above_one() -> None:
    """[NZ] supplement, Theorem 1.5 with m = 10, n p^2 = 100, C = 1 and C' = 2."""
    m, met, C, C_prime = 10, 100.0, 1, 2
    fails = m * min(math.exp(-4 * (C_prime - 1) * m), met ** (-4 * (C_prime - 1)))
    rest = 2 * m**2 / met**C + math.exp(-met / 10)
    assert 1 - fails + rest > 1


def test_x6_the_orders_of_epsilon_are_those_of_the_page(page: str) -> None:
    """Half of the pairs, and the orders that reproduce Table 6 ([XSC] Scenario III)."""
    for scheme, power in (("1", 1.5), ("2", 0.0), ("3", -2.0)):
        assert scheme_epsilon(scheme, 10, 100) == pytest.approx(2.82)
        ratio = (math.log(24_000) / math.log(1000)) ** power / math.sqrt(24)
        assert scheme_epsilon(scheme, 30, 800) == pytest.approx(2.82 * ratio)
    assert "ε = 2.82 at 10 items and 100 people for all schemes" in page
    assert "Scheme 1 needs log(mL)^1.5" in page


UNCOMPUTED = {  # errata that say where a text is read, or which command shows them
    "X2": "`hushrank reproduce xsc --only table-2` shows all of it",
    "X3": "The caption names the errors of γ̂",
}
TESTED_ELSEWHERE = {  # the mechanisms' own tests
    "E1": ("privacy/test_sensitivity.py", "test_erratum_1_the_published_scale_is_below_the_truth"),
    "E3": ("privacy/test_exact_minimiser.py", "test_cover_is_that_of_the_derivation"),
    "E4": ("privacy/test_mallows.py", "test_the_law_is_mallows_on_all_rankings"),
    "E5": ("flows/methods/test_spectral.py", "test_every_count_of_the_graph_gets_noise_zeros_too"),
    "R3": (
        "estimation/rankings/test_pair_debiasing.py",
        "test_private_rankings_can_have_another_order_than_the_true_ones",
    ),
}


def test_every_erratum_is_computed_or_says_its_place(page: str) -> None:
    """A new one needs a test here, a test of the mechanism it is about, or a source."""
    named = set(re.findall(r"\*\*([A-Z]\d+)\*\*|### ([A-Z]\d+):", page))
    errata = {one or other for one, other in named}
    tested = {
        name.upper() for name in re.findall(r"def test_([a-z]\d+)_", Path(__file__).read_text())
    }
    assert errata == tested | set(UNCOMPUTED) | set(TESTED_ELSEWHERE)
    assert all(text in page for text in UNCOMPUTED.values())
    for path, test in TESTED_ELSEWHERE.values():
        assert f"def {test}(" in (Path(__file__).parents[1] / path).read_text()


def test_e2_no_constant_bounds_the_slope_of_the_probit_link() -> None:
    """[CCW] A1: F' / (F (1 - F)) grows like |x|."""
    x = np.array([-3.0, -6.0, -9.0])
    ratio = np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi) / (PROBIT.cdf(x) * PROBIT.cdf(-x))
    np.testing.assert_allclose(ratio, -x, rtol=0.12)
    assert not math.isfinite(PROBIT.kappa1)


@pytest.mark.parametrize("m", [2, 3, 5, 6])
def test_e6_half_of_the_counts_move_at_most(m: int) -> None:
    """All pairs of answer sheets of one person: how far the counts of (right, wrong) move."""
    sheets = np.array(list(product((0, 1), repeat=m)))
    counts = (sheets[:, :, np.newaxis] * (1 - sheets[:, np.newaxis])).reshape(len(sheets), -1)
    moved = np.square(counts[:, np.newaxis] - counts).sum(axis=2).max()
    assert moved == moved_by_one(m) == 2 * (m**2 // 4)
    assert moved <= m * (m - 1)


def test_n4_a_sparse_graph_does_not_lower_gaussian_noise(page: str) -> None:
    """Noise in a difficulty: of one count, over the root of the number of pairs of an item."""
    m, K, degree = 100, 20, 6

    def noise(counts_moved: float, pairs_of_item: int) -> float:
        return math.sqrt(counts_moved / pairs_of_item)

    as_printed = noise(m * degree, degree), noise(m * (m - 1), m - 1)  # of all counts
    assert as_printed[0] == pytest.approx(as_printed[1])
    of_a_person = noise(2 * (K * degree // 2), degree), noise(2 * (K**2 // 4), m - 1)
    assert of_a_person[0] / of_a_person[1] == pytest.approx(math.sqrt(2 * (m - 1) / K))
    assert "all pairs are better by √(2m/K) or more" in page


def test_e1_the_exact_sensitivities_of_the_page(page: str) -> None:
    """[CCW] Algorithm 3 where every pair is answered once: l1 in place of L, for both surveys."""
    told = {6: "(n = 6, L = 15) it is 24, so that noise gives 1.6ε", 4: "(n = 4, L = 6) it is 10"}
    for n, text in told.items():
        rows = n * (n - 1) // 2
        params = PrivacyParams(
            unit=Unit.USER,
            adjacency=Adjacency.REPLACE_ONE,
            epsilon=1.0,
            max_contributions=rows,
            distinct_pairs=True,
        )
        moved = win_counts_sensitivity(params, n).l1
        assert text in page
        assert moved / rows == pytest.approx({6: 1.6, 4: 5 / 3}[n])
    assert "and gives 1.67ε" in page


@pytest.mark.parametrize(("public_graph", "factor"), [(True, 4), (False, 2)])
def test_e3_the_published_constants_are_two_to_four_times_as_noisy(
    page: str, public_graph: bool, factor: float
) -> None:
    params = PrivacyParams(
        unit=Unit.COMPARISON, adjacency=Adjacency.REPLACE_ONE, epsilon=1.0, max_contributions=1
    )
    loss = LossBounds(
        slope=1.0, kappa1=LOGISTIC.kappa1, kappa2=LOGISTIC.kappa2, outcome_free_curvature=True
    )
    tight, paper = (
        calibrate_noise(
            loss, params, 5, 1e9, epsilon=1.0, public_graph=public_graph, constants=constants
        ).scale
        for constants in Constants
    )
    assert paper / tight == pytest.approx(factor, rel=1e-3)
    assert "two to four times as noisy" in page
    assert f"noise of its own, {100 * OUTPUT_SHARE:g} % of ε" in page


def test_numbers_of_the_errata_that_follow_from_formulas(page: str) -> None:
    """N8's two numbers, C2's factor, E6's, and those of R3."""
    pi = np.array([0.999, 0.001])
    beta = np.log(pi) - np.log(pi).mean()
    bound = 2 * 2 * np.abs(pi - 0.5).max()
    assert f"off by {np.abs(beta).max():.1f}, the bound says {bound:.1f}" in page
    curvature = 0.25 / math.cosh(2.0) ** 2
    assert f"and γ {1 / curvature / 0.25:.0f} times too large" in page
    m = 10
    scales = math.sqrt(m * (m - 1)) ** 0.5, math.sqrt(m * (m - 1))
    assert scales[1] / scales[0] == pytest.approx((m * (m - 1)) ** 0.25)
    assert "too small by the factor ⁴√(m(m−1)) in its scale" in page
    near, far = concordance_probability(np.array([1, 9]), 2.0, 10).tolist()
    assert f"{near:.3f} and that of the first and the last with {far:.3f}" in page
    assert f"= {100 * (0.7 * near + 0.3 * (1 - far)):.1f} % of the private rankings" in page
