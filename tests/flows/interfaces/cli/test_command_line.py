"""The command as a whole: help, version, completion, what comes first, ids that stay whole."""

from __future__ import annotations

import errno
import io
import os
import re
import subprocess
import sys
from importlib.metadata import version

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from hushrank.flows.errors import Interrupted
from hushrank.flows.interfaces.cli.main import COMMANDS, FIRST, NEW_OBJECTS, app, main
from hushrank.flows.terminal import Console, print_records

HEAVY = ("apache_beam", "matplotlib", "numpy", "prefect", "pyarrow", "scipy", "yaml")


def hushrank(*words: object, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "hushrank", *map(str, words)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=840,
    )


def test_the_first_steps_come_first_and_every_command_is_in_a_panel():
    printed = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "100", "NO_COLOR": "1"}).stdout
    listed = re.findall(r"^│ ([a-z-]+) +\S", printed, flags=re.MULTILINE)
    listed = [name for name in listed if not name.startswith("-")]
    assert listed[:4] == ["init", "validate", "plan", "run"]
    titles = re.findall(r"^╭─ (.+?) ─", printed, flags=re.MULTILINE)
    assert titles == ["Options", *COMMANDS]
    assert titles[1] == FIRST
    known = {name for commands in COMMANDS.values() for name in commands}
    assert set(listed) == known | {"ledger", "survey"}
    assert len(listed) == len(set(listed))


def test_the_version_is_that_of_the_distribution():
    printed = CliRunner().invoke(app, ["--version"])
    assert (printed.exit_code, printed.stdout) == (0, f"hushrank {version('hushrank')}\n")


@pytest.mark.parametrize(
    ("typed", "completed"),
    [("hushrank va", {"validate"}), ("hushrank ledger re", {"recover"}), ("hushrank r", {
        "run", "rank-for", "resume", "restore", "reproduce", "reference"})],
)  # fmt: skip
def test_bash_completes_commands(typed, completed):
    number = len(typed.split()) - 1
    asked = {"_HUSHRANK_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": f"{number}"}
    assert set(hushrank(**asked).stdout.split()) == completed


def test_bash_takes_the_script_of_the_completion(tmp_path):
    """What --show-completion prints makes bash itself complete."""
    printed = hushrank(_HUSHRANK_COMPLETE="source_bash")
    script = tmp_path / "completion.sh"
    script.write_text(printed.stdout)
    bash = ["bash", "-c", f"source {script} && complete -p hushrank"]
    told = subprocess.run(bash, capture_output=True, text=True, check=True)
    assert "_hushrank_completion hushrank" in told.stdout


LOADED = """
import sys
from hushrank.flows.interfaces.cli import main, night_commands
def first(console, name, says):
    print(name, says, *sorted({heavy} & set(sys.modules)))
    sys.exit(9)
night_commands._show_step = first
main.main(sys.argv[1:])
"""


def test_a_run_says_something_before_it_loads_anything_heavy(tmp_path):
    script = LOADED.format(heavy=set(HEAVY))
    words = [sys.executable, "-c", script, "run", str(tmp_path / "survey.yaml")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=840)
    assert (done.returncode, done.stdout) == (9, f"check {tmp_path / 'survey.yaml'}\n")


def test_a_check_loads_no_engine():
    """Apache Beam and parts of scipy take longer to load than everything else together."""
    script = (
        "import sys; from hushrank.flows import reading; from hushrank.flows.run import job;"
        " print(*{'apache_beam', 'scipy.signal', 'scipy.stats'} & set(sys.modules))"
    )
    words = [sys.executable, "-c", script]
    done = subprocess.run(words, capture_output=True, text=True, timeout=840)
    assert (done.returncode, done.stdout) == (0, "\n")


STARTED = """
import gc, sys
from hushrank.flows.interfaces.cli.main import main
try:
    main({arguments})
except SystemExit:
    pass
print(gc.get_threshold()[0] == {number})
"""


@pytest.mark.parametrize(("arguments", "own"), [("", True), ("['--version']", False)])
def test_garbage_is_looked_for_rarely_in_a_process_of_its_own_alone(arguments, own):
    """A program that calls the command keeps what it has chosen."""
    script = STARTED.format(arguments=arguments, number=NEW_OBJECTS)
    words = [sys.executable, "-c", script, "--version"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=840)
    assert done.stdout.splitlines()[1:] == [str(own)]


ID = "d96823fd2b11476f"
WORDS = st.text("abcdefghij- ", max_size=60)


@given(
    width=st.integers(20, 200),
    cells=st.lists(st.tuples(WORDS, WORDS, WORDS), min_size=1, max_size=4),
)
def test_no_word_is_split_in_any_terminal(width, cells):
    file = io.StringIO()
    rows = [("2026-11-22 12:04:47", ID, *row) for row in cells]
    headings = ("time (UTC)", "release", "state", "cost", "note")
    print_records(Console(file=file, width=width), headings, rows)
    printed = file.getvalue()
    wanted = [word for row in rows for cell in row for word in cell.split()]
    assert [word for word in wanted if word not in printed.split()] == []
    assert printed.split().count(ID) == len(rows)
    if "time (UTC): " not in printed:  # a table, which fits
        assert max(map(len, printed.splitlines())) <= width


@pytest.mark.parametrize("width", [24, 40, 60, 80, 120])
def test_ids_are_whole_in_what_the_commands_print(survey, command, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", f"{width}")
    assert command("run", survey.config, "--direct")[0] == 0
    for words in (("ledger", "show", survey.config), ("history", survey.config)):
        code, printed = command(*words)
        assert code == 0
        assert re.findall(r"\b[0-9a-f]{16}\b", printed) == [survey.archived()[0].name[-16:]]


@pytest.mark.parametrize(
    ("words", "reserves"),
    [
        *((each, True) for each in (["run", "a.yaml"], ["catch-up", "a.yaml"], ["survey", "demo"])),
        *((each, False) for each in (["plan"], ["history", "out"], ["ledger", "show"], ["init"])),
        *((each, False) for each in (["collect"], ["survey", "build"], ["privatize", "a.csv"])),
    ],
)
@pytest.mark.parametrize("error", [OSError(errno.EIO, "Input/output error"), Interrupted()])
def test_only_a_command_that_reserves_speaks_of_reservations(
    words, reserves, error, monkeypatch, capsys
):
    def broken(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("hushrank.flows.interfaces.cli.main.app", broken)
    with pytest.raises(SystemExit) as stop:
        main(words)
    assert stop.value.code == (130 if isinstance(error, Interrupted) else 1)
    printed = capsys.readouterr().err
    assert ("What was reserved but not drawn is given back" in printed) == reserves


def test_a_broken_pipe_ends_no_command():
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as file:
        console = Console(file=file)
        for _ in range(2):
            console.print("a step\n" * 10_000)
    assert console.quiet


@pytest.mark.parametrize("plain", [{"TERM": "dumb"}, {"TYPER_USE_RICH": "0"}])
def test_help_is_plain_on_request_and_whole(plain):
    """A screen reader would spell out the lines of boxes; typer would cut descriptions off."""

    def said(*words: str) -> str:
        asked = [sys.executable, "-m", "hushrank", *words]
        environment = {**os.environ, "COLUMNS": "80", **plain}
        done = subprocess.run(asked, env=environment, capture_output=True, text=True)
        return done.stdout + done.stderr

    for words in (("--help",), ("ledger", "--help"), ("run", "--help"), ("run", "--nope")):
        shown = said(*words)
        assert "Usage: hushrank" in shown
        assert not re.search("[\\u2500-\\u257f]|[a-z]\\.\\.\\.\\n", shown)
    assert "Error: No such option: --nope" in said("run", "--nope")
    assert "reserve budget, reduce, draw noise," in said("--help")
