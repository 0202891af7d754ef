"""Files of the confidential area that are kept for longer than anybody needs them.

Only finished releases are looked at: published, given back, or unsafe, as the ledger says. A
release that is reserved, or drawn but not published, keeps everything. So does a release that this
ledger does not know: it may belong to another population that shares the folder. If the mechanism
failed, there is nothing to publish: rows, counts and error texts are deleted, and the mark that
tells schedules of the failure stays.

A stream of nights keeps who counted and the last exact counts until its last night is drawn. If
that is never to be, its operator ends it here: the ledger records that no night of it may follow,
and its cost stays; then all that is exact is deleted.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.errors import (
    NOTHING_SPENT,
    ArchiveError,
    ConfigError,
    LedgerError,
    RunInProgress,
)
from hushrank.flows.ledger.account import OF_STREAM, Account, Attempt, ReleaseState
from hushrank.flows.ledger.entries import StreamSpan
from hushrank.flows.ledger.ledger import Ledger
from hushrank.flows.nights.nights import one_at_a_time
from hushrank.flows.reading import ERROR_FILE
from hushrank.flows.release.archive import check_intact, find_archived
from hushrank.flows.run.confidential_folder import (
    DRAWN_FILE,
    FAILED_FILE,
    finds_drawn,
    forget_exact,
    forget_unmarked,
    is_waiting,
    release_folders,
)
from hushrank.flows.run.stream_night import stream_folder
from hushrank.pipelines.reduce.reduction_job import REJECTS_FOLDER, TALLY_FILE
from hushrank.transforms.storage.places import CloudPath
from hushrank.transforms.streams.stream_folder import end, holds_exact

BY_A_RULE = (
    "is in Cloud Storage, where a lifecycle rule of the bucket deletes what is old"
    " (confidential_days of infra/terraform)."
)
OVER = (ReleaseState.COMMITTED, ReleaseState.CANCELLED, ReleaseState.STOPPED)


@dataclass(frozen=True, slots=True)
class Overdue:
    """A file or folder that is kept for too long.

    Attributes:
        release_id: id of its release.
        since: when it was last written, UTC.
    """

    path: Path
    release_id: str
    since: datetime


def overdue(config: SurveyConfig, ledger: Ledger, now: datetime) -> list[Overdue]:
    """What may be deleted at the moment `now`, by the `retention` section; this deletes nothing.

    Raises:
        ConfigError: the confidential area is in Cloud Storage.
        LedgerError: the ledger cannot be used.
    """
    if isinstance(config.confidential, CloudPath):
        raise ConfigError(f"confidential: {config.confidential}: {BY_A_RULE} Leave --delete out.")
    account = ledger.book().account
    works = release_folders(config.confidential)
    return [each for work in works for each in _overdue_of(config, account, work, now)]


def delete(config: SurveyConfig, ledger: Ledger, now: datetime) -> list[Overdue]:
    """Delete what is overdue, checked again under each release's lock; return what was deleted.

    Raises:
        ConfigError, LedgerError: as for `overdue`.
    """
    deleted = []
    for release_id in dict.fromkeys(each.release_id for each in overdue(config, ledger, now)):
        with suppress(RunInProgress), ledger.run_lock(release_id):  # skip what a run uses
            account, work = ledger.book().account, Path(str(config.confidential / release_id))
            for each in _overdue_of(config, account, work, now):
                if each.path.is_dir() and not each.path.is_symlink():
                    shutil.rmtree(each.path)
                else:
                    each.path.unlink(missing_ok=True)
                deleted.append(each)
    return deleted


@dataclass(frozen=True, slots=True)
class KeptStream:
    """A stream that holds exact counts and people although its nights are over.

    Attributes:
        stream_id: its id.
        folder: where.
        span: its nights.
        drawn: how many of them were drawn.
        ended: whether the ledger lets no other night follow.
    """

    stream_id: str
    folder: str
    span: StreamSpan
    drawn: int
    ended: bool


def kept_streams(config: SurveyConfig, ledger: Ledger, now: datetime) -> list[KeptStream]:
    """Streams whose last night has passed, or was drawn, and whose folder is not empty of people.

    Raises:
        LedgerError: the ledger cannot be used.
    """
    account = ledger.book().account
    found = [_stream_of(config, account, each) for each in account.attempts if each.stream]
    over = (each for each in found if each.ended or each.span.last < now.date())
    return [each for each in over if holds_exact(each.folder)]


def end_stream(
    config: SurveyConfig, ledger: Ledger, stream_id: str, *, really: bool = True
) -> KeptStream:
    """End a stream for good, and delete its key, who counted and all exact counts.

    The ledger goes first, so no night can be drawn by people that are half deleted. To repeat it
    does no harm. What was drawn stays, and so does the cost.

    Args:
        config: of a job of the population.
        ledger: of the population.
        stream_id: names the stream.
        really: if not, only see whether it can be done.

    Raises:
        LedgerError: the ledger knows no stream of that name that was drawn, or cannot be used.
        RunInProgress: a night is being ranked.
    """
    with one_at_a_time(ledger, config.name):
        account = ledger.book().account
        attempt = account.attempt(stream_id)
        if attempt is None or attempt.stream is None or attempt.state not in OF_STREAM:
            raise LedgerError(
                f"{stream_id} is no stream of {config.name} of which a night was drawn (hushrank"
                " ledger show). A stream before its first draw is given back by hushrank ledger"
                f" cancel. {NOTHING_SPENT}"
            )
        found = _stream_of(config, account, attempt)
        if not really:
            return found
        if not found.ended:
            _forget_reserved(config, ledger, account, stream_id)
            ledger.mark_drawn(stream_id)
        end(found.folder)
        return found


def _stream_of(config: SurveyConfig, account: Account, attempt: Attempt) -> KeptStream:
    if attempt.stream is None:
        raise ValueError("the attempt is at no stream")
    return KeptStream(
        stream_id=attempt.release_id,
        folder=stream_folder(config.confidential, attempt.release_id),
        span=attempt.stream,
        drawn=account.nights_drawn.get(attempt.release_id, 0),
        ended=attempt.state is ReleaseState.ENDED,
    )


def _forget_reserved(
    config: SurveyConfig, ledger: Ledger, account: Account, stream_id: str
) -> None:
    """Give back the night whose run died before its draw."""
    for night in account.nights_of(stream_id).values():
        if night.state is ReleaseState.RESERVED:
            ledger.cancel(night.release_id)
            forget_exact(config.confidential / night.release_id)
            forget_unmarked(config.confidential / night.release_id)


def _overdue_of(
    config: SurveyConfig, account: Account, work: Path, now: datetime
) -> Iterator[Overdue]:
    attempt, unsafe = account.attempt(work.name), work.name in account.unsafe()
    failed = attempt is not None and _failed(work, attempt)
    unknown = unsafe or is_waiting(work)  # of a run without a reservation that was interrupted
    over = unknown if attempt is None else attempt.state in OVER
    for path in sorted(work.iterdir()) if over or failed else ():
        drawn = path.name == DRAWN_FILE
        if failed and path.name not in (REJECTS_FOLDER, ERROR_FILE, TALLY_FILE):
            continue
        if drawn and attempt is not None and not _is_kept_elsewhere(config, attempt):
            continue
        days = config.retention.drawn_days if drawn else config.retention.rejects_days
        since = _written(path)
        if now - since > timedelta(days=days):
            yield Overdue(path, work.name, since)


def _failed(work: Path, attempt: Attempt) -> bool:
    """Whether the mechanism failed after it was paid for, so there is nothing to publish."""
    marked = attempt.state is ReleaseState.DRAWN and (work / FAILED_FILE).exists()
    return marked and not finds_drawn(work, attempt.result)


def _is_kept_elsewhere(config: SurveyConfig, attempt: Attempt) -> bool:
    return attempt.state is ReleaseState.COMMITTED and _is_published(config, attempt.release_id)


def _is_published(config: SurveyConfig, release_id: str) -> bool:
    """Whether the archive holds the whole release; if not, its stored noise is still needed."""
    folder = find_archived(config.output, release_id)
    if folder is None:
        return False
    try:
        check_intact(folder)
    except ArchiveError:
        return False
    return True


def _written(path: Path) -> datetime:
    """When the newest file in `path` was written."""
    inside = path.rglob("*") if path.is_dir() and not path.is_symlink() else ()
    newest = max(each.lstat().st_mtime for each in (path, *inside))
    return datetime.fromtimestamp(newest, UTC)
