"""The stages of a run, what carries them out, and what a run comes to.

The steps are named here once, in order. `flows.run.run` goes through them; `validate` and
`run --plan` explain them; whoever performs one shows it at the terminal, tells destinations of it,
or makes a task of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.ledger.budget import Balance
from hushrank.flows.ledger.ledger import Ledger
from hushrank.flows.ledger.streams import FREE
from hushrank.flows.release.archive import Contents
from hushrank.flows.release.release import Release
from hushrank.flows.release.row_source import row_source_of
from hushrank.flows.run.confidential_folder import DRAWN_FILE
from hushrank.flows.run.context import Job, Read
from hushrank.flows.run.drawn import Drawn
from hushrank.pipelines.reduce.reduction_job import EXACT_FILE
from hushrank.privacy.accounting import Spend
from hushrank.privacy.units import Bounding, Unit
from hushrank.transforms.storage.cloud_storage import Place

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
    return f"count {reads}, {_bound_text(privacy.max_contributions, job.config.input.kind)}"


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
        spent: what the ledger was charged, `FREE` where a stream had paid; None where the release
            had been drawn before.
        balance: of the population's budget, afterwards.
        alerts: fractions of the budget that are used and of which nobody was told before.
        again: whether it was paid for before, and the noise of then was not kept.
        late: that the files of its night have changed since it was drawn; empty: they have not.
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
