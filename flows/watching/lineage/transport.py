"""Where OpenLineage events go: a file with one JSON object a line, or an HTTP endpoint."""

from __future__ import annotations

import errno
import json
import os
import threading
import urllib.error
import urllib.request
from http.client import HTTPException
from pathlib import Path
from typing import Any, BinaryIO

from hushrank.flows.errors import ConfigError
from hushrank.transforms.common.local_files import open_local
from hushrank.transforms.storage.write import OWNER_ONLY_FOLDER

API_KEY = "OPENLINEAGE_API_KEY"  # the variable that OpenLineage's own clients read


class AppendedFile:
    """A file that grows by one line at a time, each in one write."""

    def __init__(self, key: str, path: Path) -> None:
        """Open the file, which also checks it.

        Args:
            key: of the configuration, that names the file.
            path: the file; its folder is made if there is none.

        Raises:
            ConfigError: it cannot be appended to.
        """
        self._path = path
        try:
            path.parent.mkdir(mode=OWNER_ONLY_FOLDER, parents=True, exist_ok=True)
            self._open().close()
        except OSError as error:
            raise ConfigError(
                f"{key}: {path} cannot be written: {error.strerror}. Name another file, or remove"
                " the key. Nothing was read or spent."
            ) from None

    def append(self, line: str) -> None:
        """Append a line.

        Raises:
            OSError: it cannot be written.
        """
        with self._open() as file:
            file.write(f"{line}\n".encode())

    def _open(self) -> BinaryIO:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        return os.fdopen(open_local(self._path, flags, mode=0o666), "ab")


class LineageFile:
    """Appends one line for each event."""

    def __init__(self, path: Path) -> None:
        """Open the file; see `AppendedFile`."""
        self._lines = AppendedFile("observability.lineage.file", path)

    def send(self, event: dict[str, Any]) -> None:
        """Append the event.

        Raises:
            OSError: it cannot be written.
        """
        self._lines.append(json.dumps(event))


class LineageEndpoint:
    """Posts each event. An answer that does not come in time is a failure.

    Args:
        url: the whole URL, such as https://marquez.example.org/api/v1/lineage.
        timeout: seconds that one event may delay a run, whatever the endpoint does.
    """

    def __init__(self, url: str, timeout: float) -> None:
        self._url, self._timeout = url, timeout

    def send(self, event: dict[str, Any]) -> None:
        """Post the event, with the key from OPENLINEAGE_API_KEY if there is one.

        Raises:
            OSError: the endpoint did not accept it in time.
        """
        outcome: list[OSError | None] = []
        body = json.dumps(event).encode()
        # A socket's own timeout starts again with every byte, so a slow answer could take for ever.
        post = threading.Thread(target=lambda: outcome.append(self._tried(body)), daemon=True)
        post.start()
        post.join(self._timeout)
        if not outcome:
            raise OSError(errno.ETIMEDOUT, f"no answer within {self._timeout:g} s", self._url)
        if outcome[0] is not None:
            raise outcome[0]

    def _tried(self, body: bytes) -> OSError | None:
        headers = {"Content-Type": "application/json", "User-Agent": "hushrank"}
        if key := os.environ.get(API_KEY):
            headers["Authorization"] = f"Bearer {key}"
        request = urllib.request.Request(self._url, body, headers, method="POST")
        try:
            _OPENER.open(request, timeout=self._timeout).close()
        except urllib.error.HTTPError as error:
            error.close()
            return OSError(errno.EIO, f"it answered with status {error.code}", self._url)
        except (OSError, HTTPException, ValueError) as error:
            reason = getattr(error, "reason", error)
            why = getattr(reason, "strerror", None) or type(reason).__name__
            return OSError(errno.EIO, f"it cannot be reached ({why})", self._url)
        return None


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Makes a redirect an error: the event would be lost, and the key go elsewhere."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


_OPENER = urllib.request.build_opener(_NoRedirect)
