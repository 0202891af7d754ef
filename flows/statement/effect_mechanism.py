"""The mechanism of scores and effects of covariates: how it is stored, stated and recorded."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from hushrank.estimation.comparisons.covariate_mle import CovariateMle
from hushrank.flows.statement.perturbed_mle import ERRATUM, THEOREM
from hushrank.flows.statement.record import Parameter, PrivacyRecord, trusted_record
from hushrank.flows.statement.sentences import Guarantee, compose_statement, number
from hushrank.privacy.accounting import Spend
from hushrank.privacy.units import PrivacyParams
from hushrank.transforms.common.schema import Ties

COVARIATES = (
    "The names, number and scales of the covariates, which are public parts of the configuration:"
    " choose scales by what is known beforehand, never by looking at the answers."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectMechanism:
    """Mechanism that `estimation.comparisons.covariate_mle` calibrates, with its covariates' names.

    Attributes:
        calibrated: the mechanism that draws.
        names: names of the effects.
        scales: scales of the features; None for who was shown first.
        ties: rule for comparisons without a winner.
    """

    calibrated: CovariateMle
    names: tuple[str, ...]
    scales: tuple[float | None, ...]
    ties: Ties

    @property
    def params(self) -> PrivacyParams:
        """Unit, adjacency, budget and bounds."""
        return self.calibrated.params

    @property
    def spend(self) -> Spend:
        """Cost of one draw."""
        return self.calibrated.spend


def effects_record(mechanism: EffectMechanism) -> PrivacyRecord:
    """The record of scores and effects that `mechanism` drew."""
    calibrated, params = mechanism.calibrated, mechanism.params
    statement = compose_statement(
        params,
        Guarantee(epsilon=mechanism.spend.epsilon, delta=0.0, rho=None),
        noise=_noise(mechanism),
        theorem=(
            f"{THEOREM[params.unit]}, for comparisons with bounded covariates and with the"
            " constants that the proof in hushrank's privacy/covariate_perturbation.py needs."
        ),
        erratum=ERRATUM,
        also_not_protected=(COVARIATES,),
    )
    return trusted_record(
        params,
        statement,
        epsilon=mechanism.spend.epsilon,
        delta=0.0,
        mechanism="objective-perturbation-laplace" if params.private else "none",
        noise_scale=calibrated.objective.scale,
        noise_variance=calibrated.score_noise.variance,
        sensitivity=calibrated.objective.sensitivity,
        sensitivity_norm="l1",
        ties=mechanism.ties,
        parameters=_parameters(mechanism),
    )


def _noise(mechanism: EffectMechanism) -> Iterator[str]:
    objective, cover = mechanism.calibrated.objective, mechanism.calibrated.cover
    if cover is None:
        return
    effects = "the same hold each effect"
    if objective.share < 1:
        effects = f"{number(1 / objective.share)} times both hold each effect"
    yield (
        "The scores and the effects are those that fit the answers best (logistic link) while a"
        f" penalty of weight gamma = {number(objective.ridge)} and a secret random pull, Laplace"
        f" noise of scale {number(objective.scale)}, hold each score; {effects}."
    )
    yield (
        "Each covariate of a row is divided by its public scale and clipped to between -1 and 1"
        " before anything else is done with it, so no row can pull an effect by more than 1."
    )
    yield from _parts(mechanism.calibrated, cover.epsilon)
    yield (
        "Gamma is public: it follows from the configuration, and nothing was counted to choose it."
        " The last digits, which rounding and the solver leave behind, are covered by discrete"
        f" Laplace noise of standard deviation {number(cover.noise.standard_deviation)}. Only these"
        " scores, effects and numbers leave; the rows they were fitted to are deleted as soon as"
        " the noise is drawn."
    )


def _parts(calibrated: CovariateMle, last_digits: float) -> Iterator[str]:
    """Say what each part of epsilon pays for."""
    objective, of = (
        calibrated.objective,
        [kind for kind in calibrated.information if kind.sensitivity],
    )
    spread = ", ".join(number(4 * math.sqrt(kind.variance)) for kind in of)
    yield (
        "How much the answers tell of each score and effect, from which the intervals follow, is"
        f" released with discrete Laplace noise of its own (standard deviations {spread}, counted"
        " in comparisons of equal items)."
    )
    pull, information = objective.sensitivity / objective.scale, sum(kind.epsilon for kind in of)
    counted = ""
    if objective.share < 1:
        counted = f", where what it moves of effects counts {number(objective.share)} times"
    yield (
        f"Of epsilon, {number(pull)} is for the pull (such a change moves the gradient by at most"
        f" {number(objective.sensitivity)} altogether{counted}),"
        f" {number(objective.determinant_epsilon)} for what the curvature tells,"
        f" {number(last_digits)} for the last digits and {number(information)} for how much the"
        " answers tell."
    )


def _parameters(mechanism: EffectMechanism) -> dict[str, Parameter]:
    calibrated, objective = mechanism.calibrated, mechanism.calibrated.objective
    parameters: dict[str, Parameter] = {
        "link": "logistic",
        "covariates": ", ".join(mechanism.names),
        "gamma": objective.ridge,
        "share_of_effects": objective.share,
    }
    for name, scale in zip(mechanism.names, mechanism.scales, strict=True):
        if scale is not None:
            parameters[f"scale_of_{name}"] = scale
    if calibrated.cover is not None:
        parameters |= {
            "lambda": objective.scale,
            "epsilon_det": objective.determinant_epsilon,
            "epsilon_out": calibrated.cover.epsilon,
            "solver_tolerance": calibrated.tolerance,
            "output_noise_deviation": calibrated.cover.noise.standard_deviation,
        }
        for name in ("of_scores", "between", "of_effects"):
            kind = getattr(calibrated, name)
            if kind.sensitivity:
                parameters |= {
                    f"information_{name}_epsilon": kind.epsilon,
                    f"information_{name}_noise_scale": kind.law.scale,
                    f"information_{name}_sensitivity_l1": kind.sensitivity,
                }
    return parameters
