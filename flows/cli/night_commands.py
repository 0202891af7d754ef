"""`hushrank backfill`, `catch-up` and `resume`: nights, and what earlier runs left to be published.

Each runs in this process, as `hushrank run` does; `flows.cli.schedule_commands` has those that
Prefect starts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from hushrank.flows.cli.arguments import ConfigPath, ReleaseId
from hushrank.flows.errors import ConfigError, HushrankError, check_address_space, notes_of
from hushrank.flows.terminal import Console

if TYPE_CHECKING:
    from hushrank.flows.run.job import Job
    from hushrank.flows.run.nights import NightResult
    from hushrank.flows.run.stages import Outcome

AFTER_FAILURE = (
    "What was reserved but not drawn is given back; if noise was drawn already, the same command"
    " publishes that release without spending again."
)


Direct = Annotated[
    bool, typer.Option("--direct", help="Run the steps without Prefect: faster to start.")
]


def backfill(
    config: ConfigPath,
    first: Annotated[str, typer.Option("--from", metavar="DATE", help="The first night.")],
    last: Annotated[str, typer.Option("--to", metavar="DATE", help="The last night.")],
    direct: Direct = False,
) -> None:
    """Rank every night of a span, the oldest first; nights released before cost nothing.

    Stops with exit code 3 where the budget does not hold the next night.
    """
    from hushrank.flows.config.schedule import day_of
    from hushrank.flows.run.job import read_survey
    from hushrank.flows.run.nights import rank_nights

    start, end = day_of(first, "--from"), day_of(last, "--to")
    if end < start:
        raise ConfigError(f"--to {end} is before --from {start}; name the earlier night first.")
    nights = [start + timedelta(days=days) for days in range((end - start).days + 1)]
    with execution(direct) as execute:
        show_nights(rank_nights(read_survey(config), nights, datetime.now(UTC), execute))


def catch_up(config: ConfigPath, direct: Direct = False) -> None:
    """Rank the nights that are due: the last one, and any that were missed before it.

    What a schedule runs; for cron or a systemd timer, where there is no Prefect server.
    """
    from hushrank.flows.run.job import read_survey
    from hushrank.flows.run.nights import rank_due

    with execution(direct) as execute:
        show_nights(rank_due(read_survey(config), datetime.now(UTC), execute))


def resume(
    release_id: ReleaseId,
    config: Annotated[
        Path, typer.Argument(metavar="[SURVEY.YAML]", help="The job's YAML file.")
    ] = Path("survey.yaml"),
) -> None:
    """Publish a release that is paid for and was never published; spends nothing."""
    from hushrank.flows.display import StepDisplay, show_outcome
    from hushrank.flows.run.job import read_survey
    from hushrank.flows.run.nights import drawn_job
    from hushrank.flows.run.run import publish_drawn

    job = drawn_job(read_survey(config), release_id)
    console = Console()
    show_outcome(console, publish_drawn(job, StepDisplay(console, job).perform))


@contextmanager
def execution(direct: bool) -> Iterator[Callable[[Job], Outcome]]:
    """A function that runs jobs, each shown at the terminal, with one child process for all.

    Args:
        direct: without Prefect.

    Raises:
        ConfigError: the process may take too little memory.
        HushrankError: it was interrupted.
    """
    check_address_space()
    from hushrank.flows.run.reader_process import Reducer

    try:
        with Reducer() as reducer:  # at once: it takes as long to load as all that follows
            from hushrank.flows.display import StepDisplay
            from hushrank.flows.run.run import run_job

            def execute(job: Job) -> Outcome:
                console = Console()
                if job.night is not None:
                    console.print(Text(f"Night {job.night}", style="bold"))
                display = StepDisplay(console, job)
                if direct:
                    return run_job(job, reducer, display.perform)
                from hushrank.flows.prefect.flow import run_in_flow

                return run_in_flow(job, reducer, display.perform)

            yield execute
    except KeyboardInterrupt as stop:
        raise HushrankError(f"Interrupted. {notes_of(stop) or AFTER_FAILURE}") from None


def show_nights(results: Iterable[NightResult]) -> None:
    """Print what became of each night as soon as it is known."""
    from hushrank.flows.display import night_text, show_alerts

    console = Console()
    done = False
    for result in results:
        done = True
        console.print(Text(night_text(result)), soft_wrap=True)
        if result.outcome is not None:
            show_alerts(console, result.outcome)
    if not done:
        console.print("No night is due. Nothing was read or spent.")
