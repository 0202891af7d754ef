"""JSON documents of `hushrank plan`; see `flows.interfaces.documents.runs`."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Literal

from hushrank.flows.config.comparisons import Design
from hushrank.flows.interfaces.documents.runs import Document
from hushrank.flows.methods.registry import METHODS
from hushrank.flows.planning.plan.plan import SurveyPlan
from hushrank.flows.planning.plan.survey import Setting, is_right, planned_survey, predicted
from hushrank.flows.planning.plan.world import Accuracy, most_to_median
from hushrank.flows.release.scale import Scale
from hushrank.flows.statement.record import Record
from hushrank.privacy.units import Adjacency, NoiseKind


class Reached(Record):
    """Accuracy of one setting, in mean over simulated surveys; null: the method does not state it.

    Attributes:
        method, epsilon, people, max_contributions: the setting.
        right: whether the method suits the design; a method that does not is never recommended.
        informative: share of surveys whose release says anything.
        best_first: share of surveys in which the best item is ranked first.
        best: share of the best items that are ranked among the first.
        order: share of the pairs of items in the right order.
        error, largest_error: error of a typical score and of the worst score, on `scale`.
        equal_error, equal_largest_error: the same errors if all items are called equal; scores with
            larger errors say nothing.
        formula: `error` by formula.
        rank_width: number of ranks that an item's 95 % interval spans.
        scale: scale of the scores.
        by_formula: whether all this follows from the method's formula, as it does with more than
            150 items in a design that is balanced or random, and not from simulated surveys.
    """

    method: str
    epsilon: float
    people: int
    max_contributions: int
    right: bool
    informative: float
    best_first: float | None
    best: float | None
    order: float | None
    error: float | None
    largest_error: float | None
    equal_error: float | None
    equal_largest_error: float | None
    formula: float | None
    rank_width: float | None
    scale: Scale
    by_formula: bool


class Guaranteed(Record):
    """Accuracy of the recommended setting under another guarantee.

    Attributes:
        guarantee: the other guarantee, in words.
        method: the method that is used then, if `reached.method` is auto.
        reached: accuracy that the setting reaches.
    """

    guarantee: str
    method: str
    reached: Reached


class ItemsApart(Record):
    """People who are enough, with a chance of 80 %, at one epsilon.

    Attributes:
        epsilon: epsilon of the release.
        two_items: people needed for two items whose difficulties are 0.5 apart.
        large_dif: people needed for one item that is large by the rule of ETS in one of several
            groups, among all items; null: there are not two groups.
    """

    epsilon: float
    two_items: int
    large_dif: int | None


class SureMargins(Record):
    """Reach of the noise in ballots, whatever they say.

    Attributes:
        epsilon: of the release.
        ballots: how many there are.
        margin: a larger noisy margin of any pair is sure, all pairs and rules at once with 95 %.
        true_margin: a pair that is so far apart without the noise is called sure with 95 %.
        share: the noisy margin as a share of the ballots.
        precinct: with method `precinct-table` at this epsilon, a noisy number of first preferences
            of a precinct is within so many of the true one with 95 %, one number at a time.
        precincts_total: the same of a released number of all precincts.
        precinct_margin, precincts_margin: with that method, a larger noisy margin between two
            items is sure in one precinct, and in all, all pairs of that row at once with 95 %.
    """

    epsilon: float
    ballots: int
    margin: float
    true_margin: float
    share: float
    precinct: float
    precincts_total: float
    precinct_margin: float
    precincts_margin: float


class GroupReached(Record):
    """Accuracy of a release for one group.

    Attributes:
        name: name of the group.
        share: supposed share of all answers.
        error: error of a typical score, on the scale of the whole.
        order: share of the pairs of items in the right order.
    """

    name: str
    share: float
    error: float
    order: float


class WayOfTies(Record):
    """Accuracy with one way of treating ties.

    Attributes:
        ties: name of the way in `input.ties`.
        order: share of the pairs of items in the right order.
    """

    ties: str
    order: float


class PlanDocument(Document):
    """Document of `hushrank plan SURVEY.YAML`, found with simulated surveys.

    Attributes:
        design: design of the simulated surveys; null: answers are not comparisons.
        zipf: exponent of its exposures; null: they are equal, or come from a file.
        exposure: how many times as often the most shown item is shown as the median item.
        auto: the method that `method: auto` takes; null: the job names its method.
        auto_because: why it takes that method.
        target: the measure of the wanted accuracy, as in `--target`.
        target_value: least share, or largest error, of the target.
        settings: all settings that were tried.
        recommended: the first of them that reaches the target; null: none does.
        enough_epsilon: the epsilon that reaches the target; null: no epsilon is enough.
        guarantees: the recommended setting, or else the last, under other guarantees.
        methods: the recommended setting, or else the last, by each method.
        naive: results of naive ways at the same setting; they are no methods and have no intervals.
        losing: methods among the job's and `take` that order items worse than a naive way.
        take: the method to take; null: there is only one.
        why: why to take it, in words.
        weights_gain: signal to noise with weights for heavy users over that without; null: unknown
            without `--activity`, or the method takes no weights.
        limits: words for what limits the accuracy of the recommended setting, or else the last:
            sampling or privacy; null: no formula tells.
        one_name: the recommended setting, or else the last, if each name were a person's only one;
            null: the job takes it so already.
        ways_of_ties: ways of treating ties, at the setting of `compared`; empty: the job models no
            ties.
        spread: standard deviation of the true scores of the simulated items.
        seed: the same seed simulates the same surveys.
        plot: the picture that was drawn; null: none.
        groups: results for each group at the recommended setting, or else the last; empty:
            the job has no groups.
        group_spread: standard deviation of a group's true scores around the whole's.
        items_apart: for each epsilon, people who are enough to tell items of a test apart; empty:
            the method does not count whole sheets.
        sure_margins: of each setting, margins that a release will call sure; empty: the method
            states no margins.
    """

    command: Literal["plan"] = "plan"
    design: Design | None
    zipf: float | None
    exposure: float | None
    auto: str | None
    auto_because: str | None
    target: str
    target_value: float
    settings: tuple[Reached, ...]
    recommended: Reached | None
    enough_epsilon: float | None
    guarantees: tuple[Guaranteed, ...]
    methods: tuple[Reached, ...]
    naive: tuple[Reached, ...]
    losing: tuple[str, ...]
    take: str | None
    why: str | None
    weights_gain: float | None
    limits: str | None
    one_name: Reached | None
    ways_of_ties: tuple[WayOfTies, ...]
    spread: float
    seed: int
    plot: str | None
    groups: tuple[GroupReached, ...] = ()
    group_spread: float | None = None
    items_apart: tuple[ItemsApart, ...] = ()
    sure_margins: tuple[SureMargins, ...] = ()


class MixPlan(Record):
    """Number of people who are enough with one mix of epsilons.

    Attributes:
        epsilons: epsilons that people choose, in words if they choose differently.
        people_needed: people needed for the acceptable error.
        error: error with the given number of people; null: no number was given.
    """

    epsilons: str
    people_needed: int
    error: float | None


class PeopleDocument(Document):
    """Document of `hushrank plan` without a YAML file, for answers that are privatised one by one.

    Attributes:
        items: number of items that are ranked.
        pairs: number of pairs of the items.
        answers: number of different pairs that each person is asked.
        link: the function from a difference of scores to a chance of winning.
        per_user: whether an epsilon is for all answers of a person together.
        target_error: the largest acceptable error of a score.
        people: number of people who answer, if this was given.
        mixes: number of people who are enough, for each mix of epsilons.
        information: G that is enough: the sum over people of tanh(epsilon / 2)².
    """

    command: Literal["plan"] = "plan"
    items: int
    answers: int
    pairs: int
    link: str
    per_user: bool
    target_error: float
    people: int | None
    mixes: tuple[MixPlan, ...]
    information: float


class StreamWay(Record):
    """One way to release the nights of a stream.

    Attributes:
        way: every night counts, caps, or caps and encoder.
        noise: law of the noise.
        participations, gap: a person counts on so many nights, at least so many nights apart.
        bands: bands of the encoder.
        noise_sd: standard deviation of the noise in a number as shown, in answers, root mean square
            over nights.
        counted: share of people's answers that count.
        error: error of an item's share of the wins, in percentage points; with groups the root mean
            square over all answers, each with the error of its group.
        group_errors: errors of each group; empty: there are no groups.
    """

    way: str
    noise: NoiseKind
    participations: int
    gap: int
    bands: int
    noise_sd: float
    counted: float
    error: float
    group_errors: tuple[float, ...] = ()


class PairWay(Record):
    """One way to release the nights of a stream of pair counts, or of wins and losses.

    Attributes:
        participations: a person counts on so many nights, `gap` nights apart; null: a meter counts.
        rows: so many answers of a person count on all nights together; null: others count.
        squares: allowance of a person, of which a night of l answers takes l^2 + l; null: others
            count.
        gap: nights between a person's nights, or answers on one pair, at least.
        bands: bands of the encoder.
        noise_sd: standard deviation of the noise in a shown count, in answers, root mean square
            over nights.
        counted: share of people's answers that count.
        noticed: difference of two items' shares of won comparisons, in percentage points, from
            which a night is 95 % certain of their order; 100: none.
    """

    participations: int | None
    rows: int | None
    squares: int | None = None
    gap: int
    bands: int
    noise_sd: float
    counted: float
    noticed: float


class CostDocument(Document):
    """Document of `hushrank plan --engine`, by arithmetic from measured speeds.

    Attributes:
        engine: `dataflow`, `flink` or `spark`.
        rows, files: the input of a night.
        columnar: whether files are Parquet or ORC, not text.
        partitions: parts in which rows meet the others of their person; 1: they need not meet.
        shuffle_blocks: blocks of rows in the shuffle, at most.
        vcpu_hours: processor hours of workers, without their start, waiting and the network.
        shuffle_bytes: bytes that are written to the shuffle.
        workers_price, shuffle_price: prices of both; null: there is no price.
        price: their sum; null: there is no price.
        prices_of: prices that were taken where none was given; null: there is no list.
        prices_from: page of that list.
    """

    command: Literal["plan"] = "plan"
    engine: str
    rows: int
    files: int
    columnar: bool
    partitions: int
    shuffle_blocks: int
    vcpu_hours: float
    shuffle_bytes: float
    workers_price: float | None
    shuffle_price: float | None
    price: float | None
    prices_of: str | None
    prices_from: str | None


class StreamDocument(Document):
    """Document of `hushrank plan --stream`, found by simulation.

    Attributes:
        nights: number of nights of the stream.
        window: nights that are shown each night; null: all so far.
        people: number of people.
        items: number of items that are ranked.
        answers: number of a person's answers that count on one night.
        epsilon, delta: guarantee for all nights together; Laplace noise has delta 0.
        adjacency: adjacency of the guarantee.
        group_shares: supposed shares of the answers that each group has; empty: there are no
            groups.
        settings: all settings that were tried, the one of least error first.
        recommended: the first of them; null: none says anything.
        pairs: with `--rows`, how streams of pair counts compare that count nights or rows, the one
            that notices most first; empty: not asked.
    """

    command: Literal["plan"] = "plan"
    nights: int
    window: int | None
    people: int
    items: int
    answers: int
    epsilon: float
    delta: float
    adjacency: Adjacency
    group_shares: tuple[float, ...] = ()
    settings: tuple[StreamWay, ...]
    recommended: StreamWay | None
    pairs: tuple[PairWay, ...] = ()
    win_loss: tuple[PairWay, ...] = ()


def plan_document(plan: SurveyPlan) -> PlanDocument:
    """Build the document of a job's plan."""
    settings = {setting: _reached(plan, setting, found) for setting, found in plan.tried}
    world = plan.world
    unbalanced = world.design not in (None, Design.BALANCED)
    survey = planned_survey(plan.config, plan.base, world)
    return PlanDocument(
        design=world.design,
        zipf=world.exposed.zipf if unbalanced else None,
        exposure=None if world.design is None else most_to_median(survey),
        auto=plan.compared[0][0].method if plan.reason else None,
        auto_because=plan.reason or None,
        target=plan.target.name,
        target_value=plan.target.value,
        settings=tuple(settings.values()),
        recommended=None if plan.chosen is None else settings[plan.chosen],
        enough_epsilon=_known(plan.needed),
        guarantees=tuple(
            Guaranteed(
                guarantee=each.words,
                method=each.method,
                reached=_reached(plan, each.setting, found),
            )
            for each, found in plan.guarantees
        ),
        methods=tuple(_reached(plan, setting, found) for setting, found in plan.compared),
        naive=tuple(_reached(plan, setting, found) for setting, found in plan.naive),
        losing=tuple(each.method for each in plan.losses),
        take=None if plan.best is None else plan.best.setting.method,
        why=None if plan.best is None else plan.best.why,
        weights_gain=plan.weights_gain,
        limits=None if (limits := plan.limits) is None else limits.text,
        one_name=None if (one := plan.one_name) is None else _reached(plan, plan.base, one),
        ways_of_ties=tuple(_ways_of_ties(plan)),
        spread=world.spread,
        seed=world.seed,
        plot=None if plan.request.plot is None else str(plan.request.plot),
        groups=tuple(_groups(plan)),
        group_spread=None if plan.config.groups is None else world.group_spread,
        items_apart=tuple(_items_apart(plan)),
        sure_margins=tuple(_sure_margins(plan)),
    )


def _ways_of_ties(plan: SurveyPlan) -> Iterator[WayOfTies]:
    for way, order in plan.ties.items():
        yield WayOfTies(ties=way.value, order=order)


def _items_apart(plan: SurveyPlan) -> Iterator[ItemsApart]:
    for each in plan.items_apart:
        yield ItemsApart(epsilon=each.epsilon, two_items=each.two_items, large_dif=each.large_dif)


def _sure_margins(plan: SurveyPlan) -> Iterator[SureMargins]:
    for each in plan.sure_margins:
        yield SureMargins(
            epsilon=each.epsilon,
            ballots=each.ballots,
            margin=each.votes.margin,
            true_margin=each.votes.true_margin,
            share=each.share,
            precinct=each.votes.precinct,
            precincts_total=each.votes.total,
            precinct_margin=each.votes.precinct_margin,
            precincts_margin=each.votes.total_margin,
        )


def _groups(plan: SurveyPlan) -> Iterator[GroupReached]:
    groups = plan.config.groups
    if groups is None:
        return
    shares = plan.world.shares_of(groups.groups().parts)
    for name, share, (error, order) in zip(groups.values, shares, plan.boards, strict=False):
        yield GroupReached(name=name, share=share, error=error, order=order)


def _reached(plan: SurveyPlan, setting: Setting, found: Accuracy) -> Reached:
    own = setting.method in (plan.config.method, plan.compared[0][0].method)
    formula = predicted(plan.config, setting, plan.world) if own else None
    return Reached(
        method=setting.method,
        epsilon=setting.epsilon,
        people=setting.people,
        max_contributions=setting.answers,
        right=setting.method not in METHODS or is_right(plan.config, setting.method),
        informative=found.informative,
        best_first=_known(found.top),
        best=_known(found.best),
        order=_known(found.order),
        error=_known(found.error),
        largest_error=_known(found.largest),
        equal_error=_known(found.equal),
        equal_largest_error=_known(found.largest_equal),
        formula=None if formula is None else _known(formula),
        rank_width=_known(found.width),
        scale=found.scale,
        by_formula=found.by_formula,
    )


def _known(value: float) -> float | None:
    """Return the number, or None if it is not a number."""
    return value if math.isfinite(value) else None
