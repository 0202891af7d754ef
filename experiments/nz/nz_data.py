"""Answers of a file, for the experiments of [NZ].

References:
    [NZ] Nguyen, Zhang. Optimal and private learning from human response data. 2023.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pa_parquet
from numpy.typing import NDArray

from hushrank.experiments.nz.nz_ratings import sheets_of_ratings
from hushrank.experiments.nz.nz_trial import Sheets

ANSWER_COLUMNS = ("y", "correct")
RATING = "rating"


def read_sheets(path: Path) -> Sheets:
    """Read a Parquet or CSV file in long form: columns user, item, and y or correct (0 or 1).

    With a column rating instead, answers are made of the ratings as in `nz_ratings`.

    Raises:
        ValueError: a column is missing, an answer is not 0 or 1 or given twice, a rating is not a
            number, or there are fewer than 2 items.
    """
    table = pa_csv.read_csv(path) if path.suffix == ".csv" else pa_parquet.read_table(path)
    if {"user", "item", RATING} <= set(table.column_names):
        return _of_ratings(path, table)
    answer = next((name for name in ANSWER_COLUMNS if name in table.column_names), None)
    for name, found in (("user", "user"), ("item", "item"), ("y or correct", answer)):
        if found not in table.column_names:
            have = ", ".join(table.column_names)
            raise ValueError(f"{path}: column {name} not found; it has {have}")
    person, item = (_codes(table.column(name)) for name in ("user", "item"))
    correct = table.column(answer).to_numpy()
    if not np.isin(correct, (0, 1)).all():
        raise ValueError(f"{path}: column {answer} must hold 0 and 1 only, no missing values")
    n_items = int(item.max()) + 1 if len(item) else 0
    if n_items < 2:
        raise ValueError(f"{path}: at least 2 items are needed, found {n_items}")
    right, answered = (np.zeros((int(person.max()) + 1, n_items), np.bool_) for _ in range(2))
    answered[person, item] = True
    if np.count_nonzero(answered) < len(person):
        raise ValueError(f"{path}: a user answers the same item twice")
    right[person, item] = correct == 1
    return Sheets(right, answered)


def _of_ratings(path: Path, table: pa.Table) -> Sheets:
    person, item = (_codes(table.column(name)) for name in ("user", "item"))
    given = table.column(RATING).cast(pa.float64()).to_numpy()
    if not (len(given) and np.isfinite(given).all() and item.max() and person.max()):
        raise ValueError(f"{path}: needs finite ratings of at least 2 items by at least 2 people")
    ratings = np.full((int(person.max()) + 1, int(item.max()) + 1), np.nan)
    ratings[person, item] = given
    return sheets_of_ratings(ratings)


def _codes(column: pa.ChunkedArray) -> NDArray[np.int64]:
    """Codes 0, 1, ... of the values, in their order."""
    _, codes = np.unique(column.to_numpy(), return_inverse=True)
    return np.asarray(codes, np.int64)
