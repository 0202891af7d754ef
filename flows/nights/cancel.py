"""Give back what a run reserved that died before it drew noise."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial

from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.errors import HushrankError, RunInProgress
from hushrank.flows.ledger.account import Account
from hushrank.flows.ledger.entries import Cancel
from hushrank.flows.ledger.ledger import Ledger
from hushrank.flows.ledger.rules import attempt_for
from hushrank.flows.run.confidential_folder import forget_exact, forget_unmarked
from hushrank.flows.run.run import CANCEL_ENDS_IT, counts_left
from hushrank.flows.run.stream_night import forget_counted


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
