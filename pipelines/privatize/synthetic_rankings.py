"""Read files of rankings by contest, and collect one person's synthetic rankings for the attack.

Files of synthetic rankings are public; the result may be shown to anybody.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hushrank.privacy.keyed_hash import KEY_BYTES, KeyedHash
from hushrank.transforms.common.catalogue import Catalogue
from hushrank.transforms.common.encode import MALFORMED
from hushrank.transforms.common.epsilons import OUT_OF_RANGE, EpsilonSource
from hushrank.transforms.common.schema import InputError, is_text, items_in, names_in
from hushrank.transforms.rankings.ranking_columns import ListColumns, RankColumns, of_contest
from hushrank.transforms.rankings.rankings import (
    Pieces,
    Rankings,
    assemble,
    encode_lists,
    encode_ranks,
)
from hushrank.transforms.storage.files import InputFile, check_files
from hushrank.transforms.storage.read import plan_splits, read_batches
from hushrank.transforms.storage.split import Split

RankingColumns = RankColumns | ListColumns
NO_CONTEST = ""
MOST_RANKINGS = 1_000_000  # most rankings of one person; each is a row in memory


@dataclass(frozen=True, slots=True)
class Occurring:
    """Items and contests that occur in files.

    Attributes:
        catalogue: the items.
        as_text: whether the files name items by text; otherwise by integers.
        contest_type: type of the column of contests.
    """

    catalogue: Catalogue
    as_text: bool
    contest_type: pa.DataType


def occurring(splits: Sequence[Split], columns: RankingColumns) -> Occurring:
    """Read the files and collect the items and contests that occur.

    Raises:
        InputError: a file cannot be read, or fewer than two items occur.
    """
    names = set[str]()
    for split in splits:
        for batch in read_batches(split):
            names |= items_in([_items(batch.rows, columns)])
    if len(names) < 2:
        raise InputError(f"{splits[0].file.path}: fewer than two items occur. Nothing was written.")
    schema = splits[0].schema
    items = schema.field(columns.item if isinstance(columns, RankColumns) else columns.ranking).type
    contest = pa.string() if columns.contest is None else schema.field(columns.contest).type
    return Occurring(
        catalogue=Catalogue(tuple(sorted(names))),
        as_text=is_text(items if isinstance(columns, RankColumns) else items.value_type),
        contest_type=pa.string() if is_text(contest) else pa.int64(),
    )


def rows_by_contest(
    rows: pa.RecordBatch, columns: RankingColumns
) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The rows of each contest; rows without a contest are left out."""
    if columns.contest is None:
        yield NO_CONTEST, rows
        return
    for contest in sorted(names_in([rows[columns.contest]])):
        yield contest, of_contest(rows, columns.contest, contest)


def _items(rows: pa.RecordBatch, columns: RankingColumns) -> pa.Array:
    if isinstance(columns, RankColumns):
        return rows[columns.item]
    return rows[columns.ranking].flatten()


@dataclass(frozen=True, slots=True)
class SyntheticRankings:
    """Rankings of the same items.

    Attributes:
        items: names of the items.
        rows: shape (N, m), codes of the names, best first.
        epsilon: shape (N,).
    """

    items: tuple[str, ...]
    rows: NDArray[np.int64]
    epsilon: NDArray[np.float64]


def collect_rankings(
    files: Sequence[InputFile],
    columns: RankingColumns,
    person: str | None,
    epsilons: EpsilonSource,
) -> SyntheticRankings:
    """The synthetic rankings of one person in `files`; each file is a release of its own.

    Args:
        files: files with columns `columns`.
        columns: the role of each column.
        person: the person, as the column of people names them; None: all rankings are one person's.
        epsilons: the source of the rankings' epsilons.

    Raises:
        InputError: a file cannot be read, a ranking breaks a rule, there are no rankings or too
            many, or they have different items.
    """
    schemas = check_files(files, columns)
    of_files = [plan_splits(file, schemas[file.path], columns) for file in files]
    catalogue = occurring([split for splits in of_files for split in splits], columns).catalogue
    parts, most = [], MOST_RANKINGS
    for file, splits in zip(files, of_files, strict=True):
        try:
            parts.append(_of_file(splits, columns, person, epsilons, catalogue))
        except ValueError as error:
            raise InputError(f"{file.path}: {error}") from None
        most -= len(parts[-1])
        if most < 0:
            raise InputError(f"{file.path}: more than {MOST_RANKINGS:,} rankings; name a --person.")
    return _of_same_items(Rankings.concatenated(parts), catalogue, person)


def _of_file(
    splits: Sequence[Split],
    columns: RankingColumns,
    person: str | None,
    epsilons: EpsilonSource,
    catalogue: Catalogue,
) -> Rankings:
    n_items, keyed_hash = len(catalogue), KeyedHash(bytes(KEY_BYTES))  # nothing here is secret
    lists: list[Rankings] = []
    pieces: list[Pieces] = []
    for rows in _rows(splits, columns.user, person):
        if isinstance(columns, ListColumns):
            found = encode_lists(rows, columns, catalogue, epsilons, None, None, n_items)
            lists.append(found.rows)
            _refuse(found.rejects)
        else:
            ranks = encode_ranks(rows, columns, catalogue, epsilons, None, keyed_hash)
            pieces.append(ranks.rows)
            _refuse(ranks.rejects)
    if isinstance(columns, ListColumns):
        return Rankings.concatenated(lists)
    assembled = assemble(Pieces.concatenated(pieces), catalogue, n_items, keep_ties=False)
    _refuse(assembled.rejects)
    return assembled.rows


def _rows(
    splits: Sequence[Split], user: str | None, person: str | None
) -> Iterator[pa.RecordBatch]:
    for split in splits:
        for batch in read_batches(split):
            if batch.malformed:
                raise ValueError(f"{MALFORMED}. Correct the file.")
            for rejected in batch.rejects:
                _refuse(rejected)
            if person is None or user is None:
                yield batch.rows
            else:
                yield of_contest(batch.rows, user, person)


def _refuse(rejects: pa.Table | None) -> None:
    if rejects is not None:
        reason = rejects["reason"][0].as_py()
        rule = "an epsilon is not finite and > 0" if reason == OUT_OF_RANGE else reason
        raise ValueError(f"{rule}. Correct the file.")


def _of_same_items(
    rankings: Rankings, catalogue: Catalogue, person: str | None
) -> SyntheticRankings:
    if not len(rankings):
        whose = "There is no ranking" if person is None else f"There is no ranking of {person}"
        raise InputError(f"{whose} in the files.")
    m = int(rankings.lengths[0])
    rows = rankings.items.reshape(-1, m) if (rankings.lengths == m).all() else None
    if rows is None or (np.sort(rows, axis=1) != np.sort(rows[0])).any():
        raise InputError(
            "The rankings hold different items, so they are not synthetic rankings of one. Name"
            " whose they are with --user and --person, and give files of one contest."
        )
    chosen = np.sort(rows[0])
    names = tuple(catalogue.names[code] for code in chosen.tolist())
    return SyntheticRankings(names, np.searchsorted(chosen, rows), rankings.epsilon)
