"""The exact counts of the last nights of a stream, as long as a band needs them. Confidential.

A night is released as a sum over the last `bands` nights (`privacy.stream`), so the exact counts of
`bands - 1` nights wait for the next one, as confidential as those of the night itself.

The counts of a night name the people of the attempt that made them. So counts and people of two
attempts are never taken for those of one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hushrank.transforms.common.schema import InputError
from hushrank.transforms.storage.write import npz_arrays, npz_bytes, write_whole
from hushrank.transforms.streams.stream_folder import (
    CELLS,
    check_stream,
    delete_nights,
    intact,
    night_name,
    read_kept,
)

Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Recent:
    """What `privacy.stream.released_night` takes, and whose rows it counts.

    Attributes:
        counts: of the night itself first, then of those before it.
        people: digest of the people of the night.
    """

    counts: list[Counts]
    people: str


def keep_cells(folder: str, stream: str, night: int, counts: Counts, people: str) -> None:
    """Keep the exact counts of a night, before its noise is drawn; a repeated night overwrites.

    Args:
        folder: of the stream.
        stream: what names it.
        night: from 0.
        counts: of the rows that count.
        people: digest of those whose rows count, made in the same attempt.
    """
    content = npz_bytes(
        stream=np.array(stream), night=np.array(night), people=np.array(people), counts=counts
    )
    write_whole(_path(folder, night), content)


def recent_cells(folder: str, stream: str, night: int, earlier: Sequence[str]) -> Recent:
    """The counts of a night and of those before it that it is made of.

    Args:
        folder: of the stream.
        stream: what names it.
        night: from 0; its counts are kept already.
        earlier: digests of the people of the nights before that are part of it, the last first.

    Raises:
        InputError: a night is missing, or is another stream's, another night's or another
            attempt's.
    """
    counts, people = _read(folder, stream, night)
    recent = [counts]
    for each, expected in enumerate(earlier, 1):
        counts, found = _read(folder, stream, night - each)
        if found != expected:
            raise InputError(
                f"{_path(folder, night - each)}: is not what night {night - each} was drawn from."
                " Restore the folder of the stream as it was after its last night; nothing was"
                " released."
            )
        recent.append(counts)
    return Recent(recent, people)


def forget_cells(folder: str, night: int, bands: int) -> None:
    """Delete the counts that no night after `night` needs. To repeat it does no harm."""
    delete_nights(folder, CELLS, night - bands + 1)


def _path(folder: str, night: int) -> str:
    return f"{folder}/{CELLS}/{night_name(night)}.npz"


def _read(folder: str, stream: str, night: int) -> tuple[Counts, str]:
    path = _path(folder, night)
    try:
        content = read_kept(path)
    except FileNotFoundError:
        raise InputError(
            f"{path} is missing: its counts are part of the night to be drawn. Run the nights in"
            " order; if the file was lost, restore it or start a new stream."
        ) from None
    with intact(path):
        arrays = npz_arrays(content)
        check_stream(path, str(arrays["stream"]), stream)
        if int(arrays["night"]) != night:
            raise InputError(f"{path}: holds another night. Restore the file of that name.")
        counts: Counts = arrays["counts"]
        return counts, str(arrays["people"])
