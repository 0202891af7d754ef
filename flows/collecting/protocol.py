"""HTTP connections that cannot hold the collector up: each has deadlines, and their number a bound.

uvicorn bounds how long a connection rests between two requests, but not how long a request takes to
come: whoever sends a byte now and then keeps it open for ever. Here a request has to be whole
`RECEIVE_SECONDS` after it began, and its response taken `RESPOND_SECONDS` later. A connection above
`MOST_CONNECTIONS` is told so and closed before anything of it is read.

Also the form in which private answers are kept: records of one width, and the columns of a part.

Limits of the collector and its counts: a rate of answers, a bounded memory of submissions.

The libraries of the collector log nothing. The counts, in Prometheus' form, say how many batches
and private answers were taken and refused, never what an answer says. Local privacy does not hide
that somebody answered, so no epsilon is spent by them. But whoever reads them every second sees
when answers come, so they are served to this machine alone.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import uvicorn
from numpy.typing import NDArray
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    disable_created_metrics,
    generate_latest,
)
from starlette.types import ASGIApp
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


_LOGGERS = ("uvicorn", "uvicorn.error", "uvicorn.access", "asyncio")


def make_quiet() -> None:
    """Drop the log of the libraries, because it may hold a peer's address and sent data."""
    for name in _LOGGERS:
        logger = logging.getLogger(name)
        logger.handlers = [logging.NullHandler()]
        logger.propagate = False


def quiet_server(app: ASGIApp, stop_seconds: int, **more: Any) -> uvicorn.Config:
    """Settings of a server that keeps no log and tells nobody what it is.

    Args:
        app: what answers.
        stop_seconds: seconds for requests that are under way when the server stops.
        more: further settings of uvicorn.
    """
    return uvicorn.Config(
        app,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=stop_seconds,
        **more,
    )


_MEANINGS = (
    "Sum of tanh(epsilon / 2)^2 over the answers on disk; in parts, if each has its own epsilon.",
    "Information at which the error is collect.target_error.",
)


class Meters:
    """Counters of one process."""

    def __init__(self) -> None:
        # Otherwise the moment of a first refusal would be told, too.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        self.answers = Counter(
            "hushrank_collect_answers", "Private answers on disk.", registry=self.registry
        )
        self.batches = Counter(
            "hushrank_collect_batches", "Batches on disk.", registry=self.registry
        )
        self.repeats = Counter(
            "hushrank_collect_repeats", "Repeated batches.", registry=self.registry
        )
        self.refused = Counter(
            "hushrank_collect_refused",
            "Requests that were refused, by status code.",
            ["status"],
            registry=self.registry,
        )
        self._information: list[Gauge] | None = None
        self.parts = Counter("hushrank_collect_parts", "Parts written.", registry=self.registry)
        self.waiting = Gauge(
            "hushrank_collect_waiting_bytes", "Bytes in journals.", registry=self.registry
        )

    def show_progress(self, reached: float, needed: float) -> None:
        """Show the information of the collected answers, and how much the target needs."""
        if self._information is None:
            names = ("information", "information_needed")
            self._information = [
                Gauge(f"hushrank_collect_{name}", meaning, registry=self.registry)
                for name, meaning in zip(names, _MEANINGS, strict=True)
            ]
        for gauge, value in zip(self._information, (reached, needed), strict=True):
            gauge.set(value)

    def text(self) -> bytes:
        """Text of all counters."""
        return generate_latest(self.registry)


REMEMBERED = 1 << 18  # submissions: 25 MB


class Bucket:
    """Token bucket: a number of answers a second, with bursts of two seconds' worth."""

    BURST_SECONDS = 2.0

    def __init__(self, rate: float, now: float) -> None:
        """Fill the bucket at the moment `now`, in seconds of any clock that never goes back."""
        self._rate, self._most = rate, rate * self.BURST_SECONDS
        self._left, self._last = self._most, now

    def take(self, answers: int, now: float) -> float:
        """Take answers out; return 0, or the seconds until there are enough."""
        self._left = min(self._most, self._left + (now - self._last) * self._rate)
        self._last = now
        missing = min(answers, self._most) - self._left
        if missing > 0:
            return missing / self._rate
        self._left -= answers
        return 0.0


class Recent:
    """Memory of the last `REMEMBERED` marks."""

    def __init__(self, marks: Iterable[bytes]) -> None:
        """Begin with the marks of the submissions in a spool."""
        self._order = deque[bytes]()
        self._marks = set[bytes]()
        for mark in marks:
            self.add(mark)

    def __contains__(self, mark: bytes) -> bool:
        return mark in self._marks

    def add(self, mark: bytes) -> None:
        """Remember one more mark, and forget the oldest if there are too many."""
        if mark in self._marks:
            return
        self._order.append(mark)
        self._marks.add(mark)
        if len(self._order) > REMEMBERED:
            self._marks.discard(self._order.popleft())
