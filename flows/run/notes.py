"""What speaks against a run, and is told before anything is reserved for it.

Nothing here reads a row. All of it comes from the configuration, the names and headers of the
files, the ledger, and the plan's formulas.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

from hushrank.flows.config.comparisons import InputConfig
from hushrank.flows.config.items import COMPLETE_ORDERS
from hushrank.flows.config.responses import ResponsesConfig
from hushrank.flows.config.runner import FlinkRunner
from hushrank.flows.errors import MethodRefused
from hushrank.flows.ledger.account import Attempt, ReleaseState
from hushrank.flows.ledger.key import find_key
from hushrank.flows.ledger.texts import spend_text
from hushrank.flows.planning.plan.worth import few_people_note, refusal, worth_of
from hushrank.flows.release.archive import find_archived
from hushrank.flows.run.confidential_folder import finds_drawn
from hushrank.flows.run.context import Job
from hushrank.flows.run.input_files import column_notes
from hushrank.pipelines.engine.flink_restarts import restart_notes
from hushrank.privacy.units import Unit
from hushrank.transforms.common.schema import Ties
from hushrank.transforms.storage.files import FileFormat

UNLISTED = (
    "Nothing is taken as known of an item that a ranking does not list (input.unlisted: unknown)."
    " If the unlisted are below the listed, as in elections, write below."
)
CODES = (
    "A whole number in place of an item's name counts from 0, so 0 is {}. If 1 is, write"
    " items.first_code: 1."
)
NO_LOOK = (
    "This job has no pilot query (privacy.look), which would stop it where rows are not read as"
    " meant, before most of epsilon is spent. Adding one changes the job."
)


def advise(job: Job) -> Iterator[str]:
    """What speaks against a run of `job`, a sentence or two each.

    Raises:
        MethodRefused: its epsilon buys nothing, and the job does not want that anyway.
        LedgerError: the ledger cannot be used.
        ConfigError: a file cannot be read.
    """
    worth = check_worth(job)
    yield from engine_notes(job)
    yield from look_notes(job)
    yield from meaning_notes(job)
    yield from column_notes(job.config, job.files, job.heads)
    yield from input_notes(job, if_drawn=False)
    if worth:
        yield worth


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


def meaning_notes(job: Job) -> Iterator[str]:
    """Meaning of values in the rows where the configuration leaves it to a default."""
    rows, items = job.config.input, job.config.items
    names = items.catalogue().names
    if isinstance(rows, ResponsesConfig):
        if "words" not in rows.model_fields_set:
            yield rows.answers_in_words
    elif isinstance(rows, InputConfig):
        if rows.ties is not Ties.DROP and rows.told is None and (words := rows.spelled_out(names)):
            yield (
                f"{words[0].upper()}{words[1:]}, an empty cell too: input.words can call it a tie."
            )
    elif rows.layout != "pairs":
        partial = any(not file.path.endswith(COMPLETE_ORDERS) for file in job.files)
        if partial and "unlisted" not in rows.model_fields_set:
            yield UNLISTED
        if is_preflib(job):
            return
        if rows.has_numbers and not {"best", "not_ranked"} <= rows.model_fields_set:
            yield rows.ranks_in_words
        if items.codes_unclear and rows.layout != "wide":
            yield CODES.format(names[0])


def is_preflib(job: Job) -> bool:
    """Whether the rows are PrefLib's, whose header says what numbers mean."""
    return any(file.format is FileFormat.PREFLIB for file in job.files)


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
        MethodRefused: it buys nothing, whichever night is ranked.
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
