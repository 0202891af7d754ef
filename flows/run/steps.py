"""The steps of one run. Each is a function of the job; `flows.run.run` says in which order.

What a step leaves behind is enough for the next one, so a run that died is taken up where it was:
`exact.npz` (confidential), then `drawn.npz` (the release itself: everything after it is
post-processing and may be repeated freely), then the published folder.

Noise is drawn, stored where nobody takes it for a release, marked in the ledger by its digest, and
then given its name. Whenever a run dies, either the mark is missing, and nothing is spent, or the
next run finds what was paid for: it is never paid for twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial

from hushrank.estimation.fit.solve import ConvergenceError
from hushrank.flows.errors import EstimateError, LedgerError, RunInProgress
from hushrank.flows.ledger.account import PAID, Attempt
from hushrank.flows.ledger.budget import Balance
from hushrank.flows.methods.base import Conclusion
from hushrank.flows.release.publish import publish
from hushrank.flows.release.release import Provenance, Release, build_release
from hushrank.flows.release.robustness import robustness_of
from hushrank.flows.release.row_source import row_source_of
from hushrank.flows.release.scale import Scale
from hushrank.flows.release.software import software
from hushrank.flows.run.confidential_folder import (
    DRAWN_FILE,
    Exact,
    delete_strays,
    finish_drawn,
    forget_exact,
    forget_half_written,
    is_unfinished,
    make_confidential,
    releases_with_strays,
    store_unmarked,
)
from hushrank.flows.run.context import Job, Noisy, Read, stated_version
from hushrank.flows.run.drawn import (
    Drawn,
    completed,
    entries_of,
    look_of,
    people_asked,
    recorded_hash,
    refuse_lost,
    refuse_stopped,
    stored_drawn,
)
from hushrank.flows.run.occasion import mark
from hushrank.flows.run.stages import Attachment, Memory
from hushrank.flows.signals import signals_held
from hushrank.privacy.accounting import Spend
from hushrank.privacy.keyed_hash import SecretKey
from hushrank.transforms.storage.cloud_storage import Place
from hushrank.transforms.storage.write import npz_bytes


@dataclass(frozen=True, slots=True)
class Reserved:
    """What this run has to draw, and pays for.

    Attributes:
        spend: what the ledger is charged, `FREE` where a stream has paid; None: nothing counts it.
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
    asked = job.reduction(SecretKey.draw(job.bits()), job.work)
    limit, engine = job.config.memory_limit, job.config.runner.engine()
    asked = replace(asked, memory_limit=limit, engine=engine)
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
    """What was drawn just now, as it is read back from where it is stored."""
    return Drawn(
        arrays=noisy.arrays,
        drawn_by=noisy.drawn_by,
        bits=noisy.bits,
        votes=noisy.votes,
        people=people_asked(job.config),
        created=datetime.now(UTC).replace(microsecond=0),
        code_version=stated_version(),
        software=software(),
        audit=job.survey.audit or None,
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
    """What was drawn for the job; raises as `stored_drawn`."""
    attempts = job.ledger.known().account.attempts if job.safe else ()
    return stored_drawn(job.work, job.release_id, attempts, job.config)


OF_SOME_METHODS = (  # what a conclusion and a release have under the same names
    *("effects", "boards", "ties", "test", "dif", "fit", "personal", "election", "precincts"),
)


def estimate(job: Job, drawn: Drawn) -> Release:
    """Rank what was drawn. Post-processing: it may be repeated freely.

    Raises:
        EstimateError: the fit to it failed, as it would again; or this version cannot read it.
        LookStopped: a look at the rows told to stop, so nothing else was drawn.
    """
    config = job.config
    if drawn.stopped:
        forget_exact(job.work)  # a run may have died just before it, and nothing is published
    look = look_of(drawn, config)
    conclusion = _concluded(job, drawn)
    release = build_release(
        _provenance(job, drawn),
        config.items.catalogue().names,
        conclusion.estimate,
        completed(conclusion.privacy, drawn, look, config),
        conclusion.released,
        conclusion.scale,
        conclusion.warnings,
        config.top_k,
        labels=config.items.labels(),
        shown_as=Scale.ELO if config.report.scale == "elo" else None,
        look=look,
        **{name: getattr(conclusion, name) for name in OF_SOME_METHODS},
    )
    return release.model_copy(update={"robustness": robustness_of(release)})


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
        PublishError: it could not be written; nothing was published.
    """
    return publish(
        release,
        job.config.output,
        *(partial(attach, job, drawn, release, balance) for attach in attachments),
        allow_unsafe=not job.safe,
        jobs=job.config.job_hashes(),
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
        if job.release_id in account.accepted:  # of a past period, by the word of an operator
            return
    ledger.commit(job.release_id)
    with suppress(OSError):  # what was kept before the noise was drawn stands
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
