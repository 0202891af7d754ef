"""The steps of one run. Each is a function of the job; `flows.run.run` says in which order.

What a step leaves behind is enough for the next one, so a run that died is taken up where it was:
`exact.npz` (confidential), then `drawn.npz` (the release itself: everything after it is
post-processing and may be repeated freely), then the published folder.

Noise is drawn, stored where nobody takes it for a release, marked in the ledger by its digest, and
then given its name. Whenever a run dies, either the mark is missing, and nothing is spent, or the
next run finds what was paid for: it is never paid for twice.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from hushrank.estimation.fit.solve import ConvergenceError
from hushrank.flows.certificate.audited import audited_pairs
from hushrank.flows.certificate.build import certifier, ledger_part
from hushrank.flows.certificate.model import Software
from hushrank.flows.certificate.software import software
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.errors import (
    DrawError,
    EstimateError,
    LedgerError,
    PredictableBits,
    RunInProgress,
)
from hushrank.flows.ledger.account import Attempt
from hushrank.flows.ledger.budget import Balance
from hushrank.flows.ledger.ledger import Ledger
from hushrank.flows.methods.base import Arrays, Conclusion
from hushrank.flows.recovery.witness import PAID, keep_witness, require_remembered
from hushrank.flows.release.archive import find_archived, nights_before, release_before
from hushrank.flows.release.provenance import Provenance
from hushrank.flows.release.publish import publish
from hushrank.flows.release.release import Release, build_release
from hushrank.flows.release.scale import Scale
from hushrank.flows.run.budget import ledger_of
from hushrank.flows.run.confidential_folder import (
    DRAWN_FILE,
    FAILED_FILE,
    bits_of_reduction,
    delete_strays,
    finish_drawn,
    forget_exact,
    forget_half_written,
    is_unfinished,
    load_exact,
    make_confidential,
    releases_with_strays,
    store_unmarked,
    votes_of_reduction,
)
from hushrank.flows.run.drawn import (
    Drawn,
    completed,
    entries_of,
    look_of,
    noisy_votes,
    people_asked,
    recorded_hash,
    refuse_lost,
    refuse_stopped,
    stored_drawn,
)
from hushrank.flows.run.job import Job, stated_version
from hushrank.flows.run.reader_process import Reducer
from hushrank.flows.run.stream_night import told_as_input
from hushrank.flows.run.stream_steps import (
    draw_stream,
    reduce_stream,
    reserve_stream,
    restore_drawn,
    stream_record,
    tidy_ended,
    tidy_stream,
)
from hushrank.flows.signals import signals_held
from hushrank.privacy.bits_used import BitsUsed, Purpose
from hushrank.privacy.keyed_hash import SecretKey
from hushrank.privacy.units import Unit
from hushrank.transforms.storage.cloud_storage import Place
from hushrank.transforms.storage.write import npz_bytes, write_whole


class Standing(StrEnum):
    """How far earlier runs of the same release got."""

    RESERVED = "reserved"  # now, by this run: everything is still to be done
    DRAWN = "drawn"  # noise is drawn and stored: publish it


def reserve(job: Job, ledger: Ledger) -> Standing:
    """Set the job's cost aside, unless its noise was drawn before.

    Raises:
        BudgetRefused: the ledger does not hold the cost.
        LedgerError: the ledger cannot be used.
        LookStopped: a look at its rows has stopped it before, and what was seen is not kept.
        DrawError: its noise was drawn and is not kept, and no fresh draw was asked for.
    """
    attempt = ledger.attempt(job.release_id) if job.safe else None
    finish(job.work, attempt)
    stored = (job.work / DRAWN_FILE).exists()
    if not stored:
        refuse_stopped(job.release_id, attempt)
    if not job.safe:
        return Standing.DRAWN if stored else Standing.RESERVED
    paid = attempt is not None and attempt.drawn_at is not None
    night = job.of_stream
    if night is not None and attempt is not None and paid and not stored:
        restore_drawn(job, night, attempt)
        return Standing.DRAWN
    if stored and not paid:
        raise LedgerError(
            f"{job.config.ledger.path}: does not know release {job.release_id}, whose noise was"
            " drawn under another ledger. Set ledger.path back; nothing was published."
        )
    if stored:
        return Standing.DRAWN
    if attempt is not None and paid and not job.again:
        refuse_lost(attempt, job.work)
    require_remembered(job.config, ledger, job.inputs.plain)
    if night is not None:
        reserve_stream(job, night, ledger)
    else:
        ledger.reserve(
            job.release_id,
            job.terms.spend,
            config_hash=job.config.job_hash(),
            night=job.night,
            noise_lost=paid,
            inputs=job.inputs,
        )
    keep_witness(job.config, ledger, job.inputs.plain)
    return Standing.RESERVED


def reduce(job: Job, reducer: Reducer) -> None:
    """Read the rows and leave exact arrays in the confidential area.

    Raises:
        ConfigError: the input breaks a rule.
        ReadingError: anything else went wrong.
    """
    if job.of_stream is not None:
        reduce_stream(job, job.of_stream, reducer)
        return
    make_confidential(job.config.confidential, job.release_id)
    config, reduction = job.config, job.reduction(SecretKey.draw(job.bits()), job.work)
    reducer.run(replace(reduction, memory_limit=config.memory_limit, engine=config.runner.engine()))
    with told_as_input():
        job.contents.require_unchanged()
    job.contents.remember()


def draw(job: Job, ledger: Ledger) -> None:
    """Draw the noise, once, and store what may be published; the exact arrays are then deleted.

    What was drawn is on disk before the ledger counts it, so a full disk is met before the point
    of no return. After `mark_drawn` the budget is spent whatever happens. It is spent as well where
    the mechanism fails, for that may tell something about the rows.

    Raises:
        ConfigError: the file `report.audit` is gone, or says nothing of this job any more. No
            budget was spent.
        PredictableBits: the job is to be safe, and bits that the reduction or the draw takes are
            not. No budget was spent.
        DrawError: the mechanism failed; `FAILED_FILE` says so to whoever would try again unasked.
    """
    if job.of_stream is not None:
        draw_stream(job, job.of_stream, ledger)
        return
    exact, reduced = load_exact(job.work), _safe_bits(job)
    audit = audited_pairs(job.config)  # read before the draw: a file that is gone costs nothing
    votes = None
    if job.drawn_by.look is not None:
        votes = votes_of_reduction(job.work, job.config.privacy.unit)
    try:
        drawn = _drawn(job, exact, votes, reduced)
    except Exception:
        with signals_held():
            _mark(job, ledger, None, stopped=False)
            write_whole(str(job.work / FAILED_FILE), b"")
        raise
    content = npz_bytes(**entries_of(replace(drawn, audit=audit)))
    with signals_held():
        digest = store_unmarked(job.work, content)
        _mark(job, ledger, digest, stopped=drawn.stopped)
        finish_drawn(job.work, digest)
        forget_exact(job.work)


def _mark(job: Job, ledger: Ledger, digest: str | None, *, stopped: bool) -> None:
    """Record that the job's noise was drawn; `digest` is that of the file which holds it.

    Where a look has `stopped` the job, only the look was drawn, and only that is spent.
    """
    look = job.drawn_by.look
    if job.safe and stopped and look is not None and digest is not None:
        ledger.mark_stopped(job.release_id, look.spend, digest)
    elif job.safe:
        ledger.mark_drawn(job.release_id, digest)
    else:
        ledger.record_unsafe(job.release_id, _why_unsafe(job))


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


def _safe_bits(job: Job) -> BitsUsed:
    """Which random bits the exact arrays were made with.

    Raises:
        PredictableBits: the job is to be safe, and they are not, or those that are to be drawn.
    """
    used = bits_of_reduction(job.work)
    if job.safe and not (used.safe and job.bits().safe):
        raise PredictableBits(
            "draw: random bits of this release do not come from the operating system, so its noise"
            " or its choice of rows could be predicted. Nothing was drawn and no budget was spent."
        )
    return used


def _drawn(job: Job, exact: Arrays, votes: NDArray[np.int64] | None, reduced: BitsUsed) -> Drawn:
    """Have the mechanism draw, after the look where there is one, and see with which bits.

    Raises:
        DrawError: it failed, or the bits are not those of a release that is to be safe.
    """
    bits, now = job.bits(), datetime.now(UTC)
    drawn = Drawn(
        arrays={},
        drawn_by=job.drawn_by,
        bits=reduced,
        votes=noisy_votes(votes, job.drawn_by.look, bits),
        people=people_asked(job.config),
        created=now,
        code_version=stated_version(),
        software=software(),
    )
    if drawn.seen is None or not drawn.seen.stops:
        arrays = job.drawn_by.method.draw(exact, job.mechanism, bits)
        drawn = replace(drawn, arrays=arrays)
    used = reduced | BitsUsed.of(Purpose.NOISE, bits.used)
    drew = used.covers(Purpose.NOISE) or job.config.privacy.unit is Unit.LOCAL
    if job.safe and not (drew and used.safe):
        raise DrawError(
            "draw: the noise was not drawn from bits of the operating system. It is thrown away;"
            " the budget is spent, and nothing is released."
        )
    return replace(drawn, bits=used)


def estimate(job: Job) -> Release:
    """Rank what was drawn. Post-processing: it may be repeated freely.

    Raises:
        EstimateError: the fit to it failed, as it would again; or this version cannot read it.
        LookStopped: a look at the rows told to stop, so nothing else was drawn.
    """
    config = job.config
    drawn = _stored(job)
    if drawn.stopped:
        forget_exact(job.work)  # a run may have died just before it, and nothing is published
    look, method = look_of(drawn, config), drawn.drawn_by.method
    conclusion = _concluded(job, drawn)
    provenance = Provenance(
        release_id=job.release_id,
        created=drawn.created,
        name=config.name,
        job=recorded_hash(job.config, ledger_of(job.config).attempt(job.release_id)),
        method=method.facts.name,
        night=job.night,
        code_version=drawn.code_version,
        charged=job.safe,
        bits=drawn.bits,
        stream=stream_record(job, drawn),
        about=config.report.about,
    )
    return build_release(
        provenance,
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
        effects=conclusion.effects,
        boards=conclusion.boards,
        ties=conclusion.ties,
    )


def _stored(job: Job) -> Drawn:
    """What was drawn for the job; raises as `stored_drawn`."""
    attempts = ledger_of(job.config).book().account.attempts if job.safe else ()
    return stored_drawn(job.work, job.release_id, attempts, job.config)


def _concluded(job: Job, drawn: Drawn) -> Conclusion:
    try:
        return drawn.drawn_by.method.conclude(drawn.arrays, drawn.mechanism, job.config)
    except ConvergenceError as error:
        raise EstimateError(
            f"estimate: {error}. The noise is drawn and paid for, and nothing is published. It is"
            f" kept: hushrank resume {job.release_id} publishes it if another version of hushrank"
            " can fit it; another model in the YAML file makes another release."
        ) from None


def publish_release(job: Job, release: Release, balance: Balance) -> Place:
    """Write the release, its report and its certificate into the output folder.

    Raises:
        PublishError: it could not be written; nothing was published.
    """
    from hushrank.flows.report.page import render_report  # draws plots: slow to load

    output = job.config.output
    before = release_before(release, output, *job.config.supersedes)
    continued = before is not None and find_archived(output, before.release_id) is None
    earlier = nights_before(release, output)
    report = render_report(release, balance, before, earlier, continued=continued)
    drawn = _stored(job)
    certify = certifier(
        release,
        job.config,
        drawn.drawn_by,
        drawn.arrays,
        drawn.software or Software(hushrank=drawn.code_version),
        ledger_part(ledger_of(job.config), job.release_id) if job.safe else None,
        drawn.audit,
    )
    return publish(
        release,
        report,
        output,
        certify=certify,
        allow_unsafe=not job.safe,
        jobs=job.config.job_hashes(),
    )


def commit(job: Job, ledger: Ledger) -> None:
    """Record that the release is published.

    Raises:
        LedgerError: the ledger does not know that it was paid for, or cannot be used.
    """
    tidy_stream(job)
    if not job.safe:
        return
    account = ledger.book().account
    if account.state(job.release_id) not in PAID:
        require_remembered(job.config, ledger, job.inputs.plain)
        if job.release_id in account.accepted:  # of a past period, by the word of an operator
            return
    ledger.commit(job.release_id)
    with suppress(OSError):  # what was kept before the noise was drawn stands
        keep_witness(job.config, ledger)


def sweep(config: SurveyConfig, ledger: Ledger) -> None:
    """Finish and delete what runs left that died: noise without its name, strays, temporary files.

    Of a release that this ledger does not know, another ledger has the lock: only its exact arrays
    are deleted that came when it was drawn or given up.
    """
    ledger.backend.tidy()
    forget_half_written(config.confidential)
    if config.schedule.stream is not None:
        tidy_ended(config.confidential, ledger.book().account)
    for release_id in releases_with_strays(config.confidential):
        with suppress(RunInProgress), ledger.run_lock(release_id):  # a run sees to its own
            work, attempt = config.confidential / release_id, ledger.attempt(release_id)
            finish(work, attempt)
            delete_strays(work, temporary=attempt is not None)


def _why_unsafe(job: Job) -> str:
    if not job.config.privacy.private:
        return "released without noise (epsilon: inf)"
    if not job.counted:
        return "no lasting ledger counts it"
    return "its random bits came from an injected seed, so its noise can be computed"
