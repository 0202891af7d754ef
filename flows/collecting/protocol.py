"""HTTP connections that cannot hold the collector up: each has deadlines, and their number a bound.

uvicorn bounds how long a connection rests between two requests, but not how long a request takes to
come: whoever sends a byte now and then keeps it open for ever. Here a request has to be whole
`RECEIVE_SECONDS` after it began, and its response taken `RESPOND_SECONDS` later. A connection above
`MOST_CONNECTIONS` is told so and closed before anything of it is read.

Also the form in which private answers are kept: records of one width, and the columns of a part.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from uvicorn.protocols.http.auto import AutoHTTPProtocol

RECEIVE_SECONDS = 10.0
RESPOND_SECONDS = 30.0
MOST_CONNECTIONS = 2_000
TOO_MANY = "too many connections are open; try again in a few seconds"
TOO_SLOW = "the request did not come within {:g} seconds"


class GuardedProtocol(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
    """HTTP protocol of uvicorn with deadlines and a bound on connections."""

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
        """Take the received bytes, and check whether a request began or is complete."""
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
        """Replace the request's deadline by the response's, once the request is complete."""
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
    """Build a complete response, for a connection that closes after it."""
    body = json.dumps({"error": sentence}).encode()
    lines = (
        f"HTTP/1.1 {status} {phrase}",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        "Connection: close",
        *headers,
    )
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


Records = NDArray[np.void]
NO_ITEM = 2**32 - 1  # fills the places of a ranking that is shorter than the longest one
NO_OUTCOME = -128  # stands beside it


class Role(StrEnum):
    """Role of a part's column, which decides its width in a record."""

    ITEM = "item"  # place of the item in the catalogue
    OUTCOME = "outcome"
    EPSILON = "epsilon"
    LENGTH = "length"
    RANKING = "ranking"  # places in the catalogue, best first
    USER = "user"  # a random number of one batch, where its answers share an epsilon


_WIDTHS: dict[Role, str] = {
    Role.ITEM: "<u4",
    Role.OUTCOME: "i1",
    Role.EPSILON: "<f8",
    Role.LENGTH: "<u2",
    Role.RANKING: "<u4",
    Role.USER: "<i8",
}


@dataclass(frozen=True)
class RowForm:
    """Columns of a part, in their order.

    Attributes:
        columns: name and role of each.
        items: names of the catalogue, in its order.
        longest: the most items of a ranking; only a column of rankings needs it.
        survey: name of the survey that the rows belong to; empty: an older version wrote them.
    """

    columns: tuple[tuple[str, Role], ...]
    items: tuple[str, ...]
    longest: int = 0
    survey: str = ""

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        """Layout of a record: the columns side by side, without gaps."""
        return np.dtype(
            [
                (name, _WIDTHS[role], (self.longest,)) if role is Role.RANKING
                else (name, _WIDTHS[role])
                for name, role in self.columns
            ]
        )  # fmt: skip

    def records(self, rows: bytes) -> Records:
        """Read the records in `rows`, one after the other."""
        return np.frombuffer(rows, self.dtype)

    def table(self, records: Records) -> pa.Table:
        """Return the rows of a part, with items by name."""
        return pa.table({name: self._column(records[name], role) for name, role in self.columns})

    def _column(self, values: NDArray[Any], role: Role) -> pa.Array:
        names = pa.array(self.items, pa.string())
        if role is Role.ITEM:
            return names.take(pa.array(values, mask=values == NO_ITEM))
        if role is Role.OUTCOME:
            return pa.array(values, mask=values == NO_OUTCOME)
        if role is not Role.RANKING:
            return pa.array(values)
        there = values != NO_ITEM
        ends = np.concatenate([[0], there.sum(axis=1).cumsum()])
        return pa.ListArray.from_arrays(
            pa.array(ends, pa.int32()), names.take(pa.array(values[there]))
        )

    def content(self) -> dict[str, Any]:
        """Return all fields, for the head of a journal."""
        return {
            "columns": self.columns,
            "items": self.items,
            "longest": self.longest,
            "survey": self.survey,
        }

    @classmethod
    def of(cls, content: dict[str, Any]) -> RowForm:
        """Read the fields that `content` gave, after they were JSON.

        Raises:
            KeyError, TypeError, ValueError: the content is something else.
        """
        columns = tuple((str(name), Role(role)) for name, role in content["columns"])
        items, survey = tuple(map(str, content["items"])), str(content.get("survey", ""))
        return cls(columns, items, int(content["longest"]), survey)
