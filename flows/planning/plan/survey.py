"""Prediction of a job's accuracy from simulated surveys: `hushrank plan SURVEY.YAML`.

Each setting is tried on simulated surveys: the same code that would draw the noise and rank the
items does it there. Nothing but the configuration and the list of items is read.

Check by the plan's formula whether a job can learn anything, before it is paid for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from hushrank.estimation.common.estimate import mean_ranks, rms_error
from hushrank.estimation.common.links import link_named
from hushrank.estimation.common.pair_separation import ranks_one_at_a_time
from hushrank.estimation.fit.solve import ConvergenceError
from hushrank.flows.config.comparisons import Design
from hushrank.flows.config.privacy import usual_delta
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.config.yaml_file import read_yaml
from hushrank.flows.errors import ConfigError, HushrankError
from hushrank.flows.methods.base import Calibrated, Choice, PlannedMethod
from hushrank.flows.methods.registry import METHODS, check_job
from hushrank.flows.planning.plan.crossed import TRUTHS, Replicate, with_crossed
from hushrank.flows.planning.plan.world import (
    MOST_SIMULATED,
    Accuracy,
    ErrorParts,
    Target,
    World,
    mean_accuracy,
    measured,
    score_errors,
)
from hushrank.flows.release.scale import Scale
from hushrank.flows.statement.mechanism import Mechanism
from hushrank.pipelines.simulate.planned_survey import PlannedSurvey
from hushrank.privacy.randomness import RandomBits, seeded_bits
from hushrank.privacy.units import NoiseKind, Unit
from hushrank.transforms.common.schema import Ties

EPSILON, ITEMS, DESIGN = "privacy.epsilon", "items", "input.design"
# Most answers of a person that are simulated, if nothing bounds them.
OWN_EPSILONS = frozenset({"epsilon_table", "epsilon_range", "epsilon_levels"})
USUAL_ANSWERS = {"comparisons": 10, "responses": 10, "rankings": 1}
WORK = 400  # items of all replicates of one setting together
FEWEST, MOST = 12, 24  # fewest and most replicates
LEAST_EPSILON, LARGEST_EPSILON = 0.01, 100.0
MANY = 2.0**20  # times as many people: noise on counts is then nothing
NO_FLIPS = 300.0  # epsilon of an answer at which none is flipped


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
    chosen = isinstance(privacy, dict) and bool(privacy.keys() & OWN_EPSILONS)
    if isinstance(privacy, dict) and privacy.get("epsilon") is None and "rho" not in privacy:
        privacy |= {} if chosen else {"epsilon": 1.0}
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
    n_items = len(config.items.catalogue.names)
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
    """Try one setting on simulated surveys, or by formula where there are very many items.

    Raises:
        ConfigError: the method refuses the setting.
    """
    survey = planned_survey(config, setting, world)
    tried = with_setting(config, setting)
    method = planned_method(tried)
    if (parts := _parts_to_use(config, setting, world)) is not None:
        of_shares = _is_of_shares(method, tried, survey)
        if not of_shares or survey.meetings is None:
            from hushrank.flows.planning.plan.formula import accuracy_by_formula

            return accuracy_by_formula(
                survey,
                parts,
                of_shares=of_shares,
                n_top=config.top_k,
                of_pairs=method.noise_on_pairs,
            )
    mechanism = method.calibrate(tried)
    replicates = range(repetitions(survey, world))
    with ranks_one_at_a_time():
        found = [_one(tried, method, mechanism, survey, replicate) for replicate in replicates]
    return _summary(found, tried, method, survey)


def _parts_to_use(config: SurveyConfig, setting: Setting, world: World) -> ErrorParts | None:
    """Parts of the error by formula; None: surveys are simulated."""
    many = len(config.items.catalogue) > MOST_SIMULATED
    plain = config.input.kind == "comparisons" and config.comparisons.ties is not Ties.MODEL
    if not (many and plain and config.schedule.stream is None):
        return None
    if world.replicates:
        return None
    if world.design is not Design.RANDOM or world.exposed.pairs is not None:
        return error_parts(config, setting, world)
    parts = error_parts(config, setting, replace(world, design=Design.BALANCED))
    if parts is not None and config.privacy.unit is Unit.LOCAL:  # a flip is chance of its answer
        return ErrorParts(math.hypot(parts.sampling, parts.privacy), 0.0)
    return parts


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


def _is_of_shares(method: PlannedMethod[Any], tried: SurveyConfig, survey: PlannedSurvey) -> bool:
    """Whether scores are shares of wins, and no scores on the scale of a link."""
    return method.estimand(tried, survey, truth := survey.truth(0)) is not truth


def scores_are_shares(config: SurveyConfig, setting: Setting, world: World) -> bool:
    """Whether a job of comparisons states shares of wins, whose errors are percentage points."""
    tried = with_setting(config, setting)
    return _is_of_shares(planned_method(tried), tried, planned_survey(config, setting, world))


def predicted(config: SurveyConfig, setting: Setting, world: World) -> float | None:
    """Error of a typical score by the method's formula; None: there is none for this design."""
    if world.design not in (None, Design.BALANCED) or world.activity:
        return None
    survey, tried = planned_survey(config, setting, world), with_setting(config, setting)
    method = planned_method(tried)
    return method.predicted_error(tried, survey, method.calibrate(tried))


def error_parts(config: SurveyConfig, setting: Setting, world: World) -> ErrorParts | None:
    """Parts of `predicted` by sampling and by privacy; None: no formula tells them apart."""
    local = config.privacy.unit is Unit.LOCAL
    changed = replace(setting, epsilon=NO_FLIPS * max(setting.answers, 1))
    if not local:
        changed = replace(setting, people=int(setting.people * MANY))
    try:
        whole, alone = (predicted(config, each, world) for each in (setting, changed))
    except (ConfigError, OverflowError):
        return None
    if whole is None or alone is None or not whole > 0 < alone:
        return None
    sampling = alone if local else alone * math.sqrt(MANY)
    if not sampling < whole:
        return None
    return ErrorParts(sampling, math.sqrt(whole**2 - sampling**2))


def planned_survey(config: SurveyConfig, setting: Setting, world: World) -> PlannedSurvey:
    """Build the survey to simulate.

    Raises:
        ConfigError: no such survey can exist.
    """
    link, n_items = config.model.link, len(config.items.catalogue.names)
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
            shares=_shares(config, setting, world),
            group_spread=world.group_spread,
            activity=world.activity,
            **_ties(config, world),
        )
    except ValueError as error:
        raise ConfigError(f"plan: {error}") from None


def _shares(config: SurveyConfig, setting: Setting, world: World) -> tuple[float, ...]:
    """Share of each group that is ranked; empty: none is, as in a table of precincts."""
    if config.groups is None or METHODS[setting.method].facts.uses("groups.districts"):
        return ()
    return world.shares_of(config.groups.groups().parts)


def _ties(config: SurveyConfig, world: World) -> dict[str, Any]:
    """Keywords for ties in a simulated survey; empty if the job has no model of ties."""
    if config.input.kind != "comparisons" or config.comparisons.ties is not Ties.MODEL:
        return {}
    return {"ties": world.ties, "tie_model": config.comparisons.tie_model}


def noise_bits(survey: PlannedSurvey, replicate: int) -> RandomBits:
    """Random bits for the noise of a simulated replicate, which is no release."""
    return seeded_bits(survey.seed * 1_000_003 + replicate)


def _summary(
    replicates: Sequence[Replicate],
    config: SurveyConfig,
    method: PlannedMethod[Any],
    survey: PlannedSurvey,
) -> Accuracy:
    """Means over replicates; how often the best come first, by `crossed_shares` where it can."""
    accuracy = mean_accuracy([each.found for each in replicates], replicates[0].scale)
    if not all(each.in_order for each in replicates):
        return accuracy
    further, number = np.empty((0, survey.n_items)), len(replicates)
    if method.estimand(config, survey, truth := survey.truth_of_all(0)) is truth:
        further = np.array([survey.truth_of_all(number + each) for each in range(TRUTHS)])
    scores, wanted = (
        np.array([getattr(each, name) for each in replicates]) for name in ("scores", "wanted")
    )
    return with_crossed(accuracy, scores, wanted, further, config.top_k)


def _one(
    config: SurveyConfig,
    method: PlannedMethod[Any],
    mechanism: Mechanism,
    survey: PlannedSurvey,
    replicate: int,
) -> Replicate:
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
    estimate = conclusion.estimate
    found = measured(estimate, truth, config.top_k)
    if conclusion.scale is Scale.PLACE:  # this scale lists the best items and nothing else
        found |= dict.fromkeys(("order", "width"), math.nan)
        wanted = np.full(len(truth), math.nan)
    else:
        wanted = method.estimand(config, survey, truth)
    found |= score_errors(estimate.scores, wanted)
    in_order = np.array_equal(mean_ranks(estimate.scores), estimate.rank)
    in_order = in_order and bool(np.isfinite(wanted).all() and np.ptp(estimate.scores) > 0)
    return Replicate(conclusion.scale, found, estimate.scores, wanted, in_order)


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
        privacy |= dict.fromkeys(OWN_EPSILONS)
        privacy["already_private"] = False
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
    """Number of replicates: more of small surveys, fewer of large ones."""
    return max(FEWEST, min(MOST, WORK // survey.n_items))


def _refuse_what_cannot_be_planned(path: Path, config: SurveyConfig) -> None:
    try:
        planned_method(config)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None
    if config.items.discover is not None:
        raise ConfigError(f"{path}: items.discover: {found_names_text(config)}")
    if config.privacy.rho is not None:
        raise ConfigError(
            f"{path}: privacy.rho: plan tries values of epsilon; write epsilon and delta instead"
            " while you plan"
        )


def found_names_text(config: SurveyConfig) -> str:
    """Say how many people a name needs to be found, and how the ranking is planned."""
    from hushrank.privacy.accounting import rho_for
    from hushrank.privacy.discovered_names import ONE, NamesMechanism

    params = config.privacy.params()
    if (terms := params.discovery) is None:
        return ""
    names = NamesMechanism.of(terms, params.adjacency)
    single, most = (names.people_needed(each) for each in (1, terms.most_names))
    surer = math.ceil(SURE * names.law.scale / ONE)
    whole = rho_for(terms.epsilon, terms.delta, ONE**2)  # of a ranking of known items
    larger = math.sqrt(whole / terms.rest) - 1
    return (
        f"a name is found with an even chance if {single:,} people write it and no other, or"
        f" {most:,} people who write {terms.most_names} names each; with {surer:,} people more (or"
        f" {math.ceil(surer * math.sqrt(terms.most_names)):,}) it is found with 95 %. plan predicts"
        " rankings of items that are known: with --items N of N names, at all of the budget, while"
        f" after the names noise is {100 * larger:.0f} % larger. Nothing was read or spent"
    )


SURE = 1.645  # deviations of the normal below which 95 % are
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
    """Say how many people make a job worth its epsilon.

    Empty: it is not private, or nobody knows how many names will be found.
    """
    if not config.privacy.private or config.items.discover is not None:
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
    local = config.privacy.unit is Unit.LOCAL  # who was shown first changes no score there
    covariates = config.input.kind == "comparisons" and config.comparisons.covariates and not local
    return config.schedule.stream is None and not covariates
