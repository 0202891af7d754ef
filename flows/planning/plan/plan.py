"""Plan of a job: every requested setting, tried on simulated surveys.

Predicted accuracy of each group's ranking, from simulated surveys.

Plot of accuracy against epsilon.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from hushrank.estimation.common.estimate import rms_error
from hushrank.flows.config.comparisons import Design
from hushrank.flows.config.privacy import check_deltas
from hushrank.flows.config.section import LEAST_LOSS, MOST_LOSS
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.errors import ConfigError
from hushrank.flows.methods.registry import calibrate
from hushrank.flows.planning.plan.choice import (
    AUTO,
    Loss,
    Verdict,
    loss_of,
    methods_to_compare,
    naive_ways,
    verdict,
)
from hushrank.flows.planning.plan.items_apart import (
    PeopleNeeded,
    orders_by_ties,
    people_needed,
    with_ties,
)
from hushrank.flows.planning.plan.limits import (
    Alternative,
    Limits,
    activity_of,
    gain_of_weights,
    limits_of,
    one_name,
    tried_guarantees,
    weights_text,
)
from hushrank.flows.planning.plan.sure_margins import SureMargin, sure_margins
from hushrank.flows.planning.plan.survey import (
    FEWEST,
    Setting,
    accuracy_of,
    answers_of,
    chosen_method,
    epsilon_for,
    is_right,
    noise_bits,
    planned_method,
    planned_survey,
    predicted,
    refusal,
    with_setting,
    worth_of,
)
from hushrank.flows.planning.plan.world import (
    ERRORS,
    MOST_SIMULATED,
    SHARES,
    Accuracy,
    Target,
    World,
    design_text,
    in_order,
    world_of,
)
from hushrank.flows.release.scale import Axis, Scale, round_marks
from hushrank.flows.report.drawings import Curve, curves
from hushrank.flows.report.svg import check_picture, drawing, element, picture_bytes, text
from hushrank.privacy.units import Unit
from hushrank.transforms.common.local_files import open_to_write
from hushrank.transforms.common.plain_text import short
from hushrank.transforms.common.schema import Ties

Tell = Callable[[str], None]
FEW_OF_EFFECTS = 20  # simulated surveys where effects of covariates are estimated as well
FEWEST_OF_MANY = 1  # simulated surveys of very many items in groups


def _silent(words: str) -> None:
    """Tell nobody."""


def group_errors(
    config: SurveyConfig, setting: Setting, world: World, tell: Tell = _silent
) -> list[tuple[float, float]]:
    """Compute for each group the error of a typical score, shrunk towards the whole, and `order`.

    Empty where there are no groups. Very many items differ in one survey as in many.

    Raises:
        ConfigError: the method refuses the setting.
    """
    if config.groups is None:
        return []
    survey, tried = planned_survey(config, setting, world), with_setting(config, setting)
    method, found = planned_method(tried), []
    mechanism = method.calibrate(tried)
    replicates = FEWEST if survey.n_items <= MOST_SIMULATED else FEWEST_OF_MANY
    for replicate in range(replicates):
        tell(f"rankings of groups, survey {replicate + 1} of {replicates}")
        bits = noise_bits(survey, replicate)
        exact = method.simulated(tried, survey, replicate)
        boards = method.conclude(method.draw(exact, mechanism, bits), mechanism, tried).boards
        truths = [survey.group_truth(replicate, group) for group in range(len(boards))]
        found.append(
            [
                (
                    rms_error(board.estimate.scores, method.estimand(tried, survey, truth)),
                    in_order(board.estimate.scores, truth),
                )
                for board, truth in zip(boards, truths, strict=True)
            ]
        )
    return [(float(error), float(order)) for error, order in np.mean(found, axis=0)]


# pixels: width of the picture, width of one plot, height of its curves
WIDTH, PANEL, HEIGHT = 900, 430, 240
MARGIN = 0.04  # share of the epsilon axis before the first point, and after the last
SPREADS = 2  # standard errors over replicates on each side of a share
Curves = Mapping[str, Sequence[tuple[Setting, Accuracy]]]


def accuracy_plot(name: str, found: Curves, formula: Sequence[float | None], suffix: str) -> bytes:
    """Plot the probability that the best item comes first, and the error of scores, against
    epsilon. A plot without a known number is left out.

    Args:
        name: name of the population.
        found: accuracy by method, the configured one first.
        formula: typical error of the first method at the same settings, by a formula.
        suffix: `.svg` or `.png`.

    Raises:
        ConfigError: no number is known.
    """
    tried = next(iter(found.values()))
    epsilons = [math.log(setting.epsilon) for setting, _ in tried]
    margin = MARGIN * max(epsilons[-1] - epsilons[0], 1.0)
    ticks = tuple((math.log(each.epsilon), f"{each.epsilon:g}") for each, _ in tried)
    across = Axis(epsilons[0] - margin, epsilons[-1] + margin, ticks)
    shares = Axis(0, 102, tuple((at, f"{at} %") for at in range(0, 101, 20)))
    percent = tried[0][1].scale is Scale.WIN_SHARE
    errors = _errors(tried, formula, 100 if percent else 1)
    highest = 1.05 * max((y for curve in errors for _, y, _ in curve.points), default=0) or 1.0
    marks, decimals = round_marks(0, highest)
    up = Axis(0, highest, tuple((at, f"{at:.{decimals}f}") for at in marks))
    plots = [
        (drawn, axis, words)
        for drawn, axis, words in (
            (_shares(found), shares, "best item comes out first"),
            (errors, up, "error of a score" + ", points" * percent),
        )
        if drawn
    ]
    if not plots:
        raise ConfigError("no accuracy is known that could be drawn")
    panels = [
        element(
            "svg",
            curves(drawn, across, axis, height=HEIGHT, width=PANEL, words=words, below="epsilon"),
            x=place * (WIDTH - PANEL),
            y=34,
            width=PANEL,
            overflow="visible",
        )
        for place, (drawn, axis, words) in enumerate(plots)
    ]
    heading = text(short(name), 0, 14, "title")
    whole = drawing("plan", HEIGHT + 130, f"Accuracy of {short(name)}", heading, *panels)
    return picture_bytes(whole, WIDTH, suffix)


def _shares(found: Curves) -> list[Curve]:
    """Curves of how often the best item comes first, by method, in percent."""
    drawn = []
    for method, tried in found.items():
        points, area = [], []
        for setting, accuracy in tried:
            share, half = 100 * accuracy.top, 100 * SPREADS * accuracy.spread["top"]
            if not math.isnan(share):
                said = f"{method}, epsilon {setting.epsilon:g}: {share:.0f} %"
                points.append((math.log(setting.epsilon), share, said))
                area.append((max(share - half, 0), min(share + half, 100)))
        if points:
            drawn.append(Curve(name=method, title=method, points=points, area=area))
    return drawn


def _errors(
    tried: Sequence[tuple[Setting, Accuracy]], formula: Sequence[float | None], unit: int
) -> list[Curve]:
    """Curves of the first method's errors, as measured and by the formula."""
    kinds = [
        ("largest", [accuracy.largest for _, accuracy in tried]),
        ("typical", [accuracy.error for _, accuracy in tried]),
    ]
    if all(value is not None for value in formula):
        kinds.append(("typical, by formula", [value for value in formula if value is not None]))
    drawn = [
        Curve(
            name=kind,
            title=f"{kind} error of a score",
            points=[
                (
                    math.log(setting.epsilon),
                    unit * value,
                    f"{kind}, epsilon {setting.epsilon:g}: {unit * value:.3g}",
                )
                for (setting, _), value in zip(tried, values, strict=True)
                if not math.isnan(value)
            ],
            dashed=kind.endswith("by formula"),
        )
        for kind, values in kinds
    ]
    return [curve for curve in drawn if curve.points]


EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.0)
DEFAULT_TARGET = "top=0.9"
MOST_SETTINGS = 40
MOST_PEOPLE = 10**10  # more than there are
IN_A_STREAM = (
    "People are those whose answers count in what the last night shows, each on one night of it;"
    " epsilon is that of all nights of the stream together. hushrank plan --stream says how many"
    " answers the caps leave out."
)
ONE_EPSILON = (
    "Each line is of a survey in which everybody chooses the same epsilon; model.weights changes"
    " nothing there."
)
Tried = list[tuple[Setting, Accuracy]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest:
    """Request for a plan; empty lists mean the job's own values, or usual ones.

    Attributes:
        people: number of people who may answer, one or several numbers.
        answers: L to try.
        epsilons: epsilons to try.
        target: target such as `top=0.9`.
        plot: file to draw to; None: none.
        n_items: number of items, if the file does not list them yet.
        design: design to simulate, in place of the stated one.
        zipf: exponent of the exposures in a design that is not balanced.
        exposures: file of public exposures, instead.
        ties: chance that equals tie, where the job models ties; None: as `World` has it.
        activity: numbers of answers that people give, such as 5:0.9 and 60:0.1; empty: as many as
            count.
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
    ties: float | None = None
    activity: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SurveyPlan:
    """Result of a plan: all settings tried on simulated surveys, and a recommendation.

    Attributes:
        config: configuration of the job, whose own epsilon may have been open.
        request: the request.
        world: assumptions about people and items.
        target: the accuracy that is wanted.
        tried: every setting with what it reaches.
        methods: method that ranks in each setting: the job's, or the one that `auto` takes.
        right: whether the job's method is right for the design; only then is one recommended.
        chosen: the first of them that reaches the target; None: none does.
        base: the setting of `needed` and `compared`.
        reason: why `auto` takes the first method of `compared`; empty: the job names its method.
        needed: epsilon that is enough for the target; infinite: none is.
        compared: `base` by each method that is right for the design, the job's own first.
        naive: `base` by naive ways, which are no methods.
        losses: of the job's method, or what `auto` takes, and of the method to take: those that
            order items worse than a naive way.
        best: the method to take; None: there is no choice.
        guarantees: `base` under other guarantees.
        boards: error and order of each group, in `base`; empty: there are no groups.
        items_apart: for each epsilon, people who are enough to tell items apart; empty: the method
            does not count whole sheets of a test.
        sure_margins: of each setting, how far noise reaches in ballots; empty: the method states no
            margins.
        ties: share of pairs in order in `base` by each way of treating ties; empty: the job models
            none.
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
    naive: Tried
    losses: tuple[Loss, ...]
    best: Verdict | None
    guarantees: list[tuple[Alternative, Accuracy]]
    boards: list[tuple[float, float]]
    items_apart: list[PeopleNeeded]
    sure_margins: list[SureMargin]
    ties: dict[Ties, float]

    @property
    def weights_gain(self) -> float | None:
        """Signal to noise with weights for heavy users divided by that without; None: not known."""
        method, activity = self.compared[0][0].method, self.world.activity
        return gain_of_weights(self.config, method, self.base.answers, activity)

    @property
    def one_name(self) -> Accuracy | None:
        """`base` if each name were a person's only one; None: the job takes it so already."""
        return one_name(self.config, self.base, self.world)

    @property
    def limits(self) -> Limits | None:
        """Parts of the error of `base` by sampling and by privacy; None: no formula tells."""
        return limits_of(self.config, self.base, self.world)

    @property
    def weights(self) -> str:
        """Line on weights for heavy users; empty: there is nothing to say."""
        method, activity = self.compared[0][0].method, self.world.activity
        return weights_text(self.config, method, self.base.answers, activity)

    @property
    def design(self) -> str:
        """Line on the simulated design; empty: answers are not comparisons.

        For a stream of nights also what the people of a survey stand for, and for people who choose
        their own epsilon what a line stands for.
        """
        text = design_text(self.world, planned_survey(self.config, self.base, self.world))
        privacy = self.config.privacy
        if privacy.unit is Unit.LOCAL and privacy.epsilon is None:
            text = f"{text} {ONE_EPSILON}"
        return text if self.config.schedule.stream is None else f"{text} {IN_A_STREAM}"


def checked_plan(
    label: str,
    config: SurveyConfig,
    request: PlanRequest,
    world: World,
    *,
    anyway: bool,
    tell: Tell = _silent,
) -> SurveyPlan:
    """Plan a job as `plan_of`, but refuse a delta that is too large or an epsilon without use.

    Args:
        label: names the job in messages.
        config, request, world: as for `plan_of`.
        anyway: plan it all the same.
        tell: told what is tried next, in words.

    Raises:
        ConfigError: a delta is above its limit, no setting buys anything, or as for `plan_of`.
    """
    people = max(request.people, default=None)
    check_deltas(label, config.deltas, anyway=anyway, people=people)
    best = max(settings_of(config, request), key=lambda each: (each.epsilon, each.people))
    tried = with_setting(config, best)
    worth = None if anyway else worth_of(tried, calibrate(tried), best.people)
    if worth is not None and worth.nothing:
        raise ConfigError(refusal(tried, worth))
    return plan_of(config, request, world, tell)


def plan_of(
    config: SurveyConfig, request: PlanRequest, world: World, tell: Tell = _silent
) -> SurveyPlan:
    """Try every setting of a job, and draw the plan if that is requested.

    Args:
        config: from `flows.planning.plan.survey.plan_config` or `config_to_plan`.
        request: the request.
        world: assumptions about people and items.
        tell: told what is tried next, in words.

    Raises:
        ConfigError: the request breaks a rule.
    """
    if request.plot is not None:
        check_picture(request.plot)
    world = world_to_plan(config, request, world)
    target, settings = parse_target(request.target), settings_of(config, request)
    right = is_right(config, config.method)
    tried = _measured(config, settings, world, tell)
    chosen = next((each for each, found in tried if right and target.met(found)), None)
    base = chosen or settings[-1]
    own = chosen_method(config, base)
    methods = methods_to_compare(config, own.method.facts.name)
    others = [replace(base, method=method) for method in methods[1:]]
    first = (replace(base, method=methods[0]), dict(tried)[base])
    compared = [first, *_measured(config, others, world, tell)]
    if request.plot is not None:
        _draw(config, request.plot, tried, methods, world)
    boards = group_errors(config, base, world, tell)
    tell("naive ways, other guarantees and the epsilon that is enough")
    best, naive = verdict(config, compared, target), naive_ways(config, base, world)
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
        needed=_needed(config, target, tried, base, chosen, world) if right else math.inf,
        compared=compared,
        naive=naive,
        losses=tuple(_losses(compared, naive, best)),
        best=best,
        guarantees=tried_guarantees(config, base, world),
        boards=boards,
        items_apart=people_needed(config, settings, world),
        sure_margins=sure_margins(config, settings),
        ties=orders_by_ties(config, replace(base, method=methods[0]), world),
    )


def _measured(config: SurveyConfig, settings: Sequence[Setting], world: World, tell: Tell) -> Tried:
    """Try settings one after the other, and tell each."""
    found = []
    for each in settings:
        tell(f"{each.method} at epsilon {each.epsilon:g}")
        found.append((each, accuracy_of(config, each, world)))
    return found


def _losses(compared: Tried, naive: Tried, best: Verdict | None) -> Iterator[Loss]:
    """Losses of the job's method and of the method to take against naive ways."""
    first = compared[0][0].method
    taken = {first, first if best is None else best.setting.method}
    for each in compared:
        if each[0].method in taken and (loss := loss_of(each, naive)) is not None:
            yield loss


def world_to_plan(config: SurveyConfig, request: PlanRequest, world: World) -> World:
    """Build the world that the request describes, from other assumptions.

    Raises:
        ConfigError: the request breaks a rule.
    """
    world = world_of(config, world, request.zipf, request.exposures)
    if world.replicates is None and _is_slow(config):
        world = replace(world, replicates=FEW_OF_EFFECTS)
    if request.ties is not None:
        world = with_ties(config, world, request.ties)
    if not request.activity:
        return world
    if config.input.kind != "comparisons" or config.privacy.unit is not Unit.USER:
        raise ConfigError("--activity: needs comparisons and unit: user; remove it")
    return replace(world, activity=activity_of(request.activity))


def _is_slow(config: SurveyConfig) -> bool:
    """Whether it takes longer to rank a simulated survey than to draw it."""
    few = len(config.items.catalogue.names) <= MOST_SIMULATED
    return few and config.input.kind == "comparisons" and bool(config.comparisons.covariates)


def _needed(
    config: SurveyConfig,
    target: Target,
    tried: Tried,
    base: Setting,
    chosen: Setting | None,
    world: World,
) -> float:
    """Find the epsilon that is enough, between those that were tried."""
    less = [each.epsilon for each, _ in tried if each == replace(base, epsilon=each.epsilon)]
    less = [epsilon for epsilon in less if epsilon < base.epsilon or chosen is None]
    return epsilon_for(
        config,
        target,
        base,
        world,
        too_little=max(less, default=None),
        enough=None if chosen is None else chosen.epsilon,
    )


def settings_of(config: SurveyConfig, request: PlanRequest) -> list[Setting]:
    """List every combination to try; epsilon varies fastest.

    Raises:
        ConfigError: there are too many settings, or a number is out of range.
    """
    own = config.privacy.epsilon
    epsilons = request.epsilons or tuple(
        sorted({*EPSILONS, own} if own is not None and math.isfinite(own) else EPSILONS)
    )
    if not request.people:
        raise ConfigError("--people: missing. Say about how many people will answer: --people 300")
    numbers = (("people", request.people), ("max-contributions (answers)", request.answers))
    for name, values in numbers:
        if any(value < 1 for value in values):
            raise ConfigError(f"--{name} must be at least 1, got {min(values)}")
        if any(value > MOST_PEOPLE for value in values):
            raise ConfigError(f"--{name} must be at most {MOST_PEOPLE}, got {max(values)}")
    if not all(LEAST_LOSS <= epsilon <= MOST_LOSS for epsilon in request.epsilons):
        raise ConfigError(f"epsilons: must be from {LEAST_LOSS:g} to {MOST_LOSS:g}")
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
    """Parse a target such as `top=0.9`.

    Raises:
        ConfigError: the text is no target.
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


def _draw(
    config: SurveyConfig, plot: Path, tried: Tried, methods: Sequence[str], world: World
) -> None:
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
        with open_to_write(plot) as file:
            file.write(accuracy_plot(config.name, curves, formula, plot.suffix))
    except OSError as error:
        raise ConfigError(f"{plot}: cannot be written: {error.strerror}") from None
