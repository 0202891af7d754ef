"""Collect the synthetic rankings of one person from released files, for the inference attack.

These files are public; the result may be shown to anybody.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hushrank.pipelines.privatize.ranking_files import RankingColumns, occurring
from hushrank.privacy.keyed_hash import KEY_BYTES, KeyedHash
from hushrank.transforms.common.catalogue import Catalogue
from hushrank.transforms.common.encode import MALFORMED
from hushrank.transforms.common.epsilons import OUT_OF_RANGE, EpsilonSource
from hushrank.transforms.common.schema import InputError
from hushrank.transforms.rankings.ranking_columns import ListColumns, of_contest
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

MOST_RANKINGS = 1_000_000  # most rankings of one person; each is a row in memory


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
