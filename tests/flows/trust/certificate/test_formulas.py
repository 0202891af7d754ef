"""Each formula of a certificate comes to what the function that it restates computes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product

import pytest

from hushrank.flows.methods.counts import noisy_counts, noisy_pairs, tie_outcomes, win_loss
from hushrank.flows.methods.formulas import Formula, bounds_of, sides_of
from hushrank.flows.methods.likelihood.draws import OF_EXPOSURES, OF_SCORES
from hushrank.flows.methods.rankings.sensitivity_formulas import rankings_formula
from hushrank.flows.methods.responses import spectral, totals
from hushrank.privacy import sensitivity as derivations
from hushrank.privacy.objective_perturbation import LossBounds, gradient_sensitivity
from hushrank.privacy.ranking_sensitivity import (
    Part,
    margin_weights,
    ranking_below_sensitivity,
    ranking_sensitivity,
)
from hushrank.privacy.response_sensitivity import measurement_sensitivity
from hushrank.privacy.row_weights import Counted, weighted_sensitivity
from hushrank.privacy.sensitivity import Sensitivity
from hushrank.privacy.stream import stream_of
from hushrank.privacy.stream_encoder import Terms, Workload
from hushrank.privacy.units import Adjacency, Bounding, NoiseKind, PrivacyParams, Unit
from tests.flows.trust.certificate.formulas import evaluated

SIZES = (2, 3, 5, 8)


def bounds(**more: object) -> Iterator[PrivacyParams]:
    for adjacency, most, cap, distinct in product(
        Adjacency, (1, 2, 6, 40), (None, 1, 5), (False, True)
    ):
        if cap is None or cap <= most:
            yield PrivacyParams(
                unit=Unit.USER,
                adjacency=adjacency,
                epsilon=1.0,
                max_contributions=most,
                per_item_cap=cap,
                distinct_pairs=distinct,
                **more,
            )


def comes_to(formula: Formula) -> Sensitivity:
    found = evaluated(formula.lines, formula.inputs)
    return Sensitivity(found["l1"], found["l2_squared"])


COUNTED = {
    Counted.WINS: noisy_counts.RESTATED,
    Counted.PAIRS: noisy_pairs.OF_PAIRS,
    Counted.WIN_LOSS: win_loss.RESTATED,
}


@pytest.mark.parametrize("restated", COUNTED.values(), ids=lambda each: each.name)
def test_counts_of_comparisons_with_groups(restated):
    for params, n, weight, groups in product(bounds(), SIZES, (1, 2), (1, 3)):
        found = comes_to(restated.of_counts(params, n, weight, groups))
        assert found == getattr(derivations, restated.name)(params, n, weight, groups), (params, n)


def test_exposures_outcomes_and_ties():
    for params, n in product(bounds(), SIZES):
        exposures = derivations.exposures_sensitivity(params, n, 2)
        assert comes_to(OF_EXPOSURES.of_counts(params, n, 2, 1)) == exposures
        if params.adjacency is Adjacency.REPLACE_ONE:
            outcomes = derivations.outcomes_sensitivity(params, n, 2)
            assert comes_to(noisy_pairs.OF_OUTCOMES.of_counts(params, n, 2, 1)) == outcomes
        ties = derivations.tie_counts_sensitivity(params, n, 2)
        assert comes_to(tie_outcomes.RESTATED.of_counts(params, n, 1, 2)) == ties


@pytest.mark.parametrize("counted", Counted)
@pytest.mark.parametrize(
    ("noise", "bounding", "heaviest"),
    [
        (NoiseKind.GAUSSIAN, Bounding.WEIGHTS, None),
        (NoiseKind.GAUSSIAN, Bounding.WEIGHTS, 2.5),
        (NoiseKind.LAPLACE, Bounding.LEAVE_OUT, 2.0),
        (NoiseKind.GAUSSIAN, Bounding.LEAVE_OUT, 2.0),
    ],
)
def test_weighted_rows(counted, noise, bounding, heaviest):
    delta = 1e-6 if noise is NoiseKind.GAUSSIAN else 0.0
    for plain, n in product(bounds(), (2, 5)):
        if bounding is Bounding.WEIGHTS and not plain.distinct_pairs:
            continue
        params = PrivacyParams(
            unit=Unit.USER,
            adjacency=plain.adjacency,
            epsilon=1.0,
            max_contributions=plain.max_contributions,
            per_item_cap=plain.per_item_cap,
            distinct_pairs=plain.distinct_pairs,
            noise=noise,
            delta=delta,
            bounding=bounding,
            max_weight=heaviest,
        )
        formula = COUNTED[counted].of_weighted_rows(counted, params, n, 2)
        wanted = weighted_sensitivity(params, counted, n, 2)
        assert comes_to(formula) == wanted.whole
        assert evaluated(formula.lines, formula.inputs)["divisor"] == wanted.divisor


def test_nights_of_a_stream():
    for params, window in product(bounds(noise=NoiseKind.GAUSSIAN, rho=0.5), (None, 2)):
        added = PrivacyParams(
            unit=Unit.USER,
            adjacency=Adjacency.ADD_REMOVE,
            epsilon=1.0,
            max_contributions=params.max_contributions,
            per_item_cap=params.per_item_cap,
            distinct_pairs=params.distinct_pairs,
        )
        night = derivations.win_counts_sensitivity(added, 4, 2)
        terms = Terms(nights=5, participations=3, gap=2)
        stream = stream_of(params, night, terms, Workload(window))
        formula = noisy_counts.RESTATED.of_nights(params, 4, 2, stream)
        assert comes_to(formula) == stream.sensitivity


def test_test_answers_and_rankings():
    for params, n in product(bounds(), SIZES):
        if params.per_item_cap is not None or params.distinct_pairs:
            continue
        own = {"n": n, "L": params.max_contributions, "sides": sides_of(params)}
        formula = spectral.RESTATED.formula({**own, "edges": n - 1, "degree": n - 1})
        assert comes_to(formula) == measurement_sensitivity(params, n, n - 1, n - 1)
        for answer, sheet in ((1, 1), (1, 25), (3, 2)):
            sheets = {**own, "answer_weight": answer, "sheet_weight": sheet}
            wanted = derivations.sheet_totals_sensitivity(params, n, answer, sheet)
            assert comes_to(totals.RESTATED.formula(sheets)) == wanted
        for weights in (
            {Part.ABOVE: 1},
            {Part.NETS: 3, Part.SQUARES: 1, Part.RANKINGS: 7},
            {Part.PLACES: 2, Part.RANKINGS: 1},
        ):
            for groups, overlap in ((1, None), (3, None), (3, 1), (3, 2), (6, 2)):
                how = {"n_groups": groups, "overlap": overlap}
                wanted = ranking_sensitivity(params, n, weights, groups, overlap)
                assert comes_to(rankings_formula(params, n, weights, **how)) == wanted
                for below in (n, n + 1, n + 3):
                    wanted = ranking_below_sensitivity(params, n, weights, below, groups, overlap)
                    found = rankings_formula(params, n, weights, below=below, **how)
                    assert comes_to(found) == wanted
        for below, groups in product((n, n + 1, n + 3), (1, 3)):
            weights = margin_weights(params, n, below=below, n_groups=groups)
            overlap = 1 if groups > 1 else None
            wanted = ranking_below_sensitivity(params, n, weights, below, groups, overlap)
            how = {"below": below, "n_groups": groups, "overlap": overlap}
            assert comes_to(rankings_formula(params, n, weights, **how)) == wanted


@pytest.mark.parametrize("even", [True, False])
def test_gradients(even):
    loss = LossBounds(slope=1.0, kappa1=1.0 + (not even), kappa2=0.25, outcome_free_curvature=even)
    facts = {"slope": 1, "kappa1": int(loss.kappa1), "even_curvature": even}
    for params, n, public in product(bounds(), SIZES, (False, True)):
        if public and params.adjacency is Adjacency.ADD_REMOVE:
            continue
        wanted = gradient_sensitivity(loss, params, n, public)
        inputs = {**bounds_of(params, n), "public": int(public)}
        found = evaluated(OF_SCORES.lines, {**inputs, **facts})
        assert found["l1"] == wanted.l1
        assert math.isclose(found["l2_squared"], wanted.l2**2, rel_tol=1e-12)
