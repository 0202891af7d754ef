"""Python starts with this module: what POSIX alone has is gone, as on another system.

`HUSHRANK_AS=windows` also puts stand-ins in the place of the modules that Windows alone has, built
on what was taken away; access lists are modes. Files that are open can be neither replaced nor
deleted, and no file has a second name. `HUSHRANK_AS=macos` leaves what macOS
has. Standard library and other packages go on as before: they were loaded, or have other ways.
"""

from __future__ import annotations

import ctypes
import errno
import importlib
import os
import signal
import subprocess
import sys
import tempfile  # noqa: F401 - before its ways are taken away
from multiprocessing import resource_tracker
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import filelock  # noqa: F401 - the same

FUNCTIONS = (
    *("pread", "pwrite", "preadv", "pwritev", "memfd_create", "geteuid", "getuid", "getegid"),
    *("killpg", "setsid", "pathconf", "fdatasync", "chown", "fchown", "fchmod", "lchown"),
    *("sched_getaffinity", "getpgid", "mkfifo", "major", "minor"),
    *("O_NOFOLLOW", "O_DIRECTORY", "O_NONBLOCK", "O_CLOEXEC", "O_NOCTTY"),
)
SIGNALS = ("SIGHUP", "SIGKILL", "SIGQUIT", "pthread_sigmask")
ME, SYSTEM, EVERYBODY = "S-1-5-21-1", "S-1-5-18", "S-1-1-0"


def stand_in(name: str, **content: Any) -> None:
    module = ModuleType(name)
    vars(module).update(content)
    sys.modules[name] = module


def windows() -> None:
    import fcntl

    lock, own, chmod = fcntl.flock, os.geteuid(), os.chmod
    exclusive = fcntl.LOCK_EX | fcntl.LOCK_NB

    class Error(Exception):
        winerror, strerror = 5, "Access is denied."

    class AccessList:
        def __init__(self) -> None:
            self.entries: list[tuple[tuple[int, int], int, str]] = []

        def AddAccessAllowedAceEx(self, _: int, flags: int, mask: int, who: str) -> None:
            self.entries.append(((0, flags), mask, who))

        def GetAceCount(self) -> int:
            return len(self.entries)

        def GetAce(self, number: int) -> tuple[tuple[int, int], int, str]:
            return self.entries[number]

    class Descriptor:
        def __init__(self, owner: str = ME) -> None:
            self.owner, self.list, self.control = owner, AccessList(), 0

        def GetSecurityDescriptorOwner(self) -> str:
            return self.owner

        def GetSecurityDescriptorDacl(self) -> AccessList:
            return self.list

        def SetSecurityDescriptorDacl(self, _: bool, given: AccessList, __: bool) -> None:
            self.list = given

        def SetSecurityDescriptorControl(self, mask: int, bits: int) -> None:
            self.control = self.control & ~mask | bits

    def get(path: str, _: int) -> Descriptor:
        try:
            found = os.stat(path)
        except OSError as error:
            raise Error from error
        described = Descriptor(ME if found.st_uid == own else "S-1-5-21-2")
        for who, bits in ((ME, found.st_mode >> 6), (EVERYBODY, found.st_mode)):
            mask = (bits & 4 and 1) | (bits & 2 and 2)
            if mask:
                described.list.AddAccessAllowedAceEx(2, 0, mask, who)
        return described

    def put(path: str, _: int, described: Descriptor) -> None:
        assert described.control == 0x1000, "the list of the folder above still holds"
        assert [who for _, _, who in described.list.entries] == [ME]
        chmod(path, 0o700 if os.path.isdir(path) else 0o600)

    stand_in("pywintypes", error=Error)
    stand_in("win32api", GetCurrentProcess=lambda: -1)
    stand_in(
        "ntsecuritycon",
        **{"FILE_READ_DATA": 1, "FILE_WRITE_DATA": 2, "FILE_APPEND_DATA": 4},
        **{"FILE_DELETE_CHILD": 64, "DELETE": 1 << 16, "WRITE_DAC": 1 << 18},
        **{"WRITE_OWNER": 1 << 19, "GENERIC_WRITE": 1 << 30, "GENERIC_READ": -(1 << 31)},
        **{"GENERIC_ALL": 1 << 28, "FILE_ALL_ACCESS": 0x1F01FF, "TOKEN_QUERY": 8},
        **{"OBJECT_INHERIT_ACE": 1, "CONTAINER_INHERIT_ACE": 2},
    )
    stand_in(
        "win32security",
        ACL=AccessList,
        SECURITY_DESCRIPTOR=Descriptor,
        GetFileSecurity=get,
        SetFileSecurity=put,
        OpenProcessToken=lambda process, rights: 0,
        GetTokenInformation=lambda token, what: (ME, 0),
        LookupAccountSid=lambda machine, who: ("ann", "OFFICE", 1),
        ConvertSidToStringSid=lambda who: who,
        **{"OWNER_SECURITY_INFORMATION": 1, "DACL_SECURITY_INFORMATION": 4, "TokenUser": 1},
        **{"ACL_REVISION": 2, "SE_DACL_PROTECTED": 0x1000, "INHERIT_ONLY_ACE": 8},
        ACCESS_ALLOWED_ACE_TYPE=0,
    )

    class Key:
        def __enter__(self) -> None:
            pass

        def __exit__(self, *_: object) -> None:
            pass

    stand_in(
        "winreg",
        HKEY_LOCAL_MACHINE=0,
        HKEYType=Key,  # Beam's pickles know it
        OpenKey=lambda *_: Key(),
        QueryValueEx=lambda *_: (0, 4),  # long paths are off, as on a new machine
    )

    def locking(descriptor: int, _: int, __: int) -> None:
        try:
            lock(descriptor, exclusive)
        except OSError as error:
            raise PermissionError(errno.EACCES, "Permission denied") from error

    stand_in("msvcrt", locking=locking, LK_NBLCK=2)
    kernel = SimpleNamespace(
        SetConsoleCtrlHandler=lambda *_: 1,
        SetErrorMode=lambda *_: 0,
    )
    ctypes.windll = SimpleNamespace(kernel32=kernel)  # type: ignore[attr-defined]
    subprocess.CREATE_NEW_PROCESS_GROUP = 0  # type: ignore[attr-defined]
    signal.SIGBREAK = signal.SIGUSR2  # type: ignore[attr-defined]
    os.O_BINARY = os.O_NOINHERIT = 0  # type: ignore[attr-defined]
    for name in ("fcntl", "resource", "grp", "pwd"):
        sys.modules[name] = None  # type: ignore[assignment]
    whole = ModuleType("os")
    vars(whole).update(vars(os))
    for name, module in sys.modules.items():  # on Windows it has ways of its own
        if name.startswith("filelock") and hasattr(module, "os"):
            module.os = whole  # type: ignore[attr-defined]
    for name in FUNCTIONS:
        delattr(os, name)
    resource_tracker._HAVE_SIGMASK = False  # type: ignore[attr-defined]
    for name in SIGNALS:
        delattr(signal, name)
    files_as_on_windows()


def is_open(path: Any) -> bool:
    """Whether this process has a file open; there another one could not replace it either."""
    wanted = os.path.realpath(path)
    for each in os.listdir("/proc/self/fd"):
        try:
            if os.readlink(f"/proc/self/fd/{each}") == wanted:
                return True
        except OSError:
            continue
    return False


def files_as_on_windows() -> None:
    def refusing(action: Any, places: int) -> Any:
        def called(*paths: Any, **named: Any) -> Any:
            for path in paths[:places]:
                if not named and is_open(path):
                    raise PermissionError(errno.EACCES, "it is open", os.fspath(path))
            return action(*paths, **named)

        return called

    def no_links(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP))

    rename = os.rename

    def only_to_a_new_name(source: Any, target: Any, **named: Any) -> None:
        if os.path.lexists(target):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), os.fspath(target))
        rename(source, target, **named)

    os.rename = only_to_a_new_name
    for name, places in (("replace", 2), ("unlink", 1), ("remove", 1)):
        setattr(os, name, refusing(getattr(os, name), places))
    os.link = no_links
    Path.replace = lambda self, target: (os.replace(self, target), Path(target))[1]  # type: ignore[method-assign, assignment, return-value]


kind = os.environ.get("HUSHRANK_AS")
if kind == "windows":
    windows()
    before, sys.platform = sys.platform, "win32"
    importlib.import_module("hushrank.transforms.system")
    sys.platform = before
elif kind == "macos":
    del os.memfd_create
    posix = importlib.import_module("hushrank.transforms.system.posix")
    posix.sys = SimpleNamespace(platform="darwin")  # type: ignore[attr-defined]
