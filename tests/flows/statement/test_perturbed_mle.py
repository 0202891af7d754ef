"""What a release of perturbed maximum likelihood says of itself."""

from __future__ import annotations

import itertools
import math

import pytest

from hushrank.estimation.comparisons.perturbed_mle import MleSettings, calibrate_mle
from hushrank.flows.statement.perturbed_mle import ScoreMechanism, mle_record
from hushrank.privacy.objective_perturbation import Constants
from hushrank.privacy.units import Adjacency, NoiseKind, PrivacyParams, Unit
from hushrank.transforms.common.schema import Ties

CENTRAL = list(itertools.product((Unit.USER, Unit.COMPARISON), NoiseKind, Constants))
STATED = "everybody answered about all pairs"


def mechanism(
    unit: Unit = Unit.USER,
    noise: NoiseKind = NoiseKind.LAPLACE,
    constants: Constants = Constants.TIGHT,
    public_graph: bool = False,
    epsilon: float = 2.0,
    stated: str | None = None,
) -> ScoreMechanism:
    params = PrivacyParams(
        unit=unit,
        adjacency=Adjacency.REPLACE_ONE,
        epsilon=epsilon,
        delta=1e-6 if noise is NoiseKind.GAUSSIAN and math.isfinite(epsilon) else 0.0,
        noise=noise,
        max_contributions=15 if unit is Unit.USER else 1,
    )
    settings = MleSettings(expected_comparisons=500, constants=constants, public_graph=public_graph)
    return ScoreMechanism.of(calibrate_mle(params, settings, 6), Ties.DROP, stated)


def words(made: ScoreMechanism) -> str:
    record = mle_record(made)
    return " ".join((*record.statement, *record.not_protected, record.theorem))


@pytest.mark.parametrize(("unit", "noise", "constants"), CENTRAL)
def test_the_record_is_the_mechanism_in_numbers(unit, noise, constants):
    made = mechanism(unit, noise, constants)
    record = mle_record(made)
    assert (record.epsilon, record.delta, record.rho) == (2.0, made.spend.delta, None)
    assert record.delta == (1e-6 if noise is NoiseKind.GAUSSIAN else 0.0)
    assert record.mechanism == f"objective-perturbation-{noise}"
    assert record.noise_scale == record.parameters["lambda"] == made.objective.scale
    assert record.parameters["gamma"] == made.objective.ridge
    assert record.parameters["constants"] == constants
    assert record.parameters["epsilon_out"] == pytest.approx(0.02)
    assert record.parameters["epsilon_det"] == made.objective.determinant_epsilon
    assert record.parameters["epsilon_by_the_proof"] <= 2.0 + 1e-9
    assert record.max_contributions == (15 if unit is Unit.USER else None)
    assert record.erratum.startswith("E3: ")


def test_the_parts_of_epsilon_add_up():
    made = mechanism()
    objective, cover = made.objective, made.cover
    pull = objective.sensitivity / objective.scale
    assert pull + objective.determinant_epsilon + cover.epsilon == pytest.approx(2.0)
    said = words(made)
    assert f"Epsilon has three parts: {pull:.6g} for the pull" in said
    assert f"gamma = {objective.ridge:.6g}" in said
    assert f"Laplace noise of scale {objective.scale:.6g}" in said


@pytest.mark.parametrize(("unit", "noise", "constants"), CENTRAL)
def test_the_theorem_fits_the_unit_and_the_noise(unit, noise, constants):
    said = words(mechanism(unit, noise, constants))
    assert ("Proposition 3.1" in said) == (unit is Unit.USER)
    assert ("Proposition 2.1" in said) == (unit is Unit.COMPARISON)
    assert ("Kifer, Smith and Thakurta" in said) == (noise is NoiseKind.GAUSSIAN)
    assert ("as published" in said) == (constants is Constants.PAPER)


def test_a_public_graph_is_named_and_its_reason_quoted():
    public = words(mechanism(public_graph=True, stated=STATED))
    assert f"stated by the operator: “{STATED}”." in public
    assert "which questions they left unanswered: the operator states that" in public
    assert "If one person had answered otherwise, about the same pairs of items, no" in public
    private = words(mechanism())
    assert "operator" not in private
    assert "If all answers of one person were replaced by others, no" in private
    record = mle_record(mechanism(public_graph=True, stated=STATED))
    assert record.parameters["public_graph_statement"] == STATED
    assert record.noise_scale < mechanism().objective.scale


def test_without_noise_nothing_is_claimed():
    record = mle_record(mechanism(epsilon=math.inf))
    assert record.mechanism == "none"
    assert record.statement[0].startswith("Nothing is protected")
    assert record.erratum is None
    assert "lambda" not in record.parameters
