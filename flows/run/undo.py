"""What a run puts back that ends before its noise is drawn."""

from __future__ import annotations

from collections.abc import Iterator

from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.errors import HushrankError
from hushrank.flows.ledger.account import ReleaseState
from hushrank.flows.ledger.ledger import Ledger
from hushrank.flows.run.confidential_folder import forget_exact, forget_unmarked
from hushrank.flows.run.job import Job
from hushrank.flows.run.ledger_witness import PAID
from hushrank.flows.run.stream_steps import forget_counted
from hushrank.flows.signals import signals_held


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
