"""Anchors: copies of the ledger's latest head in a second place, a local file or Cloud Storage.

A file has one line for each head, appended; it belongs on a disk of another host. In Cloud Storage,
best in a bucket of another account, each head is an object. Objects are created and never replaced
or deleted, so an account with roles that only create and read is enough
(`roles/storage.objectCreator` and `roles/storage.objectViewer`), and a retention policy may lock
them. Their names sort as the heads do. `git_anchor` keeps heads in a git repository.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from filelock import FileLock, Timeout

from hushrank.flows.errors import LedgerError
from hushrank.flows.ledger.local_file import reason_of, write_all
from hushrank.flows.ledger.signing import Anchored, Head
from hushrank.flows.signals import signals_held
from hushrank.transforms import system
from hushrank.transforms.common.local_files import (
    MostBytes,
    open_local,
    open_to_read,
    read_local,
    require_regular,
)
from hushrank.transforms.storage.cloud_storage import CloudPath, ObjectChanged
from hushrank.transforms.storage.write import OWNER_ONLY_FILE


class Anchor(Protocol):
    """Store that keeps heads of one ledger for good. Every method raises LedgerError if it
    fails."""

    @property
    def place(self) -> str:
        """Place of the anchor, for messages."""
        ...

    def latest(self) -> Anchored | None:
        """Return the head with the greatest `order`; None if the anchor holds none."""
        ...

    def records(self) -> bytes:
        """Return the records, one head in each line, the latest last; earlier ones may be left
        out."""
        ...

    def put(self, head: Head, record: bytes) -> None:
        """Keep `record`, the record of `head`, for good; ignore a head that is older than the
        latest.

        Raises:
            LedgerError: the anchor holds another head of that order, or cannot be written.
        """
        ...


BRING_BACK = "Make it available again, or correct ledger.anchor or its permissions"


def unreachable(place: str, what: str, why: str, remedy: str = BRING_BACK) -> LedgerError:
    """Build the error of an anchor that cannot be `what`: read or written."""
    return LedgerError(
        f"ledger.anchor: {place} cannot be {what} ({why}), and without it hushrank cannot tell"
        f" whether this is the newest copy of the ledger. {remedy}; then run again."
    )


def damaged(place: str) -> LedgerError:
    """Build the error of an anchor with content of another kind."""
    return LedgerError(
        f"ledger.anchor: {place} is damaged, or is not an anchor of a ledger: its last record is"
        " not the head of a ledger. Put its newest copy back; if there is none, name another, empty"
        " place and run hushrank ledger recover."
    )


def conflict(place: str, head: Head) -> LedgerError:
    """Build the error of an anchor that holds another line under the same number."""
    return LedgerError(
        f"ledger.anchor: {place} holds another line {head.position} than this ledger has. Two"
        " ledgers share the anchor, or two copies of one ledger are in use. Give each ledger its"
        " own anchor, and use one copy."
    )


LOCK_TIMEOUT = 20.0  # seconds; a write takes milliseconds
TAIL_BYTES = 4096  # enough for several records of about 300 bytes


class FileAnchor:
    """The `Anchor` of a file. The first head creates the file, but not its folder.

    Args:
        path: the file; its folder must exist, so a disk that is not mounted is noticed.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    @property
    def place(self) -> str:
        """Path of the file."""
        return str(self._path)

    def latest(self) -> Anchored | None:
        """Return the head in the last whole line; the rest of an interrupted write is ignored."""
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
            raise unreachable(self.place, "read", reason_of(error)) from None
        return last_record(tail, self.place)

    def records(self) -> bytes:
        """Return the content of the whole file."""
        try:
            return read_local(self._path, MostBytes.RECORDS)
        except OSError as error:
            raise unreachable(self.place, "read", reason_of(error)) from None

    def put(self, head: Head, record: bytes) -> None:
        """Append `record`, and wait until it is on the disk; see `Anchor.put`."""
        with self._locked():
            before = self.latest()
            if not is_newer(head, before, self.place):
                return
            try:
                self._append(record)
            except OSError as error:
                raise unreachable(self.place, "written", reason_of(error)) from None

    def _append(self, record: bytes) -> None:
        descriptor = open_local(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        try:
            end = os.lseek(descriptor, 0, os.SEEK_END)
            start = max(0, end - TAIL_BYTES)
            tail = system.read_at(descriptor, TAIL_BYTES, start)
            # the rest of an interrupted write
            os.ftruncate(descriptor, start + tail.rfind(b"\n") + 1)
            write_all(descriptor, record)
            os.fsync(descriptor)
            if not end:
                system.flush_folder(self._path.parent)
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
            raise unreachable(self.place, "written", reason_of(error)) from None


def last_record(content: bytes, place: str) -> Anchored | None:
    """Return the head in the last whole line; None if there is no whole line.

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
    """Whether `head` is later than the anchor's head; LedgerError if the two contradict."""
    if before is not None and before.head.order == head.order and before.head.hash != head.hash:
        raise conflict(place, head)
    return before is None or head.order > before.head.order


class ObjectAnchor:
    """The `Anchor` of a gs:// folder.

    Args:
        folder: folder of the objects; nothing else may be in it.
    """

    def __init__(self, folder: CloudPath) -> None:
        self._folder = folder
        # an object never changes, so it is read once
        self._read: tuple[str, Anchored] | None = None

    @property
    def place(self) -> str:
        """URL of the folder."""
        return str(self._folder)

    def latest(self) -> Anchored | None:
        """Return the head in the object whose name sorts last."""
        try:
            names = [found.path.name for found in self._folder.objects()]
            if not names:
                return None
            name = max(names)
            if self._read is not None and self._read[0] == name:
                return self._read[1]
            found = Anchored.of((self._folder / name).read_bytes())
        except OSError as error:
            raise unreachable(self.place, "read", reason_of(error)) from None
        except ValueError:
            raise damaged(self.place) from None
        if found.head.name != name:
            raise damaged(self.place)
        self._read = name, found
        return found

    def records(self) -> bytes:
        """Return the record in the last object; the folder has one object for each ledger entry."""
        found = self.latest()
        try:
            return b"" if found is None else (self._folder / found.head.name).read_bytes()
        except OSError as error:
            raise unreachable(self.place, "read", reason_of(error)) from None

    def put(self, head: Head, record: bytes) -> None:
        """Create the object of `head`; see `Anchor.put`."""
        path = self._folder / head.name
        try:
            path.create(record)
        except ObjectChanged:
            self._require_same(path, head)
        except OSError as error:
            raise unreachable(self.place, "written", reason_of(error)) from None

    def _require_same(self, path: CloudPath, head: Head) -> None:
        """Accept an object of the same head, with another signature or none."""
        try:
            found = Anchored.of(path.read_bytes()).head
        except OSError as error:
            raise unreachable(self.place, "read", reason_of(error)) from None
        except ValueError:
            raise damaged(self.place) from None
        if found.hash != head.hash:
            raise conflict(self.place, head)
