"""Windows: access lists in place of modes, and locks that other programs feel.

A file that one process has open cannot be renamed over or deleted by another: `replace` waits for
it. A process takes no signal from another one; whoever ends it ends it at once.
"""

from __future__ import annotations

import sys

assert sys.platform == "win32"  # so that type checkers of other systems pass over this module

import ctypes
import errno
import msvcrt
import os
import re
import signal
import subprocess
import threading
import time
import winreg
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PureWindowsPath
from typing import Any, BinaryIO

import ntsecuritycon
import pywintypes
import win32api
import win32security

LocalName = str | os.PathLike[str]
STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGBREAK)
# Arguments of Popen: Ctrl-C passes it by.
OWN_GROUP: dict[str, Any] = {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
_BYTES_AS_THEY_ARE = os.O_BINARY | os.O_NOINHERIT
_OWNER_ONLY_FILE = 0o600
_ONE_AT_A_TIME = threading.Lock()  # a descriptor has one position, which its threads share
_FAR = 1 << 40  # where a lock is: behind the content, so that others can read the file
_PATIENCE = 5.0  # seconds for which a file may be open elsewhere, as virus scanners do
_PAUSE = 0.02  # seconds
_LONGEST_NAME = 255  # NTFS counts UTF-16 units, of which UTF-8 needs at least as many bytes
_LONGEST_PATH, _USUAL_LONGEST_PATH = 32_760, 259  # UTF-16 units
UNIT_OF_PATHS = "characters"
_FILE_SYSTEM, _LONG_PATHS = r"SYSTEM\CurrentControlSet\Control\FileSystem", "LongPathsEnabled"
TO_OPEN_LONGER = ", or have the administrator set LongPathsEnabled"
# What people are told once, because the system cannot keep it.
NOT_KEPT = (
    "On Windows, memory_limit stops no process that reads files, and a power failure may lose the"
    " names of new files (docs/installing.md)."
)
# With whatever extension; a blank before the dot changes nothing.
_DEVICE = re.compile(r"(?i)(con|prn|aux|nul|conin\$|conout\$|(com|lpt)[1-9¹²³]) *([.:].*)?")
_CRASHED = 0xC0000000  # from here on, an exit code names an error that Windows ended a process by
_CLOSED = 0xC000013A  # Ctrl-Break, or the console was closed
_KILLED = 0xFFFFFFFF  # as by Stop-Process
_NO_DIALOGS = 0x0001 | 0x0002  # SEM_FAILCRITICALERRORS, SEM_NOGPFAULTERRORBOX
_SYSTEM = ("S-1-5-18", "S-1-5-32-544")  # the system itself, and administrators
_OWNER_RIGHTS = ("S-1-3-0", "S-1-3-4")  # stand for whoever owns the file
_READING = ntsecuritycon.FILE_READ_DATA | ntsecuritycon.GENERIC_READ | ntsecuritycon.GENERIC_ALL
_WRITING = (
    ntsecuritycon.FILE_WRITE_DATA
    | ntsecuritycon.FILE_APPEND_DATA
    | ntsecuritycon.FILE_DELETE_CHILD
    | ntsecuritycon.DELETE
    | ntsecuritycon.WRITE_DAC
    | ntsecuritycon.WRITE_OWNER
    | ntsecuritycon.GENERIC_WRITE
    | ntsecuritycon.GENERIC_ALL
)


def open_descriptor(path: LocalName, flags: int, mode: int, *, follow_links: bool) -> int:
    """Open a file as `os.open` does, byte for byte and not for child processes.

    A new file whose mode is for its owner only gets an access list that says so.
    """
    if not follow_links and os.path.islink(path):
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), os.fspath(path))
    is_new = bool(flags & os.O_CREAT) and not os.path.exists(path)
    descriptor = os.open(path, flags | _BYTES_AS_THEY_ARE, mode)
    if is_new and mode == _OWNER_ONLY_FILE:
        try:
            _keep_to_owner(path, folder=False)
        except OSError:
            os.close(descriptor)
            raise
    return descriptor


def read_at(descriptor: int, size: int, place: int) -> bytes:
    """Read up to `size` bytes from a place in a file; threads may share the descriptor."""
    with _ONE_AT_A_TIME:
        os.lseek(descriptor, place, os.SEEK_SET)
        return os.read(descriptor, size)


def read_into(descriptor: int, part: memoryview, place: int) -> int:
    """Fill `part` from a place in a file; return the number of bytes that were read."""
    found = read_at(descriptor, len(part), place)
    part[: len(found)] = found
    return len(found)


def write_at(descriptor: int, part: memoryview, place: int) -> int:
    """Write at a place in a file; return the number of bytes that were written."""
    with _ONE_AT_A_TIME:
        os.lseek(descriptor, place, os.SEEK_SET)
        return os.write(descriptor, part)


def flush_data(descriptor: int) -> None:
    """Wait until the content of a file is on the disk."""
    os.fsync(descriptor)


def flush_folder(_: LocalName, *, where_it_can: bool = False) -> None:
    """Windows flushes no folder: NTFS keeps a journal of names, which a power failure may cut."""


def replace(new: Path, path: Path) -> None:
    """Give a file or folder another name; a file there is replaced at once.

    Raises:
        PermissionError: another program has one of them open, and for more than some seconds.
    """
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            new.replace(path)
        except PermissionError:
            if path.is_dir() or time.monotonic() > deadline:
                raise
            time.sleep(_PAUSE)
        else:
            return


def memory_file(_: str) -> BinaryIO | None:
    """Windows has no file in memory."""
    return None


def longest_name(_: LocalName) -> int:
    """Most bytes of a file's name in a folder."""
    return _LONGEST_NAME


def length_of_path(path: str) -> int:
    """Return the number of UTF-16 units of a path, as the system counts."""
    return len(path.encode("utf-16-le", "surrogatepass")) // 2


@cache
def longest_path() -> int:
    """Most characters of a path that can be opened; the administrator can allow longer ones."""
    with suppress(OSError), winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, _FILE_SYSTEM) as key:
        if winreg.QueryValueEx(key, _LONG_PATHS)[0] == 1:
            return _LONGEST_PATH
    return _USUAL_LONGEST_PATH


def unfit_name(path: str) -> str | None:
    """Why no file can have a path: Windows keeps a name for a device, or takes it for another."""
    named = PureWindowsPath(path)
    for part in named.parts[bool(named.anchor) :]:
        if _DEVICE.fullmatch(part):
            return f"Windows keeps the name {part} for a device"
        if part.endswith((".", " ")) and part not in (".", ".."):
            return f"Windows leaves out the dot or blank at the end of {part!r}"
        if ":" in part:  # NTFS would hide the content in a stream of another file
            return f"Windows takes what is behind the colon of {part} for no part of a file's name"
    return None


def lock_at_once(descriptor: int) -> None:
    """Lock a file until its descriptor is closed.

    Raises:
        BlockingIOError: another process has locked it.
    """
    with _ONE_AT_A_TIME:
        before = os.lseek(descriptor, 0, os.SEEK_CUR)
        os.lseek(descriptor, _FAR, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError as error:
            raise BlockingIOError(errno.EWOULDBLOCK, error.strerror) from None
        finally:
            os.lseek(descriptor, before, os.SEEK_SET)


def mark_read_only(_: Path) -> None:
    """Nothing: Windows would then refuse to delete the file, even to its owner."""


def is_in_memory(_: int) -> bool:
    """Whether a device is a file system in memory."""
    return False


@dataclass(frozen=True)
class Access:
    """Who may open a file or folder, by its access list.

    Attributes:
        path: of it.
        owner: who owns it, as a message names them.
        is_mine: whether the user of this process owns it, or a group of administrators that they
            are in.
        is_of_system: whether the system or its administrators own it, who can write everywhere.
        others_read: whether somebody else may open it, or write to it.
        others_write: whether somebody else may write to it.
        others: identities of those who are named for it beside the owner and the system.
    """

    path: LocalName
    owner: str
    is_mine: bool
    is_of_system: bool
    others_read: bool
    others_write: bool
    others: tuple[str, ...] = ()

    def to_own(self) -> str:
        """The command that gives it to the user of this process."""
        return f'icacls "{self.path}" /setowner "{_me()[1]}"'

    def to_close(self) -> str:
        """The command after which others may not open it."""
        rights = "(OI)(CI)F" if os.path.isdir(self.path) else "F"
        others = "".join(f' /remove:g "*{who}"' for who in self.others)
        return f'icacls "{self.path}" /inheritance:r{others} /grant:r "{_me()[1]}:{rights}"'

    def to_keep_writers_out(self) -> str:
        """The command after which others may not write to it."""
        return self.to_close()


def access_of(path: LocalName, _: os.stat_result | None = None) -> Access:
    """Who may open what is at `path`; links are followed.

    Raises:
        OSError: nobody can tell.
    """
    place = os.path.realpath(path)
    os.stat(place)  # its errors are those of the other systems
    try:
        wanted = win32security.OWNER_SECURITY_INFORMATION | win32security.DACL_SECURITY_INFORMATION
        found = win32security.GetFileSecurity(place, wanted)
    except pywintypes.error as error:
        raise _os_error(error, path) from None
    owner = found.GetSecurityDescriptorOwner()
    if owner is None:  # a file system without access lists, such as exFAT
        raise OSError(errno.ENOTSUP, "its file system does not say who may open it", place)
    me, _name = _me()
    trusted = {*_SYSTEM, *_OWNER_RIGHTS, _text(me)}
    access_list = found.GetSecurityDescriptorDacl()
    allowed = 0 if access_list is not None else _READING | _WRITING  # no list: all is allowed
    others = list[str]()
    for number in range(access_list.GetAceCount() if access_list is not None else 0):
        try:
            (kind, flags), mask, who = access_list.GetAce(number)[:3]
        except NotImplementedError:  # an entry with a condition: somebody may pass it
            allowed |= _READING | _WRITING
            continue
        is_grant = kind == win32security.ACCESS_ALLOWED_ACE_TYPE
        only_inherited = flags & win32security.INHERIT_ONLY_ACE
        if is_grant and not only_inherited and _text(who) not in trusted:
            allowed |= mask & 0xFFFFFFFF
            others.append(_text(who))
    of_system = _text(owner) in _SYSTEM
    return Access(
        path,
        _name_of(owner),
        _text(owner) == _text(me) or of_system,
        of_system,
        bool(allowed & (_READING | _WRITING)),
        bool(allowed & _WRITING),
        tuple(others),
    )


def make_private_folder(folder: Path) -> None:
    """Make a folder that its owner alone can open, and the folders above it; one there stays."""
    if folder.is_dir():
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        folder.mkdir()
    except FileExistsError:
        if not folder.is_dir():
            raise
        return
    _keep_to_owner(folder, folder=True)


@contextmanager
def private_files(*paths: Path) -> Iterator[None]:
    """Files that are made in this block, whose paths are given, are for their owner alone.

    They become so when the block ends.
    """
    yield
    for path in paths:
        _keep_to_owner(path, folder=False)


def account_name() -> str:
    """Name of the account that runs this process, with its domain."""
    return _me()[1]


@contextmanager
def deaf_to_interrupts() -> Iterator[None]:
    """Keep Ctrl-C from a process that starts in this block: Windows tells all of a console.

    A Ctrl-C that comes meanwhile is lost to this process too.
    """
    set_handler = ctypes.windll.kernel32.SetConsoleCtrlHandler
    set_handler(None, True)  # child processes take over that Ctrl-C is ignored
    try:
        yield
    finally:
        set_handler(None, False)


def end_group(process: int, *, force: bool) -> None:
    """End a process that was started with `OWN_GROUP`, and all that it started."""
    subprocess.run(["taskkill", "/T", "/F", "/PID", str(process)], capture_output=True, check=False)


def ends_with_parent() -> bool:
    """Windows ends no process because its parent ended."""
    return False


def crash_of(code: int | None) -> str | None:
    """What broke a process off, by its exit code; None: it ended by itself or was killed."""
    if code is None or not _CRASHED <= code < _KILLED or code == _CLOSED:
        return None
    return f"Windows error 0x{code:08X}"


def leave_no_core_file() -> None:
    """Have a crash of this process show no dialog and start no report with its memory."""
    ctypes.windll.kernel32.SetErrorMode(_NO_DIALOGS)


class MemoryBound:
    """Windows bounds no process that asks for it; see docs/installing.md."""

    def set(self, more: int | None) -> None:
        """Do nothing."""


def address_space() -> int | None:
    """Most bytes of addresses that this process may take; None: any number."""
    return None


def allow_open_files(_: int) -> None:
    """Windows lets a process open as many files as there is memory for."""


def _me() -> tuple[Any, str]:
    """Identity and name of the user of this process."""
    token = win32security.OpenProcessToken(win32api.GetCurrentProcess(), ntsecuritycon.TOKEN_QUERY)
    me, _ = win32security.GetTokenInformation(token, win32security.TokenUser)
    return me, _name_of(me)


def _name_of(who: Any) -> str:
    with suppress(pywintypes.error):
        name, domain, _ = win32security.LookupAccountSid(None, who)
        return f"{domain}\\{name}" if domain else name
    return _text(who)


def _text(who: Any) -> str:
    """An identity in the form S-1-5-…."""
    return str(win32security.ConvertSidToStringSid(who))


def _keep_to_owner(path: LocalName, *, folder: bool) -> None:
    """Give a file or folder a list of access that names its owner alone, and inherits nothing."""
    access_list = win32security.ACL()
    below = ntsecuritycon.OBJECT_INHERIT_ACE | ntsecuritycon.CONTAINER_INHERIT_ACE if folder else 0
    access_list.AddAccessAllowedAceEx(
        win32security.ACL_REVISION, below, ntsecuritycon.FILE_ALL_ACCESS, _me()[0]
    )
    described = win32security.SECURITY_DESCRIPTOR()
    described.SetSecurityDescriptorDacl(True, access_list, False)
    protected = win32security.SE_DACL_PROTECTED  # against what the folder above would add
    described.SetSecurityDescriptorControl(protected, protected)
    try:
        win32security.SetFileSecurity(
            os.fspath(path), win32security.DACL_SECURITY_INFORMATION, described
        )
    except pywintypes.error as error:
        raise _os_error(error, path) from None


def _os_error(error: Any, path: LocalName) -> OSError:
    return OSError(errno.EACCES, str(error.strerror), os.fspath(path), int(error.winerror))
