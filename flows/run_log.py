"""Events of runs as lines of a log file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

from hushrank.flows.errors import ConfigError
from hushrank.flows.run_events import RunEvent
from hushrank.transforms.write import OWNER_ONLY_FOLDER

LEADING = ("time", "event", "population")


class LogFile:
    """Appends a line for each event; a line is written at once and whole."""

    def __init__(self, path: Path, form: Literal["json", "text"]) -> None:
        """Open, and so check, the file.

        Raises:
            ConfigError: it cannot be appended to.
        """
        self._path, self._form = path, form
        try:
            path.parent.mkdir(mode=OWNER_ONLY_FOLDER, parents=True, exist_ok=True)
            path.open("a").close()
        except OSError as error:
            raise ConfigError(
                f"observability.log: {path} cannot be written: {error.strerror}. Name another file,"
                " or remove the key. Nothing was read or spent."
            ) from None

    def tell(self, event: RunEvent) -> None:
        """Append the event."""
        content = event.public_fields()
        line = json.dumps(content) if self._form == "json" else _text(content)
        with self._path.open("a") as log:
            log.write(line + "\n")


def _text(content: dict[str, object]) -> str:
    """`time event population key=value ...`, with values as JSON."""
    lead = " ".join(str(content[name]) for name in LEADING)
    rest = (f"{key}={json.dumps(value)}" for key, value in content.items() if key not in LEADING)
    return " ".join([lead, *rest])
