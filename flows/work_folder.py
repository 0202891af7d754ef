"""A release's folder in the confidential area, on this machine or in Cloud Storage.

On this machine folder and files are for their owner alone. Who may open a bucket is the cloud's to
say: its access rules take the place of modes (`docs/cloud.md`).
"""

from __future__ import annotations

import io
import os
import stat
from pathlib import Path

import numpy as np

from hushrank.flows.errors import ConfigError, LedgerError
from hushrank.flows.method import Arrays
from hushrank.pipelines.reduction_job import EXACT_FILE
from hushrank.transforms.cloud_storage import CloudPath, ObjectChanged, Place
from hushrank.transforms.spill_file import SPILL_PREFIX
from hushrank.transforms.write import OWNER_ONLY_FOLDER, write_whole

DRAWN_FILE, SPACE_FILE = "drawn.npz", ".space"
FAILED_FILE = "draw-failed"  # left by a mechanism that failed once the ledger had counted it


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
    """Create the confidential area and a release's folder in it, for the owner only."""
    if isinstance(area, CloudPath):  # objects need no folders
        return
    for folder in (area, area / release_id):
        folder.mkdir(mode=OWNER_ONLY_FOLDER, parents=True, exist_ok=True)
    for left_by_a_crash in area.glob(f"*/{SPILL_PREFIX}*"):
        left_by_a_crash.unlink(missing_ok=True)


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
    """Delete the exact arrays, which nothing needs once noise was drawn."""
    for name in (EXACT_FILE, SPACE_FILE):
        path = work / name
        if isinstance(path, CloudPath):
            path.delete()
        else:
            path.unlink(missing_ok=True)
