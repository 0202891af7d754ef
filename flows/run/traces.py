"""Events of a run as OpenTelemetry spans: one for the run, one below it for each step."""

from __future__ import annotations

from typing import Any

from hushrank.flows.errors import ConfigError
from hushrank.flows.run.events import RunEvent

NANOSECONDS = 1_000_000_000
FLUSH_MILLISECONDS = 5_000  # a collector that is down costs a run no more than this
PREFIX = "hushrank."


class Traces:
    """Sends the spans of a run when it ends; the environment says where (OTEL_EXPORTER_OTLP_*)."""

    def __init__(self, exporter: Any = None) -> None:
        """Args: an exporter of the OpenTelemetry SDK; None: OTLP over HTTP.

        Raises:
            ConfigError: the exporter is not installed.
        """
        try:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
            from opentelemetry.sdk.resources import Resource
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.sdk.trace.export import BatchSpanProcessor
        except ModuleNotFoundError:
            raise ConfigError(
                "observability.traces: needs the OpenTelemetry exporter. Run: pip install"
                " 'hushrank[otel]', or remove the key. Nothing was read or spent."
            ) from None
        resource = Resource.create({"service.name": "hushrank"})
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(exporter or OTLPSpanExporter()))
        self._tracer = self._provider.get_tracer("hushrank")
        self._run: Any = None

    def tell(self, event: RunEvent) -> None:
        """Open the run's span, add that of a step, or close the run's and send all."""
        from opentelemetry.trace import set_span_in_context

        moment = int(event.time.timestamp() * NANOSECONDS)
        if event.event == "run started":
            self._run = self._tracer.start_span("hushrank run", start_time=moment)
            return
        span = self._run
        if event.event == "step ended":
            began = moment - int((event.seconds or 0.0) * NANOSECONDS)
            inside = set_span_in_context(self._run)
            span = self._tracer.start_span(event.step or "step", inside, start_time=began)
        _describe(span, event)
        span.end(moment)
        if span is self._run:
            self._provider.force_flush(FLUSH_MILLISECONDS)
            self._provider.shutdown()


def _describe(span: Any, event: RunEvent) -> None:
    from opentelemetry.trace import Status, StatusCode

    facts = event.public_fields()
    for name in facts.keys() - {"event", "time", "versions"}:
        span.set_attribute(PREFIX + name, facts[name])
    span.set_status(Status(StatusCode.OK if event.ok else StatusCode.ERROR))
