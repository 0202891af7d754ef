"""Mechanism, privacy statement and record of scores by perturbed maximum likelihood.

The mechanism of scores and effects of covariates: how it is stored, stated and recorded.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, Self

from hushrank.estimation.common.central_noise import Calibration
from hushrank.estimation.common.links import link_named
from hushrank.estimation.comparisons.covariate_mle import CovariateMle
from hushrank.estimation.comparisons.perturbed_mle import MleSettings, PerturbedMle
from hushrank.flows.statement.record import Parameter, PrivacyRecord, trusted_record
from hushrank.flows.statement.sentences import (
    CCW,
    GRAPH_NOT_PROTECTED,
    OUTCOMES_CHANGE,
    Guarantee,
    PrivacyStatement,
    compose_statement,
    graph_sentences,
    number,
)
from hushrank.privacy.accounting import Spend
from hushrank.privacy.exact_minimiser import GriddedNoise, OutputCover
from hushrank.privacy.objective_perturbation import Constants, ObjectiveNoise
from hushrank.privacy.units import NoiseKind, PrivacyParams, Unit
from hushrank.transforms.common.catalogue import Groups
from hushrank.transforms.common.schema import Ties


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreMechanism:
    """Mechanism that `estimation.comparisons.perturbed_mle` calibrates; stores the link by name.

    Attributes:
        link: F, by name.
        expected_comparisons, gamma, constants, public_graph, chosen_tolerance: the settings.
        params, n_items, objective, noise, cover, tolerance, spend: as in `PerturbedMle`.
        ties: rule for comparisons without a winner.
        public_graph_statement: why who compared what is public, in the operator's words; None where
            it is protected.
        exposures: noise on how often each item was compared, of a share of epsilon that `params`
            does not hold; None where the configuration says what to expect, or all of it is public.
        shows_exposures: these numbers are released, with that noise or, where they are public,
            without.
        stated_exposures: how often items or pairs are compared, by the operator's public file;
            None: pairs; None: there is no file.
    """

    link: str
    expected_comparisons: float
    gamma: float | None
    constants: Constants
    public_graph: bool
    chosen_tolerance: float | None
    params: PrivacyParams
    n_items: int
    objective: ObjectiveNoise
    noise: GriddedNoise
    cover: OutputCover | None
    tolerance: float
    spend: Spend
    ties: Ties
    public_graph_statement: str | None
    exposures: Calibration | None = None
    shows_exposures: bool = False
    stated_exposures: Literal["items", "pairs"] | None = None

    @classmethod
    def of(
        cls,
        calibrated: PerturbedMle,
        ties: Ties,
        public_graph_statement: str | None,
        exposures: Calibration | None = None,
        *,
        shows_exposures: bool = False,
        spend: Spend | None = None,
    ) -> Self:
        """The mechanism that draws scores by `calibrated`, and exposures.

        Args:
            calibrated: the mechanism that draws the scores.
            ties, public_graph_statement, exposures, shows_exposures: as stored.
            spend: cost of scores and exposures; None: the cost of the scores alone.

        Raises:
            ValueError: scores and exposures together cost more than `spend`.
        """
        settings, spend = calibrated.settings, spend or calibrated.spend
        parts = (calibrated.spend.epsilon, exposures.spend.epsilon if exposures else 0.0)
        if sum(map(Fraction, filter(math.isfinite, parts))) > spend.epsilon:
            raise ValueError(f"scores and exposures cost {parts}, but {spend} is paid for")
        return cls(
            link=settings.link.name,
            expected_comparisons=settings.expected_comparisons,
            gamma=settings.ridge,
            constants=settings.constants,
            public_graph=settings.public_graph,
            chosen_tolerance=settings.tolerance,
            params=calibrated.params,
            n_items=calibrated.n_items,
            objective=calibrated.objective,
            noise=calibrated.noise,
            cover=calibrated.cover,
            tolerance=calibrated.tolerance,
            spend=spend,
            ties=ties,
            public_graph_statement=public_graph_statement,
            exposures=exposures,
            shows_exposures=shows_exposures,
        )

    @property
    def calibrated(self) -> PerturbedMle:
        """Calibrated mechanism, with the very numbers that are stored here."""
        settings = MleSettings(
            expected_comparisons=self.expected_comparisons,
            link=link_named(self.link),
            ridge=self.gamma,
            constants=self.constants,
            public_graph=self.public_graph,
            tolerance=self.chosen_tolerance,
        )
        return PerturbedMle(
            settings=settings,
            params=self.params,
            n_items=self.n_items,
            objective=self.objective,
            noise=self.noise,
            cover=self.cover,
            tolerance=self.tolerance,
            spend=Spend(epsilon=self.params.epsilon, delta=self.params.delta),
        )


THEOREM = {
    Unit.COMPARISON: f"{CCW}, Algorithm 1 and Proposition 2.1 (one comparison protected)",
    Unit.USER: f"{CCW}, Section 3.2 and Proposition 3.1 (one person protected)",
}
GAUSSIAN_THEOREM = (
    "Kifer, Smith and Thakurta, Private convex empirical risk minimization and high-dimensional"
    " regression (2012), Theorem 2"
)
CONSTANTS_WORDS = {
    Constants.TIGHT: "with the constants that its proof needs",
    Constants.PAPER: "with the constants as published, or more noise where the proof needs it",
}
ERRATUM = (
    "E3: the proof is about the exact minimiser under continuous noise, and a computer has"
    " neither. How far its scores can be from that is bounded, and the bound is covered by noise"
    " of its own, paid for out of epsilon."
)


def mle_record(mechanism: ScoreMechanism) -> PrivacyRecord:
    """The record of scores that `mechanism` drew."""
    params, objective = mechanism.params, mechanism.objective
    statement = mle_statement(mechanism)
    laplace = objective.kind is NoiseKind.LAPLACE
    return trusted_record(
        params,
        statement,
        epsilon=mechanism.spend.epsilon,
        delta=mechanism.spend.delta,
        mechanism=f"objective-perturbation-{objective.kind}" if params.private else "none",
        noise_scale=objective.scale,
        noise_variance=mechanism.noise.variance,
        sensitivity=objective.sensitivity,
        sensitivity_norm="l1" if laplace else "l2",
        ties=mechanism.ties,
        parameters=_parameters(mechanism),
    )


def mle_statement(mechanism: ScoreMechanism) -> PrivacyStatement:
    """Put the guarantee of `mechanism` into words."""
    params = mechanism.params
    guarantee = Guarantee(epsilon=mechanism.spend.epsilon, delta=mechanism.spend.delta, rho=None)
    source = THEOREM[params.unit]
    if params.noise is NoiseKind.GAUSSIAN:
        source = f"{source}, with Gaussian noise after {GAUSSIAN_THEOREM}"
    return compose_statement(
        params,
        guarantee,
        noise=(*graph_sentences(mechanism.public_graph_statement), *_noise(mechanism)),
        theorem=f"{source}, {CONSTANTS_WORDS[mechanism.constants]}.",
        change=OUTCOMES_CHANGE[params.unit] if mechanism.public_graph else None,
        erratum=ERRATUM,
        also_not_protected=GRAPH_NOT_PROTECTED if mechanism.public_graph else (),
    )


def _noise(mechanism: ScoreMechanism) -> Iterator[str]:
    objective, cover = mechanism.objective, mechanism.cover
    if cover is None:
        return
    law = objective.kind.capitalize()
    spread = number(math.sqrt(mechanism.noise.variance))
    yield (
        f"The scores are those that fit the answers best ({mechanism.link} link) while a"
        f" penalty of weight gamma = {number(objective.ridge)} and a secret random pull hold each"
        f" of them: {law} noise of scale {number(objective.scale)} (standard deviation {spread})."
        f" Only {_sources(mechanism)}"
        " leave; the counts they were fitted to are deleted as soon as the noise is drawn, and"
        f" ranking and intervals are computed from {_sources(mechanism)} alone."
    )
    yield from _exposure_sentences(mechanism)
    yield (
        "Gamma is public: it follows from the configuration, and nothing was counted to choose it."
    )
    if objective.kind is NoiseKind.LAPLACE:
        pull = objective.sensitivity / objective.scale
        yield (
            f"{_parts(mechanism)}: {number(pull)} for the pull (such a change moves the"
            f" gradient by at most {number(objective.sensitivity)} altogether, over the scale),"
            f" {number(objective.determinant_epsilon)} for what the curvature tells, and"
            f" {number(cover.epsilon)} for the last digits."
        )
    else:
        yield (
            f"Such a change moves the gradient by at most {number(objective.sensitivity)} as a"
            f" vector (l2 norm). Of {_whole(mechanism)}, {number(objective.determinant_epsilon)} is"
            f" for what the curvature tells and {number(cover.epsilon)} for the last digits."
        )
    yield (
        "The last digits, which rounding and the solver leave behind, are covered by discrete"
        f" Laplace noise of standard deviation {number(math.sqrt(cover.noise.variance))}."
    )


def _sources(mechanism: ScoreMechanism) -> str:
    return "the scores and these numbers" if mechanism.shows_exposures else "the scores"


def _exposure_sentences(mechanism: ScoreMechanism) -> Iterator[str]:
    if mechanism.stated_exposures is not None:
        each = "item" if mechanism.stated_exposures == "items" else "pair of items"
        yield (
            f"How often each {each} is compared was stated by the operator as a public fact that"
            " nobody counted in the answers; intervals rest on it, and no epsilon is spent on it."
        )
    if not mechanism.shows_exposures:
        return
    noise = mechanism.exposures
    if noise is None:
        yield (
            "These numbers say how often each item was compared. They follow from who compared"
            " what, which is public, and carry no noise."
        )
        return
    law, spread = noise.law, number(math.sqrt(noise.law.variance))
    yield (
        "These numbers say how often each item was compared, each with its own discrete Laplace"
        f" noise of scale {number(law.scale)} (standard deviation {spread}): such a change moves"
        f" them by at most {noise.sensitivity.l1} altogether (l1 norm), and"
        f" {noise.sensitivity.l1} / {number(noise.spend.epsilon)} ="
        f" {number(noise.sensitivity.l1 / noise.spend.epsilon)}. They take"
        f" {number(noise.spend.epsilon)} of epsilon, and the scores"
        f" {number(mechanism.params.epsilon)}."
    )


def _whole(mechanism: ScoreMechanism) -> str:
    if mechanism.exposures is None and not mechanism.params.has_parts:
        return "epsilon"
    return f"the scores' epsilon of {number(mechanism.params.epsilon)}"


def _parts(mechanism: ScoreMechanism) -> str:
    if mechanism.exposures is None and not mechanism.params.has_parts:
        return "Epsilon has three parts"
    return f"The scores' epsilon of {number(mechanism.params.epsilon)} has three parts"


def _parameters(mechanism: ScoreMechanism) -> dict[str, Parameter]:
    objective, graph_statement = mechanism.objective, mechanism.public_graph_statement
    parameters: dict[str, Parameter] = {
        "link": mechanism.link,
        "constants": str(mechanism.constants),
        "gamma": objective.ridge,
        "public_graph": mechanism.public_graph,
    }
    if not mechanism.shows_exposures:
        parameters["expected_comparisons"] = mechanism.expected_comparisons
    if mechanism.stated_exposures is not None:
        parameters["stated_exposures"] = mechanism.stated_exposures
    if mechanism.exposures is not None:
        parameters |= {
            "exposures_epsilon": mechanism.exposures.spend.epsilon,
            "exposures_noise_scale": mechanism.exposures.law.scale,
            "exposures_sensitivity_l1": mechanism.exposures.sensitivity.l1,
        }
    if graph_statement is not None:
        parameters["public_graph_statement"] = graph_statement
    if mechanism.cover is not None:
        parameters |= {
            "lambda": objective.scale,
            "epsilon_det": objective.determinant_epsilon,
            "epsilon_out": mechanism.cover.epsilon,
            "epsilon_by_the_proof": mechanism.calibrated.privacy_loss,
            "solver_tolerance": mechanism.tolerance,
            "output_noise_deviation": math.sqrt(mechanism.cover.noise.variance),
        }
    return parameters


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
        groups: the public groups that are fitted apart; None: there are none.
    """

    calibrated: CovariateMle
    names: tuple[str, ...]
    scales: tuple[float | None, ...]
    ties: Ties
    groups: Groups | None = None

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
        noise=_effect_noise(mechanism),
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
        parameters=_effect_parameters(mechanism),
    )


def _effect_noise(mechanism: EffectMechanism) -> Iterator[str]:
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
    if mechanism.groups is not None:
        yield _effect_groups(mechanism.groups, mechanism.params)
    yield from _effect_parts(mechanism.calibrated, cover.epsilon)
    yield (
        "Gamma is public: it follows from the configuration, and nothing was counted to choose it."
        " The last digits, which rounding and the solver leave behind, are covered by discrete"
        f" Laplace noise of standard deviation {number(cover.noise.standard_deviation)}. Only these"
        " scores, effects and numbers leave; the rows they were fitted to are deleted as soon as"
        " the noise is drawn."
    )


def _effect_groups(groups: Groups, params: PrivacyParams) -> str:
    """Say that groups are fitted apart, and that this costs nothing on top."""
    n, others = len(groups.names), " and for all other answers" * groups.others
    across = ""
    if params.unit is Unit.USER:
        across = " The bound on a person's answers holds across all groups."
    return (
        f"This is done apart for {n} groups{others}, and for all answers together. An answer counts"
        " in one of the groups only and once in the whole, and the noise hides a change of any"
        " answers in any groups: epsilon is paid once for all rankings of this release"
        f" together.{across}"
    )


def _effect_parts(calibrated: CovariateMle, last_digits: float) -> Iterator[str]:
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


def _effect_parameters(mechanism: EffectMechanism) -> dict[str, Parameter]:
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
            "solver_tolerance": calibrated.cover.tolerance,
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
