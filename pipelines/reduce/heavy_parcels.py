"""Keep what an engine carries of one partition small, however many rows one person has.

An engine brings all parcels of a partition together: in the memory of its own workers, and then in
that of ours, before anything of them can be bounded. Without heavy people that is a fair part of
the rows. A parcel that is much larger than a fair part of what its reader has goes to a file that
all workers reach, and only its place travels; whoever bounds the partition reads it piece by piece,
as on one machine. A reader decides by its own rows alone, so nobody has to know who is heavy.

What travels of a partition is then at most `TIMES` fair parts of all rows, and `SMALL_BYTES` of
each parcel.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from hushrank.transforms.common.sorting import Words
from hushrank.transforms.comparisons.shuffle import OwnedParcel
from hushrank.transforms.storage.spill_file import SpillFolder

TIMES = 2
SMALL_BYTES = 1 << 15  # no file for so few, of which a partition's share differs by chance


def lightened(
    parcels: Sequence[tuple[int, Any]], n_partitions: int, folder: SpillFolder
) -> Iterator[tuple[int, Any]]:
    """The same parcels, of which the heavy ones wait in a file.

    Args:
        parcels: all that one reader made of its rows at one time: partitions, and what a `Kind`
            packs for each; they hold their rows.
        n_partitions: among which rows are divided.
        folder: where the file is written, before the first parcel is returned.

    Raises:
        OSError: the file cannot be written.
    """
    rows = [_rows_of(parcel) for _, parcel in parcels]
    fair = TIMES * sum(part.nbytes for part in rows) // n_partitions + SMALL_BYTES
    heavy = [number for number, part in enumerate(rows) if part.nbytes > fair]
    places = folder.write([rows[number] for number in heavy]) if heavy else []
    place_of = dict(zip(heavy, places, strict=True))
    for number, (partition, parcel) in enumerate(parcels):
        if number not in place_of:
            yield partition, parcel
        elif isinstance(parcel, OwnedParcel):
            yield partition, replace(parcel, content=place_of[number])
        else:
            yield partition, (parcel[0], (place_of[number], rows[number].size))


def _rows_of(parcel: Any) -> Words:
    if not isinstance(parcel, OwnedParcel):
        return np.frombuffer(parcel[1], np.uint64)
    if not isinstance(parcel.content, np.ndarray):
        raise ValueError("the parcel's rows are in a file already")
    return parcel.content
