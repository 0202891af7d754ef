"""Ctrl-C at any moment: no traceback, one sentence at most, exit code 130."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from tests.flows.bad_inputs.case import COMPARISONS, write, yaml_text

# At every so-manieth import a copy of the process is forked and gets SIGINT right there; the
# process itself goes on to the next. So one command is struck at all moments, at one's cost.
STRUCK = """
import json, os, signal, sys

every, parent, imports, ends = int(sys.argv[1]), os.getpid(), 0, {}


def strike(event, _):
    global imports
    if event != "import" or os.getpid() != parent:
        return
    imports += 1
    if imports % every:
        return
    child = os.fork()
    if child == 0:
        said = os.open(f"said-{imports}", os.O_WRONLY | os.O_CREAT)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.dup2(said, 2)
        signal.alarm(60)  # a copy that waits for a thread that it has not ends, and is seen
        signal.raise_signal(signal.SIGINT)
        return
    ends[imports] = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


sys.argv[1:] = sys.argv[2:]
from hushrank.__main__ import main

sys.addaudithook(strike)
try:
    main()
finally:
    with open("ends.json", "w") as file:
        json.dump(ends, file)
"""
SOME = 41  # imports from one strike to the next
FEWEST = 20  # strikes at the command


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path / "survey.yaml", yaml_text(COMPARISONS).encode())
    write(tmp_path / "answers.csv", b"user,left,right,outcome\np,ants,bees,1\n")
    return tmp_path


def test_ctrl_c_while_libraries_load_is_one_sentence_at_most(folder):
    words = ("ledger", "show", "survey.yaml", "--json")  # a copy has no thread and no child
    command = [sys.executable, "-c", STRUCK, str(SOME), *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    ends = json.loads((folder / "ends.json").read_text())
    assert len(ends) >= FEWEST
    assert set(ends.values()) == {130}
    for name in ends:
        said = (folder / f"said-{name}").read_text().splitlines()
        assert said in ([], ["Interrupted."], ["Interrupted: nothing was read or spent."]), name


def test_a_ctrl_c_that_is_ignored_stays_so(folder):
    ignored = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
    command = [sys.executable, "-c", ignored + STRUCK, str(4 * SOME), "--version"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.stdout.startswith("hushrank ")
    assert set(json.loads((folder / "ends.json").read_text()).values()) == {0}


def test_the_installed_command_begins_where_ctrl_c_is_obeyed():
    (script,) = entry_points(group="console_scripts", name="hushrank")
    assert script.value == "hushrank.__main__:main"
