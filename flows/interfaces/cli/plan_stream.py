"""`hushrank plan --stream`: caps and noise of a stream of nights, by how often people answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rich.table import Table
from rich.text import Text

from hushrank.flows.config.privacy import check_deltas, usual_delta
from hushrank.flows.errors import ConfigError
from hushrank.flows.planning.plan.metered import MeteredSetting, plan_pairs, plan_squares
from hushrank.flows.planning.plan.stream import (
    CAPS,
    COMPOSITION,
    ENCODER,
    StreamPlan,
    StreamRequest,
    StreamSetting,
    alarm_difference,
    even_share_error,
    habits_of,
    plan_stream,
)
from hushrank.flows.terminal import Console
from hushrank.privacy.stream_encoder import RowTerms, SquareTerms, StreamTerms, Terms, Workload
from hushrank.privacy.units import NoiseKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hushrank.flows.interfaces.documents.plans import PairWay, StreamDocument

DEFAULT_PEOPLE, DEFAULT_ITEMS, DEFAULT_EPSILON = 10_000, 20, 1.0
ALL_SO_FAR, NIGHT = "all", "night"
RECOMMENDED = "<- recommended"
LEGEND = (
    "noise: standard error of a shown count, in answers; answers that count: share of all; error:"
    " of an item's share of the wins, in percentage points, from noise and from sampling"
)
PAIRS_LEGEND = (
    "noise: standard error of a shown count, in answers; notices: two items change places"
    " for certain (95 %, for two items named before) once their shares of won comparisons differ by"
    " so many percentage points"
)
CAVEAT = (
    "Not included: if people who answer often prefer other items than people who seldom do,"
    " leaving out their answers changes the shares."
)
NOTHING = "None of these settings gives shares that are better than calling all items equal."
NO_STREAM = "A stream gains nothing then: keep releasing nights one by one."
READ_NOTHING = "No answer was read; nothing was spent."


def stream_plan(
    *,
    nights: int,
    show: str,
    habits: Sequence[str],
    people: Sequence[int],
    items: int | None,
    answers: Sequence[int],
    epsilons: Sequence[str],
    delta: float | None,
    seed: int,
    group_shares: Sequence[float] = (),
    anyway: bool = False,
) -> StreamPlan:
    """Plan a stream of nights from the options that were typed.

    Raises:
        ConfigError: an option is out of range, or one is named twice that may be named once.
    """
    for name, given in (
        ("--people", people),
        ("--max-contributions", answers),
        ("--epsilon", epsilons),
    ):
        if len(given) > 1:
            raise ConfigError(f"{name}: with --stream, give only one")
    try:
        epsilon = float(epsilons[0]) if epsilons else DEFAULT_EPSILON
    except ValueError:
        raise ConfigError(f"--epsilon {epsilons[0]}: must be a number > 0") from None
    most = people[0] if people else None
    delta = usual_delta(most) if delta is None else delta
    try:
        request = StreamRequest(
            nights=nights,
            workload=_workload(show, nights),
            habits=habits_of(habits),
            people=DEFAULT_PEOPLE if most is None else most,
            items=DEFAULT_ITEMS if items is None else items,
            answers=answers[0] if answers else 1,
            epsilon=epsilon,
            delta=delta,
            seed=seed,
            group_shares=tuple(group_shares),
        )
        check_deltas("plan --stream", {"--delta": delta}, anyway=anyway, people=most)
        return plan_stream(request)
    except ValueError as error:
        raise ConfigError(f"plan --stream: {error}") from None


def _workload(show: str, nights: int) -> Workload:
    if show == ALL_SO_FAR:
        return Workload(None)
    if show == NIGHT:
        return Workload(1)
    if show.isascii() and show.isdigit():
        return Workload(min(int(show), max(nights, 1)))  # a longer window shows no more
    raise ConfigError(f"--show {show}: must be a number of nights, night or all")


class MeteredPlans(NamedTuple):
    """Comparisons of nights that count with meters; empty: not asked for.

    Attributes:
        pairs: for counts of pairs, with metered rows.
        win_loss: for wins and losses, with metered squares.
    """

    pairs: tuple[MeteredSetting, ...] = ()
    win_loss: tuple[MeteredSetting, ...] = ()


def metered_plans(request: StreamRequest, rows: int | None, squares: int | None) -> MeteredPlans:
    """Compare nights that count with metered rows, with metered squares, or with both.

    Raises:
        ConfigError: a number is out of range, or the guarantee has no delta.
    """
    found = []
    for option, plan, most in (
        ("--rows", plan_pairs, rows),
        ("--squares", plan_squares, squares),
    ):
        try:
            found.append(() if most is None else plan(request, most))
        except ValueError as error:
            raise ConfigError(f"plan --stream: {option}: {error}") from None
    return MeteredPlans(*found)


def stream_document(plan: StreamPlan, metered: MeteredPlans | None = None) -> StreamDocument:
    """Build the JSON document of a stream's plan."""
    from hushrank.flows.interfaces.documents.plans import StreamDocument, StreamWay

    request, metered = plan.request, metered or MeteredPlans()
    ways = [
        StreamWay(
            way=each.way,
            noise=each.noise_kind,
            participations=each.participations,
            gap=each.gap,
            bands=each.bands,
            noise_sd=each.noise,
            counted=each.counted,
            error=100 * each.error,
            group_errors=tuple(100 * error for error in each.group_errors),
        )
        for each in plan.settings
    ]
    return StreamDocument(
        nights=request.nights,
        window=request.workload.window,
        people=request.people,
        items=request.items,
        answers=request.answers,
        epsilon=request.epsilon,
        delta=request.delta,
        adjacency=request.adjacency,
        group_shares=request.parts if request.group_shares else (),
        settings=tuple(ways),
        recommended=ways[0] if plan.informative else None,
        pairs=_metered_ways(metered.pairs),
        win_loss=_metered_ways(metered.win_loss),
    )


def _metered_ways(settings: Sequence[MeteredSetting]) -> tuple[PairWay, ...]:
    from hushrank.flows.interfaces.documents.plans import PairWay

    return tuple(
        PairWay(
            participations=getattr(each.terms, "participations", None),
            rows=getattr(each.terms, "rows", None),
            squares=getattr(each.terms, "squares", None),
            gap=each.terms.gap,
            bands=each.bands,
            noise_sd=each.noise,
            counted=each.counted,
            noticed=100 * each.noticed,
        )
        for each in settings
    )


def show_metered(console: Console, request: StreamRequest, plans: MeteredPlans) -> None:
    """Print how meters compare with nights that count, and the lines for the file."""
    if plans.pairs:
        _say(console, "\nWith method: noisy-pairs, nights or rows of a person may be counted:")
        _show_metered(console, request, plans.pairs)
    if plans.win_loss:
        _say(console, "\nWith method: win-loss, nights or squares of rows may be counted:")
        _show_metered(console, request, plans.win_loss)


def _show_metered(
    console: Console, request: StreamRequest, settings: Sequence[MeteredSetting]
) -> None:
    table = Table(box=None, header_style="dim", pad_edge=False)
    table.add_column("of a person count")
    for name in ("bands", "noise", "answers that count", "notices"):
        table.add_column(name, justify="right")
    for each in settings:
        table.add_row(
            _of_a_person(each.terms, request.answers),
            f"{each.bands}",
            f"{each.noise:.3g}",
            f"{each.counted:.0%}",
            "nothing" if each.noticed > 0.995 else f"{100 * each.noticed:.2g}",
        )
    console.print(table)
    console.print(Text(PAIRS_LEGEND, style="dim"), soft_wrap=True)
    best = next(each.terms for each in settings if not isinstance(each.terms, Terms))
    counted = f"rows: {best.most}, pair_gap: {best.gap}"
    if isinstance(best, SquareTerms):
        counted = f"squares: {best.most}, gap: {best.gap}"
    window = request.workload.window
    shows = {None: "cumulative", 1: "night"}.get(window, f"{{window: {window}}}")
    _say(
        console,
        f"To count {best.unit}, in the survey's YAML file:\n"
        f"  schedule: {{stream: {{nights: {request.nights}, participation: {{{counted},"
        f" burst: {best.burst}}}, show: {shows}, first: DATE}}}}",
    )


def _of_a_person(terms: StreamTerms, answers: int) -> str:
    if isinstance(terms, SquareTerms):
        return f"{terms.squares} squares, {terms.gap} nights apart"
    if isinstance(terms, RowTerms):
        return f"{terms.rows} answers, on one pair {terms.gap} nights apart"
    return f"{_nights(terms.participations)} of {answers}, {terms.gap} apart"


def _nights(number: int) -> str:
    return "1 night" if number == 1 else f"{number} nights"


def show_stream(console: Console, plan: StreamPlan) -> None:
    """Print the best setting of each way, the recommendation, and what it leaves out."""
    request = plan.request
    guarantee = f"epsilon {request.epsilon:g}"
    if request.delta:
        guarantee += f", delta {request.delta:g} (Laplace noise: delta 0)"
    _say(
        console,
        f"{request.nights} nights, {_shown(request.workload)} shown each night, for one person on"
        f" all nights together: {guarantee}, {request.adjacency}.",
    )
    console.print(_table(plan))
    console.print(Text(LEGEND, style="dim"), soft_wrap=True)
    if not plan.informative:
        _say(console, NOTHING)
    else:
        _say(console, _advice(plan))
        if request.group_shares:
            _say(console, _of_groups(plan))
        _say(console, _alarms(plan))
        _say(console, _configuration(plan))
    console.print(Text(CAVEAT, style="dim"), soft_wrap=True)
    _say(console, READ_NOTHING)


def _say(console: Console, text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)


def _shown(workload: Workload) -> str:
    if workload.window is None:
        return "all so far"
    return "the night alone" if workload.window == 1 else f"the last {workload.window}"


def _table(plan: StreamPlan) -> Table:
    table = Table(box=None, header_style="dim", pad_edge=False)
    table.add_column("way")
    table.add_column("a person counts on")
    for name in ("bands", "noise", "answers that count", "error"):
        table.add_column(name, justify="right")
    table.add_column("")
    for way in (COMPOSITION, CAPS, ENCODER):
        for kind in (NoiseKind.LAPLACE, NoiseKind.GAUSSIAN):
            best = plan.best_of(way, kind)
            if best is not None:
                table.add_row(*_cells(best, plan))
    return table


def _cells(each: StreamSetting, plan: StreamPlan) -> tuple[str, ...]:
    counts = "every night"
    if each.gap > 1:
        counts = f"{_nights(each.participations)}, {each.gap} apart"
    chosen = plan.informative and each == plan.recommended
    return (
        f"{each.way}, {each.noise_kind}",
        counts,
        f"{each.bands}",
        f"{each.noise:.3g}",
        f"{each.counted:.0%}",
        f"{100 * each.error:.2g}",
        RECOMMENDED if chosen else "",
    )


def _alarms(plan: StreamPlan) -> str:
    """Text of the smallest difference of two items at which a stream's alarms go off."""
    pairs = plan.request.items * (plan.request.items - 1) // 2
    one, every = (alarm_difference(plan, number) for number in (1, pairs))
    text = (
        "An alarm (X passed Y, wrong in 5 % of streams at most) needs two shares that differ by"
        f" {_points(one)} if schedule.alarms names one pair, and by {_points(every)} if all"
        f" {pairs:,} pairs are watched."
    )
    window = plan.request.workload.window
    if window is not None and window > 1 and every < 1:
        after = min(-(-3 * window // 4), plan.request.nights)
        text += (
            " If two items that are twice as far apart change places from one night to the next,"
            f" the window shows it after about {_nights(after)}."
        )
    return text


def _points(difference: float) -> str:
    return "more than a share can" if difference >= 1 else f"{100 * difference:.2g} points"


def _of_groups(plan: StreamPlan) -> str:
    """Text of the error of each group; it marks groups that say nothing yet."""
    best, nothing = plan.recommended, even_share_error(plan.request.items)
    parts = zip(plan.request.parts, best.group_errors, strict=True)
    told = [
        f"{share:.0%} of the answers: {100 * error:.2g}{' (says nothing)' * (error >= nothing)}"
        for share, error in parts
    ]
    return f"Error by group, of its own answers alone: {', '.join(told)}."


def _configuration(plan: StreamPlan) -> str:
    """Text of the YAML keys that the recommended setting needs."""
    best, request = plan.recommended, plan.request
    if best.gap == 1:
        return NO_STREAM
    delta = f", delta: {request.delta:.1e}" if best.noise_kind is NoiseKind.GAUSSIAN else ""
    bands = f", bands: {best.bands}" if best.bands > 1 else ""
    window = request.workload.window
    shows = {None: "cumulative", 1: "night"}.get(window, f"{{window: {window}}}")
    return (
        "In the survey's YAML file:\n"
        f"  privacy: {{unit: user, adjacency: {request.adjacency}, epsilon: {request.epsilon:g}"
        f"{delta}, noise: {best.noise_kind}, max_contributions: {request.answers}}}\n"
        f"  schedule: {{stream: {{nights: {request.nights}, participations: {best.participations},"
        f" gap: {best.gap}, show: {shows}{bands}, first: DATE}}}}"
    )


def _advice(plan: StreamPlan) -> str:
    best = plan.recommended
    today = plan.best_of(COMPOSITION, best.noise_kind)
    if best.gap == 1:
        text = "Use no caps: people answer so often that caps would leave out too much."
    else:
        text = (
            f"Count {_nights(best.participations)} per person, at least {best.gap} apart, and use"
            f" {best.bands} band{'s' if best.bands > 1 else ''}: {1 - best.counted:.0%} of the"
            " answers are left out."
        )
    if today is not None and today != best:
        worse = today.error / best.error
        text += f" If every night counted, the error would be {worse:.2g} times as large."
    laplace = plan.best_of(best.way, NoiseKind.LAPLACE) or plan.best_of(CAPS, NoiseKind.LAPLACE)
    if best.noise_kind is NoiseKind.GAUSSIAN and laplace is not None:
        worse = laplace.error / best.error
        text += f" With Laplace noise, for delta 0, it would be {worse:.2g} times as large."
    return text
