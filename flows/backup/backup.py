"""`hushrank backup`: one consistent copy, made while no night and no release is in the middle.

The archive is listed first, with the record of how far the ledger was; then the ledger is read, and
then the files are copied. So whatever the copy knows of its ledger, that ledger holds. Meanwhile
the locks are held of the nights of all populations in the ledger, and of every release that is
reserved, or drawn and not published. A release that begins after the ledger was read is not in the
copy, nor is its line.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from hushrank.flows.backup.bundle import KeptBefore, Manifest, contents_of, write_bundle
from hushrank.flows.config.apart import contains
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.errors import BackupError, ConfigError, RunInProgress
from hushrank.flows.ledger.account import Account, ReleaseState, account_of
from hushrank.flows.ledger.guards import Guards
from hushrank.flows.ledger.ledger import Book, Ledger
from hushrank.flows.nights.nights import lock_of_nights
from hushrank.flows.run.budget import ledger_of
from hushrank.flows.run.context import code_version
from hushrank.transforms.storage.cloud_storage import Place

_IN_THE_MIDDLE = (ReleaseState.RESERVED, ReleaseState.DRAWN, ReleaseState.STOPPED)


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
