"""What a job would find out, before anybody's answer is read: `hushrank plan SURVEY.YAML`.

Each setting is tried on invented surveys: the same code that would draw the noise and rank the
items does it there. Nothing but the configuration and the list of items is read.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from hushrank.estimation.common.links import link_named
from hushrank.estimation.common.metrics import (
    kendall_distance,
    linf_error,
    rms_error,
    top_k_distance,
)
from hushrank.estimation.fit.solve import ConvergenceError
from hushrank.flows.config.survey import SurveyConfig, check_config
from hushrank.flows.config.yaml_file import read_yaml
from hushrank.flows.errors import ConfigError, HushrankError
from hushrank.flows.guarantee.mechanism import Mechanism
from hushrank.flows.methods.base import Conclusion, PlannedMethod
from hushrank.flows.methods.registry import METHODS, facts_of_methods
from hushrank.flows.release.scale import Scale
from hushrank.pipelines.simulate.planned_survey import PlannedSurvey
from hushrank.privacy.randomness import seeded_bits
from hushrank.privacy.units import NoiseKind, Unit

EPSILON, SIZE = "privacy.epsilon", "model.expected_comparisons"
DEFAULT_ANSWERS = 10  # of a person, where nothing bounds them
WORK = 1_500_000  # numbers of invented matrices for one setting
FEWEST, MOST = 12, 120  # replicates
LEAST_EPSILON, LARGEST_EPSILON = 0.01, 100.0
BISECTIONS = 9  # epsilon to 1 %


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One choice to try."""

    method: str
    epsilon: float
    people: int
    answers: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Accuracy:
    """What one setting reaches: means over replicates. NaN where a method says nothing of it.

    Attributes:
        top: share of replicates in which the best item is ranked first.
        best: share of the best k items that are among the first k.
        order: share of the pairs of items that are in the right order.
        error: n^(-1/2) times the l2 norm of the scores' error: of a typical score.
        largest: l-infinity norm of the scores' error.
        width: mean ranks that an item may be better or worse, `rank_high - rank_low`.
        spread: standard error of each of these, by name.
        scale: what the scores are.
    """

    top: float
    best: float
    order: float
    error: float
    largest: float
    width: float
    spread: Mapping[str, float]
    scale: Scale


@dataclass(frozen=True, slots=True)
class Target:
    """An accuracy that is wanted: at least `value` of a share, at most `value` of an error."""

    name: str
    value: float

    def met(self, accuracy: Accuracy) -> bool:
        """Whether a setting reaches it."""
        reached = float(getattr(accuracy, self.name))
        return reached >= self.value if self.name in SHARES else reached <= self.value


SHARES, ERRORS = ("top", "best", "order"), ("error", "largest", "width")


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What is supposed of people and items, and how thoroughly it is tried."""

    spread: float = 1.0
    ability_spread: float = 1.0
    seed: int = 0
    replicates: int | None = None


def plan_config(path: Path, n_items: int | None = None) -> SurveyConfig:
    """The job of the YAML file, which need not say yet how large epsilon is.

    Args:
        path: of the file.
        n_items: how many items there will be, where the file does not list them yet.

    Raises:
        ConfigError: it breaks another rule.
    """
    content = read_yaml(path, (EPSILON, "items") if n_items is not None else (EPSILON,))
    privacy = content.get("privacy")
    if isinstance(privacy, dict) and privacy.get("epsilon") is None and "rho" not in privacy:
        privacy["epsilon"] = 1.0
    if n_items is not None:
        content["items"] = {"count": n_items}
    size_is_open = _open_size(content)
    config = check_config(path, content, facts_of_methods())
    _refuse_what_cannot_be_planned(path, config)
    if size_is_open:
        model = config.model.model_copy(update={"expected_comparisons": None})
        config = config.model_copy(update={"model": model})
    return config


def _open_size(content: dict[object, object]) -> bool:
    """Whether the job leaves open how many comparisons to expect; the number of people says it."""
    model = content.setdefault("model", {})
    method = METHODS.get(str(content.get("method")))
    if method is None or SIZE not in method.facts.requires or not isinstance(model, dict):
        return False
    return bool(model.setdefault("expected_comparisons", 1.0) == 1.0)


def methods_to_compare(config: SurveyConfig) -> tuple[str, ...]:
    """The methods that could do this job, the configured one first."""
    local = config.privacy.unit is Unit.LOCAL
    usable = [
        name
        for name in sorted(METHODS, key=_plan_order)
        if (METHODS[name].facts.kind, METHODS[name].facts.local) == (config.input.kind, local)
        and math.isfinite(_plan_order(name))
        and _accepts(config, name)
    ]
    return tuple(dict.fromkeys((config.method, *usable)))


def _plan_order(name: str) -> float:
    """Smaller: the method assumes less; infinite: no plan compares it unasked."""
    order = getattr(METHODS[name], "plan_order", None)
    return math.inf if order is None else order


def answers_of(config: SurveyConfig, most: int | None = None) -> int:
    """Answers of a person that count: L, or as many as the design of the survey allows."""
    n_items = len(config.items.catalogue())
    answers = most or config.privacy.max_contributions or DEFAULT_ANSWERS
    if config.input.kind == "responses":
        return min(answers, n_items)
    if config.privacy.per_item_cap is not None:
        answers = min(answers, max(1, n_items * config.privacy.per_item_cap // 2))
    return min(answers, n_items * (n_items - 1) // 2) if _distinct(config) else answers


def accuracy_of(config: SurveyConfig, setting: Setting, world: World) -> Accuracy:
    """Try one setting on invented surveys.

    Raises:
        ConfigError: the method refuses the setting.
    """
    survey = planned_survey(config, setting, world)
    tried = with_setting(config, setting)
    mechanism = _planned(tried).calibrate(tried)
    replicates = range(world.replicates or _runs(survey))
    found = [_one(tried, mechanism, survey, replicate) for replicate in replicates]
    names = (*SHARES, *ERRORS)
    table = np.array([[measured[name] for name in names] for _, measured in found])
    errors = table.std(axis=0, ddof=1) / math.sqrt(len(table))
    return Accuracy(
        **dict(zip(names, table.mean(axis=0).tolist(), strict=True)),
        spread=dict(zip(names, errors.tolist(), strict=True)),
        scale=found[0][0],
    )


def epsilon_for(config: SurveyConfig, target: Target, setting: Setting, world: World) -> float:
    """The smallest epsilon at which `setting` reaches the target; infinite where none does."""

    def met(epsilon: float) -> bool:
        return target.met(accuracy_of(config, replace(setting, epsilon=epsilon), world))

    low, high = LEAST_EPSILON, LARGEST_EPSILON
    if not met(high):
        return math.inf
    if met(low):
        return low
    for _ in range(BISECTIONS):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if met(middle) else (middle, high)
    return float(f"{high:.2g}") if float(f"{high:.2g}") >= high else float(f"{1.05 * high:.2g}")


def recommended_method(
    config: SurveyConfig, tried: Sequence[tuple[Setting, Accuracy]], target: Target
) -> tuple[Setting, str]:
    """The method to take, and why.

    The one that is best at what is wanted; of several that two standard errors do not tell apart,
    the one with the smallest `plan_order`, which assumes less. A method that names the
    best items and ranks no others is for jobs that ask for no more than that.
    """
    sign = 1 if target.name in SHARES else -1
    known = [(each, found) for each, found in tried if math.isfinite(getattr(found, target.name))]
    if config.top_k is None:
        known = [each for each in known if not _needs_list(each[0].method)]
    if target.name in ("error", "largest"):  # scores on another scale cannot be compared
        known = [(each, found) for each, found in known if found.scale is tried[0][1].scale]
    best = max(known, key=lambda each: sign * getattr(each[1], target.name))
    margin = 2 * best[1].spread[target.name]
    level = sign * getattr(best[1], target.name) - margin
    close = [each for each in known if sign * getattr(each[1], target.name) >= level]
    chosen, _ = min(close, key=lambda each: _plan_order(each[0].method))
    if len(known) == 1:
        return chosen, "no other method here is measured by that"
    if chosen.method == best[0].method:
        why = "best at what is wanted" if len(close) == 1 else "as good as any, and the plainest"
        return chosen, why
    return chosen, f"{best[0].method} is not better than chance explains, and assumes more"


def predicted(config: SurveyConfig, setting: Setting, world: World) -> float | None:
    """The error of a typical score by the method's formula; None: it has none."""
    survey, tried = planned_survey(config, setting, world), with_setting(config, setting)
    return _planned(tried).predicted_error(tried, survey)


def planned_survey(config: SurveyConfig, setting: Setting, world: World) -> PlannedSurvey:
    """The survey to invent.

    Raises:
        ConfigError: there cannot be one such.
    """
    link = config.model.link
    try:
        return PlannedSurvey(
            n_items=len(config.items.catalogue()),
            people=setting.people,
            answers=answers_of(config, setting.answers),
            distinct=_distinct(config),
            link=link_named("logistic" if link == "auto" else link),
            spread=world.spread,
            ability_spread=world.ability_spread,
            seed=world.seed,
        )
    except ValueError as error:
        raise ConfigError(f"plan: {error}") from None


def _one(
    config: SurveyConfig, mechanism: Mechanism, survey: PlannedSurvey, replicate: int
) -> tuple[Scale, dict[str, float]]:
    method = _planned(config)
    try:
        exact = method.invented(config, survey, replicate)
    except ValueError as error:
        raise ConfigError(f"plan: {error}") from None
    bits = seeded_bits(survey.seed * 1_000_003 + replicate)  # of an invented survey: no release
    try:
        conclusion = method.conclude(method.draw(exact, mechanism, bits), mechanism, config)
    except (ConvergenceError, HushrankError) as error:
        raise ConfigError(
            f"plan: {config.method} fails at epsilon {config.privacy.epsilon:g}: {error}"
        ) from None
    truth = survey.truth(replicate)
    return conclusion.scale, _measured(conclusion, truth, survey, config.top_k)


def _measured(
    conclusion: Conclusion, truth: np.ndarray, survey: PlannedSurvey, n_top: int | None
) -> dict[str, float]:
    estimate, scale = conclusion.estimate, conclusion.scale
    k = min(n_top or 3, len(truth) - 1)
    rank = -estimate.rank
    wanted = survey.true_shares(truth) if scale is Scale.WIN_SHARE else truth
    scored = scale is not Scale.PLACE
    return {
        "top": float(estimate.order[0] == truth.argmax()),
        "best": 1 - top_k_distance(rank, truth, k),
        "order": 1 - kendall_distance(rank, truth) if scored else math.nan,
        "error": rms_error(estimate.scores, wanted) if scored else math.nan,
        "largest": linf_error(estimate.scores, wanted) if scored else math.nan,
        "width": float((estimate.rank_high - estimate.rank_low).mean()) if scored else math.nan,
    }


def _planned(config: SurveyConfig) -> PlannedMethod[Any]:
    """The method that would rank.

    Raises:
        ConfigError: no plan can try it.
    """
    method = METHODS[config.method].resolve(config).method
    if not isinstance(method, PlannedMethod):
        raise ConfigError(
            f"method: {method.facts.name} cannot be planned; try `hushrank simulate` and run the"
            " job on what it invents"
        )
    return method


def _needs_list(name: str) -> bool:
    """Whether a method names the best items and ranks no others."""
    return "top_k" in METHODS[name].facts.requires


def with_setting(config: SurveyConfig, setting: Setting) -> SurveyConfig:
    """The job with one setting in the place of its own."""
    survey_answers = answers_of(config, setting.answers)
    privacy: dict[str, object] = {"epsilon": setting.epsilon, "rho": None}
    if config.privacy.unit is Unit.LOCAL:
        privacy |= {"epsilon_table": None, "epsilon_range": None, "already_private": False}
    elif config.privacy.noise is NoiseKind.GAUSSIAN and config.privacy.delta == 0:
        privacy["delta"] = 1e-6
    if config.privacy.unit is Unit.USER or config.privacy.max_contributions is not None:
        privacy["max_contributions"] = setting.answers
    n_items = len(config.items.catalogue())
    model = {"link": config.model.link}
    if config.model.link == "auto" and not METHODS[setting.method].facts.chooses_link:
        model = {"link": "logistic"}
    expected = 2 * setting.people * survey_answers / n_items
    return config.model_copy(
        update={
            "method": setting.method,
            "privacy": config.privacy.model_copy(update=privacy),
            "model": config.model.model_copy(
                update={
                    **model,
                    "expected_comparisons": config.model.expected_comparisons or expected,
                }
            ),
            "top_k": config.top_k or (1 if _needs_list(setting.method) else None),
        }
    )


def _accepts(config: SurveyConfig, method: str) -> bool:
    setting = Setting(method=method, epsilon=1.0, people=1000, answers=answers_of(config))
    try:
        tried = with_setting(config, setting)
        _planned(tried).calibrate(tried)
    except ConfigError:
        return False
    return True


def _distinct(config: SurveyConfig) -> bool:
    return config.privacy.distinct_pairs


def _runs(survey: PlannedSurvey) -> int:
    """Replicates: many of small surveys, few of large ones."""
    return max(FEWEST, min(MOST, WORK // survey.n_items**2))


def _refuse_what_cannot_be_planned(path: Path, config: SurveyConfig) -> None:
    try:
        _planned(config)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None
    if config.privacy.rho is not None:
        raise ConfigError(
            f"{path}: privacy.rho: plan tries values of epsilon; write epsilon and delta instead"
            " while you plan"
        )
