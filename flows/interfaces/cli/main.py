"""The `hushrank` command. Everything slow is imported inside the command that needs it.

Ending of a command that failed: its error text and its exit code.
"""

from __future__ import annotations

import atexit
import errno
import gc
import json
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from datetime import UTC, date, datetime
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn

import typer
from rich.text import Text
from typer.core import TyperGroup
from typer.models import CommandInfo

from hushrank.flows.errors import (
    ConfigError,
    HushrankError,
    Interrupted,
    notes_of,
    problem_of_machine,
    refusal_of,
    text_of,
)
from hushrank.flows.interfaces.cli.arguments import (
    JSON_OPTION,
    Anyway,
    AsJson,
    ConfigPath,
    ThroughPrefect,
)
from hushrank.flows.interfaces.cli.night_commands import execution
from hushrank.flows.terminal import Console, print_everywhere, stop_as_ctrl_c
from hushrank.transforms.common.plain_text import short, short_message

if TYPE_CHECKING:
    from hushrank.flows.reading import Reader
    from hushrank.flows.run.context import Job
    from hushrank.flows.run.stages import Outcome


MOST_USAGE = 300  # longest text, in characters, that is shown in a box with the usage
RESERVING = (["run"], ["backfill"], ["catch-up"], ["resume"], ["serve"], ["survey", "demo"])
AFTER_FAILURE = (
    "What was reserved but not drawn is given back; if noise was drawn already, the same command"
    " publishes that release without spending again."
)


def reserves(words: Sequence[str]) -> bool:
    """Whether a command reserves budget, so that an error must say what happened to it."""
    return any(words[: len(each)] == each for each in RESERVING)


def after_failure(words: Sequence[str]) -> str:
    """Sentence on budget and data that remain after an error of the machine."""
    if words[:1] == ["collect"]:
        return "Answers that were acknowledged are kept. Run the same command again."
    return AFTER_FAILURE if reserves(words) else "Nothing was spent. Run the same command again."


def stop(error: Exception, text: str, exit_code: int, as_json: bool) -> NoReturn:
    """Print why the command failed, and exit."""
    if as_json:
        print_error(error, text, exit_code)
    # Escape characters as for printing: the escape of a letter that the locale lacks is longer.
    locale = sys.stderr.encoding or "utf-8"
    printed = short_message(text.encode(locale, "backslashreplace").decode(locale))
    Console(stderr=True).print(Text(printed, style="red"), soft_wrap=True)
    sys.exit(exit_code)


def stop_usage(error: Any, as_json: bool) -> NoReturn:
    """Show an error in the arguments as typer does, in a box with the usage."""
    text = short(error.format_message(), MOST_USAGE)
    if as_json:
        stop(error, text, 2, as_json)
    error.format_message = lambda: text
    if is_plain():
        error.show()
        sys.exit(error.exit_code)
    from typer.rich_utils import rich_format_error

    rich_format_error(error)
    sys.exit(error.exit_code)


def print_error(error: Exception, text: str, exit_code: int) -> None:
    """Print the JSON document of an error."""
    told = error if isinstance(error, HushrankError) and f"{error}" else None
    told = told or HushrankError(text, spent=getattr(error, "spent", None))
    what = {"kind": type(error).__name__, "message": short_message(text), "exit_code": exit_code}
    typer.echo(json.dumps({"error": {**what, **told.fields}}, indent=2))


PROGRAM = "hushrank"
ROOM = "hushrank.flows.interfaces.cli"
# new objects between two garbage collections; Python's default is 2,000 or less
NEW_OBJECTS = 200_000
Command = Callable[..., None]


def support(
    config: ConfigPath,
    to: Annotated[Path | None, typer.Option(help="The zip file to write.")] = None,
) -> None:
    """Write a support bundle: versions, configuration, ledger, log; no data. Spends nothing."""
    from hushrank.flows.watching.support import bundle_name, write_bundle

    path = to or Path(bundle_name(datetime.now(UTC)))
    write_bundle(config, path)
    Console().print(
        f"Wrote {path}. It contains no rows, counts or items' names, but it names files, columns"
        " and the population. Review it before you send it to anybody.",
        soft_wrap=True,
        markup=False,
    )


def dpia(
    config: ConfigPath,
    out: Annotated[Path, typer.Option(help="The file to write; none may be there.")] = Path(
        "dpia.md"
    ),
) -> None:
    """Write a data-protection impact assessment to complete: data, flow, guarantee, risks.

    It reads the YAML file alone, and spends nothing.
    """
    from hushrank.flows.interfaces.documents.assessment import OPEN, assessment
    from hushrank.flows.run.job import read_survey
    from hushrank.transforms.storage.places import write_whole

    text = assessment(read_survey(config, no_privacy=False, anyway=True))
    if out.exists():
        raise ConfigError(f"{out}: exists, and may have been completed; name another with --out")
    write_whole(str(out), text.encode())
    Console().print(
        f"Wrote {out}. {text.count(OPEN) - 1} places in it need a person who knows.",
        soft_wrap=True,
        markup=False,
    )


def reference() -> None:
    """Print every key of the YAML file: type, default, rule and meaning, in Markdown."""
    from hushrank.flows.config.reference import config_reference
    from hushrank.flows.methods.registry import facts_of_methods

    typer.echo(config_reference(facts_of_methods()), nl=False)


Night = Annotated[
    str | None,
    typer.Option("--date", metavar="DATE", help="The night to rank, such as 2026-11-20."),
]
NO_PRIVACY = typer.Option("--no-privacy", help="Allow epsilon: inf. The release is marked unsafe.")


def init(
    answers: Annotated[
        str,
        typer.Argument(
            metavar="ANSWERS",
            help="A Parquet, CSV, JSONL or PrefLib file, a folder of them, or a table.",
        ),
    ],
    out: Annotated[Path, typer.Option(help="The YAML file to write.")] = Path("survey.yaml"),
    kind: Annotated[
        str | None,
        typer.Option(help="comparisons, responses (test answers) or rankings; guessed by default."),
    ] = None,
    ask: Annotated[
        bool, typer.Option("--ask", help="Ask for settings that the file does not show.")
    ] = False,
) -> None:
    """Propose a survey.yaml from a file's header and first rows."""
    from hushrank.flows.planning.propose.head import source_of
    from hushrank.flows.planning.propose.proposal import (
        ask_for_answers,
        kind_named,
        propose_config,
        write_proposal,
    )

    say = partial(Console().print, soft_wrap=True, markup=False, highlight=False)
    asked, source = kind_named(kind), source_of(answers)
    if ask:
        proposal = ask_for_answers(source, out, asked, say, input)
    else:
        proposal = propose_config(source, out, asked)
    say(write_proposal(proposal, out))


def _night(day: str | None) -> date | None:
    if day is None:
        return None
    from hushrank.flows.config.schedule import day_of

    return day_of(day, "--date")


def validate(
    config: ConfigPath,
    day: Night = None,
    whole: Annotated[
        bool,
        typer.Option(
            "--files", help="Read all files to their end as well, and list those that are damaged."
        ),
    ] = False,
    no_privacy: Annotated[bool, NO_PRIVACY] = False,
    anyway: Anyway = False,
    as_json: AsJson = False,
) -> None:
    """Check everything that can be checked without counting a row or spending budget.

    If the survey is ranked night by night, this checks the files of the next night that is due, or
    of the last earlier night that has files.
    """
    night, console = _night(day), Console()
    from hushrank.flows.reading import Reader

    shown = nullcontext() if as_json else console.status(f"checking {config}")
    with shown, Reader() as reader:  # started first, because it loads as long as all the rest
        from hushrank.flows.assembly import check_ledger
        from hushrank.flows.display import check_notes, show_checks
        from hushrank.flows.nights.nights import job_to_check
        from hushrank.flows.run.input_files import heads_of
        from hushrank.flows.run.job import check_worth, drawn_before, prepare_job, read_survey
        from hushrank.flows.run.stream_night import check_turn

        survey = read_survey(config, no_privacy=no_privacy, anyway=anyway)
        if night is None and survey.config.nightly:
            job = job_to_check(survey, datetime.now(UTC))
        else:
            job = prepare_job(survey, night=night)
        check_worth(job)
        if whole:
            _check_whole(job, reader, Console(quiet=as_json))
        job.heads = heads_of(job.files, job.config, reader)
        ledger, inputs = job.ledger, job.planned_inputs
        if job.safe:
            in_stream = survey.config.schedule.stream is not None
            free = in_stream or drawn_before(job) is not None
            check_ledger(job.config, ledger, inputs, None if free else job.terms.spend)
            if in_stream:
                check_turn(job)
        balance = ledger.balance(inputs)
    if not as_json:
        show_checks(console, job, balance, whole=whole)
        return
    from hushrank.flows.interfaces.documents.runs import print_document, validate_document

    print_document(validate_document(job, balance, check_notes(job, whole=whole), whole=whole))


def _check_whole(job: Job, reader: Reader, console: Console) -> None:
    from hushrank.flows.progress import Lines, Progress
    from hushrank.flows.run.input_files import check_whole

    def say(sentence: str) -> None:
        console.print(Text(sentence), soft_wrap=True)

    reader.watch = Lines(Progress(job.files), say).told
    check_whole(job.files, job.config, reader, say)


def run(
    config: ConfigPath,
    prefect: ThroughPrefect = None,
    day: Night = None,
    again: Annotated[
        bool,
        typer.Option(
            "--again", help="Draw new noise for an existing release; this costs budget again."
        ),
    ] = False,
    no_privacy: Annotated[bool, NO_PRIVACY] = False,
    unsafe_seed: Annotated[
        int | None,
        typer.Option(
            help="Draw all noise from this seed, for a test. The release is marked unsafe."
        ),
    ] = None,
    anyway: Anyway = False,
    plan_only: Annotated[
        bool,
        typer.Option(
            "--plan", help="Print the stages, and what each reads and writes, without running any."
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Rank privately: check, reserve budget, reduce, draw noise, estimate, publish."""
    if again and (no_privacy or unsafe_seed is not None):
        raise ConfigError(
            "--again makes a release that the ledger counts; --unsafe-seed and --no-privacy make"
            " one that it does not count. Leave one of them out. Nothing was read or spent."
        )
    night = _night(day)
    if plan_only:
        _show_stages(config, night, no_privacy, unsafe_seed, anyway, as_json)
        return
    with execution(config, prefect, as_json=as_json) as execute:
        from hushrank.flows.run.job import prepare_job, read_survey

        survey = read_survey(config, no_privacy=no_privacy, anyway=anyway)
        if night is None or unsafe_seed is not None or no_privacy:
            outcome = execute(prepare_job(survey, seed=unsafe_seed, night=night, again=again))
        else:
            from hushrank.flows.nights.nights import run_night

            outcome = run_night(survey, night, datetime.now(UTC), execute, again=again)
    _show_outcome(outcome, as_json)


def _show_stages(
    config: Path,
    night: date | None,
    no_privacy: bool,
    seed: int | None,
    anyway: bool,
    as_json: bool,
) -> None:
    from hushrank.flows.reading import Reader

    with Reader() as reader:
        from hushrank.flows.run.input_files import heads_of
        from hushrank.flows.run.job import prepare_job, read_survey

        survey = read_survey(config, no_privacy=no_privacy, anyway=anyway)
        job = prepare_job(survey, seed=seed, night=night)
        heads_of(job.files, job.config, reader)
    if as_json:
        from hushrank.flows.interfaces.documents.runs import print_document, stages_document

        print_document(stages_document(job))
        return
    from hushrank.flows.interfaces.documents.runs import show_stages

    show_stages(Console(), job)


def _show_outcome(outcome: Outcome, as_json: bool) -> None:
    if as_json:
        from hushrank.flows.interfaces.documents.runs import print_document, run_document

        print_document(run_document(outcome))
        return
    from hushrank.flows.display import show_outcome

    show_outcome(Console(), outcome)


FIRST = "First steps, in this order"
NIGHTS = "A release every night"
COLLECTING = "Private answers from a page"
KEPT = "Releases and their budget"
TOOLS = "Tools"
COMMANDS: dict[str, dict[str, Command | str]] = {  # commands by panel, in the order of the help
    FIRST: {
        "init": init,
        "validate": validate,
        "plan": "plan_command.plan",
        "run": run,
        "inspect": "inspect_command.inspect",
        "app": "app_command.app",
    },
    NIGHTS: {
        "backfill": "night_commands.backfill",
        "catch-up": "night_commands.catch_up",
        "serve": "schedule_commands.serve",
        "deploy": "schedule_commands.deploy",
    },
    COLLECTING: {"collect": "survey_command.collect"},
    KEPT: {
        "history": "history_commands.history",
        "export": "history_commands.export",
        "verify": "history_commands.verify_release",
        "board": "board_command.board",
        "estimate": "estimate_command.estimate",
        "pool": "estimate_command.pool",
        "next-pairs": "estimate_command.next_pairs",
        "drift": "estimate_command.drift",
        "rank-for": "estimate_command.rank_for",
        "resume": "night_commands.resume",
        "clean": "backup_commands.clean",
        "backup": "backup_commands.backup",
        "restore": "backup_commands.restore",
        "support": support,
    },
    TOOLS: {
        "simulate": "simulate_command.simulate",
        "privatize": "privatize_command.privatize",
        "score": "estimate_command.score",
        "attack": "attack_command.attack",
        "audit": "attack_command.audit",
        "dpia": dpia,
        "reproduce": "simulate_command.reproduce",
        "reference": reference,
    },
}
LEDGER_COMMANDS: dict[str, Command | str] = {
    name: f"ledger_commands.{name}"
    for name in ("show", "forecast", "verify", "export", "key", "terms", "cancel", "recover")
}
SURVEY_COMMANDS: dict[str, Command | str] = {
    name: f"survey_command.{name}" for name in ("build", "tokens", "demo")
}


class Late(CommandInfo):
    """A command that is imported when it is built: because it is called, or for the help."""

    def __init__(self, name: str, command: Command | str, panel: str | None = None) -> None:
        super().__init__(name, rich_help_panel=panel)
        self.command = command
        del self.callback  # so that whoever asks for it comes to `__getattr__`

    def __getattr__(self, name: str) -> Command:
        if name != "callback":
            raise AttributeError(name)
        if callable(self.command):
            return self.command
        module, _, function = self.command.partition(".")
        found: Command = getattr(import_module(f"{ROOM}.{module}"), function)
        return found


class Commands(TyperGroup):
    """Group of commands."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """List each command with its first sentence, which would be cut off, in plain help."""
        found = ((name, self.get_command(ctx, name)) for name in self.list_commands(ctx))
        rows = [(name, _summary(each.help)) for name, each in found if each is not None]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


def _summary(text: str | None) -> str:
    return " ".join((text or "").split("\n\n", 1)[0].split())


class InOrder(Commands):
    """Group that lists commands by panel; by default, subgroups such as `ledger` would come
    first."""

    def invoke(self, ctx: typer.Context) -> None:  # type: ignore[override]
        """Run a command.

        Raises:
            Interrupted: Ctrl-C was pressed; the text is what was left, empty if nobody knows.
        """
        try:
            super().invoke(ctx)
        except KeyboardInterrupt as stop:
            raise Interrupted(notes_of(stop), spent=getattr(stop, "spent", None)) from None

    def list_commands(self, ctx: typer.Context) -> list[str]:  # type: ignore[override]
        """Names of commands, in the order of the help."""
        names = [name for commands in COMMANDS.values() for name in commands]
        names.insert(names.index("history"), "ledger")
        names.insert(names.index("collect"), "survey")
        return names


def is_plain() -> bool:
    """Whether help and errors are plain lines, without boxes that a screen reader would spell out.

    So they are in a terminal that calls itself dumb, and with TYPER_USE_RICH=0.
    """
    return os.environ.get("TERM") == "dumb" or os.environ.get("TYPER_USE_RICH") == "0"


MARKUP: Literal["rich"] | None = None if is_plain() else "rich"
app = typer.Typer(
    name=PROGRAM,
    rich_markup_mode=MARKUP,
    cls=InOrder,
    no_args_is_help=True,
    pretty_exceptions_enable=False,  # pretty exceptions would print local variables
)
of_group: dict[str, Any] = {
    "cls": Commands,
    "no_args_is_help": True,
    "rich_markup_mode": MARKUP,
}
ledger_app = typer.Typer(help="Look at a population's privacy budget.", **of_group)
app.add_typer(ledger_app, name="ledger", rich_help_panel=KEPT)
survey_app = typer.Typer(help="Ask people on a page that privatises answers.", **of_group)
app.add_typer(survey_app, name="survey", rich_help_panel=COLLECTING)
app.registered_commands += [
    Late(name, command, panel)
    for panel, commands in COMMANDS.items()
    for name, command in commands.items()
]
ledger_app.registered_commands += [Late(*each) for each in LEDGER_COMMANDS.items()]
survey_app.registered_commands += [Late(*each) for each in SURVEY_COMMANDS.items()]


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"{PROGRAM} {version(PROGRAM)}")
        raise typer.Exit


@app.callback()
def options(
    show_version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Rank things from people's answers without exposing any one person."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point. Exit codes: 0 ok, 2 bad configuration or input, 3 budget refused, 4 stopped by a
    look at the rows, 130 interrupted, 1 other.
    """
    print_everywhere()
    stop_as_ctrl_c()
    words = list(sys.argv[1:] if arguments is None else arguments)
    if arguments is None:  # the command line's own process
        _collect_rarely()
        _start_soon(words)
    as_json = JSON_OPTION in words
    try:
        exit_code = app(words, prog_name=PROGRAM, standalone_mode=False)
    except Interrupted as error:
        left = f"{error}" or (AFTER_FAILURE if reserves(words) else "")
        stop(error, f"Interrupted. {left}".strip(), error.exit_code, as_json)
    except HushrankError as error:
        stop(error, text_of(error), error.exit_code, as_json)
    except typer.Abort as error:
        stop(error, "Interrupted.", Interrupted.exit_code, as_json)
    except Exception as error:  # libraries wrap errors of the machine in all kinds of errors
        if hasattr(error, "format_message"):  # typer's error for wrong arguments
            stop_usage(error, as_json)
        if refusal := refusal_of(error):
            stop(refusal, f"{refusal}", refusal.exit_code, as_json)
        if isinstance(error, OSError) and error.errno in (errno.ENAMETOOLONG, errno.ELOOP):
            name = short(str(error.filename or "a name"))
            text = f"{name}: {error.strerror}. Name another file; nothing was spent."
            stop(error, text, 2, as_json)
        problem = problem_of_machine(error)
        if problem is None:  # a fault in the program: show its traceback
            if as_json:
                print_error(error, "An unforeseen error; standard error has the details.", 1)
            raise
        stop(error, f"{problem} {notes_of(error) or after_failure(words)}", 1, as_json)
    if exit_code:
        sys.exit(exit_code)


def _collect_rarely() -> None:
    """Make garbage collection rare, and skip it at exit: it takes a quarter of a short command's
    time.

    Nearly all objects of a command belong to modules, which stay.
    """
    gc.set_threshold(NEW_OBJECTS)
    atexit.register(gc.freeze)


def _start_soon(words: Sequence[str]) -> None:
    """Leave out what no command needs, each for 15 to 25 ms.

    Pydantic would look for plugins in the metadata of all installed packages, and Typer would build
    every command.
    """
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    commands = [each for each in app.registered_commands if each.name in words[:1]]
    groups = [each for each in app.registered_groups if each.name in words[:1]]
    if commands or groups:
        app.registered_commands, app.registered_groups = commands, groups


if __name__ == "__main__":
    main()
