"""What was drawn for each night of a stream: once, in order, and for good.

A night's noise is drawn in `draw_night` and nowhere else. Whatever is stored first is the release:
to ask again, after a crash or beside another run, gives what is stored. A draw that was not stored
was never shown. So no night has two noises, which would be two releases.

A night names the people it counted, by the digest of their manifest, and those of the nights before
it that its bands reach (`Drawn.lineage`). Whatever else is kept of these nights must name the same.

One thing these files cannot tell: a copy of the whole folder, put back from an earlier time, is
right in itself, and nights after it would be drawn again. So whoever runs a stream notes how many
nights were drawn and the digest of the last one's people (`Drawn.people`) where no such copy can
reach, in the ledger, and hands the digest to the next night (`NightOfStream.before`).
"""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hushrank.privacy.bits_used import BitsUsed, Purpose
from hushrank.privacy.randomness import RandomBits
from hushrank.privacy.stream import Stream, released_night
from hushrank.transforms.common.schema import InputError
from hushrank.transforms.storage.write import npz_arrays, npz_bytes, read_whole, write_once
from hushrank.transforms.streams.cell_files import recent_cells
from hushrank.transforms.streams.people_files import open_people
from hushrank.transforms.streams.stream_folder import (
    RELEASED,
    check_stream,
    intact,
    night_name,
    nights_of,
    read_kept,
)


@dataclass(frozen=True, slots=True, eq=False)
class Drawn:
    """One night's release.

    Attributes:
        released: y_t, in units of 2^-20 of a count.
        lineage: digests of the people of the night, which the next night needs, and of the nights
            before it that it is made of, and at least of the last one; the last first.
        scale: of the noise that was drawn.
        bits: which random bits the night was counted and drawn with.
    """

    released: NDArray[np.int64]
    lineage: tuple[str, ...]
    scale: float
    bits: BitsUsed

    @property
    def people(self) -> str:
        """Digest of the people of the night."""
        return self.lineage[0]


def draw_night(
    folder: str,
    name: str,
    night: int,
    stream: Stream,
    bits: RandomBits,
    counted_with: BitsUsed | None = None,
) -> Drawn:
    """Draw the noise of a night and store the sum; where that was done before, what was stored.

    The night's people and counts are kept already. Nothing may be shown that this did not return.

    Args:
        folder: of the stream.
        name: of the stream and all of its terms.
        night: from 0.
        stream: the terms and the law.
        bits: `system_bits()` in a release.
        counted_with: which random bits the counts were made with.

    Raises:
        InputError: the night before was not drawn, or this night's people or counts are missing.
        ValueError: the night is not one of the stream.
        OSError: it cannot be stored; then nothing was released.
    """
    stream.terms.check_night(night)
    before = drawn_night(folder, name, night - 1, stream) if night else None
    if night and before is None:
        raise InputError(
            f"night {night} of a stream cannot be drawn before night {night - 1}: run the nights in"
            " order, those without answers too; nothing was released."
        )
    found = drawn_night(folder, name, night, stream)
    if found is not None:
        return found
    earlier = () if before is None else before.lineage[: max(stream.encoder.bands - 1, 1)]
    recent = recent_cells(folder, name, night, earlier[: stream.encoder.bands - 1])
    people = open_people(folder, name, night, recent.people)
    if before is not None and people.before != before.people:
        raise InputError(
            f"{people.folder}: follows upon other people than those of night {night - 1}. Restore"
            " the folder of the stream as it was after its last night; nothing was released."
        )
    released = released_night(stream, recent.counts, bits)
    used = (counted_with or BitsUsed()) | BitsUsed.of(Purpose.NOISE, bits.used)
    content = npz_bytes(
        stream=np.array(name),
        night=np.array(night),
        lineage=np.array([people.digest, *earlier]),
        scale=np.array(stream.law.scale),
        coefficients=np.array(stream.encoder.coefficients),
        bits=np.array(json.dumps(used.to_dict())),
        released=released,
    )
    path = released_path(folder, night)
    return _read(path, write_once(path, content), name, night, stream)


def drawn_night(folder: str, name: str, night: int, stream: Stream) -> Drawn | None:
    """What was drawn for a night; None: nothing yet.

    Raises:
        InputError: it was drawn for another stream, another night or under other terms.
    """
    path = released_path(folder, night)
    try:
        content = read_kept(path)
    except FileNotFoundError:
        return None
    return _read(path, content, name, night, stream)


def missing_nights(folder: str, before: int) -> list[int]:
    """The nights before this one of which nothing is stored; what is shown is made of all."""
    stored = {night for night, _ in nights_of(folder, RELEASED)}
    return [night for night in range(before) if night not in stored]


def is_stored(folder: str, night: int) -> bool:
    """Whether something was drawn for a night, of whatever stream."""
    try:
        read_whole(released_path(folder, night))
    except FileNotFoundError:
        return False
    except IsADirectoryError:  # in its place
        return True
    return True


def released_path(folder: str, night: int) -> str:
    """Where what was drawn for a night is."""
    return f"{folder}/{RELEASED}/{night_name(night)}.npz"


def _read(path: str, content: bytes, name: str, night: int, stream: Stream) -> Drawn:
    with intact(path):
        arrays = npz_arrays(content)
        check_stream(path, str(arrays["stream"]), name)
        same = tuple(arrays["coefficients"].tolist()) == stream.encoder.coefficients
        scale = float(arrays["scale"])
        if int(arrays["night"]) != night or not same or scale != stream.law.scale:
            raise InputError(
                f"{path}: was drawn for another night or under other terms. Restore the file of"
                f" night {night}, or run the version that drew it."
            )
        bits = BitsUsed.from_dict(json.loads(str(arrays["bits"])))
        return Drawn(arrays["released"], tuple(arrays["lineage"].tolist()), scale, bits)
