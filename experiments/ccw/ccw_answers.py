"""Answers of a file, for experiment 8 of [CCW] (§4.3: students' choice of a university).

References:
    [CCW] Cai, Chakraborty, Wang. Optimal differentially private ranking from pairwise comparisons.
        2025.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pa_parquet
from numpy.typing import NDArray

from hushrank.estimation.common.matrices import PairCounts

COLUMNS = ("user", "item_i", "item_j", "outcome")


@dataclass(frozen=True, slots=True)
class Answers:
    """Pair counts of a file and how large it is.

    Attributes:
        counts: with ties split: half a win of each item.
        decided: without the ties.
        users: people in the file, with answers that are ties or not.
        most_rows: L, the most answers of a person, ties among them: how many were asked for is
            public, and how many of them ended in a tie is not.
    """

    counts: PairCounts
    decided: PairCounts
    users: int
    most_rows: int


def read_answers(path: Path) -> Answers:
    """Read a Parquet or CSV file with the columns user, item_i, item_j and outcome.

    The outcome is 1 where item_i was preferred, -1 where item_j was, 0 for a tie.

    Raises:
        ValueError: a column is missing, an outcome is another number, or somebody answered a pair
            twice.
    """
    table = pa_csv.read_csv(path) if path.suffix == ".csv" else pa_parquet.read_table(path)
    missing = [name for name in COLUMNS if name not in table.column_names]
    if missing:
        have = ", ".join(table.column_names)
        raise ValueError(f"{path}: column {missing[0]} not found; it has {have}")
    user, first, second, outcome = (_integers(path, table, name) for name in COLUMNS)
    if not np.isin(outcome, (-1, 0, 1)).all():
        raise ValueError(f"{path}: column outcome must hold 1, 0 and -1 only")
    _, items = np.unique(np.stack([first, second]), return_inverse=True)
    first, second = items.reshape(2, -1)
    n = int(items.max()) + 1
    pair = np.minimum(first, second) * n + np.maximum(first, second)
    if (first == second).any() or len(np.unique(np.stack([user, pair]), axis=1).T) < len(pair):
        raise ValueError(f"{path}: each user may answer each pair of two items once")
    halves, decided = np.zeros((2, n, n), np.int64)
    for winner, loser, won in ((first, second, outcome), (second, first, -outcome)):
        np.add.at(halves, (winner, loser), won + 1)
        np.add.at(decided, (winner, loser), won == 1)
    rows = np.unique(user, return_counts=True)[1]
    return Answers(
        PairCounts(halves, row_weight=2), PairCounts(decided), len(rows), int(rows.max())
    )


def _integers(path: Path, table: pa.Table, name: str) -> NDArray[np.int64]:
    column = table.column(name)
    if column.null_count or not pa.types.is_integer(column.type):
        raise ValueError(f"{path}: column {name} must hold whole numbers, none missing")
    return np.asarray(column.to_numpy(), np.int64)
