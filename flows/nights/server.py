"""Whether Prefect is to run a job where nobody says so: where its settings name a server.

Prefect takes seconds to load, so it is asked only where something could name a server: a variable
of the environment, or a file that it reads its settings from.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from hushrank.flows.errors import HushrankError
from hushrank.transforms.common.local_files import MostBytes, read_local

SETTINGS = {
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "DO_NOT_TRACK": "1",
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",  # the first start is slow
    # The command line tells its own story; nobody's mistake should end in a traceback there.
    "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "CRITICAL",
}
ADDRESS = "PREFECT_API_URL"
CHOOSERS = ("PREFECT_API", "PREFECT_PROFILE")  # what variables that decide on a server begin with
PROFILES = "profiles.toml"


def set_defaults() -> None:
    """Set what runs of hushrank want of Prefect, unless the operator did: before it is loaded."""
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
    home = os.environ.get("PREFECT_HOME")
    yield (Path(home).expanduser() if home else Path("~/.prefect").expanduser()) / PROFILES


def _mentions_prefect(path: Path) -> bool:
    """Whether Prefect must be asked about it; `.env` and `pyproject.toml` are others' files too."""
    if path.name in (PROFILES, "prefect.toml"):
        return True
    try:
        return b"prefect" in read_local(path, MostBytes.SETTINGS).lower()
    except OSError:
        return True  # let Prefect say what it makes of it
