"""Limits of the collector and its counts: a rate of answers, a bounded memory of submissions.

The libraries of the collector log nothing. The counts, in Prometheus' form, say how many batches
and private answers were taken and refused, never what an answer says. Local privacy does not hide
that somebody answered, so no epsilon is spent by them. But whoever reads them every second sees
when answers come, so they are served to this machine alone.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    disable_created_metrics,
    generate_latest,
)

_LOGGERS = ("uvicorn", "uvicorn.error", "uvicorn.access", "asyncio")


def make_quiet() -> None:
    """Drop the log of the libraries, because it may hold a peer's address and sent data."""
    for name in _LOGGERS:
        logger = logging.getLogger(name)
        logger.handlers = [logging.NullHandler()]
        logger.propagate = False


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
