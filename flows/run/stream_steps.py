"""The steps of one night of a stream, where they differ from those of a release by itself.

    reserve  the night in the ledger, and with the first night the stream, at its whole cost
    reduce   who counts tonight, and the exact counts: in the stream's folder, until no night needs
             them
    draw     the night's noise: stored once in the stream's folder (`draw_night`), then marked in
             the ledger, then used

What is stored first is the night's noise, whatever happens after it: a run that dies between that
and the ledger's mark is taken up, and no row is read again. The ledger's mark holds the digest of
the file of who counted. The next night must find that file, so a folder that was put back from an
earlier time is refused.
"""

from __future__ import annotations

import uuid
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, date, datetime

from hushrank.flows.certificate.audited import audited_pairs
from hushrank.flows.certificate.software import software
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.errors import NOTHING_SPENT, DrawError, LedgerError
from hushrank.flows.ledger.account import Account, Attempt, ReleaseState
from hushrank.flows.ledger.key import KEY_BYTES, LedgerKey, find_key
from hushrank.flows.ledger.ledger import Ledger
from hushrank.flows.ledger.streams import FREE, NEW_STREAM, check_night, reserve_night
from hushrank.flows.methods.streams import ANSWERS, RELEASED, arrays_of
from hushrank.flows.release.stream import StreamRecord
from hushrank.flows.run.budget import ledger_of
from hushrank.flows.run.confidential_folder import (
    FAILED_FILE,
    bits_of_reduction,
    finish_drawn,
    forget_exact,
    forget_unmarked,
    make_confidential,
    store_unmarked,
)
from hushrank.flows.run.drawn import Drawn, entries_of
from hushrank.flows.run.job import Job, stated_version
from hushrank.flows.run.reader_process import Reducer
from hushrank.flows.run.stream_night import StreamNight, stream_folder, told_as_input
from hushrank.flows.signals import signals_held
from hushrank.flows.statement.mechanism import CountMechanism
from hushrank.pipelines.reduce.reduction_job import NightOfStream, ReduceComparisons, write_bits
from hushrank.pipelines.reduce.stream_nights import (
    count_empty_night,
    count_night,
    forget_night,
)
from hushrank.privacy.accounting import Spend
from hushrank.privacy.bits_used import BitsUsed, Purpose
from hushrank.privacy.keyed_hash import SecretKey
from hushrank.transforms.common.names import Naming
from hushrank.transforms.common.schema import InputError
from hushrank.transforms.storage.cloud_storage import Place
from hushrank.transforms.storage.files import reads_only_text
from hushrank.transforms.storage.write import npz_bytes, write_whole
from hushrank.transforms.streams import released_files
from hushrank.transforms.streams.released_files import draw_night, missing_nights, shown_of
from hushrank.transforms.streams.stream_folder import (
    COUNTING,
    begin,
    delete_counting,
    delete_nights,
    delete_unfinished,
    end,
    settle,
    stream_key,
    stream_naming,
)


def cost_of(job: Job) -> Spend:
    """What drawing the job's noise costs now: of a stream the first night costs, and no other."""
    section = job.config.schedule.stream
    if section is None or job.night is None or section.number_of(job.night) == 0:
        return job.terms.spend
    return FREE


def check_turn(job: Job, ledger: Ledger) -> None:
    """Raise what reserving a night of a stream would raise; nothing is written, a key neither.

    Raises:
        NightOutOfTurn: it is not the turn of the night.
        BudgetRefused, LedgerError: as for `reserve_night`.
    """
    config = job.config
    if job.night is None:
        raise ValueError("the job is no night of a stream")
    key = find_key(config.ledger.path) or LedgerKey(bytes(KEY_BYTES), "")  # then it is the first
    night = StreamNight.of(key, config, job.night)
    spend = job.terms.spend if night.stored is None else night.stored.spend
    check_night(ledger, night.to_pay(spend), job.planned_inputs)


def reserve_stream(job: Job, night: StreamNight, ledger: Ledger) -> None:
    """Reserve the night, and with the first one the stream.

    Raises:
        NightOutOfTurn: it is not the turn of the night.
        LedgerError: the night before has left nothing to go on from; and as for `reserve_night`.
        ConfigError: an earlier version began the stream, and nobody knows how it hashed names.
        BudgetRefused: the ledger does not hold the cost of the stream.
    """
    _require_night_before(ledger.book().account, night)
    lost = missing_nights(night.folder, night.number)
    if lost:
        first = night.section.night(lost[0])
        raise LedgerError(
            f"{night.folder}/released does not hold what was drawn for night {first}, and every"
            f" later night is made of it too. Restore that folder; if it is lost, {NEW_STREAM}."
            f" {NOTHING_SPENT}"
        )
    with told_as_input(), suppress(FileNotFoundError):  # the first night begins the stream
        _naming(job, night)
    spend = job.terms.spend if night.stored is None else night.stored.spend
    config_hash = job.config.job_hash()
    reserve_night(
        ledger, job.release_id, night.to_pay(spend), config_hash=config_hash, inputs=job.inputs
    )


def _require_night_before(account: Account, night: StreamNight) -> None:
    before = night_before(account, night)
    if before is not None and before.drawn_at is not None and before.result is None:
        raise LedgerError(
            f"The mechanism failed on night {before.night} of this stream, which is recorded as"
            f" drawn, so no later night can be shown. To go on, {NEW_STREAM}. {NOTHING_SPENT}"
        )


def night_before(account: Account, night: StreamNight) -> Attempt | None:
    """The attempt of the ledger at the night before; None: it knows none."""
    if night.number < 1:
        return None
    return account.nights_of(night.stream_id).get(night.section.night(night.number - 1))


def reduce_stream(job: Job, night: StreamNight, reducer: Reducer) -> None:
    """Read the rows of a night and keep what is counted; a night without files has no rows.

    Raises:
        ConfigError: the input breaks a rule, or a file of the stream is not the one of its turn.
        ReadingError: anything else went wrong.
    """
    make_confidential(job.config.confidential, job.release_id)
    delete_unfinished(night.folder)
    if night.stored is None:
        night.keep_law(job.drawn_by)
    with told_as_input():
        if night.drawn() is not None:  # a run died after it had stored the noise
            return
        forget_exact_of(job)
        of_stream = _of_stream(job, night)
        reduction = job.reduction(SecretKey.draw(job.bits()), job.work)
        if not isinstance(reduction, ReduceComparisons):
            raise ValueError("a stream is one of comparisons")
        if not job.files:
            count_empty_night(of_stream, reduction.shape, night.stream)
            used = BitsUsed.of(Purpose.ROW_CHOICE, [of_stream.key.source])
            write_bits(str(job.work), used)
            return
        config = job.config
        whole = replace(
            reduction,
            memory_limit=config.memory_limit,
            engine=config.runner.engine(),
            stream=of_stream,
        )
        count_night(whole, night.stream, reducer.run)


def forget_exact_of(job: Job) -> None:
    """Delete what an earlier attempt has counted: its files may have been others."""
    forget_exact(job.work)
    make_confidential(job.config.confidential, job.release_id)


def _of_stream(job: Job, night: StreamNight) -> NightOfStream:
    before = night_before(ledger_of(job.config).book().account, night)
    if night.number == 0:
        key = begin(night.folder, night.stream_id, job.bits())
    else:
        try:
            key = stream_key(night.folder, night.stream_id)
        except FileNotFoundError:
            raise LedgerError(
                f"{night.folder}/key.json is missing, without which nobody knows who counted"
                f" before. Restore the folder, as it was after night {before and before.night}; if"
                f" it is lost, {NEW_STREAM}. {NOTHING_SPENT}"
            ) from None
    return NightOfStream(
        stream=night.stream_id,
        folder=night.folder,
        key=key,
        terms=night.stream.terms,
        night=night.number,
        attempt=uuid.uuid4().hex,
        before="" if before is None else before.people,
        naming=_naming(job, night),
    )


def _naming(job: Job, night: StreamNight) -> Naming:
    """How names of the stream are hashed; CSV and JSON Lines name people by text on all nights."""
    texts = reads_only_text(job.config.input.paths, job.config.input.format, job.files)
    return stream_naming(night.folder, night.stream_id, Naming.TEXTS if texts else None)


def draw_stream(job: Job, night: StreamNight, ledger: Ledger) -> None:
    """Draw the noise of a night, once; what no later night needs is then deleted.

    Raises:
        ConfigError: a file of the stream is not the one of its turn; nothing was drawn.
        PredictableBits: the counts were not made with safe bits; nothing was drawn.
        DrawError: the noise has other bits than a release must have.
    """
    with told_as_input():
        found = night.drawn() or _drawn_now(job, night, ledger)
        night.remember(found)
    if not (found.bits.safe and found.bits.covers(Purpose.NOISE)):
        raise DrawError(
            "draw: the noise of this night was not drawn from bits of the operating system, and a"
            f" night is drawn once. Nothing is released. To go on, {NEW_STREAM}."
        )
    content = _content(job.config, night, found)
    settle(night.folder, night.number)
    forget_unmarked(job.work)  # no mark names one: the night is reserved
    with signals_held():
        digest = store_unmarked(job.work, content)
        ledger.mark_drawn(job.release_id, digest, found.people)
        finish_drawn(job.work, digest)
        tidy_stream(job)


def _drawn_now(job: Job, night: StreamNight, ledger: Ledger) -> released_files.Drawn:
    counted_with = bits_of_reduction(job.work)
    place = (night.folder, night.stream_id, night.number)
    try:
        return draw_night(*place, night.stream, job.bits(), counted_with)
    except InputError:  # a file of the stream is not the one of its turn: nothing was drawn
        raise
    except ValueError:  # of the mechanism: that it fails may tell something about the rows
        with signals_held():
            ledger.mark_drawn(job.release_id)
            write_whole(str(job.work / FAILED_FILE), b"")
        raise


def _content(config: SurveyConfig, night: StreamNight, found: released_files.Drawn) -> bytes:
    """What is stored of a night that was drawn: all that follows is computed from it."""
    place = (night.folder, night.stream_id, night.number)
    shown = shown_of(*place, night.stream, found, pairs=night.counts_pairs)
    drawn = Drawn(
        arrays=arrays_of(found, shown, night.number, night.stream),
        drawn_by=night.drawn_by,
        bits=found.bits,
        created=datetime.now(UTC),
        code_version=stated_version(),
        software=software(),
        audit=audited_pairs(config),
    )
    return npz_bytes(**entries_of(drawn))


def restore_drawn(job: Job, night: StreamNight, attempt: Attempt) -> None:
    """Make the noisy result again from what the stream has stored: its noise is not lost.

    Raises:
        LedgerError: the stream's folder has not stored it either.
        ConfigError: what it has stored is not of its turn.
    """
    with told_as_input():
        found = None if night.stored is None else night.drawn()
        if found is None or found.people != attempt.people:
            raise LedgerError(
                f"Night {night.night}: its noise was drawn and is in {night.folder}/released, which"
                " does not hold it now. A night of a stream is drawn once, so it is not drawn"
                " again: restore that folder, as it was after the night; if it is lost,"
                f" {NEW_STREAM}. {NOTHING_SPENT}"
            )
        content = _content(job.config, night, found)
    make_confidential(job.config.confidential, job.release_id)
    with signals_held():
        finish_drawn(job.work, store_unmarked(job.work, content))


def tidy_stream(job: Job) -> None:
    """Delete what no later night needs, once the ledger holds the night's mark."""
    forget_exact(job.work)
    night = job.of_stream
    if night is None or night.stored is None:
        return
    with told_as_input():
        found = night.drawn()
        if found is not None:
            forget_night(night.folder, night.stream_id, night.number, night.stream, found)


def tidy_ended(area: Place, account: Account) -> None:
    """Delete what a job that outlived its run has written for a stream that is over."""
    for attempt in account.attempts:
        if attempt.stream is not None and has_ended(account, attempt):
            end(stream_folder(area, attempt.release_id))


def has_ended(account: Account, stream: Attempt) -> bool:
    """Whether the last night of a stream was drawn."""
    drawn = account.nights_drawn.get(stream.release_id, 0)
    return stream.stream is not None and drawn >= stream.stream.nights


def stream_record(job: Job, drawn: Drawn) -> StreamRecord | None:
    """What the release says of its stream; None: it is no night of one."""
    night, mechanism = job.of_stream, drawn.mechanism
    if night is None or not isinstance(mechanism, CountMechanism) or mechanism.stream is None:
        return None
    return StreamRecord.of(
        night.stream_id,
        night.section.first,
        night.number,
        mechanism.stream,
        drawn.arrays[RELEASED],
        drawn.arrays[ANSWERS],
    )


def forget_counted(config: SurveyConfig, account: Account, release_id: str) -> None:
    """Delete what was counted for a night, or the first night of a stream, that is given back.

    Args:
        config: of the job.
        account: of the population.
        release_id: of the night or of the stream; nothing is done for other releases.
    """
    attempt = account.attempt(release_id)
    if attempt is None or not (attempt.of or attempt.stream):
        return
    stream = account.attempt(attempt.of) if attempt.of else attempt
    if stream is None or stream.stream is None or stream.state is ReleaseState.ENDED:
        return
    night: date = attempt.night or stream.stream.first
    number = (night - stream.stream.first).days
    forget_counts(stream_folder(config.confidential, stream.release_id), number)


def forget_counts(folder: str, number: int) -> None:
    """Delete what was counted for a night whose run ends before the ledger's mark.

    Where its noise is stored already, the counts that later nights need stay: a later run takes
    the night up. Where it is not, the ledger has no mark either.

    Args:
        folder: of the stream.
        number: of the night, from 0.
    """
    delete_nights(folder, COUNTING, number)
    delete_unfinished(folder)
    if not released_files.is_stored(folder, number):
        delete_counting(folder, number)


def refuse_stream_id(attempt: Attempt | None) -> None:
    """Raise LedgerError where an attempt is a whole stream, which has nothing to publish."""
    if attempt is not None and attempt.stream is not None:
        raise LedgerError(
            f"{attempt.release_id} is a stream of nights, not a release. Name one of its nights"
            " (hushrank ledger show). Nothing was spent."
        )
