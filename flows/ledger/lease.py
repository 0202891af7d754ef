"""A lock that machines share through Cloud Storage: an object that its holder keeps fresh.

Taking it is a write that needs the object to be absent, so one of several wins. The holder writes
it anew every third of its time; one that was not refreshed for that time is dead, and its lease may
be taken over, again by one of several. Ages are differences between two dates of the store, so that
no machine's clock matters.

A holder that was only asleep finds out by `check`, which the ledger calls before every entry. In
the moment between the two the ledger itself decides: of two runs that would draw the noise of one
release, it lets one.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import uuid
from datetime import datetime

from hushrank.transforms.storage.cloud_storage import (
    ABSENT,
    PATIENCE,
    CloudPath,
    ObjectChanged,
    StoredObject,
)

LEASE_SECONDS = 600.0
RENEWALS = 3  # in the time after which a lease is stale
_BEAT = "hushrank-beat"  # key of the metadata: a name of its own for every write


class LeaseTaken(Exception):  # noqa: N818 - the right answer, not a fault
    """Somebody else holds it; the text says who."""


class LeaseLost(Exception):  # noqa: N818 - the same
    """This run held it and does no more."""


class Lease:
    """The lease on one object; not taken yet.

    Args:
        path: the object.
        seconds: after which a holder that was not heard of is dead.
    """

    def __init__(self, path: CloudPath, seconds: float = LEASE_SECONDS) -> None:
        self.path = path
        self._seconds = seconds
        self._patience = min(PATIENCE, seconds / RENEWALS)
        self._generation = ABSENT
        self._swap = threading.Lock()
        self._ended = threading.Event()

    def take(self) -> None:
        """Hold it from now on, and keep it fresh.

        Raises:
            LeaseTaken: another run holds it.
            OSError: the store does not answer.
        """
        try:
            self._generation = self._write(ABSENT)
        except ObjectChanged:
            self._take_over()
        threading.Thread(target=self._keep_fresh, daemon=True).start()

    def check(self) -> None:
        """Raise unless it is held still.

        Raises:
            LeaseLost: another run took it, or an operator deleted it.
            OSError: the store does not answer.
        """
        with self._swap:
            if self.path.generation() != self._generation:
                raise LeaseLost(
                    f"{self.path}: this run was not heard of for {self._seconds:g} s, or an"
                    " operator ended it, and lost its lease. It draws and records nothing any"
                    " more; run again."
                )

    def release(self) -> None:
        """Let go. Where the store does not answer, the lease ends by itself."""
        self._ended.set()
        with self._swap:
            try:
                self.path.delete(self._generation)
            except OSError:
                return

    def _take_over(self) -> None:
        """Take a lease that is stale.

        Raises:
            LeaseTaken: it is fresh, or another run was quicker.
        """
        found = self.path.read(self._patience)
        if found is not None:
            age = (self._store_time() - found.updated).total_seconds()
            if age < self._seconds:
                raise LeaseTaken(_holder(found))
        try:
            self._generation = self._write(ABSENT if found is None else found.generation)
        except ObjectChanged:
            raise LeaseTaken("it began just now") from None

    def _keep_fresh(self) -> None:
        while not self._ended.wait(self._seconds / RENEWALS):
            with self._swap:
                if self._ended.is_set():
                    return
                try:
                    self._generation = self._write(self._generation)
                except ObjectChanged:
                    return  # lost: `check` will say so
                except OSError:
                    continue  # it may answer before the lease is stale

    def _write(self, replaces: int) -> int:
        """Write it over that generation; returns the new one.

        Raises:
            ObjectChanged: somebody else wrote it.
            OSError: the store does not answer.
        """
        beat = uuid.uuid4().hex
        try:
            written = self.path.write(
                _myself(), replaces=replaces, metadata={_BEAT: beat}, patience=self._patience
            )
        except ObjectChanged:  # by this write itself, if its answer was lost and it was repeated
            found = self.path.read(self._patience)
            if found is None or found.metadata.get(_BEAT) != beat:
                raise
            return found.generation
        return written.generation

    def _store_time(self) -> datetime:
        """The store's clock: the date of something written now."""
        probe = CloudPath.parse(f"{self.path}.{uuid.uuid4().hex}.now")
        now = probe.write(b"", patience=self._patience).updated
        probe.delete()
        return now


def _myself() -> bytes:
    """Who holds it, for people: the store has no other use for it."""
    return json.dumps({"host": socket.gethostname(), "process": os.getpid()}).encode()


def _holder(found: StoredObject) -> str:
    try:
        who = json.loads(found.content)
        name = f"process {who['process']} on {who['host']}"
    except (ValueError, TypeError, KeyError):
        name = "somebody"
    return f"{name}, last heard of at {found.updated:%Y-%m-%d %H:%M:%S} UTC"
