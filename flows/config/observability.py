"""The `observability` section: where a run tells machines what it does."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from hushrank.flows.config.places import LocalPath
from hushrank.flows.config.section import Section


class ObservabilityConfig(Section):
    """Where runs are reported to; nothing here enters the release key.

    Attributes:
        log: file that gets lines for every run; None: no file.
        log_format: `json`, one object a line, or `text`.
        metrics: Prometheus text file, replaced after every run; None: no file.
        traces: send OpenTelemetry spans to the collector that OTEL_EXPORTER_OTLP_ENDPOINT names.
        support: folder that gets a bundle without data when a run fails; None: no folder.
    """

    log: LocalPath | None = Field(default=None, examples=["hushrank.log.jsonl"])
    log_format: Literal["json", "text"] = "json"
    metrics: LocalPath | None = Field(default=None, examples=["metrics/hushrank.prom"])
    traces: bool = False
    support: LocalPath | None = Field(default=None, examples=["support"])

    def places(self) -> dict[str, Path]:
        """The places that are written to, by key."""
        named = {"log": self.log, "metrics": self.metrics, "support": self.support}
        return {key: path for key, path in named.items() if path is not None}
