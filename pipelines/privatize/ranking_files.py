"""Items and contests in files of rankings, and their rows by contest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from hushrank.transforms.common.catalogue import Catalogue
from hushrank.transforms.common.schema import InputError, is_text, items_in, names_in
from hushrank.transforms.rankings.ranking_columns import ListColumns, RankColumns, of_contest
from hushrank.transforms.storage.read import read_batches
from hushrank.transforms.storage.split import Split

RankingColumns = RankColumns | ListColumns
NO_CONTEST = ""


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
