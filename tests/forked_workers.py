"""The workers of `pytest -n`, forked from one process that has loaded and found all tests.

Each process that pytest-xdist starts loads and finds them for itself, which takes 27 s of processor
time and half a gigabyte. A forked one begins at once and shares that memory, and so does the one
that replaces a worker which a test has ended. On other systems than Linux, where libraries do not
bear a fork, and with a `--dist` of other kinds, pytest-xdist does as ever.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import sys
import time
import traceback
import warnings
from collections import deque
from collections.abc import Callable, Iterable
from itertools import pairwise
from multiprocessing.connection import Connection, Pipe, wait
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

KINDS = ("load", "worksteal")  # of `--dist`: tests go to whoever is free
ENDED = "exit code 0"
SECONDS_TO_END = 60
NAME = "PYTEST_XDIST_WORKER"  # variable that tells libraries and tests that there are siblings


def take_over(config: pytest.Config) -> bool:
    """Fork the workers that the command line asks for; whether this is done."""
    count = len(getattr(config.option, "tx", None) or [])
    if sys.platform != "linux" or count == 0 or config.option.dist not in KINDS:
        return False
    config.option.dist = "no"  # pytest-xdist, which is set up after this, starts none
    config.pluginmanager.register(ForkedWorkers(count), "forked_workers")
    return True


class Node:
    """Where a report comes from, as pytest-xdist tells it and pytest shows it."""

    def __init__(self, name: str) -> None:
        self.gateway = SimpleNamespace(id=name)
        version, program = sys.version_info, sys.executable
        self.workerinfo = {"id": name, "sysplatform": sys.platform}
        self.workerinfo |= {"version_info": version, "executable": program}


class Worker:
    """A process, what it is to run, and what it has been told to run."""

    def __init__(self, number: int, share: Iterable[int]) -> None:
        self.name = f"gw{number}"
        self.node = Node(self.name)
        self.share = deque(share)
        self.told: deque[int] = deque()  # the test that it runs, and the one after that
        self.pipe: Connection | None = None  # none: it has nothing to do any more
        self.process = 0
        self.ending = False

    def tell(self, test: int | None) -> None:
        """Tell it the next test, or that there is none."""
        assert self.pipe is not None
        if test is None:
            self.ending = True
        else:
            self.told.append(test)
        with contextlib.suppress(BrokenPipeError):  # it has died, which `_hear` finds out
            self.pipe.send(test)

    def ended(self) -> str:
        """Wait for its end; returns how it ended.

        One that still does something when all else is over, or was broken off, is killed.
        """
        assert self.pipe is not None
        self.pipe.close()
        self.pipe = None
        latest = time.monotonic() + SECONDS_TO_END
        while not (found := os.waitpid(self.process, os.WNOHANG))[0]:
            if time.monotonic() > latest:
                os.kill(self.process, signal.SIGKILL)
            time.sleep(0.01)
        code = os.waitstatus_to_exitcode(found[1])
        return f"exit code {code}" if code >= 0 else f"signal {-code}"


class ForkedWorkers:
    """Run the tests of a session in processes that are forked from this one."""

    def __init__(self, count: int) -> None:
        self._count = count

    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """Run all tests, unless none is to run."""
        if session.testsfailed or session.config.option.collectonly:
            return None  # pytest's own loop says why
        session.config.pluginmanager.get_plugin("terminalreporter").showfspath = False
        session.config._tmp_path_factory.getbasetemp()  # made once, for all
        bounds = [len(session.items) * each // self._count for each in range(self._count + 1)]
        shares = [range(*ends) for ends in pairwise(bounds)]
        self._workers = [Worker(number, share) for number, share in enumerate(shares)]
        try:
            for worker in self._workers:
                self._start(session, worker)
            for worker in self._workers * 2:  # each has a first test before any has a second one
                self._tell_next(worker)
            while pipes := {worker.pipe: worker for worker in self._at_work()}:
                over = [self._hear(session, pipes[ready]) for ready in wait(list(pipes))]
                if session.shouldfail and any(over):
                    raise session.Failed(session.shouldfail)
                if session.shouldstop and any(over):
                    raise session.Interrupted(session.shouldstop)
        except (Exception, session.Interrupted):
            for worker in self._at_work():
                os.kill(worker.process, signal.SIGINT)  # as the terminal does at Ctrl-C
            raise
        finally:  # of a run that is broken off: each closes what it has open
            for worker in self._at_work():
                worker.ended()
        return True

    def _at_work(self) -> list[Worker]:
        return [worker for worker in self._workers if worker.pipe is not None]

    def _start(self, session: pytest.Session, worker: Worker) -> None:
        worker.pipe, theirs = Pipe()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        worker.process = os.fork()
        if worker.process == 0:
            for each in self._at_work():  # or none would notice that this process has ended
                each.pipe.close()
            _work(session, worker.name, theirs)
        theirs.close()
        worker.ending = False

    def _tell_next(self, worker: Worker) -> None:
        if not worker.ending:
            worker.tell(self._next(worker))

    def _next(self, worker: Worker) -> int | None:
        """The next test of its share; of an empty one, half of the longest other share."""
        if not worker.share:
            longest = max(self._workers, key=lambda each: len(each.share)).share
            worker.share.extendleft([longest.pop() for _ in range((len(longest) + 1) // 2)])
        return worker.share.popleft() if worker.share else None

    def _hear(self, session: pytest.Session, worker: Worker) -> bool:
        """Take what a worker says; whether a test of its is over, with all that it had open.

        A failure is told before that: to interrupt the worker then would leave things open.
        """
        hook = session.config.hook
        assert worker.pipe is not None
        try:
            event, values = worker.pipe.recv()
        except (EOFError, ConnectionResetError):
            self._bury(session, worker)
            return True
        if event == "done":
            worker.told.popleft()
            if not (session.shouldfail or session.shouldstop):
                self._tell_next(worker)
        elif event == "report":
            report = hook.pytest_report_from_serializable(config=session.config, data=values)
            self._log(session, worker, report)
        elif event == "warning":
            message, category, *where = values.pop("warning")
            kind = type(category, (Warning,), {})
            values["warning_message"] = warnings.WarningMessage(message, kind, *where)
            hook.pytest_warning_recorded.call_historic(kwargs=values)
        else:
            getattr(hook, event)(**values)
        return event == "done"

    def _log(self, session: pytest.Session, worker: Worker, report: pytest.TestReport) -> None:
        report.node = worker.node
        session.config.hook.pytest_runtest_logreport(report=report)

    def _bury(self, session: pytest.Session, worker: Worker) -> None:
        """A worker has ended: in time, or in the middle of a test, which then has failed."""
        end = worker.ended()
        if not worker.told:
            if end != ENDED:
                session.shouldfail = f"worker {worker.name} ended with {end} after its last test"
            return
        item = session.items[worker.told.popleft()]
        why = f"worker {worker.name} ended with {end} while it ran {item.nodeid}"
        report = pytest.TestReport(item.nodeid, item.location, {}, "failed", why, "call")
        self._log(session, worker, report)
        worker.share.extendleft(worker.told)
        worker.told.clear()
        self._start(session, worker)
        for _ in range(2):
            self._tell_next(worker)


def _work(session: pytest.Session, name: str, pipe: Connection) -> NoReturn:
    """Run what comes through `pipe`, and send what becomes of it; ends this process."""
    code = 1
    try:
        _set_apart(session.config, name, pipe.send)
        test = pipe.recv()
        while test is not None:
            following = pipe.recv()
            after = None if following is None else session.items[following]
            item = session.items[test]
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
            pipe.send(("done", None))
            test = following
        code = 0
    except (EOFError, BrokenPipeError, KeyboardInterrupt):
        pass  # the run is broken off
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(BaseException):
            session._setupstate.teardown_exact(None)
        atexit._run_exitfuncs()
        os._exit(code)


def _set_apart(config: pytest.Config, name: str, send: Callable[[Any], None]) -> None:
    """What a process has for itself: a name, folders, captured output, and whom it reports to."""
    os.environ[NAME] = name
    folders = config._tmp_path_factory
    folders._basetemp = folders.getbasetemp() / f"popen-{name}"
    folders._basetemp.mkdir(exist_ok=True)
    plugins = config.pluginmanager
    terminal = plugins.unregister(name="terminalreporter")
    plugins.register(SimpleNamespace(_tw=terminal._tw), "terminalreporter")
    plugins.unregister(name="forked_workers")
    told = _Told(config)
    plugins.register(told)  # which tells it the warnings that there have been
    told.send = send
    capture: Any = plugins.get_plugin("capturemanager")
    capture.stop_global_capturing()
    capture.start_global_capturing()
    capture.suspend_global_capture()


class _Told:
    """Sends what pytest tells its plugins to the process that all workers come from."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self.send: Callable[[Any], None] = lambda _: None

    def pytest_runtest_logstart(self, nodeid: str, location: tuple[str, int | None, str]) -> None:
        self.send(("pytest_runtest_logstart", {"nodeid": nodeid, "location": location}))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        hook = self._config.hook
        data = hook.pytest_report_to_serializable(config=self._config, report=report)
        self.send(("report", data))

    def pytest_runtest_logfinish(self, nodeid: str, location: tuple[str, int | None, str]) -> None:
        self.send(("pytest_runtest_logfinish", {"nodeid": nodeid, "location": location}))

    def pytest_warning_recorded(
        self, warning_message: warnings.WarningMessage, when: str, nodeid: str, location: Any
    ) -> None:
        each = warning_message
        told = str(each.message), each.category.__name__, each.filename, each.lineno
        values = {"warning": told, "when": when, "nodeid": nodeid, "location": location}
        self.send(("warning", values))
