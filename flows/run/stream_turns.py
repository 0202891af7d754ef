"""Turns of a stream: nights are drawn in order, those without files too."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, timedelta

from hushrank.flows.config.schedule import EmptyNights, StreamConfig
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.errors import NOTHING_SPENT, ConfigError, NightWithoutFiles
from hushrank.flows.ledger.account import Account, Attempt, ReleaseState
from hushrank.flows.ledger.entries import StreamSpan
from hushrank.flows.ledger.streams import FREE, NEW_STREAM, require_open, require_turn
from hushrank.flows.run.context import Job, Survey
from hushrank.flows.run.job import job_without_files, prepare_job
from hushrank.flows.run.stream_night import StreamNight

NOT_AGAIN = (
    "--again: a night of a stream is drawn once; rows that came late are not read. Leave --again"
    f" out, which publishes what was drawn. {NOTHING_SPENT}"
)
_WAITS = (
    " The stream waits for this night. If it will have no files, set schedule.empty: skip, which"
    " takes it for a night without rows."
)


def nights_until(stream: StreamConfig, last: date) -> Iterator[date]:
    """The nights of a stream up to `last`, in order."""
    night = stream.first
    while night <= min(last, stream.last):
        yield night
        night += timedelta(days=1)


def prepare_in_turn(survey: Survey, night: date) -> Job:
    """The job that draws a night of a stream; without files where it counts as one without rows.

    Raises:
        NightOutOfTurn: another night is next.
        NightWithoutFiles: there is no file, and that is not to be taken for a night without rows.
        ConfigError: as for `prepare_job`.
        LedgerError: the ledger cannot be used.
    """
    config, empty = survey.config, job_without_files(survey, night)
    if not isinstance(empty.occasion, StreamNight):
        raise ValueError("the job is no night of a stream")
    account, wanted = survey.ledger.known().account, empty.occasion.to_pay(FREE)
    require_open(account, wanted)
    require_turn(account, wanted)
    _check_alarms(empty)
    try:
        return prepare_job(survey, night=night)
    except NightWithoutFiles as error:
        if config.schedule.empty is EmptyNights.SKIP:
            return empty
        raise NightWithoutFiles(f"{error}{_WAITS}") from None


def _check_alarms(job: Job) -> None:
    """Refuse named pairs that earlier nights did not watch."""
    from hushrank.flows.release.alarms import check_pairs

    config, night = job.config, job.occasion
    watched = None if config.schedule.alarms is None else config.schedule.alarms.pairs
    if isinstance(night, StreamNight):
        check_pairs(config.output, night.stream_id, night.number + 1, watched)


def stream_job_to_check(survey: Survey) -> Job:
    """The job of the next night of a stream, with its files if they are there.

    Raises:
        ConfigError: the stream has ended; or as for `prepare_job`.
        LedgerError: the ledger cannot be used.
    """
    config, stream = survey.config, survey.config.schedule.stream
    if stream is None:
        raise ValueError("the job is no stream")
    night = upcoming(survey.ledger.known().account, config)
    if night is None:
        raise ConfigError(
            f"{survey.path}: the stream ended on {stream.last}, its night {stream.nights}."
            f" To continue, {NEW_STREAM}. {NOTHING_SPENT}"
        )
    try:
        job = prepare_job(survey, night=night)
    except NightWithoutFiles:
        job = job_without_files(survey, night)
    _check_alarms(job)
    return job


def span_of(config: SurveyConfig) -> StreamSpan:
    """The nights of a job's stream.

    Raises:
        ValueError: the job is none.
    """
    stream = config.schedule.stream
    if stream is None:
        raise ValueError("the job is no stream")
    return StreamSpan(nights=stream.nights, first=stream.first)


def standing_of(account: Account, config: SurveyConfig) -> int | None:
    """Count the nights of a job's stream that were drawn; None: the ledger holds no such stream."""
    known = _reservation(account, config)
    return None if known is None else account.nights_drawn.get(known.release_id, 0)


def has_closed(account: Account, config: SurveyConfig) -> bool:
    """Whether the ledger lets no other night of a job's stream follow."""
    known = _reservation(account, config)
    return known is not None and known.state is ReleaseState.ENDED


def _reservation(account: Account, config: SurveyConfig) -> Attempt | None:
    job_hashes = config.job_hashes
    known = [
        each
        for each in account.attempts
        if each.stream is not None
        and each.config_hash in job_hashes
        and each.state is not ReleaseState.CANCELLED
    ]
    return known[-1] if known else None


def upcoming(account: Account, config: SurveyConfig) -> date | None:
    """The next night that is to be drawn; None: the stream has ended."""
    span, drawn = span_of(config), standing_of(account, config) or 0
    return None if drawn >= span.nights else span.first + timedelta(days=drawn)
