"""Perturbed maximum likelihood: what is released, what it costs, and that the cost is not broken.

The audits are black boxes: they see released scores only. Each bound they find is below the truth
with confidence 1 - 1e-6, so a correct mechanism fails such an assertion with probability 1e-6.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_array

from hushrank.estimation.common.links import LAPLACE, LINKS, LOGISTIC, PROBIT, Floats, Link
from hushrank.estimation.common.matrices import PairCounts
from hushrank.estimation.comparisons import perturbed_mle as module
from hushrank.estimation.comparisons.perturbed_mle import (
    MleSettings,
    PerturbedMle,
    calibrate_mle,
    default_ridge,
    perturbed_mle,
    perturbed_mles,
)
from hushrank.estimation.fit.exact_fit import CountedObjective, exact_fit
from hushrank.estimation.fit.likelihood import Objective
from hushrank.estimation.fit.solve import ConvergenceError, minimise
from hushrank.privacy.audit import audit_epsilon
from hushrank.privacy.exact_minimiser import OUTPUT_STEP, gridded
from hushrank.privacy.objective_perturbation import Constants
from hushrank.privacy.randomness import RandomBits, seeded_bits, system_bits
from hushrank.privacy.units import Adjacency, NoiseKind, PrivacyParams, Unit

CONFIDENCE = 1 - 1e-6
SINGLE = PrivacyParams(unit=Unit.COMPARISON, adjacency=Adjacency.REPLACE_ONE, epsilon=1.0)
USER = PrivacyParams(
    unit=Unit.USER, adjacency=Adjacency.REPLACE_ONE, epsilon=1.0, max_contributions=3
)
OPEN = replace(SINGLE, epsilon=math.inf)


def counts(*rows: tuple[int, int, int], n_items: int = 3) -> PairCounts:
    """From (winner, loser, times)."""
    wins = np.zeros((n_items, n_items), np.int64)
    for winner, loser, times in rows:
        wins[winner, loser] += times
    return PairCounts(wins)


def random_counts(n_items: int, per_pair: float, seed: int) -> PairCounts:
    wins = np.random.default_rng(seed).poisson(per_pair, (n_items, n_items))
    np.fill_diagonal(wins, 0)
    return PairCounts(wins.astype(np.int64))


def released(
    pair_counts: PairCounts, params: PrivacyParams, settings: MleSettings, bits: RandomBits
) -> Floats:
    """Scores of a mechanism that was calibrated for these counts' items."""
    mechanism = calibrate_mle(params, settings, pair_counts.n_items)
    return perturbed_mle(pair_counts, mechanism, bits)


def test_without_privacy_it_is_the_penalised_estimate() -> None:
    pair_counts = random_counts(9, 3.0, seed=1)
    settings = MleSettings(expected_comparisons=24.0, ridge=2.5)
    mechanism = calibrate_mle(OPEN, settings, 9)
    scores = perturbed_mle(pair_counts, mechanism, system_bits())
    wins = pair_counts.wins.astype(np.float64)
    expected = minimise(Objective(wins, LOGISTIC, 2.5, np.zeros(9))).theta
    np.testing.assert_allclose(scores, expected, atol=1e-12)
    assert mechanism.cover is None
    assert math.isinf(mechanism.spend.epsilon)


@pytest.mark.parametrize("constants", list(Constants))
@pytest.mark.parametrize("link", [LOGISTIC, LAPLACE], ids=["logistic", "laplace"])
def test_release_is_the_minimiser_for_the_noise_drawn(link: Link, constants: Constants) -> None:
    """Redone by hand from the same (seeded) bits."""
    pair_counts = random_counts(6, 40.0, seed=2)
    settings = MleSettings(expected_comparisons=400.0, link=link, constants=constants)
    params = replace(USER, epsilon=2.0)
    mechanism = calibrate_mle(params, settings, 6)
    scores = perturbed_mle(pair_counts, mechanism, seeded_bits(3))
    w = mechanism.noise.draw(6, seeded_bits(3))
    objective = Objective(pair_counts.wins.astype(np.float64), link, mechanism.objective.ridge, w)
    exact = minimise(objective).theta
    assert mechanism.cover is not None
    allowed = 40 * math.sqrt(mechanism.cover.noise.variance)
    assert 0 < np.abs(scores - exact).max() <= allowed < 1e-4
    assert scores.sum() == pytest.approx(0, abs=1e-12)


def test_released_scores_lie_on_the_grid_before_centring(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bits of a float tell nothing: before it is centred a release is integers times 2^-40."""
    seen: list[Floats] = []
    cover = calibrate_mle(SINGLE, MleSettings(expected_comparisons=10.0), 3).cover
    assert cover is not None
    apply = type(cover).apply

    def spy(self: object, minimiser: Floats, bits: object) -> Floats:
        seen.append(apply(self, minimiser, bits))  # type: ignore[arg-type]
        return seen[-1]

    monkeypatch.setattr(type(cover), "apply", spy)
    few = counts((0, 1, 5), (1, 2, 3))
    scores = released(few, SINGLE, MleSettings(expected_comparisons=5.0), system_bits())
    steps = seen[0] / OUTPUT_STEP
    np.testing.assert_array_equal(steps, np.rint(steps))
    np.testing.assert_array_equal(scores, seen[0] - seen[0].mean())


def test_split_ties_count_as_half_wins() -> None:
    """Doubled counts with row_weight 2 are the same data: the same scores, the same sensitivity."""
    single = random_counts(5, 4.0, seed=4)
    doubled = PairCounts(2 * single.wins, row_weight=2)
    settings = MleSettings(expected_comparisons=16.0)
    first, second = (
        released(pair_counts, SINGLE, settings, seeded_bits(5)) for pair_counts in (single, doubled)
    )
    np.testing.assert_allclose(first, second, atol=1e-9)
    tie = PairCounts(np.array([[0, 1], [1, 0]], np.int64), row_weight=2)
    scores = released(tie, OPEN, settings, system_bits())
    np.testing.assert_allclose(scores, 0, atol=1e-12)


def test_items_nobody_compared_or_that_never_lost_get_scores() -> None:
    scores = released(
        counts((0, 1, 500), (1, 2, 300), (2, 1, 200), n_items=5),
        replace(SINGLE, epsilon=5.0),
        MleSettings(expected_comparisons=400.0, ridge=5.0),
        system_bits(),
    )
    assert np.isfinite(scores).all()
    assert scores.argmax() == 0


def test_budget_is_split_and_never_exceeded() -> None:
    for params in (SINGLE, USER, replace(USER, adjacency=Adjacency.ADD_REMOVE)):
        for constants in Constants:
            settings = MleSettings(expected_comparisons=300.0, constants=constants)
            mechanism = calibrate_mle(params, settings, 40)
            assert mechanism.cover is not None
            assert mechanism.cover.epsilon == 0.01 * params.epsilon
            assert mechanism.privacy_loss <= params.epsilon * (1 + 1e-12)
            assert mechanism.spend.epsilon == params.epsilon
            if constants is Constants.TIGHT:
                assert mechanism.privacy_loss == pytest.approx(params.epsilon, rel=1e-9)


def test_gaussian_noise_pays_for_its_grid() -> None:
    params = replace(USER, delta=1e-6, noise=NoiseKind.GAUSSIAN)
    mechanism = calibrate_mle(params, MleSettings(expected_comparisons=300.0), 40)
    assert mechanism.objective.delta < 1e-6
    assert (mechanism.spend.epsilon, mechanism.spend.delta) == (1.0, 1e-6)
    with pytest.raises(ValueError, match="delta must be above"):
        calibrate_mle(replace(params, delta=1e-23), MleSettings(expected_comparisons=300.0), 40)


def test_tight_constants_halve_the_papers_noise() -> None:
    scales = {}
    for name, options in {
        "paper": {"constants": Constants.PAPER},
        "tight": {},
        "public graph": {"public_graph": True},
    }.items():
        settings = MleSettings(expected_comparisons=300.0, **options)
        scales[name] = calibrate_mle(SINGLE, settings, 300).objective.scale
    assert scales["paper"] / scales["tight"] == pytest.approx(2 * 0.99)
    assert scales["paper"] / scales["public graph"] == pytest.approx(4 * 0.99)


def test_probit_is_refused_with_a_way_out() -> None:
    with pytest.raises(ValueError, match=r"without limit.*logistic or laplace.*noisy-pairs"):
        calibrate_mle(SINGLE, MleSettings(expected_comparisons=10.0, link=PROBIT), 4)
    assert {name for name in LINKS if name != "probit"} == {"logistic", "laplace"}


def test_too_small_a_ridge_is_refused_with_the_least_one() -> None:
    with pytest.raises(ValueError, match=r"ridge 0.1 is too small.*more than 0\.2"):
        calibrate_mle(SINGLE, MleSettings(expected_comparisons=9.0, ridge=0.1), 4)


def test_default_ridge_is_public_and_sufficient() -> None:
    settings = MleSettings(expected_comparisons=300.0)
    assert default_ridge(OPEN, settings, 300) == 2
    assert default_ridge(SINGLE, settings, 300) == pytest.approx(4 / 0.99)  # where it is free
    strict = replace(SINGLE, epsilon=0.1)
    noise = 2 * (4 / 0.099) ** 2
    assert default_ridge(strict, settings, 300) == pytest.approx(2 * (1 + noise / 75))
    few = MleSettings(expected_comparisons=1.0)
    mechanism = calibrate_mle(replace(USER, epsilon=0.05), few, 4)
    assert mechanism.objective.determinant_epsilon <= 0.05 / 4
    laplace = calibrate_mle(SINGLE, replace(few, link=LAPLACE), 4)
    assert 0 < laplace.objective.determinant_epsilon <= 0.99 / 4
    for constants in Constants:
        for epsilon in (0.01, 1.0, 30.0):
            settings = replace(few, constants=constants)
            calibrate_mle(replace(USER, epsilon=epsilon), settings, 4)  # never too small


def test_settings_are_checked() -> None:
    for name in ("expected_comparisons", "ridge", "tolerance"):
        for bad in (0.0, -1.0, math.inf, math.nan):
            with pytest.raises(ValueError, match=f"{name} must be finite and > 0"):
                MleSettings(**({"expected_comparisons": 1.0} | {name: bad}))


def test_noisy_counts_are_refused() -> None:
    noisy = PairCounts(np.zeros((3, 3), np.int64), confidential=False)
    with pytest.raises(ValueError, match="raw counts, and these carry noise"):
        released(noisy, SINGLE, MleSettings(expected_comparisons=5.0), system_bits())


def test_a_mechanism_for_other_items_is_refused() -> None:
    mechanism = calibrate_mle(SINGLE, MleSettings(expected_comparisons=5.0), 4)
    with pytest.raises(ValueError, match="a mechanism for 4 items, but counts of 3"):
        perturbed_mle(counts((0, 1, 5)), mechanism, system_bits())


@pytest.mark.parametrize("ridge", [None, 7.0], ids=["default", "chosen"])
def test_whatever_the_counts_the_ridge_is_the_mechanism_s(ridge: float | None) -> None:
    """The released point balances the pull of the counts, w and the stated ridge: no other one."""
    settings = MleSettings(expected_comparisons=50.0, ridge=ridge)
    mechanism = calibrate_mle(replace(SINGLE, epsilon=8.0), settings, 6)
    before = repr(mechanism)
    w = mechanism.noise.draw(6, seeded_bits(9))
    stated = mechanism.objective.ridge
    assert mechanism.cover is not None
    slack = 40 * math.sqrt(mechanism.cover.noise.variance)
    for per_pair in (0.0, 0.3, 10.0, 200.0):
        pair_counts = random_counts(6, per_pair, seed=3)
        scores = perturbed_mle(pair_counts, mechanism, seeded_bits(9))
        point = scores - w.mean() / stated  # centring took this off: the counts pull with sum zero
        wins = pair_counts.wins.astype(np.float64)
        stiffness = stated + wins.sum()  # how far a point that moved by one moves the gradient
        for ridge_used, balanced in ((stated, True), (2 * stated, False)):
            gradient, _ = Objective(wins, LOGISTIC, ridge_used, w).derivatives(point)
            assert (np.abs(gradient).max() <= slack * stiffness) == balanced
    assert repr(mechanism) == before


@pytest.mark.parametrize("total", [10**6, 10**9])
def test_large_counts_reach_a_tolerance_that_the_cover_pays_for(total: int) -> None:
    n = 20
    wins = random_counts(n, 30.0, seed=6).wins * (total // (30 * n))
    settings = MleSettings(expected_comparisons=2.0 * total)
    mechanism = calibrate_mle(SINGLE, settings, n)
    perturbed_mle(PairCounts(wins), mechanism, system_bits())
    assert mechanism.tolerance > 1e-9
    assert mechanism.cover is not None
    assert mechanism.cover.noise.variance < 0.05 * mechanism.typical_error**2


def test_a_cover_that_matters_is_reported() -> None:
    settings = MleSettings(expected_comparisons=1e3, tolerance=1e-3)
    assert calibrate_mle(SINGLE, settings, 50).cover_matters
    assert not calibrate_mle(SINGLE, replace(settings, tolerance=None), 50).cover_matters


def check_released(
    pair_counts: PairCounts, settings: MleSettings, params: PrivacyParams = SINGLE
) -> None:
    """The release is within the cover's noise of the exact minimiser, redone in integers."""
    mechanism = calibrate_mle(params, settings, pair_counts.n_items)
    assert mechanism.cover is not None
    scores = perturbed_mle(pair_counts, mechanism, seeded_bits(3))
    w = mechanism.noise.draw(pair_counts.n_items, seeded_bits(3))
    exact = exact_fit(
        CountedObjective.of(pair_counts, settings.link, mechanism.objective.ridge, w, 1e-20),
        np.zeros(pair_counts.n_items),
    ).floats()
    allowed = 40 * math.sqrt(mechanism.cover.noise.variance)
    np.testing.assert_allclose(scores, exact - exact.mean(), rtol=1e-15, atol=allowed)


def test_a_tolerance_out_of_reach_of_floats_is_reached() -> None:
    wins = random_counts(20, 30.0, seed=7).wins * 10**6
    check_released(PairCounts(wins), MleSettings(expected_comparisons=1e9, tolerance=1e-9))


@pytest.mark.parametrize("link", [LOGISTIC, LAPLACE], ids=["logistic", "laplace"])
@pytest.mark.parametrize("row_weight", [1, 2])
def test_counts_far_beyond_what_was_expected_are_released(link: Link, row_weight: int) -> None:
    """From a few to 2^62 where a hundred were expected: the rows never make a release fail."""
    settings = MleSettings(expected_comparisons=100.0, link=link)
    for exponent in (12, 24, 36, 48, 62):
        few = random_counts(6, 2.0, seed=exponent).wins
        wins = np.minimum(few, 2 ** (62 - exponent)) * 2**exponent
        check_released(PairCounts(wins, row_weight), settings)
        apart = np.where(np.arange(6)[:, np.newaxis] < 3, wins, 0)  # three items only ever lose
        check_released(PairCounts(apart, row_weight), settings)
        check_released(PairCounts(csr_array(np.triu(wins)), row_weight), settings)


@pytest.mark.parametrize("fault", [ConvergenceError("no"), ZeroDivisionError("float division")])
def test_whatever_the_fit_in_floats_meets_there_is_a_release(
    fault: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise fault

    monkeypatch.setattr(module, "minimise", fails)
    check_released(random_counts(8, 20.0, seed=8), MleSettings(expected_comparisons=300.0))


def test_without_privacy_large_counts_are_fitted_too() -> None:
    """Two sets of items that met once: the ridge is lost beside 2^61 in float64."""
    wins = counts((0, 1, 2**61), (1, 0, 2**61), (2, 3, 2**61), (3, 2, 2**61), n_items=4)
    scores = released(wins, OPEN, MleSettings(expected_comparisons=9.0), system_bits())
    np.testing.assert_allclose(scores, 0, atol=1e-9)


OFTEN = 100_000


def audited(
    mechanism_for: Callable[[PairCounts], PerturbedMle],
    left: PairCounts,
    right: PairCounts,
    trials: int,
) -> float:
    """Largest epsilon that the released scores of two items prove, at confidence 1 - 1e-6.

    Releases are drawn many at once; `test_many_fits` compares these with single releases.
    """
    seeds = itertools.count()  # both inputs of an audit draw other noise

    def first_scores(pair_counts: PairCounts, runs: int) -> NDArray[np.float64]:
        mechanism = mechanism_for(pair_counts)
        return perturbed_mles(pair_counts, mechanism, runs, seeded_bits(next(seeds)))[:, 0]

    found = audit_epsilon(first_scores, left, right, trials=trials, confidence=CONFIDENCE)
    return found.epsilon_lower


def upset_by(times: int) -> PairCounts:
    """Item 1 beat item 0 so often that each win of item 0 pulls with nearly all its force."""
    return counts((1, 0, OFTEN), (0, 1, times), n_items=2)


@dataclass(frozen=True)
class Neighbours:
    """Two adjacent inputs between which the promise is exhausted, or nearly."""

    params: PrivacyParams
    left: PairCounts
    right: PairCounts
    public_graph: bool = False

    def settings(self, **options: Any) -> MleSettings:
        return MleSettings(
            expected_comparisons=1e5, ridge=20.0, public_graph=self.public_graph, **options
        )

    def audited(self, settings: MleSettings, trials: int) -> float:
        mechanism = calibrate_mle(self.params, settings, 2)
        return audited(lambda _: mechanism, self.left, self.right, trials)


NEIGHBOURS = {
    "comparison": Neighbours(
        replace(SINGLE, epsilon=2.0, adjacency=Adjacency.ADD_REMOVE), upset_by(1), upset_by(0)
    ),
    "user": Neighbours(
        replace(USER, epsilon=2.0, adjacency=Adjacency.ADD_REMOVE), upset_by(3), upset_by(0)
    ),
    "outcome": Neighbours(
        replace(SINGLE, epsilon=2.0),
        upset_by(1),
        counts((1, 0, OFTEN + 1), n_items=2),
        public_graph=True,
    ),
}
EVERY_CASE = pytest.mark.parametrize("case", NEIGHBOURS.values(), ids=NEIGHBOURS)


@pytest.mark.slow
@EVERY_CASE
def test_audit_finds_no_more_than_epsilon(case: Neighbours) -> None:
    """With the tight constants it finds much of it: what is promised is needed."""
    assert 0.35 < case.audited(case.settings(), trials=24_000) / case.params.epsilon <= 1


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["comparison", "user"])
def test_audit_of_the_papers_constants(unit: str) -> None:
    case = NEIGHBOURS[unit]
    found = case.audited(case.settings(constants=Constants.PAPER), trials=16_000)
    assert found <= case.params.epsilon / 4  # all that is needed under add-remove


@pytest.mark.slow
@EVERY_CASE
def test_audit_catches_half_the_noise(case: Neighbours, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "gridded", lambda kind, scale: gridded(kind, scale / 2))
    assert case.audited(case.settings(), trials=16_000) > case.params.epsilon


@pytest.mark.slow
def test_audit_catches_a_ridge_computed_from_the_data() -> None:
    """The number of rows shows in the spread of the scores; with a public ridge it does not."""
    params = replace(SINGLE, adjacency=Adjacency.ADD_REMOVE)
    left, right = counts((0, 1, 1), (1, 0, 1), n_items=2), counts((0, 1, 1), n_items=2)

    def leaky(pair_counts: PairCounts) -> PerturbedMle:
        observed = float(pair_counts.wins.sum())
        settings = MleSettings(expected_comparisons=observed, ridge=4 * observed)
        return calibrate_mle(params, settings, 2)

    mechanism = calibrate_mle(params, MleSettings(expected_comparisons=1.0, ridge=4.0), 2)
    assert audited(leaky, left, right, trials=16_000) > params.epsilon
    assert audited(lambda _: mechanism, left, right, trials=16_000) <= params.epsilon
