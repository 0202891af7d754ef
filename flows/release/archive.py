"""The archive of published releases: one folder each, never changed, with digests of its files.

An output folder holds the files of the latest release. Below it, `releases/` has one folder for
every release of the job, named by its day and its id. `SHA256SUMS` in such a folder has the format
of `sha256sum --check`.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from hushrank.flows.errors import ArchiveError, ConfigError
from hushrank.flows.release.release import Release, load_release
from hushrank.transforms import system
from hushrank.transforms.common.local_files import MostBytes
from hushrank.transforms.storage.places import (
    CloudPath,
    ObjectChanged,
    Place,
    flush_folder,
    read_whole,
)

RELEASE, RANKING, REPORT = "release.json", "ranking.csv", "report.html"
EFFECTS = "effects.csv"  # in releases with effects of covariates
SCORES = "scores.csv"  # in releases of a test whose raw scores have abilities
STEP_FILE = "steps.csv"  # in releases of a test whose items give points
DIF = "dif.csv"  # in releases of a test whose items are compared between groups
FIT = "fit.csv"  # in releases of a test with bands of raw scores
ROUNDS = "rounds.csv"  # in releases of an instant runoff
PRECINCTS = "precincts.csv"  # in releases of first places by public precinct
CERTIFICATE, SIGNATURE = "certificate.json", "certificate.sig"  # the latter of a job with a key
FILES = (REPORT, RANKING, RELEASE)  # files of every release
# The order in which they are shown: the last file says which release all belong to.
ALL_FILES = (
    *(EFFECTS, SCORES, STEP_FILE, DIF, FIT, ROUNDS, PRECINCTS),
    *(REPORT, RANKING, CERTIFICATE, SIGNATURE, RELEASE),
)
SUMS = "SHA256SUMS"
RELEASES = "releases"
PARTIAL = ".partial"  # ending of folders that a killed run may leave
MOST_NIGHTS, MOST_ITEMS = 28, 500  # nights and items of a stream in a report's chart of ranks
MOST_COMPARED = 100_000  # items of a release that is compared with the one before it
NAME = re.compile(r"\d{4}-\d\d-\d\d-.+")

Contents = Mapping[str, bytes]  # contents of files, by name
Attach = Callable[[Contents], Contents]  # makes further files from those so far


def folder_name(release: Release) -> str:
    """A name such as `2026-11-20-7c1f93a2b4d5e6f7`; sorting by name sorts by day."""
    return f"{release.day}-{release.release_id}"


def archived(output: Place) -> list[Place]:
    """Folders of all releases in `output`, the earliest day first."""
    folder = output / RELEASES
    if isinstance(folder, CloudPath):  # a release without digests is not whole yet
        objects = (found.path for found in folder.objects())
        found = (path.parent for path in objects if path.name == SUMS)
        return sorted((path for path in found if NAME.fullmatch(path.name)), key=str)
    if not folder.is_dir():
        return []
    kept = (path for path in folder.iterdir() if NAME.fullmatch(path.name) and path.is_dir())
    return sorted(kept)


def find_archived(output: Place, release_id: str) -> Place | None:
    """The folder of one release in `output`; None if it was not published there."""
    return next((path for path in archived(output) if path.name[11:] == release_id), None)


def load_archived(folder: Place) -> Release:
    """The release in a folder of the archive.

    Raises:
        ArchiveError: a file of the release differs from what was published.
    """
    check_intact(folder)
    release = load_release(folder / RELEASE)
    if folder_name(release) != folder.name:
        raise ArchiveError(_is_of_another(folder, release))
    return release


def files_of(folder: Place) -> tuple[str, ...]:
    """The files of a release in the archive.

    Raises:
        ArchiveError: the release's digests are missing or damaged.
    """
    recorded = _recorded(folder)
    return tuple(name for name in ALL_FILES if name in FILES or name in recorded)


def check_intact(folder: Place) -> None:
    """Compare every file of a release with the digests made at publication.

    Raises:
        ArchiveError: a file was changed, is missing or cannot be read; the text names it.
    """
    sums = _recorded(folder)
    for name in files_of(folder):
        path = folder / name
        try:
            content = read_whole(path, MostBytes.RELEASE)
        except FileNotFoundError:
            raise ArchiveError(f"{path}: is missing. {_way_out(folder)}") from None
        except OSError as error:
            raise ArchiveError(
                f"{path}: cannot be read: {error.strerror}. {_way_out(folder)}"
            ) from error
        if hashlib.sha256(content).hexdigest() != sums.get(name):
            raise ArchiveError(f"{path}: was changed after it was published. {_way_out(folder)}")


def release_before(release: Release, *outputs: Place) -> Release | None:
    """The release of the population in `outputs` just before `release`; None for the first one.

    Releases that protect nobody are only compared with each other. A release that cannot be read or
    was changed is skipped, because a report is no place to stop at it. With more than
    `MOST_COMPARED` items there is none: two releases of so many take too much memory.
    """
    if len(release.ranking) > MOST_COMPARED:
        return None
    found = (_before_in(output, release) for output in outputs)
    earlier = [each for each in found if each is not None]
    return max(earlier, key=lambda each: each.moment, default=None)


def _before_in(output: Place, release: Release) -> Release | None:
    for folder in reversed(archived(output)):
        if folder.name[:10] > str(release.day) or folder.name == folder_name(release):
            continue
        with suppress(ArchiveError, ConfigError):
            earlier = load_archived(folder)
            alike = (earlier.name, earlier.safe) == (release.name, release.safe)
            if alike and earlier.moment <= release.moment:  # two may be of one second
                return earlier
    return None


def nights_before(release: Release, output: Place) -> list[Release]:
    """The last earlier nights of the release's stream in `output`, the earliest first.

    `MOST_NIGHTS` at most; none of a release without a stream, and none of many items: they take
    long to read.
    A release that cannot be read or was changed is skipped.
    """
    nights = list[Release]()
    if release.stream is None or len(release.ranking) > MOST_ITEMS:
        return nights
    earlier = [folder for folder in archived(output) if folder.name[:10] < str(release.day)]
    for folder in earlier[-MOST_NIGHTS:]:
        with suppress(ArchiveError, ConfigError):
            night = load_archived(folder)
            same = night.stream is not None and night.stream.stream == release.stream.stream
            if same and night.safe == release.safe:
                nights.append(night)
    return nights


def keep(folder: Place, contents: Contents, *attachments: Attach) -> None:
    """Make `folder` with these files and their digests: whole and on disk, or not at all.

    In Cloud Storage objects are only created, never replaced, and the digests come last. Without
    digests the release is not whole, and another run completes it.

    Args:
        folder: folder of the release, in the archive.
        contents: files of the release.
        attachments: make further files. In Cloud Storage they are given what is kept, be it of a
            run that was killed.

    Raises:
        OSError: the files cannot be written; then nothing is left behind.
    """
    kept = dict[str, bytes]()
    for made in (lambda _: contents, *attachments):
        files = made(kept)
        if isinstance(folder, CloudPath):
            files = {name: _created(folder / name, content) for name, content in files.items()}
        kept |= files
    if isinstance(folder, CloudPath):
        (folder / SUMS).create(_digests(kept))
    else:
        make_whole(folder, {**kept, SUMS: _digests(kept)})


def make_whole(folder: Path, contents: Contents) -> None:
    """Make a local folder with these read-only files: whole and on disk, or not at all.

    Raises:
        OSError: the files cannot be written; then nothing is left behind.
    """
    partial = folder.with_name(f".{folder.name}{PARTIAL}")
    try:
        shutil.rmtree(partial, ignore_errors=True)  # left by a killed run
        partial.mkdir(parents=True)
        for name, content in contents.items():
            write_file(partial / name, content)
            system.mark_read_only(partial / name)
        flush_folder(partial)
        system.replace(partial, folder)
        flush_folder(folder.parent)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _created(path: CloudPath, content: bytes) -> bytes:
    """Create an object; if a killed run left one there, it stays and is returned."""
    try:
        path.create(content)
    except ObjectChanged:
        return path.read_bytes()
    return content


def _digests(contents: Contents) -> bytes:
    lines = (f"{hashlib.sha256(contents[name]).hexdigest()}  {name}\n" for name in sorted(contents))
    return "".join(lines).encode()


def write_file(path: Path, content: bytes) -> None:
    """Write a new file; it is on disk when this returns."""
    with path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def damages(output: Place, check: Callable[[Place], Iterator[str]] | None = None) -> Iterator[str]:
    """Find releases of the archive that are not as published; one sentence for each.

    Args:
        output: the folder of the job.
        check: finds what else is wrong with the release in a folder.
    """
    for folder in archived(output):
        try:
            check_intact(folder)
            release = load_release(folder / RELEASE)
        except (ArchiveError, ConfigError) as error:
            yield str(error)
            continue
        if folder_name(release) != folder.name:
            yield _is_of_another(folder, release)
        if check is not None:
            yield from check(folder)


def _recorded(folder: Place) -> dict[str, str]:
    """The digest of each file, as recorded at publication."""
    path = folder / SUMS
    try:
        lines = read_whole(path, MostBytes.SETTINGS).decode("ascii").splitlines()
    except (OSError, UnicodeDecodeError):
        raise ArchiveError(
            f"{path}: is missing or damaged, so nobody can tell whether this release was changed."
            f" {_way_out(folder)}"
        ) from None
    return {name: digest for digest, _, name in (line.partition("  ") for line in lines)}


def _is_of_another(folder: Place, release: Release) -> str:
    return f"{folder}: holds release {folder_name(release)}. {_way_out(folder)}"


def _way_out(folder: Place) -> str:
    return (
        f"Move {folder} away; running its job again publishes it again and spends nothing, as long"
        " as the confidential folder is there."
    )
