"""What the verifier computes by itself, against `privacy/`, on random public numbers."""

from __future__ import annotations

import math
import re
import time
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hushrank.estimation.common.matrices import WinCounts
from hushrank.estimation.common.uncertainty import quantile
from hushrank.estimation.comparisons.noisy_counts import rank_by_win_counts
from hushrank.privacy.accounting import Spend, composed_epsilon, decimal_value, epsilon_of, rho_for
from hushrank.privacy.best_encoder import best_encoder
from hushrank.privacy.filters import Rule, adaptive_total
from hushrank.privacy.gaussian_profile import composed_gaussians, shift_of
from hushrank.privacy.mallows import insertion_weights
from hushrank.privacy.noise import NoiseLaw, gaussian_law
from hushrank.privacy.random_pairs import Hide, law_of_epsilon
from hushrank.privacy.randomized_response import split_response
from hushrank.privacy.ranking_sensitivity import (
    Part,
    margin_weights,
    ranking_below_sensitivity,
    ranking_sensitivity,
    spread_weights,
)
from hushrank.privacy.response_sensitivity import measurement_sensitivity
from hushrank.privacy.row_weights import Counted, weighted_sensitivity
from hushrank.privacy.sensitivity import (
    Sensitivity,
    exposures_sensitivity,
    outcomes_sensitivity,
    pair_counts_sensitivity,
    sheet_totals_sensitivity,
    tie_counts_sensitivity,
    win_counts_sensitivity,
    win_loss_sensitivity,
)
from hushrank.privacy.stream import stream_sensitivity
from hushrank.privacy.stream_encoder import RowTerms, SquareTerms, Terms, Workload, square_root
from hushrank.privacy.units import Adjacency, Bounding, NoiseKind, PrivacyParams, Unit
from hushrank.verifier import verify_release as verifier

FEW = settings(max_examples=40, deadline=None)
EPSILONS = st.floats(0.01, 12).map(lambda value: float(f"{value:.4g}"))
DELTAS = st.floats(-12, -2).map(lambda power: float(f"{10**power:.3g}"))


@st.composite
def bounded(draw: st.DrawFn, laplace: bool | None = None) -> PrivacyParams:
    """Unit, adjacency and bounds."""
    adjacency = draw(st.sampled_from(Adjacency))
    if draw(st.integers(0, 4)) == 0:
        return PrivacyParams(unit=Unit.COMPARISON, adjacency=adjacency, epsilon=1.0)
    rows = draw(st.integers(1, 40))
    cap = draw(st.one_of(st.none(), st.integers(1, rows)))
    distinct = draw(st.booleans())
    return PrivacyParams(
        unit=Unit.USER,
        adjacency=adjacency,
        epsilon=1.0,
        max_contributions=rows,
        per_item_cap=cap,
        distinct_pairs=distinct,
    )


def bundle(params: PrivacyParams, items: int, weight: int = 1, groups: int = 1) -> verifier.Bundle:
    """The same for the verifier."""
    sides = 1 if params.adjacency is Adjacency.ADD_REMOVE else 2
    rows, cap, distinct = params.max_contributions, params.per_item_cap, params.distinct_pairs
    return verifier.Bundle(items, rows, cap, distinct, sides, weight, groups)


def norms(sensitivity: Sensitivity) -> tuple[int, int]:
    """As the verifier writes them."""
    return sensitivity.l1, sensitivity.l2_squared


@FEW
@given(bounded(), st.integers(2, 9), st.integers(1, 2), st.integers(1, 3))
def test_sensitivities_of_counts(params, items, weight, groups):
    own = bundle(params, items, weight, groups)
    for ours, theirs in (
        (verifier.win_counts, win_counts_sensitivity),
        (verifier.PLAIN["pair_counts_sensitivity"], pair_counts_sensitivity),
        (verifier.win_loss, win_loss_sensitivity),
    ):
        assert ours(own) == norms(theirs(params, items, weight, groups))
    ties = verifier.PLAIN["tie_counts_sensitivity"]
    assert ties(own) == norms(tie_counts_sensitivity(params, items, groups))
    assert verifier.exposures(own) == norms(exposures_sensitivity(params, items, weight))
    if params.adjacency is Adjacency.REPLACE_ONE:
        assert verifier.outcomes(own) == norms(outcomes_sensitivity(params, items, weight))


@FEW
@given(
    st.sampled_from(Adjacency),
    st.integers(1, 12),
    st.integers(2, 9),
    st.sampled_from(Counted),
    st.booleans(),
    st.sampled_from([None, 1.5, 7.0]),
)
def test_sensitivity_of_weighted_rows(adjacency, rows, items, counted, by_weights, heaviest):
    if not by_weights and heaviest is None:
        heaviest = 1.0
    params = PrivacyParams(
        unit=Unit.USER,
        adjacency=adjacency,
        epsilon=1.0,
        delta=1e-6,
        noise=NoiseKind.GAUSSIAN,
        max_contributions=rows,
        distinct_pairs=True,
        bounding=Bounding.WEIGHTS if by_weights else Bounding.LEAVE_OUT,
        max_weight=heaviest,
    )
    found = weighted_sensitivity(params, counted, items, 2)
    own = bundle(params, items, 2)
    counts = {"wins": verifier.win_counts, "win-loss": verifier.win_loss}
    own_counts = counts.get(str(counted), verifier.PLAIN["pair_counts_sensitivity"])
    ours = verifier.weighted(own, own_counts, params.most_units, by_weights, False)
    assert ours == (norms(found.whole), found.divisor)


def lists_of(rows: int, sides: int, groups: int, overlap: int) -> Any:
    """Rankings of one person, as the verifier takes them."""
    bounds = {"items": 2, "rows": rows, "cap": None, "distinct": False, "weight": 1}
    return verifier.Bundle(**bounds, sides=sides, groups=groups, most=overlap)


SHARED = [
    (1, 0),
    (2, 0),
    (3, 1),
    (3, 2),
    (6, 2),
    (9, 4),
]  # groups, and those of a list that overlap


@FEW
@given(
    st.sampled_from(Adjacency),
    st.integers(1, 5),
    st.integers(2, 9),
    st.sampled_from([Part.ABOVE, Part.NETS]),
    st.sampled_from(NoiseKind),
)
def test_sensitivity_of_rankings(adjacency, lists, longest, part, noise):
    params = PrivacyParams(
        unit=Unit.USER,
        adjacency=adjacency,
        epsilon=1.0,
        delta=0.0 if noise is NoiseKind.LAPLACE else 1e-6,
        noise=noise,
        max_contributions=lists,
    )
    sides = 1 if adjacency is Adjacency.ADD_REMOVE else 2
    for weights in (spread_weights(params, part, longest), {part: 1}, {Part.PLACES: 3}):
        named = {str(name): weight for name, weight in weights.items()}
        for groups, overlap in SHARED:
            found = norms(ranking_sensitivity(params, longest, weights, groups, overlap or None))
            bundle = lists_of(lists, sides, groups, overlap)
            assert verifier.rankings(bundle, longest, longest, named) == found


@FEW
@given(
    st.sampled_from(Adjacency),
    st.integers(1, 5),
    st.integers(2, 9),
    st.integers(0, 4),
    st.sampled_from([Part.ABOVE, Part.NETS]),
    st.sampled_from(NoiseKind),
)
def test_sensitivity_of_rankings_above_all_others(adjacency, lists, longest, more, part, noise):
    params = PrivacyParams(
        unit=Unit.USER,
        adjacency=adjacency,
        epsilon=1.0,
        delta=0.0 if noise is NoiseKind.LAPLACE else 1e-6,
        noise=noise,
        max_contributions=lists,
    )
    sides, n = 1 if adjacency is Adjacency.ADD_REMOVE else 2, longest + more
    spread = spread_weights(params, part, longest, below=n)
    margins = margin_weights(params, longest, below=n)
    for weights in (spread, {part: 1}, {Part.PLACES: 3}, margins):
        named = {str(name): weight for name, weight in weights.items()}
        for groups, overlap in SHARED:
            shared = (groups, overlap or None)
            found = norms(ranking_below_sensitivity(params, longest, weights, n, *shared))
            bundle = lists_of(lists, sides, groups, overlap)
            assert verifier.rankings(bundle, longest, n, named) == found


@FEW
@given(st.sampled_from(Adjacency), st.integers(1, 9), st.integers(2, 9), st.data())
def test_sensitivity_of_measurements(adjacency, answers, items, data):
    params = PrivacyParams(
        unit=Unit.USER, adjacency=adjacency, epsilon=1.0, max_contributions=answers
    )
    edges = data.draw(st.one_of(st.none(), st.integers(1, items * (items - 1) // 2)))
    degree = data.draw(st.one_of(st.none(), st.integers(1, items - 1)))
    sides = 1 if adjacency is Adjacency.ADD_REMOVE else 2
    found = norms(measurement_sensitivity(params, items, edges, degree))
    assert verifier.measurements(answers, sides, items, edges, degree) == found


@FEW
@given(
    st.sampled_from(Adjacency),
    st.integers(1, 9),
    st.integers(2, 9),
    st.integers(1, 9),
    st.integers(1, 90),
)
def test_sensitivity_of_totals_of_sheets(adjacency, answers, items, answer_weight, sheet_weight):
    params = PrivacyParams(
        unit=Unit.USER, adjacency=adjacency, epsilon=1.0, max_contributions=answers
    )
    sides = 1 if adjacency is Adjacency.ADD_REMOVE else 2
    found = norms(sheet_totals_sensitivity(params, items, answer_weight, sheet_weight))
    assert verifier.sheet_totals(answers, sides, items, answer_weight, sheet_weight) == found


@FEW
@given(
    st.integers(1, 40),
    st.integers(1, 6),
    st.integers(1, 10),
    st.one_of(st.none(), st.integers(1, 20)),
    st.sampled_from(Adjacency),
)
def test_sensitivity_of_streams(nights, participations, gap, window, adjacency):
    terms, workload = Terms(nights=nights, participations=participations, gap=gap), Workload(window)
    bands = workload.most_bands(terms)
    encoder = square_root(workload, bands)
    assert verifier.encoder(window, bands) == list(encoder.coefficients)
    found = norms(stream_sensitivity(Sensitivity(3, 5), adjacency, terms, encoder))
    sides = 1 if adjacency is Adjacency.ADD_REMOVE else 2
    column = encoder.coefficients
    assert verifier.stream((3, 5), sides, nights, participations, gap, column) == found


@FEW
@given(
    st.integers(1, 40),
    st.integers(1, 60),
    st.integers(1, 10),
    st.one_of(st.none(), st.integers(1, 20)),
    st.sampled_from(Adjacency),
    st.sampled_from([1, 2]),
)
def test_sensitivity_of_streams_of_metered_rows(nights, rows, gap, window, adjacency, weight):
    terms, workload = RowTerms(nights=nights, rows=rows, gap=gap, burst=1), Workload(window)
    encoder = square_root(workload, workload.most_bands(terms))
    one = Sensitivity(weight, weight**2)
    found = norms(stream_sensitivity(one, adjacency, terms, encoder))
    bundle = verifier.Bundle(
        items=4, rows=5, cap=None, distinct=True, weight=weight, groups=1,
        sides=1 if adjacency is Adjacency.ADD_REMOVE else 2,
    )  # fmt: skip
    metered = {"rows": rows, "pair_gap": gap, "burst": 1}
    stated = verifier.metered_norms(bundle, metered, encoder.coefficients, "pair-counts")
    assert stated == found
    for wrong in ({"pair_gap": encoder.bands - 1}, {"burst": rows + 1}):
        with pytest.raises(verifier.Wrong):
            verifier.metered_norms(bundle, metered | wrong, encoder.coefficients, "pair-counts")
    with pytest.raises(verifier.Wrong, match="metered for pair-counts"):
        verifier.metered_norms(bundle, metered, encoder.coefficients, "win-counts")


@FEW
@given(
    st.integers(1, 40),
    st.integers(2, 90),
    st.integers(1, 10),
    st.one_of(st.none(), st.integers(1, 20)),
    st.sampled_from(Adjacency),
    st.sampled_from([1, 2]),
)
def test_sensitivity_of_streams_of_squares(nights, squares, gap, window, adjacency, weight):
    terms = SquareTerms(nights=nights, squares=squares, gap=gap, burst=2)
    workload = Workload(window)
    encoder = square_root(workload, workload.most_bands(terms))
    found = norms(stream_sensitivity(Sensitivity(weight, weight**2), adjacency, terms, encoder))
    bundle = verifier.Bundle(
        items=4, rows=5, cap=None, distinct=True, weight=weight, groups=1,
        sides=1 if adjacency is Adjacency.ADD_REMOVE else 2,
    )  # fmt: skip
    metered = {"squares": squares, "gap": gap, "burst": 2}
    column = encoder.coefficients
    assert verifier.metered_norms(bundle, metered, column, "win-loss-counts") == found
    for wrong in ({"gap": encoder.bands - 1}, {"burst": squares + 1}):
        with pytest.raises(verifier.Wrong):
            verifier.metered_norms(bundle, metered | wrong, column, "win-loss-counts")
    for kind, distinct in (("win-counts", True), ("pair-counts", True), ("win-loss-counts", False)):
        with pytest.raises(verifier.Wrong, match="metered for win-loss-counts, each row"):
            verifier.metered_norms(replace(bundle, distinct=distinct), metered, column, kind)


@settings(max_examples=12, deadline=None)
@given(st.floats(0.001, 60), st.floats(0.0001, 7))
def test_bounds_of_functions_are_bounds_and_tight(x, z):
    for (low, high), value in (
        (verifier.exp_bounds(Fraction(-x)), math.exp(-x)),
        (verifier.exp_bounds(Fraction(x)), math.exp(x)),
        (verifier.log_bounds(Fraction(x)), math.log(x)),
        (verifier.sqrt_bounds(Fraction(x)), math.sqrt(x)),
        (verifier.tail_bounds(Fraction(z)), math.erfc(z / math.sqrt(2)) / 2),
        (verifier.density_bounds(Fraction(z)), math.exp(-z * z / 2) / math.sqrt(2 * math.pi)),
    ):
        assert 0 <= high - low <= abs(high) / 10**40
        assert math.isclose(float(low), value, rel_tol=1e-12, abs_tol=1e-15)


@settings(max_examples=10, deadline=None)
@given(EPSILONS, DELTAS, st.integers(1, 10**6))
def test_gaussian_noise_for_an_epsilon_and_a_delta_is_proved(epsilon, delta, l2_squared):
    """From above, and hardly above: a scale one part in a thousand smaller is refused."""
    law = gaussian_law(Sensitivity(1, l2_squared), rho_for(epsilon, delta, l2_squared))
    asked, allowed = decimal_value(epsilon), decimal_value(delta)
    change = (l2_squared, Fraction(law.scale) ** 2)
    assert verifier.gaussian_delta([change], asked) <= allowed
    smaller = (l2_squared, Fraction(law.scale * 0.9) ** 2)
    assert verifier.gaussian_delta([smaller], asked) > allowed


@settings(max_examples=6, deadline=None)
@given(st.lists(st.floats(0.001, 0.3), min_size=2, max_size=5), DELTAS)
def test_gaussian_releases_together_are_proved(rhos, delta):
    spends = [Spend(rho=float(f"{rho:.3g}"), l2_squared=40) for rho in rhos]
    total = decimal_value(composed_epsilon(spends, delta))
    losses = verifier.losses_of(
        [(Fraction(0), Fraction(0), decimal_value(s.rho), 40) for s in spends]
    )
    assert verifier.covers(total, decimal_value(delta), losses)
    assert not verifier.covers(total * Fraction(9, 10), decimal_value(delta), losses)
    alone = composed_gaussians([shift_of(spends[0].rho, 40)], delta)
    assert alone >= epsilon_of(spends[0], delta) * (1 - 1e-9)


@settings(max_examples=6, deadline=None)
@given(st.integers(5, 40), st.floats(0.05, 0.4), DELTAS)
def test_pure_releases_together_are_proved(releases, epsilon, delta):
    """The accountant's total is above that of the optimal composition, and near it."""
    cost = float(f"{epsilon:.3g}")
    spends = [Spend(epsilon=cost)] * releases
    total = decimal_value(composed_epsilon(spends, delta))
    told = [(decimal_value(cost), Fraction(0), None, 1)] * releases
    assert verifier.composed(total, decimal_value(delta), told)
    assert not verifier.composed(total * Fraction(9, 10), decimal_value(delta), told)


def told(spend):
    """A cost as the verifier has it."""
    rho = None if spend.rho is None else decimal_value(spend.rho)
    return decimal_value(spend.epsilon), decimal_value(spend.delta), rho, spend.l2_squared


@pytest.mark.parametrize("delta", [1e-9, 1e-3])
@pytest.mark.parametrize(
    ("spends", "first", "rule"),
    [
        ([Spend(epsilon=0.5), Spend(epsilon=0.3)], None, "sum"),
        ([Spend(epsilon=0.5, delta=3e-10), Spend(epsilon=0.3, delta=1e-10)], None, "sum"),
        ([Spend(epsilon=0.1)] * 60, None, "equal-costs"),
        ([Spend(epsilon=0.02), *[Spend(epsilon=0.1)] * 59], Spend(epsilon=0.1), "equal-costs"),
        ([Spend(rho=0.01, l2_squared=5), Spend(rho=0.003)], None, "gaussian"),
        ([Spend(rho=0.9)] * 3, None, "renyi"),
        ([Spend(rho=0.004), *[Spend(epsilon=0.1)] * 70], None, "renyi"),
        ([Spend(epsilon=0.5), *[Spend(epsilon=0.1, delta=5e-14)] * 90], None, "renyi"),
        ([Spend(rho=0.02, l2_squared=5)], None, "one"),
    ],
)
def test_totals_under_adaptive_choice_are_proved(spends, first, rule, delta):
    """Each by its rule; one in a thousand less is refused, and so is another rule."""
    total = adaptive_total(spends, delta, first)
    assert total.rule == rule
    asked, began = decimal_value(total.epsilon), told(first or spends[0])
    costs, at = [told(each) for each in spends], decimal_value(delta)
    assert verifier.allowed(rule, asked, at, began, costs)
    less = asked * Fraction(999, 1000)
    assert not any(verifier.allowed(each, less, at, began, costs) for each in Rule)
    assert not verifier.allowed("unheard-of", asked, at, began, costs)


def test_no_cost_and_no_signature_takes_long():
    """Each of these took minutes, or for ever."""
    start = time.process_time()
    for cost, total in ((Fraction(1, 10), Fraction(20)), (Fraction(200), Fraction(70_000))):
        spends = [(cost, Fraction(0), None, 1)] * 365
        assert verifier.composed(total, Fraction(1, 1000), spends) == (cost < 1)
    assert not verifier.composed(total, Fraction(0), spends * 200)
    assert verifier.log_bounds(Fraction(1)) == verifier.sqrt_bounds(Fraction(0)) == (0, 0)
    assert verifier.encoder(None, 3000)[-1] > 0
    with pytest.raises(verifier.Wrong, match="than its window has nights"):
        verifier.encoder(2, 10**6)
    base = bytes.fromhex("58" + 31 * "66")
    assert not verifier.signed_by(base, b"", base + b"\xff" * 1_000_000)
    assert time.process_time() - start < 20


@pytest.mark.parametrize("part", ["epsilon", "delta", "rho"])
def test_costs_are_decimals_or_floats(part):
    """The sum of costs of any denominators takes time with the square of their number."""
    cost = {"epsilon": "0", "delta": "0", "rho": None, "l2_squared": 1}
    for value in (5e-324, 0.1, 1e300):
        found = verifier.spend_of(cost | {part: str(Fraction(value))})
        assert Fraction(value) in found
    assert Fraction(1, 10) in verifier.spend_of(cost | {part: "1/10"})
    with pytest.raises(verifier.Wrong, match="the decimals of a cost do not end"):
        verifier.spend_of(cost | {part: "1/3"})


@settings(max_examples=6, deadline=None)
@given(EPSILONS, st.integers(1, 4))
def test_thresholds_and_weights_hold_and_hardly_more(epsilon, size):
    asked = decimal_value(epsilon)
    for answers, threshold in enumerate(split_response(epsilon, size).thresholds[1:], start=1):
        loss = answers * verifier.answer_loss(threshold)
        assert loss <= asked
        assert loss >= asked - answers * Fraction(3, 10**12)  # what rounding up costs
    for hide in Hide:
        law = law_of_epsilon(epsilon, size, hide)
        others = 1 if hide is Hide.ORDER else 2
        assert size * verifier.answer_loss(law.threshold, others) <= asked
    weights = insertion_weights(np.array([epsilon]), size + 1)[:, 0].tolist()
    told = {"longest": size + 1, "most_rankings": 1, "tables": [{"weights": weights}]}
    told["tables"][0]["epsilon"] = str(asked)
    assert verifier.mallows_loss(told).epsilon <= asked * (size + 1) / 2


def test_what_words_mean_may_be_said_as_now_or_as_before():
    before = "Column pick holds the item that won, or a (left won); tie (a tie). A row with another"
    now = "Column pick should hold the winning item, or a for a left win. Rows with anything else"
    ends = {before: ("word is set aside.", "word fails the run."),
            now: ("are excluded.", "make the run fail.")}  # fmt: skip
    for start, allowed in ends.items():
        for end in allowed:
            assert re.fullmatch(verifier.SPELLED, f"{start} {end}")
        assert not re.fullmatch(verifier.SPELLED, f"{start} counts twice.")


@pytest.mark.parametrize("kind", [NoiseKind.GAUSSIAN, NoiseKind.LAPLACE])
@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_differences_between_groups_claim_no_more_than_their_errors_allow(kind, share):
    """What an honest release says passes; `differs` and C pass hardly earlier."""
    error, compared = 0.2, 28

    def reach(tail: float) -> float:
        return float(quantile(np.array([share]), tail, kind, 2)[0]) * error

    alone, of_all, of_large = reach(0.025), reach(0.025 / compared), reach(0.05)

    def passes(far: float, size: str, differs: bool) -> bool:
        told = {"difference": far, "error": error, "low": far - alone, "high": far + alone}
        return verifier.is_difference(told | {"size": size, "differs": differs}, compared)

    for far in np.linspace(0, 1.2, 601).tolist():
        large = far >= 1.5 / 2.35 and far - of_large > 1 / 2.35
        size = "C" if large else "B" if far >= 1 / 2.35 and far > alone else "A"
        assert passes(far, size, far > of_all)
        assert size == "C" or far - 0.93 * of_large > 1 / 2.35 - 1e-4 or not passes(far, "C", False)
    assert not passes(0.4, "A", True)  # sure alone, at 2 errors; Bonferroni needs 3.1
    if kind is NoiseKind.GAUSSIAN or share == 0:
        assert not passes(of_all - 1e-4, "A", True)


@FEW
@given(st.lists(st.integers(-200, 5000), min_size=2, max_size=12))
def test_shares_are_cut_where_noise_takes_them_out_of_their_range(wins):
    """An item that nobody prefers has less than no wins in half of all releases."""
    counts = WinCounts(np.array(wins), confidential=False)
    found = rank_by_win_counts(counts, NoiseLaw(NoiseKind.LAPLACE, 0.0))
    assume(found.informative)
    shares = verifier.win_shares({f"{place}": won for place, won in enumerate(wins)})
    assert [*shares.values()] == pytest.approx(100 * (found.scores + 0.5), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("draws", [1, 2, 3, 8, 21])
def test_reach_of_sums_of_laplace_noise(draws):
    for tail in (0.05, 1e-3, 1e-7):
        (wide,) = quantile(np.ones(1), tail, NoiseKind.LAPLACE, draws)
        assert verifier.far(tail, draws, False) == pytest.approx(wide, rel=1e-9)


def test_heavy_tails_let_rounds_claim_less_than_normal_ones():
    """Of 3 candidates with Laplace noise of scale 20, a lead of 110 in round 1 is not sure."""
    law = NoiseLaw(NoiseKind.LAPLACE, 20.0)
    heavy, light = (
        verifier.reach_of_round(3, 3, 1, math.sqrt(law.variance), gaussian)
        for gaussian in (False, True)
    )
    assert light < 110 < heavy == pytest.approx(115.2, abs=0.1)


def test_encoder_of_all_nights_so_far_may_be_any_of_the_same_norm_as_stated():
    """The guarantee follows from coefficients; for a window they are those of the square root."""
    terms = Terms(nights=30, participations=3, gap=5)
    best = best_encoder(Workload(None), terms, 5)
    assert best != square_root(Workload(None), 5)
    bundle = verifier.Bundle(items=4, rows=2, cap=None, distinct=False, weight=1, groups=1, sides=2)
    stated = {"nights": 30, "participations": 3, "gap": 5, "window": None}
    release = {"released": {"kind": "win-counts"}, "stream": {"coefficients": [*best.coefficients]}}
    one = Sensitivity(*verifier.win_counts(replace(bundle, sides=1)))
    found = verifier.stream_norms(bundle, best.coefficients, stated, release)
    assert found == norms(stream_sensitivity(one, Adjacency.REPLACE_ONE, terms, best))
    changed = [*best.coefficients[:-1], best.coefficients[-1] + 1]
    for terms_of, column in ((stated, changed), (stated | {"window": 5}, best.coefficients)):
        with pytest.raises(verifier.Wrong, match="encoder"):
            verifier.stream_norms(bundle, column, terms_of, release)
