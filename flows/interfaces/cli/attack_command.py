"""`hushrank attack`: what repeated synthetic rankings of one person reveal.

`hushrank audit`: black-box lower bounds on the epsilon of the configured mechanism.
"""

from __future__ import annotations

import math
import os
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from hushrank.flows.errors import ConfigError
from hushrank.flows.interfaces.cli.arguments import AsJson, ConfigPath, UserColumn
from hushrank.flows.terminal import Console, print_records

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from hushrank.flows.trust.audit.result import AuditFound, Bound, PartFound
    from hushrank.pipelines.privatize.rankings_file import RankingColumns, SyntheticRankings
    from hushrank.transforms.common.epsilons import EpsilonSource
    from hushrank.transforms.storage.files import InputFile

STEPS = (1, 2, 5)  # multiplied by powers of ten, these are the numbers of releases in the table
RELEASES = 100  # the most releases in the table by default
# number of items: simulations up to that many items; more items take long
SIMULATIONS = {12: 200, 16: 30, 20: 4}
FULL_ORDER = 12  # most items of a guessed ranking that is printed on one line

Files = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="RANKINGS",
        help="Files of synthetic rankings: Parquet, CSV, JSONL or PrefLib, one or more releases."
        " Without any, the table alone is shown.",
    ),
]
Epsilon = Annotated[float | None, typer.Option(help="Epsilon of each synthetic ranking.")]
EpsilonColumn = Annotated[
    str | None, typer.Option(help="Instead of --epsilon: the column that holds it.")
]
Items = Annotated[int | None, typer.Option(help="Without files: how many items were ranked.")]
Releases = Annotated[
    int | None, typer.Option(help="The most releases in the table.", show_default="100")
]
Person = Annotated[
    str | None,
    typer.Option(help="The person to attack. By default all rankings are of one person."),
]
Item = Annotated[str, typer.Option(help="The column of the item.")]
Rank = Annotated[str, typer.Option(help="The column of the item's rank, 1 = best.")]
Ranking = Annotated[
    str | None,
    typer.Option(help="Instead of --item and --rank: the column with a list of items, best first."),
]
Contest = Annotated[
    str | None, typer.Option(help="The column that identifies each synthetic ranking of a person.")
]
Simulations = Annotated[
    int | None,
    typer.Option(
        help="Simulated people for each line of the table.", show_default="200, fewer from 13 items"
    ),
]


def attack(
    files: Files = None,
    epsilon: Epsilon = None,
    epsilon_column: EpsilonColumn = None,
    items: Items = None,
    releases: Releases = None,
    person: Person = None,
    user: UserColumn = "user",
    item: Item = "item",
    rank: Rank = "rank",
    ranking: Ranking = None,
    contest: Contest = None,
    simulations: Simulations = None,
) -> None:
    """Show what repeated synthetic rankings of one person (mechanism mallows) reveal.

    With files: the most likely true ranking, and how probable it is. Always: how the success of the
    guess grows with the number of releases. The command reads nothing private.
    """
    source = _epsilons(epsilon, epsilon_column)
    console = Console()
    if not files:
        if items is None or epsilon is None:
            raise ConfigError("Give files of synthetic rankings, or --items and --epsilon.")
        _show_table(console, items, epsilon, releases or RELEASES, simulations)
        return
    if items is not None:
        raise ConfigError("--items applies only without files; leave it out.")
    listed = _listed(files)
    columns = _columns(listed, user if person is not None or ranking is None else None,
                       item, rank, ranking, contest, epsilon_column)  # fmt: skip
    from hushrank.flows.reading import read_apart
    from hushrank.pipelines.privatize.answers_file import collect_synthetic_rankings

    found = read_apart(collect_synthetic_rankings, listed, columns, person, source)
    _show_guess(console, found)
    own = {float(value) for value in found.epsilon}
    if len(own) == 1:
        most = releases or max(RELEASES, len(found.rows))
        _show_table(console, len(found.items), own.pop(), most, simulations)


def _epsilons(epsilon: float | None, column: str | None) -> EpsilonSource:
    from hushrank.transforms.common.epsilons import EpsilonSource

    if (epsilon is None) == (column is None):
        raise ConfigError("Give exactly one of --epsilon and --epsilon-column.")
    if epsilon is not None and not 0 < epsilon < math.inf:
        raise ConfigError(f"--epsilon must be finite and > 0, got {epsilon:g}")
    smallest, largest = math.ulp(0.0), math.nextafter(math.inf, 0)
    return EpsilonSource(low=epsilon or smallest, high=epsilon or largest, value=epsilon)


def _listed(paths: list[Path]) -> list[InputFile]:
    from hushrank.transforms.common.schema import InputError
    from hushrank.transforms.storage.files import list_files

    try:
        return list_files([str(path.absolute()) for path in paths])
    except InputError as error:
        raise ConfigError.from_input(error) from None


def _columns(
    files: list[InputFile],
    user: str | None,
    item: str,
    rank: str,
    ranking: str | None,
    contest: str | None,
    epsilon: str | None,
) -> RankingColumns:
    from hushrank.transforms.rankings.ranking_columns import ListColumns, RankColumns
    from hushrank.transforms.storage.files import FileFormat

    if ranking is not None:
        return ListColumns(ranking=ranking, user=user, contest=contest, epsilon=epsilon)
    if any(file.format is FileFormat.PREFLIB for file in files):
        return RankColumns(user="user", item="item", rank="rank")
    return RankColumns(user=user or "user", item=item, rank=rank, contest=contest, epsilon=epsilon)


def _show_guess(console: Console, found: SyntheticRankings) -> None:
    from hushrank.estimation.rankings.inference_attack import guess_ranking

    n, m = found.rows.shape
    try:
        guess = guess_ranking(found.rows, found.epsilon)
    except ValueError as error:
        raise ConfigError(f"{error}.") from None
    names = [found.items[code] for code in guess.order.tolist()]
    separator = " > " if m <= FULL_ORDER else "\n  "
    rankings = "1 synthetic ranking" if n == 1 else f"{n:,} synthetic rankings"
    console.print(
        f"{rankings} of {m} items, {_epsilon_text(found.epsilon)}."
        f"\nBest guess of the true ranking: {separator.join(names)}"
        f"\nIt is right with probability {guess.probability:.3g}, if all {m}! rankings were equally"
        f" likely before; a random guess is right with probability {1 / math.factorial(m):.2g}.\n",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )


def _epsilon_text(epsilon: NDArray[np.float64]) -> str:
    low, high = epsilon.min(), epsilon.max()
    return f"each at epsilon {low:g}" if low == high else f"at epsilons {low:g} to {high:g}"


def _show_table(
    console: Console, items: int, epsilon: float, releases: int, simulations: int | None
) -> None:
    from hushrank.estimation.rankings.inference_attack import largest_success, success_rates
    from hushrank.privacy.randomness import system_bits

    if simulations is not None and simulations < 2:
        raise ConfigError(f"--simulations must be at least 2, got {simulations}")
    count = simulations or next((n for most, n in SIMULATIONS.items() if items <= most), 2)
    try:
        rates = success_rates(items, epsilon, _numbers(releases), count, system_bits())
    except ValueError as error:
        raise ConfigError(f"{error}.") from None
    table = Table(box=None, header_style="dim", pad_edge=False)
    for name in ("releases", "epsilon together", "whole ranking", "at most", "best item", "pairs"):
        table.add_column(name, justify="right")
    for rate in rates:
        table.add_row(
            f"{rate.n_rankings:,}",
            f"{rate.n_rankings * epsilon:g}",
            _with_error(rate.mean, rate.standard_error),
            f"{largest_success(items, epsilon, rate.n_rankings):.3g}",
            f"{rate.best_item:.0%}",
            f"{rate.pairs:.0%}",
        )
    console.print(
        f"How much of a ranking of {items} items the best guess gets right, by number of synthetic"
        f" rankings released at epsilon {epsilon:g} ({count} simulated people):",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )
    console.print(table)
    console.print(_meaning_of_rates(items, releases), markup=False, highlight=False, soft_wrap=True)


def _meaning_of_rates(items: int, releases: int) -> str:
    """Explain the rates by comparison, and the effect of more rankings of one person."""
    epsilon = (items - 1) / math.sqrt(releases)
    return (
        "A random guess gets the whole ranking right with probability"
        f" {1 / math.factorial(items):.2g}, the best item with {1 / items:.0%} and pairs with"
        ' 50%. "At most" is what no guess of the whole ranking exceeds, because its first two items'
        " may be exchanged in most releases (Xu, Sun and Cheng, Ranking differential privacy,"
        " Theorem 2).\nHanding out the same synthetic ranking again reveals nothing more: keep it,"
        f" and draw no other. If new ones must be drawn, and each of {releases:,} has epsilon"
        f" (m - 1) / sqrt(N) = {epsilon:.3g}, the best guess from all is right no more often, on"
        f" average, than from one at epsilon {items - 1}. What they may reveal at worst is more:"
        f" losses add up, to epsilon (m - 1) sqrt(N) = {epsilon * releases:.3g}."
    )


def _with_error(mean: float, standard_error: float) -> str:
    """Text of a mean with its standard error; with one release every simulation gives the same
    mean."""
    exact = standard_error <= 1e-9 * mean
    return f"{mean:.3g}" if exact else f"{mean:.3g} ± {standard_error:.1g}"


def _numbers(releases: int) -> list[int]:
    """The numbers 1, 2, 5, 10, 20, 50, ... and `releases` itself."""
    if releases < 1:
        raise ConfigError(f"--releases must be at least 1, got {releases}")
    steps = (step * 10**power for power in range(len(str(releases))) for step in STEPS)
    return [*(number for number in steps if number < releases), releases]


MOST_MINUTES = 24 * 60.0

Minutes = Annotated[float, typer.Option(help="How many minutes to draw samples.")]
Out = Annotated[
    Path | None,
    typer.Option(help="The file to write.", show_default="audit.json beside SURVEY.YAML"),
]
Processes = Annotated[
    int, typer.Option(help="Number of processes that draw in parallel.", min=1, max=2)
]


def audit(
    config: ConfigPath,
    minutes: Minutes = 5.0,
    out: Out = None,
    processes: Processes = 2,
    as_json: AsJson = False,
) -> None:
    """Attack the configured mechanism on synthetic neighbours: a lower bound on its epsilon.

    It reads no row of the survey and spends nothing. The exit code is 1 if a bound exceeds the
    stated epsilon.
    """
    if not 0 < minutes <= MOST_MINUTES:
        raise ConfigError(f"--minutes must be above 0 and at most {MOST_MINUTES:g}, got {minutes}")
    console = Console(stderr=as_json)
    with console.status(f"reading {config}") if not as_json else nullcontext() as status:
        from hushrank.flows.run.job import read_survey
        from hushrank.flows.trust.audit.audit import audit as found_by
        from hushrank.flows.trust.audit.result import AUDIT_FILE
        from hushrank.transforms.storage.places import write_whole

        path = out or config.with_name(AUDIT_FILE)
        _check_out(path)
        report = (lambda _: None) if status is None else status.update
        found = found_by(
            read_survey(config, anyway=True),  # this spends nothing
            seconds=60 * minutes,
            processes=processes,
            report=report,
        )
    write_whole(str(path.absolute()), found.to_json().encode())
    if as_json:
        typer.echo(found.to_json(), nl=False)
    else:
        show_audit(console, found, path)
    if found.refuted:
        sys.exit(1)


def _check_out(path: Path) -> None:
    """Refuse an output path that cannot be written, before minutes of work begin."""
    folder = path.absolute().parent
    if not (folder.is_dir() and os.access(folder, os.W_OK)) or (
        path.exists() and not path.is_file()
    ):
        raise ConfigError(
            f"--out: {path} cannot be written; name a file in a folder that you may write to"
        )


def show_audit(console: Console, found: AuditFound, path: Path) -> None:
    """Print the attacks that were tried, the bounds that they show, and the conclusion."""
    delta = f", delta {found.delta:g}" if found.delta else ""
    console.print(
        f"Audit of method {found.method}, unit {found.unit}: stated epsilon {found.epsilon:g}"
        f"{delta}. No row of the survey was read, and nothing was spent.",
        soft_wrap=True,
        markup=False,
        highlight=False,
    )
    rows = [_line(part, bound) for part in found.parts for bound in part.bounds]
    headings = ("promise", "inputs", "runs", "assumes", "epsilon at least", "stated", "verdict")
    print_records(console, headings, rows)
    wrong = 1 - found.confidence
    verdict = (
        "A bound exceeds the stated epsilon: the mechanism breaks its guarantee, or this audit is"
        f" wrong, which has a chance of at most {wrong:g}. Do not release."
        if found.refuted
        else f"No bound exceeds the stated epsilon (all hold with confidence {found.confidence:g})."
        " This is not a proof: docs/audit.md says what an audit cannot show."
    )
    console.print(f"{verdict}\nWrote {path}.", soft_wrap=True, markup=False, highlight=False)


def _line(part: PartFound, bound: Bound) -> tuple[str, ...]:
    delta = f", delta {part.delta:g}" if part.delta else ""
    return (
        part.what,
        f"{part.left} | {part.right}",
        f"{part.runs:,}",
        bound.assumption,
        f"{bound.epsilon_lower:.3f}",
        f"{part.epsilon:g}{delta}",
        "EXCEEDED" if part.exceeded_by(bound) else "kept",
    )
