"""On Beam's own portable engine, Prism: the same results, and what is left when it is killed.

Prism is a program in Go. Where it is not in the cache it is built, which needs Go and, once, the
network; where it cannot be, the tests are skipped and say why.
"""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
import yaml

from hushrank.flows.config.runner import PrismRunner
from hushrank.pipelines.engine.options import reachable
from hushrank.pipelines.reduce import reduce
from hushrank.transforms.common.schema import InputError
from tests.go_programs import GoProgram
from tests.pipelines.reduce.test_reduce_stream import a_night_job
from tests.pipelines.scenarios.engine_jobs import (
    KINDS,
    a_survey,
    assert_are_as_here,
    children,
    counted,
    run_together,
    tally,
    wait_for,
    write_large,
)

PRISM = GoProgram("github.com/apache/beam/sdks/v2/go/cmd/prism", f"v{version('apache-beam')}")

pytestmark = [
    pytest.mark.engine,
    pytest.mark.timeout(1500),  # the first time it is built
    # gRPC goes on to watch a channel that Beam has closed at the end of a job
    pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning"),
]


@pytest.fixture(scope="module")
def binary() -> Path:
    try:
        return PRISM.build()
    except SystemExit as error:
        pytest.skip(str(error))


def on_prism(binary: Path, job: Any, work: Path) -> Any:
    """The same reduction on Prism, into another folder."""
    engine = PrismRunner.model_validate({"kind": "prism", "binary": binary}).engine()
    return dataclasses.replace(job, engine=engine, confidential=str(work))


def test_results_are_those_of_the_local_runner(binary: Path, tmp_path: Path):
    here = [kind(tmp_path / kind.__name__, tmp_path / f"{kind.__name__} here") for kind in KINDS]
    there = [on_prism(binary, job, Path(f"{job.confidential} there")) for job in here]
    with reachable(there[0].engine) as engine:
        run_together([dataclasses.replace(job, engine=engine) for job in there])
    for local, remote in zip(here, there, strict=True):
        reduce.run(local)
        reduce.run(remote)  # takes the results that are there, and checks them
        assert_are_as_here(local, remote)


def test_a_night_of_a_stream_is_that_of_the_local_runner(binary: Path, tmp_path: Path):
    write_large(tmp_path / "in", 100_000)
    here, there = (
        a_night_job(tmp_path / "in", tmp_path / name, tmp_path / f"{name} stream", 0)
        for name in ("here", "there")
    )
    there = on_prism(binary, there, tmp_path / "there")
    assert counted(there) == counted(here)
    assert tally(there) == tally(here)


def prism_of(process: int, binary: Path) -> int | None:
    """The process of Prism that a run has started, in any of its own."""
    for child in children(process):
        command = Path(f"/proc/{child}/cmdline").read_text().split("\0")
        found = child if command[0] == str(binary) else prism_of(child, binary)
        if found is not None:
            return found
    return None


def test_a_killed_prism_costs_a_run_but_no_budget(binary: Path, tmp_path: Path):
    write_large(tmp_path / "in", 1_000_000)
    config = tmp_path / "survey.yaml"
    config.write_text(yaml.safe_dump(a_survey({"kind": "prism", "binary": str(binary)})))
    command = [sys.executable, "-m", "hushrank", "run", str(config), "--direct"]
    run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    prism = wait_for(lambda: prism_of(run.pid, binary))
    wait_for(lambda: any((tmp_path / "work").glob("**/rejects/*.parquet")))  # rows are read
    os.kill(prism, signal.SIGKILL)
    printed, _ = run.communicate()
    assert run.returncode == 1, printed
    assert "No budget was spent" in printed
    assert "Traceback" not in printed
    assert not (tmp_path / "out").exists()
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 left of 1" in done.stdout + done.stderr  # the whole budget bought one release
    release = json.loads((tmp_path / "out" / "release.json").read_text())
    assert release["privacy"]["epsilon"] == 1.0


@pytest.mark.parametrize("kind", ["program", "renamed zip", "damaged zip"])
def test_what_is_not_prism_is_named(tmp_path: Path, kind: str):
    program = tmp_path / "prism"
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(0o755)
    if kind != "program":
        archive = tmp_path / "prism.zip"  # Beam looks for a member of that name
        with ZipFile(archive, "w") as file:
            file.write(program, "prism" if kind == "damaged zip" else "prism-linux-amd64")
        program = archive
    if kind == "damaged zip":
        program.write_bytes(program.read_bytes().replace(b"exit 1", b"exit 2"))
    engine = PrismRunner.model_validate({"kind": "prism", "binary": program}).engine()
    with pytest.raises(InputError, match=r"runner\.binary: Beam's job server"), reachable(engine):
        pass
