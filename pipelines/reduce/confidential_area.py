"""What a reduction leaves in the confidential folder besides its exact arrays."""

from __future__ import annotations

import hashlib
import json

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hushrank.pipelines.reduce.reduction_job import (
    BITS_FILE,
    EXACT_FILE,
    REJECTS_FOLDER,
    TALLY_FILE,
)
from hushrank.privacy.bits_used import BitsUsed
from hushrank.privacy.units import Unit
from hushrank.transforms.storage.write import parquet_bytes, read_whole, write_whole


def set_aside(folder: str, source: str, table: pa.Table) -> None:
    """Keep rejected rows; the name follows from where they came from, so a retry overwrites."""
    table = table.append_column("source", pa.array([source] * len(table), pa.string()))
    name = hashlib.sha256(source.encode()).hexdigest()[:24]
    write_whole(f"{folder}/{REJECTS_FOLDER}/{name}.parquet", parquet_bytes(table))


def write_tally(folder: str, tally: dict[str, int]) -> None:
    """Keep exact counts of what happened to the rows, for the operator alone."""
    content = json.dumps(tally, indent=1, sort_keys=True)
    write_whole(f"{folder}/{TALLY_FILE}", content.encode())


def read_tally(folder: str) -> dict[str, int]:
    """What `write_tally` kept."""
    tally: dict[str, int] = json.loads(read_whole(f"{folder}/{TALLY_FILE}"))
    return tally


def read_votes(folder: str, unit: Unit) -> NDArray[np.int64]:
    """Votes of what was reduced that rows fit, and that they do not, shape (2,): `privacy.look`.

    Args:
        folder: of a reduction of comparisons that is done; of unit `user` people voted in it.
        unit: who votes: people, or rows that can be counted against rows that broke a rule.
    """
    tally = read_tally(folder)
    if unit is Unit.USER:
        names = ("people_fit", "people_unfit")
    else:  # where rows meet, they are counted as they are sent; else as they are read
        names = ("rows_sent" if "rows_sent" in tally else "rows_kept", "rows_rejected")
    return np.array([tally.get(name, 0) for name in names], np.int64)


def write_bits(folder: str, bits: BitsUsed) -> None:
    """Keep which random bits the exact arrays were made with."""
    write_whole(f"{folder}/{BITS_FILE}", json.dumps(bits.to_dict()).encode())


def read_bits(folder: str) -> BitsUsed:
    """What `write_bits` kept.

    Raises:
        FileNotFoundError: nothing.
    """
    return BitsUsed.from_dict(json.loads(read_whole(f"{folder}/{BITS_FILE}")))


def is_reduced(folder: str) -> bool:
    """Whether a reduction is done: each of its results is written whole and at its end."""
    try:
        return all(read_whole(f"{folder}/{name}") for name in (EXACT_FILE, BITS_FILE, TALLY_FILE))
    except (FileNotFoundError, IsADirectoryError):
        return False


def has_rejects(folder: str) -> bool:
    """Whether `write_tally` kept a count of rejected rows."""
    return bool(read_tally(folder).get("rows_rejected"))
