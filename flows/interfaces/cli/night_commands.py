"""`hushrank backfill`, `catch-up` and `resume`: nights, and unpublished results of earlier runs.

Each command runs in this process, as `hushrank run` does: nights as Prefect flows, unless a person
asks for `--direct`. `flows.interfaces.cli.schedule_commands` has the commands that keep a schedule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from hushrank.flows.errors import ConfigError, check_address_space
from hushrank.flows.interfaces.cli.arguments import (
    Anyway,
    ConfigPath,
    NightsThroughPrefect,
    ReleaseId,
)
from hushrank.flows.terminal import Console
from hushrank.transforms.common.plain_text import short_message

if TYPE_CHECKING:
    from hushrank.flows.nights.nights import NightResult
    from hushrank.flows.reading import Reducer
    from hushrank.flows.run.context import Job
    from hushrank.flows.run.stages import Outcome, Perform

UNUSED = {"ctypeslib", "f2py", "ma", "polynomial", "test", "testing", "typing"}  # parts of numpy
STARTING = "starts a server for this command, which takes some seconds (--direct needs none)"


def backfill(
    config: ConfigPath,
    first: Annotated[str, typer.Option("--from", metavar="DATE", help="The first night to rank.")],
    last: Annotated[str, typer.Option("--to", metavar="DATE", help="The last night to rank.")],
    prefect: NightsThroughPrefect = True,
    anyway: Anyway = False,
) -> None:
    """Rank every night from one date to another, the oldest first; released nights cost nothing.

    Stops with exit code 3 when the next night does not fit the budget.
    """
    from hushrank.flows.config.schedule import day_of
    from hushrank.flows.nights.nights import rank_nights
    from hushrank.flows.run.job import read_survey

    start, end = day_of(first, "--from"), day_of(last, "--to")
    if end < start:
        raise ConfigError(f"--to {end} is before --from {start}; name the earlier night first.")
    nights = [start + timedelta(days=days) for days in range((end - start).days + 1)]
    with execution(config, prefect) as execute:
        survey = read_survey(config, anyway=anyway)
        show_nights(rank_nights(survey, nights, datetime.now(UTC), execute))


def catch_up(
    config: ConfigPath, prefect: NightsThroughPrefect = True, anyway: Anyway = False
) -> None:
    """Rank the nights that are due: the last one, and any earlier nights that were missed.

    Cron or a systemd timer can run this command, if Prefect does not keep the schedule.
    """
    from hushrank.flows.nights.nights import rank_due
    from hushrank.flows.run.job import read_survey

    with execution(config, prefect) as execute:
        show_nights(rank_due(read_survey(config, anyway=anyway), datetime.now(UTC), execute))


def resume(
    release_id: ReleaseId,
    config: Annotated[
        Path, typer.Argument(metavar="[SURVEY.YAML]", help="The job's YAML file.")
    ] = Path("survey.yaml"),
) -> None:
    """Publish a release that is paid for but not published; spends nothing."""
    from hushrank.flows.assembly import resume_job
    from hushrank.flows.display import StepDisplay, show_outcome
    from hushrank.flows.nights.nights import drawn_job
    from hushrank.flows.run.job import read_survey

    job = drawn_job(read_survey(config, anyway=True), release_id)  # the noise was drawn already
    console = Console()
    show_outcome(console, resume_job(job, StepDisplay(console, job).perform))


@contextmanager
def execution(
    config: Path, prefect: bool | None, *, as_json: bool = False
) -> Iterator[Callable[[Job], Outcome]]:
    """Yield a function that runs jobs and shows them at the terminal; one child serves all jobs.

    Args:
        config: the YAML file; its name is shown first, because loading libraries takes seconds.
        prefect: run as Prefect flows; None: only if Prefect's settings name a server.
        as_json: standard output is for a document, so progress goes to standard error.

    Raises:
        ConfigError: the process may use too little memory.
        HushrankError: Prefect's settings cannot be read.
    """
    console = Console(stderr=as_json)
    _show_step(console, "check", short_message(f"{config}"))
    check_address_space()
    from hushrank.flows.reading import Reducer

    # The child is started first: it loads its libraries beside this process.
    with Reducer() as reducer, ExitStack() as at_end:
        _load_scipy()
        run = _runner(console, prefect, at_end)

        yield lambda job: run(job, reducer)


def _load_scipy() -> None:
    """Load `scipy.special` without the parts of numpy that nothing here uses.

    One of its modules takes every name that numpy lists, so that numpy loads all its parts, which
    takes 0.1 s. Meanwhile numpy lists fewer names.
    """
    numpy: Any = import_module("numpy")
    names, listed = numpy.__all__, numpy.__dir__
    numpy.__all__ = [name for name in names if name not in UNUSED]
    numpy.__dir__ = lambda: [name for name in listed() if name not in UNUSED]
    try:
        import_module("scipy.special")
    finally:
        numpy.__all__, numpy.__dir__ = names, listed


def _runner(
    console: Console, prefect: bool | None, at_end: ExitStack
) -> Callable[[Job, Reducer], Outcome]:
    """The function that runs one job: directly, or as a Prefect flow.

    The server is asked for, or started, when the first job is to run: whatever is wrong with a
    configuration is said before. One that is started ends with `at_end`.
    """
    from hushrank.flows.assembly import run_job
    from hushrank.flows.display import StepDisplay

    told: set[str] = set()

    def tell(note: str) -> None:
        if note not in told:  # once for all nights of one command
            console.print(Text(note, style="yellow"), soft_wrap=True)
            told.add(note)

    def begin(job: Job, reducer: Reducer) -> Perform:
        if job.night is not None:
            console.print(Text(f"Night {job.night}", style="bold"))
        return StepDisplay(console, job, reducer.reader).perform

    def directly(job: Job, reducer: Reducer) -> Outcome:
        return run_job(job, reducer, begin(job, reducer), tell)

    if prefect is False:
        return directly
    from hushrank.flows.nights.server import server_configured, server_of_command

    if prefect is None and not server_configured():
        return directly
    pages: list[str] = []

    def run(job: Job, reducer: Reducer) -> Outcome:
        if not pages:
            starting = partial(_show_step, console, "prefect", STARTING)
            pages.append(at_end.enter_context(server_of_command(starting)))
            _show_step(console, "prefect", f"shows each run at {pages[0]}/runs")
        from hushrank.flows.nights.flow import run_in_flow

        return run_in_flow(job, reducer, begin(job, reducer), tell)

    return run


def _show_step(console: Console, name: str, says: str) -> None:
    """Print the step that has begun, as `flows.display` does, which takes too long to load."""
    console.print(Text(f"  {name:<10} {says}"), soft_wrap=True)


def show_nights(results: Iterable[NightResult]) -> None:
    """Print the result of each night as soon as it is ready."""
    from hushrank.flows.display import show_alerts
    from hushrank.flows.nights.nights import night_text

    console = Console()
    done = False
    for result in results:
        done = True
        console.print(Text(night_text(result)), soft_wrap=True)
        if result.outcome is not None:
            show_alerts(console, result.outcome)
    if not done:
        console.print("No night is due. Nothing was read or spent.")
