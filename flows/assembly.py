"""Every room put together: the one place that tells a run what it takes from the others.

The steps of a run (`flows.run.run`) know neither report nor certificate, neither the memory of
ledgers nor whoever watches. Each is handed to them here, as a part of `Services`.
"""

from __future__ import annotations

from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.ledger.entries import Balance
from hushrank.flows.ledger.keys import InputNames
from hushrank.flows.ledger.ledger import Ledger
from hushrank.flows.progress import logged
from hushrank.flows.reading import Reducer
from hushrank.flows.release.archive import (
    REPORT,
    Contents,
    find_archived,
    nights_before,
    release_before,
)
from hushrank.flows.release.provenance import Software
from hushrank.flows.release.release import Release
from hushrank.flows.run.confidential_folder import check_confidential
from hushrank.flows.run.context import Job
from hushrank.flows.run.drawn import Drawn
from hushrank.flows.run.input_files import heads_of
from hushrank.flows.run.job import advise, log_note
from hushrank.flows.run.run import publish_drawn, run_release
from hushrank.flows.run.stages import Memory, Outcome, Perform, Services, Tell, directly
from hushrank.flows.trust.certificate.build import certified, ledger_part
from hushrank.flows.trust.recovery import keep_checkpoint, require_remembered
from hushrank.flows.watching.observer import observer_of
from hushrank.privacy.accounting import Spend

MEMORY = Memory(require=require_remembered, keep=keep_checkpoint)


def services_of(reducer: Reducer, perform: Perform = directly, tell: Tell = log_note) -> Services:
    """All that a run takes from the rest of the house.

    Args:
        reducer: the child process that will read the rows.
        perform: carries out each step.
        tell: shows a person what speaks against the run.
    """
    return Services(
        read=reducer.run,
        memory=MEMORY,
        attachments=(report, certificate),
        advise=advise,
        tell=tell,
        perform=perform,
    )


def run_job(
    job: Job,
    reducer: Reducer,
    perform: Perform = directly,
    tell: Tell = log_note,
    wait: float = 0.0,
) -> Outcome:
    """Run `job`, and tell its destinations of it; see `run_release`.

    Args:
        job: the job to run.
        reducer: the running child process that will read the rows.
        perform, tell: see `services_of`.
        wait: see `run_release`.

    Raises:
        HushrankError: as `run_release`, or a destination cannot be used.
    """
    job.heads = heads_of(job.files, job.config, reducer.reader)
    reducer.reader.watch = logged(job.files)
    observer = observer_of(job)
    if observer is None:
        return run_release(job, services_of(reducer, perform, tell), wait)
    with observer.run() as ended:
        outcome = run_release(job, services_of(reducer, observer.watch(perform), tell), wait)
        ended(outcome)
    return outcome


def resume_job(job: Job, perform: Perform) -> Outcome:
    """Publish what was drawn for the job before; see `publish_drawn`."""
    return publish_drawn(job, services_of(Reducer(), perform))  # nothing is read


def report(
    job: Job, _drawn: Drawn, release: Release, balance: Balance, _files: Contents
) -> Contents:
    """`report.html`, with what has changed since the release before."""
    from hushrank.flows.report.page import render_report  # draws plots: slow to load

    output = job.config.output
    before = release_before(release, output, *job.config.supersedes)
    continued = before is not None and find_archived(output, before.release_id) is None
    earlier = nights_before(release, output)
    language = job.config.report.language
    page = render_report(release, balance, before, earlier, continued=continued, language=language)
    return {REPORT: page.encode()}


def certificate(
    job: Job, drawn: Drawn, release: Release, _balance: Balance, files: Contents
) -> Contents:
    """`certificate.json` of all other files, and its signature where the ledger has a key."""
    return certified(
        release,
        job.config,
        drawn.drawn_by,
        drawn.arrays,
        drawn.software or Software(hushrank=drawn.code_version),
        ledger_part(job.ledger, job.release_id) if job.safe else None,
        files,
        drawn.audit,
    )


def check_ledger(
    config: SurveyConfig, ledger: Ledger, inputs: InputNames, spend: Spend | None = None
) -> None:
    """Raise what a run would be refused with because of its ledger, and record nothing.

    That is: lines, length, signature and anchor; the key and its permissions; folders and locks;
    the clock; what the confidential folder and the archive remember; and other names that read the
    same input.

    Args:
        config: configuration of the job.
        ledger: the job's ledger.
        inputs: names of the job's input under the present key.
        spend: cost of the job; None: nothing.

    Raises:
        BudgetRefused: the ledger does not hold `spend`.
        HushrankError: anything else; the text says how to put it right.
    """
    check_confidential(config.confidential)
    MEMORY.require(config, ledger, inputs.plain)
    ledger.check(spend, inputs)
    ledger.backend.check_writable()
