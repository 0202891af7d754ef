"""What a night of a stream shows, from what the nights before it have shown.

Row t of A C^-1 y is s_t with C s = A y, because Toeplitz matrices commute. So with integers
c_0 ... c_{b-1} of C and w_t = sum_{i < W} y_{t-i}, row t of A y,

    s_t = (w_t - sum_{0 < i < b} c_i s_{t-i}) / c_0.

A night therefore reads what it has drawn, w of the night before, which is exact in integers, the
b - 1 last s, and y_{t-W}, the night that leaves the window: at most b + 1 files, however long the
stream is. All of it is computed from what was drawn and needs no protection; it is kept to save
work. A file belongs to the night that was drawn with the people that it names
(`transforms.streams.released_files.Drawn.lineage`). Where one is missing, damaged or belongs to
another, all of them are made again from everything drawn so far.

The recursion is as exact as the direct sum: |C^-1| is small, so rounding of one night fades.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hushrank.privacy.stream import Stream
from hushrank.transforms.common.schema import InputError
from hushrank.transforms.storage.cloud_storage import is_cloud
from hushrank.transforms.storage.write import npz_arrays, npz_bytes, write_whole
from hushrank.transforms.streams.released_files import Drawn, drawn_night, released_path
from hushrank.transforms.streams.stream_folder import (
    SHOWN,
    check_stream,
    delete,
    delete_nights,
    intact,
    night_name,
    read_kept,
)

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Shown:
    """What a night shows.

    Attributes:
        cells: s_t, in counts, in the shape of a night.
        window: w_t, in units of 2^-20.
        sums: of the noisy numbers of each night so far, of all groups, in units of 2^-20; without
            those on the diagonal of a matrix, where nothing is counted. Shape (nights,).
    """

    cells: Floats
    window: Integers
    sums: Integers


def shown_of(
    folder: str, name: str, night: int, stream: Stream, drawn: Drawn, *, pairs: bool
) -> Shown:
    """What is shown on a night, which is then kept for the nights after it.

    Args:
        folder: of the stream.
        name: of the stream and all of its terms.
        night: from 0.
        stream: the terms and the law.
        drawn: what was drawn for it.
        pairs: whether its cells are matrices of pairs, on whose diagonal nothing is counted.

    Raises:
        InputError: a night that is needed was not drawn, or belongs to something else.
    """
    found = _kept(folder, name, night, drawn.people)
    if found is not None:
        return found
    before = _before(folder, name, night, stream, drawn)
    if before is None:
        return _made_again(folder, name, night, stream, drawn, pairs=pairs)
    leaving = _leaving(folder, name, night, stream)
    shown = _next(stream, before, drawn.released, leaving, pairs=pairs)
    _keep(folder, name, night, stream, drawn, shown)
    return shown


def forget_shown(folder: str, night: int, bands: int) -> None:
    """Delete what no night after `night` needs. To repeat it does no harm."""
    delete_nights(folder, SHOWN, min(night - bands + 1, night - 1))


@dataclass(slots=True)
class _Before:
    """What a night needs of those before it.

    Attributes:
        cells: sum over 0 < i < b of c_i s_{t-i}; 0 on the first night.
        window: w_{t-1}.
        sums: of all nights before it.
    """

    cells: Floats
    window: Integers
    sums: Integers


def _before(folder: str, name: str, night: int, stream: Stream, drawn: Drawn) -> _Before | None:
    """Of the files that are kept, each read once; None: one is missing."""
    if night == 0:
        return _Before(np.zeros(()), np.zeros((), np.int64), np.zeros(0, np.int64))
    found, last = np.zeros(()), None
    for lag, digest in enumerate(drawn.lineage[1:], 1):
        shown = _kept(folder, name, night - lag, digest)
        if shown is None:
            return None
        last = last or shown
        if lag < stream.encoder.bands:
            found = found + stream.encoder.coefficients[lag] * shown.cells
    return None if last is None else _Before(found, last.window, last.sums)


def _next(
    stream: Stream, before: _Before, released: Integers, leaving: Integers | None, *, pairs: bool
) -> Shown:
    window: Integers = before.window + released
    if leaving is not None:
        window = window - leaving
    nothing = released.trace(axis1=-2, axis2=-1).sum() if pairs else 0
    sums = np.append(before.sums, released.sum() - nothing)
    return Shown((window - before.cells) / stream.encoder.coefficients[0], window, sums)


def _made_again(
    folder: str, name: str, night: int, stream: Stream, drawn: Drawn, *, pairs: bool
) -> Shown:
    """From everything drawn so far."""
    coefficients = stream.encoder.coefficients[1:]
    recent: deque[Shown] = deque(maxlen=max(len(coefficients), 1))  # the last first
    for each in range(night + 1):
        here = drawn if each == night else _needed(folder, name, each, stream)
        before = _Before(np.zeros(()), np.zeros((), np.int64), np.zeros(0, np.int64))
        if recent:
            parts = (c * shown.cells for c, shown in zip(coefficients, recent, strict=False))
            before = _Before(sum(parts, np.zeros(())), recent[0].window, recent[0].sums)
        leaving = _leaving(folder, name, each, stream)
        shown = _next(stream, before, here.released, leaving, pairs=pairs)
        recent.appendleft(shown)
        if each > night - stream.encoder.bands:
            _keep(folder, name, each, stream, here, shown)
    return recent[0]


def _leaving(folder: str, name: str, night: int, stream: Stream) -> Integers | None:
    """y of the night that leaves the window; None: it leaves none."""
    window = stream.workload.window
    if window is None or night < window:
        return None
    return _needed(folder, name, night - window, stream).released


def _needed(folder: str, name: str, night: int, stream: Stream) -> Drawn:
    drawn = drawn_night(folder, name, night, stream)
    if drawn is None:
        raise InputError(
            f"{released_path(folder, night)} is missing: what is shown on later nights is made of"
            " it too. Restore it."
        )
    return drawn


def _keep(folder: str, name: str, night: int, stream: Stream, drawn: Drawn, shown: Shown) -> None:
    if night == stream.terms.nights - 1:  # no night comes after it
        return
    content = npz_bytes(
        stream=np.array(name),
        night=np.array(night),
        people=np.array(drawn.people),
        cells=shown.cells,
        window=shown.window,
        sums=shown.sums,
    )
    path = _path(folder, night)
    if not is_cloud(path) and Path(path).is_dir():  # damage, which no file can replace
        delete(path)
    write_whole(path, content)


def _kept(folder: str, name: str, night: int, people: str) -> Shown | None:
    """What is kept of a night; None: nothing, something else, or a damaged file."""
    path = _path(folder, night)
    try:
        with intact(path):
            arrays = npz_arrays(read_kept(path))
            check_stream(path, str(arrays["stream"]), name)
            if int(arrays["night"]) == night and str(arrays["people"]) == people:
                return Shown(arrays["cells"], arrays["window"], arrays["sums"])
    except (FileNotFoundError, InputError):
        return None
    return None


def _path(folder: str, night: int) -> str:
    return f"{folder}/{SHOWN}/{night_name(night)}.npz"
