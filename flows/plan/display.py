"""The plan of a job as a person reads it: what each setting reaches, and what to take."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rich.table import Table
from rich.text import Text

from hushrank.flows.config.comparisons import Design
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.errors import ConfigError
from hushrank.flows.plan.choice import AUTO, Verdict, methods_to_compare, verdict
from hushrank.flows.plan.survey import (
    ERRORS,
    SHARES,
    Accuracy,
    Setting,
    Target,
    accuracy_of,
    answers_of,
    chosen_method,
    epsilon_for,
    is_right,
    plan_config,
    planned_survey,
    predicted,
)
from hushrank.flows.plan.world import World, design_text, world_of
from hushrank.flows.release.scale import Scale
from hushrank.flows.terminal import Console

EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.0)
DEFAULT_TARGET = "top=0.9"
RECOMMENDED = "<- recommended"
NOT_RIGHT = "<- not right for this design"
UNKNOWN = "unknown"  # scores that are further off than if nothing was said
SELDOM = 0.9  # a share of surveys that learn something, below which it is said how many do not
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
    " error: of a typical score, {}and the largest (of shares in percentage points);"
    " rank width: how many ranks an item's 95 % interval spans"
)
LEGEND_OF_FORMULA = "and by formula, "
LEGEND_OF_UNKNOWN = "; unknown: scores are off by more than if all items were called equal"

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
        design: to invent, in place of the stated one.
        zipf: exponent of the exposures in a design that is not balanced.
        exposures: file of public exposures, instead.
    """

    people: tuple[int, ...]
    answers: tuple[int, ...] = ()
    epsilons: tuple[float, ...] = ()
    target: str = DEFAULT_TARGET
    plot: Path | None = None
    n_items: int | None = None
    design: Design | None = None
    zipf: float | None = None
    exposures: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SurveyPlan:
    """What was tried on invented surveys, and what to take.

    Attributes:
        config: of the job, whose own epsilon may have been open.
        request: what was asked.
        world: what is supposed of people and items.
        target: the accuracy that is wanted.
        tried: every setting with what it reaches.
        methods: what ranks in each of them: the job's method, or what `auto` takes.
        right: whether the job's method is right for the design; only then is one recommended.
        chosen: the first of them that reaches the target; None: none does.
        base: the setting of `needed` and `compared`.
        reason: why `auto` takes the first method of `compared`; empty: the job names its method.
        needed: epsilon that is enough for the target; infinite: none is.
        compared: `base` by each method that is right for the design, the job's own first.
        best: the method to take; None: there is no choice.
    """

    config: SurveyConfig
    request: PlanRequest
    world: World
    target: Target
    tried: Tried
    methods: tuple[str, ...]
    right: bool
    chosen: Setting | None
    base: Setting
    reason: str
    needed: float
    compared: Tried
    best: Verdict | None

    @property
    def design(self) -> str:
        """Which design was invented, in one line; empty: answers are no comparisons."""
        return design_text(self.world, planned_survey(self.config, self.base, self.world))


def plan_survey(path: Path, request: PlanRequest, world: World) -> SurveyPlan:
    """Try every setting, and draw it where that is asked.

    Raises:
        ConfigError: the file or the request breaks a rule.
    """
    config = plan_config(path, request.n_items, request.design)
    world = world_of(config, world, request.zipf, request.exposures)
    target, settings = parse_target(request.target), settings_of(config, request)
    right = is_right(config, config.method)
    tried = [(each, accuracy_of(config, each, world)) for each in settings]
    chosen = next((each for each, found in tried if right and target.met(found)), None)
    base = chosen or settings[-1]
    own = chosen_method(config, base)
    methods = methods_to_compare(config, own.method.facts.name)
    others = [replace(base, method=method) for method in methods[1:]]
    compared = [
        (replace(base, method=methods[0]), dict(tried)[base]),
        *((each, accuracy_of(config, each, world)) for each in others),
    ]
    if request.plot is not None:
        _draw(config, request, tried, methods, world)
    return SurveyPlan(
        config=config,
        request=request,
        world=world,
        target=target,
        tried=tried,
        methods=tuple(chosen_method(config, each).method.facts.name for each in settings),
        right=right,
        chosen=chosen,
        base=base,
        reason=own.reason,
        needed=epsilon_for(config, target, base, world) if right else math.inf,
        compared=compared,
        best=verdict(config, compared, target),
    )


def show_plan(console: Console, plan: SurveyPlan) -> None:
    """Print what each setting reaches and what to take."""
    if plan.target.name == "best" and plan.config.top_k is None:
        console.print("best: of the 3 best items; set top_k for another number.", highlight=False)
    if plan.design:
        console.print(Text(plan.design), soft_wrap=True)
    console.print(_table(plan))
    console.print(Text(_legend(plan), style="dim"), soft_wrap=True)
    console.print(Text(_needed_text(plan)), soft_wrap=True)
    if plan.reason:
        taken = plan.compared[0][0].method
        console.print(Text(f"\nMethod auto takes {taken}: {plan.reason}."), soft_wrap=True)
    if len(plan.compared) > 1:
        console.print(Text(f"\nMethods at epsilon {plan.base.epsilon:g}:", style="bold"))
        console.print(_methods_table(plan))
    if plan.best is not None:
        console.print(Text(_verdict_text(plan, plan.best)), soft_wrap=True)
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


def _legend(plan: SurveyPlan) -> str:
    rows = [found for _, found in (*plan.tried, *plan.compared)]
    unknown = any(UNKNOWN in (_error(found), _largest(found)) for found in rows)
    formula = any(each is not None for each in _formulas(plan))
    return LEGEND.format(LEGEND_OF_FORMULA * formula) + LEGEND_OF_UNKNOWN * unknown


def _formulas(plan: SurveyPlan) -> list[float | None]:
    return [predicted(plan.config, each, plan.world) for each, _ in plan.tried]


def _table(plan: SurveyPlan) -> Table:
    several = {
        name: heading
        for name, heading in (("people", "people"), ("answers", "answers"))
        if len({getattr(each, name) for each, _ in plan.tried}) > 1
    }
    formulas = _formulas(plan)
    formula = any(each is not None for each in formulas)
    chooses = len(set(plan.methods)) > 1
    table = Table(box=None, header_style="dim", pad_edge=False)
    for heading in (
        *("epsilon", *several.values()),
        *(("method",) if chooses else ()),
        *("best first", "order", "error", *(("formula",) if formula else ())),
        *("largest", "rank width"),
    ):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for (setting, found), method, by_formula in zip(
        plan.tried, plan.methods, formulas, strict=True
    ):
        table.add_row(
            f"{setting.epsilon:g}",
            *(f"{getattr(setting, name):,}" for name in several),
            *((method,) if chooses else ()),
            *(_share(found.top), _share(found.order), _error(found)),
            *((_formula(by_formula, found),) if formula else ()),
            *(_largest(found), _places(found.width)),
            RECOMMENDED if setting is plan.chosen else _remark(found, right=plan.right),
        )
    return table


def _methods_table(plan: SurveyPlan) -> Table:
    table = Table(box=None, header_style="dim", pad_edge=False)
    table.add_column("method", no_wrap=True)
    for heading in ("best first", "order", "error", "rank width"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for setting, found in plan.compared:
        table.add_row(
            setting.method,
            _share(found.top),
            _share(found.order),
            _error(found),
            _places(found.width),
            _remark(found, right=is_right(plan.config, setting.method)),
        )
    return table


def _remark(found: Accuracy, *, right: bool) -> str:
    if not right:
        return NOT_RIGHT
    if found.informative < SELDOM:
        return f"<- nothing is learned in {_share(1 - found.informative)} of such surveys"
    return ""


def _share(value: float) -> str:
    return "–" if math.isnan(value) else f"{100 * value:.0f} %"


def _error(found: Accuracy) -> str:
    return _off_by(found.error, found.equal, found.scale)


def _largest(found: Accuracy) -> str:
    return _off_by(found.largest, found.largest_equal, found.scale)


def _formula(value: float | None, found: Accuracy) -> str:
    return "–" if value is None else _off_by(value, found.equal, found.scale)


def _off_by(value: float, equal: float, scale: Scale) -> str:
    """An error in words where calling all items equal is no worse."""
    if math.isnan(value):
        return "–"
    if value >= equal:
        return UNKNOWN
    return f"{two_digits(100 * value)} %" if scale is Scale.WIN_SHARE else two_digits(value)


def two_digits(value: float) -> str:
    """Two significant digits, and all of them before the point; never an exponent."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    decimals = max(0, 1 - math.floor(math.log10(abs(value))))
    text = f"{value:.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _places(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.1f}"


def _needed_text(plan: SurveyPlan) -> str:
    target, base = plan.target, plan.base
    if not plan.right:
        return (
            f"No epsilon helps: {plan.config.method} is not right for this design, so that its"
            " ranking is wrong however little noise there is."
        )
    shown = f"{100 * target.value:.0f} %" if target.name in SHARES else f"{target.value:g}"
    wanted = TARGET_WORDS[target.name].format(shown)
    whom = f" with {base.people:,} people" if len(plan.request.people) > 1 else ""
    if math.isinf(plan.needed):
        return (
            f"No epsilon is enough{whom} so that {wanted}: chance in who answers is too large."
            " More people or more answers of each would help."
        )
    return f"Epsilon {plan.needed:g} is enough{whom} so that {wanted}."


def _verdict_text(plan: SurveyPlan, best: Verdict) -> str:
    taken = best.setting.method
    if plan.config.method == AUTO and taken == plan.compared[0][0].method:
        taken = f"auto, which is {taken} here"
    where = "" if plan.world.design is None else f" (design {plan.world.design.value})"
    return f"Take {taken}: {best.why}{where}."


def _source_text(config: SurveyConfig, settings: Sequence[Setting], world: World) -> str:
    people = " or ".join(f"{n:,}" for n in dict.fromkeys(each.people for each in settings))
    answers = " or ".join(
        f"{n:,}" for n in dict.fromkeys(answers_of(config, each.answers) for each in settings)
    )
    noun = "ranking" if config.input.kind == "rankings" else "answer"
    nouns = noun if answers == "1" else f"{noun}s"
    return (
        f"(simulated from {people} invented people with {answers} {nouns} each and true scores of"
        f" standard deviation {world.spread:g}; your data was not read; nothing was spent)"
    )


def _draw(
    config: SurveyConfig, request: PlanRequest, tried: Tried, methods: Sequence[str], world: World
) -> None:
    from hushrank.flows.plan.plot import FORMATS, accuracy_plot  # matplotlib takes a second

    if request.plot is None or request.plot.suffix not in FORMATS:
        raise ConfigError(f"--plot {request.plot}: must end in {' or '.join(FORMATS)}")
    ends = (tried[0][0].people, tried[0][0].answers)
    first = [(each, found) for each, found in tried if (each.people, each.answers) == ends]
    others = methods if config.method == AUTO else methods[1:]
    curves = {config.method: first} | {
        method: [
            (each, accuracy_of(config, replace(each, method=method), world)) for each, _ in first
        ]
        for method in others
    }
    formula = [predicted(config, each, world) for each, _ in first]
    try:
        request.plot.write_bytes(accuracy_plot(config.name, curves, formula, request.plot.suffix))
    except OSError as error:
        raise ConfigError(f"{request.plot}: cannot be written: {error.strerror}") from None
