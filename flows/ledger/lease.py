"""A lock between machines in Cloud Storage: an object that its holder keeps fresh.

A run takes the lease by a write that succeeds only if the object is absent, so one of several runs
wins. The holder writes the object again after every third of the lease time. A lease that was not
refreshed for the whole lease time is stale, and another run may take it over; again one wins. An
age is the difference of two dates from the store, so no machine's clock matters.

A holder that only slept learns of its loss from `check`, which the ledger calls before every entry.
Between the check and the entry the ledger itself decides: it lets only one of two runs draw the
noise of a release.
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
RENEWALS = 3  # renewals within the time after which a lease is stale
_BEAT = "hushrank-beat"  # metadata key; every write has a unique name there


class LeaseTaken(Exception):  # noqa: N818 - an expected outcome, not an error
    """Error if another run holds the lease; the text says which run."""


class LeaseLost(Exception):  # noqa: N818 - as above
    """Error if this run held the lease, lost it, and must stop."""


class Lease:
    """Lease on one object. A new `Lease` does not hold it yet.

    Args:
        path: the object.
        seconds: a holder that sends no sign of life for this long counts as dead.
    """

    def __init__(self, path: CloudPath, seconds: float = LEASE_SECONDS) -> None:
        self.path = path
        self._seconds = seconds
        self._patience = min(PATIENCE, seconds / RENEWALS)
        self._generation = ABSENT
        self._swap = threading.Lock()
        self._ended = threading.Event()

    def take(self) -> None:
        """Take the lease, and keep it fresh from now on.

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
        """Raise unless this run still holds the lease.

        Raises:
            LeaseLost: another run took the lease, or an operator deleted it.
            OSError: the store does not answer.
        """
        with self._swap:
            if self.path.generation() != self._generation:
                raise LeaseLost(
                    f"{self.path}: this run was silent for {self._seconds:g} s, or an"
                    " operator ended it, so it lost its lease. It draws and records nothing"
                    " more. Run again."
                )

    def release(self) -> None:
        """Release the lease. If the store does not answer, the lease expires by itself."""
        self._ended.set()
        with self._swap:
            try:
                self.path.delete(self._generation)
            except OSError:
                return

    def _take_over(self) -> None:
        """Take a stale lease.

        Raises:
            LeaseTaken: the lease is fresh, or another run was quicker.
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
                    return  # the lease is lost, and `check` will say so
                except OSError:
                    continue  # the store may answer again before the lease is stale

    def _write(self, replaces: int) -> int:
        """Write the object over that generation; return the new generation.

        Raises:
            ObjectChanged: another process wrote it first.
            OSError: the store does not answer.
        """
        beat = uuid.uuid4().hex
        holder = {"host": socket.gethostname(), "process": os.getpid()}  # read by people only
        try:
            written = self.path.write(
                json.dumps(holder).encode(),
                replaces=replaces,
                metadata={_BEAT: beat},
                patience=self._patience,
            )
        except ObjectChanged:  # this write itself may have changed it, if its answer was lost
            found = self.path.read(self._patience)
            if found is None or found.metadata.get(_BEAT) != beat:
                raise
            return found.generation
        return written.generation

    def _store_time(self) -> datetime:
        """Read the store's clock from an object that is written now."""
        probe = CloudPath.parse(f"{self.path}.{uuid.uuid4().hex}.now")
        now = probe.write(b"", patience=self._patience).updated
        probe.delete()
        return now


def _holder(found: StoredObject) -> str:
    try:
        who = json.loads(found.content)
        name = f"process {who['process']} on {who['host']}"
    except (ValueError, TypeError, KeyError):
        name = "somebody"
    return f"{name}, last seen at {found.updated:%Y-%m-%d %H:%M:%S} UTC"
