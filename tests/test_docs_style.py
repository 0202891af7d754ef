"""Size of modules and functions, unfinished work, and what the documents link to and name."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

MOST_MODULE_LINES = 600  # of one concept
MOST_FUNCTION_LINES = 40  # after the docstring: it must fit on a screen
CODE = ("privacy", "estimation", "transforms", "pipelines", "flows", "experiments", "entry")
PLAIN_ROOMS = (  # rooms whose docstrings were rewritten in plain English; the list grows
    "flows/collecting",
    "flows/config",
    "flows/interfaces",
    "flows/ledger",
    "flows/planning",
    "pipelines/inspect",
    "transforms/storage",
    "transforms/tables",
)
STUMBLES = ("What", "How", "Of", "As", "That")  # first words of a docstring without its noun
UNFINISHED = re.compile(r"\b(TO[D]O|FIX[M]E|XX[X]|HA[C]K)\b|NotImplementedError[(][)]")
NAMED_VERSION = re.compile(r"\bhushrank[ -](\d+\.\d+\.\d+)")
MARKDOWN_LINK = re.compile(r"\]\((?!\w+:|#)([^)#\s]+)")


def source_files(checkout: Path) -> list[Path]:
    """Python files of the code folders."""
    return [path for folder in CODE for path in sorted((checkout / folder).rglob("*.py"))]


def tracked_text(checkout: Path) -> Iterator[tuple[str, str]]:
    """Name and text of every file that git tracks or would, where it is text."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=checkout, capture_output=True, check=False)
    if listed.returncode:
        pytest.skip("needs git, to tell source files from by-products")
    for name in listed.stdout.decode().split("\0"):
        path = checkout / name
        if path.is_file() and path.suffix in {".py", ".md", ".toml", ".yaml", ".yml", ".jinja", ""}:
            yield name, path.read_text()


def long_functions(source: str) -> list[str]:
    """Names of functions with too many lines, signature and docstring not counted."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            body = node.body[1:] if ast.get_docstring(node) else node.body
            if body and (body[-1].end_lineno or 0) - body[0].lineno + 1 > MOST_FUNCTION_LINES:
                found.append(node.name)
    return found


def stumbling_docstrings(source: str) -> list[str]:
    """First lines of docstrings that begin with one of `STUMBLES`."""
    documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    texts = [
        ast.get_docstring(node) or ""
        for node in ast.walk(ast.parse(source))
        if isinstance(node, documented)
    ]
    return [
        text.splitlines()[0]
        for text in texts
        if text.startswith(tuple(f"{each} " for each in STUMBLES))
    ]


def broken_links(document: Path) -> list[str]:
    """Relative links of a Markdown file that lead nowhere."""
    links = MARKDOWN_LINK.findall(document.read_text())
    return [link for link in links if not (document.parent / link).exists()]


def test_modules_and_functions_are_short(checkout: Path):
    sources = {path: path.read_text() for path in source_files(checkout)}
    assert len(sources) > 2 * len(CODE)
    long_modules = [
        str(path) for path, text in sources.items() if text.count("\n") > MOST_MODULE_LINES
    ]
    assert long_modules == []
    assert {str(path): long_functions(text) for path, text in sources.items()} == {
        str(path): [] for path in sources
    }


@pytest.mark.parametrize("room", PLAIN_ROOMS)
def test_docstrings_begin_with_a_sentence_or_a_noun(checkout: Path, room: str):
    sources = sorted((checkout / room).rglob("*.py"))
    assert len(sources) > 2
    found = {str(path): stumbling_docstrings(path.read_text()) for path in sources}
    assert {path: lines for path, lines in found.items() if lines} == {}


def test_nothing_is_left_unfinished(checkout: Path):
    texts = dict(tracked_text(checkout))
    assert len(texts) > 2 * len(CODE)
    assert [name for name, text in texts.items() if UNFINISHED.search(text)] == []


def test_links_between_documents_lead_somewhere(checkout: Path):
    documents = [*checkout.glob("*.md"), *sorted((checkout / "docs").rglob("*.md"))]
    assert {path.name for path in documents} > {"README.md", "CONTRIBUTING.md", "SECURITY.md"}
    assert {str(path): broken_links(path) for path in documents} == {
        str(path): [] for path in documents
    }


def test_architecture_names_files_and_rooms_that_exist(checkout: Path):
    page = (checkout / "docs" / "architecture.md").read_text()
    named = set(re.findall(r"`((?:\w+/)+\w+\.py)`", page))
    assert len(named) > 20
    assert [name for name in sorted(named) if not (checkout / name).is_file()] == []
    told = {
        room
        for cell in re.findall(r"^\| ([^|]+) \|", page, re.MULTILINE)
        for room in rooms_of(cell)
    }
    assert [room for room in sorted(told) if not list(checkout.glob(f"{room}*"))] == []
    here = {
        str(each.parent.relative_to(checkout))
        for code in CODE
        for each in checkout.glob(f"{code}/*/__init__.py")
        if code != "experiments"  # one room a paper
    }
    assert len(here) > 20
    assert sorted(here - told) == []
    steps = page.split("\n## One row, from file to release\n")[1].split("\n## ")[0]
    assert len(re.findall(r"^\d+\. ", steps, re.MULTILINE)) == 10


def rooms_of(cell: str) -> set[str]:
    """Paths that the first cell of a row of the map names; only the first has its folder."""
    first, *others = re.findall(r"`([a-z_/]+)`", cell) or [""]
    if "/" not in first:
        return set()
    return {
        first.rstrip("/"),
        *(f"{first.partition('/')[0]}/{each.rpartition('/')[2]}" for each in others),
    }


def test_the_readme_is_one_screen(checkout: Path):
    assert (checkout / "README.md").read_text().count("\n") <= 70


def test_documents_name_the_version_of_the_package(checkout: Path):
    version = tomllib.loads((checkout / "pyproject.toml").read_text())["project"]["version"]
    (newest, *_) = re.findall(r"^## (\S+),", (checkout / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest == version
    assert yaml.safe_load((checkout / "CITATION.cff").read_text())["version"] == version
    assert json.loads((checkout / "clients/js/package.json").read_text())["version"] == version
    pages = [*checkout.glob("*.md"), *(checkout / "docs").glob("*.md")]
    named = {found for page in pages for found in NAMED_VERSION.findall(page.read_text())}
    assert named == {version}


def test_the_quick_tests_are_there(checkout: Path):
    quick = (checkout / "Makefile").read_text().partition("\nQUICK := ")[2].partition("\n\n")[0]
    names = re.findall(r"tests/\S+", quick)
    assert len(names) > 15
    assert [name for name in names if not (checkout / name).exists()] == []


def test_the_forge_runs_what_every_change_must_pass(checkout: Path):
    files = {
        path.name: yaml.safe_load(path.read_text())
        for path in (checkout / ".github").rglob("*.yml")
    }
    steps = files["check.yml"]["jobs"]["run"]["steps"]
    assert [step["run"] for step in steps if "run" in step] == [".ci/run"]
    assert {"bug.yml", "idea.yml"} < set(files)
    (local,) = yaml.safe_load((checkout / ".pre-commit-config.yaml").read_text())["repos"]
    targets = (checkout / "Makefile").read_text()
    for hook in local["hooks"]:
        tool, what = hook["entry"].split()[:2]
        assert f"$(BIN)/{tool.removeprefix('.venv/bin/')} {what}" in targets or (
            tool == "make" and f"\n{what}: " in targets
        )


def test_a_long_function_is_found():
    lines = "\n".join("    x = 1" for _ in range(MOST_FUNCTION_LINES))
    assert long_functions(f"def short():\n{lines}") == []
    assert long_functions(f'def short():\n    """Words."""\n{lines}') == []
    assert long_functions(f"def long():\n{lines}\n    return x") == ["long"]


@pytest.mark.parametrize("first", STUMBLES)
def test_a_docstring_without_its_noun_is_found(first):
    source = f'''def variance():\n    """{first} the noise.\n\n    More.\n    """'''
    assert stumbling_docstrings(source) == [f"{first} the noise."]
    assert stumbling_docstrings(source.replace(first, f"{first}ever")) == []


def test_a_broken_link_is_found(tmp_path):
    (tmp_path / "there.md").write_text("")
    document = tmp_path / "document.md"
    document.write_text("[a](there.md#part) [b](gone.md) [c](https://example.org) [d](#here)")
    assert broken_links(document) == ["gone.md"]


@pytest.mark.parametrize("text", ["# {}: later".format("TO" + "DO"), "NotImplementedError" + "()"])
def test_unfinished_work_is_found(text):
    assert UNFINISHED.search(text)
