"""An anchor in a local file, best on a disk of another host: one line for each head, appended."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from hushrank.flows.ledger.anchor import conflict, damaged, unreachable
from hushrank.flows.ledger.local_file import sync_folder, write_all
from hushrank.flows.ledger.signing import Anchored, Head
from hushrank.flows.signals import signals_held
from hushrank.transforms.common.local_files import (
    MostBytes,
    UnfitFile,
    open_local,
    open_to_read,
    read_local,
    require_regular,
)
from hushrank.transforms.storage.write import OWNER_ONLY_FILE

LOCK_TIMEOUT = 20.0  # seconds; a write takes milliseconds
TAIL_BYTES = 4096  # holds several records of about 300


class FileAnchor:
    """The `Anchor` of a file. The first head creates the file, but not its folder.

    Args:
        path: the file; its folder must exist, so a disk that is not mounted is noticed.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    @property
    def place(self) -> str:
        """Its path."""
        return str(self._path)

    def latest(self) -> Anchored | None:
        """The last whole line; the rest of an interrupted write does not count."""
        if not self._path.parent.is_dir():
            raise unreachable(self.place, "read", "its folder does not exist; is the disk mounted?")
        try:
            with open_to_read(self._path, MostBytes.RECORDS) as file:
                end = file.seek(0, os.SEEK_END)
                file.seek(max(0, end - TAIL_BYTES))
                tail = file.read()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise unreachable(self.place, "read", _reason(error)) from None
        return last_record(tail, self.place)

    def records(self) -> bytes:
        """The whole file."""
        try:
            return read_local(self._path, MostBytes.RECORDS)
        except OSError as error:
            raise unreachable(self.place, "read", _reason(error)) from None

    def put(self, head: Head, record: bytes) -> None:
        """Append `record`, and wait until it is on the disk; see `Anchor.put`."""
        with self._locked():
            before = self.latest()
            if not is_newer(head, before, self.place):
                return
            try:
                self._append(record)
            except OSError as error:
                raise unreachable(self.place, "written", _reason(error)) from None

    def _append(self, record: bytes) -> None:
        descriptor = open_local(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        try:
            end = os.lseek(descriptor, 0, os.SEEK_END)
            start = max(0, end - TAIL_BYTES)
            tail = os.pread(descriptor, TAIL_BYTES, start)
            os.ftruncate(descriptor, start + tail.rfind(b"\n") + 1)  # an interrupted write's rest
            write_all(descriptor, record)
            os.fsync(descriptor)
            if not end:
                sync_folder(self._path.parent)
        finally:
            os.close(descriptor)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        lock = FileLock(f"{self._path}.lock", mode=OWNER_ONLY_FILE)
        try:
            require_regular(lock.lock_file)
            with signals_held(), lock.acquire(timeout=LOCK_TIMEOUT):
                yield
        except Timeout:
            why = f"others kept it locked for {LOCK_TIMEOUT:g} s"
            raise unreachable(self.place, "written", why) from None
        except OSError as error:
            raise unreachable(self.place, "written", _reason(error)) from None


def last_record(content: bytes, place: str) -> Anchored | None:
    """The head in the last whole line; None: there is no whole line.

    Raises:
        LedgerError: the line is none of an anchor.
    """
    whole = content[: content.rfind(b"\n") + 1]
    if not whole:
        return None
    try:
        return Anchored.of(whole.removesuffix(b"\n").rpartition(b"\n")[2])
    except ValueError:
        raise damaged(place) from None


def is_newer(head: Head, before: Anchored | None, place: str) -> bool:
    """Whether `head` is later than what an anchor holds; LedgerError if the two contradict."""
    if before is not None and before.head.order == head.order and before.head.hash != head.hash:
        raise conflict(place, head)
    return before is None or head.order > before.head.order


def _reason(error: OSError) -> str:
    if isinstance(error, UnfitFile | IsADirectoryError):
        return f"{error.filename}: {error.strerror}"
    return error.strerror or type(error).__name__
