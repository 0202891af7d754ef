"""Nights: which are due, and how they are ranked one after the other under one budget.

The ledger says which nights of a configuration were released. So the next run sees what is missing,
whatever happened to a schedule, a server or a machine. A night is released once: rows that come
late do not change it, and it costs nothing again. Only one night of a population is ranked at a
time; the ledger's lock ensures this for all processes and machines that share the ledger.

Which nights have other files now than when they were released, by the names in the ledger, or
another list of items, by the release.

The ledger holds keyed names of the contents that a release was counted from, so the answer needs
digests of the files and no row. That files came or were changed is public, as the days are on which
files arrive; what is in them is not told. Rows that a window chooses from one growing file, and
tables, whose every commit is another version, are left out: they change as they should.

Give back what a run reserved that died before it drew noise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from enum import StrEnum
from functools import partial

from hushrank.flows.config.schedule import CatchUp, EmptyNights
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.errors import (
    NOTHING_SPENT,
    BudgetRefused,
    ConfigError,
    DrawError,
    EstimateError,
    HushrankError,
    LedgerError,
    LookStopped,
    MethodRefused,
    NightWithoutFiles,
    RunInProgress,
    text_of,
)
from hushrank.flows.ledger.account import Account, Attempt, ReleaseState
from hushrank.flows.ledger.entries import Cancel
from hushrank.flows.ledger.keys import find_key
from hushrank.flows.ledger.ledger import Ledger
from hushrank.flows.ledger.rules import attempt_for
from hushrank.flows.ledger.streams import FREE
from hushrank.flows.ledger.texts import spend_text
from hushrank.flows.release.archive import find_archived, load_archived
from hushrank.flows.release.identity import REMEMBERED_BYTES, Contents, input_names, is_plain
from hushrank.flows.release.wording import verdict
from hushrank.flows.run.confidential_folder import (
    DRAWN_FILE,
    FAILED_FILE,
    delete_folder,
    finds_drawn,
    forget_exact,
    forget_names,
    forget_unmarked,
    names_folder,
)
from hushrank.flows.run.context import Job, Survey, ledger_of
from hushrank.flows.run.input_files import files_of
from hushrank.flows.run.job import check_places, job_of_drawn, job_without_files, prepare_job
from hushrank.flows.run.run import CANCEL_ENDS_IT, counts_left
from hushrank.flows.run.stages import Outcome
from hushrank.flows.run.stream_night import forget_counted, refuse_stream_id
from hushrank.flows.run.stream_turns import (
    NOT_AGAIN,
    nights_until,
    prepare_in_turn,
    stream_job_to_check,
)
from hushrank.transforms.common.schema import InputError
from hushrank.transforms.storage.files import InputFile, is_remote

CHANGED = (
    "Night {night} changed after its release: files came or have another content. Release {id}"
    " stays as it is; {fix}."
)
LISTED = (
    "Night {night}: items.file lists other items now than those that release {id} ranks. It stays"
    " as it is; {fix}."
)
AGAIN = "hushrank run --date {night} --again ranks the night as it is now, and pays again"
IN_STREAM = "a night of a stream is drawn once, and rows that came late are not read"


def late_files(
    config: SurveyConfig, attempts: Mapping[date, Attempt], *, reads: bool = True
) -> dict[date, str]:
    """A sentence for each released night whose files, or list of items, have changed since.

    Args:
        config: the configuration.
        attempts: of each night the one that counts.
        reads: whether large local files are read whose digests are not remembered; if not, nothing
            is told of them.

    Raises:
        LedgerError: the key of the ledger cannot be read.
    """
    if not config.nightly:
        return {}
    key, notes = find_key(config.ledger.path), _other_lists(config, attempts)
    if key is None or config.schedule.window is not None:
        return notes
    contents = Contents(key, config.confidential)

    def content_of(file: InputFile) -> str | None:
        small = not is_plain(file) or file.size < REMEMBERED_BYTES
        return contents.of(file) if reads or small else contents.remembered(file)

    for night, attempt in sorted(attempts.items()):
        if attempt.state is not ReleaseState.COMMITTED or not attempt.inputs:
            continue
        try:
            files = files_of(config, night)
            if any(file.table is not None for file in files):
                continue
            now = input_names((), files, key, content_of)
        except InputError:  # gone since, or not readable: nothing came late
            continue
        known = set(attempt.inputs)
        if not (now.contents <= known or (now.older and known.issuperset(now.older))):
            fix = IN_STREAM if attempt.of else AGAIN.format(night=night)
            notes[night] = CHANGED.format(night=night, id=attempt.release_id, fix=fix)
    contents.remember()
    return notes


def _other_lists(config: SurveyConfig, attempts: Mapping[date, Attempt]) -> dict[date, str]:
    """A sentence for each released night whose list of items is another now."""
    notes = dict[date, str]()
    if not config.items.dated:
        return notes
    for night, attempt in sorted(attempts.items()):
        kept = find_archived(config.output, attempt.release_id) if _is_published(attempt) else None
        if kept is None:
            continue
        try:
            listed = config.on_night(night).items.catalogue.names
        except ConfigError:  # the list is gone since: it names no other items
            continue
        if set(listed) != {line.item for line in load_archived(kept).ranking}:
            fix = AGAIN.format(night=night)
            notes[night] = LISTED.format(night=night, id=attempt.release_id, fix=fix)
    return notes


def late_releases(config: SurveyConfig) -> dict[str, str]:
    """The same by the id of the release, for whoever lists releases: no store is asked.

    Nothing is told where the ledger cannot be used: the list of releases does without it.
    """
    if not config.nightly or any(map(is_remote, config.input.paths)):
        return {}
    try:
        attempts = ledger_of(config).nights(config.job_hashes)
        notes = late_files(config, attempts, reads=False)
    except LedgerError:
        return {}
    return {attempts[night].release_id: note for night, note in notes.items()}


def abandon(config: SurveyConfig, ledger: Ledger, release_id: str, *, alone: bool) -> None:
    """Give back what a run reserved that died before it drew noise; its exact counts are deleted.

    Args:
        config: of the job.
        ledger: its ledger.
        release_id: of a release, or of a stream before its first draw.
        alone: whether the caller keeps every run of the release out. Then the counts are deleted
            first, whatever becomes of the ledger. Otherwise a run may go on that needs them until
            its noise is refused.

    Raises:
        LedgerError: the release is not reserved, or its noise was drawn.
        HushrankError: it is given back, but its counts could not be deleted.
        OSError: it is given back, but a temporary file could not be deleted.
    """
    account = ledger.book().account
    attempt_for(Cancel(release_id=release_id, attempt=0), account)
    works = [config.confidential / each for each in _with_nights(account, release_id)]

    def forget() -> list[str]:
        parts = [(str(work), partial(forget_exact, work)) for work in works]
        parts += [(str(each), partial(delete_folder, each)) for each in map(names_folder, works)]
        counted = partial(forget_counted, config, account, release_id)
        parts.append((str(config.confidential), counted))
        return [note for folder, part in parts for note in counts_left(folder, part)]

    notes = forget() if alone else []
    try:
        ledger.cancel(release_id)
    except HushrankError as error:
        for note in (*notes, f"Release {release_id} may still be reserved. {CANCEL_ENDS_IT}"):
            error.add_note(note)
        raise
    notes = notes if alone else forget()
    for work in works:
        forget_unmarked(work)
        forget_names(work)
    if notes:
        raise HushrankError(" ".join((f"Release {release_id} is given back.", *notes)))


def cancel(config: SurveyConfig, ledger: Ledger, release_id: str) -> None:
    """As `abandon`, whether or not a run of the release goes on."""
    try:
        account = ledger.book().account
    except HushrankError as error:
        error.add_note(f"What the dead run has counted may still be in {config.confidential}.")
        raise
    attempt_for(Cancel(release_id=release_id, attempt=0), account)
    with ExitStack() as locks:
        alone = _keeps_out(ledger, _with_nights(account, release_id), locks)
        abandon(config, ledger, release_id, alone=alone)


def _keeps_out(ledger: Ledger, ids: Sequence[str], locks: ExitStack) -> bool:
    """Take the locks of these releases; False, and none of them, if a run of one goes on."""
    try:
        for each in ids:
            locks.enter_context(ledger.run_lock(each))
    except RunInProgress:
        locks.close()
        return False
    return True


def _with_nights(account: Account, release_id: str) -> tuple[str, ...]:
    """A release; or a stream, with its nights."""
    nights = account.nights_of(release_id).values()
    return release_id, *(night.release_id for night in nights)


DAY = timedelta(days=1)

Execute = Callable[[Job], Outcome]


class NightStatus(StrEnum):
    """What became of a night."""

    RELEASED = "released"
    BEFORE = "released before"
    SKIPPED = "skipped"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class NightResult:
    """One night.

    Attributes:
        night: its date; None if the configuration selects no nights.
        outcome: the outcome of the run; None if nothing was run.
        text: why nothing was run.
    """

    night: date | None
    status: NightStatus
    outcome: Outcome | None = None
    text: str = ""


def prepare_night(survey: Survey, night: date, now: datetime, *, again: bool = False) -> Job:
    """The job that ranks `night`, or that publishes the noise drawn for it before.

    Args:
        survey: the configuration.
        night: the day whose rows to rank.
        now: the present moment, with a time zone.
        again: draw afresh for a night that is released, from its rows as they are now; this costs
            again.

    Raises:
        NightOutOfTurn: it is a night of a stream, and others come first.
        NightWithoutFiles: there is no file to read.
        ConfigError: the night is not over; and as for `prepare_job`.
        LedgerError: the ledger cannot be used.
    """
    config = survey.config
    last = config.schedule.last_night(now)
    if night > last:
        raise ConfigError(
            f"Night {night} is not over: the last one that can be ranked is {last}"
            f" ({config.schedule.timezone}, schedule.lag_days: {config.schedule.lag_days})."
            f" {NOTHING_SPENT}"
        )
    in_stream = config.schedule.stream is not None
    if again and in_stream:
        raise ConfigError(NOT_AGAIN)
    attempt = None
    if config.nightly and not again:
        attempt = survey.ledger.nights(config.job_hashes).get(night)
    if in_stream and not _is_drawn(attempt):
        return prepare_in_turn(survey, night)
    if attempt is None or attempt.drawn_at is None:
        return prepare_job(survey, night=night, again=again)
    check_places(config)
    return job_of_drawn(survey, attempt.release_id, night)


def job_to_check(survey: Survey, now: datetime) -> Job:
    """A job with which `validate` checks a configuration of nights if nobody named a night.

    It is the job of the first night that is due and has files, or else of the last night that has
    files. If no night has files, as before the first night of a survey, the check still passes.

    Args:
        survey: the configuration.
        now: the present moment, with a time zone.

    Raises:
        ConfigError: as for `prepare_job`.
        LedgerError: the ledger cannot be used.
    """
    schedule = survey.config.schedule
    if schedule.stream is not None:
        return stream_job_to_check(survey)
    last = schedule.last_night(now)
    due = due_nights(survey.config, last)
    earlier = [last - back * DAY for back in range(schedule.catch_up_days + 1)]
    for night in dict.fromkeys([*due, *earlier]):
        try:
            return prepare_job(survey, night=night)
        except NightWithoutFiles:
            continue
    return job_without_files(survey, due[0] if due else last)


def run_night(
    survey: Survey,
    night: date | None,
    now: datetime,
    execute: Execute,
    *,
    again: bool = False,
    wait: float = 0.0,
) -> Outcome:
    """Rank a night, or the whole input, while no other night of the population is being ranked.

    An earlier run of the same night may hold a reservation without noise under another key, because
    the files changed since, or because it was to rank the night again. That budget is given back.

    Args:
        survey: the configuration.
        night: the day whose rows to rank; None if the configuration selects no nights.
        now: the present moment, with a time zone.
        execute: runs the job.
        again: draw afresh for what was released before; this costs again.
        wait: for how many seconds at most to wait for another night.

    Raises:
        RunInProgress: another night is being ranked.
        HushrankError: as for `prepare_night` and `run.run_release`.
    """
    config = survey.config
    ledger = survey.ledger
    with one_at_a_time(ledger, config.name, wait):  # only under the lock see what there is to do
        if night is None:
            return execute(prepare_job(survey, again=again))
        job = prepare_night(survey, night, now, again=again)
        _give_back_stale(ledger, job, night)
        late = "" if job.files else _late(survey, [night]).get(night, "")
        outcome = execute(job)
        return replace(outcome, late=late) if late else outcome


@contextmanager
def one_at_a_time(ledger: Ledger, population: str, wait: float = 0.0) -> Iterator[None]:
    """Keep other nights of the population out, until the block or the process ends.

    Args:
        ledger: whose lock is used.
        population: the name.
        wait: for how many seconds at most to wait for another night.

    Raises:
        RunInProgress: another night is being ranked.
    """
    lock = ledger.run_lock(lock_of_nights(population), wait)
    try:
        lock.__enter__()
    except RunInProgress:
        raise RunInProgress(
            f"Another night of {population} is being ranked, and nights are ranked one at a time."
            f" The next scheduled run, or hushrank catch-up, ranks this one. {NOTHING_SPENT}"
        ) from None
    try:
        yield
    finally:
        lock.__exit__(None, None, None)


def lock_of_nights(population: str) -> str:
    """Name of the lock that a night holds from its beginning to its end."""
    return f"nights-of-{population}"


def due_nights(config: SurveyConfig, last: date) -> list[date]:
    """Nights up to `last` that are not published yet, in the configured order.

    Nights before the first one that this configuration ranked are never due. If the configuration
    has ranked no night yet, only `last` is due. Of a stream all nights are due from its first on,
    the oldest first.

    Raises:
        LedgerError: the ledger cannot be used.
    """
    known = ledger_of(config).nights(config.job_hashes)
    if config.schedule.stream is not None:
        nights = nights_until(config.schedule.stream, last)
        return [night for night in nights if not _is_published(known.get(night))]
    earliest = max(min(known, default=last), last - config.schedule.catch_up_days * DAY)
    days = [last - back * DAY for back in range((last - earliest).days + 1)]
    due = [day for day in days if not _is_published(known.get(day))] if days else [last]
    return due if config.schedule.catch_up is CatchUp.NEWEST_FIRST else due[::-1]


def rank_nights(
    survey: Survey, nights: Sequence[date], now: datetime, execute: Execute
) -> Iterator[NightResult]:
    """Rank `nights` one after the other; yield the result of each as soon as it is known.

    A night whose mechanism failed after it was paid for is not paid for again; only `run_night`
    pays again. If the rows or the noise of one night are to blame, the others are still ranked. Any
    other error stops everything at once, and the nights ranked until then stay.

    Nights of a stream are drawn in order: after one that failed, none is drawn.

    Raises:
        BudgetRefused: the budget does not hold the next night.
        ConfigError: at the end, if a night failed.
        LookStopped: at the end, if each night that failed was stopped by its pilot query.
        HushrankError: as for `run.run_release`.
    """
    config = survey.config
    if nights and not config.nightly:
        prepare_job(survey, night=nights[0])  # says what is missing
    failures, stopped = list[str](), 0
    for place, night in enumerate(nights):
        attempt = survey.ledger.nights(config.job_hashes).get(night)
        if _is_published(attempt):
            late = _late(survey, [night]).get(night, "")
            yield NightResult(night, NightStatus.BEFORE, text=late)
            continue
        if failures and config.schedule.stream is not None and not _is_drawn(attempt):
            failures.append(_not_ranked(nights[place:]))
            break
        try:
            _refuse_failed(config, attempt)
            outcome = run_night(survey, night, now, execute)
        except NightWithoutFiles as error:
            skipped = config.schedule.empty is EmptyNights.SKIP
            failures += [] if skipped else [str(error)]
            status = NightStatus.SKIPPED if skipped else NightStatus.FAILED
            yield NightResult(night, status, text=str(error))
        except (ConfigError, DrawError, EstimateError, LookStopped) as error:
            if isinstance(error, MethodRefused) and not config.items.dated:
                raise  # every other night, which has the same items, would be refused too
            failures.append(f"Night {night}: {text_of(error)}")
            stopped += isinstance(error, LookStopped)
            yield NightResult(night, NightStatus.FAILED, text=text_of(error))
        except BudgetRefused as error:
            text = f"{text_of(error)} {_not_ranked(nights[place:])}"
            raise BudgetRefused(text, *error.problems) from None
        else:
            yield NightResult(night, NightStatus.RELEASED, outcome)
    if failures:
        kind = LookStopped if stopped == len(failures) else ConfigError
        raise kind("\n".join(failures))


def rank_due(survey: Survey, now: datetime, execute: Execute) -> Iterator[NightResult]:
    """Rank the nights that are due, or the whole input if no nights are selected; for schedules.

    Before that, say which of the nights that are released have other files now.

    Raises:
        HushrankError: as for `rank_nights`.
    """
    config = survey.config
    if config.nightly:
        last = config.schedule.last_night(now)
        nights = due_nights(config, last)
        looked_at = [last - back * DAY for back in range(config.schedule.catch_up_days + 1)]
        for night, late in _late(survey, looked_at).items():
            yield NightResult(night, NightStatus.BEFORE, text=late)
        yield from rank_nights(survey, nights, now, execute)
        return
    outcome = run_night(survey, None, now, execute)
    status = NightStatus.BEFORE if outcome.spent is None else NightStatus.RELEASED
    yield NightResult(None, status, outcome)


def drawn_job(survey: Survey, release_id: str) -> Job:
    """The job that publishes a release whose noise was drawn but that is not published yet.

    Raises:
        ConfigError: the configuration has changed since the draw.
        LedgerError: no noise was drawn for the release, or the noise is no longer stored.
    """
    config = survey.config
    ledger = survey.ledger
    attempt = ledger.attempt(release_id)
    refuse_stream_id(attempt)
    if attempt is None or attempt.drawn_at is None:
        state = "is not in the ledger" if attempt is None else f"is {attempt.state}"
        raise LedgerError(
            f"Release {release_id} {state}, so there is no noise to publish. hushrank ledger show"
            " lists the releases; to use a reservation without noise, run again; to give it"
            " back, run hushrank ledger cancel. Nothing was spent."
        )
    if attempt.config_hash not in config.job_hashes:
        raise ConfigError(
            f"{survey.path}: is another configuration than the one that release {release_id} was"
            " drawn under. Put that one back to publish it; output, confidential, ledger and the"
            " order of nights may differ. Nothing was spent."
        )
    job = job_of_drawn(survey, release_id, attempt.night)
    if attempt.of:
        check_places(config)
        return job
    if not finds_drawn(config.confidential / release_id, attempt.result):
        raise LedgerError(
            f"Release {release_id}: its noise was drawn, but {config.confidential / release_id}"
            f" holds no {DRAWN_FILE}: the mechanism failed, or somebody removed it."
            " Its budget is spent. hushrank run --again draws new noise and pays again. Nothing was"
            " spent now."
        )
    check_places(config)
    return job


def _late(survey: Survey, nights: Sequence[date]) -> dict[date, str]:
    """A sentence for each of these nights that was released and has other files now."""
    if survey.held is not None:
        return {}
    known = ledger_of(survey.config).nights(survey.config.job_hashes)
    return late_files(survey.config, {night: known[night] for night in nights if night in known})


def _is_published(attempt: Attempt | None) -> bool:
    return attempt is not None and attempt.state is ReleaseState.COMMITTED


def _is_drawn(attempt: Attempt | None) -> bool:
    return attempt is not None and attempt.drawn_at is not None


def _refuse_failed(config: SurveyConfig, attempt: Attempt | None) -> None:
    """Raise DrawError for a night whose mechanism failed after payment; it may well fail again."""
    if attempt is None or attempt.state is not ReleaseState.DRAWN:
        return
    work = config.confidential / attempt.release_id
    if attempt.of:  # that its mechanism failed, the step that reserves says itself
        return
    if (work / FAILED_FILE).exists() and not (work / DRAWN_FILE).exists():
        raise DrawError(
            "draw: the mechanism failed before, and its budget is spent. hushrank run --date"
            f" {attempt.night} --again tries again and pays again. {NOTHING_SPENT}"
        )


def _give_back_stale(ledger: Ledger, job: Job, night: date) -> None:
    """Cancel reservations of the job's night under other keys, unless a run uses them."""
    for release_id in ledger.undrawn(job.config.job_hashes, night):
        if release_id != job.release_id:
            with ledger.run_lock(release_id):
                abandon(job.config, ledger, release_id, alone=True)


def _not_ranked(nights: Sequence[date]) -> str:
    if len(nights) == 1:
        return f"Night {nights[0]} was not ranked."
    return f"{len(nights)} nights were not ranked: {nights[0]} to {nights[-1]}."


def night_text(result: NightResult) -> str:
    """A line about one night, or about a run of a schedule without nights."""
    name = f"{result.night or 'run'}  {result.status}"
    if result.outcome is None:
        return f"{name}. {result.text}" if result.text else f"{name}; nothing was spent"
    spent = result.outcome.spent
    cost = "nothing was spent now" if spent is None else f"spent {spend_text(spent)}"
    if spent == FREE:
        cost = "paid for with its stream"
    late = f" {result.outcome.late}".rstrip()
    return f"{name}; {cost}. {verdict(result.outcome.release)} {result.outcome.folder}{late}"
