"""One run of a job, in order: validate, reserve, reduce, draw, estimate, publish, commit.

The same steps run directly or as the tasks of a Prefect flow (`flows.prefect.flow`); the difference
is one function, `Perform`. What spends budget is never repeated: `draw` has no retries, and a run
that finds the noise drawn goes on from there. A run that ends before puts back what it has begun.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial

from hushrank.flows.config.items import COMPLETE_ORDERS
from hushrank.flows.config.runner import FlinkRunner
from hushrank.flows.config.section import Reading
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.errors import NOTHING, HushrankError, MethodRefused, RunInProgress
from hushrank.flows.ledger.account import Account, Attempt, ReleaseState
from hushrank.flows.ledger.entries import Cancel
from hushrank.flows.ledger.key import find_key
from hushrank.flows.ledger.ledger import Ledger
from hushrank.flows.ledger.rules import attempt_for
from hushrank.flows.ledger.streams import FREE
from hushrank.flows.ledger.texts import spend_text
from hushrank.flows.planning.plan.worth import few_people_note, refusal
from hushrank.flows.recovery.witness import PAID
from hushrank.flows.release.archive import find_archived
from hushrank.flows.release.publish import published
from hushrank.flows.run.confidential_folder import (
    Exact,
    finds_drawn,
    forget_exact,
    forget_unmarked,
)
from hushrank.flows.run.context import Job
from hushrank.flows.run.input_files import column_notes, heads_of
from hushrank.flows.run.observer import observer_of
from hushrank.flows.run.reader_process import Reducer
from hushrank.flows.run.stages import (
    COMMIT,
    DRAW,
    ESTIMATE,
    PUBLISH,
    REDUCE,
    RESERVE,
    Outcome,
    Perform,
    Step,
    T,
    directly,
)
from hushrank.flows.run.steps import (
    Reserved,
    commit,
    draw,
    estimate,
    publish_release,
    reduce,
    reserve,
    stored,
    sweep,
)
from hushrank.flows.run.stream_night import forget_counted
from hushrank.flows.signals import one_signal, signals_held
from hushrank.pipelines.engine.flink_restarts import restart_notes
from hushrank.privacy.units import Unit

NO_LOOK = (
    "This job has no pilot query (privacy.look), which would stop it where rows are not read as"
    " meant, before most of epsilon is spent. Adding one changes the job."
)
CANCEL_ENDS_IT = "hushrank ledger cancel ends it."

Tell = Callable[[str], None]
Read = Callable[[], Exact]  # the step that reads the rows


def engine_notes(job: Job) -> tuple[str, ...]:
    """What its engine's settings say against `job`; the engine is asked for them.

    Nothing here stops a run: it ends well unless a machine dies, and then it costs no budget.
    """
    runner = job.config.runner
    return restart_notes(runner.asked) if isinstance(runner, FlinkRunner) else ()


def look_notes(job: Job) -> tuple[str, ...]:
    """A line where a job has no pilot query and could have one."""
    privacy, stream = job.config.privacy, job.config.schedule.stream
    could = privacy.unit is not Unit.LOCAL and privacy.rho is None and stream is None
    return (NO_LOOK,) if could and privacy.look is None and job.safe else ()


def readings(job: Job) -> tuple[Reading, ...]:
    """How values of the rows are read."""
    items, files = job.config.items, job.files
    return tuple(
        job.config.input.readings(
            items.catalogue().names,
            {file.format for file in files},
            complete=all(file.path.endswith(COMPLETE_ORDERS) for file in files),
            codes=items.codes_unclear,
        )
    )


def drawn_before(job: Job) -> Attempt | None:
    """The draw that a run of `job` would publish again, at no cost; None: it would draw.

    The ledger gets no key by this.

    Raises:
        LedgerError: the ledger cannot be used.
        ConfigError: a file cannot be read.
    """
    if not job.safe or find_key(job.config.ledger.path) is None:
        return None
    attempt = job.attempt
    return None if attempt is None or attempt.drawn_at is None else attempt


def refuse_worthless(job: Job) -> None:
    """Refuse a job whose epsilon buys nothing, unless it is drawn already or wanted anyway.

    Raises:
        MethodRefused: it buys nothing, whichever night is ranked.
        LedgerError: the ledger cannot be used.
    """
    if not job.safe or job.survey.anyway or job.calibrated is None:
        return
    if job.worth is not None and job.worth.nothing and drawn_before(job) is None:
        raise MethodRefused(refusal(job.config, job.worth))


def people_notes(job: Job) -> tuple[str, ...]:
    """A line where a release that would be drawn needs very many people; none if it is wanted."""
    if not job.safe or job.survey.anyway or job.calibrated is None:
        return ()
    note = few_people_note(job.worth)
    return (note,) if note and drawn_before(job) is None else ()


def input_notes(job: Job, *, if_drawn: bool = True) -> tuple[str, ...]:
    """What the ledger knows of the job's input: whoever is about to pay may not have meant to.

    Args:
        job: what is to be done.
        if_drawn: say too what becomes of a release that was drawn before; a run says it itself.

    Raises:
        LedgerError: the ledger cannot be used.
        ConfigError: a file cannot be read.
    """
    if not job.safe or find_key(job.config.ledger.path) is None or not job.occasion.by_content:
        return ()
    account, names = job.ledger.known().account, job.inputs.contents
    attempt = account.attempt(job.release_id)
    if attempt is not None and attempt.drawn_at is not None:
        return (_becomes_of(job, attempt),) if if_drawn else ()
    known = [
        each
        for each in account.attempts
        if each.drawn_at is not None and each.night == job.night and names <= set(each.inputs)
    ]
    if not names or not known or account.state(job.release_id) is ReleaseState.RESERVED:
        return ()
    return (
        f"The ledger knows this input as release {known[-1].release_id} of"
        f" {known[-1].reserved_at.date()}; this {'draw' if job.again else 'release'} costs another"
        f" {spend_text(job.terms.spend)}.",
    )


def _becomes_of(job: Job, drawn: Attempt) -> str:
    """What a run does with a release that was drawn before."""
    known = (
        f"The ledger knows this job with this input as release {job.release_id} of"
        f" {drawn.reserved_at.date()}"
    )
    kept = finds_drawn(job.work, drawn.result)
    if drawn.state is ReleaseState.STOPPED:
        return (
            f"{known}: a look at its rows stopped it, so nothing is published. A run says so again"
            " and costs nothing; hushrank run --again looks anew, at full cost."
        )
    if kept or find_archived(job.config.output, job.release_id) is not None:
        return f"{known}: it is published again, and costs nothing."
    return f"{known}, and what was drawn is lost: a run stops there, and only --again pays anew."


def log_note(note: str) -> None:
    """Tell of it where nobody is known who watches: Python shows warnings on standard error."""
    logging.getLogger(__name__).warning(note)


def run_job(
    job: Job,
    reducer: Reducer,
    perform: Perform = directly,
    tell: Tell = log_note,
    wait: float = 0.0,
) -> Outcome:
    """Release the job once, or publish again what it released before.

    Args:
        job: what to do.
        reducer: the running child process that will read the rows.
        perform: carries out each step.
        tell: shows a person what speaks against the run, before anything is reserved for it.
        wait: for how many seconds at most to wait for another run of the release, whose draw this
            one then publishes too.

    Raises:
        RunInProgress: another run of the release goes on.
        BudgetRefused: the ledger does not hold the cost. No row was read.
        MethodRefused: epsilon buys nothing, and the job does not want that anyway.
        HushrankError: anything else that a person can act on; the text says whether budget was
            spent.
    """
    job.heads = heads_of(job.files, job.config, reducer.reader)
    observer = observer_of(job)
    with observer.run() as ended:
        read = partial(reduce, job, reducer)
        outcome = _run(job, read, observer.watch(perform), tell, wait)
        ended(outcome)
    return outcome


def _run(job: Job, read: Read, perform: Perform, tell: Tell, wait: float) -> Outcome:
    begun = set[Step]()

    def noted(step: Step, action: Callable[[], T]) -> T:
        begun.add(step)
        return perform(step, action)

    try:
        return _run_steps(job, read, noted, tell, wait)
    except (HushrankError, KeyboardInterrupt) as error:
        setattr(error, "spent", _spent_by(job) if DRAW in begun else NOTHING)  # noqa: B010
        raise


def _spent_by(job: Job) -> str | None:
    """What the ledger counts of a draw that was begun, in words; None: it cannot be asked."""
    try:
        attempt = job.ledger.attempt(job.release_id) if job.safe else None
    except HushrankError:
        return None
    if attempt is None or attempt.drawn_at is None:
        return NOTHING
    cost = job.cost if attempt.of else attempt.spend
    return NOTHING if cost == FREE else spend_text(cost)


def _run_steps(job: Job, read: Read, perform: Perform, tell: Tell, wait: float) -> Outcome:
    if (done := _published(job)) is not None:
        return done
    refuse_worthless(job)
    for note in (
        *engine_notes(job),
        *look_notes(job),
        *(each.text for each in readings(job) if each.by_default),
        *column_notes(job.config, job.files, job.heads),
        *input_notes(job, if_drawn=False),
        *people_notes(job),
    ):
        tell(note)
    with job.ledger.run_lock(job.release_id, wait):
        return _publish(job, perform, _draw_once(job, read, perform))


def _published(job: Job) -> Outcome | None:
    """What earlier runs have published of the job; what dead runs left is seen to first."""
    sweep(job.config, job.ledger)
    if (done := published(job.config.output, job.release_id)) is None:
        return None
    commit(job)  # a run may have died just before it
    return Outcome(*done, spent=None, balance=job.ledger.balance(book=job.ledger.known()))


def publish_drawn(job: Job, perform: Perform = directly) -> Outcome:
    """Publish what was drawn for the job before; nothing is read, drawn or spent.

    Raises:
        RunInProgress: a run of the release is still going on.
        HushrankError: it could not be published.
    """
    if (done := _published(job)) is not None:
        return done
    with job.ledger.run_lock(job.release_id):
        return _publish(job, perform, None)


def _draw_once(job: Job, read: Read, perform: Perform) -> Reserved | None:
    """Reserve, read, count, draw, unless it was drawn before.

    Until noise is drawn, whatever stops the run, from the reservation on, gives the budget back.
    A reservation that is refused leaves counts that another process has prepared.
    """
    with one_signal():  # a second one would break off giving back
        return _draw_or_undo(job, read, perform)


def _draw_or_undo(job: Job, read: Read, perform: Perform) -> Reserved | None:
    begun = job.ledger.accepted = False
    try:
        reserved = perform(RESERVE, lambda: reserve(job))
        begun = True
        if reserved is not None:
            exact = perform(REDUCE, read)
            perform(DRAW, lambda: draw(job, exact))
    except BaseException as error:
        if begun or job.ledger.accepted or not isinstance(error, HushrankError):
            undo(job, job.ledger, error)
        raise
    return reserved


def _publish(job: Job, perform: Perform, reserved: Reserved | None) -> Outcome:
    ledger, drawn = job.ledger, stored(job)
    release = perform(ESTIMATE, lambda: estimate(job, drawn))
    balance = ledger.balance(book=ledger.known())
    folder = perform(PUBLISH, lambda: publish_release(job, drawn, release, balance))
    perform(COMMIT, lambda: commit(job))
    alerts = ledger.alert() if job.safe and job.config.ledger.alerts else ()
    paid = reserved or Reserved(None)
    return Outcome(release, folder, paid.spend, balance, alerts, paid.again)


def undo(job: Job, ledger: Ledger, error: BaseException) -> None:
    """Put back what a run has begun that `error` ended, unless its noise was drawn.

    What is private is deleted first, whatever becomes of the ledger. Each part is tried whatever
    becomes of the others; what cannot be put back is added to `error` as a note, for whoever tells
    people about it. Whether the release is still reserved is the last of them.

    Args:
        job: what the run was to do.
        ledger: where it may have reserved.
        error: why it ended.
    """
    with signals_held():
        for note in dict.fromkeys(_undone(job, ledger)):
            error.add_note(note)


def _undone(job: Job, ledger: Ledger) -> Iterator[str]:
    """Do it; yield a sentence for each part that failed."""
    for place, forget in job.occasion.counted(job).items():
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
    attempt_for(Cancel, account, release_id)
    works = [config.confidential / each for each in _with_nights(account, release_id)]

    def forget() -> list[str]:
        parts = [(str(work), partial(forget_exact, work)) for work in works]
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
    if notes:
        raise HushrankError(" ".join((f"Release {release_id} is given back.", *notes)))


def cancel(config: SurveyConfig, ledger: Ledger, release_id: str) -> None:
    """As `abandon`, whether or not a run of the release goes on."""
    try:
        account = ledger.book().account
    except HushrankError as error:
        error.add_note(f"What the dead run has counted may still be in {config.confidential}.")
        raise
    attempt_for(Cancel, account, release_id)
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
