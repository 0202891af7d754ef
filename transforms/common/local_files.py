"""Open local files, all in one way: regular files only, without waiting, up to a stated size.

A path that a person or a setting names may lead to anything. To open a FIFO waits for its other
end, for ever if there is none, and a device such as /dev/zero never ends. So whatever a path names
is looked at before and after it is opened, and only a regular file is used. A new file that appears
under a name of its own needs none of this, but it may be opened here too.

A process that parses files reports which of them it has open to the process that started it: a
parser of the libraries may end its process, and then nothing else can name the file.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import IntEnum
from pathlib import Path
from typing import BinaryIO

from hushrank.transforms import system

Report = Callable[[str, bool], None]  # name of a file, and whether its reading begins or ends

_reports: list[Report] = []  # reports of this process; empty where nobody asked
LocalName = str | os.PathLike[str]
_KINDS = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def slashed(path: str) -> str:
    """Return a local path or pattern with slashes, which every system takes as separators."""
    return path.replace(os.sep, "/")


def home_path(path: LocalName) -> Path:
    """Return a path with the home folder in place of a leading `~` or `~user`.

    Raises:
        UnfitFile: the account has no home folder, as one without an entry in a container's list of
            accounts, or nobody is called `user`.
    """
    try:
        return Path(path).expanduser()
    except RuntimeError:
        reason = "begins with ~, but no home folder of that account is known"
        raise UnfitFile(errno.ENOENT, reason, os.fspath(path)) from None


def report_to(report: Report) -> None:
    """Call `report` from now on, in any thread, before a file is read and after it was."""
    _reports.append(report)


@contextmanager
def being_read(name: str) -> Iterator[None]:
    """Report that the file `name` is read as long as the block lasts.

    After an error in the block its end is not reported, so that whoever tells of it knows the file.
    """
    for report in _reports:
        report(name, True)
    try:
        yield
    except GeneratorExit:  # whoever read the block's rows wants no more of them
        _end(name)
        raise
    _end(name)


def _end(name: str) -> None:
    for report in _reports:
        report(name, False)


class MostBytes(IntEnum):
    """The most bytes of a file that is read whole, by what the file holds.

    Far above what hushrank writes or needs, and far below what no machine has room for. Files of
    rows have no limit, because they are read part by part.
    """

    KEY = 1 << 16  # a key, or the recorded length of a ledger
    SETTINGS = 1 << 24  # a YAML file, texts of a page, metrics, digests of a release
    LIST = 1 << 28  # items, or how often they are compared
    RECORDS = 1 << 30  # a ledger, an anchor, witnesses, the result of an audit
    RELEASE = 1 << 32  # a published file
    ARRAYS = 1 << 36  # exact or noisy counts of all pairs of items, and other files of a run


class UnfitFile(OSError):  # noqa: N818 - what the file is, is the fault
    """A path that names no regular file, or one that is too large; `strerror` says which."""


def open_local(
    path: LocalName,
    flags: int = os.O_RDONLY,
    *,
    most: int | None = None,
    mode: int = 0o600,
    follow_links: bool = True,
) -> int:
    """Open a regular file and return its descriptor, which the caller closes.

    Args:
        path: path of the file.
        flags: as for `os.open`.
        most: most bytes that it may hold; None: any number.
        mode: permissions of a file that is made.
        follow_links: whether a link at `path` is followed; otherwise it is refused.

    Raises:
        UnfitFile: the file is a FIFO, a device or a socket, or too large.
        IsADirectoryError: the path is a folder.
        OSError: the file cannot be opened.
    """
    if not flags & os.O_EXCL:  # O_EXCL opens nothing that exists
        require_regular(path, follow_links=follow_links)
    descriptor = system.open_descriptor(path, flags, mode, follow_links=follow_links)
    try:
        found = os.fstat(descriptor)
        _require_regular(path, found)
        if most is not None and found.st_size > most:
            raise _too_large(path, most)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def open_to_read(path: LocalName, most: int | None = None) -> BinaryIO:
    """Open a regular file for reading; raises as `open_local`."""
    return os.fdopen(open_local(path, most=most), "rb")


def open_to_write(path: LocalName) -> BinaryIO:
    """Open a regular file, new or emptied, with the usual permissions; raises as `open_local`."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    return os.fdopen(open_local(path, flags, mode=0o666), "wb")


def read_local(path: LocalName, most: int) -> bytes:
    """Return the content of a regular file of at most `most` bytes; raises as `open_local`."""
    with open_to_read(path, most) as file:
        content = file.read()
    if len(content) > most:  # the file grew
        raise _too_large(path, most)
    return content


def require_regular(path: LocalName, *, follow_links: bool = True) -> None:
    """Refuse what is no regular file, before anything opens or replaces it; nothing there passes.

    Raises:
        UnfitFile: the file is a FIFO, a device or a socket, its links go round in a circle, or its
            system gives no file this name.
        IsADirectoryError: the path is a folder.
        OSError: nobody can tell.
    """
    if unfit := system.unfit_name(os.fspath(path)):
        raise UnfitFile(errno.EINVAL, unfit, os.fspath(path))
    try:
        found = os.stat(path, follow_symlinks=follow_links)
    except FileNotFoundError:
        return
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise UnfitFile(errno.ELOOP, "its links go round in a circle", os.fspath(path)) from None
    if not stat.S_ISLNK(found.st_mode):  # whoever opens a link that is not followed is told so
        _require_regular(path, found)


def _require_regular(path: LocalName, found: os.stat_result) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    if not stat.S_ISREG(found.st_mode):
        kind = _KINDS.get(stat.S_IFMT(found.st_mode), "something else")
        raise UnfitFile(errno.EINVAL, f"it is {kind}, not a regular file", os.fspath(path))


def _too_large(path: LocalName, most: int) -> UnfitFile:
    size = f"{most >> 20} MiB" if most >= 1 << 20 else f"{most >> 10} KiB"
    why = f"it is larger than {size}, the most that such a file may hold"
    return UnfitFile(errno.EFBIG, why, os.fspath(path))
