"""Ledger in a local file.

Entries are appended; the file is never rewritten and renamed. So the bytes of the past are written
once, no failure can harm them, and a link to the file stays a link.

These stand beside `ledger.jsonl`:
- `ledger.jsonl.lock` is held during an append; the operating system frees it when its holder dies;
- `ledger.jsonl.length` holds how many bytes the ledger had after the last append. It tells an
  interrupted append, which is harmless because its entries never took effect, from a ledger that
  was cut off or replaced by an older copy, which is refused;
- `ledger.jsonl.runs/` has one lock for each release, held while it runs.

An append writes the lines, calls fsync, and then records the length. If the process dies in
between, the lines count and the recorded length is too small, which is allowed. Before the very
first lines a length of 0 is recorded. So if lines exist without a length, somebody has removed the
length or restored an older copy without it.

All these files are readable by their owner alone. Somebody who may write in the folder of a ledger
can restore an older ledger, or plant a link where the next run writes. So a folder that others may
write in is refused, and no file is opened through a link or over an existing file.

The interface between the ledger and the storage of its lines.

A backend stores bytes and knows nothing of budgets. It only appends, and only if the content is
still exactly what the caller has read. This is compare-and-swap; a file with a lock can do it, and
so can an object with a generation number.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from glob import escape
from itertools import chain
from pathlib import Path
from typing import Protocol, TypeVar

from filelock import FileLock, Timeout

from hushrank.flows.errors import LedgerError, RunInProgress
from hushrank.flows.ledger.entries import LINE_START
from hushrank.flows.terminal import signals_held
from hushrank.transforms import system
from hushrank.transforms.common.local_files import (
    MostBytes,
    UnfitFile,
    open_local,
    read_local,
    require_regular,
)
from hushrank.transforms.storage.places import is_for_want_of_links, is_stale

WAIT_STEP = 0.1  # seconds between two tries to take a lock that another run holds
_LENGTH = re.compile(rb"(0|[1-9][0-9]{0,17})\n?")
MISSING = (
    "lines at the end of the ledger are missing, or may be missing",
    "Spending that only these lines recorded counts as not spent",
)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Content of a ledger at one moment.

    Attributes:
        content: whole lines; the rest of an interrupted append is left out.
        token: identifies exactly this content; empty content has a token too.
        loss: evidence of the backend that lines at the end are missing, or that somebody else wrote
            them, and what to do; None: neither is so.
        findings: evidence for `ledger recover`: what is wrong, and what going on means; neither
            ends with a full stop.
    """

    content: bytes
    token: str
    loss: str | None = None
    findings: tuple[tuple[str, str], ...] = (MISSING,)


def length_of(text: bytes) -> int:
    """Read the length of a ledger, as it is recorded beside the ledger.

    Raises:
        ValueError: no append wrote this.
    """
    if _LENGTH.fullmatch(text) is None:
        raise ValueError("no length of a ledger")
    return int(text)


def ends_a_line(length: int, content: bytes) -> bool:
    """Whether an append can have left a ledger of that length, which now has `content`."""
    return not 0 < length <= len(content) or content[length - 1 : length] == b"\n"


def damaged_length(length_place: str, place: str) -> LedgerError:
    """Build the error of a length that no append wrote."""
    return LedgerError(
        f"{length_place} is damaged: it does not hold a number that an append writes. If {place} is"
        " complete, delete it and run hushrank ledger recover."
    )


class LedgerBackend(Protocol):
    """Store of the lines of one ledger. Every method raises LedgerError if it fails."""

    @property
    def place(self) -> str:
        """Place of the ledger, for messages."""
        ...

    def read(self) -> Snapshot:
        """Return the present content; an absent ledger is empty."""
        ...

    def append(self, token: str, lines: bytes) -> Snapshot | None:
        """Add `lines` for good, if the content is still the one that `token` identifies.

        If the append fails, or the process dies during it, the content is either unchanged, or has
        all `lines`, or has the first few of them.

        Returns:
            What the ledger holds now: `lines` are on stable storage. None: somebody else wrote
            first; nothing changed.
        """
        ...

    def tidy(self) -> None:
        """Delete files that a dead append left beside the ledger."""
        ...

    def check_writable(self) -> None:
        """Raise the error that would refuse an append or a run, without writing a line."""
        ...

    def accept_loss(self) -> None:
        """Accept the present content as complete; `Snapshot.loss` is None afterwards."""
        ...

    def hold(self, release_id: str) -> AbstractContextManager[None]:
        """Keep every other run of that release out until the block ends or the process dies.

        Raises:
            LedgerError: another run holds it.
        """
        ...


@contextmanager
def held(backend: LedgerBackend, release_id: str, wait: float) -> Iterator[None]:
    """Hold the lock of a release; wait at most `wait` seconds while another run holds it.

    Raises:
        RunInProgress: the other run goes on.
    """
    until = time.monotonic() + wait
    with ExitStack() as lock:
        while True:
            try:
                lock.enter_context(backend.hold(release_id))
                break
            except RunInProgress:
                if (left := until - time.monotonic()) <= 0:
                    raise
                time.sleep(min(left, WAIT_STEP))
        yield


NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL


def require_own_folder(path: Path) -> None:
    """Raise LedgerError if others can write in the folder of the ledger at `path`.

    If `path` is a link, the folder that it leads to is checked too. A folder that does not exist
    yet passes: the ledger makes it for its owner alone.
    """
    for folder in {path.parent, Path(os.path.realpath(path)).parent}:
        try:
            found = system.access_of(folder)
        except (FileNotFoundError, NotADirectoryError):
            continue
        if not (found.is_mine or found.is_of_system):
            raise LedgerError(
                f"ledger.path: {folder} belongs to another user ({found.owner}), who could"
                " put an older ledger back. Keep the ledger in a folder of the account that runs"
                f" hushrank: {found.to_own()}, or name another one. Nothing was spent."
            )
        if found.others_write:
            raise LedgerError(
                f"ledger.path: {folder} can be written by other users of this machine, who could"
                f" put an older ledger back. Run: {found.to_keep_writers_out()}; or name a folder"
                " of your own, such as .hushrank. Nothing was spent."
            )


def replace_private(path: Path, content: bytes) -> None:
    """Put `content` at `path`. At every moment, the old file or the whole new file is there.

    Only one process at a time may do this for a path; `LedgerBackend.tidy` removes its leftovers.

    Raises:
        OSError: the file cannot be written.
    """
    new = _written(path, f"{path}.new", content)
    system.replace(new, path)
    with suppress(OSError):  # the new file is in place, so an error would be wrong
        system.flush_folder(path.parent)


def create_private(path: Path, content: bytes) -> bool:
    """Put `content` at `path` if nothing is there; return whether nothing was there.

    Raises:
        OSError: the file cannot be written.
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
            os.close(open_local(path, NEW_FILE, follow_links=False))
        except FileExistsError:
            return False
        system.replace(new, path)
    finally:
        new.unlink(missing_ok=True)
    system.flush_folder(path.parent)
    return True


def read_private(path: Path, most: int) -> bytes:
    """Read up to `most` bytes of the file at `path`, which may not be a link.

    Raises:
        LedgerError: others can read it too.
        OSError: the file does not exist, is a link, or cannot be read.
    """
    descriptor = open_local(path, follow_links=False)
    with os.fdopen(descriptor, "rb") as file:
        found = system.access_of(path, os.fstat(descriptor))
        if found.others_read:
            raise LedgerError(
                f"{path}: can be read by other users of this machine. Anybody who has it can learn"
                f" from published ids which files there were. Run: {found.to_close()}"
            )
        return file.read(most)


def write_all(descriptor: int, content: bytes) -> None:
    """Write all of `content`, in as many calls as that takes."""
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]


def _written(path: Path, name: str, content: bytes) -> Path:
    """Write a new file with that name, with `content` on disk."""
    new = Path(name)
    new.unlink(missing_ok=True)  # left by a killed run, or planted by somebody
    descriptor = open_local(new, NEW_FILE, follow_links=False)
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


LOCK_TIMEOUT = 20.0  # seconds; an append holds the lock for milliseconds
LOCK_POLL = 0.01  # seconds
BESIDE = (".length.new", f".key.{'[0-9a-f]' * 32}.new")  # unfinished files beside the ledger

_Result = TypeVar("_Result")


class LedgerFile:
    """`LedgerBackend` of a local file. The first append creates it, for its owner alone.

    Args:
        path: the file; its folder is created too.
        lock_timeout: seconds to wait for other processes.
    """

    def __init__(self, path: Path, lock_timeout: float = LOCK_TIMEOUT) -> None:
        self._path = path
        self._length_path = Path(f"{path}.length")
        self._runs = Path(f"{path}.runs")
        self._lock_timeout = lock_timeout

    @property
    def place(self) -> str:
        """Path of the file."""
        return str(self._path)

    def read(self) -> Snapshot:
        """Return the present content, without the rest of an interrupted append. Takes no lock.

        Raises:
            LedgerError: the file exists but cannot be read.
        """
        require_own_folder(self._path)
        recorded, content = self._both()
        if recorded is None and content:  # the very first append may have come in between
            recorded, content = self._both()
        return Snapshot(content, _token(content), self._loss(content, recorded))

    def _both(self) -> tuple[int | None, bytes]:
        """Read the recorded length, and then the content: an append in between makes it longer."""
        return self._recorded_length(), _whole_lines(self._content())

    def append(self, token: str, lines: bytes) -> Snapshot | None:
        """Add `lines` and wait until they are on the disk; see `LedgerBackend.append`.

        Raises:
            LedgerError: the file cannot be written or stayed locked; its content is unchanged.
        """
        return self._locked(lambda: self._append_locked(token, lines))

    def tidy(self) -> None:
        """Delete unfinished new versions of the files beside the ledger, left by dead writers.

        Raises:
            LedgerError: as for `append`.
        """
        found = (self._path.parent.glob(f"{escape(self._path.name)}{each}") for each in BESIDE)
        dead = [path for path in chain.from_iterable(found) if is_stale(path)]
        if dead:
            self._locked(lambda: _delete(dead))

    def check_writable(self) -> None:
        """Take the lock once if there is a ledger; see `LedgerBackend.check_writable`."""
        if not self._path.exists():
            return
        self._locked(lambda: None)
        if self._runs.exists() and not (self._runs.is_dir() and os.access(self._runs, os.W_OK)):
            raise _no_lock(self._runs, os.strerror(errno.EACCES))

    def accept_loss(self) -> None:
        """Record the length of the present content; see `LedgerBackend.accept_loss`."""
        self._locked(lambda: self._record_length(len(_whole_lines(self._content()))))

    @contextmanager
    def hold(self, release_id: str) -> Iterator[None]:
        """Keep every other run of that release out; see `LedgerBackend.hold`."""
        lock = FileLock(self._runs / f"{release_id}.lock", mode=0o600, thread_local=False)
        try:
            with signals_held():
                self._take(lock, release_id)
            yield
        finally:
            lock.release()

    def _take(self, lock: FileLock, release_id: str) -> None:
        try:
            system.make_private_folder(self._path.parent)
            require_own_folder(self._path)
            system.make_private_folder(self._runs)
            require_regular(lock.lock_file)
            lock.acquire(timeout=0)
        except Timeout:
            raise RunInProgress(
                f"Another run of release {release_id} is in progress. Wait until it ends;"
                " then run again, which will cost nothing if it succeeded."
            ) from None
        except OSError as error:
            raise _no_lock(self._runs, reason_of(error)) from error

    def _locked(self, action: Callable[[], _Result]) -> _Result:
        """Run `action` while no other process writes.

        Raises:
            LedgerError: something could not be written, or the file stayed locked.
        """
        deadline = time.monotonic() + self._lock_timeout
        try:
            system.make_private_folder(self._path.parent)
            require_own_folder(self._path)
            while True:
                try:
                    return self._once_locked(action)
                except Timeout:
                    if time.monotonic() > deadline:
                        raise
                time.sleep(LOCK_POLL)
        except Timeout:
            raise LedgerError(
                f"{self._path}: other processes kept it locked for {self._lock_timeout:g} s."
                " Run again once they are done."
            ) from None
        except OSError as error:
            raise LedgerError(
                f"{self._path}: the ledger cannot be written ({reason_of(error)});"
                " its content is unchanged. Free some space or correct the permissions, then run"
                " again."
            ) from error

    def _once_locked(self, action: Callable[[], _Result]) -> _Result:
        """Run `action` if the lock is free. Signals wait until the lock is free again.

        A handler of the signal gives the reservation back, and it needs this very lock.

        Raises:
            Timeout: another process holds the lock.
        """
        require_regular(f"{self._path}.lock")
        lock = FileLock(f"{self._path}.lock", mode=0o600)
        with signals_held(), lock.acquire(timeout=0):
            return action()

    def _append_locked(self, token: str, lines: bytes) -> Snapshot | None:
        descriptor = open_local(
            self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND, most=MostBytes.RECORDS
        )
        try:
            found = _read_all(descriptor)
            content = _whole_lines(found)
            if _token(content) != token:
                return None
            if not content and self._recorded_length() is None:
                # if the length is missing later, an older ledger was put back
                self._record_length(0)
            if len(found) > len(content):
                os.ftruncate(descriptor, len(content))  # the rest of an interrupted append
            try:
                write_all(descriptor, lines)
                os.fsync(descriptor)
                if not content:
                    system.flush_folder(self._path.parent)
                self._record_length(len(content) + len(lines))
            except OSError:
                os.ftruncate(descriptor, len(content))
                raise
            return Snapshot(content + lines, _token(content + lines))
        finally:
            os.close(descriptor)

    def _content(self) -> bytes:
        try:
            return read_local(self._path, MostBytes.RECORDS)
        except FileNotFoundError:
            return b""
        except OSError as error:
            raise _unreadable(self._path, error) from error

    def _loss(self, content: bytes, recorded: int | None) -> str | None:
        """Reason why lines must be missing; None if none are missing.

        Raises:
            LedgerError: no append can have recorded that length.
        """
        if recorded is None and content:
            return (
                f"{self._length_path} is missing, so hushrank cannot tell whether this ledger is"
                " the newest. Put the newest copy back, with the files beside it; or run hushrank"
                " ledger recover, which lists the known spending."
            )
        if recorded is not None and not ends_a_line(recorded, content):
            raise damaged_length(str(self._length_path), str(self._path))
        if recorded is None or len(content) >= recorded:
            return None
        return (
            f"{self._path}: {recorded - len(content)} bytes at its end are missing: it was cut off,"
            " deleted or replaced by an older copy. Put the newest copy back. Without one, count"
            " this budget as spent, or run hushrank ledger recover, which lists the known spending."
        )

    def _recorded_length(self) -> int | None:
        try:
            return length_of(read_local(self._length_path, MostBytes.KEY))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _unreadable(self._length_path, error) from error
        except ValueError as error:
            raise damaged_length(str(self._length_path), str(self._path)) from error

    def _record_length(self, length: int) -> None:
        replace_private(self._length_path, f"{length}\n".encode())


def _whole_lines(content: bytes) -> bytes:
    """Return `content` without an unfinished last entry. Other unfinished lines stay and are
    refused."""
    end = content.rfind(b"\n") + 1
    rest = content[end:]
    unfinished = rest.startswith(LINE_START) or LINE_START.startswith(rest)
    return content[:end] if unfinished else content


def _delete(paths: Iterable[Path]) -> None:
    for path in paths:
        path.unlink(missing_ok=True)


def _token(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _read_all(descriptor: int) -> bytes:
    with os.fdopen(os.dup(descriptor), "rb") as file:
        return file.read()


def _unreadable(path: Path, error: OSError) -> LedgerError:
    if isinstance(error, UnfitFile | IsADirectoryError):
        return LedgerError(
            f"{path}: the ledger cannot be read ({error.strerror}). Put the ledger's own file back"
            " there, or set ledger.path to another file. Nothing was spent."
        )
    return LedgerError(
        f"{path}: the ledger cannot be read ({reason_of(error)})."
        " Correct ledger.path or its permissions."
    )


def _no_lock(runs: Path, why: str) -> LedgerError:
    return LedgerError(
        f"{runs}: the lock of this run cannot be made ({why})."
        " Correct the permissions or ledger.path."
    )


def reason_of(error: OSError) -> str:
    """Return the system's text of an error, with the file's name if it is another file."""
    if isinstance(error, UnfitFile | IsADirectoryError):
        return f"{error.filename}: {error.strerror}"
    return error.strerror or type(error).__name__
