"""A collector in a process of its own, to be stopped or killed.

Processes are forked from a server that has the modules loaded, which takes milliseconds, not
seconds.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from hushrank.flows.collecting import protocol, server
from hushrank.flows.collecting.protocol import make_quiet
from hushrank.flows.collecting.server import Collector, Options, allow_connections, serve
from hushrank.flows.collecting.survey.settings import collect_of, page_headers
from hushrank.flows.methods.registry import load_config
from tests.ports import free_port

_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload([__name__])


def _collect(folder: Path, port: int, private: int, days: int, settings: dict[str, Any]) -> None:
    """In a child: collect until it is told to stop; what is printed goes to a file."""
    printed = os.open(folder / "printed.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(printed, stream)
    for name, value in settings.items():
        setattr(protocol, name, value)
    make_quiet()
    allow_connections()
    config = load_config(folder / "survey.yaml")
    clock = lambda: server.now() + timedelta(days=days)  # noqa: E731
    collector = Collector(config, folder / "spool", lambda text: print(text), clock)  # noqa: T201
    site = folder / "site" if (folder / "site").exists() else None
    collect = collect_of(config)
    headers = page_headers(collect.url)
    options = Options(host="127.0.0.1", port=port, metrics_port=private, site=site, headers=headers)
    asyncio.run(serve(collector, options, collect.origins))


PATIENCE = 600  # seconds, on a busy machine


class Running:
    """A collector that runs."""

    def __init__(self, folder: Path, days: int = 0, **settings: Any) -> None:
        """Start it for `survey.yaml` in `folder`, `days` from now, with other bounds."""
        self.port, self.private = free_port(), free_port()
        arguments = (folder, self.port, self.private, days, settings)
        self._process = _processes.Process(target=_collect, args=arguments)
        self._process.start()
        deadline = time.monotonic() + PATIENCE
        while not self.listens():
            assert self._process.is_alive(), (folder / "printed.txt").read_text()
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def listens(self) -> bool:
        """Whether it takes connections."""
        try:
            socket.create_connection(("127.0.0.1", self.port), 5).close()
        except OSError:
            return False
        return True

    @property
    def memory(self) -> int:
        """Bytes that it holds."""
        pages = int(Path(f"/proc/{self._process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def kill(self) -> None:
        """Kill it as nobody can prevent."""
        self._end(signal.SIGKILL)

    def stop(self) -> int | None:
        """Ask it to stop; its exit code."""
        self._end(signal.SIGTERM)
        return self._process.exitcode

    def _end(self, number: signal.Signals) -> None:
        if self._process.pid is not None and self._process.is_alive():
            os.kill(self._process.pid, number)
        self._process.join(PATIENCE)


@contextmanager
def running(folder: Path, days: int = 0, **settings: Any) -> Iterator[Running]:
    """A collector, killed in the end if it still runs."""
    collector = Running(folder, days, **settings)
    try:
        yield collector
    finally:
        collector.kill()
