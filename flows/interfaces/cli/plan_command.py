"""`hushrank plan`: how accurate a job would be, or how many people private answers need."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from hushrank.flows.errors import ConfigError
from hushrank.flows.interfaces.cli.arguments import Anyway, AsJson, epsilon_mix, mix_text
from hushrank.flows.terminal import Console
from hushrank.transforms.system.numpy_threads import load_numpy_with_one_thread

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hushrank.flows.config.comparisons import Design
    from hushrank.flows.interfaces.documents.plans import MixPlan, PeopleDocument
    from hushrank.flows.interfaces.documents.runs import Document

FILE_WIDTH = 110  # characters, if the output is not a terminal
ENGINE_NEEDS = (
    "--engine ENGINE needs a job, hushrank plan survey.yaml, and not --stream; --files and --price"
    " need --engine"
)
# people at each of these epsilons are planned separately if no mix is given
DEFAULT_MIX = ("0.5", "1", "2", "4")

SurveyPath = Annotated[
    Path | None,
    typer.Argument(
        metavar="[SURVEY.YAML]", help="The job's YAML file; its epsilon may be missing."
    ),
]
People = Annotated[list[int] | None, typer.Option(help="How many people answer; may be repeated.")]
Epsilons = Annotated[
    list[str] | None,
    typer.Option(
        "--epsilon",
        metavar="EPSILON[:SHARE]",
        help="An epsilon to try; may be repeated. Without a YAML file: an epsilon that people"
        " choose for an answer, and what share of the people choose it.",
    ),
]
MostAnswers = Annotated[
    list[int] | None,
    typer.Option("--max-contributions", help="Answers per person to try; may be repeated."),
]
TargetOf = Annotated[
    str | None,
    typer.Option(
        help="Wanted accuracy: top=0.9 (the best item first), best, order, error, largest or width."
    ),
]
Plot = Annotated[Path | None, typer.Option(help="Draw the plan into this file, .svg or .png.")]
Items = Annotated[
    int | None, typer.Option(help="How many items are ranked, if no file lists them yet.")
]
Spread = Annotated[
    float, typer.Option(help="Standard deviation of the true scores of the simulated items.")
]
DesignOf = Annotated[
    str | None,
    typer.Option(help="Design to simulate instead of input.design: balanced, random or any."),
]
Zipf = Annotated[
    float | None,
    typer.Option(
        help="If the design is not balanced, the k-th most shown item is shown in proportion to"
        " 1 / k^ZIPF.",
        show_default="1",
    ),
]
Exposures = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Instead of --zipf: a CSV file item,exposure (or left,right,comparisons) of public"
        " numbers, such as how often an item was shown; never counted in the answers.",
    ),
]
GroupShare = Annotated[
    list[float] | None,
    typer.Option(
        help="With groups or --stream: each group's share of the answers, as relative"
        " numbers in the order of groups.values; repeat it for each group.",
        show_default="all alike",
    ),
]
GroupSpread = Annotated[
    float,
    typer.Option(
        help="With groups: standard deviation of a group's true scores around the whole's."
    ),
]
TieChance = Annotated[
    float | None,
    typer.Option("--ties", help="With ties: model: the probability that two equal items tie."),
]
Activity = Annotated[
    list[str] | None,
    typer.Option(
        metavar="ANSWERS[:SHARE]",
        help="Answers per person, with the share of people; may be repeated: 5:0.9 60:0.1."
        " The plan then says what privacy.bounding: weights would gain.",
    ),
]
Seed = Annotated[int, typer.Option(help="The same seed simulates the same surveys.")]
Answers = Annotated[
    int | None,
    typer.Option(help="Without a YAML file: how many different pairs each person is asked."),
]
TargetError = Annotated[
    float,
    typer.Option(help="Without a YAML file: the largest acceptable mean error of a score."),
]
PerUser = Annotated[
    bool,
    typer.Option(
        "--per-user",
        help="Without a YAML file: the epsilon covers all answers of a person together.",
    ),
]
Stream = Annotated[
    int | None,
    typer.Option(
        metavar="NIGHTS",
        help="Instead of a job: plan one budget for this many nights.",
    ),
]
Show = Annotated[
    str,
    typer.Option(help="With --stream: what each night shows: a number of nights, night, or all."),
]
MeteredRows = Annotated[
    int | None,
    typer.Option(
        "--rows",
        metavar="ROWS",
        min=1,
        help="With --engine: how many rows the input of a night has. With --stream: compare as"
        " well, for method: noisy-pairs, nights that count with a meter of so many answers of a"
        " person on all nights (participation: {rows: ...}).",
    ),
]
MeteredSquares = Annotated[
    int | None,
    typer.Option(
        "--squares",
        metavar="SQUARES",
        min=2,
        help="With --stream: compare as well, for method: win-loss, nights that count with such an"
        " allowance of a person, of which a night of l answers takes l² + l (participation:"
        " {squares: ...}).",
    ),
]
HabitsOf = Annotated[
    list[str] | None,
    typer.Option(
        "--habit",
        metavar="CHANCE[:SHARE]",
        help="With --stream: a person's probability to answer on a night, and the share of people;"
        " may be repeated. 0.14 is once a week.",
    ),
]
Delta = Annotated[
    float | None,
    typer.Option(
        help="With --stream: delta of all nights together; 0 allows Laplace noise only.",
        show_default="1e-6, or less for more than 100,000 people",
    ),
]
LinkName = Annotated[str, typer.Option(help="logistic, probit or laplace.")]
EngineName = Annotated[
    str | None,
    typer.Option(
        "--engine",
        metavar="ENGINE",
        help="Instead of the accuracy: processor hours, shuffle and list price of a night of --rows"
        " rows on dataflow, flink or spark.",
    ),
]
Files = Annotated[
    int | None,
    typer.Option(help="With --engine: number of files.", show_default="one a million rows"),
]
Prices = Annotated[
    list[str] | None,
    typer.Option(
        "--price",
        metavar="NAME=NUMBER",
        help="With --engine: a price in place of the list's, or where there is no list: vcpu-hour,"
        " memory-gb-hour, disk-gb-hour or shuffle-gb; may be repeated.",
    ),
]


def plan(
    survey: SurveyPath = None,
    people: People = None,
    epsilons: Epsilons = None,
    max_contributions: MostAnswers = None,
    target: TargetOf = None,
    plot: Plot = None,
    items: Items = None,
    spread: Spread = 1.0,
    design: DesignOf = None,
    zipf: Zipf = None,
    exposures: Exposures = None,
    activity: Activity = None,
    group_share: GroupShare = None,
    group_spread: GroupSpread = 0.3,
    ties: TieChance = None,
    seed: Seed = 0,
    answers: Answers = None,
    target_error: TargetError = 0.1,
    per_user: PerUser = False,
    link: LinkName = "logistic",
    stream: Stream = None,
    show: Show = "28",
    habits: HabitsOf = None,
    rows: MeteredRows = None,
    squares: MeteredSquares = None,
    delta: Delta = None,
    engine: EngineName = None,
    files: Files = None,
    price: Prices = None,
    anyway: Anyway = False,
    as_json: AsJson = False,
) -> None:
    """Predict a job's accuracy before any answer is read and any budget is spent.

    With a YAML file: the accuracy that the survey reaches at several epsilons, by method, with
    simulated people whose questions follow input.design. Without a YAML file: how many people must
    answer so that scores from private answers (privacy.unit: local) are precise enough; give
    --items and --answers. With --stream: on how many nights to count a person's answers, if one
    budget pays for many nights. With --engine: what a night costs on machines of an engine.
    """
    if engine is not None or files is not None or price:
        if engine is None or survey is None or stream is not None:
            raise ConfigError(ENGINE_NEEDS)
        _plan_engine(survey, engine, rows, files, price or (), items, as_json)
        return
    if stream is not None:
        _refuse_with_stream(survey, target, plot, design, zipf, exposures, answers, activity)
        _plan_stream(
            as_json, rows, squares,
            nights=stream, show=show, habits=habits or (), people=people or (), items=items,
            answers=max_contributions or (), epsilons=epsilons or (), delta=delta,
            seed=seed, group_shares=group_share or (), anyway=anyway,
        )  # fmt: skip
        return
    if rows is not None:
        raise ConfigError("--rows needs --stream NIGHTS or --engine ENGINE")
    if squares is not None:
        raise ConfigError("--squares needs --stream NIGHTS")
    if survey is None:
        _refuse_of_jobs(group_share, ties)
        _refuse_without_survey(max_contributions, target, plot, design, zipf, exposures, activity)
        found = _people_needed(items, answers, target_error, epsilons, people, per_user, link)
        tell = _print_json if as_json else _show_people
        tell(found)
        return
    if answers is not None or per_user:
        raise ConfigError(
            "--answers and --per-user apply only without a YAML file; use --max-contributions"
        )
    _plan_job(
        survey,
        {
            "spread": spread, "seed": seed, "shares": tuple(group_share or ()),
            "group_spread": group_spread,
        },
        as_json, anyway, people=tuple(people or ()), answers=tuple(max_contributions or ()),
        epsilons=tuple(_mix_of_one(level) for level in epsilons or ()), target=target, plot=plot,
        n_items=items, design=None if design is None else _design(design), zipf=zipf,
        exposures=exposures, activity=tuple(activity or ()), ties=ties,
    )  # fmt: skip


def _plan_job(
    survey: Path, world: dict[str, Any], as_json: bool, anyway: bool, **asked: Any
) -> None:
    """Plan a job. `world` holds the arguments of `World`, `asked` those of `PlanRequest`."""
    console = _console(as_json)
    with console.status("simulating surveys ...") as status:
        load_numpy_with_one_thread()
        from hushrank.flows.planning.plan.display import show_plan
        from hushrank.flows.planning.plan.plan import DEFAULT_TARGET, PlanRequest, checked_plan
        from hushrank.flows.planning.plan.survey import plan_config
        from hushrank.flows.planning.plan.world import World

        request = PlanRequest(**{**asked, "target": asked["target"] or DEFAULT_TARGET})
        config = plan_config(survey, request.n_items, request.design)

        def tell(words: str) -> None:
            status.update(f"simulating surveys: {words} ...")

        plan = checked_plan(f"{survey}", config, request, World(**world), anyway=anyway, tell=tell)
    if not as_json:
        show_plan(console, plan)
        return
    from hushrank.flows.interfaces.documents.plans import plan_document

    _print_json(plan_document(plan))


def _plan_engine(
    survey: Path, name: str, rows: int | None, files: int | None, prices: Sequence[str],
    items: int | None, as_json: bool,
) -> None:  # fmt: skip
    """Say what a night costs on an engine."""
    from hushrank.flows.interfaces.cli.plan_engine import cost_document, job_cost, show_cost

    if rows is None:
        raise ConfigError("--engine: --rows is missing; say how many rows a night's input has")
    cost = job_cost(survey, name, rows, files, prices, items)
    if as_json:
        _print_json(cost_document(cost))
    else:
        show_cost(_console(), cost)


def _plan_stream(as_json: bool, rows: int | None, squares: int | None, **asked: Any) -> None:
    """Plan a stream of nights. `asked` holds the arguments of `stream_plan`."""
    console = _console(as_json)
    with console.status("simulating people ..."):
        from hushrank.flows.interfaces.cli.plan_stream import (
            metered_plans,
            show_metered,
            show_stream,
            stream_document,
            stream_plan,
        )

        plan = stream_plan(**asked)
        metered = metered_plans(plan.request, rows, squares)
    if as_json:
        _print_json(stream_document(plan, metered))
        return
    show_stream(console, plan)
    show_metered(console, plan.request, metered)


def _refuse_with_stream(*given: object) -> None:
    if any(each is not None for each in given):
        raise ConfigError(
            "--stream excludes a YAML file and --answers, --target, --plot, --design,"
            " --zipf, --exposures and --activity; it takes --show, --habit, --people, --items,"
            " --max-contributions, --epsilon, --delta, --group-share and --seed"
        )


def _console(as_json: bool = False) -> Console:
    console = Console(stderr=as_json)
    return console if console.is_terminal else Console(stderr=as_json, width=FILE_WIDTH)


def _print_json(document: Document) -> None:
    from hushrank.flows.interfaces.documents.runs import print_document

    print_document(document)


def _refuse_of_jobs(group_share: Sequence[float] | None, ties: float | None) -> None:
    if group_share:
        raise ConfigError(
            "--group-share needs a job with groups, hushrank plan survey.yaml, or --stream"
        )
    if ties is not None:
        raise ConfigError("--ties needs a job with ties: model: hushrank plan survey.yaml")


def _refuse_without_survey(*given: object) -> None:
    if any(each is not None for each in given):
        raise ConfigError(
            "--max-contributions, --target, --plot, --design, --zipf, --exposures and --activity"
            " need a job: hushrank plan survey.yaml"
        )


def _design(name: str) -> Design:
    from hushrank.flows.config.comparisons import Design

    try:
        return Design(name)
    except ValueError:
        raise ConfigError(f"--design {name}: must be {', '.join(Design)}") from None


def _mix_of_one(level: str) -> float:
    mix = epsilon_mix([level])
    if ":" in level:
        raise ConfigError(f"--epsilon {level}: with a YAML file, give single values")
    return next(iter(mix))


def _people_needed(
    items: int | None,
    answers: int | None,
    target_error: float,
    mix: list[str] | None,
    people: list[int] | None,
    per_user: bool,
    link: str,
) -> PeopleDocument:
    """Compute by formula how many people must give private answers."""
    from hushrank.estimation.common.links import link_named
    from hushrank.estimation.comparisons.planning import information_needed
    from hushrank.flows.interfaces.documents.plans import PeopleDocument

    if items is None or answers is None:
        raise ConfigError("plan: give a YAML file, or --items and --answers")
    n_pairs = items * (items - 1) // 2
    if items < 2 or not 1 <= answers <= n_pairs:
        raise ConfigError(
            f"--answers must be between 1 and the pairs of the items ({max(n_pairs, 1)}), got"
            f" {answers}"
        )
    try:
        needed = information_needed(target_error, items, answers / n_pairs, link_named(link))
    except ValueError as error:
        raise ConfigError(f"{error}") from None
    mixes = [epsilon_mix(mix)] if mix else [epsilon_mix([level]) for level in DEFAULT_MIX]
    count = people[0] if people else None
    rows = [
        _enough(each, needed, target_error, answers if per_user else 1, count) for each in mixes
    ]
    return PeopleDocument(
        items=items,
        answers=answers,
        pairs=n_pairs,
        link=link,
        per_user=per_user,
        target_error=target_error,
        people=count,
        mixes=tuple(rows),
        information=needed,
    )


def _enough(
    mix: dict[float, float], needed: float, target: float, divisor: int, people: int | None
) -> MixPlan:
    """Compute how many people are enough with one mix of epsilons."""
    from hushrank.estimation.comparisons.planning import people_needed
    from hushrank.flows.interfaces.documents.plans import MixPlan

    shares = {epsilon / divisor: share for epsilon, share in mix.items()}
    try:
        enough = people_needed(needed, shares)
    except ValueError as error:
        raise ConfigError(f"--epsilon: {error}") from None
    reached = None if people is None else target * math.sqrt(enough / people)
    return MixPlan(epsilons=mix_text(mix), people_needed=enough, error=reached)


def _show_people(found: PeopleDocument) -> None:
    console = _console()
    _say(
        console,
        f"Scores of {found.items} items, each person asked {found.answers} of {found.pairs} pairs,"
        f" link {found.link}:",
    )
    table = Table(box=None, header_style="dim", pad_edge=False)
    whole = found.per_user and found.answers > 1
    table.add_column("epsilon of a person" if whole else "epsilon")
    table.add_column(f"people for error {found.target_error:g}", justify="right")
    if found.people is not None:
        table.add_column(f"error with {found.people:,} people", justify="right")
    for mix in found.mixes:
        error = [] if mix.error is None else [f"{mix.error:.3g}"]
        table.add_row(mix.epsilons, f"{mix.people_needed:,}", *error)
    console.print(table)
    _say(
        console,
        f"Stop collecting when G, the sum of tanh(epsilon of an answer / 2)^2 over people, reaches"
        f" {found.information:.4g}.\nNo answer was read; nothing was spent.",
    )


def _say(console: Console, text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)
