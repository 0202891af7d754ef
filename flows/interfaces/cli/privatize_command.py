"""`hushrank privatize`: read answers or rankings, and write a file of privatised ones."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hushrank.flows.errors import ConfigError
from hushrank.flows.interfaces.cli.arguments import UserColumn
from hushrank.flows.interfaces.cli.privatize_rankings import RankingOptions, privatize_rankings
from hushrank.flows.terminal import Console

if TYPE_CHECKING:
    from hushrank.transforms.common.epsilons import AnswerBudget, AnswerColumns, EpsilonSource

KINDS = ("comparisons", "rankings")
# Options that only one kind of file has.
OF_COMPARISONS = ("budget", "left", "right", "outcome", "winner")
OF_RANKINGS = (
    "item", "rank", "ranking", "contest", "mechanism", "ties", "pairs", "hide", "items",
)  # fmt: skip
SMALLEST_SHARE = 0.001  # smallest part of a person's epsilon that one answer gets

Answers = Annotated[
    Path,
    typer.Argument(
        metavar="ANSWERS",
        help="A Parquet, CSV or JSONL file of answers, or with --kind rankings of rankings; or a"
        " PrefLib file.",
    ),
]
Out = Annotated[Path, typer.Option(help="The new file; its ending decides its format.")]
Kind = Annotated[str, typer.Option(help="comparisons or rankings.")]
Epsilon = Annotated[
    float | None, typer.Option(help="Epsilon of each answer (or person: --budget) or ranking.")
]
EpsilonColumn = Annotated[
    str | None, typer.Option(help="The column that holds each row's epsilon.")
]
EpsilonTable = Annotated[
    Path | None, typer.Option(help="A CSV or Parquet file with the columns user and epsilon.")
]
EpsilonRange = Annotated[
    tuple[float, float] | None,
    typer.Option(metavar="LOW HIGH", help="Rows with an epsilon outside are left out."),
]
Budget = Annotated[
    str, typer.Option(help="per_comparison, or per_user: divided by the person's answers.")
]
Left = Annotated[str, typer.Option(help="The column of one item.")]
Right = Annotated[str, typer.Option(help="The column of the other item.")]
Outcome = Annotated[
    str | None, typer.Option(help="The column of the result: +1 left, -1 right, 0 tie.")
]
Winner = Annotated[
    str | None, typer.Option(help="Instead of --outcome: the column that names the winner.")
]
Item = Annotated[str, typer.Option(help="For rankings: the column of the item.")]
Rank = Annotated[str, typer.Option(help="For rankings: the column of its rank, 1 = best.")]
Ranking = Annotated[
    str | None,
    typer.Option(help="For rankings: instead, the column with a list of items, best first."),
]
Contest = Annotated[
    str | None, typer.Option(help="For rankings: the column that tells a person's rankings apart.")
]
Mechanism = Annotated[
    str, typer.Option(help="For rankings: mallows, laplace-ranks or random-pairs.")
]
Pairs = Annotated[
    int | None,
    typer.Option(
        help="With random-pairs: how many pairs a ranking answers. Default: as many as give the"
        " smallest error."
    ),
]
Hide = Annotated[
    str,
    typer.Option(
        help="With random-pairs: order, or items, which hides also which items were ranked."
    ),
]
Items = Annotated[
    Path | None,
    typer.Option(help="With --hide items: the file of the public catalogue to draw pairs from."),
]
Ties = Annotated[
    str,
    typer.Option(
        help="For rankings with tied items: refuse leaves them out, random breaks the ties."
    ),
]


def privatize(
    context: typer.Context,
    answers: Answers,
    out: Out,
    kind: Kind = "comparisons",
    epsilon: Epsilon = None,
    epsilon_column: EpsilonColumn = None,
    epsilon_table: EpsilonTable = None,
    epsilon_range: EpsilonRange = None,
    budget: Budget = "per_comparison",
    left: Left = "left",
    right: Right = "right",
    outcome: Outcome = None,
    winner: Winner = None,
    user: UserColumn = "user",
    item: Item = "item",
    rank: Rank = "rank",
    ranking: Ranking = None,
    contest: Contest = None,
    mechanism: Mechanism = "mallows",
    ties: Ties = "refuse",
    pairs: Pairs = None,
    hide: Hide = "order",
    items: Items = None,
) -> None:
    """Privatise every answer or ranking of a file at the source, so that no true one leaves it.

    The new file holds items, privatised outcomes, synthetic rankings or private answers to pairs of
    them, and epsilon, in random order and without names of people.
    """
    if sum(given is not None for given in (epsilon, epsilon_column, epsilon_table)) != 1:
        raise ConfigError("Give exactly one of --epsilon, --epsilon-column and --epsilon-table.")
    if not out.parent.is_dir():
        raise ConfigError(f"--out: {out.parent}: no such folder. Make it, or name another.")
    from hushrank.flows.config.places import check_can_be_made

    if os.path.lexists(out):
        raise ConfigError(f"{out} exists already; name a new file.")
    check_can_be_made("--out", out.absolute())
    source = _source(epsilon, epsilon_range, epsilon_table)
    kind = _kind(context, kind, answers)
    if kind == "rankings":
        options = RankingOptions(
            user=user, item=item, rank=rank, ranking=ranking, contest=contest,
            epsilon=epsilon_column, mechanism=mechanism, ties=ties, pairs=pairs, hide=hide,
            items=items,
        )  # fmt: skip
        privatize_rankings(answers, out, options, source)
        return
    if outcome is not None and winner is not None:
        raise ConfigError("Give one of --outcome and --winner, not both.")
    from hushrank.pipelines.privatize.answers_file import OUTCOME
    from hushrank.transforms.common.epsilons import AnswerBudget, AnswerColumns

    divided = AnswerBudget(per_user=_is_per_user(budget))
    columns = AnswerColumns(
        left=left,
        right=right,
        outcome=None if winner else outcome or OUTCOME,
        winner=winner,
        user=user if divided.meet or epsilon_table is not None else None,
        event=None,
        epsilon=epsilon_column,
    )
    reasons = _write(answers, out, columns, source, divided)
    _show(out, columns, source, divided, reasons)


def _show(
    out: Path,
    columns: AnswerColumns,
    source: EpsilonSource,
    divided: AnswerBudget,
    reasons: tuple[str, ...],
) -> None:
    from hushrank.pipelines.privatize.answers_file import EPSILON, OUTCOME

    low = min(source.low, SMALLEST_SHARE) if divided.per_user else source.low
    named = (
        f"left: {columns.left}, right: {columns.right}, outcome: {columns.outcome or OUTCOME},"
        f" epsilon: {columns.epsilon or EPSILON}"
    )
    Console().print(
        "".join(f"Left out: rows with {reason}.\n" for reason in reasons)
        + f"Wrote {out}: items, privatised outcomes and their epsilon, in random order, without"
        " names.\nPrivatising the same answers again costs their epsilon again: keep this file."
        "\nIn the job that ranks it:"
        f"\n  input:   {{columns: {{{named}}}}}"
        "\n  privacy: {unit: local, already_private: true, epsilon_range: ["
        f"{low:g}, {source.high:g}]}}",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )


def _kind(context: typer.Context, kind: str, answers: Path) -> str:
    """The kind of the file; raises if an option of the other kind is given."""
    from hushrank.transforms.storage.files import ENDINGS, FileFormat, ending_of

    if kind not in KINDS:
        raise ConfigError(f"--kind must be {' or '.join(KINDS)}, got {kind!r}")
    if ENDINGS.get(ending_of(answers)) is FileFormat.PREFLIB:
        kind = "rankings"
    for name in OF_COMPARISONS if kind == "rankings" else OF_RANKINGS:
        given = context.get_parameter_source(name)
        if given is not None and given.name == "COMMANDLINE":
            raise ConfigError(f"--{name} is not for --kind {kind}; leave it out.")
    return kind


def _is_per_user(budget: str) -> bool:
    from hushrank.flows.config.privacy import Budget as Budgets

    if budget not in list(Budgets):
        raise ConfigError(f"--budget must be per_comparison or per_user, got {budget!r}")
    return budget == Budgets.PER_USER


def _source(
    epsilon: float | None, epsilon_range: tuple[float, float] | None, table: Path | None
) -> EpsilonSource:
    from hushrank.transforms.common.epsilons import EpsilonSource

    if epsilon is None and epsilon_range is None:
        raise ConfigError(
            "Epsilons that come with the answers need bounds: add for example"
            " --epsilon-range 0.1 5."
        )
    low, high = epsilon_range or (epsilon or 0.0, epsilon or 0.0)
    from hushrank.flows.config.section import LEAST_LOSS, MOST_LOSS

    if 0 < low < LEAST_LOSS or MOST_LOSS < high < math.inf:
        raise ConfigError(
            f"--epsilon or --epsilon-range: must be from {LEAST_LOSS:g} to {MOST_LOSS:g}, got"
            f" {low!r} and {high!r}"
        )
    path = None if table is None else str(table)
    try:
        return EpsilonSource(low=low, high=high, value=epsilon, table=path)
    except ValueError as error:
        raise ConfigError(f"--epsilon or --epsilon-range: {error}") from None


def _write(
    answers: Path, out: Path, columns: AnswerColumns, source: EpsilonSource, divided: AnswerBudget
) -> tuple[str, ...]:
    """Write the new file; return why rows were left out."""
    from hushrank.flows.reading import read_apart
    from hushrank.pipelines.privatize.apart import write_private_answers
    from hushrank.pipelines.simulate.row_files import WRITTEN_ENDINGS
    from hushrank.transforms.common.schema import InputError
    from hushrank.transforms.storage.files import list_files
    from hushrank.transforms.storage.write import nothing_half_written

    if out.suffix.lower() not in WRITTEN_ENDINGS:
        raise ConfigError(f"--out must end in {', '.join(WRITTEN_ENDINGS)}, got {out}")
    try:
        (file,) = list_files([str(answers.absolute())])
        format_ = WRITTEN_ENDINGS[out.suffix.lower()]
        with nothing_half_written(out):
            return read_apart(write_private_answers, file, out, format_, columns, source, divided)
    except FileExistsError:
        raise ConfigError(f"{out} exists already; name a new file.") from None
    except InputError as error:
        raise ConfigError(f"{error}") from None
