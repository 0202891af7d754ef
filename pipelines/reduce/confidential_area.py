"""What a reduction leaves in the confidential folder besides its exact arrays."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable

import pyarrow as pa

from hushrank.pipelines.reduce.reduction_job import (
    BITS_FILE,
    EXACT_FILE,
    REJECTS_FOLDER,
    TALLY_FILE,
)
from hushrank.privacy.bits_used import BitsUsed
from hushrank.transforms.common.encode import text_of_rejects
from hushrank.transforms.storage.read import ReadBatch, Split
from hushrank.transforms.storage.write import parquet_bytes, read_whole, write_whole


def set_aside(folder: str, source: str, table: pa.Table) -> None:
    """Keep rejected rows; the name follows from where they came from, so a retry overwrites."""
    table = table.append_column("source", pa.array([source] * len(table), pa.string()))
    name = hashlib.sha256(source.encode()).hexdigest()[:24]
    write_whole(f"{folder}/{REJECTS_FOLDER}/{name}.parquet", parquet_bytes(table))


def set_batch_aside(
    folder: str, split: Split, number: int, batch: ReadBatch, rejects: Iterable[pa.Table]
) -> dict[str, int]:
    """Keep the rows of a batch that broke a rule, and its lines that are no rows.

    Args:
        folder: the confidential folder.
        split: where the batch was read.
        number: of the batch within it.
        batch: as it was read.
        rejects: its rows that broke a rule, each table with a column `reason`.

    Returns:
        What the batch adds to the tally of rows.
    """
    tables = [*batch.rejects, *rejects]
    if batch.malformed:
        tables.append(text_of_rejects(batch.malformed, split.schema))
    for part, table in enumerate(tables):
        set_aside(folder, f"{split.name}#{number}.{part}", table)
    return {
        "rows_read": len(batch.rows) + len(batch.malformed) + sum(map(len, batch.rejects)),
        "rows_rejected": sum(map(len, tables)),
    }


def write_tally(folder: str, tally: dict[str, int]) -> None:
    """Keep exact counts of what happened to the rows, for the operator alone."""
    content = json.dumps(tally, indent=1, sort_keys=True)
    write_whole(f"{folder}/{TALLY_FILE}", content.encode())


def read_tally(folder: str) -> dict[str, int]:
    """What `write_tally` kept."""
    tally: dict[str, int] = json.loads(read_whole(f"{folder}/{TALLY_FILE}"))
    return tally


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
    except FileNotFoundError:
        return False


def has_rejects(folder: str) -> bool:
    """Whether `write_tally` kept a count of rejected rows."""
    return bool(read_tally(folder).get("rows_rejected"))
