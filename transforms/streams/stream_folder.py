"""The confidential folder of one stream: its key, and what it keeps of each night.

    key.json              the key of people's pseudonyms, drawn when the stream begins, and how
                          their names are hashed
    counting/00041/A/     what attempt A at night 41 was reduced to (`pipelines.reduce.reduce`)
    people/00041/         who counted up to night 41 (`transforms.streams.people_files`)
    cells/00041.npz       exact counts of night 41 (`transforms.streams.released_files`)
    released/00041.npz    what was drawn for night 41 (`transforms.streams.released_files`)
    shown/00041.npz       what night 41 shows (`transforms.streams.released_files`)

Everything is written whole, and a night's files are deleted only once a later night has taken their
place, so a run that dies at any point is repeated from the night before. An engine's job may
outlive the run that started it, so whatever a job writes has a place of its attempt's own, and
`cells` names the attempt that counted.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from hushrank.privacy.keyed_hash import SecretKey
from hushrank.privacy.randomness import BitSource, RandomBits
from hushrank.transforms.common.catalogue import Naming
from hushrank.transforms.common.schema import InputError
from hushrank.transforms.storage.places import (
    TEMPORARY_NAME,
    CloudPath,
    flush_folder,
    is_cloud,
    read_whole,
    write_whole,
)

KEY_FILE, PEOPLE, CELLS, RELEASED = "key.json", "people", "cells", "released"
COUNTING, SHOWN = "counting", "shown"
KINDS = (CELLS, COUNTING, PEOPLE, RELEASED, SHOWN)
EXACT = (CELLS, COUNTING, PEOPLE)  # confidential; without the first of them nothing can be drawn
DAMAGE = (ValueError, LookupError, TypeError, AttributeError)  # raised by what is taken apart
TRIES = 3  # to delete a folder into which a dying job may write meanwhile


def night_name(night: int) -> str:
    """Name of a night in files and folders, so that names are in the order of nights."""
    return f"{night:05d}"


def begin(folder: str, stream: str, bits: RandomBits) -> SecretKey:
    """The key of a stream, drawn now unless it was drawn before.

    Args:
        folder: confidential, of this stream alone.
        stream: name of the stream and all of its terms.
        bits: `system_bits()` for a release.

    Raises:
        InputError: the folder is another stream's.
    """
    try:
        return stream_key(folder, stream)
    except FileNotFoundError:
        if next(nights_of(folder, PEOPLE), None) is not None:
            raise InputError(
                f"{folder}/{KEY_FILE} is missing, and people of this stream have counted already:"
                " without it nobody knows who they are. Restore it, or start a new stream."
            ) from None
    key = SecretKey.draw(bits)
    content = {
        "stream": stream,
        "key": key.value.hex(),
        "source": str(key.source),
        "names": str(Naming.BARE),
    }
    content["check"] = _check_of(content)
    write_whole(f"{folder}/{KEY_FILE}", json.dumps(content).encode())
    return key


def stream_key(folder: str, stream: str) -> SecretKey:
    """The key of a stream that has begun.

    Raises:
        FileNotFoundError: the stream has not begun.
        InputError: the folder is another stream's.
    """
    path = f"{folder}/{KEY_FILE}"
    with intact(path):
        content = _key_content(path, stream)
        return SecretKey(bytes.fromhex(content["key"]), BitSource(content["source"]))


def stream_naming(folder: str, stream: str, before: Naming | None) -> Naming:
    """Return how people's names are hashed on all nights of a stream that has begun.

    Earlier versions hashed a text as a text and an integer as an integer, and stored nothing about
    it. On nights whose files all named people by text that was `Naming.TEXTS`; where all named them
    by integers, `Naming.NUMBERS`. Whoever does not know which must not guess: under the other rule
    everybody who is named by an integer would count anew.

    Args:
        folder, stream: as in `begin`.
        before: the rule of all earlier nights if this version did not begin the stream; None:
            nobody knows it.

    Raises:
        FileNotFoundError: the stream has not begun.
        InputError: the folder is another stream's, or the rule is not known.
    """
    path = f"{folder}/{KEY_FILE}"
    with intact(path):
        content = _key_content(path, stream)
        if "names" in content:
            return Naming(content["names"])
    if before is None:
        raise InputError(
            f'{path}: an earlier version began this stream, took 7 and "7" for two people and did'
            " not store which of them the files hold. If the column of people held integers in all"
            ' files of all nights so far, add "names": "numbers" to this file. If it held text in'
            ' all of them, add "names": "texts". If it held both, start a new stream.'
        )
    return before


def _key_content(path: str, stream: str) -> dict[str, str]:
    """Return the content of the key's file; with another key every person would count anew.

    Raises:
        FileNotFoundError: the file does not exist.
        InputError: the key is another stream's.
        ValueError: the file is damaged. Earlier versions stored no check, so only some damage
            shows.
    """
    content: dict[str, str] = json.loads(read_kept(path))
    check_stream(path, content["stream"], stream)
    if content.pop("check", None) not in (None, _check_of(content)):
        raise ValueError("the check is of another content")
    return content


def _check_of(content: Mapping[str, str]) -> str:
    """A digest of the key's file but for the digest itself; it is as confidential as the key."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def check_stream(path: str, found: str, stream: str) -> None:
    """Raise `InputError` unless what is at `path` belongs to `stream`."""
    if found != stream:
        raise InputError(
            f"{path}: belongs to another stream, and each has a folder of its own. Restore the"
            " folder of this stream as it was after its last night; nothing was released."
        )


def read_kept(path: str) -> bytes:
    """The content of a file of a stream.

    Raises:
        FileNotFoundError: the file does not exist.
        InputError: a folder is in its place.
    """
    with intact(path):
        return read_whole(path)


@contextmanager
def intact(path: str) -> Iterator[None]:
    """Raise as `InputError` what the content of a damaged file raises when it is taken apart."""
    try:
        yield
    except InputError:
        raise
    except (*DAMAGE, IsADirectoryError, NotADirectoryError):
        raise InputError(
            f"{path}: is damaged. Restore the folder of the stream as it was after its last night;"
            " nothing was released, and what the stream has cost stays paid."
        ) from None


def delete_nights(folder: str, kind: str, until: int) -> None:
    """Delete what is kept in `kind` of every night up to `until`; to repeat it does no harm."""
    for night, path in list(nights_of(folder, kind)):
        if night <= until:
            delete(path)


def delete_counting(folder: str, night: int) -> None:
    """Delete what an earlier attempt at a night has kept, so that no half of it is taken for a new
    one's. Counts go first: without them nothing can be drawn."""
    for kind in EXACT:
        for each, path in list(nights_of(folder, kind)):
            if each == night:
                delete(path)
    delete_unfinished(folder)


def end(folder: str) -> None:
    """Delete everything exact that a stream has kept, its key last. To repeat it does no harm.

    What was drawn stays: it is private, and later nights are no part of it any more.
    """
    for kind in (*EXACT, SHOWN):
        for _, path in list(nights_of(folder, kind)):
            delete(path)
    delete_unfinished(folder)
    delete(f"{folder}/{KEY_FILE}")


def settle(folder: str, night: int) -> None:
    """Make all that a night has written survive a power failure, before it is marked as drawn."""
    if is_cloud(folder):
        return
    place = Path(folder)
    people = place / PEOPLE / night_name(night)
    for each in (place, *(place / kind for kind in KINDS), people, *people.glob("*")):
        if each.is_dir():
            flush_folder(each)


def delete_unfinished(folder: str) -> None:
    """Delete files that a killed run has not written to their end; nobody else writes now.

    In Cloud Storage an object appears whole or not at all.
    """
    if is_cloud(folder):
        return
    for parent in (Path(folder), *(Path(folder) / kind for kind in KINDS)):
        for path in list(parent.iterdir()) if parent.is_dir() else ():
            if TEMPORARY_NAME.fullmatch(path.name):
                path.unlink(missing_ok=True)


def nights_of(folder: str, kind: str) -> Iterator[tuple[int, str]]:
    """Nights of which something is kept, and where; half-written files are nobody's."""
    parent = f"{folder}/{kind}"
    if is_cloud(parent):
        place = CloudPath.parse(parent)
        for found in place.objects():
            name = found.path.key[len(place.key) + 1 :].partition("/")[0].partition(".")[0]
            if name.isdecimal():
                yield int(name), str(found.path)
        return
    if Path(parent).is_dir():
        for path in sorted(Path(parent).iterdir()):
            name = path.name.partition(".")[0]
            if name.isdecimal():  # no half-written file, and nothing that another program left
                yield int(name), str(path)


def holds_exact(folder: str) -> bool:
    """Whether a stream's folder holds anything exact, or its key."""
    try:
        return bool(read_whole(f"{folder}/{KEY_FILE}"))
    except FileNotFoundError:
        return any(next(nights_of(folder, kind), None) is not None for kind in EXACT)
    except IsADirectoryError:  # in its place
        return True


def files_of(parent: str) -> list[str]:
    """Return all files below a folder, half-written ones too."""
    if is_cloud(parent):
        return [str(found.path) for found in CloudPath.parse(parent).objects()]
    return [str(path) for path in Path(parent).rglob("*") if path.is_file()]


def needed_later(folder: str, drawn: int) -> list[str]:
    """Files of a stream that its later nights are drawn from, by their names below its folder.

    That is everything but half-written files and what was counted for a night without noise: the
    next run counts that night again. A night whose noise is stored, but not marked as drawn, stays
    whole, because the next run takes it up.

    Args:
        folder: folder of the stream; no run may be writing there.
        drawn: number of nights that are marked as drawn.
    """
    stored = {night for night, _ in nights_of(folder, RELEASED)}
    found = []
    for path in files_of(folder):
        name = path[len(folder) + 1 :]
        kind, _, rest = name.partition("/")
        if kind == COUNTING or TEMPORARY_NAME.fullmatch(name.rpartition("/")[2]):
            continue
        if kind in KINDS:
            night = rest.partition("/")[0].partition(".")[0]
            if not night.isdecimal() or (int(night) >= drawn and int(night) not in stored):
                continue
        found.append(name)
    return sorted(found)


def delete_others(parent: str, needed: set[str]) -> None:
    """Delete the files below a folder that are not needed, and folders that are empty then."""
    for path in files_of(parent):
        if path not in needed:
            delete(path)
    if not is_cloud(parent):
        for folder in Path(parent).iterdir():
            if folder.is_dir() and not any(folder.iterdir()):
                delete(str(folder))


def delete(path: str) -> None:
    """Delete a file, or a folder with all that is in it; what is not there is no error."""
    if is_cloud(path):
        CloudPath.parse(path).delete()
    elif Path(path).is_dir():
        for _ in range(TRIES - 1):
            shutil.rmtree(path, ignore_errors=True)
        if Path(path).exists():
            shutil.rmtree(path)
    else:
        Path(path).unlink(missing_ok=True)
