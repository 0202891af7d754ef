"""`hushrank simulate`: the options of a simulated survey, and the text printed afterwards.

`hushrank reproduce`: rerun the experiments of a paper, or those of hushrank itself.  This is the
only module of the layer that imports the experiments, which stand beside it.
"""

from __future__ import annotations

from enum import StrEnum
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import Progress, TaskID
from rich.text import Text

from hushrank.flows.errors import ConfigError, require
from hushrank.flows.terminal import Console

if TYPE_CHECKING:
    from hushrank.pipelines.simulate.simulate import Simulated


KINDS = ("comparisons", "responses")
# Options that suit only one kind of survey.
OF_COMPARISONS = (
    *("comparisons", "varying", "heavy_share", "heavy_factor", "repeated_pairs", "link", "ties"),
    *("events", "epsilons", "nights", "habits", "first"),
)
OF_RESPONSES = ("answers", "ability_spread")
OF_NIGHTS = ("habits", "first")
NOT_OF_NIGHTS = ("files", "events", "epsilons")
FIRST, WEEKLY = "2026-01-01", "0.14"

Folder = Annotated[Path, typer.Argument(metavar="FOLDER", help="A new or empty folder.")]
Items = Annotated[int, typer.Option(help="Number of items.")]
People = Annotated[int, typer.Option(help="Number of people who answer.")]
Kind = Annotated[str, typer.Option(help="comparisons, or responses: answers to a test.")]
Answers = Annotated[int, typer.Option(help="How many items of a test each person answers.")]
AbilitySpread = Annotated[
    float, typer.Option(help="Standard deviation of the abilities of a test's takers.")
]
Comparisons = Annotated[int, typer.Option(help="Number of comparisons per person.")]
Varying = Annotated[
    bool,
    typer.Option(
        "--varying", help="Vary the number between people, with --comparisons as the mean."
    ),
]
HeavyShare = Annotated[float, typer.Option(help="Share of people who answer far more.")]
HeavyFactor = Annotated[int, typer.Option(help="How many times as much these people answer.")]
Repeated = Annotated[
    bool, typer.Option("--repeated-pairs", help="Allow a person to compare the same pair again.")
]
LinkName = Annotated[
    str, typer.Option(help="Link function: logistic (BTL), probit (Thurstone) or laplace.")
]
Spread = Annotated[
    float, typer.Option(help="Standard deviation of the true scores or difficulties.")
]
Ties = Annotated[float, typer.Option(help="Share of answers without a winner.")]
Named = Annotated[
    bool, typer.Option("--named", help="Name the items item-0, item-1 ... instead of 0, 1 ...")
]
Events = Annotated[
    bool, typer.Option("--events", help="Add the column event, an id of each answer.")
]
Epsilons = Annotated[
    list[float] | None,
    typer.Option(
        "--epsilon", help="Add a column epsilon, drawn from these values; may be repeated."
    ),
]
Nights = Annotated[
    int | None,
    typer.Option(
        help="Write a file for each of this many nights, and a job that ranks them as a stream."
    ),
]
Habits = Annotated[
    list[str] | None,
    typer.Option(
        "--habit",
        metavar="CHANCE[:SHARE]",
        help="With --nights: a person's probability to answer on a night, and the share of people;"
        " may be repeated.",
        show_default="0.14, once a week",
    ),
]
First = Annotated[str, typer.Option(help="With --nights: the first date.")]
Files = Annotated[int | None, typer.Option(help="Number of files to write.", show_default="8")]
Format = Annotated[str, typer.Option("--format", help="parquet, csv or jsonl.")]
Seed = Annotated[int, typer.Option(help="The same seed gives the same answers.")]


def simulate(
    context: typer.Context,
    folder: Folder,
    kind: Kind = "comparisons",
    items: Items = 50,
    people: People = 1000,
    comparisons: Comparisons = 15,
    answers: Answers = 15,
    varying: Varying = False,
    heavy_share: HeavyShare = 0.0,
    heavy_factor: HeavyFactor = 10,
    repeated_pairs: Repeated = False,
    link: LinkName = "logistic",
    spread: Spread = 1.0,
    ability_spread: AbilitySpread = 1.0,
    ties: Ties = 0.0,
    named: Named = False,
    events: Events = False,
    epsilons: Epsilons = None,
    nights: Nights = None,
    habits: Habits = None,
    first: First = FIRST,
    files: Files = None,
    file_format: Format = "parquet",
    seed: Seed = 0,
) -> None:
    """Write a simulated survey, with its true scores and a job file that ranks it."""
    from hushrank.pipelines.simulate.simulate import WRITTEN
    from hushrank.transforms.storage.files import FileFormat

    _check_folder(folder)
    if kind not in KINDS:
        raise ConfigError(f"kind must be {' or '.join(KINDS)}, got {kind!r}")
    if file_format not in WRITTEN:
        raise ConfigError(f"format must be parquet, csv or jsonl, got {file_format!r}")
    _refuse_options(context, OF_RESPONSES if kind == "comparisons" else OF_COMPARISONS, kind)
    if nights is None:
        _refuse_options(context, OF_NIGHTS, None)
    else:
        _refuse_options(context, NOT_OF_NIGHTS, "nights")
    fields = dict(context.params)
    for name in ("folder", "kind", "files", "file_format"):
        del fields[name]
    write = _comparisons if kind == "comparisons" else _responses
    console = Console()
    try:
        with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
            task = bar.add_task("Simulating", total=1.0)
            written = write(
                fields,
                folder,
                files=files,
                format_=FileFormat(file_format),
                progress=partial(_advance, bar, task),
            )
    except (ValueError, FileExistsError) as error:
        raise ConfigError(f"{error}. Nothing was written.") from None
    truth = "scores" if kind == "comparisons" else "difficulties"
    follows = f"run {written.survey}"
    if nights is not None:
        follows = f"backfill {written.survey} --from {first} --to {written.log[-1].stem}"
    text = (
        f"Wrote the answers of {people} simulated people to {written.log[0].parent}"
        f"\nand the true {truth} to {written.truth}.\nNext: hushrank {follows}"
    )
    console.print(text, markup=False, highlight=False, soft_wrap=True)


def _check_folder(folder: Path) -> None:
    if folder.parts[:1] and folder.parts[0].endswith(":"):
        raise ConfigError(
            f"{folder}: simulate writes only to a local folder, not to an object store. Name"
            " a local folder, and copy its files. Nothing was written."
        )


def _refuse_options(context: typer.Context, names: tuple[str, ...], kind: str | None) -> None:
    """Refuse typed options that do not suit the kind of survey, or need nights, or exclude them."""
    for name in names:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            option = next(each.opts[0] for each in context.command.params if each.name == name)
            if kind is None:
                raise ConfigError(f"{option} needs --nights; add it, or leave {option} out")
            what = "--nights" if kind == "nights" else f"--kind {kind}"
            raise ConfigError(f"{option} does not apply to {what}; leave it out")


def _comparisons(fields: dict[str, Any], folder: Path, **how: Any) -> Simulated:
    from hushrank.pipelines.simulate.simulate import simulate_comparisons
    from hushrank.pipelines.simulate.simulated_rows import SimulationSpec

    chosen = {name: value for name, value in fields.items() if name not in OF_RESPONSES}
    chosen["distinct_pairs"] = not chosen.pop("repeated_pairs")
    chosen["epsilons"] = tuple(chosen["epsilons"] or ())
    nights, habits, first = (chosen.pop(name) for name in ("nights", "habits", "first"))
    spec = SimulationSpec(**chosen)
    if nights is None:
        return simulate_comparisons(spec, folder, **how)
    from hushrank.flows.config.schedule import day_of
    from hushrank.flows.planning.plan.stream import habits_of
    from hushrank.pipelines.simulate.simulate_nights import NightsSpec, simulate_nights

    of_nights = NightsSpec(spec, habits_of(habits or [WEEKLY]), nights, day_of(first, "--first"))
    del how["files"]
    return simulate_nights(of_nights, folder, **how)


def _responses(fields: dict[str, Any], folder: Path, **how: Any) -> Simulated:
    from hushrank.pipelines.simulate.simulate_responses import ResponsesSpec, simulate_responses

    chosen = {name: value for name, value in fields.items() if name not in OF_COMPARISONS}
    return simulate_responses(ResponsesSpec(**chosen), folder, **how)


def _advance(bar: Progress, task: TaskID, share: float) -> None:
    bar.update(task, completed=share)


class Paper(StrEnum):
    """Name of a paper, or of experiments beyond papers."""

    CCW = "ccw"  # Cai, Chakraborty, Wang: ranking from pairwise comparisons
    XSC = "xsc"  # Xu, Sun, Cheng: rank aggregation with private pairwise rankings
    RDP = "rdp"  # Xu, Sun, Cheng: ranking differential privacy
    NZ = "nz"  # Nguyen, Zhang: learning from human response data
    STREAM = "stream"  # not a paper: one budget for a stream of nights, against one budget a night
    BEYOND = "beyond"  # nor this: what hushrank adds to the papers, against what there was


PaperName = Annotated[
    Paper, typer.Argument(help="ccw, xsc, rdp, nz, stream or beyond.", show_choices=False)
]
Only = Annotated[
    str, typer.Option(help="Numbers of the experiments, for example 3,8; all by default.")
]
Replicates = Annotated[
    int | None, typer.Option("--replicates", "--trials", help="Runs of each setting.")
]
Quick = Annotated[
    bool, typer.Option("--quick", help="Use few replicates, which takes minutes instead of hours.")
]
Out = Annotated[Path, typer.Option(help="Folder for results.csv and the figures.")]
DataFiles = Annotated[
    list[Path] | None, typer.Option("--data", help="A file of real answers; may be repeated.")
]


def reproduce(
    paper: PaperName,
    only: Only = "",
    replicates: Replicates = None,
    quick: Quick = False,
    out: Out = Path("reproduced"),
    data: DataFiles = None,
) -> None:
    """Rerun the experiments of a paper, or those beyond papers: results.csv and its figures."""
    require("reproduce", "hushrank reproduce")
    from hushrank.flows.config.section import check_can_be_made, check_can_be_written

    check_can_be_made("--out", out / paper)
    check_can_be_written("--out", out / paper / "results.csv")
    chosen = [name.strip() for name in only.split(",") if name.strip()] or None
    experiments = import_module(f"hushrank.experiments.{paper}.{paper}")
    try:
        experiments.run(chosen, replicates, quick, out / paper, data or [])
    except ValueError as error:
        raise ConfigError(f"reproduce {paper}: {error}") from None
    Console().print(Text(f"Wrote {out / paper / 'results.csv'} and its figures."), soft_wrap=True)
