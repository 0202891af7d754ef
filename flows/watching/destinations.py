"""Destinations for events of runs: a log file, metrics, OpenTelemetry spans, OpenLineage events.

A destination gets only public facts (`flows.watching.events`). Opening a destination checks it.
"""

from __future__ import annotations

import errno
import hashlib
import json
import uuid
from pathlib import Path
from typing import Any, Literal, Protocol

from prometheus_client import CollectorRegistry, Gauge, write_to_textfile
from prometheus_client.parser import text_string_to_metric_families

from hushrank.flows.config.runner import LineageConfig
from hushrank.flows.errors import ConfigError, HushrankError, require
from hushrank.flows.release.archive import find_archived, load_archived
from hushrank.flows.run.context import Job, code_version
from hushrank.flows.watching.events import RunEvent
from hushrank.flows.watching.open_lineage import (
    AppendedFile,
    EventType,
    LineageEndpoint,
    LineageFile,
    PrivacyFacet,
    RunFacts,
    finite,
    lineage_event,
)
from hushrank.transforms import system
from hushrank.transforms.common.local_files import MostBytes, read_local, require_regular
from hushrank.transforms.storage.write import read_whole

LEADING = ("time", "event", "population")


class LogFile:
    """Appends one line for each event."""

    def __init__(self, path: Path, form: Literal["json", "text"]) -> None:
        """Open the file; see `AppendedFile`."""
        self._lines, self._form = AppendedFile("observability.log", path), form

    def tell(self, event: RunEvent) -> None:
        """Append the event."""
        content = event.public_fields()
        line = json.dumps(content) if self._form == "json" else _text(content)
        self._lines.append(line)


def _text(content: dict[str, object]) -> str:
    """`time event population key=value ...`, with values as JSON."""
    lead = " ".join(str(content[name]) for name in LEADING)
    rest = (f"{key}={json.dumps(value)}" for key, value in content.items() if key not in LEADING)
    return " ".join([lead, *rest])


LAST_SUCCESS = "hushrank_last_success_timestamp_seconds"
AMOUNTS = tuple(f"hushrank_budget_epsilon_{name}" for name in ("left", "total", "since_first"))


class MetricsFile:
    """Replaces the whole file when a run ends, as scrapers need it.

    Metrics, each with the label `population`: hushrank_last_run_timestamp_seconds,
    hushrank_last_run_success (0 or 1), hushrank_last_success_timestamp_seconds,
    hushrank_last_run_duration_seconds, hushrank_step_duration_seconds (label `step`),
    hushrank_budget_epsilon_left, hushrank_budget_epsilon_total and, if the budget renews,
    hushrank_budget_epsilon_since_first (as of the last success).
    """

    def __init__(self, path: Path) -> None:
        """Check that the file can be written.

        Raises:
            ConfigError: the file cannot be written.
        """
        self._path = path
        self._steps: dict[str, float] = {}
        try:
            require_regular(path)
            system.make_private_folder(path.parent)
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
                amounts = (event.epsilon_left, event.epsilon_total, event.epsilon_since_first)
                told = dict(zip(AMOUNTS, amounts, strict=True))
                for name, amount in told.items():
                    last.pop(name, None)
                    last |= {} if amount is None else {name: amount}
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
            text = read_local(self._path, MostBytes.SETTINGS).decode()
            families = list(text_string_to_metric_families(text))
        except (OSError, ValueError):  # no file yet, or not ours: start anew
            return {}
        kept = (LAST_SUCCESS, *AMOUNTS)
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
        require("otel", "observability.traces")
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

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


LINEAGE: dict[str, EventType] = {
    "run started": "START",
    "run ended": "COMPLETE",
    "run failed": "FAIL",
}
CERTIFICATE = "certificate.json"


class _Transport(Protocol):
    def send(self, event: dict[str, Any]) -> None: ...


class LineageFeed:
    """Sends the beginning and the end of a run as OpenLineage events."""

    def __init__(self, transport: _Transport, facts: RunFacts, job: Job) -> None:
        """Args: where to, what every event says, and the job."""
        self._transport, self._facts, self._job = transport, facts, job

    @classmethod
    def of(cls, config: LineageConfig, job: Job) -> list[LineageFeed]:
        """A feed for each configured place; the events of all have one run id.

        Raises:
            ConfigError: the file cannot be written.
        """
        facts = RunFacts(
            run_id=str(uuid.uuid4()),
            namespace=config.namespace,
            job=job.config.name,
            producer=f"urn:hushrank:{code_version()}",
            inputs=tuple(map(str, job.config.input.paths)),
            output=str(job.config.output),
        )
        places: list[_Transport] = []
        if config.file is not None:
            places.append(LineageFile(config.file))
        if config.url is not None:
            places.append(LineageEndpoint(config.url, config.timeout))
        return [cls(place, facts, job) for place in places]

    def tell(self, event: RunEvent) -> None:
        """Send the event if it begins or ends the run.

        Raises:
            OSError: the event cannot be written or sent.
        """
        kind = LINEAGE.get(event.event)
        if kind is None:
            return
        facet = self._planned(event)
        if kind == "COMPLETE":
            facet = self._released(facet)
        told = lineage_event(self._facts, kind, event.time, facet, event.error)
        self._transport.send(told)

    def _planned(self, event: RunEvent) -> PrivacyFacet:
        """Return what the job is to guarantee; the cost is known unless it was drawn before."""
        privacy, spend = self._job.config.privacy, None
        if self._job.calibrated is not None:
            spend = self._job.terms.spend
        epsilon, rho = (None, None) if spend is None else finite((spend.epsilon, spend.rho))
        return PrivacyFacet(
            release_id=event.release_id,
            night=event.night,
            method=event.method,
            unit=privacy.unit,
            adjacency=privacy.adjacency,
            epsilon=None if rho is not None else epsilon,
            delta=None if spend is None else spend.delta,
            rho=rho,
        )

    def _released(self, planned: PrivacyFacet) -> PrivacyFacet:
        """Return what the published release guarantees, as its record says."""
        folder = find_archived(self._job.config.output, planned.release_id)
        if folder is None:
            return planned
        try:
            release = load_archived(folder)
        except HushrankError as error:
            raise OSError(errno.EIO, type(error).__name__, str(folder)) from None
        told, certificate = release.privacy, folder / CERTIFICATE
        epsilon, rho = finite((told.epsilon, told.rho))
        digest = None
        if certificate.exists():
            digest = hashlib.sha256(read_whole(certificate, MostBytes.RELEASE)).hexdigest()
        return planned.model_copy(
            update={
                "unit": told.unit,
                "adjacency": told.adjacency,
                "epsilon": epsilon,
                "delta": told.delta,
                "rho": rho,
                "mechanism": told.mechanism,
                "safe": release.safe,
                "certificate_sha256": digest,
            }
        )
