"""Text of a job's plan: the accuracy of each setting, and the recommendation."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from rich.table import Table
from rich.text import Text

from hushrank.estimation.responses.totals_estimate import DELTA, LARGE
from hushrank.flows.config.comparisons import InputConfig
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.planning.plan.choice import AUTO, Loss, Verdict
from hushrank.flows.planning.plan.items_apart import APART, POWER, ties_text
from hushrank.flows.planning.plan.limits import Alternative, guarantee_words
from hushrank.flows.planning.plan.plan import SurveyPlan
from hushrank.flows.planning.plan.survey import Setting, answers_of, is_right, predicted
from hushrank.flows.planning.plan.world import SHARES, Accuracy, World
from hushrank.flows.release.scale import DIFFICULTIES, Scale
from hushrank.flows.terminal import Console
from hushrank.privacy.units import Bounding, Unit

RECOMMENDED = "<- recommended"
NOT_RIGHT = "<- not suited to this design"
UNKNOWN = "unknown"  # shown for scores with larger errors than equal scores would have
SELDOM = 0.9  # below this share of informative surveys, the plan says how many learn nothing
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
OF_MARGINS = (
    "noisy margin: a larger one of any pair is sure, all pairs and rules at once with 95 %; true"
    " margin: a pair that is so far apart without the noise is called sure with 95 %; precinct, all"
    " precincts: with method precinct-table at this epsilon, a noisy number of first preferences is"
    " within so many of the true one with 95 %, one number at a time, however many precincts there"
    " are; their margins: a larger noisy margin between two candidates is sure in one precinct, or"
    " in all, all pairs of that row at once with 95 %"
)
LEGEND_OF_FORMULA = "and by formula, "
LEGEND_OF_UNKNOWN = "; unknown: errors are larger than if all items were called equal"
LEGEND_OF_MANY = (
    "; with so many items ({:,}) the numbers of {} follow from formulas, and no survey is simulated"
    " for them: an error far below the spread of the scores is that of a survey within a third;"
    " elsewhere, and for the largest error, it may be half or twice as large; rank widths may be"
    " half as large again"
)
LEGEND_OF_NOTHING = "; nothing learned: in so many of such surveys the release says just that"


def show_plan(console: Console, plan: SurveyPlan) -> None:
    """Print the accuracy of each setting and the recommendation."""
    if plan.target.name == "best" and plan.config.top_k is None:
        console.print("best: of the 3 best items; set top_k for another number.", highlight=False)
    if plan.design:
        console.print(Text(plan.design), soft_wrap=True)
    console.print(_table(plan))
    console.print(Text(_legend(plan), style="dim"), soft_wrap=True)
    console.print(Text(_needed_text(plan)), soft_wrap=True)
    if (limits := plan.limits) is not None:
        console.print(Text(limits.text), soft_wrap=True)
    if plan.reason:
        named, taken = plan.config.method, plan.compared[0][0].method
        console.print(Text(f"\nMethod {named} takes {taken}: {plan.reason}."), soft_wrap=True)
    if len(plan.compared) > 1 or plan.naive:
        console.print(Text(f"\nMethods at epsilon {plan.base.epsilon:g}:", style="bold"))
        console.print(_methods_table(plan))
    if plan.best is not None:
        console.print(Text(_verdict_text(plan, plan.best)), soft_wrap=True)
    for loss in plan.losses:
        console.print(Text(_loss_text(loss)), soft_wrap=True)
    if plan.weights:
        console.print(Text(f"\n{plan.weights}"), soft_wrap=True)
    if (one_name := plan.one_name) is not None:
        console.print(Text(f"\n{_names_text(plan, one_name)}"), soft_wrap=True)
    if plan.ties:
        console.print(Text(f"\n{ties_text(plan.ties, plan.world)}"), soft_wrap=True)
    if plan.guarantees and plan.right:
        console.print(
            Text(f"\nNoise at epsilon {plan.base.epsilon:g}, the job's first:", style="bold")
        )
        console.print(_guarantees_table(plan))
    for heading, table, legend in _more_tables(plan):
        console.print(Text(f"\n{heading}:", style="bold"))
        console.print(table)
        console.print(Text(legend, style="dim"), soft_wrap=True)
    if plan.request.plot is not None:
        console.print(Text(f"Plot: {plan.request.plot}"), soft_wrap=True)
    settings = [setting for setting, _ in plan.tried]
    source = _source_text(plan.config, settings, plan.world)
    console.print(Text(source, style="dim"), soft_wrap=True)


def _more_tables(plan: SurveyPlan) -> Iterator[tuple[str, Table, str]]:
    """Heading, table and legend of groups, of people needed, and of margins that are sure."""
    if boards := _boards_table(plan):
        yield f"Groups at epsilon {plan.base.epsilon:g}", boards, _boards_legend(plan)
    if plan.items_apart:
        yield "People needed to tell items apart", _apart_table(plan), _apart_legend(plan)
    if plan.sure_margins:
        yield "What is sure of votes, whatever the ballots say", _margins_table(plan), OF_MARGINS


def _legend(plan: SurveyPlan) -> str:
    others = plan.guarantees if plan.right else []
    tried: list[tuple[Setting | Alternative, Accuracy]] = []
    tried += [*plan.tried, *plan.compared, *plan.naive, *others]
    rows = [found for _, found in tried]
    unknown = any(UNKNOWN in (_error(found), _largest(found)) for found in rows)
    formula = any(each is not None for each in _formulas(plan))
    nothing = any(found.informative < SELDOM for found in rows)
    return (
        LEGEND.format(LEGEND_OF_FORMULA * formula)
        + LEGEND_OF_UNKNOWN * unknown
        + LEGEND_OF_NOTHING * nothing
        + _legend_of_many(plan, tried)
    )


def _legend_of_many(
    plan: SurveyPlan, tried: Sequence[tuple[Setting | Alternative, Accuracy]]
) -> str:
    """Which methods' numbers follow from formulas; empty: all are of simulated surveys."""
    names = dict.fromkeys(each.method for each, found in tried if found.by_formula)
    if not names:
        return ""
    return LEGEND_OF_MANY.format(len(plan.config.items.catalogue), ", ".join(names))


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
    table.add_column("")
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
    table = _comparison("method")
    for setting, found in plan.compared:
        remark = _remark(found, right=is_right(plan.config, setting.method))
        table.add_row(setting.method, *_measured(found), remark)
    for setting, found in plan.naive:
        table.add_row(Text(setting.method, style="dim"), *_measured(found), "")
    return table


def _guarantees_table(plan: SurveyPlan) -> Table:
    table = _comparison("noise", "method")
    own, found = plan.compared[0]
    rows = [(guarantee_words(plan.config), own.method, found)]
    rows += [(each.words, each.method, found) for each, found in plan.guarantees]
    for words, method, found in rows:
        table.add_row(words, method, *_measured(found), _remark(found, right=True))
    return table


def _boards_table(plan: SurveyPlan) -> Table | None:
    """Build the table of the accuracy for each group; None if there are no groups."""
    scale, groups = plan.compared[0][1].scale, plan.config.groups
    if groups is None or not plan.boards:
        return None
    table = Table(box=None, header_style="dim", pad_edge=False)
    table.add_column("group", no_wrap=True)
    for heading in ("share", "order", "error"):
        table.add_column(heading, justify="right", no_wrap=True)
    shares = plan.world.shares_of(groups.groups().parts)
    for name, share, (error, order) in zip(groups.values, shares, plan.boards, strict=False):
        table.add_row(Text(name), _share(share), _share(order), _off_by(error, math.inf, scale))
    return table


def _apart_table(plan: SurveyPlan) -> Table:
    """Build the table of the people who are enough to tell items of a test apart."""
    by_group = plan.items_apart[0].large_dif is not None
    table = Table(box=None, header_style="dim", pad_edge=False)
    for heading in ("epsilon", "two items", *(("an item by group",) if by_group else ())):
        table.add_column(heading, justify="right", no_wrap=True)
    for each in plan.items_apart:
        dif = () if each.large_dif is None else (f"{each.large_dif:,}",)
        table.add_row(f"{each.epsilon:g}", f"{each.two_items:,}", *dif)
    return table


def _margins_table(plan: SurveyPlan) -> Table:
    """Build the table of the margins that a release will call sure."""
    table = Table(box=None, header_style="dim", pad_edge=False)
    margins = ("noisy margin", "of ballots", "true margin")
    precincts = ("precinct", "all precincts", "its margin", "all's margin")
    for heading in ("epsilon", "ballots", *margins, *precincts):
        table.add_column(heading, justify="right", no_wrap=True)
    for each in plan.sure_margins:
        votes = each.votes
        told = (votes.precinct, votes.total, votes.precinct_margin, votes.total_margin)
        reaches = (f"{reach:,.1f}" for reach in told)
        share = two_digits(100 * each.share)
        margins = (f"{each.votes.margin:,.1f}", f"{share} %", f"{each.votes.true_margin:,.1f}")
        table.add_row(f"{each.epsilon:g}", f"{each.ballots:,}", *margins, *reaches)
    return table


def _apart_legend(plan: SurveyPlan) -> str:
    text = (
        f"two items: of difficulties {APART:g} apart, at 95 % for these two; with a chance of"
        f" {100 * POWER:.0f} % they are told apart"
    )
    if plan.items_apart[0].large_dif is None:
        return text
    return (
        f"{text}; an item by group: harder by {LARGE / DELTA:.2f} in one group (size C), at 95 %"
        " for all items and groups, which are equally large"
    )


def _boards_legend(plan: SurveyPlan) -> str:
    apart = plan.config.input.kind == "rankings" or plan.compared[0][1].scale in DIFFICULTIES
    shrunk = "" if apart else " are shrunk towards the whole"
    return (
        f"share: assumed share of all answers (--group-share); scores of groups{shrunk}"
        f"{' and' * bool(shrunk)} differ from it by a standard deviation of"
        f" {plan.world.group_spread:g} (--group-spread)"
    )


def _comparison(*of: str) -> Table:
    table = Table(box=None, header_style="dim", pad_edge=False)
    for heading in of:
        table.add_column(heading, no_wrap=True)
    for heading in ("best first", "order", "error", "rank width"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("")
    return table


def _measured(found: Accuracy) -> tuple[str, ...]:
    return _share(found.top), _share(found.order), _error(found), _places(found.width)


def _remark(found: Accuracy, *, right: bool) -> str:
    if not right:
        return NOT_RIGHT
    if found.informative < SELDOM:
        return f"<- nothing learned in {_share(1 - found.informative)}"
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
    """Text of an error; it says unknown where calling all items equal is no worse."""
    if math.isnan(value):
        return "–"
    if value >= equal:
        return UNKNOWN
    return f"{two_digits(100 * value)} %" if scale is Scale.WIN_SHARE else two_digits(value)


def two_digits(value: float) -> str:
    """Format two significant digits, and all digits before the point; never an exponent."""
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
            f"No epsilon helps: {plan.config.method} does not suit this design, so its"
            " ranking is wrong even without noise."
        )
    shown = f"{100 * target.value:.0f} %" if target.name in SHARES else f"{target.value:g}"
    wanted = TARGET_WORDS[target.name].format(shown)
    whom = f" with {base.people:,} people" if len(plan.request.people) > 1 else ""
    if math.isinf(plan.needed):
        return (
            f"No epsilon is enough{whom} so that {wanted}: sampling error is too large."
            " More people, or more answers per person, would help."
        )
    return f"Epsilon {plan.needed:g} is enough{whom} so that {wanted}."


def _verdict_text(plan: SurveyPlan, best: Verdict) -> str:
    taken = best.setting.method
    if plan.config.method == AUTO and taken == plan.compared[0][0].method:
        taken = f"auto, which is {taken} here"
    where = "" if plan.world.design is None else f" (design {plan.world.design.value})"
    return f"Take {taken}: {best.why}{where}."


def _loss_text(loss: Loss) -> str:
    return (
        f"{loss.method} is worse than a naive method here: {loss.naive.removeprefix('naive: ')} has"
        f" {_share(loss.theirs)} of the pairs in the right order, {loss.method} has"
        f" {_share(loss.ours)}. Naive methods have no intervals, and hushrank does not run them."
    )


def _names_text(plan: SurveyPlan, alone: Accuracy) -> str:
    """Say what it costs to protect several names of a person together."""
    names = plan.config.privacy.names_per_person
    found = dict(plan.compared)[plan.compared[0][0]]
    return (
        f"Names: with names_per_person: {names} noise is about {names} times as wide. At"
        f" epsilon {plan.base.epsilon:g} the typical error is {_error(found)}, and"
        f" {_share(found.order)} of the pairs are in order; with one name per person it would be"
        f" {_error(alone)}, and {_share(alone.order)}."
    )


def _source_text(config: SurveyConfig, settings: Sequence[Setting], world: World) -> str:
    people = " or ".join(f"{n:,}" for n in dict.fromkeys(each.people for each in settings))
    answers = " or ".join(
        f"{n:,}" for n in dict.fromkeys(answers_of(config, each.answers) for each in settings)
    )
    if world.activity:
        given = ", ".join(f"{rows:,} ({share:.0%})" for rows, share in world.activity)
        weights = config.privacy.bounding is Bounding.WEIGHTS
        counted = f"which count as {answers}" if weights else f"of which {answers} count"
        return (
            f"(simulated: {people} people who give {given} answers, {counted} at most,"
            f" and true scores of standard deviation {world.spread:g}; your data was not read;"
            " nothing was spent)"
        )
    noun = "ranking" if config.input.kind == "rankings" else "answer"
    nouns = noun if answers == "1" else f"{noun}s"
    central = config.privacy.unit is not Unit.LOCAL
    covariates = isinstance(config.input, InputConfig) and config.input.covariates and central
    effects = ", without effects of covariates" if covariates else ""
    return (
        f"(simulated: {people} people with {answers} {nouns} each and true scores of"
        f" standard deviation {world.spread:g}{effects}; your data was not read; nothing was spent)"
    )
