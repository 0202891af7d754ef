"""What other systems leave out of the suite is named in one place, and nothing is forgotten."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
import yaml

from hushrank.flows.config.section import MOST_PATH_BYTES, ROOM_IN_A_FOLDER
from tests.conftest import ROOT, pytest_ignore_collect
from tests.systems import LINUX_ALONE, NOT_ON_WINDOWS, left_out

# Names that Python on Windows does not have, and what the tests there cannot ask of files.
POSIX = re.compile(
    r"import (fcntl|resource|pwd|grp)\b|os\.(killpg|mkfifo|fork|geteuid|pread|pwrite|setsid)\b"
    r"|signal\.(SIGKILL|SIGHUP|SIGSTOP|pthread_sigmask)|st_mode|chmod\(|\"/proc/"
)


def test_every_name_is_a_test_and_no_test_that_needs_posix_is_forgotten(checkout: Path) -> None:
    assert not LINUX_ALONE.keys() & NOT_ON_WINDOWS.keys()
    names = left_out("win32")
    assert [name for name in names if not (checkout / name).exists()] == []
    needs = {
        path.relative_to(checkout).as_posix()
        for path in (checkout / "tests").rglob("test_*.py")
        if POSIX.search(path.read_text("utf-8")) and path != Path(__file__).resolve()
    }
    assert [one for one in sorted(needs) if not any(one.startswith(name) for name in names)] == []


# What the module of Windows leaves undone, and the words of the table that say so to users.
UNDONE = {
    "flush_folder": "the names of new files survive a power failure",
    "mark_read_only": "a published release is marked read-only",
    "memory_file": "stay in memory as far as it suffices",
    "set": "is stopped at `memory_limit`",
    "address_space": "is stopped at `memory_limit`",
    "end_group": "a service or task that is ended is killed",
    "leave_no_core_file": "a crash of a parser leaves no file with rows",
    "replace": "waits five seconds for it",
    # Nothing that users are promised: Windows has no such limit and no file system in memory, and
    # a thread waits for the parent.
    **dict.fromkeys(("allow_open_files", "is_in_memory", "ends_with_parent"), ""),
}


def test_the_table_for_users_is_what_the_modules_of_systems_do(checkout: Path) -> None:
    room = checkout / "transforms" / "system"
    windows, posix = ((room / f"{name}.py").read_text("utf-8") for name in ("windows", "posix"))
    undone = {
        node.name
        for node in ast.walk(ast.parse(windows))
        if isinstance(node, ast.FunctionDef)
        and ast.get_docstring(node)
        and [ast.unparse(each) for each in node.body[1:]] in ([], ["return None"], ["return False"])
    }
    assert undone <= UNDONE.keys()
    page = (checkout / "docs" / "installing.md").read_text("utf-8")
    table = page[page.index("| promise | Linux") :].partition("\n\n")[0]
    assert [words for words in UNDONE.values() if words not in table] == []
    assert "_PATIENCE = 5.0" in windows
    assert f"{MOST_PATH_BYTES:,} bytes" in table
    (longest,) = re.findall(r"_USUAL_LONGEST_PATH = 32_760, (\d+)", windows)
    assert f"{longest} characters, unless" in table
    assert f"needs {ROOM_IN_A_FOLDER} of them" in table
    (on_macos,) = re.findall(r'"linux" else (\d+)  # PATH_MAX', posix)
    assert f"{int(on_macos):,} bytes" in table


def test_no_date_is_written_in_a_form_that_windows_refuses(checkout: Path) -> None:
    """`%-d`: there, a page with such a date would end a run that is paid for."""
    code = [
        path
        for room in ("entry", "estimation", "flows", "pipelines", "privacy", "transforms")
        for ending in ("py", "jinja", "html")
        for path in (checkout / room).rglob(f"*.{ending}")
    ]
    assert len(code) > 300
    assert [path for path in code if re.search(r"%-[a-zA-Z]", path.read_text("utf-8"))] == []


@pytest.mark.parametrize(
    ("system", "ledger", "collecting"),
    [("linux", None, None), ("darwin", None, True), ("win32", True, True)],
)
def test_a_system_collects_what_is_not_left_out(monkeypatch, system, ledger, collecting) -> None:
    monkeypatch.setattr("sys.platform", system)
    places = ("flows/ledger/test_key.py", "flows/collecting", "flows/config/test_places.py")
    found = [pytest_ignore_collect(ROOT / "tests" / place) for place in places]
    assert found == [ledger, collecting, None]


def test_the_workflow_runs_the_suite_on_three_systems(checkout: Path) -> None:
    workflow = yaml.safe_load((checkout / ".github/workflows/check.yml").read_text("utf-8"))
    systems = workflow["jobs"]["systems"]
    assert [each.split("-")[0] for each in systems["strategy"]["matrix"]["os"]] == [
        "macos",
        "windows",
    ]  # Linux runs all of it: .ci/run
    assert any("pytest" in step.get("run", "") for step in systems["steps"])
    assert workflow["jobs"]["run"]["steps"][-1]["run"] == ".ci/run"
