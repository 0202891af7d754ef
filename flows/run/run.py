"""One run of a job, in order: validate, reserve, reduce, draw, estimate, publish, commit.

The same steps run directly or as the tasks of a Prefect flow (`flows.nights.flow`); the difference
is one function, `Perform`. What spends budget is never repeated: `draw` has no retries, and a run
that finds the noise drawn goes on from there. A run that ends before puts back what it has begun.

Steps of one run. Each is a function of the job; `flows.run.run` calls them in order.

Each step leaves behind all that the next one needs, so a run that died continues where it was:
`exact.npz` (confidential), then `drawn.npz` (the release itself: everything after it is
post-processing and may be repeated freely), then the published folder.

Noise is drawn, stored under a name that nobody takes for a release, marked in the ledger by its
digest, and then given its final name. Whenever a run dies, either the mark is missing, and nothing
is spent, or the next run finds the noise that was paid for. So noise is never paid for twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from hushrank.estimation.fit.solve import ConvergenceError
from hushrank.flows.errors import (
    NOTHING,
    EstimateError,
    HushrankError,
    LedgerError,
    LookStopped,
    RunInProgress,
)
from hushrank.flows.ledger.account import PAID, Attempt, ReleaseState
from hushrank.flows.ledger.entries import Balance
from hushrank.flows.ledger.ledger import Ledger
from hushrank.flows.ledger.streams import FREE
from hushrank.flows.ledger.texts import spend_text
from hushrank.flows.methods.base import Conclusion
from hushrank.flows.reading import ReadingError
from hushrank.flows.release.provenance import Provenance, row_source_of, software
from hushrank.flows.release.publish import publish, published
from hushrank.flows.release.release import Release, build_release
from hushrank.flows.release.scale import Scale
from hushrank.flows.release.wording import robustness_of
from hushrank.flows.run.confidential_folder import (
    DRAWN_FILE,
    Exact,
    delete_strays,
    finds_names,
    finish_drawn,
    forget_exact,
    forget_half_written,
    forget_unmarked,
    is_unfinished,
    is_waiting,
    key_of_count,
    make_confidential,
    releases_with_strays,
    store_unmarked,
)
from hushrank.flows.run.context import Job, Noisy, Read, stated_version
from hushrank.flows.run.drawn import (
    Drawn,
    completed,
    counts_of,
    entries_of,
    look_of,
    people_asked,
    recorded_hash,
    refuse_lost,
    refuse_stopped,
    stored_drawn,
)
from hushrank.flows.run.stages import (
    COMMIT,
    DRAW,
    ESTIMATE,
    PUBLISH,
    REDUCE,
    RESERVE,
    Attachment,
    Memory,
    Outcome,
    Services,
    Step,
    T,
    mark,
)
from hushrank.flows.statement.record import FoundRecord
from hushrank.flows.terminal import one_signal, signals_held
from hushrank.pipelines.engine.runner import may_resume
from hushrank.privacy.accounting import Spend
from hushrank.privacy.keyed_hash import SecretKey
from hushrank.transforms.storage.places import Place, npz_bytes

if TYPE_CHECKING:  # loaded for jobs that find names alone
    from hushrank.flows.statement.found_names import FoundNames


@dataclass(frozen=True, slots=True)
class Reserved:
    """Reservation of what this run has to draw, and pays for.

    Attributes:
        spend: cost that the ledger is charged, `FREE` where a stream has paid; None: nothing counts
            it.
        again: whether it was paid for before, and the noise of then was not kept.
    """

    spend: Spend | None
    again: bool = False


def reserve(job: Job, memory: Memory) -> Reserved | None:
    """Set the job's cost aside; None: its noise was drawn before, and is to be published.

    Raises:
        BudgetRefused: the ledger does not hold the cost.
        LedgerError: the ledger cannot be used.
        LookStopped: a look at its rows has stopped it before, and what was seen is not kept.
        DrawError: its noise was drawn and is not kept, and no fresh draw was asked for.
    """
    if not job.safe:
        return _reserved(job, memory)
    return job.ledger.settled(lambda: _reserved(job, memory))


def _reserved(job: Job, memory: Memory) -> Reserved | None:
    attempt = job.attempt if job.safe else None
    finish(job.work, attempt)
    stored = (job.work / DRAWN_FILE).exists()
    if not stored:
        refuse_stopped(job.release_id, attempt)
    if not job.safe:
        return None if stored else Reserved(None)
    if attempt is not None and attempt.state is ReleaseState.FOUND and finds_names(job.work):
        return Reserved(attempt.spend)
    paid = attempt is not None and attempt.drawn_at is not None
    if stored and not paid:
        raise LedgerError(
            f"{job.config.ledger.path}: does not know release {job.release_id}, whose noise was"
            " drawn under another ledger. Set ledger.path back; nothing was published."
        )
    if stored:
        return None
    if attempt is not None and paid:
        noisy = job.occasion.restore(job, attempt)
        if noisy is not None:
            make_confidential(job.config.confidential, job.release_id)
            with signals_held():
                finish_drawn(job.work, _store(job, _drawn(job, noisy)))
            return None
        if not job.again:
            refuse_lost(attempt, job.work)
    memory.require(job.config, job.ledger, job.inputs.plain)
    spend = job.occasion.reserve(job, noise_lost=paid)
    memory.keep(job.config, job.ledger, job.inputs.plain)
    drawn_before = job.ledger.known().account.draws(job.release_id)
    return Reserved(spend, again=drawn_before > 0)


def reduce(job: Job, read: Read) -> Exact:
    """Read the rows and leave exact arrays in the confidential area.

    Raises:
        ConfigError: the input breaks a rule.
        ReadingError: anything else went wrong.
    """
    make_confidential(job.config.confidential, job.release_id)
    if job.config.items.discover is not None:
        from hushrank.flows.run.found_names import settle_names

        settle_names(job, read)
    if job.found is not None and job.found.too_few:
        return Exact(job.work)
    asked = job.reduction(SecretKey.draw(job.bits()), job.work)
    limit, engine = job.config.memory_limit, job.config.runner.engine()
    asked = replace(asked, memory_limit=limit, engine=engine)
    if job.config.schedule.stream is None and may_resume(asked):
        asked = replace(asked, key=key_of_count(job.work, asked.key), resumes=True)
    job.occasion.reduce(job, asked, read)
    return Exact(job.work)


def draw(job: Job, exact: Exact) -> Drawn:
    """Draw the noise, once, and store what may be published; the exact arrays are then deleted.

    What was drawn is on disk before the ledger counts it, so a full disk is met before the point
    of no return. After `mark_drawn` the budget is spent whatever happens. It is spent as well where
    the mechanism fails, for that may tell something about the rows.

    What is returned equals what is stored, so that whichever run publishes it publishes the same.

    Raises:
        PredictableBits: the job is to be safe, and bits that the reduction or the draw takes are
            not. No budget was spent.
        DrawError: the mechanism failed; `FAILED_FILE` says so to whoever would try again unasked.
    """
    noisy = job.occasion.draw(job, exact)
    drawn = _drawn(job, noisy)
    with signals_held():
        digest = _store(job, drawn)
        mark(job, digest, noisy)
        finish_drawn(job.work, digest)
        job.occasion.tidy(job)
    return drawn


def _drawn(job: Job, noisy: Noisy) -> Drawn:
    """Return what was drawn just now, as it is read back from where it is stored."""
    return Drawn(
        arrays=noisy.arrays,
        drawn_by=noisy.drawn_by,
        bits=noisy.bits,
        votes=noisy.votes,
        counts=noisy.counts,
        people=people_asked(job.config),
        created=datetime.now(UTC).replace(microsecond=0),
        code_version=stated_version(),
        software=software(),
        audit=job.survey.audit or None,
        found=job.found,
        listed=job.config.items.of_night(),
    )


def _store(job: Job, drawn: Drawn) -> str:
    """Store it where nobody takes it for a release; return its digest."""
    return store_unmarked(job.work, npz_bytes(**entries_of(drawn)))


def finish(work: Place, attempt: Attempt | None) -> None:
    """Give what was drawn its name, where a run died after the mark in the ledger and before that.

    Args:
        work: the folder of the release, whose lock the caller holds.
        attempt: the ledger's last one at it; None: it knows none.
    """
    if attempt is None or attempt.result is None or (work / DRAWN_FILE).exists():
        return
    if is_unfinished(work, attempt.result):
        with signals_held():
            finish_drawn(work, attempt.result)


def stored(job: Job) -> Drawn:
    """Return what was drawn for the job; raises as `stored_drawn`."""
    attempts = job.ledger.known().account.attempts if job.safe else ()
    drawn = stored_drawn(job.work, job.release_id, attempts, job.config)
    if drawn.found is not None:
        job.take_names(drawn.found)
    if drawn.listed is not None:
        job.survey.list_items(drawn.listed)
    return drawn


OF_SOME_METHODS = (  # fields that a conclusion and a release have under the same names
    *("effects", "boards", "ties", "test", "dif", "fit", "personal", "election", "precincts"),
)


def estimate(job: Job, drawn: Drawn) -> Release:
    """Rank what was drawn. Post-processing: it may be repeated freely.

    Raises:
        EstimateError: the fit to it failed, as it would again; or this version cannot read it.
        LookStopped: a look at the rows told to stop, so nothing else was drawn; or fewer than two
            names of items were found.
    """
    config = job.config
    found = None if drawn.found is None else _found_of(drawn.found)
    if drawn.stopped:
        forget_exact(job.work)  # a run may have died just before it, and nothing is published
    look = look_of(drawn, config)
    conclusion = _concluded(job, drawn)
    release = build_release(
        _provenance(job, drawn),
        config.items.catalogue.names,
        conclusion.estimate,
        completed(conclusion.privacy, drawn, look, config),
        conclusion.released,
        conclusion.scale,
        conclusion.warnings,
        config.top_k,
        labels=config.items.labels(),
        shown_as=Scale.ELO if config.report.scale == "elo" else None,
        look=look,
        found=found,
        counts=counts_of(drawn),
        **{name: getattr(conclusion, name) for name in OF_SOME_METHODS},
    )
    if release.stream is not None:
        from hushrank.flows.release.alarms import with_alarms

        watched = None if config.schedule.alarms is None else config.schedule.alarms.pairs
        release = with_alarms(release, config.output, watched)
    return release.model_copy(update={"robustness": robustness_of(release)})


def _found_of(found: FoundNames) -> FoundRecord:
    """The record of names that were drawn; raises LookStopped if they are too few to rank."""
    from hushrank.flows.statement.found_names import record_of, too_few_text

    if found.too_few:
        raise LookStopped(too_few_text(found))
    return record_of(found)


def _provenance(job: Job, drawn: Drawn) -> Provenance:
    return Provenance(
        release_id=job.release_id,
        created=drawn.created,
        name=job.config.name,
        job=recorded_hash(job.config, job.attempt),
        method=drawn.drawn_by.method.facts.name,
        night=job.night,
        code_version=drawn.code_version,
        charged=job.safe,
        bits=drawn.bits,
        stream=job.occasion.record(drawn),
        about=job.config.report.about,
        source=row_source_of(job.config, job.night),
    )


def _concluded(job: Job, drawn: Drawn) -> Conclusion:
    try:
        return drawn.drawn_by.method.conclude(drawn.arrays, drawn.mechanism, job.config)
    except ConvergenceError as error:
        raise EstimateError(
            f"estimate: {error}. The noise is drawn and paid for, and nothing is published. It is"
            f" kept: hushrank resume {job.release_id} publishes it if another version of hushrank"
            " can fit it; another model in the YAML file makes another release."
        ) from None


def publish_release(
    job: Job, drawn: Drawn, release: Release, balance: Balance, attachments: Sequence[Attachment]
) -> Place:
    """Write the release and what is attached to it into the output folder.

    Raises:
        PublishError: the release could not be written; nothing was published.
    """
    return publish(
        release,
        job.config.output,
        *(partial(attach, job, drawn, release, balance) for attach in attachments),
        allow_unsafe=not job.safe,
        jobs=job.config.job_hashes,
    )


def commit(job: Job, memory: Memory) -> None:
    """Record that the release is published.

    Raises:
        LedgerError: the ledger does not know that it was paid for, or cannot be used.
    """
    job.occasion.tidy(job)
    if not job.safe:
        return
    ledger = job.ledger
    if ledger.known().account.state(job.release_id) not in PAID:
        account = ledger.book().account
        memory.require(job.config, ledger, job.inputs.plain)
        if job.release_id in account.accepted:  # an operator has accepted it for a past period
            return
    ledger.commit(job.release_id)
    with suppress(OSError):  # if this fails, the record from before the draw stands
        memory.keep(job.config, ledger, ())


def sweep(job: Job) -> None:
    """Finish and delete what runs left that died: noise without its name, strays, temporary files.

    Of a release that this ledger does not know, another ledger has the lock: only its exact arrays
    are deleted that came when it was drawn or given up.
    """
    ledger, area = job.ledger, job.config.confidential
    ledger.backend.tidy()
    forget_half_written(area)
    job.occasion.sweep(job)
    for release_id in releases_with_strays(area):
        with suppress(RunInProgress), ledger.run_lock(release_id):  # a run sees to its own
            work, attempt = area / release_id, ledger.attempt(release_id)
            finish(work, attempt)
            delete_strays(work, temporary=attempt is not None)


CANCEL_ENDS_IT = "hushrank ledger cancel ends it."
COUNT_WAITS = (
    "What was counted so far waits in {}, which is confidential: the same command goes on from"
    " there. If nobody gives it, hushrank clean --delete deletes the files after"
    " retention.rejects_days."
)


def run_release(job: Job, services: Services, wait: float = 0.0) -> Outcome:
    """Release the job once, or publish again what it released before.

    Args:
        job: the job to run.
        services: functions of other rooms that the run calls.
        wait: most seconds to wait for another run of the release, whose draw this
            one then publishes too.

    Raises:
        RunInProgress: another run of the release goes on.
        BudgetRefused: the ledger does not hold the cost. No row was read.
        MethodRefused: epsilon buys nothing, and the job does not want that anyway.
        HushrankError: anything else that a person can act on; the text says whether budget was
            spent.
    """
    begun = set[Step]()

    def noted(step: Step, action: Callable[[], T]) -> T:
        begun.add(step)
        return services.perform(step, action)

    try:
        return _run_steps(job, replace(services, perform=noted), wait)
    except (HushrankError, KeyboardInterrupt) as error:
        drew = DRAW in begun or (REDUCE in begun and job.config.items.discover is not None)
        setattr(error, "spent", _spent_by(job) if drew else NOTHING)  # noqa: B010
        raise


def _spent_by(job: Job) -> str | None:
    """Say what the ledger counts for a draw that was begun; None: the ledger cannot be read."""
    try:
        attempt = job.ledger.attempt(job.release_id) if job.safe else None
    except HushrankError:
        return None
    if attempt is None or attempt.drawn_at is None:
        return NOTHING
    cost = job.cost if attempt.of else attempt.spend
    return NOTHING if cost == FREE else spend_text(cost)


def _run_steps(job: Job, services: Services, wait: float) -> Outcome:
    if (done := _published(job, services)) is not None:
        return done
    for note in services.advise(job):
        services.tell(note)
    with job.ledger.run_lock(job.release_id, wait):
        return _publish(job, services, *_draw_once(job, services))


def _published(job: Job, services: Services) -> Outcome | None:
    """Return what earlier runs have published of the job, after clearing up what dead runs left."""
    sweep(job)
    if (done := published(job.config.output, job.release_id)) is None:
        return None
    commit(job, services.memory)  # a run may have died just before it
    return Outcome(*done, spent=None, balance=job.ledger.balance(book=job.ledger.known()))


def publish_drawn(job: Job, services: Services) -> Outcome:
    """Publish what was drawn for the job before; nothing is read, drawn or spent.

    Raises:
        RunInProgress: a run of the release is still going on.
        HushrankError: the draw could not be published.
    """
    if (done := _published(job, services)) is not None:
        return done
    with job.ledger.run_lock(job.release_id):
        return _publish(job, services)


def _draw_once(job: Job, services: Services) -> tuple[Reserved | None, Drawn | None]:
    """Reserve, read, count, draw, unless it was drawn before.

    Until noise is drawn, whatever stops the run, from the reservation on, gives the budget back.
    A reservation that is refused leaves counts that another process has prepared.
    """
    with one_signal():  # a second one would break off giving back
        return _draw_or_undo(job, services)


def _draw_or_undo(job: Job, services: Services) -> tuple[Reserved | None, Drawn | None]:
    perform, begun = services.perform, False
    job.ledger.accepted = False
    try:
        reserved = perform(RESERVE, lambda: reserve(job, services.memory))
        begun = True
        if reserved is None:
            return None, None
        exact = perform(REDUCE, lambda: reduce(job, services.read))
        return reserved, perform(DRAW, lambda: draw(job, exact))
    except BaseException as error:
        if begun or job.ledger.accepted or not isinstance(error, HushrankError):
            undo(job, job.ledger, error)
        raise


def _publish(
    job: Job, services: Services, reserved: Reserved | None = None, drawn: Drawn | None = None
) -> Outcome:
    """Publish what this run has drawn and paid for; None: an earlier one did."""
    ledger, perform, drawn = job.ledger, services.perform, drawn or stored(job)
    release = perform(ESTIMATE, lambda: estimate(job, drawn))
    balance = ledger.balance(book=ledger.known())
    attach = services.attachments
    folder = perform(PUBLISH, lambda: publish_release(job, drawn, release, balance, attach))
    perform(COMMIT, lambda: commit(job, services.memory))
    alerts = ledger.alert() if job.safe and job.config.ledger.alerts else ()
    paid = reserved or Reserved(None)
    return Outcome(release, folder, paid.spend, balance, alerts, paid.again)


def undo(job: Job, ledger: Ledger, error: BaseException) -> None:
    """Put back what a run has begun that `error` ended, unless its noise was drawn.

    What is private is deleted first, whatever becomes of the ledger. Each part is tried whatever
    becomes of the others; what cannot be put back is added to `error` as a note, for whoever tells
    people about it. Whether the release is still reserved is the last of them.

    Args:
        job: the job whose run is undone.
        ledger: ledger that may hold the run's reservation.
        error: why it ended.
    """
    with signals_held():
        for note in dict.fromkeys(_undone(job, ledger, error)):
            error.add_note(note)


def _undone(job: Job, ledger: Ledger, error: BaseException) -> Iterator[str]:
    """Delete exact counts and reservation; yield a sentence for each part that failed."""
    waits = isinstance(error, KeyboardInterrupt | ReadingError) and is_waiting(job.work)
    for place, forget in job.occasion.counted(job).items():
        if waits and place == str(job.work):
            forget = partial(forget_exact, job.work, waits=True)
            yield COUNT_WAITS.format(place)
        yield from counts_left(place, forget)
    try:
        state = give_back(job, ledger)
    except HushrankError as failure:
        yield still_reserved(job.release_id, failure)
        return
    if state in PAID:
        *_, place = job.occasion.counted(job)
        yield from counts_left(place, lambda: job.occasion.tidy(job))
        return
    try:
        forget_unmarked(job.work)
    except OSError as failure:
        reason = _reason(failure)
        yield f"A temporary file is left in {job.work} ({reason}): the next run deletes it."


def give_back(job: Job, ledger: Ledger) -> ReleaseState:
    """Cancel the reservation if no noise was drawn for it; return how far the release had got.

    Raises:
        LedgerError: the ledger cannot be used.
    """
    state = ledger.state(job.release_id) if job.safe else ReleaseState.NONE
    if state is ReleaseState.RESERVED:
        ledger.cancel(job.release_id)
    return state


def still_reserved(release_id: str, failure: HushrankError) -> str:
    """A sentence on a reservation that could not be given back, and how to end it."""
    return (
        f"Release {release_id} may still be reserved, for it could not be given back:"
        f" {failure} Running again uses the reservation; {CANCEL_ENDS_IT}"
    )


def counts_left(folder: str, forget: Callable[[], None]) -> Iterator[str]:
    """Delete exact counts; yield a sentence that names their folder if that fails."""
    try:
        forget()
    except (OSError, HushrankError) as failure:
        yield (
            f"Exact counts could not be deleted from {folder} ({_reason(failure)}): the next run"
            " does it."
        )


def _reason(failure: Exception) -> str:
    if isinstance(failure, OSError):
        return failure.strerror or type(failure).__name__
    return f"{failure}".rstrip(".")
