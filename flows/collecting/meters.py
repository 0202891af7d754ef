"""Counts of what the collector took and refused, in Prometheus' form.

They count batches and private answers, never what an answer says. Local privacy does not hide that
somebody answered, so no epsilon is spent by them. But whoever reads them every second sees when
answers come, so they are served to this machine alone.
"""

from __future__ import annotations

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    disable_created_metrics,
    generate_latest,
)


class Meters:
    """The counters of one process."""

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
            "hushrank_collect_repeats", "Batches that came again.", registry=self.registry
        )
        self.refused = Counter(
            "hushrank_collect_refused",
            "Requests that were refused, by status code.",
            ["status"],
            registry=self.registry,
        )
        self.parts = Counter("hushrank_collect_parts", "Parts written.", registry=self.registry)
        self.waiting = Gauge(
            "hushrank_collect_waiting_bytes", "Bytes in journals.", registry=self.registry
        )

    def text(self) -> bytes:
        """All of them."""
        return generate_latest(self.registry)
