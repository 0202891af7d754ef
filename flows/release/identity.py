"""The content of input files, in a text for each file that only the ledger's owner can compute.

What identifies the content:
- a local file: BLAKE3 of its bytes, keyed by the ledger's key, so nobody else can test a guess;
- an object in Cloud Storage: MD5 and size, as the store states them; an object of joined parts has
  no MD5, so its URL and generation;
- an object of another store: URL, size and ETag, for an ETag need not come from the bytes alone;
- a data file of a table: its last name and the table's snapshot; rows of a service: its table and
  snapshot; a table in memory: the keyed digest of its rows.
So a local file has the same text when it is touched, moved, copied or linked. A copy that was
packed or written again, with its rows in another order for example, has another. Which rows a
content means depends on its format, its packing and the columns that folders of its path tell
besides: they stand in the text for a release (`meant_by`), and not in the name that the ledger
knows a copy by.

Digests of large files are remembered in the confidential folder, by device, inode, size and both
times of the file, on this machine. Each is signed with the ledger's key, so an edited one does not
count. None is remembered of a file that changed just before: a second change might leave the times
as they are, because clocks of file systems are coarse. A program that has mapped a file into memory
moves its times with the first change of a page alone, until the page is written to the disk. So the
file is flushed before it is read; where that does nothing, in memory, no digest is remembered and
no time is believed. Without the folder, everything works and takes longer.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import astuple, dataclass
from functools import cache
from pathlib import Path

from blake3 import blake3

from hushrank.flows.ledger.key import LedgerKey, Purpose
from hushrank.transforms.common.local_files import MostBytes, open_local, read_local
from hushrank.transforms.common.schema import InputError
from hushrank.transforms.storage.cloud_storage import Place
from hushrank.transforms.storage.files import FileFormat, InputFile, ending_of, is_remote
from hushrank.transforms.storage.packing import is_packed
from hushrank.transforms.storage.write import write_whole
from hushrank.transforms.tables.parts import DataFile, ServedTable

CACHE_FILE = "digests.json"  # in the confidential folder
REMEMBERED_BYTES = 1 << 20  # reading a smaller file costs no more than remembering it
MOST_REMEMBERED = 4096  # the oldest are forgotten
SETTLED_NS = 2_000_000_000  # the coarsest clock of a file system in use has steps of 2 s
_BLOCK_BYTES = 1 << 23
_MEMORY_KINDS = {"tmpfs", "ramfs", "devtmpfs", "hugetlbfs"}


@dataclass(frozen=True, slots=True)
class Stamp:
    """What the file system says about a file; times in nanoseconds."""

    device: int
    inode: int
    size: int
    written: int
    changed: int

    @classmethod
    def of(cls, status: os.stat_result) -> Stamp:
        """That of a file which was asked for its status."""
        return cls(
            status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
        )


class Contents:
    """The content of the files of one job.

    Args:
        key: of the ledger.
        area: the confidential folder.
    """

    def __init__(self, key: LedgerKey, area: Place) -> None:
        self._key = key
        self._secret = key.derived(Purpose.CONTENT)
        self._area = area
        self._block = memoryview(bytearray(_BLOCK_BYTES))
        self._read: dict[str, tuple[Stamp, str]] = {}
        self._cache: dict[str, str] | None = None
        self._news = False

    def of(self, file: InputFile) -> str:
        """The text that names the content of `file`, which is read unless it is remembered.

        Raises:
            InputError: it cannot be read, or changes all the while.
        """
        return self._named(file, self._digest(file.path) if is_plain(file) else "")

    def remembered(self, file: InputFile) -> str | None:
        """The same without reading; None: it would have to be read."""
        if not is_plain(file):
            return self._named(file, "")
        try:
            digest = self._known(file.path, Stamp.of(os.stat(file.path)))
        except OSError:
            return None
        return None if digest is None else self._named(file, digest)

    def require_unchanged(self) -> None:
        """Refuse if one of the files that were named has another content now.

        Raises:
            InputError: a file has changed, or cannot be read any more.
        """
        for path, (stamp, digest) in self._read.items():
            try:
                same = Stamp.of(os.stat(path)) == stamp and not _in_memory(stamp.device)
                same = same or self._hashed(path)[1] == digest
            except OSError:
                same = False
            if not same:
                raise InputError(f"{path}: changed during the run. Run again when it is complete.")

    def remember(self) -> None:
        """Keep the digests for the next run, if there is a confidential folder to keep them in."""
        if self._news and isinstance(self._area, Path) and self._area.is_dir():
            known = list(self._remembered().items())[-MOST_REMEMBERED:]
            with suppress(OSError):  # a read-only folder: the next run reads the files again
                write_whole(str(self._area / CACHE_FILE), json.dumps(dict(known)).encode())
            self._news = False

    def _named(self, file: InputFile, digest: str) -> str:
        parts: list[object]
        if file.digest:
            parts = ["table", file.digest]
        elif isinstance(file.table, DataFile):
            parts = ["data file", file.table.layout.version, os.path.basename(file.path), file.size]
        elif isinstance(file.table, ServedTable):
            parts = ["rows", file.path, file.version]
        elif file.md5:
            parts = ["md5", file.md5, file.size]
        elif is_remote(file.path):
            parts = ["object", file.path, file.size, file.version]
        else:
            parts = ["bytes", digest]
        return json.dumps(parts)

    def _digest(self, path: str) -> str:
        try:
            stamp = Stamp.of(os.stat(path))
            digest = self._known(path, stamp)
            if digest is None:
                started = time.time_ns()
                stamp, digest = self._hashed(path)
                settled = max(stamp.written, stamp.changed) < started - SETTLED_NS
                settled = settled and not _in_memory(stamp.device)
                if settled and stamp.size >= REMEMBERED_BYTES:
                    self._remembered()[self._entry(stamp)] = self._signed(stamp, digest)
                    self._news = True
        except PermissionError:
            raise InputError(f"{path}: no permission to read it.") from None
        except OSError as error:
            raise InputError(f"{path}: cannot be read ({error.strerror}).") from None
        self._read[path] = (stamp, digest)
        return digest

    def _hashed(self, path: str) -> tuple[Stamp, str]:
        """Stamp and digest of a file that did not change in between.

        It is read, not mapped: a mapped file that somebody truncates ends the process.
        """
        hash_ = blake3(key=self._secret, max_threads=blake3.AUTO)
        with os.fdopen(open_local(path), "rb", buffering=0) as stream:
            with suppress(OSError):  # a file system that cannot be written
                os.fsync(stream.fileno())
            before = Stamp.of(os.fstat(stream.fileno()))
            while read := stream.readinto(self._block):
                hash_.update(self._block[:read])
            if Stamp.of(os.fstat(stream.fileno())) != before:
                raise InputError(f"{path}: changed while it was read. Run again when it is whole.")
        return before, hash_.hexdigest()

    def _known(self, path: str, stamp: Stamp) -> str | None:
        seen = self._read.get(path)
        if seen is not None and seen[0] == stamp:
            return seen[1]
        digest, _, _ = self._remembered().get(self._entry(stamp), "").partition(" ")
        signed = self._remembered().get(self._entry(stamp)) == self._signed(stamp, digest)
        return digest if signed else None

    def _remembered(self) -> dict[str, str]:
        """What earlier runs have kept: entry -> digest and signature."""
        if self._cache is None:
            self._cache = {}
            if isinstance(self._area, Path):
                with suppress(OSError, ValueError, RecursionError):
                    found = json.loads(read_local(self._area / CACHE_FILE, MostBytes.LIST))
                    if isinstance(found, dict):
                        self._cache = {k: v for k, v in found.items() if isinstance(v, str)}
        return self._cache

    def _entry(self, stamp: Stamp) -> str:
        return f"{stamp.device}:{stamp.inode}"

    def _signed(self, stamp: Stamp, digest: str) -> str:
        told = json.dumps([platform.node(), *astuple(stamp), digest])
        return f"{digest} {self._key.tag(Purpose.DIGEST, told)}"


def is_plain(file: InputFile) -> bool:
    """Whether it is a file of this machine that is its own, so its bytes say what it is."""
    return not file.digest and file.table is None and not is_remote(file.path)


def meant_by(contents: Contents, files: Iterable[InputFile]) -> list[str]:
    """What each file says: its content and how it is read, in an order that no place decides.

    Raises:
        InputError: as `Contents.of`.
    """
    found = sorted(
        json.dumps([contents.of(file), *_how_read(file), *map(list, file.partitions)])
        for file in files
    )
    contents.remember()
    return found


def _how_read(file: InputFile) -> tuple[str, str]:
    """The format, and what the ending of the name adds to it."""
    if file.format is FileFormat.PREFLIB:
        return file.format, ending_of(file.path)
    packed = is_packed(file.path) and is_plain(file)
    return file.format, os.path.splitext(file.path)[1].lower() if packed else ""


@cache
def _in_memory(device: int) -> bool:
    """Whether a device is a file system in memory, whose files keep their times when mapped."""
    if sys.platform != "linux":
        return False
    number = f"{os.major(device)}:{os.minor(device)}"
    with suppress(OSError):
        for line in read_local("/proc/self/mountinfo", MostBytes.LIST).decode().splitlines():
            mount, _, kind = line.partition(" - ")
            if mount.split()[2] == number:
                return kind.split()[0] in _MEMORY_KINDS
    return True  # nobody knows: then no time is believed
