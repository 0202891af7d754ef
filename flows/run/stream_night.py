"""The night of a stream that a job is: its names, its turn, its steps, and the law of all nights.

    reserve  the night in the ledger, and with the first night the stream, at its whole cost
    reduce   who counts tonight, and the exact counts: in the stream's folder, until no night needs
             them
    draw     the night's noise: stored once in the stream's folder (`draw_night`), then marked in
             the ledger, then used

What is stored first is the night's noise, whatever happens after it: a run that dies between that
and the ledger's mark is taken up, and no row is read again. The ledger's mark holds the digest of
the file of who counted. The next night must find that file, so a folder that was put back from an
earlier time is refused.

The mechanism is calibrated once, for the first night. It is stored in the stream's folder, and
every later night is drawn by what is stored, whatever version of hushrank draws it. If that file
is lost, the law is calibrated again; where it is not the one of the nights before, these refuse it
(`transforms.streams.released_files`).
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import date
from functools import cached_property, partial

from hushrank.flows.config.schedule import StreamConfig
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.errors import NOTHING_SPENT, DrawError, EstimateError, LedgerError
from hushrank.flows.ledger.account import UNKNOWN, Account, Attempt, ReleaseState
from hushrank.flows.ledger.entries import StreamSpan
from hushrank.flows.ledger.keys import KEY_BYTES, LedgerKey, find_key
from hushrank.flows.ledger.keys import Purpose as Named
from hushrank.flows.ledger.ledger import Ledger
from hushrank.flows.ledger.streams import NEW_STREAM, NightToPay, check_night, reserve_night
from hushrank.flows.methods.base import Calibrated, ReductionJob
from hushrank.flows.methods.counts.common import ANSWERS, RELEASED, arrays_of
from hushrank.flows.methods.reductions import CountedMethod
from hushrank.flows.release.stream import StreamRecord
from hushrank.flows.run.confidential_folder import (
    Exact,
    forget_exact,
    forget_unmarked,
    make_confidential,
)
from hushrank.flows.run.context import Job, Noisy, Read
from hushrank.flows.run.drawn import Drawn, law_of, text_of_law
from hushrank.flows.run.input_files import told_as_input
from hushrank.flows.run.stages import spent_if_it_fails
from hushrank.flows.statement.mechanism import CountMechanism
from hushrank.pipelines.reduce.reduction_job import (
    NightOfStream,
    ReduceComparisons,
    Statistic,
    write_bits,
)
from hushrank.pipelines.reduce.stream_nights import (
    count_empty_night,
    count_night,
    forget_night,
)
from hushrank.privacy.accounting import Spend
from hushrank.privacy.randomness import BitsUsed, Purpose
from hushrank.privacy.stream import Stream
from hushrank.transforms.common.catalogue import Naming
from hushrank.transforms.common.schema import InputError
from hushrank.transforms.storage.files import reads_only_text
from hushrank.transforms.storage.places import Place, read_whole, write_once
from hushrank.transforms.streams import released_files
from hushrank.transforms.streams.released_files import (
    draw_night,
    drawn_night,
    missing_nights,
    shown_of,
)
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

LAW_FILE = "law.json"
STREAM_FOLDER = "stream-"


@dataclass
class StreamNight:
    """One night of a stream; see `Occasion` for its steps.

    Attributes:
        stream_id: names the stream and all of its terms.
        section: the terms.
        night: the date.
        area: the confidential area.
    """

    stream_id: str
    section: StreamConfig
    night: date
    area: Place
    by_content: bool = field(default=False, init=False)
    _known: released_files.Drawn | None = field(default=None, init=False, repr=False)

    @classmethod
    def of(cls, key: LedgerKey, config: SurveyConfig, night: date, ledger: Ledger) -> StreamNight:
        """Return the stream's night of a job; the stream's terms are part of the job's hash.

        Raises:
            LedgerError: the ledger cannot be used.
            ValueError: the job is no stream.
        """
        section = config.schedule.stream
        if section is None:
            raise ValueError("the job is no stream")
        name, *older = (key.tag(Named.STREAM, each) for each in config.job_hashes)
        for each in older:  # a stream that an earlier version began keeps its name
            account = ledger.known().account
            if account.state(name) in UNKNOWN and account.state(each) not in UNKNOWN:
                name = each
        return cls(name, section, night, config.confidential)

    @property
    def number(self) -> int:
        """Number of the night, from 0."""
        return self.section.number_of(self.night)

    @property
    def folder(self) -> str:
        """The stream's own, in the confidential area."""
        return stream_folder(self.area, self.stream_id)

    @property
    def span(self) -> StreamSpan:
        """All nights, as the ledger has them."""
        return StreamSpan(nights=self.section.nights, first=self.section.first)

    def to_pay(self, spend: Spend) -> NightToPay:
        """Reservation that the ledger is asked for."""
        return NightToPay(stream_id=self.stream_id, span=self.span, night=self.night, spend=spend)

    @cached_property
    def stored(self) -> Calibrated | None:
        """Law that draws every night; None: the stream has not begun.

        Raises:
            LedgerError: the law is damaged, or another stream's.
            EstimateError: this version cannot read it.
        """
        path = f"{self.folder}/{LAW_FILE}"
        try:
            text, _, digest = read_whole(path).decode(errors="replace").partition("\n")
        except FileNotFoundError:
            return None
        except (IsADirectoryError, NotADirectoryError):
            text = digest = ""
        if digest == self._digest_of(text):
            return law_of(text)
        if text and not digest:  # a file of an earlier version, which wrote the law alone
            with suppress(EstimateError):
                return law_of(text)
        raise LedgerError(
            f"{path} is damaged, or is not what this stream has written: it holds the noise that"
            " all nights of the stream share. Restore it, or delete it: then the noise is"
            " calibrated again, and used only if it is that of the nights so far. What was paid"
            f" for the stream stays paid. {NOTHING_SPENT}"
        )

    def _digest_of(self, law: str) -> str:
        """Digest that stands under the law of this stream in its file."""
        return hashlib.sha256(f"{self.stream_id}\n{law}".encode()).hexdigest()

    @property
    def drawn_by(self) -> Calibrated:
        """Law that draws every night.

        Raises:
            LedgerError: the law is lost.
        """
        if self.stored is None:
            raise LedgerError(
                f"{self.folder}/{LAW_FILE} is missing: it holds the noise that all nights of the"
                " stream share. Restore the folder whole; nothing was drawn."
            )
        return self.stored

    @property
    def stream(self) -> Stream:
        """Terms, encoder and law."""
        mechanism = self.drawn_by.mechanism
        if not isinstance(mechanism, CountMechanism) or mechanism.stream is None:
            raise ValueError("the law of a stream is one of counts")
        return mechanism.stream

    @property
    def statistic(self) -> Statistic:
        """Statistic of a night, or of each group."""
        method = self.drawn_by.method
        if not isinstance(method, CountedMethod):
            raise ValueError("a stream is one of counts")
        return method.statistic_of_nights

    @property
    def groups_overlap(self) -> bool:
        """Whether an answer may be in several groups, so that the whole has cells of its own."""
        mechanism = self.drawn_by.mechanism
        groups = mechanism.groups if isinstance(mechanism, CountMechanism) else None
        return groups is not None and groups.most is not None

    def drawn(self) -> released_files.Drawn | None:
        """Draw of the night, which is read once; None: nothing is drawn yet.

        Raises:
            InputError: the file was drawn for something else.
        """
        if self._known is None:
            self._known = drawn_night(self.folder, self.stream_id, self.number, self.stream)
        return self._known

    def keep_law(self, calibrated: Calibrated) -> None:
        """Store what draws every night, unless that was done before."""
        text = text_of_law(calibrated)
        content = f"{text}\n{self._digest_of(text)}".encode()
        write_once(f"{self.folder}/{LAW_FILE}", content)
        self.__dict__.pop("stored", None)

    def release_id(self, job: Job) -> str:
        """Return the id from stream and night, whatever its files are: a night is drawn once."""
        named = {"stream": self.stream_id, "night": str(self.night)}
        return job.key.tag(Named.RELEASE, json.dumps(named, sort_keys=True))

    def check(self, job: Job) -> None:
        """Raise what `reserve` would raise of turn and cost; nothing is written.

        Raises:
            NightOutOfTurn: another night is next.
            BudgetRefused, LedgerError: as for `reserve_night`.
        """
        check_night(job.ledger, self._wanted(job), job.planned_inputs)

    def _wanted(self, job: Job) -> NightToPay:
        return self.to_pay(job.terms.spend if self.stored is None else self.stored.spend)

    def reserve(self, job: Job, *, noise_lost: bool) -> Spend:
        """The night, and with the first one the stream; see `Occasion.reserve`.

        Raises:
            NightOutOfTurn: another night is next.
            LedgerError: the night before has left nothing to go on from; and as for
                `reserve_night`.
            ConfigError: an earlier version began the stream, and nobody knows how it hashed names.
            BudgetRefused: the ledger does not hold the cost of the stream.
        """
        before = self._before(job.ledger.known().account)
        if before is not None and before.drawn_at is not None and before.result is None:
            raise LedgerError(
                f"The mechanism failed on night {before.night} of this stream, which is recorded as"
                f" drawn, so no later night can be shown. To continue, {NEW_STREAM}."
                f" {NOTHING_SPENT}"
            )
        lost = missing_nights(self.folder, self.number)
        if lost:
            first = self.section.night(lost[0])
            raise LedgerError(
                f"{self.folder}/released does not hold what was drawn for night {first}, and every"
                f" later night is made of it too. Restore that folder; if it is lost, {NEW_STREAM}."
                f" {NOTHING_SPENT}"
            )
        with told_as_input(), suppress(FileNotFoundError):  # the first night begins the stream
            self._naming(job)
        config_hash, wanted = job.config.job_hashes[0], self._wanted(job)
        return reserve_night(
            job.ledger, job.release_id, wanted, config_hash=config_hash, inputs=job.inputs
        ).spend

    def _before(self, account: Account) -> Attempt | None:
        """The attempt of the ledger at the night before; None: it knows none."""
        if self.number < 1:
            return None
        return account.nights_of(self.stream_id).get(self.section.night(self.number - 1))

    def restore(self, job: Job, attempt: Attempt) -> Noisy:
        """Restore the noise from what the stream has stored; see `Occasion.restore`.

        Raises:
            LedgerError: the stream's folder has not stored it either.
            ConfigError: what it has stored is not of its turn.
        """
        with told_as_input():
            found = None if self.stored is None else self.drawn()
            if found is None or found.people != attempt.people:
                raise LedgerError(
                    f"Night {self.night}: its noise was drawn and is in {self.folder}/released,"
                    " which does not hold it now. A night of a stream is drawn once, so it is not"
                    " drawn again: restore that folder, as it was after the night; if it is lost,"
                    f" {NEW_STREAM}. {NOTHING_SPENT}"
                )
            return self._noisy(found)

    def reduce(self, job: Job, asked: ReductionJob, read: Read) -> None:
        """Into the stream's folder; a night without files has no rows; see `Occasion.reduce`.

        Raises:
            ConfigError: the input breaks a rule, or a file of the stream is not the one of its
                turn.
        """
        delete_unfinished(self.folder)
        if self.stored is None:
            self.keep_law(job.drawn_by)
        with told_as_input():
            if self.drawn() is not None:  # a run died after it had stored the noise
                return
            forget_exact(job.work)  # an earlier attempt may have counted other files
            make_confidential(job.config.confidential, job.release_id)
            of_stream = self._of_stream(job)
            if not isinstance(asked, ReduceComparisons):
                raise ValueError("a stream is one of comparisons")
            if job.files:
                count_night(replace(asked, stream=of_stream), self.stream, read)
                return
            count_empty_night(of_stream, asked.shape, self.stream)
            used = BitsUsed.of(Purpose.ROW_CHOICE, [of_stream.key.source])
            write_bits(str(job.work), used)

    def _of_stream(self, job: Job) -> NightOfStream:
        before = self._before(job.ledger.known().account)
        if self.number == 0:
            key = begin(self.folder, self.stream_id, job.bits())
        else:
            try:
                key = stream_key(self.folder, self.stream_id)
            except FileNotFoundError:
                raise LedgerError(
                    f"{self.folder}/key.json is missing, without which nobody knows who counted"
                    f" before. Restore the folder, as it was after night {before and before.night};"
                    f" if it is lost, {NEW_STREAM}. {NOTHING_SPENT}"
                ) from None
        return NightOfStream(
            stream=self.stream_id,
            folder=self.folder,
            key=key,
            terms=self.stream.terms,
            night=self.number,
            attempt=uuid.uuid4().hex,
            before="" if before is None else before.people,
            naming=self._naming(job),
        )

    def _naming(self, job: Job) -> Naming:
        """Return how names are hashed; CSV and JSON Lines name people by text on all nights."""
        texts = reads_only_text(job.config.input.paths, job.config.input.format, job.files)
        return stream_naming(self.folder, self.stream_id, Naming.TEXTS if texts else None)

    def draw(self, job: Job, exact: Exact) -> Noisy:
        """Stored at once in the stream's folder; see `Occasion.draw`.

        Raises:
            ConfigError: a file of the stream is not the one of its turn; nothing was drawn.
            PredictableBits: the counts were not made with safe bits; nothing was drawn.
            DrawError: the noise has other bits than a release must have.
        """
        with told_as_input():
            found = self._known = self.drawn() or self._drawn_now(job, exact)
        if not (found.bits.safe and found.bits.covers(Purpose.NOISE)):
            raise DrawError(
                "draw: the noise of this night was not drawn from bits of the operating system, and"
                f" a night is drawn once. Nothing is released. To continue, {NEW_STREAM}."
            )
        noisy = self._noisy(found)
        settle(self.folder, self.number)
        forget_unmarked(job.work)  # no mark names one: the night is reserved
        return noisy

    def _drawn_now(self, job: Job, exact: Exact) -> released_files.Drawn:
        counted_with, place = exact.bits(), (self.folder, self.stream_id, self.number)
        with spent_if_it_fails(job, ValueError, (InputError,)):
            return draw_night(*place, self.stream, job.bits(), counted_with)

    def _noisy(self, found: released_files.Drawn) -> Noisy:
        """Return the released arrays of a drawn night: all of them are computed from its draw."""
        place, statistic = (self.folder, self.stream_id, self.number), self.statistic
        pairs = statistic is Statistic.PAIR_COUNTS
        overlap = self.groups_overlap
        shown = shown_of(*place, self.stream, found, pairs=pairs, overlap=overlap)
        return Noisy(
            arrays=arrays_of(found, shown, self.number, self.stream, statistic.cells_of_a_row),
            drawn_by=self.drawn_by,
            bits=found.bits,
            people=found.people,
        )

    def record(self, drawn: Drawn) -> StreamRecord | None:
        """Terms, number and answers; see `Occasion.record`."""
        mechanism = drawn.mechanism
        if not isinstance(mechanism, CountMechanism) or mechanism.stream is None:
            return None
        return StreamRecord.of(
            self.stream_id,
            self.section.first,
            self.number,
            mechanism.stream,
            drawn.arrays[RELEASED],
            drawn.arrays[ANSWERS],
        )

    def counted(self, job: Job) -> dict[str, Callable[[], None]]:
        """Name the folders of release and stream; see `Occasion.counted`."""
        return {
            str(job.work): partial(forget_exact, job.work),
            self.folder: partial(forget_counts, self.folder, self.number),
        }

    def sweep(self, job: Job) -> None:
        """Delete what a job that outlived its run has written for a stream that is over."""
        account = job.ledger.known().account
        for attempt in account.attempts:
            if attempt.stream is not None and has_ended(account, attempt):
                end(stream_folder(self.area, attempt.release_id))

    def tidy(self, job: Job) -> None:
        """The exact arrays, and what no later night needs; see `Occasion.tidy`."""
        forget_exact(job.work)
        if self.stored is None:
            return
        with told_as_input():
            found = self.drawn()
            if found is not None:
                forget_night(self.folder, self.stream_id, self.number, self.stream, found)


def check_turn(job: Job) -> None:
    """Raise what reserving a night of a stream would raise; nothing is written, a key neither.

    Raises:
        NightOutOfTurn, BudgetRefused, LedgerError: as for `StreamNight.check`.
    """
    if job.night is None:
        raise ValueError("the job is no night of a stream")
    key = find_key(job.config.ledger.path) or LedgerKey(bytes(KEY_BYTES), "")  # it is the first
    StreamNight.of(key, job.config, job.night, job.ledger).check(job)


def stream_folder(area: Place, stream_id: str) -> str:
    """Return the folder where a stream keeps what its next night needs."""
    return str(area / f"{STREAM_FOLDER}{stream_id}")


def has_ended(account: Account, stream: Attempt) -> bool:
    """Whether the last night of a stream was drawn."""
    drawn = account.nights_drawn.get(stream.release_id, 0)
    return stream.stream is not None and drawn >= stream.stream.nights


def forget_counted(config: SurveyConfig, account: Account, release_id: str) -> None:
    """Delete what was counted for a night, or the first night of a stream, that is given back.

    Args:
        config: configuration of the job.
        account: account of the population.
        release_id: id of the night or of the stream; nothing is done for other releases.
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
        folder: folder of the stream.
        number: number of the night, from 0.
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
