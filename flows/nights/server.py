"""Prefect server of a command: the one that Prefect's settings name, or one that is started.

Prefect takes seconds to load, so it is asked only where something could name a server: a variable
of the environment, or a file that it reads its settings from.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

from hushrank.flows.errors import NOTHING_SPENT, HushrankError, ServerRefused
from hushrank.transforms import system
from hushrank.transforms.common.local_files import MostBytes, UnfitFile, home_path, read_local

SETTINGS = {
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "DO_NOT_TRACK": "1",
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "300",  # the first start is slow
    # The command line tells its own story; nobody's mistake should end in a traceback there.
    "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "CRITICAL",
}
ADDRESS = "PREFECT_API_URL"
CHOOSERS = ("PREFECT_API", "PREFECT_PROFILE")  # what variables that decide on a server begin with
PROFILES = "profiles.toml"
LEASES_IN_FILES = "prefect.server.concurrency.lease_storage.filesystem"
SECONDS_TO_SEND, SECONDS_TO_END, SECONDS_TO_ANSWER, SECONDS_BETWEEN_QUESTIONS = 20.0, 5.0, 30.0, 0.1
WITHOUT_SERVER = "hushrank run and catch-up need no server with --direct."
NO_HOME = (
    "Prefect: this account has no home folder, which Prefect needs. Set HOME to a folder that it"
    f" may write. {WITHOUT_SERVER} {NOTHING_SPENT}"
)
NO_SERVER = (
    "Prefect: the server at {address} does not answer. Start it, for example with `prefect server"
    f" start`, or check PREFECT_API_URL. {WITHOUT_SERVER} {NOTHING_SPENT}"
)


def set_defaults() -> None:
    """Set what runs of hushrank want of Prefect, unless the operator did: before it is loaded.

    Raises:
        HushrankError: the account has no home folder, without which Prefect cannot be loaded.
    """
    try:
        home_path("~")
    except UnfitFile:
        raise HushrankError(NO_HOME) from None
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)


def server_configured() -> bool:
    """Whether Prefect's settings name a server: by variable, profile, `prefect.toml` or `.env`.

    Raises:
        HushrankError: Prefect cannot read its settings.
    """
    if os.environ.get(ADDRESS):  # counts before every file
        return True
    if not _may_be_configured():
        return False
    set_defaults()
    try:
        from prefect.settings import PREFECT_API_URL  # takes two seconds

        return bool(PREFECT_API_URL.value())
    except Exception as error:  # whatever Prefect makes of its files; the text may hold a secret
        raise HushrankError(
            f"Prefect: its settings cannot be read ({type(error).__name__}). Put them right"
            " (`prefect config view` names them), or run with --direct, which needs no server."
            " Nothing was read or spent."
        ) from None


def _may_be_configured() -> bool:
    if any(name.upper().startswith(CHOOSERS) for name in os.environ):
        return True
    return any(path.is_file() and _mentions_prefect(path) for path in _files_of_settings())


def _files_of_settings() -> Iterator[Path]:
    yield from map(Path, (".env", "prefect.toml", "pyproject.toml"))
    with suppress(UnfitFile):  # an account without a home has no profile in it
        yield home_path(os.environ.get("PREFECT_HOME") or "~/.prefect") / PROFILES


def _mentions_prefect(path: Path) -> bool:
    """Whether Prefect must be asked about it; `.env` and `pyproject.toml` are others' files too."""
    if path.name in (PROFILES, "prefect.toml"):
        return True
    try:
        return b"prefect" in read_local(path, MostBytes.SETTINGS).lower()
    except OSError:
        return True  # let Prefect say what it makes of it


@contextmanager
def server_of_command(starting: Callable[[], None]) -> Iterator[str]:
    """Yield the address of the page of the configured server, or of one started for this block.

    Args:
        starting: called before one is started, which takes seconds.

    Raises:
        HushrankError: as for `server_configured`, `check_server` and `own_server`.
    """
    if server_configured():
        yield check_server()
        return
    starting()
    with own_server() as page:
        yield page


def check_server() -> str:
    """Check that the configured server answers and accepts this client; return its page's address.

    Nothing is written there.

    Raises:
        ServerRefused: the server refuses the key, runs an incompatible version of Prefect, or its
            address is not that of an API.
        HushrankError: no server answers.
    """
    set_defaults()
    from prefect.client.base import ServerType
    from prefect.client.orchestration import get_client
    from prefect.settings import PREFECT_API_URL, PREFECT_UI_URL

    address = str(PREFECT_API_URL.value())
    shown = _without_password(address)
    with get_client(sync_client=True) as client:
        if client.api_healthcheck() is not None:
            raise HushrankError(NO_SERVER.format(address=shown))
        try:
            if client.server_type is not ServerType.CLOUD:
                _check_version(shown, client.api_version(), client.client_version())
            client.read_flows(limit=1)
        except ServerRefused:
            raise
        except Exception as error:  # httpx's, and those of whatever parses the answer
            status = getattr(getattr(error, "response", None), "status_code", None)
            raise _refusal(shown, status) from None
    return _without_password(PREFECT_UI_URL.value() or address)


def _without_password(address: str) -> str:
    parts = urlsplit(address)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def _check_version(address: str, theirs: str, ours: str) -> None:
    """Raise ServerRefused for another major version, with which Prefect's client cannot work."""
    major = ours.split(".")[0]
    if theirs.split(".")[0] != major:
        raise ServerRefused(
            f"Prefect: the server at {address} has version {theirs}, but this client has version"
            f" {ours}. Start a server of version {major}. {WITHOUT_SERVER} {NOTHING_SPENT}"
        )


def _refusal(address: str, status: int | None) -> ServerRefused:
    """The error for a server that answers, but not as an API that accepts this client."""
    if status in (401, 403):
        problem = "refuses the key. Check PREFECT_API_KEY or PREFECT_API_AUTH_STRING"
    else:
        problem = "is not a Prefect API. Check PREFECT_API_URL, which ends with /api"
    return ServerRefused(
        f"Prefect: the server at {address} {problem}. {WITHOUT_SERVER} {NOTHING_SPENT}"
    )


@contextmanager
def own_server() -> Iterator[str]:
    """Start a server that lives as long as this block; yield the address of its page.

    Prefect's settings name it meanwhile, in this process and in those that it starts. Its database
    is the one of `prefect server start`, so a server that is started later shows these runs too.

    Raises:
        HushrankError: the server does not start.
    """
    set_defaults()
    port = _free_port()
    address = f"http://127.0.0.1:{port}"
    with _server_process(port) as process:
        import prefect.flow_engine
        import prefect.task_engine  # noqa: F401

        _wait_until_ready(process, f"{address}/api/health")
        with _named_by_settings(f"{address}/api"):
            try:
                yield address
            finally:
                _send_what_is_left()


def _send_what_is_left() -> None:
    """Wait until the server has the log lines and events, which are sent beside the runs."""
    from prefect.events.worker import EventsWorker
    from prefect.logging.handlers import APILogWorker

    for worker in (APILogWorker, EventsWorker):
        worker.drain_all(timeout=SECONDS_TO_SEND)


@contextmanager
def _server_process(port: int) -> Iterator[subprocess.Popen[bytes]]:
    """The running process of a server; it ends with the block, or with this process."""
    environment = {
        "PREFECT_SERVER_UI_ENABLED": "true",
        "PREFECT_UI_API_URL": f"http://127.0.0.1:{port}/api",
        # In memory, which is Prefect's default, the slot of a killed run would never be freed.
        "PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE": LEASES_IN_FILES,
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "hushrank.flows.nights.server_process", str(port)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **environment},
        **system.OWN_GROUP,  # Ctrl-C ends the run first, which tells the server how it ended
    )
    try:
        yield process
    finally:
        try:
            process.communicate(timeout=SECONDS_TO_END)  # closes its input, which ends it
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_until_ready(process: subprocess.Popen[bytes], address: str) -> None:
    import requests
    from prefect.settings import PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS

    deadline = time.monotonic() + PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS.value()
    with requests.Session() as session:
        session.trust_env = False  # a proxy does not know this machine's ports
        while time.monotonic() < deadline and process.poll() is None:
            with suppress(requests.RequestException):  # not listening yet
                if session.get(address, timeout=SECONDS_TO_ANSWER).ok:
                    return
            time.sleep(SECONDS_BETWEEN_QUESTIONS)
    how = "does not answer" if process.poll() is None else f"ended with code {process.returncode}"
    raise HushrankError(
        f"Prefect: the server that this command started {how}; `prefect server start` says why."
        f" {WITHOUT_SERVER} {NOTHING_SPENT}"
    )


@contextmanager
def _named_by_settings(address: str) -> Iterator[None]:
    """Have Prefect's settings name the server, here and in processes that are started here."""
    before = os.environ.get(ADDRESS)
    os.environ[ADDRESS] = address
    from prefect.settings import PREFECT_API_URL, temporary_settings

    try:
        with temporary_settings(updates={PREFECT_API_URL: address}):
            yield
    finally:
        if before is None:
            del os.environ[ADDRESS]
        else:
            os.environ[ADDRESS] = before


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        port: int = found.getsockname()[1]
    return port
