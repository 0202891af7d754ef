"""The part of a run that reads rows, in a process of its own.

Only this child process holds rows in memory. Its parent, which talks to people, ledger and server,
gets an empty answer or an error text that is safe to show. The text of an unexpected error may
quote a row, so it goes to a file in the confidential folder. The child starts before there is a
job, and loads what every job needs while its parent checks the configuration. Beam takes seconds
more, so the child loads it only for a job that needs it. The child ends with its parent, even
if the parent is killed: nobody would delete exact counts that it wrote later.
"""

from __future__ import annotations

import ctypes
import importlib
import multiprocessing
import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from types import ModuleType
from typing import TYPE_CHECKING, Self

from hushrank.flows.errors import ConfigError, HushrankError
from hushrank.pipelines.engine.runner import does_without_beam
from hushrank.transforms.common.schema import InputError
from hushrank.transforms.engine import in_process
from hushrank.transforms.storage.write import write_whole

if TYPE_CHECKING:
    from hushrank.flows.methods.base import ReductionJob

ERROR_FILE = "error.txt"
BEAM = "apache_beam"
LOADED_FIRST = (  # modules that the child loads first; none loads Beam
    "pyarrow.parquet",
    "hushrank.transforms.comparisons.bound",
    "hushrank.pipelines.reduce.reduction_job",
)
_ONE_AT_A_TIME = threading.Lock()
_PR_SET_PDEATHSIG = 1  # Linux: choose the signal for the parent's death


class ReductionError(HushrankError):
    """The reduction stopped for a reason that only the confidential area may state."""


class Reducer:
    """A child process that runs reductions; it starts before the first reduction is known.

    Leaving the context ends the child at once, whatever it does.
    """

    def __enter__(self) -> Self:
        self._start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def run(self, job: ReductionJob) -> None:
        """Run `job` in the child and wait for it; a dead child is replaced first.

        Raises:
            ConfigError: the input breaks a rule.
            ReductionError: anything else went wrong; details are in the confidential folder.
        """
        small = does_without_beam(job)
        if not self._process.is_alive() or (self._without_beam and not small):
            self._stop()
            self._start()
        self._without_beam |= small
        try:
            self._connection.send((job, small))
            kind, text = self._connection.recv()
        except (EOFError, OSError):
            raise ReductionError(
                "reduce: the process that reads the rows ended without an answer (killed, or out of"
                " memory). No budget was spent; run again, with more memory if it recurs."
            ) from None
        except BaseException:  # no counts may appear after the clean-up that follows
            self._stop()
            raise
        if kind == "input":
            raise ConfigError(text)
        if kind == "other":
            raise ReductionError(text)

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs,), daemon=True)
        with _deaf_to_interrupts(), _without_main():
            self._process.start()
        self._without_beam = False
        theirs.close()

    def _stop(self) -> None:
        self._connection.close()
        self._process.terminate()
        self._process.join()


@contextmanager
def _deaf_to_interrupts() -> Iterator[None]:
    """Keep Ctrl-C and the closing of the terminal from a process that starts in this block.

    Its parent handles both, and ends the process.
    """
    resource_tracker.ensure_running()  # its start would unblock the signals again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGHUP})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _without_main() -> Iterator[None]:
    """Keep `multiprocessing` from importing this program's main module into the child.

    The child needs none of it. In a script without `if __name__ == "__main__"`, which is how people
    use hushrank from Python, it would run the whole script again, beside the rows.
    """
    with _ONE_AT_A_TIME:
        main = sys.modules["__main__"]
        sys.modules["__main__"] = ModuleType("__main__")
        try:
            yield
        finally:
            sys.modules["__main__"] = main


def _serve(connection: Connection) -> None:
    end_with_parent()
    silence = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):  # engines and native libraries print rows there
        os.dup2(silence, stream)
    for module in LOADED_FIRST:
        importlib.import_module(module)
    while True:
        try:
            job, small = connection.recv()
        except EOFError:  # the parent needs this child no more
            return
        if small and BEAM not in sys.modules:
            in_process.choose()
        from hushrank.pipelines.reduce import reduce

        try:
            reduce.run(job)
        except InputError as error:
            connection.send(("input", str(error)))
        except Exception as error:  # the trust boundary: no unforeseen text may cross it
            connection.send(("other", _keep(job, error)))
        else:
            connection.send(("done", ""))


def end_with_parent() -> None:
    """Send SIGTERM to this process, which `multiprocessing` started, when its parent is gone.

    On Linux the kernel does this, at once and whatever runs here; elsewhere a thread does it.
    """
    parent = multiprocessing.parent_process()
    if parent is None:
        raise ValueError("this process was not started by multiprocessing, so it has no parent")
    if not _kernel_does_it():  # never both: a second signal would interrupt the clean-up
        threading.Thread(target=_wait_for, args=(parent.sentinel,), daemon=True).start()
    if os.getppid() != parent.pid:  # the parent ended before the kernel was asked
        os.kill(os.getpid(), signal.SIGTERM)


def _kernel_does_it() -> bool:
    if sys.platform != "linux":
        return False
    failed: int = ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    return not failed


def _wait_for(sentinel: int) -> None:
    wait([sentinel])
    os.kill(os.getpid(), signal.SIGTERM)


def _keep(job: ReductionJob, error: Exception) -> str:
    """Store the error in the confidential area; return a text that says only where it is."""
    text = f"reduce: failed ({type(error).__name__}). No budget was spent."
    path = f"{job.confidential}/{ERROR_FILE}"
    try:
        write_whole(path, "".join(traceback.format_exception(error)).encode())
    except OSError as full:
        return f"{text} Nothing could be written to the confidential area: {full.strerror}."
    return f"{text} The details may hold private values, so they are in {path} only."
