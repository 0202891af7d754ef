"""What `--json` prints: one document a command, of public facts only.

Each field is one that the command prints for people, or that is published in `release.json` or
written in the ledger. Numbers that may be infinite are then the text "inf", as in `release.json`.
"""

from __future__ import annotations

import json
from datetime import date, datetime
from typing import Literal

import typer

from hushrank.flows.guarantee.look import LookRecord
from hushrank.flows.guarantee.record import Extended, Record
from hushrank.flows.ledger.budget import Balance
from hushrank.flows.ledger.history import HistoryRow
from hushrank.flows.release.archive import RELEASE, REPORT
from hushrank.flows.release.release import RankedItem, Release
from hushrank.flows.release.scale import Scale
from hushrank.flows.release.wording import verdict
from hushrank.flows.run.job import Job
from hushrank.flows.run.stage_table import stage_rows
from hushrank.flows.run.stages import STEPS, Outcome
from hushrank.privacy.accounting import Spend
from hushrank.privacy.units import Adjacency, Unit


class Document(Record):
    """What one command prints.

    Attributes:
        command: which one.
    """


class Cost(Record):
    """What a release costs: epsilon and delta, or rho of zCDP.

    Attributes:
        epsilon, delta: 0 where `rho` says it.
        rho: null where epsilon and delta say it.
    """

    epsilon: Extended
    delta: float
    rho: Extended | None

    @classmethod
    def of(cls, spend: Spend) -> Cost:
        """The same as the ledger counts it."""
        return cls(epsilon=spend.epsilon, delta=spend.delta, rho=spend.rho)


class Budget(Record):
    """What a population may lose in its current period, and what is gone of it.

    Attributes:
        population: the name under which releases are added up.
        epsilon, delta: all that the period allows.
        spent: epsilon of all releases that count, together, at `delta`.
        left: epsilon that one more release with Laplace noise may cost at most.
        renews_on: the first day of the next period, UTC; null: never.
        releases: how many attempts at a release count.
        reserved: ids of releases that hold budget and have drawn no noise.
        unpublished: ids of releases that are paid for and not published.
        unsafe: how many releases bypassed the guarantee, ever.
        alert: the largest fraction of `ledger.alerts` that is reached; null: none.
        shared_with: other populations that read the same input.
    """

    population: str
    epsilon: float
    delta: float
    spent: float
    left: float
    renews_on: date | None
    releases: int
    reserved: tuple[str, ...]
    unpublished: tuple[str, ...]
    unsafe: int
    alert: float | None
    shared_with: tuple[str, ...]

    @classmethod
    def of(cls, balance: Balance, published: str = "") -> Budget:
        """The balance of a ledger; `published` is a release that it may list as unpublished yet."""
        return cls(
            population=balance.population,
            epsilon=balance.total,
            delta=balance.delta,
            spent=balance.spent_epsilon,
            left=balance.remaining_epsilon,
            renews_on=balance.renews_on,
            releases=balance.releases,
            reserved=balance.undrawn,
            unpublished=tuple(each for each in balance.unpublished if each != published),
            unsafe=balance.unsafe,
            alert=balance.alert,
            shared_with=tuple(each.population for each in balance.shared),
        )


class ReleaseSummary(Record):
    """A release in short; `release.json` has all of it.

    Attributes:
        release_id: its name in the ledger and the archive.
        name: of the population.
        day: its night, or the day of its making, UTC.
        night: whose rows are ranked; null: no nights are selected.
        created: when it was made.
        method: as in the YAML file.
        safe: false where it protects nobody.
        informative: false where the noise leaves nothing to be learned.
        epsilon, delta: the guarantee.
        unit, adjacency: whom it is about.
        says: the verdict, in words.
    """

    release_id: str
    name: str
    day: date
    night: date | None
    created: datetime
    method: str
    safe: bool
    informative: bool
    epsilon: Extended
    delta: float
    unit: Unit
    adjacency: Adjacency | None
    says: str


def summary_of(release: Release) -> ReleaseSummary:
    """The release in short."""
    return ReleaseSummary(
        release_id=release.release_id,
        name=release.name,
        day=release.day,
        night=release.night,
        created=release.created,
        method=release.method,
        safe=release.safe,
        informative=release.informative,
        epsilon=release.privacy.epsilon,
        delta=release.privacy.delta,
        unit=release.privacy.unit,
        adjacency=release.privacy.adjacency,
        says=verdict(release),
    )


class PlacedItem(RankedItem):
    """One item: its line of `release.json`, and its place.

    Attributes:
        item: its name.
        place: such as `2=` where several share it.
        rank: among all items, 1 the best.
        score, low, high: on the release's scale, with the ends of the 95 % interval of this score
            alone.
        rank_low, rank_high: ends of the 95 % interval of the rank of this item alone.
        group: items of one group cannot be told apart, by what is sure of all items at once.
        low_all, high_all: interval of the score; those of all items hold at once with 95 %.
        rank_low_all, rank_high_all: the same of the rank.
        surely_above: places in the list whose items this one is surely better than: `3..7 9`.
        p_best, p_top: chance of being the best, and among the best k, which the release names.
    """

    place: str


class RunDocument(Document):
    """What `hushrank run` did.

    Attributes:
        release: what is published now.
        scale: what the scores are.
        ranking: every item, the best first.
        top_k: the best items, where the job asked for them; else null.
        warnings: what a reader of the ranking must know.
        look: what a noisy look at the rows saw before the rest was drawn; null: there was none.
        folder: where the release is.
        report: its page in that folder.
        release_file: its `release.json` there.
        spent: what the ledger was charged now; null: nothing.
        paid_again: its noise was drawn before and not kept.
        alerts: fractions of the budget that this run was the first to reach.
        budget: afterwards.
    """

    command: Literal["run"] = "run"
    release: ReleaseSummary
    scale: Scale
    ranking: tuple[PlacedItem, ...]
    top_k: tuple[str, ...] | None
    warnings: tuple[str, ...]
    look: LookRecord | None
    folder: str
    report: str
    release_file: str
    spent: Cost | None
    paid_again: bool
    alerts: tuple[float, ...]
    budget: Budget


def run_document(outcome: Outcome) -> RunDocument:
    """Of a run that ended well."""
    release, folder = outcome.release, outcome.folder
    lines = zip(release.places(), release.ranking, strict=True)
    return RunDocument(
        release=summary_of(release),
        scale=release.scale,
        ranking=tuple(PlacedItem(place=place, **line.model_dump()) for place, line in lines),
        top_k=release.top_k,
        warnings=release.warnings,
        look=release.look,
        folder=str(folder),
        report=str(folder / REPORT),
        release_file=str(folder / RELEASE),
        spent=None if outcome.spent is None else Cost.of(outcome.spent),
        paid_again=outcome.again,
        alerts=outcome.alerts,
        budget=Budget.of(outcome.balance, published=release.release_id),
    )


class Stage(Record):
    """A stage of a run.

    Attributes:
        stage: its name.
        reads, writes: where from and where to.
        side: of the trust boundary.
    """

    stage: str
    reads: str
    writes: str
    side: str


class StagesDocument(Document):
    """What `hushrank run --plan` prints: the stages, of which none was run.

    Attributes:
        stages: in their order.
    """

    command: Literal["run --plan"] = "run --plan"
    stages: tuple[Stage, ...]


def stages_document(job: Job) -> StagesDocument:
    """The stages of a run of `job`."""
    names = Stage.model_fields
    rows = (dict(zip(names, row, strict=True)) for row in stage_rows(job))
    return StagesDocument(stages=tuple(Stage(**row) for row in rows))


class StepPlan(Record):
    """What a run would do in one step.

    Attributes:
        step: its name.
        does: in words.
    """

    step: str
    does: str


class ValidateDocument(Document):
    """What `hushrank validate` found; a file that breaks a rule gives an error instead.

    Attributes:
        night: whose files were looked at; null: all there are.
        files_found: false where no file of a night is there yet, so that columns were not checked.
        steps: what a run would do.
        cost: of one run; null: an unsafe one, which counts against no budget.
        notes: what could not be checked, and why.
        budget: now.
    """

    command: Literal["validate"] = "validate"
    night: date | None
    files_found: bool
    steps: tuple[StepPlan, ...]
    cost: Cost | None
    notes: tuple[str, ...]
    budget: Budget


def validate_document(job: Job, balance: Balance, notes: tuple[str, ...]) -> ValidateDocument:
    """Of a job that passed every check."""
    return ValidateDocument(
        night=job.night,
        files_found=bool(job.files),
        steps=tuple(StepPlan(step=step.name, does=step.says(job)) for step in STEPS),
        cost=Cost.of(job.terms.spend) if job.safe else None,
        notes=notes,
        budget=Budget.of(balance),
    )


class HistoryDocument(Document):
    """What `hushrank history` lists.

    Attributes:
        releases: the earliest first.
        left_out: ids of unsafe releases, where there are safe ones.
        plot: the picture that was drawn; null: none.
    """

    command: Literal["history"] = "history"
    releases: tuple[ReleaseSummary, ...]
    left_out: tuple[str, ...]
    plot: str | None


class VerifyDocument(Document):
    """What `hushrank history --verify` found: all is as it was; else it is an error.

    Attributes:
        releases: how many were looked at.
    """

    command: Literal["history --verify"] = "history --verify"
    releases: int


class LedgerEntry(Record):
    """One line of `hushrank ledger show`.

    Attributes:
        time: when it was recorded; of a release, when it was reserved.
        release_id: null for terms, alerts and recoveries.
        state: reserved, drawn, committed or cancelled; UNSAFE, terms, alert or recovery.
        cost: null where nothing is charged.
        counts_now: the budget of the current period pays for it.
        operator: who ran it.
        note: in words.
    """

    time: datetime
    release_id: str | None
    state: str
    cost: Cost | None
    counts_now: bool
    operator: str
    note: str

    @classmethod
    def of(cls, row: HistoryRow) -> LedgerEntry:
        """A row of the ledger's history."""
        return cls(
            time=row.time,
            release_id=row.release_id or None,
            state=row.state,
            cost=None if row.spend is None else Cost.of(row.spend),
            counts_now=row.counts_now,
            operator=row.operator,
            note=row.note,
        )


class LedgerDocument(Document):
    """What `hushrank ledger show` lists.

    Attributes:
        entries: in the order of the ledger.
        budget: now.
    """

    command: Literal["ledger show"] = "ledger show"
    entries: tuple[LedgerEntry, ...]
    budget: Budget


def print_document(document: Document) -> None:
    """Print it, in ASCII: no terminal obeys a character of it, whatever is in a name."""
    content = document.model_dump(mode="json")
    typer.echo(json.dumps(content, indent=2, allow_nan=False))
