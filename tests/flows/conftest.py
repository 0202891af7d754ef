"""A small survey on disk, and reductions without a child process."""

from __future__ import annotations

import dataclasses
import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer.main
import yaml
from filelock import FileLock

from hushrank.flows import reading
from hushrank.flows.errors import ConfigError
from hushrank.flows.methods.base import ReductionJob
from hushrank.flows.planning.plan import items_apart as planned_ties
from hushrank.flows.planning.plan import plan as planned_groups
from hushrank.flows.planning.plan import survey as planned_surveys
from hushrank.pipelines.engine.runner import does_without_beam
from hushrank.pipelines.reduce import reduce
from hushrank.transforms.common.schema import InputError
from tests import go_programs
from tests.cloud_emulator import cloud_emulator
from tests.flows.browsers import launched
from tests.flows.command_server import served
from tests.flows.small_jobs import SMALL_JOBS, reach_a_reduction
from tests.prefect_server import KEY, PrefectServer, shared_server

ITEMS = ["ants", "bees", "cats", "dogs"]
REDUCE = reduce.run  # a test may replace it for a while

# Typer builds all commands anew each time that one is called, which takes longer than most of them.
typer.main.get_command = functools.cache(typer.main.get_command)


class InProcessReader:
    """Does what the child process would, without the second that starting one takes."""

    watch: Callable[[int, int, int], None] | None = None
    open_files: frozenset[str] = frozenset()

    def __init__(self, *modules: str) -> None:
        pass

    def __enter__(self) -> InProcessReader:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def call(self, work: Callable[..., Any], *arguments: Any, **_: int) -> Any:
        answers: list[tuple[Any, ...]] = []
        reading._answer(lambda *answer: answers.append(answer), work, arguments)
        return reading.result_of(answers[0], reading._Files())


class InProcessReducer:
    """Does what the child process would, without the seconds that starting one takes."""

    reader = InProcessReader()

    def __enter__(self) -> InProcessReducer:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def run(self, job: ReductionJob) -> None:
        try:
            self.reduce(job)
        except InputError as error:
            raise ConfigError(str(error)) from None

    def reduce(self, job: ReductionJob) -> None:
        reduce.run(job)


class SharedReducer(InProcessReducer):
    """Leaves small jobs to the process of all of them; nothing may be replaced in a reduction."""

    def reduce(self, job: ReductionJob) -> None:
        SMALL_JOBS.run(job)


@dataclasses.dataclass
class Survey:
    """A folder with answers and a configuration."""

    folder: Path
    settings: dict[str, Any]

    @property
    def config(self) -> Path:
        return self.folder / "survey.yaml"

    @property
    def output(self) -> Path:
        return self.folder / "out"

    @property
    def ledger(self) -> Path:
        return self.folder / "ledger.jsonl"

    @property
    def work(self) -> Path:
        return self.folder / "work"

    def set(self, **changes: Any) -> Survey:
        """Change settings by dotted key with `__` for the dot; None removes one."""
        for key, value in changes.items():
            *parents, last = key.split("__")
            section = self.settings
            for parent in parents:
                section = section[parent]
            if value is None:
                section.pop(last, None)
            else:
                section[last] = value
        self.config.write_text(yaml.safe_dump(self.settings))
        return self

    def published(self) -> list[str]:
        """Names of the files that are shown, beside the archive of releases."""
        if not self.output.exists():
            return []
        return sorted(path.name for path in self.output.iterdir() if path.is_file())

    def archived(self) -> list[Path]:
        """Folders of the releases that are kept, the earliest day first."""
        return sorted((self.output / "releases").iterdir())


def answers(people: int, seed: int = 0) -> pa.Table:
    """Everybody compares every pair; ants are best, dogs last."""
    rng = np.random.default_rng(seed)
    left, right = np.triu_indices(len(ITEMS), 1)
    rows = people * len(left)
    wins = rng.random(rows) < 0.8
    return pa.table(
        {
            "user": np.repeat(np.arange(people), len(left)),
            "item_i": np.tile(left, people),
            "item_j": np.tile(right, people),
            "outcome": np.where(wins, 1, -1).astype(np.int8),
        }
    )


@pytest.fixture
def survey(tmp_path: Path) -> Survey:
    pq.write_table(answers(200), tmp_path / "answers.parquet")
    settings = {
        "name": "zoo",
        "input": {
            "kind": "comparisons",
            "paths": ["answers.parquet"],
            "columns": {"left": "item_i", "right": "item_j"},
            "design": "balanced",
        },
        "items": {"names": ITEMS, "first_code": 0},
        "privacy": {"unit": "user", "epsilon": 2.0, "max_contributions": 6, "distinct_pairs": True},
        "method": "noisy-counts",
        "output": "out",
        "confidential": "work",
        "ledger": {"path": "ledger.jsonl", "epsilon": 5, "delta": 1e-6, "refresh": "monthly"},
        "runner": "local",
    }
    return Survey(tmp_path, settings).set()


@pytest.fixture(autouse=True)
def no_engine_is_chosen() -> Iterator[None]:
    """A command that needs no Beam gives it up for its process; this one runs other tests on it."""
    with pytest.MonkeyPatch.context() as patch:  # not the test's own: see `reach_a_reduction`
        patch.setattr("hushrank.transforms.engine.in_process.choose", lambda: None)
        yield


@pytest.fixture(autouse=True)
def files_are_read_here(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """No child parses files, unless a test asks for `reading_apart`: one takes a second.

    A `Reducer` that is not replaced by `in_process` has its child.
    """
    child = reading.Reader

    def reader(*modules: str) -> InProcessReader | reading.Reader:
        return child(*modules) if modules == reading.LOADED_FIRST else InProcessReader()

    if "reading_apart" not in request.fixturenames:
        monkeypatch.setattr("hushrank.flows.reading.Reader", reader)


@pytest.fixture
def reading_apart() -> None:
    """For tests of the child process that parses files: see `files_are_read_here`."""


@pytest.fixture(autouse=True)
def few_simulated_surveys(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan simulates three surveys of small jobs, not 120: what it finds is tested in `plan`."""
    monkeypatch.setattr(planned_surveys, "MOST", 3)
    for module in (planned_surveys, planned_groups, planned_ties):
        monkeypatch.setattr(module, "FEWEST", 3)


@pytest.fixture
def emulator(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An emulator of Cloud Storage, with a bucket `survey`."""
    with cloud_emulator("survey") as url:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", url)
        yield


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """One browser for all tests of a module."""
    with launched() as found:
        yield found


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Folder of a program `hushrank` that starts at once: see `command_server`."""
    with served(tmp_path_factory.mktemp("programs")) as folder:
        yield folder


@pytest.fixture(scope="session")
def prefect_home() -> Path:
    """A home of Prefect to copy: to make its empty database takes 7 s, so test runs share one."""
    home = go_programs.cache() / f"prefect-home-{version('prefect')}"
    home.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{home}.lock"):
        if not (home / "prefect.db").exists():
            words = ["-m", "prefect", "server", "database", "upgrade", "--yes"]
            made = home.with_name(f"{home.name}-made")
            shutil.rmtree(made, ignore_errors=True)  # of a run that was broken off
            own = {name: text for name, text in os.environ.items() if "DATABASE" not in name}
            environment = own | {"PREFECT_HOME": str(made)}
            subprocess.run([sys.executable, *words], env=environment, check=True)
            shutil.rmtree(home, ignore_errors=True)
            made.rename(home)
    return home


@pytest.fixture(scope="session")
def prefect_server(
    prefect_home: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[PrefectServer]:
    """The Prefect server of all tests; nothing names it but what a test passes on."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    with shared_server(shared, prefect_home) as server:
        yield server


@pytest.fixture
def on_prefect(
    prefect_server: PrefectServer, monkeypatch: pytest.MonkeyPatch
) -> Iterator[PrefectServer]:
    """Prefect's settings name that server, in this process and in those that it starts."""
    from prefect.settings import PREFECT_API_AUTH_STRING, PREFECT_API_URL, temporary_settings

    for name, value in prefect_server.environment.items():
        monkeypatch.setenv(name, value)
    with temporary_settings({PREFECT_API_URL: prefect_server.url, PREFECT_API_AUTH_STRING: KEY}):
        yield prefect_server


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reductions without a child of their own."""

    class Reducer(InProcessReducer):
        """Leaves local jobs to `SMALL_JOBS`, as long as the test replaced nothing that they use."""

        def reduce(self, job: ReductionJob) -> None:
            as_it_is = reduce.run is REDUCE and not reach_a_reduction(monkeypatch)
            if as_it_is and does_without_beam(job):
                SMALL_JOBS.run(job)
            else:
                super().reduce(job)

    monkeypatch.setattr("hushrank.flows.reading.Reducer", Reducer)


@pytest.fixture
def command(
    in_process: None, capsys: pytest.CaptureFixture[str]
) -> Iterator[Callable[..., tuple[int, str]]]:
    """Run `hushrank ...` in this process; returns the exit code and all that was printed.

    Nights run directly unless a test says `--prefect`: a server of their own takes ten seconds.
    """
    from hushrank.flows.interfaces.cli.main import main

    def run(*arguments: object) -> tuple[int, str]:
        if arguments[0] in ("backfill", "catch-up") and "--prefect" not in arguments:
            arguments = (*arguments, "--direct")
        try:
            main([str(argument) for argument in arguments])
            code = 0
        except SystemExit as stop:
            code = int(stop.code or 0)
        printed = capsys.readouterr()
        return code, printed.out + printed.err

    return run
