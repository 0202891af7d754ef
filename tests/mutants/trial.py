"""Plants mutants in copies of the tree and runs there what must catch them.

The working tree is only read. In a copy, `hushrank` is a folder of links to the copy's rooms, which
comes before the installed package on the path, as in `make types`. A process for each mutant comes
from a server that has loaded the libraries, and nothing of ours, once: that saves 8 s a mutant.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from enum import StrEnum
from multiprocessing.connection import Connection
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from tests.mutants.catalogue import CODE, Mutant

MOST_SECONDS = 300.0  # of one mutant's tests; what takes longer catches nothing
LIBRARIES = (
    *("absl.logging", "anyio.pytest_plugin", "apache_beam", "dp_accounting.pld"),
    *("dp_accounting.rdp", "cryptography.hazmat.primitives.ciphers", "hypothesis.strategies"),
    *("jinja2", "opendp.measurements", "pandas", "prometheus_client"),
    *("pyarrow.parquet", "pydantic", "pytest", "rich.console", "scipy.optimize", "scipy.signal"),
    *("scipy.sparse.linalg", "scipy.stats", "typer", "yaml"),
)
# With these a program stops and no test has found anything: the mutant is badly written.
NO_FINDINGS = {
    *("AttributeError", "ImportError", "IndentationError", "ModuleNotFoundError", "NameError"),
    *("SyntaxError", "TypeError"),
}


class Verdict(StrEnum):
    """What became of a mutant."""

    CAUGHT = "caught"  # every test that must fail did, by an assertion or an error of the product
    SURVIVED = "SURVIVED"  # one of them passed
    SLOW = "TOO SLOW"  # they were not over in time, which catches nothing
    BROKEN = "BROKEN"  # they could not be run, or failed for another reason than the bug


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one test ended.

    Attributes:
        test: its node id.
        passed: whether it passed.
        found: whether it failed, and by what finds a bug.
        raised: name of the exception.
        seconds: how long it took.
    """

    test: str
    passed: bool
    found: bool
    raised: str = ""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Session:
    """One run of pytest: its exit code, None where it was stopped, and what it says at its end."""

    code: int | None
    outcomes: tuple[Outcome, ...]
    output: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Result:
    """The verdict on a mutant, and the run of tests that it rests on."""

    mutant: Mutant
    verdict: Verdict
    session: Session


class Recorder:
    """A plugin of pytest that keeps what the verdict needs."""

    def __init__(self) -> None:
        self.outcomes: list[Outcome] = []

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
        """Keep each call of a test, and each fixture that did not work."""
        report = yield
        if report.when == "call" or not report.passed:
            raised = "" if call.excinfo is None else call.excinfo.typename
            found = report.failed and report.when == "call" and raised not in NO_FINDINGS
            outcome = Outcome(item.nodeid, report.passed, found, raised, report.duration)
            self.outcomes.append(outcome)
        return report


class Copy:
    """A copy of the tree in which one mutant at a time is planted."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.root, self.path = folder / "tree", folder / "path"
        self.output = folder / "output"
        ignored = shutil.ignore_patterns("node_modules", ".*")
        for name in (*CODE, "verifier", "tests"):
            shutil.copytree(root / name, self.root / name, ignore=ignored)
        shutil.copy(root / "pyproject.toml", self.root)
        package = self.path / "hushrank"
        package.mkdir(parents=True)
        rooms = (self.root / name for name in (*CODE[:-1], "verifier"))  # some tests verify
        for room in [*(self.root / "entry").iterdir(), *rooms]:
            (package / room.name).symlink_to(room)

    @contextmanager
    def planted(self, mutant: Mutant) -> Iterator[None]:
        """With the bug, for a while."""
        path = self.root / mutant.file
        source = path.read_text()
        try:
            _write(path, mutant.planted(source))
            yield
        finally:
            _write(path, source)

    def run(self, tests: Sequence[str], most_seconds: float = MOST_SECONDS) -> Session:
        """Run `tests` of this copy, in a process of their own."""
        ours, theirs = multiprocessing.Pipe(duplex=False)
        arguments = (str(self.root), str(self.path), str(self.output), list(tests), theirs)
        started = time.monotonic()
        process = SERVER.Process(target=_run_pytest, args=arguments)
        process.start()
        theirs.close()
        code, found = None, list[tuple[Any, ...]]()
        try:
            if ours.poll(most_seconds):
                code, found = ours.recv()
            else:
                process.kill()
        except EOFError:  # it ended without a word
            code = -1
        process.join()
        output = self.output.read_text(errors="replace") if self.output.exists() else ""
        outcomes = tuple(Outcome(*each) for each in found)
        return Session(code, outcomes, output, time.monotonic() - started)


def _server() -> Any:
    server = multiprocessing.get_context("forkserver")
    server.set_forkserver_preload(list(LIBRARIES))
    return server


SERVER = _server()


def _write(path: Path, text: str) -> None:
    path.write_text(text)
    for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
        compiled.unlink()  # known by time and size of the source, which a mutant can share


def _run_pytest(root: str, path: str, output: str, tests: list[str], answer: Connection) -> None:
    """Run in a process that has loaded nothing of ours but this module."""
    for name in [name for name in sys.modules if name.split(".")[0] in {"tests", "hushrank"}]:
        del sys.modules[name]
    os.chdir(root)
    here = str(Path(__file__).resolve().parents[2])
    sys.path[:] = [path, root, *(each for each in sys.path if each not in ("", here))]
    os.environ["PYTHONPATH"] = f"{path}:{root}"  # of the processes that tests start
    for name in [name for name in os.environ if name.startswith("PYTEST_")]:
        del os.environ[name]  # of the tests that plant mutants
    with open(output, "wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    recorder = Recorder()
    options = ["-q", "--no-header", "-p", "no:cacheprovider", "-p", "no:xdist"]
    code = pytest.main([*options, *tests], plugins=[recorder])
    sys.stdout.flush()
    answer.send((int(code), [astuple(outcome) for outcome in recorder.outcomes]))


def verdict_of(tests: Iterable[str], session: Session) -> Verdict:
    """What `session`, a run of `tests` on a mutant, says of it."""
    if session.code is None:
        return Verdict.SLOW
    if session.code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        return Verdict.BROKEN
    if any(not (outcome.passed or outcome.found) for outcome in session.outcomes):
        return Verdict.BROKEN
    found = [outcome.test for outcome in session.outcomes if outcome.found]
    caught = all(any(_is_case(each, test) for each in found) for test in tests)
    return Verdict.CAUGHT if caught else Verdict.SURVIVED


def _is_case(node: str, test: str) -> bool:
    return node == test or node.startswith(f"{test}[")


def unready(tests: Sequence[str], session: Session) -> list[str]:
    """Those of `tests` that did not pass, every case of them, on the tree as it is."""
    if session.code != pytest.ExitCode.OK:
        failed = [outcome.test for outcome in session.outcomes if not outcome.passed]
        return failed or [*tests]
    passed = [outcome.test for outcome in session.outcomes if outcome.passed]
    return [test for test in tests if not any(_is_case(node, test) for node in passed)]


def try_mutant(copy: Copy, mutant: Mutant) -> Result:
    """Plant `mutant` in `copy`, run its tests, and take it out again."""
    with copy.planted(mutant):
        session = copy.run(mutant.tests)
    return Result(mutant, verdict_of(mutant.tests, session), session)


def try_all(
    chosen: Sequence[Mutant], copies: Sequence[Copy], told: Callable[[Result], None]
) -> list[Result]:
    """Try mutants side by side, one at a time in each copy; `told` hears of each result."""
    free: SimpleQueue[Copy] = SimpleQueue()
    for copy in copies:
        free.put(copy)

    def attempt(mutant: Mutant) -> Result:
        copy = free.get()
        try:
            result = try_mutant(copy, mutant)
        finally:
            free.put(copy)
        told(result)
        return result

    with ThreadPoolExecutor(len(copies)) as pool:
        return list(pool.map(attempt, chosen))
