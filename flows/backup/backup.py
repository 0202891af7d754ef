"""`hushrank backup`: one consistent copy, made while no night and no release is in the middle.

The archive is listed first, with the record of how far the ledger was; then the ledger is read, and
then the files are copied. So whatever the copy knows of its ledger, that ledger holds. Meanwhile
the locks are held of the nights of all populations in the ledger, and of every release that is
reserved, or drawn and not published. A release that begins after the ledger was read is not in the
copy, nor is its line.

`hushrank restore`: put a backup back into the places that a YAML file names.

Everything is checked before anything is written. What was drawn or published is never replaced, and
a ledger is only made longer. The ledger comes last, and the record of how far it was first: as long
as the ledger is missing, every run is refused, so a restore that dies is repeated.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from hushrank.flows.assembly import check_ledger
from hushrank.flows.backup.bundle import (
    ARCHIVE,
    AREA,
    KEY,
    LEDGER,
    UNTOUCHED,
    Bundle,
    KeptBefore,
    Manifest,
    contents_of,
    find_bundle,
    write_bundle,
)
from hushrank.flows.config.apart import contains
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.errors import BackupError, ConfigError, LedgerError, RunInProgress
from hushrank.flows.ledger.account import Account, ReleaseState, account_of
from hushrank.flows.ledger.guards import Guards
from hushrank.flows.ledger.keys import key_path
from hushrank.flows.ledger.ledger import Book, Ledger
from hushrank.flows.ledger.local_file import LedgerFile, Snapshot, create_private
from hushrank.flows.nights.nights import lock_of_nights, one_at_a_time
from hushrank.flows.release.archive import RELEASES, SUMS, archived, make_whole
from hushrank.flows.release.publish import check_output, show
from hushrank.flows.run.confidential_folder import DRAWN_FILE, NAMES_FILE, check_confidential
from hushrank.flows.run.context import code_version, ledger_of
from hushrank.flows.run.job import check_places, inputs_of
from hushrank.flows.run.stream_night import LAW_FILE, STREAM_FOLDER
from hushrank.flows.trust.recovery import CHECKPOINT_FILE, add_checkpoints, forgotten
from hushrank.transforms.storage.places import (
    CloudPath,
    Place,
    make_folder,
    read_whole,
    write_whole,
)
from hushrank.transforms.streams.stream_folder import KEY_FILE, RELEASED, nights_of

_IN_THE_MIDDLE = (
    *(ReleaseState.RESERVED, ReleaseState.FOUND),
    *(ReleaseState.DRAWN, ReleaseState.STOPPED),
)


@dataclass(frozen=True, slots=True)
class Made:
    """A backup that was made.

    Attributes:
        folder: folder of the backup.
        manifest: list of its contents.
        releases: number of releases of the archive that it holds.
        streams: number of unfinished streams of nights that it holds.
    """

    folder: Place
    manifest: Manifest
    releases: int
    streams: int


def back_up(
    path: Path, config: SurveyConfig, place: Place, now: datetime, wait: float = 0.0
) -> Made:
    """Copy what the survey goes on from into a new folder at `place`.

    Args:
        path: the YAML file.
        config: content of the YAML file.
        place: the folder of backups, for its owner alone.
        now: the present moment, with a time zone.
        wait: most seconds to wait for runs to end.

    Raises:
        BackupError: there is nothing to copy yet, or a backup of this second exists.
        ConfigError: the place is open to others, or is inside a place that is copied.
        RunInProgress: a run went on for longer than `wait`.
        LedgerError: the ledger is not as it was written; a backup would hide that.
        OSError: a file cannot be read or written; then nothing is left behind.
    """
    for key, inside in (("output", config.output), ("confidential", config.confidential)):
        if contains(inside, place) or contains(place, inside):
            raise ConfigError(
                f"PLACE: {place} and {key} ({inside}) lie in one another, so a backup would be"
                " public, or be lost with what it is a copy of. Name another place."
            )
    guards = Guards.of(config.ledger)
    ledger = ledger_of(config, guards)
    with _at_rest(ledger, wait):
        before = KeptBefore.of(config)
        latest = None if guards.anchor is None else guards.anchor.latest()
        book = ledger.book()
        accounts = _accounts(book, ledger)
        manifest = Manifest(
            made=now.replace(microsecond=0),
            code_version=code_version(),
            population=config.name,
            job=config.job_hash(),
            ledger=str(config.ledger.path),
            line=len(book.chain.entries),
            hash=book.chain.last_hash,
            anchor=None if latest is None else latest.head,
        )
        files = contents_of(path, config, before, book.snapshot.content, accounts)
        folder = write_bundle(place, manifest, files)
    running = [
        attempt
        for account in accounts
        for attempt in account.attempts
        if attempt.state is ReleaseState.RUNNING
    ]
    return Made(folder, manifest, len(before.releases), len(running))


@contextmanager
def _at_rest(ledger: Ledger, wait: float) -> Iterator[None]:
    """Hold the locks of everything in the ledger that could be in the middle of something.

    The ledger is read again once they are held: a run may have begun just before.
    """
    until, held = time.monotonic() + wait, set[str]()
    with ExitStack() as locks:
        while wanted := [name for name in _locks(ledger) if name not in held]:
            for name in wanted:
                try:
                    locks.enter_context(ledger.run_lock(name, max(0.0, until - time.monotonic())))
                except RunInProgress:
                    raise RunInProgress(
                        f"A run is in progress ({name}), and a backup in its midst would be no"
                        " copy of one moment. Wait until it ends; or give --wait SECONDS, for"
                        " which a backup waits. Nothing was copied."
                    ) from None
                held.add(name)
        yield


def _locks(ledger: Ledger) -> list[str]:
    """Names of the locks, those of nights first: a night takes its locks in that order too."""
    book = ledger.book()
    if not book.chain.entries:
        raise BackupError(
            f"{ledger.backend.place}: holds no line yet, so there is nothing to back up. Run the"
            " survey first, or correct ledger.path."
        )
    populations = {ledger.terms.population, *(each.population for each in book.chain.entries)}
    releases = {
        attempt.release_id
        for account in _accounts(book, ledger)
        for attempt in account.attempts
        if attempt.state in _IN_THE_MIDDLE and attempt.stream is None
    }
    return [*map(lock_of_nights, sorted(populations)), *sorted(releases)]


def _accounts(book: Book, ledger: Ledger) -> list[Account]:
    populations = sorted({each.population for each in book.chain.entries})
    return [
        account_of(book.chain.entries, population, ledger.backend.place)
        for population in populations
    ]


_FOR_GOOD = (DRAWN_FILE, NAMES_FILE, LAW_FILE, KEY_FILE)


class _Backed(LedgerFile):
    """The ledger in a backup, whose lines were checked already; it is only read."""

    def __init__(self, bundle: Bundle, lines: bytes) -> None:
        super().__init__(Path(f"{bundle.folder}/{LEDGER}"))
        self._lines = lines

    def read(self) -> Snapshot:
        """The lines, which are whole."""
        return Snapshot(self._lines, "")


@dataclass(frozen=True, slots=True)
class _Copy:
    """A file of a backup and the place where it belongs.

    Attributes:
        for_good: whether a file with another content there must not be replaced.
    """

    name: str
    target: Place
    for_good: bool


def restore(place: Place, config: SurveyConfig) -> Bundle:
    """Put the backup at `place`, or the newest one of the population in it, where `config` says.

    Returns:
        The backup.

    Raises:
        BackupError: the backup is damaged, is of another job, or the places hold something else or
            more; or all was put back, and the first run will be refused. The text says which.
        ConfigError, LedgerError: a place cannot be used, or the ledger there is damaged.
        RunInProgress: a night is being ranked there.
        OSError: something cannot be written; repeat the command.
    """
    bundle = find_bundle(place, config.name)
    _require_same_job(bundle, config)
    guards = Guards.of(config.ledger)
    if guards.anchor is not None:
        guards.anchor.latest()  # if it cannot be read, nothing is written
    lines = bundle.read(LEDGER)
    _check_target(bundle, config, lines)
    copies = list(_of_area(bundle, config.confidential))
    archive = list(_of_archive(bundle, config.output))
    for copy in [*copies, *archive]:
        _require_replaceable(bundle, copy)
    unguarded = ledger_of(config, Guards())  # the lines are signed and anchored already
    with one_at_a_time(unguarded, config.name):
        _put_confidential(bundle, config, copies)
        _put_archive(bundle, archive)
        if kept := archived(config.output):
            show(kept[-1], config.output)
        _put_ledger(unguarded, lines)
        head = bundle.manifest.anchor
        if guards.anchor is not None and head is not None and guards.anchor.latest() is None:
            # the anchor goes on where the other was
            guards.anchor.put(head, head.record(guards.signer))
    _require_runnable(config)
    return bundle


def _require_same_job(bundle: Bundle, config: SurveyConfig) -> None:
    made = bundle.manifest
    if made.population != config.name:
        raise BackupError(
            f"PLACE: {bundle.folder} is a backup of {made.population}, and the YAML file is of"
            f" {config.name}. Name the backup or the YAML file that belongs to it. {UNTOUCHED}"
        )
    if made.job not in config.job_hashes:
        raise BackupError(
            f"PLACE: {bundle.folder} is of another job than this YAML file: its next night would be"
            " paid for anew. input.paths, items, privacy, method and schedule must be as they were"
            " (survey.yaml in the backup shows them); only places may differ: output, confidential,"
            " ledger, runner. Paths of local input count from the folder of the YAML file, so move"
            f" input and YAML file together. Restore first, and change the rest later. {UNTOUCHED}"
        )


def _check_target(bundle: Bundle, config: SurveyConfig, lines: bytes) -> None:
    """Refuse places that cannot be used, or that know more than the backup.

    Raises:
        BackupError: the places hold another ledger or key, or something that the backup does not
            know.
        ConfigError, LedgerError: the places cannot be used.
    """
    check_places(config)
    check_output(config.output, *config.job_hashes)
    unguarded = ledger_of(config, Guards())
    _require_shorter(unguarded.backend.read(), lines, unguarded.backend.place)
    if newer := forgotten(config, Ledger(_Backed(bundle, lines), unguarded.terms), ()):
        raise BackupError(
            f"{bundle.folder}: is older than {config.confidential} or {config.output}:"
            f" {'; '.join(each.text for each in newer)}. Take a newer backup. If there is none and"
            f" the ledger is lost, copy {LEDGER} and {KEY} from the backup to {config.ledger.path}"
            f" and {config.ledger.path}.key by hand, and run hushrank ledger recover, which enters"
            f" what is known to be spent since then. {UNTOUCHED}"
        )
    if KEY in bundle.digests:
        with suppress(FileNotFoundError):
            if read_whole(path := key_path(config.ledger.path)) != bundle.read(KEY):
                raise BackupError(
                    f"{path}: is another key than that of the backup. Move it away if it is not"
                    f" needed; nobody can go on without it with what it belongs to. {UNTOUCHED}"
                )


def _require_shorter(found: Snapshot, lines: bytes, place: str) -> None:
    if found.loss is not None:
        raise BackupError(
            f"{found.loss} To put a backup back, first move what is left of the ledger away, with"
            f" the files beside it. {UNTOUCHED}"
        )
    if lines.startswith(found.content):
        return
    if found.content.startswith(lines):
        more = len(found.content.splitlines()) - len(lines.splitlines())
        raise BackupError(
            f"{place}: holds all lines of the backup's ledger and {more} more. An older ledger"
            " would forget what was spent since then. Leave it as it is, or take a newer backup. If"
            " something else is lost there, hushrank ledger recover says what going on without it"
            f" means. {UNTOUCHED}"
        )
    raise BackupError(
        f"{place}: is another ledger than that of the backup, or went on apart from it. One of two"
        " such ledgers forgets what the other has spent. Name another place, or move it away."
        f" {UNTOUCHED}"
    )


def _of_area(bundle: Bundle, area: Place) -> Iterator[_Copy]:
    """Files of the confidential area, but for the record of how far the ledger was.

    Raises:
        ConfigError: others can open the area.
        BackupError: a stream there has noise of nights that the backup does not know.
    """
    check_confidential(area)
    names = [name for name in bundle.names(f"{AREA}/") if not name.endswith(f"/{CHECKPOINT_FILE}")]
    for name in names:
        inside = name.removeprefix(f"{AREA}/")
        last = inside.rpartition("/")[2]
        drawn = last.startswith(f".{DRAWN_FILE}.") or f"/{RELEASED}/" in inside
        yield _Copy(name, area / inside, drawn or last in _FOR_GOOD)
    streams = {name.split("/")[1] for name in names if name.split("/")[1].startswith(STREAM_FOLDER)}
    for stream in streams:
        start = str(area / stream)
        for _, path in nights_of(start, RELEASED):
            if f"{AREA}/{stream}{path.removeprefix(start)}" not in bundle.digests:
                raise BackupError(
                    f"{path}: the noise of this night is not in the backup, which is older. Leave"
                    " the folder as it is, take a newer backup, or run hushrank ledger recover,"
                    f" which says what going on without it means. {UNTOUCHED}"
                )


def _of_archive(bundle: Bundle, output: Place) -> Iterator[_Copy]:
    for name in bundle.names(f"{ARCHIVE}/"):
        target = output / RELEASES / name.removeprefix(f"{ARCHIVE}/")
        yield _Copy(name, target, for_good=True)


def _require_replaceable(bundle: Bundle, copy: _Copy) -> None:
    """Refuse a file that the backup holds otherwise, if nothing may replace it."""
    if not copy.for_good or not copy.target.exists() or _is_there(bundle, copy):
        return
    raise BackupError(
        f"{copy.target}: is not what the backup holds, and what was drawn or published is never"
        f" replaced. Move {copy.target.parent} away, and repeat the command. {UNTOUCHED}"
    )


def _is_there(bundle: Bundle, copy: _Copy) -> bool:
    try:
        return read_whole(copy.target) == bundle.read(copy.name)
    except (FileNotFoundError, NotADirectoryError):
        return False


def _put_confidential(bundle: Bundle, config: SurveyConfig, copies: list[_Copy]) -> None:
    """Put back the key of the ledger, the record of how far it was, and then the rest."""
    if KEY in bundle.digests:
        path = key_path(config.ledger.path)
        if isinstance(path, CloudPath):
            path.create(bundle.read(KEY))
        else:
            make_folder(path.parent)
            create_private(path, bundle.read(KEY))
    if f"{AREA}/{CHECKPOINT_FILE}" in bundle.digests:
        add_checkpoints(config.confidential, bundle.read(f"{AREA}/{CHECKPOINT_FILE}"))
    for copy in copies:
        if not _is_there(bundle, copy):
            write_whole(str(copy.target), bundle.read(copy.name))


def _put_ledger(ledger: Ledger, lines: bytes) -> None:
    """Add the lines that are not there yet.

    Raises:
        BackupError: others were added since the places were checked.
    """
    found = ledger.backend.read()
    rest = lines.removeprefix(found.content)
    behind = found.content + rest == lines
    if not behind or (rest and not ledger.backend.append(found.token, rest)):
        raise BackupError(
            f"{ledger.backend.place}: another process wrote to it just now, so its lines are not"
            " those of the backup. Stop what runs there and repeat the command."
        )


def _put_archive(bundle: Bundle, archive: list[_Copy]) -> None:
    """Put releases back: locally each folder whole, in Cloud Storage with its digests last."""
    releases: dict[Place, dict[str, bytes]] = {}
    for copy in archive:
        releases.setdefault(copy.target.parent, {})[copy.target.name] = bundle.read(copy.name)
    for folder, contents in releases.items():
        if isinstance(folder, CloudPath):
            for name in sorted(contents, key=lambda each: each == SUMS):
                (folder / name).create(contents[name])
        elif not folder.exists():
            make_whole(folder, contents)


def _require_runnable(config: SurveyConfig) -> None:
    """Say what the first run would be refused with.

    Raises:
        BackupError: the first run would be refused.
    """
    try:
        check_ledger(config, ledger_of(config), inputs_of(config, make_key=False))
    except LedgerError as error:
        raise BackupError(f"All was put back, but a run would be refused: {error}") from None
