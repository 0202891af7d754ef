"""Reductions of small logs by Beam's stand-in, in one process for all tests of a worker.

A run reduces a small log in a child process that never loads Beam. So do tests, but they do not
start one each: that takes 2 s of processor time, and a graph on Beam itself 0.3 s.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
from contextlib import nullcontext
from multiprocessing.connection import Connection
from types import ModuleType
from typing import Any

import pytest

from hushrank.transforms.engine import in_process


class SmallJobs:
    """A child process that starts with the first job and ends with this one."""

    def __init__(self) -> None:
        self._child: Connection | None = None

    def run(self, job: object, draws: str | None = None) -> None:
        """Reduce `job`, which must be small; raises what the reduction raised.

        Args:
            job: of any kind.
            draws: a name that what is drawn while rows are read follows from; None: real draws.
        """
        if self._child is None:
            context = multiprocessing.get_context("spawn")
            self._child, theirs = context.Pipe()
            context.Process(target=_serve, args=(theirs,), daemon=True).start()
            theirs.close()
        self._child.send((job, draws, dict(os.environ), os.getcwd()))
        error = self._child.recv()
        if error is not None:
            raise error


def _serve(connection: Connection) -> None:
    in_process.choose()
    from hushrank.pipelines.reduce import reduce
    from tests.draws import same_draws

    while True:
        try:
            job, draws, environment, folder = connection.recv()
        except EOFError:  # the tests are over
            return
        os.environ.clear()
        os.environ.update(environment)
        os.chdir(folder)
        try:
            with nullcontext() if draws is None else same_draws(draws):
                reduce.run(job)
        except Exception as error:
            connection.send(_sendable(error))
        else:
            connection.send(None)


def _sendable(error: Exception) -> Exception:
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


SMALL_JOBS = SmallJobs()


def reach_a_reduction(patch: pytest.MonkeyPatch) -> bool:
    """Whether a test replaced anything that a reduction, which knows nothing of flows, may use."""
    return not all(
        _module_of(target).startswith("hushrank.flows.") for target, *_ in patch._setattr
    )


def _module_of(target: Any) -> str:
    if isinstance(target, ModuleType):
        return target.__name__
    return target.__module__ if isinstance(target, type) else type(target).__module__
