"""`hushrank inspect`: an exact look at the rows, for whoever holds them and for nobody else.

The output is computed from rows without noise. So it goes to the terminal only: to no log, event,
observer, file, ledger or Prefect server. The command refuses to run if standard output is not a
terminal, because a file or a pipe would keep the output.
"""

from __future__ import annotations

import sys
from datetime import date
from typing import TYPE_CHECKING, Annotated

import typer

from hushrank.flows.cli.arguments import ConfigPath
from hushrank.flows.errors import ConfigError, HushrankError
from hushrank.flows.terminal import Console

if TYPE_CHECKING:
    from hushrank.flows.run.job import Job, Survey
    from hushrank.pipelines.inspect.look import Look

YES = "--yes-confidential"
NO_TERMINAL = (
    "inspect: standard output is not a terminal. inspect prints numbers that are computed from rows"
    " without noise, and a file or a pipe would keep them. Run it in a terminal. To keep the"
    f" output, add {YES} and protect it. Nothing was read."
)


def inspect(
    config: ConfigPath,
    day: Annotated[
        str | None,
        typer.Option("--date", metavar="DATE", help="The night to look at, such as 2026-11-20."),
    ] = None,
    confidential: Annotated[
        bool,
        typer.Option(YES, help="Print although standard output is a file or a pipe."),
    ] = False,
) -> None:
    """Show exact numbers about the rows to their holder: rejects, contributions, exposure.

    The output is confidential. The command prints it at the terminal, and stores and spends
    nothing. What you see must not decide epsilon, bounds, items or method of a release.
    """
    if not (confidential or sys.stdout.isatty()):
        raise ConfigError(NO_TERMINAL)
    console, night = Console(), None
    if day is not None:
        from hushrank.flows.config.schedule import day_of

        night = day_of(day, "--date")
    with Console(stderr=True).status(f"reading what {config} names"):
        from hushrank.flows.methods.registry import load_config
        from hushrank.flows.run.job import Survey

        job, found = inspect_job(Survey(config, load_config(config)), night)
    from hushrank.flows.cli.inspect_texts import show_look

    show_look(console, job.config, night, found)


def inspect_job(survey: Survey, night: date | None) -> tuple[Job, Look]:
    """Check the job and count its rows exactly. What is returned is confidential.

    Raises:
        ConfigError: the configuration or the input breaks a rule.
        HushrankError: an unforeseen error; its own text may quote a row and is dropped.
    """
    from hushrank.transforms.engine import in_process

    in_process.choose()  # this runs no graph, so it does not load Beam
    from dataclasses import replace

    from hushrank.flows.run.job import job_to_inspect
    from hushrank.pipelines.inspect.look import look
    from hushrank.privacy.keyed_hash import SecretKey
    from hushrank.privacy.randomness import system_bits
    from hushrank.transforms.common.schema import InputError

    job = job_to_inspect(survey, night)
    key = SecretKey.draw(system_bits())  # key of pseudonyms; it ends with this process
    reduction = replace(
        job.reduction(key, job.config.confidential), memory_limit=job.config.memory_limit
    )
    try:
        return job, look(reduction)
    except InputError as error:
        raise ConfigError(str(error)) from None
    except (MemoryError, OSError):
        raise  # an error of the machine: `problem_of_machine` words it
    except Exception as error:
        raise HushrankError(
            f"inspect: failed ({type(error).__name__}). Its text may quote a row, so it is not"
            " shown. Nothing was written or spent; hushrank run would fail as well, and keep the"
            " details in the confidential folder."
        ) from None
