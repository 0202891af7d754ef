"""The `hushrank` command. Everything slow is imported inside the command that needs it."""

from __future__ import annotations

import errno
import sys
from collections.abc import Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from hushrank.flows.cli.arguments import ConfigPath, ReleaseId
from hushrank.flows.cli.attack_command import attack
from hushrank.flows.cli.clean_command import clean
from hushrank.flows.cli.forecast_command import forecast
from hushrank.flows.cli.history_commands import export, history
from hushrank.flows.cli.night_commands import (
    AFTER_FAILURE,
    Direct,
    backfill,
    catch_up,
    execution,
    resume,
)
from hushrank.flows.cli.plan_command import plan
from hushrank.flows.cli.privatize_command import privatize
from hushrank.flows.cli.recover_command import recover
from hushrank.flows.cli.reproduce_command import reproduce
from hushrank.flows.cli.schedule_commands import deploy, serve
from hushrank.flows.cli.simulate_command import simulate
from hushrank.flows.errors import ConfigError, HushrankError, notes_of, problem_of_machine
from hushrank.flows.signals import stop_as_ctrl_c
from hushrank.flows.terminal import Console, print_everywhere


def support(
    config: ConfigPath,
    to: Annotated[Path | None, typer.Option(help="The zip file to write.")] = None,
) -> None:
    """Write a support bundle: versions, configuration, ledger, log; no data. Spends nothing."""
    from hushrank.flows.run.support import bundle_name, write_bundle

    path = to or Path(bundle_name(datetime.now(UTC)))
    write_bundle(config, path)
    Console().print(
        f"Wrote {path}. It holds no rows, counts or items' names; it does name files, columns and"
        " the population. Look through it before you send it outside.",
        soft_wrap=True,
        markup=False,
    )


def reference() -> None:
    """Print every key of the YAML file: type, default, rule and meaning, in Markdown."""
    from hushrank.flows.config.reference import config_reference

    typer.echo(config_reference(), nl=False)


app = typer.Typer(
    name="hushrank",
    help="Rank things from people's answers without exposing any one person.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,  # they print local variables
)
ledger_app = typer.Typer(help="Look at a population's privacy budget.", no_args_is_help=True)
app.add_typer(ledger_app, name="ledger")
app.command()(plan)
app.command()(history)
app.command()(export)
app.command()(privatize)
app.command()(attack)
app.command()(simulate)
app.command()(reproduce)
app.command()(reference)
app.command()(support)
app.command()(clean)
ledger_app.command()(forecast)
ledger_app.command()(recover)
app.command()(backfill)
app.command("catch-up")(catch_up)
app.command()(resume)
app.command()(serve)
app.command()(deploy)

Night = Annotated[
    str | None,
    typer.Option("--date", metavar="DATE", help="The night to rank, such as 2026-11-20."),
]
NO_PRIVACY = typer.Option("--no-privacy", help="Allow epsilon: inf; the release is marked unsafe.")


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point. Exit codes: 0 ok, 2 bad configuration or input, 3 budget refused, 1 the rest."""
    print_everywhere()
    stop_as_ctrl_c()
    try:
        app(arguments)
    except HushrankError as error:
        _stop(f"{error} {notes_of(error)}".strip(), error.exit_code)
    except Exception as error:  # libraries wrap what the machine refuses in errors of any kind
        if isinstance(error, OSError) and error.errno in (errno.ENAMETOOLONG, errno.ELOOP):
            name = str(error.filename or "a name")[:80]
            _stop(f"{name}…: {error.strerror}. Name another file; nothing was spent.", 2)
        problem = problem_of_machine(error)
        if problem is None:  # a fault of the program, for whoever can put it right
            raise
        _stop(f"{problem} {notes_of(error) or AFTER_FAILURE}", 1)


def _stop(text: str, exit_code: int) -> None:
    Console(stderr=True).print(Text(text, style="red"), soft_wrap=True)
    sys.exit(exit_code)


@app.command()
def init(
    answers: Annotated[
        Path,
        typer.Argument(
            metavar="ANSWERS", help="A Parquet, CSV, JSONL or PrefLib file, or a folder of them."
        ),
    ],
    out: Annotated[Path, typer.Option(help="The YAML file to write.")] = Path("survey.yaml"),
    kind: Annotated[
        str | None,
        typer.Option(help="comparisons, responses (test answers) or rankings; else it is guessed."),
    ] = None,
) -> None:
    """Propose a survey.yaml from a file's header and first rows."""
    from hushrank.flows.propose.proposal import kind_named, propose_config, write_proposal

    proposal = propose_config(answers, out, kind_named(kind))
    Console().print(write_proposal(proposal, out), soft_wrap=True, markup=False, highlight=False)


def _night(day: str | None) -> date | None:
    if day is None:
        return None
    from hushrank.flows.config.schedule import day_of

    return day_of(day, "--date")


@app.command()
def validate(
    config: ConfigPath, day: Night = None, no_privacy: Annotated[bool, NO_PRIVACY] = False
) -> None:
    """Check everything that can be checked without reading a row or spending budget."""
    from hushrank.flows.run.job import prepare_job, read_survey

    night = _night(day)
    job = prepare_job(read_survey(config, no_privacy=no_privacy), night=night)
    from hushrank.flows.display import show_checks
    from hushrank.flows.run.budget import ledger_of
    from hushrank.flows.run.ledger_witness import require_remembered

    ledger, inputs = ledger_of(job.config), job.planned_inputs
    if job.safe:
        require_remembered(job.config, ledger, inputs.plain)
        ledger.check(job.terms.spend, inputs)
    show_checks(Console(), job, ledger.balance(inputs))


@app.command()
def run(
    config: ConfigPath,
    direct: Direct = False,
    day: Night = None,
    again: Annotated[
        bool,
        typer.Option("--again", help="With --date: pay again if rows of that night came late."),
    ] = False,
    no_privacy: Annotated[bool, NO_PRIVACY] = False,
    unsafe_seed: Annotated[
        int | None,
        typer.Option(help="Draw all noise from this seed, for a test; marks the release unsafe."),
    ] = None,
    plan_only: Annotated[
        bool,
        typer.Option("--plan", help="Print the stages and what each reads and writes; run none."),
    ] = False,
) -> None:
    """Rank privately: check, reserve budget, reduce, draw noise, estimate, publish."""
    if again and day is None:
        raise ConfigError("--again goes with --date; leave one out or add the other.")
    night = _night(day)
    if plan_only:
        from hushrank.flows.run.job import prepare_job, read_survey
        from hushrank.flows.run.stage_table import show_stages

        survey = read_survey(config, no_privacy=no_privacy)
        show_stages(Console(), prepare_job(survey, seed=unsafe_seed, night=night))
        return
    with execution(direct) as execute:
        from hushrank.flows.display import show_outcome
        from hushrank.flows.run.job import prepare_job, read_survey
        from hushrank.flows.run.nights import run_night

        survey = read_survey(config, no_privacy=no_privacy)
        if night is None or unsafe_seed is not None or no_privacy:
            outcome = execute(prepare_job(survey, seed=unsafe_seed, night=night))
        else:
            outcome = run_night(survey, night, datetime.now(UTC), execute, again=again)
    show_outcome(Console(), outcome)


@ledger_app.command("show")
def ledger_show(config: ConfigPath) -> None:
    """Show what a population has spent, on what, and what is left."""
    from rich.table import Table

    from hushrank.flows.config.survey import load_config
    from hushrank.flows.display import show_balance
    from hushrank.flows.ledger.history import HISTORY_COLUMNS
    from hushrank.flows.run.budget import ledger_of
    from hushrank.flows.run.job import inputs_of

    checked = load_config(config)
    ledger = ledger_of(checked)
    table = Table(*HISTORY_COLUMNS, box=None, header_style="dim", pad_edge=False)
    table.columns[1].overflow = "fold"  # a release is known by its whole name
    for row in ledger.history():
        table.add_row(*row.cells())
    console = Console()
    console.print(table)
    show_balance(console, ledger.balance(inputs_of(checked, make_key=False)))


@ledger_app.command("verify")
def ledger_verify(config: ConfigPath) -> None:
    """Check every line of the ledger: damaged, edited or missing lines are found."""
    from hushrank.flows.config.survey import load_config
    from hushrank.flows.run.budget import ledger_of

    checked = load_config(config)
    ledger_of(checked).balance()
    Console().print(
        Text(f"{checked.ledger.path}: every line is as it was written."), soft_wrap=True
    )


@ledger_app.command("cancel")
def ledger_cancel(
    config: ConfigPath,
    release_id: ReleaseId,
) -> None:
    """Give back what a run reserved that died before it drew any noise."""
    from hushrank.flows.config.survey import load_config
    from hushrank.flows.display import show_balance
    from hushrank.flows.run.budget import ledger_of
    from hushrank.flows.run.steps import abandon

    checked = load_config(config)
    ledger = ledger_of(checked)
    abandon(checked, ledger, release_id)
    show_balance(Console(), ledger.balance())


if __name__ == "__main__":
    main()
