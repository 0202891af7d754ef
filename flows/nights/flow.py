"""A run as a Prefect flow: one task a step, so that the server shows what happened and when.

Tasks get nothing that the server could store, being closures over the job, and results are never
persisted. What fails is kept from Prefect too, which pickles whatever a flow raises into its result
storage, `persist_result=False` or not: it gets a failed state with a text. Texts that explain
themselves hold no private value (`flows.reading`); of any other error it gets the type
alone.

What a run leaves at the Prefect server for people: summary, ranking, picture and link.

Everything is taken from the published release and the balance: the server learns nothing that
`release.json` does not hold.
"""

from __future__ import annotations

import base64
import re
import zlib
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from hushrank.flows.assembly import run_job
from hushrank.flows.errors import HushrankError
from hushrank.flows.ledger.texts import left_text, shared_text, since_first_text, spend_text
from hushrank.flows.nights.server import set_defaults
from hushrank.flows.reading import Reducer
from hushrank.flows.release.archive import REPORT, find_archived, release_before
from hushrank.flows.release.release import Release
from hushrank.flows.release.scale import WORDS, interval_text, score_decimals, score_text
from hushrank.flows.release.wording import interval_headings, rank_interval, verdict
from hushrank.flows.report.changes import changes_between
from hushrank.flows.report.figures import figures_of
from hushrank.flows.report.svg import WIDTH, standalone
from hushrank.flows.run.context import Job
from hushrank.flows.run.stages import Outcome, Perform, Step, Tell
from hushrank.flows.watching.events import epsilon_since_first
from hushrank.transforms.common.plain_text import shown
from hushrank.transforms.storage.places import CloudPath

if TYPE_CHECKING:
    from prefect.client.schemas.objects import State


MOST_ROWS = 100  # of the table; ranking.csv has all


def leave_artifacts(outcome: Outcome) -> None:
    """Create the artifacts of the run that this is called in."""
    from prefect.artifacts import (
        create_image_artifact,
        create_link_artifact,
        create_markdown_artifact,
        create_table_artifact,
    )

    release = outcome.release
    key = artifact_key(release.name)
    create_markdown_artifact(summary(outcome), key=f"{key}-summary", description=verdict(release))
    create_table_artifact(
        ranking_rows(release), key=f"{key}-ranking", description=f"Ranking of {release.day}"
    )
    image = picture(release)
    if image is not None:
        create_image_artifact(image, key=f"{key}-plot", description=f"Scores of {release.day}")
    create_link_artifact(report_address(outcome), link_text="The report", key=f"{key}-report")


def artifact_key(population: str) -> str:
    """A key that Prefect accepts: lower-case letters, digits and dashes; one a population."""
    slug = re.sub(r"[^a-z0-9]+", "-", population.lower()).strip("-")
    if slug == population:
        return f"hushrank-{slug}"
    return f"hushrank-{slug}-{zlib.crc32(population.encode()):08x}"  # two names may look alike


def summary(outcome: Outcome) -> str:
    """The release in a few lines of Markdown."""
    release, balance = outcome.release, outcome.balance
    privacy = release.privacy
    guarantee = f"epsilon {privacy.epsilon:g}"
    if privacy.delta:
        guarantee += f", delta {privacy.delta:g}"
    spent = "nothing: it was drawn before" if outcome.spent is None else spend_text(outcome.spent)
    if outcome.spent is not None and not outcome.charged:
        spent = "nothing: its stream is paid for"
    notes = [*release.warnings, *filter(None, [shared_text(balance)])]
    head = [
        f"## {_plain(release.heading)}, {release.day}",
        f"**{_plain(verdict(release))}**",
        *(f"> **Please note.** {_plain(text)}" for text in notes),
    ]
    ever = since_first_text(balance)
    table = [
        "| | |\n|---|---|",
        f"| Method | {release.method} |",
        f"| Guarantee | {guarantee}, unit {privacy.unit} |",
        f"| Mechanism | {privacy.mechanism} |",
        f"| Cost of this run | {spent} |",
        f"| Budget left | epsilon {left_text(balance.remaining_epsilon)} of"
        f" {left_text(balance.total)} |",
        *([f"| Since the first release | {ever} |"] if ever else []),
        f"| Release | {release.release_id} |",
    ]
    return "\n\n".join([*head, "\n".join(table)]) + "\n"


def ranking_rows(release: Release) -> list[dict[str, Any]]:
    """The best items, best first, with intervals."""
    words, decimals = WORDS[release.scale], score_decimals(release.scale, release.ranking)
    rows = [
        {
            "place": place,
            "item": line.shown,
            words.heading.lower(): (
                f"{score_text(release.scale, line.score, decimals)}{words.unit}"
            ),
            interval_headings(release)[0]: interval_text(release.scale, line, decimals),
            "rank": rank_interval(line),
        }
        for place, line in zip(release.places(), release.ranking, strict=True)
    ]
    return rows[:MOST_ROWS]


def picture(release: Release) -> str | None:
    """The report's first figure as a `data:` address; None where it has none."""
    figures = figures_of(release)
    if not figures:
        return None
    svg = standalone(figures[0].svg, WIDTH)
    return f"data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()}"


def report_address(outcome: Outcome) -> str:
    """Where the report is."""
    report = outcome.folder / REPORT
    return str(report) if isinstance(report, CloudPath) else report.resolve().as_uri()


def _plain(text: str) -> str:
    """Text that Markdown leaves as it is: a name may hold asterisks or a link."""
    return re.sub(r"([\\`*_{}\[\]<>()#|!~])", r"\\\1", text)


T = TypeVar("T")

RETRY_DELAY_SECONDS = 1
ALERT_EVENT = "hushrank.budget.alert"
CHANGE_EVENT = "hushrank.ranks.changed"
PASSED_EVENT = "hushrank.item.passed"
UNLISTED_EVENT = "hushrank.item.unlisted"
NOT_SHOWN = (
    "Prefect: the release is published, but the server did not take all that its page shows of it."
)


def run_in_flow(job: Job, reducer: Reducer, watch: Perform, tell: Tell) -> Outcome:
    """Run the job as a Prefect flow, on the configured server or else an ephemeral one.

    Args:
        job: what to do.
        reducer: the running child process that will read the rows.
        watch: carries out a step and shows it to the person at the terminal.
        tell: shows what speaks against the run, before anything is reserved for it.

    Raises:
        HushrankError: as `run_job`, or there is no server.
    """
    set_defaults()
    from prefect import flow  # after the environment is set: Prefect reads it when loaded

    def ranked() -> Outcome:
        outcome = run_job(
            job, reducer, lambda step, action: watch(step, _as_task(step, action)), tell
        )
        try:
            _alert(outcome)
            _tell_changes(outcome, job)
            _tell_alarms(outcome)
            _tell_unlisted(outcome)
            leave_artifacts(outcome)
        except Exception:  # a server that is gone must not make a published night a failure
            tell(NOT_SHOWN)
        return outcome

    kept = Kept(ranked)

    @flow(name="rank", flow_run_name=_run_name(job), persist_result=False)
    def rank() -> Any:
        return kept.state()

    try:
        rank()
    except Exception as error:
        if kept.ended:  # Prefect raises what it was told; the error itself follows
            return kept.result()
        if kept.begun:
            raise
        problem = str(error) if isinstance(error, RuntimeError) else type(error).__name__
        raise HushrankError(
            f"Prefect: {problem.rstrip(' ./')}. Check PREFECT_API_URL, or run with --direct, which"
            " needs no server. Nothing was read or spent."
        ) from None
    return kept.result()


class StepFailed(Exception):  # noqa: N818 - what Prefect sees in place of an unforeseen error
    """A step failed for a reason whose own text may quote what it computed with."""


class Kept(Generic[T]):
    """What an action returned or raised, kept in this process, out of Prefect's reach."""

    def __init__(self, action: Callable[[], T]) -> None:
        self._action = action
        self._returned: list[T] = []
        self._raised: Exception | None = None
        self.begun = False  # whether Prefect came as far as calling it

    def carry_out(self) -> None:
        """Do it; to be called again where Prefect repeats a step.

        Raises:
            HushrankError: as the action, whose text explains itself.
            StepFailed: it raised anything else.
        """
        self.begun = True
        self._returned.clear()
        self._raised = None
        try:
            self._returned.append(self._action())
        except Exception as error:
            self._raised = error
            raise told(error) from None

    def state(self) -> State[Any]:
        """Do it, and say how it ended without a word of what it returned or raised."""
        from prefect.states import Completed, Failed

        try:
            self.carry_out()
        except Exception as error:
            return Failed(message=shown(f"{error}", lines=True))
        return Completed()

    @property
    def ended(self) -> bool:
        """Whether it was done, well or not."""
        return self._raised is not None or bool(self._returned)

    def result(self) -> T:
        """What the action returned; raises what it raised."""
        if self._raised is not None:
            raise self._raised
        return self._returned[0]


def told(error: Exception) -> Exception:
    """What Prefect may see of an error: its text if it explains itself, else its type."""
    if isinstance(error, HushrankError):
        return error
    return StepFailed(f"An unforeseen error of type {type(error).__name__}.")


def _run_name(job: Job) -> str:
    night = "" if job.night is None else f"{job.night}-"
    return f"{job.config.name}-{night}{job.release_id}"


def _alert(outcome: Outcome) -> None:
    """Log and emit an event for each fraction of the budget that was reached just now."""
    from prefect import get_run_logger

    population = outcome.balance.population
    for fraction in outcome.alerts:
        get_run_logger().warning(
            "Budget alert: %.0f %% of the budget of %s is used.", 100 * fraction, population
        )
        _emit(
            ALERT_EVENT,
            outcome,
            fraction=fraction,
            remaining_epsilon=outcome.balance.remaining_epsilon,
            epsilon_since_first=epsilon_since_first(outcome.balance),
        )


def _emit(event: str, outcome: Outcome, **payload: Any) -> None:
    """Emit an event of the population whose release this is."""
    from prefect.events import emit_event

    population = f"hushrank.population.{outcome.balance.population}"
    emit_event(event=event, resource={"prefect.resource.id": population}, payload=payload)


def _tell_changes(outcome: Outcome, job: Job) -> None:
    """Emit an event if scores changed by more than noise since the release before."""
    if outcome.spent is None:  # published before, and told of then
        return
    release, config = outcome.release, job.config
    before = release_before(release, config.output, *config.supersedes)
    if before is None:
        return
    continued = find_archived(config.output, before.release_id) is None
    found = changes_between(before, release, continued=continued)
    moved = [row for row in found.rows if row.beyond == "yes"]
    if moved:
        _emit(
            CHANGE_EVENT,
            outcome,
            release=release.release_id,
            since=before.release_id,
            what=found.sentence,
            items=[{"item": row.item, "change": row.change, "ranks": row.ranks} for row in moved],
        )


def _tell_unlisted(outcome: Outcome) -> None:
    """Emit an event if the pilot query saw an item that is not listed."""
    look = outcome.release.look
    if look is None or not look.names_unlisted or outcome.spent is None:
        return
    _emit(
        UNLISTED_EVENT,
        outcome,
        release=outcome.release.release_id,
        what=look.of_items,
        voters=look.voters,
        unlisted=look.unlisted,
    )


def _tell_alarms(outcome: Outcome) -> None:
    """Emit an event for each item that passed another one for certain."""
    told = outcome.release.alarms
    if told is None or outcome.spent is None:  # published before, and told of then
        return
    for each in told.passed:
        _emit(
            PASSED_EVENT,
            outcome,
            release=outcome.release.release_id,
            item=each.item,
            passed=each.passed,
            watched_pairs=told.number,
        )


def _as_task(step: Step, action: Callable[[], T]) -> Callable[[], T]:
    from prefect import Task
    from prefect.cache_policies import NO_CACHE

    kept = Kept(action)
    task: Task[[], None] = Task(
        kept.carry_out,
        name=step.name,
        task_run_name=step.name,
        retries=step.retries,
        retry_delay_seconds=RETRY_DELAY_SECONDS,
        retry_condition_fn=_is_nobodys_mistake,
        cache_policy=NO_CACHE,
        persist_result=False,
    )

    def carried_out() -> T:
        with suppress(StepFailed):  # the error itself follows
            task()
        return kept.result()

    return carried_out


def _is_nobodys_mistake(_task: Any, _run: Any, state: Any) -> bool:
    """Whether repeating may help: not where a rule was broken or a budget is used up."""
    try:
        state.result()
    except HushrankError:
        return False
    except Exception:  # whatever else a step may raise: a passing fault
        return True
    return False
