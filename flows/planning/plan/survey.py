"""Prediction of a job's accuracy from simulated surveys: `hushrank plan SURVEY.YAML`.

Each setting is tried on simulated surveys: the same code that would draw the noise and rank the
items does it there. Nothing but the configuration and the list of items is read.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from hushrank.estimation.common.links import link_named
from hushrank.estimation.fit.solve import ConvergenceError
from hushrank.flows.config.comparisons import Design
from hushrank.flows.config.privacy import usual_delta
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.config.yaml_file import read_yaml
from hushrank.flows.errors import ConfigError, HushrankError
from hushrank.flows.methods.base import Choice, PlannedMethod
from hushrank.flows.methods.registry import METHODS, check_job
from hushrank.flows.planning.plan.accuracy import (
    Accuracy,
    Target,
    mean_accuracy,
    measured,
    score_errors,
)
from hushrank.flows.planning.plan.world import World
from hushrank.flows.release.scale import Scale
from hushrank.flows.statement.mechanism import Mechanism
from hushrank.pipelines.simulate.planned_survey import PlannedSurvey
from hushrank.privacy.randomness import RandomBits, seeded_bits
from hushrank.privacy.units import NoiseKind, Unit
from hushrank.transforms.common.schema import Ties

EPSILON, ITEMS, DESIGN = "privacy.epsilon", "items", "input.design"
# Most answers of a person that are simulated, if nothing bounds them.
USUAL_ANSWERS = {"comparisons": 10, "responses": 10, "rankings": 1}
WORK = 1_500_000  # numbers in the simulated matrices of one setting
FEWEST, MOST = 12, 120  # fewest and most replicates
LEAST_EPSILON, LARGEST_EPSILON = 0.01, 100.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting to try."""

    method: str
    epsilon: float
    people: int
    answers: int


def plan_config(
    path: Path, n_items: int | None = None, design: Design | None = None
) -> SurveyConfig:
    """Read the job of the YAML file, in which epsilon may be missing.

    Args:
        path: path of the file.
        n_items: number of items, if the file does not list them yet.
        design: design in place of the one that the file states, which may be open then.

    Raises:
        ConfigError: the file breaks another rule.
    """
    given = {ITEMS: n_items is not None, DESIGN: design is not None}
    content = read_yaml(path, (EPSILON, *(key for key, open_ in given.items() if open_)))
    privacy, answers = content.get("privacy"), content.get("input")
    if isinstance(privacy, dict) and privacy.get("epsilon") is None and "rho" not in privacy:
        privacy["epsilon"] = 1.0
    if n_items is not None:
        content["items"] = {"count": n_items}
    if design is not None and isinstance(answers, dict) and "design" in answers:
        answers["design"] = answers["design"] or design.value
    config = check_job(path, content)
    return config_to_plan(path, config if design is None else _with_design(config, design))


def config_to_plan(path: Path, config: SurveyConfig) -> SurveyConfig:
    """Return the configuration if such a job can be planned.

    Raises:
        ConfigError: no plan can be made; the text names `path`.
    """
    _refuse_what_cannot_be_planned(path, config)
    return config


def _with_design(config: SurveyConfig, design: Design) -> SurveyConfig:
    if config.input.kind != "comparisons":
        raise ConfigError("--design: applies only to comparisons; remove it")
    stated = config.comparisons.model_copy(update={"design": design})
    return config.model_copy(update={"input": stated})


def answers_of(config: SurveyConfig, most: int | None = None) -> int:
    """Answers (or rankings) of a person that count: L, or as many as the design allows."""
    n_items = len(config.items.catalogue())
    answers = most or config.privacy.max_contributions or USUAL_ANSWERS[config.input.kind]
    if config.input.kind == "rankings":
        return answers
    if config.input.kind == "responses":
        return min(answers, n_items)
    if config.privacy.per_item_cap is not None:
        answers = min(answers, max(1, n_items * config.privacy.per_item_cap // 2))
    return min(answers, n_items * (n_items - 1) // 2) if _distinct(config) else answers


def chosen_method(config: SurveyConfig, setting: Setting) -> Choice:
    """Choose the method that would rank, and give the reason for `method: auto`.

    Raises:
        ConfigError: no method suits the configuration.
    """
    tried = with_setting(config, setting)
    return METHODS[tried.method].resolve(tried)


def is_right(config: SurveyConfig, name: str) -> bool:
    """Whether a method suits the stated design and the requested output."""
    method = METHODS[name]
    return not isinstance(method, PlannedMethod) or method.suits(config)


def accuracy_of(config: SurveyConfig, setting: Setting, world: World) -> Accuracy:
    """Try one setting on simulated surveys.

    Raises:
        ConfigError: the method refuses the setting.
    """
    survey = planned_survey(config, setting, world)
    tried = with_setting(config, setting)
    method = planned_method(tried)
    mechanism = method.calibrate(tried)
    replicates = range(repetitions(survey, world))
    found = [_one(tried, method, mechanism, survey, replicate) for replicate in replicates]
    return mean_accuracy([measured for _, measured in found], found[0][0])


def repetitions(survey: PlannedSurvey, world: World) -> int:
    """Number of surveys to simulate."""
    return world.replicates or _runs(survey)


def epsilon_for(
    config: SurveyConfig,
    target: Target,
    setting: Setting,
    world: World,
    *,
    too_little: float | None = None,
    enough: float | None = None,
) -> float:
    """Find the smallest epsilon at which `setting` reaches the target; infinite if none does.

    Args:
        config: the job.
        target: accuracy that is wanted.
        setting: setting with an open epsilon.
        world: see `World`.
        too_little: an epsilon that is known not to reach it.
        enough: an epsilon that is known to reach it.
    """

    def met(epsilon: float) -> bool:
        return target.met(accuracy_of(config, replace(setting, epsilon=epsilon), world))

    low, high = too_little or LEAST_EPSILON, enough or max(LARGEST_EPSILON, too_little or 0)
    if enough is None and not met(high):
        return math.inf
    if too_little is None and met(low):
        return low
    # the chance variation between so few replicates hides smaller differences
    precision = 1 + 2 / repetitions(planned_survey(config, setting, world), world)
    while high > precision * low:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if met(middle) else (middle, high)
    rounded = float(f"{high:.2g}")
    return rounded if rounded >= high else float(f"{1.05 * high:.2g}")


def predicted(config: SurveyConfig, setting: Setting, world: World) -> float | None:
    """Error of a typical score by the method's formula; None: there is none for this design."""
    if world.design not in (None, Design.BALANCED) or world.activity:
        return None
    survey, tried = planned_survey(config, setting, world), with_setting(config, setting)
    method = planned_method(tried)
    return method.predicted_error(tried, survey, method.calibrate(tried))


def planned_survey(config: SurveyConfig, setting: Setting, world: World) -> PlannedSurvey:
    """Build the survey to simulate.

    Raises:
        ConfigError: no such survey can exist.
    """
    link, n_items = config.model.link, len(config.items.catalogue())
    try:
        return PlannedSurvey(
            n_items=n_items,
            people=setting.people,
            answers=answers_of(config, setting.answers),
            distinct=_distinct(config),
            link=link_named("logistic" if link == "auto" else link),
            spread=world.spread,
            ability_spread=world.ability_spread,
            seed=world.seed,
            meetings=world.meetings(n_items),
            shares=() if config.groups is None else world.shares_of(len(config.groups.groups())),
            group_spread=world.group_spread,
            activity=world.activity,
            **_ties(config, world),
        )
    except ValueError as error:
        raise ConfigError(f"plan: {error}") from None


def _ties(config: SurveyConfig, world: World) -> dict[str, Any]:
    """Keywords for ties in a simulated survey; empty if the job has no model of ties."""
    if config.input.kind != "comparisons" or config.comparisons.ties is not Ties.MODEL:
        return {}
    return {"ties": world.ties, "tie_model": config.comparisons.tie_model}


def noise_bits(survey: PlannedSurvey, replicate: int) -> RandomBits:
    """Random bits for the noise of a simulated replicate, which is no release."""
    return seeded_bits(survey.seed * 1_000_003 + replicate)


def _one(
    config: SurveyConfig,
    method: PlannedMethod[Any],
    mechanism: Mechanism,
    survey: PlannedSurvey,
    replicate: int,
) -> tuple[Scale, dict[str, float]]:
    try:
        exact = method.simulated(config, survey, replicate)
    except ValueError as error:
        raise ConfigError(f"plan: {error}") from None
    bits = noise_bits(survey, replicate)
    try:
        conclusion = method.conclude_whole(method.draw(exact, mechanism, bits), mechanism, config)
    except (ConvergenceError, HushrankError) as error:
        raise ConfigError(
            f"plan: {config.method} fails at epsilon {config.privacy.epsilon:g}: {error}"
        ) from None
    truth = survey.truth_of_all(replicate)
    found = measured(conclusion.estimate, truth, config.top_k)
    if conclusion.scale is Scale.PLACE:  # this scale lists the best items and nothing else
        found |= dict.fromkeys(("order", "width"), math.nan)
        wanted = np.full(len(truth), math.nan)
    else:
        wanted = method.estimand(config, survey, truth)
    return conclusion.scale, found | score_errors(conclusion.estimate.scores, wanted)


def planned_method(config: SurveyConfig) -> PlannedMethod[Any]:
    """Return the method that would rank.

    Raises:
        ConfigError: no plan can try it.
    """
    method = METHODS[config.method].resolve(config).method
    if not isinstance(method, PlannedMethod):
        raise ConfigError(
            f"method: {method.facts.name} cannot be planned; try `hushrank simulate` and run the"
            " job on the simulated answers"
        )
    return method


def needs_list(name: str) -> bool:
    """Whether a method names the best items and ranks no others."""
    return "top_k" in METHODS[name].facts.requires


def with_setting(config: SurveyConfig, setting: Setting) -> SurveyConfig:
    """Return the job with one setting in place of its own."""
    privacy: dict[str, object] = {"epsilon": setting.epsilon, "rho": None}
    if config.privacy.unit is Unit.LOCAL:
        privacy |= {"epsilon_table": None, "epsilon_range": None, "already_private": False}
    elif config.privacy.noise is NoiseKind.GAUSSIAN and config.privacy.delta == 0:
        privacy["delta"] = usual_delta(setting.people)
    if config.privacy.unit is Unit.USER or config.privacy.max_contributions is not None:
        privacy["max_contributions"] = setting.answers
    model = config.model
    if model.link == "auto" and not METHODS[setting.method].facts.chooses_link:
        model = model.model_copy(update={"link": "logistic"})
    model = model.with_comparisons(setting.people * answers_of(config, setting.answers))
    return config.model_copy(
        update={
            "method": setting.method,
            "privacy": config.privacy.model_copy(update=privacy),
            "model": model,
            "top_k": config.top_k or (1 if needs_list(setting.method) else None),
        }
    )


def _distinct(config: SurveyConfig) -> bool:
    return config.privacy.distinct_pairs


def _runs(survey: PlannedSurvey) -> int:
    """Number of replicates: many of small surveys, few of large ones."""
    return max(FEWEST, min(MOST, WORK // survey.n_items**2))


def _refuse_what_cannot_be_planned(path: Path, config: SurveyConfig) -> None:
    try:
        planned_method(config)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None
    if config.privacy.rho is not None:
        raise ConfigError(
            f"{path}: privacy.rho: plan tries values of epsilon; write epsilon and delta instead"
            " while you plan"
        )
