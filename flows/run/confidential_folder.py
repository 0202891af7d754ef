"""A release's folder in the confidential area, on this machine or in Cloud Storage.

What is drawn comes in two moves. `store_unmarked` puts it on disk under a temporary name that
holds its digest; then the ledger marks the release as drawn, by that digest; then `finish_drawn`
gives the file its name. A run that dies before the mark has spent nothing and leaves a file that no
mark names, which is deleted. One that dies after it leaves the file that the mark names, and the
next run finishes what it began.

On this machine folder and files are for their owner alone. Who may open a bucket is the cloud's to
say: its access rules take the place of modes (`docs/cloud.md`).
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import stat
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hushrank.flows.errors import ConfigError, LedgerError, PredictableBits
from hushrank.flows.methods.base import Arrays
from hushrank.pipelines.reduce.confidential_area import read_bits, read_votes
from hushrank.pipelines.reduce.reduction_job import (
    BITS_FILE,
    EXACT_FILE,
    REJECTS_FOLDER,
    TALLY_FILE,
)
from hushrank.privacy.bits_used import BitsUsed
from hushrank.privacy.units import Unit
from hushrank.transforms.storage.cloud_storage import CloudPath, ObjectChanged, Place
from hushrank.transforms.storage.spill_file import SPILL_PREFIX
from hushrank.transforms.storage.write import (
    OWNER_ONLY_FOLDER,
    TEMPORARY_NAME,
    is_stale,
    write_flushed,
    write_whole,
)

DRAWN_FILE = "drawn.npz"
SPACE_FILE = ".space"  # of the versions that took room for the noise before it was drawn
COUNTING_FILE = ".counting"  # there while somebody makes exact arrays, or will need them
FAILED_FILE = "draw-failed"  # left by a mechanism that failed once the ledger had counted it

_NO_RECORD = "draw: the reduction left no record of {}. Nothing was drawn or spent; run again."
_RELEASE = re.compile(r"[0-9a-f]{16}")  # the folders of this area that are ours
_DIGEST_SHOWN = 32  # hexadecimal digits of a digest in a name, which `TEMPORARY_NAME` then matches


def check_confidential(folder: Place) -> None:
    """Refuse a confidential folder that others can open.

    Raises:
        ConfigError: it is a file, it is another user's, its mode lets others in, or its bucket
            cannot be used.
    """
    if isinstance(folder, CloudPath):
        try:
            next(folder.objects(), None)
        except OSError as error:
            raise ConfigError(
                f"confidential: {folder}: cannot be listed: {error.strerror}"
            ) from None
        return
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"confidential: {folder} is a file; name a folder.")
    if folder.exists() and folder.stat().st_uid != os.geteuid():
        raise ConfigError(
            f"confidential: {folder} belongs to another user of this machine (number"
            f" {folder.stat().st_uid}), who can open what is kept there: exact counts and rejected"
            f" rows. Name a folder of your own, or run: chown {os.geteuid()} {folder}"
        )
    if folder.exists() and folder.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise ConfigError(
            f"confidential: {folder} is open to other users of this machine, and exact counts and"
            f" rejected rows are kept there. Run: chmod 700 {folder}"
        )


def make_confidential(area: Place, release_id: str) -> None:
    """Create the confidential area and a release's folder in it, for the owner only.

    From now on the folder is where rows are counted, until `forget_exact`. What a run that died
    has left of that is kept; what came after the folder was given up is deleted.
    """
    work = area / release_id
    if not isinstance(area, CloudPath):  # objects need no folders
        for folder in (area, area / release_id):
            folder.mkdir(mode=OWNER_ONLY_FOLDER, parents=True, exist_ok=True)
        for left_by_a_crash in area.glob(f"*/{SPILL_PREFIX}*"):
            left_by_a_crash.unlink(missing_ok=True)
    counting = (work / COUNTING_FILE).exists()
    left = (name for name in _names(work) if _is_temporary(name))
    _delete_each(work / name for name in left if not (counting and _is_result(name)))
    if not counting:
        forget_exact(work)
        _delete(work / TALLY_FILE)  # or it would be taken for that of arrays that still come
        write_whole(str(work / COUNTING_FILE), b"")


def load_arrays(path: Place) -> Arrays:
    """The arrays in an `.npz` file, by name."""
    with np.load(io.BytesIO(path.read_bytes())) as stored:
        return dict(stored)


def bits_of_reduction(work: Place) -> BitsUsed:
    """Which random bits the exact arrays were made with.

    Raises:
        PredictableBits: nothing says so. No budget was spent.
    """
    try:
        return read_bits(str(work))
    except FileNotFoundError:
        raise PredictableBits(_NO_RECORD.format("the random bits that it used")) from None


def votes_of_reduction(work: Place, unit: Unit) -> NDArray[np.int64]:
    """What a look at the rows is to see, without noise: see `read_votes`.

    Raises:
        PredictableBits: nothing says so. No budget was spent.
    """
    try:
        return read_votes(str(work), unit)
    except FileNotFoundError:
        raise PredictableBits(_NO_RECORD.format("the rows that fit")) from None


def store_unmarked(work: Place, content: bytes) -> str:
    """Put what was drawn on disk, under a name that nobody takes for a release.

    Returns:
        Its digest, for the ledger's mark and `finish_drawn`.

    Raises:
        OSError: it cannot be written.
    """
    digest = hashlib.sha256(content).hexdigest()
    path = _unmarked(work, digest)
    if isinstance(path, CloudPath):
        path.write(content)
    else:
        write_flushed(path, content)
    return digest


def finish_drawn(work: Place, digest: str) -> None:
    """Give what was drawn its name, for good; in Cloud Storage only where there was nothing before.

    Args:
        work: the folder of the release.
        digest: what `store_unmarked` returned, and the ledger's mark holds.

    Raises:
        LedgerError: another run has stored other noise for the same release.
        OSError: it cannot be written.
    """
    unmarked, drawn = _unmarked(work, digest), work / DRAWN_FILE
    if not isinstance(unmarked, CloudPath):
        unmarked.replace(str(drawn))
        return
    content = unmarked.read_bytes()
    try:
        CloudPath.parse(str(drawn)).create(content)
    except ObjectChanged:
        if drawn.read_bytes() != content:
            raise LedgerError(
                f"{drawn}: another run took this release over and stored its noise. That of this"
                " run was thrown away; run again to publish the stored one."
            ) from None
    unmarked.delete()


def finds_drawn(work: Place, digest: str | None) -> bool:
    """Whether the folder holds what was drawn: stored, or one move before it.

    Args:
        work: the folder of the release.
        digest: of the ledger's mark; None: it has none.
    """
    return (work / DRAWN_FILE).exists() or is_unfinished(work, digest)


def is_unfinished(work: Place, digest: str | None) -> bool:
    """Whether a run has stopped between the ledger's mark, which holds `digest`, and the last move.

    The content is compared as well: a disk may have lost the end of it with the power.
    """
    if digest is None:
        return False
    try:
        content = _unmarked(work, digest).read_bytes()
    except FileNotFoundError:
        return False
    return hashlib.sha256(content).hexdigest() == digest


def _unmarked(work: Place, digest: str) -> Place:
    return work / f".{DRAWN_FILE}.{digest[:_DIGEST_SHOWN]}"


def forget_exact(work: Place) -> None:
    """Delete the exact arrays, which nothing needs once noise was drawn or the run gave up.

    With them go the temporary files of processes that died, but not noise that waits for its name.
    All are tried, whichever cannot be deleted.

    Raises:
        OSError: the first that could not be deleted.
    """
    names = [name for name in _names(work) if _is_exact(name) or _is_temporary(name)]
    others = (work / name for name in names if not _is_unmarked(name))
    counting = work / COUNTING_FILE  # first: what is written from now on is a stray
    _delete_each([counting, *others, *_half_written_rejects(work)])


def forget_unmarked(work: Place) -> None:
    """Delete noise that waits for its name; for whoever knows that no mark names it.

    Raises:
        OSError: the first that could not be deleted.
    """
    _delete_each(work / name for name in _names(work) if _is_unmarked(name))


def forget_half_written(area: Place) -> None:
    """Delete what runs that died have left half written right in the area, beside the releases.

    Raises:
        OSError: the first that could not be deleted.
    """
    if not isinstance(area, CloudPath):  # where an object appears whole
        names = (name for name in _names(area) if _is_temporary(name))
        _delete_each(area / name for name in names if is_stale(area / name))


def releases_with_strays(area: Place) -> list[str]:
    """Releases in whose folders exact arrays or temporary files are that nobody may need.

    A job on an engine elsewhere may outlive the run that started it, and write its results when
    the release is drawn or given up already. A run that is killed leaves temporary files.
    """
    found = _names_by_release(area).items()
    return sorted(release_id for release_id, names in found if _strays(names))


def release_folders(area: Path) -> list[Path]:
    """The folders of releases in a confidential area of this machine."""
    works = area.iterdir() if area.is_dir() else ()
    return sorted(work for work in works if _RELEASE.fullmatch(work.name) and work.is_dir())


def delete_strays(work: Place, *, temporary: bool = True) -> None:
    """Delete what nobody needs; for whoever holds the release's lock.

    Args:
        work: the folder of the release.
        temporary: delete temporary files besides exact arrays, noise that waits for its name among
            them.
    """
    names = _strays(set(_names(work)))  # looked up again: a run may have come in between
    _delete_each(work / name for name in names if temporary or _is_exact(name))


def _strays(names: set[str]) -> list[str]:
    needed = COUNTING_FILE in names and DRAWN_FILE not in names
    left = (name for name in sorted(names) if _is_exact(name) or _is_temporary(name))
    return [name for name in left if not (needed and _is_result(name))]


def _names_by_release(area: Place) -> dict[str, set[str]]:
    """The files right in each release's folder."""
    if not isinstance(area, CloudPath):
        works = area.iterdir() if area.exists() else ()
        return {work.name: set(_names(work)) for work in works if _RELEASE.fullmatch(work.name)}
    found: dict[str, set[str]] = {}
    for listed in area.objects():  # one listing, however many releases there are
        work = listed.path.parent
        if work.parent == area and _RELEASE.fullmatch(work.name):
            found.setdefault(work.name, set()).add(listed.path.name)
    return found


def _names(work: Place) -> list[str]:
    """Of the files right in a folder."""
    if isinstance(work, CloudPath):
        return [each.path.name for each in work.objects() if each.path.parent == work]
    return [path.name for path in work.iterdir()] if work.is_dir() else []


def _half_written_rejects(work: Place) -> list[Path]:
    if isinstance(work, CloudPath):  # where an object appears whole
        return []
    rejects = work / REJECTS_FOLDER
    names = _names(rejects)
    return [rejects / name for name in names if _is_temporary(name)]


def _is_exact(name: str) -> bool:
    """Whether a file of this name holds or describes exact arrays, whoever has left it."""
    return _meant(name) in (EXACT_FILE, BITS_FILE, SPACE_FILE)


def _is_result(name: str) -> bool:
    """Whether the draw needs it, or what it is becoming."""
    return _meant(name) in (EXACT_FILE, BITS_FILE, TALLY_FILE, SPACE_FILE)


def _is_unmarked(name: str) -> bool:
    """Whether it is noise that waits for its name."""
    return _is_temporary(name) and _meant(name) == DRAWN_FILE


def _is_temporary(name: str) -> bool:
    return TEMPORARY_NAME.fullmatch(name) is not None


def _meant(name: str) -> str:
    """The name of the file that a temporary one was to become; any other's own."""
    temporary = TEMPORARY_NAME.fullmatch(name)
    return temporary["name"] if temporary else name


def _delete_each(paths: Iterable[Place]) -> None:
    """Delete all that can be.

    Raises:
        OSError: the first failure.
    """
    failures = []
    for path in paths:
        try:
            _delete(path)
        except OSError as error:
            failures.append(error)
    if failures:
        raise failures[0]


def _delete(path: Place) -> None:
    if isinstance(path, CloudPath):
        path.delete()
    else:
        path.unlink(missing_ok=True)
