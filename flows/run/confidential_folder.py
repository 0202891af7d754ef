"""A release's folder in the confidential area, on this machine or in Cloud Storage.

The noisy result is stored in two moves. First `store_unmarked` writes it to disk under a temporary
name that holds its digest. Then the ledger marks the release as drawn, by that digest. Then
`finish_drawn` gives the file its final name. A run that dies before the mark has spent nothing; it
leaves a file that no mark names, and that file is deleted. A run that dies after the mark leaves
the file that the mark names, and the next run finishes the work.

On this machine only the owner can open folder and files. In Cloud Storage the bucket's access rules
decide who can open them (`docs/engines.md`).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hushrank.flows.errors import ConfigError, HushrankError, LedgerError, PredictableBits
from hushrank.flows.methods.base import Arrays
from hushrank.pipelines.reduce.reduction_job import (
    BITS_FILE,
    EXACT_FILE,
    REJECTS_FOLDER,
    TALLY_FILE,
    read_bits,
    read_counts,
    read_votes,
)
from hushrank.privacy.keyed_hash import KEY_BYTES, SecretKey
from hushrank.privacy.randomness import BitSource, BitsUsed
from hushrank.privacy.units import Query, Unit
from hushrank.transforms import system
from hushrank.transforms.storage.places import (
    TEMPORARY_NAME,
    CloudPath,
    ObjectChanged,
    Place,
    is_stale,
    npz_arrays,
    read_whole,
    write_flushed,
    write_whole,
)
from hushrank.transforms.storage.spill_file import SPILL_PREFIX, WAITING_FILE

if TYPE_CHECKING:  # loaded for jobs that count beside the ranking alone
    from hushrank.estimation.common.private_counts import Numbers

DRAWN_FILE = "drawn.npz"
NAMES_FILE = "names.json"  # names of items that were drawn before the ranking
SPACE_FILE = ".space"  # older versions reserved disk space for the noise with it
COUNTING_FILE = ".counting"  # exists while a run makes exact arrays, or will need them
FAILED_FILE = "draw-failed"  # exists if the mechanism failed after the ledger counted the draw

_NO_RECORD = "draw: the reduction left no record of {}. Nothing was drawn or spent; run again."
_NO_RECORDS = (  # reasons why a file cannot be read as a record
    *(FileNotFoundError, IsADirectoryError, ValueError, LookupError, TypeError, AttributeError),
    *(OverflowError, RecursionError),
)
_RELEASE = re.compile(r"[0-9a-f]{16}")  # names of hushrank's folders in this area
_DIGEST_SHOWN = 32  # hexadecimal digits of a digest in a file name; `TEMPORARY_NAME` matches them


def check_confidential(folder: Place) -> None:
    """Refuse a confidential folder that other people can open.

    Raises:
        ConfigError: the folder is a file, belongs to another user, has a mode that lets others in,
            or its bucket cannot be used.
    """
    if isinstance(folder, CloudPath):
        try:
            next(folder.objects(), None)
        except OSError as error:
            raise ConfigError(
                f"confidential: {folder}: cannot be listed: {error.strerror}"
            ) from None
        return
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"confidential: {folder} is a file; name a folder.")
    if not folder.exists():
        return
    found = system.access_of(folder)
    if not found.is_mine:
        raise ConfigError(
            f"confidential: {folder} belongs to another user of this machine"
            f" ({found.owner}), who can open what is kept there: exact counts and rejected"
            f" rows. Name a folder of your own, or run: {found.to_own()}"
        )
    if found.others_read:
        raise ConfigError(
            f"confidential: {folder} is open to other users of this machine, and exact counts and"
            f" rejected rows are kept there. Run: {found.to_close()}"
        )


def make_confidential(area: Place, release_id: str) -> None:
    """Create the confidential area and a release's folder in it, for the owner only.

    From now until `forget_exact`, rows may be counted in the folder. Counts that a dead run left
    are kept; counts that arrived after a run gave the folder up are deleted.
    """
    work = area / release_id
    if not isinstance(area, CloudPath):  # objects need no folders
        for folder in (area, area / release_id):
            system.make_private_folder(folder)
        for left_by_a_crash in area.glob(f"*/{SPILL_PREFIX}*"):
            left_by_a_crash.unlink(missing_ok=True)
    counting = (work / COUNTING_FILE).exists()
    left = (name for name in _names(work) if _is_temporary(name))
    _delete_each(work / name for name in left if not (counting and _is_result(name)))
    if not counting:
        forget_exact(work)
        _delete(work / TALLY_FILE)  # else the next arrays would seem to belong to it
        write_whole(str(work / COUNTING_FILE), b"")


def key_of_count(work: Place, fresh: SecretKey) -> SecretKey:
    """Return the key of a count that stopped, so that it goes on; else keep `fresh` for the next.

    It is kept as long as the count, in `COUNTING_FILE`. Under another key nothing that waits is of
    use, so it is deleted.

    Args:
        work: the folder of the release, where `make_confidential` was called.
        fresh: a new key; that of a seed is always taken, because the seed makes it again.
    """
    if fresh.source is not BitSource.SYSTEM:
        return fresh
    path = work / COUNTING_FILE
    if len(stored := read_whole(path)) == KEY_BYTES:
        return SecretKey(stored, BitSource.SYSTEM)
    _delete_each(work / name for name in _names(work) if _meant(name) == WAITING_FILE)
    write_whole(str(path), fresh.value)
    return fresh


def is_waiting(work: Place) -> bool:
    """Whether a part of a count waits in the folder for the run that goes on."""
    names = set(_names(work))
    return COUNTING_FILE in names and any(_meant(name) == WAITING_FILE for name in names)


def load_arrays(path: Place) -> Arrays:
    """The arrays in an `.npz` file, by name.

    Raises:
        ValueError: the file is damaged.
    """
    return npz_arrays(read_whole(path))


@dataclass(frozen=True, slots=True)
class Exact:
    """Handle on the files that a reduction left in a release's folder; only `draw` opens it.

    So nothing that carries values between the steps of a run holds what was computed from rows.
    """

    folder: Place

    def arrays(self) -> Arrays:
        """The exact arrays.

        Raises:
            HushrankError: the exact arrays are damaged. No budget was spent.
        """
        path = self.folder / EXACT_FILE
        try:
            return load_arrays(path)
        except (ValueError, IsADirectoryError):
            raise HushrankError(
                f"draw: {path} is damaged: what was counted is lost. Nothing was drawn or spent;"
                " run again, which counts anew."
            ) from None

    def bits(self) -> BitsUsed:
        """Return the sources of random bits with which the exact arrays were made.

        Raises:
            PredictableBits: nothing says so. No budget was spent.
        """
        try:
            return read_bits(str(self.folder))
        except _NO_RECORDS:
            raise PredictableBits(_NO_RECORD.format("the random bits that it used")) from None

    def votes(self, unit: Unit, *, unlisted: bool = False) -> NDArray[np.int64]:
        """Return the exact votes that the pilot query needs, without noise: see `read_votes`.

        Raises:
            PredictableBits: nothing says so. No budget was spent.
        """
        try:
            return read_votes(str(self.folder), unit, unlisted=unlisted)
        except _NO_RECORDS:
            raise PredictableBits(_NO_RECORD.format("the rows that fit")) from None

    def counts(self, queries: Iterable[Query]) -> Numbers:
        """Return the exact numbers of each query beside the ranking: see `read_counts`.

        Raises:
            PredictableBits: nothing says so. No budget was spent.
        """
        try:
            return read_counts(str(self.folder), queries)
        except _NO_RECORDS:
            raise PredictableBits(_NO_RECORD.format("what counts")) from None


def store_unmarked(work: Place, content: bytes) -> str:
    """Write the noisy result to disk, under a name that nobody takes for a release.

    Returns:
        The digest of the content, for the ledger's mark and `finish_drawn`.

    Raises:
        OSError: the file cannot be written.
    """
    digest = hashlib.sha256(content).hexdigest()
    store(unmarked_path(work, digest), content)
    return digest


def store(path: Place, content: bytes) -> None:
    """Write a new file, which survives a power failure.

    Raises:
        OSError: the file cannot be written.
    """
    if isinstance(path, CloudPath):
        path.write(content)
    else:
        write_flushed(path, content)


def finish_drawn(work: Place, digest: str) -> None:
    """Give the stored noisy result its final name; in Cloud Storage never replace an older one.

    Args:
        work: the folder of the release.
        digest: the digest that `store_unmarked` returned; the ledger's mark holds it too.

    Raises:
        LedgerError: another run has stored other noise for the same release.
        OSError: the file cannot be written.
    """
    unmarked, drawn = unmarked_path(work, digest), work / DRAWN_FILE
    if not isinstance(unmarked, CloudPath):
        unmarked.replace(str(drawn))
        return
    content = unmarked.read_bytes()
    try:
        CloudPath.parse(str(drawn)).create(content)
    except ObjectChanged:
        if drawn.read_bytes() != content:
            raise LedgerError(
                f"{drawn}: another run took this release over and stored its noise. The noise"
                " of this run was thrown away. Run again to publish the stored noise."
            ) from None
    unmarked.delete()


def finds_drawn(work: Place, digest: str | None) -> bool:
    """Whether the folder holds the noisy result, under its final name or its temporary one.

    Args:
        work: the folder of the release.
        digest: digest in the ledger's mark; None: the mark has none.
    """
    return (work / DRAWN_FILE).exists() or is_unfinished(work, digest)


def is_unfinished(work: Place, digest: str | None) -> bool:
    """Whether a run stopped between the ledger's mark, which holds `digest`, and the last move.

    The content is compared too, because a power failure may have cut off its end.
    """
    if digest is None:
        return False
    try:
        content = read_whole(unmarked_path(work, digest))
    except FileNotFoundError:
        return False
    return hashlib.sha256(content).hexdigest() == digest


def unmarked_path(work: Place, digest: str) -> Place:
    """Path where `store_unmarked` puts the noisy result with that digest."""
    return work / f".{DRAWN_FILE}.{digest[:_DIGEST_SHOWN]}"


def names_folder(work: Place) -> Place:
    """Folder beside a release's own where names of items are counted, before they are drawn."""
    return work.parent / hashlib.sha256(f"{work.name} names".encode()).hexdigest()[:16]


def finds_names(work: Place) -> bool:
    """Whether the folder holds names of items that were drawn."""
    return (work / NAMES_FILE).exists()


def forget_names(work: Place) -> None:
    """Delete names of items, which are stored with the noisy result as well."""
    _delete(work / NAMES_FILE)


def delete_folder(work: Place) -> None:
    """Delete a folder that holds files alone, if it exists.

    Raises:
        OSError: the first error among files that could not be deleted.
    """
    _delete_each(work / name for name in _names(work))
    if not isinstance(work, CloudPath) and work.is_dir():
        work.rmdir()


def forget_exact(work: Place, *, waits: bool = False) -> None:
    """Delete the exact arrays; nothing needs them once noise is drawn or the run gave up.

    This deletes temporary files of dead processes too, but not a noisy result under its temporary
    name. It tries every file, even if some cannot be deleted.

    Args:
        work: the folder of the release.
        waits: keep the parts of the count from which the next run goes on, and their key.

    Raises:
        OSError: the first error among files that could not be deleted.
    """
    names = [name for name in _names(work) if _is_exact(name) or _is_temporary(name)]
    if waits:
        _delete_each(work / name for name in names if _meant(name) in (EXACT_FILE, BITS_FILE))
        return
    others = (work / name for name in names if not _is_unmarked(name))
    counting = work / COUNTING_FILE  # delete it first: whatever is written later is then a stray
    _delete_each([counting, *others, *_half_written_rejects(work)])


def forget_unmarked(work: Place) -> None:
    """Delete noisy results under a temporary name; the caller knows that no mark names them.

    Raises:
        OSError: the first error among files that could not be deleted.
    """
    _delete_each(work / name for name in _names(work) if _is_unmarked(name))


def forget_half_written(area: Place) -> None:
    """Delete half-written files that dead runs left directly in the area, beside the releases.

    Raises:
        OSError: the first error among files that could not be deleted.
    """
    if not isinstance(area, CloudPath):  # in Cloud Storage an object appears whole or not at all
        names = (name for name in _names(area) if _is_temporary(name))
        _delete_each(area / name for name in names if is_stale(area / name))


def releases_with_strays(area: Place) -> list[str]:
    """Releases whose folders hold exact arrays or temporary files that nobody may need.

    A job on a remote engine may outlive the run that started it, and write its results after the
    release was drawn or given up. A killed run leaves temporary files.
    """
    found = names_by_release(area).items()
    return sorted(release_id for release_id, names in found if _strays(names))


def release_folders(area: Path) -> list[Path]:
    """The folders of releases in a confidential area of this machine."""
    works = area.iterdir() if area.is_dir() else ()
    return sorted(work for work in works if _RELEASE.fullmatch(work.name) and work.is_dir())


def delete_strays(work: Place, *, temporary: bool = True) -> None:
    """Delete files that nobody needs; the caller holds the release's lock.

    Args:
        work: the folder of the release.
        temporary: delete temporary files besides exact arrays; this includes noisy results that
            still have a temporary name.
    """
    names = _strays(set(_names(work)))  # listed again, because a run may have changed them
    _delete_each(work / name for name in names if temporary or _is_exact(name))


def _strays(names: set[str]) -> list[str]:
    needed = COUNTING_FILE in names and DRAWN_FILE not in names
    left = (name for name in sorted(names) if _is_exact(name) or _is_temporary(name))
    return [name for name in left if not (needed and _is_result(name))]


def names_by_release(area: Place) -> dict[str, set[str]]:
    """Names of the files directly in each release's folder, by release."""
    if not isinstance(area, CloudPath):
        works = area.iterdir() if area.exists() else ()
        return {work.name: set(_names(work)) for work in works if _RELEASE.fullmatch(work.name)}
    found: dict[str, set[str]] = {}
    for listed in area.objects():  # one listing, however many releases there are
        work = listed.path.parent
        if work.parent == area and _RELEASE.fullmatch(work.name):
            found.setdefault(work.name, set()).add(listed.path.name)
    return found


def _names(work: Place) -> list[str]:
    """Names of the files directly in a folder."""
    if isinstance(work, CloudPath):
        return [each.path.name for each in work.objects() if each.path.parent == work]
    return [path.name for path in work.iterdir()] if work.is_dir() else []


def _half_written_rejects(work: Place) -> list[Path]:
    if isinstance(work, CloudPath):  # in Cloud Storage an object appears whole or not at all
        return []
    rejects = work / REJECTS_FOLDER
    names = _names(rejects)
    return [rejects / name for name in names if _is_temporary(name)]


def _is_exact(name: str) -> bool:
    """Whether it holds or describes exact arrays, or rows, whichever run's job wrote it."""
    return _meant(name) in (EXACT_FILE, BITS_FILE, SPACE_FILE, WAITING_FILE)


def _is_result(name: str) -> bool:
    """Whether the draw, or a job that goes on, needs this file or what it is to become."""
    return _meant(name) in (EXACT_FILE, BITS_FILE, TALLY_FILE, SPACE_FILE, WAITING_FILE)


def _is_unmarked(name: str) -> bool:
    """Whether the file is a noisy result under its temporary name."""
    return _is_temporary(name) and _meant(name) == DRAWN_FILE


def _is_temporary(name: str) -> bool:
    return TEMPORARY_NAME.fullmatch(name) is not None


def _meant(name: str) -> str:
    """The final name of a temporary file; another file's own name."""
    temporary = TEMPORARY_NAME.fullmatch(name)
    return temporary["name"] if temporary else name


def _delete_each(paths: Iterable[Place]) -> None:
    """Delete every path that can be deleted.

    Raises:
        OSError: the first failure.
    """
    failures = []
    for path in paths:
        try:
            _delete(path)
        except OSError as error:
            failures.append(error)
    if failures:
        raise failures[0]


def _delete(path: Place) -> None:
    if isinstance(path, CloudPath):
        path.delete()
    else:
        path.unlink(missing_ok=True)
