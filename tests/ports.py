"""Ports for servers that cannot choose their own, and ports at which nobody listens."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress

OURS = range(20_000, 32_000)  # below those that a system hands out to whoever asks for any
_claims: list[socket.socket] = []


def free_port() -> int:
    """A port that nobody has; no other test gets it as long as this process lives.

    A server may bind it minutes later, on a busy machine. Until then this process holds a name that
    the system gives to one process alone and takes back when that ends.
    """
    for port in random.sample(OURS, len(OURS)):
        claim = socket.socket(socket.AF_UNIX)
        with suppress(OSError), socket.socket() as probe:
            claim.bind(f"\0hushrank-tests-port-{port}")
            probe.bind(("127.0.0.1", port))
            _claims.append(claim)
            return port
        claim.close()
    raise RuntimeError("all ports for tests are taken")


@contextmanager
def closed_port() -> Iterator[int]:
    """A port that refuses connections: it is bound, so nobody else gets it, and nobody listens."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]
