"""Columns that the path of a file tells: `language=de/date=2026-11-20/part.parquet`.

Engines that write such folders leave these columns out of the files. So the folders are part of
what their rows say, and public settings say which of them count.
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import unquote

import numpy as np
import pyarrow as pa

from hushrank.transforms.common.schema import InputError

NO_VALUE = "__HIVE_DEFAULT_PARTITION__"  # name of a folder of rows that have none

Partitions = tuple[tuple[str, str | None], ...]  # name and value of each column


def partitions_of(path: str, names: Sequence[str]) -> Partitions:
    """The value of each column that folders of a path tell.

    Raises:
        InputError: a column has no such folder, or two.
    """
    found = []
    for name in names:
        told = [part for part in path.split("/")[:-1] if part.startswith(f"{name}=")]
        if len(told) != 1:
            raise InputError(
                f"{path}: {'two folders' if told else 'no folder'} {name}=… in the path. Correct"
                " input.partitions, or move the file."
            )
        value = unquote(told[0].partition("=")[2])
        found.append((name, None if value == NO_VALUE else value))
    return tuple(found)


def with_fields(schema: pa.Schema, partitions: Partitions) -> pa.Schema:
    """The schema of a file with the columns that its path tells, which are text."""
    for name, _ in partitions:
        schema = schema.append(pa.field(name, pa.string()))
    return schema


def with_columns(rows: pa.RecordBatch, partitions: Partitions) -> pa.RecordBatch:
    """Rows of a file with the columns that its path tells, as dictionaries of one text."""
    for name, value in partitions:
        codes = pa.array(np.zeros(len(rows), np.int32))
        values = pa.array([value], pa.string())
        rows = rows.append_column(name, pa.DictionaryArray.from_arrays(codes, values))
    return rows
