"""`hushrank inspect`: exact numbers about the rows, for their holder only.

The output is computed from rows without noise. So it goes to the terminal only: to no log, event,
observer, file, ledger or Prefect server. The command refuses to run if standard output is not a
terminal, because a file or a pipe would keep the output.
"""

from __future__ import annotations

import sys
from datetime import date
from typing import TYPE_CHECKING, Annotated

import typer

from hushrank.flows.errors import ConfigError
from hushrank.flows.interfaces.cli.arguments import ConfigPath
from hushrank.flows.terminal import Console

if TYPE_CHECKING:
    from hushrank.flows.methods.base import ReductionJob
    from hushrank.flows.reading import Reader
    from hushrank.flows.run.context import Job, Survey
    from hushrank.pipelines.inspect.found import Look

YES = "--yes-confidential"
NO_TERMINAL = (
    "inspect: standard output is not a terminal. inspect prints exact numbers about the rows,"
    " without noise, and a file or a pipe would keep them. Run it in a terminal. To keep the"
    f" output, add {YES} and protect it. Nothing was read."
)


def inspect(
    config: ConfigPath,
    day: Annotated[
        str | None,
        typer.Option("--date", metavar="DATE", help="The night to inspect, such as 2026-11-20."),
    ] = None,
    confidential: Annotated[
        bool,
        typer.Option(YES, help="Print although standard output is a file or a pipe."),
    ] = False,
) -> None:
    """Show exact numbers about the rows to their holder: rejects, contributions, appearances.

    The output is confidential. The command prints it at the terminal, stores none of it and spends
    nothing. What you see must not decide epsilon, bounds, items or method of a release.
    """
    if not (confidential or sys.stdout.isatty()):
        raise ConfigError(NO_TERMINAL)
    console, night = Console(), None
    if day is not None:
        from hushrank.flows.config.schedule import day_of

        night = day_of(day, "--date")
    from hushrank.flows.reading import Reader

    # start the child first, because it takes longest to load
    with Console(stderr=True).status(f"reading the input of {config}"), Reader() as reader:
        from hushrank.flows.interfaces.cli.inspect_texts import show_look
        from hushrank.flows.methods.registry import load_config
        from hushrank.flows.run.context import Survey

        command = f"inspect {YES}" if confidential else "inspect"
        job, found = inspect_job(Survey(config, load_config(config)), night, reader, command)

    show_look(console, job.config, night, found)


def inspect_job(
    survey: Survey, night: date | None, reader: Reader, command: str
) -> tuple[Job, Look]:
    """Check the job and have its rows counted exactly. What is returned is confidential.

    Args:
        survey: the configuration.
        night: the day whose rows to look at; None if the configuration selects no nights.
        reader: the child process that reads them.
        command: what to record in the ledger, before a row is read.

    Raises:
        LedgerError: the access must be recorded, and cannot be.
        ConfigError: the configuration or the input breaks a rule.
        ReadingError: an unforeseen error; its own text may quote a row and is dropped.
    """
    from dataclasses import replace

    from hushrank.flows.run.context import record_access
    from hushrank.flows.run.job import job_to_inspect
    from hushrank.privacy.keyed_hash import SecretKey
    from hushrank.privacy.randomness import system_bits

    job = job_to_inspect(survey, night)
    record_access(survey.config, command, night)
    key = SecretKey.draw(system_bits())  # key of pseudonyms; it lives only as long as this process
    reduction = replace(
        job.reduction(key, job.config.confidential), memory_limit=job.config.memory_limit
    )
    return job, reader.call(_look, reduction, memory=reduction.memory_limit, cells=reduction.cells)


def _look(reduction: ReductionJob) -> Look:
    """Count the rows exactly, in the process that reads them."""
    from hushrank.transforms.engine import in_process

    in_process.choose()  # this runs no graph, so it does not load Beam
    from hushrank.pipelines.inspect.inspect_log import look

    return look(reduction)
