"""Hundreds of bad inputs: each is one sentence, exit code 2, nothing written and nothing spent.

`make test` runs a sample with some of every family; `make soak` runs them all.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path

import pytest

from tests.flows.bad_inputs.case import CANARY, COMPARISONS, Case, unique, write, yaml_text
from tests.flows.bad_inputs.commands import command_cases
from tests.flows.bad_inputs.files import FILE_CASES
from tests.flows.bad_inputs.values import pair_cases, value_cases

MOST_LINES, MOST_CHARACTERS = 13, 2400  # a line for each of the first twelve problems
SAMPLE = 60
LOCKS = ("ledger.jsonl.runs", "ledger.jsonl.lock")

CASES = unique(
    list(chain(value_cases(), pair_cases(), command_cases(), *(each() for each in FILE_CASES)))
)


def sample() -> list[Case]:
    """Some of every family: the same in every run, and spread over what each holds."""
    families: dict[str, list[Case]] = {}
    for case in sorted(CASES, key=lambda case: hashlib.sha256(case.key.encode()).digest()):
        families.setdefault(case.family, []).append(case)
    each = -(-SAMPLE // len(families))
    return [case for name in sorted(families) for case in families[name][:each]]


def snapshot(folder: Path) -> dict[str, str]:
    """What is in a folder, by path, apart from the locks that every look at a ledger takes."""
    found = {str(path.relative_to(folder)): _content(path) for path in sorted(folder.rglob("*"))}
    return {name: content for name, content in found.items() if not name.startswith(LOCKS)}


def _content(path: Path) -> str:
    if path.is_symlink():
        return f"link to {path.readlink()}"
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "folder"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A good survey, in the folder in which commands are given."""
    write(tmp_path / "survey.yaml", yaml_text(COMPARISONS).encode())
    rows = "".join(f"{CANARY},{pair},1\n" for pair in ("ants,bees", "bees,cats", "cats,dogs"))
    write(tmp_path / "answers.csv", f"user,left,right,outcome\n{rows}".encode())
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    return tmp_path


def check(case: Case, folder: Path, command: Callable[..., tuple[int, str]]) -> None:
    case.prepare(folder)
    before = snapshot(folder)
    code, printed = command(*case.command)
    assert code == 2, printed
    assert snapshot(folder) == before, "something was written"
    assert "Traceback" not in printed
    assert CANARY not in printed
    assert printed.strip(), "nothing was said"
    assert len(printed) <= MOST_CHARACTERS
    assert len(printed.splitlines()) <= MOST_LINES
    assert not [each for each in printed if each != "\n" and not each.isprintable()], printed
    assert case.says in printed


def test_the_corpus_is_large_and_every_family_is_in_the_sample():
    assert len(CASES) >= 600
    assert {case.family for case in sample()} == {case.family for case in CASES}


def test_the_survey_that_cases_make_bad_is_good(folder, command):
    code, printed = command("validate", "survey.yaml")
    assert (code, "Valid." in printed) == (0, True), printed


@pytest.mark.parametrize("case", sample(), ids=lambda case: case.key)
def test_a_bad_input_is_one_sentence(case, folder, command):
    check(case, folder, command)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Thousands of tests, which every worker would make, are made where they are asked for."""
    if "any_case" in metafunc.fixturenames:
        cases = CASES if metafunc.config.getoption("--soak") else []
        metafunc.parametrize("any_case", cases, ids=lambda case: case.key)


@pytest.mark.soak
def test_every_bad_input_is_one_sentence(any_case, folder, command):
    check(any_case, folder, command)
