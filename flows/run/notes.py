"""Reasons against a run, which are told before anything is reserved for it.

Nothing here reads a row. All of it comes from the configuration, the names and headers of the
files, the ledger, and the plan's formulas.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

from hushrank.flows.config.items import COMPLETE_ORDERS
from hushrank.flows.config.runner import FlinkRunner
from hushrank.flows.config.section import GivenRows, Reading
from hushrank.flows.errors import MethodRefused
from hushrank.flows.ledger.account import Attempt, ReleaseState
from hushrank.flows.ledger.key import find_key
from hushrank.flows.ledger.texts import spend_text
from hushrank.flows.planning.plan.worth import few_people_note, refusal, worth_of
from hushrank.flows.release.archive import find_archived
from hushrank.flows.run.confidential_folder import finds_drawn
from hushrank.flows.run.context import Job
from hushrank.flows.run.input_files import column_notes, told_as_input
from hushrank.privacy.units import Unit
from hushrank.transforms import system
from hushrank.transforms.storage.files import source_of

NO_LOOK = (
    "This job has no pilot query (privacy.look), which would stop it where rows are not read"
    " as meant, before most of epsilon is spent. Adding one changes the job."
)


def advise(job: Job) -> Iterator[str]:
    """Yield reasons against a run of `job`, a sentence or two each.

    Raises:
        MethodRefused: the job's epsilon buys nothing, and the job does not accept such a release.
        LedgerError: the ledger cannot be used.
        ConfigError: a file cannot be read, or nothing says which transform yields the rows.
    """
    with told_as_input():
        source_of(job.files)  # refuses a job whose rows nothing reads
    worth = check_worth(job)
    if system.NOT_KEPT and job.safe and job.ledger.known().last is None:  # said once
        yield system.NOT_KEPT
    yield from engine_notes(job)
    yield from look_notes(job)
    yield from (each.text for each in readings(job) if each.by_default)
    yield from column_notes(job.config, job.files, job.heads)
    yield from input_notes(job, if_drawn=False)
    if worth:
        yield worth


def engine_notes(job: Job) -> tuple[str, ...]:
    """Return what speaks against `job` in its engine's settings; the engine is asked for them.

    Nothing here stops a run: it ends well unless a machine dies, and then it costs no budget.
    """
    runner = job.config.runner
    if not isinstance(runner, FlinkRunner):
        return ()
    from hushrank.pipelines.engine.flink_restarts import restart_notes

    return restart_notes(runner.asked)


def look_notes(job: Job) -> tuple[str, ...]:
    """A line where a job has no pilot query and could have one."""
    privacy, stream = job.config.privacy, job.config.schedule.stream
    could = privacy.unit is not Unit.LOCAL and privacy.rho is None and stream is None
    return (NO_LOOK,) if could and privacy.look is None and job.safe else ()


def readings(job: Job) -> tuple[Reading, ...]:
    """Ways in which values of the rows are read."""
    items, files = job.config.items, job.files
    given = GivenRows(
        names=items.catalogue().names,
        formats={file.format for file in files},
        complete=all(file.path.endswith(COMPLETE_ORDERS) for file in files),
        codes=items.codes_unclear,
    )
    return tuple(job.config.input.readings(given))


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


def check_worth(job: Job) -> str:
    """Refuse a job whose epsilon buys nothing, unless it is drawn already or wanted anyway.

    Returns:
        A warning of a job that needs very many people; empty: there is nothing to say.

    Raises:
        MethodRefused: the release buys nothing, whichever night is ranked.
        LedgerError: the ledger cannot be used.
    """
    if not job.safe or job.survey.anyway or job.calibrated is None:
        return ""
    worth = worth_of(job.config, job.calibrated)
    note = few_people_note(job.config, worth)
    if worth is None or not (worth.nothing or note) or drawn_before(job) is not None:
        return ""
    if worth.nothing:
        raise MethodRefused(refusal(job.config, worth))
    return note


def input_notes(job: Job, *, if_drawn: bool = True) -> tuple[str, ...]:
    """Return what the ledger knows of the job's input, for payers who forgot an earlier release.

    Args:
        job: the job that is to run.
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
    """Say what a run does with a release that was drawn before."""
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
