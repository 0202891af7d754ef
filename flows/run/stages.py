"""The stages of a run, what carries them out, and what a run comes to.

The steps are named here once, in order. `flows.run.run` goes through them; `validate` and
`run --plan` explain them; whoever performs one shows it at the terminal, tells destinations of it,
or makes a task of it.

Occasion of a release: a release by itself, or a night of a stream. The steps of a run ask it.

`flows.run.run` does what is the same for both: it stores what was drawn, marks it in the ledger
and gives it its name. Here is the release by itself; nights are in `flows.run.stream_night`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from hushrank.flows.config.schedule import StreamConfig
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.errors import DrawError, PredictableBits
from hushrank.flows.ledger.account import Attempt
from hushrank.flows.ledger.entries import Balance
from hushrank.flows.ledger.keys import Purpose as Named
from hushrank.flows.ledger.ledger import Ledger
from hushrank.flows.ledger.streams import FREE
from hushrank.flows.methods.base import Arrays, ReductionJob
from hushrank.flows.release.archive import Contents
from hushrank.flows.release.identity import described, ids_of_old, known_or_new, meant_by
from hushrank.flows.release.provenance import row_source_of
from hushrank.flows.release.release import Release
from hushrank.flows.run.confidential_folder import (
    DRAWN_FILE,
    FAILED_FILE,
    Exact,
    delete_folder,
    forget_exact,
    forget_names,
    names_folder,
)
from hushrank.flows.run.context import Job, Noisy, Read
from hushrank.flows.run.drawn import Drawn, noisy_votes, people_asked, seen_by
from hushrank.flows.run.input_files import told_as_input
from hushrank.flows.terminal import signals_held
from hushrank.pipelines.reduce.reduction_job import EXACT_FILE
from hushrank.privacy.accounting import Spend
from hushrank.privacy.randomness import BitsUsed, Purpose
from hushrank.privacy.units import Bounding, Unit
from hushrank.transforms.storage.places import Place, write_whole

if TYPE_CHECKING:  # loaded for jobs that count beside the ranking alone
    from hushrank.estimation.common.private_counts import Numbers

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Step:
    """A part of a run.

    Attributes:
        name: name of the step as people read it.
        reads: what the step reads, in short.
        writes: what the step writes, in short.
        says: describes the step for a job, from the configuration and the names of the files only.
        retries: number of repetitions after a failure that is nobody's mistake.
        crosses: whether what it writes may be shown where what it reads may not.
    """

    name: str
    reads: str
    writes: str
    says: Callable[[Job], str]
    retries: int = 0
    crosses: bool = False


def _reserves(job: Job) -> str:
    if job.calibrated is None:
        return "nothing: its noise was drawn before"
    stream, night = job.config.schedule.stream, job.night
    if stream is not None and night is not None:
        nights, number = stream.nights, stream.number_of(night) + 1
        if number > 1:
            return f"nothing: night {number} of {nights}, paid for with the first one"
        return f"{_cost(job)} of the budget of {job.config.name}, for {nights} nights"
    return f"{_cost(job)} of the budget of {job.config.name}"


def _reads(job: Job) -> str:
    privacy, n_files = job.config.privacy, len(job.files)
    reads = f"{n_files} file{'' if n_files == 1 else 's'}" if job.files else "no file"
    if (source := row_source_of(job.config, job.night)) is not None:
        reads = f"rows of {source.text}"
    if job.config.schedule.stream is None and not job.files:
        reads += " yet"
    if privacy.max_contributions is None:
        return f"count {reads}"
    if privacy.bounding is Bounding.WEIGHTS:
        most = privacy.max_contributions
        return f"count {reads}, all answers of a person, each less where there are more than {most}"
    bound = _bound_text(privacy.max_contributions, job.config.input.kind)
    stream = job.config.schedule.stream
    return f"count {reads}, {bound}{'' if stream is None else _bound_of_stream(stream)}"


def _bound_of_stream(stream: StreamConfig) -> str:
    """Say what one person may contribute on all nights, where their answers are counted."""
    metered = stream.participation
    if metered is None:
        return ""
    if metered.squares is not None:
        return f" a night, n of which take n² + n from {metered.squares} for the whole stream"
    text = f" a night and {metered.rows} in the whole stream"
    if metered.pair_gap is not None:
        text += f", one about the same two items in {metered.pair_gap} nights"
    return text


def _bound_text(most: int, kind: str) -> str:
    """Say what one person may contribute."""
    what = "ranking" if kind == "rankings" else "answer"
    return f"one {what} per person" if most == 1 else f"at most {most} {what}s per person"


def _cost(job: Job) -> str:
    if not job.safe:
        return "nothing (an unsafe release)"
    privacy = job.config.privacy
    if privacy.unit is Unit.LOCAL:
        return f"epsilon {job.terms.spend.epsilon:g}"
    if privacy.rho is not None:
        return f"rho {privacy.rho:g}"
    delta = f", delta {privacy.delta:g}" if privacy.delta else ""
    return f"epsilon {privacy.epsilon:g}{delta}"


def _noise(job: Job) -> str:
    privacy = job.config.privacy
    if not privacy.private:
        return "no noise: nobody is protected"
    noise, chosen = job.terms.noise, job.drawn_by.chosen
    if chosen.reason:
        noise = f"method {chosen.method.facts.name}, because {chosen.reason}; {noise}"
    if privacy.unit is Unit.LOCAL:
        return noise
    whom = "one person's answers" if privacy.unit is Unit.USER else "one answer"
    return f"{noise} (protects {whom} at {_cost(job)}, {privacy.adjacency})"


RESERVE = Step("reserve", "ledger", "ledger", _reserves)
REDUCE = Step("reduce", "input", EXACT_FILE, _reads, retries=2)
DRAW = Step(  # never repeated: a second draw would be a second release
    "draw", EXACT_FILE, f"ledger, {DRAWN_FILE}", _noise, crosses=True
)
ESTIMATE = Step(
    "estimate",
    DRAWN_FILE,
    "publish",
    lambda job: "ranking and intervals, from what was drawn alone",
    retries=2,
)
PUBLISH = Step("publish", "estimate", "output", lambda job: str(job.config.output), retries=2)
COMMIT = Step("commit", "ledger", "ledger", lambda job: "the ledger records the release", retries=2)
STEPS = (RESERVE, REDUCE, DRAW, ESTIMATE, PUBLISH, COMMIT)


class Perform(Protocol):
    """Carries out a step."""

    def __call__(self, step: Step, action: Callable[[], T]) -> T:
        """Return what `action` returns."""
        ...


def directly(step: Step, action: Callable[[], T]) -> T:
    """Just do it, in this process, without retries."""
    return action()


@dataclass(frozen=True, slots=True)
class Memory:
    """Record, kept beside a ledger, of the position that the ledger had reached.

    Attributes:
        require: raises LedgerError if the ledger lacks an earlier spend on the people whose input
            these names say, in plain words.
        keep: records how far the ledger is now; raises OSError.
    """

    require: Callable[[SurveyConfig, Ledger, tuple[str, ...]], None]
    keep: Callable[[SurveyConfig, Ledger, tuple[str, ...]], None]


# Makes further files of a release from what it is made of and the files so far.
Attachment = Callable[[Job, Drawn, Release, Balance, Contents], Contents]

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """Functions of other rooms that a run calls; `flows.assembly` fills them in.

    Attributes:
        read: runs a reduction in the child process that alone holds rows.
        memory: record that a ledger is compared with before it is charged.
        attachments: make the files of a release beside the ranking, in order: each sees those
            before its own.
        advise: yields reasons against a run, before anything is reserved for it.
        tell: shows that to a person.
        perform: carries out each step.
    """

    read: Read
    memory: Memory
    attachments: tuple[Attachment, ...]
    advise: Callable[[Job], Iterable[str]]
    tell: Tell
    perform: Perform


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of a run.

    Attributes:
        release: the release that is published now.
        folder: folder of the release.
        spent: cost that the ledger was charged, `FREE` where a stream had paid; None where the
            release had been drawn before.
        balance: budget of the population, afterwards.
        alerts: fractions of the budget that are used and of which nobody was told before.
        again: whether it was paid for before, and the noise of then was not kept.
        late: sentence that the files of its night have changed since it was drawn; empty: they have
            not.
    """

    release: Release
    folder: Place
    spent: Spend | None
    balance: Balance
    alerts: tuple[float, ...] = ()
    again: bool = False
    late: str = ""

    @property
    def charged(self) -> bool:
        """Whether this run cost budget; nights of a stream after the first cost none."""
        return self.spent not in (None, FREE)


def mark(job: Job, digest: str | None = None, noisy: Noisy | None = None) -> None:
    """Record that the job's noise was drawn.

    Where a look has stopped the job, only the look was drawn, and only that is spent.

    Args:
        job: the job that drew the noise.
        digest: digest of the file that holds the noise.
        noisy: the noisy result; None, without a digest: the mechanism failed.
    """
    look, stopped = job.drawn_by.look, noisy is not None and noisy.stopped
    if not job.safe:
        job.ledger.record_unsafe(job.release_id, _why_unsafe(job))
    elif stopped and look is not None and digest is not None:
        job.ledger.mark_stopped(job.release_id, look.spend, digest)
    else:
        job.ledger.mark_drawn(job.release_id, digest, "" if noisy is None else noisy.people)


def _why_unsafe(job: Job) -> str:
    if not job.config.privacy.private:
        return "released without noise (epsilon: inf)"
    if not job.survey.counted:
        return "no lasting ledger counts it"
    return "its random bits came from an injected seed, so its noise can be computed"


@contextmanager
def spent_if_it_fails(
    job: Job, failures: type[Exception] = Exception, otherwise: tuple[type[Exception], ...] = ()
) -> Iterator[None]:
    """Mark the draw as spent if the mechanism fails: that may tell something about the rows.

    `FAILED_FILE` says so to whoever would try again unasked.

    Args:
        job: the job that is drawn in the block.
        failures: errors of the mechanism.
        otherwise: errors that are no failure of it: nothing was drawn.
    """
    try:
        yield
    except otherwise:
        raise
    except failures:
        with signals_held():
            mark(job)
            write_whole(str(job.work / FAILED_FILE), b"")
        raise


class SingleRelease:
    """A release by itself."""

    by_content = True

    def release_id(self, job: Job) -> str:
        """Return the id, from the job and the content of its files; see `Occasion.release_id`."""
        account = job.ledger.known().account if job.safe else None
        with told_as_input():
            inputs = meant_by(job.contents, job.files), meant_by(job.contents, job.tables)
            hashes, items = job.config.job_hashes, job.config.items.of_night()
            text, *earlier = (
                described(each, *inputs, night=job.night, seed=job.seed, items=items)
                for each in hashes
            )
        if account is None:
            return job.key.tag(Named.RELEASE, text)
        older = [job.key.tag(Named.RELEASE, each) for each in earlier]
        for each in hashes:
            older += ids_of_old(job.key, each, job.files, job.tables, job.night)
        return known_or_new(account, job.key, text, older, again=job.again)

    def reserve(self, job: Job, *, noise_lost: bool) -> Spend:
        """Reserve the release's own cost; see `Occasion.reserve`."""
        job.ledger.reserve(
            job.release_id,
            job.terms.spend,
            config_hash=job.config.job_hashes[0],
            night=job.night,
            noise_lost=noise_lost,
            inputs=job.inputs,
        )
        return job.terms.spend

    def restore(self, job: Job, attempt: Attempt) -> None:
        """Return None, because the noise is in one file alone; see `Occasion.restore`."""

    def reduce(self, job: Job, asked: ReductionJob, read: Read) -> None:
        """Into the folder of the release; see `Occasion.reduce`."""
        read(asked)
        with told_as_input():
            job.contents.require_unchanged()
        job.contents.remember()

    def draw(self, job: Job, exact: Exact) -> Noisy:
        """Draw, after the pilot query if there is one; see `Occasion.draw`."""
        found = job.found
        if found is not None and found.too_few:
            return Noisy(arrays={}, drawn_by=job.drawn_by, bits=found.bits)
        arrays, reduced, votes = exact.arrays(), safe_bits(job, exact), None
        if job.drawn_by.look is not None:
            params = job.drawn_by.params
            votes = exact.votes(params.unit, unlisted=params.look_unlisted)
        reduced |= BitsUsed() if found is None else found.bits
        counts = exact.counts(job.drawn_by.counts) if job.drawn_by.counts else {}
        with spent_if_it_fails(job):
            return noise_of(job, arrays, votes, reduced, counts)

    def record(self, drawn: Drawn) -> None:
        """Return None, because the release is no night; see `Occasion.record`."""

    def counted(self, job: Job) -> dict[str, Callable[[], None]]:
        """Name the folder of the release; see `Occasion.counted`."""
        work, names = job.work, names_folder(job.work)
        places: dict[str, Callable[[], None]] = {}
        if job.config.items.discover is not None:
            places[str(names)] = partial(delete_folder, names)
        return {**places, str(work): partial(forget_exact, work)}

    def sweep(self, job: Job) -> None:
        """Do nothing, because there are no other nights; see `Occasion.sweep`."""

    def tidy(self, job: Job) -> None:
        """The exact arrays, and names that are stored with the noise; see `Occasion.tidy`."""
        forget_exact(job.work)
        if job.found is not None and (job.work / DRAWN_FILE).exists():
            forget_names(job.work)


def safe_bits(job: Job, exact: Exact) -> BitsUsed:
    """Return the sources of random bits with which the exact arrays were made.

    Raises:
        PredictableBits: the job is to be safe, and they are not, or those that are to be drawn.
    """
    used = exact.bits()
    if job.safe and not (used.safe and job.bits().safe):
        raise PredictableBits(
            "draw: random bits of this release do not come from the operating system, so its noise"
            " or its choice of rows could be predicted. Nothing was drawn and no budget was spent."
        )
    return used


def noise_of(
    job: Job,
    exact: Arrays,
    votes: NDArray[np.int64] | None,
    reduced: BitsUsed,
    counts: Numbers,
) -> Noisy:
    """Have the mechanism draw, after the pilot query if there is one, and check the bits.

    Args:
        job: the job.
        exact: what the mechanism adds noise to.
        votes: exact votes of the pilot query; None: there is none.
        reduced: bits that the exact arrays were made with.
        counts: exact counts beside the ranking.

    Raises:
        DrawError: the mechanism failed, or its bits are not those of a release that must be safe.
    """
    bits, drawn_by = job.bits(), job.drawn_by
    noisy = noisy_votes(votes, drawn_by.look, bits)
    seen = seen_by(noisy, drawn_by, people_asked(job.config))
    arrays: Arrays = {}
    beside: Numbers = {}
    if seen is None or not seen.stops:
        if drawn_by.counts:
            from hushrank.estimation.common.private_counts import noisy_counts

            beside = noisy_counts(counts, drawn_by.counts, bits)
        arrays = drawn_by.method.draw(exact, drawn_by.mechanism, bits)
    used = reduced | BitsUsed.of(Purpose.NOISE, bits.used)
    drew = used.covers(Purpose.NOISE) or job.config.privacy.unit is Unit.LOCAL
    if job.safe and not (drew and used.safe):
        raise DrawError(
            "draw: the noise was not drawn from bits of the operating system. It is thrown away;"
            " the budget is spent, and nothing is released."
        )
    return Noisy(arrays=arrays, drawn_by=drawn_by, bits=used, votes=noisy, counts=beside)
