"""`hushrank.privatize`: privatise answers one by one, before anybody collects them."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from hushrank.flows.config.rules import MOST_ITEMS_RANKED
from hushrank.flows.config.section import LEAST_LOSS, MOST_LOSS
from hushrank.flows.errors import ConfigError
from hushrank.flows.interfaces.python.arguments import plainly
from hushrank.flows.interfaces.python.configuration import PathLike
from hushrank.flows.interfaces.python.run import paths_of
from hushrank.flows.interfaces.python.table import Table
from hushrank.flows.interfaces.python.tables import batches_of, table_file
from hushrank.flows.ledger.keys import KEY_BYTES, LedgerKey
from hushrank.flows.reading import read_apart
from hushrank.pipelines.privatize.answers_file import write_private_answers, write_private_rankings
from hushrank.privacy.random_pairs import RandomPairs, laws_of_levels
from hushrank.privacy.randomness import system_bits
from hushrank.transforms.common.epsilons import AnswerBudget, AnswerColumns, EpsilonSource
from hushrank.transforms.common.local_files import home_path
from hushrank.transforms.common.randomisation import RankingMechanism
from hushrank.transforms.common.schema import Columns, InputError
from hushrank.transforms.engine import in_process
from hushrank.transforms.rankings.ranking_columns import ListColumns, RankColumns
from hushrank.transforms.storage.files import FileFormat, InputFile, list_files

OUTCOME = "outcome"


@plainly
def privatize(
    answers: Any,
    *,
    epsilon: float,
    out: PathLike | None = None,
    left: str = "left",
    right: str = "right",
    outcome: str | None = None,
    winner: str | None = None,
    user: str | None = None,
    per_user: bool = False,
    item: str | None = None,
    rank: str = "rank",
    ranking: str | None = None,
    mechanism: str = "mallows",
    break_ties: bool = False,
) -> Table:
    """Privatise each answer, or each ranking, so that no true one need be collected.

    The result has the items, the privatised outcome or a synthetic ranking, and its epsilon, in
    random order and without people. Rank it with `unit="local"` and `already_private=True`.
    Privatising the same answers again costs their epsilon again: keep the result.

    Args:
        answers: a table or the path of a file, as for `rank`.
        epsilon: epsilon of each answer; with `per_user` of all answers of a person together. With
            mechanism `mallows` or `laplace-ranks` it is for one moved item of a ranking.
        out: keep the result in this Parquet file too.
        left, right, outcome, winner: columns of comparisons.
        user: the column of the person, for `per_user`, and for rankings in the layout of one row
            for each item.
        per_user: divide epsilon by the number of the person's answers.
        item, rank: columns of rankings with one row for each ranked item.
        ranking: the column of lists of items, best first.
        mechanism: mechanism for rankings: mallows, laplace-ranks or random-pairs.
        break_ties: put tied items of a ranking in a random order; else such rankings are left out.

    Raises:
        ConfigError: a keyword, a column or the table breaks a rule.
    """
    in_process.choose()  # no graph runs here, so Beam need not be loaded
    if not LEAST_LOSS <= epsilon <= MOST_LOSS:
        raise ConfigError(f"epsilon: must be from {LEAST_LOSS:g} to {MOST_LOSS:g}, got {epsilon!r}")
    source = EpsilonSource(low=epsilon, high=epsilon, value=float(epsilon), table=None)
    if out is not None and Path(out).exists():
        raise ConfigError(f"out: {out} exists already; name a new file.")
    with tempfile.TemporaryDirectory(prefix="hushrank-") as folder:
        made = Path(folder) / "private.parquet"
        if ranking is not None or item is not None:
            columns = _ranking_columns(user, item, rank, ranking)
            with _file_of(answers, columns, Path(folder)) as file:
                _privatize_rankings(file, made, columns, source, mechanism, break_ties)
        else:
            divided = AnswerBudget(per_user=per_user)
            named = _answer_columns(left, right, outcome, winner, user, divided)
            with _file_of(answers, named, Path(folder)) as file:
                asked = (file, made, FileFormat.PARQUET, named, source, divided)
                read_apart(write_private_answers, *asked)
        table = Table(pq.read_table(made))
        if out is not None:
            shutil.copyfile(made, os.fspath(out))
    return table


def _answer_columns(
    left: str,
    right: str,
    outcome: str | None,
    winner: str | None,
    user: str | None,
    divided: AnswerBudget,
) -> AnswerColumns:
    if outcome is not None and winner is not None:
        raise ConfigError("Give one of outcome and winner, not both.")
    if divided.meet and user is None:
        raise ConfigError("user: missing; per_user divides epsilon among a person's answers.")
    return AnswerColumns(
        left=left,
        right=right,
        outcome=None if winner else outcome or OUTCOME,
        winner=winner,
        user=user if divided.meet else None,
        event=None,
        epsilon=None,
    )


def _ranking_columns(
    user: str | None, item: str | None, rank: str, ranking: str | None
) -> RankColumns | ListColumns:
    if ranking is not None:
        return ListColumns(ranking=ranking, user=None, contest=None, epsilon=None)
    return RankColumns(
        user=user or "user", item=item or "item", rank=rank, contest=None, epsilon=None
    )


def _privatize_rankings(
    file: InputFile,
    made: Path,
    columns: RankColumns | ListColumns,
    source: EpsilonSource,
    mechanism: str,
    break_ties: bool,
) -> None:
    from hushrank.pipelines.privatize.rankings_file import PrivateForm

    if mechanism not in list(RankingMechanism):
        raise ConfigError(f"mechanism: must be {', '.join(RankingMechanism)}, got {mechanism!r}")
    chosen = RankingMechanism(mechanism)
    laws: tuple[RandomPairs, ...] = ()
    as_lists = columns.ranking if isinstance(columns, ListColumns) else None
    if chosen is RankingMechanism.RANDOM_PAIRS:
        laws, as_lists = laws_of_levels((source.high,), None, MOST_ITEMS_RANKED), None
    form = PrivateForm(mechanism=chosen, break_ties=break_ties, as_lists=as_lists, laws=laws)
    read_apart(write_private_rankings, file, made, FileFormat.PARQUET, columns, source, form)


@contextmanager
def _file_of(answers: Any, columns: Columns, folder: Path) -> Iterator[InputFile]:
    """Yield the file that a path names, or a copy of a table in a private folder.

    Raises:
        ConfigError: the table is none, or the paths name several files.
    """
    paths = paths_of(answers)
    if paths is None:
        key = LedgerKey(system_bits().take(KEY_BYTES), "")  # nothing is kept under it
        with table_file(batches_of(answers, columns, ()), columns.roles(), folder, key) as file:
            yield file
        return
    try:
        files = list_files([str(home_path(path).absolute()) for path in paths])
    except InputError as error:
        raise ConfigError.from_input(error) from None
    if len(files) != 1:
        raise ConfigError(f"privatize: {len(files)} files are named; privatise one file at a time.")
    yield files[0]
