"""Destinations for events of runs: a log file, a Prometheus text file, OpenTelemetry spans.

A destination gets only public facts (`flows.run.events`). Opening a destination checks it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

from prometheus_client import CollectorRegistry, Gauge, write_to_textfile
from prometheus_client.parser import text_string_to_metric_families

from hushrank.flows.errors import ConfigError
from hushrank.flows.run.events import RunEvent
from hushrank.transforms.storage.write import OWNER_ONLY_FOLDER

LEADING = ("time", "event", "population")


class LogFile:
    """Appends one line for each event, in one write."""

    def __init__(self, path: Path, form: Literal["json", "text"]) -> None:
        """Open the file, which also checks it.

        Raises:
            ConfigError: it cannot be appended to.
        """
        self._path, self._form = path, form
        try:
            path.parent.mkdir(mode=OWNER_ONLY_FOLDER, parents=True, exist_ok=True)
            path.open("a").close()
        except OSError as error:
            raise ConfigError(
                f"observability.log: {path} cannot be written: {error.strerror}. Name another file,"
                " or remove the key. Nothing was read or spent."
            ) from None

    def tell(self, event: RunEvent) -> None:
        """Append the event."""
        content = event.public_fields()
        line = json.dumps(content) if self._form == "json" else _text(content)
        with self._path.open("a") as log:
            log.write(line + "\n")


def _text(content: dict[str, object]) -> str:
    """`time event population key=value ...`, with values as JSON."""
    lead = " ".join(str(content[name]) for name in LEADING)
    rest = (f"{key}={json.dumps(value)}" for key, value in content.items() if key not in LEADING)
    return " ".join([lead, *rest])


LAST_SUCCESS = "hushrank_last_success_timestamp_seconds"


class MetricsFile:
    """Replaces the whole file when a run ends, as scrapers need it.

    Metrics, each with the label `population`: hushrank_last_run_timestamp_seconds,
    hushrank_last_run_success (0 or 1), hushrank_last_success_timestamp_seconds,
    hushrank_last_run_duration_seconds, hushrank_step_duration_seconds (label `step`),
    hushrank_budget_epsilon_left and hushrank_budget_epsilon_total (as of the last success).
    """

    def __init__(self, path: Path) -> None:
        """Check that the file can be written.

        Raises:
            ConfigError: the file cannot be written.
        """
        self._path = path
        self._steps: dict[str, float] = {}
        try:
            path.parent.mkdir(mode=OWNER_ONLY_FOLDER, parents=True, exist_ok=True)
            probe = path.with_name(f".{path.name}.probe")
            probe.touch()
            probe.unlink()
        except OSError as error:
            raise ConfigError(
                f"observability.metrics: {path} cannot be written: {error.strerror}. Name another"
                " file, or remove the key. Nothing was read or spent."
            ) from None

    def tell(self, event: RunEvent) -> None:
        """Record how long a step took; at the end of the run, write the file."""
        if event.step is not None and event.seconds is not None:
            self._steps[event.step] = event.seconds
        if event.event in ("run ended", "run failed"):
            write_to_textfile(str(self._path), self._registry(event))

    def _registry(self, event: RunEvent) -> CollectorRegistry:
        registry, population = CollectorRegistry(), event.population
        last = self._values_before()
        if event.ok:
            last[LAST_SUCCESS] = event.time.timestamp()
            if event.epsilon_left is not None and event.epsilon_total is not None:
                last["hushrank_budget_epsilon_left"] = event.epsilon_left
                last["hushrank_budget_epsilon_total"] = event.epsilon_total
        last["hushrank_last_run_timestamp_seconds"] = event.time.timestamp()
        last["hushrank_last_run_success"] = float(bool(event.ok))
        last["hushrank_last_run_duration_seconds"] = event.seconds or 0.0
        for name, value in sorted(last.items()):
            words = name.removeprefix("hushrank_").replace("_", " ")
            Gauge(name, words, ["population"], registry=registry).labels(population).set(value)
        steps = Gauge(
            "hushrank_step_duration_seconds", "of the last run", ["population", "step"],
            registry=registry,
        )  # fmt: skip
        for step, seconds in self._steps.items():
            steps.labels(population, step).set(seconds)
        return registry

    def _values_before(self) -> dict[str, float]:
        """Values of the last success; only another success changes them."""
        try:
            families = list(text_string_to_metric_families(self._path.read_text()))
        except (OSError, ValueError):  # no file yet, or not ours: start anew
            return {}
        kept = (LAST_SUCCESS, "hushrank_budget_epsilon_left", "hushrank_budget_epsilon_total")
        samples = (sample for family in families for sample in family.samples)
        return {sample.name: sample.value for sample in samples if sample.name in kept}


NANOSECONDS = 1_000_000_000
FLUSH_MILLISECONDS = 5_000  # the longest that a dead collector can delay a run
PREFIX = "hushrank."


class Traces:
    """Sends a run's spans when it ends; OTEL_EXPORTER_OTLP_* in the environment says where to."""

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
        """Open the run's span, add a step's span, or close the run's span and send all."""
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
