"""A machine that refuses letters, memory or file descriptors: a sentence, and nothing is lost."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Callable
from functools import partial

import pytest

from hushrank.flows.errors import problem_of_machine
from tests.flows.conftest import Survey

ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii"}
NO_LIMIT: Callable[[], None] = partial(os.umask, 0o077)


def hushrank(
    *arguments: object, limit: Callable[[], object] = NO_LIMIT, **environment: str
) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own, under a limit."""
    return subprocess.run(
        [sys.executable, "-m", "hushrank.flows.interfaces.cli.main", *map(str, arguments)],
        env={**os.environ, **environment},
        preexec_fn=limit,
        capture_output=True,
        text=True,
        timeout=840,
        check=False,
    )


def spent(survey: Survey, command: Callable[..., tuple[int, str]]) -> bool:
    return "zoo has epsilon 5.00 left of 5.00" not in command("ledger", "show", survey.config)[1]


@pytest.mark.slow
def test_a_locale_without_letters_does_not_fail_a_run_that_is_paid_for(survey):
    survey.set(items__names=["ants", "b→ees", "cats", "dögs"])
    ran = hushrank("run", survey.config, "--direct", **ASCII)
    assert ran.returncode == 0, ran.stderr
    assert "b\\u2192ees" in ran.stdout
    assert "b→ees" in (survey.output / "ranking.csv").read_text(encoding="utf-8")


def test_a_path_that_a_locale_cannot_name_is_refused_before_anything_is_spent(survey):
    survey.set(output="ou→t")
    ran = hushrank("run", survey.config, "--direct", **ASCII)
    assert ran.returncode == 2, ran.stderr
    assert ran.stderr == (
        f"{survey.config}: output: 'ou\\u2192t' has letters that this process cannot name a file"
        " with; set LC_ALL=C.UTF-8, or rename it\n"
    )
    assert not survey.ledger.exists()


@pytest.mark.parametrize("mebibytes", [200, 600])
def test_too_little_memory_is_said_before_a_library_ends_the_process(survey, mebibytes):
    size = mebibytes << 20
    limit = partial(resource.setrlimit, resource.RLIMIT_AS, (size, size))
    ran = hushrank("run", survey.config, "--direct", limit=limit, OPENBLAS_NUM_THREADS="1")
    assert ran.returncode == 2, ran.stderr
    assert ran.stderr.startswith(f"This process may take {mebibytes} MiB of memory (ulimit -v)")
    assert len(ran.stderr.splitlines()) == 1
    assert not survey.ledger.exists()


@pytest.mark.parametrize("descriptors", [8, 10])
def test_too_few_file_descriptors_are_said(survey, command, descriptors):
    limit = partial(resource.setrlimit, resource.RLIMIT_NOFILE, (descriptors, descriptors))
    ran = hushrank("run", survey.config, "--direct", limit=limit)
    assert ran.returncode == 1, ran.stderr
    assert ran.stderr.startswith("This process has too few file descriptors: raise the limit")
    assert "Traceback" not in ran.stderr
    assert not spent(survey, command)


def test_faults_of_the_program_stay_visible():
    assert problem_of_machine(ValueError("wrong")) is None
    assert problem_of_machine(RuntimeError("wrong")) is None
    assert problem_of_machine(ImportError("No module named x")) is None


def test_what_the_machine_refuses_is_named_whoever_wraps_it():
    wrapped = Exception("Unable to load", OSError("x.so: failed to map segment from shared object"))
    for error in (MemoryError("alice"), OSError(12, "alice"), wrapped):
        assert problem_of_machine(error) == (
            "There is not enough memory for this process: free some, or raise its limit (ulimit"
            " -v)."
        )
    nested = problem_of_machine(RecursionError("alice"))
    assert nested is not None
    assert "alice" not in nested
