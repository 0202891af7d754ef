"""An emulator of Cloud Storage that others wrote: a check on the one of our own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from gcp_storage_emulator.server import RequestHandler, create_server

RequestHandler.disable_nagle_algorithm = True  # else each answer waits 40 ms for a receipt


@contextmanager
def cloud_emulator(bucket: str) -> Iterator[str]:
    """A running emulator with this bucket; yields the URL for STORAGE_EMULATOR_HOST.

    The system chooses the port as the server binds it: one that was found free before may be taken
    by then.
    """
    server = create_server("localhost", 0, in_memory=True, default_bucket=bucket)
    server.start()
    try:
        yield f"http://localhost:{server._api._httpd.server_port}"
    finally:
        server.stop()
