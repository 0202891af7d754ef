"""JSON documents that `--json` prints, one for each command, with public facts only.

Every field is also printed for people, published in `release.json`, or written in the ledger. A
number that may be infinite is the text "inf" in that case, as in `release.json`.

`hushrank run --plan`: the stages of a run, what each reads and writes, and on which side.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import date, datetime
from typing import Literal

import typer
from pydantic.dataclasses import dataclass as pydantic_dataclass
from rich.table import Table
from rich.text import Text

from hushrank.flows.errors import ConfigError
from hushrank.flows.ledger.entries import Balance, SharedInput
from hushrank.flows.ledger.streams import FREE
from hushrank.flows.ledger.texts import HistoryRow
from hushrank.flows.release.archive import RELEASE, REPORT
from hushrank.flows.release.boards import RankedItem
from hushrank.flows.release.provenance import row_source_of
from hushrank.flows.release.release import Release
from hushrank.flows.release.scale import Scale
from hushrank.flows.release.wording import verdict
from hushrank.flows.run.confidential_folder import DRAWN_FILE
from hushrank.flows.run.context import Job
from hushrank.flows.run.stages import REDUCE, STEPS, Outcome
from hushrank.flows.statement.record import CountsRecord, Extended, LookRecord, Record
from hushrank.flows.terminal import Console
from hushrank.privacy.accounting import Spend
from hushrank.privacy.keyed_hash import KEY_BYTES, SecretKey
from hushrank.privacy.randomness import BitSource
from hushrank.privacy.units import Adjacency, Unit
from hushrank.transforms.common.schema import InputError

PROTECTED, RELEASED = "protected", "released"
# Nothing is run, so there is no secret.
NO_KEY = SecretKey(bytes(KEY_BYTES), BitSource.SEEDED)

Row = tuple[str, str, str, str]


def stage_rows(job: Job) -> list[Row]:
    """Return name, input, output and side of the trust boundary of each stage of a run.

    Raises:
        ConfigError: an input file cannot be read.
    """
    rows: list[Row] = []
    for step in STEPS:
        if step is REDUCE:
            rows += _engine_rows(job)
        else:
            side = _crossing(job) if step.crosses else RELEASED
            rows.append((step.name, step.reads, step.writes, side))
    return rows


def _engine_rows(job: Job) -> Iterator[Row]:
    from hushrank.pipelines.reduce.graph import randomising_stage, stages  # loads Beam

    reduction = job.reduction(NO_KEY, job.planned_work)
    try:
        found = stages(reduction)
    except InputError as error:
        raise ConfigError.from_input(error) from None
    randomises = ""
    config = job.config
    if config.privacy.unit is Unit.LOCAL and not config.privacy.already_private:
        randomises = randomising_stage([stage.name for stage in found])
    for stage in found:
        side = f"{PROTECTED}; randomises" if stage.name == randomises else PROTECTED
        yield f"reduce: {stage.name}", ", ".join(stage.reads), ", ".join(stage.writes), side


def _crossing(job: Job) -> str:
    """The step that lets a result cross from the protected side to the released side."""
    if not job.config.privacy.private:
        return "crosses: no noise"
    return "crosses: answers are random already" if _is_local(job) else "crosses: noise is added"


def _is_local(job: Job) -> bool:
    return job.config.privacy.unit is Unit.LOCAL


def show_stages(console: Console, job: Job) -> None:
    """Print the stages of a run of `job`, and the places of its files."""
    table = Table(box=None, header_style="dim", pad_edge=False)
    for heading in ("stage", "reads", "writes", "side"):
        table.add_column(heading, overflow="fold")
    for row in stage_rows(job):
        table.add_row(*map(Text, row))
    console.print(table)
    config = job.config
    source = row_source_of(config, job.night)
    places = {
        "engine": config.runner.kind,
        "the input": ", ".join(config.input.paths) if source is None else source.text,
        "protected": f"{job.planned_work} holds every file of the protected side, and {DRAWN_FILE}",
        "output": config.output,
        "ledger": config.ledger.path,
    }
    for name, place in places.items():
        console.print(Text(f"{name}: {place}"), soft_wrap=True)
    console.print("No row was read and nothing was spent.")


class Document(Record):
    """Base of the documents that commands print.

    Attributes:
        command: name of the command.
    """


class Cost(Record):
    """The cost of a release: epsilon and delta, or rho of zCDP.

    Attributes:
        epsilon, delta: 0 if `rho` states the cost.
        rho: null if epsilon and delta state the cost.
    """

    epsilon: Extended
    delta: float
    rho: Extended | None

    @classmethod
    def of(cls, spend: Spend) -> Cost:
        """Build the cost from a spend of the ledger."""
        return cls(epsilon=spend.epsilon, delta=spend.delta, rho=spend.rho)


class OtherPeople(Record):
    """Statement that another population has other people (`ledger.other_people`).

    Attributes:
        population: the other population.
        by: the account that recorded it; null: the ledger has not recorded it yet.
        at: time of the statement, UTC.
    """

    population: str
    by: str | None
    at: datetime | None

    @classmethod
    def of(cls, other: SharedInput) -> OtherPeople:
        """Build the statement about a population that reads the same input."""
        made = other.statement
        by, at = (None, None) if made is None else (made.by, made.at)
        return cls(population=other.population, by=by, at=at)


class Budget(Record):
    """Budget of a population in its current period, and how much of it is spent.

    Attributes:
        population: the name under which releases are added up.
        epsilon, delta: the total for the period.
        spent: epsilon of all releases that count, together, at `delta`, although each may have been
            chosen in view of earlier results.
        rule: the rule by which `spent` holds: sum, equal-costs, gaussian, renyi or one.
        left: the most epsilon that one more release with Laplace noise may cost.
        renews_on: the first day of the next period, UTC; null: never.
        releases: number of attempts at a release that count.
        reserved: ids of releases that hold budget but have not drawn noise.
        unpublished: ids of releases that are paid for but not published.
        unsafe: number of releases that bypassed the guarantee, over all time.
        alert: the largest fraction of `ledger.alerts` that is reached; null: none.
        shared_with: other populations that read the same input.
        spent_since_first: epsilon of all releases in all periods, together, at `delta`; null: the
            budget never renews, so this is `spent`.
        releases_since_first: number of attempts that count in all periods; null as above.
        lifetime_epsilon: the most over all periods; null: no limit.
        spent_with_shared: epsilon of all releases of this population and of those in `shared_with`,
            as if they were the same people; null: none is there.
        other_people: statements that people of another population are others, and who made them.
    """

    population: str
    epsilon: float
    delta: float
    spent: Extended
    rule: str
    left: float
    renews_on: date | None
    releases: int
    reserved: tuple[str, ...]
    unpublished: tuple[str, ...]
    unsafe: int
    alert: float | None
    shared_with: tuple[str, ...]
    spent_since_first: Extended | None
    releases_since_first: int | None
    lifetime_epsilon: float | None
    spent_with_shared: Extended | None
    other_people: tuple[OtherPeople, ...]

    @classmethod
    def of(cls, balance: Balance, published: str = "") -> Budget:
        """Build the budget from a ledger's balance, which may still list `published` as
        unpublished."""
        ever = balance.lifetime
        return cls(
            population=balance.population,
            epsilon=balance.total,
            delta=balance.delta,
            spent=balance.spent_epsilon,
            rule=balance.rule.value,
            left=balance.remaining_epsilon,
            renews_on=balance.renews_on,
            releases=balance.releases,
            reserved=balance.undrawn,
            unpublished=tuple(each for each in balance.unpublished if each != published),
            unsafe=balance.unsafe,
            alert=balance.alert,
            shared_with=tuple(each.population for each in balance.shared),
            spent_since_first=None if ever is None else ever.spent_epsilon,
            releases_since_first=None if ever is None else ever.releases,
            lifetime_epsilon=None if ever is None else ever.limit,
            spent_with_shared=balance.shared_epsilon if balance.shared else None,
            other_people=tuple(OtherPeople.of(each) for each in balance.shared if each.stated),
        )


class ReleaseSummary(Record):
    """Summary of a release; `release.json` has all of it.

    Attributes:
        release_id: id of the release in the ledger and the archive.
        name: name of the population.
        title: heading of its page; null: none is stated.
        day: night of the release, or the day on which it was made, UTC.
        night: the day whose rows are ranked; null: no nights are selected.
        created: time at which it was made.
        method: the method as in the YAML file.
        safe: false if it protects nobody.
        informative: false if nothing can be learned through the noise.
        epsilon, delta: the guarantee.
        unit, adjacency: the unit that the guarantee protects, and how adjacent inputs differ.
        says: the verdict, in words.
    """

    release_id: str
    name: str
    title: str | None
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
    """Summarise a release."""
    return ReleaseSummary(
        release_id=release.release_id,
        name=release.name,
        title=None if release.about is None else release.about.title,
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


@pydantic_dataclass(frozen=True, slots=True, kw_only=True)
class PlacedItem(RankedItem):
    """One item: its line of `release.json`, and its place in the ranking.

    Attributes:
        item: name of the item.
        place: place of the item, such as `2=` if several items share it.
        rank: rank among all items, 1 for the best.
        score, low, high: score and the ends of its 95 % interval, on the release's scale; the
            interval is for this score alone.
        rank_low, rank_high: ends of the 95 % interval of this item's rank alone.
        group: no two items of one group are reliably ordered, which is for all items at once.
        low_all, high_all: interval of the score; those of all items hold at once with 95 %.
        rank_low_all, rank_high_all: interval of the rank; those of all items hold at once.
        surely_above: places in the list whose items this item is reliably better than: `3..7 9`.
        p_best, p_top: chance to be the best, and among the best k, which the release states.
        noise_share: share of privacy noise in the variance of the score, for a night of a stream.
        se: standard error of the score, which `low` and `high` allow for; null: an end is open.
        se_noise, se_chance: its parts by noise and by chance; the squares add up; null: not told.
    """

    place: str


class BrokenRule(Record):
    """One problem: what is wrong, where, and how to fix it.

    Attributes:
        place: a file, `FILE: KEY` of a YAML file, a ledger, a budget or an option; null: the rule
            says it.
        line: line of that file; null: not known.
        rule: sentence on what is wrong.
        fix: sentence on how to put it right; null: the rule says it.
    """

    place: str | None
    line: int | None
    rule: str
    fix: str | None


class ErrorFields(BrokenRule):
    """Reason why a command failed; `place` to `fix` are those of the first problem.

    Attributes:
        kind: kind of error, such as `ConfigError` or `BudgetRefused`.
        message: the sentences for people.
        exit_code: exit code of the process.
        spent: cost of the command, in words; `nothing`; null: not known, see the ledger.
        problems: all problems.
    """

    kind: str
    message: str
    exit_code: int
    spent: str | None
    problems: tuple[BrokenRule, ...]


class ErrorDocument(Record):
    """Document that a command prints with `--json` when it fails.

    Attributes:
        error: why.
    """

    error: ErrorFields


class RunDocument(Document):
    """Document of `hushrank run`.

    Attributes:
        release: the release that is published now.
        scale: scale of the scores.
        ranking: every item, the best first.
        top_k: the best items, if the job asked for them; else null.
        warnings: warnings for a reader of the ranking.
        look: result of a pilot query before the draw; null: there was none.
        counts: counts beside the ranking; null: there are none.
        folder: folder of the release.
        report: the report in that folder.
        release_file: the `release.json` in that folder.
        spent: cost that this run charged to the ledger; null: nothing.
        paid_again: whether the noise was drawn before, was lost, and was paid for again.
        alerts: fractions of the budget that this run was the first to reach.
        late: sentence that the files of its night have changed since it was drawn; null: they have
            not.
        budget: the budget after the run.
    """

    command: Literal["run"] = "run"
    release: ReleaseSummary
    scale: Scale
    ranking: tuple[PlacedItem, ...]
    top_k: tuple[str, ...] | None
    warnings: tuple[str, ...]
    look: LookRecord | None
    counts: CountsRecord | None
    folder: str
    report: str
    release_file: str
    spent: Cost | None
    paid_again: bool
    alerts: tuple[float, ...]
    late: str | None = None
    budget: Budget


def run_document(outcome: Outcome) -> RunDocument:
    """Build the document of a run that succeeded."""
    release, folder = outcome.release, outcome.folder
    lines = zip(release.places(), release.ranking, strict=True)
    return RunDocument(
        release=summary_of(release),
        scale=release.scale,
        ranking=tuple(PlacedItem(place=place, **line.content()) for place, line in lines),
        top_k=release.top_k,
        warnings=release.warnings,
        look=release.look,
        counts=release.counts,
        folder=str(folder),
        report=str(folder / REPORT),
        release_file=str(folder / RELEASE),
        spent=Cost.of(outcome.spent) if outcome.spent and outcome.charged else None,
        paid_again=outcome.again,
        alerts=outcome.alerts,
        late=outcome.late or None,
        budget=Budget.of(outcome.balance, published=release.release_id),
    )


class Stage(Record):
    """A stage of a run.

    Attributes:
        stage: name of the stage.
        reads, writes: places it reads from and writes to.
        side: side of the trust boundary.
    """

    stage: str
    reads: str
    writes: str
    side: str


class StagesDocument(Document):
    """Document of `hushrank run --plan`: the stages of a run; none was run.

    Attributes:
        stages: the stages in their order.
    """

    command: Literal["run --plan"] = "run --plan"
    stages: tuple[Stage, ...]


def stages_document(job: Job) -> StagesDocument:
    """Build the document of the stages of a run of `job`."""
    names = Stage.model_fields
    rows = (dict(zip(names, row, strict=True)) for row in stage_rows(job))
    return StagesDocument(stages=tuple(Stage(**row) for row in rows))


class StepPlan(Record):
    """One step of a run, and what it would do.

    Attributes:
        step: name of the step.
        does: description of the step, in words.
    """

    step: str
    does: str


class ValidateDocument(Document):
    """Document of `hushrank validate`; a file that breaks a rule gives an error instead.

    Attributes:
        night: the night whose files were checked; null: all files were.
        files_found: false if no night has files yet, so that columns were not checked.
        files_whole: true if all files were read to their end and none is damaged; null: they were
            not read (`--files`).
        steps: steps of a run.
        cost: cost of one run; null: an unsafe run, which counts against no budget, or a night of a
            stream whose budget pays for it.
        notes: checks that could not be made, and why.
        budget: the present budget.
    """

    command: Literal["validate"] = "validate"
    night: date | None
    files_found: bool
    files_whole: Literal[True] | None = None
    steps: tuple[StepPlan, ...]
    cost: Cost | None
    notes: tuple[str, ...]
    budget: Budget


def validate_document(
    job: Job, balance: Balance, notes: tuple[str, ...], *, whole: bool
) -> ValidateDocument:
    """Build the document of a job that passed every check; `whole`: also that of all pages."""
    return ValidateDocument(
        night=job.night,
        files_found=bool(job.files),
        files_whole=True if whole else None,
        steps=tuple(StepPlan(step=step.name, does=step.says(job)) for step in STEPS),
        cost=Cost.of(cost) if job.safe and (cost := job.cost) != FREE else None,
        notes=notes,
        budget=Budget.of(balance),
    )


class LedgerEntry(Record):
    """One line of `hushrank ledger show`.

    Attributes:
        time: time of the record; for a release, time of its reservation.
        release_id: null for terms, alerts and recoveries.
        state: reserved, drawn, committed or cancelled; of a stream of nights reserved, running,
            ended or cancelled; UNSAFE, terms, alert or recovery.
        cost: cost of the entry; null if nothing is charged.
        counts_now: whether it uses budget of the current period.
        operator: account that ran it, and its names elsewhere: see docs/backup.md, "Who did it".
        note: a note in words.
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
        """Build the entry from a row of the ledger's history."""
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
    """Document of `hushrank ledger show`.

    Attributes:
        entries: the entries in the order of the ledger.
        budget: the present budget.
        guards: sentences on the signatures and the anchor; none without a key and an anchor.
    """

    command: Literal["ledger show"] = "ledger show"
    entries: tuple[LedgerEntry, ...]
    budget: Budget
    guards: tuple[str, ...] = ()


def print_document(document: Document) -> None:
    """Print a document in ASCII, so that no character of a name controls the terminal."""
    content = document.model_dump(mode="json")
    typer.echo(json.dumps(content, indent=2, allow_nan=False))
