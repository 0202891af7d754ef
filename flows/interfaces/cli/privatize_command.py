"""`hushrank privatize`: read answers or rankings, and write a file of private ones."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hushrank.flows.errors import ConfigError
from hushrank.flows.interfaces.cli.arguments import UserColumn
from hushrank.flows.terminal import Console

if TYPE_CHECKING:
    from hushrank.pipelines.privatize.rankings_file import PrivateForm
    from hushrank.privacy.random_pairs import RandomPairs
    from hushrank.transforms.common.epsilons import AnswerBudget, AnswerColumns, EpsilonSource
    from hushrank.transforms.rankings.ranking_columns import ListColumns, PairColumns, RankColumns
    from hushrank.transforms.storage.files import FileFormat, InputFile


LIST_COLUMN = "ranking"  # column of the new file if the old one is a PrefLib file


@dataclass(frozen=True, slots=True, kw_only=True)
class RankingOptions:
    """Options about rankings; None for an option that is not given."""

    user: str
    item: str
    rank: str
    ranking: str | None
    contest: str | None
    epsilon: str | None
    mechanism: str
    ties: str
    pairs: int | None
    hide: str
    items: Path | None


def privatize_rankings(
    source_path: Path, out: Path, options: RankingOptions, epsilons: EpsilonSource
) -> None:
    """Write the new file, and print a summary and the keys for the job that reads it.

    Raises:
        ConfigError: an option, the input or the name of the new file breaks a rule.
    """
    from hushrank.privacy.units import epsilon_levels
    from hushrank.transforms.common.schema import InputError
    from hushrank.transforms.storage.files import FileFormat, list_files

    try:
        (source,) = list_files([str(source_path.absolute())])
    except InputError as error:
        raise ConfigError.from_input(error) from None
    preflib = source.format is FileFormat.PREFLIB
    if epsilons.value is None:
        epsilons = replace(epsilons, levels=epsilon_levels(epsilons.low, epsilons.high))
    columns = _columns(options, preflib=preflib, with_users=epsilons.table is not None)
    form = _form(options, epsilons, LIST_COLUMN if preflib else options.ranking)
    format_ = _format(out, lists=form.as_lists is not None)
    reasons = _write_rankings(source, out, format_, columns, epsilons, form)
    Console().print(
        "".join(f"Left out: {reason}.\n" for reason in reasons)
        + _told(out, columns, epsilons, form),
        markup=False,
        highlight=False,
        soft_wrap=True,
    )


def _columns(
    options: RankingOptions, *, preflib: bool, with_users: bool
) -> RankColumns | ListColumns:
    from hushrank.transforms.rankings.ranking_columns import ListColumns, RankColumns

    if preflib:
        named = (options.user, options.item, options.rank) != ("user", "item", "rank")
        if named or options.ranking or options.contest or options.epsilon or with_users:
            raise ConfigError(
                "A PrefLib file has no columns: give --epsilon, and no options that name a column."
            )
        return RankColumns(user="user", item="item", rank="rank")
    if options.ranking is not None:
        return ListColumns(
            ranking=options.ranking,
            user=options.user if with_users else None,
            contest=options.contest,
            epsilon=options.epsilon,
        )
    return RankColumns(
        user=options.user,
        item=options.item,
        rank=options.rank,
        contest=options.contest,
        epsilon=options.epsilon,
    )


def _form(options: RankingOptions, epsilons: EpsilonSource, as_lists: str | None) -> PrivateForm:
    from hushrank.flows.config.rankings import RankingTies
    from hushrank.pipelines.privatize.rankings_file import PrivateForm
    from hushrank.privacy.random_pairs import Hide
    from hushrank.transforms.common.randomisation import RankingMechanism

    for name, allowed in (("mechanism", RankingMechanism), ("ties", RankingTies), ("hide", Hide)):
        if (given := getattr(options, name)) not in list(allowed):
            *others, last = allowed
            raise ConfigError(f"--{name} must be {', '.join(others)} or {last}, got {given!r}")
    mechanism = RankingMechanism(options.mechanism)
    if mechanism is RankingMechanism.LAPLACE_RANKS and epsilons.value is None:
        raise ConfigError(f"--mechanism {mechanism} needs one --epsilon for all rankings.")
    laws: tuple[RandomPairs, ...] = ()
    items = None
    if mechanism is RankingMechanism.RANDOM_PAIRS:
        items = _catalogue(options)
        laws = _laws(options, epsilons.levels or (epsilons.high,), items)
        as_lists = None
    elif options.pairs is not None or options.items is not None or options.hide != Hide.ORDER:
        raise ConfigError("--pairs, --hide and --items are for --mechanism random-pairs.")
    return PrivateForm(
        mechanism=mechanism,
        break_ties=options.ties == RankingTies.RANDOM,
        as_lists=as_lists,
        laws=laws,
        items=items,
    )


def _catalogue(options: RankingOptions) -> tuple[str, ...] | None:
    """Public items, if the ranked items are hidden; else None."""
    from hushrank.flows.config.items_file import read_item_names

    if options.contest is not None:
        raise ConfigError(
            "--contest does not work with --mechanism random-pairs: privatise each contest's rows"
            " in a file of their own."
        )
    if (options.items is None) != (options.hide == "order"):
        raise ConfigError(
            "--hide items and --items, the file of the public catalogue, go together:"
            " a list made from the rankings would reveal which items were ranked."
        )
    if options.items is None:
        return None
    try:
        return read_item_names(options.items)
    except (OSError, ValueError) as error:
        raise ConfigError(f"--items: {error}") from None


def _laws(
    options: RankingOptions, levels: tuple[float, ...], items: tuple[str, ...] | None
) -> tuple[RandomPairs, ...]:
    from hushrank.flows.config.rules import MOST_ITEMS_RANKED
    from hushrank.privacy.random_pairs import MOST_PAIRS, Hide, laws_of_levels, n_pairs

    hide = Hide(options.hide)
    among = MOST_ITEMS_RANKED if items is None else len(items)
    most = min(MOST_PAIRS, n_pairs(among))
    if options.pairs is not None and not 1 <= options.pairs <= most:
        raise ConfigError(f"--pairs must be 1 to {most}, got {options.pairs}")
    return laws_of_levels(levels, options.pairs, among, hide)


def _format(out: Path, *, lists: bool) -> FileFormat:
    from hushrank.pipelines.simulate.simulate import WRITTEN_ENDINGS
    from hushrank.transforms.storage.files import FileFormat

    ending = out.suffix.lower()
    known = {
        ending: format_
        for ending, format_ in WRITTEN_ENDINGS.items()
        if format_ is FileFormat.PARQUET or not lists
    }
    if ending not in known:
        why = ", because the new file has a list in each row" if lists else ""
        raise ConfigError(f"--out must end in {', '.join(known)}{why}, got {out}")
    return known[ending]


def _write_rankings(
    source: InputFile,
    out: Path,
    format_: FileFormat,
    columns: RankColumns | ListColumns,
    epsilons: EpsilonSource,
    form: PrivateForm,
) -> tuple[str, ...]:
    """Write the new file; return why rows were left out."""
    from hushrank.flows.reading import read_apart
    from hushrank.pipelines.privatize.answers_file import write_private_rankings
    from hushrank.transforms.storage.places import nothing_half_written

    try:
        with nothing_half_written(out):
            return read_apart(write_private_rankings, source, out, format_, columns, epsilons, form)
    except FileExistsError:
        raise ConfigError(f"{out} exists already; name a new file.") from None


def _told(
    out: Path, columns: RankColumns | ListColumns, epsilons: EpsilonSource, form: PrivateForm
) -> str:
    from hushrank.pipelines.privatize.rankings_file import EPSILON
    from hushrank.transforms.common.randomisation import RankingMechanism
    from hushrank.transforms.rankings.ranking_columns import RankColumns

    if form.columns is not None:
        return _told_of_pairs(out, form.laws, form.columns, chosen=epsilons.value is None)
    if form.as_lists is not None:
        roles, layout = [("ranking", form.as_lists)], "list"
    elif isinstance(columns, RankColumns):
        roles = [("user", columns.user), ("item", columns.item), ("rank", columns.rank)]
        layout = "long"
    if columns.contest is not None and layout == "long":
        roles.append(("contest", columns.contest))
    own = f"epsilon: {epsilons.high:g}"
    if epsilons.value is None:
        roles.append(("epsilon", columns.epsilon or EPSILON))
        own = f"epsilon_range: [{epsilons.low:g}, {epsilons.high:g}]"
    mallows = form.mechanism is RankingMechanism.MALLOWS
    whole = "epsilon m / 2" if mallows else "epsilon floor(m^2 / 2) / (2 m - 2)"
    named = ", ".join(f"{role}: {column}" for role, column in roles)
    new_numbers = " Each ranking has a new number in place of a person." if layout == "long" else ""
    return (
        f"Wrote {out}: a synthetic ranking for each true one, with its epsilon, in random order and"
        f" without names.{new_numbers}\nMoving one item of a ranking anywhere changes the"
        " probability of each result by at most e^epsilon; between any two rankings of the same m"
        f" items the exponent is {whole}.\nThe file does not hide which items a person ranked."
        " Privatising the same rankings"
        " again costs their epsilon again: keep this file. hushrank attack shows what repeating it"
        " would give away.\nIn the job that ranks it:"
        f"\n  input:   {{kind: rankings, layout: {layout}, columns: {{{named}}}}}"
        f"\n  privacy: {{unit: local, mechanism: {form.mechanism}, already_private: true, {own}}}"
    )


def _told_of_pairs(
    out: Path, laws: tuple[RandomPairs, ...], columns: PairColumns, *, chosen: bool
) -> str:
    from hushrank.pipelines.privatize.rankings_file import EPSILON
    from hushrank.privacy.random_pairs import Hide

    law, several = laws[-1], len({each.pairs for each in laws}) > 1

    items = law.hide is Hide.ITEMS
    roles = [("left", columns.left), ("right", columns.right), ("outcome", columns.outcome)]
    roles += [] if columns.length is None else [("length", columns.length)]
    roles += [("epsilon", EPSILON)] if chosen else []
    named = ", ".join(f"{role}: {column}" for role, column in roles)
    other = "items and order" if items else "order of its items"
    shown = "" if items else "\nThe file does not hide which items a person ranked."
    hide = ", hide: items" if items else ""
    answers = "answer" if law.pairs == 1 else "answers"
    number = f"at most {law.pairs}" if several else f"{law.pairs}"
    pairs = "" if several else f" pairs: {law.pairs}{hide},"
    pairs = hide.removeprefix(",") + "," * bool(hide) if several else pairs
    own = f"epsilon: {law.epsilon:g}"
    loss = f"epsilon = {law.epsilon:g}"
    if chosen:
        own = f"epsilon_range: [{laws[0].epsilon:g}, {law.epsilon:g}]"
        loss = "the epsilon in its row: its own, rounded down to one of the levels of the range"
    return (
        f"Wrote {out}: {number} private {answers} of each ranking, in random order and without"
        f" names.\nAny other {other} would change the probability of no result by more than"
        f" e^epsilon, {loss}.{shown}\nPrivatising the same rankings again costs"
        " their epsilon again: keep this file.\nIn the job that ranks it:"
        f"\n  input:   {{kind: rankings, layout: pairs, columns: {{{named}}}}}"
        f"\n  privacy: {{unit: local, mechanism: random-pairs,{pairs} already_private: true,"
        f" {own}}}"
    )


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
        help="A Parquet, CSV or JSONL file of answers, or of rankings with --kind rankings; or a"
        " PrefLib file.",
    ),
]
Out = Annotated[Path, typer.Option(help="The new file; its extension decides its format.")]
Kind = Annotated[str, typer.Option(help="comparisons or rankings.")]
Epsilon = Annotated[
    float | None,
    typer.Option(help="Epsilon of each answer or ranking, or of each person (see --budget)."),
]
EpsilonColumn = Annotated[
    str | None, typer.Option(help="The column that holds each row's epsilon.")
]
EpsilonTable = Annotated[
    Path | None, typer.Option(help="A CSV or Parquet file with the columns user and epsilon.")
]
EpsilonRange = Annotated[
    tuple[float, float] | None,
    typer.Option(
        metavar="LOW HIGH", help="Lowest and highest epsilon; rows with another are left out."
    ),
]
Budget = Annotated[
    str, typer.Option(help="per_comparison, or per_user: split evenly over the person's answers.")
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
Rank = Annotated[str, typer.Option(help="For rankings: the column of the item's rank, 1 = best.")]
Ranking = Annotated[
    str | None,
    typer.Option(help="For rankings: instead, the column with a list of items, best first."),
]
Contest = Annotated[
    str | None,
    typer.Option(help="For rankings: the column that identifies each ranking of a person."),
]
Mechanism = Annotated[
    str, typer.Option(help="For rankings: mallows, laplace-ranks or random-pairs.")
]
Pairs = Annotated[
    int | None,
    typer.Option(
        help="With random-pairs: how many pairs of a ranking to release; default: the number with"
        " the smallest error."
    ),
]
Hide = Annotated[
    str,
    typer.Option(help="With random-pairs: order, or items to hide also which items were ranked."),
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

    The new file holds items, privatised outcomes, synthetic rankings or private answers to pairs,
    and epsilon, in random order and without names of people.
    """
    if sum(given is not None for given in (epsilon, epsilon_column, epsilon_table)) != 1:
        raise ConfigError("Give exactly one of --epsilon, --epsilon-column and --epsilon-table.")
    if not out.parent.is_dir():
        raise ConfigError(f"--out: {out.parent}: no such folder. Make it, or name another.")
    from hushrank.flows.config.section import check_can_be_made

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
    reasons = _write_answers(answers, out, columns, source, divided)
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
    """Return the kind of the file; refuse options that belong to another kind."""
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
            "Epsilons from a column or table need bounds: add for example --epsilon-range 0.1 5."
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


def _write_answers(
    answers: Path, out: Path, columns: AnswerColumns, source: EpsilonSource, divided: AnswerBudget
) -> tuple[str, ...]:
    """Write the new file; return why rows were left out."""
    from hushrank.flows.reading import read_apart
    from hushrank.pipelines.privatize.answers_file import write_private_answers
    from hushrank.pipelines.simulate.simulate import WRITTEN_ENDINGS
    from hushrank.transforms.common.schema import InputError
    from hushrank.transforms.storage.files import list_files
    from hushrank.transforms.storage.places import nothing_half_written

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
        raise ConfigError.from_input(error) from None
