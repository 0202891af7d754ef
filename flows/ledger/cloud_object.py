"""A ledger in Cloud Storage: one object, replaced as a whole if its generation still matches.

If several writers have read the same generation, one wins and the others read again. A writer that
gets no answer repeats its write, and may then find that its first write succeeded. To recognise
that, each write has a unique name, and the object's metadata keeps the names of the last
`KEPT_NAMES` writes.

Two more objects stand beside `ledger.jsonl`:
- `ledger.jsonl.length` holds how many bytes the ledger had after an append. It shows whether the
  ledger was deleted or replaced by an older copy; it may be smaller than the ledger, which is safe;
- `ledger.jsonl.runs/` has one lease for each release, held while it runs.

A lock between machines in Cloud Storage: an object that its holder keeps fresh.

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
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

from hushrank.flows.errors import LedgerError, RunInProgress
from hushrank.flows.ledger.local_file import Snapshot, damaged_length, ends_a_line, length_of
from hushrank.flows.terminal import signals_held
from hushrank.transforms.storage.places import (
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


KEPT_NAMES = 32  # writes by others that may come between a write and its repetition
_NAMES = "hushrank-writes"  # metadata key


class LedgerObject:
    """The `LedgerBackend` of an object in Cloud Storage.

    Args:
        path: the object.
        patience: seconds for which a request that fails for a temporary reason is repeated.
        lease_seconds: a run that sends no sign of life for this long counts as dead.
    """

    def __init__(
        self,
        path: CloudPath,
        patience: float = PATIENCE,
        lease_seconds: float = LEASE_SECONDS,
    ) -> None:
        self._path = path
        self._length_path = CloudPath.parse(f"{path}.length")
        self._runs = CloudPath.parse(f"{path}.runs")
        self._patience = patience
        self._lease_seconds = lease_seconds
        self._leases: dict[str, Lease] = {}

    @property
    def place(self) -> str:
        """URL of the object."""
        return str(self._path)

    def read(self) -> Snapshot:
        """Return the present content of the object.

        Raises:
            LedgerError: the object cannot be read, or the store does not answer.
        """
        try:
            recorded, found = self._both()
            # the very first append may have come in between
            if recorded is None and found is not None:
                recorded, found = self._both()
        except OSError as error:
            raise _unreachable(self.place, "read", error) from error
        content = b"" if found is None else found.content
        token = str(ABSENT if found is None else found.generation)
        return Snapshot(content, token, self._loss(content, recorded))

    def _both(self) -> tuple[int | None, StoredObject | None]:
        """Read the recorded length, and then the object: an append in between makes it longer."""
        return self._recorded_length(), self._path.read(self._patience)

    def append(self, token: str, lines: bytes) -> Snapshot | None:
        """Replace the object by its content plus `lines`; see `LedgerBackend.append`.

        Raises:
            LedgerError: the object cannot be written, the store does not answer, or another run
                took over a release that this one held. If only the answer was lost, `lines` may be
                recorded: then budget may be spent for nothing, but it is never counted too low.
        """
        try:
            for lease in self._leases.values():
                lease.check()
            found = self._path.read(self._patience)
            if str(ABSENT if found is None else found.generation) != token:
                return None
            if found is None and self._recorded_length() is None:
                # if the length is missing later, an older ledger was put back
                self._record_length(0)
            content = lines if found is None else found.content + lines
            written = self._swap(found, content)
            if written is not None:
                self._record_length(len(content))
        except LeaseLost as error:
            raise LedgerError(str(error)) from None
        except OSError as error:
            raise _unreachable(self.place, "written", error) from error
        return None if written is None else Snapshot(written.content, str(written.generation))

    def tidy(self) -> None:
        """Do nothing: an object appears whole or not at all."""

    def check_writable(self) -> None:
        """Do nothing: only a write shows that an object can be written."""

    def accept_loss(self) -> None:
        """Record the length of the present content; see `LedgerBackend.accept_loss`."""
        try:
            found = self._path.read(self._patience)
            length = 0 if found is None else len(found.content)
            self._length_path.write(f"{length}\n".encode(), patience=self._patience)
        except OSError as error:
            raise _unreachable(str(self._length_path), "written", error) from error

    @contextmanager
    def hold(self, release_id: str) -> Iterator[None]:
        """Keep every other run of that release out; see `LedgerBackend.hold`."""
        lease = Lease(self._runs / f"{release_id}.lease", self._lease_seconds)
        try:
            with signals_held():  # otherwise a signal could leave a lease that nobody ends
                self._take(lease, release_id)
            yield
        finally:
            if self._leases.get(release_id) is lease:
                del self._leases[release_id]
                lease.release()

    def _take(self, lease: Lease, release_id: str) -> None:
        try:
            lease.take()
        except LeaseTaken as error:
            raise RunInProgress(
                f"Another run of release {release_id} is in progress ({error}). Wait until it ends;"
                " then run again, which will cost nothing if it succeeded. A dead run loses the"
                f" lock within {self._lease_seconds:g} s. To end that wait, make sure that the run"
                " is dead"
                f" and delete {lease.path}."
            ) from None
        except OSError as error:
            raise _unreachable(str(lease.path), "written", error) from error
        self._leases[release_id] = lease

    def _swap(self, found: StoredObject | None, content: bytes) -> StoredObject | None:
        """Write `content` over the object that was `found`; None: the write did not happen."""
        before = [] if found is None else _names(found)
        mine = uuid.uuid4().hex
        names = [*before, mine][-KEPT_NAMES:]
        try:
            return self._path.write(
                content,
                replaces=ABSENT if found is None else found.generation,
                metadata={_NAMES: ",".join(names)},
                patience=self._patience,
            )
        except ObjectChanged:
            now = self._path.read(self._patience)
            happened = now is not None and _happened(mine, before, _names(now), self.place)
            return now if happened else None

    def _record_length(self, length: int) -> None:
        """Raise the recorded length; another writer may have recorded a larger one."""
        while True:
            found = self._length_path.read(self._patience)
            known = self._length(found)
            if known is not None and known >= length:
                return
            try:
                self._length_path.write(
                    f"{length}\n".encode(),
                    replaces=ABSENT if found is None else found.generation,
                    patience=self._patience,
                )
            except ObjectChanged:
                continue
            except PermissionError:
                raise
            except OSError:
                return  # the lines are recorded; the next append records their length too
            return

    def _recorded_length(self) -> int | None:
        return self._length(self._length_path.read(self._patience))

    def _length(self, found: StoredObject | None) -> int | None:
        try:
            return None if found is None else length_of(found.content)
        except ValueError as error:
            raise damaged_length(str(self._length_path), str(self._path)) from error

    def _loss(self, content: bytes, recorded: int | None) -> str | None:
        """Reason why lines must be missing; None if none are missing.

        Raises:
            LedgerError: no append can have recorded that length.
        """
        if recorded is None and content:
            return (
                f"{self._length_path} is missing, so hushrank cannot tell whether this ledger is"
                " the newest. Put the newest generation of both back; or run hushrank ledger"
                " recover, which lists the known spending."
            )
        if recorded is not None and not ends_a_line(recorded, content):
            raise damaged_length(str(self._length_path), str(self._path))
        if recorded is None or len(content) >= recorded:
            return None
        return (
            f"{self._path}: {recorded - len(content)} bytes at its end are missing: it was deleted"
            " or replaced by an older copy. Put the newest generation back (gcloud storage ls"
            " --all-versions shows what the bucket keeps). Without one, count this budget as"
            " spent, or run hushrank ledger recover, which lists the known spending."
        )


def _names(found: StoredObject) -> list[str]:
    return [name for name in found.metadata.get(_NAMES, "").split(",") if name]


def _happened(mine: str, before: list[str], now: list[str], place: str) -> bool:
    """Whether the write `mine`, which the store refused as late, succeeded at an earlier try.

    Args:
        mine: name of the write.
        before: names of the writes that it was to follow.
        now: names of the last writes.
        place: place of the ledger.

    Raises:
        LedgerError: too many writes came since to decide this.
    """
    if mine in now:
        return True
    if (before and before[-1] in now) or (not before and len(now) < KEPT_NAMES):
        return False
    raise LedgerError(
        f"{place}: too many others wrote at once to tell whether this step was recorded."
        " Nothing was drawn; run again."
    )


def _unreachable(place: str, what: str, error: OSError) -> LedgerError:
    return LedgerError(
        f"{place}: the ledger cannot be {what} ({error.strerror or type(error).__name__}), and"
        " without it nothing may be drawn. Check ledger.path, the permissions of this account and"
        " the network; then run again."
    )
