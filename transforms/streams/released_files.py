"""Files of what was drawn and shown for each night of a stream, and of the exact counts before.

A night's noise is drawn in `draw_night` and nowhere else. Whatever is stored first is the release:
to ask again, after a crash or beside another run, gives what is stored. A draw that was not stored
was never shown. So no night has two noises, which would be two releases.

A night names the people it counted, by the digest of their manifest, and those of the nights before
it that its bands reach (`Drawn.lineage`). Whatever else is kept of these nights must name the same.

One thing these files cannot tell: a copy of the whole folder, put back from an earlier time, is
right in itself, and nights after it would be drawn again. So whoever runs a stream notes how many
nights were drawn and the digest of the last one's people (`Drawn.people`) where no such copy can
reach, in the ledger, and hands the digest to the next night (`NightOfStream.before`).

The exact counts of the last nights are kept, confidential, as long as a band needs them. A night is
released as a sum over the last `bands` nights (`privacy.stream`), so the exact counts of
`bands - 1` nights wait for the next one, as confidential as those of the night itself.

The counts of a night name the people of the attempt that made them. So counts and people of two
attempts are never taken for those of one.

A night shows a number that follows from the numbers which the nights before it have shown. Row t of
A C^-1 y is s_t with C s = A y, because Toeplitz matrices commute. So with integers c_0 ... c_{b-1}
of C and w_t = sum_{i < W} y_{t-i}, row t of A y,

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

import json
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hushrank.privacy.randomness import BitsUsed, Purpose, RandomBits
from hushrank.transforms.common.schema import InputError
from hushrank.transforms.storage.places import (
    is_cloud,
    npz_arrays,
    npz_bytes,
    read_whole,
    write_once,
    write_whole,
)
from hushrank.transforms.streams.people_files import open_people
from hushrank.transforms.streams.stream_folder import (
    CELLS,
    RELEASED,
    SHOWN,
    check_stream,
    delete,
    delete_nights,
    intact,
    night_name,
    nights_of,
    read_kept,
)

if TYPE_CHECKING:
    from hushrank.privacy.stream import Stream

Counts = NDArray[np.int64]
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Recent:
    """Counts that `privacy.stream.released_night` takes, and people whose rows they count.

    Attributes:
        counts: counts of the night itself first, then of those before it.
        people: digest of the people of the night.
    """

    counts: list[Counts]
    people: str


def keep_cells(folder: str, stream: str, night: int, counts: Counts, people: str) -> None:
    """Keep the exact counts of a night, before its noise is drawn; a repeated night overwrites.

    Args:
        folder: folder of the stream.
        stream: name of the stream.
        night: number of the night, from 0.
        counts: counts of the rows that count.
        people: digest of those whose rows count, made in the same attempt.
    """
    content = npz_bytes(
        stream=np.array(stream), night=np.array(night), people=np.array(people), counts=counts
    )
    write_whole(_path_of_cells(folder, night), content)


def recent_cells(folder: str, stream: str, night: int, earlier: Sequence[str]) -> Recent:
    """The counts of a night and of those before it that it is made of.

    Args:
        folder: folder of the stream.
        stream: name of the stream.
        night: number of the night, from 0; its counts are kept already.
        earlier: digests of the people of the nights before that are part of it, the last first.

    Raises:
        InputError: a night is missing, or is another stream's, another night's or another
            attempt's.
    """
    counts, people = _read_cells(folder, stream, night)
    recent = [counts]
    for each, expected in enumerate(earlier, 1):
        counts, found = _read_cells(folder, stream, night - each)
        if found != expected:
            raise InputError(
                f"{_path_of_cells(folder, night - each)}: is not what night {night - each} was"
                " drawn from. Restore the folder of the stream as it was after its last night;"
                " nothing was released."
            )
        recent.append(counts)
    return Recent(recent, people)


def forget_cells(folder: str, night: int, bands: int) -> None:
    """Delete the counts that no night after `night` needs. To repeat it does no harm."""
    delete_nights(folder, CELLS, night - bands + 1)


def _path_of_cells(folder: str, night: int) -> str:
    return f"{folder}/{CELLS}/{night_name(night)}.npz"


def _read_cells(folder: str, stream: str, night: int) -> tuple[Counts, str]:
    path = _path_of_cells(folder, night)
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


@dataclass(frozen=True, slots=True, eq=False)
class Drawn:
    """Release of one night.

    Attributes:
        released: y_t, in units of 2^-20 of a count.
        lineage: digests of the people of the night, which the next night needs, and of the nights
            before it that it is made of, and at least of the last one; the last first.
        scale: scale of the noise that was drawn.
        bits: sources of the random bits that the night was counted and drawn with.
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
        folder: folder of the stream.
        name: name of the stream and all of its terms.
        night: number of the night, from 0.
        stream: the terms and the law.
        bits: `system_bits()` in a release.
        counted_with: sources of the random bits that the counts were made with.

    Raises:
        InputError: the night before was not drawn, or this night's people or counts are missing.
        ValueError: the night is not one of the stream.
        OSError: the draw cannot be stored; then nothing was released.
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
    from hushrank.privacy.stream import released_night  # the process that reads rows draws nothing

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
    """Return what was drawn for a night; None: nothing yet.

    Raises:
        InputError: the file was drawn for another stream, another night or under other terms.
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
    """Return the path of what was drawn for a night."""
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


@dataclass(frozen=True, slots=True, eq=False)
class Shown:
    """Numbers that a night shows.

    Attributes:
        cells: s_t, in counts, in the shape of a night.
        window: w_t, in units of 2^-20.
        sums: sums of the noisy numbers of each night so far, of all groups, in units of 2^-20;
            without those on the diagonal of a matrix, where nothing is counted; of groups that
            overlap, of the whole alone. Shape (nights,).
    """

    cells: Floats
    window: Integers
    sums: Integers


def shown_of(
    folder: str,
    name: str,
    night: int,
    stream: Stream,
    drawn: Drawn,
    *,
    pairs: bool,
    overlap: bool = False,
) -> Shown:
    """Compute what a night shows, and keep it for the nights after it.

    Args:
        folder: folder of the stream.
        name: name of the stream and all of its terms.
        night: number of the night, from 0.
        stream: the terms and the law.
        drawn: release of the night.
        pairs: whether its cells are matrices of pairs, on whose diagonal nothing is counted.
        overlap: whether groups overlap, so that the last group of cells is the whole.

    Raises:
        InputError: a night that is needed was not drawn, or belongs to something else.
    """
    found = _kept(folder, name, night, drawn.people)
    if found is not None:
        return found
    before = _before(folder, name, night, stream, drawn)
    if before is None:
        return _made_again(folder, name, night, stream, drawn, pairs=pairs, overlap=overlap)
    leaving = _leaving(folder, name, night, stream)
    answers = _sum_of(drawn.released, pairs=pairs, overlap=overlap)
    shown = _next(stream, before, drawn.released, leaving, answers)
    _keep(folder, name, night, stream, drawn, shown)
    return shown


def forget_shown(folder: str, night: int, bands: int) -> None:
    """Delete what no night after `night` needs. To repeat it does no harm."""
    delete_nights(folder, SHOWN, min(night - bands + 1, night - 1))


@dataclass(slots=True)
class _Before:
    """Numbers of earlier nights that a night needs.

    Attributes:
        cells: sum over 0 < i < b of c_i s_{t-i}; 0 on the first night.
        window: w_{t-1}.
        sums: sums of all nights before it.
    """

    cells: Floats
    window: Integers
    sums: Integers


def _before(folder: str, name: str, night: int, stream: Stream, drawn: Drawn) -> _Before | None:
    """Read the files that are kept, each once; None: one is missing."""
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


def _sum_of(released: Integers, *, pairs: bool, overlap: bool) -> int:
    """Sum of the noisy numbers of a night, in which each answer is once."""
    whole = released[-1] if overlap else released
    nothing = whole.trace(axis1=-2, axis2=-1).sum() if pairs else 0
    return int(whole.sum() - nothing)


def _next(
    stream: Stream, before: _Before, released: Integers, leaving: Integers | None, answers: int
) -> Shown:
    window: Integers = before.window + released
    if leaving is not None:
        window = window - leaving
    sums = np.append(before.sums, answers)
    return Shown((window - before.cells) / stream.encoder.coefficients[0], window, sums)


def _made_again(
    folder: str,
    name: str,
    night: int,
    stream: Stream,
    drawn: Drawn,
    *,
    pairs: bool,
    overlap: bool,
) -> Shown:
    """Compute what the night shows from everything drawn so far."""
    coefficients = stream.encoder.coefficients[1:]
    recent: deque[Shown] = deque(maxlen=max(len(coefficients), 1))  # the last first
    for each in range(night + 1):
        here = drawn if each == night else _needed(folder, name, each, stream)
        before = _Before(np.zeros(()), np.zeros((), np.int64), np.zeros(0, np.int64))
        if recent:
            parts = (c * shown.cells for c, shown in zip(coefficients, recent, strict=False))
            before = _Before(sum(parts, np.zeros(())), recent[0].window, recent[0].sums)
        leaving = _leaving(folder, name, each, stream)
        answers = _sum_of(here.released, pairs=pairs, overlap=overlap)
        shown = _next(stream, before, here.released, leaving, answers)
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
    path = _path_of_shown(folder, night)
    if not is_cloud(path) and Path(path).is_dir():  # damage, which no file can replace
        delete(path)
    write_whole(path, content)


def _kept(folder: str, name: str, night: int, people: str) -> Shown | None:
    """Return what is kept of a night; None: nothing, something else, or a damaged file."""
    path = _path_of_shown(folder, night)
    try:
        with intact(path):
            arrays = npz_arrays(read_kept(path))
            check_stream(path, str(arrays["stream"]), name)
            if int(arrays["night"]) == night and str(arrays["people"]) == people:
                return Shown(arrays["cells"], arrays["window"], arrays["sums"])
    except (FileNotFoundError, InputError):
        return None
    return None


def _path_of_shown(folder: str, night: int) -> str:
    return f"{folder}/{SHOWN}/{night_name(night)}.npz"
