"""One run of a job, in order: validate, reserve, reduce, draw, estimate, publish, commit.

The same steps run directly or as the tasks of a Prefect flow (`flows.nights.flow`); the difference
is one function, `Perform`. What spends budget is never repeated: `draw` has no retries, and a run
that finds the noise drawn goes on from there. A run that ends before puts back what it has begun.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from hushrank.flows.errors import NOTHING, HushrankError
from hushrank.flows.ledger.account import PAID, ReleaseState
from hushrank.flows.ledger.ledger import Ledger
from hushrank.flows.ledger.streams import FREE
from hushrank.flows.ledger.texts import spend_text
from hushrank.flows.release.publish import published
from hushrank.flows.run.confidential_folder import (
    forget_unmarked,
)
from hushrank.flows.run.context import Job
from hushrank.flows.run.drawn import Drawn
from hushrank.flows.run.stages import (
    COMMIT,
    DRAW,
    ESTIMATE,
    PUBLISH,
    REDUCE,
    RESERVE,
    Outcome,
    Services,
    Step,
    T,
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
from hushrank.flows.signals import one_signal, signals_held

CANCEL_ENDS_IT = "hushrank ledger cancel ends it."


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
        setattr(error, "spent", _spent_by(job) if DRAW in begun else NOTHING)  # noqa: B010
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
        for note in dict.fromkeys(_undone(job, ledger)):
            error.add_note(note)


def _undone(job: Job, ledger: Ledger) -> Iterator[str]:
    """Delete exact counts and reservation; yield a sentence for each part that failed."""
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
