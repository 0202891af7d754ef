"""`tests/forked_workers.py`: each test runs once, and all that happens to it is told."""

from __future__ import annotations

import collections
import os
import signal
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

CONFTEST = """
import os, pytest
from tests.forked_workers import take_over

def pytest_configure(config):
    assert take_over(config)

@pytest.fixture(scope="session")
def session_long(tmp_path_factory):
    place = tmp_path_factory.mktemp("session")
    yield place
    with open("closed", "a") as closed:
        print(place, file=closed)
"""
TESTS = """
import os, signal, time, warnings
import pytest

@pytest.mark.parametrize("number", range(50))
def test_good(number, session_long, tmp_path):
    assert os.environ["PYTEST_XDIST_WORKER"] in str(tmp_path)
    with open("ran", "a") as ran:
        print(number, os.getpid(), file=ran)

def test_wrong(session_long):
    print("told on stdout")
    os.write(2, b"told on descriptor 2")
    assert 1 + 1 == 3

@pytest.mark.parametrize("end", ["killed", "ended"])
def test_end(end):
    if end == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    os._exit(7)

@pytest.fixture
def broken():
    raise ValueError("a broken fixture")

def test_broken(broken):
    pass

def test_skipped():
    pytest.skip("a reason to skip")

def test_warning(session_long):
    warnings.warn("a warning of a test")
"""


def run_tests(folder: Path, tests: str, *words: str) -> str:
    """What pytest printed; of each test, what became of it is in `folder`/junit.xml."""
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_all.py").write_text(tests)
    own = {name: text for name, text in os.environ.items() if not name.startswith("PYTEST_")}
    environment = own | {"PYTHONPATH": str(ROOT), "NO_COLOR": "1"}
    command = [sys.executable, "-m", "pytest", "-ra", "--junitxml=junit.xml", *words]
    done = subprocess.run(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True, check=False
    )
    assert done.returncode == 1, done.stdout
    return done.stdout


@pytest.mark.parametrize("workers", [1, 3, 8])
def test_every_test_runs_once_and_its_end_is_told(tmp_path: Path, workers: int) -> None:
    printed = run_tests(tmp_path, TESTS, "-n", str(workers))
    assert "3 failed, 51 passed, 1 skipped, 1 warning, 1 error" in printed
    for told in (
        f"ended with signal {signal.SIGKILL.value} while it ran test_all.py::test_end[killed]",
        "ended with exit code 7 while it ran test_all.py::test_end[ended]",
        "assert (1 + 1) == 3",
        "told on stdout",
        "told on descriptor 2",
        "ValueError: a broken fixture",
        "a reason to skip",
        "UserWarning: a warning of a test",
    ):
        assert told in printed, printed
    cases = [
        case.get("name") for case in ElementTree.parse(tmp_path / "junit.xml").iter("testcase")
    ]
    assert collections.Counter(cases).most_common(1)[0][1] == 1
    assert len(cases) == 56
    numbers, processes = zip(*map(str.split, (tmp_path / "ran").open()), strict=True)
    assert sorted(map(int, numbers)) == list(range(50))
    if workers > 1:
        assert len(set(processes)) > 1
    closed = (tmp_path / "closed").read_text().splitlines()
    assert len(set(closed)) == len(closed) > 0


def test_a_run_that_a_failure_stops_closes_what_is_open(tmp_path: Path) -> None:
    waits = """
import os, signal, time

def test_wait(session_long):
    signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever started this may ignore it
    open("waiting", "w").close()
    time.sleep(900)
"""
    fails = """
def test_fail(session_long):
    while not os.path.exists("waiting"):
        time.sleep(0.01)
    raise AssertionError("stop here")
"""
    printed = run_tests(tmp_path, waits + fails, "-n", "2", "-x")
    assert "1 failed" in printed
    assert "stopping after 1 failures" in printed
    assert len((tmp_path / "closed").read_text().splitlines()) == 2


def test_what_ends_badly_after_its_tests_is_told(tmp_path: Path) -> None:
    tests = "import atexit, os\n\ndef test_it():\n    atexit.register(os._exit, 5)\n"
    assert "ended with exit code 5 after its last test" in run_tests(tmp_path, tests, "-n", "1")
