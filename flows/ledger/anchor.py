"""Anchors: a second place that remembers a ledger, and a ledger that is signed and anchored.

Anchors: copies of the ledger's latest head in a second place, a local file or Cloud Storage.

A file has one line for each head, appended; it belongs on a disk of another host. In Cloud Storage,
best in a bucket of another account, each head is an object. Objects are created and never replaced
or deleted, so an account with roles that only create and read is enough
(`roles/storage.objectCreator` and `roles/storage.objectViewer`), and a retention policy may lock
them. Their names sort as the heads do. `git_anchor` keeps heads in a git repository.

Ledger backend that checks signature and anchor at every read, and keeps both up to date.

Signature. With a key, the last line of the ledger must be signed with it. It vouches for all lines
above, because it covers the hash of the line before it; so lines from before there was a key, or of
a lost key, stay valid once an operator has accepted them (`ledger recover`), which adds a line.

Anchor. The ledger must hold the line that its anchor names. An append takes three steps:
1. the anchor is brought to the line that the ledger ends with now (at the first append: to line 0);
2. the lines are appended to the ledger;
3. the anchor is brought to the last of them.
Whenever a process dies, the anchor is at most one append behind, and the next append brings it up
to date. So what a rollback could take away unseen is at most the last append, and only until then.

Reads ask the anchor first and the ledger second: an append in between makes the ledger longer,
which is allowed. Only the very first append makes an anchor of one that held nothing, so where the
anchor holds nothing and the ledger has lines, both are asked once more.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from filelock import FileLock, Timeout

from hushrank.flows.errors import NOTHING_SPENT, LedgerError
from hushrank.flows.ledger.entries import RESTORE, without_hash
from hushrank.flows.ledger.keys import Anchored, Head, Signed, Signer, Verifier, differs, head_of
from hushrank.flows.ledger.local_file import LedgerBackend, Snapshot, reason_of, write_all
from hushrank.flows.terminal import signals_held
from hushrank.transforms import system
from hushrank.transforms.common.local_files import (
    MostBytes,
    open_local,
    open_to_read,
    read_local,
    require_regular,
)
from hushrank.transforms.storage.places import OWNER_ONLY_FILE, CloudPath, ObjectChanged


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


RECOVER = "hushrank ledger recover says what continuing without it means"
_Findings = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class _Seen:
    """Head of the anchor and head of the ledger, at the last read or append."""

    token: str
    anchored: Head | None
    present: Head

    @property
    def even(self) -> bool:
        """Whether the anchor is as far as the ledger."""
        return self.anchored is not None and self.anchored.position == self.present.position


class GuardedLedger:
    """The `LedgerBackend` of another backend, with a key, an anchor or both.

    Args:
        inner: keeps the lines.
        key: key that must have signed the last line; None: signatures are not looked at.
        signer: signs heads; None: they are not signed.
        anchor: the second place; None: there is none.
    """

    def __init__(
        self,
        inner: LedgerBackend,
        *,
        key: Verifier | None = None,
        signer: Signer | None = None,
        anchor: Anchor | None = None,
    ) -> None:
        self._inner, self._key, self._signer, self._anchor = inner, key, signer, anchor
        self._seen: _Seen | None = None
        self._accepted = False

    @property
    def place(self) -> str:
        """Place of the ledger's lines."""
        return self._inner.place

    def read(self) -> Snapshot:
        """Return the present content; its `loss` covers a missing signature or anchor too.

        Raises:
            LedgerError: the inner backend fails, a signature is false, or the anchor cannot be
                read.
        """
        known, snapshot = self._both()
        if self._anchor is not None and known is None and snapshot.content:
            known, snapshot = self._both()
        anchored = None if known is None else known.head
        self._seen = _Seen(snapshot.token, anchored, self._head(snapshot.content))
        if self._accepted:
            return snapshot
        doubts = [
            *((snapshot.loss, *found) for found in snapshot.findings if snapshot.loss is not None),
            *self._unsigned(snapshot.content),
            *self._unanchored(snapshot.content, known),
        ]
        if not doubts:
            return snapshot
        findings = tuple((text, effect) for _, text, effect in doubts)
        return replace(snapshot, loss=doubts[0][0], findings=findings)

    def _both(self) -> tuple[Anchored | None, Snapshot]:
        known = None if self._anchor is None else self._anchor.latest()
        return known, self._inner.read()

    def append(self, token: str, lines: bytes) -> Snapshot | None:
        """Add `lines` to the ledger and the last of them to the anchor.

        Raises:
            LedgerError: the inner backend fails, or the anchor cannot be written. Then the lines
                may be recorded; whoever runs again goes on from there and pays nothing twice.
        """
        seen = self._seen
        if self._anchor is None:
            written = self._inner.append(token, lines)
            self._accepted = self._accepted and written is None
            return written
        if seen is None or seen.token != token:
            return None
        if not self._accepted and not seen.even:
            self._put(self._anchor, seen.present, seen, NOTHING_SPENT)
        written = self._inner.append(token, lines)
        if written is not None:
            recorded = (
                f"This step is recorded in {self.place} nevertheless: nothing is paid for twice."
            )
            head = head_of(lines)
            anchored = self._put(self._anchor, head, seen, recorded)
            self._seen, self._accepted = _Seen(written.token, anchored, head), False
        return written

    def tidy(self) -> None:
        """Clean up as the inner backend does."""
        self._inner.tidy()

    def check_writable(self) -> None:
        """Check as the inner backend does."""
        self._inner.check_writable()

    def accept_loss(self) -> None:
        """Accept the present content; the next append makes that lasting.

        That append signs the line that says so, and begins a new epoch of the anchor. If none
        comes, the ledger is refused again.
        """
        if self._inner.read().loss is not None:
            self._inner.accept_loss()
        self._accepted = True

    def hold(self, release_id: str) -> AbstractContextManager[None]:
        """Hold the lock of the inner backend."""
        return self._inner.hold(release_id)

    def _put(self, anchor: Anchor, head: Head, seen: _Seen, otherwise: str) -> Head:
        """Put `head` into the anchor, in a new epoch if an operator accepted this ledger."""
        epoch = 0 if seen.anchored is None else seen.anchored.epoch
        head = head.model_copy(update={"epoch": epoch + self._accepted})
        try:
            anchor.put(head, head.record(self._signer))
        except LedgerError as error:
            raise LedgerError(" ".join((str(error), otherwise))) from None
        return head

    def _head(self, content: bytes) -> Head:
        try:
            return head_of(content)
        except ValueError:
            raise LedgerError(
                f"{self.place}: its last line is damaged: it is not an entry of a ledger. {RESTORE}"
            ) from None

    def _unsigned(self, content: bytes) -> list[tuple[str, str, str]]:
        """Problems of the last line's signature: refusal, finding, effect.

        Raises:
            LedgerError: the line claims to be signed by this key and is not.
        """
        if self._key is None or not content:
            return []
        last = content.removesuffix(b"\n").rpartition(b"\n")[2]
        signed, mine = Signed.of(without_hash(last)), self._key.key_id
        if signed is not None and signed.holds(self._key):
            return []
        if signed is not None and signed.key_id == mine:
            raise LedgerError(forged_text(self.place, len(content.splitlines())))
        how = "is not signed" if signed is None else f"is signed with key {signed.key_id}"
        return [
            (
                f"{self.place}: its last line {how}, but ledger.signing_key is key {mine}. Somebody"
                " without the key wrote it, or this is another key, or the ledger is older than"
                " the key. Put the right key or the signed copy back. If these lines are yours,"
                f" hushrank ledger recover accepts and signs them. {NOTHING_SPENT}",
                f"its last line {how}, not with key {mine}",
                "A signed line will vouch for all lines above it, whoever wrote them",
            )
        ]

    def _unanchored(self, content: bytes, known: Anchored | None) -> list[tuple[str, str, str]]:
        """Problems between the ledger and its anchor: refusal, finding, effect.

        Raises:
            LedgerError: the signature of the anchor's head is false.
        """
        if self._anchor is None or (known is None and not content):
            return []
        place, where = self._anchor.place, f"{self.place} and ledger.anchor {self._anchor.place}"
        if known is None:
            return [
                (
                    f"ledger.anchor: {place} holds nothing, but the ledger has lines. If it is not"
                    " the right place, or its disk is not mounted, correct that; if the anchor is"
                    f" new or lost, {RECOVER}. {NOTHING_SPENT}",
                    f"its anchor {place} holds nothing",
                    "The anchor begins here: an older copy of the ledger put back before now is not"
                    " noticed",
                )
            ]
        if self._key is not None and not known.holds(self._key):
            if known.signed is not None and known.signed.key_id == self._key.key_id:
                raise LedgerError(forged_text(place, None))
            return [
                (
                    f"ledger.anchor: what {place} holds is not signed with ledger.signing_key"
                    f" (key {self._key.key_id}). Put the right key or the anchor's signed copy"
                    f" back; if the key is new, {RECOVER}. {NOTHING_SPENT}",
                    f"its anchor {place} is not signed with key {self._key.key_id}",
                    "The anchor is signed from here on",
                )
            ]
        why = differs(known.head, content)
        if why is None:
            return []
        return [
            (
                f"{where} disagree: the ledger {why}. It was cut off or edited, or an older copy"
                " was put back. Put the newest copy back, with the files beside it. Without one,"
                " count this budget as spent, or run hushrank ledger recover, which lists the known"
                f" spending. {NOTHING_SPENT}",
                f"it {why}, says its anchor {place}",
                "Spending that only the missing lines recorded counts as not spent",
            )
        ]


def forged_text(place: str, line: int | None) -> str:
    """Text that refuses a forged signature."""
    where = place if line is None else f"{place}: line {line}"
    return f"{where} was changed after it was signed: its signature is false. {RESTORE}"
