"""Runs of every method, struck at a file operation by a signal, a full disk or a broken one.

Whatever strikes and when: nothing is over budget, nothing is paid twice, no second noisy copy is in
public, a signal gives back what was not drawn, and after the next run nothing is left that nobody
needs. Part of all pairs of an operation and what strikes it are tried here, all of them with
`--soak` (`make soak`).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.flows.crashes import NIGHTLY, STOPPING, STREAM_FIRST, STREAM_LAST, STREAM_NEXT
from tests.flows.every_method import VARIANTS

STRIKE = """
import json, sys
from hushrank.transforms.engine import in_process
in_process.choose()  # an engine without threads, before another is loaded
from tests.flows.crashes import strike_runs
strike_runs(json.loads(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
"""
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
STATES = {"none", "cancelled", "reserved", "drawn", "committed"}
STOPPED_STATES = {"none", "cancelled", "reserved", "stopped"}


def struck(names: Sequence[str], folder: Path, stride: int) -> dict[str, int]:
    """How often a run had got how far when it stopped; every check in between held."""
    done = subprocess.run(
        [sys.executable, "-c", STRIKE, json.dumps(names), str(folder), str(stride)],
        capture_output=True,
        text=True,
        env=os.environ | ONE_THREAD,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    stopped_after: dict[str, int] = json.loads(done.stdout.splitlines()[-1])
    return stopped_after


@pytest.mark.slow
@pytest.mark.parametrize("part", range(2))
def test_runs_of_every_method_may_be_struck_here_and_there(part, tmp_path):
    stopped_after = struck(list(VARIANTS)[part::2], tmp_path, stride=449)
    assert stopped_after.keys() >= {"reserved", "drawn"}


@pytest.mark.slow
def test_a_night_may_be_struck_at_many_operations(tmp_path):
    assert struck([NIGHTLY], tmp_path, stride=41).keys() == STATES


@pytest.mark.slow
def test_a_run_that_its_look_stops_may_be_struck_at_many_operations(tmp_path):
    assert struck([STOPPING], tmp_path, stride=31).keys() == STOPPED_STATES


@pytest.mark.slow
def test_a_night_of_a_stream_may_be_struck_at_many_operations(tmp_path):
    names = [STREAM_FIRST, STREAM_NEXT, STREAM_LAST]
    assert struck(names, tmp_path, stride=131).keys() >= {"reserved", "drawn", "committed"}


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", [STREAM_FIRST, STREAM_NEXT, STREAM_LAST])
def test_a_night_of_a_stream_may_be_struck_at_every_operation(name, tmp_path):
    assert struck([name], tmp_path, stride=1).keys() == STATES


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_a_run_that_its_look_stops_may_be_struck_at_every_operation(tmp_path):
    assert struck([STOPPING], tmp_path, stride=1).keys() == STOPPED_STATES


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", [NIGHTLY, *VARIANTS])
def test_a_run_may_be_struck_at_every_operation_by_everything(name, tmp_path):
    assert struck([name], tmp_path, stride=1).keys() == STATES
