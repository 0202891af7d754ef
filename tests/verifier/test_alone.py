"""The verifier is one file that a stranger can read: it stands alone, of short functions."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hushrank.verifier import verify_release

SOURCE = Path(verify_release.__file__).read_text()
FORBIDDEN = {"eval", "exec", "compile", "open", "__import__"}
MOST_LINES, MOST_OF_A_FUNCTION = 5_600, 50
MOST_OF_TABLES = 800  # lines of fields and of sentences, which are looked up and not read


def imports(tree: ast.AST) -> set[str]:
    """Top names of all modules that are imported anywhere."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add((node.module or "").partition(".")[0])
    return found


def test_it_needs_the_standard_library_alone():
    found = imports(ast.parse(SOURCE))
    assert found <= set(sys.stdlib_module_names)
    assert not found & {"random", "socket", "subprocess", "urllib", "pickle"}


def test_nothing_that_it_reads_is_run():
    called = {
        node.func.id
        for node in ast.walk(ast.parse(SOURCE))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    assert not called & FORBIDDEN


def test_it_can_be_read_in_an_evening():
    texts = (n for n in ast.walk(ast.parse(SOURCE)) if isinstance(n, ast.Constant))
    tables = [n for n in texts if isinstance(n.value, str) and n.value.count("\n") > 40]
    lines = sum((n.end_lineno or 0) - n.lineno + 1 for n in tables)
    assert lines <= MOST_OF_TABLES
    assert SOURCE.count("\n") - lines <= MOST_LINES
    functions = [n for n in ast.walk(ast.parse(SOURCE)) if isinstance(n, ast.FunctionDef)]
    lengths = {n.name: (n.end_lineno or 0) - n.lineno + 1 for n in functions}
    assert {name: size for name, size in lengths.items() if size > MOST_OF_A_FUNCTION} == {}
    public = [n for n in functions if not n.name.startswith("_") and n.col_offset == 0]
    assert [n.name for n in public if not ast.get_docstring(n)] == []


def sparse(path: Path) -> None:
    path.touch()
    os.truncate(path, 1 << 40)


UNFIT = {
    "fifo": os.mkfifo,
    "zero": lambda path: path.symlink_to("/dev/zero"),
    "circle": lambda path: path.symlink_to(path.name),
    "sparse": sparse,
}


@pytest.mark.parametrize("kind", UNFIT)
def test_it_waits_for_nothing_and_reads_no_endless_file(tmp_path, kind):
    (tmp_path / "release").mkdir()
    UNFIT[kind](tmp_path / "unfit")
    asked = [["release", option, "unfit"] for option in ("--ledger", "--public-key", "--anchor")]
    if kind == "sparse":
        sparse(tmp_path / "release" / "release.json")
        asked = [["release"]]
    for words in asked:
        program = [sys.executable, "-I", "-S", verify_release.__file__, *words]
        done = subprocess.run(
            program, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60
        )
        assert done.returncode == 1
        assert len(done.stderr.splitlines()) == 1
        assert "unfit" in done.stderr or "release.json" in done.stderr
