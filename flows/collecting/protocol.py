"""HTTP connections that cannot hold the collector up: each has deadlines, and their number a bound.

uvicorn bounds how long a connection rests between two requests, but not how long a request takes to
come: whoever sends a byte now and then keeps it open for ever. Here a request has to be whole
`RECEIVE_SECONDS` after it began, and its response taken `RESPOND_SECONDS` later. A connection above
`MOST_CONNECTIONS` is told so and closed before anything of it is read.
"""

from __future__ import annotations

import asyncio
import json

from uvicorn.protocols.http.auto import AutoHTTPProtocol

RECEIVE_SECONDS = 10.0
RESPOND_SECONDS = 30.0
MOST_CONNECTIONS = 2_000
TOO_MANY = "too many connections are open; try again in a few seconds"
TOO_SLOW = "the request did not come within {:g} seconds"


class GuardedProtocol(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
    """uvicorn's protocol with deadlines and a bound on connections."""

    _deadline: asyncio.TimerHandle | None = None
    _refused = False

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Take the connection, or refuse it."""
        if len(self.connections) >= MOST_CONNECTIONS:
            self._refused = True
            transport.write(canned(503, "Service Unavailable", TOO_MANY, "Retry-After: 5"))
            transport.close()
            return
        super().connection_made(transport)
        self._expect(RECEIVE_SECONDS)

    def data_received(self, data: bytes) -> None:
        """Take what came, and see whether a request began or is whole."""
        if self._refused:
            return
        if self._deadline is None and (self.cycle is None or self.cycle.response_complete):
            self._expect(RECEIVE_SECONDS)
        before = self.cycle
        super().data_received(data)
        if self.cycle is not before or (before is not None and not before.response_complete):
            self._look()

    def on_response_complete(self) -> None:
        """Wait for the next request, which uvicorn bounds."""
        if not self.cycle.more_body:
            self._done()
        before = self.cycle
        super().on_response_complete()
        if self.cycle is not before:  # the next request was here already
            self._expect(RECEIVE_SECONDS)
            self._look()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._done()
        if not self._refused:
            super().connection_lost(exc)

    def _look(self) -> None:
        """Once the request is whole, its response has a deadline instead."""
        cycle = self.cycle
        if cycle is not None and not cycle.more_body and not cycle.response_complete:
            self._expect(RESPOND_SECONDS)

    def _expect(self, seconds: float) -> None:
        self._done()
        self._deadline = self.loop.call_later(seconds, self._expire)

    def _done(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _expire(self) -> None:
        if self.transport.is_closing():
            self.transport.abort()
            return
        if self.cycle is None or (self.cycle.more_body and not self.cycle.response_started):
            text = TOO_SLOW.format(RECEIVE_SECONDS)
            self.transport.write(canned(408, "Request Timeout", text))
        self.transport.close()
        self._expect(RECEIVE_SECONDS)  # a peer that takes nothing is cut off


def canned(status: int, phrase: str, sentence: str, *headers: str) -> bytes:
    """A whole response, for a connection that closes with it."""
    body = json.dumps({"error": sentence}).encode()
    lines = (
        f"HTTP/1.1 {status} {phrase}",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        "Connection: close",
        *headers,
    )
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body
