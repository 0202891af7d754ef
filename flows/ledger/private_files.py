"""Small files for their owner alone, in folders that nobody else can write.

Somebody who may write in the folder of a ledger can restore an older ledger, or plant a link where
the next run writes. So such a folder is refused, and no file is opened through a link or over an
existing file.
"""

from __future__ import annotations

import os
import stat
import uuid
from contextlib import suppress
from pathlib import Path

from hushrank.flows.errors import LedgerError
from hushrank.transforms.common.local_files import open_local
from hushrank.transforms.storage.write import is_for_want_of_links

OPEN_TO_WRITE = stat.S_IWGRP | stat.S_IWOTH
NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
OPEN_TO_READ = stat.S_IRWXG | stat.S_IRWXO
ROOT = 0  # root can write everywhere anyway


def require_own_folder(path: Path) -> None:
    """Raise LedgerError if others can write in the folder of the ledger at `path`.

    If `path` is a link, the folder that it leads to is checked too. A folder that does not exist
    yet passes: the ledger makes it for its owner alone.
    """
    for folder in {path.parent, Path(os.path.realpath(path)).parent}:
        try:
            found = folder.stat()
        except (FileNotFoundError, NotADirectoryError):
            continue
        if found.st_uid not in (ROOT, os.geteuid()):
            raise LedgerError(
                f"ledger.path: {folder} belongs to another user (number {found.st_uid}), who could"
                " put an older ledger back. Keep the ledger in a folder of the account that runs"
                f" hushrank: chown {os.geteuid()} {folder}, or name another one. Nothing was spent."
            )
        if found.st_mode & OPEN_TO_WRITE:
            raise LedgerError(
                f"ledger.path: {folder} can be written by other users of this machine, who could"
                f" put an older ledger back. Run: chmod go-w {folder}; or name a folder of your"
                " own, such as .hushrank. Nothing was spent."
            )


def replace_private(path: Path, content: bytes) -> None:
    """Put `content` at `path`. Whenever this ends, the old file or the whole new file is there.

    Only one process at a time may do this for a path; `LedgerBackend.tidy` removes its leftovers.

    Raises:
        OSError: it cannot be written.
    """
    new = _written(path, f"{path}.new", content)
    new.replace(path)
    with suppress(OSError):  # the new file is in place: an error would claim otherwise
        sync_folder(path.parent)


def create_private(path: Path, content: bytes) -> bool:
    """Put `content` at `path` if nothing is there; whether nothing was there.

    Raises:
        OSError: it cannot be written.
    """
    new = _written(path, f"{path}.{uuid.uuid4().hex}.new", content)
    try:
        os.link(new, path)
    except FileExistsError:
        return False
    except OSError as error:
        if not is_for_want_of_links(error):
            raise
        try:
            os.close(open_local(path, NEW_FILE))
        except FileExistsError:
            return False
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)
    sync_folder(path.parent)
    return True


def read_private(path: Path, most: int) -> bytes:
    """Up to `most` bytes of the file at `path`, which may not be a link.

    Raises:
        LedgerError: others can read it too.
        OSError: the file does not exist, is a link, or cannot be read.
    """
    descriptor = open_local(path, os.O_RDONLY | os.O_NOFOLLOW)
    with os.fdopen(descriptor, "rb") as file:
        if os.fstat(descriptor).st_mode & OPEN_TO_READ:
            raise LedgerError(
                f"{path}: can be read by other users of this machine. Anybody who has it can learn"
                f" from published ids which files there were. Run: chmod 600 {path}"
            )
        return file.read(most)


def write_all(descriptor: int, content: bytes) -> None:
    """Write all of `content`, in as many calls as that takes."""
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]


def sync_folder(folder: Path) -> None:
    """Make the name of a new file survive a power failure too."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _written(path: Path, name: str, content: bytes) -> Path:
    """A new file with that name, with `content` on disk."""
    new = Path(name)
    new.unlink(missing_ok=True)  # a killed run left it, or somebody planted a link
    descriptor = open_local(new, NEW_FILE)
    try:
        write_all(descriptor, content)
        os.fsync(descriptor)
    except OSError:
        with suppress(OSError):
            new.unlink()
        raise
    finally:
        os.close(descriptor)
    return new
