"""Whether a job can learn anything, by the plan's own formula: asked before it is paid for."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from hushrank.estimation.common.metrics import rms_error
from hushrank.flows.config.comparisons import Design
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.errors import ConfigError
from hushrank.flows.plan.survey import (
    Setting,
    answers_of,
    planned_method,
    planned_survey,
    predicted,
    with_setting,
)
from hushrank.flows.plan.world import World

MANY_PEOPLE = 100_000  # who are supposed to answer where the job does not say how many were asked


@dataclass(frozen=True, slots=True)
class Worth:
    """What a job reaches at best.

    Attributes:
        people: how many people are supposed to answer.
        error: predicted standard error of an item's score, in a balanced design.
        spread: standard deviation of the scores that the plan supposes, in the same units.
    """

    people: int
    error: float
    spread: float

    @property
    def nothing(self) -> bool:
        """Whether items that differ as supposed cannot be told apart."""
        return self.error > self.spread


def worth_of(config: SurveyConfig, epsilon: float | None = None, people: int = 0) -> Worth | None:
    """Predict what a job reaches; None: the plan has no formula for it.

    Args:
        config: the job.
        epsilon: instead of its own.
        people: how many people a plan supposes, if more than the job does.
    """
    epsilon = config.privacy.epsilon if epsilon is None else epsilon
    if epsilon is None or not math.isfinite(epsilon) or not _is_plain(config):
        return None
    look = config.privacy.look
    asked = MANY_PEOPLE if look is None or look.people is None else look.people
    setting = Setting(
        method=config.method,
        epsilon=epsilon,
        people=max(asked, people),
        answers=answers_of(config),
    )
    world = World(design=Design.BALANCED if config.input.kind == "comparisons" else None)
    try:
        error = predicted(config, setting, world)
        if error is None:
            return None
        tried, survey = with_setting(config, setting), planned_survey(config, setting, world)
        wanted = planned_method(tried).estimand(tried, survey, survey.truth_of_all(0))
    except ConfigError:  # no plan can try it, or the method refuses it, which the run itself says
        return None
    return Worth(setting.people, error, rms_error(np.zeros(len(wanted)), wanted))


def refuse_worthless(
    config: SurveyConfig, epsilon: float | None = None, people: int = 0, *, anyway: bool
) -> None:
    """Raise ConfigError where epsilon buys nothing, unless the person wants it `anyway`.

    The other arguments are those of `worth_of`.
    """
    found = None if anyway else worth_of(config, epsilon, people)
    if found is None or not found.nothing:
        return
    shown = config.privacy.epsilon if epsilon is None else epsilon
    raise ConfigError(
        f"privacy.epsilon: {shown:g} buys nothing here: even if {found.people:,} people answer, the"
        f" standard error of an item's score is about {found.error:.2g}, and scores are supposed to"
        f" differ by {found.spread:.2g}. Raise epsilon, take noise: gaussian, lower"
        " max_contributions or rank fewer items; hushrank plan shows what each is worth. --anyway"
        " goes on all the same. Nothing was read or spent."
    )


def worth_note(config: SurveyConfig) -> str:
    """A line where no formula tells whether epsilon is enough; empty: one does."""
    if not config.privacy.private or worth_of(config) is not None:
        return ""
    return (
        "No formula tells beforehand whether this epsilon is enough for this job; hushrank plan"
        " tries it on invented surveys, if it can."
    )


def _is_plain(config: SurveyConfig) -> bool:
    """Whether the formulas are about such jobs: no stream of nights, and no covariates."""
    covariates = config.input.kind == "comparisons" and config.comparisons.covariates
    return config.schedule.stream is None and not covariates
