"""A process that has loaded what several jobs need; each of its children does one of them.

To load Beam and the tests' jobs takes 2.5 s of processor time, as long as some of the jobs.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import re
import signal
import subprocess
import sys
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

START = "import sys; from tests.loaded_process import serve; serve(sys.argv[1])"
FAILED = "failed"


class Done(NamedTuple):
    """What a job returned, and how many bytes a program would have had in memory at most which
    did nothing else."""

    returned: Any
    peak: int


class LoadedProcess:
    """It does jobs one after the other."""

    def __init__(self, server: subprocess.Popen[str], module: str) -> None:
        self._server = server
        self._module = module

    def do(self, job: str, *arguments: object) -> Done:
        """Do a job to its end.

        Args:
            job: a function of the module that was loaded.
            arguments: of the function, as JSON has them; anything else is given as text.
        """
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        asked = json.dumps([self._module, job, *arguments], default=str)
        self._server.stdin.write(f"{asked}\n")
        self._server.stdin.flush()
        answer = self._server.stdout.readline().strip()
        assert answer not in ("", FAILED), "the traceback is on stderr"
        return Done(*json.loads(answer))


@contextlib.contextmanager
def loaded_process(
    module: str, environment: Mapping[str, str] | None = None
) -> Iterator[LoadedProcess]:
    """One that has loaded `module`, and has done what its function `load` does, if it has one."""
    command = [sys.executable, "-c", START, module]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | (environment or {}),
        start_new_session=True,
    ) as server:
        try:
            yield LoadedProcess(server, module)
        finally:
            os.killpg(server.pid, signal.SIGKILL)  # with a job that a test no longer waits for


def serve(module: str) -> None:
    """Do what comes, each in a child, until nothing more can come."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what jobs print
    getattr(importlib.import_module(module), "load", lambda: None)()
    gc.collect()
    gc.freeze()  # a child that looked at all objects would have them twice
    loaded = _in_memory("VmRSS")
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            _do(answers.fileno(), loaded, *json.loads(line))
        if os.waitpid(child, 0)[1] != 0:
            os.write(answers.fileno(), f"{FAILED}\n".encode())


def _do(answers: int, loaded: int, module: str, job: str, *arguments: Any) -> NoReturn:
    """Its own peak counts what it shares; libraries that it did not touch are counted beside it."""
    untouched = loaded - _in_memory("VmRSS")
    code = 1
    try:
        returned = getattr(importlib.import_module(module), job)(*arguments)
        answer = json.dumps(Done(returned, _in_memory("VmHWM") + untouched))
        os.write(answers, f"{answer}\n".encode())
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def _in_memory(what: str) -> int:
    """Bytes of this process now (`VmRSS`), or at most (`VmHWM`; `ru_maxrss` would count those of
    its parent)."""
    status = Path("/proc/self/status").read_text()
    return 1024 * int(re.findall(rf"{what}:\s+(\d+) kB", status)[0])
