"""Linux and macOS."""

from __future__ import annotations

import sys

assert sys.platform != "win32"  # so that type checkers of Windows pass over this module

import fcntl
import os
import pwd
import resource
import signal
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO

LocalName = str | os.PathLike[str]
STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
OWN_GROUP: dict[str, Any] = {"start_new_session": True}  # arguments of Popen: Ctrl-C passes it by
_NEVER_WAITING = os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_KILLING = (signal.SIGKILL, signal.SIGTERM)
_ROOT = 0  # number of the user who can write everywhere
_READ_BY_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_WRITTEN_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_OWNER_ONLY_FOLDER, _READ_ONLY, _NOT_FOR_OTHERS = 0o700, 0o444, 0o077
_MEMORY_KINDS = {"tmpfs", "ramfs", "devtmpfs", "hugetlbfs"}
_LONGEST_PATH = 4095 if sys.platform == "linux" else 1023  # PATH_MAX without the zero at its end
UNIT_OF_PATHS = "bytes"
TO_OPEN_LONGER = ""  # what an administrator can do about it
# What people are told once, because the system cannot keep it; empty: it keeps everything.
NOT_KEPT = (
    ""
    if sys.platform == "linux"
    else "On macOS, memory_limit stops no process that reads files (docs/installing.md)."
)
_PR_SET_PDEATHSIG = 1  # Linux: choose the signal for the parent's death


def open_descriptor(path: LocalName, flags: int, mode: int, *, follow_links: bool) -> int:
    """Open a file as `os.open` does, without waiting and not for child processes."""
    more = _NEVER_WAITING if follow_links else _NEVER_WAITING | os.O_NOFOLLOW
    return os.open(path, flags | more, mode)


def read_at(descriptor: int, size: int, place: int) -> bytes:
    """Read up to `size` bytes from a place in a file; threads may share the descriptor."""
    return os.pread(descriptor, size, place)


def read_into(descriptor: int, part: memoryview, place: int) -> int:
    """Fill `part` from a place in a file; return the number of bytes that were read."""
    return os.preadv(descriptor, [part], place)


def write_at(descriptor: int, part: memoryview, place: int) -> int:
    """Write at a place in a file; return the number of bytes that were written."""
    return os.pwrite(descriptor, part, place)


def flush_data(descriptor: int) -> None:
    """Wait until the content of a file is on the disk; its times may come later."""
    getattr(os, "fdatasync", os.fsync)(descriptor)


def flush_folder(folder: LocalName, *, where_it_can: bool = False) -> None:
    """Make the names in a folder survive a power failure.

    Args:
        folder: its path.
        where_it_can: say nothing if the file system refuses it, as some network file systems do.

    Raises:
        OSError: the folder cannot be opened, or cannot be flushed.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError:
        if not where_it_can:
            raise
    finally:
        os.close(descriptor)


def replace(new: Path, path: Path) -> None:
    """Give a file or folder another name; a file there is replaced at once."""
    new.replace(path)


def memory_file(name: str) -> BinaryIO | None:
    """A file in memory, without a name in any folder; None where only a disk can hold one."""
    if sys.platform != "linux":
        return None
    return os.fdopen(os.memfd_create(name), "w+b")


def longest_name(folder: LocalName) -> int:
    """Most bytes of a file's name in a folder."""
    return os.pathconf(folder, "PC_NAME_MAX")


def length_of_path(path: str) -> int:
    """Return the number of bytes of a path, as the system counts."""
    return len(os.fsencode(path))


def longest_path() -> int:
    """Most bytes of a path that can be opened."""
    return _LONGEST_PATH


def unfit_name(_: str) -> str | None:
    """Why no file can have a path; every name without a slash is a file's here."""
    return None


def lock_at_once(descriptor: int) -> None:
    """Lock a file until its descriptor is closed.

    Raises:
        BlockingIOError: another process has locked it.
    """
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def mark_read_only(path: Path) -> None:
    """Have the system refuse to write to a file."""
    path.chmod(_READ_ONLY)


@cache
def is_in_memory(device: int) -> bool:
    """Whether a device is a file system in memory, whose files keep their times when mapped.

    Args:
        device: its number, `st_dev`.
    """
    if sys.platform != "linux":
        return False
    number = f"{os.major(device)}:{os.minor(device)}"
    with suppress(OSError):
        for line in Path("/proc/self/mountinfo").read_text("utf-8").splitlines():
            mount, _, kind = line.partition(" - ")
            if mount.split()[2] == number:
                return kind.split()[0] in _MEMORY_KINDS
    return True  # nobody knows: then no time is believed


@dataclass(frozen=True)
class Access:
    """Who may open a file or folder, by its mode.

    Attributes:
        path: of it.
        owner: who owns it, as a message names them.
        is_mine: whether the user of this process owns it.
        is_of_system: whether an account owns it that can write everywhere.
        others_read: whether somebody else may open it, or write to it.
        others_write: whether somebody else may write to it.
    """

    path: LocalName
    owner: str
    is_mine: bool
    is_of_system: bool
    others_read: bool
    others_write: bool

    def to_own(self) -> str:
        """The command that gives it to the user of this process."""
        return f"chown {os.geteuid()} {self.path}"

    def to_close(self) -> str:
        """The command after which others may not open it."""
        mode = "700" if os.path.isdir(self.path) else "600"
        return f"chmod {mode} {self.path}"

    def to_keep_writers_out(self) -> str:
        """The command after which others may not write to it."""
        return f"chmod go-w {self.path}"


def access_of(path: LocalName, found: os.stat_result | None = None) -> Access:
    """Who may open what is at `path`.

    Args:
        path: of a file or folder; links are followed.
        found: what `os.fstat` said of it, if it is open.

    Raises:
        OSError: nobody can tell.
    """
    found = os.stat(path) if found is None else found
    return Access(
        path,
        f"number {found.st_uid}",
        found.st_uid == os.geteuid(),
        found.st_uid == _ROOT,
        bool(found.st_mode & _READ_BY_OTHERS),
        bool(found.st_mode & _WRITTEN_BY_OTHERS),
    )


def make_private_folder(folder: Path) -> None:
    """Make a folder that its owner alone can open, and the folders above it; one there stays."""
    folder.mkdir(mode=_OWNER_ONLY_FOLDER, parents=True, exist_ok=True)


@contextmanager
def private_files(*_: Path) -> Iterator[None]:
    """Files that are made in this block, whose paths are given, are for their owner alone."""
    before = os.umask(_NOT_FOR_OTHERS)
    try:
        yield
    finally:
        os.umask(before)


def account_name() -> str:
    """Name of the account that runs this process, by its user id; the id if it has no name."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # as in a container
        return f"uid {os.getuid()}"


@contextmanager
def deaf_to_interrupts() -> Iterator[None]:
    """Keep Ctrl-C and the closing of the terminal from a process that starts in this block."""
    from multiprocessing import resource_tracker

    resource_tracker.ensure_running()  # its start would unblock the signals again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGHUP})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def end_group(process: int, *, force: bool) -> None:
    """End a process that was started with `OWN_GROUP`, and all that it started.

    Raises:
        ProcessLookupError: it has ended.
    """
    os.killpg(process, signal.SIGKILL if force else signal.SIGTERM)


def ends_with_parent() -> bool:
    """Have the kernel send SIGTERM to this process when its parent ends; False: it cannot."""
    if sys.platform != "linux":
        return False
    import ctypes

    failed: int = ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    return not failed


def crash_of(code: int | None) -> str | None:
    """What broke a process off, by its exit code; None: it ended by itself or was killed."""
    if code is None or code >= 0 or -code in _KILLING:
        return None
    return signal.Signals(-code).name


def leave_no_core_file() -> None:
    """Have a crash of this process leave no file with its memory."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


class MemoryBound:
    """The bound of the memory of this process, beside what its libraries have taken by now.

    On Linux alone, where it counts memory that can be written (`RLIMIT_DATA`), mapped or not;
    elsewhere it does nothing. A lower bound that somebody else has set stays.
    """

    def __init__(self) -> None:
        """Note what the libraries have taken."""
        if sys.platform == "linux":
            self._set_before, self._most = resource.getrlimit(resource.RLIMIT_DATA)
            # Linux counts in pages.
            pages = int(Path("/proc/self/statm").read_text("ascii").split()[5])
            self._taken = pages * resource.getpagesize()

    def set(self, more: int | None) -> None:
        """Let this process take `more` bytes from now on; None: as many as it could before."""
        if sys.platform == "linux":
            bound = self._set_before
            if more is not None:
                wanted = self._taken + more
                bound = wanted if bound == resource.RLIM_INFINITY else min(wanted, bound)
            resource.setrlimit(resource.RLIMIT_DATA, (bound, self._most))


def address_space() -> int | None:
    """Most bytes of addresses that this process may take; None: any number."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    return None if limit == resource.RLIM_INFINITY else limit


def allow_open_files(wanted: int) -> None:
    """Raise the limit of open files to `wanted`, as far as the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
