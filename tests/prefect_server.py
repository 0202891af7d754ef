"""One Prefect server for all tests of a run, whichever worker they are in.

To start one takes ten seconds of processor time. The server asks for a key, and stays until the
last worker that uses it has ended.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

import httpx
from filelock import FileLock

from hushrank.transforms import system
from tests.ports import free_port

PATIENCE = 800.0  # seconds; a server starts in 10, but in minutes on a very busy machine
KEY = "anna:secret-of-the-server"
# Of each request: it has no TLS, so no certificates are read, which takes 40 ms of processor time.
LOCAL: dict[str, Any] = {"timeout": PATIENCE, "verify": False}


@dataclass(frozen=True)
class PrefectServer:
    """A running server.

    Attributes:
        url: of its API.
        home: the folder with its database, `prefect.db`.
    """

    url: str
    home: Path

    @property
    def environment(self) -> dict[str, str]:
        """Variables that name it to a command; its own home keeps no settings."""
        return {
            "PREFECT_HOME": str(self.home),
            "PREFECT_API_URL": self.url,
            "PREFECT_API_AUTH_STRING": KEY,
            "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
            "DO_NOT_TRACK": "1",
            "PREFECT_RUNNER_POLL_FREQUENCY": "1",
        }

    def post(self, path: str, content: Any) -> httpx.Response:
        """Answer to a request with `content`; a server whose database is busy is asked again."""

        def ask() -> httpx.Response | None:
            answer = httpx.post(f"{self.url}{path}", json=content, auth=_key(), **LOCAL)
            return None if answer.status_code == HTTPStatus.SERVICE_UNAVAILABLE else answer

        answer: httpx.Response = wait_for("answer", ask)
        return answer

    def get(self, path: str) -> Any:
        """Content of an answer."""
        return httpx.get(f"{self.url}{path}", auth=_key(), **LOCAL).json()

    def flow_runs(self, **filters: Any) -> list[dict[str, Any]]:
        """Flow runs that pass the filters of Prefect's API, such as `deployments`."""
        found: list[dict[str, Any]] = self.post("/flow_runs/filter", filters).json()
        return found

    def end_lease(self, run: str) -> None:
        """Let pass the five minutes for which a run that was killed still holds its deployment."""
        from prefect.server.concurrency.lease_storage.filesystem import ConcurrencyLeaseStorage

        found = self.get(f"/flow_runs/{run}")["state"]["state_details"]
        lease = UUID(found["deployment_concurrency_lease_id"])
        leases = ConcurrencyLeaseStorage(self.home / "concurrency_leases")
        assert asyncio.run(leases.renew_lease(lease, timedelta()))
        wait_for("end of a lease", lambda: not (leases.storage_path / f"{lease}.json").exists())


class Forwarder:
    """Passes connections on to a server until it is closed, as a network that fails then does.

    Attributes:
        url: of the server's API, through this.
    """

    def __init__(self, server: PrefectServer) -> None:
        self._server, self._pairs = urlsplit(server.url), list[socket.socket]()
        self._address = ("127.0.0.1", free_port())
        self.url = server.url.replace(self._server.netloc, f"127.0.0.1:{self._address[1]}")
        self.open()

    def open(self) -> None:
        """Pass on what comes, at the start or after `close`: the server is there again."""
        self._listener = socket.create_server(self._address)
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                ours, _ = listener.accept()
                theirs = socket.create_connection((self._server.hostname, self._server.port))
            except OSError:
                return
            self._pairs += [ours, theirs]
            for one, other in ((ours, theirs), (theirs, ours)):
                threading.Thread(target=self._pass_on, args=(one, other), daemon=True).start()

    def _pass_on(self, one: socket.socket, other: socket.socket) -> None:
        with suppress(OSError):
            while part := one.recv(1 << 16):
                other.sendall(part)
        with suppress(OSError):  # the other end has to learn that nothing more comes
            other.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """End all connections and take no new ones."""
        for each in (self._listener, *self._pairs):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        self._pairs.clear()


def wait_for(what: str, condition: Any) -> Any:
    """Return what `condition` returns once that is true."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if (found := condition()) not in (None, False, []):
            return found
        time.sleep(0.2)
    raise AssertionError(f"no {what} within {PATIENCE:g} s")


@contextmanager
def shared_server(folder: Path, empty_home: Path) -> Iterator[PrefectServer]:
    """The server of all processes that name this folder; the last of them ends it."""
    state = folder / "prefect-server.json"
    with FileLock(f"{state}.lock"):
        found = json.loads(state.read_text()) if state.exists() else {"users": 0}
        if not found["users"]:
            found = _start(folder, empty_home)
        found["users"] += 1
        state.write_text(json.dumps(found))
    try:
        yield PrefectServer(found["url"], Path(found["home"]))
    finally:
        with FileLock(f"{state}.lock"):
            found = json.loads(state.read_text())
            found["users"] -= 1
            state.write_text(json.dumps(found))
            if not found["users"]:
                system.end_group(found["process"], force=True)


def _start(folder: Path, empty_home: Path) -> dict[str, Any]:
    port = free_port()
    home = folder / f"prefect-home-{port}"
    shutil.copytree(empty_home, home)
    url = f"http://127.0.0.1:{port}/api"
    own = {name: text for name, text in os.environ.items() if not name.startswith("PREFECT_")}
    settings = {
        "PREFECT_HOME": str(home),
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "DO_NOT_TRACK": "1",
        "PREFECT_SERVER_API_AUTH_STRING": KEY,
        # The shortest that Prefect allows, for tests of runs that are killed.
        "PREFECT_SERVER_CONCURRENCY_INITIAL_DEPLOYMENT_LEASE_DURATION": "30",
        "PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE": (
            "prefect.server.concurrency.lease_storage.filesystem"
        ),
        "PREFECT_SERVER_SERVICES_REPOSSESSOR_LOOP_SECONDS": "2",  # who looks for leases that ended
    }
    words = ["-m", "prefect", "server", "start", "--port", str(port), "--no-ui"]
    with (home / "server.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, *words],
            stdout=log,
            stderr=log,
            env=own | settings,
            **system.OWN_GROUP,
        )
    wait_for("Prefect server", lambda: _answers(url))
    return {"url": url, "home": str(home), "process": process.pid, "users": 0}


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/health", **LOCAL).status_code == 200
    except httpx.TransportError:
        return False


def _key() -> tuple[str, str]:
    user, password = KEY.split(":")
    return user, password
