"""The exact counts of the last nights of a stream, as long as a band needs them. Confidential.

A night is released as a sum over the last `bands` nights (`privacy.stream`), so the exact counts of
`bands - 1` nights wait for the next one, as confidential as those of the night itself.
"""

from __future__ import annotations

import io

import numpy as np
from numpy.typing import NDArray

from hushrank.transforms.common.schema import InputError
from hushrank.transforms.storage.write import npz_bytes, read_whole, write_whole
from hushrank.transforms.streams.stream_folder import (
    CELLS,
    check_stream,
    delete_nights,
    intact,
    night_name,
)

Counts = NDArray[np.int64]


def keep_cells(folder: str, stream: str, night: int, counts: Counts) -> None:
    """Keep the exact counts of a night, before its noise is drawn; a repeated night overwrites."""
    content = npz_bytes(stream=np.array(stream), night=np.array(night), counts=counts)
    write_whole(_path(folder, night), content)


def recent_cells(folder: str, stream: str, night: int, bands: int) -> list[Counts]:
    """What `privacy.stream.released_night` takes: the night itself first, then those before it.

    Args:
        folder: of the stream.
        stream: what names it.
        night: from 0; its counts are kept already.
        bands: of the encoder.

    Raises:
        InputError: a night is missing, or is another stream's or another night's.
    """
    return [_read(folder, stream, each) for each in range(night, max(night - bands, -1), -1)]


def forget_cells(folder: str, night: int, bands: int) -> None:
    """Delete the counts that no night after `night` needs. To repeat it does no harm."""
    delete_nights(folder, CELLS, night - bands + 1)


def _path(folder: str, night: int) -> str:
    return f"{folder}/{CELLS}/{night_name(night)}.npz"


def _read(folder: str, stream: str, night: int) -> Counts:
    path = _path(folder, night)
    try:
        content = read_whole(path)
    except FileNotFoundError:
        raise InputError(
            f"{path} is missing: counts of night {night} are part of the night to be drawn. Run the"
            " nights in order; if the file was lost, restore it or start a new stream."
        ) from None
    with intact(path), np.load(io.BytesIO(content)) as arrays:
        check_stream(path, str(arrays["stream"]), stream)
        if int(arrays["night"]) != night:
            raise InputError(f"{path}: holds another night. Restore the file of night {night}.")
        counts: Counts = arrays["counts"]
        return counts
