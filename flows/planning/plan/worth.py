"""Check by the plan's formula whether a job can learn anything, before it is paid for."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from hushrank.estimation.common.metrics import rms_error
from hushrank.flows.config.comparisons import Design
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.errors import ConfigError
from hushrank.flows.methods.base import Calibrated, PlannedMethod
from hushrank.flows.planning.plan.survey import Setting, answers_of, planned_survey
from hushrank.flows.planning.plan.world import World
from hushrank.privacy.units import NoiseKind, Unit

# assumed number of people who answer, if the job does not say how many were asked
MANY_PEOPLE = 100_000
FEW_PEOPLE = 10_000  # a job that needs more people gets a warning


@dataclass(frozen=True, slots=True)
class Worth:
    """Best accuracy that a job can reach.

    Attributes:
        people: number of people who are supposed to answer.
        error: predicted standard error of an item's score, in a balanced design.
        spread: standard deviation of the scores that the plan supposes, in the same units.
        enough: number of people with which the error is no larger than the spread; 0: not even with
            `people`.
    """

    people: int
    error: float
    spread: float
    enough: int

    @property
    def nothing(self) -> bool:
        """Whether items that differ as assumed cannot be told apart."""
        return self.error > self.spread


def worth_of(config: SurveyConfig, calibrated: Calibrated, people: int = 0) -> Worth | None:
    """Predict the best accuracy of a job; None: the plan has no formula for it.

    Args:
        config: the job.
        calibrated: method and mechanism that draw it.
        people: number of people that a plan supposes, if more than the job does.
    """
    method = calibrated.method
    if not (config.privacy.private and isinstance(method, PlannedMethod) and _is_plain(config)):
        return None
    look = config.privacy.look
    asked = MANY_PEOPLE if look is None or look.people is None else look.people
    setting = Setting(
        method=method.facts.name,
        epsilon=config.privacy.epsilon or 0.0,
        people=max(asked, people),
        answers=answers_of(config),
    )
    world = World(design=Design.BALANCED if config.input.kind == "comparisons" else None)
    try:
        survey = planned_survey(config, setting, world)
        wanted = method.estimand(config, survey, survey.truth_of_all(0))
    except ConfigError:  # no plan can simulate such a survey
        return None
    spread = rms_error(np.zeros(len(wanted)), wanted)

    def error_with(people: int) -> float | None:
        asked = replace(survey, people=people)
        return method.predicted_error(config, asked, calibrated.mechanism)

    error = error_with(setting.people)
    if error is None:
        return None
    enough = 0
    if error <= spread:
        low, enough = 0, setting.people
        while enough - low > max(1, enough // 50):  # errors fall with the number of people
            middle = (low + enough) // 2
            reached = error_with(middle)
            low, enough = (middle, enough) if reached is None or reached > spread else (low, middle)
    return Worth(setting.people, error, spread, enough)


def refusal(config: SurveyConfig, worth: Worth) -> str:
    """Say why a job that buys nothing is refused, and what to do."""
    privacy = config.privacy
    budget = f"rho: {privacy.rho:g}" if privacy.epsilon is None else f"epsilon: {privacy.epsilon:g}"
    other = [] if privacy.noise is NoiseKind.GAUSSIAN else ["take noise: gaussian"]
    other += ["lower max_contributions"] if privacy.unit is Unit.USER else []
    return (
        f"privacy.{budget} buys nothing here: even with {worth.people:,} {_counted(config)}, the"
        f" standard error of an item's score is about {worth.error:.2g}, and scores are assumed to"
        f" differ by {worth.spread:.2g}. {', '.join(['Raise it', *other])} or rank fewer items;"
        " hushrank plan shows what each is worth. --anyway (in Python anyway=True) continues"
        " nevertheless. Nothing was spent."
    )


def worth_note(config: SurveyConfig, worth: Worth | None) -> str:
    """Say how many people make a job worth its epsilon; empty: it is not private."""
    if not config.privacy.private:
        return ""
    if worth is None:
        return (
            "No formula predicts whether this epsilon is enough for this job; hushrank plan"
            " tries it on simulated surveys, if it can."
        )
    if worth.nothing:
        return (
            f"This buys nothing: even with {worth.people:,} {_counted(config)}, the standard error"
            f" of an item's score is about {worth.error:.2g}, and scores are supposed to differ by"
            f" {worth.spread:.2g}."
        )
    return (
        f"Fewer than about {_rounded(worth.enough):,} {_counted(config)} would tell nothing at this"
        " epsilon: the standard error of an item's score would exceed the spread of scores that"
        " plan supposes."
    )


def few_people_note(config: SurveyConfig, worth: Worth | None) -> str:
    """Warn of a job that needs very many people; empty: it does not, or there is no formula."""
    if worth is None or worth.enough <= FEW_PEOPLE:
        return ""
    note = (
        f"With fewer than about {_rounded(worth.enough):,} {_counted(config)} nothing can be"
        " learned at this epsilon, these bounds and so many items, but epsilon is spent"
        " nevertheless."
    )
    if config.privacy.unit is not Unit.USER:
        return note
    return (
        f"{note} Write how many people were asked as privacy.look: {{share: 0.02, people: ...}},"
        " and such a run is refused before it spends."
    )


def _counted(config: SurveyConfig) -> str:
    """Noun for the number in the formula: people, or answers if single ones are protected."""
    return "answers" if config.privacy.unit is Unit.COMPARISON else "people"


def _rounded(people: int) -> int:
    """Round to two digits, because formulas are no more precise."""
    return int(float(f"{people:.2g}"))


def _is_plain(config: SurveyConfig) -> bool:
    """Whether the formulas cover the job: no stream of nights, and no covariates."""
    covariates = config.input.kind == "comparisons" and config.comparisons.covariates
    return config.schedule.stream is None and not covariates
