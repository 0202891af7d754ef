"""One run of a job, in order: validate, reserve, reduce, draw, estimate, publish, commit.

The same steps run directly or as the tasks of a Prefect flow (`flows.prefect.flow`); the difference
is one function, `Perform`. What spends budget is never repeated: `draw` has no retries, and a run
that finds the noise drawn goes on from there. A run that ends before puts back what it has begun.
"""

from __future__ import annotations

import importlib
import logging
import threading
from collections.abc import Callable, Iterator

from hushrank.flows.config.runner import FlinkRunner
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.errors import HushrankError
from hushrank.flows.ledger.account import ReleaseState
from hushrank.flows.ledger.ledger import Ledger
from hushrank.flows.recovery.witness import PAID
from hushrank.flows.release.publish import published
from hushrank.flows.run.budget import ledger_of
from hushrank.flows.run.confidential_folder import forget_exact, forget_unmarked
from hushrank.flows.run.job import Job
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
    directly,
)
from hushrank.flows.run.steps import (
    Standing,
    commit,
    draw,
    estimate,
    publish_release,
    reduce,
    reserve,
    sweep,
)
from hushrank.flows.run.stream_steps import cost_of, forget_counted
from hushrank.flows.signals import one_signal, signals_held
from hushrank.pipelines.engine.flink_restarts import restart_notes
from hushrank.privacy.accounting import Spend
from hushrank.transforms.common.extras import is_installed

FIGURES_MODULE = "hushrank.flows.report.figures"

Tell = Callable[[str], None]


def engine_notes(job: Job) -> tuple[str, ...]:
    """What its engine's settings say against `job`; the engine is asked for them.

    Nothing here stops a run: it ends well unless a machine dies, and then it costs no budget.
    """
    runner = job.config.runner
    return restart_notes(runner.asked) if isinstance(runner, FlinkRunner) else ()


def log_note(note: str) -> None:
    """Tell of it where nobody is known who watches: Python shows warnings on standard error."""
    logging.getLogger(__name__).warning(note)


def run_job(
    job: Job, reducer: Reducer, perform: Perform = directly, tell: Tell = log_note
) -> Outcome:
    """Release the job once, or publish again what it released before.

    Args:
        job: what to do.
        reducer: the running child process that will read the rows.
        perform: carries out each step.
        tell: shows a person what speaks against the run, before anything is reserved for it.

    Raises:
        BudgetRefused: the ledger does not hold the cost. No row was read.
        HushrankError: anything else that a person can act on; the text says whether budget was
            spent.
    """
    observer = observer_of(job)
    with observer.run() as ended:
        outcome = _run(job, reducer, observer.watch(perform), tell)
        ended(outcome)
    return outcome


def _run(job: Job, reducer: Reducer, perform: Perform, tell: Tell) -> Outcome:
    ledger = ledger_of(job.config)
    sweep(job.config, ledger)
    if (done := published(job.config.output, job.release_id)) is not None:
        commit(job, ledger)  # a run may have died just before it
        return Outcome(*done, spent=None, balance=ledger.balance())
    for note in engine_notes(job):
        tell(note)
    with ledger.run_lock(job.release_id):
        standing = _draw_once(job, reducer, ledger, perform)
        drawn_now = standing is Standing.RESERVED and job.safe
        return _publish(job, ledger, perform, spent=cost_of(job) if drawn_now else None)


def publish_drawn(job: Job, perform: Perform = directly) -> Outcome:
    """Publish what was drawn for the job before; nothing is read, drawn or spent.

    Raises:
        RunInProgress: a run of the release is still going on.
        HushrankError: it could not be published.
    """
    ledger = ledger_of(job.config)
    sweep(job.config, ledger)
    if (done := published(job.config.output, job.release_id)) is not None:
        commit(job, ledger)
        return Outcome(*done, spent=None, balance=ledger.balance())
    with ledger.run_lock(job.release_id):
        return _publish(job, ledger, perform, spent=None)


def _draw_once(job: Job, reducer: Reducer, ledger: Ledger, perform: Perform) -> Standing:
    """Reserve, read, count, draw, unless it was drawn before.

    Until noise is drawn, whatever stops the run, from the reservation on, gives the budget back.
    A reservation that is refused leaves counts that another process has prepared.
    """
    with one_signal():  # a second one would break off giving back
        return _draw_or_undo(job, reducer, ledger, perform)


def _draw_or_undo(job: Job, reducer: Reducer, ledger: Ledger, perform: Perform) -> Standing:
    reserved = False
    try:
        standing = perform(RESERVE, lambda: reserve(job, ledger))
        reserved = True
        if standing is Standing.RESERVED:
            # The report's libraries take a second to load: use the time in which the child works.
            if is_installed("report"):
                threading.Thread(target=importlib.import_module, args=(FIGURES_MODULE,)).start()
            perform(REDUCE, lambda: reduce(job, reducer))
            perform(DRAW, lambda: draw(job, ledger))
    except BaseException as error:
        if reserved or not isinstance(error, HushrankError):  # else it may be in the ledger already
            undo(job, ledger, error, counted=reserved)
        raise
    return standing


def _publish(job: Job, ledger: Ledger, perform: Perform, *, spent: Spend | None) -> Outcome:
    release = perform(ESTIMATE, lambda: estimate(job))
    balance = ledger.balance()
    folder = perform(PUBLISH, lambda: publish_release(job, release, balance))
    perform(COMMIT, lambda: commit(job, ledger))
    alerts = ledger.alert() if job.safe and job.config.ledger.alerts else ()
    again = spent is not None and ledger.book().account.draws(job.release_id) > 1
    return Outcome(release, folder, spent, balance, alerts, again)


def undo(job: Job, ledger: Ledger, error: BaseException, *, counted: bool) -> None:
    """Put back what a run has begun that `error` ended, unless its noise was drawn.

    Each part is tried whatever becomes of the others; what cannot be put back is added to `error`
    as a note, for whoever tells people about it.

    Args:
        job: what the run was to do.
        ledger: where it may have reserved.
        error: why it ended.
        counted: whether exact arrays are its own.
    """
    with signals_held():
        for note in _undone(job, ledger, counted=counted):
            error.add_note(note)


def _undone(job: Job, ledger: Ledger, *, counted: bool) -> Iterator[str]:
    """Do it; yield a sentence for each part that failed."""
    try:
        if counted:
            forget_exact(job.work)
    except OSError as failure:
        reason = failure.strerror or type(failure).__name__
        yield f"Exact counts could not be deleted from {job.work} ({reason}): the next run does it."
    try:
        give_back(job, ledger)
    except HushrankError as failure:
        yield (
            f"Release {job.release_id} may still be reserved, for it could not be given back:"
            f" {failure} Running again uses the reservation; hushrank ledger cancel ends it."
        )
    except OSError as failure:  # it is given back
        reason = failure.strerror or type(failure).__name__
        yield f"A temporary file is left in {job.work} ({reason}): the next run deletes it."


def give_back(job: Job, ledger: Ledger) -> None:
    """Cancel the reservation if no noise was drawn for it; noise without a mark is deleted.

    Raises:
        LedgerError: the ledger cannot be used.
        OSError: such noise could not be deleted.
    """
    state = ledger.state(job.release_id) if job.safe else ReleaseState.NONE
    if state is ReleaseState.RESERVED:
        ledger.cancel(job.release_id)
    if state not in PAID:
        forget_unmarked(job.work)
        forget_counted(job.config, ledger.book().account, job.release_id)


def abandon(config: SurveyConfig, ledger: Ledger, release_id: str) -> None:
    """Give back what a run reserved that died before it drew noise; its exact counts are deleted.

    Raises:
        LedgerError: the release is not reserved, or its noise was drawn.
    """
    nights = ledger.book().account.nights_of(release_id).values()
    ledger.cancel(release_id)
    for each in (release_id, *(night.release_id for night in nights)):
        forget_exact(config.confidential / each)
        forget_unmarked(config.confidential / each)
    forget_counted(config, ledger.book().account, release_id)
