"""Names of a release and of its input: texts that only the ledger's owner can compute.

The id of a release is the same for the same job, content and night, and else another. It is a keyed
name under the ledger's secret (`flows.ledger.keys`), because it is published and the content is
confidential. Place and date of files, and the version of hushrank, do not enter it. A fresh draw of
a release that was drawn before has a number besides, from 1.

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

For each input the ledger keeps keyed names, to recognise it under another population's name too: of
the configured paths, so it recognises the next night's file in the same place; of the real path of
each file; and of the content of each file (`contents`), so it recognises a copy, wherever it lies
and whatever its date. A copy that was packed anew, written again or cut is not recognised: no row
is parsed, because a refusal must not depend on rows.

Older entries. Version 0.1.0 made ids from absolute paths, sizes and modification times, and from
its own number; and before ledgers had keys, without one. A release that the ledger knows by such an
id keeps it. Of an input the ledger then recorded the size and modification time of a local file in
place of its content, with the id of a part that a collector wrote; such an entry is recognised by
these.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass
from datetime import date
from pathlib import Path

from blake3 import blake3

from hushrank.flows.ledger.account import UNKNOWN, Account, ReleaseState
from hushrank.flows.ledger.keys import MOST_FILES, TAG_DIGITS, InputNames, LedgerKey, Purpose
from hushrank.transforms import system
from hushrank.transforms.common.local_files import MostBytes, open_local, read_local
from hushrank.transforms.common.schema import InputError
from hushrank.transforms.storage.files import FileFormat, InputFile, ending_of, is_remote
from hushrank.transforms.storage.places import Place, write_whole
from hushrank.transforms.storage.text_lines import is_json_list, is_packed
from hushrank.transforms.storage.window import part_id
from hushrank.transforms.tables.names import DataFile, ServedTable

OLDER_VERSION = "0.1.0"  # the only one whose number entered ids


def described(
    job_hash: str,
    contents: Sequence[str],
    tables: Sequence[str],
    *,
    night: date | None,
    seed: int | None,
    items: Sequence[str] | None = None,
) -> str:
    """Return the facts that make a release what it is, as one text.

    Args:
        job_hash: hash of the configuration.
        contents: digests of the input files, sorted.
        tables: digest of the file of epsilons, if there is one.
        night: the day whose rows are ranked; None: no nights are selected.
        seed: seed of a test or simulation; None: none.
        items: items that the night lists; None: the job has one list, which its hash covers.
    """
    told: dict[str, object] = {
        "job": job_hash,
        "input": contents,
        "tables": tables,
        "night": None if night is None else night.isoformat(),
        "seed": seed,
    }
    if items is not None:
        told["items"] = list(items)
    return json.dumps(told, sort_keys=True)


def known_or_new(
    account: Account, key: LedgerKey, text: str, older: Iterable[str], *, again: bool
) -> str:
    """The id under which the ledger knows a release, or that of its first draw or of a fresh one.

    Args:
        account: the population's.
        key: key of the ledger.
        text: the facts that make the release what it is (`described`).
        older: ids that it would have had in earlier versions.
        again: whether a fresh draw is wanted. A draw that was asked for before and is not
            published yet is taken up.
    """
    first = key.tag(Purpose.RELEASE, text)
    fresh = next((each for each in (first, *older) if account.state(each) not in UNKNOWN), first)
    drawn: list[str] = []
    while (attempt := account.attempt(fresh)) is not None and attempt.drawn_at is not None:
        drawn.append(fresh)
        fresh = key.tag(Purpose.RELEASE, f"{text} again {len(drawn)}")
    if not drawn:
        return fresh
    waits = account.state(drawn[-1]) in (ReleaseState.FOUND, ReleaseState.DRAWN)
    return fresh if again and not waits else drawn[-1]


def ids_of_old(
    key: LedgerKey,
    job_hash: str,
    files: Iterable[InputFile],
    tables: Iterable[InputFile],
    night: date | None,
) -> tuple[str, str]:
    """The ids that a release had in version 0.1.0, with the ledger's key and without one.

    Args:
        key: key of the ledger.
        job_hash: hash of the configuration with absolute paths.
        files: the input, sorted by path.
        tables: the file of epsilons, if there is one.
        night: the day, as in `described`.
    """
    told: dict[str, object] = {
        "job": job_hash,
        "code": OLDER_VERSION,
        "input": [_old_identity(file) for file in files],
        "seed": None,
    }
    if named := [_old_identity(file) for file in tables]:
        told["tables"] = named
    if night is not None:
        told["night"] = night.isoformat()
    text = json.dumps(told, sort_keys=True)
    return (
        key.tag(Purpose.RELEASE, text),
        hashlib.sha256(text.encode()).hexdigest()[:TAG_DIGITS],
    )


def _old_identity(file: InputFile) -> list[str | int]:
    return ["table", file.digest] if file.digest else [file.path, file.size, file.version]


CACHE_FILE = "digests.json"  # in the confidential folder
REMEMBERED_BYTES = 1 << 20  # reading a smaller file costs no more than remembering it
MOST_REMEMBERED = 4096  # the oldest are forgotten
SETTLED_NS = 2_000_000_000  # the coarsest clock of a file system in use has steps of 2 s
_BLOCK_BYTES = 1 << 23


@dataclass(frozen=True, slots=True)
class Stamp:
    """Facts that the file system knows about a file; times in nanoseconds."""

    device: int
    inode: int
    size: int
    written: int
    changed: int

    @classmethod
    def of(cls, status: os.stat_result) -> Stamp:
        """Return the stamp of a file from its status."""
        return cls(
            status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
        )


class Contents:
    """The content of the files of one job.

    Args:
        key: key of the ledger.
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
            InputError: the file cannot be read, or changes all the while.
        """
        return self._named(file, self._digest(file.path) if is_plain(file) else "")

    def remembered(self, file: InputFile) -> str | None:
        """Return the same digest without reading; None: the file would have to be read."""
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
                same = Stamp.of(os.stat(path)) == stamp and not system.is_in_memory(stamp.device)
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
                settled = settled and not system.is_in_memory(stamp.device)
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
        """Entries that earlier runs have kept: entry -> digest and signature."""
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
    """Whether it is a file of this machine and part of no table: its bytes say what it is."""
    return not file.digest and file.table is None and not is_remote(file.path)


def meant_by(contents: Contents, files: Iterable[InputFile]) -> list[str]:
    """Return the content of each file and how it is read, in an order that no place decides.

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
    if is_json_list(file.path) and is_plain(file):
        return file.format, ending_of(file.path)
    packed = is_packed(file.path) and is_plain(file)
    return file.format, os.path.splitext(file.path)[1].lower() if packed else ""


def input_names(
    paths: Sequence[str],
    files: Sequence[InputFile],
    key: LedgerKey,
    content: Callable[[InputFile], str | None],
) -> InputNames:
    """Compute the names of an input under the key of its ledger.

    Args:
        paths: paths as configured, absolute, patterns included; of tables in memory nothing.
        files: the files that these paths name now, or copies of tables.
        key: the ledger's key.
        content: names the content of a file; None: it is not known.
    """
    tables = {f"table {file.digest}" for file in files if file.digest}
    found = [file for file in files if not file.digest]
    places = (
        set[str]() if tables else {f"paths {path}" for path in paths},
        {
            f"file {file.path if is_remote(file.path) else os.path.realpath(file.path)}"
            for file in found
        },
    )
    named = {f"content {each}" for each in map(content, found) if each is not None}
    contents = _fewest(key, named) | _fewest(key, tables)
    copies = {
        f"copy {file.size} {file.version} {_part_of(file)}".rstrip()
        for file in found
        if is_plain(file)
    }
    chosen = dict(contents)
    for texts in places:
        chosen |= _fewest(key, texts)
    names = tuple(sorted(chosen))
    return InputNames(
        key.check,
        names,
        (*(chosen[name] for name in names), *sorted(copies)),
        frozenset(contents),
        tuple(_fewest(key, copies)),
    )


def _fewest(key: LedgerKey, texts: Iterable[str]) -> dict[str, str]:
    """Name and text of those that a ledger keeps, which has a bound on their number."""
    return dict(sorted((key.tag(Purpose.INPUT, text), text) for text in texts)[:MOST_FILES])


def _part_of(file: InputFile) -> str:
    return part_id(file.path) if file.format is FileFormat.PARQUET else ""
