"""The plan of a job as a person reads it: what each setting reaches, and what to take."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rich.table import Table
from rich.text import Text

from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.errors import ConfigError
from hushrank.flows.plan.survey import (
    ERRORS,
    SHARES,
    Accuracy,
    Setting,
    Target,
    World,
    accuracy_of,
    answers_of,
    epsilon_for,
    methods_to_compare,
    plan_config,
    predicted,
    recommended_method,
)
from hushrank.flows.release.scale import Scale
from hushrank.flows.terminal import Console

EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.0)
DEFAULT_TARGET = "top=0.9"
RECOMMENDED = "<- recommended"
MOST_SETTINGS = 40
TARGET_WORDS = {
    "top": "the best item comes out first in {} of such surveys",
    "best": "{} of the best items are among the first",
    "order": "{} of the pairs of items come out in the right order",
    "error": "a typical score is off by {}",
    "largest": "the worst score is off by {}",
    "width": "a rank is known within {} places",
}

LEGEND = (
    "best first: how often the best item is ranked first; order: pairs of items in the right order;"
    " error: of a typical score, and by formula, and the largest (of shares in percentage points);"
    " rank width: how many ranks an item's 95 % interval spans"
)

Tried = list[tuple[Setting, Accuracy]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest:
    """What is asked: empty lists mean what the job says, or usual values.

    Attributes:
        people: how many may answer, one or several numbers.
        answers: L to try.
        epsilons: to try.
        target: such as `top=0.9`.
        plot: where to draw; None: nowhere.
        n_items: where the file does not list the items yet.
    """

    people: tuple[int, ...]
    answers: tuple[int, ...] = ()
    epsilons: tuple[float, ...] = ()
    target: str = DEFAULT_TARGET
    plot: Path | None = None
    n_items: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SurveyPlan:
    """What was tried on invented surveys, and what to take.

    Attributes:
        config: of the job, whose own epsilon may have been open.
        request: what was asked.
        world: what is supposed of people and items.
        target: the accuracy that is wanted.
        tried: every setting with what it reaches.
        chosen: the first of them that reaches the target; None: none does.
        base: the setting of `needed` and `compared`.
        needed: epsilon that is enough for the target; infinite: none is.
        compared: `base` by each method that takes the same answers.
    """

    config: SurveyConfig
    request: PlanRequest
    world: World
    target: Target
    tried: Tried
    chosen: Setting | None
    base: Setting
    needed: float
    compared: Tried

    @property
    def best(self) -> tuple[Setting, str] | None:
        """The method to take, and why; None: there is only one."""
        if len(self.compared) < 2:
            return None
        return recommended_method(self.config, self.compared, self.target)


def plan_survey(path: Path, request: PlanRequest, world: World) -> SurveyPlan:
    """Try every setting, and draw it where that is asked.

    Raises:
        ConfigError: the file or the request breaks a rule.
    """
    config, target = plan_config(path, request.n_items), parse_target(request.target)
    settings = settings_of(config, request)
    tried = [(each, accuracy_of(config, each, world)) for each in settings]
    chosen = next((each for each, found in tried if target.met(found)), None)
    base = chosen or settings[-1]
    needed = epsilon_for(config, target, base, world)
    methods = methods_to_compare(config)
    compared = [
        (each, accuracy_of(config, each, world))
        for each in (replace(base, method=method) for method in methods)
    ]
    if request.plot is not None:
        _draw(config, request, settings, methods, world)
    return SurveyPlan(
        config=config,
        request=request,
        world=world,
        target=target,
        tried=tried,
        chosen=chosen,
        base=base,
        needed=needed,
        compared=compared,
    )


def show_plan(console: Console, plan: SurveyPlan) -> None:
    """Print what each setting reaches and what to take."""
    if plan.target.name == "best" and plan.config.top_k is None:
        console.print("best: of the 3 best items; set top_k for another number.", highlight=False)
    console.print(_table(plan.config, plan.tried, plan.chosen, plan.world))
    console.print(Text(LEGEND, style="dim"), soft_wrap=True)
    several = len(plan.request.people) > 1
    needed = _needed_text(plan.target, plan.base, plan.needed, several)
    console.print(Text(needed), soft_wrap=True)
    if plan.best is not None:
        console.print(Text(f"\nMethods at epsilon {plan.base.epsilon:g}:", style="bold"))
        console.print(_methods_table(plan.compared))
        best, why = plan.best
        console.print(Text(f"Take {best.method}: {why}."), soft_wrap=True)
    if plan.request.plot is not None:
        console.print(Text(f"Plot: {plan.request.plot}"), soft_wrap=True)
    settings = [setting for setting, _ in plan.tried]
    source = _source_text(plan.config, settings, plan.world)
    console.print(Text(source, style="dim"), soft_wrap=True)


def settings_of(config: SurveyConfig, request: PlanRequest) -> list[Setting]:
    """Every combination that is to be tried, epsilon growing fastest.

    Raises:
        ConfigError: there are too many, or a number is out of range.
    """
    own = config.privacy.epsilon
    epsilons = request.epsilons or tuple(
        sorted({*EPSILONS, own} if own is not None and math.isfinite(own) else EPSILONS)
    )
    if not request.people:
        raise ConfigError("--people: missing; about how many people will answer? --people 300")
    for name, values in (("people", request.people), ("max-contributions", request.answers)):
        if any(value < 1 for value in values):
            raise ConfigError(f"--{name} must be at least 1, got {min(values)}")
    settings = [
        Setting(method=config.method, epsilon=epsilon, people=people, answers=answers)
        for people in request.people
        for answers in request.answers or (answers_of(config),)
        for epsilon in sorted(epsilons)
    ]
    if len(settings) > MOST_SETTINGS:
        raise ConfigError(
            f"plan: {len(settings)} settings are too many at once; name at most {MOST_SETTINGS}"
        )
    return settings


def parse_target(text: str) -> Target:
    """Such as `top=0.9`.

    Raises:
        ConfigError: it is something else.
    """
    name, _, value = text.partition("=")
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if name not in (*SHARES, *ERRORS) or not number > 0 or (name in SHARES and number > 1):
        raise ConfigError(
            f"--target {text}: must be one of {', '.join((*SHARES, *ERRORS))}, then = and a"
            " number > 0 (of the first three, a share): top=0.9"
        )
    return Target(name, number)


def _table(config: SurveyConfig, tried: Tried, chosen: Setting | None, world: World) -> Table:
    several = {
        name for name in ("people", "answers") if len({getattr(s, name) for s, _ in tried}) > 1
    }
    table = Table(box=None, header_style="dim", pad_edge=False)
    for heading in (
        *("epsilon", *sorted(several, reverse=True)),
        *("best first", "order", "error", "formula", "largest", "rank width"),
    ):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for setting, found in tried:
        formula = predicted(config, setting, world)
        table.add_row(
            f"{setting.epsilon:g}",
            *(f"{getattr(setting, name):,}" for name in sorted(several, reverse=True)),
            _share(found.top),
            _share(found.order),
            _error(found.error, found.scale),
            "–" if formula is None else _error(formula, found.scale),
            _error(found.largest, found.scale),
            _places(found.width),
            RECOMMENDED if setting is chosen else "",
        )
    return table


def _methods_table(compared: Tried) -> Table:
    table = Table(box=None, header_style="dim", pad_edge=False)
    table.add_column("method")
    for heading in ("best first", "order", "error", "rank width"):
        table.add_column(heading, justify="right", no_wrap=True)
    for setting, found in compared:
        table.add_row(
            setting.method,
            _share(found.top),
            _share(found.order),
            _error(found.error, found.scale),
            _places(found.width),
        )
    return table


def _share(value: float) -> str:
    return "–" if math.isnan(value) else f"{100 * value:.0f} %"


def _error(value: float, scale: Scale) -> str:
    if math.isnan(value):
        return "–"
    return f"{100 * value:.2g} %" if scale is Scale.WIN_SHARE else f"{value:.2g}"


def _places(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.1f}"


def _needed_text(target: Target, base: Setting, needed: float, several: bool) -> str:
    shown = f"{100 * target.value:.0f} %" if target.name in SHARES else f"{target.value:g}"
    wanted = TARGET_WORDS[target.name].format(shown)
    whom = f" with {base.people:,} people" if several else ""
    if math.isinf(needed):
        return (
            f"No epsilon is enough{whom} so that {wanted}: chance in who answers is too large."
            " More people or more answers of each would help."
        )
    return f"Epsilon {needed:g} is enough{whom} so that {wanted}."


def _source_text(config: SurveyConfig, settings: Sequence[Setting], world: World) -> str:
    people = " or ".join(f"{n:,}" for n in dict.fromkeys(each.people for each in settings))
    answers = " or ".join(
        f"{n:,}" for n in dict.fromkeys(answers_of(config, each.answers) for each in settings)
    )
    return (
        f"(simulated from {people} invented people with {answers} answers each and true scores of"
        f" standard deviation {world.spread:g}; your data was not read; nothing was spent)"
    )


def _draw(
    config: SurveyConfig,
    request: PlanRequest,
    settings: Sequence[Setting],
    methods: Sequence[str],
    world: World,
) -> None:
    from hushrank.flows.plan.plot import FORMATS, accuracy_plot  # matplotlib takes a second

    if request.plot is None or request.plot.suffix not in FORMATS:
        raise ConfigError(f"--plot {request.plot}: must end in {' or '.join(FORMATS)}")
    first = [each for each in settings if each.people == settings[0].people]
    first = [each for each in first if each.answers == settings[0].answers]
    curves = {
        method: [(each, accuracy_of(config, replace(each, method=method), world)) for each in first]
        for method in methods_to_compare(config)
        if method in methods
    }
    formula = [predicted(config, each, world) for each in first]
    try:
        request.plot.write_bytes(accuracy_plot(config.name, curves, formula, request.plot.suffix))
    except OSError as error:
        raise ConfigError(f"{request.plot}: cannot be written: {error.strerror}") from None
