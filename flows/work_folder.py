"""A release's folder in the confidential area, on this machine or in Cloud Storage.

On this machine folder and files are for their owner alone. Who may open a bucket is the cloud's to
say: its access rules take the place of modes (`docs/cloud.md`).
"""

from __future__ import annotations

import io
import os
import re
import stat
from pathlib import Path

import numpy as np

from hushrank.flows.errors import ConfigError, LedgerError
from hushrank.flows.method import Arrays
from hushrank.pipelines.reduction_job import BITS_FILE, EXACT_FILE, TALLY_FILE
from hushrank.transforms.cloud_storage import CloudPath, ObjectChanged, Place
from hushrank.transforms.spill_file import SPILL_PREFIX
from hushrank.transforms.write import OWNER_ONLY_FOLDER, TEMPORARY_NAME, write_whole

DRAWN_FILE, SPACE_FILE = "drawn.npz", ".space"
COUNTING_FILE = ".counting"  # there while somebody makes exact arrays, or will need them
FAILED_FILE = "draw-failed"  # left by a mechanism that failed once the ledger had counted it

_RELEASE = re.compile(r"[0-9a-f]{16}")  # the folders of this area that are ours


def check_confidential(folder: Place) -> None:
    """Refuse a confidential folder that others can open.

    Raises:
        ConfigError: it is a file, its mode lets others in, or its bucket cannot be used.
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
    if not (work / COUNTING_FILE).exists():
        forget_exact(work)
        _delete(work / TALLY_FILE)  # or it would be taken for that of arrays that still come
        write_whole(str(work / COUNTING_FILE), b"")


def load_arrays(path: Place) -> Arrays:
    """The arrays in an `.npz` file, by name."""
    with np.load(io.BytesIO(path.read_bytes())) as stored:
        return dict(stored)


def take_space(work: Place, content: bytes) -> None:
    """Write as much as `store_drawn` will need, to see now whether that can be done.

    Raises:
        OSError: it cannot be written.
    """
    write_whole(str(work / SPACE_FILE), content)


def store_drawn(work: Place, content: bytes) -> None:
    """Store what was drawn, for good; in Cloud Storage only where nothing was stored before.

    Raises:
        LedgerError: another run has stored other noise for the same release.
        OSError: it cannot be written.
    """
    drawn = work / DRAWN_FILE
    if isinstance(drawn, CloudPath):
        try:
            drawn.create(content)
        except ObjectChanged:
            raise LedgerError(
                f"{drawn}: another run took this release over and stored its noise. That of this"
                " run was thrown away; run again to publish the stored one."
            ) from None
        return
    space = Path(str(work), SPACE_FILE)
    with space.open("r+b") as stream:
        stream.write(content)
        stream.truncate()
        stream.flush()
        os.fsync(stream.fileno())
    space.replace(drawn)


def forget_exact(work: Place) -> None:
    """Delete the exact arrays, which nothing needs once noise was drawn or the run gave up."""
    _delete(work / COUNTING_FILE)  # first: what is written from now on is a stray
    for name in _names(work):
        if _is_exact(name):
            _delete(work / name)


def releases_with_strays(area: Place) -> list[str]:
    """Releases in whose folders exact arrays are that nobody needs.

    A job on an engine elsewhere may outlive the run that started it, and write its results when
    the release is drawn or given up already.
    """
    found = _names_by_release(area).items()
    return sorted(release_id for release_id, names in found if _strays(names))


def release_folders(area: Path) -> list[Path]:
    """The folders of releases in a confidential area of this machine."""
    works = area.iterdir() if area.is_dir() else ()
    return sorted(work for work in works if _RELEASE.fullmatch(work.name) and work.is_dir())


def delete_strays(work: Place) -> None:
    """Delete exact arrays that nobody needs; for whoever holds the release's lock."""
    for name in _strays(set(_names(work))):  # looked up again: a run may have come in between
        _delete(work / name)


def _strays(names: set[str]) -> list[str]:
    needed = COUNTING_FILE in names and DRAWN_FILE not in names
    return [] if needed else [name for name in sorted(names) if _is_exact(name)]


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


def _is_exact(name: str) -> bool:
    """Whether a file of this name holds or describes exact arrays, whoever has left it."""
    temporary = TEMPORARY_NAME.fullmatch(name)
    return (temporary["name"] if temporary else name) in (EXACT_FILE, BITS_FILE, SPACE_FILE)


def _delete(path: Place) -> None:
    if isinstance(path, CloudPath):
        path.delete()
    else:
        path.unlink(missing_ok=True)
