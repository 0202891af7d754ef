"""A backup in a folder of its own: files, `manifest.json`, and `SHA256SUMS`, which comes last.

A place holds one folder for each backup, named by population and moment. `SHA256SUMS` names every
file with its digest, in the format of `sha256sum --check`; the manifest is one of them and says how
many there are. So a backup without `SHA256SUMS` is unfinished, and no byte can change unnoticed by
accident. Whoever can write there can make another backup: against that, sign the ledger.

Copied are: the ledger and its key; the noisy results and the streams that the ledger knows; the
record of how far the ledger was (`ledgers.json`); the archive of releases; and the YAML file, for
people. Not copied are: input files, rejected rows, row counts, digests of inputs, and exact counts,
but for those of earlier nights from which a stream draws its later ones. Nor is the key that signs
a ledger: whoever had the copy could sign in its owner's place.
"""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.errors import BackupError, ConfigError
from hushrank.flows.ledger.account import Account, Attempt
from hushrank.flows.ledger.keys import Head, key_path
from hushrank.flows.release.archive import ALL_FILES, SUMS, archived
from hushrank.flows.run.confidential_folder import (
    DRAWN_FILE,
    FAILED_FILE,
    NAMES_FILE,
    is_unfinished,
    names_by_release,
    unmarked_path,
)
from hushrank.flows.run.stream_night import stream_folder
from hushrank.flows.statement.record import Record
from hushrank.flows.trust.recovery import CHECKPOINT_FILE
from hushrank.transforms import system
from hushrank.transforms.storage.places import (
    CloudPath,
    Place,
    make_folder,
    read_whole,
    write_flushed,
)
from hushrank.transforms.streams.stream_folder import needed_later

LEDGER, KEY = "ledger.jsonl", "ledger.jsonl.key"
YAML, AREA, ARCHIVE = "survey.yaml", "confidential", "output"

Files = Iterator[tuple[str, bytes]]


@dataclass(frozen=True, slots=True)
class KeptBefore:
    """Facts that a ledger must hold if it is read after they were seen.

    Attributes:
        releases: folders of the archive.
        checkpoint: the record of how far the ledger was; empty: there is none.
    """

    releases: Sequence[Place]
    checkpoint: bytes

    @classmethod
    def of(cls, config: SurveyConfig) -> KeptBefore:
        """Return the facts that there are now."""
        found = dict(_existing(config.confidential, AREA, [CHECKPOINT_FILE]))
        return cls(archived(config.output), found.get(f"{AREA}/{CHECKPOINT_FILE}", b""))


def contents_of(
    path: Path,
    config: SurveyConfig,
    before: KeptBefore,
    lines: bytes,
    accounts: Sequence[Account],
) -> Files:
    """Name and content of every file of a backup.

    Args:
        path: the YAML file.
        config: content of the YAML file.
        before: facts that were seen before the ledger was read.
        lines: lines of the ledger.
        accounts: accounts of all populations in it, of the same moment.

    Raises:
        OSError: a file cannot be read.
    """
    yield LEDGER, lines
    with suppress(FileNotFoundError):  # only a ledger of an early version has none
        yield KEY, read_whole(key_path(config.ledger.path))
    yield YAML, read_whole(path)
    if before.checkpoint:
        yield f"{AREA}/{CHECKPOINT_FILE}", before.checkpoint
    yield from _of_area(config.confidential, accounts)
    for folder in before.releases:
        yield from _existing(folder, f"{ARCHIVE}/{folder.name}", (*ALL_FILES, SUMS))


def _of_area(area: Place, accounts: Sequence[Account]) -> Files:
    names = names_by_release(area)
    for account in accounts:
        for attempt in map(account.attempt, account.latest):
            if attempt is not None and attempt.stream is not None:
                drawn = account.nights_drawn.get(attempt.release_id, 0)
                yield from _of_stream(area, attempt.release_id, drawn)
            elif attempt is not None and attempt.release_id in names:
                yield from _of_release(area, attempt, names[attempt.release_id])


def _of_release(area: Place, attempt: Attempt, names: set[str]) -> Files:
    """Return the noisy result of a release; its name is temporary if a run died after the mark."""
    work = area / attempt.release_id
    wanted = [name for name in (DRAWN_FILE, NAMES_FILE, FAILED_FILE) if name in names]
    if attempt.result is not None and is_unfinished(work, attempt.result):
        wanted.append(unmarked_path(work, attempt.result).name)
    yield from _existing(work, f"{AREA}/{attempt.release_id}", wanted)


def _of_stream(area: Place, stream_id: str, drawn: int) -> Files:
    folder = stream_folder(area, stream_id)
    inside = folder[len(str(area)) + 1 :]
    for name in needed_later(folder, drawn):
        yield f"{AREA}/{inside}/{name}", read_whole(f"{folder}/{name}")


def _existing(folder: Place, name: str, names: Sequence[str]) -> Files:
    """Yield the files of a folder that exist; `hushrank clean` may delete one meanwhile."""
    for each in names:
        with suppress(FileNotFoundError):
            yield f"{name}/{each}", read_whole(folder / each)


MANIFEST = "manifest.json"
PARTIAL = ".partial"  # ending of a local backup that is being written
_MOMENT = "%Y-%m-%dT%H%M%SZ"
_NAME = re.compile(r"(\.?[A-Za-z0-9][A-Za-z0-9._-]*/)*\.?[A-Za-z0-9][A-Za-z0-9._-]*")
_LINE = re.compile(r"([0-9a-f]{64})  ([!-~]+)")
UNTOUCHED = "Nothing was put back."


class Manifest(Record):
    """Contents of a backup.

    Attributes:
        made: time of the backup, UTC.
        code_version: version of hushrank that made it.
        population: population whose budget the ledger counts for this job.
        job: hash of the job's configuration (`SurveyConfig.job_hash`).
        ledger: place where the ledger was.
        line, hash: number and hash of the ledger's last line.
        anchor: content of the ledger's anchor; None: there was no anchor, or it held nothing.
        files: number of files, without this one.
    """

    hushrank_backup: Literal[1] = 1
    made: datetime
    code_version: str
    population: str
    job: str
    ledger: str
    line: int = Field(ge=1)
    hash: str
    anchor: Head | None = None
    files: int = 0


@dataclass(frozen=True)
class Bundle:
    """A whole backup.

    Attributes:
        folder: folder of the backup.
        digests: SHA-256 of each file, by name.
        manifest: list of its contents.
    """

    folder: Place
    digests: Mapping[str, str]
    manifest: Manifest

    def names(self, start: str) -> list[str]:
        """Names of files that begin with `start`."""
        return [name for name in self.digests if name.startswith(start)]

    def read(self, name: str) -> bytes:
        """The content of a file.

        Raises:
            BackupError: the file is missing or not as it was written.
        """
        return _read(self.folder, name, self.digests[name])


def require_private(place: Path) -> None:
    """Refuse a local folder for backups that other users can open or replace.

    Raises:
        ConfigError: the place is a file, belongs to another user, or others can open it.
    """
    if not place.is_dir():
        raise ConfigError(f"PLACE: {place} is a file; name a folder.")
    found = system.access_of(place)
    if not found.is_mine:
        raise ConfigError(
            f"PLACE: {place} belongs to another user ({found.owner}), who could open"
            " backups. Name a folder of your own."
        )
    if found.others_read:
        raise ConfigError(
            f"PLACE: {place} is open to other users of this machine, and a backup holds keys and"
            f" confidential files. Run: {found.to_close()}; or name a new folder, on a file system"
            " that keeps permissions."
        )


def write_bundle(place: Place, manifest: Manifest, files: Iterator[tuple[str, bytes]]) -> Place:
    """Write a backup, whole or not at all, for its owner alone.

    Args:
        place: the folder of backups; it is made if it is missing.
        manifest: list of contents; `files` is counted here.
        files: name and content of each; names are relative, with slashes.

    Returns:
        The folder of this backup.

    Raises:
        BackupError: a backup of this moment is there already.
        ConfigError: the place is open to others.
        OSError: the backup cannot be written; nothing is left behind.
    """
    folder = place / f"{manifest.population}-{manifest.made.astimezone(UTC).strftime(_MOMENT)}"
    if (folder / SUMS).exists():
        raise BackupError(f"{folder} exists already. A backup is never replaced: run again.")
    if isinstance(folder, CloudPath):
        _write_objects(folder, manifest, files)
        return folder
    make_folder(folder.parent)
    require_private(folder.parent)
    left = re.compile(rf"\.{_names_of(manifest.population)}{re.escape(PARTIAL)}")
    for killed in folder.parent.iterdir():  # whoever holds the ledger's locks writes alone here
        if left.fullmatch(killed.name):
            shutil.rmtree(killed)
    partial = folder.with_name(f".{folder.name}{PARTIAL}")
    try:
        for name, content in _with_digests(manifest, files):
            make_folder((partial / name).parent)
            write_flushed(partial / name, content)
        system.replace(partial, folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return folder


def _write_objects(
    folder: CloudPath, manifest: Manifest, files: Iterator[tuple[str, bytes]]
) -> None:
    made: list[CloudPath] = []
    try:
        for name, content in _with_digests(manifest, files):
            made.append(folder / name)
            made[-1].create(content)
    except BaseException:
        for path in made:
            with suppress(OSError):
                path.delete()
        raise


def _with_digests(
    manifest: Manifest, files: Iterator[tuple[str, bytes]]
) -> Iterator[tuple[str, bytes]]:
    """The files, then the manifest that counts them, then the digests of all."""
    lines: list[str] = []
    for name, content in files:
        if _NAME.fullmatch(name) is None:
            raise BackupError(f"{name!r}: a file of this name cannot be backed up; rename it.")
        lines.append(f"{hashlib.sha256(content).hexdigest()}  {name}\n")
        yield name, content
    told = manifest.model_copy(update={"files": len(lines)}).model_dump_json(indent=1).encode()
    lines.append(f"{hashlib.sha256(told).hexdigest()}  {MANIFEST}\n")
    yield MANIFEST, told
    yield SUMS, "".join(lines).encode()


def find_bundle(place: Place, population: str) -> Bundle:
    """The backup at `place`, or the newest one of a population in it; every byte is checked.

    Raises:
        BackupError: there is no backup, the newest is unfinished, or one of its files was changed.
    """
    folder = place
    if not any((place / name).exists() for name in (SUMS, MANIFEST)):
        names = _backups(place, population)
        if not names:
            raise BackupError(
                f"PLACE: {place} holds no backup of {population}. Name a folder that hushrank"
                f" backup wrote, or the one that it is in. {UNTOUCHED}"
            )
        folder = place / names[-1]
    try:
        sums = read_whole(folder / SUMS)
    except FileNotFoundError:
        raise BackupError(
            f"{folder}: is unfinished, because {SUMS} is missing, which is written last. Delete it"
            f" and name an earlier backup, or make another one. {UNTOUCHED}"
        ) from None
    digests = _parsed(folder, sums)
    for name, digest in digests.items():
        _read(folder, name, digest)
    return Bundle(folder, digests, _manifest(folder, digests))


def _backups(place: Place, population: str) -> list[str]:
    """Names of the folders of a population's backups, the newest last."""
    if isinstance(place, CloudPath):
        objects = place.objects(prefix=f"{population}-")
        found = {each.path.key[len(place.key) + 1 :].partition("/")[0] for each in objects}
    else:
        found = {path.name for path in place.iterdir()} if place.is_dir() else set()
    return sorted(filter(re.compile(_names_of(population)).fullmatch, found))


def _names_of(population: str) -> str:
    """Pattern of the names of a population's backups."""
    return rf"{re.escape(population)}-\d{{4}}-\d\d-\d\dT\d{{6}}Z"


def _parsed(folder: Place, sums: bytes) -> dict[str, str]:
    text = sums.decode("ascii", errors="replace")
    lines = [_LINE.fullmatch(line) for line in text.removesuffix("\n").split("\n")]
    digests = {found[2]: found[1] for found in lines if found and _NAME.fullmatch(found[2])}
    if len(digests) != len(lines) or not text.endswith("\n") or MANIFEST not in digests:
        raise _damaged(folder, SUMS)
    return digests


def _manifest(folder: Place, digests: Mapping[str, str]) -> Manifest:
    try:
        found = Manifest.model_validate_json(_read(folder, MANIFEST, digests[MANIFEST]))
    except ValidationError:
        raise BackupError(
            f"{folder / MANIFEST}: another version of hushrank wrote it, and this one cannot read"
            f" it. Use that version. {UNTOUCHED}"
        ) from None
    if found.files != len(digests) - 1:
        raise _damaged(folder, SUMS)
    return found


def _read(folder: Place, name: str, digest: str) -> bytes:
    try:
        content = read_whole(folder / name)
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        raise _damaged(folder, name) from None
    if hashlib.sha256(content).hexdigest() != digest:
        raise _damaged(folder, name)
    return content


def _damaged(folder: Place, name: str) -> BackupError:
    return BackupError(
        f"{folder / name}: is missing or not as it was written, so this backup is not used. Name"
        f" an earlier backup, or copy this one again from where it came. {UNTOUCHED}"
    )
