"""fake-gcs-server: a Cloud Storage that others wrote in Go, beside our own and the emulator.

It enforces the generation preconditions of writes, so that ledger and input are tested against two
servers that were written apart. It cannot be told to fail: faults are for our own. What it gets
wrong in this version: it deletes an object whatever generation the request names
(https://github.com/fsouza/fake-gcs-server/issues/1282).

`python -m tests.go_cloud_storage` builds it once, with Go, into the cache of this account.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.parse import quote
from urllib.request import Request, urlopen

from tests.go_programs import GoProgram
from tests.ports import free_port

SERVER = GoProgram("github.com/fsouza/fake-gcs-server", "v1.56.1")
START_SECONDS, TRIES = 600, 5
ABSENT = f"needs {SERVER}, which make gcs-server builds (with Go, once)"


def binary() -> Path:
    """Where the server is, or would be."""
    return SERVER.binary()


@contextmanager
def go_server() -> Iterator[str]:
    """A running server without buckets, in memory; yields its URL."""
    for _ in range(TRIES):
        port = free_port()  # the server cannot tell which port it was given
        url = f"http://127.0.0.1:{port}"
        options = {"backend": "memory", "scheme": "http", "host": "127.0.0.1", "port": str(port)}
        options |= {"external-url": url, "public-host": f"127.0.0.1:{port}", "log-level": "error"}
        process = subprocess.Popen(
            [binary(), *(f"-{key}={value}" for key, value in options.items())]
        )
        try:
            if _answers(process, url):
                yield url
                return
        finally:
            process.kill()
            process.wait()
    raise RuntimeError("fake-gcs-server does not start")


def _answers(process: subprocess.Popen[bytes], url: str) -> bool:
    """Whether it does in the end; not if somebody else took its port."""
    deadline = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        try:
            with urlopen(f"{url}/storage/v1/b"):
                return process.poll() is None
        except URLError:
            time.sleep(0.02)
    return False


class GoStore:
    """What `fake_cloud_storage.Store` tells of its buckets and puts there, of a running server."""

    def __init__(self, url: str) -> None:
        self.url = url

    def names(self, bucket: str) -> list[str]:
        """Of all objects."""
        found = json.loads(self._ask("GET", f"storage/v1/b/{bucket}/o"))
        return sorted(item["name"] for item in found.get("items") or [])

    def content(self, bucket: str, name: str) -> bytes:
        """Of an object."""
        return self._ask("GET", f"{self._place(bucket, name)}?alt=media")

    def put(self, bucket: str, name: str, content: bytes, _metadata: dict[str, str]) -> None:
        """Make an object, or replace it."""
        query = f"uploadType=media&name={quote(name, safe='')}"
        self._ask("POST", f"upload/storage/v1/b/{bucket}/o?{query}", content)

    def generation(self, bucket: str, name: str) -> int:
        """Of an object."""
        return int(json.loads(self._ask("GET", self._place(bucket, name)))["generation"])

    def make(self, bucket: str) -> None:
        """An empty bucket."""
        self._ask("POST", "storage/v1/b", json.dumps({"name": bucket}).encode())

    def remove(self, bucket: str) -> None:
        """A bucket and all that is in it."""
        for name in self.names(bucket):
            self._ask("DELETE", self._place(bucket, name))
        self._ask("DELETE", f"storage/v1/b/{bucket}")

    def _place(self, bucket: str, name: str) -> str:
        return f"storage/v1/b/{bucket}/o/{quote(name, safe='')}"

    def _ask(self, method: str, place: str, content: bytes | None = None) -> bytes:
        kind = {"Content-Type": "application/json"}
        request = Request(f"{self.url}/{place}", content, kind, method=method)
        with urlopen(request) as answer:
            found: bytes = answer.read()
            return found


@contextmanager
def go_store(url: str, *buckets: str) -> Iterator[GoStore]:
    """These buckets, empty, on a running server; they are gone afterwards."""
    store = GoStore(url)
    for bucket in buckets:
        store.make(bucket)
    try:
        yield store
    finally:
        for bucket in buckets:
            store.remove(bucket)


if __name__ == "__main__":
    SERVER.build()
    sys.stdout.write(f"{binary()}\n")
